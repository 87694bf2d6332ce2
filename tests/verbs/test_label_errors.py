"""Wrong labels, as simulations count them, beside the theory: all families with discrete labels."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, AttentionIndexed, BilinearSequenceRegression, SequenceMultiIndex, limits, simulate
from glassformer.channels.label_errors import new_samples, squared_errors_on, wrong_labels, wrong_labels_on


def steps(h):
    """Three grades."""
    return np.where(h < -0.5, 0.0, np.where(h < 0.7, 1.0, 2.0))


MODELS = {
    "sign": BilinearSequenceRegression(rho=0.5, channel="sign"),
    "flipped": BilinearSequenceRegression(rho=0.5, channel="sign", noise_law="flip:0.1"),
    "grades": BilinearSequenceRegression(rho=0.5, channel=steps),
    "hardmax of two": AttentionIndexed(0.5, tokens=2, channel="hardmax"),
    "hardmax of three": AttentionIndexed(0.5, tokens=3, channel="hardmax"),
    "one index": SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]), 1, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_an_estimate_of_bayes_optimal_overlap_has_the_error_of_theory(name, share):
    """Gram matrices of the limit of large sizes: what is counted is what the channel promises at that overlap."""
    channel = MODELS[name].channel
    power = MODELS[name].prior.self_overlap
    samples = new_samples(channel, (1 - share) * power, (1 - share) * power, power, points=4096)
    found = wrong_labels_on(channel, samples, share * power)
    expected = channel.inference.label_errors(share * power[None])["label_error"]
    assert found == pytest.approx(expected[0], abs=0.012)


def test_sampled_wrong_labels_of_fields_of_any_power():
    """Attention indices have the variance 1 + rho: sampled wrong labels agree with the closed form of two tokens."""
    channel = MODELS["hardmax of two"].channel
    variance = np.array([[[0.4]], [[1.3]]])
    found, expected = wrong_labels(channel, variance), channel.inference.label_errors(variance)["label_error"]
    assert channel.fields.self_overlap[0, 0] == 1.5
    assert found.value == pytest.approx(expected, abs=4 * np.max(found.error) + 0.005)  # sampling error of 8 replicas


@pytest.mark.thorough
def test_several_indices():
    """The sign of a product of two: wrong where an odd number of the two signs is."""
    channel = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0] * z[1, 0]), 2, 1).at_accuracy(Accuracy(points=64)).channel
    once = np.arccos(np.sqrt(0.7)) / np.pi
    exact = 2 * once * (1 - once)
    found = wrong_labels(channel, 0.3 * np.eye(2)[None])
    assert found.value[0] == pytest.approx(exact, abs=4 * found.error[0] + 0.01)
    assert wrong_labels_on(channel, new_samples(channel, *3 * [np.eye(2)]), 1e-9 * np.eye(2)) < 0.002
    # A sum over grids.
    table = channel.inference.with_points(1024).label_errors(0.3 * np.eye(2)[None])
    assert table["label_error"][0] == pytest.approx(exact, abs=3 * table["label_standard_error"][0])
    assert table["label_standard_error"][0] < 0.02


def test_rows_of_scalar_channels_tell_them_too():
    found = limits(MODELS["one index"], [0.5, 2.0])
    np.testing.assert_allclose(found["label_error"], np.arccos(np.sqrt(found["overlap"].ravel())) / np.pi, atol=1e-6)


@pytest.mark.slow
def test_simulations_count_them():
    found = simulate(MODELS["sign"], [3.0], d=24, instances=3)
    run = found.instances[0][0]
    assert 0 < run.label_error < 0.5
    assert found["label_theory"] == pytest.approx(limits(MODELS["sign"], [3.0])["label_error"], rel=1e-6)
    assert abs(found["label_error"] - found["label_theory"])[0] < 5 * found["label_standard_error"][0] + 0.03
    continuous = simulate(BilinearSequenceRegression(rho=0.5, noise=0.1), [1.0], d=20, instances=1)
    assert continuous.instances[0][0].label_error is None
    assert "label_error" not in continuous.columns


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["flipped", "one index", pytest.param("hardmax of two", marks=pytest.mark.thorough)])
def test_message_passing_errs_as_often_as_theory_says(name):
    found = simulate(MODELS[name], [3.0], d=60, instances=3)
    assert abs(found["label_error"] - found["label_theory"])[0] < 5 * found["label_standard_error"][0] + 0.03


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "noise"),
    [("gaussian", 0.1), ("sign", 0.0), pytest.param("absolute", 0.0, marks=pytest.mark.thorough)],
)
def test_errors_of_predictions_are_measured_of_one_matrix(channel, noise):
    """Of an estimate as good as the posterior mean: those of the theory at that overlap."""
    model = BilinearSequenceRegression(rho=0.5, channel=channel, noise=noise)
    rows, share = model.channel, 0.4
    one = np.ones((1, 1))
    samples = new_samples(rows, (1 - share) * one, (1 - share) * one, one)
    prediction, plugin = squared_errors_on(rows, samples, share * one)
    table = rows.inference.label_errors(share * one[None])
    assert prediction == pytest.approx(table["prediction_error"][0], rel=0.08)
    # Of the 512 same samples; posterior copies add their own noise to the former.
    assert plugin > 0.97 * prediction
    found = simulate(model, [2.0], d=12, instances=2)
    assert found["prediction_error"][0] == np.mean([run.prediction_error for run in found.instances[0]])
    expected = limits(model, found["alpha_realised"], throw=False)["prediction_error"]
    assert found["prediction_theory"] == pytest.approx(expected, rel=1e-6, abs=1e-9)
