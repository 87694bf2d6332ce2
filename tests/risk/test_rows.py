"""Regularised risk of rows: any student on any sequence multi-index model."""

from __future__ import annotations

from argparse import Namespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, DeepAttention, RegularisedRisk, SequenceMultiIndex, hysteresis, limits
from glassformer.cli import main
from glassformer.core.errors import ConvergenceError, DataError, IncompatibleError, ParameterError
from glassformer.core.status import Status
from glassformer.learners.rows_risk import OneRowTheory, RowTheory
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error
from glassformer.risk.order_parameters import ConjugateParameters
from glassformer.risk.penalties import penalty_of
from glassformer.risk.rows import thresholds
from glassformer.risk.rows.fixed_points import fixed_point_from
from glassformer.risk.rows.one_row_weights import weight_moments
from glassformer.risk.rows.row_risk import RowRisk, best_strength, free_energies_of_sets, start_state
from glassformer.risk.rows.student import student_of
from glassformer.risk.rows.thresholds import _interpolation
from glassformer.risk.rows.weights import RowConjugates, weight_order


def sign(z):
    return jnp.sign(z[0, 0])


def two_tanh(z):
    return jnp.tanh(z[0, 0]) + 2 * jnp.tanh(z[1, 0])


def largest(z):
    return jnp.argmax(z[:, 0])


def attention(z):
    return jax.nn.softmax(0.25 * z.T @ z, axis=-1)


def mixed(z):
    return 0.7 * attention(z) + 0.3 * jnp.array([[0.6, 0.4], [0.4, 0.6]])


@pytest.fixture(scope="module")
def softmax():
    return DeepAttention(depth=1, tokens=2, noise=0.05).at_accuracy(Accuracy(points=512))


@pytest.fixture(scope="module")
def attention_limits(softmax):
    return limits(softmax, [2.0], RegularisedRisk(strength=0.05))


@pytest.fixture(scope="module")
def classes():
    return SequenceMultiIndex(largest, indices=3).at_accuracy(Accuracy(points=256))


@pytest.fixture(scope="module")
def multinomial_limits(classes):
    return limits(classes, [3.0], RegularisedRisk("cross-entropy", strength=0.1))


def within(table, name, value, row=0, more=0.0):
    """Whether a column agrees with a value within its error estimate."""
    error = "error_estimate" if name == "error" else f"{name}_error_estimate"
    return bool(np.all(np.abs(table[name][row] - value) <= table[error][row] + more))


@pytest.mark.slow
def test_sampled_averages_of_one_row_agree_with_quadrature():
    model = SequenceMultiIndex(sign).at_accuracy(Accuracy(points=1024))
    exact = limits(model, [1.0], RegularisedRisk("logistic", strength=0.1))
    sampled = limits(model, [1.0], RegularisedRisk("logistic", strength=0.1, branch="uninformed"))
    assert abs(exact["power"][0, 0, 0] - 2.3173829) < 1e-6
    assert sampled["power_error_estimate"][0, 0, 0] < 0.02
    for name in ("power", "overlap", "cosine", "training_loss", "test_loss", "label_error"):
        assert within(sampled, name, exact[name][0]), name
    for name in ("stability", "free_energy"):
        np.testing.assert_allclose(sampled[name], exact[name], rtol=5e-3)


@pytest.mark.thorough
def test_attention_has_the_order_parameters_of_the_prototype(attention_limits):
    table = attention_limits
    assert table.status == [Status.CONVERGED]
    # From 8,000 samples: the numbers are known to about a per cent.
    assert within(table, "power", 0.872, more=0.015)
    assert within(table, "overlap", 0.874, more=0.01)
    assert within(table, "training_loss", 0.0894, more=0.002)
    assert abs(table["stability"][0] - 0.63) < 0.15
    assert table["informed_error"][0] == pytest.approx(table["uninformed_error"][0], abs=table["error_estimate"][0])


