"""Mean-field equations of descent that sees its samples again: time and memory, beside runs of equal statistical error.

Two problems: one row, one token and the square loss, and two rows of two tokens. Then full-batch runs at d = 2000: as
many as have the standard error of the equations, in the overlap at the end.

    python benchmarks/bench_mean_field.py [--quick]
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer import Accuracy, SequenceMultiIndex
from glassformer.dynamics.descent_path import DescentPath, descent_path
from glassformer.dynamics.descent_settings import DescentSettings, DescentStart


def two_tokens(fields: Any) -> Any:
    return jnp.stack([jnp.sum(jnp.tanh(fields[0])), jnp.sum(jnp.tanh(2 * fields[0]) * fields[1])])


def timed(name: str, *arguments: Any) -> tuple[float, DescentPath]:
    """Print wall and processor time of the first call, which compiles, and of the second."""
    for call in ("first", "second"):
        wall, processor = time.perf_counter(), time.process_time()
        path = descent_path(*arguments)
        spent = time.process_time() - processor
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        wall = time.perf_counter() - wall
        print(f"{name}, {call} call: {wall:.1f} s, processor {spent:.1f} s, peak {memory:.2f} GB", flush=True)
    return spent, path


def run(d: int, alpha: float, settings: DescentSettings, rng: np.random.Generator) -> float:
    """Return the overlap at the end of one run of a linear row with noise 0.3, from a start with overlap 0.2."""
    n = int(alpha * d)
    inputs, teacher = rng.standard_normal((n, d)), rng.standard_normal(d)
    teacher *= np.sqrt(d) / np.linalg.norm(teacher)
    other = rng.standard_normal(d)
    other -= teacher * (other @ teacher) / d
    weights = 0.2 * teacher + np.sqrt(1 - 0.04) * other * np.sqrt(d) / np.linalg.norm(other)
    labels = inputs @ teacher / np.sqrt(d) + np.sqrt(0.3) * rng.standard_normal(n)
    for rate in settings.rates:
        residual = inputs @ weights / np.sqrt(d) - labels
        weights = weights - rate * (inputs.T @ residual / np.sqrt(d) + settings.weight_decay * weights)
    return float(weights @ teacher / d)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few steps and trajectories")
    quick = parser.parse_args().quick
    steps, trajectories, d, runs = (5, 4096, 200, 3) if quick else (50, 32_768, 2000, 8)
    model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.3)
    settings = DescentSettings(steps, 0.3, weight_decay=0.1, trajectories=trajectories)
    start = DescentStart.of_cosine(1, 1, 0.2)
    spent, path = timed(f"one row, {steps} steps", model, 1.5, settings, None, start)
    overlaps, wall = [], time.process_time()
    for seed in range(runs):
        overlaps.append(run(d, 1.5, settings, np.random.default_rng(seed)))
    one_run = (time.process_time() - wall) / runs
    deviation = float(np.std(path.overlaps[1:, -1, 0, 0], ddof=1)) / np.sqrt(settings.sets)
    equal = (float(np.std(overlaps, ddof=1)) / deviation) ** 2
    print(f"  overlap {path.overlap.value[-1, 0, 0]:.4f} +- {deviation:.4f}, runs {np.mean(overlaps):.4f}")
    print(f"  runs of equal error at d = {d}: {equal:.1f}, {equal * one_run / spent:.1f} times the processor time")
    steps, trajectories = (5, 4096) if quick else (100, 131_072)
    model = SequenceMultiIndex(two_tokens, indices=2, tokens=2, noise=0.1).at_accuracy(Accuracy(points=256))
    settings = DescentSettings(steps, 0.1, weight_decay=0.1, trajectories=trajectories)
    start = DescentStart.of_cosine(2, 2, 0.2)
    timed(f"two rows, two tokens, {steps} steps", model, 3.0, settings, None, start)


if __name__ == "__main__":
    main()
