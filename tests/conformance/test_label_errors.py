"""Errors on labels: one quantity, one name, one convention, for every family."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, SequenceMultiIndex

NOISE = 0.3
SCALAR = {
    "gaussian": BilinearSequenceRegression(rho=0.5, noise=NOISE),
    "tanh": BilinearSequenceRegression(rho=0.5, noise=NOISE, channel=np.tanh),
    "sign": BilinearSequenceRegression(rho=0.5, channel="sign"),
    "linear attention": AttentionIndexed(0.5, channel="linear", noise=NOISE),
    "softmax": AttentionIndexed(0.5),
    "noisy softmax": AttentionIndexed(0.5, noise=NOISE),
}
# Mean square of the noise in the unit of the prediction error: per label, per component, per row of the matrix.
EXPECTED = {"gaussian": NOISE, "tanh": NOISE, "linear attention": NOISE, "noisy softmax": 2 * NOISE}


@pytest.mark.parametrize("name", SCALAR)
def test_the_noise_stands_beside_the_error_not_in_it(name):
    model = SCALAR[name]
    found = model.channel.label_error(np.array([1e-9, 0.5]))
    assert found["prediction_error"][0] < 1e-3
    np.testing.assert_allclose(found["label_noise"], EXPECTED.get(name, 0.0))
    assert model.channel.label_noise == found["label_noise"][0]
    assert found.get("plugin_error", found["prediction_error"])[1] >= found["prediction_error"][1]


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
    found = channel.prediction_errors(np.array([[[0.4]]]))
    assert channel.label_noise == NOISE
    assert found.bayes.value[0] == pytest.approx(scalar["prediction_error"][0], rel=0.01)
    assert found.plugin.value[0] == pytest.approx(scalar["plugin_error"][0], rel=0.01)
