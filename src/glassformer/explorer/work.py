"""Computations beside the page: one at a time, the last one asked for; what was asked before is dropped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any, Protocol

from glassformer.core.errors import GlassformerError
from glassformer.core.progress import watch_progress
from glassformer.numerics.memory import MemoryBound

_LOG = logging.getLogger(__name__)
# Seconds until a wait is worth a word, and between two words of how far it is.
PATIENCE, _EVERY = 0.6, 0.2
# Of the server, which answers many people for days.
_BOUND = MemoryBound(limit=550.0, growth=80.0)


class Scheduler(Protocol):
    """Has a function called in the thread of a page, at once or, asked in that thread, after some seconds."""

    def __call__(self, function: Callable[[], None], seconds: float = 0.0) -> None: ...


class DroppedError(Exception):
    """A computation that nobody waits for any more."""


class Work:
    """What one part of one page has computed.

    Args:
        later: has a function called in the thread of the page.
    """

    def __init__(self, later: Scheduler) -> None:
        self._later = later
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="glassformer-explore")
        self._waiting: Future[None] | None = None
        self._dropped = Event()
        self._ended = False

    def start(
        self,
        compute: Callable[[Callable[[Any], None]], Any],
        show: Callable[[Any], None],
        fail: Callable[[Exception], None],
        tell: Callable[[str], None],
        over: Callable[[], None],
    ) -> None:
        """Compute in a thread.

        Args:
            compute: is given a function that shows what there is so far, and returns the rest.
            show: what was computed.
            fail: with what was raised.
            tell: how far it is, in words.
            over: when it has ended, whether dropped or not.
        """
        self.drop()
        if self._ended:
            # The last move of somebody who has left.
            return
        self._dropped = dropped = Event()
        self._waiting = self._threads.submit(self._run, dropped, compute, show, fail, tell, over)

    def drop(self) -> None:
        """Wait for nothing any more."""
        self._dropped.set()
        if self._waiting is not None:
            self._waiting.cancel()

    def end(self) -> None:
        """Drop what there is, and take nothing on any more."""
        self._ended = True
        self.drop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, dropped: Event, compute: Any, show: Any, fail: Any, tell: Any, over: Any) -> None:
        last_word = time.monotonic() + PATIENCE - _EVERY

        def unless_dropped(function: Callable[..., None], *given: Any) -> None:
            if not dropped.is_set():
                function(*given)

        def later(function: Callable[..., None], *given: Any) -> None:
            self._later(partial(unless_dropped, function, *given))

        def watch(text: str, done: int, total: int | None) -> None:
            nonlocal last_word
            if dropped.is_set():
                raise DroppedError
            if time.monotonic() - last_word > _EVERY:
                last_word = time.monotonic()
                later(tell, text if total is None else f"{text}: {done} of {total}")

        def so_far(answer: Any) -> None:
            watch("computing", 0, None)
            later(show, answer)

        try:
            with watch_progress(watch):
                found = compute(so_far)
            later(show, found)
            later(tell, "")
        except DroppedError:
            pass
        except GlassformerError as error:
            later(fail, error)
        except Exception as error:
            if dropped.is_set():
                # Threads of its own end before it does when the server is stopped.
                return
            # A page outlives a mistake of the library; whoever runs it reads of it in the log.
            _LOG.exception("not computed")
            later(fail, error)
        finally:
            later(over)
            _BOUND.enforce()
