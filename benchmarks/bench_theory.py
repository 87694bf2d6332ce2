"""Curves of theory: time and agreement with plain computations.

Bayes-optimal bilinear sequence regression without noise: the panel is 201 sample ratios for each of five widths at
beta = 1. The plain computation (``yardstick.py``) runs on a random sample of the panel's points at which there is
something to solve: neither no data nor perfect recovery.

Ridge regression in context: 200 sample ratios, against one root of SciPy for each.

    python benchmarks/bench_theory.py [number of points of the plain computation | --quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from yardstick import bayes_optimal_error

from glassformer import BilinearSequenceRegression, InContextRegression, Ridge, limits

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
    in_context()


def in_context() -> None:
    """Compare ridge regression in context with a root for each sample ratio."""
    context, tasks, noise, strength, ratios = 2.0, 0.5, 0.1, 0.1, np.linspace(0.01, 3, 200)
    model = InContextRegression(context, tasks, noise)

    def package() -> np.ndarray:
        return limits(model, ratios, Ridge(strength)).columns["test_error"]

    package()
    seconds, errors = min((timed(package) for _ in range(3)), key=lambda one: one[0])
    plain, expected = timed(lambda: np.array([_plain(one, context, tasks, noise, strength) for one in ratios]))
    print(f"in context, 200 ratios {1e3 * seconds:9.3f} ms (target < 20)")
    print(f"plain computation      {1e3 * plain:9.3f} ms")
    print(f"ratio                  {plain / seconds:9.0f}")
    print(f"largest difference     {np.abs(errors / expected - 1).max():9.1e} of the error")


def _plain(ratio: float, context: float, tasks: float, noise: float, strength: float) -> float:
    """Return the error on new sequences of the training tasks, from a scalar root."""
    c = (1 + noise) / context

    def law(z: float) -> tuple[float, float]:
        b = tasks * (z + 1) - 1
        root = np.sqrt(b * b + 4 * tasks * z)
        m = 2 * tasks / (b + root)
        return m, -m * (tasks + m) / root

    s = brentq(lambda s: s * (ratio - 1 + s * law(c + s)[0]) - strength, strength / ratio, 1e3 / ratio, xtol=1e-14)
    nu = c + s
    m, slope = law(nu)
    lost = noise + nu - nu**2 * m - s * (1 - 2 * nu * m - nu**2 * slope)
    return float(lost / (1 - (1 - 2 * s * m - s**2 * slope) / ratio))


if __name__ == "__main__":
    main(1 if "--quick" in sys.argv else int(sys.argv[1]) if len(sys.argv) > 1 else 20)
