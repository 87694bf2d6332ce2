"""Steps of an iteration that creep along one direction, and the sum of those to come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.core.estimate import Array


@dataclass(frozen=True)
class AitkenStep:
    """When steps follow each other so long that the sum of those to come is leapt over."""

    count: int = 8  # steps in a row that do
    along: float = 0.9  # least cosine between two that do
    slow: float = 0.9  # rate at which they shrink from which on they creep
    farthest: float = 200.0  # steps leapt over at once


_POLICY = AitkenStep()


@dataclass(frozen=True)
class Creep:
    """Steps that follow each other in one direction, each a little shorter than the last.

    They go along what labels tell little of, such as the scale of a signal of which only comparisons are seen: the
    prior alone pulls it to its place, slowly. A geometric series of steps has a known end.

    Attributes:
        step: the last of them.
        size: its length.
        first: length of the first.
        count: how many they are.
    """

    step: Array
    size: float
    first: float
    count: int = 0

    def then(self, step: Array, size: float) -> Creep:
        """With one more step, or a new beginning."""
        lengths = float(np.linalg.norm(step)) * float(np.linalg.norm(self.step))
        cosine = float(np.vdot(step, self.step)) / max(lengths, 1e-300)
        if cosine < _POLICY.along:
            return Creep(step, size, size)
        return Creep(step, size, self.first, self.count + 1)

    @property
    def ahead(self) -> float:
        """The sum of the steps to come, in units of the last one; zero where they are too few to tell, or end soon.

        Example:
            >>> round(Creep(np.ones(1), 0.99**8, 1.0, 8).ahead, 6)
            99.0
        """
        rate = (self.size / self.first) ** (1 / self.count) if self.count >= _POLICY.count else 0.0
        return min(rate / (1 - rate), _POLICY.farthest) if _POLICY.slow <= rate < 1 else 0.0
