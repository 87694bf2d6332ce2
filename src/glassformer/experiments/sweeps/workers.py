"""Workers that compute tasks: this process, local processes, or the machines of a dask scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from typing import Any, TypeVar

from glassformer.core.checks import is_whole
from glassformer.core.errors import IncompatibleError, ParameterError

T = TypeVar("T")
R = TypeVar("R")

# Number of workers that may die in one task before it is given up (a convention).
_ATTEMPTS = 3
# Most processes on one machine (a convention).
_MOST_WORKERS = 4096
# Tasks submitted per worker, so that no worker waits for the next task.
_AHEAD = 2
# Variables that limit threads: with as many workers as cores, one thread per worker is fastest.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Errors of pickling an object for another process.
_UNSENT = (AttributeError, TypeError, PicklingError)
# Seconds that a scheduler has to answer.
_PATIENCE = 5

Outcome = tuple[T, "R | Exception"]


def compute_tasks(
    function: Callable[[T], R], tasks: Iterable[T], workers: int = 1, scheduler: str | None = None
) -> Iterator[Outcome[T, R]]:
    """Yield ``(task, function(task))`` when they are done; an exception in place of a result if a worker died.

    Tasks are taken from the iterator a few ahead of the workers.

    Args:
        function: called with each task; importable by the workers.
        tasks: the tasks.
        workers: local processes; 1 computes in this process.
        scheduler: address of a dask scheduler, in place of local processes.

    Raises:
        ParameterError: ``workers`` is out of range, or there is no such scheduler, or it ends before the tasks do.
        IncompatibleError: dask is needed and not installed, or a task cannot be sent to another process.

    Example:
        >>> list(compute_tasks(abs, [-1, 2]))
        [(-1, 1), (2, 2)]
    """
    if not is_whole(workers, 1) or workers > _MOST_WORKERS:
        raise ParameterError("workers", workers, f"an integer from 1 to {_MOST_WORKERS}")
    if scheduler is not None:
        yield from _on_scheduler(function, iter(tasks), scheduler)
    elif workers == 1:
        yield from ((task, function(task)) for task in tasks)
    else:
        yield from _in_processes(function, iter(tasks), workers)


def _in_processes(function: Callable[[T], R], tasks: Iterator[T], workers: int) -> Iterator[Outcome[T, R]]:
    again: list[tuple[T, int]] = []
    source = ((task, 0) for task in tasks)
    exhausted = False
    while not exhausted or again:
        # A pool with a dead worker stops: unfinished tasks begin again in a new pool.
        with (
            _single_threads(),
            ProcessPoolExecutor(workers, get_context("spawn"), _watch_parent, (os.getpid(),)) as pool,
        ):
            futures: dict[Future[R], tuple[T, int]] = {}
            broken = False
            while not broken:
                free = _AHEAD * workers - len(futures)
                retried = (again.pop() for _ in range(len(again)))
                for task, lost in islice(chain(retried, source), free):
                    try:
                        futures[pool.submit(function, task)] = (task, lost)
                    except BrokenProcessPool:
                        # A worker died after the last result.
                        again.append((task, lost))
                        broken = True
                        break
                if not futures:
                    exhausted = not broken
                    break
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    task, lost = futures.pop(future)
                    result = _result(future, task)
                    broken |= isinstance(result, BrokenProcessPool)
                    if isinstance(result, BrokenProcessPool) and lost + 1 < _ATTEMPTS:
                        again.append((task, lost + 1))
                    else:
                        yield task, result
            again.extend(futures.values())


def _watch_parent(parent: int) -> None:
    """End a worker when the process that started it has ended; otherwise it would wait forever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _result(future: Future[R], task: Any) -> R | Exception:
    try:
        return future.result()
    except BrokenProcessPool as error:
        return error
    except _UNSENT as error:
        # Errors of pickling differ between versions of Python, and may come from the function: the task is tried alone.
        try:
            ForkingPickler.dumps(task)
        except _UNSENT:
            text = "name the function as FILE.py:FUNCTION, or use one worker"
            raise IncompatibleError(f"a task cannot be sent to another process ({error}): {text}") from error
        raise


def _on_scheduler(function: Callable[[T], R], tasks: Iterator[T], address: str) -> Iterator[Outcome[T, R]]:
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
            yield from _from_client(client, distributed.wait, function, tasks)
    # Older versions have no class for the error of a closed client.
    except (CancelledError, OSError, getattr(distributed.client, "ClosedClientError", CancelledError)) as error:
        remedy = "the connection was lost; finished points are kept: run the same command again"
        raise ParameterError("scheduler", address, "a dask scheduler that keeps running", remedy) from error


def _from_client(client: Any, finished: Any, function: Callable[[T], R], tasks: Iterator[T]) -> Iterator[Outcome[T, R]]:
    """Compute on the workers of a client of dask, which raises errors of its own when the connection is lost."""
    futures: dict[Any, T] = {}
    while True:
        free = max(0, _AHEAD * max(1, sum(client.nthreads().values())) - len(futures))
        futures |= {client.submit(function, task, pure=False): task for task in islice(tasks, free)}
        if not futures:
            return
        with client.as_current():
            done = finished(list(futures), return_when="FIRST_COMPLETED").done
        for future in done:
            lost = future.exception()
            yield futures.pop(future), future.result() if lost is None else lost


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
