"""What a sweep costs beside the bare computation, and what a second worker brings.

python benchmarks/bench_sweeps.py [--quick]
"""

from __future__ import annotations

import sys
import tempfile
import time

import numpy as np
from threadpoolctl import threadpool_limits

from glassformer import BilinearSequenceRegression, Sweep, limits

WIDTHS = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6]
QUICK = "--quick" in sys.argv
RATIOS = np.linspace(0.01, 1, 10 if QUICK else 1000)
REPEATS = 1 if QUICK else 3


def bare() -> float:
    start = time.perf_counter()
    for rho in WIDTHS:
        limits(BilinearSequenceRegression(beta=1, rho=rho), RATIOS, throw=False)
    return time.perf_counter() - start


def swept() -> float:
    sweep = Sweep("bsr", {"rho": WIDTHS, "alpha": RATIOS.tolist()}, parameters={"beta": 1})
    start = time.perf_counter()
    found = sweep.run(tempfile.mkdtemp())
    assert found.computed == len(WIDTHS) * len(RATIOS)
    return time.perf_counter() - start


def simulated(workers: int) -> float:
    sweep = Sweep(
        "bsr",
        {"rho": [0.2, 0.4], "alpha": [0.3, 0.5, 0.7]},
        verb="simulate",
        parameters={"beta": 1, "noise": 0.1},
        runs={"d": 10, "instances": 2} if QUICK else {"d": 70, "instances": 16},
    )
    start = time.perf_counter()
    sweep.run(tempfile.mkdtemp(), workers)
    return time.perf_counter() - start


def main() -> None:
    bare()
    pairs = [(bare(), swept()) for _ in range(REPEATS)]
    plain, whole = np.median(pairs, axis=0)
    points = f"{len(WIDTHS) * len(RATIOS):,} points of theory"
    print(f"{points}: bare {plain:.2f} s, as a sweep {whole:.2f} s, ratio {whole / plain:.2f} (target 1.5)")
    # One thread per process on both sides.
    with threadpool_limits(1):
        one, two = simulated(1), simulated(2)
    runs = f"{12 if QUICK else 96} simulations"
    print(f"{runs}: one worker {one:.1f} s, two {two:.1f} s, ratio {one / two:.2f} (target 1.7)")


if __name__ == "__main__":
    main()
