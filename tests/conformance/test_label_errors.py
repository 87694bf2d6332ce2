"""Errors on labels: one quantity, one name, one convention, for every family."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, SequenceMultiIndex
from glassformer.channels.label_errors import new_samples, prediction_errors, squared_errors_on
from glassformer.channels.labelling import is_predictable

NOISE = 0.3
SCALAR = {
    "gaussian": BilinearSequenceRegression(rho=0.5, noise=NOISE),
    "tanh": BilinearSequenceRegression(rho=0.5, noise=NOISE, channel=np.tanh),
    "absolute": BilinearSequenceRegression(rho=0.5, channel="absolute"),
    "sign": BilinearSequenceRegression(rho=0.5, channel="sign"),
    "linear attention": AttentionIndexed(0.5, channel="linear", noise=NOISE),
    "softmax": AttentionIndexed(0.5),
    "noisy softmax": AttentionIndexed(0.5, noise=NOISE),
    "three tokens": AttentionIndexed(0.5, tokens=3, temperature=2.0),
    "linear, correlated tokens": AttentionIndexed(0.5, channel="linear", noise=NOISE, token_correlation=0.5),
    "softmax, correlated tokens": AttentionIndexed(0.5, token_correlation=0.5),
    "linear, untied": AttentionIndexed(0.5, channel="linear", noise=NOISE, untied=True),
    "softmax, untied": AttentionIndexed(0.5, untied=True),
    "sums of rows": AttentionIndexed(0.5, tokens=3, channel=lambda h: np.tanh(h.sum(axis=-1)), noise=NOISE),
}
# Mean square of the noise in the unit of the prediction error: per label, per component, per row of the matrix.
EXPECTED = {
    **dict.fromkeys(("gaussian", "tanh", "linear attention"), NOISE),
    **dict.fromkeys(("linear, correlated tokens", "linear, untied", "sums of rows"), NOISE),
    "noisy softmax": 2 * NOISE,
}


@pytest.mark.parametrize("name", SCALAR)
def test_the_noise_stands_beside_the_error_not_in_it(name):
    model = SCALAR[name]
    found = model.channel.label_error(np.array([1e-9, 0.5]))
    assert found["prediction_error"][0] < 1e-3
    np.testing.assert_allclose(found["label_noise"], EXPECTED.get(name, 0.0))
    assert model.channel.labels.noise == found["label_noise"][0]
    assert found.get("plugin_error", found["prediction_error"])[1] >= found["prediction_error"][1]


@pytest.mark.parametrize("name", SCALAR)
def test_the_noise_of_labels_is_counted_as_their_errors_are(name):
    channel, rng = SCALAR[name].channel, np.random.default_rng(3)
    fields = rng.standard_normal((20_000, *channel.fields.shape))
    noise = channel.sample(fields, rng) - channel.clean(fields)
    squares = np.sum(noise.reshape(len(noise), -1) ** 2, axis=1) / channel.labels.error_unit
    # Of 20,000 squares, 1 per cent of the mean is the standard error for one entry.
    assert np.mean(squares) == pytest.approx(EXPECTED.get(name, 0.0), rel=0.05)


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_an_estimate_as_good_as_the_posterior_mean_predicts_as_theory_says(name, share):
    """The errors that simulations measure are those of the limits: on normal fields of these overlaps."""
    model = SCALAR[name]
    rows, power = model.channel, model.prior.self_overlap
    samples = new_samples(rows, (1 - share) * power, (1 - share) * power, power, points=4096)
    measured = squared_errors_on(rows, samples, share * power)
    found = rows.inference.label_errors(share * power[None])
    expected = found["prediction_error"][0], found.get("plugin_error", found["prediction_error"])[0]
    assert is_predictable(rows)
    # Of 4096 quasi-random samples; two pairs of draws from each posterior add their noise to the former.
    assert measured[0] == pytest.approx(expected[0], rel=0.05)
    if "plugin_error" in found or rows.labels.linear or "linear" in name:
        assert measured[1] == pytest.approx(expected[1], rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "tanh"])
def test_their_sum_is_what_is_measured_on_noisy_labels(name):
    channel, v, rng = SCALAR[name].channel, 0.4, np.random.default_rng(0)
    omega = np.sqrt(1 - v) * rng.standard_normal(40_000)
    labels = channel.sample(omega + np.sqrt(v) * rng.standard_normal(len(omega)), rng)
    likely = omega[:, None] + np.sqrt(v) * rng.standard_normal(200)
    mean = (np.tanh(likely) if name == "tanh" else likely).mean(axis=1)
    found = channel.label_error(np.array([v]))
    measured = np.mean((labels - mean) ** 2)
    assert found["prediction_error"][0] + found["label_noise"][0] == pytest.approx(measured, rel=0.03)


def test_models_of_several_rows_say_the_same():
    channel = SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]), noise=NOISE).channel
    scalar = SCALAR["tanh"].channel.label_error(np.array([0.4]))
    found = prediction_errors(channel, np.array([[[0.4]]]))
    assert channel.labels.noise == NOISE
    assert found.bayes.value[0] == pytest.approx(scalar["prediction_error"][0], rel=0.01)
    assert found.plugin.value[0] == pytest.approx(scalar["plugin_error"][0], rel=0.01)


@pytest.mark.parametrize("v", [1.0, 0.3, 0.01])
def test_labels_without_a_sign(v):
    """Of two fields with the same mean, half the squared difference of their labels."""
    rng = np.random.default_rng(1)
    mean = np.sqrt(1 - v) * rng.standard_normal(400_000)
    one, other = (np.abs(mean + np.sqrt(v) * rng.standard_normal(len(mean))) for _ in range(2))
    squares = 0.5 * (one - other) ** 2
    found = SCALAR["absolute"].channel.label_error(np.array([v]))["prediction_error"][0]
    assert abs(found - squares.mean()) < 4 * squares.std() / np.sqrt(len(mean))


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [3, 4])
def test_rows_of_hardmax(tokens):
    model, v, rng = AttentionIndexed(0.5, tokens=tokens, channel="hardmax"), 0.4, np.random.default_rng(2)
    found = {name: value[0] for name, value in model.channel.label_error(np.array([v])).items()}
    shape = (100_000, tokens * (tokens + 1) // 2)
    mean = np.sqrt(1.5 - v) * rng.standard_normal(shape)
    one, other = (model.channel.sample(mean + np.sqrt(v) * rng.standard_normal(shape), rng) for _ in range(2))
    assert found["label_brier"] == pytest.approx(np.mean(one != other), abs=0.004)
    assert found["label_error"] < found["label_brier"] < 2 * found["label_error"]
    assert 0 < found["label_standard_error"] < 0.01


@pytest.mark.slow
def test_two_tokens_have_a_closed_form():
    from glassformer.channels.attention.prediction import row_errors

    v = np.array([0.05, 0.5, 1.5])
    sampled, exact = row_errors(2, 1.5, v), AttentionIndexed(0.5, channel="hardmax").channel.label_error(v)
    for name, value in exact.items():
        error = sampled["label_brier_standard_error" if name == "label_brier" else "label_standard_error"]
        assert np.all(np.abs(sampled[name] - value) < 5 * error + 1e-12)
