"""Steps of an iteration that creep along one direction, and the sum of those to come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.core.integral import Array

# Steps in a row that follow each other, the least cosine between them that does, and how little they shrink: then the
# sum of those to come is leapt over.
_COUNT, _ALONG, _SLOW = 8, 0.9, 0.9
# Steps leapt over at once.
_FARTHEST = 200.0


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
        if cosine < _ALONG:
            return Creep(step, size, size)
        return Creep(step, size, self.first, self.count + 1)

    @property
    def ahead(self) -> float:
        """The sum of the steps to come, in units of the last one; zero where they are too few to tell, or end soon.

        Example:
            >>> round(Creep(np.ones(1), 0.99**8, 1.0, 8).ahead, 6)
            99.0
        """
        rate = (self.size / self.first) ** (1 / self.count) if self.count >= _COUNT else 0.0
        return min(rate / (1 - rate), _FARTHEST) if _SLOW <= rate < 1 else 0.0
