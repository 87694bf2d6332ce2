"""Paths of strengths and cross-validation: agreement with single minimisers, other solvers and theory."""

import cvxpy
import numpy as np
import pytest
import scipy.optimize
from sklearn.linear_model import LogisticRegression

from glassformer import BilinearSequenceRegression, IncompatibleError, RegularisedRisk, limits
from glassformer.core.errors import DataWarning
from glassformer.core.settings import Iteration
from glassformer.data_analysis import cross_validate, leave_one_out, risk_path
from glassformer.designs.dense import DenseDesign
from glassformer.designs.pooled import PooledDesign
from glassformer.errors import DataError, ParameterError
from glassformer.learners.empirical_risk import EmpiricalRisk
from glassformer.learners.leave_one_out import ridge_leave_one_out
from glassformer.learners.multiclass import MulticlassDesign, SoftmaxLoss, best_intercepts
from glassformer.learners.proximal_gradient import least_risk
from glassformer.learners.risk_path import PenalisedProblem
from glassformer.learners.validation import out_of_fold_predictions
from glassformer.learners.weighted_losses import BestIntercept, Intercept, WeightedLoss
from glassformer.risk.losses import Hinge, Huber, Logistic, Square, loss_of
from glassformer.risk.penalties import ElasticNet

ACCURATE = Iteration(tolerance=1e-8, max_iterations=20000)


def data(sign=False, d=8, samples=100, seed=3):
    rng = np.random.default_rng(seed)
    design = DenseDesign.sample(samples, (d, d), rng)
    fields = design.forward(np.outer(rng.standard_normal(d), rng.standard_normal(d)), 0) + 0.3
    labels = fields + 0.5 * rng.standard_normal(samples)
    return design, np.where(labels > 0, 1.0, -1.0) if sign else labels


@pytest.mark.parametrize(("loss", "sign"), [("square", False), ("logistic", True), ("huber", False)])
def test_every_point_of_a_path_is_the_minimiser(loss, sign):
    design, labels = data(sign)
    path = risk_path(design, labels, loss, strengths=[0.3, 3.0, 1.0], settings=ACCURATE)
    assert path.converged and path.strengths.tolist() == [3.0, 1.0, 0.3]
    # Newton steps: some hundreds without them.
    assert path.iterations < 30
    for strength, estimate in zip(path.strengths, path.estimates, strict=True):
        kind = {"square": Square(), "logistic": Logistic(), "huber": Huber()}[loss]
        alone = least_risk(EmpiricalRisk(design, labels, kind, ElasticNet(strength * 8**0.5)), ACCURATE)
        np.testing.assert_allclose(estimate, alone.value[0], atol=2e-3)


@pytest.mark.parametrize(("loss", "sign"), [("square", False), ("logistic", True)])
def test_the_first_estimate_of_a_path_is_zero_and_the_second_is_not(loss, sign):
    largest = risk_path(*data(sign), loss, strengths=2, intercept=True).strengths[0]
    path = risk_path(*data(sign), loss, strengths=largest * np.array([1.0, 0.9, 0.7]), intercept=True)
    assert path.ranks[0] == 0 and path.ranks[1] == 1 and path.ranks[2] >= 1


def test_intercept_and_ridge_are_those_of_a_general_solver():
    design, labels = data(sign=True)
    path = risk_path(design, labels, "logistic", "ridge", [0.5], intercept=True, settings=ACCURATE)
    inputs = design.inputs[0].reshape(len(labels), -1) / 8

    def objective(s):
        return np.sum(np.logaddexp(0, -labels * (inputs @ s[1:] + s[0]))) + 0.25 * s[1:] @ s[1:]

    other = scipy.optimize.minimize(objective, np.zeros(65), method="BFGS", options={"gtol": 1e-6})
    assert path.intercepts[0] == pytest.approx(other.x[0], abs=2e-3)
    np.testing.assert_allclose(path.estimates[0].ravel(), other.x[1:], atol=2e-3)


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_weights_are_repetitions(loss):
    design, labels = data(sign=loss == "logistic")
    times = np.random.default_rng(0).integers(0, 3, len(labels))
    again = np.repeat(np.arange(len(labels)), times)
    settings = {"strengths": [2.0, 0.7], "intercept": True, "settings": ACCURATE}
    one = risk_path(design, labels, loss, weights=times, **settings)
    other = risk_path(design.rows(again), labels[again], loss, **settings)
    np.testing.assert_allclose(one.estimates, other.estimates, atol=3e-3)
    np.testing.assert_allclose(one.intercepts, other.intercepts, atol=3e-3)


