"""Theory of regularised risk of rows.

One convex row: 200 ratios, the best strength, and a plain fixed point of the same equations by SciPy. Several rows and
tokens: one ratio and branch, warm.

python benchmarks/bench_row_risk.py [--quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from glassformer import Accuracy, DeepAttention, RegularisedRisk, SequenceMultiIndex, limits


def sign(z):
    return 2.0 * (z[0, 0] > 0) - 1


def shifted_sign(z):
    return 2.0 * (z[0, 0] > 0.5) - 1


def field(z):
    return z[0, 0]


def largest(z):
    return jnp.argmax(z[:, 0])


SIGNS, NUMBERS = SequenceMultiIndex(sign), SequenceMultiIndex(field, noise=0.1)
SPARSE = SequenceMultiIndex(field, noise=0.1, prior="gauss-bernoulli:0.2")
SHIFTED, ODDS = SequenceMultiIndex(shifted_sign), SequenceMultiIndex(field, noise_law="logistic")


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def curves(ratios: int) -> None:
    """A curve at a fixed strength (target 0.5 s), and at the best one (target five times that)."""
    alpha = np.geomspace(0.2, 10, ratios)
    for model, loss, penalty, intercept in (
        (NUMBERS, "square", "ridge", False),
        (SPARSE, "square", "lasso", False),
        (SIGNS, "logistic", "ridge", False),
        (SHIFTED, "logistic", "ridge", True),
        (ODDS, "logistic", "ridge", False),
        (SIGNS, "hinge", "ridge", False),
        (SIGNS, "squared-hinge", "elastic", False),
        (NUMBERS, "huber", "lasso", False),
    ):
        spent = []
        for strength in (0.1, None):
            learner = RegularisedRisk(loss, penalty, strength=strength, intercept=intercept)
            limits(model, alpha[::20], learner, throw=False)
            spent.append(seconds(lambda learner=learner, model=model: limits(model, alpha, learner))[0])
        name = f"{loss} with {penalty}{', intercept' if intercept else ''}{', random labels' if model is ODDS else ''}"
        print(f"{ratios} ratios, {name}: {spent[0]:.3f} s, at the best strength {spent[1]:.3f} s")


def intercepts(ratios: int) -> None:
    """Best strengths with an intercept beside those without one (target four times, twice of it for both labels)."""
    alpha = np.geomspace(0.2, 10, ratios)
    spent: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(4):
        for fitted, own in spent.items():
            learner = RegularisedRisk("logistic", "ridge", strength=None, intercept=fitted)
            own.append(seconds(lambda learner=learner: limits(SHIFTED, alpha, learner))[0])
    plain, fitted = min(spent[False]), min(spent[True])
    print(f"{ratios} ratios, best strength with an intercept: {fitted:.2f} s, {fitted / plain:.1f} times without one")


def branches(points: int) -> None:
    """One ratio and branch of several rows or tokens, from the informed start (target 20 s on two cores)."""
    attention, layers = (
        DeepAttention(depth=depth, tokens=2, noise=0.05).at_accuracy(Accuracy(points=points)) for depth in (1, 2)
    )
    classes = SequenceMultiIndex(largest, indices=3).at_accuracy(Accuracy(points=points))
    for name, model, alpha, learner in (
        ("attention, one layer", attention, 2.0, RegularisedRisk(strength=0.05, branch="informed")),
        ("attention, two layers", layers, 4.0, RegularisedRisk(strength=0.1, branch="informed")),
        ("three classes, ridge", classes, 2.0, RegularisedRisk("cross-entropy", strength=0.2)),
        ("three classes, group", classes, 2.0, RegularisedRisk("cross-entropy", "group", 0.2)),
    ):
        spent = []
        for _ in range(2):
            used, table = seconds(lambda model=model, a=alpha, own=learner: limits(model, [a], own, throw=False))
            spent.append(used)
        error, bar = table["error"][0], table["error_estimate"][0]
        text = f"{spent[1]:.1f} s, {spent[0]:.1f} s with compiling, error {error:.4g} +- {bar:.2g}"
        print(f"{name}, {points} points: {text}, stability {table['stability'][0]:.2f}")


def proximal_logistic(omega: float, v: float) -> float:
    """Minimise log(1 + exp(-p)) + (p - omega)^2/(2v) by bisection."""
    return float(brentq(lambda p: p - omega - v * expit(-p), omega, omega + v, xtol=1e-12))


def plain_fixed_point(alpha: float, strength: float) -> tuple[float, float]:
    """Return power and overlap of logistic ridge regression on signs, by damped iteration of integrals."""
    q, m, v = 1.0, 0.5, 1.0
    for _ in range(200):
        root, spread = np.sqrt(q), np.sqrt(max(1 - m**2 / q, 1e-14))

        def average(of: Callable[[float, float, float], float], root=root, spread=spread, v=v, m=m, q=q) -> float:
            def integrand(t: float) -> float:
                omega = root * t
                p = proximal_logistic(omega, v)
                g, bend = expit(-p), expit(-p) * expit(p)
                weight = np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
                return float(weight * of(g, bend / (1 + v * bend), m / q * omega / spread))

            return 2 * quad(integrand, -9, 9, epsabs=1e-9, epsrel=1e-9, limit=200)[0]

        m_hat = alpha * average(lambda g, c, x, s=spread: g * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi) / s)
        q_hat = alpha * average(lambda g, c, x: g**2 * ndtr(x))
        v_hat = alpha * average(lambda g, c, x: c * ndtr(x))
        new = (m_hat**2 + q_hat) / (v_hat + strength) ** 2, m_hat / (v_hat + strength), 1 / (v_hat + strength)
        change = max(abs(a - b) for a, b in zip(new, (q, m, v), strict=True))
        q, m, v = new
        if change < 1e-8:
            break
    return q, m


def plain(ratios: int, few: int) -> None:
    """Ratio of the time a ratio (target 100)."""
    alpha = np.geomspace(0.5, 5, few)
    learner = RegularisedRisk("logistic", "ridge", strength=0.3)
    theirs, found = seconds(lambda: np.array([plain_fixed_point(a, 0.3) for a in alpha]))
    limits(SIGNS, alpha, learner)
    many = np.geomspace(0.5, 5, ratios)
    ours, _ = seconds(lambda: limits(SIGNS, many, learner))
    table = limits(SIGNS, alpha, learner)
    gap = np.max(np.abs(found - np.stack([table["power"][:, 0, 0], table["overlap"][:, 0, 0]], axis=1)))
    each = theirs / few, ours / ratios
    print(
        f"logistic ridge, one ratio: quad {each[0]:.3f} s, ours {1e3 * each[1]:.2f} ms, ratio {each[0] / each[1]:.0f}"
    )
    print(f"largest difference of power and overlap: {gap:.1e}")


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    curves(20 if quick else 200)
    intercepts(20 if quick else 200)
    plain(20 if quick else 200, 1 if quick else 5)
    branches(512 if quick else 4096)
