"""Regularised risk of rows on data: certificates, agreement with scikit-learn, starts, and students of any shape."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import linear_model, svm

from glassformer import IncompatibleError, SequenceMultiIndex
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.designs.generated import GeneratedDesign
from glassformer.designs.projection import ProjectionDesign
from glassformer.errors import ParameterError
from glassformer.learners.data_set import DataSet
from glassformer.learners.empirical_row_risk import EmpiricalRowRisk, RiskPoint
from glassformer.learners.row_fit import learn_rows, row_risk_on
from glassformer.learners.row_risk import RowMinimum, minimise_along_path, minimise_rows
from glassformer.models.comparison import NewInputs
from glassformer.risk.losses import Huber, loss_of
from glassformer.risk.penalties import penalty_of
from glassformer.risk.rows.row_risk import RowRisk
from glassformer.risk.rows.student import Student, linear_prediction

SAMPLES, D, CLASSES = 120, 40, (0.0, 1.0, 2.0)
ACCURATE = Iteration(tolerance=1e-15, max_iterations=3000)


@cache
def data():
    """Inputs, labels that are numbers, signs and classes; fields alone would make separable signs."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((SAMPLES, 1, D))
    signal = rng.standard_normal(D) * (rng.random(D) < 0.4)
    y = inputs[:, 0] @ signal / np.sqrt(D) + 0.5 * rng.standard_normal(SAMPLES) + 0.3
    return inputs, y, np.sign(y), np.digitize(y, [-0.3, 0.8]).astype(float)


def risk_of(loss, penalty, strength, labels, intercept=False, rows=1, design=None, spectrum=None):
    loss = loss_of(loss)
    values = CLASSES[:rows] if loss.labels == "classes" else ()
    student = Student(linear_prediction, rows, 1, loss, values)
    design = ProjectionDesign(data()[0]) if design is None else design
    spectrum = np.ones(D) if spectrum is None else spectrum
    targets = student.targets(labels)
    return EmpiricalRowRisk(student, design, targets, penalty_of(penalty), strength, spectrum, None, intercept)


def features():
    return data()[0][:, 0] / np.sqrt(D)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["square", "logistic", "cross-entropy"])
def test_ridge_agrees_with_scikit_learn(loss, intercept):
    _, y, signs, classes = data()
    labels = {"square": y, "logistic": signs, "cross-entropy": classes}[loss]
    found = minimise_rows(
        risk_of(loss, "ridge", 0.3, labels, intercept, 3 if loss == "cross-entropy" else 1), None, ACCURATE
    )
    if loss == "square":
        other = linear_model.Ridge(0.3, fit_intercept=intercept, tol=1e-12)
    else:
        other = linear_model.LogisticRegression(C=1 / 0.3, fit_intercept=intercept, solver="newton-cholesky", tol=1e-12)
    other.fit(features(), labels)
    assert found.status is Status.CONVERGED and found.convex
    np.testing.assert_allclose(found.point.weights, np.atleast_2d(other.coef_), atol=1e-6)
    shift = found.point.intercept - other.intercept_
    np.testing.assert_allclose(shift, shift.mean() if loss == "cross-entropy" else 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "penalty", "other"),
    [
        ("square", "lasso", linear_model.Lasso(1 / SAMPLES, fit_intercept=False, tol=1e-12, max_iter=10**5)),
        ("square", "elastic", linear_model.ElasticNet(1 / SAMPLES, fit_intercept=False, tol=1e-12, max_iter=10**5)),
        ("squared-hinge", "ridge", svm.LinearSVC(C=0.5, fit_intercept=False, dual=False, tol=1e-12, max_iter=10**5)),
        (
            "squared-hinge",
            "lasso",
            svm.LinearSVC("l1", C=0.5, fit_intercept=False, dual=False, tol=1e-10, max_iter=10**5),
        ),
    ],
)
def test_other_penalties_and_losses_agree_with_scikit_learn(loss, penalty, other):
    _, y, signs, _ = data()
    labels = y if loss == "square" else signs
    found = minimise_rows(risk_of(loss, penalty, 1.0, labels), None, Iteration(tolerance=1e-9, max_iterations=3000))
    other.fit(features(), labels)
    assert found.status is Status.CONVERGED
    if penalty == "ridge":
        found = minimise_rows(risk_of(loss, penalty, 1.0, labels), None, ACCURATE)
    np.testing.assert_allclose(found.point.weights[0], np.ravel(other.coef_), atol=1e-6)


