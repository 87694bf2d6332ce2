"""What few latents leave out of averages is in their errors.

``benchmarks/check_sampled_posteriors.py`` is the long version, over links, noises and covariances.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from glassformer import Accuracy, AttentionIndexed, SequenceMultiIndex
from glassformer.bayes_optimal.instability import Instability
from glassformer.bayes_optimal.known_direction import CurvePoint, extrapolated_crossing
from glassformer.channels.attention.noisy import NoisyAttentionChannel
from glassformer.channels.link.channel import LinkChannel
from glassformer.channels.multi_index.importance_sampling import Effort, posterior_moments
from glassformer.channels.multi_index.latent_posterior import LatentPosterior, PosteriorFamily
from glassformer.channels.multi_index.weighted_moments import weighted_moments
from glassformer.core.errors import DataError
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.numerics.sequences import remaining_change

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from check_sampled_posteriors import LINKS, SEVERAL, measured


@pytest.mark.parametrize(
    ("power", "kept"),
    [(0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 4.2), (0.1, 0.4461)],
)
def test_remaining_change_of_a_geometric_sequence(power, kept):
    """Beyond the powers that are believed the remainder is larger than what is missing, or smaller."""
    levels = [1 + 0.01 * work**-power * np.array([1.0, -2.0]) for work in (1.0, 1 / 4, 1 / 16)]
    np.testing.assert_allclose(remaining_change(levels), kept * -0.01 * np.array([1.0, -2.0]), rtol=2e-3)


def test_remaining_change_of_special_sequences():
    assert np.all(remaining_change([np.ones(3)]) == 0)
    # Half of the work that loses twice as much misses what was lost last.
    assert remaining_change([np.array(1.0), np.array(1.1), np.array(1.3)], 2) == pytest.approx(-0.1)
    # Errors of one over the work: a fourth of it, which has four times the error 0.1, shows three times that error.
    assert remaining_change([np.array(1.1), np.array(1.4)]) == pytest.approx(-0.1)
    assert np.all(remaining_change([np.ones(3)] * 3) == 0)
    # Errors that fall no faster than the work grows: a sixteenth of the change before says nothing.
    assert remaining_change([np.array(1.0), np.array(1.1), np.array(2.7)], fastest=1.0) == pytest.approx(-0.1 / 3)


WEIGHTS, NOISE = np.array([1.0, 0.5]), 0.5


def _linear_labels():
    """Labels ``y = w.x`` with noise, whose posteriors are Gaussian."""

    def target(x, datum):
        residual = (datum[0] - jnp.sum(WEIGHTS * x)) / np.sqrt(NOISE)
        return jnp.reshape(residual, (1, 1)), jnp.reshape(-0.5 * np.log(2 * np.pi * NOISE), 1)

    return LatentPosterior(target, lambda x, datum: x[None], label=None)


@pytest.mark.thorough
def test_posteriors_of_linear_labels_are_gaussian():
    labels = np.random.default_rng(0).standard_normal(64) * np.sqrt(NOISE + WEIGHTS @ WEIGHTS)
    found = posterior_moments(PosteriorFamily(_linear_labels), 2, (labels,), Effort(1024, 4, 8))
    covariance = np.linalg.inv(np.eye(2) + np.outer(WEIGHTS, WEIGHTS) / NOISE)
    mean = np.outer(labels, covariance @ WEIGHTS / NOISE)
    log_partition = norm.logpdf(labels, scale=np.sqrt(NOISE + WEIGHTS @ WEIGHTS))
    gaps = [found.first - mean, found.second - mean, found.covariance - covariance, found.log_partition - log_partition]
    for gap in gaps:
        assert np.abs(gap).max() < 0.02
        assert np.abs(gap.mean(axis=0)).max() < 2e-3


@pytest.mark.slow
def test_shares_are_means_over_parts_of_the_sample():
    """A part has as many latents of both halves; of all parts together the moments are those of the whole."""
    rng = np.random.default_rng(0)
    log_weight, values = rng.standard_normal((64, 5)), [rng.standard_normal((64, 5)) for _ in range(2)]
    with jax.enable_x64(True):
        moments = jax.jit(weighted_moments, static_argnames="shares")
        found = moments([jnp.asarray(log_weight)], [[jnp.asarray(part) for part in values]], shares=(1, 4))
        parts = [np.r_[8 * k : 8 * k + 8, 32 + 8 * k : 40 + 8 * k] for k in range(4)]
        each = [moments([jnp.asarray(log_weight[p])], [[jnp.asarray(v[p]) for v in values]]) for p in parts]
        alone = moments([jnp.asarray(log_weight)], [[jnp.asarray(part) for part in values]])
    for whole, own in zip(found[: len(alone)], alone, strict=True):
        np.testing.assert_allclose(whole, own, rtol=1e-12)
    for share, own in zip(found[len(alone) :], zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(share, np.mean(own, axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_one_latent_that_outweighs_all_others_is_in_one_of_two_estimates():
    """Shared by both, its square stayed in what their product says."""
    rng = np.random.default_rng(1)
    log_weight, values = np.zeros((64, 1)), rng.standard_normal((64, 1))
    moments = jax.jit(lambda weight: weighted_moments([weight], [[jnp.asarray(values)]]))
    with jax.enable_x64(True):
        for heavy, light in ((5, 2), (40, 1)):
            one = log_weight.copy()
            one[heavy] = 5.0
            plain, found = map(moments, (log_weight, one))
            assert np.abs(found[3 - light] - plain[3 - light]).item() > 0.1
            np.testing.assert_allclose(found[light], plain[light], rtol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "noise"),
    [
        ("z1 z2", 0.1),
        ("tanh + tanh", 0.1),
        ("(z1 + z2 z3, z1^2)", 0.0),
    ],
)
def test_the_bias_of_few_latents_is_in_the_estimate(name, noise):
    bias, blur, estimate = measured(*(LINKS | SEVERAL)[name], noise, 0.5, points=32, share=16)
    assert bias - 2 * blur < estimate
    # An estimate that is never nearly reached says as little as one that lies.
    assert estimate < 10 * bias + 4 * blur


@pytest.mark.thorough
def test_errors_include_the_estimated_bias():
    # The link of the README, whose programs are compiled once for all tests.
    model = SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), 2, noise=0.1).at_accuracy(Accuracy(points=64))
    found = model.channel.inference.averages(np.eye(2)[None] * 0.5)
    assert np.all(np.abs(found.missing[0].diagonal()) > 0)
    spread = np.std(found.replicas[0], axis=0, ddof=1) / np.sqrt(8)
    expected = np.hypot(spread, found.unseen * np.abs(found.information.value[0])) * confidence_factor(8)
    np.testing.assert_allclose(confidence_factor(8) * found.information.error[0], expected + np.abs(found.missing[0]))


def test_systematic_errors_do_not_depend_on_the_confidence():
    found = Instability(2.0, 0.1, np.eye(1), False, np.full(8, 2.0), missing=-0.3)
    assert found.relative_error == pytest.approx((confidence_factor(8) * 0.1 + 0.3) / 2)


def test_errors_of_thresholds_of_one_known_direction_include_bias_and_unseen_points():
    found = Instability(1.0, 0.0, np.eye(1), False, np.ones(8))
    nothing = (np.zeros(8), np.zeros(8))
    sure, rare, biased = (
        extrapolated_crossing(
            CurvePoint(0.0, 0.0, 0.0, nothing, missing, unseen, found), growth_slope=2.0, alpha_slope=1.0
        ).error
        for missing, unseen in [((0.0, 0.0), 0.0), ((0.0, 0.0), 0.01), ((0.02, -0.04), 0.0)]
    )
    assert sure == 0
    assert rare == pytest.approx(confidence_factor(8) * 0.5 * 0.01)
    assert biased == pytest.approx(0.5 * 0.02 + 0.5 * 0.04)


@pytest.mark.parametrize(
    "given", [{"tokens": 2, "channel": "softmax", "noise": 0.1}, {"tokens": 4, "channel": "hardmax"}]
)
def test_replicas_sample_their_posteriors_apart(given):
    """Were it one sample for all data, its error would be that of the average, and in no error bar."""
    channel = AttentionIndexed(rho=0.5, **given).channel
    rng = np.random.default_rng(0)
    label = channel.sample(rng.standard_normal((1, channel.components)), rng)
    field = rng.standard_normal((1, channel.components))
    same = channel.posterior(np.repeat(label, 8, axis=0), np.repeat(field, 8, axis=0), 0.3)
    assert np.all(np.ptp(same.first, axis=0) > 0)
    again = channel.posterior(np.repeat(label, 8, axis=0), np.repeat(field, 8, axis=0), 0.3)
    np.testing.assert_array_equal(same.first, again.first)


@pytest.mark.thorough
def test_log_partitions_that_alternate_are_within_their_errors():
    power, variance, noise = 1.5, 0.5, 1e-3
    channel = NoisyAttentionChannel(lambda h: np.sin(3 * h)[..., 0], tokens=1, noise=noise, power=power)
    exact = LinkChannel(lambda x: np.sin(3 * np.sqrt(2 * power) * x), noise=noise)
    _, _, found, error = channel.averages_at(variance)
    expected = exact.expected_log_partition(np.array([variance / power])).value[0]
    assert abs(found - expected) < 1.3 * error


def test_labels_that_are_no_numbers_are_refused():
    rows = SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0], 2, noise=0.2).channel
    attention = NoisyAttentionChannel(np.tanh, tokens=2, noise=0.1)
    for channel, shape, variance in ((rows, (1, 2, 1), 0.5 * np.eye(2)), (attention, (1, 1, 3), np.eye(1))):
        with pytest.raises(DataError, match="labels that are numbers"):
            channel.inference.log_partitions(np.full((1, *channel.labels.shape), np.nan), np.zeros(shape), variance)
