"""The page of one person: questions as tabs, controls at the side, one plot, and a sentence that says what is seen."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl
from weakref import WeakSet

import panel as pn

from glassformer.core.errors import GlassformerError
from glassformer.explorer import own_link
from glassformer.explorer.controls import Control
from glassformer.explorer.limits_view import Show, best_error, learners_with_theory, refusals
from glassformer.explorer.own_link import LINK, LinkSource
from glassformer.explorer.picture import Answer, Picture, Plot, legend_html
from glassformer.explorer.question import Question, beginning
from glassformer.explorer.session import Session, in_order
from glassformer.explorer.side import WIDE, Side, pane, title
from glassformer.explorer.views import QUESTIONS
from glassformer.explorer.work import PATIENCE, Work
from glassformer.models.registry import MODELS, options_of

# Seconds until the address follows, and rows of the table on the page.
_LOCATE, _ROWS = 0.3, 200
_NO_LINK = (
    "Start with <code>glassformer explore --link FILE.py:FUNCTION</code> to look at a function of your own, or with "
    "<code>--allow-code</code> to write one into this page: without it the page runs no code."
)
_pages: WeakSet[Page] = WeakSet()


def model_names() -> list[str]:
    """Return the models that need no link, and the word for those that have one.

    Example:
        >>> model_names()
        ['bsr', 'aim', 'attention', 'link']
    """
    return [name for name in MODELS if not any(o.required and o.opens_file for o in options_of(name))] + [LINK]


class Page:
    """What one person sees.

    Args:
        first: the model at first; one that needs a link opens that tab.
        given: what the command line said of links.
        query: of the address.
        later: calls a function in the thread of the page, at once or after some seconds.
    """

    def __init__(
        self, first: str, given: LinkSource, query: str = "", later: Callable[..., None] | None = None
    ) -> None:
        self.later = later or Session(self.end).later
        self._given, self._link, self._tried = given, (given.function, given.name), dict[str, Any]()
        asked = dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True))
        # The tab of an older address is its model.
        known = LINK if first and first not in model_names() else first
        self.model = _among(model_names(), asked.pop("model", asked.get("tab")), known)
        self.tab = _among(QUESTIONS, asked.pop("tab", None), LINK if self.model == LINK else None)
        self.view = _among(QUESTIONS[self.tab][1], asked.pop("view", None))
        self.family = _among(own_link.families()[::-1], asked.pop("family", None), given.family)
        self._texts, self._asked = dict[str, dict[str, str]](), asked
        self.work = Work(self.later)
        self.side = Side(self.change)
        self.picture: Picture | None = None
        self.answer: Answer | None = None
        self._awaited, self._locating = False, False
        self._make_parts()
        self._show_empty("Computing…")
        self._arrange()
        _pages.add(self)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _make_parts(self) -> None:
        titles = {name: f"{name}: {MODELS[name].title}" if name in MODELS else "my own link" for name in model_names()}
        questions = {name: title for name, (title, _) in QUESTIONS.items()}
        self.tabs = self._chooser("tab", "Questions", questions, kind="tabs", css_classes=["questions"])
        self.views = self._chooser("view", "Views", {}, kind="tabs", css_classes=["views"])
        self.models = self._chooser("model", "Model", titles, css_classes=["whole"])
        self.legend, self.progress, self.status, self.sentence, self.drawer = (pane("") for _ in range(5))
        self.run, self.cancel = _button("Compute", lambda: self.ask(True), "primary"), _button("Cancel", self._cancel)
        toggles = [pn.widgets.Toggle(name=name, margin=0) for name in ("Code", "Table")]
        self.code, self.table = toggles
        for toggle in toggles:
            toggle.param.watch(lambda _: in_order(self._fill_drawer)(), "value")
        download = {"auto": True, "embed": False, "margin": 0}
        self.csv = pn.widgets.FileDownload(callback=self._csv, filename="glassformer.csv", label="CSV", **download)
        self.png, copy = (pn.widgets.Button(name=name, margin=0) for name in ("PNG", "Copy link"))
        self.plot = Plot(in_order(self._click))
        self.png.js_on_click(args={"tool": self.plot.save}, code="tool.do.emit('save')")
        # Not the whole address, which holds a secret.
        copy.js_on_click(code="navigator.clipboard.writeText(window.location.search)")
        self.place = pn.Column(css_classes=["plot"], sizing_mode="stretch_both", margin=0)
        self.column = pn.Column(css_classes=["side"], margin=0)
        name = "<h1>glassformer <small>exact limits of learning from sequences</small></h1>"
        head = pane(name, css_classes=["head"])
        bar, actions = [self.views, self.run, self.cancel], [*toggles, self.csv, self.png, copy]
        rows = [pn.Row(*parts, css_classes=["row"], **WIDE) for parts in (bar, actions)]
        below = [self.progress, self.status, self.sentence, rows[1], self.drawer]
        main = pn.Column(rows[0], self.legend, self.place, *below, css_classes=["main"], margin=0)
        self.root = pn.Column(head, self.tabs, self.column, main, css_classes=["page"], margin=0)

    def _chooser(self, what: str, label: str, choices: dict[str, str], kind: str = "choice", **given: Any) -> Control:
        """Return a control of the model, the tab, the view or the family."""
        choose = in_order(partial(self.choose, what))
        return Control(choose, kind=kind, label=label, text=getattr(self, what), choices=choices, **given)

    def _arrange(self) -> None:
        """Put the controls of this tab at the side."""
        views = QUESTIONS[self.tab][1]
        self.views.param.update(choices={name: view.title for name, view in views.items()}, text=self.view)
        self.models.text, self.tabs.text, self.views.visible = self.model, self.tab, len(views) > 1
        parts: list[Any] = [title("Model"), self.models, *(self._link_parts() if self.model == LINK else [])]
        if self.model != LINK or self._link[0]:
            parts += self.side.arrange(self.question(), views[self.view], self.texts)
        self.column.objects = parts

    def _link_parts(self) -> list[Any]:
        known = {name: f"{name}: {MODELS[name].title}" for name in own_link.families()}
        parts: list[Any] = [self._chooser("family", "Family of the model", known, css_classes=["whole"])]
        if self._given.code and not hasattr(self, "_code_parts"):
            source = pn.widgets.TextAreaInput(name="Python code", value=own_link.EXAMPLE, rows=9, **WIDE)
            function = pn.widgets.TextInput(name="Name of the function", value="link", **WIDE)
            upload = pn.widgets.FileInput(accept=".py", margin=0)
            upload.param.watch(lambda event: setattr(source, "value", event.new.decode(errors="replace")), "value")
            use = _button("Run this code", lambda: self._run_code(source.value, function.value), "primary")
            self._code_parts = [source, upload, function, use]
        parts += self._code_parts if self._given.code else []
        said = f"Labels are <code>{html.escape(self._link[1])}</code>." if self._link[0] else _NO_LINK
        self.found = pane(f'<p class="note">{said}</p>')
        return [*parts, self.found]

    # --- what a person does -------------------------------------------------------------------------------------------

    @property
    def controls(self) -> dict[str, Control]:
        """The controls at the side, by name."""
        return self.side.controls

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the controls of this model, by name."""
        name = self.family if self.model == LINK else self.model
        key = f"{self.model} {name}"
        if key not in self._texts:
            # The address speaks of the first model.
            self._texts[key], self._asked = {**beginning(name), **self._asked}, {}
        return self._texts[key]

    def question(self) -> Question:
        """Return what is asked now."""
        link: Any = self._link if self.model == LINK else ()
        return Question(self.family if self.model == LINK else self.model, dict(self.texts), *link)

    def change(self, name: str, text: str) -> None:
        """Another text was written or chosen."""
        if self.texts.get(name) != text:
            self.texts[name] = text
            in_order(self.ask)()

    def choose(self, what: str, text: str) -> None:
        """Another model, tab, view or family was chosen."""
        if getattr(self, what) == text:
            return
        setattr(self, what, text)
        if what == "model":
            self.tab = LINK if text == LINK else "learn" if self.tab == LINK else self.tab
        elif text == LINK:
            self.model = LINK
        self.view, self.side.refused = _among(QUESTIONS[self.tab][1], self.view), {}
        self._show_empty("Computing…")
        self._arrange()
        self.ask()

    def _run_code(self, code: str, name: str) -> None:
        try:
            self._link, self._tried = (own_link.from_code(code, name), f"link.py:{name}"), {}
        except GlassformerError as error:
            self.found.object = _alert(error)
        else:
            self._arrange()
            self.ask()

    def _click(self, x: float) -> None:
        if "at" in self.controls and self.picture is not None and self.picture.at is not None:
            self.controls["at"].text = f"{max(x, 0.0):.4g}"

    # --- questions and answers ----------------------------------------------------------------------------------------

    def ask(self, pressed: bool = False) -> None:
        """Compute the answer, or before a button is pressed what comes before it."""
        self._locate()
        self.work.drop()
        if self.model == LINK and not self._link[0]:
            self._show_empty("There is no function yet.")
            return
        try:
            question = self._checked()
        except GlassformerError as error:
            self._stale()
            self._show_empty("Nothing to draw: correct the value that is refused.", keep=True)
            self._refuse(error)
            return
        self._refuse(None)
        view = QUESTIONS[self.tab][1][self.view]
        self.run.visible = view.waits(question)
        waits = self.run.visible and not pressed
        if not self._awaited:
            self.later(self._wait, PATIENCE)
        self._awaited = True
        if pressed:
            self._wait()

        def compute(show: Show) -> Answer:
            if question.function is not None:
                text = f'<p class="note">{html.escape(own_link.description(question))}</p>'
                self.later(partial(setattr, self.found, "object", text))
            self.later(partial(self.side.offer, refusals(question.model)))
            if not waits:
                return view.compute(question, show)
            answer = best_error(question, show)
            return replace(answer, sentence=f"Press Compute for: {view.title.lower()}. {answer.sentence}")

        self.work.start(compute, self._show, self._fail, self._report, self._over)

    def _checked(self) -> Question:
        """Return the question, or raise what is wrong with it; the shape of a new link is tried first."""
        if self.model == LINK and (function := self._link[0]) is not None and self.family not in self._tried:
            self._tried[self.family] = own_link.shape_of(function, self.family, self.texts)
            for name, text in self._tried[self.family].items():
                self.texts[name] = self.controls[name].text = text
        question = self.question()
        _ = question.model, question.settings
        if "at" in self.controls:
            top = max(question.alpha)
            self.controls["at"].param.update(end=top, step=top / 100)
        for name in question.settings.learners.split(",") if "learners" in self.controls else ():
            _ = question.learner(name) if name in learners_with_theory() and name not in self.side.refused else None
        return question

    def _wait(self) -> None:
        """Fade the picture of the last answer, if the next one takes longer than a moment."""
        if self._awaited:
            self._stale()
            self._report("Computing")

    def _report(self, text: str) -> None:
        self.cancel.visible = True
        text = html.escape(f"{text[:1].upper()}{text[1:]}…")
        self.progress.object = f'<p class="progress" role="status">{text}</p>'

    def _stale(self) -> None:
        self.progress.object, self.cancel.visible = "", False
        if self.picture is not None:
            self._draw(self.picture.faded())

    def _show(self, answer: Answer) -> None:
        self._awaited, self.answer, picture = False, answer, answer.picture
        if self.picture is not None and any(one.kind == "preview" for one in picture.series if answer.preview):
            earlier = [one for one in self.picture.faded().series if one.kind != "preview"]
            picture = replace(picture, series=(*earlier, *picture.series))
        if self.picture is None:
            self.place.objects = [pn.pane.Bokeh(self.plot.figure, sizing_mode="stretch_both", margin=0)]
        self._draw(picture)
        notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in answer.notes)
        self.sentence.object = f'<p class="sentence">{html.escape(answer.sentence)}</p>{notes}'
        self.csv.disabled = self.png.disabled = answer.preview
        self._fill_drawer()

    def _draw(self, picture: Picture) -> None:
        if picture is not self.picture:
            self.picture = picture
            self.plot.draw(picture)
            self.legend.object = legend_html(picture)

    def _show_empty(self, text: str, keep: bool = False) -> None:
        """Say in the place of the plot why there is none; ``keep`` a plot that is there."""
        if self.picture is None or not keep:
            self.picture = self.answer = None
            self.legend.object = self.sentence.object = self.drawer.object = self.progress.object = ""
            self.csv.disabled = self.png.disabled = True
            self.run.visible = self.cancel.visible = False
            self.place.objects = [pane(f'<p class="empty">{html.escape(text)}</p>', sizing_mode="stretch_both")]

    def _fail(self, error: Exception) -> None:
        self._awaited = False
        self._stale()
        self._show_empty("There is no answer.", keep=True)
        self._refuse(error)

    def _refuse(self, error: Exception | None) -> None:
        """Say what is wrong beside the control that is to blame, or below the plot; None for nothing."""
        self.status.object = "" if self.side.blame(error) or error is None else _alert(error)

    def _cancel(self) -> None:
        self.work.drop()
        self._awaited = False
        self._stale()
        self.progress.object = '<p class="note" role="status">Cancelled.</p>'

    def _over(self) -> None:
        self.progress.object, self.cancel.visible = "", False

    # --- taken along --------------------------------------------------------------------------------------------------

    def _locate(self) -> None:
        """Put the question into the address, soon: a hand that moves would write it over and over."""
        if not self._locating:
            self._locating = True
            self.later(self._update_address, _LOCATE)

    def _update_address(self) -> None:
        self._locating = False
        if pn.state.location:
            pn.state.location.search = self.address()

    def address(self) -> str:
        """Return the query of an address that leads back to this view."""
        page = {"model": self.model, "tab": self.tab, "view": self.view}
        return self.question().address(**page, **({"family": self.family} if self.model == LINK else {}))

    def _fill_drawer(self) -> None:
        answer, parts = self.answer, list[str]()
        if answer is not None and self.code.value:
            link = f"{self.address()}\n\nAppend it to the address that glassformer explore prints."
            texts = {"Python": answer.code, "Command line": answer.command, "Link to this view": link}
            parts += [f"<h2>{title}</h2><pre>{html.escape(text)}</pre>" for title, text in texts.items() if text]
        if answer is not None and self.table.value:
            table = answer.frame.head(_ROWS).to_html(index=False, border=0, float_format=lambda x: f"{x:.6g}")
            more = f'<p class="note">The first {_ROWS} of {len(answer.frame)} rows.</p>'
            parts.append(f'<div class="numbers" tabindex="0">{table}</div>{more * (len(answer.frame) > _ROWS)}')
        self.drawer.object = "".join(parts)

    def _csv(self) -> io.BytesIO:
        return io.BytesIO(b"" if self.answer is None else self.answer.frame.to_csv(index=False).encode())

    def end(self) -> None:
        """Compute nothing more: the person has left."""
        self.work.end()


def _among(allowed: Any, *texts: str | None) -> str:
    return next((text for text in texts if text is not None and text in allowed), next(iter(allowed)))


def _button(name: str, pressed: Callable[[], None], kind: str = "default") -> Any:
    button = pn.widgets.Button(name=name, button_type=kind, margin=0)
    button.on_click(lambda _: in_order(pressed)())
    return button


def _alert(error: Exception) -> str:
    return f'<p class="refused" role="alert">{html.escape(str(error))}</p>'


def end() -> None:
    """End all pages."""
    for one in list(_pages):
        one.end()


def page(first: str, given: LinkSource) -> Any:
    """Return the page as Panel shows it."""
    made = Page(first, given, pn.state.location.search if pn.state.location else "")
    # Before that the page has no connection to the browser.
    pn.state.onload(made.ask)
    return made.root
