"""A progress bar on the terminal and in notebooks, whoever watches in its place, and nothing elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

# Before a computation of unknown length says anything, in seconds: short ones need not.
_PATIENCE = 0.5
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
    if not (sys.stderr.isatty() or in_notebook()) or any(line.counted for line in _lines):
        yield from items
        return
    with _line(description, told, counted=True) as line:
        for item in items:
            yield item
            line.bar.advance(line.task)


@contextmanager
def busy(description: str) -> Iterator[None]:
    """On a terminal, show what is computed here, of a length that nobody knows, once it takes long and notes something.

    Example:
        >>> with busy("thinking"):
        ...     note("step 100")
    """
    if _watcher.get() or not sys.stderr.isatty() or _waiting:
        yield
        return
    with ExitStack() as opened:
        _waiting.append(_Waiting(description, time.monotonic() + _PATIENCE, opened))
        try:
            yield
        finally:
            _waiting.pop()


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
        return
    if not _lines and _waiting and time.monotonic() > _waiting[-1].until:
        _waiting[-1].opened.enter_context(_line(_waiting[-1].description, None, counted=False))
    if _lines:
        line = _lines[-1]
        line.bar.update(line.task, description=f"{line.description}, {text}")


class _Line(NamedTuple):
    """One line of the bars on the terminal."""

    bar: Any
    task: Any
    description: str
    counted: bool


class _Waiting(NamedTuple):
    """A computation that has said nothing yet, until when it need not, and what closes its line."""

    description: str
    until: float
    opened: ExitStack


_lines: list[_Line] = []
_waiting: list[_Waiting] = []


@contextmanager
def _line(description: str, total: int | None, counted: bool) -> Iterator[_Line]:
    """A line of its own, below those that are there."""
    with nullcontext(_lines[-1].bar) if _lines else _bar() as bar:
        line = _Line(bar, bar.add_task(description, total=total), description, counted)
        _lines.append(line)
        try:
            yield line
        finally:
            _lines.pop()
            bar.remove_task(line.task)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True)


def _length(items: Iterable[object]) -> int | None:
    return len(items) if isinstance(items, Sized) else None
