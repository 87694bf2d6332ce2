"""Deep attention: how long state evolution, its thresholds and message passing take, beside a cubature per data point.

The yardstick is the straightforward computation: the posterior of one data point of two layers by adaptive cubature
over the first layer's two fields, one call per moment, on the box [-8, 8]^2 in standard deviations.

    python benchmarks/bench_deep_attention.py [--curve] [--diagram] [--quick] [--beside SOURCES]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.integrate import dblquad

from glassformer import Accuracy, DeepAttention, limits, thresholds
from glassformer import phase_diagram as diagram_of
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.learners.gamp import gamp
from glassformer.learners.gamp_state import GampState


def clocked(label: str, function):  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    value = function()
    spent = time.perf_counter() - start
    print(f"{label}: {spent:.2f} s", flush=True)
    return value, spent


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def cubature(omega: np.ndarray, variance: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Posterior mean of both rows of fields, one adaptive integral each."""

    def density(a: float, b: float) -> tuple[float, np.ndarray]:
        u = np.array([a, b])
        first = omega[0] + np.sqrt(variance[0]) * u
        mixing = np.eye(2) + softmax(np.outer(first, first))
        last = np.linalg.solve(mixing, vector)
        total, moments = 0.0, np.zeros(4)
        for sign in (1, -1):
            gap = sign * last - omega[1]
            chance = np.exp(-0.5 * u @ u - 0.5 * gap @ gap / variance[1]) / abs(np.linalg.det(mixing))
            total += chance
            moments += chance * np.concatenate([first, sign * last])
        return total, moments

    options = {"epsabs": 1e-4, "epsrel": 1e-3}
    whole = dblquad(lambda a, b: density(a, b)[0], -8, 8, -8, 8, **options)[0]
    parts = [dblquad(lambda a, b, k=k: density(a, b)[1][k], -8, 8, -8, 8, **options)[0] for k in range(4)]
    return np.array(parts).reshape(2, 2) / whole


def per_data_point(points: int) -> None:
    """Seconds per data point of both ways, at one state."""
    model, rng, variance = DeepAttention(), np.random.default_rng(0), np.array([0.8, 0.2])
    count = 4096
    omega = np.sqrt(1 - variance)[:, None] * rng.standard_normal((count, 2, 2))
    fields = omega + np.sqrt(variance)[:, None] * rng.standard_normal((count, 2, 2))
    vectors = model.channel.observation_from(fields, np.empty((count, 0)))
    spread = np.tile(np.diag(variance), (count, 1, 1))
    model.channel.posterior(vectors, omega, spread)
    start = time.perf_counter()
    found = model.channel.posterior(vectors, omega, spread)
    ours = (time.perf_counter() - start) / count
    start, gaps = time.perf_counter(), []
    for k in range(points):
        exact = (cubature(omega[k], variance, vectors[k]) - omega[k]) / variance[:, None]
        gaps.append(np.abs(exact - found.score[k]) * np.sqrt(variance)[:, None])
    theirs = (time.perf_counter() - start) / points
    print(f"posterior of a data point: {ours * 1e6:.1f} us, cubature {theirs:.2f} s, ratio {theirs / ours:.0f}")
    print(f"  mean difference of the scores, in standard deviations: {np.mean(gaps):.3f}")


def message_passing(d: int) -> None:
    model, alpha = DeepAttention(), 1.2
    size, rng = model.at_size(d), np.random.default_rng(0)
    design = size.design.sample(int(alpha * d), size.input_shape, rng)
    weights = rng.standard_normal((2, d))
    labels = model.channel.sample(design.forward(weights, 0), rng)
    last: list[np.ndarray] = []

    def follow(state: GampState) -> None:
        if not state.first:
            last.append(np.abs(np.diag(model.prior.gram(state.estimate.signal, weights))))

    start = 1e-3 * rng.standard_normal((2, d))
    accuracy = Accuracy(max_iterations=40)
    run = partial(gamp, model, design, labels, start=start, watch=follow, accuracy=accuracy)
    clocked(f"message passing, d = {d}, alpha = {alpha}, 40 iterations (target 60 s)", run)
    print(f"  overlaps after 10, 20, 40 steps: {[np.round(last[k - 1], 3).tolist() for k in (10, 20, 40)]}")


_LIMITS = """import time
from glassformer import DeepAttention, limits
limits(DeepAttention(), [0.3, 0.5, 0.8], throw=False)
start = time.process_time()
limits(DeepAttention(), [0.3, 0.5, 0.8], throw=False)
print(time.process_time() - start)"""


def beside(sources: str) -> None:
    """Limits at three sample ratios, warm, by this version and by that whose sources are in another folder."""
    here = str(Path(__file__).resolve().parents[1] / "src")
    seconds = []
    for path in (here, sources):
        run = subprocess.run(
            [sys.executable, "-c", _LIMITS], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True
        )
        seconds.append(float(run.stdout))
    print(
        f"limits at three ratios: {seconds[0]:.1f} s of processor time, the other version {seconds[1]:.1f} s,", end=" "
    )
    print(f"ratio {seconds[1] / seconds[0]:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--curve", action="store_true", help="60 sample ratios and both thresholds")
    parser.add_argument("--diagram", action="store_true", help="17 skip strengths")
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    parser.add_argument("--beside", metavar="SOURCES", help="the folder src of another version, for limits alone")
    options = parser.parse_args()
    if options.beside:
        return beside(options.beside)
    print(f"deep attention, two softmax layers of two tokens; {os.cpu_count()} cores")
    per_data_point(1 if options.quick else 3)
    model = DeepAttention().at_accuracy(Accuracy(points=64)) if options.quick else DeepAttention()
    for alpha in (0.5, 0.8, 1.2)[: 1 if options.quick else None]:
        label = f"state evolution at alpha = {alpha} (target 10 s)"
        solution, _ = clocked(label, lambda alpha=alpha: state_evolution(model, [alpha]))
        overlap = 1 - np.diag(solution.value[0])
        print(f"  overlaps {overlap.round(4)}, residual {solution.residual[0]:.1e}, {solution.status[0]}")
    message_passing(40 if options.quick else 1000)
    if options.curve:
        alpha = np.linspace(0, 1.5, 60)
        label = "60 sample ratios (target 300 s with thresholds)"
        clocked(label, lambda: limits(DeepAttention(), alpha, throw=False))
        clocked("thresholds", lambda: thresholds(DeepAttention()))
    if options.diagram:
        clocked("17 skip strengths (target 900 s)", lambda: diagram_of(DeepAttention(), "skip", np.linspace(0, 4, 17)))


if __name__ == "__main__":
    main()
