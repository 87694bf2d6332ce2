"""Computations in a thread beside the page: the latest one asked for; earlier ones are dropped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

from glassformer.core.errors import GlassformerError
from glassformer.core.progress import watch_progress
from glassformer.numerics.memory import MemoryBound

_LOG = logging.getLogger(__name__)
# Seconds between two reports of progress.
_INTERVAL = 0.2
# Of the server, which runs for days: megabytes, and growth between two checks.
_BOUND = MemoryBound(limit=550.0, growth=80.0)


class DroppedError(Exception):
    """Raised in a computation that nobody waits for any more."""


class Work:
    """One thread beside a page: the latest computation asked for; earlier ones are dropped.

    Args:
        later: calls a function in the thread of the page.
    """

    def __init__(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._later = later
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="glassformer-explore")
        self._waiting: Future[None] | None = None
        self._dropped = Event()
        self._ended = False

    def start(self, compute: Callable[[Callable[[Any], None]], Any], *calls: Callable[..., None]) -> None:
        """Compute in the thread; what was started before is dropped.

        Args:
            compute: is given a function that shows a partial result, and returns the whole one.
            calls: of a result, of an exception, of the progress in words, and at the end.
        """
        self.drop()
        if not self._ended:
            self._dropped = Event()
            self._waiting = self._threads.submit(self._run, self._dropped, compute, *calls)

    def drop(self) -> None:
        """Drop the computation: none of its results is shown."""
        self._dropped.set()
        if self._waiting is not None:
            self._waiting.cancel()

    def end(self) -> None:
        """Drop the computation, and start none any more."""
        self._ended = True
        self.drop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, dropped: Event, compute: Callable[..., Any], *calls: Callable[..., None]) -> None:
        show, fail, report, over = calls
        last_report = -_INTERVAL

        def later(function: Callable[..., None], *values: object) -> None:
            self._later(lambda: None if dropped.is_set() else function(*values))

        def watch(text: str, done: int, total: int | None) -> None:
            nonlocal last_report
            if dropped.is_set():
                raise DroppedError
            # What has just begun says less than a note on it.
            if (done or total is None) and time.monotonic() - last_report > _INTERVAL:
                last_report = time.monotonic()
                later(report, text if total is None else f"{text}: {done} of {total}")

        def partial_result(result: object) -> None:
            if dropped.is_set():
                raise DroppedError
            later(show, result)

        try:
            with watch_progress(watch):
                later(show, compute(partial_result))
        except DroppedError:
            pass
        except Exception as error:
            # When the server is stopped, the threads of a computation end before it does.
            if not isinstance(error, GlassformerError) and not dropped.is_set():
                _LOG.exception("not computed")
            later(fail, error)
        finally:
            later(over)
            _BOUND.enforce()
