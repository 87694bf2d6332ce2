"""Errors after every step of a learner on simulated data, compared with the theory of the same finite sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.results import Table, error_column
from glassformer.core.settings import non_default_fields
from glassformer.core.status import Status
from glassformer.experiments.instances import Run, standard_error
from glassformer.experiments.simulation import experiment_of
from glassformer.learners.base import Equations, Learner
from glassformer.learners.registry import resolve_learner
from glassformer.models.base import Model, require_theory
from glassformer.numerics.quasi_random import confidence_factor

# Quantities that runs record after every step, where theory has them.
_RECORDED = (
    *("error", "row_error", "cosine", "plugin_error", "training_loss", "test_loss", "label_error", "prediction_error"),
)
# A distance from theory is noted if it is outside of this interval, of runs and of sampled theory together, and exceeds
# this share of theory (conventions).
_CONFIDENCE, _RELATIVE = 0.997, 0.05


def trajectory(
    model: Model,
    alpha: ArrayLike,
    steps: int = 50,
    overlap: float | None = None,
    learner: str | Learner = "gamp",
    d: int | None = None,
    instances: int | None = None,
    seed: int | None = None,
    checkpoint: str | Path | None = None,
) -> Table:
    r"""Return errors step by step: theory and, at a size ``d``, runs on data.

    Runs are those of :func:`~glassformer.experiments.simulation.simulate`, without damping. A run that has converged
    keeps its last value.

    Args:
        model: the teacher, known to the student.
        alpha: sample ratios, shape (points,), in the model's unit.
        steps: number of steps, at least 1.
        overlap: overlap with the truth before the first step, of message passing in theory alone; by default the
            overlap that side information gives and, for even labels, the overlap of the random start with the truth at
            a size ``d``, 0.001 without one. Online gradient descent starts there on data as well, and its equations
            start where its runs start.
        learner: a learner whose steps have a theory, or its name: message passing of every kind, regularised risk,
            gradient descent on the same samples (``sgd``) and on new ones (``online-sgd``). The steps of regularised
            risk are those of proximal message passing (:mod:`~glassformer.learners.proximal_message_passing`), which
            ends at the minimiser.
        d: token dimension of runs; None for theory alone.
        instances: independent runs per sample ratio, with ``d``; 4 by default.
        seed: a non-negative integer, with ``d``; 0 by default.
        checkpoint: a folder for finished runs and the state of unfinished ones, as of
            :func:`~glassformer.experiments.simulation.simulate`, with ``d``.

    Returns:
        The table of :func:`~glassformer.bayes_optimal.trajectory.gamp_trajectory`, of
        :func:`~glassformer.bayes_optimal.vector_state_evolution.vector_trajectory`, of
        :func:`~glassformer.bayes_optimal.assumed_width.assumed_prior_trajectory`, of
        :func:`~glassformer.risk.trajectory.risk_trajectory`, of
        :func:`~glassformer.dynamics.descent_path.descent_table`, or of
        :func:`~glassformer.dynamics.online_sgd.online_trajectory`. With ``d`` it also has ``measured_error``, the mean
        over runs, and ``measured_standard_error``, and likewise for ``row_error``, ``cosine``, ``plugin_error``,
        losses and errors on labels where theory has them; theory is that of the ratios that whole numbers allow.
        Message passing has no measured value (NaN) before its first step. Notes name runs that do not converge without
        damping, and runs that differ from theory by more than statistical fluctuations.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the steps have no theory, or a setting has no effect on them.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> table = trajectory(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), [0.8], steps=5, d=60, seed=1)
        >>> bool(np.nanmax(np.abs(table["measured_error"] - table["error"])) < 0.05)
        True
    """
    require_arguments(trajectory, locals())
    alpha, learner = validated_alpha(alpha), resolve_learner(learner)
    require_integer("steps", steps)
    require_theory(model)
    if d is None:
        for name, value in (("instances", instances), ("seed", seed), ("checkpoint", checkpoint)):
            if value is not None:
                raise IncompatibleError(f"{name} = {value} needs simulated runs: give their token dimension d")
        for name, value in non_default_fields(learner).items():
            if name not in learner.info.trajectory_settings:
                text = f"has no effect on the theory of the steps of {learner.name}: leave it out"
                text += ", and give steps to trajectory" if name == "steps" else ""
                raise IncompatibleError(f"{name} = {value} {text}")
        return _theory(learner.equations(model), alpha, steps, overlap)
    require_integer("d", d, 2)
    stepwise = learner.equations(model).simulated(steps, overlap, d)
    for name, value in non_default_fields(learner).items():
        used = getattr(stepwise, name)
        if used != value:
            raise IncompatibleError(
                f"{name} = {value} is not allowed: the theory of the steps of {learner.name} has {name} = {used}; "
                "use simulate for other settings"
            )
    instances, seed = 4 if instances is None else instances, 0 if seed is None else seed
    experiment = experiment_of(model, alpha, d, instances, seed, stepwise, stepwise.info.storages[0], checkpoint)
    runs, size = experiment.runs(), experiment.size.model
    equations = stepwise.equations(size)
    start = equations.initial_overlap(d, overlap, [run.history for run in runs[0]])
    table = _theory(equations, experiment.realised, steps, start)
    recorded = {"error", *runs[0][0].history[0]}
    columns = dict(table.columns)
    for name in _RECORDED:
        if name in table.columns and name in recorded:
            columns |= _measured(runs, equations, name, steps)
    parameters = {**table.parameters, "d": d, "instances": instances, "seed": seed}
    found = replace(table, columns=columns, parameters=parameters)
    notes = [*experiment.size.remarks, *_unsettled_runs(experiment.realised, runs), *_far_from_theory(found, steps)]
    return replace(found, notes=[*table.notes, *notes])


def follow(
    model: Model,
    alpha: ArrayLike,
    steps: int = 50,
    overlap: float | None = None,
    d: int | None = None,
    instances: int | None = None,
    seed: int | None = None,
    learner: str | Learner = "gamp",
) -> Table:
    """Return :func:`trajectory`, with arguments in another order.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> follow(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), [0.8], steps=1)["error"].round(4).tolist()
        [1.0, 0.5237]
    """
    require_arguments(follow, locals())
    return trajectory(model, alpha, steps, overlap, learner, d, instances, seed)


def _unsettled_runs(alpha: Array, points: list[list[Run]]) -> list[str]:
    """Return notes on runs that do not converge in any number of steps: theory does not describe them."""
    words = {
        Status.OSCILLATING: "do not converge without damping at this size",
        Status.DIVERGING: "diverge; smaller steps may help",
        Status.NON_FINITE: "diverge, and have no value after that; smaller steps may help",
    }
    notes = []
    for ratio, point in zip(alpha, points, strict=True):
        for status, text in words.items():
            count = sum(run.status is status for run in point)
            if count:
                notes.append(f"alpha = {ratio:g}: {count} of {len(point)} runs {text}")
    return notes


def _far_from_theory(table: Table, steps: int) -> list[str]:
    """Return notes on runs that differ from theory by more than statistical fluctuations."""
    names = ("alpha", "error", "error_estimate", "measured_error", "measured_standard_error")
    if any(name not in table.columns for name in names):
        return []
    notes, instances = [], int(table.parameters["instances"])
    parts = (table[name].reshape(-1, steps + 1) for name in names)
    for ratio, theory, estimate, measured, standard_errors in zip(*parts, strict=True):
        gap = np.abs(measured - theory)
        # Error estimates of theory are two standard errors, and three are the interval.
        interval = np.hypot(confidence_factor(instances, _CONFIDENCE) * standard_errors, 1.5 * estimate)
        far = (gap > interval) & (gap > _RELATIVE * theory)
        if far.any():
            notes.append(
                f"alpha = {ratio[0]:g}: runs differ from theory by up to {np.max(gap[far]):.2g}, outside of their "
                f"{100 * _CONFIDENCE:g} % interval: theory is the limit of large d, and d = {table.parameters['d']} "
                "may be too small"
            )
    return notes


def _theory(equations: Equations, alpha: Array, steps: int, start: Any) -> Table:
    found = equations.trajectory(alpha, steps, start)
    if isinstance(found, str):
        raise IncompatibleError(f"learner {equations.learner.name}: {found}")
    return found


def _measured(points: list[list[Run]], equations: Equations, name: str, steps: int) -> dict[str, Array]:
    """Return means of one quantity over the runs and their standard errors, one sample ratio after the other."""
    runs = np.array([[_padded(run, equations, name, steps) for run in point] for point in points])
    flat = np.swapaxes(runs, 1, 2).reshape(-1, runs.shape[1], *runs.shape[3:])
    error = error_column(name, "standard_error")
    return {f"measured_{name}": flat.mean(axis=1), f"measured_{error}": standard_error(flat)}


def _padded(run: Run, equations: Equations, name: str, steps: int) -> Array:
    """Return a quantity of a run after every step, shape (steps + 1, ...).

    Message passing has no value before its first step. A run that converged early keeps its last value; a run that
    diverged has none afterwards.
    """
    values = [step[name] if name in step else np.mean(step["row_error"]) for step in run.history]
    before = [] if equations.history_includes_start else [np.full_like(values[0], np.nan)]
    end = np.full_like(values[-1], np.nan) if run.status in (Status.NON_FINITE, Status.DIVERGING) else values[-1]
    return np.array(([*before, *values] + [end] * steps)[: steps + 1])
