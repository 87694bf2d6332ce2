"""How many new labels lie in intervals of 90 per cent: solvers, sizes, widths, noises, sample ratios.

Of every data set of the grid the share of 2000 new labels that lie in the intervals, in the mean over data sets, with
the standard deviation over them; and the mean of the claimed variance over the mean squared error. Then the same for
probabilities of classes: the share of the second class among samples of which it is said to be likely.

    python benchmarks/check_coverage.py [--d 24] [--instances 6] [--seed 0] [--classes]
"""

from __future__ import annotations

import argparse
import itertools
import warnings

import numpy as np

from glassformer import BilinearSequenceRegression, DataWarning
from glassformer.sklearn import BilinearClassifier, BilinearRegressor

ALPHAS, WIDTHS, NOISES, NEW = (0.4, 0.8, 1.5), (0.1, 0.4), (0.05, 0.3, 1.0), 2000
ESTIMATORS = {
    "bayes": BilinearRegressor(solver="bayes"),
    "risk, cv": BilinearRegressor(strengths=12),
    "risk, theory": BilinearRegressor(strength="theory"),
}


def drawn(d: int, samples: int, rho: float, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels, in units of their own."""
    rng = np.random.default_rng(seed)
    signal = BilinearSequenceRegression(beta=1, rho=rho, noise=noise).prior.sample((d, d), rng)
    inputs = rng.standard_normal((samples, d, d))
    return 1 + 2 * inputs, 5 + 3 * (
        np.einsum("nld,ld->n", inputs, signal) / d + np.sqrt(noise) * rng.standard_normal(samples)
    )


def coverage(args: argparse.Namespace) -> None:
    print(f"{'alpha':>6}{'rho':>6}{'noise':>7}" + "".join(f"{name:>26}" for name in ESTIMATORS))
    everything: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for alpha, rho, noise in itertools.product(ALPHAS, WIDTHS, NOISES):
        n, told = int(alpha * args.d**2), ""
        for name, estimator in ESTIMATORS.items():
            shares, ratios = [], []
            for k in range(args.instances):
                inputs, labels = drawn(args.d, n + NEW, rho, noise, args.seed + k)
                found = estimator.fit(inputs[:n], labels[:n])
                low, high = found.predict_interval(inputs[n:], 0.9).T
                shares.append(np.mean((low <= labels[n:]) & (labels[n:] <= high)))
                mean, spread = found.predict(inputs[n:], return_std=True)
                ratios.append(np.mean(spread**2) / np.mean((mean - labels[n:]) ** 2))
            everything[name] += shares
            told += f"{np.mean(shares):14.3f} +- {np.std(shares):.3f}{np.mean(ratios):6.2f}"
        print(f"{alpha:6g}{rho:6g}{noise:7g}{told}", flush=True)
    for name, shares in everything.items():
        inside = np.mean([0.85 <= one <= 0.95 for one in shares])
        print(f"{name}: mean {np.mean(shares):.3f}, data sets between 0.85 and 0.95: {inside:.2f} of {len(shares)}")


def chances(args: argparse.Namespace) -> None:
    print(f"{'alpha':>6}{'noise':>7}  said, and true, in five bins")
    for alpha, noise in itertools.product((1.0, 2.0, 4.0), (0.05, 1.0)):
        n, said, true = int(alpha * args.d**2), [], []
        for k in range(args.instances):
            inputs, labels = drawn(args.d, n + NEW, 0.1, noise, args.seed + k)
            classes = labels > 5
            found = BilinearClassifier(strengths=12).fit(inputs[:n], classes[:n])
            said.append(found.predict_proba(inputs[n:])[:, 1])
            true.append(classes[n:])
        order = np.argsort(np.concatenate(said))
        bins = [
            (np.concatenate(said)[part].mean(), np.concatenate(true)[part].mean()) for part in np.array_split(order, 5)
        ]
        print(f"{alpha:6g}{noise:7g}  " + "  ".join(f"{a:.2f} {b:.2f}" for a, b in bins), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=24)
    parser.add_argument("--instances", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", action="store_true", help="probabilities of classes instead")
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    (chances if args.classes else coverage)(args)


if __name__ == "__main__":
    main()
