r"""State evolution: the fixed points of message passing and of the Bayes-optimal estimator, for any model.

A scalar model is the case of one row. Maps with exact averages are iterated to rounding
(:class:`~glassformer.numerics.fixed_points.accelerated.Accelerated`). Maps with sampled averages are solved coarsely
with few data points and refined with all data points (:mod:`~glassformer.bayes_optimal.coarse_to_fine`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.coarse_to_fine import Coarse, Fine
from glassformer.bayes_optimal.evolution_map import EvolutionMap, is_covariance, pin_row, side_information_overlap
from glassformer.bayes_optimal.first_stable import FirstStable, continuation_order, warm_start
from glassformer.bayes_optimal.refinement import Refinement
from glassformer.channels.base import Channel
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.checks import as_numbers, require_arguments
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.resources import require_resources
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.models.base import Model
from glassformer.numerics.fixed_points.accelerated import Accelerated
from glassformer.numerics.fixed_points.solve import Flags, solve
from glassformer.numerics.quasi_random import confidence_factor

# Overlap at the uninformed start that breaks the symmetry of even labels. For sampled averages (True) it is larger, to
# exceed the sampling error.
_SYMMETRY_BREAKING = {False: 1e-6, True: 1e-3}
# For sampled averages a smaller relative residual carries no information.
_SAMPLED_SETTINGS = Iteration(tolerance=1e-4, floor=1e-6, max_iterations=200)
# Data points of a first look per replica (chosen by trial).
_FIRST_LOOK_POINTS = 64
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
    update = EvolutionMap(model, alpha, model.channel, subspace=subspace, clamped=clamped)
    solution = solve_state_evolution(update, start, settings, origin)
    extra = {name: np.reshape(solution.extra[name], shape) for name in ("q_hat", "q_hat_error")}
    return replace(solution, value=solution.value.reshape(shape), extra=extra)


def usual_iteration(channel: Channel) -> Iteration:
    """Return the settings of the search for fixed points: sampled averages cannot be more accurate than their noise."""
    return _SAMPLED_SETTINGS if channel.inference.sampled else Iteration()


def solve_state_evolution(
    update: EvolutionMap,
    start: str | Array = "uninformed",
    settings: Iteration | None = None,
    origin: Array | None = None,
    earlier: Array | None = None,
) -> Solution:
    """Return the fixed points of :func:`state_evolution` as covariances of shape (batch, P, P) for every model.

    Args:
        update: the map at every sample ratio of the batch.
        start: ``"uninformed"``, ``"informed"`` or covariances.
        settings: tolerances and iteration limit.
        origin: as for :func:`state_evolution`, for exact averages.
        earlier: fixed points of smaller ratios, from which the iteration of the uninformed start begins.
    """
    if update.channel.inference.sampled:
        return refine_state_evolution(update, coarse_state_evolution(update, start, settings, earlier), settings)
    return _iterate(update, _first(update, start, earlier), settings or usual_iteration(update.channel), origin)


def coarse_state_evolution(
    update: EvolutionMap,
    start: str | Array = "uninformed",
    settings: Iteration | None = None,
    earlier: Array | None = None,
    other: Solution | None = None,
) -> Solution:
    """Return the coarse solution for sampled averages, from few data points; the solution itself for exact averages.

    The slopes of a coarse solution from another start, given as ``other``, are reused. Further arguments are those of
    :func:`solve_state_evolution`.
    """
    if not update.channel.inference.sampled:
        return solve_state_evolution(update, start, settings, earlier=earlier)
    named = isinstance(start, str) and update.clamped is None
    order = continuation_order(update.alpha, start == "informed") if named else None
    return solve(
        update, _first(update, start, earlier), Coarse(order, other), settings or usual_iteration(update.channel)
    )


def refine_state_evolution(update: EvolutionMap, coarse: Solution, settings: Iteration | None = None) -> Solution:
    """Return the solution for sampled averages, from a coarse one; for exact averages the coarse one itself."""
    if not update.channel.inference.sampled:
        return coarse
    return solve(update, coarse.value, Fine(coarse), settings or usual_iteration(update.channel))


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
    inference = model.channel.inference
    # The effect of a regularising noise would need a second solution.
    if not inference.sampled or inference.with_more_noise is not None:
        return
    few = inference.with_points(min(_FIRST_LOOK_POINTS, inference.points)).channel
    uninformed = start = _starting_covariance(EvolutionMap(model, ratios[:1], few), "uninformed")
    for ratio in ratios:
        update = EvolutionMap(model, np.array([ratio]), few)
        coarse = solve(update, start, FirstStable(update), _SAMPLED_SETTINGS)
        solution = solve(update, coarse.value, Refinement(coarse), _SAMPLED_SETTINGS)
        yield float(ratio), solution
        # Directions that are not learned yet keep the start that breaks their symmetry.
        start = warm_start(uninformed, solution.value, 1.0) if solution.settled.all() else uninformed


def _iterate(update: EvolutionMap, start: Array, settings: Iteration, origin: Array | None) -> Solution:
    conjugates = np.full((2, *start.shape), np.nan)
    method = Accelerated(_inside, None if origin is None else np.reshape(origin, start.shape))
    solution = solve(lambda variance, index: update(variance, index, conjugates), start, method, settings)
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
    return 1.0 - max(
        _SYMMETRY_BREAKING[channel.inference.sampled] * channel.labels.even, side_information_overlap(model)
    )


def informed_variance(model: Model) -> float:
    """Return the posterior variance of every row at the informed start."""
    return model.channel.inference.informed


def _first(update: EvolutionMap, start: str | Array, earlier: Array | None) -> Array:
    """Return the covariances at which the iteration starts."""
    first = _starting_covariance(update, start) if isinstance(start, str) else start
    first = first if earlier is None else warm_start(first, earlier, 1.0)
    return first if update.clamped is None else pin_row(first, *update.clamped)


def _starting_covariance(update: EvolutionMap, start: str) -> Array:
    if start not in ("uninformed", "informed"):
        raise ParameterError("start", start, "'uninformed', 'informed' or an array of variances")
    size = update.prior.rows
    learned = np.eye(size) if update.subspace is None else update.subspace
    variance = (uninformed_variance if start == "uninformed" else informed_variance)(update.model)
    return np.broadcast_to(np.eye(size) - learned + variance * learned, (len(update.alpha), size, size)).copy()


def _checked_start(start: ArrayLike, shape: tuple[int, ...]) -> Array:
    values = np.array(start, dtype=float)
    if values.shape != shape or not _inside(values).all():
        matrices = f"covariance matrices of shape {shape} with eigenvalues in [0, 1]"
        raise ParameterError("start", start, matrices if shape[1:] else f"variances in [0, 1] of shape {shape}")
    return values