def test_huber_agrees_with_scikit_learn():
    """Of its scale, which it fits as well."""
    y, width = data()[1], 1.35
    other = linear_model.HuberRegressor(epsilon=width, alpha=0.5, fit_intercept=False, tol=1e-9, max_iter=10**4)
    other.fit(features(), y)
    scale = other.scale_
    risk = risk_of(Huber(width), "ridge", 0.5 * scale, y / scale)
    found, theirs = minimise_rows(risk, None, ACCURATE), risk.point(other.coef_[None] / scale)
    # The other solver ends some 1e-5 from the minimum.
    assert 0 <= theirs.risk - found.point.risk <= 1e-8 * found.point.risk
    np.testing.assert_allclose(scale * found.point.weights[0], other.coef_, atol=3e-4)


@pytest.mark.parametrize("penalty", ["ridge", "lasso", "elastic", "group"])
def test_the_gap_bounds_the_excess_risk(penalty):
    risk = risk_of("cross-entropy", penalty, 0.5, data()[3], intercept=True, rows=3)
    least = minimise_rows(risk, None, Iteration(tolerance=1e-8, max_iterations=3000))
    assert least.status is Status.CONVERGED and least.gap <= 1e-8
    if penalty in ("lasso", "group"):
        assert np.any(np.all(least.point.weights == 0, axis=0))
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1, 1.0):
        weights = least.point.weights + size * rng.standard_normal(risk.shape)
        point = risk.with_best_intercept(risk.point(weights, least.point.intercept))
        np.testing.assert_allclose(point.output_slope, 0, atol=1e-8)
        assert point.risk - least.point.risk <= risk.gap(point) * risk.risk_of_zero


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "huber"])
def test_losses_with_changing_curvature_reach_their_tolerance(loss):
    found = minimise_rows(risk_of(loss, "ridge", 0.3, data()[2], intercept=True))
    assert found.status is Status.CONVERGED and found.gap <= 1e-6


