"""Baselines of bilinear sequence regression beside general tools, in one run.

Minimal nuclear norm against a general convex solver on the vectorised problem, and a step of gradient descent from 64
starts against 64 steps of one start, each as a plain matrix product and its transpose (with torch where it is
installed, else NumPy).

    python benchmarks/bench_baselines.py [--large] [--quick] [--published DIR]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import BilinearSequenceRegression, GradientDescent, simulate
from glassformer.designs.dense import DenseDesign
from glassformer.learners import learner
from glassformer.learners.gradient_descent import descend
from glassformer.learners.nuclear_norm import least_nuclear_norm
from glassformer.models.trainable.factors import factor_student
from glassformer.papers.published import DESCENT, at_ratios, descents

# Sample ratios at which gradient descent is compared with released data.
RATIOS = (0.1, 0.2, 0.25, 0.3, 0.33)


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


def nuclear_norm(*sizes: tuple[int, int]) -> None:
    for d, samples in sizes:
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


def descent_step(d: int, samples: int) -> None:
    width, starts = d // 5, 64
    design, signal, labels = drawn(d, samples, width, "float32")
    flat = design.inputs[0].reshape(samples, -1)
    one = plain_step(flat, labels.astype(np.float32), d, width)
    rng = np.random.default_rng(0)
    descend(factor_student(design, labels, width), GradientDescent(steps=100), rng, starts, signal)
    start = time.perf_counter()
    descend(factor_student(design, labels, width), GradientDescent(steps=100), rng, starts, signal)
    all_of_them = (time.perf_counter() - start) / 100
    ratio = starts * one / all_of_them
    print(
        f"gradient step, D = {d}, n = {samples}: one start {one * 1e3:.1f} ms, 64 together {all_of_them * 1e3:.0f} ms"
    )
    print(f"  64 times one over 64 together: {ratio:.1f} (target 6)")


def exploration(steps: int) -> None:
    """Exploring steps, on halves of the samples in single precision, beside steps on all of them as they are stored."""
    rng, shape, width, starts = np.random.default_rng(0), (80, 40), 8, 64
    design = DenseDesign.sample(640, shape, rng)
    signal = rng.standard_normal((shape[0], width)) @ rng.standard_normal((width, shape[1])) / np.sqrt(width)
    student = factor_student(design, design.forward(signal, 0), width)
    seconds = []
    for explore in (0, steps - 1):
        settings = GradientDescent(optimizer="adam", learning_rate=0.5, explore=explore, steps=steps, floor=1e-30)
        descend(student, settings, rng, starts)
        start = time.process_time()
        descend(student, settings, rng, starts)
        seconds.append((time.process_time() - start) / steps)
    print(
        f"exploring step of 64 starts, 80 x 40, n = 640: {seconds[1] * 1e3:.1f} ms of processor time, on all samples "
        f"{seconds[0] * 1e3:.1f} ms, ratio {seconds[0] / seconds[1]:.1f} (target 2.5)"
    )


def published(reference: Path, starts: int, instances: int) -> None:
    """Single runs and means over starts at D = 100 beside released data."""
    released = descents(reference)
    if released is None:
        raise SystemExit(f"{reference}: two files with the columns {DESCENT} are needed")
    model = BilinearSequenceRegression(beta=1, rho=0.2)
    for alpha in RATIOS:
        for name, frame in zip(("gd", "averaged-gd"), released, strict=True):
            start = time.perf_counter()
            descent = learner(name, initialisations=starts, floor=1e-6)
            run = simulate(model, [alpha], descent, d=100, instances=instances, storage="float32")
            row = at_ratios(frame, np.array([alpha]))[1].iloc[0]
            ours, blur = run["relative_error"][0], run["relative_standard_error"][0]
            print(
                f"alpha = {alpha}, {name}: {ours:.3f} +- {blur:.3f}, published {row['gen_error_mean']:.3f} +- "
                f"{row['gen_error_std']:.3f}, Bayes-optimal {run['theory_bayes_optimal'][0]:.3f}; {run.status[0]}, "
                f"{starts} starts, {instances} instances, {time.perf_counter() - start:.0f} s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--published", type=Path, metavar="DIR", help="gradient descent at D = 100 beside data in DIR")
    parser.add_argument("--starts", type=int, default=64)
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    parser.add_argument("--large", action="store_true", help="nuclear norm at D = 100")
    options = parser.parse_args()
    if options.published:
        published(options.published, options.starts, options.instances)
        return
    sizes = [(10, 45)] if options.quick else [(50, 1125), (100, 4500)][: 1 + options.large]
    nuclear_norm(*sizes)
    descent_step(*((10, 45) if options.quick else (100, 4500)))
    exploration(3 if options.quick else 200)


if __name__ == "__main__":
    main()
