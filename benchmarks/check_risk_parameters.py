"""The theory of regularised risk at parameters drawn at random: identities that hold exactly, and bounds.

    python benchmarks/check_risk_parameters.py [SETS [SEED [FIRST]]]

Of every set: the error at the best strength is not below the Bayes-optimal one, nor above those at strengths around it
(of labels that are right or wrong: the label error); the error is 1 - 2 m + q; a bilinear model and its transpose have
one error. What is broken by more than the error estimates is printed, with every point that did not converge, and at
the end how close errors came to the Bayes-optimal ones, in units of both error estimates. Set k depends on the seed and
k alone: with FIRST, SETS of them from there on, so that several runs make one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer import AttentionIndexed, BilinearSequenceRegression, RegularisedRisk, limits
from glassformer.core.results import Table

# Errors of double precision on both sides of an identity, and of an inequality beyond the error estimates.
EXACT, ABOVE = 1e-8, 1e-8
ROUNDING = 1e-13
FACTORS = (0.5, 0.9, 1.1, 2.0)
# Strengths of labels +1 and -1 that stand for none.
LEAST = 1e-3
# Kinds of labels, and how often.
KINDS = {"linear": 0.45, "tanh": 0.1, "sign": 0.2, "flipped": 0.1, "attention": 0.1, "hardmax": 0.05}
PENALTIES = ("nuclear", "ridge", "elastic")


def drawn(rng: np.random.Generator) -> tuple[Any, RegularisedRisk, dict[str, float]]:
    """A model, a learner at its best strength, and the parameters."""
    ratios = {"beta": np.exp(rng.uniform(-1.5, 1.5)), "rho": np.exp(rng.uniform(-3, 1))}
    noise, penalty = float(rng.choice([0.0, np.exp(rng.uniform(-6, 0))])), str(rng.choice(PENALTIES))
    kind, smooth = rng.choice(list(KINDS), p=list(KINDS.values())), rng.random() < 0.6
    if kind in ("attention", "hardmax"):
        linear, rho = kind == "attention", min(ratios["rho"], 1.5)
        tokens = int(rng.integers(1, 4)) if linear else 2
        labels = {"channel": "linear", "noise": noise} if linear else {"channel": "hardmax"}
        model = AttentionIndexed(rho=rho, tokens=tokens, **labels)
        return model, RegularisedRisk("square" if linear else "cross-entropy", "trace"), {"rho": rho}
    if kind in ("sign", "flipped"):
        law = {"noise_law": f"flip:{rng.uniform(0.02, 0.3):.3f}"} if kind == "flipped" else {}
        signs = BilinearSequenceRegression(**ratios, channel="sign", **law)
        return signs, RegularisedRisk("logistic" if smooth else "hinge", penalty), ratios
    link = {"link": np.tanh} if kind == "tanh" else {}
    learner = RegularisedRisk("square" if smooth or link else "huber", penalty)
    return BilinearSequenceRegression(**ratios, noise=noise, **link), learner, ratios


def above(power: float, best: Table, bayes: Table) -> tuple[np.ndarray, np.ndarray]:
    """By how much errors are above the Bayes-optimal ones, and what both may be off.

    Of labels that are right or wrong the estimate has a scale of its own: that of least error counts.
    """
    decided = "label_error" in best.columns
    ours = power * (1 - best["cosine"] ** 2) if decided else best["error"]
    return ours - bayes["error"], best["error_estimate"] + bayes["error_estimate"]


def broken(
    model: Any, learner: RegularisedRisk, ratios: dict[str, float], alpha: np.ndarray, best: Table, bayes: Table
) -> Iterator[str]:
    for name, table in (("best", best), ("Bayes", bayes)):
        yield from (f"{name} not converged ({status})" for status in table.status if not status.ok)
    margin, blur = above(float(model.prior.second_moment), best, bayes)
    blur = blur + ABOVE
    decided = "label_error" in best.columns
    if np.any(margin < -blur):
        yield f"below the Bayes-optimal error by {-np.min(margin):.1e}"
    sums = 1 - 2 * best["overlap"] + best["power"]
    if "beta" in ratios and not decided and not np.allclose(best["error"], sums, atol=EXACT):
        yield "error is not 1 - 2 m + q"
    # Labels that can be told apart have no best strength but the least that is looked at: there less is better.
    for factor in FACTORS:
        for k in np.flatnonzero(best["strength"] > (LEAST if decided and factor < 1 else 0)):
            one = RegularisedRisk(learner.loss, learner.penalty, float(factor * best["strength"][k]))
            other = limits(model, alpha[k : k + 1], one, throw=False)
            # An estimate of zero has no cosine.
            gain = (
                np.nan_to_num(other["cosine"][0]) - best["cosine"][k]
                if decided
                else best["error"][k] - other["error"][0]
            )
            if not gain <= (EXACT if decided else blur[k]):
                yield f"{factor:g} times the best strength {best['strength'][k]:.2e} is better by {gain:.1e}"
    if "beta" in ratios:
        turned = {"beta": 1 / ratios["beta"], "rho": ratios["rho"] / ratios["beta"]}
        other = limits(replace(model, **turned), alpha, learner, throw=False)
        if not np.allclose(other["error"], best["error"], rtol=1e-7, atol=np.max(blur)):
            yield f"transposed: {np.max(np.abs(other['error'] - best['error'])):.1e}"


def main(sets: int = 300, seed: int = 0, first: int = 0) -> None:
    bad, margins, units = 0, [], []
    for number in range(first, first + sets):
        rng = np.random.default_rng([seed, number])
        model, learner, ratios = drawn(rng)
        alpha = np.sort(np.exp(rng.uniform(-3, 1, 3)))
        best, bayes = limits(model, alpha, learner, throw=False), limits(model, alpha, throw=False)
        said = list(broken(model, learner, ratios, alpha, best, bayes))
        bad += bool(said)
        told = ", ".join(f"{key} {value}" for key, value in model.parameters.items() if value is not None)
        for one in said:
            print(f"{number}: {told}, {learner.loss} {learner.penalty}, alpha {alpha}: {one}", flush=True)
        margin, blur = above(float(model.prior.second_moment), best, bayes)
        counted = np.isfinite(margin) & (margin != 0)
        margins.extend(margin[counted])
        units.extend(margin[counted] / (blur[counted] + ROUNDING))
    print(f"{sets} sets, {3 * sets} points: {bad} with something broken")
    print(f"least distance from the Bayes-optimal error: {min(margins):.2e}, in error estimates {min(units):.2e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
