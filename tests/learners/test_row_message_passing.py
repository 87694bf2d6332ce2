"""Proximal message passing for rows: it ends at the minimiser, and every step has the errors of its theory."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, IncompatibleError, RegularisedRisk, SequenceMultiIndex, limits, simulate
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.learners.data_set import DataSet
from glassformer.learners.row_fit import row_risk_on
from glassformer.learners.row_message_passing import pass_row_messages
from glassformer.learners.row_risk import minimise_rows
from glassformer.risk.rows.row_risk import RowRisk
from glassformer.risk.rows.trajectory import row_risk_trajectory
from glassformer.verbs.trajectory import trajectory

SIGN = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0] + 0.4)).at_accuracy(Accuracy(points=256))
SPARSE = SequenceMultiIndex(lambda z: z[0, 0], noise=0.1, prior="gauss-bernoulli:0.2").at_accuracy(Accuracy(points=256))
CLASSES = SequenceMultiIndex(lambda z: z[:, 0].argmax(), indices=3).at_accuracy(Accuracy(points=256))
ATTENTION = SequenceMultiIndex(lambda z: jax.nn.softmax(z.T @ z, axis=1), 1, 2, noise=0.05).at_accuracy(
    Accuracy(points=256)
)


def drawn(model, d, alpha):
    size = model.at_size(d)
    rngs = [np.random.default_rng([0, k]) for k in range(3)]
    design = size.design.sample(round(alpha * d), size.input_shape, rngs[1])
    teacher = model.prior.sample(model.signal_shape(design), rngs[0])
    return DataSet(design, model.channel.sample(design.forward(teacher, 0), rngs[2]), teacher=teacher)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "alpha", "risk", "strength"),
    [
        (SIGN, 3.0, RowRisk("logistic", intercept=True), 0.3),
        (SPARSE, 1.5, RowRisk("square", "lasso"), 0.5),
        # The loss is in the next case, the penalty in the first.
        pytest.param(CLASSES, 3.0, RowRisk("cross-entropy"), 0.5, marks=pytest.mark.thorough),
        (CLASSES, 3.0, RowRisk("cross-entropy", "group"), 0.5),
    ],
)
def test_messages_end_at_the_minimiser(model, alpha, risk, strength):
    data = drawn(model, 100, alpha)
    found = pass_row_messages(risk, strength, model, data, 300)
    own, _ = row_risk_on(replace(risk, strength=strength), model, data)
    least = minimise_rows(
        own, None, Iteration(tolerance=1e-14 if risk.penalty == "ridge" else 1e-9, max_iterations=3000)
    )
    assert found.status is Status.CONVERGED and least.status is Status.CONVERGED
    np.testing.assert_allclose(found.estimates[0], least.point.weights, atol=1e-6)
    np.testing.assert_allclose(
        found.intercept - found.intercept[0], least.point.intercept - least.point.intercept[0], atol=1e-6
    )


@pytest.mark.slow
def test_steps_have_the_errors_of_theory():
    learner = RegularisedRisk("logistic", strength=0.3, intercept=True)
    table = trajectory(SIGN, [2.0], learner, steps=6, d=400, instances=4)
    gap = np.abs(table["measured_error"] - table["error"])[1:]
    assert np.all(gap < 4 * table["measured_standard_error"][1:] + 0.01)
    runs = simulate(SIGN, [2.0], learner, d=400, instances=4)
    np.testing.assert_allclose(table["measured_error"][-1], runs["error"][0], atol=0.01)


@pytest.mark.thorough
def test_steps_of_attention_have_the_errors_of_theory():
    table = trajectory(ATTENTION, [3.0], RegularisedRisk("square", strength=0.1), steps=3, d=400, instances=2)
    np.testing.assert_allclose(table["measured_error"][1:], table["error"][1:], atol=0.05)


@pytest.mark.thorough
def test_theory_ends_at_the_limit():
    risk = RowRisk("logistic", strength=0.3)
    model = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0])).at_accuracy(Accuracy(points=256))
    steps = row_risk_trajectory(model, np.array([2.0]), risk, np.array([0.3]), 15)
    limit = limits(model, [2.0], RegularisedRisk("logistic", strength=0.3))
    assert abs(steps["error"][-1] - limit["error"][0]) < 2 * steps["error_estimate"][-1] + 1e-3
    assert steps["error"][0] == 1 and steps.status[0] is Status.CONVERGED


def test_steps_without_a_theory_are_refused():
    for given in ({"positions": [1.0, -1.0]}, {"branch": "informed"}):
        with pytest.raises(IncompatibleError):
            trajectory(ATTENTION, [2.0], RegularisedRisk("square", strength=0.1, **given), steps=2)
    blind = drawn(ATTENTION, 30, 2.0)
    with pytest.raises(IncompatibleError, match="teacher"):
        pass_row_messages(RowRisk("square"), 0.1, ATTENTION, DataSet(blind.design, blind.labels), 5)
