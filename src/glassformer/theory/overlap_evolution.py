r"""State evolution of models of several rows: fixed points of covariance matrices.

The one loop (:func:`~glassformer.theory.state_evolution.fixed_point`) on states of shape (batch, P, P).
Averages over data are sampled, with the same points at every step, so the map is a function and has fixed points. They
are located with few points by an iteration that stops at the first one; from there Newton steps with the slope of the
rough map, corrected by the values of the full one, replace the many steps of an iteration with all points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array, Integral
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.models.channels.multi_index.base import MultiIndexChannel
from glassformer.models.matrix import MatrixModel
from glassformer.theory.overlap_map import OverlapMap, held, side_known
from glassformer.theory.state_evolution import Flags, Index, fixed_point, validated_alpha

# A relative residual that means nothing where averages are sampled, and the variance that counts as none.
SAMPLED = Iteration(tolerance=1e-4, floor=1e-6, max_iterations=200)
# Share of the points with which fixed points are located, how well, and rounds of correction by all points.
_COARSE, _ROUGHLY, _ROUNDS = 16, 5e-4, 30
# Eigenvalue of the slope above which a point is left, by a push of this length, at most so many times.
_UNSTABLE, _PUSH, _PUSHES = 1.005, 0.03, 6
# Tolerances within which a push has led back to where it began.
_BACK = 3.0
# Distance to the fixed point, in tolerances of the residual, that may be left.
_DISTANT = 20.0
# Error of a covariance, in units of the prior's, from which on it says nothing.
_MEANINGLESS = 0.2
# Newton steps longer than this share of the covariance are not believed.
_LONGEST = 0.2
# Relative steps of the differences that make the slope of the map.
_STEP = 0.02
# Variance of a row that counts as none.
_NONE = 1e-12
_INFORMED, _UNINFORMED = 1e-4, 1e-3
# Sampled covariances may exceed the prior's by this much.
_ABOVE = 0.05

Map = Callable[[Array, Index], Integral]


def overlap_evolution(
    model: MatrixModel,
    alpha: ArrayLike,
    start: str | ArrayLike = "uninformed",
    settings: Iteration | None = None,
    subspace: Array | None = None,
    pinned: tuple[int, Array] | None = None,
) -> Solution:
    r"""Fixed point of state evolution at each sample ratio, for models of several rows.

    Equation :eq:`matrix-state-evolution` of the documentation.

    .. math:: \hat Q = \frac{\alpha}{\mathrm{degrees}}\,E\sum_l g_l g_l^T, \qquad V = \mathrm{covariance}(\hat Q).

    Args:
        model: prior and channel of ``P`` rows.
        alpha: sample ratios, shape (batch,), finite and >= 0.
        start: ``"uninformed"``, ``"informed"``, or covariances of shape (batch, P, P).
        settings: tolerance of the residual relative to ``V``, and iteration limit.
        subspace: projector on the directions that may be learned, shape (P, P); all by default.
        pinned: a row and the variances, shape (batch,), that it is held at, apart from the others.

    Returns:
        :class:`Solution` whose ``value`` is ``V``, shape (batch, P, P); ``extra["q_hat"]`` is :math:`\hat Q` there,
        ``extra["q_hat_error"]`` its standard error. The error estimate is what residual and standard error amount to
        at the fixed point.

    Raises:
        ParameterError: ``alpha`` or ``start`` is out of range.
    """
    alpha, settings = validated_alpha(alpha), settings or _settings(model)
    channels = (_coarse(model.channel), model.channel)
    rough, fine = (OverlapMap(model, alpha, channel, subspace=subspace, pinned=pinned) for channel in channels)
    first = _starting_covariance(model, alpha, start, subspace)
    first = first if pinned is None else held(first, *pinned)
    located, slope = _located(rough, first, _loosely(model, settings))
    size = model.prior.rows
    value, everyone = located.value.copy(), np.arange(len(alpha))
    alive = np.array([status.ok for status in located.status])
    residual, estimate = located.residual.copy(), located.error_estimate.copy()
    q_hat, q_hat_error = np.full_like(value, np.nan), np.full_like(value, np.nan)
    status, spent = list(located.status), located.iterations.copy()
    gain = np.linalg.inv(np.eye(size * size) - slope)
    open_rows = alive.copy()
    flat = value.reshape(len(alpha), -1)
    last = np.full((2, *flat.shape), np.nan)
    for _ in range(_ROUNDS):
        index = everyone[open_rows]
        if index.size == 0:
            break
        conjugate = fine.conjugate(value[index], index)
        q_hat[index], q_hat_error[index] = conjugate
        mapped = fine.covariance(conjugate, index)
        gap = (mapped.value - value[index]).reshape(len(index), -1)
        gain[index] = _corrected(gain[index], flat[index] - last[0, index], gap - last[1, index])
        last[:, index] = flat[index], gap
        step = np.einsum("nij,nj->ni", gain[index], gap)
        blur = np.einsum("nij,nj->ni", gain[index], mapped.error.reshape(len(index), -1))
        norm = np.linalg.norm(flat[index], axis=1)
        residual[index] = np.linalg.norm(gap, axis=1)
        estimate[index] = np.linalg.norm(step, axis=1) + np.linalg.norm(blur, axis=1)
        done = residual[index] <= settings.tolerance * norm + settings.floor
        # Where convergence is slow a small residual is no small distance.
        done &= np.linalg.norm(step, axis=1) <= _DISTANT * settings.tolerance * norm + settings.floor
        # A step that leaves the cone, or is very long, is not believed: the map itself leads on.
        moved = (flat[index] + step).reshape(mapped.value.shape)
        bad = ~_is_covariance(moved) | (np.linalg.norm(step, axis=1) > _LONGEST * norm)
        moved[bad] = mapped.value[bad]
        value[index[~done]] = moved[~done]
        spent[index] += 1
        open_rows[index[done]] = False
    for k in everyone[open_rows]:
        status[k] = Status.ITERATION_LIMIT
    for k in np.flatnonzero(alive & ~open_rows & (estimate > _MEANINGLESS)):
        status[k] = Status.INTEGRATION_NOT_CONVERGED
    # Those that were not located have been through no round.
    lost = np.flatnonzero(~alive & _is_covariance(value))
    if lost.size:
        q_hat[lost], q_hat_error[lost] = fine.conjugate(value[lost], lost)
    return replace(
        located,
        value=value,
        status=status,
        residual=residual,
        error_estimate=estimate,
        iterations=spent,
        extra={"q_hat": q_hat, "q_hat_error": q_hat_error},
    )


def coarse_evolution(
    model: MatrixModel,
    alpha: ArrayLike,
    start: str | ArrayLike = "uninformed",
    settings: Iteration | None = None,
    subspace: Array | None = None,
) -> Solution:
    """As :func:`overlap_evolution`, with a sixteenth of the data points."""
    alpha, settings = validated_alpha(alpha), settings or _settings(model)
    rough = OverlapMap(model, alpha, _coarse(model.channel), subspace=subspace)
    return _located(rough, _starting_covariance(model, alpha, start, subspace), _loosely(model, settings))[0]


def _located(update: Map, start: Array, settings: Iteration) -> tuple[Solution, Array]:
    """The first stable fixed points from ``start``, and the slope of the map there.

    A state that moves slowly away from an unstable point looks like a fixed point; its slope, with an eigenvalue above
    one, gives it away, and it is pushed along that direction.
    """
    solution = fixed_point(update, start, settings, _is_covariance)
    size = start.shape[-1]
    slope = np.zeros((len(start), size * size, size * size))
    todo = np.flatnonzero([status.ok for status in solution.status])
    for _ in range(_PUSHES):
        if todo.size == 0:
            break
        slope[todo] = _slope(update, solution.value[todo], todo)
        values, vectors = np.linalg.eig(slope[todo])
        leading = np.argmax(values.real, axis=1)
        unstable = np.take_along_axis(values.real, leading[:, None], axis=1)[:, 0] > _UNSTABLE
        direction = np.take_along_axis(vectors.real, leading[:, None, None], axis=2)[unstable, :, 0]
        todo = todo[unstable]
        if todo.size == 0:
            break
        pushed = _pushed(solution.value[todo], direction.reshape(-1, size, size))
        again = fixed_point(_restricted(update, todo), pushed, settings, _is_covariance)
        again = replace(again, iterations=again.iterations + solution.iterations[todo])
        # A point that a push leads back to is stable, and its slope, as rough as the map, of no use.
        near = _BACK * settings.tolerance * np.linalg.norm(pushed, axis=(1, 2))
        back = _distance(again.value, solution.value[todo]) <= near
        slope[todo[back]] = 0.0
        solution = solution.overlaid(todo, again)
        todo = todo[~back & [status.ok for status in again.status]]
    return solution, slope


def _distance(first: Array, second: Array) -> Array:
    return np.asarray(np.linalg.norm(first - second, axis=(1, 2)))


def _restricted(update: Map, where: Index) -> Map:
    """The map for the elements ``where`` of its batch."""
    return lambda value, index: update(value, where[index])


def _pushed(value: Array, direction: Array) -> Array:
    """States moved by a little along unit directions, towards more knowledge."""
    more = np.trace(direction, axis1=1, axis2=2) < 0
    step = _PUSH * np.where(more, 1.0, -1.0)[:, None, None] * 0.5 * (direction + np.swapaxes(direction, 1, 2))
    moved = value + step
    bad = ~_is_covariance(moved)
    moved[bad] = (1 - _PUSH) * value[bad]
    return moved


def _settings(model: MatrixModel) -> Iteration:
    return Iteration() if model.channel.exact else SAMPLED


def _loosely(model: MatrixModel, settings: Iteration) -> Iteration:
    """Where fixed points are only located: few points tell them no better."""
    return settings if model.channel.exact else replace(settings, tolerance=max(settings.tolerance, _ROUGHLY))


def _coarse(channel: MultiIndexChannel) -> MultiIndexChannel:
    return channel.with_points(min(channel.points, max(64, channel.points // _COARSE)))


def _slope(update: Map, value: Array, index: Index) -> Array:
    """Slope of the map on flattened covariances, shape (n, P^2, P^2), by differences towards more knowledge.

    Entries off the diagonal are reached by moving two rows together, so that no state leaves the cone.
    """
    batch, size = len(value), value.shape[-1]
    pairs = [(a, b) for a in range(size) for b in range(a, size)]
    # A row known exactly may be known to less than nothing, by rounding.
    scale = np.sqrt(np.maximum(np.diagonal(value, axis1=1, axis2=2), _NONE))
    ends, lengths = [value], []
    inverse = np.linalg.inv(value + _NONE * np.eye(size))
    for a, b in pairs:
        direction = np.zeros((batch, size))
        direction[:, a], direction[:, b] = scale[:, a], scale[:, b]
        # At most half of what the covariance has in this direction.
        share = np.einsum("na,nab,nb->n", direction, inverse, direction)
        lengths.append(_STEP / np.maximum(1.0, 2 * _STEP * share))
        ends.append(value - lengths[-1][:, None, None] * direction[:, :, None] * direction[:, None, :])
    found = update(np.concatenate(ends), np.tile(index, len(ends))).value.reshape(len(ends), batch, size, size)
    rates = (found[0] - found[1:]) / np.array(lengths)[:, :, None, None]
    change = dict(zip(pairs, rates, strict=True))
    slope = np.zeros((batch, size, size, size, size))
    for a, b in pairs:
        if a == b:
            slope[:, :, :, a, a] = change[a, a] / scale[:, a, None, None] ** 2
        else:
            mixed = 0.5 * (change[a, b] - change[a, a] - change[b, b]) / (scale[:, a] * scale[:, b])[:, None, None]
            slope[:, :, :, a, b] = slope[:, :, :, b, a] = mixed
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


def _is_covariance(states: Array) -> Flags:
    flat = states.reshape(len(states), -1)
    size = int(np.sqrt(flat.shape[1]))
    finite: Flags = np.all(np.isfinite(flat), axis=1)
    values = np.linalg.eigvalsh(np.where(finite[:, None], flat, 0.0).reshape(-1, size, size))
    return np.asarray(finite & (values[:, 0] > -1e-12) & (values[:, -1] <= 1 + _ABOVE))


def _starting_covariance(model: MatrixModel, alpha: Array, start: str | ArrayLike, subspace: Array | None) -> Array:
    size = model.prior.rows
    shape = (len(alpha), size, size)
    if isinstance(start, str):
        if start not in ("uninformed", "informed"):
            raise ParameterError("start", start, "'uninformed', 'informed' or an array of covariances")
        unknown = 1.0 - max(_UNINFORMED * model.channel.even, side_known(model))
        known = np.eye(size) if subspace is None else subspace
        first = np.eye(size) - known + (unknown if start == "uninformed" else _INFORMED) * known
        return np.broadcast_to(first, shape).copy()
    values = np.array(start, dtype=float)
    if values.shape != shape or not (np.isfinite(values).all() and _is_covariance(values).all()):
        raise ParameterError("start", start, f"covariance matrices of shape {shape} with eigenvalues in [0, 1]")
    return values
