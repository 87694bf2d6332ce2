"""Message passing on data: the optimal algorithm where it settles, for any model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.solution import Solution
from glassformer.learners.algorithms.gamp_step import GampState, GampStep, Side
from glassformer.learners.algorithms.message_passing import Run, message_passing
from glassformer.learners.bayes import MessagePassing
from glassformer.models.base import Model
from glassformer.models.designs.base import Design


def gamp(
    model: Model,
    design: Design,
    labels: ArrayLike,
    settings: MessagePassing | None = None,
    seed: int = 0,
    *,
    side: Side | None = None,
    start: Array | None = None,
    watch: Callable[[GampState], None] | None = None,
) -> Solution:
    r"""Estimate the signal behind labels by message passing; every instance of the design on its own.

    Equation :eq:`message-passing` of the documentation.

    Args:
        model: prior and channel the labels are believed to come from.
        design: inputs, for instance :class:`~glassformer.models.designs.dense.DenseDesign`.
        labels: shape ``(instances, samples, ...)``, or ``(samples, ...)`` for one instance, as the channel draws them.
        settings: tolerance, iteration limit, damping.
        seed: seeds the random start, where there is one.
        side: side information on the signal, for models of several rows.
        start: a signal to start from, shape (P, ...), instead of the prior mean or a random one.
        watch: called with the :class:`~glassformer.learners.algorithms.gamp_step.GampState` after every step.

    Returns:
        :class:`Solution` whose ``value`` has shape ``(instances, L, d)``, for several rows (instances, P, ...);
        ``residual`` is the undamped root-mean-square step, ``error_estimate`` the posterior variance (the algorithm's
        own estimate of its error, the mean over the rows), ``extra`` holds ``variance`` and ``precision``
        (:math:`\hat q`), matrices for several rows, ``nishimori_ratio`` (measured over predicted residual variance, 1
        in the large-size limit) and ``damping`` at the end. Never raises for lack of convergence: the status of each
        instance tells.

    Raises:
        DataError: labels do not match the inputs, or are not finite.
        IncompatibleError: inputs of another kind than the model's.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.models.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.01)
        >>> signal, design = model.prior.sample((30, 30), rng), DenseDesign.sample(540, (30, 30), rng)
        >>> labels = model.channel.sample(design.forward(signal, 0), rng)
        >>> solution = gamp(model, design, labels)
        >>> bool(np.mean((solution.value[0] - signal) ** 2) < 0.05)
        True
    """
    settings = settings or MessagePassing()
    y = _checked_labels(model, design, labels)
    runs = [
        message_passing(
            GampStep(model, design, y[k], k, settings, seed, side, start),
            settings.max_iterations,
            settings.damping,
            watch,
        )
        for k in range(design.instances)
    ]
    return _solution(model, runs)


def _solution(model: Model, runs: list[Run[GampState]]) -> Solution:
    def each(read: Callable[[GampState], object]) -> Array:
        return np.array([read(run.state) for run in runs])

    signals, shape = each(lambda state: state.estimate.signal), (len(runs), *model.overlap_shape)
    longest = max(len(run.history) for run in runs)
    return Solution(
        value=signals if model.overlap_shape else signals[:, 0],
        status=[run.status for run in runs],
        residual=each(lambda state: state.size),
        iterations=np.array([len(run.history) for run in runs]),
        error_estimate=each(lambda state: state.claimed),
        history=np.array([np.pad(r.history, (0, longest - len(r.history)), constant_values=np.nan) for r in runs]).T,
        extra={
            "variance": each(lambda state: state.estimate.variance).reshape(shape),
            "precision": each(lambda state: state.precision).reshape(shape),
            "nishimori_ratio": each(lambda state: state.ratio),
            "damping": each(lambda state: state.damping),
        },
    )


def _checked_labels(model: Model, design: Design, labels: ArrayLike) -> Array:
    """Labels of shape (instances, samples, ...), where they and the inputs are those of the model."""
    fields, own = design.field_shape[1:], model.channel.field_components
    if design.several_rows != bool(model.overlap_shape):
        raise IncompatibleError(
            f"{type(design).__name__} is not the design of model {model.name}: use model.at_size(d).design"
        )
    if not design.several_rows and fields != own:
        raise DataError("X", f"<fields of shape {fields}>", f"fields of shape {own}, as the channel")
    y = np.asarray(labels, dtype=float)
    expected = (design.instances, design.samples, *model.channel.label_shape)
    y = y[None] if y.shape == expected[1:] else y
    if y.shape != expected:
        raise DataError("y", np.shape(labels), f"a shape {expected} that matches X")
    if not np.all(np.isfinite(y)):
        raise DataError("y", "<labels>", "finite entries", "remove or repair the samples")
    return y