@pytest.mark.slow
def test_two_rows_have_the_order_parameters_of_the_prototype():
    model = SequenceMultiIndex(two_tanh, indices=2, noise=0.09).at_accuracy(Accuracy(points=256))
    table = limits(model, [4.0], RegularisedRisk(strength=0.1, branch="informed"))
    assert within(table, "power", [[0.63, 0.09], [0.09, 0.86]], more=0.01)
    assert within(table, "overlap", [[0.67, 0.11], [0.10, 0.89]], more=0.01)
    assert within(table, "training_loss", 0.0266, more=0.0005)
    assert 0.5 < table["stability"][0] < 1.1


@pytest.mark.thorough
def test_positional_and_semantic_minima_of_attention():
    # In units of tokens of variance 1: lambda / s2, encodings of +-1 / s2 and s2 = 1/4.
    model = SequenceMultiIndex(mixed, tokens=2).at_accuracy(Accuracy(points=256))
    risk = RegularisedRisk(strength=0.04, student=attention, positions=[2.0, -2.0])
    table = limits(model, [0.9045, 1.8929], risk, throw=False)
    # The minimum is positional below alpha = 1.25 and semantic above; published values, good to some per cent.
    assert within(table, "power", 4 * 0.0409, row=0, more=0.02)
    assert abs(table["cosine"][0, 0]) < 0.1
    assert within(table, "power", 4 * 0.1101, row=1, more=0.01)
    assert within(table, "overlap", 4 * 0.1545, row=1, more=0.01)
    energies = table["informed_free_energy"] - table["positional_free_energy"]
    assert energies[0] > 0 > energies[1] or table.status[1] is not Status.BISTABLE


@pytest.mark.thorough
def test_multinomial_regression_treats_classes_alike(multinomial_limits):
    table = multinomial_limits
    overlap, error = table["overlap"][0], table["overlap_error_estimate"][0]
    own, other = np.diag(overlap), overlap[~np.eye(3, dtype=bool)]
    assert np.all(np.abs(own - own.mean()) < 2 * error.max())
    assert np.all(np.abs(other - other.mean()) < 2 * error.max())
    # Rows of a multinomial regression with a ridge sum to zero.
    assert np.all(np.abs(overlap.sum(axis=0)) < 2 * error.max())
    assert table["stability"][0] < 1


# Of random models of one row: tests/risk/test_row_properties.py.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "model", "ratio", "table"),
    [("label", "classes", 3.0, "multinomial_limits"), ("prediction", "softmax", 2.0, "attention_limits")],
)
def test_no_risk_is_below_the_bayes_optimal_error(name, model, ratio, table, request):
    model, table = request.getfixturevalue(model), request.getfixturevalue(table)
    best = limits(model, [ratio], throw=False, accuracy=Accuracy(points=64))
    slack = table[f"{name}_error_error_estimate"][0] + 2 * best[f"{name}_standard_error"][0]
    assert table[f"{name}_error"][0] + slack >= best[f"{name}_error"][0]
    # Differences of classes have no meaning: only wrong labels are counted.
    squares = {"prediction_error", "plugin_error", "label_noise"} & set(best.columns)
    assert bool(squares) == (name == "prediction") and best[f"{name}_standard_error"][0] > 0


@pytest.mark.slow
def test_the_linear_student_of_several_rows_is_ridge_regression():
    model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=0.1).at_accuracy(Accuracy(points=256))
    table = limits(model, [1.5], RegularisedRisk(strength=0.2, student="linear"))
    one = limits(SequenceMultiIndex(lambda z: z[0, 0], noise=0.1), [1.5], RegularisedRisk(strength=0.2))
    assert within(table, "error", one["error"][0])
    assert within(table, "overlap", one["overlap"][0, 0, 0] * np.eye(2))


@pytest.mark.thorough
def test_an_even_student_stays_at_zero_overlap(softmax):
    problem = RowRisk(strength=0.05).problem(softmax, 1.0, 0.05)
    blind = start_state(problem, 0.0)
    new = problem.step(blind).state
    assert np.max(np.abs(new.overlap)) < 1e-10