@pytest.mark.parametrize("inner", [Logistic(), Square(), Huber(0.5), Hinge()])
def test_derived_losses_satisfy_the_identities_of_a_loss(inner):
    """Value and conjugate meet at the slope, and the proximal map is the minimiser."""
    rng = np.random.default_rng(0)
    y, h, v = np.sign(rng.standard_normal(30)), rng.standard_normal(30), 0.7
    for loss in (WeightedLoss(inner, rng.random(30) + 0.1), WeightedLoss(inner, shift=0.4)):
        p = loss.proximal(y, h, v)
        g = loss.score(y, h, v)[0]
        np.testing.assert_allclose(g, (p - h) / v, atol=1e-9)
        np.testing.assert_allclose(loss.value(y, p) + loss.conjugate(y, -g), -g * p, atol=1e-9)


@pytest.mark.slow
def test_the_best_strength_is_about_that_of_the_theory():
    """In the loss of new samples, which is flat around it: within its standard error of the theory's best."""
    model = BilinearSequenceRegression(beta=1, rho=0.1, noise=0.3)
    rng = np.random.default_rng(0)
    design = DenseDesign.sample(320, (20, 20), rng)
    labels = model.channel.sample(design.forward(model.prior.sample((20, 20), rng), 0), rng)
    best = float(limits(model, [0.8], RegularisedRisk())["strength"][0])
    found = cross_validate(design, labels, strengths=12)
    assert found.converged and not found.at_the_end and found.simplest >= found.best
    there = np.interp(-np.log(best), -np.log(found.strengths), found.mean)
    least = int(np.argmin(found.mean))
    assert there <= found.mean[least] + found.standard_error[least]


@pytest.mark.slow
def test_folds_are_disjoint_and_hold_both_classes():
    design, labels = data(sign=True)
    found = cross_validate(design, labels, "logistic", strengths=4, folds=4)
    assert found.losses.shape == (4, 4) and np.all(found.losses[:, 0] < 1)
    again = cross_validate(design, labels, "logistic", strengths=4, folds=4)
    np.testing.assert_array_equal(found.losses, again.losses)


