"""Regularised risk on data against its theory: links, losses and penalties at several parameters.

    python benchmarks/check_risk.py [D [INSTANCES [PART]]]

With a part only the learners with this word in their loss or penalty. Sums of outer products of tokens approach a
Gaussian matrix as 1/d: attention-indexed models are off by a term of that order, which two values of d tell.

Every row is one set of parameters: error, training loss and rank of the runs, and how many standard errors they are
from the theory of the same finite ratios. Errors are those of a teacher of power one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from glassformer import Accuracy, AttentionIndexed, BilinearSequenceRegression, RegularisedRisk, limits, simulate
from glassformer.models.base import Model


def cases() -> Iterator[tuple[Model, float, RegularisedRisk]]:
    for beta, rho, noise, alpha, strength in (
        (1, 0.3, 0.1, 0.5, 0.1),
        (2, 0.5, 0.2, 0.8, 0.3),
        (0.5, 0.4, 0.0, 1.2, 0.5),
    ):
        model = BilinearSequenceRegression(beta=beta, rho=rho, noise=noise)
        for loss in ("square", "huber"):
            for penalty in ("nuclear", "ridge", "elastic"):
                yield model, alpha, RegularisedRisk(loss, penalty, strength)
    signs = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    for alpha, strength in ((1.0, 0.2), (2.0, 0.3)):
        for penalty in ("nuclear", "ridge", "elastic"):
            yield signs, alpha, RegularisedRisk("logistic", penalty, strength)
    yield signs, 1.0, RegularisedRisk("hinge", "nuclear", 0.3).at_accuracy(Accuracy(tolerance=1e-4))
    yield BilinearSequenceRegression(beta=1, rho=0.3, link=np.tanh), 1.0, RegularisedRisk(strength=0.1)
    yield AttentionIndexed(rho=0.5, tokens=2, channel="linear", noise=0.1), 0.1, RegularisedRisk("square", "trace", 0.1)
    for tokens, channel, alpha, strength in (
        (2, "hardmax", 0.3, 0.5),
        (2, "softmax", 0.3, 0.3),
        (3, "softmax", 0.1, 0.3),
    ):
        model = AttentionIndexed(rho=0.5, tokens=tokens, channel=channel)
        yield model, alpha, RegularisedRisk("cross-entropy", "trace", strength)
    yield (
        AttentionIndexed(rho=0.5, tokens=1, channel="linear", noise=0.1),
        0.6,
        RegularisedRisk("square", "pinned"),
    )
    yield (
        AttentionIndexed(rho=0.2, tokens=1, channel="linear", noise=0.05),
        0.2,
        RegularisedRisk("square", "trace", 0.1),
    )


def main(d: int = 50, instances: int = 16, part: str = "") -> None:
    print(f"{'model':44}{'learner':28}" + "".join(f"{name:>20}" for name in ("error (sigma)", "training", "rank")))
    chosen = (case for case in cases() if part in f"{case[2].loss} {case[2].penalty}")
    for model, alpha, learner in chosen:
        runs = simulate(model, [alpha], learner, d=d, instances=instances)
        theory = limits(model.at_size(d).model, runs["alpha_realised"], learner)
        row = [apart(runs["relative_error"][0], runs["relative_standard_error"][0], theory["error"][0])]
        for name in ("training_loss", "rank"):
            values = np.array([getattr(run, name) for run in runs.instances[0]])
            row.append(apart(values.mean(), values.std(ddof=1) / np.sqrt(instances), theory[name][0]))
        channel = f"{model.parameters['channel']}, alpha {alpha:g}"
        ratios = ", ".join(
            f"{key} {model.parameters[key]:g}" for key in ("beta", "rho", "noise") if key in model.parameters
        )
        strength = "" if learner.strength is None else f" {learner.strength:g}"
        told = f"{learner.loss} {learner.penalty}{strength}"
        print(f"{ratios + ' ' + channel:44}{told:28}" + "".join(row), flush=True)


def apart(mean: float, bar: float, expected: float) -> str:
    far = (mean - expected) / bar if bar > 0 else 0.0
    return f"{mean:>12.5f} ({far:+.1f})".rjust(20)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
