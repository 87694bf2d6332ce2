"""Workers that compute tasks: this process, local processes, or the machines of a dask scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from glassformer.core.cache import drop_recent_programs
from glassformer.core.checks import is_whole
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.interrupts import uninterrupted

T = TypeVar("T")
R = TypeVar("R")

# Number of workers that may die in one task before it is given up (a convention).
_ATTEMPTS = 3
# Most processes on one machine (a convention).
_MOST_WORKERS = 4096
# Tasks submitted per worker of a scheduler, so that no worker waits for the next task.
_AHEAD = 2
# Variables that limit threads: with as many workers as cores, one thread per worker is fastest.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Errors of pickling an object for another process.
_UNSENT = (AttributeError, TypeError, pickle.PicklingError)
# Seconds that a scheduler has to answer, until tasks are asked for again, and that terminated workers have to end.
_PATIENCE, _PAUSE, _GRACE = 5, 0.5, 2.0


def compute_tasks(
    function: Callable[[T], R],
    tasks: Iterable[T | None],
    record: Callable[[T, R | Exception], None],
    workers: int = 1,
    scheduler: str | None = None,
) -> Generator[T, None, None]:
    """Compute tasks, record their results, and yield every task whose result was recorded.

    After an exception, Ctrl-C included, finished results are recorded, tasks in progress are given up and local
    workers are ended.

    Args:
        function: called with each task; importable by the workers.
        tasks: the tasks, taken when workers are free; None means that no task is free now, ask again later.
        record: called with a task and its result, or with an exception if several workers died in the task. Ctrl-C
            does not interrupt it.
        workers: local processes; 1 computes in this process.
        scheduler: address of a dask scheduler, in place of local processes.

    Raises:
        ParameterError: ``workers`` is out of range, or there is no such scheduler, or it ends before the tasks do.
        IncompatibleError: dask is needed and not installed, or a task cannot be sent to another process.

    Example:
        >>> found = {}
        >>> list(compute_tasks(abs, [-1, 2], found.__setitem__)), found
        ([-1, 2], {-1: 1, 2: 2})
    """
    if not is_whole(workers, 1) or workers > _MOST_WORKERS:
        raise ParameterError("workers", workers, f"an integer from 1 to {_MOST_WORKERS}")
    if scheduler is not None:
        yield from _on_scheduler(function, iter(tasks), record, scheduler)
    elif workers == 1:
        yield from _in_this_process(function, tasks, record)
    else:
        yield from _in_processes(function, iter(tasks), record, workers)


def _in_this_process(
    function: Callable[[T], R], tasks: Iterable[T | None], record: Callable[[T, R | Exception], None]
) -> Iterator[T]:
    for task in tasks:
        if task is None:
            time.sleep(_PAUSE)
            continue
        result = function(task)
        with uninterrupted():
            record(task, result)
        yield task


def _take(tasks: Iterator[T | None], most: int) -> tuple[list[T], bool]:
    """Return the tasks that are free now, and whether there may be more."""
    found: list[T] = []
    while len(found) < most:
        try:
            task = next(tasks)
        except StopIteration:
            return found, False
        if task is None:
            break
        found.append(task)
    return found, True


# --- local processes --------------------------------------------------------------------------------------------------


def _in_processes(
    function: Callable[[T], R], tasks: Iterator[T | None], record: Callable[[T, R | Exception], None], workers: int
) -> Iterator[T]:
    pool = _Pool(function, record)
    more = True
    try:
        while True:
            if more:
                found, more = _take(tasks, workers - len(pool.busy) - len(pool.again))
                pool.again += [(task, 0) for task in found]
            pool.start_tasks()
            if not pool.busy:
                if not more:
                    return
                time.sleep(_PAUSE)
                continue
            # With a worker that is free, tasks of other processes may become free before the next result.
            patience = _PAUSE if more and len(pool.busy) < workers else None
            for worker in pool.finished(patience):
                yield from pool.collect(worker)
    finally:
        with uninterrupted():
            pool.end()


class _Worker(Generic[T]):
    """A process that computes one task at a time.

    Attributes:
        tasks: the task in progress, with the number of workers that died in it; empty if there is none.
    """

    def __init__(self, function: Callable[[T], Any]) -> None:
        context = get_context("spawn")
        self.tasks: list[tuple[T, int]] = []
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, function, os.getpid()), daemon=True)
        with _single_threads(), _interrupts_blocked():
            self.process.start()
        theirs.close()


class _Pool(Generic[T]):
    """Local processes.

    Attributes:
        workers: all of them.
        again: tasks to start, with the number of workers that died in them.
    """

    def __init__(self, function: Callable[[T], R], record: Callable[[T, R | Exception], None]) -> None:
        self._function, self._record = function, record
        self.workers: list[_Worker[T]] = []
        self.again: list[tuple[T, int]] = []

    @property
    def busy(self) -> list[_Worker[T]]:
        """Workers with a task."""
        return [worker for worker in self.workers if worker.tasks]

    def start_tasks(self) -> None:
        """Send each task to a worker of its own."""
        while self.again:
            # A process whose start is interrupted would be in no list.
            with uninterrupted():
                entry = self.again.pop()
                try:
                    worker = next((one for one in self.workers if not one.tasks), None)
                    if worker is None:
                        worker = _Worker(self._function)
                        self.workers.append(worker)
                    worker.tasks.append(entry)
                    # A worker that has died is found when its result is collected.
                    with contextlib.suppress(OSError):
                        worker.connection.send(entry[0])
                except _UNSENT as error:
                    text = "name the function as FILE.py:FUNCTION, or use one worker"
                    raise IncompatibleError(f"a task cannot be sent to another process ({error}): {text}") from error

    def finished(self, patience: float | None) -> list[_Worker[T]]:
        """Return the workers that have a result or have died, after at most some seconds."""
        busy = {worker.connection: worker for worker in self.busy}
        return [busy[connection] for connection in wait(list(busy), patience)]  # type: ignore[index]

    def collect(self, worker: _Worker[T]) -> list[T]:
        """Record the result of a worker and return its task. If it has died, its task will be tried again."""
        with uninterrupted():
            task, deaths = worker.tasks.pop()
            try:
                good, result = worker.connection.recv()
            except (EOFError, OSError):
                self.workers.remove(worker)
                worker.process.join()
                if deaths + 1 < _ATTEMPTS:
                    self.again.append((task, deaths + 1))
                    return []
                code = worker.process.exitcode
                good, result = True, ChildProcessError(f"{_ATTEMPTS} workers died in it, the last with code {code}")
            if not good:
                error, text = result
                raise error from RuntimeError(f"in a worker:\n{text}")
            self._record(task, result)
        return [task]

    def end(self) -> None:
        """Record what is finished and end all processes. An error in one step is raised after the others."""
        with contextlib.ExitStack() as steps:
            steps.callback(self._end_processes)
            for worker in self.finished(0):
                steps.callback(self.collect, worker)

    def _end_processes(self) -> None:
        interrupted = bool(self.busy)
        for worker in self.workers:
            worker.process.terminate()
        deadline = time.monotonic() + _GRACE
        for worker in self.workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            worker.process.kill()
            worker.process.join()
        if interrupted:
            drop_recent_programs()


def _work(connection: Connection, function: Callable[[Any], Any], parent: int) -> None:
    """Compute tasks until the other end of the connection is closed."""
    # Where no mask of signals is inherited.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _watch_parent(parent)
    # The connection breaks when the process that started this one has ended.
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = connection.recv_bytes()
            try:
                outcome = True, function(pickle.loads(task))
            except Exception as error:
                outcome = False, (_portable(error), traceback.format_exc())
            connection.send(outcome)


def _portable(error: Exception) -> Exception:
    """Return the error, or one with its text if another process cannot read it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        # Classes of a file that only the worker runs, and constructors with arguments of their own.
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _watch_parent(parent: int) -> None:
    """End a worker when the process that started it has ended; otherwise it would compute its task to the end."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in processes that are started in this context, which inherit the mask of signals of this thread.

    Ctrl-C on a terminal reaches all processes. Workers are ended by the process that started them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # It would be started together with the first worker, and unblocks Ctrl-C.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _single_threads() -> Iterator[None]:
    """Give processes that are started in this context one thread each, unless the user has set another number."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update({name: value or "1" for name, value in before.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]


