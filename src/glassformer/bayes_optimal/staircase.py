r"""The staircase of weak recovery: the sample ratios at which subspaces of several rows are found, one after the other.

At zero overlap state evolution is linear, :math:`Q \mapsto (\alpha/\mathrm{degrees})F(Q)` with

.. math:: F(M) = \sum_{ll'} E_y\bigl[D_{ll'}MD_{ll'}^T\bigr], \qquad D_{ll'} = \partial g_l/\partial\omega_{l'},

a positive map on symmetric matrices. The eigenvector of its leading eigenvalue :math:`\lambda` is positive
semi-definite and spans the subspace that is found first, at :math:`\alpha_c = \mathrm{degrees}/\lambda`. Once a
subspace is recovered, the same holds in the directions orthogonal to it, with ``D`` at the fixed point that state
evolution reaches inside the subspace at that :math:`\alpha`: the next threshold is where
:math:`\alpha\lambda(\alpha) = \mathrm{degrees}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.equation_of_state import natural_scale
from glassformer.bayes_optimal.evolution_map import EvolutionMap
from glassformer.bayes_optimal.instability import (
    ACCURACY,
    LOW_ACCURACY,
    STANDARD_ERRORS,
    Instability,
    instability,
)
from glassformer.bayes_optimal.known_direction import POINTS_FACTOR, GrowthCrossing, KnownDirection
from glassformer.bayes_optimal.solve import coarse_state_evolution, solve_state_evolution
from glassformer.bayes_optimal.subspaces import is_on_whole_rows, projector_on, range_of
from glassformer.core.cache import memoize
from glassformer.core.checks import require_arguments
from glassformer.core.equality import content_hash, same_content
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.models.base import Model, require_theory

# Later thresholds are searched between these multiples of the first one.
_NEAREST, _FARTHEST = 0.05, 60.0
# Accuracy of later thresholds and of their eigenvalues, which also contain the error of a fixed point.
_LATER_ACCURACY, _LATER_EIGENVALUE = 2e-3, 5e-3
# Smallest factor between two ratios of the search upwards, whose third power is the largest one (a compromise).
_STEP = 1.6
# Search with few data points: accuracy, largest number of steps, and share of the data points.
_COARSE_ACCURACY, _COARSE_STEPS, _COARSE_POINTS = 2e-2, 12, 0.25
# Largest number of evaluations with all data points, largest change of the log-ratio by one of them, and relative error
# of that change, whose slope is from few data points (found by comparison with more evaluations).
_CORRECTIONS, _LONGEST_CORRECTION, _CORRECTION_ERROR = 4, 0.1, 0.35
# Seconds for a posterior up to which thresholds have the full accuracy (a compromise).
_CHEAP = 5e-5
# Seconds for a posterior from which on the first threshold has the lower accuracy (a compromise).
_EXPENSIVE = 1e-3
# Growth per step that counts as zero; keeps logarithms finite.
_NO_GROWTH = 1e-6
# Rounding errors of the entries of a projector and of its trace.
_ROUNDING = 1e-12

# A ratio and the growth of unknown directions there.
Place = tuple[float, float]


class WeakRecoveryStep(NamedTuple):
    """One threshold of weak recovery.

    Attributes:
        alpha: sample ratio at which the subspace is learned; infinite if nothing grows, NaN if averages are too rough.
        error_estimate: absolute error of ``alpha``.
        matrix: positive semi-definite matrix of unit trace whose range is the subspace.
        degenerate: whether several subspaces become unstable at the same ratio.
        silent: if nothing grows, the ratio up to which this holds within the error.
    """

    alpha: float
    error_estimate: float
    matrix: Array
    degenerate: bool
    silent: float = np.inf

    def __eq__(self, other: object) -> bool:
        return same_content(self, other)

    def __hash__(self) -> int:
        return content_hash(self)


def weak_recovery_steps(model: Model) -> list[WeakRecoveryStep]:
    """Return thresholds of weak recovery at positive sample ratios, one subspace after the other.

    If nothing is known and nothing grows within the error, the only threshold is infinite, or NaN if averages are too
    rough for a statement. Where posteriors are expensive, thresholds are less accurate, as their errors say.
    """
    prior, known = model.prior, known_at_any_ratio(model)
    # Work grows with the inverse square of the accuracy.
    seconds = model.channel.inference.posterior_seconds
    factor = float(np.sqrt(max(1.0, seconds / _CHEAP)))
    if np.trace(known) > 0.5:
        scale = prior.degrees / float(np.linalg.eigvalsh(information_matrix(model, np.eye(prior.rows))[0])[-1])
        steps, start, farthest = [], _NEAREST * scale, _FARTHEST * scale
    else:
        first = _first_step(model, accuracy=max(factor * ACCURACY, LOW_ACCURACY if seconds > _EXPENSIVE else 0.0))
        if not np.isfinite(first.alpha):
            return [first]
        steps, start, farthest = [first], first.alpha, _FARTHEST * first.alpha
        known = range_of(first.matrix)
    # Without rotational invariance of the prior, an overlap with one mixture of rows implies overlaps with other
    # mixtures, so that later thresholds exist for whole rows only. Directions without effect on labels are never known.
    visible = float(np.trace(model.channel.labels.row_symmetries.visible))
    while np.trace(known) < visible - 0.5 and (prior.rotational or is_on_whole_rows(known)):
        following = _later_step(model, known, np.eye(prior.rows) - known, start, farthest, factor * _LATER_EIGENVALUE)
        if following is None:
            break
        steps.append(following)
        start, known = following.alpha, range_of(known + following.matrix)
    return steps


def known_at_any_ratio(model: Model) -> Array:
    """Return the projector on the directions that have an overlap at any alpha > 0.

    In these directions the mean score, given the directions known before, does not vanish.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0] ** np.array([1, 2]), 2, 1, noise=0.1)
        >>> known_at_any_ratio(model.at_accuracy(Accuracy(points=32)))
        array([[1., 0.],
               [0., 0.]])
    """
    size = model.prior.rows
    known = np.zeros((size, size))
    for _ in range(size):
        outside = np.eye(size) - known
        hidden = model.channel.labels.row_symmetries.hidden(0.5 * known)
        if np.trace(outside @ hidden) > np.trace(outside) - 0.5:
            # Labels are even in all remaining directions.
            break
        value, error = information_matrix(model, np.eye(size) - 0.5 * known)
        values, vectors = np.linalg.eigh(outside @ value @ outside)
        learned = vectors[:, values > STANDARD_ERRORS * np.linalg.norm(error) + _NO_GROWTH]
        if learned.shape[1] == 0:
            break
        known = known + learned @ learned.T
    return np.where(np.abs(known) < _ROUNDING, 0.0, known)


def information_matrix(model: Model, variance: Array) -> tuple[Array, Array]:
    """Return the information at one covariance, and its error; memoized, as all steps need it at zero overlap."""
    channel = model.channel
    value, error = memoize(lambda: channel.inference.information(variance[None]), "information", channel, variance)
    return value[0], error[0]


def subspace_threshold(
    model: Model, subspace: int | ArrayLike, known: int | ArrayLike | None = None, accuracy: float = ACCURACY
) -> WeakRecoveryStep:
    r"""Return the weak-recovery threshold of a given subspace if only another given subspace is known.

    Args:
        model: prior and channel, with labels that are even in the subspace.
        subspace: a row, counted from 0, a direction, shape (P,), or several directions, shape (P, k).
        known: the known subspace, in the same form; its overlap at each sample ratio follows from state evolution.
            Nothing by default.
        accuracy: relative accuracy for sampled averages, reached by more data points up to a limit. With ``known`` it
            is half a per cent at best, because a fixed point is needed as well.

    Returns:
        :class:`WeakRecoveryStep`. Its ``alpha`` is infinite if nothing grows; NaN if averages are too rough, or if
        nothing grows up to sixty times the first weak-recovery threshold.

    Raises:
        ParameterError: the row does not exist, directions have a wrong shape, or the accuracy is not positive.
        IncompatibleError: labels are of several indices of one matrix.

    Source: arXiv:2502.00901, theorem 2.3, for given directions.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> round(subspace_threshold(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), 0).alpha, 6)
        0.5
    """
    require_arguments(subspace_threshold, locals())
    if not 0 < accuracy < np.inf:
        raise ParameterError("accuracy", accuracy, "finite and > 0")
    require_theory(model)
    if not model.overlap_shape and model.channel.fields.columns > 1:
        raise IncompatibleError(
            f"model {model.name} has one matrix, whose threshold has no choice of a subspace: use thresholds"
        )
    chosen = projector_on(model, "subspace", subspace)
    if known is None:
        return _first_step(model, chosen, accuracy)
    given = projector_on(model, "known", known)
    scale = _first_step(model, None, accuracy).alpha
    scale = scale if np.isfinite(scale) else 1.0
    step = _later_step(model, given, chosen, _NEAREST * scale, _FARTHEST * scale, max(accuracy, _LATER_EIGENVALUE))
    return WeakRecoveryStep(np.nan, 0.0, chosen / np.trace(chosen), False) if step is None else step


def _first_step(model: Model, unknown: Array | None = None, accuracy: float = ACCURACY) -> WeakRecoveryStep:
    """Return the threshold of the directions ``unknown``, all by default, if nothing is known."""
    everything = np.eye(model.prior.rows)
    leading = instability(model, everything, everything if unknown is None else unknown, accuracy)
    uncertainty, degrees = STANDARD_ERRORS * leading.error + abs(leading.missing), model.prior.degrees
    if leading.rate <= max(uncertainty, _NO_GROWTH):
        silent = degrees / max(leading.rate + uncertainty, _NO_GROWTH)
        # If the growth of a typical model is within the error of the averages, the result is undetermined.
        alpha = np.inf if silent > natural_scale(model) else np.nan
        return WeakRecoveryStep(alpha, 0.0, leading.matrix, leading.degenerate, silent)
    alpha = degrees / leading.rate
    return WeakRecoveryStep(alpha, alpha * leading.relative_error, leading.matrix, leading.degenerate)


def _later_step(
    model: Model, known: Array, unknown: Array, start: float, farthest: float, accuracy: float
) -> WeakRecoveryStep | None:
    """Return the ratio at which the directions ``unknown`` become unstable at the fixed points inside ``known``.

    If one direction is known, the search follows the curve of fixed points. Otherwise few data points locate the ratio,
    and all data points correct it. None if nothing becomes unstable up to ``farthest``.
    """
    along = _along_known_direction(model, known, unknown, farthest)
    if along is not None and along.alpha > start:
        return WeakRecoveryStep(along.alpha, along.error, along.instability.matrix, along.instability.degenerate)

    def growth(leading: Instability, alpha: float) -> float:
        return max(_NO_GROWTH, leading.rate * alpha / model.prior.degrees)

    # Where less accuracy is asked for, fewer data points at first may do; quasi-random points come in powers of two.
    finer = max(1, POINTS_FACTOR >> round(np.log2(accuracy / _LATER_EIGENVALUE)))
    found: dict[float, Array] = {}

    def fixed_point_inside(place: float, coarse: bool = False) -> Array:
        """Return the fixed point inside the known directions; the iteration begins at that of a smaller ratio.

        A ratio that is larger by less than the accuracy may also do.
        """
        note(f"later threshold, instability at alpha = {place:.3g}")
        earlier = found.get(max((ratio for ratio in found if ratio <= place * (1 + accuracy)), default=np.nan))
        update = EvolutionMap(model, np.array([place]), model.channel, subspace=known)
        solution = (coarse_state_evolution if coarse else solve_state_evolution)(update, earlier=earlier)
        if solution.settled.all():
            found[place] = solution.value
        return np.asarray(solution.value[0])

    def coarse_growth(alpha: float) -> float:
        """Return the growth per step at the fixed point, both from few data points."""
        inside = fixed_point_inside(alpha, coarse=True)
        return growth(instability(model, inside, unknown, np.inf, _COARSE_POINTS), alpha)

    def instability_at(alpha: float) -> Instability:
        return instability(model, fixed_point_inside(alpha), unknown, accuracy, finer)

    ends = _bracket(coarse_growth, start, farthest)
    if ends is None:
        return None
    low, high = ends
    if low[0] == start:
        # Growth at the start, with the fixed point at a ratio just above it.
        low = (start, coarse_growth(start * 1.02) / 1.02)
        if low[1] >= 1:
            leading = instability_at(start * 1.02)
            return WeakRecoveryStep(start, start * 0.02, leading.matrix, leading.degenerate)
    tolerance = min(_COARSE_ACCURACY * accuracy / _LATER_EIGENVALUE, _LONGEST_CORRECTION)
    alpha, exponent = _root(coarse_growth, low, high, tolerance)
    for remaining in reversed(range(_CORRECTIONS)):
        leading = instability_at(alpha)
        missed = -float(np.log(growth(leading, alpha))) / exponent
        change = float(np.clip(missed, -_LONGEST_CORRECTION, _LONGEST_CORRECTION))
        alpha *= float(np.exp(change))
        uncertainty = _CORRECTION_ERROR * abs(change) + abs(missed - change)
        if uncertainty <= max(_LATER_ACCURACY, leading.relative_error / exponent) or not remaining:
            break
    error = alpha * (leading.relative_error / exponent + uncertainty)
    return WeakRecoveryStep(alpha, float(error), leading.matrix, leading.degenerate)


def _bracket(growth_at: Callable[[float], float], start: float, farthest: float) -> tuple[Place, Place] | None:
    """Return neighbouring ratios above ``start`` between which growth reaches one; None if it does not.

    If growth is above one at the first ratio, the lower one is ``start``, with zero in place of a growth.
    """
    low = high = (start, 0.0)
    while high[1] < 1:
        if high[0] >= farthest:
            return None
        factor = _STEP
        if low[0] > start:
            # Growth is nearly a power of alpha: a little beyond the place where it reaches one.
            (width, rise), missing = np.log(np.divide(high, low)), -np.log(high[1])
            factor = np.clip(1.05 * np.exp(missing * width / max(rise, _NO_GROWTH)), _STEP, _STEP**3)
        alpha = float(min(high[0] * factor, farthest))
        low, high = high, (alpha, growth_at(alpha))
    return low, high


def _root(growth_at: Callable[[float], float], low: Place, high: Place, tolerance: float) -> tuple[float, float]:
    """Return the ratio between two places at which growth is one, to a relative tolerance, and its power of alpha."""
    alpha, nearest = min(low, high, key=lambda end: abs(np.log(end[1])))
    log_growth = float(np.log(nearest))
    # Between the two ends growth is nearly a power of alpha: secant steps in logarithms.
    for _ in range(_COARSE_STEPS):
        (width, rise), (_, below) = np.log(np.divide(high, low)), np.log(low)
        exponent = float(max(rise / width, 1e-3))
        if abs(log_growth) <= tolerance * exponent:
            break
        alpha = float(low[0] * np.exp(width * np.clip(-below / rise, 0.05, 0.95)))
        log_growth = float(np.log(growth_at(alpha)))
        low, high = ((alpha, np.exp(log_growth)), high) if log_growth < 0 else (low, (alpha, np.exp(log_growth)))
    return alpha * float(np.exp(-log_growth / exponent)), exponent


def _along_known_direction(model: Model, known: Array, unknown: Array, farthest: float) -> GrowthCrossing | None:
    """Return the threshold along the fixed points of a single known direction; None if they do not determine it."""
    channel, single = model.channel, abs(np.trace(known) - 1) <= _ROUNDING
    if not channel.inference.sampled or channel.inference.with_more_noise is not None or not single:
        return None
    return KnownDirection(model, known, unknown).crossing(farthest)