@pytest.mark.parametrize("name", ["lasso", "elastic", "group"])
def test_penalties_of_several_rows_solve_their_own_conditions(name):
    """At the minimum of w V w / 2 - b w + lambda r(w) the order parameters have finite-difference responses."""
    penalty, prior = penalty_of(name), SequenceMultiIndex(two_tanh, indices=2, noise=0.1).prior
    v_hat, field = np.array([[2.0, 0.4], [0.4, 1.0]]), np.array([[1.5, -0.7, 0.1], [0.3, 2.0, -0.2]])
    w, response, square = penalty.minimisers(field, v_hat, 0.5)

    def objective(weights):
        square = np.einsum("an,ab,bn->n", weights, v_hat, weights) / 2 - np.sum(field * weights, axis=0)
        return square + 0.5 * np.array([penalty.value(one[:, None]).sum() for one in weights.T])

    rng = np.random.default_rng(0)
    for _ in range(50):
        assert np.all(objective(w + 1e-3 * rng.standard_normal(w.shape)) >= objective(w) - 1e-12)
    step, slopes = 1e-6, np.zeros((3, 2, 2))
    for k in range(2):
        shifted = field.copy()
        shifted[k] += step
        slopes[:, :, k] = (penalty.minimisers(shifted, v_hat, 0.5)[0] - w).T / step
    np.testing.assert_allclose(response, slopes.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(square, np.mean([np.kron(own, own) for own in slopes], axis=0), atol=1e-4)
    order = weight_order(
        penalty, prior, 0.5, RowConjugates(0.3 * np.eye(2), np.eye(2), v_hat, np.zeros((2, 1))), np.zeros((1, 1))
    )
    assert np.all(np.linalg.eigvalsh(order.power - order.overlap @ order.overlap.T) > -1e-12)


def test_the_spread_of_sampled_weights_is_their_error():
    """Rows that do not know of each other have the power of one row, which is a closed form."""
    prior = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=0.3).prior
    conjugates = RowConjugates(0.3 * np.eye(2), np.eye(2), 1.5 * np.eye(2), np.zeros((2, 1)))
    lasso = penalty_of("lasso")
    orders = [weight_order(lasso, prior, 0.5, conjugates, np.zeros((1, 1)), one) for one in (*range(8), None)]
    *parts, whole = (np.trace(order.power) / 2 for order in orders)
    one = ConjugateParameters(*(np.array([value]) for value in (0.3, 1.0, 1.5)))
    exact = weight_moments(lasso, prior, np.array([0.5]), one).order.power[0]
    mean, error = mean_and_error(np.array(parts))
    assert mean == pytest.approx(whole, rel=1e-12)
    assert abs(whole - exact) < confidence_factor(8) * error < 0.02 * exact


def test_the_best_strength_grows_with_the_noise(monkeypatch):
    def fixed_point(problem, *_, **__):
        return Namespace(status=Status.CONVERGED, free_energy=0.0, state=problem.strength)

    monkeypatch.setattr("glassformer.risk.rows.row_risk.fixed_point_from", fixed_point)
    monkeypatch.setattr(
        "glassformer.risk.rows.row_risk.errors_at", lambda _, strength, __: {"error": np.log(strength / 30.0) ** 2}
    )
    problem = RowRisk().problem(SequenceMultiIndex(two_tanh, indices=2, noise=30.0), 3.0, 1.0)
    assert best_strength(problem, RowRisk()) == pytest.approx(30.0, rel=0.05)


def test_a_sum_of_rows_fits_as_many_labels_as_one_row():
    model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.3).at_accuracy(Accuracy(points=32))
    risk = RowRisk(student=lambda z: z[0] + z[1], student_rows=2)
    assert _interpolation(risk.problem(model, 1.0, 0.1)).alpha == 1.0


def test_cross_entropy_of_two_classes_has_two_rows():
    model = SequenceMultiIndex(sign).at_accuracy(Accuracy(points=32))
    two = RegularisedRisk("cross-entropy", strength=0.1).theory(model)
    assert not isinstance(two, OneRowTheory)
    two.require()


