"""Online gradient descent on data: the steps it claims to take, every sample once, and its equations beside it."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    SGD,
    Accuracy,
    DeepAttention,
    IncompatibleError,
    OnlineSGD,
    SequenceMultiIndex,
    Status,
    limits,
    simulate,
    trajectory,
)
from glassformer.cli import main
from glassformer.designs.generated import GeneratedDesign
from glassformer.designs.projection import ProjectionDesign
from glassformer.errors import ParameterError
from glassformer.learners.data_set import DataSet
from glassformer.learners.online_sgd import one_pass_sgd
from glassformer.learners.registry import require_compatible

TANH = SequenceMultiIndex(lambda z: jnp.tanh(2 * z[0, 0]), noise=0.3).at_accuracy(Accuracy(points=32))
GATED = SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), indices=2, noise=0.1).at_accuracy(Accuracy(points=32))


def square(z):
    return z[0, 0] ** 2


def drawn(samples=9, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((samples, 1, d)), rng.standard_normal(samples), rng.standard_normal((1, d))


@pytest.mark.slow
def test_steps_are_those_of_the_formula_and_a_rest_is_left_out():
    inputs, labels, weights = drawn()
    settings = OnlineSGD(learning_rate=0.3, batch=2, weight_decay=0.5, record_every=2)
    found = one_pass_sgd(ProjectionDesign(inputs), labels, square, weights, settings)
    d, by_hand = 5, weights.copy()
    for begin in range(0, 8, 2):
        x, y = inputs[begin : begin + 2, 0], labels[begin : begin + 2]
        z = x @ by_hand[0] / np.sqrt(d)
        delta = 2 * z * (z**2 - y)
        by_hand = by_hand - 0.3 / (2 * np.sqrt(d)) * delta @ x - 0.3 * 0.5 / d * by_hand
    np.testing.assert_allclose(found.estimates[0], by_hand, rtol=1e-12)
    assert found.iterations == 4
    assert [entry["samples"] for entry in found.history] == [0, 4, 8]
    assert found.history[-1]["time"] == 4 / 5


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 4, 7])
def test_inputs_that_are_drawn_on_the_way_are_the_same_samples(block):
    design = GeneratedDesign(ProjectionDesign, (3,), number=23, shape=(1, 5), block=block)
    labels, weights = drawn(23)[1:]
    settings = OnlineSGD(learning_rate=0.1, batch=3, record_every=2)
    generated = one_pass_sgd(design, labels, square, weights, settings)
    stored = one_pass_sgd(design.stored(), labels, square, weights, settings)
    np.testing.assert_array_equal(generated.estimates[0], stored.estimates[0])


def test_divergence_is_reported():
    inputs, labels, weights = drawn(400)
    found = one_pass_sgd(ProjectionDesign(inputs), labels, square, weights, OnlineSGD(learning_rate=50.0, batch=1))
    assert found.status is Status.NON_FINITE
    assert np.all(np.isfinite(found.estimates[0]))


@pytest.mark.parametrize(("rate", "status"), [(2.2, Status.DIVERGING), (1.0, Status.CONVERGED)])
def test_slow_divergence_of_a_run_is_reported(rate, status):
    """Weights of a linear student grow like exp((rate - 2) rate t / 2)."""
    inputs, labels, weights = drawn(400, d=10)
    learner = OnlineSGD(learning_rate=rate, batch=1)
    found = one_pass_sgd(ProjectionDesign(inputs), labels, lambda z: z[0, 0], weights, learner)
    assert found.status is status
    assert np.max(np.abs(found.estimates[0])) < 1e6


@pytest.mark.slow
def test_diverged_runs_have_no_measured_quantities():
    learner = OnlineSGD(learning_rate=50.0, batch=1).at_accuracy(Accuracy(points=64))
    linear = SequenceMultiIndex(lambda z: z[0, 0], noise=0.1).at_accuracy(Accuracy(points=32))
    table = trajectory(linear, [2.0], learner, steps=3, d=30, start="overlap:0.3")
    assert "4 of 4 runs diverge" in table.notes[-1]
    assert np.isfinite(table["measured_error"][0]) and np.all(np.isnan(table["measured_error"][1:]))


@pytest.mark.thorough
@pytest.mark.parametrize("model", [pytest.param(TANH, marks=pytest.mark.thorough), GATED])
def test_runs_follow_the_equations_from_their_starts(model):
    learner = OnlineSGD(learning_rate=0.3, batch=1).at_accuracy(Accuracy(points=256))
    table = trajectory(model, [3.0], learner, steps=3, start="overlap:0.3", d=300, instances=6)
    for name in ("error", "cosine"):
        np.testing.assert_allclose(table[f"measured_{name}"][0], table[name][0], rtol=1e-6)
    for name in ("error", "plugin_error"):
        gap = np.abs(table[f"measured_{name}"] - table[name])
        blur = table[f"measured_{name.replace('error', 'standard_error')}"]
        assert np.all(gap <= 4 * blur + 2 / np.sqrt(300 * 6) * table[name])
    gap = np.abs(table["measured_cosine"] - table["cosine"])
    assert np.all(gap <= 4 * table["measured_cosine_standard_error"] + 0.01)
    assert np.all(table["cosine"][-1] > table["cosine"][0] + 0.03)


@pytest.mark.slow
def test_theory_beside_simulations():
    model, learner = (
        SequenceMultiIndex(lambda z: z[0, 0]),
        OnlineSGD(learning_rate=0.3, batch=1).at_accuracy(Accuracy(points=128)),
    )
    result = simulate(model, [1.0, 4.0], learner, d=100, instances=4)
    assert np.all(np.abs(result["error"] - result["theory"]) < 4 * result["standard_error"] + 0.1)
    np.testing.assert_allclose(result["theory"], 2 * np.exp(-(0.6 - 0.09) * np.array([1.0, 4.0])), rtol=1e-3)
    np.testing.assert_allclose(
        learner.theory(model).of_runs(np.array([4.0, 1.0]))["error"], result["theory"][::-1], rtol=1e-6
    )


@pytest.mark.slow
def test_even_labels_have_no_theory_without_a_dimension_or_a_start():
    even = SequenceMultiIndex(square)
    with pytest.raises(IncompatibleError, match="grows with d"):
        OnlineSGD().theory(even).of_runs(np.array([1.0]))
    assert np.isfinite(
        OnlineSGD(start="overlap:0.2", learning_rate=0.05)
        .at_accuracy(Accuracy(points=64))
        .theory(even)
        .of_runs(np.array([1.0]))["error"]
    ).all()
    table = trajectory(even, np.array([1.0]), OnlineSGD(learning_rate=0.05).at_accuracy(Accuracy(points=64)), steps=1)
    assert table["cosine"][0, 0] == pytest.approx(1e-3)


@pytest.mark.slow
def test_a_start_with_an_overlap_has_it():
    table = trajectory(
        GATED,
        [0.02],
        OnlineSGD(batch=1).at_accuracy(Accuracy(points=32)),
        steps=1,
        start="overlap:0.8",
        d=200,
        instances=2,
    )
    np.testing.assert_allclose(table["measured_cosine"][0], 0.8, atol=0.1)
    np.testing.assert_allclose(table["measured_cosine"][0], table["cosine"][0], rtol=1e-6)


@pytest.mark.slow
def test_refusals_name_the_remedy():
    with pytest.raises(ParameterError, match=r"batch = 64 is not allowed: expected at most the number of samples, 20"):
        simulate(GATED, [1.0], OnlineSGD(batch=64), d=20, instances=1)
    with pytest.raises(IncompatibleError, match="one head"):
        simulate(DeepAttention(depth=1, heads=2, noise=0.1), [2.0], "online-sgd", d=20)
    with pytest.raises(IncompatibleError, match="true signal"):
        OnlineSGD(start="overlap:0.5").learn(TANH, DataSet(ProjectionDesign(drawn()[0]), drawn()[1]))


@pytest.mark.thorough
def test_on_the_command_line(capsys, tmp_path):
    plot = tmp_path / "way.png"
    asked = [
        "trajectory",
        "attention",
        "--depth",
        "1",
        "--alpha",
        "2",
        "--steps",
        "2",
        "--learner",
        "online-sgd",
        "--start",
        "overlap:0.3",
    ]
    settings = ["--learning-rate", "0.5", "--batch", "2", "--points", "32", "--d", "30", "--instances", "2"]
    assert main([*asked, *settings, "--plot", str(plot)]) == 0
    printed = capsys.readouterr().out
    assert "learning_rate = 0.5" in printed
    assert "measured_error" in printed
    assert plot.stat().st_size > 1000
    assert main([*asked, "--passes", "3"]) == 2
    assert "learner online-sgd has no option --passes" in capsys.readouterr().err


def test_side_information_is_refused_by_learners_that_make_no_use_of_it():
    model = SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]), 1, 1, noise=0.1, side_information=0.5)
    for learner in (OnlineSGD(), SGD()):
        with pytest.raises(IncompatibleError, match=r"cannot use side_information = 0.5: use gamp"):
            require_compatible(learner, model)


@pytest.mark.parametrize("d", [None, 20])
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"feature_spectrum": (0.5, 1.5)}, "feature_spectrum are drawn whitened: use sgd or gamp"),
        ({"side_information": 0.5}, "cannot use side_information = 0.5: use gamp"),
    ],
)
def test_theory_and_runs_refuse_the_same_models(asked, words, d):
    model = SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]), **asked).at_accuracy(Accuracy(points=32))
    with pytest.raises(IncompatibleError, match=words):
        trajectory(model, [2.0], OnlineSGD(), steps=2, d=d)


def test_the_start_of_a_question_is_that_of_its_steps():
    own = trajectory(TANH, [2.0], OnlineSGD(start="overlap:0.4"), steps=2)
    again = trajectory(TANH, [2.0], OnlineSGD(start="overlap:0.3"), steps=2, start="overlap:0.4")
    np.testing.assert_array_equal(own["error"], again["error"])
    with pytest.raises(IncompatibleError, match="use trajectory, which has its equations in time, or simulate"):
        limits(TANH, [2.0], OnlineSGD())
