r"""Gradient descent on the factors of bilinear sequence regression, several starts as one matrix product.

.. math:: \hat S = UV^T/\sqrt r, \qquad \mathcal L = \tfrac14\sum_\mu
   \bigl(\varphi(\mathrm{Tr}(X_\mu\hat S^T)/\sqrt{dL}) - y_\mu\bigr)^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.designs.dense import DenseDesign
from glassformer.models.trainable.base import Convex, Loss, Parametrisation, Student

Link = Callable[[Any], Any]

# Learning rates, the default optimizer first. Plain gradient descent runs just below the edge of stability: only there
# its error without noise is the published one, twice the optimal error, as if it sampled from the posterior.
RATES = {"sgd": 0.7, "adam": 0.05}
# Slopes of nonlinear links vary, so the default optimizer adapts the rate.
_NONLINEAR_RATES = {"adam": 0.05, "sgd": 0.2}
# Optimizer, rate and steps of exploration, by trial: Adam wanders among the weights that fit, and means over starts
# come near message passing. Plain descent stays close to its starts, and their mean above the optimal error.
EXPLORING = ("adam", 0.5, 8000)


def _identity(fields: Any) -> Any:
    return fields


def factor_student(
    design: DenseDesign, labels: Array, width: int, link: Link = _identity, even: bool = False
) -> Student:
    r"""Return the student whose parameters are the two factors, on the first instance of a design.

    Equation :eq:`descent` of the documentation.

    Args:
        design: inputs; their precision is that of the training.
        labels: shape (samples,).
        width: ``r``, the columns of both factors.
        link: :math:`\varphi`, of arrays of fields, which JAX differentiates.
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
    return Student(
        parameters=((rows, width), (columns, width)),
        data=(design.inputs[0].reshape(design.samples, rows * columns), labels.astype(design.inputs.dtype)),
        loss=_loss(link),
        signals=_signals,
        power=0.25 * float(labels @ labels),
        samples=design.samples,
        unit=float(np.sqrt(max(rows, columns))),
        rates=RATES,
        distance=_distance_of_either_sign if even else _distance,
    )


def factor_parametrisation(link: Link | None, even: bool, name: str) -> Parametrisation:
    """Return how factors are trained on labels of this link.

    Raises:
        IncompatibleError: the link has no gradient.
    """
    if link is None:
        raise IncompatibleError(
            f"fits linear labels, or those of a link with slopes that JAX can trace, not those of channel {name}"
        )
    return Parametrisation(_NONLINEAR_RATES, partial(factor_student, link=link, even=even), EXPLORING)


def _distance(signal: Array, teacher: Array) -> float:
    return float(np.mean((signal - teacher) ** 2))


def _distance_of_either_sign(signal: Array, teacher: Array) -> float:
    return min(_distance(signal, teacher), _distance(-signal, teacher))


def _signals(factors: Any) -> Any:
    left, right = factors
    return left @ jnp.swapaxes(right, 1, 2) / float(np.sqrt(left.shape[-1]))


@lru_cache(maxsize=16)
def _loss(link: Link) -> Loss:
    def loss(factors: Any, data: Any) -> Any:
        """Training errors of all starts, from one product of the inputs with all signals."""
        inputs, labels = data
        signals = _signals(factors)
        fields = signals.reshape(len(signals), -1) @ inputs.T / float(np.sqrt(inputs.shape[1]))
        return 0.25 * jnp.sum((link(fields) - labels) ** 2, axis=1)

    return loss


def _weight(width: int, shape: tuple[int, int]) -> float:
    r"""The least of :math:`\|U\|^2 + \|V\|^2` is :math:`2\sqrt r\|S\|_*`, and the loss a quarter, not a half."""
    del shape
    return 2 * float(np.sqrt(width))


FACTORS = Parametrisation(RATES, factor_student, EXPLORING, Convex(_weight))
