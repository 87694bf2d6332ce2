"""Losses of weighted samples, and losses with an intercept: a given one, or the best one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import copysign
from typing import cast

import numpy as np

from glassformer.core.estimate import Array
from glassformer.risk.loss_base import Loss

# Mean slope below which the intercept is found, and below which it is exact up to rounding errors.
_FOUND, _EXACT = 1e-7, 1e-14
# Steps of the search, its longest first step (which doubles), and the shortest step whose secant is more than rounding.
_STEPS, _FIRST_STEP, _SHORTEST_SECANT = 60, 0.1, 1e-5
# Width of the envelope whose best intercept replaces that of a loss with kinks.
_WIDTH = 1e-6


@dataclass(frozen=True)
class _DerivedLoss(Loss):
    """Properties that a derived loss shares with the loss it is made of."""

    loss: Loss

    @property
    def binary(self) -> bool:
        return bool(self.loss.binary)

    @property
    def weights(self) -> Array:
        return np.asarray(self.loss.weights)

    @property
    def sharpness(self) -> float:
        return float(self.loss.sharpness)

    @property
    def constant_curvature(self) -> bool:
        return bool(self.loss.constant_curvature)


@dataclass(frozen=True)
class WeightedLoss(_DerivedLoss):
    r"""A loss with weights of the samples and a given intercept, :math:`w_\mu\,\ell(y_\mu, h_\mu + b)`.

    Args:
        loss: of one sample.
        times: weights :math:`w_\mu > 0`, shape (samples, 1, ...) as the labels.
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
        own = self.loss.curvature(slopes / self.times)
        return None if own is None else self.times * own

    def value(self, y: Array, h: Array) -> Array:
        return self.times * self.loss.value(y, h + self.shift)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.loss.proximal(y, omega + self.shift, variance * self.times) - self.shift

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        g, slope = self.loss.score(y, omega + self.shift, variance * self.times)
        return self.times * g, self.times * slope

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return tuple(place - self.shift for place in self.loss.breakpoints(y, variance * self.times))

    def conjugate(self, y: Array, u: Array) -> Array:
        return self.times * self.loss.conjugate(y, u / self.times) - u * self.shift


@dataclass
class Intercept:
    """The best intercept that was found last, and the curvature of the loss in the intercept there."""

    value: float = 0.0
    curvature: float = 0.0


@dataclass(frozen=True)
class BestIntercept(_DerivedLoss):
    r"""A loss at its best intercept, :math:`\min_b\sum_\mu\ell(y_\mu, h_\mu+b)`; likewise its envelope.

    It is convex in the fields, with the slopes of the loss, or of its envelope, at that intercept. These sum to zero
    over the samples, so the conjugate is that of the loss.

    Attributes:
        loss: of the sum.
        intercept: where the search begins; it is updated to the one found last.

    Example:
        >>> from glassformer.risk.losses import Hinge, Square
        >>> BestIntercept(Square(), Intercept()).slope(np.array([1.0, 3.0]), np.zeros(2)).round(9).tolist()
        [1.0, -1.0]
        >>> BestIntercept(Hinge(), Intercept()).value(np.array([1.0, 1.0, -1.0]), np.zeros(3)).round(5).tolist()
        [0.0, 0.0, 2.0]
    """

    intercept: Intercept

    def slope(self, y: Array, h: Array) -> Array:
        def slopes_at(shift: float) -> tuple[Array, Array | None]:
            slopes = self.loss.slope(y, h + shift)
            return slopes, self.loss.curvature(slopes)

        return self._at_best(slopes_at, y)[0]

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
        # The slopes sum to zero: any intercept may be subtracted. With this one large labels lose no digits.
        return self.loss.conjugate(y, u) - u * self.intercept.value

    def _at_best(
        self, slopes_at: Callable[[float], tuple[Array, Array | None]], y: Array
    ) -> tuple[Array, Array | None]:
        """Return slopes, and curvatures if known, at the best intercept.

        The sum of the slopes increases with the intercept. Its zero is found by Newton or secant steps from the last
        intercept, inside a bracket.

        Args:
            slopes_at: slopes at an intercept, and curvatures there, if they are known.
            y: the labels.
        """
        here, low, high = self.intercept, -np.inf, np.inf
        (slopes, curvatures), weights = slopes_at(here.value), self.weights
        total, unit = float(slopes.sum()), float(weights.sum()) * y.size / weights.size
        longest = _FIRST_STEP
        for _ in range(_STEPS):
            here.curvature = here.curvature if curvatures is None else float(curvatures.sum())
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
        if _EXACT * unit < abs(total) <= _FOUND * unit and here.curvature > 0:
            # One more step from there makes the sum zero up to rounding, as certificates need it.
            here.value -= total / here.curvature
            return slopes_at(here.value)
        return slopes, curvatures
