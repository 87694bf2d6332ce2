"""Message passing on data: the optimal algorithm where it settles, for any model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments
from glassformer.core.estimate import Array
from glassformer.core.solution import Solution, Status
from glassformer.designs.base import Design
from glassformer.learners.algorithms.gamp_state import GampState
from glassformer.learners.algorithms.gamp_step import GampStep
from glassformer.learners.algorithms.message_passing import Run, message_passing
from glassformer.learners.base import FitResult
from glassformer.learners.bayes import MessagePassing
from glassformer.learners.data_arrays import observed
from glassformer.learners.data_findings import claimed_error, contradictions, label_power, warn_of
from glassformer.learners.data_set import DataSet
from glassformer.learners.training_history import Snapshots
from glassformer.models.base import Model
from glassformer.priors.base import ScalarPrior, Side


def gamp(
    model: Model,
    design: Design | ArrayLike,
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

    Message passing takes inputs for independent standard normal numbers. Where they are measurably something else, a
    warning says in what, and a run that does not settle blames them.

    Args:
        model: prior and channel the labels are believed to come from.
        design: inputs, an array of shape (samples, tokens, d) or (instances, samples, tokens, d) of numbers (for
            untied attention the queries before the keys), or a
            :class:`~glassformer.designs.base.Design`, for instance
            :class:`~glassformer.designs.dense.DenseDesign`. float32 stays float32.
        labels: shape ``(instances, samples, ...)``, or ``(samples, ...)`` for one instance, as the channel draws them;
            truth values stand for +1 and -1 where these are the labels, else for 1 and 0.
        settings: tolerance, iteration limit, damping.
        seed: seeds the random start, where there is one.
        side: side information on the signal, for models of several rows.
        start: a signal to start from, shape (P, ...), instead of the prior mean or a random one.
        watch: called with the :class:`~glassformer.learners.algorithms.gamp_state.GampState` after every step.

    Returns:
        :class:`Solution` whose ``value`` has shape ``(instances, L, d)``, for several rows (instances, P, ...);
        ``residual`` is the undamped root-mean-square step, ``error_estimate`` the posterior variance (the algorithm's
        own estimate of its error, the mean over the rows), ``extra`` holds ``variance`` and ``precision`` (:math:`\hat
        q`), matrices for several rows, ``nishimori_ratio`` (measured over predicted residual variance, 1 in the
        large-size limit; NaN where sampled scores do not tell it) and ``damping`` at the end. Never raises for lack of
        convergence: the status of each instance tells.

    Warns:
        DataWarning: the inputs, the size of the labels, or the residuals of linear ones contradict the model.

    Raises:
        DataError: inputs or labels are no numbers, do not match each other or the model, or are not finite.
        ParameterError: a size that the model says is not that of the inputs.
        IncompatibleError: inputs of another kind than the model's.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> rng = np.random.default_rng(0)
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.01)
        >>> signal, inputs = model.prior.sample((30, 30), rng), rng.standard_normal((540, 30, 30))
        >>> labels = np.einsum("nld,ld->n", inputs, signal) / 30 + 0.1 * rng.standard_normal(540)
        >>> solution = gamp(model, inputs, labels)
        >>> bool(np.mean((solution.value[0] - signal) ** 2) < 0.05)
        True
    """
    require_arguments(gamp, locals(), but=("design", "labels"))
    own, y = observed(model, design, labels)
    against = [*contradictions(next(own.parts())), *label_power(model, own, y[0])]
    warn_of(against)
    found = passed(model, own, y, settings or MessagePassing(), seed, side=side, start=start, watch=watch)
    if against:
        return blaming_the_inputs(found)
    doubt = claimed_error(model, own, y[0], found)
    warn_of(doubt)
    return replace(found, status=[Status.CONTRADICTED, *found.status[1:]]) if doubt else found


def passed(
    model: Model,
    design: Design,
    labels: Array,
    settings: MessagePassing,
    seed: int = 0,
    *,
    side: Side | None = None,
    start: Array | None = None,
    watch: Callable[[GampState], None] | None = None,
    believed: ScalarPrior | None = None,
    step: type[GampStep] = GampStep,
) -> Solution:
    """What :func:`gamp` returns, of data that are known to be those of the model: labels (instances, samples, ...)."""
    runs = [
        message_passing(
            step(model, design, labels[k], k, settings, seed, side, start, believed),
            settings.max_iterations,
            settings.damping,
            watch,
        )
        for k in range(design.instances)
    ]
    return solution_of(model, runs)


def blaming_the_inputs(found: Solution) -> Solution:
    """A run on inputs that contradict the model, where it did not settle."""
    return replace(found, status=[status if status.ok else Status.MISTAKEN for status in found.status])


def solution_of(model: Model, runs: list[Run[GampState]]) -> Solution:
    """How runs ended, one per instance."""

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


def learned(model: Model, data: DataSet, settings: MessagePassing, **inside: Any) -> FitResult:
    """What a learner makes of a data set by :func:`passed`, and its errors on the way."""
    own, y = observed(model, data.design, data.labels)
    snapshots = Snapshots(model, data.teacher)

    def watch(state: GampState) -> None:
        if state.first:
            snapshots.clear()
        else:
            estimate = state.estimate.signal if model.overlap_shape else state.estimate.signal[0]
            snapshots.take(estimate, state.estimate.variance)

    found = passed(model, own, y, settings, data.seed, side=data.side, watch=watch, **inside)
    return FitResult.of(
        found,
        variance=found.extra["variance"][0],
        claimed_error=float(found.error_estimate[0]),
        nishimori_ratio=float(found.extra["nishimori_ratio"][0]),
        damping=float(found.extra["damping"][0]),
        history=snapshots.developed(),
    )
