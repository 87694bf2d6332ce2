r"""Gradient descent on the factors of bilinear sequence regression, several starts as one matrix product.

.. math:: \hat S = UV^T/\sqrt r, \qquad \mathcal L = \tfrac14\sum_\mu
   \bigl(\mathrm{Tr}(X_\mu\hat S^T)/\sqrt{dL} - y_\mu\bigr)^2.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.core.integral import Array
from glassformer.models.designs.dense import DenseDesign
from glassformer.models.students.base import Parametrisation, Student

# Plain gradient descent just below the edge of stability: there, and not at smaller rates, its error without noise is
# the published one, twice the optimal error, as if it sampled from the posterior.
RATES = {"sgd": 0.7, "adam": 0.05}
# Optimizer, rate and steps of exploration that make means over starts nearly optimal: Adam wanders among the weights
# that fit. Starts of plain descent stay close to what they began with, and their mean above the optimum.
EXPLORING = ("adam", 0.5, 8000)


def factor_student(design: DenseDesign, labels: Array, width: int) -> Student:
    r"""Factors of ``width``, standard normal or small at first, to be trained on the first instance of a design.

    Equation :eq:`descent` of the documentation.

    Args:
        design: inputs; the precision they are stored in is that of the training.
        labels: shape (samples,).
        width: ``r``, the columns of both factors.

    Example:
        >>> from glassformer.learners.algorithms.signal_descent import descend
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
        loss=_loss,
        signals=_signals,
        power=0.25 * float(labels @ labels),
        samples=design.samples,
        unit=float(np.sqrt(max(rows, columns))),
        rates=RATES,
        distance=lambda signal, teacher: float(np.mean((signal - teacher) ** 2)),
    )


def _signals(factors: Any) -> Any:
    left, right = factors
    return jnp.einsum("kir,kjr->kij", left, right) / np.sqrt(left.shape[-1])


def _loss(factors: Any, data: Any) -> Any:
    """Training error of every start: one product of the inputs with all their signals."""
    inputs, labels = data
    signals = _signals(factors)
    predicted = signals.reshape(len(signals), -1) @ inputs.T / np.sqrt(inputs.shape[1])
    return 0.25 * jnp.sum((predicted - labels) ** 2, axis=1)


FACTORS = Parametrisation(RATES, factor_student, EXPLORING)
