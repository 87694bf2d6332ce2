"""The estimators that the optimal algorithm is compared with, as learners of one simulated instance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glassformer.core.checkpoints import Checkpoint
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.integral import Array
from glassformer.core.settings import Iteration, Regularised, Training
from glassformer.core.solution import Status
from glassformer.learners.algorithms.proximal import least_nuclear_norm
from glassformer.learners.ridge import ridge, ridge_error
from glassformer.models import AttentionIndexed, BilinearSequenceRegression, MatrixModel, Model
from glassformer.models.channels.gaussian import GaussianChannel
from glassformer.models.designs.dense import DenseDesign

if TYPE_CHECKING:
    from glassformer.learners.algorithms.signal_descent import Student

# Starts whose mean is taken by averaged gradient descent, as published.
_AVERAGED = 64


@dataclass(frozen=True)
class BaselineRun:
    r"""One run of a baseline: its seed, what it reached and how it ended.

    Attributes:
        seed: seed of teacher, inputs, noise and initial parameters.
        error: squared error of the signal, as the model normalises it; for several starts the mean of their errors, or
            the error of their mean.
        prior_error: the error before any data.
        training_error: mean squared residual on the samples learned from.
        residual: what is left of the algorithm's own condition of convergence.
        status: how the run ended.
        iterations: steps taken.
        early_stopped_error: least error along the way, by an oracle that knows the teacher; NaN without a way.
        history: snapshots along the way, as dictionaries.
    """

    seed: int
    error: float
    prior_error: float
    training_error: float
    residual: float
    status: Status
    iterations: int
    early_stopped_error: float
    history: Sequence[dict[str, Any]]


Learner = Callable[[Any, Array, Array, int, Checkpoint], BaselineRun]
"""``learner(design, labels, teacher, seed, checkpoint)``."""


def refuse_unless_offered(algorithm: str, model: Any) -> None:
    """Raise unless the algorithm exists for the model."""
    if algorithm == "gamp":
        return
    if algorithm == "sgd":
        if isinstance(model, MatrixModel) and model.name in ("attention", "smi"):
            if model.prior.degrees != 1:
                raise IncompatibleError("algorithm sgd trains networks of one head: use gamp for several")
            return
        raise IncompatibleError(
            f"algorithm sgd is for attention and smi, not for {model.name}: use gamp, or gd for bsr"
        )
    descent = algorithm in ("gd", "averaged-gd")
    if descent and isinstance(model, AttentionIndexed):
        return
    if not isinstance(model, BilinearSequenceRegression):
        offered = "bsr and for aim of one layer" if descent else "bsr"
        own = "sgd or gamp" if model.name in ("attention", "smi") else "gamp"
        raise IncompatibleError(f"algorithm {algorithm} is for {offered}, not for this model ({model.name}): use {own}")
    if not isinstance(model.channel, GaussianChannel):
        raise IncompatibleError(f"algorithm {algorithm} fits linear labels: use channel gaussian, or algorithm gamp")


def completed(algorithm: str, model: Any, settings: Any) -> Any:
    """Settings of gradient descent with the algorithm's own values where they leave one open; others as they are."""
    if not isinstance(settings, Training):
        return settings
    from glassformer.learners.algorithms import attention_descent, factor_descent

    averaged, bilinear = algorithm == "averaged-gd", isinstance(model, BilinearSequenceRegression)
    rates = factor_descent.RATES if bilinear else attention_descent.RATES
    (name, rate), explore = settings.rule(rates), settings.explore or 0
    left_open = settings.optimizer is None and settings.learning_rate is None and settings.momentum == 0
    if averaged and bilinear and left_open and settings.explore != 0:
        name, rate, most = factor_descent.EXPLORING
        explore = settings.explore or min(most, settings.max_steps // 2)
    starts = settings.starts or (_AVERAGED if averaged else 1)
    return replace(settings, optimizer=name, learning_rate=rate, explore=explore, starts=starts)


def learner(algorithm: str, model: Model, settings: Any) -> Learner:
    """The learner of an algorithm that is offered for the model."""
    if algorithm in ("gd", "averaged-gd"):
        return _descent(model, settings, averaged=algorithm == "averaged-gd")
    # Others are refused before.
    bilinear = cast(BilinearSequenceRegression, model)
    return _ridge(bilinear, settings) if algorithm == "ridge" else _nuclear_norm(bilinear, settings)


def theory_of(algorithm: str, model: Model, alpha: Array, settings: Any) -> Array:
    """The algorithm's own error in the limit of large sizes; NaN where it is not known."""
    if algorithm != "ridge" or not isinstance(model, BilinearSequenceRegression):
        return np.full(len(alpha), np.nan)
    strength = settings.strength if isinstance(settings, Regularised) else None
    return np.asarray(ridge_error(alpha, model.noise, strength))


def _ridge(model: BilinearSequenceRegression, settings: Regularised) -> Learner:
    strength = model.noise if settings.strength is None else settings.strength

    def learn(design: Any, labels: Array, teacher: Array, seed: int, checkpoint: Checkpoint) -> BaselineRun:
        return _run(design, labels, teacher, seed, ridge(design, labels, strength))

    return learn


def _nuclear_norm(model: BilinearSequenceRegression, settings: Regularised) -> Learner:
    limit = Iteration(tolerance=settings.tolerance, floor=1e-14, max_iterations=settings.max_iterations)

    def learn(design: Any, labels: Array, teacher: Array, seed: int, checkpoint: Checkpoint) -> BaselineRun:
        strength = _noise_level(design, model.noise) if settings.strength is None else settings.strength
        return _run(design, labels, teacher, seed, least_nuclear_norm(design, labels, strength, limit))

    return learn


def _noise_level(design: DenseDesign, noise: float) -> float:
    r"""Operator norm of the noise seen through the inputs, :math:`\sqrt{\Delta n/(dL)}(\sqrt d + \sqrt L)`."""
    rows, columns = design.signal_shape
    return float(np.sqrt(noise * design.samples / (rows * columns)) * (np.sqrt(rows) + np.sqrt(columns)))


def _run(design: DenseDesign, labels: Array, teacher: Array, seed: int, solution: Any) -> BaselineRun:
    estimate = solution.value[0]
    return BaselineRun(
        seed=seed,
        error=float(np.mean((estimate - teacher) ** 2)),
        prior_error=float(np.mean(teacher**2)),
        training_error=float(np.mean((design.forward(estimate, 0) - labels) ** 2)),
        residual=float(solution.residual[0]),
        status=solution.status[0],
        iterations=int(solution.iterations[0]),
        early_stopped_error=float("nan"),
        history=[],
    )


def _descent(model: Model, settings: Training, averaged: bool) -> Learner:
    def learn(design: Any, labels: Array, teacher: Array, seed: int, checkpoint: Checkpoint) -> BaselineRun:
        from glassformer.learners.algorithms.signal_descent import descend

        student, rng = _student(model, settings.student_width, design, labels), np.random.default_rng([seed, 3])
        found = descend(student, settings, rng, settings.starts or 1, teacher, checkpoint)
        errors = [entry.averaged_error if averaged else entry.error for entry in found.history]
        return BaselineRun(
            seed=seed,
            error=errors[-1],
            prior_error=model.prior.power(teacher - model.prior.mean(teacher.shape)),
            training_error=found.history[-1].training_error,
            residual=found.trained.residual,
            status=found.trained.status,
            iterations=found.trained.steps,
            early_stopped_error=min(errors),
            history=[entry._asdict() for entry in found.history],
        )

    return learn


def _student(model: Model, width: int | None, design: Any, labels: Array) -> Student:
    """What gradient descent trains: the parameters of the model's signal, as wide as the teacher's by default."""
    from glassformer.learners.algorithms.attention_descent import attention_student
    from glassformer.learners.algorithms.factor_descent import factor_student

    columns = design.signal_shape[1]
    if isinstance(model, AttentionIndexed):
        return attention_student(model.channel, design, labels, width or _width(model.rho, columns))
    bilinear = cast(BilinearSequenceRegression, model)
    return factor_student(design, labels, width or bilinear.width or _width(bilinear.rho, columns))


def _width(rho: float | None, dimension: int) -> int:
    if rho is None:
        raise ParameterError("student_width", None, "an integer >= 1: a prior given as a whole has no width of its own")
    return max(1, round(rho * dimension))
