"""Losses of weighted samples, and of fields that a constant is added to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.core.integral import Array
from glassformer.theory.risk.losses import Loss


@dataclass(frozen=True)
class Weighted(Loss):
    r"""A loss times a weight of each sample, :math:`w_\mu\,\ell(y_\mu, h_\mu)`.

    Args:
        loss: of one sample.
        times: > 0, shape (samples, 1, ...) as the labels.

    Example:
        >>> from glassformer.theory.risk.losses import Square
        >>> Weighted(Square(), np.array([2.0])).value(np.array([1.0]), np.zeros(1))
        array([1.])
    """

    loss: Loss
    times: Array

    @property
    def weights(self) -> Array:
        return self.times

    @property
    def binary(self) -> bool:
        return bool(self.loss.binary)

    @property
    def sharpness(self) -> float:
        return float(self.loss.sharpness)

    def slope(self, y: Array, h: Array) -> Array:
        return self.weights * self.loss.slope(y, h)

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
class Shifted(Loss):
    r"""A loss of fields that a constant is added to, :math:`\ell(y, h + b)`.

    Args:
        loss: of the sum.
        shift: :math:`b`.

    Example:
        >>> from glassformer.theory.risk.losses import Square
        >>> Shifted(Square(), 1.0).value(np.array([1.0]), np.zeros(1))
        array([0.])
    """

    loss: Loss
    shift: float

    @property
    def binary(self) -> bool:
        return bool(self.loss.binary)

    @property
    def weights(self) -> Array:
        return np.asarray(self.loss.weights)

    @property
    def sharpness(self) -> float:
        return float(self.loss.sharpness)

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
