"""Multiclass classification: one matrix per class, the softmax loss of their fields, and its best intercepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax, xlogy

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.risk.loss_base import Loss

# Newton's method for the intercepts: largest number of steps, step size below which no line search is needed, largest
# number of halvings, and mean slope at which it ends.
_STEPS, _SAFE_STEP, _HALVINGS, _FOUND = 50, 0.3, 20, 1e-7


@dataclass(frozen=True)
class MulticlassDesign:
    """The design of one signal per class: signals of shape (classes, L, d), fields of shape (samples, classes).

    Attributes:
        design: design of one signal.
        classes: number of classes.
    """

    design: Any
    classes: int

    @property
    def signal_shape(self) -> tuple[int, ...]:
        return (self.classes, *self.design.signal_shape)

    @property
    def field_shape(self) -> tuple[int, int]:
        return int(self.design.samples), self.classes

    def rows(self, where: NDArray[Any] | slice) -> MulticlassDesign:
        """Return the design of the samples with these indices or flags."""
        return MulticlassDesign(self.design.rows(where), self.classes)

    def forward(self, signal: Array, instance: int) -> Array:
        return np.stack([self.design.forward(one, instance) for one in signal], axis=1)

    def adjoint(self, score: Array, instance: int) -> Array:
        return np.stack([self.design.adjoint(one, instance) for one in score.T])


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    r"""Softmax loss :math:`\log\sum_k e^{h_k} - \sum_ky_kh_k` of classes, with one-hot labels.

    Values and conjugates have one entry per class; their sums over classes are those of a sample.

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
        # Rounding errors may move the slopes out of the simplex.
        probability = np.maximum(u + y, 0.0)
        return np.asarray(xlogy(probability, probability))

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        raise self._no_proximal_map()

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        raise self._no_proximal_map()

    def _no_proximal_map(self) -> IncompatibleError:
        return IncompatibleError("the softmax loss of several classes has no proximal map: use its slope")


@dataclass(frozen=True)
class BestIntercepts(SoftmaxLoss):
    r"""A softmax loss at its best intercepts, one per class: :math:`\min_b\sum_\mu\ell(y_\mu, h_\mu+b)`.

    It is convex in the fields, and its slopes are those of the loss at the best intercepts. The slopes sum to zero over
    the samples, so that the conjugate is that of the loss.

    Attributes:
        loss: softmax loss, with or without weights of the samples.
        intercepts: start of the search, shape (classes,), updated to the last result.
    """

    loss: Loss
    intercepts: Array

    @property
    def weights(self) -> Array:
        return np.asarray(self.loss.weights)

    def slope(self, y: Array, h: Array) -> Array:
        return self.loss.slope(y, h + self._update(y, h))

    def value(self, y: Array, h: Array) -> Array:
        return self.loss.value(y, h + self._update(y, h))

    def conjugate(self, y: Array, u: Array) -> Array:
        return self.loss.conjugate(y, u)

    def _update(self, y: Array, h: Array) -> Array:
        self.intercepts[:] = best_intercepts(self.loss, y, h, self.intercepts)
        return self.intercepts


def best_intercepts(loss: Loss, y: Array, h: Array, start: Array) -> Array:
    """Return the intercepts of sum zero, shape (classes,), that minimise the loss of fields of shape (n, classes).

    Newton's method on the softmax loss, with or without weights; steps that increase the loss are halved.

    Example:
        >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> odds = np.diff(best_intercepts(SoftmaxLoss(), y, np.zeros((3, 2)), np.zeros(2)))
        >>> bool(np.isclose(odds[0], -np.log(2)))
        True
    """
    shift, weights = start, np.broadcast_to(loss.weights, (len(h), 1))
    total, classes = float(weights.sum()), (weights * y).sum(axis=0)
    # Slopes of the classes cancel: those of light ones are not negligible.
    unit = len(classes) * np.minimum(classes, total - classes)
    unit = np.where(unit > 0, np.minimum(unit, total), total)
    for _ in range(_STEPS):
        probability = softmax(h + shift, axis=-1)
        slope = (weights * (probability - y)).sum(axis=0)
        if np.all(np.abs(slope) <= _FOUND * unit):
            break
        curvature = np.diag((weights * probability).sum(axis=0)) - (weights * probability).T @ probability
        step = np.linalg.lstsq(curvature, slope, rcond=1e-12)[0]
        if np.max(np.abs(step)) > _SAFE_STEP:
            value = float(np.sum(loss.value(y, h + shift)))
            for _ in range(_HALVINGS):
                if float(np.sum(loss.value(y, h + shift - step))) <= value:
                    break
                step = 0.5 * step
        shift = shift - step
    return np.asarray(shift - shift.mean())
