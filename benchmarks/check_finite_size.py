"""GAMP-RIE on finite data against theory: does the difference shrink like 1/d?

beta = 1, inputs in single precision. For every point: the mean error over instances with its standard error, the theory
at the same sample ratio, their difference in standard errors, and d times their difference, which stays bounded if the
bias is of order 1/d. The columns on the right repeat this for the error relative to the power of the teachers (sum of
errors over sum of errors before any data), which is free of the fluctuation of that power. Then a fit of bias = c/d
over the sizes, weighted with the standard errors, and what is left of the difference at each d once c/d is taken off.
Standard errors smaller than the posterior variance at which message passing stops are raised to that.

    python benchmarks/check_finite_size.py [--d 50 100 200] [--instances 16 16 4] [--alphas 0.15 0.3 0.5]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import NamedTuple

import numpy as np

from glassformer import BilinearSequenceRegression, simulate

CASES = ((0.2, 0.0), (1.0, 0.0), (0.5, 0.1))
# Posterior variance at which message passing with exact scores stops.
_FLOOR = 1e-9


class Point(NamedTuple):
    """Mean errors of one simulation at one sample ratio."""

    rho: float
    noise: float
    alpha: float
    d: int
    instances: int
    converged: int
    error: float
    standard_error: float
    relative_error: float
    relative_standard_error: float
    theory: float

    @property
    def difference(self) -> float:
        return self.error - self.theory

    @property
    def relative_difference(self) -> float:
        return self.relative_error - self.theory


def measure(rho: float, noise: float, alphas: list[float], d: int, instances: int, seed: int) -> list[Point]:
    start = time.perf_counter()
    model = BilinearSequenceRegression(beta=1, rho=rho, noise=noise)
    result = simulate(model, alphas, d=d, instances=instances, seed=seed, storage="float32")
    seconds = time.perf_counter() - start
    print(f"rho {rho:g}, noise {noise:g}, d {d}: {instances} instances, {seconds:.0f} s", file=sys.stderr, flush=True)
    return [
        Point(
            rho=rho,
            noise=noise,
            alpha=alpha,
            d=d,
            instances=instances,
            converged=sum(run.status.ok for run in result.instances[i]),
            error=result["error"][i],
            standard_error=max(result["standard_error"][i], _FLOOR),
            relative_error=result["relative_error"][i],
            relative_standard_error=max(result["relative_standard_error"][i], _FLOOR),
            theory=result["theory"][i],
        )
        for i, alpha in enumerate(alphas)
    ]


def table(points: list[Point]) -> str:
    head = f"{'':23}{'':17}{'':8} |{'error':^39}|{'error relative to the power':^38}"
    names = f"{'rho':>4}{'noise':>6}{'alpha':>7}{'d':>5}{'inst.':>6}{'conv.':>6}{'theory':>11} "
    columns = f"{'mean':>9}{'s.e.':>9}{'diff/s.e.':>11}{'d x diff':>9} "
    lines = [head.rstrip(), f"{names:48} |{columns}|{columns}".rstrip()]
    for p in points:
        start = f"{p.rho:4g}{p.noise:6g}{p.alpha:7g}{p.d:5}{p.instances:6}{p.converged:6}{p.theory:11.5f}"
        plain = _columns(p.error, p.standard_error, p.difference, p.d)
        relative = _columns(p.relative_error, p.relative_standard_error, p.relative_difference, p.d)
        lines.append(f"{start:48} |{plain} |{relative}")
    return "\n".join(lines)


def _columns(mean: float, standard_error: float, difference: float, d: int) -> str:
    return f"{mean:9.5f}{standard_error:9.5f}{difference / standard_error:11.2f}{d * difference:9.3f}"


def fits(points: list[Point]) -> str:
    """``c`` of bias = c/d for the relative error, and the distance of each size from it in standard errors."""
    sizes = sorted({p.d for p in points})
    lines = ["bias = c/d fitted to the relative error; (difference - c/d) in standard errors at each d (3 allowed)"]
    names = "".join(f"{f'd = {d}':>10}" for d in sizes)
    lines.append(f"{'rho':>4}{'noise':>6}{'alpha':>7}{'c':>10}{'s.e.':>8}{names}")
    for rho, noise, alpha in dict.fromkeys((p.rho, p.noise, p.alpha) for p in points):
        series = [p for p in points if (p.rho, p.noise, p.alpha) == (rho, noise, alpha)]
        d = np.array([p.d for p in series])
        difference = np.array([p.relative_difference for p in series])
        deviation = np.array([p.relative_standard_error for p in series])
        information = np.sum(1 / (d * deviation) ** 2)
        c = np.sum(difference / (d * deviation**2)) / information
        left = dict(zip(d, (difference - c / d) / deviation, strict=True))
        columns = "".join(f"{left[size]:10.2f}" if size in left else f"{'-':>10}" for size in sizes)
        lines.append(f"{rho:4g}{noise:6g}{alpha:7g}{c:10.3f}{information**-0.5:8.3f}{columns}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--instances", type=int, nargs="+", default=[16], help="one number, or one for each d; >= 2")
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.15, 0.3, 0.5])
    parser.add_argument("--largest-alpha", type=float, nargs="+", help="leave out larger alphas; one number for each d")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    instances = args.instances * len(args.d) if len(args.instances) == 1 else args.instances
    largest = args.largest_alpha or [np.inf] * len(args.d)
    if not len(args.d) == len(instances) == len(largest) or min(instances) < 2:
        parser.error("--instances and --largest-alpha take one number for each --d; instances at least 2")
    print(f"GAMP-RIE against theory, beta = 1, float32 storage; {os.cpu_count()} cores", flush=True)
    points: list[Point] = []
    for d, number, limit in zip(args.d, instances, largest, strict=True):
        alphas = [alpha for alpha in args.alphas if alpha <= limit]
        for rho, noise in CASES:
            points += measure(rho, noise, alphas, d, number, args.seed)
    points.sort(key=lambda p: (CASES.index((p.rho, p.noise)), p.alpha, p.d))
    print(f"\n{table(points)}\n\n{fits(points)}")


if __name__ == "__main__":
    main()
