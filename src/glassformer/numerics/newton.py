r"""Newton's method for fixed points of maps of a few numbers whose iteration oscillates or converges slowly.

Newton's method is applied to the residual :math:`F(x) - x`, with slopes from differences that Broyden's update carries
from step to step; they are measured anew after a step with little progress. A step that does not reduce the residual is
shortened, and replaced by a damped step of the map if no length helps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status

# Steps of one-sided and of central differences: rounding errors are then about as large as those of the formula.
_ONE_SIDED, _CENTRAL = 1e-6, 1e-4
# Longest step per coordinate, and the shares of a step that are tried (chosen by trial, as all that follows).
_LONGEST, _SHARES = 2.0, (1.0, 0.3, 0.1)
# Longer steps leave the region in which slopes are reliable.
_RELIABLE = 0.3
# Slopes are kept after a step that leaves at most this share of the residual.
_GAIN = 0.3
# Share of the map's own step that is taken otherwise, at first.
_DAMPED = 0.3


def newton(
    function: Callable[[Array, NDArray[np.intp]], Estimate],
    start: Array,
    settings: Iteration | None = None,
    central: bool = False,
    slopes: Array | None = None,
) -> Solution:
    """Solve ``function(x) = x`` from ``start``, shape (batch, size), each batch element on its own.

    Args:
        function: called with states of shape (active, size) and their batch indices; returns the map's value and its
            integration error, of the same shape.
        start: shape (batch, size).
        settings: ``floor`` is the absolute accuracy of every coordinate, ``tolerance`` the relative one;
            ``max_iterations`` counts evaluations of the map.
        central: measure slopes by central differences, at twice the cost. Where the map hardly contracts, rounding
            errors of one-sided differences are larger than one minus the slope.
        slopes: slopes of the residual near the start, shape (batch, size, size), NaN where they are not known; they are
            measured after steps with little progress.

    Returns:
        A :class:`~glassformer.core.solution.Solution`; never raises for lack of convergence. ``error_estimate`` is the
        largest error of a coordinate: the length of the next step, and the effect of integration errors.
        ``extra["slopes"]`` holds the last slopes.

    Example:
        >>> found = newton(lambda x, index: Estimate(np.exp(-4 * x) + 0.5, 0 * x), np.array([[1.0]]))
        >>> print(found.status[0], round(float(found.value[0, 0]), 9))
        converged 0.593214092
    """
    settings = settings or Iteration()
    x = np.array(start, dtype=float)
    batch, size = x.shape
    state = _State(function, x)
    slopes = np.full((batch, size, size), np.nan) if slopes is None else slopes.copy()
    fresh = np.asarray(np.isfinite(slopes).all(axis=(1, 2)))
    finite = np.isfinite(state.residual).all(axis=1)
    status, history = np.full(batch, Status.ITERATION_LIMIT, dtype=object), [np.linalg.norm(state.residual, axis=1)]
    status[~finite] = Status.NON_FINITE
    active = np.flatnonzero(finite)
    while active.size:
        stale = active[~fresh[active]]
        if stale.size:
            slopes[stale] = state.measured_slopes(stale, central)
        fresh[stale] = True
        step = _newton_step(slopes[active], state.residual[active])
        done = np.all(np.abs(step) <= settings.tolerance * np.abs(state.x[active]) + settings.floor, axis=1)
        status[active[done]] = Status.CONVERGED
        active, step = active[~done], step[~done]
        exhausted = state.evaluations[active] >= settings.max_iterations
        active, step = active[~exhausted], step[~exhausted]
        if not active.size:
            break
        step *= np.minimum(1.0, _LONGEST / np.abs(step).max(axis=1))[:, None]
        before, old = state.x[active].copy(), state.residual[active].copy()
        fresh[active] = state.advance(active, step, _is_repelled(slopes[active], step, old))
        moved, change = state.x[active] - before, state.residual[active] - old
        # Broyden's update: along the step slopes agree with the change of the residual.
        length = np.sum(moved**2, axis=1)[:, None, None]
        missed = change - np.einsum("nij,nj->ni", slopes[active], moved)
        slopes[active] += missed[:, :, None] * moved[:, None, :] / np.maximum(length, 1e-300)
        history.append(np.linalg.norm(state.residual, axis=1))
    shift = np.abs(_newton_step(slopes, np.abs(state.residual))) + np.abs(_newton_step(slopes, state.error))
    return Solution(
        value=state.x,
        status=list(status),
        residual=np.linalg.norm(state.residual, axis=1),
        iterations=state.evaluations,
        error_estimate=shift.max(axis=1),
        history=np.array(history),
        extra={"slopes": slopes},
    )


class _State:
    """State, residual and integration error of each batch element."""

    def __init__(self, function: Callable[..., Estimate], x: Array) -> None:
        mapped = function(x, np.arange(len(x)))
        self.function, self.x, self.residual = function, x, np.asarray(mapped.value) - x
        self.error = np.array(np.broadcast_to(mapped.error, x.shape))
        # The damping of the map's own steps changes from one to the next.
        self.evaluations, self.damping = np.ones(len(x), dtype=np.int64), np.full(len(x), _DAMPED)

    def measured_slopes(self, elements: Any, central: bool) -> Array:
        """Return derivatives of the residuals of some elements by differences, shape (some, size, size)."""
        size = self.x.shape[1]

        def residuals_beside(step: float) -> Array:
            beside = self.x[elements][:, None, :] + step * np.eye(size)
            mapped = self.function(beside.reshape(-1, size), np.repeat(elements, size))
            self.evaluations[elements] += size
            return np.asarray(np.asarray(mapped.value).reshape(beside.shape) - beside)

        if central:
            difference = (residuals_beside(_CENTRAL) - residuals_beside(-_CENTRAL)) / (2 * _CENTRAL)
        else:
            difference = (residuals_beside(_ONE_SIDED) - self.residual[elements][:, None, :]) / _ONE_SIDED
        return np.swapaxes(difference, 1, 2)

    def advance(self, elements: Any, step: Array, repelled: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Take the steps, shortened or replaced by damped steps of the map; return whether slopes may be kept."""
        before = np.linalg.norm(self.residual[elements], axis=1)
        origin, map_step = self.x[elements].copy(), self.residual[elements].copy()
        damping = self.damping[elements].copy()
        waiting, kept = np.arange(len(elements)), np.zeros(len(elements), dtype=bool)
        for share in _SHARES:
            after = self._move(elements[waiting], origin[waiting] + share * step[waiting])
            kept[waiting] = (share == 1.0) & (after <= _GAIN * before[waiting])
            waiting = waiting[~(after < before[waiting]) | repelled[waiting]]
            if not waiting.size:
                self.damping[elements] = _DAMPED
                return kept
        # Where the residual is nearly constant, steps of the map grow from one to the next.
        map_step *= np.minimum(self.damping[elements], _LONGEST / np.abs(map_step).max(axis=1))[:, None]
        finite = np.isfinite(self._move(elements[waiting], origin[waiting] + map_step[waiting]))
        self.damping[elements] = _DAMPED
        self.damping[elements[waiting]] = damping[waiting] * np.where(finite, 2.0, 0.1)
        return kept

    def _move(self, elements: Any, x: Array) -> Array:
        """Move elements to where the map is finite; return the norm of their residuals there, infinite for others."""
        mapped = self.function(x, elements)
        residual, error = np.asarray(mapped.value) - x, np.broadcast_to(mapped.error, x.shape)
        self.evaluations[elements] += 1
        size = np.linalg.norm(residual, axis=1)
        finite = np.isfinite(size)
        moved = elements[finite]
        self.x[moved], self.residual[moved], self.error[moved] = x[finite], residual[finite], error[finite]
        return np.where(finite, size, np.inf)


def _is_repelled(slopes: Array, step: Array, residual: Array) -> NDArray[np.bool_]:
    """Return which steps oppose the map and so lead to points that repel it, or to infinity.

    Near an attracting point a Newton step may oppose the map as well, if slopes are far from symmetric.
    """
    opposed = np.sum(step * residual, axis=1) <= 0
    doubtful = opposed & (np.abs(step).max(axis=1) < _RELIABLE) & np.isfinite(slopes).all(axis=(1, 2))
    opposed[doubtful] = np.linalg.eigvals(slopes[doubtful]).real.max(axis=1) >= 0
    return np.asarray(opposed)


def _newton_step(slopes: Array, residual: Array) -> Array:
    """Return Newton's steps, and those of the map where slopes are singular."""
    with np.errstate(all="ignore"):
        regular = np.isfinite(slopes).all(axis=(1, 2)) & (np.abs(np.linalg.det(slopes)) > 1e-12)
    safe = np.where(regular[:, None, None], slopes, -np.eye(residual.shape[1]))
    return np.asarray(-np.linalg.solve(safe, residual[:, :, None])[:, :, 0])
