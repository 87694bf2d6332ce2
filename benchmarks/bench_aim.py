"""Attention-indexed models: curves, one AMP iteration against its two matrix products, and a size beyond n d^2 numbers.

python benchmarks/bench_aim.py [--large]    (--large: d = 1000, T = 2, alpha = 0.3: 300,000 samples, some minutes)
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from glassformer import Accuracy, AttentionIndexed, MessagePassing, limits, simulate
from glassformer.designs.quadratic import QuadraticDesign
from glassformer.learners.gamp import gamp

TARGET_CURVE, TARGET_RATIO, TARGET_GIGABYTES = 1.0, 1.3, 16.0


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def curves(points: int) -> None:
    print(f"{points}-point curves, warm (target < {TARGET_CURVE} s)")
    for channel, largest in (("linear", 0.15), ("softmax", 0.25), ("hardmax", 4.0)):
        model, alpha = AttentionIndexed(0.5, 2, channel), np.linspace(0, largest, points)
        limits(model, alpha, throw=False)
        seconds = timed(lambda model=model, alpha=alpha: limits(model, alpha, throw=False))
        print(f"  {channel:8} {seconds:6.3f} s")


def problem(channel: str, d: int, alpha: float, storage: str) -> tuple[AttentionIndexed, QuadraticDesign, np.ndarray]:
    rng = np.random.default_rng(0)
    model = AttentionIndexed(0.5, 2, channel)
    signal = model.prior.sample((d, d), rng)
    design = QuadraticDesign.sample(round(alpha * d * d), (2, d), rng, storage)
    return model, design, model.channel.sample(design.forward(signal, 0), rng)


def iteration(channel: str, d: int, alpha: float, storage: str, steps: int = 10, repeats: int = 5) -> None:
    """Processor time of one more iteration: what looking at the inputs takes is spent once."""
    model, design, labels = problem(channel, d, alpha, storage)
    tokens = design.inputs[0].reshape(-1, d)
    matrix, weighted = np.eye(d, dtype=tokens.dtype), np.ones_like(tokens)

    def run(most: int) -> float:
        return processor_time(
            lambda: gamp(
                model,
                design,
                labels,
                MessagePassing(floor=1e-300).at_accuracy(Accuracy(max_iterations=most, tolerance=1e-300)),
            )
        )

    products, runs = [], []
    for _ in range(repeats):
        products.append(processor_time(lambda: (tokens @ matrix, tokens.T @ weighted)))
        runs.append((run(2 + steps) - run(2)) / steps)
    ratio = np.median(runs) / np.median(products)
    print(
        f"  {channel:8} {storage}  iteration {1e3 * np.median(runs):7.2f} ms   two products "
        f"{1e3 * np.median(products):7.2f} ms   ratio {ratio:5.2f}"
    )


def processor_time(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def settling() -> None:
    """Whole runs of hardmax at a small size, where the scale of the signal creeps."""
    model = AttentionIndexed(0.5, 2, "hardmax")
    start = time.process_time()
    found = simulate(model, [2.0], d=100, instances=4)
    seconds, runs = time.process_time() - start, found.instances[0]
    settled = sum(run.status.ok for run in runs)
    print(
        f"hardmax, d = 100, alpha = 2: {settled} of 4 runs settled (target 4) in {seconds:.0f} s of processor time "
        f"(target 60) and {[run.iterations for run in runs]} iterations, error {found['error'][0]:.4f} +- "
        f"{found['standard_error'][0]:.4f}, theory {found['theory'][0]:.4f}"
    )


def resident(field: str) -> float:
    """``VmRSS`` or ``VmHWM`` in gigabytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) / 1e9


def large() -> None:
    model, design, labels = problem("softmax", 1000, 0.3, "float32")
    start = time.perf_counter()
    solution = gamp(model, design, labels, MessagePassing().at_accuracy(Accuracy(max_iterations=3)))
    seconds = (time.perf_counter() - start) / int(solution.iterations[0])
    print(
        f"d = 1000, T = 2, alpha = 0.3: {design.samples} samples, inputs {design.inputs.nbytes / 1e9:.2f} GB, float32"
    )
    print(f"  {seconds:.1f} s per iteration, peak memory {resident('VmHWM'):.2f} GB (target < {TARGET_GIGABYTES:g})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    args = parser.parse_args()
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "unset")
    print(f"{os.cpu_count()} cores, OPENBLAS_NUM_THREADS {threads}, load average {os.getloadavg()[0]:.1f}")
    curves(10 if args.quick else 200)
    d = 30 if args.quick else 200
    print(f"AMP iteration, d = {d}, alpha = 0.5, T = 2 (target of the ratio <= {TARGET_RATIO})")
    for channel in ("linear", "softmax", "hardmax"):
        for storage in ("float64", "float32"):
            iteration(channel, d, 0.5, storage, *((2, 1) if args.quick else ()))
    if not args.quick:
        settling()
    if args.large:
        large()


if __name__ == "__main__":
    main()
