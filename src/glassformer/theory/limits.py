"""Bayes-optimal limits over a range of sample ratios."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.integral import Array
from glassformer.core.results import Table
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.models import MatrixModel, Model, counting_threshold
from glassformer.theory.equation_of_state import resolved_curve
from glassformer.theory.free_entropy import free_entropy
from glassformer.theory.overlap_limits import overlap_limits
from glassformer.theory.state_evolution import INFORMED_VARIANCE, SYMMETRY_BREAKING, state_evolution, validated_alpha

# Two fixed points closer than this, relative to the larger variance, are one.
_DISTINCT = 1e-6
# A variance that iterates to this is zero.
_PERFECT = 1e-11
# From this many sample ratios on, the equation of state saves more than it costs.
_MANY = 16


def limits(
    model: Model | MatrixModel, alpha: ArrayLike, settings: Iteration | None = None, throw: bool = True
) -> Table:
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
        Bayes-optimal), ``overlap`` (:math:`q`), ``q_hat``, ``algorithmic_error`` (reached from the uninformed start,
        so by message passing), ``informed_error``, errors on labels by name, ``error_estimate`` (absolute, of
        ``error``), ``residual`` and ``iterations``. Models of several rows have matrices in the columns ``overlap``
        and ``q_hat``, ``row_error`` with the error of each row (``error`` is their mean), ``q_hat_off_diagonal`` (the
        largest entry off the diagonal, relative), ``prediction_error`` and ``plugin_error`` on new labels, with
        standard errors.

    Raises:
        ParameterError: ``alpha`` is out of range.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> table = limits(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0), [0.0, 0.3, 0.8])
        >>> table["error"].round(4) + 0.0
        array([1.    , 0.6406, 0.    ])
    """
    alpha = validated_alpha(alpha)
    if isinstance(model, MatrixModel):
        return overlap_limits(model, alpha, settings, throw)
    uninformed, informed = _both_ends(model, alpha, settings)
    scale = np.maximum(uninformed.value, informed.value)
    margin = _DISTINCT * scale + 10 * (uninformed.error_estimate + informed.error_estimate) + 1e-12
    distinct = np.abs(uninformed.value - informed.value) > margin
    best = _choose(model, alpha, uninformed, informed, distinct)
    labels = model.channel.label_error(best["value"])
    table = Table(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": alpha,
            "error": best["value"],
            "overlap": model.prior.second_moment - best["value"],
            "q_hat": best["q_hat"],
            **{name: np.asarray(value) for name, value in labels.items()},
            "algorithmic_error": uninformed.value,
            "informed_error": informed.value,
            "error_estimate": best["error_estimate"],
            "residual": best["residual"],
            "iterations": np.maximum(uninformed.iterations, informed.iterations).astype(float),
        },
        status=[
            _combined(a, b, bool(two)) for a, b, two in zip(uninformed.status, informed.status, distinct, strict=True)
        ],
    )
    if throw:
        table.raise_unless_converged(accepted=(Status.CONVERGED, Status.BISTABLE))
    return table


def _both_ends(model: Model, alpha: Array, settings: Iteration | None) -> tuple[Solution, Solution]:
    """Fixed points reached from the uninformed and from the informed start.

    Many sample ratios share the equation of state on a grid of overlaps; for even labels, whose hard phases end in
    folds that no iteration should leap over, it is worth its cost for few. The uninformed iteration passes
    everything up to the first cell in which the curve crosses ``alpha``, the informed one everything down to the last;
    where that is one and the same cell there is one fixed point, found once, from the interpolated place in the cell.
    """
    if len(alpha) < _MANY and not model.channel.even:
        ends = (state_evolution(model, alpha, start, settings) for start in ("uninformed", "informed"))
        return next(ends), next(ends)
    curve = resolved_curve(model)
    unknown = 1.0 - (SYMMETRY_BREAKING if model.channel.even else 0.0)
    variance = np.concatenate([[unknown], curve.variance])
    first = np.searchsorted(np.maximum.accumulate(curve.alpha), alpha)
    last = np.searchsorted(np.minimum.accumulate(curve.alpha[::-1])[::-1], alpha)
    start, several = variance[first], first != last
    crossed = ~several & (first > 0) & (first < len(curve.alpha))
    start[crossed] = curve.variance_at(alpha[crossed], first[crossed])
    origin = np.where(several, start, unknown)
    uninformed = state_evolution(model, alpha, start, settings, origin)
    if not several.any():
        return uninformed, uninformed
    beyond = np.append(curve.variance, min(INFORMED_VARIANCE, curve.variance[-1]))[last]
    return uninformed, uninformed.overlaid(several, state_evolution(model, alpha[several], beyond[several], settings))


def _choose(
    model: Model, alpha: Array, first: Solution, second: Solution, distinct: NDArray[np.bool_]
) -> dict[str, Array]:
    """Fields of the uninformed solution, replaced by the informed one where that has the larger free entropy."""
    take = np.zeros(alpha.shape, dtype=bool)
    finite = distinct & np.isfinite(first.extra["q_hat"]) & np.isfinite(second.extra["q_hat"])
    if np.any(finite):
        phi = [free_entropy(model, alpha[finite], s.extra["q_hat"][finite]).value for s in (first, second)]
        take[finite] = phi[1] > phi[0]
    # A signal known exactly has an infinite conjugate overlap and, for a density of labels, infinite free entropy.
    perfect = (second.value <= _PERFECT) & (alpha > counting_threshold(model))
    take |= distinct & (perfect | ~np.isfinite(second.extra["q_hat"]))
    fields = ("value", "residual", "error_estimate")
    chosen = {name: np.where(take, getattr(second, name), getattr(first, name)) for name in fields}
    return {**chosen, "q_hat": np.where(take, second.extra["q_hat"], first.extra["q_hat"])}


def _combined(first: Status, second: Status, distinct: bool) -> Status:
    for status in (first, second):
        if not status.ok:
            return status
    return Status.BISTABLE if distinct else Status.CONVERGED
