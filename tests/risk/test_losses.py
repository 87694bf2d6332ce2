"""One family of losses: the same object serves matrices, one row and students of several rows."""

from dataclasses import dataclass

import jax
import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, RegularisedRisk, SequenceMultiIndex, limits, simulate
from glassformer.errors import ParameterError
from glassformer.losses import CustomLoss, Huber, Loss, loss_of
from glassformer.risk.losses import LOSSES
from glassformer.risk.rows.student import student_of

LINE = SequenceMultiIndex(lambda z: z[0, 0], noise=0.5)


@pytest.mark.parametrize("loss", [*(loss_of(name) for name in LOSSES if name != "cross-entropy"), Huber(0.2)])
def test_the_form_for_vectors_is_the_sum_over_entries(loss):
    y, h = np.array([1.0, -1.0, 1.0]), np.array([-0.4, -2.1, 0.37])
    rounded = 1e-3 if loss.name == "hinge" else 1e-6
    assert float(loss.of_vectors(y, h)) == pytest.approx(loss.value(y, h).sum(), abs=rounded)
    if loss.name != "hinge":
        np.testing.assert_allclose(jax.grad(loss.of_vectors, argnums=1)(y, h), loss.slope(y, h), atol=1e-6)


@pytest.mark.slow
def test_runs_on_rows_have_the_knee_that_theory_has():
    learner = RegularisedRisk(Huber(0.1), strength=0.1)
    theory, runs = limits(LINE, [3.0], learner)["error"], simulate(LINE, [3.0], learner, d=150, instances=8)
    other = limits(LINE, [3.0], RegularisedRisk("huber", strength=0.1))["error"]
    bar = runs["standard_error"]
    assert abs(runs["error"] - theory) < 4 * bar < 0.5 * abs(theory - other) * 4


@dataclass(frozen=True)
class HalfSquare(Loss):
    """A loss as a user writes it: what must be there, and no more."""

    name = "half-square"

    def value(self, y, h):
        return 0.5 * (y - h) ** 2

    def score(self, y, omega, variance):
        g = (y - omega) / (1 + variance)
        return g, np.broadcast_to(1 / (1 + np.asarray(variance)), g.shape)


@pytest.mark.parametrize("model", [BilinearSequenceRegression(rho=0.3, noise=0.1), LINE])
def test_an_own_loss_serves_matrices_and_rows(model):
    own, named = (limits(model, [1.5], RegularisedRisk(loss, "ridge", 0.3)) for loss in (HalfSquare(), "square"))
    assert abs(own["error"] - named["error"]) <= own["error_estimate"] + named["error_estimate"]
    if model is LINE:
        runs = [simulate(model, [1.5], RegularisedRisk(loss, "ridge", 0.3), d=20) for loss in (HalfSquare(), "square")]
        np.testing.assert_allclose(runs[0]["error"], runs[1]["error"], rtol=1e-5)


def test_a_loss_that_is_not_convex_is_for_rows_alone():
    tukey = CustomLoss(lambda y, h: -(np.e ** (-((y - h) ** 2))), convex=False)
    with pytest.raises(ParameterError, match="convex in the field"):
        loss_of(tukey)
    assert not student_of(LINE, tukey).is_convex
    with pytest.raises(ParameterError, match="a function that JAX can differentiate"):
        student_of(SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1), loss_of("logistic").exact_fit)
