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

# Plain gradient descent just below the edge of stability: there, and not at smaller rates, its error without noise is
# the published one, twice the optimal error, as if it sampled from the posterior.
RATES = {"sgd": 0.7, "adam": 0.05}
# Slopes of other links than the linear one vary: a rate that suits all of them adapts.
BENT = {"adam": 0.05, "sgd": 0.2}
# Optimizer, rate and steps of exploration that bring means over starts near message passing: Adam wanders among the
# weights that fit. Starts of plain descent stay close to what they began with, and their mean above the optimum.
EXPLORING = ("adam", 0.5, 8000)


def _itself(fields: Any) -> Any:
    return fields


def factor_student(design: DenseDesign, labels: Array, width: int, link: Link = _itself, even: bool = False) -> Student:
    r"""Factors of ``width``, standard normal or small at first, to be trained on the first instance of a design.

    Equation :eq:`descent` of the documentation.

    Args:
        design: inputs; the precision they are stored in is that of the training.
        labels: shape (samples,).
        width: ``r``, the columns of both factors.
        link: :math:`\varphi`, of arrays of fields, as JAX differentiates it.
        even: whether labels are blind to the sign of the signal, so that errors are those of the better sign.

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
        loss=_loss_of(link),
        signals=_signals,
        power=0.25 * float(labels @ labels),
        samples=design.samples,
        unit=float(np.sqrt(max(rows, columns))),
        rates=RATES,
        distance=_distance_of_either_sign if even else _distance,
    )


def factor_parametrisation(link: Link | None, even: bool, name: str) -> Parametrisation:
    """How the factors behind labels of this link are trained.

    Raises:
        IncompatibleError: there is no gradient to follow.
    """
    if link is None:
        raise IncompatibleError(
            f"fits linear labels, or those of a link with slopes that JAX can trace, not those of channel {name}"
        )
    return Parametrisation(BENT, partial(factor_student, link=link, even=even), EXPLORING)


def _distance(signal: Array, teacher: Array) -> float:
    return float(np.mean((signal - teacher) ** 2))


def _distance_of_either_sign(signal: Array, teacher: Array) -> float:
    return min(_distance(signal, teacher), _distance(-signal, teacher))


def _signals(factors: Any) -> Any:
    left, right = factors
    return left @ jnp.swapaxes(right, 1, 2) / float(np.sqrt(left.shape[-1]))


@lru_cache(maxsize=16)
def _loss_of(link: Link) -> Loss:
    def loss(factors: Any, data: Any) -> Any:
        """Training error of every start: one product of the inputs with all their signals."""
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
