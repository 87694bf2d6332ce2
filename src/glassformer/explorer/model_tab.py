"""All about one model: controls made from the table, the curve, and the panels below it."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import panel as pn

from glassformer.core.errors import GlassformerError, ParameterError
from glassformer.explorer import question
from glassformer.explorer.answer import Request
from glassformer.explorer.controls import Control, of_option
from glassformer.explorer.learner_choice import LearnerChoice
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.panels.curve import Curve, with_theory
from glassformer.explorer.prefetch import Prefetcher
from glassformer.explorer.updates import on_next_tick
from glassformer.explorer.work import Scheduler
from glassformer.models.registry import MODELS


class ModelTab:
    """One tab of a page.

    Args:
        name: of the model in the table.
        texts: what is asked at the start, by name; what is not among it begins where the table says.
        later: has a function called in the thread of the page, at once or, asked there, after some seconds.
        moved: called when what is asked has changed.
        kinds: of the panels below the curve.
        ahead: is told what the page waits for.
        link: a function of one's own, and how the command line names it.
    """

    def __init__(
        self,
        name: str,
        texts: dict[str, str],
        later: Scheduler,
        moved: Callable[[], None],
        kinds: tuple[type[Panel], ...],
        prefetcher: Prefetcher,
        link: tuple[Callable[..., Any] | None, str] = (None, ""),
    ) -> None:
        self.name, self.later, self.link, self._moved = name, later, link, moved
        self.prefetcher, self._last = prefetcher, ""
        self.start = question.beginning(name)
        self.texts = {**self.start, **{key: text for key, text in texts.items() if key in self.start}}
        offered = [o for o in question.offered(name) if not (link[0] and o.field == "channel")]
        self.controls = {o.field: of_option(o, self.texts[o.field], partial(self.change, o.field)) for o in offered}
        self.controls["alpha"] = self._control("alpha", "sample ratios alpha", MODELS[name].ratio)
        self.controls["at"] = self._control("at", "alpha of the panels below", "or click into the curve")
        self.quick = True
        self._next: Panel | None = None
        self._refused = pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 8))
        self._remarks = pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 8))
        self.curve = Curve(self)
        self._unfit: Mapping[str, str] = {}
        self._refusals = dict[ModelTab | Panel, Exception | None]()
        self._kinds, self._panels = kinds, dict[int, Panel]()
        self._places = [pn.Column(sizing_mode="stretch_width") for _ in kinds]
        self.learners = LearnerChoice(with_theory(), self.texts["learners"], partial(self.change, "learners"))
        self._tabs = pn.Tabs(
            *((kind.title, place) for kind, place in zip(kinds, self._places, strict=True)),
            active=int(self.texts["panel"]) if self.texts["panel"] in map(str, range(len(kinds))) else 0,
            sizing_mode="stretch_width",
        )
        self._tabs.param.watch(lambda event: self.change("panel", str(event.new)), "active")
        self.view = self._laid_out(offered)
        # The page is there before anything is computed.
        later(partial(self.refresh, "alpha"))

    def _control(self, name: str, label: str, meaning: str) -> Control:
        return Control(name, label, self.texts[name], partial(self.change, name), meaning)

    def _laid_out(self, offered: list[Any]) -> Any:
        shape = [o for o in offered if self.link[0] and o.field in question.SHAPE]
        shown = [*shape, *(o for o in offered if (o.usual or o.among) and o not in shape)]
        first = [self.controls[o.field].view for o in shown]
        rest = [self.controls[o.field].view for o in offered if o not in shown]
        self._hidden = {o.field for o in offered if o not in shown}
        self._more = pn.Card(title="More parameters", collapsed=True, sizing_mode="stretch_width", margin=(4, 8))
        self._more.param.watch(lambda _: on_next_tick(partial(self._more.param.update, objects=rest)), "collapsed")
        left = pn.Column(
            *first,
            self.controls["alpha"].view,
            self.controls["at"].view,
            self.learners.view,
            self._remarks,
            self._more,
            self._refused,
            css_classes=["left"],
            sizing_mode="stretch_width",
        )
        right = pn.Column(self.curve.view, self._tabs, css_classes=["right"], sizing_mode="stretch_width")
        return pn.FlexBox(left, right, css_classes=["bench"], sizing_mode="stretch_width", align_items="flex-start")

    @property
    def active(self) -> Panel:
        """The panel that is in view below the curve, made when it is first looked at."""
        index = self._tabs.active
        if index not in self._panels:
            self._panels[index] = self._kinds[index](self)
            self._panels[index].offer(self._unfit)
            self._places[index].append(self._panels[index].view)
        return self._panels[index]

    def set_text(self, name: str, text: str) -> None:
        """Change a control from elsewhere on the page."""
        self.controls[name].set_text(text)

    def change(self, name: str, text: str) -> None:
        """Another text was written, or chosen."""
        on_next_tick(self._change, name, text)

    def _change(self, name: str, text: str) -> None:
        if self.texts.get(name) == text:
            return
        self.texts[name] = text
        if name in self.controls:
            self._last = name
        for panel in self._panels.values():
            if name in panel.controls:
                panel.controls[name].set_text(text)
        self._moved()
        self.refresh(name)

    def refresh(self, name: str) -> None:
        """Ask for what depends on a text that has changed."""
        asked = self.asked()
        if asked is None:
            self._halt()
            return
        self.quick = asked.model.has_curve
        shared = name in self.controls and name != "at"
        if shared or name in self.curve.follows:
            self.curve.ask()
        active = self.active
        if shared or name in (*active.follows, *active.fields, "panel"):
            active.stale()
            self._next = active if active.automatic else None
            if self._next is not None and not self.curve.busy:
                self.go_on()

    def go_on(self) -> None:
        """Ask the panel in view, once the curve has its answer: it would only take the time of it."""
        waiting, self._next = self._next, None
        if waiting is not None:
            waiting.ask()

    def asked(self) -> Request | None:
        """The question as it stands, or None with the reason beside the control that is to blame."""
        try:
            asked = self._about(self.texts)
        except GlassformerError as error:
            self.refuse(self, error)
            return None
        self.refuse(self, self._pointed())
        return asked

    def _pointed(self) -> GlassformerError | None:
        """Mark the sample ratio that panels are about, or say why there is none; the curve needs none."""
        try:
            self.curve.at(question.chosen_ratio(self.texts))
        except GlassformerError as error:
            return error
        return None

    def _halt(self) -> None:
        """Nothing can be asked: what was asked before is waited for no more, as nobody asks it now."""
        self._next = None
        for panel in (self.curve, self.active):
            panel.halt()

    def _about(self, texts: dict[str, str]) -> Request:
        model = question.built(self.name, texts, self.link[0])
        question.ratios(texts)
        return Request(self.name, model, dict(texts), self.link[1], self.link[0])

    def neighbours(self) -> list[Request]:
        """What is asked after one more key on the slider that was moved last; nothing where answers take no time."""
        found: list[Request] = []
        if self.quick or not self._last:
            return found
        for text in self.controls[self._last].neighbours():
            with contextlib.suppress(GlassformerError):
                found.append(self._about({**self.texts, self._last: text}))
        return found

    def refuse(self, who: ModelTab | Panel, error: Exception | None) -> None:
        """Say what is wrong with what a part of the page asks, beside the control that is to blame, or below all.

        None where nothing is; what other parts in view have said stays.
        """
        self._refusals[who] = error
        neighbours, automatic = dict[Control, str](), dict[str, None]()
        for part in (self, self.curve, self.active):
            one = self._refusals.get(part)
            controls = {**self.controls, **part.controls}
            blamed = controls.get(one.name) if isinstance(one, ParameterError) else None
            if blamed is not None:
                neighbours[blamed] = str(one)
                self._more.collapsed = self._more.collapsed and blamed.name not in self._hidden
            elif one is not None:
                automatic[str(one)] = None
        every = [self.controls, *(panel.controls for panel in self._panels.values())]
        for control in (control for controls in every for control in controls.values()):
            control.refuse(neighbours.get(control, ""))
        said = "".join(f'<p role="alert" class="refused">{html.escape(text)}</p>' for text in automatic)
        self._refused.object = said

    def offer(self, unfit: Mapping[str, str]) -> None:
        """Leave out learners that do not go with the model, and say why."""
        self._unfit = unfit
        self.learners.offer(unfit)
        for panel in list(self._panels.values()):
            panel.offer(unfit)

    def remark(self, missing: dict[str, str]) -> None:
        """Why learners have no curve."""
        self._remarks.object = "".join(
            f'<p class="refused">{html.escape(name)}: {html.escape(reason)}</p>' for name, reason in missing.items()
        )

    def end(self) -> None:
        """Compute nothing more."""
        for panel in (self.curve, *self._panels.values()):
            panel.work.end()
