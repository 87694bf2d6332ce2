"""Answers to what may be asked next, computed while nobody asks anything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial

from glassformer.core.errors import GlassformerError
from glassformer.core.hashing import identity_or_none
from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.panels.curve import answered
from glassformer.explorer.question import beginning, built
from glassformer.explorer.work import Scheduler, Work

# Seconds without a question until steps are computed, and until other tabs are: that compiles for ten seconds, which
# cannot be dropped, and answers of whoever moves on take twice as long meanwhile.
IDLE, AWAY = 1.0, 20.0


class Prefetcher:
    """What one page has computed before it is asked: it is found where answers are kept, and nothing is shown of it.

    It has a thread of its own: what is compiled for one model cannot be dropped half-way, and nobody waits for it here.

    Args:
        later: has a function called in the thread of the page.
        steps: questions one key away on the slider that was moved last, if answers take long.
        first_questions: what is asked first in tabs that are not open.
    """

    def __init__(
        self, later: Scheduler, steps: Callable[[], list[Request]], first_questions: Callable[[], list[Request]]
    ) -> None:
        self._later, self._next_questions, self._first_questions = later, steps, first_questions
        self._work, self._asking, self._rest = Work(later), set[object](), object()

    def asked(self, who: object) -> None:
        """A part of the page waits for an answer: drop all else."""
        self._asking.add(who)
        self._work.drop()

    def answered(self, who: object) -> None:
        """It waits no more."""
        if who in self._asking:
            self._asking.remove(who)
            self._rest = rest = object()
            self._later(partial(self._begin, rest, self._next_questions), IDLE)

    def end(self) -> None:
        """Compute nothing more."""
        self._work.end()

    def _begin(self, rest: object, guess: Callable[[], list[Request]]) -> None:
        if rest is not self._rest or self._asking:
            return
        guesses = guess()
        if not guesses and guess == self._next_questions:
            self._later(partial(self._begin, rest, self._first_questions), AWAY - IDLE)
        elif guesses:
            self._work.start(partial(_answer, guesses), _nothing, _nothing, _nothing, _nothing)


def first_requests(names: Iterable[str]) -> list[Request]:
    """What is asked at first of models whose answers take long.

    Example:
        >>> [asked.name for asked in first_requests(["bsr", "attention"])]
        ['attention']
    """
    asked = [Request(name, built(name, beginning(name)), beginning(name)) for name in names]
    return [one for one in asked if not one.model.has_curve]


def _answer(guesses: list[Request], so_far: Callable[[Answer], None]) -> None:
    del so_far
    for asked in guesses:
        if identity_or_none(asked.model) is None:
            # Nobody could tell that the answer is there.
            continue
        # What cannot be answered is said once it is asked.
        with contextlib.suppress(GlassformerError):
            answered(asked, None)


def _nothing(*described: object) -> None:
    """Nobody asked."""
