"""Errors after every step of a learner on simulated data, compared with the theory of the same finite sizes."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.renamed import verb
from glassformer.core.results import Table, error_column
from glassformer.core.settings import non_default_fields
from glassformer.core.status import Status
from glassformer.learners.base import IN_ONE_ARRAY, Learner, StepContext, Theory
from glassformer.learners.registry import resolve_learner
from glassformer.models.base import Model, require_theory
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.verbs.instances import Run, standard_error
from glassformer.verbs.question import Asked, asked
from glassformer.verbs.simulate import experiment_of

# Quantities that runs record after every step, where theory has them.
_RECORDED = (
    *("error", "row_error", "cosine", "plugin_error", "training_loss", "test_loss", "label_error", "prediction_error"),
    *("training_error", "test_error", "new_task_error", "overlap", "nuclear_norm", "largest_singular_value"),
)
# A distance from theory is noted if it is outside of this interval, of runs and of sampled theory together, and exceeds
# this share of theory (conventions).
_CONFIDENCE, _RELATIVE = 0.997, 0.05


# Steps where neither the question nor the learner has a number (a convention).
_STEPS = 50


@verb
def trajectory(
    model: Model,
    alpha: ArrayLike,
    learner: str | Learner = "gamp",
    *,
    steps: int | None = None,
    start: str | tuple[Any, Any] | None = None,
    d: int | None = None,
    instances: int | None = None,
    seed: int | None = None,
    storage: str | None = None,
    checkpoint: str | Path | None = None,
    throw: bool | None = None,
    accuracy: Accuracy | None = None,
) -> Table:
    r"""Return errors step by step: theory and, at a size ``d``, runs on data.

    Runs are those of :func:`~glassformer.simulate`, without damping. A run that has converged keeps its last value.

    Args:
        model: the teacher, known to the student.
        alpha: sample ratios, shape (points,), in the model's unit.
        learner: a learner whose steps have a theory, or its name: message passing of every kind, regularised risk,
            gradient descent on the same samples (``sgd``; ``gd`` and ``averaged-gd`` on matrices, at a fixed rate) and
            on new ones (``online-sgd``). The steps of regularised
            risk are those of proximal message passing (:mod:`~glassformer.learners.proximal_message_passing`), which
            ends at the minimiser.
        steps: number of steps, at least 1; None for that of the learner, or 50.
        start: where the steps begin, instead of the learner's own start: ``"overlap:0.3"``, an overlap with the truth
            before the first step (of message passing in theory alone); for descent also ``"prior"``, ``"small:0.001"``
            and, for ``sgd``, a pair of matrices. By default message passing begins with the overlap that side
            information gives and, for even labels, that of the random start at a size ``d``, 0.001 without one.
        d: token dimension of runs; None for theory alone.
        instances: independent runs per sample ratio, with ``d``; 4 by default.
        seed: a non-negative integer, with ``d``; 0 by default.
        storage: form in which inputs are stored, with ``d``, as of :func:`~glassformer.simulate`.
        checkpoint: a folder for finished runs and the state of unfinished ones, as of :func:`~glassformer.simulate`,
            with ``d``.
        throw: raise an error if a row did not converge. By default theory alone raises; beside runs, which may fail,
            the row keeps its status.
        accuracy: points of sampled averages, and trajectories of the equations of descent.

    Returns:
        The table of :func:`~glassformer.bayes_optimal.trajectory.gamp_trajectory`, of
        :func:`~glassformer.bayes_optimal.vector_state_evolution.vector_trajectory`, of
        :func:`~glassformer.bayes_optimal.assumed_width.assumed_prior_trajectory`, of
        :func:`~glassformer.risk.trajectory.risk_trajectory`, of
        :func:`~glassformer.dynamics.descent_path.descent_table`, of
        :func:`~glassformer.dynamics.matrix_path.path_table`, or of
        :func:`~glassformer.dynamics.online_sgd.online_trajectory`. With ``d`` it also has ``measured_error``, the mean
        over runs, and ``measured_standard_error``, and likewise for ``row_error``, ``cosine``, ``plugin_error``,
        losses and errors on labels where theory has them; theory is that of the ratios that whole numbers allow.
        Message passing has no measured value (NaN) before its first step. Notes name runs that do not converge without
        damping, and runs that differ from theory by more than statistical fluctuations.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the steps have no theory, or a setting has no effect on them.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1)
        >>> table = trajectory(model, [0.8], steps=5, d=60, seed=1)
        >>> bool(np.nanmax(np.abs(table["measured_error"] - table["error"])) < 0.05)
        True
    """
    require_arguments(trajectory, locals())
    question = asked(model, resolve_learner(learner, d), accuracy, "trajectory")
    alpha, context = validated_alpha(alpha), StepContext(_number_of_steps(question.learner, steps), d=d)
    question, context = _begun_at(question, context, start)
    if not question.theory.of_features:
        require_theory(question.model)
    if d is None:
        runs = {"instances": instances, "seed": seed, "storage": storage, "checkpoint": checkpoint}
        for name, value in runs.items():
            if value is not None:
                raise IncompatibleError(f"{name} = {value} needs simulated runs: give their token dimension d")
        _require_effect(question.learner)
        found = question.theory.trajectory(alpha, context)
    else:
        require_integer("d", d, 2)
        found = _beside_runs(
            question,
            alpha,
            context,
            instances=4 if instances is None else instances,
            seed=0 if seed is None else seed,
            storage=storage,
            checkpoint=checkpoint,
        )
    if d is None if throw is None else throw:
        found.raise_unless_converged()
    return found


def _number_of_steps(learner: Learner, steps: int | None) -> int:
    """Return the number of steps that was asked for, that of the learner, or the usual one."""
    if steps is None:
        steps = getattr(learner, "steps", None) or _STEPS
    require_integer("steps", steps)
    return steps


def _begun_at(question: Asked, context: StepContext, start: Any) -> tuple[Asked, StepContext]:
    """Return learner and context with a start: a setting of learners that have one, else an overlap of theory."""
    learner = question.learner
    if start is None:
        return question, context
    if "start" in {one.name for one in fields(learner)}:
        return question._replace(learner=learner.varied(start=start)), context
    kind, _, number = str(start).partition(":")
    try:
        overlap = float(number)
    except ValueError:
        overlap = float("nan")
    if kind != "overlap" or not 0 <= overlap < 1:
        raise ParameterError("start", start, "overlap:X with a number X in [0, 1)")
    return question, replace(context, overlap=overlap)


def _require_effect(learner: Learner) -> None:
    """Raise for a setting of the learner without effect on the theory of its steps."""
    for name, value in non_default_fields(learner).items():
        if name not in (*learner.info.trajectory_settings, "steps"):
            text = f"has no effect on the theory of the steps of {learner.name}: leave it out"
            raise IncompatibleError(f"{name} = {value} {text}")


def _beside_runs(
    question: Asked,
    alpha: Array,
    context: StepContext,
    *,
    instances: int,
    seed: int,
    storage: str | None,
    checkpoint: str | Path | None,
) -> Table:
    """Return theory beside runs, which begins where they begin."""
    model, learner = question
    stepwise = question.theory.simulated(context)
    for name, value in non_default_fields(learner).items():
        used = getattr(stepwise, name)
        if used != value and name != "steps":
            raise IncompatibleError(
                f"{name} = {value} is not allowed: the theory of the steps of {learner.name} has {name} = {used}; "
                "use simulate for other settings"
            )
    first, d = stepwise.info.storages[0], int(context.d or 0)
    storage = storage or (None if first in IN_ONE_ARRAY else first)
    experiment = experiment_of(model, alpha, d, instances, seed, stepwise, storage, checkpoint)
    runs, size = experiment.runs(), experiment.size.model
    theory = stepwise.theory(size)
    table = theory.trajectory(experiment.realised, theory.begun(context, [run.history for run in runs[0]]))
    recorded = {"error", *runs[0][0].history[0]}
    columns = dict(table.columns)
    for name in _RECORDED:
        if name in table.columns and name in recorded:
            columns |= _measured(runs, theory, name, context.steps)
    parameters = {**table.parameters, "d": d, "instances": instances, "seed": seed}
    found = replace(table, columns=columns, parameters=parameters)
    notes = [*experiment.size.remarks, *_unsettled_runs(experiment.realised, runs)]
    return replace(found, notes=[*table.notes, *notes, *_far_from_theory(found, context.steps)])


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
    main = table.main
    bar = error_column(main, "standard_error")
    names = ("alpha", main, error_column(main), f"measured_{main}", f"measured_{bar}")
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


def _measured(points: list[list[Run]], theory: Theory, name: str, steps: int) -> dict[str, Array]:
    """Return means of one quantity over the runs and their standard errors, one sample ratio after the other."""
    runs = np.array([[_padded(run, theory, name, steps) for run in point] for point in points])
    flat = np.swapaxes(runs, 1, 2).reshape(-1, runs.shape[1], *runs.shape[3:])
    error = error_column(name, "standard_error")
    return {f"measured_{name}": flat.mean(axis=1), f"measured_{error}": standard_error(flat)}


def _padded(run: Run, theory: Theory, name: str, steps: int) -> Array:
    """Return a quantity of a run after every step, shape (steps + 1, ...).

    Message passing has no value before its first step. A run that converged early keeps its last value; a run that
    diverged has none afterwards.
    """
    values = [step[name] if name in step else np.mean(step["row_error"]) for step in run.history]
    before = [] if theory.history_includes_start else [np.full_like(values[0], np.nan)]
    end = np.full_like(values[-1], np.nan) if run.status in (Status.NON_FINITE, Status.DIVERGING) else values[-1]
    return np.array(([*before, *values] + [end] * steps)[: steps + 1])
