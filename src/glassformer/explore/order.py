"""Changes of a page reach the browser in the order in which they were made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from panel.io.document import unlocked


def in_order(change: Callable[..., None], *given: Any) -> None:
    """Change a page, all of it in one message.

    Panel sends what it changes at once, Bokeh what is changed in its models at the end: a figure that is new would be
    filled before it is there.
    """
    with unlocked(policy="collect"):
        change(*given)
