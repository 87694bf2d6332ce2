"""Runs on revealed inputs: time, memory and error against stored inputs and against theory, from small to large sizes.

Four parts. `iteration`: message passing on revealed inputs against the two products of stored ones that it replaces.
`stored`: whole runs at d = 100, stored and revealed, in turns. `tolerance`: the change of the error when directions
count as dependent earlier. `sizes`: one fresh process per size and model reports its processor time, its peak memory
and its error, and the figure of docs/large-sizes.md shows the differences from theory.

    python benchmarks/bench_revealed.py [iteration stored tolerance sizes] [--largest 1e6] [--figure FILE] [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import jax.numpy as jnp
import numpy as np

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    GradientDescent,
    MessagePassing,
    NuclearNorm,
    SequenceMultiIndex,
    simulate,
)
from glassformer.designs import gaussian_matrix

LINEAR = BilinearSequenceRegression(rho=0.5, noise=0.1)
RATIO = 0.4
# Models, sample ratio, storage, and whether a signal has d^2 coordinates or d.
MODELS = {
    "bsr": (LINEAR, RATIO, "revealed", 2),
    "aim": (AttentionIndexed(rho=0.5, noise=0.1, channel="linear"), 0.3, "revealed-equivalent", 2),
    "smi": (SequenceMultiIndex(lambda Z: jnp.sign(Z[0, 0]), 1), 3.0, "revealed", 1),
}
COLOURS = {"bsr": "#0072B2", "aim": "#D55E00", "smi": "#009E73"}


def resident(field: str) -> int:
    """Return ``VmRSS`` (resident memory now) or ``VmHWM`` (its peak) of this process in bytes, on Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def seconds_of(learner: object = "gamp", **settings: object) -> tuple[float, float]:
    """Return processor time and error of one run of bsr."""
    start = time.process_time()
    found = simulate(LINEAR, [RATIO], learner, instances=1, throw=False, **settings)
    return time.process_time() - start, float(found["error"][0])


def iteration(quick: bool) -> None:
    """Compare an iteration on revealed inputs with two products of stored ones, at n = 5000 and dL = 10,000."""
    d, samples = (30, 450) if quick else (100, 5000)
    matrix = np.random.default_rng(0).standard_normal((samples, d * d))
    signal, score = np.ones(d * d), np.ones(samples)
    alpha, ratios = samples / d**2, []
    for _ in range(2 if quick else 7):
        start = time.process_time()
        for _ in range(10):
            _ = matrix @ signal, score @ matrix
        products = (time.process_time() - start) / 10
        spent = []
        for limit in (2, 12):
            start = time.process_time()
            accuracy = Accuracy(tolerance=1e-300, max_iterations=limit)
            simulate(LINEAR, [alpha], d=d, instances=1, storage="revealed", throw=False, accuracy=accuracy)
            spent.append(time.process_time() - start)
        ratios.append((spent[1] - spent[0]) / 10 / products)
    low, middle, high = np.quantile(ratios[1:], (0.25, 0.5, 0.75))
    print(f"iteration over two stored products at n = {samples}, dL = {d * d}: {middle:.2f} ({low:.2f} to {high:.2f})")


def stored(quick: bool) -> None:
    """Compare whole runs on stored and revealed inputs."""
    d, times = 30 if quick else 100, {"float64": [], "revealed": []}
    for _ in range(2 if quick else 4):
        for storage, spent in times.items():
            spent.append(seconds_of(d=d, storage=storage)[0])
    one, other = (min(times[name][1:]) for name in times)
    print(f"one run of bsr, d = {d}: stored {one:.2f} s, revealed {other:.2f} s, ratio {one / other:.1f}")


def tolerance(quick: bool) -> None:
    """Print the relative change of the error by the tolerance of dependent directions."""
    d, usual = 12 if quick else 50, dict(gaussian_matrix.TOLERANCE)
    learners = {
        "gamp": MessagePassing(),
        "minimum nuclear norm": NuclearNorm(strength=0.0),
        "gd, 400 steps": GradientDescent(learning_rate=0.2, steps=400),
    }
    for name, learner in learners.items():
        for storage, size, exact in (("revealed", 8, 1e-12), ("revealed-float32", 4, 1e-6)):
            changes = {}
            for value in (exact, usual[size] / 10, usual[size], 10 * usual[size]):
                with patch.object(gaussian_matrix, "TOLERANCE", {**usual, size: value}):
                    changes[value] = np.array(
                        [seconds_of(learner, d=d, storage=storage, seed=seed)[1] for seed in range(3)]
                    )
            errors = {value: np.max(np.abs(found / changes[exact] - 1)) for value, found in changes.items()}
            shown = ", ".join(f"{value:.0e}: {error:.1e}" for value, error in errors.items())
            print(f"{name}, {storage}: relative change of the error by the tolerance {shown}", flush=True)


