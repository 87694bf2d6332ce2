r"""Fixed points of maps whose averages are sampled.

Averages use the same points at every step, so the map is a function and has fixed points. They are located with few
points, by an iteration that stops at the first one (:func:`~glassformer.theory.fixed_point.fixed_point`); from there
Newton steps with the slope of the rough map, corrected by the values of the full one, replace the many steps of an
iteration with all points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np

from glassformer.core.integral import Array, Integral
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.theory.evolution_map import EvolutionMap
from glassformer.theory.fixed_point import Flags, Index, fixed_point


@dataclass(frozen=True)
class Search:
    """How fixed points of sampled maps are looked for, and when they are believed."""

    roughly: float = 5e-4  # how well fixed points are located with few points
    rounds: int = 30  # corrections by all points
    unstable: float = 1.005  # eigenvalue of the slope above which a point is left
    push: float = 0.03  # length of the push that leaves it
    pushes: int = 6  # how often at most
    back: float = 3.0  # tolerances within which a push has led back to where it began
    distant: float = 20.0  # distance to the fixed point, in tolerances of the residual, that may be left
    meaningless: float = 0.2  # error of a covariance, in units of the prior's, from which on it says nothing
    longest: float = 0.2  # Newton steps longer than this share of the covariance are not believed
    step: float = 0.02  # relative steps of the differences that make the slope of the map
    none: float = 1e-12  # variance of a row that counts as none
    above: float = 0.05  # eigenvalues of covariances may exceed those of the prior by this much


_POLICY = Search()


Map = Callable[[Array, Index], Integral]


def located(rough: Map, start: Array, settings: Iteration) -> Solution:
    """The first stable fixed points from ``start``, to the accuracy that few points have."""
    return _located(rough, start, settings)[0]


def refined(rough: Map, fine: EvolutionMap, start: Array, settings: Iteration) -> Solution:
    r"""The first stable fixed points of ``fine`` from ``start``, of shape (batch, P, P).

    Args:
        rough: the map with few points.
        fine: the map with all points.
        start: covariances.
        settings: tolerance of the residual relative to ``V``, and iteration limit.

    Returns:
        :class:`Solution`; ``extra["q_hat"]`` is :math:`\hat Q` there, ``extra["q_hat_error"]`` its standard error. The
        error estimate is what residual and standard error amount to at the fixed point.
    """
    found, slope = _located(rough, start, settings)
    size, batch = start.shape[-1], len(start)
    value, residual, estimate = found.value.copy(), found.residual.copy(), found.error_estimate.copy()
    spent, kept = found.iterations.copy(), np.full((2, *start.shape), np.nan)
    gain = np.asarray(np.linalg.inv(np.eye(size * size) - slope), dtype=float)
    flat = value.reshape(batch, -1)
    last = np.full((2, *flat.shape), np.nan)
    index = np.flatnonzero(found.settled)
    for _ in range(_POLICY.rounds):
        if index.size == 0:
            break
        mapped = fine(value[index], index, kept)
        gap = (mapped.value - value[index]).reshape(len(index), -1)
        gain[index] = _corrected(gain[index], flat[index] - last[0, index], gap - last[1, index])
        last[:, index] = flat[index], gap
        step = np.einsum("nij,nj->ni", gain[index], gap)
        blur = np.einsum("nij,nj->ni", gain[index], mapped.error.reshape(len(index), -1))
        norm, length = np.linalg.norm(flat[index], axis=1), np.linalg.norm(step, axis=1)
        residual[index] = np.linalg.norm(gap, axis=1)
        estimate[index] = length + np.linalg.norm(blur, axis=1)
        # Where convergence is slow a small residual is no small distance.
        near = length <= _POLICY.distant * settings.tolerance * norm + settings.floor
        moving = ~(near & (residual[index] <= settings.tolerance * norm + settings.floor))
        # A step that leaves the cone, or is very long, is not believed: the map itself leads on.
        moved = (flat[index] + step).reshape(mapped.value.shape)
        bad = ~is_covariance(moved) | (length > _POLICY.longest * norm)
        moved[bad] = mapped.value[bad]
        spent[index] += 1
        index = index[moving]
        value[index] = moved[moving]
    status = np.array(found.status, dtype=object)
    status[found.settled & (estimate > _POLICY.meaningless)] = Status.INTEGRATION_NOT_CONVERGED
    status[index] = Status.ITERATION_LIMIT
    # Those that were not located have been through no round.
    lost = np.flatnonzero(~found.settled & is_covariance(value))
    if lost.size:
        kept[:, lost] = fine.conjugate(value[lost], lost)
    return replace(
        found,
        value=value,
        status=status.tolist(),
        residual=residual,
        error_estimate=estimate,
        iterations=spent,
        extra={"q_hat": kept[0], "q_hat_error": kept[1]},
    )


def _located(update: Map, start: Array, settings: Iteration) -> tuple[Solution, Array]:
    """The first stable fixed points from ``start``, and the slope of the map there.

    A state that moves slowly away from an unstable point looks like a fixed point; its slope, with an eigenvalue above
    one, gives it away, and it is pushed along that direction.
    """
    settings = replace(settings, tolerance=max(settings.tolerance, _POLICY.roughly))
    solution = fixed_point(update, start, settings, is_covariance)
    size = start.shape[-1]
    slope = np.zeros((len(start), size * size, size * size))
    todo = np.flatnonzero(solution.settled)
    for _ in range(_POLICY.pushes):
        if todo.size == 0:
            break
        slope[todo] = _slope(update, solution.value[todo], todo)
        values, vectors = np.linalg.eig(slope[todo])
        leading = np.argmax(values.real, axis=1)
        unstable = np.take_along_axis(values.real, leading[:, None], axis=1)[:, 0] > _POLICY.unstable
        direction = np.take_along_axis(vectors.real, leading[:, None, None], axis=2)[unstable, :, 0]
        todo = todo[unstable]
        if todo.size == 0:
            break
        pushed = _pushed(solution.value[todo], direction.reshape(-1, size, size))
        again = fixed_point(_restricted(update, todo), pushed, settings, is_covariance)
        again = replace(again, iterations=again.iterations + solution.iterations[todo])
        # A point that a push leads back to is stable, and its slope, as rough as the map, of no use.
        near = _POLICY.back * settings.tolerance * np.linalg.norm(pushed, axis=(1, 2))
        back = np.linalg.norm(again.value - solution.value[todo], axis=(1, 2)) <= near
        slope[todo[back]] = 0.0
        solution = solution.overlaid(todo, again)
        todo = todo[~back & again.settled]
    return solution, slope


def _restricted(update: Map, where: Index) -> Map:
    """The map for the elements ``where`` of its batch."""
    return lambda value, index: update(value, where[index])


def _pushed(value: Array, direction: Array) -> Array:
    """States moved by a little along unit directions, towards more knowledge."""
    more = np.trace(direction, axis1=1, axis2=2) < 0
    step = _POLICY.push * np.where(more, 1.0, -1.0)[:, None, None] * 0.5 * (direction + np.swapaxes(direction, 1, 2))
    moved = value + step
    bad = ~is_covariance(moved)
    moved[bad] = (1 - _POLICY.push) * value[bad]
    return moved


def _slope(update: Map, value: Array, index: Index) -> Array:
    """Slope of the map on flattened covariances, shape (n, P^2, P^2), by differences towards more knowledge.

    Entries off the diagonal are reached by moving two rows together, so that no state leaves the cone.
    """
    batch, size = len(value), value.shape[-1]
    pairs = list(combinations_with_replacement(range(size), 2))
    # A row known exactly may be known to less than nothing, by rounding.
    scale = np.sqrt(np.maximum(np.diagonal(value, axis1=1, axis2=2), _POLICY.none))
    ends, lengths = [value], []
    inverse = np.linalg.inv(value + _POLICY.none * np.eye(size))
    for a, b in pairs:
        direction = np.zeros((batch, size))
        direction[:, a], direction[:, b] = scale[:, a], scale[:, b]
        # At most half of what the covariance has in this direction.
        share = np.einsum("na,nab,nb->n", direction, inverse, direction)
        lengths.append(_POLICY.step / np.maximum(1.0, 2 * _POLICY.step * share))
        ends.append(value - lengths[-1][:, None, None] * direction[:, :, None] * direction[:, None, :])
    found = update(np.concatenate(ends), np.tile(index, len(ends))).value.reshape(len(ends), batch, size, size)
    rates = (found[0] - found[1:]) / np.array(lengths)[:, :, None, None]
    change = dict(zip(pairs, rates, strict=True))
    slope = np.zeros((batch, size, size, size, size))
    for a, b in pairs:
        mixed = change[a, b] if a == b else 0.5 * (change[a, b] - change[a, a] - change[b, b])
        slope[:, :, :, a, b] = slope[:, :, :, b, a] = mixed / (scale[:, a] * scale[:, b])[:, None, None]
    return slope.reshape(batch, size * size, size * size)


def _corrected(gain: Array, moved: Array, changed: Array) -> Array:
    """Broyden's update of ``(1 - F')^-1`` by what the residual did along the last step; kept where there was none."""
    predicted = np.einsum("nij,nj->ni", gain, changed)
    left = np.einsum("ni,nij->nj", moved, gain)
    scale = np.sum(left * changed, axis=1)
    usable = np.isfinite(scale) & (np.abs(scale) > 1e-12 * np.sum(moved**2, axis=1)) & (scale != 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        update = (moved + predicted)[:, :, None] * left[:, None, :] / scale[:, None, None]
    return np.asarray(np.where(usable[:, None, None], gain - update, gain))


def is_covariance(states: Array, above: float = _POLICY.above) -> Flags:
    """Which states, flattened or not, are covariances of what has unit power: eigenvalues from 0 to ``1 + above``."""
    flat = states.reshape(len(states), -1)
    finite: Flags = np.all(np.isfinite(flat), axis=1)
    if flat.shape[1] == 1:
        return np.asarray(finite & (flat[:, 0] >= 0) & (flat[:, 0] <= 1 + above))
    size = int(np.sqrt(flat.shape[1]))
    values = np.linalg.eigvalsh(np.where(finite[:, None], flat, 0.0).reshape(-1, size, size))
    return np.asarray(finite & (values[:, 0] > -1e-12) & (values[:, -1] <= 1 + above))
