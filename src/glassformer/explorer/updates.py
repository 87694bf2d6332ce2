"""Changes of a page reach the browser in the order in which they were made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn


def on_next_tick(change: Callable[..., None], *given: Any) -> None:
    """Change a page as soon as nobody else does, or now as part of the change that is being made."""
    document = pn.state.curdoc
    if document is None or document.callbacks.hold_value or not pn.state.loaded:
        change(*given)
    else:
        document.add_next_tick_callback(partial(as_one_update, change, *given))


def as_one_update(change: Callable[..., None], *given: Any) -> None:
    """Change a page in a callback of its document, which is locked then, and send all of it at the end.

    Panel sends what it changes at once, Bokeh what is changed in its models at the end: a figure that is new would be
    filled before it is there. Panel (1.9) also keeps what it cannot send at once, and when the writing before it ends
    just then, forgets it until something else changes. So all is left to Bokeh, which waits for its turn.
    """
    document = pn.state.curdoc
    document.hold("collect")
    try:
        change(*given)
    finally:
        document.unhold()
