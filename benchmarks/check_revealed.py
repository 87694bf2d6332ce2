"""Whole runs on revealed inputs have the distribution of runs on stored ones.

For message passing, the minimum nuclear norm and gradient descent: many small runs of both kinds with different seeds,
and two-sample tests (Kolmogorov and Smirnov, Welch) of their errors and training errors. A p-value below a thousandth
in any of the tests fails.

    python benchmarks/check_revealed.py [--runs 400] [--d 20] [--quick]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from scipy.stats import ks_2samp, ttest_ind

from glassformer import BilinearSequenceRegression, GradientDescent, MessagePassing, NuclearNorm, simulate

MODEL = BilinearSequenceRegression(rho=0.3, noise=0.1)
LEARNERS = {
    "gamp": MessagePassing(),
    "nuclear-norm": NuclearNorm(strength=0.5),
    "interpolator": NuclearNorm(strength=0.0),
    "gd": GradientDescent(learning_rate=0.2, steps=200),
}
SMALLEST, ROUNDING = 1e-3, 1e-9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--d", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it runs")
    asked = parser.parse_args()
    count, d = (20, 10) if asked.quick else (asked.runs, asked.d)
    failed = 0
    for name, learner in LEARNERS.items():
        drawn = {}
        for storage, seed in (("float64", 0), ("revealed", 10**6)):
            found = simulate(MODEL, [0.5], learner, d=d, instances=count, seed=seed, storage=storage, throw=False)
            drawn[storage] = {
                key: np.array([getattr(run, key) for run in found.instances[0]], dtype=float)
                for key in ("error", "training_error")
            }
        for key, one in drawn["float64"].items():
            other = drawn["revealed"][key]
            # Message passing has no training error, and that of an interpolator is rounding.
            if not np.isfinite(one).all() or max(one.max(), other.max()) < ROUNDING:
                continue
            smirnov, welch = ks_2samp(one, other).pvalue, ttest_ind(one, other, equal_var=False).pvalue
            failed += min(smirnov, welch) < SMALLEST
            print(
                f"{name:13} {key:15} stored {one.mean():.5f} ({one.std() / count**0.5:.5f})  revealed "
                f"{other.mean():.5f} ({other.std() / count**0.5:.5f})  p {smirnov:.3f} {welch:.3f}",
                flush=True,
            )
    print("the distributions agree" if not failed else f"{failed} tests failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
