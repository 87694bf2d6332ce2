"""A progress bar on the terminal and in notebooks, whoever watches in its place, and nothing elsewhere."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_notes: list[Callable[[str], None]] = []
# Called with what is done, how many items of it, and of how many (None where nobody knows).
Watcher = Callable[[str, int, int | None], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """What is computed here tells a watcher how far it is, and no terminal; what that raises ends the computation.

    Example:
        >>> with watched(print):
        ...     _ = list(track("ab", "spelling"))
        spelling 0 2
        spelling 1 2
        spelling 2 2
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield ``items``, with a bar and the time left, on standard error when that is a terminal, or in the notebook.

    Example:
        >>> list(track([1, 2], "counting"))
        [1, 2]
    """
    told = total if total is not None else _length(items)
    if watcher := _watcher.get():
        watcher(description, 0, told)
        for done, item in enumerate(items, 1):
            yield item
            watcher(description, done, told)
        return
    if not (sys.stderr.isatty() or in_notebook()) or _notes:
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=told)
        _notes.append(lambda text: bar.update(task, description=f"{description}, {text}"))
        try:
            for item in items:
                yield item
                bar.advance(task)
        finally:
            _notes.pop()


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook that can show a bar: ``ipywidgets`` is what it is sent through.

    Example:
        >>> in_notebook()
        False
    """
    shell = sys.modules.get("IPython")
    if shell is None or type(shell.get_ipython()).__name__ != "ZMQInteractiveShell":
        return False
    return importlib.util.find_spec("ipywidgets") is not None


def note(text: str) -> None:
    """Say beside the bar, where there is one, how far the present item is.

    Example:
        >>> note("step 100")
    """
    if watcher := _watcher.get():
        watcher(text, 0, None)
    elif _notes:
        _notes[-1](text)


def _length(items: Iterable[object]) -> int | None:
    return len(items) if isinstance(items, Sized) else None
