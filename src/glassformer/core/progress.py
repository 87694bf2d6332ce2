"""Progress of computations: a bar on a terminal or in a notebook, lines in a log, or calls of a user's function."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")

# Seconds before a computation of unknown length shows anything. Short computations show nothing.
_PATIENCE = 0.5
# Seconds between two lines in a log (a convention).
_EVERY = 30.0
# Called with a description, the number of finished items, and the number of all items (None if unknown).
Watcher = Callable[[str, int, int | None], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_progress(watcher: Watcher) -> Iterator[None]:
    """Report progress to a function instead of the terminal. An exception that it raises stops the computation.

    Example:
        >>> with watch_progress(print):
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


@contextmanager
def plain_progress(on: bool = True) -> Iterator[None]:
    """Print a line per half minute on standard error in place of bars, also if it is a file or a pipe.

    Example:
        >>> with plain_progress():
        ...     _ = list(track("ab", "spelling"))
    """
    global _plain
    before, _plain = _plain, on
    try:
        yield
    finally:
        _plain = before


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield ``items`` and show a bar with the remaining time, on standard error if it is a terminal, or in a notebook.

    Example:
        >>> list(track([1, 2], "counting"))
        [1, 2]
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    if watcher := _watcher.get():
        watcher(description, 0, total)
        for done, item in enumerate(items, 1):
            yield item
            watcher(description, done, total)
        return
    # One bar at a time: inner loops show nothing.
    if not (_plain or sys.stderr.isatty() or in_notebook()) or any(task.counted and task.bar for task in _tasks):
        yield from items
        return
    task = _Task(description, total, counted=True)
    _tasks.append(task)
    try:
        task.open()
        for item in items:
            yield item
            task.done += 1
            task.update()
    finally:
        task.close()


@contextmanager
def progress(description: str, work: float | None = None) -> Iterator[None]:
    """Show a computation that takes longer than half a second.

    If the work is estimated, the completed share and the remaining time are shown on a terminal or in a notebook.
    :func:`advance` counts the work. The estimate grows if it was too small. Without an estimate the latest
    :func:`note` is shown on a terminal.

    Args:
        description: short name of the computation.
        work: estimated amount of work, in the units of :func:`advance`.

    Example:
        >>> with progress("thinking", 10.0):
        ...     advance(5.0)
        ...     note("step 100")
    """
    counted = work is not None
    visible = _plain or sys.stderr.isatty() or (counted and in_notebook())
    if _watcher.get() or not visible or any(task.counted == counted for task in _tasks):
        yield
        return
    task = _Task(description, work, counted, estimated=counted)
    _tasks.append(task)
    try:
        if _plain:
            task.open()
        yield
    finally:
        task.close()


def advance(work: float, ahead: float = 0.0) -> None:
    """Count completed work. ``ahead`` is the amount of remaining work that is known, see :func:`progress`.

    Example:
        >>> advance(1.0)
    """
    task = next((task for task in reversed(_tasks) if task.estimated), None)
    if task is None:
        return
    task.done += work
    # Show at least a tenth as remaining as long as the computation runs.
    task.total = max(task.total or 0.0, task.done + ahead, task.done / 0.9)
    if task.bar is None and time.monotonic() >= task.started + _PATIENCE:
        task.open()
    task.update()
    # The first part includes compilation. It is left out of the pace.
    if task.since is None:
        task.first, task.since = task.done, time.monotonic()


def note(text: str, lasting: bool = False) -> None:
    """Show a text about the present item next to the bar, if there is a bar.

    Args:
        text: replaces the last one.
        lasting: whether the text stays beside later ones, until the next lasting one.

    Example:
        >>> note("step 100")
    """
    if watcher := _watcher.get():
        watcher(text, 0, None)
        return
    if not _tasks:
        return
    waiting = not any(task.bar or task.counted for task in _tasks)
    if waiting and time.monotonic() > _tasks[-1].started + _PATIENCE:
        _tasks[-1].open()
    task = next((task for task in reversed(_tasks) if task.bar), None)
    if task is not None:
        task.remark, task.text = (text, task.text) if lasting else (task.remark, text)
        parts = [part for part in (task.description, task.text, task.remark) if part]
        task.bar.update(task.line, description=", ".join(parts))


