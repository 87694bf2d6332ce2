"""The page of one person: questions as tabs, a form at the side, one plot, and a sentence that says what is seen."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any
from urllib.parse import parse_qsl
from weakref import WeakSet

import panel as pn

from glassformer.core.errors import GlassformerError
from glassformer.explorer import own_link
from glassformer.explorer.fields import Field, blame, choice, model_fields, note, title, view_fields
from glassformer.explorer.limits_view import (
    Show,
    best_error,
    first_points,
    learner_errors,
    learners_with_theory,
    refusals,
)
from glassformer.explorer.own_link import LINK, LinkSource
from glassformer.explorer.phase import Event, Phase
from glassformer.explorer.picture import Answer, Picture, Plot, legend_html
from glassformer.explorer.question import Question, beginning
from glassformer.explorer.session import Form, in_order
from glassformer.explorer.views import QUESTIONS, View
from glassformer.explorer.work import Work
from glassformer.learners.registry import names
from glassformer.models.registry import MODELS, options_of

# Seconds until the address follows, seconds until a computation counts as long, and rows of the table on the page.
_LOCATE, _PATIENCE, _ROWS = 0.3, 0.5, 200
_NO_LINK = (
    "Start with glassformer explore --link FILE.py:FUNCTION to look at a function of your own, or with --allow-code to "
    "write one into this page: without it the page runs no code."
)
_pages: WeakSet[Page] = WeakSet()


@cache
def model_names() -> list[str]:
    """Return the models that need no link, and the word for those that have one.

    Example:
        >>> model_names()
        ['bsr', 'aim', 'attention', 'icl', 'link']
    """
    return [name for name in MODELS if not any(o.required and o.opens_file for o in options_of(name))] + [LINK]


class Page:
    """What one person sees.

    Args:
        first: the model at first; one that needs a link opens that tab.
        given: what the command line said of links.
        query: of the address.
        later: calls a function in the thread of the page, at once or after some seconds.

    Attributes:
        model, tab, view, family: what is open, each one a field of the page; ``family`` is that of an own link.
    """

    def __init__(self, first: str, given: LinkSource, query: str, later: Callable[..., None]) -> None:
        self.later, self.work = later, Work(later)
        asked = dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True))
        # The tab of an older address is its model.
        known = LINK if first and first not in model_names() else first
        self.model = _among(model_names(), asked.pop("model", asked.get("tab")), known)
        self.tab = _among(QUESTIONS, asked.pop("tab", None), LINK if self.model == LINK else None)
        self.view = _among(QUESTIONS[self.tab][1], asked.pop("view", None))
        self.family = _among(own_link.families()[::-1], asked.pop("family", None), given.family)
        self._given, self._link, self._tried, self._described = given, (given.function, given.name), "", ""
        self._code = own_link.code_of(given)
        self._texts, self._asked = dict[str, dict[str, str]](), asked
        self.refused: Mapping[str, str] = {}
        self.error: Exception | None = None
        self.picture: Picture | None = None
        self.answer: Answer | None = None
        self._locating, self._phase, self._progress = False, Phase.IDLE, ""
        self._make_parts()
        self._show_empty("Computing…")
        self._arrange()
        _pages.add(self)

    def _make_parts(self) -> None:
        self.tabs, self.parameters, self.settings = (Form(self.change) for _ in range(3))
        self.views = Form(self.change, css_classes=["views"])
        self.legend, self.progress, self.status, self.sentence, self.drawer = (_pane("") for _ in range(5))
        self.drawer.css_classes, self.legend.css_classes = ["drawer"], ["legend"]
        self.empty = _pane("", css_classes=["empty"])
        self.run, self.cancel = _button("Compute", lambda: self.ask(True), "primary"), _button("Cancel", self._cancel)
        self.code, self.table = (pn.widgets.Toggle(name=name, margin=0) for name in ("Code", "Table"))
        for toggle in (self.code, self.table):
            toggle.param.watch(lambda _: in_order(self._fill_drawer)(), "value")
        download = {"auto": True, "embed": False, "margin": 0}
        self.csv = pn.widgets.FileDownload(callback=self._csv, filename="glassformer.csv", label="CSV", **download)
        self.png, copy = (pn.widgets.Button(name=name, margin=0) for name in ("PNG", "Copy link"))
        self.plot = Plot(in_order(self._click))
        saved = {"tool": self.plot.save, "legend": self.plot.legend}
        code = "legend.visible = true; setTimeout(() => {tool.do.emit('save'); legend.visible = false}, 300)"
        self.png.js_on_click(args=saved, code=code)
        # Not the whole address, which holds a secret.
        copy.js_on_click(code="navigator.clipboard.writeText(window.location.search)")
        figure = pn.pane.Bokeh(self.plot.figure, sizing_mode="stretch_both", margin=0)
        self.place = pn.Column(figure, self.empty, sizing_mode="stretch_both", margin=0)
        self.busy = pn.Row(self.progress, self.cancel, css_classes=["busy"], margin=0)
        name = "<h1>glassformer <small>exact limits of learning from sequences</small></h1>"
        actions = pn.Row(self.code, self.table, self.csv, self.png, copy, css_classes=["actions"], margin=0)
        bar = pn.Row(self.views, self.legend, self.run, self.busy, css_classes=["bar"], margin=0)
        side = pn.Column(self.parameters, self.settings, css_classes=["side"], margin=0)
        main = [bar, self.place, self.status, self.sentence, self.drawer]
        parts = [pn.Row(self.tabs, css_classes=["questions"], margin=0), side]
        parts += [pn.Column(*main, css_classes=["main"], margin=0), actions]
        self.root = pn.Column(_pane(name, css_classes=["head"]), *parts, css_classes=["page"], margin=0)

    def _arrange(self) -> None:
        """Show the fields of what is open, with their texts, and the error beside the one that is to blame."""
        questions = {name: title for name, (title, _) in QUESTIONS.items()}
        views = QUESTIONS[self.tab][1]
        self.tabs.show([choice("tab", "Questions", questions, self.tab, kind="tabs")])
        self.views.show([choice("view", "Views", {k: v.title for k, v in views.items()}, self.view, kind="tabs")])
        self.views.visible = len(views) > 1
        models = {name: f"{name}: {MODELS[name].title}" if name in MODELS else "my own link" for name in model_names()}
        parameters: list[Field] = [title("Model"), choice("model", "Model", models, self.model, look="whole")]
        parameters += self._link_fields() if self.model == LINK else []
        settings: list[Field] = []
        if self.model != LINK or self._link[0]:
            question, view = self.question(), views[self.view]
            parameters += model_fields(question, view.settings)
            settings = view_fields(question, view.title, view.settings, self.refused)
        parameters, blamed = blame(parameters, self.error)
        settings, also_blamed = (settings, False) if blamed else blame(settings, self.error)
        self.parameters.show(parameters)
        self.settings.show(settings)
        alert = f'<p class="refused" role="alert">{html.escape(str(self.error))}</p>'
        self.status.object = "" if blamed or also_blamed or self.error is None else alert

    def _link_fields(self) -> list[Field]:
        known = {name: f"{name}: {MODELS[name].title}" for name in own_link.families()}
        parts = [choice("family", "Family of the model", known, self.family, look="whole")]
        if self._given.code:
            parts.append({"name": "link", "kind": "code", "label": "Python code", "text": self._code})
        elif not self._link[0]:
            self._described = _NO_LINK
        return [*parts, note("found", self._described or self._link[1])]

    # --- what a person does -------------------------------------------------------------------------------------------

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the fields of this model, by name."""
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
        kind, _, learner = name.partition(".")
        if name in ("model", "tab", "view", "family"):
            self._open(name, text)
        elif name == "link":
            self._code = text
            try:
                if self._given.code:
                    self._link = own_link.from_code(text, self._given.name.rpartition(":")[2])
                self._tried = ""
            except GlassformerError as error:
                self._fail(error)
                return
        elif kind == "learners":
            chosen = [one for one in self.texts["learners"].split(",") if one != learner] + [learner] * bool(text)
            self.texts["learners"] = ",".join(one for one in learners_with_theory() if one in chosen)
        else:
            self.texts[name] = text
        self.ask()

    def _open(self, name: str, text: str) -> None:
        """Open another model, tab, view or family."""
        setattr(self, name, text)
        if name == "model":
            self.tab = LINK if text == LINK else "learn" if self.tab == LINK else self.tab
        elif text == LINK:
            self.model = LINK
        self.tab = _among(QUESTIONS, self.tab)
        self.view, self.refused, self._tried = _among(QUESTIONS[self.tab][1], self.view), {}, ""
        self._show_empty("Computing…")

    def _click(self, x: float) -> None:
        if self.picture is not None and self.picture.at is not None:
            self.change("at", f"{max(x, 0.0):.4g}")

    def _cancel(self) -> None:
        self.work.drop()
        self._over()
        self.place.css_classes = ["plot", "stale"]

    # --- questions and answers ----------------------------------------------------------------------------------------

    def ask(self, pressed: bool = False) -> None:
        """Compute the answer, or before a button is pressed what comes before it."""
        self._locate()
        self.work.drop()
        self.error = None
        if self.model == LINK and not self._link[0]:
            self._show_empty("No link loaded.")
            self._arrange()
            return
        view = QUESTIONS[self.tab][1][self.view]
        try:
            question = self._checked(view)
        except GlassformerError as error:
            self._fail(error)
            return
        self._arrange()
        self.run.visible = view.waits(question)
        waits = self.run.visible and not pressed
        answer_of = best_error if waits else view.compute
        # A page without a picture gets one at once where the first point takes seconds to compile.
        blank = (
            self.picture is None
            and answer_of in (best_error, learner_errors)
            and question.model.channel.inference.sampled
        )
        self._progress = "computing"
        if self._phase is Phase.IDLE:
            # Most answers come before: a page that says so at once would be laid out twice for each.
            self.later(self._wait, _PATIENCE)
        self._phase = self._phase.after(Event.ASK)
        if pressed:
            self._wait()

        def compute(show: Show) -> Answer:
            if blank:
                show(first_points(question))
            if question.function is not None:
                self.later(partial(self._describe, own_link.description(question)))
            if any(name in ("learner", "learners") for name in view.settings):
                self.later(partial(self._offer, refusals(question.model)))
            answer = answer_of(question, show)
            if not waits:
                return answer
            return replace(answer, sentence=f"Press Compute for: {view.title.lower()}. {answer.sentence}")

        self.work.start(compute, self._show, self._fail, self._report, self._over)

    def _checked(self, view: View) -> Question:
        """Return the question, or raise what is wrong with it; the shape of a new link is tried first."""
        if self.model == LINK and (function := self._link[0]) is not None and self._tried != self.family:
            self._tried, self._described = self.family, ""
            self.texts.update(own_link.shape_of(function, self.family, self.texts))
        question = self.question()
        _ = question.model, question.alpha
        chosen = question.settings.learners.split(",") if "learners" in view.settings else []
        for name in (one for one in learners_with_theory() if one in chosen and one not in self.refused):
            _ = question.learner(name)
        return question

    def _describe(self, text: str) -> None:
        self._described = text
        self._arrange()

    def _offer(self, refused: Mapping[str, str]) -> None:
        """Offer only learners that can learn from the model."""
        if refused != self.refused:
            self.refused = refused
            if self.texts["learner"] in refused:
                self.change("learner", next(name for name in names() if name not in refused))
            self._arrange()

    def _wait(self) -> None:
        """Say that it computes, and fade the last answer if no part of the next is there, after a moment."""
        self._phase = self._phase.after(Event.MOMENT)
        self._report(self._progress)
        if self._phase is Phase.LATE and self.picture is not None:
            self.place.css_classes = ["plot", "stale"]

    def _report(self, text: str) -> None:
        self._progress = text
        if self._phase.busy:
            text = html.escape(f"{text[:1].upper()}{text[1:]}…")
            self.progress.object, self.busy.visible = f'<p class="progress" role="status">{text}</p>', True

    def _over(self) -> None:
        self._phase, self.busy.visible = self._phase.after(Event.END), False

    def _show(self, answer: Answer) -> None:
        self._phase, self.answer, picture = self._phase.after(Event.PART), answer, answer.picture
        if self.picture is not None and any(one.kind == "preview" for one in picture.series if answer.preview):
            earlier = [one for one in self.picture.faded().series if one.kind != "preview"]
            picture = replace(picture, series=(*earlier, *picture.series))
        self.picture, self.place.css_classes, self.empty.object = picture, ["plot"], ""
        self.plot.draw(picture)
        self.legend.object = legend_html(picture)
        notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in answer.notes)
        self.sentence.object = f'<p class="sentence">{html.escape(answer.sentence)}</p>{notes}'
        self.csv.disabled = self.png.disabled = answer.preview
        self._fill_drawer()

    def _show_empty(self, text: str) -> None:
        """Say in the place of the plot why there is none."""
        self.picture = self.answer = None
        self.legend.object = self.sentence.object = ""
        self._fill_drawer()
        self.csv.disabled = self.png.disabled = True
        self.run.visible = False
        self._over()
        self.empty.object, self.place.css_classes = f"<p>{html.escape(text)}</p>", ["plot", "blank"]

    def _fail(self, error: Exception) -> None:
        """Say what is wrong beside the field that is to blame, or below the plot; the last picture fades."""
        self.error = error
        self._over()
        if self.picture is None:
            self._show_empty(f"Nothing to draw: {error}")
        else:
            self.place.css_classes = ["plot", "stale"]
        self._arrange()

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
        self.drawer.object, self.drawer.visible = "".join(parts), bool(parts)

    def _csv(self) -> io.BytesIO:
        return io.BytesIO(b"" if self.answer is None else self.answer.frame.to_csv(index=False).encode())

    def end(self) -> None:
        """Compute nothing more: the person has left."""
        self.work.end()


def _among(allowed: Collection[str], *texts: str | None) -> str:
    return next((text for text in texts if text is not None and text in allowed), next(iter(allowed)))


def _pane(text: str, **given: Any) -> Any:
    return pn.pane.HTML(text, sizing_mode="stretch_width", margin=0, **given)


def _button(name: str, pressed: Callable[[], None], kind: str = "default") -> Any:
    button = pn.widgets.Button(name=name, button_type=kind, margin=0)
    button.on_click(lambda _: in_order(pressed)())
    return button


def end() -> None:
    """End all pages."""
    for one in list(_pages):
        one.end()