def test_starts_of_descent_on_data_have_the_theory_of_the_lowest_minimum(softmax, monkeypatch):
    monkeypatch.setattr(
        RowTheory, "limits", lambda own, *_: Namespace(columns={"branch": own.risk.branch}, status=[], notes=[])
    )
    for start, own in (("random,zero", None), ("zero", None), ("informed", "informed")):
        assert RegularisedRisk(strength=0.05, branch=start).theory(softmax).of_runs(np.ones(1))["branch"] == own
    given = RegularisedRisk(strength=0.05, branch=[[[0.5]], [[1.0]]])
    assert isinstance(given.of_rows.branch, tuple)


def test_rows_of_different_heads_see_different_coordinates():
    model = DeepAttention(depth=1, heads=2, tokens=2, noise=0.1).at_accuracy(Accuracy(points=32))
    risk = RowRisk(student=lambda z: z[:2] + z[2:], student_rows=4)
    same = risk.problem(model, 1.0, 0.1).block
    np.testing.assert_array_equal(same, np.tile(np.eye(2), (2, 3)))


def test_side_information_is_refused():
    model = SequenceMultiIndex(sign, side_information=0.5)
    with pytest.raises(IncompatibleError, match=r"side_information = 0\.5"):
        RegularisedRisk("logistic").check(model)


@pytest.mark.thorough
def test_branches_follow_two_minima():
    model = SequenceMultiIndex(mixed, tokens=2).at_accuracy(Accuracy(points=128))
    risk = RegularisedRisk(strength=0.04, student=attention, positions=[2.0, -2.0])
    found = hysteresis(model, [1.0, 1.5], risk)
    assert found["two_branches"].tolist() == [1.0, 1.0]
    gap = found["free_energy_up"] - found["free_energy_down"]
    assert gap[0] < 0 < gap[1]
    assert "free energies cross near" in " ".join(found.notes)


@pytest.mark.thorough
def test_a_start_may_be_given(softmax, attention_limits):
    given = limits(softmax, [2.0], RegularisedRisk(strength=0.05, branch=([[0.5]], [[1.0]])))
    assert within(given, "error", attention_limits["error"][0])


@pytest.mark.parametrize(
    ("risk", "error", "text"),
    [
        (RegularisedRisk("logistic", strength=0.1), IncompatibleError, "labels \\+1 and -1"),
        (RegularisedRisk("cross-entropy", strength=0.1), IncompatibleError, "discrete labels"),
        (RegularisedRisk(strength=0.0), IncompatibleError, "strength = 0"),
        (RegularisedRisk(strength=0.1, positions=[1.0]), ParameterError, "positions"),
        (RegularisedRisk(strength=0.1, penalty="nuclear"), ParameterError, "penalty"),
        (RegularisedRisk(strength=0.1, student=lambda z: jnp.ones(4)), ParameterError, "student"),
        (RegularisedRisk(strength=0.1, student=lambda z: np.array(z)[0]), ParameterError, "student"),
        (RegularisedRisk(strength=0.1, student=lambda z: z[0]), ParameterError, "student"),
        (RegularisedRisk(strength=0.1, student=lambda z: attention(z) + z[7, 0]), ParameterError, "student_rows"),
        (RegularisedRisk(strength=0.1, student="linear", student_rows=3), ParameterError, "student_rows"),
        (RegularisedRisk(strength=0.1, branch="random"), ParameterError, "branch"),
        (RegularisedRisk(strength=0.1, branch=([[2.0]], [[1.0]])), ParameterError, "branch"),
        (RegularisedRisk(strength=0.1, student_rows=3), ParameterError, "student_rows"),
    ],
)
def test_what_cannot_be_computed_is_refused_before_it_begins(softmax, risk, error, text):
    with pytest.raises(error, match=text):
        limits(softmax, [1.0], risk)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("strength", -0.1),
        ("student", "nonlinear"),
        ("student_rows", 0),
        ("intercept", "yes"),
        ("positions", [1.0, np.nan]),
        ("positions", np.zeros((2, 1, 1))),
        ("branch", "somewhere"),
        ("branch", 3),
        ("branch", ["random", "zero"]),
    ],
)
def test_settings_without_a_meaning_are_refused(name, value):
    with pytest.raises(ParameterError, match=f"^{name} = "):
        RegularisedRisk(**{name: value})


