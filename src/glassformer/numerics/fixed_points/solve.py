r"""The solver of fixed points: one loop for a batch of independent problems, and any method.

A method is an object with its own parameters, for example :class:`~.accelerated.Accelerated` or
:class:`~.newton.Newton`. Most methods begin a :class:`Search`, whose steps advance the elements of the batch that have
not ended; others combine searches. The residual is always the undamped :math:`F(x) - x`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import note
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status

Flags = NDArray[np.bool_]
Index = NDArray[np.intp]
FixedPointMap: TypeAlias = Callable[[Array, Index], Estimate]
"""Called with states of shape ``(active, ...)`` and their batch indices; returns the map's value and its integration
error, of the same shape."""
Map = TypeVar("Map", bound=FixedPointMap)


class Search(ABC):
    """The state of a search, for each element of a batch.

    Attributes:
        value: states, shape ``(batch, ...)``.
        active: indices of the elements that have not ended.
        status: of every element; :attr:`Status.ITERATION_LIMIT` until a step finds another one.
        residual: undamped residual at ``value``, shape ``(batch,)``.
        iterations: evaluations of the map, shape ``(batch,)``.
        error_estimate: error of ``value``, shape ``(batch,)``.
        history: residual after each step, a list of arrays of shape ``(batch,)``.
    """

    def __init__(self, start: Array) -> None:
        batch = len(start)
        self.value = start
        self.active: Index = np.arange(batch)
        self.status = np.full(batch, Status.ITERATION_LIMIT, dtype=object)
        self.residual, self.error_estimate = np.full(batch, np.nan), np.full(batch, np.inf)
        self.iterations = np.zeros(batch, dtype=np.int64)
        self.history: list[Array] = []

    @abstractmethod
    def step(self) -> None:
        """Advance the active elements, and leave in ``active`` those that have not ended."""

    def solution(self, **extra: Any) -> Solution:
        """Return the result of the search."""
        return Solution(
            value=self.value,
            status=list(self.status),
            residual=self.residual,
            iterations=self.iterations,
            error_estimate=self.error_estimate,
            history=np.array(self.history),
            extra=extra,
        )


class Method(ABC, Generic[Map]):
    """A way to fixed points of maps of one kind: a frozen dataclass of its parameters."""

    @abstractmethod
    def solve(self, function: Map, start: Array, settings: Iteration) -> Solution:
        """Return the fixed points that are reached from ``start``, an array that is not changed."""


class StepMethod(Method[Map]):
    """A method that advances a :class:`Search` step by step."""

    @abstractmethod
    def begin(self, function: Map, start: Array, settings: Iteration) -> Search:
        """Return a search from ``start``, a copy that it may change."""

    def solve(self, function: Map, start: Array, settings: Iteration) -> Solution:
        search = self.begin(function, np.array(start, dtype=float, order="C"), settings)
        steps = 0
        while search.active.size:
            search.step()
            steps += 1
            if search.active.size:
                note(f"step {steps}, {search.active.size} of {len(start)} fixed points not converged")
        return search.solution()


def solve(function: Map, start: Array, method: Method[Map], settings: Iteration | None = None) -> Solution:
    """Return the fixed points of a map that a method reaches from ``start``, for each batch element on its own.

    Args:
        function: the map, called with the states still active and their batch indices.
        start: shape ``(batch, ...)``.
        method: the way to the fixed points.
        settings: tolerances and the largest number of evaluations.

    Returns:
        A :class:`~glassformer.core.solution.Solution`. Elements that do not converge have a status that says why;
        nothing is raised.

    Example:
        >>> from glassformer.numerics.fixed_points.accelerated import Accelerated
        >>> found = solve(lambda x, index: Estimate(np.cos(x), 0 * x), np.array([1.0]), Accelerated())
        >>> print(found.status[0], round(float(found.value[0]), 9))
        converged 0.739085133
    """
    return method.solve(function, start, settings or Iteration())
