"""The computation of one task, wherever it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from glassformer.core.errors import GlassformerError
from glassformer.experiments.simulation import simulate
from glassformer.experiments.sweeps.plan import Task
from glassformer.experiments.sweeps.store import FAILED, Record
from glassformer.learners.registry import learner, settings_meant
from glassformer.models.registry import build


def computed(task: Task, checkpoint: str | None = None) -> list[Record]:
    """A record of every point of the task; what the package refuses is a record too.

    Args:
        task: what to compute.
        checkpoint: folder for the state of training in progress.
    """
    start = time.perf_counter()
    try:
        found = _found(task, checkpoint)
    except (GlassformerError, ValueError, ArithmeticError, MemoryError) as error:
        found = [Record(FAILED, {}, f"{type(error).__name__}: {error}") for _ in task.points]
    share = (time.perf_counter() - start) / len(task.points)
    return [Record(record.status, record.values, record.message, share) for record in found]


def _found(task: Task, checkpoint: str | None) -> list[Record]:
    folder = Path(task.folder) if task.folder else None
    model, options = build(task.model, task.parameters, folder), dict(task.simulation)
    name = options.pop("algorithm", task.learner)
    asked = learner(name, **settings_meant(name, task.settings, folder))
    if task.compute == "thresholds":
        found = asked.thresholds(model)
        values = {entry.name: _finite(entry.alpha) for entry in found.entries}
        errors = {f"{entry.name}_error_estimate": _finite(entry.error_estimate) for entry in found.entries}
        notes = [f"{entry.name}: {entry.note}" for entry in found.entries]
        return [Record("converged", {**values, **errors, "hard_phase": found.hard_phase}, "; ".join(notes))]
    if task.compute == "limits":
        return [_record(row) for row in asked.limits(model, task.alpha, throw=False).rows()]
    del options["instances"]
    # Training alone is long enough to be worth continuing in the middle of a point.
    kept = checkpoint if asked.continues else None
    table = simulate(model, task.alpha, instances=1, algorithm=asked, checkpoint=kept, **options)
    run = table.instances[0][0]
    (row,) = table.rows()
    # One instance has no standard error; those of several follow from their records.
    for name in ("instances", "standard_error", "interval", "relative_standard_error"):
        row.pop(name, None)
    extra = {} if run.claimed_error is None else {"claimed_error": _finite(run.claimed_error)}
    return [_record({**row, "iterations": int(run.iterations), **extra})]


def _record(row: dict[str, Any]) -> Record:
    return Record(row.pop("status"), {name: value for name, value in row.items() if name != "alpha"})


def _finite(value: float) -> float | str | None:
    """Infinity has a meaning (never), and no word in JSON."""
    if value == float("inf"):
        return "inf"
    return float(value) if value == value else None