def windows(samples=200, length=12):
    """Windows of a smooth series with a season, and the values that follow: weak directions of the inputs matter."""
    rng, time = np.random.default_rng(0), np.arange(samples + length)
    series = 0.02 * time + 3 * np.sin(2 * np.pi * time / 52) + 0.05 * rng.standard_normal(samples + length)
    inputs = np.lib.stride_tricks.sliding_window_view(series[:-1], length)
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    labels = series[length:] - series[length:].mean()
    return DenseDesign(np.ascontiguousarray(inputs.reshape(samples, 3, length // 3))), labels / labels.std()


@pytest.mark.parametrize("penalty", ["nuclear", "ridge"])
def test_a_grid_of_strengths_is_extended_until_the_best_lies_inside(penalty):
    design, labels = windows()
    found = cross_validate(design, labels, penalty=penalty, strengths=10)
    assert not found.at_the_end and found.strengths[-1] < found.best < 5e-4 * found.strengths[0]
    assert np.all(np.diff(np.log(found.strengths)) < 0) and found.losses.shape == (5, len(found.strengths))
    assert found.mean.min() < 0.5 * found.mean[9]
    with pytest.warns(DataWarning, match=r"best strength, .* is the smallest of the search.*: give smaller strengths"):
        given = cross_validate(design, labels, penalty=penalty, strengths=found.strengths[:10])
    np.testing.assert_array_equal(given.losses, found.losses[:, :10])


def test_the_search_for_a_strength_ends_where_the_loss_no_longer_changes():
    """At interpolation of the labels; at ridge estimates of zero, where labels have no signal; and at exact fits."""
    design, noise = data()[0], np.random.default_rng(1).standard_normal(100)
    fields = design.forward(np.random.default_rng(2).standard_normal((8, 8)), 0)
    few = cross_validate(design.rows(np.arange(100) < 45), fields[:45], penalty="ridge", strengths=[1e-6, 1e-7])
    exact = cross_validate(design, fields, penalty="ridge", strengths=6)
    none = cross_validate(design, noise, penalty="ridge", strengths=6)
    assert not few.at_the_end and few.mean.min() > 0.1 * np.mean(fields**2)
    assert exact.best == exact.strengths[-1] < 1e-3 * exact.strengths[0]
    assert exact.mean.min() < 1e-5 * exact.mean[0] and not exact.at_the_end
    assert none.best == none.strengths[0] and none.mean[0] == pytest.approx(np.mean(noise**2) / 2, rel=1e-3)
    with pytest.warns(DataWarning, match="best strength, .* is the largest of the search.*: give larger strengths"):
        cross_validate(design, noise, penalty="ridge", strengths=[0.1, 1.0])


def test_a_search_without_convergence_says_so():
    design, labels = windows()
    with pytest.warns(DataWarning, match="increase max_iterations, since fits did not converge"):
        cross_validate(design, labels, strengths=3, settings=Iteration(tolerance=1e-12, max_iterations=1))


def test_folds_without_training_samples_of_a_class_do_not_count():
    """Their best intercept is infinite, and so is their loss."""
    rng = np.random.default_rng(0)
    design, classes = DenseDesign.sample(41, (2, 3), rng), np.append(np.arange(40) % 2, 2)
    with pytest.warns(DataWarning, match=r"not count 1 of 5 folds, whose training samples lack a class with 1 sample"):
        found = cross_validate(MulticlassDesign(design, 3), np.eye(3)[classes], SoftmaxLoss(), strengths=[0.5])
    assert found.losses.shape == (4, 1) and np.all(found.losses < 2)
    with pytest.raises(DataError, match=r"y = '<a class with 1 sample>' .*classes that can be held out"):
        cross_validate(design, np.where(classes == 2, 1.0, -1.0), "logistic", strengths=3, intercept=True)
    # Labels +1 and -1 are classes for the square loss as well.
    labels = np.where(np.arange(41) < 2, 1.0, -1.0)
    assert cross_validate(design, labels, strengths=[1.0], folds=2).losses.shape == (2, 1)
    # Their intercept is finite without a class.
    found = cross_validate(design, np.where(classes == 2, -1.0, 1.0), "square", "ridge", [1.0], intercept=True)
    assert found.losses.shape == (5, 1) and np.all(found.losses < 2)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"strengths": [0.0, 1.0]}, ParameterError, "strengths = .*> 0"),
        ({"strengths": 1}, ParameterError, "strengths = 1 .*>= 2"),
        ({"loss": "log"}, ParameterError, "loss = 'log'"),
        ({"penalty": "lasso"}, ParameterError, "penalty = 'lasso'"),
        ({"loss": "logistic"}, DataError, "y = .*the labels of loss logistic"),
        ({"weights": -np.ones(100)}, ParameterError, "weights = .*>= 0"),
    ],
)
def test_invalid_arguments_raise(arguments, error, words):
    with pytest.raises(error, match=words):
        risk_path(*data(), **arguments)
    with pytest.raises(ParameterError, match="folds = 101"):
        cross_validate(*data(), folds=101)


@pytest.mark.parametrize("fold", [np.arange(100) < 50, [-1], [100], [], np.arange(100)])
def test_folds_are_indices_of_a_part_of_the_samples(fold):
    with pytest.raises(ParameterError, match=r"folds = .*indices from 0 to 99"):
        out_of_fold_predictions(*data(), 0.1, folds=[fold])


