"""Losses of weighted samples, and of fields that a constant is added to, a given one or the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import copysign
from typing import cast

import numpy as np

from glassformer.core.estimate import Array
from glassformer.risk.loss_base import Loss


@dataclass(frozen=True)
class Secants:
    """How the best constant of a loss is looked for."""

    flat: float = 1e-7  # slope per sample that is nearly none
    exact: float = 1e-14  # slope per sample that is none
    secants: int = 60  # steps to where it is
    first: float = 0.1  # longest first step, which doubles
    rounding: float = 1e-5  # shortest step whose secant is more than rounding errors
    narrow: float = 1e-6  # width of the envelope whose best constant stands for that of a loss with kinks


_POLICY = Secants()


@dataclass(frozen=True)
class _Changed(Loss):
    """What a loss made of another one has of it."""

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
    def steady(self) -> bool:
        return bool(self.loss.steady)


@dataclass(frozen=True)
class Weighted(_Changed):
    r"""A loss times a weight of each sample, :math:`w_\mu\,\ell(y_\mu, h_\mu)`.

    Args:
        loss: of one sample.
        times: > 0, shape (samples, 1, ...) as the labels.

    Example:
        >>> from glassformer.risk.losses import Square
        >>> Weighted(Square(), np.array([2.0])).value(np.array([1.0]), np.zeros(1))
        array([1.])
    """

    times: Array

    @property
    def weights(self) -> Array:
        return self.times

    def slope(self, y: Array, h: Array) -> Array:
        return self.weights * self.loss.slope(y, h)

    def bend(self, slopes: Array) -> Array | None:
        own = self.loss.bend(slopes / self.weights)
        return None if own is None else self.weights * own

    def value(self, y: Array, h: Array) -> Array:
        return self.weights * self.loss.value(y, h)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.loss.proximal(y, omega, variance * self.weights)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        g, slope = self.loss.score(y, omega, variance * self.weights)
        return self.weights * g, self.weights * slope

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return self.loss.bends(y, variance * self.weights)

    def conjugate(self, y: Array, u: Array) -> Array:
        return self.weights * self.loss.conjugate(y, u / self.weights)


@dataclass(frozen=True)
class Shifted(_Changed):
    r"""A loss of fields that a constant is added to, :math:`\ell(y, h + b)`.

    Args:
        loss: of the sum.
        shift: :math:`b`.

    Example:
        >>> from glassformer.risk.losses import Square
        >>> Shifted(Square(), 1.0).value(np.array([1.0]), np.zeros(1))
        array([0.])
    """

    shift: float

    def slope(self, y: Array, h: Array) -> Array:
        return self.loss.slope(y, h + self.shift)

    def value(self, y: Array, h: Array) -> Array:
        return self.loss.value(y, h + self.shift)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.loss.proximal(y, omega + self.shift, variance) - self.shift

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        return self.loss.score(y, omega + self.shift, variance)

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return tuple(place - self.shift for place in self.loss.bends(y, variance))

    def conjugate(self, y: Array, u: Array) -> Array:
        return self.loss.conjugate(y, u) - u * self.shift


@dataclass
class Constant:
    """The constant that makes a loss least, and how much the sum of its slopes bends there, as found last."""

    value: float = 0.0
    bend: float = 0.0


@dataclass(frozen=True)
class BestShift(_Changed):
    r"""A loss at the constant that makes it least, :math:`\min_b\sum_\mu\ell(y_\mu, h_\mu+b)`; likewise its envelope.

    Convex in the fields, with the slopes of the loss, or of its envelope, at that constant. They sum to zero over the
    samples, so that the conjugate is that of the loss.

    Attributes:
        loss: of the sum.
        nearby: where the search for the constant begins; it remembers the one that was found last.

    Example:
        >>> from glassformer.risk.losses import Hinge, Square
        >>> BestShift(Square(), Constant()).slope(np.array([1.0, 3.0]), np.zeros(2)).round(9).tolist()
        [1.0, -1.0]
        >>> BestShift(Hinge(), Constant()).value(np.array([1.0, 1.0, -1.0]), np.zeros(3)).round(5).tolist()
        [0.0, 0.0, 2.0]
    """

    nearby: Constant

    def slope(self, y: Array, h: Array) -> Array:
        def told(shift: float) -> tuple[Array, Array | None]:
            slopes = self.loss.slope(y, h + shift)
            return slopes, self.loss.bend(slopes)

        return self._at_best(told, y)[0]

    def value(self, y: Array, h: Array) -> Array:
        if np.isfinite(self.sharpness):
            self.slope(y, h)
        else:
            self.score(y, h, _POLICY.narrow / self.weights)
        return self.loss.value(y, h + self.nearby.value)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        self.score(y, omega, variance)
        return self.loss.proximal(y, omega + self.nearby.value, variance) - self.nearby.value

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        def told(shift: float) -> tuple[Array, Array]:
            score, bends = self.loss.score(y, omega + shift, variance)
            return -score, bends

        slopes, bends = self._at_best(told, y)
        return -slopes, cast(Array, bends)

    def envelope(self, y: Array, omega: Array, variance: Array | float) -> Array:
        self.score(y, omega, variance)
        return self.loss.envelope(y, omega + self.nearby.value, variance)

    def conjugate(self, y: Array, u: Array) -> Array:
        # The slopes sum to zero: any constant may be taken off, and labels far from zero lose no digits with this one.
        return self.loss.conjugate(y, u) - u * self.nearby.value

    def _at_best(self, told: Callable[[float], tuple[Array, Array | None]], y: Array) -> tuple[Array, Array | None]:
        """Slopes at the best constant, by tangents or secants from the last one: their sum rises with it, a bracket.

        Args:
            told: slopes at a constant, and how much they bend there where that is known.
            y: the labels.
        """
        one, low, high = self.nearby, -np.inf, np.inf
        (slopes, bends), weights = told(one.value), self.weights
        total, all_of_one = float(slopes.sum()), float(weights.sum()) * y.size / weights.size
        farthest = _POLICY.first
        for _ in range(_POLICY.secants):
            one.bend = one.bend if bends is None else float(bends.sum())
            if abs(total) <= _POLICY.flat * all_of_one:
                break
            low, high = (low, one.value) if total > 0 else (one.value, high)
            step = -total / one.bend if one.bend > 0 else -copysign(np.inf, total)
            step = min(max(step, -farthest), farthest)
            if not low < one.value + step < high:
                step = 0.5 * (low + high) - one.value
            farthest *= 2
            slopes, bends = told(one.value + step)
            after = float(slopes.sum())
            if abs(step) > _POLICY.rounding:
                one.bend = (after - total) / step
            one.value, total = one.value + step, after
        if _POLICY.exact * all_of_one < abs(total) <= _POLICY.flat * all_of_one and one.bend > 0:
            # From where their sum is nearly zero one more step leads there: certificates need it to be zero.
            one.value -= total / one.bend
            return told(one.value)
        return slopes, bends
