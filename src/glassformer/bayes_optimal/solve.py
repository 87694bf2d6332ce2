r"""State evolution: the fixed points of message passing and of the Bayes-optimal estimator, for any model.

A scalar model is the case of one row. Maps with exact averages are iterated to rounding
(:mod:`~glassformer.bayes_optimal.fixed_point`). Maps with sampled averages are solved coarsely with few data points and
refined with all data points (:mod:`~glassformer.bayes_optimal.sampled_fixed_point`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.evolution_map import EvolutionMap, is_covariance, pin_row, side_information_overlap
from glassformer.bayes_optimal.fixed_point import Flags, fixed_point
from glassformer.bayes_optimal.sampled_fixed_point import coarse_solve, continuation_order, newton_refine, warm_start
from glassformer.channels.replicas import REPLICAS
from glassformer.core.checks import as_numbers, require_arguments
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.resources import require_resources
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import confidence_factor

# Variance of every row at the informed start, and overlap at the uninformed start that breaks the symmetry of even
# labels. For sampled averages (True) both are larger, to exceed the sampling error.
_INFORMED = {False: 1e-8, True: 1e-4}
_SYMMETRY_BREAKING = {False: 1e-6, True: 1e-3}
# For sampled averages a smaller relative residual carries no information.
_SAMPLED_SETTINGS = Iteration(tolerance=1e-4, floor=1e-6, max_iterations=200)
# Coarse solutions use a sixteenth of the data points, slopes a fourth; a first look 64 per replica (chosen by trial).
_COARSE_FACTOR, _SLOPE_FACTOR, _FIRST_LOOK_POINTS = 16, 4, 64
# Amount by which rounding may raise eigenvalues of a covariance above one.
_ROUNDING = 1e-12
# Largest sample ratio: products of larger ratios with the information overflow.
_LARGEST_RATIO = 1e100
# Memory of the solution at one sample ratio, in bytes.
_BYTES = 20_000


def state_evolution(
    model: Model,
    alpha: ArrayLike,
    start: str | ArrayLike = "uninformed",
    settings: Iteration | None = None,
    origin: Array | None = None,
    *,
    subspace: Array | None = None,
    clamped: tuple[int, Array] | None = None,
) -> Solution:
    r"""Return the fixed point of state evolution at each sample ratio.

    Equations :eq:`state-evolution` and :eq:`matrix-state-evolution` of the documentation.

    .. math:: \hat Q = \frac{\alpha}{\mathrm{degrees}}\, E\sum_l g_l g_l^T, \qquad V = \mathrm{covariance}(\hat Q),

    for one row :math:`\hat q = (\alpha/\mathrm{degrees})\,E|g_{out}|^2(V)`, :math:`V = \mathrm{MMSE}(\hat q)`.

    Args:
        model: prior and channel.
        alpha: sample ratios, shape (batch,), finite and >= 0, in the model's own unit.
        start: ``"uninformed"`` (zero overlap; for even labels a small overlap, which breaks the symmetry),
            ``"informed"`` (nearly perfect overlap), or starting variances of shape (batch,), for several rows
            covariances of shape (batch, P, P).
        settings: tolerances and iteration limit; the default depends on whether averages are sampled.
        origin: variances of shape (batch,) with no other fixed point between them and ``start``, which allow longer
            steps; for exact averages only.
        subspace: projector on the directions that may be learned, shape (P, P); all by default.
        clamped: a row and its fixed variances, shape (batch,); the row has no overlap with the others.

    Returns:
        :class:`Solution` whose ``value`` is the variance :math:`V = 1 - q`, shape (batch,), for several rows the
        covariance, shape (batch, P, P), and whose ``extra["q_hat"]`` is :math:`\hat q` at the fixed point. The error
        estimate contains residual and integration errors, amplified by the slope of the map.

    Raises:
        ParameterError: ``alpha`` or ``start`` is out of range.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=np.inf, noise=0.0)
        >>> np.round(state_evolution(model, [0.25, 0.5]).value, 6)
        array([0.75, 0.5 ])
    """
    require_arguments(state_evolution, locals())
    alpha = validated_alpha(alpha)
    shape = (len(alpha), *model.overlap_shape)
    if not isinstance(start, str):
        start = _checked_start(start, shape).reshape(len(alpha), *model.prior.self_overlap.shape)
    solution = solve_state_evolution(model, alpha, start, settings, origin, subspace=subspace, clamped=clamped)
    extra = {name: np.reshape(solution.extra[name], shape) for name in ("q_hat", "q_hat_error")}
    return replace(solution, value=solution.value.reshape(shape), extra=extra)


def usual_iteration(channel: Any) -> Iteration:
    """Return the settings of the search for fixed points: sampled averages cannot be more accurate than their noise."""
    return _SAMPLED_SETTINGS if channel.sampled else Iteration()


def solve_state_evolution(
    model: Model,
    alpha: Array,
    start: str | Array = "uninformed",
    settings: Iteration | None = None,
    origin: Array | None = None,
    *,
    subspace: Array | None = None,
    clamped: tuple[int, Array] | None = None,
    coarse: bool = False,
    refine_from: Solution | None = None,
    other: Solution | None = None,
    earlier: Array | None = None,
) -> Solution:
    """Return the fixed points of :func:`state_evolution` as covariances of shape (batch, P, P) for every model.

    For sampled averages, ``coarse`` selects the coarse solution, from a sixteenth of the data points. A coarse solution
    given as ``refine_from`` is refined. The slopes of a coarse solution from another start, given as ``other``, are
    reused. Iterations from the uninformed start begin at fixed points of smaller ratios, given as ``earlier``.
    """
    channel = model.channel
    settings = settings or usual_iteration(channel)
    first = _starting_covariance(model, len(alpha), start, subspace) if isinstance(start, str) else start
    first = first if earlier is None else warm_start(first, earlier, 1.0)
    first = first if clamped is None else pin_row(first, *clamped)
    first = first if refine_from is None else refine_from.value
    update = EvolutionMap(model, alpha, channel, subspace=subspace, clamped=clamped)
    if not channel.sampled:
        return _iterate(update, first, settings, None if origin is None else np.reshape(origin, first.shape))
    slope_map, coarse_solution = update.with_fewer_points(_SLOPE_FACTOR), refine_from
    if coarse_solution is None:
        order = continuation_order(alpha, start == "informed") if isinstance(start, str) and clamped is None else None
        coarse_map = update.with_fewer_points(_COARSE_FACTOR).low_accuracy()
        coarse_solution = coarse_solve(coarse_map, first, settings, slope_map, order, other)
    if coarse:
        return coarse_solution
    solution = newton_refine(update, newton_refine(slope_map, coarse_solution, settings, preliminary=True), settings)
    if channel.with_more_noise is None:
        return solution
    # Noiseless labels are regularised by a small noise; the error of this is the change of the fixed point with more.
    noisier = replace(update, channel=channel.with_more_noise.with_points(update.channel.points))
    nearby = np.where(is_covariance(solution.value)[:, None, None], solution.value, first)
    coarse_map = noisier.with_fewer_points(_COARSE_FACTOR).low_accuracy()
    coarse_solution = coarse_solve(coarse_map, nearby, settings, noisier.with_fewer_points(_SLOPE_FACTOR))
    other = newton_refine(noisier, coarse_solution, settings)
    change = other.value - solution.value
    distance = np.linalg.norm(change, axis=(1, 2))
    components = [solution.extra["error_components"], change[:, None] / confidence_factor(REPLICAS)]
    return replace(
        solution,
        error_estimate=solution.error_estimate + np.where(other.settled, distance, np.inf),
        extra={**solution.extra, "error_components": np.concatenate(components, axis=1)},
    )


def first_look(model: Model, alpha: ArrayLike) -> Iterator[tuple[float, Solution]]:
    r"""Yield rough fixed points of the uninformed start, from few data points, one sample ratio after the other.

    Ratios are taken in increasing order, and each iteration starts from the fixed point before. It ends at the same
    fixed point as from the uninformed start: the map is monotone in ``V`` and in ``alpha``, so that the fixed point
    before is not below the next one, and no other fixed point lies between them.

    Args:
        model: a model with sampled averages and without regularising noise; for other models nothing is yielded.
        alpha: sample ratios, a number or shape (points,), finite and >= 0.

    Yields:
        A ratio and its :class:`Solution`, covariances of shape (1, P, P), with the error estimate of so few points.

    Raises:
        ParameterError: ``alpha`` is out of range.

    Example:
        >>> from glassformer import Accuracy, DeepAttention
        >>> model = DeepAttention(depth=1).at_accuracy(Accuracy(points=32))
        >>> [(ratio, found.settled.all()) for ratio, found in first_look(model, [0.0])]
        [(0.0, np.True_)]
    """
    ratios = np.sort(validated_alpha(alpha))
    channel = model.channel
    # The effect of a regularising noise would need a second solution.
    if not channel.sampled or channel.with_more_noise is not None:
        return
    few = channel.with_points(min(_FIRST_LOOK_POINTS, channel.points))
    uninformed = start = _starting_covariance(model, 1, "uninformed", None)
    for ratio in ratios:
        update = EvolutionMap(model, np.array([ratio]), few)
        solution = newton_refine(update, coarse_solve(update, start, _SAMPLED_SETTINGS, update), _SAMPLED_SETTINGS)
        yield float(ratio), solution
        # Directions that are not learned yet keep the start that breaks their symmetry.
        start = warm_start(uninformed, solution.value, 1.0) if solution.settled.all() else uninformed


def _iterate(update: EvolutionMap, start: Array, settings: Iteration, origin: Array | None) -> Solution:
    conjugates = np.full((2, *start.shape), np.nan)
    solution = fixed_point(
        lambda variance, index: update(variance, index, conjugates), start, settings, _inside, origin
    )
    q_hat, q_hat_error = conjugates
    # A single row has one component of the error.
    components = solution.error_estimate[:, None, None, None] / confidence_factor(REPLICAS)
    return replace(solution, extra={"q_hat": q_hat, "q_hat_error": q_hat_error, "error_components": components})


def _inside(states: Array) -> Flags:
    return is_covariance(states, _ROUNDING)


def validated_alpha(alpha: ArrayLike) -> Array:
    """Return ``alpha`` as a one-dimensional array, or raise an error that names the first invalid value."""
    values = as_numbers(alpha)
    if values is None or values.ndim != 1 or values.size == 0:
        raise ParameterError("alpha", alpha, "a number or a non-empty one-dimensional sequence of numbers")
    require_resources("alpha", f"<{values.size} values>", _BYTES * values.size, "give fewer sample ratios")
    for value in values[~((values >= 0) & (values <= _LARGEST_RATIO))]:
        raise ParameterError("alpha", float(value), f"finite and >= 0, at most {_LARGEST_RATIO:g}")
    return values


def uninformed_variance(model: Model) -> float:
    """Return the posterior variance of every row at the uninformed start."""
    channel = model.channel
    return 1.0 - max(_SYMMETRY_BREAKING[channel.sampled] * channel.even, side_information_overlap(model))


def informed_variance(model: Model) -> float:
    """Return the posterior variance of every row at the informed start."""
    return _INFORMED[model.channel.sampled]


def _starting_covariance(model: Model, batch: int, start: str, subspace: Array | None) -> Array:
    if start not in ("uninformed", "informed"):
        raise ParameterError("start", start, "'uninformed', 'informed' or an array of variances")
    size = model.prior.rows
    learned = np.eye(size) if subspace is None else subspace
    variance = uninformed_variance(model) if start == "uninformed" else informed_variance(model)
    return np.broadcast_to(np.eye(size) - learned + variance * learned, (batch, size, size)).copy()


def _checked_start(start: ArrayLike, shape: tuple[int, ...]) -> Array:
    values = np.array(start, dtype=float)
    if values.shape != shape or not _inside(values).all():
        matrices = f"covariance matrices of shape {shape} with eigenvalues in [0, 1]"
        raise ParameterError("start", start, matrices if shape[1:] else f"variances in [0, 1] of shape {shape}")
    return values