def test_folds_without_weight_have_no_loss():
    rng = np.random.default_rng(0)
    design, labels, weights = DenseDesign.sample(12, (2, 2), rng), rng.standard_normal(12), np.repeat([0.0, 1.0], 6)
    found = cross_validate(design, labels, strengths=[0.1], folds=12, weights=weights)
    kept = cross_validate(design.rows(weights > 0), labels[6:], strengths=[0.1], folds=6)
    assert sorted(found.losses.ravel()) == pytest.approx(sorted(kept.losses.ravel()), rel=1e-3)


def test_stopped_path_has_status_iteration_limit():
    path = risk_path(*data(), strengths=[0.1], settings=Iteration(tolerance=1e-10, max_iterations=2))
    assert not path.converged and path.gaps[0] > 1e-10


def attention(samples=80):
    rng = np.random.default_rng(0)
    tokens, w = rng.standard_normal((samples, 3, 6)), rng.standard_normal((2, 6))
    labels = np.sum((tokens @ w[0]) ** 2 - 0.5 * (tokens @ w[1]) ** 2, axis=1) / 6
    return PooledDesign(tokens, 3 * np.eye(6)), labels + 0.2 * rng.standard_normal(samples)


@pytest.mark.parametrize(
    ("make", "loss", "penalty"),
    [
        (data, Square(), "nuclear"),
        (data, Huber(), "elastic"),
        (data, Square(), "ridge"),
        (attention, Square(), "trace"),
    ],
)
def test_out_of_fold_predictions_equal_separate_fits(make, loss, penalty):
    """One step from the minimiser ends where the others have theirs, but for what is of second order in a sample."""
    design, labels = make()
    whole = risk_path(design, labels, loss, penalty, [0.5], intercept=True, settings=ACCURATE)
    shift, estimate = float(whole.intercepts[0]), whole.estimates[0]
    found = leave_one_out(design, labels, estimate, 0.5, loss, penalty, intercept=shift)
    alone, seen = [], design.forward(estimate, 0) + shift
    for k in range(6):
        others = np.arange(design.samples) != k
        path = risk_path(design.rows(others), labels[others], loss, penalty, [0.5], intercept=True, settings=ACCURATE)
        alone.append(design.forward(path.estimates[0], 0)[k] + path.intercepts[0])
    moved = np.sqrt(np.mean((np.array(alone) - seen[:6]) ** 2))
    first = 1e-2 if penalty == "ridge" and isinstance(loss, Square) else 0.2
    assert np.sqrt(np.mean((found.fields[:6] - alone) ** 2)) < first * moved


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("given", ["asked for", "value"])
def test_a_constant_is_left_out_where_one_was_fitted(constant, given):
    """Of a ridge the hat matrix tells; a constant that nobody fitted costs no degree of freedom."""
    design, labels = data(samples=70)
    path = risk_path(design, labels, "square", "ridge", [0.05], intercept=constant, settings=ACCURATE)
    intercept = constant if given == "asked for" else float(path.intercepts[0])
    found = leave_one_out(design, labels, path.estimates[0], 0.05, "square", "ridge", intercept=intercept)
    inputs = np.column_stack([design.inputs[0].reshape(70, -1) / 8, *([np.ones(70)] if constant else [])])
    bend = np.diag([0.05] * 64 + [0.0] * constant)
    hat = inputs @ np.linalg.solve(inputs.T @ inputs + bend, inputs.T)
    residuals = (labels - hat @ labels) / (1 - np.diag(hat))
    # Gaps of 1e-8 are residuals of their root, which single samples amplify.
    np.testing.assert_allclose(labels - found.fields, residuals, atol=1e-2)
    assert found.degrees == pytest.approx(np.trace(hat), rel=1e-6)


