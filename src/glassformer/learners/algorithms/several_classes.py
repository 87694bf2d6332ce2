"""Several classes at once: one matrix for each, and the loss of the softmax of their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax, xlogy

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.risk.loss_base import Loss


@dataclass(frozen=True)
class Newton:
    """How the best constants of several classes are looked for."""

    steps: int = 50  # at most
    small: float = 0.3  # size of steps that cannot lead uphill
    halvings: int = 20  # of others
    flat: float = 1e-7  # slopes per sample that are none


_POLICY = Newton()


@dataclass(frozen=True)
class SeveralClasses:
    """A design seen by one signal of each class: signals (classes, L, d), fields (samples, classes).

    Attributes:
        design: of one signal.
        classes: how many.
    """

    design: Any
    classes: int

    @property
    def signal_shape(self) -> tuple[int, ...]:
        return (self.classes, *self.design.signal_shape)

    @property
    def field_shape(self) -> tuple[int, int]:
        return int(self.design.samples), self.classes

    def rows(self, where: Any) -> SeveralClasses:
        """The design of some samples, by their indices or flags."""
        return SeveralClasses(self.design.rows(where), self.classes)

    def forward(self, signal: Array, instance: int) -> Array:
        return np.stack([self.design.forward(one, instance) for one in signal], axis=1)

    def adjoint(self, score: Array, instance: int) -> Array:
        return np.stack([self.design.adjoint(one, instance) for one in score.T])


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    r"""Minus the log-likelihood :math:`\log\sum_k e^{h_k} - \sum_ky_kh_k` of classes, labels of which are 1 and 0.

    Values and conjugates are given class by class: their sums are those of a sample.

    Example:
        >>> value = SoftmaxLoss().value(np.array([[1.0, 0.0, 0.0]]), np.zeros((1, 3)))
        >>> bool(np.isclose(value.sum(), np.log(3)))
        True
    """

    sharpness = 0.5

    def slope(self, y: Array, h: Array) -> Array:
        return np.asarray(softmax(h, axis=-1) - y)

    def value(self, y: Array, h: Array) -> Array:
        return np.asarray(-y * log_softmax(h, axis=-1))

    def conjugate(self, y: Array, u: Array) -> Array:
        # Rounding errors of slopes are no way out of the simplex.
        chance = np.maximum(u + y, 0.0)
        return np.asarray(xlogy(chance, chance))

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        raise self._smooth()

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        raise self._smooth()

    def _smooth(self) -> IncompatibleError:
        return IncompatibleError("the loss of several classes has slopes, and no proximal map: use its slope")


@dataclass(frozen=True)
class BestConstants(SoftmaxLoss):
    r"""A softmax loss at the constants, one per class, that make it least: :math:`\min_b\sum_\mu\ell(y_\mu, h_\mu+b)`.

    Convex in the fields, with the slopes of the loss at these constants. They sum to zero over the samples, so that the
    conjugate is that of the loss.

    Attributes:
        loss: the loss, of weighted samples or not.
        nearby: where the search for constants begins, shape (classes,); it remembers those that were found last.
    """

    loss: Any
    nearby: Array

    @property
    def weights(self) -> Array:
        return np.asarray(self.loss.weights)

    def slope(self, y: Array, h: Array) -> Array:
        return np.asarray(self.loss.slope(y, h + self._constants(y, h)))

    def value(self, y: Array, h: Array) -> Array:
        return np.asarray(self.loss.value(y, h + self._constants(y, h)))

    def conjugate(self, y: Array, u: Array) -> Array:
        return np.asarray(self.loss.conjugate(y, u))

    def _constants(self, y: Array, h: Array) -> Array:
        self.nearby[:] = best_constants(self.loss, y, h, self.nearby)
        return self.nearby


def best_constants(loss: Any, y: Array, h: Array, start: Array) -> Array:
    """Constants, shape (classes,), of sum zero that, added to fields of shape (n, classes), make the loss least.

    Newton's method, whose steps are halved where they lead uphill, on the softmax loss, of weighted samples or not.

    Example:
        >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> odds = np.diff(best_constants(SoftmaxLoss(), y, np.zeros((3, 2)), np.zeros(2)))
        >>> bool(np.isclose(odds[0], -np.log(2)))
        True
    """
    shift, weights = start, np.broadcast_to(loss.weights, (len(h), 1))
    for _ in range(_POLICY.steps):
        chance = softmax(h + shift, axis=-1)
        slope = (weights * (chance - y)).sum(axis=0)
        if np.max(np.abs(slope)) <= _POLICY.flat * float(weights.sum()):
            break
        bend = np.diag((weights * chance).sum(axis=0)) - (weights * chance).T @ chance
        step = np.linalg.lstsq(bend, slope, rcond=1e-12)[0]
        shift = shift - (step if np.max(np.abs(step)) <= _POLICY.small else _shortened(loss, y, h + shift, step))
    return np.asarray(shift - shift.mean())


def _shortened(loss: Any, y: Array, h: Array, step: Array) -> Array:
    """A step away from fields that makes the loss no larger."""
    value = float(np.sum(loss.value(y, h)))
    for _ in range(_POLICY.halvings):
        if float(np.sum(loss.value(y, h - step))) <= value:
            break
        step = 0.5 * step
    return step
