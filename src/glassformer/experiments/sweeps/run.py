"""Running a sweep: what is missing is computed, recorded point by point, and nothing else."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from glassformer.core.checks import require_arguments
from glassformer.core.equality import ComparedByContent
from glassformer.core.files import open_lock_file
from glassformer.core.progress import track
from glassformer.experiments.sweeps.compute import computed
from glassformer.experiments.sweeps.engines import outcomes
from glassformer.experiments.sweeps.plan import Point, Sweep, Task
from glassformer.experiments.sweeps.store import FAILED, Record, Store

try:
    import fcntl
except ImportError:
    # Without these locks two processes on one store may compute a point twice, with the same result.
    fcntl = None  # type: ignore[assignment]

# Seconds between two looks at what another process works on.
_PATIENCE = 0.5


@dataclass(frozen=True, eq=False)
class Progress(ComparedByContent):
    """How far a sweep is.

    Attributes:
        total: points.
        computed: of these in this call.
        counts: points by status; ``"missing"`` ones have no record.
        versions: of the package, that computed what is kept.
        hidden: another sweep that the store held before, in words; its records are kept, and shown when it is run
            again.
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
        """Whether every point has a record that needs no other attempt."""
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
        ParameterError: an argument is out of range, or the scheduler is lost; what is in the store stays usable.
        DataError: the store cannot be written to; what is in it stays usable.

    Example:
        >>> import tempfile
        >>> sweep = Sweep("bsr", {"rho": [0.2, 0.5], "alpha": [0.2, 0.4]})
        >>> folder = tempfile.mkdtemp()
        >>> run_sweep(sweep, folder).computed, run_sweep(sweep, folder).computed
        (4, 0)
    """
    require_arguments(run_sweep, locals())
    kept = Store(Path(store))
    points = sweep.points
    hidden = kept.keep_sweep(sweep, points)
    claims = _Claims(kept, points, retry)
    # Tasks are those of the whole grid, whatever is missing: so that two processes mean the same by one.
    tasks = [task for task in sweep.tasks(points) if any(claims.missing(point) for point in task.points)]
    done = 0
    with contextlib.closing(claims):
        advances = _advances(claims, tasks, workers, scheduler)
        for size in track(advances, f"sweep of {len(points)} points", sum(map(claims.missing, points))):
            done += size
    return _counted([point.key for point in points], claims.records, done, hidden)


def progress(store: Store) -> Progress:
    """How far the sweep last run in a store is."""
    return _counted(store.sweep()[1], store.read(), 0)


def _counted(keys: Sequence[str], records: Mapping[str, Record], done: int, hidden: str = "") -> Progress:
    counts = Counter(records[key].status if key in records else "missing" for key in keys)
    versions = {records[key].version for key in keys if key in records}
    return Progress(len(keys), done, dict(counts), tuple(sorted(versions)), hidden)


def _advances(claims: _Claims, tasks: Sequence[Task], workers: int, scheduler: str | None) -> Iterator[int]:
    """The numbers of points computed, task by task."""
    checkpoint = str(claims.store.folder / "checkpoints")
    function: Callable[[Task], list[Record]] = partial(computed, checkpoint=checkpoint)
    for task, records in outcomes(function, claims.claimed(tasks), workers, scheduler):
        claims.record(task, records)
        yield len(task.points)


class _Claims:
    """What is recorded, and tasks of this process, told to others by locks.

    The system lifts the locks of a process that ends, in whatever way.
    """

    def __init__(self, store: Store, points: Sequence[Point], retry: bool) -> None:
        self.store, self.records = store, store.read()
        keys = {point.key for point in points}
        # What another attempt is asked for counts as missing until this call, or another process, has made it.
        self._poor = {key: record for key, record in self.records.items() if retry and key in keys and not record.good}
        self._files: dict[str, IO[bytes]] = {}

    def missing(self, point: Point) -> bool:
        """Whether the point is still to be computed."""
        record = self.records.get(point.key)
        return record is None or (point.key in self._poor and record == self._poor[point.key])

    def claimed(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Tasks that no other process works on, with the points still missing; those of others are waited for."""
        left = list(tasks)
        while left:
            held = []
            for task in left:
                file = self._lock(task)
                if file is None:
                    held.append(task)
                    continue
                self.records |= self.store.read(task.name)
                rest = replace(task, points=tuple(filter(self.missing, task.points)))
                if rest.points:
                    self._files[task.name] = file
                    yield rest
                else:
                    file.close()
            left = held
            if left:
                time.sleep(_PATIENCE)

    def record(self, task: Task, records: list[Record] | Exception) -> None:
        """Keep what became of a task, and let go of it."""
        if isinstance(records, Exception):
            message = f"the worker was lost ({type(records).__name__}: {records})"
            records = [Record(FAILED, {}, message) for _ in task.points]
        found = {point.key: (point, record) for point, record in zip(task.points, records, strict=True)}
        self.store.write(task.name, found)
        self.records |= {key: record for key, (_, record) in found.items()}
        self._files.pop(task.name).close()

    def close(self) -> None:
        """Let go of everything."""
        while self._files:
            self._files.popitem()[1].close()

    def _lock(self, task: Task) -> IO[bytes] | None:
        """A file that this process alone has locked; None if another one has."""
        file = open_lock_file(self.store.locks / task.name, "store")
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return None
        return file
