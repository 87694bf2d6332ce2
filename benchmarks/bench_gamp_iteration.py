"""One GAMP iteration against the two matrix-vector products with X in it: time, and peak memory against the size of X.

Time: processor time, in blocks of products and of runs of two lengths that take turns, so that a machine that slows
down slows both. An iteration is what one more of them takes; what a run takes beside them, most of it the check of its
inputs, is reported in iterations. A block gives one ratio; medians over the blocks are reported. Drawing the data is
not timed. A separate run with timers around its parts tells where the time goes. Memory: one fresh process per storage
draws X, runs GAMP and reports its peak resident memory less what it held before X existed (Linux only: VmHWM and VmRSS
of /proc/self/status).

Threads of a BLAS that spin while they wait make the small SVD up to a hundred times slower where another process takes
one of their cores. On a machine that is not idle, set OPENBLAS_NUM_THREADS=1; the value is printed.

    python benchmarks/bench_gamp_iteration.py [--samples 5000] [--d 100] [--iterations 20] [--repeats 9]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from glassformer import Accuracy, BilinearSequenceRegression, MessagePassing
from glassformer.channels import GaussianChannel
from glassformer.designs import DenseDesign
from glassformer.laws import RectangularLaw
from glassformer.learners.gamp import gamp
from glassformer.priors import matrix_denoiser

TARGET_TIME, TARGET_MEMORY = {"float64": 1.2, "float32": 1.4}, 1.25
STORAGES, NOISES = ("float64", "float32"), (0.1, 0.0)
RHO = 0.5
# What is timed inside an iteration: owner of the function, its name, and the line of the breakdown it belongs to.
PARTS: tuple[tuple[Any, str, str], ...] = (
    (DenseDesign, "forward", "products with X"),
    (DenseDesign, "adjoint", "products with X"),
    (matrix_denoiser, "svd_by_squares", "singular value decomposition"),
    (RectangularLaw, "shrinkage", "shrinkage"),
    (RectangularLaw, "mmse", "mmse"),
    (matrix_denoiser, "rectangular_divergence", "divergence"),
    (GaussianChannel, "score", "channel"),
    (GaussianChannel, "curvature", "channel"),
)


class Problem(NamedTuple):
    """Data and what to do with them."""

    model: BilinearSequenceRegression
    design: DenseDesign
    labels: np.ndarray
    settings: MessagePassing

    def run(self, iterations: int | None = None) -> None:
        limit = None if iterations is None else Accuracy(max_iterations=iterations)
        settings = self.settings.at_accuracy(limit)
        solution = gamp(self.model, self.design, self.labels, settings)
        if solution.iterations[0] != settings.accurate("max_iterations"):
            raise SystemExit(f"the run ended after {solution.iterations[0]} iterations: take fewer")


def draw(
    samples: int, d: int, noise: float, storage: str, iterations: int, design: DenseDesign | None = None
) -> Problem:
    rng = np.random.default_rng(0)
    model = BilinearSequenceRegression(beta=1, rho=RHO, noise=noise)
    signal = model.prior.sample((d, d), rng)
    design = design or DenseDesign.sample(samples, (d, d), rng, storage)
    labels = model.channel.sample(design.forward(signal, 0), rng)
    return Problem(
        model,
        design,
        labels,
        MessagePassing(floor=1e-300).at_accuracy(Accuracy(max_iterations=iterations, tolerance=1e-300)),
    )


def timed(function: Callable[[], object]) -> float:
    """Seconds of processor time."""
    start = time.process_time()
    function()
    return time.process_time() - start


class Times(NamedTuple):
    """Seconds per iteration, of the two products, and of what a run takes beside its iterations, in each block."""

    iteration: np.ndarray
    products: np.ndarray
    beside: np.ndarray

    @property
    def ratio(self) -> np.ndarray:
        return self.iteration / self.products


def measure(problems: list[Problem], repeats: int) -> list[Times]:
    """The problems take turns too."""

    def products(problem: Problem) -> float:
        matrix = problem.design.inputs.reshape(problem.design.samples, -1)
        signal, score = np.ones(matrix.shape[1], matrix.dtype), np.ones(matrix.shape[0], matrix.dtype)
        pairs = [
            timed(lambda: (matrix @ signal, score @ matrix)) for _ in range(problem.settings.accurate("max_iterations"))
        ]
        return sum(pairs) / len(pairs)

    seconds = np.empty((3, len(problems), repeats + 1))
    for repeat in range(repeats + 1):
        for k, problem in enumerate(problems):
            before = products(problem)
            steps = problem.settings.accurate("max_iterations")
            short, whole = timed(lambda problem=problem: problem.run(2)), timed(problem.run)
            iteration = (whole - short) / (steps - 2)
            seconds[:, k, repeat] = iteration, 0.5 * (before + products(problem)), whole - steps * iteration
    # The first block is the warm-up.
    return [Times(*seconds[:, k, 1:]) for k in range(len(problems))]


def breakdown(problem: Problem, repeats: int) -> dict[str, float]:
    """Seconds per iteration of each part, the median over runs with timers around the parts."""
    runs: dict[str, list[float]] = defaultdict(list)
    for _ in range(repeats):
        spent: dict[str, float] = defaultdict(float)
        with ExitStack() as stack:
            for owner, name, label in PARTS:
                stack.enter_context(patch.object(owner, name, _with_timer(getattr(owner, name), label, spent)))
            total = timed(problem.run)
        spent["everything else"] = total - sum(spent.values())
        for label, seconds in spent.items():
            runs[label].append(seconds / problem.settings.accurate("max_iterations"))
    return {label: float(np.median(seconds)) for label, seconds in runs.items()}


def _with_timer(function: Callable[..., Any], label: str, spent: dict[str, float]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[label] += time.process_time() - start

    return wrapper


def resident(field: str) -> int:
    """``VmRSS`` (resident memory now) or ``VmHWM`` (its peak), in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def peak_memory(samples: int, d: int, storage: str) -> None:
    """The child process: prints the bytes above the baseline at the peak, and those of X."""
    # A run on little data first: what NumPy and its thread pool hold once and for all is no part of the question.
    draw(4, d, 0.1, storage, 2).run()
    before = resident("VmRSS")
    problem = draw(samples, d, 0.1, storage, 5)
    problem.run()
    print(resident("VmHWM") - before, problem.design.inputs.nbytes)


