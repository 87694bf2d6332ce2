"""Bayes-optimal limits over a range of sample ratios."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.equation_of_state import curve_and_model, mmse
from glassformer.bayes_optimal.evolution_map import EvolutionMap
from glassformer.bayes_optimal.expected_time import expected_work
from glassformer.bayes_optimal.free_entropy import free_entropy_parts
from glassformer.bayes_optimal.solve import (
    coarse_state_evolution,
    informed_variance,
    refine_state_evolution,
    solve_state_evolution,
    uninformed_variance,
    validated_alpha,
)
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.checks import require_arguments
from glassformer.core.estimate import Array
from glassformer.core.progress import progress, track
from glassformer.core.results import Table, wide_error_bars
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.models.base import Model, counting_threshold, require_theory
from glassformer.numerics.decompositions import map_eigenvalues
from glassformer.numerics.fixed_points.solve import Flags
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.priors.layered import couples_to_second_order


@dataclass(frozen=True)
class _Distance:
    """Distance beyond which two fixed points count as different."""

    relative: float
    absolute: float
    error_estimates: float


# For exact averages above rounding and slow convergence, for sampled ones above sampling errors (chosen by trial).
_EXACT, _SAMPLED = _Distance(1e-6, 1e-12, 10.0), _Distance(0.0, 0.02, 2.0)
# A converged variance below this value counts as zero: iterations from the informed start end there. The second number
# bounds the relative distance from the threshold of perfect recovery that can be within the error of the averages.
_PERFECT, _NEAR_PERFECT = 1e-11, 1e-6
# Sample ratios of one row that are solved together; their memory is bounded, and the progress of more is known.
_TOGETHER = 10_000
# Relative size of off-diagonal conjugate overlaps above which a note mentions the second-order approximation.
_NOTED_COUPLING = 0.1
# Relative error of a fixed point above which errors on labels are evaluated anew, to propagate it.
_RELEVANT_ERROR = 1e-4
# Share of the samples on which these changes are measured, and their smallest number per replica (chosen by trial).
_CHANGE_SHARE, _FEWEST_FOR_CHANGES = 4, 256
# Columns of errors on labels that are classes.
_CLASS_COLUMNS = ("label_error", "label_standard_error")


class _Ends(NamedTuple):
    """Fixed points of the uninformed and the informed start, covariances of shape (batch, P, P), and where they differ.

    ``unconfirmed`` marks second fixed points of few data points that did not converge with all data points: their
    existence is unknown.
    """

    uninformed: Solution
    informed: Solution
    distinct: Flags
    unconfirmed: Flags


def bayes_optimal_limits(
    model: Model, alpha: ArrayLike, settings: Iteration | None = None, throw: bool = True
) -> Table:
    r"""Return the Bayes-optimal error and overlap at each sample ratio.

    State evolution is solved from the uninformed and from the informed start. If both lead to the same fixed point, it
    is the result. If they differ (a hard phase), the Bayes-optimal fixed point is that of larger free entropy, and the
    row has status ``bistable`` and contains both.

    Args:
        model: for instance :class:`~glassformer.models.BilinearSequenceRegression`.
        alpha: sample ratios, a number or shape (points,), finite and >= 0.
        settings: tolerances and iteration limit.
        throw: raise an error if a row did not converge; bistable rows count as converged.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns that :func:`~glassformer.limits` has for message
        passing.

    Raises:
        ParameterError: ``alpha`` is out of range.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> table = bayes_optimal_limits(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0), [0.0, 0.3, 0.8])
        >>> table["error"].round(4) + 0.0
        array([1.    , 0.6406, 0.    ])
    """
    require_arguments(bayes_optimal_limits, locals())
    alpha = validated_alpha(alpha)
    require_theory(model)
    with progress(f"limits {model.name}", expected_work(model, "limits", len(alpha))):
        if model.has_curve and len(alpha) > _TOGETHER:
            parts = np.array_split(alpha, math.ceil(len(alpha) / _TOGETHER))
            table = _joined([_limits(model, part, settings) for part in track(parts, f"{len(alpha)} sample ratios")])
        else:
            table = _limits(model, alpha, settings)
    if throw:
        table.raise_unless_converged(accepted=(Status.CONVERGED, Status.BISTABLE))
    return table


def _joined(tables: list[Table]) -> Table:
    columns = {name: np.concatenate([table.columns[name] for table in tables]) for name in tables[0].columns}
    status = [status for table in tables for status in table.status]
    notes = list(dict.fromkeys(note for table in tables for note in table.notes))
    return Table(tables[0].model, tables[0].parameters, columns, status, notes)


def _limits(model: Model, alpha: Array, settings: Iteration | None) -> Table:
    ends = _both_ends(model, alpha, settings)
    informed_is_best = _gap(model, alpha, ends).value > 0
    best = ends.uninformed.merge_where(informed_is_best, ends.informed.at(informed_is_best))
    informed = ends.informed.value.copy()
    informed[ends.unconfirmed] = np.nan
    shape = (len(alpha), *model.overlap_shape)
    error, q_hat = mean_error(best.value), best.extra["q_hat"]
    known = (error <= _PERFECT) | _within_error_of_perfect(model, alpha, best)
    error_estimate = np.where(known, np.maximum(best.error_estimate, error), best.error_estimate)
    return Table(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": alpha,
            "error": error,
            "overlap": (model.prior.self_overlap - best.value).reshape(shape),
            **row_columns(model, best.value),
            "q_hat": q_hat.reshape(shape),
            **({"q_hat_off_diagonal": off_diagonal(q_hat)} if model.overlap_shape else {}),
            **_label_columns(model, best),
            "algorithmic_error": mean_error(ends.uninformed.value),
            "informed_error": mean_error(informed),
            "error_estimate": error_estimate,
            "residual": best.residual,
            "iterations": np.maximum(ends.uninformed.iterations, ends.informed.iterations).astype(float),
        },
        status=list(map(combined_status, ends.uninformed.status, ends.informed.status, ends.distinct.tolist())),
        notes=[*_notes(model, q_hat), *wide_error_bars(alpha, error, error_estimate, model.parameters)],
    )


# --- errors on labels -------------------------------------------------------------------------------------------------


def _label_columns(model: Model, best: Solution) -> dict[str, Array]:
    """Return errors on labels; their standard errors include the propagated errors of the fixed points."""
    channel = model.channel
    errors = channel.inference.label_errors(best.value, model.last_layer)
    # The quantity of each standard error.
    quantity = {}
    for bar in errors:
        if bar.endswith("standard_error"):
            own = bar.replace("standard_error", "error")
            quantity[bar] = own if own in errors else bar.removesuffix("_standard_error")
    if not quantity:
        return errors
    # For one row and one token 1 - q^k >= k q^(k-1) (1 - q): errors on labels grow no faster than the variance.
    relative = (
        best.error_estimate / np.maximum(mean_error(best.value), best.error_estimate) / confidence_factor(REPLICAS)
    )
    propagated = {own: relative * errors[own] for own in quantity.values()}
    relevant = np.flatnonzero(~(relative <= _RELEVANT_ERROR))
    if relevant.size:
        changes = _label_error_changes(model, best.at(relevant), {own: errors[own][relevant] for own in propagated})
        for own, change in changes.items():
            propagated[own][relevant] = change
    errors |= {bar: np.hypot(errors[bar], propagated[own]) for bar, own in quantity.items()}
    # Squared differences of class numbers are needed for the standard errors above, but are no results.
    if not channel.labels.classes:
        return errors
    return {name: part for name, part in errors.items() if name in _CLASS_COLUMNS or name.startswith("state")}


def _label_error_changes(model: Model, best: Solution, errors: dict[str, Array]) -> dict[str, Array]:
    """Return the errors on labels that the standard errors of the fixed points cause; infinite where these are."""
    channel, finite = model.channel, np.isfinite(best.error_estimate)
    # Independent errors of the fixed points, at most as many as a symmetric matrix has entries.
    components = np.where(finite[:, None, None, None], best.extra["error_components"], 0.0)
    _, length, axes = np.linalg.svd(components.reshape(*components.shape[:2], -1), full_matrices=False)
    size = components.shape[-1]
    directions = (length[..., None] * axes)[:, : size * (size + 1) // 2].reshape(len(components), -1, size, size)

    def nearest_covariance(matrices: Array) -> Array:
        power = channel.fields.self_overlap
        capped = power - map_eigenvalues(power - matrices, lambda values: np.maximum(values, 0.0))
        return map_eigenvalues(capped, lambda values: np.maximum(values, channel.inference.smallest))

    places = np.stack([nearest_covariance(best.value[:, None] + sign * directions) for sign in (1, -1)])
    points = channel.inference.points
    fewer = channel.inference.with_points(max(min(_FEWEST_FOR_CHANGES, points), points // _CHANGE_SHARE))
    here = fewer.label_errors(best.value, model.last_layer, decisions=False)
    nearby = fewer.label_errors(places.reshape(-1, *best.value.shape[1:]), model.last_layer, decisions=False)
    changes = {}
    for own, error in errors.items():
        # Counting wrong labels is slow; their relative change is approximated by that of the squared error.
        name = own if own in nearby else "prediction_error"
        change = nearby[name].reshape(places.shape[:3]) - here[name][:, None]
        # At the boundary of the cone one of the two signs changes nothing, so the larger change is used.
        size_of_change = np.sqrt(np.sum(np.max(change**2, axis=0), axis=1))
        share = 1.0 if name == own else error / np.maximum(errors[name], 1e-300)
        changes[own] = np.where(finite, share * size_of_change, np.inf)
    return changes


# --- the two fixed points ---------------------------------------------------------------------------------------------


def _both_ends(model: Model, alpha: Array, settings: Iteration | None) -> _Ends:
    if not model.has_curve:
        return _ends_of_rows(model, alpha, settings)
    uninformed, informed = _ends_along_curve(model, alpha, settings)
    # Both iterations lead to perfect recovery: close to a threshold they end at up to ten times the usual variance.
    first, second = mean_error(uninformed.value), mean_error(informed.value)
    perfect = (first <= 10 * _PERFECT) | _within_error_of_perfect(model, alpha, uninformed)
    distinct = _differ(uninformed, informed, _EXACT) & ~(perfect & (second <= np.maximum(first, 10 * _PERFECT)))
    return _Ends(uninformed, informed, distinct, np.zeros_like(distinct))


def _within_error_of_perfect(model: Model, alpha: Array, solution: Solution) -> Flags:
    r"""Return where the variance of one row is not distinguished from zero, next to the counting threshold.

    Perfect recovery is approached with :math:`\hat q V` at its limit, the number of degrees of freedom. Where this and
    the threshold are met within the error of the averages, all smaller variances solve the equations as well.
    """
    counting, dimension = counting_threshold(model), model.prior.mmse_dimension
    variance, q_hat = mean_error(solution.value), solution.extra["q_hat"][:, 0, 0]
    if not (model.has_curve and 0 < counting < np.inf):
        return np.zeros(len(alpha), dtype=bool)
    with np.errstate(invalid="ignore"):
        distance = np.maximum(np.abs(alpha / counting - 1), np.abs(q_hat * variance / dimension - 1))
    near = (distance < _NEAR_PERFECT) & (variance > 0)
    if near.any():
        integration = mmse(model, q_hat[near]).error / variance[near]
        integration += solution.extra["q_hat_error"][near, 0, 0] / q_hat[near]
        near[near] = distance[near] <= _EXACT.error_estimates * integration
    return np.asarray(near)


def _ends_of_rows(model: Model, alpha: Array, settings: Iteration | None) -> _Ends:
    """Solve from both starts; a second fixed point of few data points must be confirmed with all data points."""
    # Coarse solutions of both starts use the same data points, so that sampling errors cancel in their difference.
    update = EvolutionMap(model, alpha, model.channel)
    coarse = coarse_state_evolution(update, "uninformed", settings)
    other = coarse_state_evolution(update, "informed", settings, other=coarse)
    uninformed = refine_state_evolution(update, coarse, settings)
    candidate = uninformed.settled & other.settled & _differ(coarse, other, _SAMPLED)
    distinct, unconfirmed, informed = np.zeros_like(candidate), np.zeros_like(candidate), uninformed
    if candidate.any():
        candidates = EvolutionMap(model, alpha[candidate], model.channel)
        second = refine_state_evolution(candidates, other.at(candidate), settings)
        distinct[candidate] = second.settled & _differ(uninformed.at(candidate), second, _SAMPLED)
        unconfirmed[candidate] = ~second.settled
        informed = uninformed.merge_where(distinct, second.at(distinct[candidate]))
    return _Ends(uninformed, informed, distinct, unconfirmed)


def _differ(first: Solution, second: Solution, distance: _Distance) -> Flags:
    """Return where two fixed points differ by more than sampling errors and slow convergence."""
    gap, *sizes = (np.linalg.norm(v, axis=(1, 2)) for v in (first.value - second.value, first.value, second.value))
    errors = first.error_estimate + second.error_estimate
    threshold = distance.relative * np.maximum(*sizes) + distance.absolute + distance.error_estimates * errors
    return np.asarray(gap > threshold)


def _ends_along_curve(model: Model, alpha: Array, settings: Iteration | None) -> tuple[Solution, Solution]:
    """Return fixed points of one row reached from the uninformed and from the informed start.

    All sample ratios share the equation of state on a grid of overlaps; results do not depend on the other ratios. The
    iteration from the uninformed start ends in the first cell of the grid in which the curve crosses ``alpha``, that
    from the informed start in the last. If both are the same cell, there is one fixed point, which is solved for once
    from the interpolated variance in the cell.
    """
    model, curve = curve_and_model(model, float(np.max(alpha)))
    unknown = uninformed_variance(model)
    variance = np.concatenate([[unknown], curve.variance])
    first = np.searchsorted(np.maximum.accumulate(curve.alpha), alpha)
    last = np.searchsorted(np.minimum.accumulate(curve.alpha[::-1])[::-1], alpha)
    start, several = variance[first], first != last
    crossed = ~several & (first > 0) & (first < len(curve.alpha))
    start[crossed] = curve.variance_at(alpha[crossed], first[crossed])
    origin = np.where(several, start, unknown)
    update = EvolutionMap(model, alpha, model.channel)
    uninformed = solve_state_evolution(update, start[:, None, None], settings, origin[:, None, None])
    if not several.any():
        return uninformed, uninformed
    beyond = np.append(curve.variance, min(informed_variance(model), curve.variance[-1]))[last]
    update = EvolutionMap(model, alpha[several], model.channel)
    second = solve_state_evolution(update, beyond[several, None, None], settings)
    return uninformed, uninformed.merge_where(several, second)


# --- the difference of their free entropies ---------------------------------------------------------------------------


class FreeEntropyGap(NamedTuple):
    """Free entropy of the informed fixed point less that of the uninformed one, in nats, shape (batch,).

    Attributes:
        value: NaN where both fixed points agree, infinite where the informed one is the exactly known signal.
        error: absolute error of ``value``.
        slope: derivative of ``value`` with respect to the sample ratio.
    """

    value: Array
    error: Array
    slope: Array


def free_entropy_gap(model: Model, alpha: Array) -> FreeEntropyGap:
    """Return the difference of the free entropies of both fixed points at each sample ratio."""
    return _gap(model, alpha, _both_ends(model, alpha, None))


def _gap(model: Model, alpha: Array, ends: _Ends) -> FreeEntropyGap:
    gap = FreeEntropyGap(*np.full((3, len(alpha)), np.nan))
    both = (ends.uninformed, ends.informed)
    finite = [np.isfinite(solution.extra["q_hat"]).all(axis=(1, 2)) for solution in both]
    informed_error = mean_error(ends.informed.value)
    places = ends.distinct & finite[0] & finite[1]
    if places.any():
        parts = [free_entropy_parts(model, s.extra["q_hat"], s.value) for s in (end.at(places) for end in both)]
        (low, prior_low), (high, prior_high) = parts
        gap.slope[places] = high.value - low.value
        gap.value[places] = alpha[places] * gap.slope[places] + prior_high.value - prior_low.value
        # An exactly known signal is evaluated at the smallest variance of the channel. The error is half the integral
        # of the information from zero to there: I grows like V^(-1/2), so it is V alpha I(V) = degrees V q_hat.
        smallest = np.maximum(informed_error[places], model.channel.inference.smallest)
        q_hat = np.trace(ends.informed.extra["q_hat"][places], axis1=1, axis2=2)
        missing = np.where(informed_error[places] <= _PERFECT, model.prior.degrees * smallest * q_hat, 0.0)
        gap.error[places] = alpha[places] * (high.error + low.error) + prior_high.error + prior_low.error + missing
    # An exactly known signal has an infinite conjugate overlap and, if labels have a density, infinite free entropy.
    perfect = (informed_error <= _PERFECT) & (alpha > counting_threshold(model))
    gap.value[ends.distinct & (perfect | ~finite[1])] = np.inf
    return gap


# --- columns, statuses and notes --------------------------------------------------------------------------------------


def combined_status(first: Status, second: Status, distinct: bool = False) -> Status:
    """Return the status of a row of the table from the statuses of its two fixed points."""
    for status in (first, second):
        if not status.ok:
            return status
    return Status.BISTABLE if distinct else Status.CONVERGED


def row_columns(model: Model, variance: Array, suffix: str = "") -> dict[str, Array]:
    """Return the column ``row_error`` with the error of every row, for models with matrix overlaps."""
    return {f"row_error{suffix}": np.diagonal(variance, axis1=1, axis2=2)} if model.overlap_shape else {}


def _notes(model: Model, q_hat: Array) -> list[str]:
    notes = [*model.remarks]
    largest = float(np.max(np.abs(off_diagonal(q_hat))))
    if couples_to_second_order(model.prior) and largest >= _NOTED_COUPLING:
        notes.append(
            f"Off-diagonal conjugate overlaps, up to {largest:.2g} of the diagonal, couple the rows. Their effect is "
            "computed to second order; the next order is in the error estimate."
        )
    if model.channel.inference.with_more_noise is not None:
        notes.append(
            "Noiseless labels of several numbers are regularised by noise of 3e-4 of their variance. Its effect, "
            "measured with four times the noise, is included in the error estimate of the error, but not in those of "
            "predictions."
        )
    return notes


def mean_error(variance: Array) -> Array:
    """Return the mean error over the rows, shape (batch,), from covariances of shape (batch, P, P)."""
    return np.asarray(np.trace(variance, axis1=1, axis2=2) / variance.shape[-1])


def off_diagonal(matrices: Array) -> Array:
    """Return the largest entry off the diagonal, normalised by the diagonal, with its sign; zero for a single row."""
    size = matrices.shape[-1]
    if size == 1:
        return np.zeros(len(matrices))
    scale = np.sqrt(np.maximum(np.diagonal(matrices, axis1=1, axis2=2), 1e-300))
    relative = matrices / (scale[:, :, None] * scale[:, None, :])
    flat = relative[:, ~np.eye(size, dtype=bool)]
    place = np.argmax(np.abs(flat), axis=1)
    return np.asarray(np.take_along_axis(flat, place[:, None], axis=1)[:, 0])
