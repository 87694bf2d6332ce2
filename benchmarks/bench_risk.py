"""Theory and solvers of regularised risk: what a curve costs, and the solvers beside general tools, in one run.

python benchmarks/bench_risk.py [--quick]
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer import BilinearSequenceRegression, RegularisedRisk, limits
from glassformer.core.settings import Iteration
from glassformer.designs.dense import DenseDesign
from glassformer.learners.empirical_risk import EmpiricalRisk, certified_gap
from glassformer.learners.proximal_gradient import least_risk
from glassformer.risk.losses import Logistic, Square
from glassformer.risk.penalties import ElasticNet

LINEAR = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
SIGNS = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def curves(ratios: int = 200) -> None:
    """Limits at the best strength beside those at a fixed one (target: five times for hinge and logistic)."""
    alpha = np.linspace(0.05, 2, ratios)
    for model, loss in ((LINEAR, "square"), (SIGNS, "logistic"), (SIGNS, "hinge"), (LINEAR, "huber")):
        spent = []
        for strength in (0.1, None):
            learner = RegularisedRisk(loss, strength=strength)
            limits(model, alpha, learner, throw=False)
            spent.append(seconds(lambda learner=learner, model=model: limits(model, alpha, learner, throw=False))[0])
        once, best = spent
        print(f"{ratios} ratios, {loss}: {once:.2f} s, at the best strength {best:.2f} s, ratio {best / once:.1f}")


def narrow() -> None:
    """Students of a fifth of the width beside those of full width, at the best strength (target: twice their time)."""
    learners = {width: RegularisedRisk(student_rho=width) for width in (None, 0.2)}
    for learner in learners.values():
        limits(LINEAR, [0.6], learner)
    spent = {w: min(seconds(lambda w=w: limits(LINEAR, [0.7], learners[w]))[0] for _ in range(3)) for w in learners}
    print(f"narrow student: {spent[0.2]:.2f} s a ratio, {spent[0.2] / spent[None]:.1f} times full width", flush=True)


def solvers(d: int = 50, samples: int = 1250) -> None:
    import cvxpy
    from sklearn.linear_model import LogisticRegression
    from sklearn.linear_model import Ridge as PlainRidge

    rng = np.random.default_rng(0)
    design = DenseDesign.sample(samples, (d, d), rng)
    fields = design.forward(rng.standard_normal((d, 15)) @ rng.standard_normal((15, d)) / np.sqrt(15), 0)
    inputs, labels, signs = (
        design.inputs[0].reshape(samples, -1) / d,
        fields + rng.standard_normal(samples),
        np.sign(fields),
    )
    limit = Iteration(tolerance=1e-6, max_iterations=20000)
    ours, _ = seconds(lambda: least_risk(EmpiricalRisk(design, labels, Square(), ElasticNet(1.0)), limit))
    matrix = cvxpy.Variable((d, d))
    cost = 0.5 * cvxpy.sum_squares(inputs @ cvxpy.vec(matrix, order="C") - labels) + cvxpy.normNuc(matrix)
    theirs, _ = seconds(lambda: cvxpy.Problem(cvxpy.Minimize(cost)).solve(solver="SCS", eps=1e-5))
    print(f"square with nuclear norm, D = {d}: {ours:.2f} s, general solver {theirs:.2f} s, ratio {theirs / ours:.1f}")
    for name, loss, y, other in (
        ("square with ridge", Square(), labels, PlainRidge(alpha=0.5, fit_intercept=False)),
        ("logistic with ridge", Logistic(), signs, LogisticRegression(C=2.0, fit_intercept=False, max_iter=1000)),
    ):
        theirs, _ = seconds(lambda other=other, y=y: other.fit(inputs, y))
        risk, matrix = EmpiricalRisk(design, y, loss, ElasticNet(0.0, 0.5)), other.coef_.reshape(d, d)
        gap = max(certified_gap(risk, matrix), 1e-10)
        equal = Iteration(tolerance=gap, max_iterations=20000)
        ours, _ = seconds(lambda risk=risk, equal=equal: least_risk(risk, equal))
        text = f"{ours:.3f} s, scikit-learn {theirs:.3f} s, ratio {theirs / ours:.1f}"
        print(f"{name}, D = {d}, to a gap of {gap:.0e}: {text}")


def estimators(d: int = 50, samples: int = 5000, strengths: int = 20) -> None:
    """Cross-validated fits: a path of nuclear norms in five folds beside ridge regression on the flattened inputs."""
    from sklearn.linear_model import RidgeCV

    from glassformer.sklearn import BilinearRegressor

    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((samples, d, d))
    signal = rng.standard_normal((d, 10)) @ rng.standard_normal((10, d)) / np.sqrt(10)
    targets = np.einsum("nld,ld->n", inputs, signal) / d + 0.3 * rng.standard_normal(samples)
    ours, _ = seconds(lambda: BilinearRegressor(strengths=strengths).fit(inputs, targets))
    ridge, flat = RidgeCV(alphas=np.geomspace(1.0, 1e5, strengths)), inputs.reshape(samples, -1)
    theirs, _ = seconds(lambda: ridge.fit(flat, targets))
    print(f"fit of {samples} x {d} x {d}, {strengths} strengths: {ours:.1f} s, RidgeCV {theirs:.1f} s")
    print(f"ratio {ours / theirs:.2f}")
    tracemalloc.start()
    BilinearRegressor(strengths=3).fit(inputs, targets)
    print(
        f"most memory of the fit beyond the inputs, in those: {tracemalloc.get_traced_memory()[1] / inputs.nbytes:.1f}"
    )
    tracemalloc.stop()


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    curves(*((4,) if quick else ()))
    narrow()
    solvers(*((8, 100) if quick else ()))
    estimators(*((6, 100, 3) if quick else ()))
