"""Bayes-optimal limits over a range of sample ratios."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.channels.base import Channel
from glassformer.channels.field_averages import REPLICAS
from glassformer.core.checks import require_arguments
from glassformer.core.estimate import Array
from glassformer.core.progress import progress
from glassformer.core.results import Table, wide_bars
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.models.base import Model, counting_threshold, require_theory
from glassformer.numerics.eigenvalues import with_eigenvalues
from glassformer.numerics.quasi_random import confident
from glassformer.state_evolution.equation_of_state import with_curve
from glassformer.state_evolution.free_entropy import free_entropy_parts
from glassformer.state_evolution.solve import known_at_start, solve_state_evolution, unknown_at_start, validated_alpha


@dataclass(frozen=True)
class Policy:
    """When two fixed points are two, what a variance of zero is, and what is worth a curve or a note.

    Attributes:
        exact: distance that makes them two: relative, absolute, in error estimates.
        sampled: the same where averages are sampled.
        perfect: a variance that iterates to this is zero.
        noted: relative size from which on what a prior neglects is worth a note.
        told: relative standard error of fixed points up to which errors on labels have their share of it, unasked.
        averages: sampled averages of all data points that fixed points usually take, for the estimate of the time.
    """

    exact: tuple[float, float, float] = (1e-6, 1e-12, 10.0)
    sampled: tuple[float, float, float] = (0.0, 0.02, 2.0)
    perfect: float = 1e-11
    noted: float = 0.1
    told: float = 1e-4
    averages: float = 3.0


_POLICY = Policy()
# Errors on labels that are classes.
_OF_CLASSES = ("label_error", "label_standard_error")


Mask = NDArray[np.bool_]


class _Ends(NamedTuple):
    """Fixed points of the uninformed and the informed start, covariances of shape (batch, P, P), and where they differ.

    ``lost`` marks second fixed points that were seen but did not settle, and are neither there nor not there.
    """

    uninformed: Solution
    informed: Solution
    distinct: Mask
    lost: Mask


def limits(model: Model, alpha: ArrayLike, settings: Iteration | None = None, throw: bool = True) -> Table:
    r"""Bayes-optimal error and overlap at each sample ratio.

    State evolution is solved from the uninformed and from the informed start. Where the two agree there is one
    answer. Where they differ (a hard phase) the Bayes-optimal fixed point is the one of larger free entropy; the
    row then has status ``bistable`` and lists both.

    Args:
        model: for instance :class:`~glassformer.models.BilinearSequenceRegression`.
        alpha: sample ratios, a number or shape (points,), finite and >= 0.
        settings: tolerances and iteration limit.
        throw: raise when a row did not converge; a bistable row does not count as that.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``error`` (:math:`V = 1 - q`,
        Bayes-optimal; for several rows the mean over them), ``overlap`` (:math:`q`), ``q_hat``, ``algorithmic_error``
        (reached from the uninformed start, so by message passing), ``informed_error``, errors on labels by name,
        ``error_estimate`` (absolute, of ``error``), ``residual`` and ``iterations``. Models of several rows have
        matrices in the columns ``overlap`` and ``q_hat``, ``row_error`` with the error of each row,
        ``q_hat_off_diagonal`` (the largest entry off the diagonal, relative), ``prediction_error`` and
        ``plugin_error`` on new labels that are numbers, ``label_error`` on discrete ones (the share of wrong ones),
        with standard errors that count those of the fixed points. Positions that ``argmax`` or ``argmin`` finds are
        classes: they have no squared errors.

    Raises:
        ParameterError: ``alpha`` is out of range.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> table = limits(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0), [0.0, 0.3, 0.8])
        >>> table["error"].round(4) + 0.0
        array([1.    , 0.6406, 0.    ])
    """
    require_arguments(limits, locals())
    alpha = validated_alpha(alpha)
    with _shown(model, len(alpha)):
        table = _limits(model, alpha, settings)
    if throw:
        table.raise_unless_converged(accepted=(Status.CONVERGED, Status.BISTABLE))
    return table


def _shown(model: Model, count: int) -> AbstractContextManager[None]:
    """Progress with an estimate of the time left, where that is known beforehand."""
    require_theory(model)
    channel, title = model.channel, f"limits {model.name}"
    if not channel.sampled:
        return progress(title)
    return progress(title, (_POLICY.averages + channel.discrete) * count * channel.work)


def _limits(model: Model, alpha: Array, settings: Iteration | None) -> Table:
    ends = _both_ends(model, alpha, settings)
    take = _informed_is_best(model, alpha, ends)
    best = ends.uninformed.merge_where(take, ends.informed.at(take))
    informed = ends.informed.value.copy()
    informed[ends.lost] = np.nan
    shape = (len(alpha), *model.overlap_shape)
    q_hat = best.extra["q_hat"]
    return Table(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": alpha,
            "error": mean_error(best.value),
            "overlap": (model.prior.self_overlap - best.value).reshape(shape),
            **row_columns(model, best.value),
            "q_hat": q_hat.reshape(shape),
            **({"q_hat_off_diagonal": off_diagonal(q_hat)} if model.overlap_shape else {}),
            **_on_labels(model, best),
            "algorithmic_error": mean_error(ends.uninformed.value),
            "informed_error": mean_error(informed),
            "error_estimate": _error_estimate(best),
            "residual": best.residual,
            "iterations": np.maximum(ends.uninformed.iterations, ends.informed.iterations).astype(float),
        },
        status=list(map(combined, ends.uninformed.status, ends.informed.status, ends.distinct.tolist())),
        notes=[
            *_notes(model, q_hat),
            *wide_bars(alpha, mean_error(best.value), _error_estimate(best), model.parameters),
        ],
    )


def _error_estimate(found: Solution) -> Array:
    """Those of the variances, which are not told from zero below what one that vanishes iterates to."""
    error = mean_error(found.value)
    return np.where(error <= _POLICY.perfect, np.maximum(found.error_estimate, error), found.error_estimate)


def _on_labels(model: Model, best: Solution) -> dict[str, Array]:
    """Errors on labels, whose standard errors count what those of the fixed points make of them."""
    channel = model.channel
    found = channel.label_errors(best.value, model.last_layer)
    bars = {bar: _quantity(bar, found) for bar in found if bar.endswith("standard_error")}
    if not bars:
        return found
    # Of one row and one token, 1 - q^k is at least k q^(k-1) (1 - q): errors grow no faster than the variance.
    missed = best.error_estimate / np.maximum(mean_error(best.value), best.error_estimate) / confident(REPLICAS)
    far = np.flatnonzero(~(missed <= _POLICY.told))
    moved = {own: missed * found[own] for own in bars.values()}
    if far.size:
        beside = _moved(model, best.at(far), {own: found[own][far] for own in bars.values()})
        for own, change in beside.items():
            moved[own][far] = change
    found |= {bar: np.hypot(found[bar], moved[own]) for bar, own in bars.items()}
    # Squared differences of class numbers, which the error bars above are made of, are not errors.
    return {name: found[name] for name in _OF_CLASSES} if channel.classes else found


def _quantity(bar: str, found: dict[str, Array]) -> str:
    """The quantity that a standard error belongs to."""
    own = bar.replace("standard_error", "error")
    return own if own in found else bar.removesuffix("_standard_error")


def _moved(model: Model, best: Solution, found: dict[str, Array]) -> dict[str, Array]:
    """What standard errors of fixed points change errors on labels by, infinite where they are."""
    channel = model.channel
    places = np.stack([_inside(channel, best.value[:, None] + sign * _directions(best)) for sign in (1, -1)])
    beside = channel.label_errors(places.reshape(-1, *best.value.shape[1:]), model.last_layer, decisions=False)
    moved = {}
    for own in found:
        # Wrong labels that are counted take long, and change in proportion to the squares of what is missed.
        name = own if own in beside else "prediction_error"
        change = beside[name].reshape(places.shape[:3]) - found[name][:, None]
        # Towards an edge of what is possible there may be no way.
        size = np.sqrt(np.sum(np.max(change**2, axis=0), axis=1))
        share = 1.0 if name == own else found[own] / np.maximum(found[name], 1e-300)
        moved[own] = np.where(np.isfinite(best.error_estimate), share * size, np.inf)
    return moved


def _directions(best: Solution) -> Array:
    """Independent errors of fixed points, shape (batch, parts, P, P), no more of them than there are entries."""
    parts = np.where(np.isfinite(best.error_estimate)[:, None, None, None], best.extra["moved"], 0.0)
    _, length, axes = np.linalg.svd(parts.reshape(*parts.shape[:2], -1), full_matrices=False)
    size = parts.shape[-1]
    few = size * (size + 1) // 2
    return np.asarray((length[..., None] * axes)[:, :few].reshape(len(parts), -1, size, size))


def _inside(channel: Channel, covariances: Array) -> Array:
    """The nearest covariances that fields may have."""
    power = channel.self_overlap
    capped = power - with_eigenvalues(power - covariances, lambda values: np.maximum(values, 0.0))
    return with_eigenvalues(capped, lambda values: np.maximum(values, channel.smallest))


def _both_ends(model: Model, alpha: Array, settings: Iteration | None) -> _Ends:
    if not model.has_curve:
        return _two_starts(model, alpha, settings)
    uninformed, informed = _along_curve(model, alpha, settings)
    # What iterations leave of two that are perfect, next to a threshold ten times as much, tells them not apart.
    known = np.maximum(mean_error(uninformed.value), mean_error(informed.value)) <= 10 * _POLICY.perfect
    distinct = _apart(uninformed, informed, *_POLICY.exact) & ~known
    return _Ends(uninformed, informed, distinct, np.zeros_like(distinct))


def _two_starts(model: Model, alpha: Array, settings: Iteration | None) -> _Ends:
    """Where averages are sampled: few points look for a second fixed point, all of them must then find it again."""
    # Found with the same few points, the two have their sampling errors in common.
    place = solve_state_evolution(model, alpha, "uninformed", settings, coarse=True)
    other = solve_state_evolution(model, alpha, "informed", settings, coarse=True, beside=place)
    uninformed = solve_state_evolution(model, alpha, settings=settings, place=place)
    seen = uninformed.settled & other.settled & _apart(place, other, *_POLICY.sampled)
    distinct, lost, informed = np.zeros_like(seen), np.zeros_like(seen), uninformed
    if seen.any():
        found = solve_state_evolution(model, alpha[seen], settings=settings, place=other.at(seen))
        distinct[seen] = found.settled & _apart(uninformed.at(seen), found, *_POLICY.sampled)
        lost[seen] = ~found.settled
        informed = uninformed.merge_where(distinct, found.at(distinct[seen]))
    return _Ends(uninformed, informed, distinct, lost)


def _apart(first: Solution, second: Solution, relative: float, absolute: float, errors: float) -> Mask:
    """Where two fixed points differ by more than sampling and slow convergence explain."""
    gap, *sizes = (np.linalg.norm(v, axis=(1, 2)) for v in (first.value - second.value, first.value, second.value))
    blur = first.error_estimate + second.error_estimate
    return np.asarray(gap > relative * np.maximum(*sizes) + absolute + errors * blur)


def _along_curve(model: Model, alpha: Array, settings: Iteration | None) -> tuple[Solution, Solution]:
    """Fixed points of one row reached from the uninformed and from the informed start.

    All sample ratios share the equation of state on a grid of overlaps, and a row does not depend on the others. The
    uninformed iteration passes everything up to the first cell in which the curve crosses ``alpha``, the informed one
    everything down to the last; where that is one and the same cell there is one fixed point, found once, from the
    interpolated place in the cell.
    """
    model, curve = with_curve(model, float(np.max(alpha)))
    unknown = unknown_at_start(model)
    variance = np.concatenate([[unknown], curve.variance])
    first = np.searchsorted(np.maximum.accumulate(curve.alpha), alpha)
    last = np.searchsorted(np.minimum.accumulate(curve.alpha[::-1])[::-1], alpha)
    start, several = variance[first], first != last
    crossed = ~several & (first > 0) & (first < len(curve.alpha))
    start[crossed] = curve.variance_at(alpha[crossed], first[crossed])
    origin = np.where(several, start, unknown)
    uninformed = solve_state_evolution(model, alpha, start[:, None, None], settings, origin[:, None, None])
    if not several.any():
        return uninformed, uninformed
    beyond = np.append(curve.variance, min(known_at_start(model), curve.variance[-1]))[last]
    second = solve_state_evolution(model, alpha[several], beyond[several, None, None], settings)
    return uninformed, uninformed.merge_where(several, second)


class FreeEntropyGap(NamedTuple):
    """Free entropy of the informed fixed point less that of the uninformed one, shape (batch,).

    Attributes:
        value: NaN where the two are one, infinite where the informed one is a signal known exactly.
        error: absolute error of ``value``.
        slope: derivative of ``value`` with respect to the sample ratio.
    """

    value: Array
    error: Array
    slope: Array


def free_entropy_gap(model: Model, alpha: Array) -> FreeEntropyGap:
    """The difference of the free entropies of both fixed points at each sample ratio, in nats."""
    return _gap(model, alpha, _both_ends(model, alpha, None))


def _gap(model: Model, alpha: Array, ends: _Ends) -> FreeEntropyGap:
    gap = FreeEntropyGap(*np.full((3, len(alpha)), np.nan))
    both = (ends.uninformed, ends.informed)
    known = [np.isfinite(solution.extra["q_hat"]).all(axis=(1, 2)) for solution in both]
    places = ends.distinct & known[0] & known[1]
    if places.any():
        parts = [free_entropy_parts(model, s.extra["q_hat"], s.value) for s in (end.at(places) for end in both)]
        (low, prior_low), (high, prior_high) = parts
        gap.slope[places] = high.value - low.value
        gap.value[places] = alpha[places] * gap.slope[places] + prior_high.value - prior_low.value
        rest = _beyond_smallest(model, ends.informed.at(places))
        gap.error[places] = alpha[places] * (high.error + low.error) + prior_high.error + prior_low.error + rest
    # A signal known exactly has an infinite conjugate overlap and, for a density of labels, infinite free entropy.
    perfect = (mean_error(ends.informed.value) <= _POLICY.perfect) & (alpha > counting_threshold(model))
    gap.value[ends.distinct & (perfect | ~known[1])] = np.inf
    return gap


def _beyond_smallest(model: Model, informed: Solution) -> Array:
    """What the free entropy of an exactly known signal misses, taken at the smallest variance of the channel."""
    # Half the information integrated from zero: its growth like the root of 1/V gives V alpha I(V) = degrees V q_hat.
    smallest = np.maximum(mean_error(informed.value), model.channel.smallest)
    rest = model.prior.degrees * smallest * np.trace(informed.extra["q_hat"], axis1=1, axis2=2)
    return np.where(mean_error(informed.value) <= _POLICY.perfect, rest, 0.0)


def _informed_is_best(model: Model, alpha: Array, ends: _Ends) -> Mask:
    """Where the informed fixed point is another one, and the one of larger free entropy."""
    return np.asarray(_gap(model, alpha, ends).value > 0)


def combined(first: Status, second: Status, distinct: bool = False) -> Status:
    """The status of a row that two fixed points make, from theirs."""
    for status in (first, second):
        if not status.ok:
            return status
    return Status.BISTABLE if distinct else Status.CONVERGED


def row_columns(model: Model, variance: Array, suffix: str = "") -> dict[str, Array]:
    """The column of every row's error, for models of several rows."""
    return {f"row_error{suffix}": np.diagonal(variance, axis1=1, axis2=2)} if model.overlap_shape else {}


