"""Largest relative error of ``RectangularLaw.mmse`` against a multi-precision evaluation of the published quartic.

Points: the corners of the promised range, log-uniform ones inside, and points where the law is nearly singular (two
bulks about to merge, a hard wall about to lift off zero). Prints one line per point and the worst.

    python benchmarks/check_mmse_oracle.py [number of log-uniform points]
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import numpy as np

from glassformer.laws import RectangularLaw

RANGE = {"beta": (1.0, 1000.0), "rho": (0.01, 5.0), "R": (1e-6, 1e6)}
Point = tuple[float, float, float]


def load_oracle():
    """The class kept with the tests."""
    path = Path(__file__).resolve().parents[1] / "tests" / "random_matrices" / "oracle.py"
    spec = importlib.util.spec_from_file_location("glassformer_oracle", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Oracle


def corners() -> list[Point]:
    return list(itertools.product(*RANGE.values()))


def interior(number: int, seed: int = 0) -> list[Point]:
    low, high = np.log(list(RANGE.values())).T
    points = np.exp(np.random.default_rng(seed).uniform(low, high, (number, 3)))
    return [tuple(map(float, point)) for point in points]


def nearly_merging(beta: float, rho: float, distance: float) -> list[Point]:
    """Noise levels a relative ``distance`` below and above the one at which the two bulks merge."""
    low, high = np.log(RANGE["R"])
    for _ in range(80):
        middle = 0.5 * (low + high)
        two_bulks = np.isfinite(RectangularLaw(beta, rho, np.exp(middle)).support[0, 1, 0])
        low, high = (middle, high) if two_bulks else (low, middle)
    return [(beta, rho, float(np.exp(low) * factor)) for factor in (1 - distance, 1 + distance)]


def hard_points() -> list[Point]:
    merging = [
        nearly_merging(beta, rho, distance)
        for beta, rho in ((1.0, 0.3), (1.5, 0.5), (10.0, 0.05), (300.0, 0.9))
        for distance in (1e-3, 1e-8)
    ]
    wall = [(1 + gap, rho, R) for gap in (1e-3, 1e-9) for rho in (0.5, 1.0, 2.0) for R in (1e-6, 1e-2, 10.0)]
    # The smallest singular value of the signal leaves zero at rho = 1 and at rho = beta.
    full_rank = [(beta, rho, R) for beta, rho in ((1.0, 1.0), (3.0, 1.0), (3.0, 3.0)) for R in (1e-6, 1e-3)]
    return [*itertools.chain(*merging), *wall, *full_rank]


def main(number: int) -> None:
    oracle = load_oracle()
    names = ("beta", "rho", "R", "MMSE", "relative error", "own estimate", "oracle's", "mass - 1")
    print(("{:>13}" * 3 + "{:>24}" + "{:>15}" * 4).format(*names))
    worst = (0.0, ())
    for point in [*corners(), *hard_points(), *interior(number)]:
        exact, uncertainty, mass = oracle(*point).mmse()
        value, estimate = (float(x[0]) for x in RectangularLaw(*point).mmse())
        relative = abs(value / exact - 1)
        worst = max(worst, (relative, point))
        numbers = (relative, estimate / exact, uncertainty, mass)
        print(("{:13.6g}" * 3).format(*point) + f"{exact:24.16g}" + ("{:15.1e}" * 4).format(*numbers), flush=True)
    print(f"largest relative error {worst[0]:.1e} at beta, rho, R = {worst[1]}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