@pytest.mark.parametrize("samples", [60, 66, 90])
def test_ridge_leave_one_out_is_exact_at_any_degrees_of_freedom(samples):
    design, labels = data(samples=samples)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, samples)
    inputs, alone = np.column_stack([design.inputs[0].reshape(samples, -1) / 8, np.ones(samples)]), []
    for k in range(samples):
        own = np.where(np.arange(samples) == k, 0.0, weights)[:, None] * inputs
        bend = np.diag([1e-4] * 64 + [0.0])
        alone.append(inputs[k] @ np.linalg.solve(own.T @ inputs + bend, own.T @ labels))
    np.testing.assert_allclose(ridge_leave_one_out(design, labels, 1e-4, weights), alone, rtol=1e-6, atol=1e-8)


def test_leave_one_out_estimates_the_error_on_new_samples():
    rng = np.random.default_rng(0)
    design, new = DenseDesign.sample(400, (16, 16), rng), DenseDesign.sample(4000, (16, 16), rng)
    signal = rng.standard_normal((16, 2)) @ rng.standard_normal((2, 16)) / np.sqrt(2)
    labels, later = (one.forward(signal, 0) + 0.5 * rng.standard_normal(one.samples) for one in (design, new))
    estimate = risk_path(design, labels, strengths=[0.3]).estimates[0]
    found = leave_one_out(design, labels, estimate, 0.3)
    true = np.mean((new.forward(estimate, 0) - later) ** 2)
    # Four standard deviations of the mean of 400 squares.
    assert abs(np.mean((found.fields - labels) ** 2) / true - 1) < 4 * np.sqrt(2 / 400)
    assert np.mean((design.forward(estimate, 0) - labels) ** 2) < 0.6 * true
    with pytest.raises(IncompatibleError, match="loss hinge has kinks"):
        leave_one_out(design, np.sign(labels), estimate, 0.3, "hinge")


@pytest.mark.parametrize("unit", [1e-6, 1e-15])
def test_leave_one_out_does_not_depend_on_the_unit_of_the_labels(unit):
    design, labels = data()
    labels = labels + 2.0
    estimate = risk_path(design, labels, penalty="ridge", strengths=[0.3], intercept=True).estimates[0]
    found, scaled = (
        leave_one_out(design, one * labels, one * estimate, 0.3, "square", "ridge", intercept=True).fields
        for one in (1.0, unit)
    )
    # The search for the intercept ends at 1e-10 of the size of the data.
    np.testing.assert_allclose(scaled / unit, found, rtol=1e-8)


