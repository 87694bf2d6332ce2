"""Regression in context against runs: errors at several dimensions, and straight lines in 1/d to infinite dimension.

For each set of parameters the excess of the test error over theory times ``d``, which is constant if corrections are of
order ``1/d``, and the distance of the line at ``1/d = 0`` from theory in its standard errors. The same for descent on
the same samples and in one pass, and for ridge on correlated tokens of bilinear regression.

    python benchmarks/check_in_context.py            # some twenty minutes
    python benchmarks/check_in_context.py --quick
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from glassformer import SGD, BilinearSequenceRegression, InContextRegression, OnlineSGD, Ridge, limits, simulate

# Context, tasks, sample ratio, strength over the sample ratio, noise.
POINTS = (
    (1, 0.5, 0.5, 0, 0.25),
    (1, 2, 0.5, 0.1, 0.25),
    (10, 2, 0.3, 0, 0.01),
    (2, 1, 0.9, 0.03, 0.1),
    (5, 0.5, 1.5, 0.01, 0.1),
    (4, 1, 1.5, 0.2, 0),
)
UNEQUAL = InContextRegression(5, 0.8, 0.1, task_spectrum=(1.7, 0.3), test_spectrum=(0.3, 1.7), test_noise=0.3)
# A line that is further from theory than this number of its standard errors fails.
FAR = 4.0


def line(sizes: list[int], mean: list[float], error: list[float]) -> tuple[float, float]:
    """Return the weighted line in 1/d at zero, and its standard error."""
    x = np.column_stack([np.ones(len(sizes)), 1 / np.array(sizes)]) / np.array(error)[:, None]
    covariance = np.linalg.inv(x.T @ x)
    return float((covariance @ x.T @ (np.array(mean) / error))[0]), float(np.sqrt(covariance[0, 0]))


def checked(title, model, alpha, learner, sizes, instances) -> list[float]:
    """Print the errors of one learner at all sizes; return the distances of the lines from theory."""
    distances = []
    found = [simulate(model, [alpha], learner, d=d, instances=instances) for d in sizes]
    print(title, flush=True)
    for name in ("test", "new_task", "training"):
        if f"{name}_theory" not in found[0]:
            continue
        # Theory at the ratios that whole numbers allow.
        gap = [float(one[f"{name}_error"][0] - one[f"{name}_theory"][0]) for one in found]
        error, theory = [float(one[f"{name}_standard_error"][0]) for one in found], found[-1][f"{name}_theory"][0]
        if max(error) < 1e-10:
            print(f"  {name}: {gap[-1]:.2g} above theory {theory:.2g}")
            continue
        end, bar = line(sizes, gap, error)
        distances.append(end / bar)
        excess = ", ".join(f"{d}: {d * m:.2f}({d * e:.2f})" for d, m, e in zip(sizes, gap, error, strict=True))
        print(f"  {name}: theory {theory:.5f}, line {end:+.4f}({bar:.4f}) ({end / bar:+.1f}), d x excess {excess}")
    return distances


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and few runs")
    quick = parser.parse_args().quick
    sizes, instances = ([10, 14], 2) if quick else ([20, 40, 60, 80], 12)
    distances = []
    for context, tasks, alpha, strength, noise in POINTS:
        model = InContextRegression(context, tasks, noise)
        title = f"context {context}, tasks {tasks}, alpha {alpha}, strength {alpha * strength:g}, noise {noise}"
        distances += checked(title, model, alpha, Ridge(alpha * strength), sizes, instances)
    distances += checked("tasks of unequal eigenvalues", UNEQUAL, 1.5, Ridge(0.03), sizes, instances)
    model = InContextRegression(2, 0.5, 0.1)
    distances += checked("20 steps of descent", model, 0.8, SGD(steps=20, start="small:1e-9"), sizes, instances)
    online = OnlineSGD(learning_rate=0.3, batch=1, start="small:1e-9")
    distances += checked("one pass", model, 2.0, online, sizes[:-1] if len(sizes) > 2 else sizes, instances)
    bsr = BilinearSequenceRegression(rho=0.5, noise=0.1, token_correlation=0.6)
    runs = [simulate(bsr, [0.7], Ridge(0.2), d=d, instances=instances) for d in sizes]
    end, bar = line(sizes, [float(one["error"][0]) for one in runs], [float(one["standard_error"][0]) for one in runs])
    theory = float(limits(bsr, [0.7], Ridge(0.2))["error"][0])
    distances.append((end - theory) / bar)
    print(f"bsr, correlated tokens: theory {theory:.5f}, line {end:.4f}({bar:.4f}) ({distances[-1]:+.1f})")
    print(f"{len(distances)} lines: root mean square {np.sqrt(np.mean(np.square(distances))):.2f} standard errors")
    return int(np.max(np.abs(distances)) > FAR)


if __name__ == "__main__":
    sys.exit(main())
