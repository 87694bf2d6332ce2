"""Records of the points of a task: the results of its verb, or the error of its computation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.accuracy import Accuracy
from glassformer.core.errors import GlassformerError
from glassformer.core.results import error_column
from glassformer.core.status import Status
from glassformer.learners.base import Learner
from glassformer.models.base import Model
from glassformer.models.registry import build
from glassformer.sweeps.grid import Task
from glassformer.sweeps.store import FAILED, Record
from glassformer.verbs.compare import ComparedCurve, compare
from glassformer.verbs.limits import limits
from glassformer.verbs.plan import plan
from glassformer.verbs.simulate import simulate
from glassformer.verbs.thresholds import thresholds
from glassformer.verbs.trajectory import trajectory


def compute_task(task: Task, checkpoint: str | None = None) -> list[Record]:
    """Compute a record of every point of the task; an error of the package, or of JAX or NumPy, is a record too.

    Args:
        task: what to compute.
        checkpoint: folder for the state of training in progress.
    """
    start = time.perf_counter()
    try:
        records = _records(task, checkpoint)
    # JAX raises subclasses of RuntimeError, for instance where its memory is exhausted.
    except (GlassformerError, ValueError, ArithmeticError, MemoryError, RuntimeError) as error:
        records = [Record(FAILED, {}, f"{type(error).__name__}: {error}") for _ in task.points]
    share = (time.perf_counter() - start) / len(task.points)
    return [replace(record, seconds=share) for record in records]


def _records(task: Task, checkpoint: str | None) -> list[Record]:
    folder = Path(task.folder) if task.folder else None
    model, learner = build(task.model, task.parameters, folder), task.learner.resolve(folder, task.runs.get("d"))
    accuracy = Accuracy(**task.accuracy)
    # Only training takes long enough to be continued in the middle of a point.
    kept = checkpoint if learner.info.resumable and "d" in task.runs else None
    if task.verb == "limits":
        table = limits(model, task.alpha, learner, throw=False, accuracy=accuracy)
        return [_record(row) for row in table.rows()]
    if task.verb == "thresholds":
        return [_thresholds(model, learner, accuracy)]
    if task.verb == "plan":
        return [_plan(task, model, learner, accuracy)]
    if task.verb == "trajectory":
        return _trajectory(task, model, learner, accuracy, kept)
    if task.verb == "compare":
        return _compare(task, model, learner, accuracy)
    return [_simulate(task, model, learner, accuracy, kept)]


def _thresholds(model: Model, learner: Learner, accuracy: Accuracy) -> Record:
    found = thresholds(model, learner, accuracy=accuracy)
    values = {entry.name: _json_number(entry.alpha) for entry in found.entries}
    errors = {f"{entry.name}_error_estimate": _json_number(entry.error_estimate) for entry in found.entries}
    notes = [f"{entry.name}: {entry.note}" for entry in found.entries]
    return Record("converged", {**values, **errors, "hard_phase": found.hard_phase}, "; ".join(notes))


def _plan(task: Task, model: Model, learner: Learner, accuracy: Accuracy) -> Record:
    """Return the sample ratio of each entry of the plan, its error estimate and, with ``d``, the number of samples."""
    found = plan(model, learner=learner, accuracy=accuracy, **task.options, **task.runs)
    values: dict[str, Any] = {}
    for entry in found.entries:
        values[entry.name] = _json_number(entry.alpha)
        values[f"{entry.name}_error_estimate"] = _json_number(entry.error_estimate)
        if entry.samples is not None:
            values[f"{entry.name}_samples"] = entry.samples
    notes = [*(f"{entry.name}: {entry.note}" for entry in found.entries if entry.note), *found.notes]
    return Record(str(_first_unsettled(entry.status for entry in found.entries)), values, "; ".join(notes))


def _trajectory(task: Task, model: Model, learner: Learner, accuracy: Accuracy, checkpoint: str | None) -> list[Record]:
    """Return records whose values are lists over the iterations."""
    table = trajectory(
        model, task.alpha, learner, throw=False, accuracy=accuracy, checkpoint=checkpoint, **task.options, **task.runs
    )
    first = [*np.flatnonzero(table["iteration"] == 0), len(table["iteration"])]
    rows, records = table.rows(), []
    for begin, end in itertools.pairwise(first):
        values = {name: [row[name] for row in rows[begin:end]] for name in table.columns}
        ratio = values.pop("alpha")[0]
        del values["iteration"]
        realised = {"alpha_realised": ratio} if task.runs else {}
        status = _first_unsettled(table.status[begin:end])
        records.append(Record(str(status), {**values, **realised}, "; ".join(table.notes)))
    return records


def _compare(task: Task, model: Model, learner: Learner, accuracy: Accuracy) -> list[Record]:
    """Return the quantity of one learner in theory and, with ``d``, its mean over runs.

    Message passing has the Bayes-optimal quantity, and its own beside it where the two differ.
    """
    # As in a comparison of several learners, each of them takes the values of the accuracy that it has.
    own = accuracy.only([*model.accuracy_defaults, *learner.accuracy_defaults])
    runs = {**task.runs, "run_alpha": task.alpha} if task.runs else {}
    found = compare(model, task.alpha, [learner], accuracy=own, **task.options, **runs)
    names = [found.quantity, f"algorithmic_{found.quantity}"]
    theory = list(zip(names, (curve for curve in found.curves if not curve.runs), strict=False))
    records = []
    for k, ratio in enumerate(task.alpha):
        # Theory of learners that need data has no row at alpha = 0.
        rows = [(name, curve, int(at)) for name, curve in theory for at in np.flatnonzero(curve.alpha == ratio)]
        rows += [(f"measured_{found.quantity}", curve, k) for curve in found.curves if curve.runs]
        if rows:
            values = {name: value for row in rows for name, value in _with_bar(*row).items()}
            status = _first_unsettled(curve.status[at] for _, curve, at in rows)
            records.append(Record(str(status), values, "; ".join(found.notes)))
        else:
            records.append(Record(FAILED, {}, f"there is no theory of {learner.name} at alpha = {ratio:g}"))
    return records


def _with_bar(name: str, curve: ComparedCurve, at: int) -> dict[str, Any]:
    bar = error_column(name, "standard_error" if curve.runs else "error_estimate")
    realised = {"alpha_realised": float(curve.alpha[at])} if curve.runs else {}
    return {name: _json_number(curve.value[at]), bar: _json_number(curve.bar[at]), **realised}


def _simulate(task: Task, model: Model, learner: Learner, accuracy: Accuracy, checkpoint: str | None) -> Record:
    runs = {**task.runs, "instances": 1}
    table = simulate(model, task.alpha, learner, checkpoint=checkpoint, accuracy=accuracy, **runs)
    run, (row,) = table.instances[0][0], table.rows()
    # One instance has no standard error; standard errors of several follow from their records.
    for name in ("instances", "standard_error", "interval", "relative_standard_error"):
        row.pop(name, None)
    claimed = {} if run.claimed_error is None else {"claimed_error": _json_number(run.claimed_error)}
    return _record({**row, "iterations": int(run.iterations), **claimed}, "; ".join(table.notes))


def _record(row: dict[str, Any], message: str = "") -> Record:
    return Record(row.pop("status"), {name: value for name, value in row.items() if name != "alpha"}, message)


def _first_unsettled(statuses: Iterable[Status]) -> Status:
    """Return the first status of a row that did not converge; else ``bistable`` before ``converged``."""
    found = list(statuses)
    unsettled = [one for one in found if one not in (Status.CONVERGED, Status.BISTABLE)]
    return next(iter(unsettled), Status.BISTABLE if Status.BISTABLE in found else Status.CONVERGED)


def _json_number(value: float) -> float | str | None:
    """Return a number in types of JSON, which has no infinity: ``"inf"`` for it, None for NaN."""
    if value == float("inf"):
        return "inf"
    return float(value) if value == value else None
