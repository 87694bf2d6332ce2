r"""Fixed-point equations of regularised risk, and their solution.

The state is the logarithm of the conjugate parameters :math:`(\tau^2, \hat m, \hat V)`. One application of the map
computes the order parameters of the penalised estimate (:mod:`glassformer.risk.penalised_matrix`), and from them the
conjugate parameters by averages over labels (:mod:`glassformer.risk.label_averages`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.numerics.fixed_points.newton import Newton
from glassformer.numerics.fixed_points.solve import solve
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error
from glassformer.risk.label_averages import SampleAverages
from glassformer.risk.order_parameters import ConjugateParameters, OrderParameters
from glassformer.risk.problem import NEGLIGIBLE_NOISE, SMALL_STRENGTH, RiskProblem

_SETTINGS = Iteration(tolerance=1e-13, floor=1e-10, max_iterations=500)
# In the search for the best strength, strengths whose fixed point takes more iterations are ignored.
_SEARCH_SETTINGS = Iteration(tolerance=1e-13, floor=1e-10, max_iterations=100)
# Logarithms of conjugate parameters beyond this size have diverged.
_DIVERGED = 60.0
# Relative accuracy of integrals over laws; its effect diverges where the numbers of labels and unknowns are equal. At a
# relative distance below the second number, the error of fixed points that did not converge is unbounded.
_INTEGRATION_ERROR, _CLOSE_TO_SQUARE = 1e-10, 1e-4
# Two accuracies of the averages over labels agree if the error changes by a smaller share.
AGREEMENT = 1e-7
# Averages have not converged if the error estimate exceeds the error plus this number.
_SMALLEST_ERROR = 1e-8
# At this many sample ratios or more, starts are interpolated between fixed points at a few (measured).
_MANY, FEW = 48, 16
# Share of the largest singular value that is the threshold at the start of the iteration.
_START_THRESHOLD = 0.5
_ROUNDING = 4e-16


class FixedPoints(NamedTuple):
    """Fixed points at several sample ratios, arrays of shape (batch,).

    Attributes:
        strength: of the penalty.
        conjugate: conjugate parameters.
        order: order parameters.
        averages: averages over labels.
        status: :class:`~glassformer.core.status.Status` of the iteration.
        residual: residual of the map in the logarithms of conjugate parameters.
        iterations: number of evaluations of the map.
        error_estimate: absolute error of ``order.error``.
        slopes: Jacobian of the residual, shape (batch, 3, 3); NaN where no map was iterated.
    """

    strength: Array
    conjugate: ConjugateParameters
    order: OrderParameters
    averages: SampleAverages
    status: NDArray[np.object_]
    residual: Array
    iterations: NDArray[np.int64]
    error_estimate: Array
    slopes: Array

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Where the iteration converged."""
        return np.array([status.ok for status in self.status], dtype=bool)

    def statuses(self) -> list[Status]:
        """Return the statuses; if an error estimate exceeds the error, averages have not converged."""
        rough = self.error_estimate > self.order.error + _SMALLEST_ERROR
        lost = Status.INTEGRATION_NOT_CONVERGED
        return [lost if status.ok and bad else status for status, bad in zip(self.status, rough, strict=True)]

    def at(self, rows: Any) -> FixedPoints:
        """Return some of the fixed points."""
        points: FixedPoints = _map_arrays(lambda part: part[rows], self)
        return points

    @classmethod
    def merge(cls, chosen: Any, first: FixedPoints, second: FixedPoints) -> FixedPoints:
        """Return the rows of ``first`` where ``chosen``, and the rows of ``second`` elsewhere."""

        def merged(one: Any, other: Any) -> Any:
            both = np.empty((len(chosen), *one.shape[1:]), dtype=one.dtype)
            both[chosen], both[~chosen] = one, other
            return both

        points: FixedPoints = _map_arrays(merged, first, second)
        return points


