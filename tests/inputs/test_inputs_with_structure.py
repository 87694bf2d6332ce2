"""Inputs with hidden states: hidden tokens and mixtures, in every verb."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import softmax
from scipy.stats import norm

from glassformer import (
    SGD,
    Accuracy,
    IncompatibleError,
    RegularisedRisk,
    SequenceMultiIndex,
    limits,
    phase_diagram,
    simulate,
    thresholds,
    trajectory,
)
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.channels.tilted import TiltedChannel
from glassformer.cli import main
from glassformer.core.hashing import identity
from glassformer.designs.projection import ProjectionDesign
from glassformer.designs.shifted import ShiftedDesign
from glassformer.errors import ParameterError
from glassformer.inputs import HiddenToken, Mixture
from glassformer.models.registry import build

NU = 2.0
CLASSES = SequenceMultiIndex(None, inputs=Mixture([-(NU**0.5), NU**0.5]))


def value(z, place):
    """The second row read at the hidden place."""
    return z[1, place]


def attention(z):
    """A student that weighs the second row by the softmax of the first."""
    return jnp.sum(softmax(z[0]) * z[1])


def hidden(signal=NU, points=512, **more):
    model = SequenceMultiIndex(value, 2, 3, noise=0.1, inputs=HiddenToken(signal, **more))
    return model.at_accuracy(Accuracy(points=points))


# --- closed forms -----------------------------------------------------------------------------------------------------


def test_two_classes_are_learned_as_in_closed_form():
    alpha = np.array([0.0, 0.3, 1.5, 4.0])
    table, q = limits(CLASSES, alpha), alpha * NU / (1 + alpha * NU)
    assert table["overlap"][:, 0, 0] == pytest.approx(q, abs=1e-12)
    assert table["label_error"] == pytest.approx(norm.cdf(-np.sqrt(NU * q)), abs=1e-12)


def test_ridge_of_infinite_strength_is_bayes_optimal_on_two_classes():
    alpha = [0.5, 1.5, 4.0]
    ridge = limits(CLASSES, alpha, RegularisedRisk("square", strength=1e6))["label_error"]
    assert ridge == pytest.approx(limits(CLASSES, alpha)["label_error"], abs=1e-6)


@pytest.mark.parametrize("loss", ["square", "logistic", "hinge"])
def test_every_loss_of_large_strength_is_bayes_optimal_on_equal_classes(loss):
    """The intercept of the hinge loss is then arbitrary in theory, and zero as the classes are alike."""
    learner = RegularisedRisk(loss, strength=1e4, intercept=True)
    error = limits(CLASSES, [1.5], learner)["label_error"]
    assert error == pytest.approx(limits(CLASSES, [1.5])["label_error"], abs=1e-5)


@pytest.mark.parametrize("loss", ["square", "logistic", "hinge"])
def test_the_best_strength_on_unequal_classes_is_finite(loss):
    """With an intercept it is that of the least label error, and never reaches the best possible error."""
    model = SequenceMultiIndex(None, inputs=Mixture([-1.0, 1.0], [0.2, 0.8]))
    best = limits(model, [2.0], RegularisedRisk(loss, intercept=True))
    strength, error = best["strength"][0], best["label_error"][0]
    assert strength < 10
    for factor in (0.5, 2.0):
        other = RegularisedRisk(loss, strength=factor * strength, intercept=True)
        assert limits(model, [2.0], other)["label_error"][0] > error
    assert error > limits(model, [2.0])["label_error"][0]


def test_logistic_regression_on_two_classes():
    """Quadrature of the equations of theory, written apart."""
    row = limits(CLASSES, [1.5], RegularisedRisk("logistic", strength=0.1))
    assert row["overlap"][0, 0, 0] == pytest.approx(1.3218967, abs=1e-6)
    assert row["power"][0, 0, 0] == pytest.approx(2.7472122, abs=1e-6)
    assert row["label_error"][0] == pytest.approx(0.1296834, abs=1e-6)


def test_square_loss_on_unequal_classes_has_a_closed_form():
    """Ridge regression on labels of two classes, by the resolvent: overlap, and training loss of centred numbers."""
    alpha, strength, share = 1.5, 0.3, 0.2
    model = SequenceMultiIndex(None, inputs=Mixture([-(NU**0.5), NU**0.5], [share, 1 - share]))
    row = limits(model, [alpha], RegularisedRisk("square", strength=strength, intercept=True))
    v_hat = 0.5 * (np.sqrt((alpha - strength - 1) ** 2 + 4 * alpha * strength) + alpha - strength - 1)
    variance = 4 * share * (1 - share)
    overlap = v_hat * np.sqrt(NU) * variance / (v_hat * (1 + NU * variance) + strength)
    assert row["overlap"][0, 0, 0] == pytest.approx(overlap, rel=1e-8)


def test_no_signal_is_the_model_without_hidden_states():
    plain = SequenceMultiIndex(lambda z: z[0, 0], noise=0.5)
    found = limits(plain.varied(inputs=HiddenToken(0.0)), [1.0])
    assert found["error"][0] == limits(plain, [1.0])["error"][0]


def test_one_token_is_a_known_class():
    """The class is known: labels and the shift carry separate information."""
    model = SequenceMultiIndex(lambda z, place: z[1, place], 2, 1, noise=0.5, inputs=HiddenToken(NU))
    q = limits(model.at_accuracy(Accuracy(points=128)), [2.0])["overlap"][0]
    free = state_evolution(SequenceMultiIndex(lambda z: z[0, 0], noise=0.5), [2.0]).value[0]
    assert q == pytest.approx(np.diag([2 * NU / (1 + 2 * NU), float(np.squeeze(1 - free))]), abs=8e-3)


def test_a_shift_gives_information_at_any_ratio():
    found = thresholds(CLASSES)["weak_recovery"]
    assert found.alpha == 0
    assert "hidden states shift the inputs" in found.note


def test_a_row_that_labels_do_not_show_is_never_known():
    noiseless = hidden().varied(noise=0.0)
    assert noiseless.channel.labels.rank == 0
    assert SequenceMultiIndex(value, 2, 1, inputs=Mixture([[0.0, 1.0]])).channel.labels.rank == 0
    both = SequenceMultiIndex(lambda z, k: z[0, k] + z[1, k], 2, 2, inputs=HiddenToken(NU))
    assert both.channel.labels.rank == 0
    assert SequenceMultiIndex(lambda z, k: z[0, k], 1, 2, inputs=HiddenToken(NU)).channel.labels.rank == 1


# --- the hidden token -------------------------------------------------------------------------------------------------


def test_limits_of_a_hidden_token():
    """Monte Carlo of the equations, written apart, good to 0.003."""
    table = limits(hidden(), [1.0, 3.0])
    overlap = np.diagonal(table["overlap"], axis1=1, axis2=2)
    assert overlap == pytest.approx(np.array([[0.549, 0.474], [0.826, 0.924]]), abs=8e-3)
    assert np.all(np.diff(table["state_error"]) < 0)
    assert np.all(table["state_with_label_error"] < table["state_error"])


def test_places_may_be_permuted():
    errors = [
        limits(hidden(points=128, places=places), [2.0])["error"][0] for places in ((0.2, 0.5, 0.3), (0.5, 0.3, 0.2))
    ]
    assert errors[0] == pytest.approx(errors[1], abs=1.5e-2)


def test_the_channel_is_consistent():
    """Scores, slopes and curvatures are derivatives of the log partition, and half the information that of its mean."""
    channel = hidden(points=2048).channel
    assert isinstance(channel, TiltedChannel)
    rng, step = np.random.default_rng(0), 1e-4
    omega, v = rng.standard_normal((20, 2, 3)), np.tile([[0.6, 0.1], [0.1, 0.4]], (20, 1, 1))
    y = rng.standard_normal(20)
    found, slopes = channel.posterior(y, omega, v), channel.slopes(y, omega, v)[0][0]
    for place in ((0, 0), (1, 2)):
        moved = np.zeros_like(omega)
        moved[(slice(None), *place)] = step
        up, down = (channel.posterior(y, omega + sign * moved, v) for sign in (1, -1))
        score = (up.log_partition - down.log_partition) / (2 * step)
        assert score == pytest.approx(found.score[(slice(None), *place)], rel=1e-6, abs=1e-8)
        slope = (up.score - down.score) / (2 * step)
        assert slope == pytest.approx(slopes[(slice(None), slice(None), slice(None), *place)], rel=1e-5, abs=1e-6)
    over_columns = -np.einsum("nplql->npq", slopes) + channel.states.square
    assert found.curvature == pytest.approx(over_columns, abs=1e-10)
    low, high = (channel.inference.averages((q * np.eye(2))[None]) for q in (0.52, 0.48))
    middle = channel.inference.information(0.5 * np.eye(2)[None]).value[0]
    slope = (high.log_partition.value - low.log_partition.value) / 0.04
    assert slope[0] == pytest.approx(0.5 * np.trace(middle), rel=1e-2)


def test_message_passing_reaches_the_limits():
    """Finite size: differences are of order 1/sqrt(d) of one instance."""
    runs = simulate(hidden(points=128), [3.0], "gamp", d=300, instances=4)
    assert str(runs.status[0]) == "converged"
    gap = np.abs(runs["row_error"] - runs["row_theory"])
    assert np.all(gap < 4 * runs["row_standard_error"] + 0.02)
    assert abs(runs["prediction_error"] - runs["prediction_theory"])[0] < 0.12
    for name in ("state", "state_with_label"):
        gap = abs(runs[f"{name}_error"] - runs[f"{name}_theory"])
        assert gap[0] < 4 * runs[f"{name}_standard_error"][0] + 0.02


@pytest.mark.slow
def test_large_signals_are_damped():
    runs = simulate(hidden(16.0, points=128), [4.0], "gamp", d=300, instances=2)
    assert str(runs.status[0]) == "converged"
    assert abs(runs["error"] - runs["theory"])[0] < 0.01


@pytest.mark.slow
def test_label_noise_given_the_state():
    model = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]), noise_law="flip:0.1", inputs=Mixture([-0.5, 1.0]))
    runs = simulate(model.at_accuracy(Accuracy(points=128)), [2.0], "gamp", d=400, instances=4)
    for error in ("row_error", "label_error"):
        name = error.removesuffix("_error")
        gap = np.abs(runs[error] - runs[f"{name}_theory"])
        assert np.all(gap < 4 * runs[f"{name}_standard_error"] + 0.02)


def test_tokens_may_be_correlated():
    model = SequenceMultiIndex(value, 2, 2, noise=0.1, token_correlation=0.5, inputs=HiddenToken(NU))
    model = model.at_accuracy(Accuracy(points=64))
    # The power of a shift in white fields is that of the inverse correlation.
    inverse = np.linalg.inv([[1.0, 0.5], [0.5, 1.0]])
    assert model.channel.fields.shift_square[0, 0] == pytest.approx(NU * inverse[0, 0])
    runs = simulate(model, [2.0], "gamp", d=300, instances=3)
    assert np.all(np.abs(runs["row_error"] - runs["row_theory"]) < 4 * runs["row_standard_error"] + 0.03)


# --- designs ----------------------------------------------------------------------------------------------------------


def test_shifted_inputs_are_the_same_in_every_form():
    rng = np.random.default_rng(0)
    base, signal = ProjectionDesign(rng.standard_normal((7, 3, 5))), rng.standard_normal((2, 5))
    shifts, estimate, score = (
        rng.standard_normal((7, 2, 3)),
        rng.standard_normal((2, 5)),
        rng.standard_normal((7, 2, 3)),
    )
    stored, wrapped = base.shifted(signal, shifts), ShiftedDesign(base, signal, shifts)
    assert stored.forward(estimate, 0) == pytest.approx(wrapped.forward(estimate, 0), abs=1e-12)
    assert stored.adjoint(score, 0) == pytest.approx(wrapped.adjoint(score, 0), abs=1e-12)
    assert np.concatenate(list(wrapped.parts())) == pytest.approx(stored.inputs[0], abs=1e-12)
    assert wrapped.first(3).forward(estimate, 0) == pytest.approx(stored.first(3).forward(estimate, 0), abs=1e-12)


def test_revealed_inputs_have_the_same_limit():
    runs = simulate(CLASSES, [1.5], "gamp", d=400, instances=4, storage="revealed")
    assert abs(runs["error"] - 0.25)[0] < 4 * runs["standard_error"][0] + 0.02


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_descent_on_two_classes():
    """The same equations with trajectories written apart."""
    learner = SGD(loss="logistic", learning_rate=0.5, weight_decay=0.1)
    table = trajectory(CLASSES, [1.5], learner, steps=20).to_pandas()
    for step, (overlap, power) in {5: (1.0299, 1.724), 20: (1.2896, 2.563)}.items():
        row = table.iloc[step]
        assert abs(row["overlap_1_1"] - overlap) < 2 * row["overlap_error_estimate_1_1"] + 5e-3
        assert abs(row["power_1_1"] - power) < 2 * row["power_error_estimate_1_1"] + 1e-2


@pytest.mark.thorough
def test_attention_finds_the_token_as_runs_do():
    learner = SGD(student=attention, learning_rate=0.1, weight_decay=0.05, start="overlap:0.3")
    table = trajectory(hidden(1.5, points=2048), [4.0], learner, steps=20, d=1000, instances=4).to_pandas()
    for step in (5, 20):
        row = table.iloc[step]
        error = 4 * row["measured_cosine_standard_error_2"] + row["cosine_error_estimate_2"] + 0.01
        assert abs(row["measured_cosine_2"] - row["cosine_2"]) < error


@pytest.mark.thorough
def test_attention_has_a_risk_at_strong_signals():
    """Few samples, whose map overshoots; 64 times as many give a prediction error of 0.138."""
    learner = RegularisedRisk("square", strength=0.3, student=attention, branch="informed")
    row = limits(hidden(9.0, points=128), [6.0], learner)
    assert abs(row["prediction_error"][0] - 0.138) < row["prediction_error_error_estimate"][0] < 0.05


@pytest.mark.slow
def test_sampled_risk_agrees_with_quadrature():
    """A linear student given as a function has no quadrature."""
    learner = RegularisedRisk("logistic", strength=0.1, student=lambda z: z[0, 0])
    row = limits(CLASSES, [1.5], learner)
    assert abs(row["overlap"][0, 0, 0] - 1.3218967) < 3 * row["overlap_error_estimate"][0, 0, 0] + 1e-3
    assert abs(row["label_error"][0] - 0.1296834) < 3 * row["label_error_error_estimate"][0] + 1e-3


def test_runs_of_unequal_classes_with_intercept():
    model = SequenceMultiIndex(None, inputs=Mixture([-(NU**0.5), NU**0.5], [0.2, 0.8]))
    runs = simulate(model, [1.5], RegularisedRisk("square", strength=0.3, intercept=True), d=400, instances=6)
    assert abs(runs["error"] - runs["theory"])[0] < 4 * runs["standard_error"][0] + 0.02
    assert abs(runs["label_error"] - runs["label_theory"])[0] < 0.02


# --- names, identity and errors ---------------------------------------------------------------------------------------


def test_inputs_have_names_and_identity(tmp_path, capsys):
    (tmp_path / "laws.py").write_text(
        "from glassformer.inputs import Mixture\ntwo = Mixture([-1.0, 1.0])\ndef place(z, k): return z[0, k]\n"
    )
    one = build("smi", {"link": f"{tmp_path}/laws.py:place", "tokens": 2, "noise": 0.1, "inputs": "hidden-token:2.0"})
    assert one.inputs == HiddenToken(2.0)
    assert one.varied(**{"inputs.signal": 3.0}).inputs == HiddenToken(3.0)
    assert identity(one) != identity(one.varied(**{"inputs.signal": 3.0}))
    options = ["--link", "class", "--indices", "1", "--inputs", f"{tmp_path}/laws.py:two", "--alpha", "1"]
    assert main(["limits", "smi", *options]) == 0
    assert "0.2397501" in capsys.readouterr().out


def test_the_signal_varies_along_a_phase_diagram():
    model = SequenceMultiIndex(None, inputs=HiddenToken(1.0), tokens=2)
    found = phase_diagram(model, "inputs.signal", [0.5, 2.0])
    assert found.curve("weak_recovery").tolist() == [0.0, 0.0]
    with pytest.raises(ParameterError, match="a field of inputs: signal, row, places"):
        phase_diagram(model, "inputs.strength", [0.5])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"link": None}, "needs a hidden state: give inputs"),
        ({"link": value, "indices": 2}, "needs a hidden state: give inputs"),
        ({"link": None, "inputs": Mixture([-1.0, 1.0]), "noise": 0.1}, "noise = 0.1 exclude each other"),
        (
            {"link": value, "tokens": 2, "indices": 2, "inputs": HiddenToken(), "feature_spectrum": [0.5, 1.5]},
            "leave one out",
        ),
    ],
)
def test_impossible_combinations_are_refused(parameters, message):
    with pytest.raises(IncompatibleError, match=message):
        SequenceMultiIndex(**parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HiddenToken(-1.0), "signal = -1.0 is not allowed"),
        (lambda: HiddenToken(1.0, row=2).states(2, 3), "row = 2 is not allowed"),
        (lambda: HiddenToken(1.0, places=[0.5, 0.5]).states(1, 3), "one probability for each of 3 tokens"),
        (lambda: Mixture([-1.0, 1.0], [0.5, 0.6]), "probabilities"),
        (lambda: Mixture([-1.0, 1.0]).states(2, 1), "shifts of 2 rows and 1 tokens"),
        (lambda: SequenceMultiIndex(None, inputs="hidden-tokn:1"), "did you mean hidden-token"),
    ],
)
def test_laws_are_checked(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
