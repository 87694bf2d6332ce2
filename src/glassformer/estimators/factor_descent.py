r"""Gradient descent on the factors of bilinear sequence regression, several starts as one matrix product.

.. math:: \hat S = UV^T/\sqrt r, \qquad \mathcal L = \tfrac14\sum_\mu
   \bigl(\mathrm{Tr}(X_\mu\hat S^T)/\sqrt{dL} - y_\mu\bigr)^2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.designs.dense import DenseDesign
from glassformer.estimators.training import Trained, train
from glassformer.integral import Array
from glassformer.settings import Training

# Plain gradient descent just below the edge of stability: there, and not at smaller rates, its error without noise is
# the published one, twice the optimal error, as if it sampled from the posterior.
DEFAULTS = ("sgd", 0.7)


class Snapshot(NamedTuple):
    r"""What the signals of all starts look like after some steps.

    Attributes:
        step: gradient steps taken.
        training_error: mean over samples of the squared residual, and over starts.
        error: mean over starts of the squared error of the signal; NaN without a teacher.
        averaged_error: squared error of the mean over starts.
        nuclear_norm: mean over starts of the nuclear norm, over :math:`\sqrt{dL}` times the smaller dimension.
        singular_values: of the first start, in units of :math:`\sqrt{\max(d, L)}`.
    """

    step: int
    training_error: float
    error: float
    averaged_error: float
    nuclear_norm: float
    singular_values: Array


class Descended(NamedTuple):
    """Signals of all starts, shape (starts, L, d), how training ended, and snapshots along the way."""

    signals: Array
    trained: Trained
    history: list[Snapshot]


def factor_descent(
    design: DenseDesign,
    labels: Array,
    width: int,
    settings: Training,
    rng: np.random.Generator,
    starts: int = 1,
    teacher: Array | None = None,
) -> Descended:
    r"""Train factors of ``width`` from several starts on the first instance of a design.

    Args:
        design: inputs; the precision they are stored in is that of the training.
        labels: shape (samples,).
        width: ``r``, the columns of both factors.
        settings: optimizer, learning rate, initialisation, steps allowed.
        rng: source of the initial factors, standard normal or small.
        starts: independent initialisations.
        teacher: the true signal, shape (L, d), for the errors in the history.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(80, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> found = factor_descent(design, design.forward(signal, 0), 1, Training(), rng, teacher=signal)
        >>> bool(found.history[-1].error < 1e-3)
        True
    """
    rows, columns = design.signal_shape
    kind = design.inputs.dtype
    size = 1.0 if settings.init == "prior" else settings.small
    factors = tuple((size * rng.standard_normal((starts, m, width))).astype(kind) for m in (rows, columns))
    history: list[Snapshot] = []
    with jax.enable_x64(kind == np.float64):
        flat = design.inputs[0].reshape(design.samples, rows * columns)
        data = (jnp.asarray(flat), jnp.asarray(labels.astype(kind)))

        def watch(step: int, parameters: Any, errors: Array) -> None:
            signals = np.asarray(_signals(parameters), dtype=float)
            history.append(_snapshot(step, signals, 4 * errors / design.samples, teacher))

        power = 0.25 * float(labels @ labels)
        trained = train(_loss, tuple(map(jnp.asarray, factors)), data, power, settings, DEFAULTS, watch)
        signals = np.asarray(_signals(trained.parameters), dtype=float)
    # A run that begins again with a smaller learning rate has a new history.
    begun = max(k for k, entry in enumerate(history) if entry.step == 0)
    return Descended(signals, trained, history[begun:])


def _signals(factors: Any) -> Any:
    left, right = factors
    return jnp.einsum("kir,kjr->kij", left, right) / np.sqrt(left.shape[-1])


def _loss(factors: Any, data: Any) -> Any:
    """Training error of every start: one product of the inputs with all their signals."""
    inputs, labels = data
    signals = _signals(factors)
    predicted = signals.reshape(len(signals), -1) @ inputs.T / np.sqrt(inputs.shape[1])
    return 0.25 * jnp.sum((predicted - labels) ** 2, axis=1)


def _snapshot(step: int, signals: Array, training: Array, teacher: Array | None) -> Snapshot:
    values = np.linalg.svd(signals, compute_uv=False)
    rows, columns = signals.shape[1:]
    error = averaged = np.nan
    if teacher is not None:
        error = float(np.mean((signals - teacher) ** 2))
        averaged = float(np.mean((signals.mean(axis=0) - teacher) ** 2))
    return Snapshot(
        step=step,
        training_error=float(np.mean(training)),
        error=error,
        averaged_error=averaged,
        nuclear_norm=float(values.sum(axis=1).mean() / (np.sqrt(rows * columns) * min(rows, columns))),
        singular_values=values[0] / np.sqrt(max(rows, columns)),
    )
