r"""Newton's method for fixed points of maps of a few numbers whose iteration oscillates or converges slowly.

Newton's method is applied to the residual :math:`F(x) - x`, with slopes from differences that Broyden's update carries
from step to step; they are measured anew after a step with little progress. A step that does not reduce the residual is
shortened, and replaced by a damped step of the map if no length helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.numerics.fixed_points.solve import FixedPointMap, Flags, Index, Search, StepMethod

# Steps of one-sided and of central differences: rounding errors are then about as large as those of the formula.
_ONE_SIDED, _CENTRAL = 1e-6, 1e-4
# Longest step per coordinate, and the shares of a step that are tried (chosen by trial, as all that follows).
_LONGEST, _SHARES = 2.0, (1.0, 0.3, 0.1)
# Longer steps leave the region in which slopes are reliable.
_RELIABLE = 0.3
# Slopes are kept after a step that leaves at most this share of the residual.
_GAIN = 0.5
# Share of the map's own step that is taken otherwise, at first.
_DAMPED = 0.3
# Condition number from which on slopes count as singular.
_SINGULAR = 1e12


@dataclass(frozen=True, eq=False)
class Newton(StepMethod[FixedPointMap]):
    """Newton's method for states of shape (batch, size).

    ``settings.floor`` is the absolute accuracy of every coordinate, ``settings.tolerance`` the relative one. In the
    result ``error_estimate`` is the largest error of a coordinate: the length of the next step, and the effect of
    integration errors. ``extra["slopes"]`` holds the last slopes.

    Args:
        slopes: slopes of the residual near the start, shape (batch, size, size), NaN where they are not known; they are
            measured after steps with little progress.
        central: measure slopes by central differences, at twice the cost. Where the map hardly contracts, rounding
            errors of one-sided differences are larger than one minus the slope.

    Example:
        >>> from glassformer.core.estimate import Estimate
        >>> from glassformer.numerics.fixed_points.solve import solve
        >>> found = solve(lambda x, index: Estimate(np.exp(-4 * x) + 0.5, 0 * x), np.array([[1.0]]), Newton())
        >>> print(found.status[0], round(float(found.value[0, 0]), 9))
        converged 0.593214092
    """

    slopes: Array | None = None
    central: bool = False

    def begin(self, function: FixedPointMap, start: Array, settings: Iteration) -> Search:
        return _NewtonSearch(function, start, settings, self)


class _NewtonSearch(Search):
    """State, residual, slope and integration error of each batch element."""

    def __init__(self, function: FixedPointMap, start: Array, settings: Iteration, method: Newton) -> None:
        super().__init__(start)
        batch, size = start.shape
        self.function, self.settings, self.central = function, settings, method.central
        mapped = function(start, self.active)
        self.change, self.error = np.asarray(mapped.value) - start, np.array(np.broadcast_to(mapped.error, start.shape))
        # The damping of the map's own steps changes from one to the next.
        self.damping = np.full(batch, _DAMPED)
        self.slopes = np.full((batch, size, size), np.nan) if method.slopes is None else method.slopes.copy()
        self.fresh = np.asarray(np.isfinite(self.slopes).all(axis=(1, 2)))
        self.iterations += 1
        self._record()
        finite = np.isfinite(self.change).all(axis=1)
        self.status[~finite] = Status.NON_FINITE
        self.active = np.flatnonzero(finite)

    def step(self) -> None:
        active, settings = self.active, self.settings
        stale = active[~self.fresh[active]]
        if stale.size:
            self.slopes[stale] = self._measure_slopes(stale)
        self.fresh[stale] = True
        step = _newton_step(self.slopes[active], self.change[active])
        done = np.all(np.abs(step) <= settings.tolerance * np.abs(self.value[active]) + settings.floor, axis=1)
        self.status[active[done]] = Status.CONVERGED
        keep = ~done & (self.iterations[active] < settings.max_iterations)
        self.active = active[keep]
        if self.active.size:
            self._advance(step[keep])
            self._record()

    def solution(self, **extra: Any) -> Solution:
        shift = np.abs(_newton_step(self.slopes, np.abs(self.change))) + np.abs(_newton_step(self.slopes, self.error))
        self.error_estimate = shift.max(axis=1)
        return super().solution(slopes=self.slopes, **extra)

    def _record(self) -> None:
        self.residual = np.linalg.norm(self.change, axis=1)
        self.history.append(self.residual)

    def _measure_slopes(self, elements: Index) -> Array:
        """Return derivatives of the residuals of some elements by differences, shape (some, size, size)."""
        size = self.value.shape[1]

        def residuals_beside(step: float) -> Array:
            beside = self.value[elements][:, None, :] + step * np.eye(size)
            mapped = self.function(beside.reshape(-1, size), np.repeat(elements, size))
            self.iterations[elements] += size
            return np.asarray(np.asarray(mapped.value).reshape(beside.shape) - beside)

        if self.central:
            difference = (residuals_beside(_CENTRAL) - residuals_beside(-_CENTRAL)) / (2 * _CENTRAL)
        else:
            difference = (residuals_beside(_ONE_SIDED) - self.change[elements][:, None, :]) / _ONE_SIDED
        return np.swapaxes(difference, 1, 2)

    def _advance(self, step: Array) -> None:
        """Take steps of limited length, and update slopes by their change along them, as Broyden did."""
        active = self.active
        step = step * np.minimum(1.0, _LONGEST / np.abs(step).max(axis=1))[:, None]
        before, old = self.value[active], self.change[active]
        self.fresh[active] = self._search_along(step, _is_repelled(self.slopes[active], step, old))
        moved, change = self.value[active] - before, self.change[active] - old
        length = np.sum(moved**2, axis=1)[:, None, None]
        missed = change - np.einsum("nij,nj->ni", self.slopes[active], moved)
        self.slopes[active] += missed[:, :, None] * moved[:, None, :] / np.maximum(length, 1e-300)

    def _search_along(self, step: Array, repelled: Flags) -> Flags:
        """Take the steps, shortened or replaced by damped steps of the map; return whether slopes may be kept."""
        elements = self.active
        origin, map_step = self.value[elements], self.change[elements]
        before, damping = np.linalg.norm(map_step, axis=1), self.damping[elements]
        waiting, kept = np.arange(len(elements)), np.zeros(len(elements), dtype=bool)
        for share in _SHARES:
            after = self._move(elements[waiting], origin[waiting] + share * step[waiting])
            kept[waiting] = (share == 1.0) & (after <= _GAIN * before[waiting])
            waiting = waiting[~(after < before[waiting]) | repelled[waiting]]
            if not waiting.size:
                self.damping[elements] = _DAMPED
                return kept
        # Where the residual is nearly constant, steps of the map grow from one to the next.
        map_step *= np.minimum(damping, _LONGEST / np.abs(map_step).max(axis=1))[:, None]
        finite = np.isfinite(self._move(elements[waiting], origin[waiting] + map_step[waiting]))
        self.damping[elements] = _DAMPED
        self.damping[elements[waiting]] = damping[waiting] * np.where(finite, 2.0, 0.1)
        return kept

    def _move(self, elements: Index, x: Array) -> Array:
        """Move elements to where the map is finite; return the norm of their residuals there, infinite for others."""
        mapped = self.function(x, elements)
        change, error = np.asarray(mapped.value) - x, np.broadcast_to(mapped.error, x.shape)
        self.iterations[elements] += 1
        size = np.linalg.norm(change, axis=1)
        finite = np.isfinite(size)
        moved = elements[finite]
        self.value[moved], self.change[moved], self.error[moved] = x[finite], change[finite], error[finite]
        return np.where(finite, size, np.inf)


def _is_repelled(slopes: Array, step: Array, residual: Array) -> Flags:
    """Return which steps oppose the map and so lead to points that repel it, or to infinity.

    Near an attracting point a Newton step may oppose the map as well, if slopes are far from symmetric.
    """
    opposed = np.sum(step * residual, axis=1) <= 0
    doubtful = opposed & (np.abs(step).max(axis=1) < _RELIABLE) & np.isfinite(slopes).all(axis=(1, 2))
    opposed[doubtful] = np.linalg.eigvals(slopes[doubtful]).real.max(axis=1) >= 0
    return np.asarray(opposed)


def _newton_step(slopes: Array, residual: Array) -> Array:
    """Return Newton's steps, and those of the map where slopes are singular."""
    regular: Flags = np.all(np.isfinite(slopes), axis=(1, 2))
    regular[regular] = np.linalg.cond(slopes[regular]) < _SINGULAR
    safe = np.where(regular[:, None, None], slopes, -np.eye(residual.shape[1]))
    return np.asarray(-np.linalg.solve(safe, residual[:, :, None])[:, :, 0])
