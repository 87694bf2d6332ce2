"""A progress bar on the terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")

_notes: list[Callable[[str], None]] = []


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield ``items``, with a bar and the time left on standard error when that is a terminal.

    Example:
        >>> list(track([1, 2], "counting"))
        [1, 2]
    """
    if not sys.stderr.isatty() or _notes:
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total if total is not None else _length(items))
        _notes.append(lambda text: bar.update(task, description=f"{description}, {text}"))
        try:
            for item in items:
                yield item
                bar.advance(task)
        finally:
            _notes.pop()


def note(text: str) -> None:
    """Say beside the bar, where there is one, how far the present item is.

    Example:
        >>> note("step 100")
    """
    if _notes:
        _notes[-1](text)


def _length(items: Iterable[object]) -> int | None:
    return len(items) if isinstance(items, Sized) else None
