"""Multinomial regression on data beside scikit-learn, in one run: time and memory at the same accuracy.

Accuracy is the certified gap, relative to the risk of zero. Of scikit-learn the largest tolerance is taken whose
solution has it, or the least one where none has.

    python benchmarks/bench_row_risk_data.py [--quick]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from glassformer.core.settings import Iteration
from glassformer.designs.projection import ProjectionDesign
from glassformer.learners.empirical_row_risk import EmpiricalRowRisk
from glassformer.learners.row_risk import minimise_rows
from glassformer.risk.losses import loss_of
from glassformer.risk.penalties import penalty_of
from glassformer.risk.rows.student import Student, linear_prediction

# Gap that both have to reach, strength of ridge, and tolerances of scikit-learn, the loosest first.
GAP, STRENGTH, TOLERANCES = 1e-6, 0.1, (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)


def timed(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the least wall time of a few calls, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = function()
        times.append(time.perf_counter() - start)
    return min(times), found


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small inputs")
    quick = parser.parse_args().quick
    d, samples, repeats = (100, 300, 1) if quick else (2000, 6000, 3)
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((samples, 1, d))
    teacher = rng.standard_normal((3, d))
    labels = np.argmax(inputs[:, 0] @ teacher.T + np.sqrt(d) * 0.5 * rng.standard_normal((samples, 3)), axis=1)
    student = Student(linear_prediction, 3, 1, loss_of("cross-entropy"), (0.0, 1.0, 2.0))
    design, settings = ProjectionDesign(inputs), Iteration(tolerance=GAP, max_iterations=5000)
    targets = student.targets(labels)
    # Compiles; memory is counted from here.
    few = EmpiricalRowRisk(student, design.first(50), targets[:50], penalty_of("ridge"), STRENGTH, np.ones(d))
    minimise_rows(few, settings=settings)
    for intercept in (False, True):
        risk = EmpiricalRowRisk(
            student, design, targets, penalty_of("ridge"), STRENGTH, np.ones(d), has_intercept=intercept
        )
        before = peak_megabytes()
        ours, found = timed(lambda risk=risk: minimise_rows(risk, settings=settings), repeats)
        memory = peak_megabytes() - before
        scaled = inputs[:, 0] / np.sqrt(d)
        for tolerance in TOLERANCES:
            model = LogisticRegression(C=1 / STRENGTH, tol=tolerance, fit_intercept=intercept, max_iter=5000)
            theirs, fitted = timed(lambda model=model, scaled=scaled: model.fit(scaled, labels), repeats)
            point = risk.point(fitted.coef_, fitted.intercept_ if intercept else None)
            gap = risk.gap(point)
            if gap <= GAP:
                break
        size = inputs.nbytes / 2**20
        print(f"d = {d}, n = {samples}, 3 classes, {'with' if intercept else 'without'} intercept", flush=True)
        print(f"  here {ours:.2f} s, {found.iterations} products, gap {found.gap:.1e}, risk {found.point.risk:.6f}")
        print(f"  scikit-learn {theirs:.2f} s, {int(fitted.n_iter_[0])} steps, gap {gap:.1e}, risk {point.risk:.6f}")
        print(
            f"  time over scikit-learn's {ours / theirs:.2f}; peak memory beyond inputs {memory / size:.2f} of theirs"
        )


if __name__ == "__main__":
    main()