def test_positions_may_be_an_array():
    assert RegularisedRisk(positions=np.array([2.0, -2.0])) == RegularisedRisk(positions=[2.0, -2.0])


def test_settings_of_rows_are_refused_for_matrices():
    from glassformer import BilinearSequenceRegression

    model = BilinearSequenceRegression(rho=0.3, noise=0.1)
    with pytest.raises(IncompatibleError, match="student"):
        RegularisedRisk(student="linear").check(model)
    with pytest.raises(IncompatibleError, match="positions"):
        limits(model, [1.0], RegularisedRisk(positions=[1.0], strength=0.1))


@pytest.mark.slow
def test_usual_students():
    assert student_of(SequenceMultiIndex(sign), "hinge").is_convex
    assert student_of(SequenceMultiIndex(largest, indices=3), "cross-entropy").rows == 3
    own = student_of(SequenceMultiIndex(two_tanh, indices=2, noise=0.1), "square")
    assert (own.rows, own.own_link, own.is_convex) == (2, True, False)
    linear = student_of(SequenceMultiIndex(two_tanh, indices=2, noise=0.1), "square", "linear")
    assert (linear.rows, linear.is_convex) == (1, True)


def test_rare_classes_are_found_and_unknown_ones_refused():
    # The third class has a probability of 2e-4.
    student = student_of(SequenceMultiIndex(lambda z: jnp.sum(z[0, 0] > jnp.array([0.0, 3.54]))), "cross-entropy")
    assert student.values == (0.0, 1.0, 2.0)
    assert student.targets(np.array([2.0])).tolist() == [[0.0, 0.0, 1.0]]
    with pytest.raises(DataError, match="one of the 3 classes"):
        student.targets(np.array([1.0, 3.0]))


@pytest.mark.thorough
def test_margins_of_classes_and_signs(classes, multinomial_limits):
    table, found = multinomial_limits, RegularisedRisk("cross-entropy", strength=0.1).margins(classes, 3.0)
    wrong = float(np.interp(0.0, found["test_margin"], found["level"]))
    assert abs(wrong - table["label_error"][0]) < table["label_error_error_estimate"][0] + 0.01
    assert np.all(found["training_margin"] > found["test_margin"])
    with pytest.raises(IncompatibleError, match="margin"):
        RegularisedRisk(strength=0.1).margins(DeepAttention(depth=1, tokens=2, noise=0.05), 1.0)


@pytest.mark.thorough
def test_the_student_may_be_the_link_of_another_network(softmax, attention_limits):
    other = DeepAttention(depth=1, tokens=2, activation="linear")
    table = limits(softmax, [2.0], RegularisedRisk(strength=0.05, student=other.traceable_label, branch="informed"))
    assert table["prediction_error"][0] > attention_limits["prediction_error"][0]


def test_only_a_risk_with_several_minima_names_them_as_a_cause(softmax):
    assert "not convex" in RegularisedRisk(strength=0.05).theory(softmax).other_minima
    assert RegularisedRisk(strength=0.05, branch="informed").theory(softmax).other_minima == ""
    assert RegularisedRisk("logistic", strength=0.05).theory(SequenceMultiIndex(sign)).other_minima == ""


LINKS = """
import jax
import jax.numpy as jnp


def sign(z):
    return jnp.sign(z[0, 0])


def attention(z):
    return jax.nn.softmax(0.25 * z.T @ z, axis=-1)


def mixed(z):
    return 0.7 * attention(z) + 0.3 * jnp.array([[0.6, 0.4], [0.4, 0.6]])
"""


@pytest.fixture
def links(tmp_path):
    path = tmp_path / "links.py"
    path.write_text(LINKS)
    return path


