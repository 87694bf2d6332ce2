"""The theory of regularised risk at parameters drawn at random: identities that hold exactly, and bounds.

    python benchmarks/check_risk_parameters.py [SETS [SEED]]

Of every set: the error at the best strength is not below the Bayes-optimal one, nor above those at strengths around it
(of labels that are right or wrong: the label error); the error is 1 - 2 m + q; a bilinear model and its transpose have
one error; ridge has that of its closed form. What is broken by more than the error estimates is printed, with every
point that did not converge.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer import AttentionIndexed, BilinearSequenceRegression, RegularisedRisk, limits

# Errors of double precision on both sides of an identity, and of an inequality beyond the error estimates.
EXACT, ABOVE = 1e-8, 1e-8
FACTORS = (0.5, 0.9, 1.1, 2.0)
# Strengths of sign labels that stand for none.
LEAST = 1e-3


def drawn(rng: np.random.Generator) -> tuple[Any, RegularisedRisk, dict[str, float]]:
    """A model, a learner at its best strength, and the parameters."""
    ratios = {"beta": np.exp(rng.uniform(-1.5, 1.5)), "rho": np.exp(rng.uniform(-3, 1))}
    noise = float(rng.choice([0.0, np.exp(rng.uniform(-6, 0))]))
    kind = rng.choice(["linear", "sign", "attention"], p=[0.6, 0.2, 0.2])
    if kind == "linear":
        penalty = str(rng.choice(["nuclear", "ridge", "elastic"]))
        return BilinearSequenceRegression(**ratios, noise=noise), RegularisedRisk("square", penalty), ratios
    if kind == "sign":
        penalty = str(rng.choice(["nuclear", "ridge"]))
        return BilinearSequenceRegression(**ratios, channel="sign"), RegularisedRisk("logistic", penalty), ratios
    rho, tokens = min(ratios["rho"], 1.5), int(rng.integers(1, 4))
    model = AttentionIndexed(rho=rho, tokens=tokens, channel="linear", noise=noise)
    return model, RegularisedRisk("square", "trace"), {"rho": rho, "tokens": tokens}


def broken(model: Any, learner: RegularisedRisk, ratios: dict[str, float], alpha: np.ndarray) -> Iterator[str]:
    best, bayes = learner.limits(model, alpha, throw=False), limits(model, alpha, throw=False)
    for name, table in (("best", best), ("Bayes", bayes)):
        yield from (f"{name} not converged ({status})" for status in table.status if not status.ok)
    blur = best["error_estimate"] + bayes["error_estimate"] + ABOVE
    # Of labels that are right or wrong the estimate has a scale of its own: the Bayes-optimal cosine is sqrt(1 - E).
    decided = learner.loss == "logistic"
    ours = 1 - best["cosine"] ** 2 if decided else best["error"]
    if np.any(ours < bayes["error"] - blur):
        yield f"below the Bayes-optimal error by {np.max(bayes['error'] - ours):.1e}"
    sums = 1 - 2 * best["overlap"] + best["power"]
    if "beta" in ratios and not decided and not np.allclose(best["error"], sums, atol=EXACT):
        yield "error is not 1 - 2 m + q"
    # Labels that can be fitted exactly have no best strength but the least that is looked at: there less is better.
    for factor in FACTORS:
        for k in np.flatnonzero(best["strength"] > (LEAST if decided and factor < 1 else 0)):
            one = RegularisedRisk(learner.loss, learner.penalty, float(factor * best["strength"][k]))
            other = one.limits(model, alpha[k : k + 1], throw=False)
            gain = other["cosine"][0] - best["cosine"][k] if decided else best["error"][k] - other["error"][0]
            if not gain <= (EXACT if decided else blur[k]):
                yield f"{factor:g} times the best strength is better"
    if "beta" in ratios:
        turned = {"beta": 1 / ratios["beta"], "rho": ratios["rho"] / ratios["beta"]}
        other = learner.limits(replace(model, **turned), alpha, throw=False)
        if not np.allclose(other["error"], best["error"], rtol=1e-7, atol=np.max(blur)):
            yield f"transposed: {np.max(np.abs(other['error'] - best['error'])):.1e}"


def main(sets: int = 300, seed: int = 0) -> None:
    rng, bad = np.random.default_rng(seed), 0
    for number in range(sets):
        model, learner, ratios = drawn(rng)
        alpha = np.sort(np.exp(rng.uniform(-3, 1, 3)))
        said = list(broken(model, learner, ratios, alpha))
        bad += bool(said)
        for one in said:
            print(f"{number}: {model}, {learner.loss} {learner.penalty}, alpha {alpha}: {one}", flush=True)
    print(f"{sets} sets, {3 * sets} points: {bad} with something broken")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