def test_without_penalty_separable_labels_have_no_minimum():
    inputs, _, signs, _ = data()
    separable = np.sign(inputs[:, 0] @ np.ones(D))
    assert minimise_rows(risk_of("logistic", "ridge", 0.0, separable)).status is Status.DIVERGING
    few = ProjectionDesign(inputs[:30])
    assert minimise_rows(risk_of("logistic", "lasso", 0.0, signs[:30], design=few)).status is Status.DIVERGING
    noisy = minimise_rows(risk_of("logistic", "ridge", 0.0, np.tile([1.0, -1.0], SAMPLES // 2)))
    assert noisy.status is Status.CONVERGED


def test_without_penalty_few_numbers_have_the_interpolator_of_least_norm():
    inputs, y, _, _ = data()
    found = minimise_rows(risk_of("square", "ridge", 0.0, y[:30], design=ProjectionDesign(inputs[:30])), None, ACCURATE)
    np.testing.assert_allclose(found.point.weights[0], np.linalg.lstsq(features()[:30], y[:30])[0], atol=1e-6)
    assert found.status is Status.CONVERGED


def test_too_few_steps_are_not_taken_for_a_minimum():
    for penalty in ("ridge", "lasso"):
        found = minimise_rows(risk_of("logistic", penalty, 0.1, data()[2]), None, Iteration(max_iterations=3))
        assert found.status is Status.ITERATION_LIMIT and found.gap > 1e-6


@pytest.mark.slow
def test_warm_started_path_takes_fewer_steps_than_separate_points():
    risk, strengths = risk_of("logistic", "lasso", 1.0, data()[2], intercept=True), np.geomspace(2, 0.2, 6)
    path = minimise_along_path(risk, strengths)
    alone = [minimise_rows(risk.at_strength(strength)) for strength in strengths]
    for one, other in zip(path, alone, strict=True):
        assert one.status.ok
        assert abs(one.point.risk - other.point.risk) <= 2e-6 * risk.risk_of_zero
    assert sum(one.iterations for one in path) < sum(one.iterations for one in alone)


@pytest.mark.parametrize("penalty", ["ridge", "elastic"])
def test_penalties_are_on_the_weights_of_features_as_they_are(penalty):
    _, y, _, _ = data()
    spectrum = np.repeat([1.9, 0.1], D // 2)
    found = minimise_rows(risk_of("square", penalty, 1.0, y, spectrum=spectrum), None, ACCURATE)
    if penalty == "ridge":
        other = linear_model.Ridge(1.0, fit_intercept=False, tol=1e-12)
    else:
        other = linear_model.ElasticNet(1 / SAMPLES, fit_intercept=False, tol=1e-12, max_iter=10**5)
    other.fit(features() * np.sqrt(spectrum), y)
    np.testing.assert_allclose(found.point.weights[0], np.ravel(other.coef_) * np.sqrt(spectrum), atol=1e-6)


def test_inputs_may_be_drawn_again_or_in_single_precision():
    generated = GeneratedDesign(ProjectionDesign, (1,), number=SAMPLES, shape=(1, D), block=50)
    stored = generated.stored()
    labels = np.sign(stored.forward(np.ones((1, D)), 0)[:, 0, 0])
    single = ProjectionDesign(stored.inputs[0].astype(np.float32))
    weights = [
        minimise_rows(risk_of("logistic", "ridge", 0.3, labels, design=design)).point.weights
        for design in (stored, generated, single)
    ]
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-3)
    np.testing.assert_allclose(weights[2], weights[0], atol=1e-3)


ATTENTION = SequenceMultiIndex(lambda z: jax.nn.softmax(z.T @ z, axis=1), 1, 2, noise=0.05)


def drawn(model, d, alpha, seed=0):
    size = model.at_size(d)
    rngs = [np.random.default_rng([seed, k]) for k in range(3)]
    design = size.design.sample(round(alpha * d), size.input_shape, rngs[1])
    teacher = model.prior.sample(model.signal_shape(design), rngs[0])
    labels = model.channel.sample(design.forward(teacher, 0), rngs[2])
    return DataSet(design, labels, seed, teacher=teacher), NewInputs(size.design, size.input_shape, (seed, 4))


@pytest.mark.slow
def test_attention_has_the_overlaps_of_theory_from_the_teacher():
    """Theory: power 0.872, overlap 0.874, training loss 0.0894."""
    dataset, new = drawn(ATTENTION, 200, 2.0, seed=4)
    found = learn_rows(RowRisk(strength=0.05, branch="informed"), ATTENTION, dataset)
    measured = found.measured(ATTENTION, dataset.teacher, new)
    assert found.status is Status.CONVERGED
    assert abs(measured["power"][0, 0] - 0.872) < 0.1 and abs(measured["overlap"][0, 0] - 0.874) < 0.1
    assert abs(found.training_loss - 0.0894) < 0.005


def test_energies_are_compared_in_units_of_the_risk_of_zero():
    point = RiskPoint(np.zeros((1, 2)), np.zeros(1), 1e-9, 1e-9, np.zeros((1, 2)), np.zeros(1))
    energies = np.array([1e-9, 1e-9 * (1 + 1e-9), 2e-9])
    found = RowMinimum(point, 0.0, Status.CONVERGED, 10, energies, convex=False, risk_of_zero=5e-9)
    assert "3 starts, 2 of which end there" in found.notes[0]


@pytest.mark.slow
def test_lowest_of_several_minima_is_returned():
    dataset, new = drawn(ATTENTION, 60, 2.0)
    risk, settings = (
        RowRisk(strength=0.05, branch="random,informed, zero"),
        Iteration(tolerance=1e-4, max_iterations=5000),
    )
    found = learn_rows(risk, ATTENTION, dataset, settings)
    assert found.energies.shape == (3,) and found.free_energy == found.energies.min()
    assert "not convex" in found.notes[0] and "3 starts" in found.notes[0]
    again = learn_rows(risk, ATTENTION, dataset, settings)
    np.testing.assert_array_equal(again.estimates, found.estimates)
    # Both signs of the row have the same labels: errors are those of the better one.
    flipped = learn_rows(RowRisk(strength=0.05, branch=[-dataset.teacher]), ATTENTION, dataset)
    assert flipped.measured(ATTENTION, dataset.teacher, new)["overlap"][0, 0] > 0


@pytest.mark.thorough
def test_students_may_have_more_rows_than_the_teacher():
    model = SequenceMultiIndex(lambda z: jnp.sign(jnp.tanh(z[0, 0]) + 0.5), 1, 1)
    dataset, new = drawn(model, 50, 4.0)

    def student(z):
        return jnp.tanh(z[0]) + jnp.tanh(z[1])

    risk = RowRisk("logistic", "ridge", 0.3, student, 2, intercept=True, branch=2)
    found = learn_rows(risk, model, dataset, Iteration(tolerance=1e-4, max_iterations=5000))
    measured = found.measured(model, dataset.teacher, new)
    assert found.estimates.shape == (1, 2, 50) and found.intercept.shape == (1,)
    assert measured["overlap"].shape == (2, 1) and measured["power"].shape == (2, 2)
    assert measured["cosine"].shape == (1,) and measured["cosine"][0] > 0.7
    # Without the intercept a third of the labels are on the wrong side.
    assert measured["label_error"] < 0.2 and found.intercept[0] > 0.3


def test_slopes_with_positions_are_derivatives():
    dataset, _ = drawn(ATTENTION, 30, 2.0)
    risk, _ = row_risk_on(RowRisk(strength=0.1, positions=[[1.0], [-1.0]]), ATTENTION, dataset)
    np.testing.assert_allclose(dataset.teacher @ risk.encodings.T, 0, atol=1e-10)
    np.testing.assert_allclose(risk.encodings @ risk.encodings.T, [[1, -1], [-1, 1]], atol=1e-12)
    rng = np.random.default_rng(0)
    weights, change = rng.standard_normal((2, 1, 30))
    point, step = risk.point(weights), 1e-6
    ahead, behind = (risk.point(weights + sign * step * change).loss for sign in (1, -1))
    np.testing.assert_allclose((ahead - behind) / (2 * step), np.sum(point.slope * change), rtol=1e-6)
    np.testing.assert_allclose(risk.fields(weights).mean(axis=0), risk.mean_fields(weights), atol=0.5)


def test_settings_that_do_not_go_with_the_data_are_refused():
    dataset, _ = drawn(ATTENTION, 30, 1.0)
    blind = DataSet(dataset.design, dataset.labels)
    for error, given, own in (
        (ParameterError, {"branch": "elsewhere"}, dataset),
        (ParameterError, {"branch": [np.ones((2, 30))]}, dataset),
        (ParameterError, {"positions": [[1.0]]}, dataset),
        (ParameterError, {"penalty": "nuclear"}, dataset),
        (IncompatibleError, {"branch": "informed"}, blind),
        (IncompatibleError, {"loss": "logistic"}, dataset),
    ):
        with pytest.raises(error):
            learn_rows(RowRisk(**{"strength": 0.1, **given}), ATTENTION, own)
