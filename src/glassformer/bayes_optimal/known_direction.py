r"""The weak-recovery threshold with one known direction, along the curve of its fixed points.

While only one direction is known, its variance ``v`` is the only unknown of state evolution, and the sample ratio
follows from ``v`` without iteration, as in :mod:`~glassformer.bayes_optimal.equation_of_state`. One pass over the data
points gives the ratio at the fixed point ``v`` and the growth of overlaps in the other directions. The threshold is the
point at which this growth per step is one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from glassformer.bayes_optimal.evolution_map import EvolutionMap, side_information_overlap
from glassformer.bayes_optimal.instability import FEWEST_POINTS, Instability, growth_of
from glassformer.bayes_optimal.subspaces import symmetric_basis
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import advance
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import confidence_factor

# The coordinate x on the curve is the logarithm of overlap over variance, scanned from the first to the last value in
# these strides. Thresholds beyond are left to the search over sample ratios (chosen by trial, as all numbers here).
_FIRST, _LAST, _STRIDE = -3.0, 9.0, 2.0
# Data points of the last evaluations, as a factor of those of state evolution; divisors of this number for the scan of
# the curve and for the slopes near the crossing.
POINTS_FACTOR = 4
_SCAN_SHARE, _SLOPE_SHARE = 32, 8
# Half the distance of the two points that measure slopes, and the largest log-growth for a last linear correction.
_PROBE, _NEAR = 0.25, 0.1
# Largest number of passes over all data points.
_MOST_PASSES = 4
# Relative error of the slopes used by the last correction.
_SLOPE_ERROR = 0.1
# The curve folds where the ratio falls by more than this many standard errors.
_FOLD_ERRORS = 4.0
# Range of the logarithm of the sample ratio in the search for fixed points.
_RATIOS = (-30.0, 30.0)


class CurvePoint(NamedTuple):
    """A fixed point at which one direction is known, and the growth of overlaps in the other directions.

    Attributes:
        x: logarithm of overlap over variance of the known direction.
        alpha: logarithm of the sample ratio.
        growth: logarithm of the growth per step.
        replicas: deviations of the logarithms of ratio and growth in each replica of the data.
        missing: bias of both logarithms from sampled posteriors.
        unseen: standard error of the logarithm of the ratio from the unseen share of the data.
        instability: the growing directions.
    """

    x: float
    alpha: float
    growth: float
    replicas: tuple[Array, Array]
    missing: tuple[float, float]
    unseen: float
    instability: Instability


class GrowthCrossing(NamedTuple):
    """The point at which the growth per step is one: sample ratio, error estimate, and the growing directions."""

    alpha: float
    error: float
    instability: Instability


class KnownDirection:
    """The curve of fixed points at which one direction is known, and the growth in other directions.

    Args:
        model: prior and channel.
        known: projector on the known direction, shape (P, P).
        unknown: projector on the directions whose growth is computed, shape (P, P).
    """

    def __init__(self, model: Model, known: Array, unknown: Array) -> None:
        self._model, self._known, self._basis = model, known, symmetric_basis(unknown, model)
        self._direction = np.linalg.eigh(known)[1][:, -1]
        self._elsewhere = (1 - side_information_overlap(model)) * (np.eye(len(known)) - known)
        self._map = EvolutionMap(model, np.ones(1), model.channel, subspace=known)

    def crossing(self, farthest: float) -> GrowthCrossing | None:
        """Return the first point at which the growth is one, up to the ratio ``farthest``, or None.

        None means that the curve does not determine the threshold: it folds, or the growth is above one at its
        beginning, or below one at its end.
        """
        low = high = self._point(_FIRST, _SCAN_SHARE)
        while high is not None and high.growth < 0:
            x = high.x + _STRIDE
            if x > _LAST or high.alpha > np.log(farthest):
                return None
            low, high = high, self._point(x, _SCAN_SHARE)
            if high is None or _folds(low, high):
                return None
        if low is None or high is None or low is high:
            return None
        return self._corrected(low.x - low.growth * (high.x - low.x) / (high.growth - low.growth))

    def _corrected(self, x: float) -> GrowthCrossing | None:
        """Return the crossing near ``x``, with slopes from a share of the data points and growth from all points."""
        low, high = (self._point(x + side * _PROBE, _SLOPE_SHARE) for side in (-1, 1))
        if low is None or high is None or _folds(low, high):
            return None
        width = high.x - low.x
        growth_slope, alpha_slope = (high.growth - low.growth) / width, (high.alpha - low.alpha) / width
        if growth_slope <= 0 or alpha_slope <= 0:
            return None
        x = 0.5 * (low.x + high.x) - 0.5 * (low.growth + high.growth) / growth_slope
        for _ in range(_MOST_PASSES):
            point = self._point(x, 1)
            if point is None:
                return None
            if abs(point.growth) <= _NEAR:
                return extrapolated_crossing(point, growth_slope, alpha_slope)
            x -= point.growth / growth_slope
        return None

    def _point(self, x: float, share: int) -> CurvePoint | None:
        """Return the fixed point of one overlap from a share of the data points, or None if no ratio has it."""
        variance, inference = 1 / (1 + np.exp(x)), self._model.channel.inference
        points = max(min(FEWEST_POINTS, inference.points), POINTS_FACTOR * inference.points // share)
        inference = inference.with_points(points)
        averages, response = inference.averages_and_response(self._elsewhere + variance * self._known)
        advance(inference.work)
        instability = growth_of(self._model, self._basis, response)
        alpha = self._log_ratio(averages.information, variance)
        if alpha is None or instability.rate <= 0:
            return None
        direction = self._direction
        information = np.einsum("a,rab,b->r", direction, averages.replicas[0], direction)
        mean = float(np.mean(information))
        return CurvePoint(
            x,
            alpha,
            float(np.log(instability.rate / self._model.prior.degrees) + alpha),
            (1 - information / mean, instability.replicas / instability.rate - 1),
            (-float(direction @ averages.missing[0] @ direction) / mean, instability.missing / instability.rate),
            averages.unseen,
            instability,
        )

    def _log_ratio(self, information: Estimate, variance: float) -> float | None:
        """Return the logarithm of the sample ratio whose fixed point has this variance of the direction."""
        direction, degrees, nothing = self._direction, self._model.prior.degrees, np.zeros_like(information.error)

        def next_variance(log_ratio: float) -> float:
            conjugate = Estimate(np.exp(log_ratio) / degrees * information.value, nothing)
            return float(direction @ self._map.covariance(conjugate, np.zeros(1, dtype=int)).value[0] @ direction)

        low, high = _RATIOS
        if not next_variance(low) > variance > next_variance(high):
            return None
        return float(brentq(lambda ratio: np.log(next_variance(ratio) / variance), low, high, xtol=1e-10))


def _folds(first: CurvePoint, second: CurvePoint) -> bool:
    """Return whether the ratio falls from one point to the next: the uninformed start then never reaches the second."""
    errors = [_standard_error(point.replicas[0]) for point in (first, second)]
    return bool(second.alpha < first.alpha - _FOLD_ERRORS * np.linalg.norm(errors))


def extrapolated_crossing(point: CurvePoint, growth_slope: float, alpha_slope: float) -> GrowthCrossing:
    """Return the crossing near a point by linear extrapolation of growth and ratio in ``x``."""
    share = alpha_slope / growth_slope
    changes = (1 - share) * point.replicas[0] - share * point.replicas[1]
    correction = share * point.growth
    alpha = float(np.exp(point.alpha - correction))
    sampled = confidence_factor(len(changes)) * np.hypot(_standard_error(changes), (1 - share) * point.unseen)
    missing = (1 - share) * point.missing[0] - share * point.missing[1]
    error = alpha * (sampled + abs(missing) + _SLOPE_ERROR * abs(correction))
    return GrowthCrossing(alpha, float(error), point.instability)


def _standard_error(replicas: Array) -> float:
    return float(np.std(replicas, ddof=1) / np.sqrt(len(replicas)))
