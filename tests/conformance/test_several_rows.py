"""Models of several rows: the same checks for links, networks and layers of extensive width."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, DeepAttention, DeepAttentionIndexed, SequenceMultiIndex, simulate
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.core.estimate import Estimate

MODELS = {
    "committee of two signs": SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]) + jnp.sign(z[1, 0]), 2, 1),
    "polynomial": SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0] + z[0, 0], 2, 1),
    "noisy": SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0] + z[0, 1] * z[1, 1]), 2, 2, noise=0.2),
    "two layers": DeepAttention(),
    "untied layer": DeepAttention(depth=1, untied=True),
    "two wide layers": DeepAttentionIndexed(rho=0.5),
}


# Checks of many samples: of one model in the suite, of all among the thorough tests.
def one_in_the_suite(chosen):
    return [pytest.param(name, marks=pytest.mark.slow if name == chosen else pytest.mark.thorough) for name in MODELS]


# Posterior covariances with an overlap between the rows; layers of extensive width are told apart one by one.
VARIANCE = np.array([[0.6, 0.1], [0.1, 0.4]])


def sampled_channel(model):
    """The model's channel with its work per data point set, the same for all checks: it is compiled once."""
    # Labels with noise need more latents for the same accuracy.
    return replace(model.channel, effort=Effort(4096 if model is MODELS["noisy"] else 256, 8, 10))


def covariance_of(model):
    return VARIANCE * (np.eye(2) if model.prior.diagonal else 1.0)


def drawn(model, channel, count, seed):
    """Means, labels and covariances of ``count`` data points."""
    rng, v = np.random.default_rng(seed), covariance_of(model)
    shape = (count, 2, channel.fields.columns)
    omega = np.linalg.cholesky(channel.fields.self_overlap - v) @ rng.standard_normal(shape)
    fields = omega + np.linalg.cholesky(v) @ rng.standard_normal(shape)
    return channel.label_from(fields, rng.standard_normal((count, channel.sources))), omega, np.tile(v, (count, 1, 1))


@pytest.mark.thorough
@pytest.mark.parametrize("name", one_in_the_suite("polynomial"))
def test_scores_are_derivatives_of_the_log_partition(name):
    channel = sampled_channel(MODELS[name])
    y, omega, spread = drawn(MODELS[name], channel, 3, 4)
    score, step = channel.posterior(y, omega, spread).score, 0.12
    for a in range(2):
        for b in range(channel.fields.columns):
            shift = np.zeros(omega.shape)
            shift[:, a, b] = step
            high, low = (channel.posterior(y, omega + s * shift, spread).log_partition for s in (1, -1))
            np.testing.assert_allclose((high - low) / (2 * step), score[:, a, b], atol=0.08)


# With noise: tests/priors/test_spectrum_rows.py.
@pytest.mark.parametrize("name", one_in_the_suite("polynomial"))
def test_squares_of_scores_equal_their_slopes_on_average(name):
    # Fewer than a long chunk of data points, whose program would be compiled too.
    channel, count = sampled_channel(MODELS[name]), 448
    found = channel.posterior(*drawn(MODELS[name], channel, count, 5))
    gap = np.einsum("nak,nbk->nab", found.first, found.second) - found.curvature
    error = gap.std(axis=0) / np.sqrt(count)
    assert np.all(np.abs(gap.mean(axis=0)) < 4 * error + 0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("name", one_in_the_suite("polynomial"))
def test_information_is_twice_the_slope_of_the_expected_log_partition(name):
    model, step = MODELS[name], 0.05
    channel, v = model.channel.inference.with_points(64).channel, covariance_of(model)
    shifts = np.array([np.zeros((2, 2)), *(sign * step * np.diag(row) for row in np.eye(2) for sign in (-1, 1))])
    found = channel.inference.averages(v + shifts)
    log_z, blur = found.log_partition.value, found.log_partition.error
    for row in range(2):
        slope = (log_z[1 + 2 * row] - log_z[2 + 2 * row]) / (2 * step)
        information, error = (part[0, row, row] for part in found.information)
        assert 0.5 * information == pytest.approx(slope, abs=4 * (error + blur.max()) + 0.02 * abs(slope))


@pytest.mark.parametrize("name", ["noisy", "two wide layers"])
def test_the_prior_claims_the_error_that_its_denoiser_makes(name):
    prior, rng = MODELS[name].prior, np.random.default_rng(6)
    shape = (2, 4000) if name == "noisy" else (2, 120, 120)
    q_hat, signal, noise = np.diag([2.0, 0.5]), prior.sample(shape, rng), rng.standard_normal(shape)
    if name == "two wide layers":
        noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2 * shape[-1])
    field = np.tensordot(q_hat, signal, axes=1) + np.tensordot(np.sqrt(q_hat), noise, axes=1)
    found = prior.denoise(field, q_hat)
    gap = found.signal - signal
    expected = prior.covariance(Estimate(q_hat[None], np.zeros((1, 2, 2)))).value[0]
    np.testing.assert_allclose(np.diag(prior.gram(gap, gap)), np.diag(expected), rtol=0.08)
    np.testing.assert_allclose(np.diag(found.variance), np.diag(expected), rtol=0.08)


@pytest.mark.thorough
def test_message_passing_and_theory_agree_at_large_size():
    model = MODELS["noisy"].at_accuracy(Accuracy(points=256))
    result = simulate(model, [3.0], d=300, instances=6)
    assert result.converged
    gap = np.abs(result["row_error"] - result["row_theory"])
    assert np.all(gap < 3 * result["row_standard_error"] + 0.03)
    predicted = np.abs(result["prediction_error"] - result["prediction_theory"])
    assert np.all(predicted < 3 * result["prediction_standard_error"] + 0.03)
