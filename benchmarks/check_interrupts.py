"""Interrupts at random times: none is lost, none ends in a traceback, and sweeps keep every finished point.

    python benchmarks/check_interrupts.py [commands | sweeps] [--count 20] [--quick]

A command has to end within ten seconds with exit code 130. Two interrupts in three are repeated, as by an impatient
user. Points of a sweep count as finished when their computation returned before the interrupt.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LINK = "import jax.numpy as jnp\n\ndef sign(z):\n    return jnp.sign(z[0, 0])\n"
MODEL = ("smi", "--link", "links.py:sign", "--indices", "1", "--alpha", "2")
COMMANDS = {
    "trajectory sgd": ("trajectory", *MODEL, "--learner", "sgd", "--loss", "logistic", "--steps", "30"),
    "limits risk": ("limits", *MODEL, "--learner", "risk", "--loss", "logistic"),
}
SWEEP = """
[sweep]
model = "bsr"
verb = "simulate"
[parameters]
beta = 1
noise = 1
[grid]
rho = "0.1:0.9:9"
alpha = "0.1:0.9:9"
[runs]
d = 12
instances = 4
"""
# What starts a command: from its first line on it is interrupted.
START = f"""
import sys
from pathlib import Path
Path("running").touch()
from glassformer import cli
def logging(arguments=None, main=cli._main):
    if sys.argv[1] == "sweep":
        sys.path.append({str(Path(__file__).parent)!r})
        from check_interrupts import log_tasks
        log_tasks()
    return main(arguments)
cli._main = logging
raise SystemExit(cli.main())
"""
# Seconds that an interrupted command may take to end.
ALLOWED = 10.0


class Outcome(NamedTuple):
    """What one interrupt did: when it was sent, the exit code, seconds to the end, and what was printed."""

    sent: float
    code: int
    seconds: float
    errors: str

    @property
    def good(self) -> bool:
        """Whether the command ended in time, without a traceback."""
        return self.code == 130 and self.seconds < ALLOWED and "Traceback" not in self.errors


def interrupted(
    words: list[str], folder: Path, when: Callable[[], bool], after: float, times: int = 1
) -> Outcome | None:
    """Start a command, wait until it runs and for a condition and some seconds more, and interrupt its processes.

    All processes of its group are interrupted, as on a terminal. Returns None if the command ended before.
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "GLASSFORMER_CACHE": "off"}
    (folder / "running").unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words], cwd=folder, env=environment, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    while process.poll() is None and not ((folder / "running").exists() and when()):
        time.sleep(0.01)
    try:
        process.communicate(timeout=after)
        return None
    except subprocess.TimeoutExpired:
        pass
    sent = time.time()
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.02)
    try:
        _, errors = process.communicate(timeout=3 * ALLOWED)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    return Outcome(sent, process.returncode, time.time() - sent, errors)


def duration(words: list[str], folder: Path) -> float:
    """Return the seconds of the whole command."""
    start = time.monotonic()
    assert interrupted(words, folder, lambda: True, 600.0) is None
    return time.monotonic() - start


def logged(task: Any, checkpoint: str | None = None) -> Any:
    """Compute a task of a sweep, and leave a file when it is finished."""
    from glassformer.sweeps import compute

    found = compute._records(task, checkpoint)
    Path("finished", task.name).touch()
    return found


def log_tasks() -> None:
    """Make this process give workers tasks that leave a file; called by the command once it imports sweeps."""
    from glassformer.sweeps import run

    run.compute_task = logged


def has_files(folder: Path, count: int) -> bool:
    """Return whether a folder has so many files."""
    return len(list(folder.iterdir())) >= count


def lost_points(folder: Path, sent: float) -> int:
    """Return the number of points that were finished before the interrupt and have no record."""
    finished = {path.name for path in (folder / "finished").iterdir() if path.stat().st_mtime < sent - 0.01}
    return len(finished - {path.stem for path in (folder / "store").glob("points/*.jsonl")})


def report(name: str, outcomes: list[Outcome], lost: str = "") -> bool:
    """Print a row of the table and return whether all is good."""
    bad = sum(outcome.code != 130 for outcome in outcomes)
    traces = sum("Traceback" in outcome.errors for outcome in outcomes)
    times = [outcome.seconds for outcome in outcomes] or [np.nan]
    columns = f"{len(outcomes):10d}{bad:14d}{traces:11d}{np.median(times):8.2f}{max(times):9.2f}"
    print(f"{name:18s}{columns}  {lost}", flush=True)
    return all(outcome.good for outcome in outcomes)


def check_commands(count: int, folder: Path) -> bool:
    """Interrupt commands anywhere between their first import and their end."""
    (folder / "links.py").write_text(LINK)
    good = True
    for name, words in COMMANDS.items():
        random = np.random.default_rng(0)
        moments = random.uniform(0.0, 0.9 * duration([*words], folder), count)
        found = [
            interrupted([*words], folder, lambda: True, moment, 1 + 2 * (k % 3 > 0)) for k, moment in enumerate(moments)
        ]
        good &= report(name, [outcome for outcome in found if outcome is not None])
    return good


def check_sweeps(count: int, most: int) -> bool:
    """Interrupt sweeps while workers start and while they compute."""
    good = True
    for workers in range(1, most + 1):
        outcomes, lost, stored = [], 0, 0
        for k in range(count):
            random = np.random.default_rng((workers, k))
            with tempfile.TemporaryDirectory() as place:
                folder, needed = Path(place), int(random.integers(0, 40)) if k % 2 else 0
                (folder / "sweep.toml").write_text(SWEEP)
                (folder / "finished").mkdir()
                words = ["sweep", "run", "sweep.toml", "--store", "store", "--workers", str(workers)]
                ready = partial(has_files, folder / "finished", needed)
                # Without finished points: while the processes start.
                outcome = interrupted(
                    words, folder, ready, random.uniform(0.0, 0.2 if needed else 8.0), 1 + 2 * (k % 3)
                )
                if outcome is not None:
                    outcomes.append(outcome)
                    lost += lost_points(folder, outcome.sent)
                    stored += len(list((folder / "store").glob("points/*.jsonl")))
        good &= report(f"sweep, {workers} workers", outcomes, f"{lost} finished points lost, {stored} stored")
        good &= lost == 0
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("commands", "sweeps"))
    parser.add_argument("--count", type=int, default=20, help="interrupts of each command")
    parser.add_argument("--quick", action="store_true", help="one interrupt of each command")
    options = parser.parse_args()
    count, good = 1 if options.quick else options.count, True
    print(f"{'':18s}interrupts  not code 130  traceback  median  longest seconds to the end")
    if options.what != "sweeps":
        with tempfile.TemporaryDirectory() as place:
            good &= check_commands(count, Path(place))
    if options.what != "commands":
        good &= check_sweeps(count, 2 if options.quick else 3)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
