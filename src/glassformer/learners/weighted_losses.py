"""Losses with weights of the samples, and losses with a given or the best intercept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import copysign
from typing import cast

import numpy as np

from glassformer.core.estimate import Array
from glassformer.risk.loss_base import Loss

# Mean slope at which the search for the intercept ends, and mean slope of the size of rounding errors.
_FOUND, _EXACT = 1e-7, 1e-14
# Search for the intercept: largest number of steps, limit of the first step (doubled afterwards), and shortest step for
# a secant slope above rounding errors.
_STEPS, _FIRST_STEP, _SHORTEST_SECANT = 60, 0.1, 1e-5
# Step of the intercept in which slopes of a smooth loss count as linear: their relative error is half its square.
_LINEAR = 1e-2
# Width of the envelope whose best intercept is used for a loss with kinks.
_WIDTH = 1e-6


@dataclass(frozen=True)
class _DerivedLoss(Loss):
    """Base class of losses derived from another loss, whose properties they share."""

    loss: Loss

    @property
    def labels(self) -> str:
        return str(self.loss.labels)

    @property
    def weights(self) -> Array:
        return np.asarray(self.loss.weights)

    @property
    def sharpness(self) -> float:
        return float(self.loss.sharpness)

    @property
    def quadratic(self) -> bool:
        return bool(self.loss.quadratic)


@dataclass(frozen=True)
class WeightedLoss(_DerivedLoss):
    r"""A loss with weights of the samples and a given intercept, :math:`w_\mu\,\ell(y_\mu, h_\mu + b)`.

    Args:
        loss: loss of one sample.
        times: weights :math:`w_\mu > 0`, shape (samples, 1, ...) with as many axes as the labels.
        shift: intercept :math:`b`.

    Example:
        >>> from glassformer.risk.losses import Square
        >>> WeightedLoss(Square(), np.array([2.0]), shift=0.5).value(np.array([1.0]), np.zeros(1))
        array([0.25])
    """

    times: Array | float = 1.0
    shift: float = 0.0

    @property
    def weights(self) -> Array:
        return np.asarray(self.times * self.loss.weights)

    def slope(self, y: Array, h: Array) -> Array:
        return self.times * self.loss.slope(y, h + self.shift)

    def curvature(self, slopes: Array) -> Array | None:
        curvature = self.loss.curvature(slopes / self.times)
        return None if curvature is None else self.times * curvature

    def value(self, y: Array, h: Array) -> Array:
        return self.times * self.loss.value(y, h + self.shift)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.loss.proximal(y, omega + self.shift, variance * self.times) - self.shift

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        g, slope = self.loss.score(y, omega + self.shift, variance * self.times)
        return self.times * g, self.times * slope

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return tuple(point - self.shift for point in self.loss.breakpoints(y, variance * self.times))

    def conjugate(self, y: Array, u: Array) -> Array:
        return self.times * self.loss.conjugate(y, u / self.times) - u * self.shift


@dataclass
class Intercept:
    """The last best intercept, and the curvature of the loss in the intercept."""

    value: float = 0.0
    curvature: float = 0.0


@dataclass(frozen=True)
class BestIntercept(_DerivedLoss):
    r"""A loss, or its envelope, at the best intercept, :math:`\min_b\sum_\mu\ell(y_\mu, h_\mu+b)`.

    It is convex in the fields, and its slopes are those of the loss, or of the envelope, at the best intercept. The
    slopes sum to zero over the samples, so that the conjugate is that of the loss.

    Attributes:
        loss: loss of each sample.
        intercept: start of the search, updated to the last result.

    Example:
        >>> from glassformer.risk.losses import Hinge, Square
        >>> BestIntercept(Square(), Intercept()).slope(np.array([1.0, 3.0]), np.zeros(2)).round(9).tolist()
        [1.0, -1.0]
        >>> BestIntercept(Hinge(), Intercept()).value(np.array([1.0, 1.0, -1.0]), np.zeros(3)).round(5).tolist()
        [0.0, 0.0, 2.0]
    """

    best_intercept = True

    intercept: Intercept

    def curvature(self, slopes: Array) -> Array | None:
        return self.loss.curvature(slopes)

    def slope(self, y: Array, h: Array) -> Array:
        def slopes_at(shift: float) -> tuple[Array, Array | None]:
            slopes = self.loss.slope(y, h + shift)
            return slopes, self.loss.curvature(slopes)

        return self._at_best(slopes_at, y, linear=_LINEAR)[0]

    def value(self, y: Array, h: Array) -> Array:
        if np.isfinite(self.sharpness):
            self.slope(y, h)
        else:
            self.score(y, h, _WIDTH / self.weights)
        return self.loss.value(y, h + self.intercept.value)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        self.score(y, omega, variance)
        return self.loss.proximal(y, omega + self.intercept.value, variance) - self.intercept.value

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        def slopes_at(shift: float) -> tuple[Array, Array]:
            score, curvatures = self.loss.score(y, omega + shift, variance)
            return -score, curvatures

        slopes, curvatures = self._at_best(slopes_at, y)
        return -slopes, cast(Array, curvatures)

    def envelope(self, y: Array, omega: Array, variance: Array | float) -> Array:
        self.score(y, omega, variance)
        return self.loss.envelope(y, omega + self.intercept.value, variance)

    def conjugate(self, y: Array, u: Array) -> Array:
        # The slopes sum to zero, so that any intercept may be subtracted; this one avoids cancellation.
        return self.loss.conjugate(y, u) - u * self.intercept.value

    def _at_best(
        self, slopes_at: Callable[[float], tuple[Array, Array | None]], y: Array, linear: float = 0.0
    ) -> tuple[Array, Array | None]:
        """Return slopes, and curvatures if known, at the best intercept.

        The sum of the slopes increases with the intercept. Its zero is located by Newton or secant steps from the last
        intercept, inside a bracket.

        Args:
            slopes_at: function that returns slopes at an intercept, and curvatures or None.
            y: the labels.
            linear: step in which slopes count as linear in the intercept, if curvatures are known.
        """
        here, low, high = self.intercept, -np.inf, np.inf
        (slopes, curvatures), weights = slopes_at(here.value), self.weights
        total, unit = float(slopes.sum()), float(weights.sum()) * y.size / weights.size
        if self.binary:
            # Slopes of both labels cancel: those of the lighter one are not negligible.
            lighter = min(float(np.sum(weights * (y == sign))) for sign in (1, -1))
            unit = min(unit, 2 * lighter) if lighter > 0 else unit
        longest = _FIRST_STEP
        for _ in range(_STEPS):
            if curvatures is not None:
                here.curvature = float(curvatures.sum())
                if abs(total) < linear * here.curvature:
                    step = -total / here.curvature
                    here.value += step
                    # The sum is zero up to rounding, which certificates require.
                    return slopes + step * curvatures, curvatures
            if abs(total) <= _FOUND * unit:
                break
            low, high = (low, here.value) if total > 0 else (here.value, high)
            step = -total / here.curvature if here.curvature > 0 else -copysign(np.inf, total)
            step = min(max(step, -longest), longest)
            if not low < here.value + step < high:
                step = 0.5 * (low + high) - here.value
            longest *= 2
            slopes, curvatures = slopes_at(here.value + step)
            after = float(slopes.sum())
            if abs(step) > _SHORTEST_SECANT:
                here.curvature = (after - total) / step
            here.value, total = here.value + step, after
        if _EXACT * unit < abs(total) <= min(_FOUND * unit, here.curvature * longest):
            # One more step makes the sum zero up to rounding, which certificates require.
            here.value -= total / here.curvature
            return slopes_at(here.value)
        return slopes, curvatures