def test_an_intercept_is_a_flag_of_the_command_line(links, capsys):
    words = ["limits", "smi", "--indices", "1", "--link", f"{links}:sign", "--alpha", "1", "--learner", "risk"]
    assert main([*words, "--loss", "logistic", "--strength", "0.1", "--intercept"]) == 0
    printed = capsys.readouterr().out
    assert "intercept = True" in printed and "0.2558643" in printed


@pytest.mark.thorough
def test_the_command_line_lists_several_minima(links, capsys):
    words = ["limits", "smi", "--indices", "1", "--tokens", "2", "--link", f"{links}:mixed", "--alpha", "1.5"]
    own = ["--student", f"{links}:attention", "--positions", "2,-2", "--strength", "0.04", "--points", "128"]
    assert main([*words, "--learner", "risk", *own]) == 3
    printed = capsys.readouterr().out
    assert "bistable" in printed and "several minima, of which the first counts: informed" in printed


@pytest.mark.thorough
def test_six_rows_converge_and_sets_have_free_energies_of_their_own():
    """Six rows have 78 order parameters, more than a fixed number of evaluations of the map measures slopes for."""
    model = SequenceMultiIndex(lambda z: z[:, 0].argmax(), 6).at_accuracy(Accuracy(points=64))
    risk = RowRisk("cross-entropy", strength=0.1)
    problem = risk.problem(model, 5.0, 0.1)
    point = fixed_point_from(problem, "uninformed", risk.starts(problem)["uninformed"])
    assert point.status.ok
    energies = free_energies_of_sets(problem, point)
    assert energies.mean() == pytest.approx(point.free_energy, rel=5e-2)
    # Penalties of the sets vary as well, since each set leads to its own order parameters.
    losses = model.prior.degrees * problem.count * point.step.averages.training_loss
    assert energies.std() > 1.2 * losses.std()


@pytest.mark.parametrize("lost", [False, True])
def test_a_transition_needs_converged_branches(monkeypatch, lost):
    """Two branches from alpha = 1 to 5 whose free energies cross at 2, where searches may fail."""

    def pair(problem, risk):
        settled = not (lost and abs(problem.alpha - 2) < 0.1)
        return thresholds._Pair((), settled, settled and 1 < problem.alpha < 5, np.log(problem.alpha / 2))

    monkeypatch.setattr(thresholds, "_pair", pair)
    monkeypatch.setattr(thresholds, "_gap_error", lambda problem, pair: 0.01)
    problem = RowRisk(strength=0.1).problem(SequenceMultiIndex(sign).at_accuracy(Accuracy(points=32)), 1.0, 0.1)
    (begin, end, transition), found = thresholds._branches(problem, RowRisk(strength=0.1))
    assert found
    for entry, exact in ((begin, 1), (end, 5)):
        assert abs(entry.alpha - exact) <= entry.error_estimate < 0.05 * exact
    if lost:
        assert np.isnan(transition.alpha)
        assert "did not converge near alpha = 2" in transition.note
    else:
        assert abs(transition.alpha - 2) <= transition.error_estimate < 0.05


@pytest.mark.slow
def test_a_loss_without_minimum_has_no_values():
    model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.1).at_accuracy(Accuracy(points=128))
    loss = {"loss": lambda y, f: -jnp.sum(f**4), "student": lambda z: z[0, 0], "branch": "uninformed"}
    learner = RegularisedRisk(**loss, strength=0.1)
    table = limits(model, [1.0], learner, throw=False)
    assert table.status == [Status.NON_FINITE]
    assert all(
        np.all(np.isnan(table[name])) for name in ("error", "power", "training_loss", "free_energy", "stability")
    )
    assert any("no fixed point was found from the start uninformed" in note for note in table.notes)


def test_a_student_with_kinks_names_a_smooth_one():
    def relu(z):
        return jnp.maximum(z[0, 0], 0) - jnp.maximum(z[1, 0], 0)

    model = SequenceMultiIndex(relu, indices=2, noise=0.1).at_accuracy(Accuracy(points=64))
    with pytest.raises(ConvergenceError, match="softplus"):
        limits(model, [2.0], RegularisedRisk(strength=0.1, branch="uninformed"))