def report_memory(samples: int, d: int) -> None:
    peaks = {}
    print(f"\npeak memory of drawing X and running GAMP, over the size of X (target <= {TARGET_MEMORY})")
    for storage in STORAGES:
        command = [sys.executable, __file__, "--memory", storage, "--samples", str(samples), "--d", str(d)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        peaks[storage], size = (int(number) for number in answer)
        print(f"{storage:>9}   X {size / 1e6:8.1f} MB   peak {peaks[storage] / 1e6:8.1f} MB", end="")
        print(f"   ratio {peaks[storage] / size:6.3f}")
    print(f"float32 / float64: {peaks['float32'] / peaks['float64']:.3f}")


def report_time(samples: int, d: int, iterations: int, repeats: int) -> None:
    designs = {storage: draw(samples, d, 0.0, storage, 1).design for storage in STORAGES}
    cases = [(storage, noise) for storage in STORAGES for noise in NOISES]
    problems = [draw(samples, d, noise, storage, iterations, designs[storage]) for storage, noise in cases]
    times = dict(zip(cases, measure(problems, repeats), strict=True))
    print(f"\ntime, medians over {repeats} blocks of {iterations} iterations (targets of the ratio {TARGET_TIME})")
    print("  storage  noise   iteration    two products   ratio   (quartiles)      best / best   beside, in iterations")
    for (storage, noise), case in times.items():
        low, middle, high = np.quantile(case.ratio, (0.25, 0.5, 0.75))
        print(f"{storage:>9} {noise:6.1f} {1e3 * np.median(case.iteration):8.2f} ms", end="")
        print(f" {1e3 * np.median(case.products):12.2f} ms {middle:7.3f}   ({low:.3f} to {high:.3f})", end="")
        print(f" {case.iteration.min() / case.products.min():11.3f} {np.median(case.beside / case.iteration):15.1f}")
    for noise in NOISES:
        single, double = times["float32", noise], times["float64", noise]
        iteration, products, _ = (np.median(a / b) for a, b in zip(single, double, strict=True))
        print(f"float32 / float64 at noise {noise}: iteration {iteration:.3f}, products {products:.3f}")
    parts = {case: breakdown(problem, repeats) for case, problem in zip(cases, problems, strict=True)}
    print("\nwhere the time of an iteration goes, ms")
    print(f"{'':30}" + "".join(f"{storage:>9} {noise:3.1f}" for storage, noise in cases))
    for label in parts[cases[0]]:
        print(f"{label:30}" + "".join(f"{1e3 * parts[case][label]:13.2f}" for case in cases))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=5000, help="n")
    parser.add_argument("--d", type=int, default=100, help="d = L")
    parser.add_argument("--iterations", type=int, default=20, help="iterations per run")
    parser.add_argument("--repeats", type=int, default=9, help="blocks over which medians are taken")
    parser.add_argument("--quick", action="store_true", help="few samples of a small size, to see that it runs")
    parser.add_argument("--memory", choices=STORAGES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.samples, args.d, args.iterations, args.repeats = 300, 20, 4, 1
    if args.memory:
        peak_memory(args.samples, args.d, args.memory)
        return
    print(f"GAMP iteration at n = {args.samples}, dL = {args.d**2}, rho = {RHO}")
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "unset")
    print(f"{os.cpu_count()} cores, OPENBLAS_NUM_THREADS {threads}, load average {os.getloadavg()[0]:.1f}")
    report_memory(args.samples, args.d)
    report_time(args.samples, args.d, args.iterations, args.repeats)


if __name__ == "__main__":
    main()
