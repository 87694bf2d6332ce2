"""Bayes-optimal curves of noiseless bilinear sequence regression: time and agreement with the plain computation.

The panel is 201 sample ratios for each of five widths at beta = 1. The plain computation (``yardstick.py``) runs on a
random sample of the panel's points at which there is something to solve: neither no data nor perfect recovery.

    python benchmarks/bench_theory.py [number of points of the plain computation | --quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from yardstick import bayes_optimal_error

from glassformer import BilinearSequenceRegression, limits

WIDTHS = (0.1, 0.2, 0.5, 1.0, 2.0)
ALPHA = np.linspace(0, 1, 201)
TARGET_RATIO, TARGET_SECONDS = 200, 3.0


def panel() -> np.ndarray:
    """Errors, one row per width."""
    models = [BilinearSequenceRegression(beta=1, rho=rho, noise=0.0) for rho in WIDTHS]
    return np.array([limits(model, ALPHA).columns["error"] for model in models])


def timed(function: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def sample_points(number: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(0)
    recovery = [rho * (2 - rho) if rho < 1 else 1.0 for rho in WIDTHS]
    points = [
        (i, j) for i, limit in enumerate(recovery) for j, alpha in enumerate(ALPHA) if 0 < alpha < limit * (1 - 1e-9)
    ]
    return [points[k] for k in rng.choice(len(points), number, replace=False)]


def main(number: int) -> None:
    cold, errors = timed(panel)
    warm = min(timed(panel)[0] for _ in range(3))
    points = sample_points(number)
    plain, expected = timed(lambda: np.array([bayes_optimal_error(float(ALPHA[j]), 1.0, WIDTHS[i]) for i, j in points]))
    difference = np.abs(np.array([errors[point] for point in points]) - expected)
    per_point, plain_per_point = warm / errors.size, plain / number
    print(f"panel of {errors.size} points   cold {cold:.2f} s   warm {warm:.3f} s (target < {TARGET_SECONDS:g} s)")
    print(f"package                {1e3 * per_point:9.3f} ms per point, all points of the panel")
    print(f"plain computation      {1e3 * plain_per_point:9.3f} ms per point, {number} points")
    print(f"ratio                  {plain_per_point / per_point:9.0f} (target >= {TARGET_RATIO})")
    print(f"largest difference     {difference.max():9.1e}")


if __name__ == "__main__":
    main(1 if "--quick" in sys.argv else int(sys.argv[1]) if len(sys.argv) > 1 else 20)
