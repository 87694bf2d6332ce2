"""A progress bar on the terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield ``items``, with a bar on standard error when that is a terminal.

    Example:
        >>> list(track([1, 2], "counting"))
        [1, 2]
    """
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track as rich_track

    yield from rich_track(items, description, total=total, console=Console(stderr=True), transient=True)
