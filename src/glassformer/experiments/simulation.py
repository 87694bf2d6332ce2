"""Algorithms on simulated data, next to the theory of the same finite sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checkpoints import Checkpoint, Keeper
from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array
from glassformer.core.results import Table
from glassformer.core.settings import Descent, MultiPass, Regularised, Training
from glassformer.core.solution import Status
from glassformer.experiments.instances import (
    SETTINGS,
    STORAGE,
    Experiment,
    Simulation,
    checked_settings,
    collected,
    drawn,
    require_whole_numbers,
    standard_error,
)
from glassformer.experiments.overlap_simulation import simulate_rows
from glassformer.learners.baselines import BaselineRun, completed, learner, refuse_unless_offered, theory_of
from glassformer.learners.gamp import gamp
from glassformer.models import MatrixModel, Model
from glassformer.models.designs.base import Design
from glassformer.theory.limits import limits
from glassformer.theory.state_evolution import validated_alpha


@dataclass(frozen=True)
class Instance:
    r"""One run: its seed (from which it can be repeated bit by bit), what it reached and how it ended.

    Attributes:
        seed: seed of teacher, inputs and noise, and of a random start.
        error: :math:`\|\hat S - S\|^2/(dL)`, up to a global sign where labels are blind to it.
        prior_error: the error before any data, :math:`\|S\|^2/(dL)`; 1 on average.
        claimed_error: the algorithm's own estimate of ``error``.
        nishimori_ratio: measured over predicted residual variance; 1 for a run that can be trusted.
        status: how the run ended.
        iterations: steps taken.
        damping: damping at the end.
    """

    seed: int
    error: float
    prior_error: float
    claimed_error: float
    nishimori_ratio: float
    status: Status
    iterations: int
    damping: float


def simulate(
    model: Model | MatrixModel,
    alpha: ArrayLike,
    d: int = 100,
    instances: int = 4,
    seed: int = 0,
    algorithm: str = "gamp",
    storage: str = "float64",
    settings: Descent | Training | Regularised | MultiPass | None = None,
    checkpoint: str | Path | None = None,
) -> Simulation:
    r"""Draw teachers and data, learn from them, and compare with theory.

    Instance ``k`` uses the seed ``seed + k`` at every sample ratio, and a larger sample begins with the smaller one:
    along ``alpha`` an instance is one growing data set. Theory is evaluated at the ratios that whole numbers allow
    (:math:`L/d`, :math:`r/d`, :math:`n/(dL)`), which the columns ``alpha_realised`` and the parameters record.

    Args:
        model: the teacher, known to the student.
        alpha: sample ratios, shape (points,), in the model's unit.
        d: token dimension; ``L = round(beta d)``.
        instances: independent runs per sample ratio.
        seed: a non-negative integer.
        algorithm: ``"gamp"``; for bilinear sequence regression with linear labels also ``"ridge"`` and
            ``"nuclear-norm"``; for that and attention-indexed models of one layer ``"gd"`` (gradient descent on the
            factors) and ``"averaged-gd"`` (the mean of its outcomes from several starts); for deep attention and
            multi-index models ``"sgd"``.
        storage: ``"float64"``; ``"float32"`` for half the memory and time; for message passing also ``"sharded"``,
            single precision shared out over all of JAX's devices, and ``"generated"`` for inputs that are drawn from
            their seed whenever they are needed, and never stored (other ones than the stored ones).
        settings: :class:`~glassformer.Descent` for message passing, :class:`~glassformer.Training` for gradient
            descent, :class:`~glassformer.MultiPass` for ``"sgd"``, :class:`~glassformer.Regularised` for ridge and
            nuclear norm.
        checkpoint: a folder that keeps finished runs and, every 20 seconds, the state of training in progress. The
            same call continues from it, with the outcome of an uninterrupted one.

    Returns:
        :class:`Simulation` with the columns ``alpha``, ``error`` (mean over instances), ``standard_error`` (of that
        mean; NaN for a single instance), ``theory`` (error that the algorithm reaches in the limit of large sizes; NaN
        where that is not known), ``theory_bayes_optimal``, ``relative_error`` (summed error over summed power of the
        teachers, free of the fluctuation of the latter) with its standard error, and ``alpha_realised``; for baselines
        also ``training_error``, and for gradient descent ``early_stopped_error`` (least error along the way). Every run
        counts in the means, however it ended; the status of a row is that of its first run that did not converge.

    Raises:
        ParameterError: an argument is out of range, or the inputs would not fit into memory.
        IncompatibleError: the model is a limit without data, or the algorithm does not exist for it.
        DataError: the checkpoint cannot be written.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
        >>> result = simulate(model, [0.6], d=30, instances=2, seed=1)
        >>> bool(abs(result["error"][0] - result["theory"][0]) < 0.1)
        True
    """
    alpha = validated_alpha(alpha)
    require_whole_numbers(d, instances, seed, algorithm)
    if not isinstance(storage, str) or storage not in STORAGE:
        raise ParameterError("storage", storage, "float64 or float32, for message passing also sharded or generated")
    refuse_unless_offered(algorithm, model)
    chosen = completed(algorithm, model, checked_settings(settings, SETTINGS[algorithm], algorithm))
    keeper = Keeper(None if checkpoint is None else Path(checkpoint))
    size: Any = model.at_size(d)
    experiment = Experiment(model, size, alpha, d, instances, seed, algorithm, storage, chosen, keeper)
    if isinstance(model, MatrixModel):
        return simulate_rows(experiment)
    if algorithm != "gamp":
        return _baseline(experiment)
    runs = experiment.runs(Instance, lambda design, seed, _: _learn(size.model, design, seed, chosen))
    return experiment.table(_columns(experiment, runs, lambda theory: theory["algorithmic_error"]), runs)


def _baseline(experiment: Experiment) -> Simulation:
    finite, settings = experiment.size.model, experiment.settings
    learn = learner(experiment.algorithm, finite, settings)

    def one(design: Any, seed: int, checkpoint: Checkpoint) -> BaselineRun:
        teacher, labels = drawn(finite, design, design.signal_shape, seed)
        return learn(design, labels, teacher, seed, checkpoint)

    runs = experiment.runs(BaselineRun, one)
    own = theory_of(experiment.algorithm, finite, experiment.realised, settings)
    columns = _columns(experiment, runs, lambda theory: own)
    early = collected(runs, "early_stopped_error").mean(axis=1)
    stopped = {"early_stopped_error": early} if np.any(np.isfinite(early)) else {}
    training = {"training_error": collected(runs, "training_error").mean(axis=1)}
    return experiment.table({**columns, **training, **stopped}, runs)


def _columns(experiment: Experiment, runs: list[list[Any]], own: Callable[[Table], Array]) -> dict[str, Array]:
    """Errors of the runs beside the theory of the algorithm and the Bayes-optimal one."""
    theory = limits(experiment.size.model, experiment.realised, throw=False)
    errors, powers = collected(runs, "error"), collected(runs, "prior_error")
    relative = errors.sum(axis=1) / powers.sum(axis=1)
    return {
        "error": errors.mean(axis=1),
        "standard_error": standard_error(errors),
        "theory": own(theory),
        "theory_bayes_optimal": theory["error"],
        "relative_error": relative,
        "relative_standard_error": standard_error(errors - relative[:, None] * powers) / powers.mean(axis=1),
    }


def _learn(model: Model, design: Design, seed: int, settings: Descent | None) -> Instance:
    signal, labels = drawn(model, design, design.signal_shape, seed)
    solution = gamp(model, design, labels, settings, seed)
    estimate = solution.value[0]
    error = model.prior.power(estimate - signal)
    if model.channel.even:
        error = min(error, model.prior.power(estimate + signal))
    return Instance(
        seed=seed,
        error=error,
        prior_error=model.prior.power(signal - model.prior.mean(design.signal_shape)),
        claimed_error=float(solution.error_estimate[0]),
        nishimori_ratio=float(solution.extra["nishimori_ratio"][0]),
        status=solution.status[0],
        iterations=int(solution.iterations[0]),
        damping=float(solution.extra["damping"][0]),
    )
