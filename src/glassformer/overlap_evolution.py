r"""State evolution of models of several rows: fixed points of covariance matrices.

The one loop (:func:`~glassformer.state_evolution.fixed_point`) on states of shape (batch, P, P). Averages over data are
sampled, with the same points at every step, so the map is a function and has fixed points. They are found with few
points, and corrected: what all points add to the information is measured at the fixed point, kept while that is solved
again, and so on. Two or three rounds replace the many steps of an iteration with all points.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from glassformer.channels.multi_index import MultiIndexChannel
from glassformer.errors import ParameterError
from glassformer.integral import Array, Integral
from glassformer.models.matrix import MatrixModel
from glassformer.settings import Iteration
from glassformer.solution import Solution, Status
from glassformer.state_evolution import Flags, Index, fixed_point, validated_alpha

# A relative change that means nothing where averages are sampled, and the variance that counts as none.
SAMPLED = Iteration(tolerance=1e-4, floor=1e-6, max_iterations=200)
# Share of the points with which fixed points are located, and rounds of correction by all points.
_COARSE, _ROUNDS = 8, 8
_INFORMED, _UNINFORMED = 1e-4, 1e-3
# Sampled covariances may exceed the prior's by this much.
_ABOVE = 0.05


def overlap_evolution(
    model: MatrixModel, alpha: ArrayLike, start: str | ArrayLike = "uninformed", settings: Iteration | None = None
) -> Solution:
    r"""Fixed point of state evolution at each sample ratio, for models of several rows.

    .. math:: \hat Q = \frac{\alpha}{\mathrm{degrees}}\,E\sum_l g_l g_l^T, \qquad V = \mathrm{covariance}(\hat Q).

    Args:
        model: prior and channel of ``P`` rows.
        alpha: sample ratios, shape (batch,), finite and >= 0.
        start: ``"uninformed"``, ``"informed"``, or covariances of shape (batch, P, P).
        settings: tolerances and iteration limit.

    Returns:
        :class:`Solution` whose ``value`` is ``V``, shape (batch, P, P); ``extra["q_hat"]`` is :math:`\hat Q` there,
        ``extra["q_hat_error"]`` its standard error. The error estimate is the shift of the fixed point when the
        information moves by its standard error.

    Raises:
        ParameterError: ``alpha`` or ``start`` is out of range.
    """
    alpha, settings = validated_alpha(alpha), settings or SAMPLED
    coarse = _coarse(model.channel)
    shift = np.zeros((len(alpha), model.prior.rows, model.prior.rows))
    solution = _solve(model, alpha, _starting_covariance(model, alpha, start), settings, coarse, shift)
    spent = solution.iterations
    rate = (alpha / model.prior.degrees)[:, None, None]
    for _ in range(_ROUNDS):
        value = _interior(solution.value)
        fine, rough = model.channel.information(value), coarse.information(value)
        shift = _reduced(fine.value - rough.value, value)
        solution = _solve(model, alpha, solution.value, settings, coarse, shift)
        spent = spent + solution.iterations
        change = np.linalg.norm(solution.value - value, axis=(1, 2))
        if np.all(change <= settings.tolerance * np.linalg.norm(value, axis=(1, 2)) + settings.floor):
            break
    mapped = model.prior.covariance(Integral(rate * fine.value, rate * fine.error))
    known = np.isfinite(solution.value).all(axis=(1, 2))
    moved = _solve(model, alpha, solution.value, settings, coarse, shift + _reduced(fine.error, value))
    blur = np.linalg.norm(moved.value - solution.value, axis=(1, 2))
    settled = change <= settings.tolerance * np.linalg.norm(value, axis=(1, 2)) + settings.floor
    return replace(
        solution,
        status=[
            status if not status.ok or fits else Status.ITERATION_LIMIT
            for status, fits in zip(solution.status, settled, strict=True)
        ],
        residual=np.linalg.norm(mapped.value - value, axis=(1, 2)),
        error_estimate=np.where(known, change + blur, np.inf),
        iterations=spent,
        extra={"q_hat": rate * fine.value, "q_hat_error": rate * fine.error},
    )


def coarse_evolution(
    model: MatrixModel, alpha: ArrayLike, start: str | ArrayLike = "uninformed", settings: Iteration | None = None
) -> Solution:
    """As :func:`overlap_evolution`, with an eighth of the data points."""
    alpha = validated_alpha(alpha)
    shift = np.zeros((len(alpha), model.prior.rows, model.prior.rows))
    first = _starting_covariance(model, alpha, start)
    return _solve(model, alpha, first, settings or SAMPLED, _coarse(model.channel), shift)


def _coarse(channel: MultiIndexChannel) -> MultiIndexChannel:
    return channel.with_points(max(32, channel.points // _COARSE))


def _solve(
    model: MatrixModel,
    alpha: Array,
    start: Array,
    settings: Iteration,
    channel: MultiIndexChannel,
    shift: Array,
) -> Solution:
    """Fixed points with the information of ``channel``, shifted in units of the inverse covariance."""
    rate = alpha / model.prior.degrees

    def update(variance: Array, index: Index) -> Integral:
        inside = _interior(variance)
        extra = _reduced(shift[index], np.asarray(np.linalg.inv(inside), dtype=float))
        value = rate[index, None, None] * (channel.information(inside).value + extra)
        return model.prior.covariance(Integral(value, np.zeros_like(value)))

    return fixed_point(update, start, settings, _is_covariance)


def _reduced(matrix: Array, variance: Array) -> Array:
    """:math:`V^{1/2} M V^{1/2}`, which tends to a constant for an information as ``V`` vanishes."""
    values, vectors = np.linalg.eigh(variance)
    root = (vectors * np.sqrt(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return np.asarray(root @ matrix @ root)


def _interior(variance: Array) -> Array:
    """Covariances with eigenvalues that a posterior can be sampled at."""
    return variance + 1e-12 * np.eye(variance.shape[-1])


def _is_covariance(states: Array) -> Flags:
    flat = states.reshape(len(states), -1)
    size = int(np.sqrt(flat.shape[1]))
    finite: Flags = np.all(np.isfinite(flat), axis=1)
    values = np.linalg.eigvalsh(np.where(finite[:, None], flat, 0.0).reshape(-1, size, size))
    return np.asarray(finite & (values[:, 0] > -1e-12) & (values[:, -1] <= 1 + _ABOVE))


def _starting_covariance(model: MatrixModel, alpha: Array, start: str | ArrayLike) -> Array:
    size = model.prior.rows
    shape = (len(alpha), size, size)
    if isinstance(start, str):
        if start not in ("uninformed", "informed"):
            raise ParameterError("start", start, "'uninformed', 'informed' or an array of covariances")
        unknown = 1.0 - _UNINFORMED * model.channel.even
        return np.broadcast_to((unknown if start == "uninformed" else _INFORMED) * np.eye(size), shape).copy()
    values = np.array(start, dtype=float)
    if values.shape != shape or not (np.isfinite(values).all() and _is_covariance(values).all()):
        raise ParameterError("start", start, f"covariance matrices of shape {shape} with eigenvalues in [0, 1]")
    return values
