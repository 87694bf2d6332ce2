"""How often the band of a forecast by theory holds the error that comes true: estimators, solvers.

Of each of several pilot sets the learning curve is forecast to twice and four times as many samples, learned from then
and measured on 4000 new ones. Told are the share of sets in which the band holds that error, those below and above it,
the true error over the forecast one, mean and deviation, and half the width of the band over the error. Sample ratios
are samples of the pilot set per free entry of the signal.

    python benchmarks/check_forecasts.py BilinearClassifier bayes [--d 12] [--ratio 1.5] [--width 2] [--noise 0.2]
        [--sets 30] [--seed 0]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import glassformer.sklearn
from glassformer import AttentionIndexed, BilinearSequenceRegression
from glassformer.errors import DataWarning
from glassformer.sklearn import forecast

SOLVERS = {"bayes": {"solver": "bayes"}, "cv": {"strengths": 10}, "theory": {"strength": "theory"}}
NEW, TOKENS, TIMES, EDGE = 4000, 2, (2, 4), 0.3


def drawn(kind: str, args: argparse.Namespace, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs and labels in units of their own, and how many are the pilot set."""
    rng, d = np.random.default_rng([args.seed, seed]), args.d
    if kind.startswith("Bilinear"):
        n = int(args.ratio * d**2)
        signal = BilinearSequenceRegression(beta=1, rho=args.width / d).prior.sample((d, d), rng)
        inputs = rng.standard_normal((max(TIMES) * n + NEW, d, d))
        fields = np.einsum("nld,ld->n", inputs, signal) / d
    else:
        n = int(args.ratio * d**2 / 2)
        prior = AttentionIndexed(rho=args.width / d, tokens=1, channel="linear").prior
        signal = prior.sample((d, d), rng)
        inputs = rng.standard_normal((max(TIMES) * n + NEW, TOKENS, d))
        fields = np.einsum("ntd,ntd->n", inputs @ signal, inputs) - TOKENS * np.trace(signal)
        fields /= np.sqrt(2 * TOKENS * np.sum(signal**2))
    labels = fields + np.sqrt(args.noise) * rng.standard_normal(len(fields))
    return 1 + 2 * inputs, labels, n


def check(args: argparse.Namespace) -> None:
    settings = dict(SOLVERS[args.solver])
    if args.estimator.startswith("Attention") and args.solver != "bayes":
        settings["penalty"] = "trace"
    estimator = getattr(glassformer.sklearn, args.estimator)(**settings)
    classes = args.estimator.endswith("Classifier")
    rows, doubted, disagreed, began = [], 0, 0, time.process_time()
    for seed in range(args.sets):
        inputs, labels, n = drawn(args.estimator, args, seed)
        labels = np.where(labels > EDGE, "up", "down") if classes else 5 + 3 * labels
        found = forecast(estimator, inputs[:n], labels[:n], [k * n for k in TIMES], splits=1)
        disagreed += not found.agrees
        if not found.status.ok:
            doubted += 1
            continue
        later = [estimator.fit(inputs[: k * n], labels[: k * n]).predict(inputs[-NEW:]) for k in TIMES]
        true = [np.mean(one != labels[-NEW:] if classes else (one - labels[-NEW:]) ** 2) for one in later]
        rows.append([found.low, found.error, found.high, true])
    low, error, high, true = np.array(rows).transpose(1, 0, 2)
    print(f"{args.estimator} {args.solver}, {n} samples, width {args.width}, noise {args.noise}: of {args.sets} sets")
    print(f"  {doubted} did not settle, {disagreed} disagreed; {time.process_time() - began:.0f} s of processor time")
    for k, times in enumerate(TIMES):
        share = (low <= true)[:, k] & (true <= high)[:, k]
        ratio = (true / error)[:, k]
        print(
            f"  {times} n: inside {share.sum()} of {len(share)}, below {np.sum(true[:, k] < low[:, k])}, "
            f"above {np.sum(true[:, k] > high[:, k])}; true over forecast, where there is one, "
            f"{np.nanmean(ratio):.3f} +- {np.nanstd(ratio):.3f}; "
            f"half width {np.nanmean((high - low)[:, k] / 2 / error[:, k]):.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estimator", choices=[name for name in glassformer.sklearn.__all__ if name.endswith("r")])
    parser.add_argument("solver", choices=list(SOLVERS))
    parser.add_argument("--d", type=int, default=12)
    parser.add_argument("--ratio", type=float, default=1.5)
    parser.add_argument("--width", type=int, default=2)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    warnings.simplefilter("ignore", DataWarning)
    check(parser.parse_args())


if __name__ == "__main__":
    main()
