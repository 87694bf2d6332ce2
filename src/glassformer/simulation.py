"""Algorithms on simulated data, next to the theory of the same finite sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal import limits
from glassformer.designs.base import Design
from glassformer.experiments import (
    Simulation,
    require_memory,
    require_whole_numbers,
    standard_error,
    whole_samples,
)
from glassformer.gamp import gamp
from glassformer.models import MatrixModel, Model
from glassformer.overlap_simulation import simulate_rows
from glassformer.progress import track
from glassformer.settings import Descent
from glassformer.solution import Status
from glassformer.state_evolution import validated_alpha


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
    settings: Descent | None = None,
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
        algorithm: ``"gamp"``.
        storage: ``"float64"``, or ``"float32"`` for half the memory and time.
        settings: tolerance, iteration limit and damping of message passing.

    Returns:
        :class:`Simulation` with the columns ``alpha``, ``error`` (mean over instances), ``standard_error`` (of that
        mean; NaN for a single instance), ``theory`` (error reached by message passing in the limit of large sizes),
        ``theory_bayes_optimal``, ``relative_error`` (summed error over summed power of the teachers, free of the
        fluctuation of the latter) with its standard error, and ``alpha_realised``. Every run counts in the means,
        however it ended; the status of a row is that of its first run that did not converge.

    Raises:
        ParameterError: an argument is out of range, or the inputs would not fit into memory.
        IncompatibleError: the model is a limit without data.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
        >>> result = simulate(model, [0.6], d=30, instances=2, seed=1)
        >>> bool(abs(result["error"][0] - result["theory"][0]) < 0.1)
        True
    """
    alpha = validated_alpha(alpha)
    require_whole_numbers(d, instances, seed, algorithm)
    if isinstance(model, MatrixModel):
        return simulate_rows(model, alpha, d, instances, seed, algorithm, storage, settings)
    size = model.at_size(d)
    finite, samples = size.model, whole_samples(alpha, size, d)
    require_memory(int(samples.max()), size.input_shape, storage)
    runs: list[list[Instance]] = [[] for _ in alpha]
    for k in track(range(instances), f"{instances} instances at d = {d}"):
        rng = np.random.default_rng([seed + k, 1])
        design = size.design.sample(int(samples.max()), size.input_shape, rng, storage)
        for point, n in enumerate(samples):
            runs[point].append(_learn(finite, design.first(int(n)), seed + k, settings))
    errors = np.array([[run.error for run in point] for point in runs])
    realised = samples / size.unit
    theory = limits(finite, realised, throw=False)
    powers = np.array([[run.prior_error for run in point] for point in runs])
    relative = errors.sum(axis=1) / powers.sum(axis=1)
    notes = [] if finite.parameters == model.parameters else [f"theory at the realised ratios {finite.parameters}"]
    return Simulation(
        model=model.name,
        parameters={**model.parameters, "algorithm": algorithm, "d": d, "seed": seed, "storage": storage},
        columns={
            "alpha": alpha,
            "error": errors.mean(axis=1),
            "standard_error": standard_error(errors),
            "theory": theory["algorithmic_error"],
            "theory_bayes_optimal": theory["error"],
            "relative_error": relative,
            "relative_standard_error": standard_error(errors - relative[:, None] * powers) / powers.mean(axis=1),
            "alpha_realised": realised,
        },
        status=[next((run.status for run in point if not run.status.ok), Status.CONVERGED) for point in runs],
        notes=notes,
        instances=runs,
    )


def _learn(model: Model, design: Design, seed: int, settings: Descent | None) -> Instance:
    signal = model.prior.sample(design.signal_shape, np.random.default_rng([seed, 0]))
    labels = model.channel.sample(design.forward(signal, 0), np.random.default_rng([seed, 2]))
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
