"""Where fixed points of sampled maps are.

Few points tell, by an iteration that stops at the first one
(:func:`~glassformer.state_evolution.fixed_point.fixed_point`). A fixed point at which a direction of symmetry breaking
grows is left along it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.state_evolution.evolution_map import EvolutionMap
from glassformer.state_evolution.fixed_point import Flags, Index, fixed_point
from glassformer.state_evolution.neighbours import Round, started
from glassformer.state_evolution.sampled_search import POLICY, is_covariance


def located(
    rough: EvolutionMap,
    start: Array,
    settings: Iteration,
    sloped: EvolutionMap | None = None,
    rounds: Sequence[Round] | None = None,
    beside: Solution | None = None,
) -> Solution:
    """The first stable fixed points from ``start``, of shape (batch, P, P), to the accuracy that few points have.

    Args:
        rough: the map with few points.
        start: covariances.
        settings: tolerance of the residual relative to ``V``, and iteration limit.
        sloped: the map whose slopes tell what is stable; the same by default.
        rounds: the order of elements, each with an earlier one whose fixed point it may start from; all at once by
            default.
        beside: those found already from elsewhere, whose slopes are taken where they are found again.

    Returns:
        :class:`Solution`; ``extra["slope"]`` is the slope of that map there, on flattened covariances, and
        ``extra["unstable"]`` tells where all pushes have led to points that are left as well.
    """
    everything = np.arange(len(start))

    def solve(state: Array, index: Index) -> Solution:
        found = _iterated(rough, state, index, settings)
        if beside is None:
            slope = _slope(sloped or rough, found.value, index)
        else:
            again = beside.at(index)
            new = _moved(found.value, again.value, settings)
            slope = again.extra["slope"]
            slope[new] = _slope(sloped or rough, found.value[new], index[new])
        return replace(found, extra={**found.extra, "slope": slope})

    first, *others = rounds or [Round(everything, everything[:0], 1.0)]
    some = _stable(solve, start[first.places], first.places, settings)
    whole = some.at(np.zeros(len(start), dtype=int)) if others else some
    for index, near, side in others:
        before = whole.at(near)
        usable = _stopped(before)[:, None, None]
        state = np.where(usable, started(start[index], before.value, side), start[index])
        whole = whole.merge_where(index, _stable(solve, state, index, settings))
    return whole


def _iterated(update: EvolutionMap, start: Array, index: Index, settings: Iteration) -> Solution:
    """The first fixed points, by plain iteration."""
    settings = replace(settings, tolerance=max(settings.tolerance, POLICY.roughly))
    kept = np.full((2, len(update.alpha), *start.shape[1:]), np.nan)
    found = fixed_point(
        lambda value, active: update(value, index[active], kept), start, settings, is_covariance, noise=POLICY.settled
    )
    return replace(found, extra={"q_hat": kept[0, index], "q_hat_error": kept[1, index]})


def _slope(update: EvolutionMap, states: Array, index: Index) -> Array:
    """Slopes of the map, zero where nothing was found."""
    size = states.shape[-1] ** 2
    slope = np.zeros((len(index), size, size))
    usable = np.flatnonzero(is_covariance(states)) if len(states) else index
    if usable.size:
        slope[usable] = update.slope(states[usable], index[usable])
    return np.where(np.isfinite(slope).all(axis=(1, 2), keepdims=True), slope, 0.0)


def _moved(here: Array, there: Array, settings: Iteration) -> Flags:
    """Which states, located twice, are not the same."""
    tolerance = POLICY.back * max(settings.tolerance, POLICY.roughly)
    far: Flags = np.linalg.norm(here - there, axis=(1, 2)) > tolerance * np.linalg.norm(here, axis=(1, 2))
    return far


def _stable(solve: Callable[[Array, Index], Solution], start: Array, index: Index, settings: Iteration) -> Solution:
    """Solutions from ``start``; those at unstable points are pushed off them, towards more knowledge.

    A state that moves slowly away from an unstable point looks like a fixed point, and one that keeps a symmetry never
    leaves it: a slope with an eigenvalue above one gives both away.
    """
    solution = solve(start, index)
    size = start.shape[-1]
    todo = np.flatnonzero(_stopped(solution))
    for _ in range(POLICY.pushes):
        values, vectors = np.linalg.eig(solution.extra["slope"][todo])
        leading, unstable = np.argmax(values.real, axis=1), repelling(solution.extra["slope"][todo])
        direction = np.take_along_axis(vectors.real, leading[:, None, None], axis=2)[unstable, :, 0]
        todo = todo[unstable]
        if todo.size == 0:
            break
        pushed = _pushed(solution.value[todo], direction.reshape(-1, size, size))
        again = solve(pushed, index[todo])
        again = replace(again, iterations=again.iterations + solution.iterations[todo])
        # A point that a push leads back to is stable.
        moved = _moved(again.value, solution.value[todo], settings)
        solution = solution.merge_where(todo[moved], again.at(moved))
        todo = todo[moved & _stopped(again)]
    unstable = np.zeros(len(start), dtype=bool)
    unstable[todo] = repelling(solution.extra["slope"][todo])
    return replace(solution, extra={**solution.extra, "unstable": unstable})


def repelling(slope: Array) -> Flags:
    """Where a slope of the map has an eigenvalue that leads away from its fixed point.

    Example:
        >>> repelling(np.array([[[0.5]], [[1.5]]])).tolist()
        [False, True]
    """
    return np.asarray(np.linalg.eigvals(slope).real.max(axis=1, initial=0.0) > POLICY.unstable)


def _stopped(solution: Solution) -> Flags:
    """Whether there is a fixed point, be it one that so few points blur."""
    return np.array([status in (Status.CONVERGED, Status.INTEGRATION_NOT_CONVERGED) for status in solution.status])


def _pushed(value: Array, direction: Array) -> Array:
    """States moved by a little along unit directions, towards more knowledge."""
    more = np.trace(direction, axis1=1, axis2=2) < 0
    step = POLICY.push * np.where(more, 1.0, -1.0)[:, None, None] * 0.5 * (direction + np.swapaxes(direction, 1, 2))
    moved = value + step
    bad = ~is_covariance(moved)
    moved[bad] = (1 - POLICY.push) * value[bad]
    return moved