def in_notebook() -> bool:
    """Return whether the code runs in a notebook that can show a bar. The bar needs ``ipywidgets``.

    Example:
        >>> in_notebook()
        False
    """
    shell = sys.modules.get("IPython")
    if shell is None or type(shell.get_ipython()).__name__ != "ZMQInteractiveShell":
        return False
    return importlib.util.find_spec("ipywidgets") is not None


@dataclass(eq=False)
class _Task:
    """A computation and its line in the progress display.

    Attributes:
        description: short name of the computation.
        total: number of items or amount of work. None if unknown.
        counted: whether the completed share is known.
        estimated: whether the total is an estimate of the work.
        done: number of completed items, or completed work.
        first: work done before ``since``, which is left out of the pace.
        bar: the progress display, shared by all open lines.
        line: key of the line in the display.
        text: the latest note.
        remark: the latest lasting note.
    """

    description: str
    total: float | None
    counted: bool
    estimated: bool = False
    started: float = field(default_factory=time.monotonic)
    done: float = 0.0
    first: float = 0.0
    since: float | None = None
    bar: Any = None
    line: Any = None
    text: str = ""
    remark: str = ""

    def open(self) -> None:
        """Add a line below the open lines."""
        self.bar = next((task.bar for task in _tasks if task.bar), None)
        if self.bar is None:
            self.bar = _Lines() if _plain else _bars()
            self.bar.start()
        self.line = self.bar.add_task(self.description, total=self.total, started=self.started, ends=None)

    def update(self) -> None:
        """Show the completed work and the remaining time, estimated from the pace since ``first``."""
        if self.bar is None:
            return
        now = time.monotonic()
        pace = (now - (self.started if self.since is None else self.since)) / (self.done - self.first)
        if self.total is None:
            self.bar.update(self.line, completed=self.done, ends=None)
        else:
            ends = now + (self.total - self.done) * pace
            self.bar.update(self.line, completed=self.done, ends=ends, total=self.total)

    def close(self) -> None:
        """Remove the line, and the display if it was the last line."""
        _tasks.remove(self)
        if self.bar is not None:
            self.bar.remove_task(self.line)
            if not any(task.bar for task in _tasks):
                self.bar.stop()


# Computations that are displayed, the innermost last, and whether they are displayed as lines in a log.
_tasks: list[_Task] = []
_plain = False


class _Lines:
    """The display of a log: a line about the innermost computation whose share is known, at regular times."""

    def __init__(self) -> None:
        self._tasks: dict[int, dict[str, Any]] = {}
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._print, daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def add_task(self, description: str, **fields: object) -> int:
        line = max(self._tasks, default=0) + 1
        self._tasks[line] = {"description": description, "completed": 0.0, **fields}
        return line

    def update(self, line: int, **fields: object) -> None:
        self._tasks[line] = {**self._tasks[line], **fields}

    def remove_task(self, line: int) -> None:
        del self._tasks[line]

    def _print(self) -> None:
        # A thread of its own also prints while a program is compiled.
        while not self._ended.wait(_EVERY):
            if tasks := list(self._tasks.values()):
                task = next((task for task in reversed(tasks) if task["total"]), tasks[-1])
                share = f"{task['completed'] / task['total']:.0%}, " if task["total"] else ""
                text = f"{task['description']}: {share}{times(task['started'], task['ends'])}"
                print(f"glassformer: {text}", file=sys.stderr, flush=True)


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
    from rich.text import Text

    class Clock(ProgressColumn):
        """Column of the display: time since the start and estimated remaining time."""

        def render(self, task: Task) -> Text:
            return Text(times(task.fields["started"], task.fields["ends"]), style="progress.remaining")

    columns = TextColumn("[progress.description]{task.description}"), BarColumn(), TaskProgressColumn(), Clock()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def times(started: float, ends: float | None) -> str:
    """Return a text with the time since ``started`` and, if ``ends`` is known, the time left.

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
