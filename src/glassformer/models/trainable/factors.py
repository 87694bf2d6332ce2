r"""Trainable factors of bilinear sequence regression, for several starts at once.

.. math:: \hat S = UV^T/\sqrt r, \qquad \mathcal L = \tfrac14\sum_\mu
   \bigl(\varphi(\mathrm{Tr}(X_\mu\hat S^T)/\sqrt{dL}) - y_\mu\bigr)^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.designs.dense import DenseDesign
from glassformer.designs.revealed import RevealedSequences
from glassformer.models.trainable.base import Convex, Loss, Parametrisation, Student
from glassformer.models.trainable.revealed import RevealedLoss, revealed_data

Link = Callable[[jax.Array], jax.Array]

# Learning rates, the default optimizer first. The rate of plain gradient descent is just below the edge of stability:
# only there its noiseless error is the published one, twice the Bayes-optimal error, as of a sample from the posterior.
RATES = {"sgd": 0.7, "adam": 0.05}
# The slope of a nonlinear link varies, so that the default optimizer is adaptive.
_NONLINEAR_RATES = {"adam": 0.05, "sgd": 0.2}
# Optimizer, rate and steps of exploration, chosen by trial: Adam at a large rate moves between solutions, and the mean
# over starts comes close to the error of message passing. Plain descent stays close to its start: its mean is worse.
EXPLORING = ("adam", 0.5, 8000)


def _identity(fields: jax.Array) -> jax.Array:
    return fields


def factor_student(
    design: DenseDesign | RevealedSequences, labels: Array, width: int, link: Link = _identity, even: bool = False
) -> Student:
    r"""Return the student whose parameters are the two factors, on the first instance of a design.

    Equation :eq:`descent` of the documentation.

    Args:
        design: inputs; training uses the floating-point type of stored ones.
        labels: shape (samples,).
        width: ``r``, the columns of both factors.
        link: :math:`\varphi`, a differentiable JAX function of arrays of fields.
        even: whether labels are even in the signal; errors are then those of the better sign.

    Example:
        >>> from glassformer.learners.gradient_descent import descend
        >>> from glassformer.learners.gradient_descent import GradientDescent
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(80, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> student = factor_student(design, design.forward(signal, 0), width=1)
        >>> found = descend(student, GradientDescent(), rng, starts=2, teacher=signal)
        >>> bool(found.history[-1].error < 1e-3)
        True
    """
    rows, columns = design.signal_shape
    data: tuple[NDArray[Any], ...]
    loss: Loss
    if design.revealed:
        loss = revealed = RevealedLoss(design, _signals, _error_of(link))
        data, gradient = revealed_data(design, labels), revealed.gradient
    else:
        data = (design.inputs[0].reshape(design.samples, rows * columns), labels.astype(design.inputs.dtype))
        loss, gradient = _loss(link), None
    return Student(
        parameters=((rows, width), (columns, width)),
        data=data,
        loss=loss,
        error=_error_of(link),
        gradient=gradient,
        signals=_signals,
        power=0.25 * float(labels @ labels),
        samples=design.samples,
        unit=float(np.sqrt(max(rows, columns))),
        rates=RATES,
        distance=_distance_of_either_sign if even else _distance,
    )


def factor_parametrisation(link: Link, even: bool) -> Parametrisation:
    """Return the parametrisation by factors for labels of this link."""
    return Parametrisation(_NONLINEAR_RATES, partial(factor_student, link=link, even=even), EXPLORING)


def _distance(signal: Array, teacher: Array) -> float:
    return float(np.mean((signal - teacher) ** 2))


def _distance_of_either_sign(signal: Array, teacher: Array) -> float:
    return min(_distance(signal, teacher), _distance(-signal, teacher))


def _signals(factors: tuple[jax.Array, ...]) -> jax.Array:
    left, right = factors
    return left @ jnp.swapaxes(right, 1, 2) / float(np.sqrt(left.shape[-1]))


@lru_cache(maxsize=16)
def _loss(link: Link) -> Loss:
    error = _error_of(link)

    def loss(factors: tuple[jax.Array, ...], data: tuple[jax.Array, ...]) -> jax.Array:
        """Training errors of all starts, from one product of the inputs with all signals."""
        inputs, labels = data
        signals = _signals(factors)
        fields = signals.reshape(len(signals), -1) @ inputs.T / float(np.sqrt(inputs.shape[1]))
        return error(fields, labels)

    return loss


@lru_cache(maxsize=16)
def _error_of(link: Link) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Return the training errors of all starts as a function of fields and labels."""
    return lambda fields, labels: 0.25 * jnp.sum((link(fields) - labels) ** 2, axis=1)


def _weight(width: int, shape: tuple[int, int]) -> float:
    r"""Return :math:`2\sqrt r`, from :math:`\min\|U\|^2 + \|V\|^2 = 2\sqrt r\|S\|_*`; the loss is a quarter."""
    del shape
    return 2 * float(np.sqrt(width))


FACTORS = Parametrisation(RATES, factor_student, EXPLORING, Convex(_weight))
