"""The page of one person: a tab for every model, what is asked in its address, and nothing shared with others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakSet

import panel as pn
from panel.io.resources import LOCAL_DIST
from tornado.ioloop import IOLoop

from glassformer.explorer.answer import Request
from glassformer.explorer.model_tab import ModelTab
from glassformer.explorer.own_link import LinkSource, OwnLink
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.panels.data import Data
from glassformer.explorer.panels.diagram import Diagram
from glassformer.explorer.panels.entropy import Entropy
from glassformer.explorer.panels.plan import Samples
from glassformer.explorer.panels.spectrum import Spectrum
from glassformer.explorer.panels.time import InTime
from glassformer.explorer.prefetch import Prefetcher, first_requests
from glassformer.explorer.question import address, beginning, from_address
from glassformer.explorer.updates import as_one_update, on_next_tick
from glassformer.models.registry import MODELS, options_of

PANELS: tuple[type[Panel], ...] = (Entropy, Spectrum, InTime, Data, Diagram, Samples)
LINK = "link"
_pages: WeakSet[Page] = WeakSet()
# Seconds until the address follows.
_LOCATED = 0.3
STYLE = """
.bench { gap: 16px; }
.left { flex: 1 1 260px; max-width: 340px; }
.right { flex: 3 1 340px; min-width: 0; }
.told { color: #444; font-size: 13px; margin: 2px 0; min-height: 1.2em; }
.refused { color: #a03000; font-size: 13px; margin: 2px 0; }
.empty { color: #444; height: 360px; padding: 8px; background: #f7f7f7; }
.said { margin: 4px 0; max-width: 75ch; }
.wide { overflow-x: auto; max-height: 360px; }
.wide td, .wide th { padding: 1px 8px; text-align: right; font-size: 12px; white-space: nowrap; }
pre { overflow-x: auto; background: #f4f4f4; padding: 8px; white-space: pre-wrap; }
@media (max-width: 700px) { .left { max-width: none; } }
"""


def tabs() -> list[str]:
    """Models that need no link, and the tab of those that have one.

    Example:
        >>> tabs()
        ['bsr', 'aim', 'attention', 'link']
    """
    return [name for name in MODELS if not any(o.required and o.opens_file for o in options_of(name))] + [LINK]


class Page:
    """What one person sees.

    Args:
        first: the tab that is open at first.
        given: what the command line said of links.
    """

    def __init__(self, first: str, given: LinkSource) -> None:
        self._document, self._given, self._loop = pn.state.curdoc, given, IOLoop.current()
        # Style sheets come from here, of parts made later too, and from nowhere else.
        self._document.template_variables["dist_url"] = LOCAL_DIST
        # What is computed before the page is there waits for it: a document without a session forgets.
        self._waiting: list[tuple[Callable[[], None], float]] | None = []
        self._lock = Lock()
        pn.state.onload(self._loaded)
        asked = from_address(pn.state.location.search if pn.state.location else "")
        self._names, self._locating = tabs(), False
        tab = asked.get("tab") or first
        active = self._names.index(tab) if tab in self._names else 0
        self._asked = {tab: asked}
        self._prefetcher = Prefetcher(self._later, self._next_questions, self._first_questions)
        self._open_tabs: dict[str, ModelTab | OwnLink] = {}
        self._places = [pn.Column(sizing_mode="stretch_width") for _ in self._names]
        titles = [f"{name}: {MODELS[name].title}" if name in MODELS else "your own link" for name in self._names]
        self._tabs = pn.Tabs(*zip(titles, self._places, strict=True), active=active, sizing_mode="stretch_width")
        self._tabs.param.watch(lambda event: on_next_tick(self._open, event.new), "active")
        head = pn.pane.HTML("<h1>glassformer explorer</h1>", margin=(0, 8))
        self.view = pn.Column(head, self._tabs, sizing_mode="stretch_width")
        self._open(active)
        pn.state.on_session_destroyed(lambda _: self.end())
        _pages.add(self)

    def _open(self, index: int) -> None:
        name = self._names[index]
        if name not in self._open_tabs:
            asked = self._asked.get(name, {})
            if name == LINK:
                made: ModelTab | OwnLink = OwnLink(self._given, asked, self._model_tab, self._locate, self._later)
            else:
                made = self._model_tab(name, asked)
            self._open_tabs[name] = made
            self._places[index].append(made.view)
        self._locate()

    def _model_tab(self, name: str, asked: dict[str, str], link: tuple[Any, str] = (None, "")) -> ModelTab:
        return ModelTab(name, asked, self._later, self._locate, PANELS, self._prefetcher, link)

    def _next_questions(self) -> list[Request]:
        return self._open_tabs[self._names[self._tabs.active]].neighbours()

    def _first_questions(self) -> list[Request]:
        return first_requests(name for name in self._names if name in MODELS and name not in self._open_tabs)

    def _locate(self) -> None:
        """Put what is asked into the address, soon: a hand that moves would write it over and over."""
        if not self._locating:
            self._locating = True
            self._later(self._update_address, _LOCATED)

    def _update_address(self) -> None:
        self._locating = False
        name = self._names[self._tabs.active]
        if name in self._open_tabs and pn.state.location:
            texts = self._open_tabs[name].texts
            pn.state.location.search = address(name, texts, beginning(texts.get("family", name)))

    def _later(self, function: Callable[[], None], seconds: float = 0.0) -> None:
        """Call a function in the thread of the page; with a delay only from that thread."""
        with self._lock:
            if self._waiting is not None:
                self._waiting.append((function, seconds))
                return
        if seconds:
            self._put_off(function, seconds)
        else:
            # From any thread: a document that is just being changed may lose what another thread adds to it.
            self._loop.add_callback(self._put_off, function)

    def _put_off(self, function: Callable[[], None], seconds: float = 0.0) -> None:
        if self._left():
            self.end()
        elif seconds:
            self._document.add_timeout_callback(partial(as_one_update, function), round(1000 * seconds))
        else:
            self._document.add_next_tick_callback(partial(as_one_update, function))

    def _left(self) -> bool:
        """Whether nobody looks at the page any more, some time before its session is given up."""
        context = self._document.session_context
        return context is None or (context.session is not None and context.session.connection_count == 0)

    def _loaded(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting or [], None
        for function, seconds in waiting:
            self._later(function, seconds)

    def end(self) -> None:
        """The person has left."""
        for one in (*self._open_tabs.values(), self._prefetcher):
            one.end()


def end() -> None:
    """Nobody looks at any page any more."""
    for one in list(_pages):
        one.end()


def page(first: str, given: LinkSource) -> Any:
    """The page as Panel has it."""
    return Page(first, given).view