def child(name: str, d: int, instances: int) -> None:
    """Print time, peak memory and errors of runs in this fresh process, as JSON."""
    model, alpha, storage, _ = MODELS[name]
    # The first run in a process also compiles, and is that of a small size.
    simulate(model, [alpha], d=min(d, 20), instances=1, storage=storage, throw=False)
    before = resident("VmRSS")
    start = time.process_time()
    found = simulate(model, [alpha], d=d, instances=instances, storage=storage, throw=False)
    errors = [run.error for run in found.instances[0]]
    print(
        json.dumps(
            {
                "seconds": (time.process_time() - start) / instances,
                "memory": resident("VmHWM") - before,
                "errors": errors,
                "theory": float(found["theory"][0]),
                "converged": sum(run.status.ok for run in found.instances[0]),
            }
        )
    )


def sizes(models: list[str], largest: float, figure: Path | None) -> None:
    """Print the table of sizes and draw the differences from theory."""
    print("model  dimension         d  runs   s a run   GB above start   stored inputs      error (se)   theory   off")
    rows: dict[str, list[tuple[float, float, float, float]]] = {}
    for name in models:
        _, alpha, _, power = MODELS[name]
        for dimension in 10.0 ** np.arange(3, math.log10(largest) + 0.01, 0.5):
            d = round(dimension ** (1 / power))
            instances = int(min(64, max(4, 2e5 / dimension)))
            command = [sys.executable, __file__, "--child", name, str(d), str(instances)]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            run = json.loads(answer.splitlines()[-1])
            errors = np.array(run["errors"])
            mean, spread = float(errors.mean()), float(errors.std(ddof=1))
            error, theory = spread / math.sqrt(instances), run["theory"]
            rows.setdefault(name, []).append((dimension, abs(mean - theory), error, spread))
            bytes_stored = 8 * alpha * dimension * (dimension if power == 2 and name == "bsr" else 2 * d)
            print(
                f"{name}  {dimension:9.0f} {d:9d} {instances:5d} {run['seconds']:9.2f} {run['memory'] / 1e9:15.2f}"
                f" {bytes_stored / 1e9:12.3g} GB  {mean:.5f} ({error:.5f}) {theory:.5f} {abs(mean - theory):.5f}"
                f"   {run['converged']} converged",
                flush=True,
            )
    if figure is not None:
        draw(rows, figure)


def draw(rows: dict[str, list[tuple[float, float, float, float]]], path: Path) -> None:
    import matplotlib.pyplot as plt

    shown, axes = plt.subplots(figsize=(6, 4))
    for k, (name, points) in enumerate(rows.items()):
        dimension, difference, error, spread = np.array(points).T
        # Marks of the models stand beside each other; errors of a logarithm are drawn upwards.
        at, colour = dimension * 1.08 ** (k - 1), COLOURS[name]
        axes.errorbar(at, difference, [0 * error, error], fmt="o", ms=4, color=colour, capsize=2)
        axes.plot(dimension, spread, color=colour, lw=1, label=name)
    axes.plot([], [], "k-", lw=1, label="spread of single runs")
    axes.plot([], [], "ko", ms=4, label="|mean - theory|, with its error")
    axes.set(xscale="log", yscale="log", xlabel="weights of the teacher", ylabel="difference of the error")
    axes.set_ylim(bottom=2e-5)
    axes.legend(fontsize=7, ncols=2)
    shown.savefig(path, dpi=160, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="default all of them")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS), help="of the part sizes")
    parser.add_argument("--largest", type=float, default=1e6, help="largest dimension")
    parser.add_argument("--figure", type=Path, help="file of the figure")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child[0], int(asked.child[1]), int(asked.child[2]))
        return
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "unset")
    print(f"{os.cpu_count()} cores, OPENBLAS_NUM_THREADS {threads}, load average {os.getloadavg()[0]:.1f}")
    parts = asked.parts or ["iteration", "stored", "tolerance", "sizes"]
    for name, part in (("iteration", iteration), ("stored", stored), ("tolerance", tolerance)):
        if name in parts:
            part(asked.quick)
    if "sizes" in parts:
        sizes(asked.models, 3e3 if asked.quick else asked.largest, asked.figure)


if __name__ == "__main__":
    main()
