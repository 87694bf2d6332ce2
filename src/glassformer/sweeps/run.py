"""Run a sweep: compute the points that have no record, and write their records task by task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from glassformer.core.checks import require_arguments
from glassformer.core.equality import ComparedByContent
from glassformer.core.files import open_lock_file, user_path
from glassformer.core.interrupts import lasting_interrupts
from glassformer.core.progress import track
from glassformer.sweeps.compute import compute_task
from glassformer.sweeps.grid import Grid, GridPoint, Task
from glassformer.sweeps.store import FAILED, Record, Store
from glassformer.sweeps.workers import compute_tasks

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
    sweep: Grid, store: str | Path, workers: int = 1, scheduler: str | None = None, retry: bool = False
) -> Progress:
    """Compute the points of a sweep that have no record yet; see :meth:`~glassformer.Sweep.run`."""
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
