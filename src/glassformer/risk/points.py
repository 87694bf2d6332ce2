"""Fixed points of regularised risk at several sample ratios, and how batches of them are put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.core.solution import Status
from glassformer.risk.labels import Answers
from glassformer.risk.penalties import Fields, Learned
from glassformer.risk.problem import Problem

# An error that is none.
_NOTHING = 1e-8


class Point(NamedTuple):
    """Fixed points, arrays of shape (batch,).

    Attributes:
        strength: of the penalty.
        fields: conjugate parameters.
        found: what is learned.
        answer: of the labels.
        status: how the iteration ended.
        residual: of the map of the logarithms of fields.
        iterations: evaluations of the map.
        error_estimate: absolute, of the error.
        slopes: of the residual of that map, shape (batch, 3, 3); NaN where no map was iterated.
    """

    strength: Array
    fields: Fields
    found: Learned
    answer: Answers
    status: list[Status]
    residual: Array
    iterations: NDArray[np.int64]
    error_estimate: Array
    slopes: Array

    @classmethod
    def known(cls, problem: Problem, alpha: Array, strength: Array, error: Array) -> Point:
        """Fixed points of an error known beforehand: that of nothing learned, or of all."""
        none, recovered = np.zeros_like(alpha), error == 0
        power = np.where(recovered, problem.power, 0.0)
        rank = np.where(recovered, problem.model.prior.rank, 0.0)
        degrees = np.where(recovered, 1.0 if problem.penalty.spectral == 0 else np.nan, 0.0)
        found = Learned(power, power, none, error, degrees, rank, none)
        answer = problem.labels.answers(found)
        status: list[Status] = [Status.CONVERGED] * len(alpha)
        count = np.zeros(len(alpha), dtype=np.int64)
        fields, slopes = problem.fields(alpha, answer), np.full((len(alpha), 3, 3), np.nan)
        return cls(strength, fields, found, answer, status, none, count, none, slopes)

    @property
    def told(self) -> list[Status]:
        """How each ended; where the error is not known to its own size, averages have not converged."""
        rough = self.error_estimate > self.found.error + _NOTHING
        lost = Status.INTEGRATION_NOT_CONVERGED
        return [lost if status.ok and bad else status for status, bad in zip(self.status, rough, strict=True)]

    @property
    def logarithms(self) -> Array:
        """Of the fields, shape (batch, 3)."""
        return np.log(np.stack(self.fields, axis=1))

    def at(self, rows: Any) -> Point:
        """Some of them."""

        def taken(part: Any) -> Any:
            return part[rows]

        return Point(
            self.strength[rows],
            Fields(*map(taken, self.fields)),
            Learned(*map(taken, self.found)),
            Answers(*map(taken, self.answer)),
            list(np.array(self.status, dtype=object)[rows]),
            self.residual[rows],
            self.iterations[rows],
            self.error_estimate[rows],
            self.slopes[rows],
        )

    @classmethod
    def joined(cls, chosen: Any, first: Point, second: Point) -> Point:
        """The first where chosen, the second elsewhere."""

        def laid(one: Any, other: Any) -> Any:
            both = np.empty((len(chosen), *one.shape[1:]), dtype=one.dtype)
            both[chosen], both[~chosen] = one, other
            return both

        return cls(
            laid(first.strength, second.strength),
            Fields(*map(laid, first.fields, second.fields)),
            Learned(*map(laid, first.found, second.found)),
            Answers(*map(laid, first.answer, second.answer)),
            list(laid(np.array(first.status, dtype=object), np.array(second.status, dtype=object))),
            laid(first.residual, second.residual),
            laid(first.iterations, second.iterations),
            laid(first.error_estimate, second.error_estimate),
            laid(first.slopes, second.slopes),
        )