def _notes(model: Model, q_hat: Array) -> list[str]:
    return [*model.remarks, *_coupled_rows(model, q_hat), *_noise_that_stands_for_none(model)]


def _noise_that_stands_for_none(model: Model) -> list[str]:
    if model.channel.with_more_noise is None:
        return []
    return [
        "labels of several numbers without noise are given one of 3e-4 of their variance: what it changes, seen at "
        "four times as much, is in the error estimate of the error, not in those of predictions"
    ]


def _coupled_rows(model: Model, q_hat: Array) -> list[str]:
    largest = float(np.max(np.abs(off_diagonal(q_hat))))
    if not model.prior.second_order or largest < _POLICY.noted:
        return []
    return [
        f"off-diagonal conjugate overlaps, up to {largest:.2g} of the diagonal, couple the rows: their effect is "
        "computed to second order, and the next order is in the error estimate"
    ]


def mean_error(variance: Array) -> Array:
    """Mean over the rows of their errors, shape (batch,), from covariances of shape (batch, P, P)."""
    return np.asarray(np.trace(variance, axis1=1, axis2=2) / variance.shape[-1])


def off_diagonal(matrices: Array) -> Array:
    """Largest entry off the diagonal, relative to those on it, with its sign; zero for a single row."""
    size = matrices.shape[-1]
    if size == 1:
        return np.zeros(len(matrices))
    scale = np.sqrt(np.maximum(np.diagonal(matrices, axis1=1, axis2=2), 1e-300))
    relative = matrices / (scale[:, :, None] * scale[:, None, :])
    flat = relative[:, ~np.eye(size, dtype=bool)]
    place = np.argmax(np.abs(flat), axis=1)
    return np.asarray(np.take_along_axis(flat, place[:, None], axis=1)[:, 0])
