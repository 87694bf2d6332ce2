r"""Fixed points of maps of a few numbers, where iterating the map would swing or crawl.

Newton's method on the residual :math:`F(x) - x` with differences for slopes, updated by secants (Broyden) from step to
step and taken anew where steps disappoint. A step that does not lessen the residual is shortened, and replaced by a
damped step of the map where no length helps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status


@dataclass(frozen=True)
class Newton:
    """How slopes are measured, and which steps they make."""

    step: float = 1e-6  # of differences to one side
    both: float = 1e-4  # of those to both sides, whose errors are a thousandth
    longest: float = 2.0  # step per coordinate
    shares: tuple[float, float, float] = (1.0, 0.3, 0.1)  # of a step that are tried
    near: float = 0.3  # length of steps from which on slopes tell nothing of their ends
    gain: float = 0.3  # share of the residual that a step has to leave behind for its slopes to be kept
    damped: float = 0.3  # share of the map's step that is taken otherwise


_POLICY = Newton()


def newton(
    function: Callable[[Array, NDArray[np.intp]], Estimate],
    start: Array,
    settings: Iteration | None = None,
    both: bool = False,
    slopes: Array | None = None,
) -> Solution:
    """Solve ``function(x) = x`` from ``start``, shape (batch, size), each batch element on its own.

    Args:
        function: called with states of shape (active, size) and their batch indices; returns the map's value and its
            integration error, of the same shape.
        start: shape (batch, size).
        settings: ``floor`` is the accuracy asked of every coordinate, ``tolerance`` the same relative to it;
            ``max_iterations`` counts evaluations of the map.
        both: take slopes by differences to both sides, at twice the cost: where the map hardly contracts, rounding
            errors of one-sided ones are more than what is left.
        slopes: slopes of the residual near the start, shape (batch, size, size), NaN where they are not known; where
            steps along them disappoint they are measured.

    Returns:
        A :class:`~glassformer.core.solution.Solution`; never raises for lack of convergence. ``error_estimate`` is the
        largest error of a coordinate: the length of the next step, and what integration errors shift.
        ``extra["slopes"]`` holds the last slopes.

    Example:
        >>> found = newton(lambda x, index: Estimate(np.exp(-4 * x) + 0.5, 0 * x), np.array([[1.0]]))
        >>> print(found.status[0], round(float(found.value[0, 0]), 9))
        converged 0.593214092
    """
    settings = settings or Iteration()
    x = np.array(start, dtype=float)
    batch, size = x.shape
    state = _State.at(function, x)
    slopes = np.full((batch, size, size), np.nan) if slopes is None else slopes.copy()
    fresh = np.asarray(np.isfinite(slopes).all(axis=(1, 2)))
    status, history = np.full(batch, Status.ITERATION_LIMIT, dtype=object), [np.linalg.norm(state.residual, axis=1)]
    active = np.flatnonzero(np.isfinite(state.residual).all(axis=1))
    status[~np.isfinite(state.residual).all(axis=1)] = Status.NON_FINITE
    while active.size:
        stale = active[~fresh[active]]
        slopes[stale] = state.slopes(function, stale, both)
        fresh[stale] = True
        step = _solved(slopes[active], state.residual[active])
        done = np.all(np.abs(step) <= settings.tolerance * np.abs(state.x[active]) + settings.floor, axis=1)
        status[active[done]] = Status.CONVERGED
        active, step = active[~done], step[~done]
        spent = state.evaluations[active] >= settings.max_iterations
        active, step = active[~spent], step[~spent]
        if not active.size:
            break
        step *= np.minimum(1.0, _POLICY.longest / np.abs(step).max(axis=1))[:, None]
        before, old = state.x[active].copy(), state.residual[active].copy()
        better = state.advanced(function, active, step, _against(slopes[active], step, old))
        moved, change = state.x[active] - before, state.residual[active] - old
        length = np.sum(moved**2, axis=1)[:, None, None]
        # Broyden's update: slopes along the step are those seen.
        missed = change - np.einsum("nij,nj->ni", slopes[active], moved)
        slopes[active] += missed[:, :, None] * moved[:, None, :] / np.maximum(length, 1e-300)
        fresh[active] = better
        history.append(np.linalg.norm(state.residual, axis=1))
    shift = np.abs(_solved(slopes, np.abs(state.residual))) + np.abs(_solved(slopes, state.blur))
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
    """Where each batch element is."""

    def __init__(self, x: Array, residual: Array, blur: Array) -> None:
        self.x, self.residual, self.blur = x, residual, blur
        self.evaluations, self.reach = np.ones(len(x), dtype=np.int64), np.full(len(x), _POLICY.damped)

    @classmethod
    def at(cls, function: Callable[..., Estimate], x: Array) -> _State:
        found = function(x, np.arange(len(x)))
        return cls(x, np.asarray(found.value) - x, np.array(np.broadcast_to(found.error, x.shape)))

    def slopes(self, function: Callable[..., Estimate], at: Any, both: bool) -> Array:
        """Derivatives of the residuals of some elements by differences, shape (some, size, size)."""
        size = self.x.shape[1]
        if not len(at):
            return np.zeros((0, size, size))
        if both:
            above, below = (self._beside(function, at, sign * _POLICY.both) for sign in (1, -1))
            return np.swapaxes((above - below) / (2 * _POLICY.both), 1, 2)
        return np.swapaxes(
            (self._beside(function, at, _POLICY.step) - self.residual[at][:, None, :]) / _POLICY.step, 1, 2
        )

    def _beside(self, function: Callable[..., Estimate], at: Any, step: float) -> Array:
        """Residuals one step to the side along each coordinate, shape (some, size, size)."""
        size = self.x.shape[1]
        moved = self.x[at][:, None, :] + step * np.eye(size)
        found = function(moved.reshape(-1, size), np.repeat(at, size))
        self.evaluations[at] += size
        return np.asarray(np.asarray(found.value).reshape(moved.shape) - moved)

    def advanced(
        self, function: Callable[..., Estimate], at: Any, step: Array, against: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Take the steps, shortened or replaced where they do not help or may not be; whether slopes may be kept."""
        before = np.linalg.norm(self.residual[at], axis=1)
        origin, pull, reach = self.x[at].copy(), self.residual[at].copy(), self.reach[at].copy()
        waiting, kept = np.arange(len(at)), np.zeros(len(at), dtype=bool)
        for share in _POLICY.shares:
            after = self._moved(function, at[waiting], origin[waiting] + share * step[waiting])
            kept[waiting] = (share == 1.0) & (after <= _POLICY.gain * before[waiting])
            waiting = waiting[~(after < before[waiting]) | against[waiting]]
            if not waiting.size:
                self.reach[at] = _POLICY.damped
                return kept
        # On plains, where the residual hardly changes, steps of the map grow from one to the next.
        pull *= np.minimum(self.reach[at], _POLICY.longest / np.abs(pull).max(axis=1))[:, None]
        finite = np.isfinite(self._moved(function, at[waiting], origin[waiting] + pull[waiting]))
        self.reach[at] = _POLICY.damped
        self.reach[at[waiting]] = reach[waiting] * np.where(finite, 2.0, 0.1)
        return kept

    def _moved(self, function: Callable[..., Estimate], at: Any, x: Array) -> Array:
        """Move elements to where the map is finite; the size of their residuals there, infinite for others."""
        found = function(x, at)
        residual, blur = np.asarray(found.value) - x, np.broadcast_to(found.error, x.shape)
        self.evaluations[at] += 1
        size = np.linalg.norm(residual, axis=1)
        good = np.isfinite(size)
        self.x[at[good]], self.residual[at[good]], self.blur[at[good]] = x[good], residual[good], blur[good]
        return np.where(good, size, np.inf)


def _against(slopes: Array, step: Array, pull: Array) -> NDArray[np.bool_]:
    """Steps against the map: these are the ways to points that repel it, and off to infinity.

    Next to points that attract it many a step leads against it, too, where its slopes are far from symmetric.
    """
    against = np.sum(step * pull, axis=1) <= 0
    doubtful = against & (np.abs(step).max(axis=1) < _POLICY.near) & np.isfinite(slopes).all(axis=(1, 2))
    against[doubtful] = np.linalg.eigvals(slopes[doubtful]).real.max(axis=1) >= 0
    return np.asarray(against)


def _solved(slopes: Array, residual: Array) -> Array:
    """Newton's steps; those of the map where slopes are singular."""
    size = residual.shape[1]
    with np.errstate(all="ignore"):
        regular = np.isfinite(slopes).all(axis=(1, 2)) & (np.abs(np.linalg.det(slopes)) > 1e-12)
    safe = np.where(regular[:, None, None], slopes, -np.eye(size))
    return np.asarray(-np.linalg.solve(safe, residual[:, :, None])[:, :, 0])