def _map_arrays(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to the arrays of nested named tuples."""
    if isinstance(trees[0], tuple):
        return type(trees[0])(*(_map_arrays(function, *parts) for parts in zip(*trees, strict=True)))
    return function(*trees)


def fixed_points(problem: RiskProblem, alpha: Array, strength: Array, estimated: bool = True) -> FixedPoints:
    """Return the fixed points at sample ratios and strengths, shape (batch,).

    Known errors (:meth:`~glassformer.risk.problem.RiskProblem.known_error`) and least squares need no iteration.
    ``estimated`` is as in :func:`fixed_points_near`.
    """
    known = problem.known_error(alpha, strength)
    is_known = ~np.isnan(known)
    closed = ~is_known & problem.is_least_squares(alpha, strength)
    if is_known.any():
        rows, points = is_known, _known_points(problem, alpha[is_known], strength[is_known], known[is_known])
    elif closed.any():
        rows, points = closed, least_squares(problem, alpha[closed])
    else:
        return iterated_points(problem, alpha, strength, estimated)
    if rows.all():
        return points
    return FixedPoints.merge(rows, points, fixed_points(problem, alpha[~rows], strength[~rows], estimated))


def _known_points(problem: RiskProblem, alpha: Array, strength: Array, error: Array) -> FixedPoints:
    """Return fixed points of known error: the estimate is zero, or the signal is recovered."""
    zero, recovered = np.zeros_like(alpha), error == 0
    power = np.where(recovered, problem.power, 0.0)
    rank = np.where(recovered, problem.rank, 0.0)
    degrees = np.where(recovered, 1.0 if problem.penalty.kink == 0 else np.nan, 0.0)
    order = OrderParameters(power, power, zero, error, degrees, rank, zero)
    averages = problem.labels.averages(order)
    conjugate = problem.conjugate_from_averages(alpha, averages)
    return _converged(strength, conjugate, order, averages)


def _converged(
    strength: Array, conjugate: ConjugateParameters, order: OrderParameters, averages: SampleAverages
) -> FixedPoints:
    """Return fixed points that need no iteration."""
    batch, zero = len(strength), np.zeros_like(strength)
    status = np.full(batch, Status.CONVERGED, dtype=object)
    iterations, slopes = np.zeros(batch, dtype=np.int64), np.full((batch, 3, 3), np.nan)
    return FixedPoints(strength, conjugate, order, averages, status, zero, iterations, order.error_estimate, slopes)


def least_squares(problem: RiskProblem, alpha: Array) -> FixedPoints:
    r"""Return fixed points of least squares, or of its solution of least norm, in closed form.

    With the regression slope ``s`` of the label on its field, the variance :math:`\Delta_0` of the residual, ``c``
    components of labels per unknown and :math:`k = \min(c, 1)`, the estimate is :math:`s\,k\,(S + \tau Z)` with

    .. math:: \tau^2 = \frac{\Delta_0/s^2 + (1-k)^2 Q_0}{c - k^2}, \quad E = (1-sk)^2 Q_0 + s^2k^2\tau^2.

    With more labels than unknowns the solution does not depend on the vanishing penalty. For equal numbers of noisy
    labels and unknowns, power and error are infinite.
    """
    slope, rest = problem.labels.regression
    count, power, one = problem.labels_per_unknown(alpha), problem.power, np.ones_like(alpha)
    share, excess = np.minimum(count, 1.0), count - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        # c - k^2, in a form without cancellation.
        denominator = np.where(excess < 0, -count * excess, excess)
        noise = np.nan_to_num((rest / slope**2 + (1 - share) ** 2 * power) / denominator, nan=0.0, posinf=np.inf)
        residual = rest + slope**2 * ((1 - share) ** 2 * power + share**2 * noise)
        susceptibility = np.where(excess > 0, 1 / excess, np.inf)
    error = (1 - slope * share) ** 2 * power + (slope * share) ** 2 * noise
    order = OrderParameters(
        overlap=slope * share * power,
        power=(slope * share) ** 2 * (power + noise),
        susceptibility=susceptibility,
        error=error,
        degrees=one,
        rank=one,
        error_estimate=np.where(np.isfinite(error), _ROUNDING * error, 0.0),
    )
    components, unfitted = problem.labels.components, np.maximum(excess, 0.0) / count
    training = 0.5 * components * rest * unfitted
    averages = SampleAverages(
        components * slope * unfitted, 2 * training, components * unfitted, training, 0.5 * components * residual
    )
    # With fewer labels than unknowns V_hat is that of a small strength.
    v_hat = np.where(excess > 0, excess, SMALL_STRENGTH * count / np.maximum(-excess, SMALL_STRENGTH))
    return _converged(np.zeros_like(alpha), ConjugateParameters(noise, slope * v_hat, v_hat), order, averages)


def iterated_points(problem: RiskProblem, alpha: Array, strength: Array, estimated: bool = True) -> FixedPoints:
    """Return fixed points by iteration; strength zero is the limit of small strengths."""
    small = np.where(strength == 0, SMALL_STRENGTH, strength)
    points = fixed_points_near(problem, alpha, small, _start(problem, alpha, small), estimated)
    zero = strength == 0
    if zero.any():
        limit = _limit_of_no_penalty(problem, alpha[zero], points.at(zero), estimated)
        points = FixedPoints.merge(zero, limit._replace(strength=np.zeros_like(limit.strength)), points.at(~zero))
    return points


def _limit_of_no_penalty(problem: RiskProblem, alpha: Array, points: FixedPoints, estimated: bool) -> FixedPoints:
    """Return the limit of no penalty, from fixed points at a small strength.

    For general matrices the limit is the matrix of least penalty that fits the labels. It is computed as a separate
    problem of strength one, because for nearly equal numbers of labels and unknowns no strength is small enough. Errors
    of positive matrices do not diverge, and change in proportion to the strength or its root; four times the strength
    gives an estimate of this change.
    """
    if problem.positive:
        if not estimated:
            return points
        stronger = fixed_points_near(problem, alpha, 4 * points.strength, points.conjugate.logarithms).order.error
        return points._replace(error_estimate=points.error_estimate + 2 * np.abs(stronger - points.order.error))
    interpolation = replace(problem, given_averages=replace(problem.labels, interpolating=True))
    unit = np.array([1.0, SMALL_STRENGTH, SMALL_STRENGTH])
    start = points.conjugate.logarithms - np.log(unit)
    limit = fixed_points_near(interpolation, alpha, np.ones_like(alpha), start, estimated)
    missing = 1 - problem.labels_per_unknown(alpha)
    lost = (missing < _CLOSE_TO_SQUARE) & ~limit.converged
    amplified = np.where(lost, np.inf, _INTEGRATION_ERROR * limit.order.error / missing)
    return limit._replace(
        conjugate=ConjugateParameters(*(part * size for part, size in zip(limit.conjugate, unit, strict=True))),
        error_estimate=limit.error_estimate + amplified,
        order=limit.order._replace(susceptibility=np.full_like(alpha, np.inf)),
        averages=limit.averages._replace(training_loss=np.zeros_like(alpha)),
        iterations=limit.iterations + points.iterations,
    )


def fixed_points_near(
    problem: RiskProblem,
    alpha: Array,
    strength: Array,
    start: Array,
    estimated: bool = True,
    slopes: Array | None = None,
) -> FixedPoints:
    """Return the fixed points near logarithms of conjugate parameters, shape (batch, 3).

    Args:
        problem: model, loss and penalty.
        alpha: sample ratios, shape (batch,).
        strength: strength of the penalty, shape (batch,).
        start: logarithms of conjugate parameters.
        estimated: False in searches: error estimates are NaN, and iterations end earlier.
        slopes: Jacobian of the residual near the start, if a search has computed it at the point before.
    """

    def step(x: Array, index: Any) -> Estimate:
        good = np.all(np.abs(x) < _DIVERGED, axis=1)
        conjugate = ConjugateParameters.from_logarithms(np.where(good[:, None], x, 0.0))
        order = problem.order_parameters(strength[index], conjugate)
        with np.errstate(invalid="ignore", divide="ignore"):
            new = problem.conjugate_parameters(alpha[index], order).logarithms
        new[~good] = np.nan
        error = np.broadcast_to(order.error_estimate[:, None], new.shape) / np.maximum(order.error, 1e-3)[:, None]
        return Estimate(new, error)

    solution = solve(step, start, Newton(slopes), _SETTINGS if estimated else _SEARCH_SETTINGS)
    # Near a threshold the map hardly contracts, and one-sided differences are too inaccurate.
    late = np.array([status is Status.ITERATION_LIMIT for status in solution.status])
    if late.any() and estimated:
        rows = np.flatnonzero(late)
        again = solve(lambda x, index: step(x, rows[index]), solution.value[late], Newton(central=True), _SETTINGS)
        solution = solution.merge_where(late, replace(again, iterations=again.iterations + solution.iterations[late]))
    conjugate = ConjugateParameters.from_logarithms(solution.value)
    order = problem.order_parameters(strength, conjugate)
    error_estimate = np.full_like(strength, np.nan)
    if estimated:
        # Errors of the integrals, and the change of the error if the state changes by its error estimate.
        error_estimate, off, shift = order.error_estimate.copy(), np.minimum(solution.error_estimate, 1.0), 1e-4
        for axis in range(3):
            shifted = solution.value.copy()
            shifted[:, axis] += shift
            error = problem.order_parameters(strength, ConjugateParameters.from_logarithms(shifted)).error
            error_estimate += off * np.abs(error - order.error) / shift
        error_estimate[np.array([status is Status.NON_FINITE for status in solution.status], dtype=bool)] = np.nan
    return FixedPoints(
        strength,
        conjugate,
        order,
        problem.labels.averages(order),
        np.array(solution.status, dtype=object),
        solution.residual,
        solution.iterations,
        error_estimate,
        solution.extra["slopes"],
    )


def refine_averages(problem: RiskProblem, alpha: Array, points: FixedPoints) -> FixedPoints:
    """Return fixed points with more accurate averages over labels, until two accuracies agree.

    Error estimates include the difference of the last two accuracies; for sampled averages they are the spread of the
    replicas.
    """
    rough = points.iterations > 0
    if not rough.all() and problem.labels.finer is not None:
        finest = problem.labels
        while (finer_labels := finest.finer) is not None:
            finest = finer_labels
        known = points.at(~rough)
        known = known._replace(averages=finest.averages(known.order))
        points = FixedPoints.merge(rough, points.at(rough), known)
    while rough.any() and (finer := problem.finer) is not None:
        problem = finer
        start = points.at(rough)
        again = fixed_points_near(
            problem, alpha[rough], start.strength, start.conjugate.logarithms, slopes=start.slopes
        )
        difference = again.error_estimate + np.abs(again.order.error - start.order.error)
        again = again._replace(error_estimate=difference, iterations=again.iterations + start.iterations)
        points = FixedPoints.merge(rough, again, points.at(~rough))
        rough[rough] = ~(difference <= AGREEMENT * again.order.error)
    replicas = list(problem.labels.replicas)
    if not (replicas and rough.any()):
        return points
    start = points.at(rough)
    errors = [
        fixed_points_near(
            replace(problem, given_averages=labels), alpha[rough], start.strength, start.conjugate.logarithms
        ).order.error
        for labels in replicas
    ]
    spread = confidence_factor(len(replicas)) * mean_and_error(np.array(errors))[1]
    return FixedPoints.merge(rough, start._replace(error_estimate=spread), points.at(~rough))


def representative_ratios(alpha: Array) -> Array:
    """Return a few of many sample ratios, between which fixed points at the others are interpolated."""
    if len(alpha) < _MANY:
        return alpha
    return np.unique(np.quantile(alpha, np.linspace(0, 1, FEW), method="nearest"))


def _start(problem: RiskProblem, alpha: Array, strength: Array) -> Array:
    """Return the start of the iteration; at many sample ratios of one strength, by interpolation."""
    few = representative_ratios(alpha)
    if len(few) == len(alpha) or np.any(strength != strength[0]):
        return _unlearned_start(problem, alpha, strength)
    known = fixed_points(problem, few, np.full(len(few), strength[0]), estimated=False)
    ok = known.converged
    if np.sum(ok) < FEW // 2:
        return _unlearned_start(problem, alpha, strength)
    return np.asarray(PchipInterpolator(np.log(few[ok]), known.conjugate.logarithms[ok])(np.log(alpha)))


def _unlearned_start(problem: RiskProblem, alpha: Array, strength: Array) -> Array:
    """Return a start at an estimate of zero, or with a threshold of half the largest singular value."""
    prior, penalty = problem.model.prior, problem.penalty
    slope, rest = problem.labels.regression
    count = problem.labels_per_unknown(alpha)
    closed = problem.labels.ridge_conjugates(alpha, penalty.square * strength) if problem.loss.quadratic else None
    if penalty.quadratic and closed is not None:
        return closed.logarithms
    if penalty.quadratic and problem.loss.quadratic:
        return _ridge_solution(problem, alpha, strength).logarithms
    start = problem.unlearned(alpha)
    if penalty.kink > 0:
        m_hat = start.m_hat * np.fmin(1.0, strength / (_START_THRESHOLD * problem.lambda_max_at(start)))
        start = start._replace(m_hat=m_hat, v_hat=m_hat)
    # With more labels than unknowns the start has the effective noise of least squares.
    excess = count - 1
    if np.any(excess > 0):
        positive = np.maximum(excess, NEGLIGIBLE_NOISE)
        threshold = penalty.kink * np.nan_to_num(strength) / prior.degrees / positive
        noise = np.clip((rest / slope**2 + threshold**2) / positive, SMALL_STRENGTH, start.noise)
        m_hat = np.maximum(start.m_hat, slope * excess)
        guesses = zip((noise, m_hat, m_hat), start, strict=True)
        start = ConjugateParameters(*(np.where(excess > 0, guess, part) for guess, part in guesses))
    return start.logarithms


def _ridge_solution(problem: RiskProblem, alpha: Array, strength: Array) -> ConjugateParameters:
    """Return the closed-form solution of square loss and ridge, exact for labels of regression slope one."""
    slope, rest = problem.labels.regression
    count = problem.labels_per_unknown(alpha)
    ridge = problem.penalty.square * strength / problem.model.prior.degrees
    half = 0.5 * (ridge + 1 - count)
    root = np.sqrt(half**2 + count * ridge)
    v_hat = np.where(half > 0, count * ridge / np.where(half > 0, half + root, 1.0), root - half)
    share = v_hat / (v_hat + ridge)
    noise = (rest / slope**2 + (1 - share) ** 2 * problem.power) / np.maximum(count - share**2, SMALL_STRENGTH)
    return ConjugateParameters(np.maximum(noise, NEGLIGIBLE_NOISE), slope * v_hat, v_hat)
