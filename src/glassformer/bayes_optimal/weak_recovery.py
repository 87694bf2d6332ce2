r"""Weak-recovery thresholds of several rows: subspaces are found one after the other, if labels are even in them.

At zero overlap state evolution is linear, :math:`Q \mapsto (\alpha/\mathrm{degrees})F(Q)` with

.. math:: F(M) = \sum_{ll'} E_y\bigl[D_{ll'}MD_{ll'}^T\bigr], \qquad D_{ll'} = \partial g_l/\partial\omega_{l'},

a positive map on symmetric matrices: the eigenvector of its leading eigenvalue is positive semi-definite and spans the
subspace that is found first, at :math:`\alpha_c = \mathrm{degrees}/\lambda`. Once a subspace is recovered, the same
holds in the directions orthogonal to it, with ``D`` at the fixed point that state evolution reaches inside it at that
:math:`\alpha`: the next threshold is where :math:`\alpha\lambda(\alpha) = \mathrm{degrees}`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.equation_of_state import natural_scale
from glassformer.bayes_optimal.instability import ACCURACY, STANDARD_ERRORS, Instability, instability
from glassformer.bayes_optimal.known_direction import POINTS_FACTOR, GrowthCrossing, KnownDirection
from glassformer.bayes_optimal.solve import solve_state_evolution
from glassformer.bayes_optimal.subspaces import is_on_whole_rows, projector_on, range_of
from glassformer.core.cache import memoize
from glassformer.core.checks import require_arguments
from glassformer.core.equality import content_hash, same_content
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.models.base import Model, require_theory

# Later thresholds are looked for between these multiples of the ratio at which something is found first.
_NEAREST, _FARTHEST = 0.05, 60.0
# Accuracy of later thresholds, and of the eigenvalue there; they need a fixed point, which has an error as well.
_LATER_ACCURACY, _LATER_EIGENVALUE = 2e-3, 5e-3
# Accuracy of the threshold from few data points, steps of that search, and the share of the data points it takes.
_COARSE_ACCURACY, _COARSE_STEPS, _COARSE_POINTS = 5e-3, 12, 0.25
# Evaluations with all data points, and the largest logarithm of the ratio that one of them may correct.
_CORRECTIONS, _LONGEST_CORRECTION = 4, 0.1
# Growth per step that counts as none: its logarithm must exist.
_NO_GROWTH = 1e-6
# Entries of a projector, and distances of its trace from an integer, that are rounding.
_ROUNDING = 1e-12


class WeakRecoveryStep(NamedTuple):
    """One threshold of weak recovery.

    Attributes:
        alpha: where the subspace is found; infinite where nothing grows, NaN where averages are too rough.
        error_estimate: absolute.
        matrix: positive semi-definite of unit trace; its range is the subspace.
        degenerate: whether several subspaces become unstable at once.
        silent: if nothing is found, the ratio up to which this is certain within the error.
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

    If nothing is known and, within the error, nothing grows, the list ends with an infinite one, and with one that is
    NaN if averages are too rough to tell.
    """
    prior, known = model.prior, known_at_any_ratio(model)
    if np.trace(known) > 0.5:
        scale = prior.degrees / float(np.linalg.eigvalsh(information_matrix(model, np.eye(prior.rows))[0])[-1])
        steps, start, farthest = [], _NEAREST * scale, _FARTHEST * scale
    else:
        first = _first_step(model)
        if not np.isfinite(first.alpha):
            return [first]
        steps, start, farthest = [first], first.alpha, _FARTHEST * first.alpha
        known = range_of(first.matrix)
    # If priors are not rotationally invariant, the overlap with a mixture of rows implies some with the other mixtures:
    # then only whole rows are steps. Directions that no label depends on are never known.
    visible = float(np.trace(model.channel.row_symmetries.visible))
    while np.trace(known) < visible - 0.5 and (prior.rotational or is_on_whole_rows(known)):
        following = _later_step(model, known, np.eye(prior.rows) - known, start, farthest, _LATER_EIGENVALUE)
        if following is None:
            break
        steps.append(following)
        start, known = following.alpha, range_of(known + following.matrix)
    return steps


def known_at_any_ratio(model: Model) -> Array:
    """Return the projector on the directions with overlap at any alpha > 0.

    The mean score does not vanish there, given the directions known before.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> known_at_any_ratio(SequenceMultiIndex(lambda z: z[:, 0] ** np.array([1, 2]), 2, 1, noise=0.1, points=32))
        array([[1., 0.],
               [0., 0.]])
    """
    size = model.prior.rows
    known = np.zeros((size, size))
    for _ in range(size):
        outside = np.eye(size) - known
        value, error = information_matrix(model, np.eye(size) - 0.5 * known)
        values, vectors = np.linalg.eigh(outside @ value @ outside)
        learned = vectors[:, values > STANDARD_ERRORS * np.linalg.norm(error) + _NO_GROWTH]
        if learned.shape[1] == 0:
            break
        known = known + learned @ learned.T
    return np.where(np.abs(known) < _ROUNDING, 0.0, known)


def information_matrix(model: Model, variance: Array) -> tuple[Array, Array]:
    """Return the information at one covariance, and its error; remembered, as every step asks for zero overlap."""
    channel = model.channel
    value, error = memoize(lambda: channel.information_matrix(variance[None]), "information", channel, variance)
    return value[0], error[0]


def subspace_threshold(
    model: Model, subspace: int | ArrayLike, known: int | ArrayLike | None = None, accuracy: float = ACCURACY
) -> WeakRecoveryStep:
    r"""Return the threshold of a chosen subspace if only another given one is known.

    Args:
        model: prior and channel, whose labels are even in the subspace.
        subspace: a row, counted from 0, a direction, shape (P,), or several of them, shape (P, k).
        known: what is learned already, given likewise; state evolution says how well at every sample ratio. Nothing by
            default.
        accuracy: relative, of averages that are sampled: data points are added up to it, within limits. With ``known``
            it is half a per cent at best, as a fixed point is needed as well.

    Returns:
        :class:`WeakRecoveryStep`; its ``alpha`` is infinite where nothing grows, and NaN where averages are too rough
        to tell, or where nothing grows up to sixty times the ratio at which something would be found first.

    Raises:
        ParameterError: no such row, directions of another number of rows, or an accuracy that is not positive.

    Source: arXiv:2502.00901, theorem 2.3, for directions of one's choice.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> round(subspace_threshold(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), 0).alpha, 6)
        0.5
    """
    require_arguments(subspace_threshold, locals())
    if not 0 < accuracy < np.inf:
        raise ParameterError("accuracy", accuracy, "finite and > 0")
    require_theory(model)
    chosen = projector_on(model, "subspace", subspace)
    if known is None:
        return _first_step(model, chosen, accuracy)
    given = projector_on(model, "known", known)
    scale = _first_step(model, None, accuracy).alpha
    scale = scale if np.isfinite(scale) else 1.0
    step = _later_step(model, given, chosen, _NEAREST * scale, _FARTHEST * scale, max(accuracy, _LATER_EIGENVALUE))
    return WeakRecoveryStep(np.nan, 0.0, chosen / np.trace(chosen), False) if step is None else step


def _first_step(model: Model, unknown: Array | None = None, accuracy: float = ACCURACY) -> WeakRecoveryStep:
    """Return the threshold of the directions ``unknown``, all by default, where nothing is known."""
    everything = np.eye(model.prior.rows)
    leading = instability(model, everything, everything if unknown is None else unknown, accuracy)
    uncertainty, degrees = STANDARD_ERRORS * leading.error + abs(leading.missing), model.prior.degrees
    if leading.rate <= max(uncertainty, _NO_GROWTH):
        silent = degrees / max(leading.rate + uncertainty, _NO_GROWTH)
        # Averages so rough that the growth of any model is within their error do not say that nothing grows.
        alpha = np.inf if silent > natural_scale(model) else np.nan
        return WeakRecoveryStep(alpha, 0.0, leading.matrix, leading.degenerate, silent)
    alpha = degrees / leading.rate
    return WeakRecoveryStep(alpha, alpha * leading.relative_error, leading.matrix, leading.degenerate)


def _later_step(
    model: Model, known: Array, unknown: Array, start: float, farthest: float, accuracy: float
) -> WeakRecoveryStep | None:
    """Return where the directions ``unknown`` become unstable at the fixed points inside ``known``.

    It is looked for along the curve of fixed points if one direction is known. Otherwise few data points locate it, and
    all of them correct the result. None if nothing becomes unstable up to ``farthest``.
    """
    along = _along_known_direction(model, known, unknown, farthest)
    if along is not None and along.alpha > start:
        return WeakRecoveryStep(along.alpha, along.error, along.instability.matrix, along.instability.degenerate)

    def growth(leading: Instability, alpha: float) -> float:
        return max(_NO_GROWTH, leading.rate * alpha / model.prior.degrees)

    def coarse_growth(place: float, alpha: float) -> float:
        """Growth per step at ``alpha``, from few data points and the fixed point at ``place``."""
        note(f"later threshold, instability at alpha = {place:.3g}")
        inside = solve_state_evolution(model, np.array([place]), subspace=known, coarse=True).value[0]
        return growth(instability(model, inside, unknown, np.inf, _COARSE_POINTS), alpha)

    def instability_at(alpha: float) -> Instability:
        note(f"later threshold, instability at alpha = {alpha:.3g}")
        inside = solve_state_evolution(model, np.array([alpha]), subspace=known).value[0]
        return instability(model, inside, unknown, accuracy, POINTS_FACTOR)

    low = high = (start, coarse_growth(start * 1.02, start))
    if high[1] >= 1:
        leading = instability_at(start * 1.02)
        return WeakRecoveryStep(start, start * 0.02, leading.matrix, leading.degenerate)
    while high[1] < 1:
        if high[0] >= farthest:
            return None
        alpha = min(high[0] * 1.6, farthest)
        low, high = high, (alpha, coarse_growth(alpha, alpha))
    # Growth is nearly a power of alpha between the two ends: secants in logarithms.
    for _ in range(_COARSE_STEPS):
        (width, rise), (_, below) = np.log(np.divide(high, low)), np.log(low)
        exponent = max(rise / width, 1e-3)
        alpha = float(low[0] * np.exp(width * np.clip(-below / rise, 0.05, 0.95)))
        log_growth = np.log(coarse_growth(alpha, alpha))
        if abs(log_growth) <= _COARSE_ACCURACY * exponent:
            break
        low, high = ((alpha, np.exp(log_growth)), high) if log_growth < 0 else (low, (alpha, np.exp(log_growth)))
    alpha *= float(np.exp(-log_growth / exponent))
    for remaining in reversed(range(_CORRECTIONS)):
        leading = instability_at(alpha)
        log_growth = np.log(growth(leading, alpha))
        if abs(log_growth) <= _LATER_ACCURACY * exponent or not remaining:
            break
        alpha *= float(np.exp(np.clip(-log_growth / exponent, -_LONGEST_CORRECTION, _LONGEST_CORRECTION)))
    error = alpha * (leading.relative_error + abs(log_growth)) / exponent
    return WeakRecoveryStep(alpha, float(error), leading.matrix, leading.degenerate)


def _along_known_direction(model: Model, known: Array, unknown: Array, farthest: float) -> GrowthCrossing | None:
    """Return the threshold along the fixed points of a single known direction; None where they do not determine it."""
    channel, single = model.channel, abs(np.trace(known) - 1) <= _ROUNDING
    if not channel.sampled or channel.with_more_noise is not None or not single:
        return None
    return KnownDirection(model, known, unknown).crossing(farthest)
