"""Run a sweep: compute the points that have no record, and write their records task by task."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from glassformer.core.checks import require_arguments
from glassformer.core.equality import ComparedByContent
from glassformer.core.errors import GlassformerError
from glassformer.core.files import open_lock_file, user_path
from glassformer.core.interrupts import lasting_interrupts
from glassformer.core.progress import track
from glassformer.learners.registry import learner, parse_settings
from glassformer.models.registry import build
from glassformer.sweeps.store import FAILED, Record, Store
from glassformer.sweeps.sweep import GridPoint, Sweep, Task
from glassformer.sweeps.workers import compute_tasks
from glassformer.verbs.limits import limits
from glassformer.verbs.simulate import simulate
from glassformer.verbs.thresholds import thresholds

try:
    import fcntl
except ImportError:
    # Without these locks two processes on one store may compute a point twice, with the same result.
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Progress(ComparedByContent):
    """The state of a sweep.

    Attributes:
        total: points.
        computed: points computed in this call.
        counts: points by status; ``"missing"`` ones have no record.
        versions: versions of the package that computed the records.
        hidden: description of another sweep that the store had before; its records are kept, and collected when it
            is run again.
    """

    total: int
    computed: int
    counts: dict[str, int]
    versions: tuple[str, ...] = ()
    hidden: str = ""

    def __str__(self) -> str:
        return ", ".join(f"{count} {status}" for status, count in sorted(self.counts.items()))

    @property
    def complete(self) -> bool:
        """Whether every point has a record."""
        return "missing" not in self.counts

    @property
    def good(self) -> bool:
        """Whether no point needs another attempt."""
        return all(Record(status, {}).good for status in self.counts)


def run_sweep(
    sweep: Sweep, store: str | Path, workers: int = 1, scheduler: str | None = None, retry: bool = False
) -> Progress:
    """Compute the points of a sweep that have no record yet.

    Another process may work on the same store: each task is computed by one of them, and this call returns when all
    are done.

    Args:
        sweep: what to compute.
        store: folder of the records, made if needed.
        workers: local processes.
        scheduler: address of a dask scheduler, whose workers then compute.
        retry: compute points that failed or did not converge once more.

    Raises:
        ParameterError: an argument is out of range, or the scheduler is lost; the store stays usable.
        DataError: the store cannot be written to; it stays usable.

    Example:
        >>> import tempfile
        >>> sweep = Sweep("bsr", {"rho": [0.2, 0.5], "alpha": [0.2, 0.4]})
        >>> folder = tempfile.mkdtemp()
        >>> run_sweep(sweep, folder).computed, run_sweep(sweep, folder).computed
        (4, 0)
    """
    require_arguments(run_sweep, locals())
    records = Store(user_path(store))
    points = sweep.points
    hidden = records.write_sweep(sweep, points)
    locked = _LockedTasks(records, points, retry)
    # Tasks are groups of the whole grid, whichever points are missing, so that all processes lock the same ones.
    tasks = [task for task in sweep.tasks(points) if any(map(locked.missing, task.points))]
    function, computed = partial(compute_task, checkpoint=str(records.folder / "checkpoints")), 0
    done = compute_tasks(function, locked.claim(tasks), locked.record, workers, scheduler)
    with lasting_interrupts(), closing(locked), closing(done):
        for task in track(done, f"sweep of {len(points)} points", len(tasks)):
            computed += len(task.points)
    return _progress([point.key for point in points], locked.records, computed, hidden)


def progress(store: Store) -> Progress:
    """Return the state of the sweep last run in a store."""
    return _progress(store.read_sweep()[1], store.read())


def _progress(keys: Sequence[str], records: Mapping[str, Record], computed: int = 0, hidden: str = "") -> Progress:
    counts = Counter(records[key].status if key in records else "missing" for key in keys)
    versions = {records[key].version for key in keys if key in records}
    return Progress(len(keys), computed, dict(counts), tuple(sorted(versions)), hidden)


class _LockedTasks:
    """The records of a store, and the tasks that this process has locked.

    The system lifts the locks of a process that ends, in whatever way.
    """

    def __init__(self, store: Store, points: Sequence[GridPoint], retry: bool) -> None:
        self.store, self.records = store, store.read()
        keys = {point.key for point in points}
        # A point to be tried again counts as missing until this call, or another process, has made a new record.
        self._retried = {k: record for k, record in self.records.items() if retry and k in keys and not record.good}
        self._files: dict[str, IO[bytes]] = {}

    def missing(self, point: GridPoint) -> bool:
        """Whether the point is still to be computed."""
        record = self.records.get(point.key)
        return record is None or (point.key in self._retried and record == self._retried[point.key])

    def claim(self, tasks: Sequence[Task]) -> Iterator[Task | None]:
        """Lock the tasks one by one, with their missing points; None while other processes have all that are left."""
        left = list(tasks)
        while left:
            elsewhere = []
            for task in left:
                file = open_lock_file(self.store.locks / task.name, "store")
                if fcntl is not None:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        file.close()
                        elsewhere.append(task)
                        continue
                self.records |= self.store.read(task.name)
                rest = replace(task, points=tuple(filter(self.missing, task.points)))
                if rest.points:
                    self._files[task.name] = file
                    yield rest
                else:
                    file.close()
            left = elsewhere
            if left:
                yield None

    def record(self, task: Task, records: list[Record] | Exception) -> None:
        """Write the records of a task, or that its worker was lost, and unlock it."""
        if isinstance(records, Exception):
            message = f"the worker was lost ({type(records).__name__}: {records})"
            records = [Record(FAILED, {}, message) for _ in task.points]
        found = {point.key: (point, record) for point, record in zip(task.points, records, strict=True)}
        self.store.write(task.name, found)
        self.records |= {key: record for key, (_, record) in found.items()}
        self._files.pop(task.name).close()

    def close(self) -> None:
        """Unlock everything."""
        while self._files:
            self._files.popitem()[1].close()


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
    model, options = build(task.model, task.parameters, folder), dict(task.simulation)
    name = options.pop("learner", task.learner)
    whose = learner(name, **parse_settings(name, task.settings, folder))
    if task.compute == "thresholds":
        found = thresholds(model, whose)
        values = {entry.name: _json_number(entry.alpha) for entry in found.entries}
        errors = {f"{entry.name}_error_estimate": _json_number(entry.error_estimate) for entry in found.entries}
        notes = [f"{entry.name}: {entry.note}" for entry in found.entries]
        return [Record("converged", {**values, **errors, "hard_phase": found.hard_phase}, "; ".join(notes))]
    if task.compute == "limits":
        return [_record(row) for row in limits(model, task.alpha, whose, throw=False).rows()]
    del options["instances"]
    # Only training takes long enough to be continued in the middle of a point.
    table = simulate(
        model, task.alpha, whose, instances=1, checkpoint=checkpoint if whose.info.resumable else None, **options
    )
    run, (row,) = table.instances[0][0], table.rows()
    # One instance has no standard error; standard errors of several follow from their records.
    for name in ("instances", "standard_error", "interval", "relative_standard_error"):
        row.pop(name, None)
    claimed = {} if run.claimed_error is None else {"claimed_error": _json_number(run.claimed_error)}
    return [_record({**row, "iterations": int(run.iterations), **claimed}, "; ".join(table.notes))]


def _record(row: dict[str, Any], message: str = "") -> Record:
    return Record(row.pop("status"), {name: value for name, value in row.items() if name != "alpha"}, message)


def _json_number(value: float) -> float | str | None:
    """Return a number in types of JSON, which has no infinity: ``"inf"`` for it, None for NaN."""
    if value == float("inf"):
        return "inf"
    return float(value) if value == value else None
