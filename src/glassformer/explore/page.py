"""The page of one person: a tab for every model, what is asked in its address, and nothing shared with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn

from glassformer.explore.bench import Bench
from glassformer.explore.panels.base import Panel
from glassformer.explore.panels.data import Data
from glassformer.explore.panels.diagram import Diagram
from glassformer.explore.panels.entropy import Entropy
from glassformer.explore.panels.plan import Samples
from glassformer.explore.panels.spectrum import Spectrum
from glassformer.explore.panels.time import InTime
from glassformer.explore.question import address, from_address

PANELS: tuple[type[Panel], ...] = (Entropy, Spectrum, InTime, Data, Diagram, Samples)
_TABS = {"bsr": "bsr", "aim": "aim", "attention": "attention"}
STYLE = """
.bench { gap: 16px; }
.left { flex: 1 1 260px; max-width: 340px; }
.right { flex: 3 1 340px; min-width: 0; }
"""


class Page:
    """What one person sees.

    Args:
        first: the tab that is open at first.
    """

    def __init__(self, first: str) -> None:
        self._document = pn.state.curdoc
        asked = from_address(pn.state.location.search if pn.state.location else "")
        self._names = list(_TABS)
        tab = asked.get("tab", first)
        active = self._names.index(tab) if tab in self._names else 0
        self._asked = {tab: asked}
        self._benches: dict[str, Bench] = {}
        self._places = [pn.Column(sizing_mode="stretch_width") for _ in self._names]
        self._tabs = pn.Tabs(
            *zip(_TABS.values(), self._places, strict=True), active=active, sizing_mode="stretch_width"
        )
        self._tabs.param.watch(lambda event: self._open(event.new), "active")
        self.view = pn.Column(
            pn.pane.HTML("<h1>glassformer</h1>", margin=(0, 8)), self._tabs, sizing_mode="stretch_width"
        )
        self._open(active)
        pn.state.on_session_destroyed(lambda _: self.end())

    def _open(self, index: int) -> None:
        name = self._names[index]
        if name not in self._benches:
            bench = Bench(name, self._asked.get(name, {}), self._later, self._locate, PANELS)
            self._benches[name] = bench
            self._places[index].append(bench.view)
        self._locate()

    def _locate(self) -> None:
        """Put what is asked into the address."""
        name = self._names[self._tabs.active]
        if name in self._benches and pn.state.location:
            bench = self._benches[name]
            pn.state.location.search = address(name, bench.texts, bench.start)

    def _later(self, function: Callable[[], None]) -> None:
        self._document.add_next_tick_callback(function)

    def end(self) -> None:
        """The person has left."""
        for bench in self._benches.values():
            bench.end()


def page(first: str) -> Any:
    """The page as Panel has it."""
    return Page(first).view
