"""What all panels share: a figure, a computation beside the page, how far it is, and what can be taken along."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import panel as pn

from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.controls import Control
from glassformer.explorer.share import Share
from glassformer.explorer.updates import on_next_tick
from glassformer.explorer.work import PATIENCE, Scheduler, Work


class Tab(Protocol):
    """The tab of a model, as its panels use it (:class:`~glassformer.explorer.model_tab.ModelTab`)."""

    name: str
    texts: dict[str, str]
    quick: bool
    later: Scheduler
    prefetcher: Any
    curve: Any

    def change(self, name: str, text: str) -> None: ...
    def set_text(self, name: str, text: str) -> None: ...
    def asked(self) -> Request | None: ...
    def refuse(self, who: Any, error: Exception | None) -> None: ...
    def offer(self, unfit: Mapping[str, str]) -> None: ...
    def remark(self, missing: dict[str, str]) -> None: ...
    def go_on(self) -> None: ...


class Panel(ABC):
    """One figure of a page about one model."""

    title: ClassVar[str]
    """On its tab."""
    fields: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Its own controls: names in the address, and labels."""
    follows: ClassVar[tuple[str, ...]] = ()
    """What of the address it depends on, beside the model and its own controls."""
    by_itself: ClassVar[bool] = True
    """Whether it is computed whenever something changes, where that takes no time; otherwise when asked to."""

    def __init__(self, model_tab: Tab) -> None:
        self.model_tab = model_tab
        self.work, self._busy = Work(model_tab.later), False
        self._awaited: object | None = None
        self.controls = {name: self._control(name, label) for name, label in self.fields.items()}
        self.share = Share(self.title.lower().replace(" ", "-"))
        self.run = pn.widgets.Button(name=f"Compute: {self.title.lower()}", button_type="primary", margin=(4, 8))
        self.cancel = pn.widgets.Button(name="Cancel", margin=(4, 8))
        self.progress = pn.pane.HTML(_status_html(""), sizing_mode="stretch_width", margin=(0, 8))
        # An empty figure costs the browser time: a sentence stands in its place until there is something to draw.
        self._empty = pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 8))
        self._place = pn.Column(self._empty, sizing_mode="stretch_width")
        self._drawn = False
        self.cancel.visible = False
        self.run.on_click(lambda _: on_next_tick(self.ask))
        self.cancel.on_click(lambda _: on_next_tick(self._stop))
        fields = [pn.Column(control.view, width=170) for control in self.controls.values()]
        self.view = pn.Column(
            *([pn.FlexBox(*fields)] if fields else []),
            pn.FlexBox(self.run, self.cancel, self.progress, align_items="center"),
            self._place,
            sizing_mode="stretch_width",
        )

    @property
    def busy(self) -> bool:
        """Whether it waits for an answer."""
        return self._busy

    @busy.setter
    def busy(self, busy: bool) -> None:
        self._busy = busy
        (self.model_tab.prefetcher.asked if busy else self.model_tab.prefetcher.answered)(self)

    @property
    def automatic(self) -> bool:
        """Whether it follows every change."""
        return self.by_itself and self.model_tab.quick

    def _control(self, name: str, label: str) -> Control:
        text, change = self.model_tab.texts.get(name, ""), partial(self.model_tab.change, name)
        return Control(name, label, text, change, among=self.among(name))

    def among(self, name: str) -> tuple[str, ...]:
        """The words that a control of its own allows; empty for any text."""
        del name
        return ()

    def offer(self, refused: Mapping[str, str]) -> None:
        """Leave out learners that do not go with the model."""
        for name, control in self.controls.items():
            if among := self.among(name):
                control.offer([word for word in among if word not in refused])

    @cached_property
    def figure(self) -> Any:
        """What is drawn into."""
        return self.drawing()

    @property
    def has_content(self) -> bool:
        """Whether there is an answer in the figure."""
        return self._drawn

    @abstractmethod
    def drawing(self) -> Any:
        """The empty figure."""

    @abstractmethod
    def compute(self, asked: Request, so_far: Callable[[Answer], None]) -> Answer:
        """Answer, in a thread of its own; ``so_far`` shows what there is before the end."""

    @abstractmethod
    def draw(self, answer: Answer) -> None:
        """Put an answer into the figure."""

    @abstractmethod
    def fade(self, stale: bool) -> None:
        """Show that what is drawn is not what is asked for, or that it is."""

    def ask(self) -> None:
        """Compute what the page asks for now."""
        asked = self.model_tab.asked()
        if asked is None:
            return
        self.stale()
        self._stand_in("Computing; the figure will be drawn here.")
        self.busy = True
        self.work.start(partial(self.compute, asked), self._show, self._fail, self.tell, self._over)
        if not self.automatic:
            self.tell("computing")

    def stale(self) -> None:
        """What is drawn no longer belongs to what is asked."""
        self.run.visible = not self.automatic
        self.work.drop()
        self.busy = False
        self.model_tab.refuse(self, None)
        if self.automatic:
            self._expect()
        else:
            self._grey()
            self._stand_in("")
            self.tell("press the button to compute")

    def halt(self) -> None:
        """What is asked has no answer: wait for none, and leave what is drawn, grey."""
        self.work.drop()
        self.run.visible = not self.automatic
        self.busy, self._awaited = False, None
        self._grey()
        self.tell("")
        self._stand_in("Nothing to draw yet: put right what is refused at the left.")

    def tell(self, text: str) -> None:
        """How far it is."""
        self.progress.object = _status_html(text)
        self.cancel.visible = self.busy and bool(text)

    def _expect(self) -> None:
        """An answer is on its way; that there is a wait shows once it is one.

        What comes and goes with every answer has the browser lay out and paint the page anew, which takes longer than
        most answers.
        """
        if self._awaited is None:
            self._awaited = awaited = object()
            self.model_tab.later(partial(self._wait, awaited), PATIENCE)

    def _wait(self, awaited: object) -> None:
        if awaited is self._awaited:
            self._grey()
            self.tell("computing")

    def _stand_in(self, text: str) -> None:
        """Say in the place of the figure why there is none yet."""
        if not self.has_content:
            self._empty.object = f'<p class="empty">{html.escape(text)}</p>' if text else ""

    def _grey(self) -> None:
        if self.has_content:
            self.fade(True)

    def _stop(self) -> None:
        self.work.drop()
        self.busy, self._awaited = False, None
        self.tell("cancelled")
        self._stand_in("")

    def _show(self, answer: Answer) -> None:
        self._awaited, figure = None, self.figure
        self.draw(answer)
        self.fade(answer.first_look)
        if not self.has_content:
            self._drawn = True
            self._place.objects = [pn.pane.Bokeh(figure, sizing_mode="stretch_width"), self.share.view]
        self.share.show(answer)
        self.model_tab.refuse(self, None)

    def _fail(self, error: Exception) -> None:
        self.busy, self._awaited = False, None
        self._grey()
        self.tell(str(error))
        self._stand_in("")
        self.model_tab.refuse(self, error)

    def _over(self) -> None:
        self.busy = self.cancel.visible = False


def _status_html(text: str) -> str:
    return f'<p role="status" class="told">{html.escape(text) or "&nbsp;"}</p>'
