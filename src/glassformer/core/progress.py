"""A progress bar on the terminal and in notebooks, whoever watches in its place, and nothing elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
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
        for done, item in enumerate(items, 1):
            yield item
            line.advance(done, told)


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


@contextmanager
def expected(description: str, work: float) -> Iterator[None]:
    """On a terminal or in a notebook, show the share of an estimated amount of work that is done, and the time left.

    :func:`advance` counts the work done. The estimate grows where it proves too small.

    Example:
        >>> with expected("thinking", 10.0):
        ...     advance(5.0)
    """
    if _watcher.get() or not (sys.stderr.isatty() or in_notebook()) or _works or any(line.counted for line in _lines):
        yield
        return
    with ExitStack() as opened:
        _works.append(_Work(description, float(work), time.monotonic(), opened))
        try:
            yield
        finally:
            _works.pop()


def advance(work: float, ahead: float = 0.0) -> None:
    """Count work that is done, of what is :func:`expected`, and tell how much more is known to be ahead.

    Example:
        >>> advance(1.0)
    """
    if _works:
        _works[-1].advance(work, ahead)


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
    if not _lines and not _works and _waiting and time.monotonic() > _waiting[-1].until:
        _waiting[-1].opened.enter_context(_line(_waiting[-1].description, None, counted=False))
    if _lines:
        line = _lines[-1]
        line.bar.update(line.task, description=f"{line.description}, {text}")


class _Line(NamedTuple):
    """One line of the bars on the terminal, and when what it shows began."""

    bar: Any
    task: Any
    description: str
    counted: bool
    started: float

    def advance(self, done: float, total: float | None, first: float = 0.0, since: float | None = None) -> None:
        """Show how much is done, and estimate the time left from the pace of all that was done after ``first``."""
        now = time.monotonic()
        pace = (now - (self.started if since is None else since)) / (done - first)
        ends = None if total is None else now + (total - done) * pace
        self.bar.update(self.task, completed=done, ends=ends, **({} if total is None else {"total": total}))


@dataclass(eq=False)
class _Work:
    """A computation of an estimated length, how much of it is done, and its line once it takes long."""

    description: str
    total: float
    started: float
    opened: ExitStack
    done: float = 0.0
    first: float = 0.0
    since: float | None = None
    line: _Line | None = None

    def advance(self, work: float, ahead: float) -> None:
        """Count work, and show it."""
        self.done += work
        # What is not over is not done: there is at least a tenth of it left.
        self.total = max(self.total, self.done + ahead, self.done / 0.9)
        if self.line is None and time.monotonic() >= self.started + _PATIENCE:
            opened = _line(self.description, self.total, counted=True, started=self.started)
            self.line = self.opened.enter_context(opened)
        if self.line is not None:
            self.line.advance(self.done, self.total, self.first, self.since)
        # The first part compiles: it tells the pace of the others until the second one does.
        if self.since is None:
            self.first, self.since = self.done, time.monotonic()


class _Waiting(NamedTuple):
    """A computation that has said nothing yet, until when it need not, and what closes its line."""

    description: str
    until: float
    opened: ExitStack


_lines: list[_Line] = []
_works: list[_Work] = []
_waiting: list[_Waiting] = []


@contextmanager
def _line(description: str, total: float | None, counted: bool, started: float | None = None) -> Iterator[_Line]:
    """A line of its own, below those that are there."""
    started = time.monotonic() if started is None else started
    with nullcontext(_lines[-1].bar) if _lines else _bar() as bar:
        line = _Line(
            bar, bar.add_task(description, total=total, started=started, ends=None), description, counted, started
        )
        _lines.append(line)
        try:
            yield line
        finally:
            _lines.pop()
            bar.remove_task(line.task)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn
    from rich.text import Text

    class Clock(ProgressColumn):
        """Time that has passed, and the time that is left at the pace so far."""

        def render(self, task: Any) -> Text:
            return Text(times(task.fields["started"], task.fields["ends"]), style="progress.remaining")

    columns = TextColumn("[progress.description]{task.description}"), BarColumn(), TaskProgressColumn(), Clock()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def times(started: float, ends: float | None) -> str:
    """Return the time since ``started``, and the time left until ``ends`` where that is known.

    Example:
        >>> times(time.monotonic() - 30.0, time.monotonic() + 90.0)
        '0:00:30, about 0:01:30 left'
        >>> times(time.monotonic() - 30.0, None)
        '0:00:30'
    """
    now = time.monotonic()
    return _clock(now - started) + ("" if ends is None else f", about {_clock(max(ends - now, 0.0))} left")


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _length(items: Iterable[object]) -> int | None:
    return len(items) if isinstance(items, Sized) else None
