"""How many new labels lie in intervals of 90 per cent: solvers, sizes, widths, noises, sample ratios.

Of every data set of the grid the share of 2000 new labels that lie in the intervals, in the mean over data sets, with
the standard deviation over them; and the mean of the claimed variance over the mean squared error. With --classes the
same for probabilities of two classes: of samples that are said to be of a class with a chance of 0.85 to 0.95 the mean
chance and the share that is, the largest difference of chances and shares in five bins, and the score. Sample ratios
are samples per free entry of the signal.

    python benchmarks/check_coverage.py [--d 24] [--instances 6] [--seed 0] [--classes] [--attention]
"""

from __future__ import annotations

import argparse
import itertools
import warnings

import numpy as np

from glassformer import AttentionIndexed, BilinearSequenceRegression
from glassformer.errors import DataWarning
from glassformer.sklearn import AttentionClassifier, AttentionRegressor, BilinearClassifier, BilinearRegressor

ALPHAS, WIDTHS, NOISES, NEW, TOKENS = (0.4, 0.8, 1.5), (0.1, 0.4), (0.05, 0.3, 1.0), 2000, 2
CLASS_ALPHAS, OFFSETS = (1.0, 2.0, 4.0), (0.0, 0.5)


def estimators(args: argparse.Namespace) -> dict[str, object]:
    """By the name of their solvers."""
    numbers, classes = (BilinearRegressor, BilinearClassifier)
    theory: dict[str, object] = {"strength": "theory"}
    if args.attention:
        numbers, classes = (AttentionRegressor, AttentionClassifier)
        theory["penalty"] = "trace"
    kind = classes if args.classes else numbers
    return {"bayes": kind(solver="bayes"), "risk, cv": kind(strengths=12), "risk, theory": kind(**theory)}


def drawn(args: argparse.Namespace, alpha: float, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs, in units of their own, fields of unit variance, and how many of the samples are learned from."""
    rng, d = np.random.default_rng(seed), args.d
    if not args.attention:
        n = int(alpha * d**2)
        signal = BilinearSequenceRegression(beta=1, rho=rho).prior.sample((d, d), rng)
        inputs = rng.standard_normal((n + NEW, d, d))
        return 1 + 2 * inputs, np.einsum("nld,ld->n", inputs, signal) / d, n
    n = int(alpha * d**2 / 2)
    signal = AttentionIndexed(rho=rho, tokens=1, channel="linear").prior.sample((d, d), rng)
    inputs = rng.standard_normal((n + NEW, TOKENS, d))
    seen = np.einsum("ntd,ntd->n", inputs @ signal, inputs) - TOKENS * np.trace(signal)
    return 1 + 2 * inputs, seen / np.sqrt(2 * TOKENS * np.sum(signal**2)), n


def coverage(args: argparse.Namespace) -> None:
    own = estimators(args)
    print(f"{'alpha':>6}{'rho':>6}{'noise':>7}" + "".join(f"{name:>26}" for name in own))
    everything: dict[str, list[float]] = {name: [] for name in own}
    used: dict[str, int] = {}
    for alpha, rho, noise in itertools.product(ALPHAS, WIDTHS, NOISES):
        told = ""
        for name, estimator in own.items():
            shares, ratios = [], []
            for k in range(args.instances):
                inputs, fields, n = drawn(args, alpha, rho, args.seed + k)
                rng = np.random.default_rng([args.seed, k])
                labels = 5 + 3 * (fields + np.sqrt(noise) * rng.standard_normal(len(fields)))
                found = estimator.fit(inputs[:n], labels[:n])
                low, high = found.predict_interval(inputs[n:], 0.9).T
                shares.append(np.mean((low <= labels[n:]) & (labels[n:] <= high)))
                mean, spread = found.predict(inputs[n:], return_std=True)
                ratios.append(np.mean(spread**2) / np.mean((mean - labels[n:]) ** 2))
                used[f"{name}: {found.solver_}"] = used.get(f"{name}: {found.solver_}", 0) + 1
            everything[name] += shares
            told += f"{np.mean(shares):14.3f} +- {np.std(shares):.3f}{np.mean(ratios):6.2f}"
        print(f"{alpha:6g}{rho:6g}{noise:7g}{told}", flush=True)
    for name, shares in everything.items():
        inside = np.mean([0.85 <= one <= 0.95 for one in shares])
        print(f"{name}: mean {np.mean(shares):.3f}, data sets between 0.85 and 0.95: {inside:.2f} of {len(shares)}")
    print(used)


def chances(args: argparse.Namespace) -> None:
    own = estimators(args)
    print("of those said to be 0.85 to 0.95 certain: chance, and share; largest difference in five bins; score")
    print(f"{'alpha':>6}{'noise':>7}{'offset':>7}" + "".join(f"{name:>28}" for name in own))
    total: dict[str, list[np.ndarray]] = {name: [] for name in own}
    for alpha, noise, offset in itertools.product(CLASS_ALPHAS, (0.05, 1.0), OFFSETS):
        told = ""
        for name, estimator in own.items():
            said, true = [], []
            for k in range(args.instances):
                inputs, fields, n = drawn(args, alpha, 0.1, args.seed + k)
                rng = np.random.default_rng([args.seed, k])
                classes = fields + offset + np.sqrt(noise) * rng.standard_normal(len(fields)) > 0
                found = estimator.fit(inputs[:n], classes[:n])
                said.append(found.predict_proba(inputs[n:])[:, 1])
                true.append(classes[n:])
            chance, share = np.concatenate(said), np.concatenate(true)
            bins = np.array_split(np.argsort(chance), 5)
            off = max(abs(chance[part].mean() - share[part].mean()) for part in bins)
            sure, right = np.maximum(chance, 1 - chance), (chance > 0.5) == share
            part = (sure > 0.85) & (sure < 0.95)
            total[name].append(np.column_stack([sure[part], right[part]]))
            told += f"{sure[part].mean():8.3f}{right[part].mean():7.3f}{off:6.3f}{right.mean():7.3f}"
        print(f"{alpha:6g}{noise:7g}{offset:7g}{told}", flush=True)
    for name, parts in total.items():
        sure, right = np.concatenate(parts).mean(axis=0)
        shares = [part[:, 1].mean() for part in parts]
        inside = np.mean([0.85 <= one <= 0.95 for one in shares])
        print(f"{name}: said {sure:.3f}, true {right:.3f}; places between 0.85 and 0.95: {inside:.2f} of {len(shares)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=24)
    parser.add_argument("--instances", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", action="store_true", help="probabilities of classes instead")
    parser.add_argument("--attention", action="store_true", help="tokens of attention instead of sequences by position")
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    (chances if args.classes else coverage)(args)


if __name__ == "__main__":
    main()
