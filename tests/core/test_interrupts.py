"""Ctrl-C takes effect, wherever it arrives; its statistics are those of benchmarks/check_interrupts.py."""

import argparse
import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from unittest.mock import MagicMock, Mock

import pytest

from glassformer.cli import main
from glassformer.core.interrupts import lasting_interrupts, uninterrupted
from glassformer.sweeps import workers
from glassformer.sweeps.workers import compute_tasks


@pytest.fixture(autouse=True)
def usual_handler():
    """Event loops of other tests may have left a handler of theirs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_in_a_callback_of_the_garbage_collector_is_not_lost():
    def callback(phase, info):
        gc.callbacks.remove(callback)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), lasting_interrupts():
        gc.callbacks.append(callback)
        gc.collect()
        time.sleep(5)


def test_an_interrupt_waits_for_the_end_of_a_step():
    done = []
    with pytest.raises(KeyboardInterrupt):
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("first")
        done.append("second")
    assert done == ["first"]


def test_ignored_interrupts_stay_ignored(monkeypatch):
    """Shells ignore them in background jobs. A handler of a moment would let the watcher end the process."""
    seen = []

    def handlers():
        seen.append(signal.getsignal(signal.SIGINT))
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        seen.append(wakeup)

    monkeypatch.setattr(sys, "argv", ["glassformer"])
    monkeypatch.setattr("glassformer.cli.parser.parser_for", lambda words: handlers() or argparse.ArgumentParser())
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            handlers()
        assert main() == 2
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == 2 * [signal.SIG_IGN, -1]


STUBBORN = """
from glassformer.core import interrupts
interrupts._PATIENCE = 0.2
interrupts.end_when_interrupted(130)
import signal, time
signal.signal(signal.SIGINT, lambda *arguments: None)
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def test_a_process_that_does_not_react_ends_nevertheless():
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == b"glassformer: interrupted\n"
    assert process.returncode == 130


def test_finished_results_are_recorded_after_an_error_and_workers_end():
    """The second result is finished when the record of the first one fails."""
    found = {}

    def record(task, result):
        if not found:
            found[task] = result
            time.sleep(1.0)
            raise OSError("full")
        found[task] = result

    started = time.monotonic()
    with pytest.raises(OSError, match="full"):
        list(compute_tasks(abs, [-1, -2], record, workers=2))
    assert found == {-1: 1, -2: 2}
    assert time.monotonic() - started < 60


def test_an_error_of_a_worker_is_the_error_of_the_task(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing") as caught:
        list(compute_tasks(os.listdir, [str(tmp_path / "missing")], {}.__setitem__, workers=2))
    assert "in _work" in str(caught.value.__cause__)

    class LocalError(Exception):
        pass

    assert str(workers._portable(LocalError("here"))) == "LocalError: here"


def test_results_beside_failed_workers_are_recorded():
    found = {}
    pool = workers._Pool(abs, found.__setitem__)
    outcomes = [(False, (OSError("full"), "")), (True, 2), (False, (OSError("full"), "")), (True, 4)]
    for task, outcome in enumerate(outcomes, 1):
        connection, theirs = Pipe()
        theirs.send(outcome)
        pool.workers.append(Mock(connection=connection, tasks=[(task, 0)]))
    with pytest.raises(OSError, match="full"):
        pool.end()
    assert found == {2: 2, 4: 4}
    assert all(worker.process.terminate.called for worker in pool.workers)


@pytest.mark.parametrize("answers", [False, True])
def test_results_of_a_silent_scheduler_are_not_waited_for(answers):
    """They are fetched where Ctrl-C takes effect, and for a limited time at the end."""
    handlers = []

    def result(timeout=None):
        handlers.append((signal.getsignal(signal.SIGINT), timeout))
        if timeout is None and not answers:
            raise KeyboardInterrupt
        if timeout:
            raise TimeoutError
        return 1

    future = Mock(status="finished", result=result, **{"exception.return_value": None})
    client = MagicMock(**{"submit.return_value": future, "nthreads.return_value": {"worker": 1}})
    found, before = {}, signal.getsignal(signal.SIGINT)
    with contextlib.nullcontext() if answers else pytest.raises(KeyboardInterrupt):
        assert list(workers._from_client(client, Mock(), abs, iter([-1]), found.__setitem__)) == [-1]
    assert found == ({-1: 1} if answers else {})
    assert handlers[0] == (before, None)
    assert [timeout for _, timeout in handlers[1:]] == ([] if answers else [workers._PATIENCE])


def test_results_do_not_wait_for_tasks_of_other_processes():
    """Two processes that waited for each other's locks, with results of their own in hand, would never end."""
    found = {}

    def tasks():
        yield -1
        while not found:
            yield None
        yield -2

    assert list(compute_tasks(abs, tasks(), found.__setitem__, workers=2)) == [-1, -2]
    assert found == {-1: 1, -2: 2}