@pytest.mark.slow
def test_several_classes_at_once_are_multinomial_regression():
    """With the ridge penalty scikit-learn has the same problem, constants without penalty included."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((120, 2, 3))
    odds = inputs.reshape(120, 6) @ rng.standard_normal((6, 3)) + [0.0, 1.0, -1.0]
    classes = np.argmax(odds + rng.gumbel(size=odds.shape), axis=1)
    design = MulticlassDesign(DenseDesign(inputs), 3)
    path = risk_path(design, np.eye(3)[classes], SoftmaxLoss(), "ridge", [0.5], intercept=True, settings=ACCURATE)
    # Fields are in units of the root of the number of entries.
    flat = inputs.reshape(120, 6) / np.sqrt(6)
    theirs = LogisticRegression(C=1 / 0.5, tol=1e-10, max_iter=5000).fit(flat, classes)
    np.testing.assert_allclose(path.estimates[0].reshape(3, 6), theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(path.intercepts[0], theirs.intercept_ - theirs.intercept_.mean(), atol=2e-3)
    low = risk_path(design, np.eye(3)[classes], SoftmaxLoss(), "nuclear", 4, intercept=True)
    assert low.converged
    assert not low.estimates[0].any()


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_intercept_and_estimate_are_the_joint_minimum(loss):
    """The minimum over both, certified: slopes sum to zero, and no shift of the intercept brings less."""
    rng = np.random.default_rng(0)
    design = DenseDesign.sample(120, (6, 6), rng)
    fields = 3 * design.forward(np.outer(rng.standard_normal(6), rng.standard_normal(6)), 0)
    labels = np.where(fields + rng.standard_normal(120) > -1.5, 1.0, -1.0) if loss == "logistic" else fields + 2
    sharp = Iteration(tolerance=1e-9, max_iterations=20_000)
    path = risk_path(
        design, labels, loss, strengths=[0.5], intercept=True, settings=sharp, weights=1 + np.arange(120) % 3
    )
    assert path.converged
    risks = []
    for shift in path.intercepts[0] + np.array([-0.1, 0.0, 0.1]):
        weighted = WeightedLoss(loss_of(loss), 1.0 + np.arange(120) % 3)
        risk = EmpiricalRisk(design, labels, WeightedLoss(weighted, shift=float(shift)), ElasticNet(0.5 * np.sqrt(6)))
        found = least_risk(risk, sharp).value[0]
        penalty = risk.penalty.absolute * np.linalg.norm(found, "nuc")
        risks.append(float(np.sum(risk.loss.value(labels, design.forward(found, 0)))) + penalty)
        if shift == path.intercepts[0]:
            np.testing.assert_allclose(path.estimates[0], found, atol=1e-3 * np.linalg.norm(found))
    assert risks[1] < min(risks[0], risks[2])


def test_fields_from_stored_moments_equal_those_of_tokens():
    """Many tokens for their dimension are kept as second moments; split in two samples they are not."""
    rng = np.random.default_rng(0)
    tokens, signal, score = rng.standard_normal((40, 6, 5)), rng.standard_normal((5, 5)), rng.standard_normal(40)
    signal, centre = signal + signal.T, np.eye(5)
    kept = PooledDesign(tokens, centre)
    apart = PooledDesign(tokens.reshape(120, 2, 5), centre / 3)
    assert kept._pair_moments is not None and apart._pair_moments is None
    np.testing.assert_allclose(kept.forward(signal, 0), apart.forward(signal, 0).reshape(40, 3).sum(axis=1))
    np.testing.assert_allclose(kept.adjoint(score, 0), apart.adjoint(np.repeat(score, 3), 0))


@pytest.mark.parametrize(("penalty", "strength"), [("ridge", 0.1), ("nuclear", 1.0)])
@pytest.mark.parametrize("positive", [1, 20])
def test_the_intercept_of_a_hinge_is_that_of_a_general_solver(penalty, strength, positive):
    """Intercept and estimate that are each best for the other need not be so together where a loss has kinks."""
    rng = np.random.default_rng(2)
    design = DenseDesign.sample(60, (4, 5), rng)
    fields = 3 * design.forward(np.outer(rng.standard_normal(4), rng.standard_normal(5)), 0) + rng.standard_normal(60)
    labels = np.where(fields >= np.sort(fields)[-positive], 1.0, -1.0)
    settings = Iteration(tolerance=1e-4, max_iterations=5000)
    path = risk_path(design, labels, "hinge", penalty, [strength], intercept=True, settings=settings)
    assert path.converged
    one = PenalisedProblem.of(design, labels, "hinge", penalty, True, None).at(strength)
    unit = one.metric_unit(np.ones((4, 5)))

    matrix, shift = cvxpy.Variable(20), cvxpy.Variable()
    margins = cvxpy.multiply(labels, design.inputs[0].reshape(60, 20) @ matrix / np.sqrt(20) + shift)
    spectral = cvxpy.normNuc(cvxpy.reshape(matrix, (4, 5), order="C")) if one.penalty.absolute else 0.0
    cost = unit * (one.penalty.absolute * spectral + 0.5 * one.penalty.square * cvxpy.sum_squares(matrix))
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.pos(1 - margins)) + cost))
    problem.solve(solver="CLARABEL")
    found, b = path.estimates[0], float(path.intercepts[0])
    own = np.sum(np.maximum(0, 1 - labels * (design.forward(found, 0) + b)))
    own += unit * (one.penalty.absolute * np.linalg.norm(found, "nuc") + 0.5 * one.penalty.square * np.sum(found**2))
    of_zero = np.sum(np.maximum(0, 1 - labels * b))
    assert -1e-6 <= (own - problem.value) / of_zero <= 1e-4


def test_intercepts_of_one_class_have_its_sign():
    design = DenseDesign.sample(30, (3, 3), np.random.default_rng(0))
    for sign in (1.0, -1.0):
        path = risk_path(design, np.full(30, sign), "logistic", "nuclear", [0.3], intercept=True)
        assert sign * path.intercepts[0] > 10
        np.testing.assert_array_equal(path.estimates[0], 0.0)


@pytest.mark.parametrize("loss", ["square", "huber"])
def test_labels_far_from_zero_are_certified_as_well(loss):
    rng = np.random.default_rng(0)
    design = DenseDesign.sample(60, (5, 5), rng)
    labels = 1e6 + design.forward(np.outer(rng.standard_normal(5), rng.standard_normal(5)), 0)
    path = risk_path(
        design,
        labels,
        loss,
        strengths=[0.3, 0.03],
        intercept=True,
        settings=Iteration(tolerance=1e-8, max_iterations=2000),
    )
    assert path.converged


def test_the_best_intercept_of_very_unequal_weights_is_exact():
    """Slopes of the lighter class are a ten-millionth of those of the other, and still have to cancel these."""
    y, h = np.repeat([1.0, -1.0], [28, 12]), 30 * np.random.default_rng(0).standard_normal(40)
    loss = BestIntercept(WeightedLoss(Logistic(), np.where(y > 0, 1e-4, 1e3)), Intercept())
    assert abs(np.sum(loss.slope(y, h))) < 1e-15
    classes, h = np.eye(3)[np.arange(60) % 3], 5 * np.random.default_rng(0).standard_normal((60, 3))
    softmax = WeightedLoss(SoftmaxLoss(), (classes @ [1e3, 1.0, 1e-4])[:, None])
    slopes = softmax.slope(classes, h + best_intercepts(softmax, classes, h, np.zeros(3))).sum(axis=0)
    assert np.max(np.abs(slopes)) < 1e-9


def test_leave_one_out_has_no_samples_without_weight():
    design, labels = data()
    with pytest.raises(ParameterError, match="weights = 0 is not allowed: expected numbers > 0"):
        leave_one_out(design, labels, np.zeros((8, 8)), 0.3, weights=np.arange(100.0))


def test_groups_of_folds():
    design, labels = DenseDesign.sample(8, (2, 2), np.random.default_rng(0)), np.arange(8.0)
    with pytest.raises(ParameterError, match=r"one group of 8 samples.*two or more groups"):
        cross_validate(design, labels, groups=np.zeros(8), folds=2)
    with pytest.raises(ParameterError, match="positive in 1 of 2 folds"):
        cross_validate(design, labels, weights=[1.0] + [0.0] * 7, folds=2)
    with pytest.raises(IncompatibleError, match="groups and the indices of the folds exclude each other"):
        out_of_fold_predictions(design, labels, 1.0, folds=[[0], [1]], groups=np.arange(8) % 2)


def test_problems_without_a_path_or_an_approximation_are_refused():
    design, labels = DenseDesign.sample(12, (3, 3), np.random.default_rng(0)), np.arange(12.0)
    for penalty, words in (("pinned", "pinned has none"), ("trace", "nuclear, ridge or elastic for these inputs")):
        with pytest.raises(ParameterError, match=words):
            risk_path(design, labels, penalty=penalty)
    nothing = leave_one_out(design, labels, np.zeros((3, 3)), 100.0)
    assert (nothing.degrees, np.ptp(nothing.fields)) == (0, 0)
    with pytest.raises(ParameterError, match="finite entries"):
        leave_one_out(design, labels, np.full((3, 3), np.nan), 1.0)
    classes = MulticlassDesign(design, 3), np.eye(3)[np.arange(12) % 3]
    with pytest.raises(IncompatibleError, match="several classes: use out_of_fold"):
        leave_one_out(*classes, np.zeros((3, 3, 3)), 1.0, SoftmaxLoss())


def interpolated(d=10, samples=60):
    rng = np.random.default_rng(5)
    signal = np.outer(rng.standard_normal(d), rng.standard_normal(d))
    inputs = rng.standard_normal((samples, d, d))
    return DenseDesign(inputs), np.einsum("nij,ij->n", inputs, signal) / d, signal


@pytest.mark.parametrize("strengths", [[1e-4], [1e-6], [1e-8], [1e-12], [1e-20], [1.0, 1e-6]])
def test_small_strengths_are_at_their_minimum(strengths):
    """The signal fits all labels, so that no minimiser has a larger norm; cvxpy finds the same norm."""
    design, labels, signal = interpolated()
    path = risk_path(design, labels, strengths=strengths)
    assert path.converged and path.gaps[-1] <= 1e-4
    assert np.linalg.norm(path.estimates[-1], "nuc") == pytest.approx(np.linalg.norm(signal, "nuc"), rel=2e-4)


def test_completion_at_a_small_strength_is_the_minimum_nuclear_norm_interpolator():
    rng = np.random.default_rng(1)
    matrix, seen = np.outer(rng.standard_normal(5), rng.standard_normal(5)), rng.permutation(25)[:21]
    design = DenseDesign(5 * np.eye(25)[seen].reshape(21, 5, 5))
    path = risk_path(design, matrix.ravel()[seen], strengths=[1e-8])
    unknown = cvxpy.Variable((5, 5))
    fits = [unknown[k // 5, k % 5] == matrix.flat[k] for k in seen]
    least = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(unknown)), fits).solve(solver="CLARABEL")
    assert path.converged and np.linalg.norm(path.estimates[0], "nuc") == pytest.approx(least, rel=1e-3)


@pytest.mark.parametrize("loss", ["square", "huber"])
def test_an_estimate_of_zero_converges(loss):
    design, labels, _ = interpolated()
    for y, strength in ((labels, 1e3), (0 * labels, 1e-9)):
        path = risk_path(design, y, loss, strengths=[strength])
        assert path.converged and path.gaps[0] == 0 and not path.estimates.any()


def test_a_strength_out_of_reach_has_a_status():
    design, labels, _ = interpolated()
    path = risk_path(design, labels, strengths=[1e-9], settings=Iteration(tolerance=1e-4, max_iterations=20))
    assert [str(status) for status in path.status] == ["iteration_limit"] and path.gaps[0] > 1e-4


def test_a_path_goes_on_from_the_end_of_another():
    problem = PenalisedProblem.of(*data(), "square", "nuclear", False, None)
    strengths, settings = problem.strengths(8), Iteration(tolerance=1e-4, max_iterations=5000)
    whole, first = problem.path(strengths, settings), problem.path(strengths[:6], settings)
    end = float(first.strengths[-1]), first.estimates[-1], first.intercepts[-1]
    rest = problem.path(strengths[6:], settings, end)
    assert rest.converged and rest.iterations < 1.2 * (whole.iterations - first.iterations)
    assert np.linalg.norm(rest.estimates[-1] - whole.estimates[-1]) < 0.02 * np.linalg.norm(whole.estimates[-1])


@pytest.mark.parametrize(
    ("loss", "penalty", "limits"),
    [("square", "nuclear", (5, 9, 12)), ("square", "elastic", (3, 7, 9)), ("huber", "ridge", (7, 8, 21))],
)
def test_a_limit_of_steps_may_be_met_at_a_strength_in_between(loss, penalty, limits):
    rng = np.random.default_rng(0)
    design, labels = DenseDesign.sample(60, (6, 6), rng), rng.standard_normal(60)
    for limit in limits:
        settings = Iteration(tolerance=1e-4, max_iterations=limit)
        path = risk_path(design, labels, loss, penalty, strengths=[1e-4], settings=settings)
        assert str(path.status[0]) == "iteration_limit"


def test_small_ridge_strengths_of_dependent_samples_are_the_limit_of_zero():
    design, labels, _ = interpolated()
    design, labels = design.rows(np.arange(60) % 40), labels + np.random.default_rng(0).standard_normal(60)
    path = risk_path(design, labels, "square", "ridge", [1e-20])
    assert path.converged and path.gaps[0] < 1e-13
    inputs = design.inputs[0].reshape(60, 100) / 10
    np.testing.assert_allclose(path.estimates[0].ravel(), np.linalg.pinv(inputs) @ labels, atol=1e-8)
