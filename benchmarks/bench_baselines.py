"""Baselines of bilinear sequence regression beside general tools, in one run.

Minimal nuclear norm against a general convex solver on the vectorised problem, and a step of gradient descent from 64
starts against 64 steps of one start, each as a plain matrix product and its transpose (with torch where it is
installed, else NumPy).

    python benchmarks/bench_baselines.py [--published] [--large]
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

from glassformer import BilinearSequenceRegression, Training, least_nuclear_norm, simulate
from glassformer.designs.dense import DenseDesign
from glassformer.estimators.factor_descent import factor_student
from glassformer.estimators.signal_descent import descend

# Published errors of gradient descent at d = L = 100, rho = 0.2, no noise: single and mean of 64 starts.
PUBLISHED = {0.1: (1.766, 0.869), 0.2: (1.258, 0.680), 0.3: (0.675, 0.384), 0.45: (0.0, 0.0)}


def drawn(d: int, samples: int, width: int, storage: str = "float64") -> tuple[DenseDesign, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    design = DenseDesign.sample(samples, (d, d), rng, storage)
    signal = rng.standard_normal((d, width)) @ rng.standard_normal((width, d)) / np.sqrt(width)
    return design, signal, design.forward(signal, 0)


def general_solver(design: DenseDesign, labels: np.ndarray) -> float:
    import cvxpy

    shape = design.signal_shape
    inputs = design.inputs[0].reshape(design.samples, -1) / np.sqrt(shape[0] * shape[1])
    matrix = cvxpy.Variable(shape)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(matrix)), [inputs @ cvxpy.vec(matrix, order="C") == labels])
    return float(problem.solve(solver="SCS"))


def nuclear_norm(large: bool) -> None:
    for d, samples in ((50, 1125), (100, 4500)) if large else ((50, 1125),):
        design, _, labels = drawn(d, samples, d // 5)
        start = time.perf_counter()
        found = least_nuclear_norm(design, labels)
        ours = time.perf_counter() - start
        norm = np.linalg.svd(found.value[0], compute_uv=False).sum()
        print(f"nuclear norm, D = {d}, n = {samples}: {ours:.2f} s, gap {found.error_estimate[0]:.1e}", flush=True)
        if d > 50:
            continue
        start = time.perf_counter()
        theirs_norm = general_solver(design, labels)
        theirs = time.perf_counter() - start
        print(f"  general solver {theirs:.2f} s, ratio {theirs / ours:.1f}; norms {norm:.6f} and {theirs_norm:.6f}")


def plain_step(inputs: np.ndarray, labels: np.ndarray, d: int, width: int) -> float:
    """Seconds of one step of one start, written out."""
    rng = np.random.default_rng(1)
    left, right = (rng.standard_normal((d, width)).astype(np.float32) for _ in range(2))
    try:
        import torch
    except ImportError:
        module: Any = None
    else:
        module = torch
    if module is not None:
        module.set_num_threads(os.cpu_count() or 1)
        x, y, u, v = (module.from_numpy(part) for part in (inputs, labels, left, right))
    times = []
    for _ in range(10):
        start = time.perf_counter()
        if module is not None:
            residual = x @ (u @ v.T).reshape(-1) / (d * width**0.5) - y
            gradient = (residual @ x).reshape(d, d) / (2 * d * width**0.5)
            u, v = u - 0.1 * gradient @ v, v - 0.1 * gradient.T @ u
        else:
            residual = inputs @ (left @ right.T).ravel() / (d * width**0.5) - labels
            gradient = (residual @ inputs).reshape(d, d) / (2 * d * width**0.5)
            left, right = left - 0.1 * gradient @ right, right - 0.1 * gradient.T @ left
        times.append(time.perf_counter() - start)
    print(f"  one start: {'torch' if module is not None else 'NumPy'}")
    return float(np.median(times))


def descent_step() -> None:
    d, samples, width, starts = 100, 4500, 20, 64
    design, signal, labels = drawn(d, samples, width, "float32")
    flat = design.inputs[0].reshape(samples, -1)
    one = plain_step(flat, labels.astype(np.float32), d, width)
    rng = np.random.default_rng(0)
    descend(factor_student(design, labels, width), Training(max_steps=100), rng, starts, signal)
    start = time.perf_counter()
    descend(factor_student(design, labels, width), Training(max_steps=100), rng, starts, signal)
    all_of_them = (time.perf_counter() - start) / 100
    ratio = starts * one / all_of_them
    print(
        f"gradient step, D = {d}, n = {samples}: one start {one * 1e3:.1f} ms, 64 together {all_of_them * 1e3:.0f} ms"
    )
    print(f"  64 times one over 64 together: {ratio:.1f} (target 6)")


def published() -> None:
    model = BilinearSequenceRegression(beta=1, rho=0.2)
    for alpha, (single, averaged) in PUBLISHED.items():
        settings = Training(starts=64, floor=1e-6)
        start = time.perf_counter()
        runs = [
            simulate(model, [alpha], 100, 1, algorithm=name, storage="float32", settings=settings)
            for name in ("gd", "averaged-gd")
        ]
        found = [float(run["relative_error"][0]) for run in runs]
        spent = time.perf_counter() - start
        print(
            f"alpha = {alpha}: gradient descent {found[0]:.3f} (published {single}), mean of 64 starts {found[1]:.3f} "
            f"({averaged}), Bayes-optimal {runs[0]['theory_bayes_optimal'][0]:.3f}; {runs[0].status[0]}, {spent:.0f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--published", action="store_true", help="gradient descent at D = 100 (an hour)")
    parser.add_argument("--large", action="store_true", help="nuclear norm at D = 100")
    options = parser.parse_args()
    nuclear_norm(options.large)
    descent_step()
    if options.published:
        published()


if __name__ == "__main__":
    main()
