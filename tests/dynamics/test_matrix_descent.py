"""Gradient descent on matrices in time: single steps, the mean of starts, the limit of large sizes, and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    AveragedGradientDescent,
    BilinearSequenceRegression,
    GradientDescent,
    IncompatibleError,
    limits,
    plan,
    trajectory,
)
from glassformer.core.results import error_column
from glassformer.designs.token_pairs import to_components
from glassformer.dynamics.matrix_descent import Rule, descend_matrix, student_of
from glassformer.dynamics.matrix_path import MatrixSettings, _drawn, extrapolate, inner
from glassformer.dynamics.mean_field_samples import (
    Samples,
    coordinate_samples,
    revealed_samples,
    trajectory_samples,
)
from glassformer.errors import ParameterError
from glassformer.learners.data_set import DataSet
from glassformer.learners.gradient_descent import descend

MODEL = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
LINEAR = AttentionIndexed(rho=0.5, tokens=2, channel="linear", noise=0.1)
SOFTMAX = AttentionIndexed(rho=0.5, tokens=2, channel="softmax")
FEW = Accuracy(matrix_size=40, draws=3)
SLOW = GradientDescent(learning_rate=0.2)


def data_of(model, d, alpha, seed=0):
    rng = np.random.default_rng(seed)
    size = model.at_size(d)
    design = size.design.sample(round(alpha * size.unit), size.input_shape, rng)
    signal = size.model.prior.sample(size.model.signal_shape(design), rng)
    return size.model, DataSet(design, size.model.channel.sample(design.forward(signal, 0), rng), seed, teacher=signal)


@pytest.mark.parametrize(("model", "curvature"), [(MODEL, 0.5), (LINEAR, 1.0)], ids=["bsr", "aim"])
def test_the_first_gradient_has_the_parts_of_infinitely_many_samples(model, curvature):
    # Along known signals the gradient is that of the population, and elsewhere it is noise of known power.
    size, alpha, rng = model.at_size(60), 0.7, np.random.default_rng(0)
    own, components = size.model, size.model.channel.fields.columns
    teacher = own.prior.sample((60, 60), rng)
    samples = coordinate_samples(size, alpha * size.unit, teacher, 10, rng)
    student = student_of(own, samples, own.matrix_prior.factor_width(60))
    start = [rng.standard_normal((1, *shape)) for shape in student.parameters]
    signals, errors = [], []
    rule = Rule("sgd", 0.1, 0, 0, 0)
    descend_matrix(samples, student, start, rule, lambda _, s, e: (signals.append(s[0]), errors.append(e)))
    deviation = signals[0] - teacher
    power = inner(own, deviation, deviation)
    # Training error of a sample: half the curvature times the squared residuals of all components.
    expected = 0.5 * curvature * components * alpha * size.unit * (power + 0.1)
    assert errors[0][0] == pytest.approx(expected, rel=1e-5)
    residuals = samples.design.forward(signals[0], 0) - fields_of(own, samples)
    factor = 30.0 if own.matrix_prior.symmetric else 1.0
    gradient = factor * samples.design.adjoint(curvature * residuals, 0)
    for signal in (teacher, signals[0]):
        slope = curvature * components * alpha * size.unit * inner(own, deviation, signal)
        assert np.sum(gradient * signal) == pytest.approx(slope, rel=1e-4)


def fields_of(model, samples):
    return to_components(samples.labels) if model.matrix_prior.symmetric else samples.labels


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("model", [MODEL, SOFTMAX], ids=["bsr", "aim"])
def test_runs_at_a_fixed_rate_take_the_steps_of_training(model, optimizer):
    own, data = data_of(model, 12, 0.8)
    settings = GradientDescent(optimizer, 0.02, weight_decay=0.1, initialisations=2, steps=5)
    fixed = settings.at_fixed_rate(optimizer, 0.02, 5).learn(own, data)
    student = own.parametrisation.student(data.design, data.labels, own.matrix_prior.factor_width(12))
    usual = descend(student, settings, data.rng, 2, data.teacher)
    np.testing.assert_allclose(fixed.estimates, usual.signals, atol=1e-10)
    last = fixed.history[-1]
    assert last["error"] == pytest.approx(usual.history[-1].error, rel=1e-8)
    assert last["training_error"] == pytest.approx(usual.history[-1].training_error, rel=1e-8)
    assert last["nuclear_norm"] == pytest.approx(usual.history[-1].nuclear_norm, rel=1e-8)
    mean = AveragedGradientDescent(optimizer, 0.02, weight_decay=0.1, initialisations=2, steps=5)
    averaged = mean.at_fixed_rate(optimizer, 0.02, 5).learn(own, data)
    assert averaged.history[-1]["error"] == pytest.approx(usual.history[-1].averaged_error, rel=1e-8)


def test_samples_of_all_kinds_agree():
    size, alpha, steps = SOFTMAX.at_size(32), 0.4, 6
    found = []
    for kind in ("revealed", "trajectories", "tokens"):
        errors = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            teacher = size.model.prior.sample((32, 32), rng)
            count = alpha * size.unit
            if kind == "revealed":
                samples = revealed_samples(size, round(count), teacher, rng)
            elif kind == "trajectories":
                samples = trajectory_samples(size, count, teacher, 4000, rng)
            else:
                design = size.design.sample(round(count), size.input_shape, rng)
                samples = Samples(design, size.model.channel.sample(design.forward(teacher, 0), rng), round(count))
            student = student_of(size.model, samples, 16)
            start, last = [np.random.default_rng(seed + 100).standard_normal((1, 32, 16))], []

            def watch(step, signals, _, teacher=teacher, last=last):
                last.append(float(np.sum((signals[0] - teacher) ** 2) / 32))

            assert descend_matrix(samples, student, start, Rule("sgd", 1.2, 0, 0, steps), watch)
            errors.append(last[-1])
        found.append(np.array(errors))
    spread = np.std([found[0] - found[1], found[2] - found[1]], axis=1) / np.sqrt(6)
    # Three standard errors, and corrections of order 1/d.
    assert abs(np.mean(found[0] - found[1])) < 3 * spread[0] + 0.03
    assert abs(np.mean(found[2] - found[1])) < 3 * spread[1] + 0.06


def test_the_mean_of_starts_has_their_own_and_cross_overlaps():
    settings = MatrixSettings(Rule("sgd", 0.2, 0, 0, 4), starts=4, replicas=2)
    series = _drawn(MODEL.at_size(20), 0.5, settings, True, 0)
    assert series["power"][0] == pytest.approx(1) and abs(series["replica_overlap"][0]) < 0.3
    single, mean = (
        trajectory(MODEL, [0.5], kind(learning_rate=0.2, initialisations=4), steps=4, accuracy=FEW)
        for kind in (GradientDescent, AveragedGradientDescent)
    )
    own, cross = single["power"], single["replica_overlap"]
    np.testing.assert_allclose(mean["power"], (own + 3 * cross) / 4, atol=1e-12)
    np.testing.assert_allclose(single["error"] - mean["error"], 0.75 * (own - cross), atol=1e-12)


def test_extrapolation_is_exact_on_a_line_and_its_error_grows_with_the_spread():
    small, large = 1 + 3 / 30 + np.array([-0.1, 0.1] * 8), 1 + 3 / 120 + np.array([-0.02, 0.02] * 2)
    found = extrapolate(small, large)
    assert float(found.value) == pytest.approx(1.0)
    assert 2 * np.hypot(4 / 3 * 0.023 / 2, 0.1 / 12) < float(found.error) < 4 * np.hypot(4 / 3 * 0.023 / 2, 0.1 / 12)


def test_theory_stands_beside_runs():
    found = trajectory(MODEL, [0.5], SLOW, steps=8, d=40, instances=4, accuracy=FEW)
    for name in ("error", "training_error", "nuclear_norm"):
        gap = np.abs(found[name] - found[f"measured_{name}"])
        spread = found[f"measured_{error_column(name, 'standard_error')}"]
        assert np.all(gap < found[error_column(name)] + 4 * spread + 0.02), name
    assert found["prediction_error"] == pytest.approx(found["error"])
    assert found["singular_values"].shape == (9, 3) and np.all(np.diff(found["singular_values"]) >= 0)
    assert found.converged and "iteration" in found and any("revealed exactly" in note for note in found.notes)


def test_labels_that_are_not_linear_have_trajectories_and_errors_on_labels():
    accuracy = Accuracy(matrix_size=40, draws=2, trajectories=1024)
    found = trajectory(SOFTMAX, [4.0], GradientDescent("sgd", 0.1), steps=3, accuracy=accuracy)
    assert any("1024 trajectories" in note for note in found.notes)
    assert 0 < found["prediction_error"][-1] < found["prediction_error"][0]
    signs = AttentionIndexed(rho=0.5, tokens=2, channel="hardmax")
    table = trajectory(signs, [1.0], GradientDescent("sgd", 1.0), steps=2, accuracy=Accuracy(matrix_size=32, draws=2))
    assert 0 < table["label_error"][-1] < table["label_error"][0] < 0.6


def test_limits_have_the_last_and_the_best_step():
    found = limits(MODEL, [0.6, 0.3], GradientDescent(learning_rate=0.2, steps=30), accuracy=FEW)
    path = trajectory(MODEL, [0.6], SLOW, steps=30, accuracy=FEW)
    assert found["error"][0] == path["error"][-1] and found["steps"].tolist() == [30, 30]
    best = int(found["early_stop"][0])
    assert found["early_stopped_error"][0] == path["error"][best] == path["error"].min()
    assert found["error_estimate"][0] > 0 and found.parameters["learner"] == "gd"


def test_divergence_has_no_values_and_a_remedy():
    found = trajectory(MODEL, [0.5], GradientDescent(learning_rate=50), steps=6, throw=False, accuracy=FEW)
    assert str(found["status"][-1]) == "diverging" and np.isnan(found["error"][-1])
    assert any("Lower the learning rate" in note for note in found.notes)


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (GradientDescent(explore=5), "explore = 5"),
        (GradientDescent(floor=0.1), "floor = 0.1"),
        (GradientDescent(student_width=8), "student_width = 8 refers to a token dimension"),
    ],
)
def test_settings_of_runs_are_refused_by_name(learner, words):
    with pytest.raises(IncompatibleError, match=words):
        trajectory(MODEL, [0.5], learner, steps=3)
    with pytest.raises(IncompatibleError, match=words):
        limits(MODEL, [0.5], replace(learner, steps=7))


def test_what_has_no_matrix_of_both_sides_or_no_room_is_refused():
    with pytest.raises(IncompatibleError, match="give steps"):
        limits(MODEL, [0.5], SLOW)
    with pytest.raises(IncompatibleError, match="both sides extensive"):
        trajectory(BilinearSequenceRegression(width=2), [1.0], SLOW, steps=3)
    with pytest.raises(IncompatibleError, match="only the theory of ridge is known"):
        trajectory(BilinearSequenceRegression(rho=0.5, token_correlation=0.5), [1.0], SLOW, steps=3)
    with pytest.raises(ParameterError, match=r"steps = 50000000 .*fewer steps"):
        trajectory(MODEL, [1.0], SLOW, steps=50_000_000)
    with pytest.raises(ParameterError, match=r"alpha = 0.0 .*at least one sample at d = 10"):
        trajectory(MODEL, [0.0], SLOW, steps=3, accuracy=FEW)
    with pytest.raises(ParameterError, match="trajectories = 8"):
        trajectory(SOFTMAX, [0.5], SLOW, steps=3, accuracy=Accuracy(trajectories=8))
    with pytest.raises(ParameterError, match="student_width"):
        GradientDescent(student_width=-0.5)


def test_a_width_is_a_ratio_or_a_number_of_columns():
    wide, narrow = (
        trajectory(MODEL, [0.5], GradientDescent(learning_rate=0.2, student_width=width), steps=3, accuracy=FEW)
        for width in (1.0, 0.2)
    )
    usual = trajectory(MODEL, [0.5], SLOW, steps=3, accuracy=FEW)
    np.testing.assert_array_equal(narrow["error"], usual["error"])
    assert np.all(wide["singular_values"][0] > 0) and np.all(usual["singular_values"][0][0] < 1e-6)
    found = trajectory(
        MODEL, [0.5], GradientDescent(learning_rate=0.2, student_width=20), steps=1, d=20, instances=1, accuracy=FEW
    )
    np.testing.assert_array_equal(found["power"], wide["power"][:2])


@pytest.mark.thorough
def test_a_plan_narrows_down_to_two_per_cent():
    found = plan(MODEL, 0.9, GradientDescent(learning_rate=0.2, steps=6), accuracy=Accuracy(matrix_size=24, draws=2))
    entry = found["gd"]
    assert 0.2 < entry.alpha < 0.8 and entry.error_estimate > 1e-3 and "gd_early_stopped" in found


@pytest.mark.thorough
def test_decay_at_full_width_ends_at_the_nuclear_norm_risk():
    from glassformer import RegularisedRisk

    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    learner = GradientDescent(learning_rate=0.3, momentum=0.8, weight_decay=0.1, student_width=1.0)
    found = trajectory(model, [0.5], learner, steps=250, accuracy=Accuracy(matrix_size=80, draws=4))
    # lambda = 2 w sqrt(r)/(dL)^(1/4).
    minimum = limits(model, [0.5], RegularisedRisk("square", "nuclear", 0.2))["error"][0]
    assert abs(found["error"][-1] - minimum) < 1.5 * found["error_estimate"][-1] + 0.01
