"""Limits and thresholds of deep attention in a warm process, side by side with another version of this package.

    python benchmarks/bench_attention.py [--beside FOLDER] [--ratios 4]

Processor seconds. ``FOLDER`` holds the other version's ``glassformer`` (``git worktree add FOLDER COMMIT`` and its
``src``); each version runs in a process of its own, one after the other, and the ratio of their times is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

_OWN = Path(__file__).parents[1] / "src"


def measured(ratios: int) -> dict[str, float]:
    """Processor seconds of the second of two calls; of one ratio, which is for seeing that it runs, of few points."""
    from glassformer import Accuracy, DeepAttention, limits, thresholds

    accuracy = Accuracy(points=64) if ratios == 1 else None
    alpha = np.linspace(0.5, 2.0, ratios)
    tasks: dict[str, Callable[[], object]] = {
        "thresholds": lambda: thresholds(DeepAttention(), accuracy=accuracy),
        "limits, per ratio": lambda: limits(DeepAttention(), alpha, throw=False, accuracy=accuracy),
    }
    found = {}
    for name, task in tasks.items():
        task()
        start = time.process_time()
        task()
        found[name] = time.process_time() - start
    found["limits, per ratio"] /= ratios
    return found


def in_version(source: Path, ratios: int) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, __file__, "--measure", "--ratios", str(ratios)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {name: float(value) for name, value in json.loads(result.stdout.splitlines()[-1]).items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--beside", type=Path, metavar="FOLDER")
    parser.add_argument("--ratios", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    parser.add_argument("--measure", action="store_true", help="print the seconds of this process as JSON")
    options = parser.parse_args()
    if options.quick:
        options.ratios = 1
    if options.measure:
        print(json.dumps(measured(options.ratios)))
        return
    ours = in_version(_OWN, options.ratios)
    theirs = in_version(options.beside, options.ratios) if options.beside else {}
    for name, seconds in ours.items():
        beside = f", before {theirs[name]:.2f} s: {theirs[name] / seconds:.1f} times" if theirs else ""
        print(f"{name}: {seconds:.2f} s{beside}")


if __name__ == "__main__":
    main()