# --- dask -------------------------------------------------------------------------------------------------------------


def _on_scheduler(
    function: Callable[[T], R], tasks: Iterator[T | None], record: Callable[[T, R | Exception], None], address: str
) -> Iterator[T]:
    try:
        import distributed
    except ImportError:
        raise IncompatibleError("a scheduler needs dask: pip install 'glassformer[cluster]'") from None
    # A client that cannot connect keeps trying in threads of its own: the address is tried without a client first.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _require_scheduler(address)).result()
    connected: Any = distributed.Client
    try:
        with _without_log("distributed.client"), connected(address, timeout=_PATIENCE, set_as_default=False) as client:
            yield from _from_client(client, distributed.wait, function, tasks, record)
    # Older versions have no class for the error of a closed client.
    except (CancelledError, OSError, getattr(distributed.client, "ClosedClientError", CancelledError)) as error:
        remedy = "the connection was lost; finished points are kept: run the same command again"
        raise ParameterError("scheduler", address, "a dask scheduler that keeps running", remedy) from error


def _from_client(
    client: Any,
    finished: Any,
    function: Callable[[T], R],
    tasks: Iterator[T | None],
    record: Callable[[T, R | Exception], None],
) -> Iterator[T]:
    """Compute on the workers of a client of dask, which raises errors of its own when the connection is lost."""
    futures: dict[Any, T] = {}
    more = True

    def collect(future: Any, patience: float | None = None) -> T:
        # A scheduler that no longer answers must not block interrupts. After one, the result is fetched again below.
        lost = future.exception(timeout=patience)
        result = future.result(timeout=patience) if lost is None else lost
        with uninterrupted():
            task = futures.pop(future)
            record(task, result)
        return task

    try:
        while True:
            free = max(0, _AHEAD * max(1, sum(client.nthreads().values())) - len(futures))
            found, more = _take(tasks, free) if more else ([], False)
            futures |= {client.submit(function, task, pure=False): task for task in found}
            if not futures:
                if not more:
                    return
                time.sleep(_PAUSE)
                continue
            waiting = more and len(found) < free
            with client.as_current(), contextlib.suppress(TimeoutError):
                finished(list(futures), timeout=_PAUSE if waiting else None, return_when="FIRST_COMPLETED")
            for future in [future for future in futures if future.done()]:
                yield collect(future)
    finally:
        with uninterrupted(), contextlib.suppress(TimeoutError):
            for future in [future for future in futures if future.status == "finished"]:
                collect(future, _PATIENCE)


@contextlib.contextmanager
def _without_log(name: str) -> Iterator[None]:
    """Silence a logger whose messages are also raised as errors."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _require_scheduler(address: str) -> None:
    """Raise unless a scheduler answers at the address in time."""
    try:
        kind = await asyncio.wait_for(_kind_of_server(address), _PATIENCE)
        reason = "" if kind == "Scheduler" else f"a {kind} answers there"
    except Exception as error:
        # Every transport has errors of its own for an address that cannot be read or reached.
        reason = f"nothing answers there in {_PATIENCE} s ({type(error).__name__}: {error})"
    if reason:
        raise ParameterError("scheduler", address, "the address of a running dask scheduler", reason)


async def _kind_of_server(address: str) -> str:
    from distributed.comm.core import connect
    from distributed.core import send_recv

    channel: Any = await connect(address, timeout=_PATIENCE)  # type: ignore[no-untyped-call]
    found = await send_recv(channel, op="identity")
    channel.abort()
    return str(found["type"])
