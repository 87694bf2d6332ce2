"""Labels of several entries without noise, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, IncompatibleError, SequenceMultiIndex, limits
from glassformer.bayes_optimal.conjugate_overlap import conjugate_overlap
from glassformer.channels.multi_index.noiseless_labels import NormalScores
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.numerics.quasi_random import confidence_factor

VARIANCE = np.array([[0.7, -0.3], [-0.3, 0.7]])


def information(link, variance, tokens=1, noise=0.0, points=256):
    """Information and its error at 95 % confidence, including the change at four times the small noise."""
    channel = SequenceMultiIndex(link, len(variance), tokens, noise=noise).at_accuracy(Accuracy(points=points)).channel
    (value,), (error,) = channel.inference.information(variance[None])
    with_more_noise = (
        0.0
        if channel.inference.with_more_noise is None
        else np.abs(channel.inference.with_more_noise.information(variance[None]).value[0] - value)
    )
    return value, confidence_factor(REPLICAS) * error + with_more_noise


@pytest.mark.thorough
@pytest.mark.parametrize(
    "link",
    [
        lambda z: jnp.stack([1000 * z[0, 0], z[1, 0]]),
        pytest.param(lambda z: jnp.stack([jnp.exp(3 * z[0, 0]), z[1, 0]]), marks=pytest.mark.thorough),
        pytest.param(lambda z: jax.nn.softmax(6 * jnp.append(z[:, 0], 0.0)), marks=pytest.mark.thorough),
    ],
    ids=["of two sizes", "of two sizes that vary", "that saturate"],
)
def test_information_of_invertible_labels_does_not_depend_on_units(link):
    """A small noise on the scale of the labels would hide the second field, or saturated labels."""
    value, error = information(link, VARIANCE, points=128)
    exact = np.linalg.inv(VARIANCE)
    assert np.all(np.abs(value - exact) < error)
    assert np.all(error < 0.06)


@pytest.mark.thorough
def test_limits_of_labels_in_different_units():
    """Both rows are known up to the same error, 1 - alpha."""
    found = limits(
        SequenceMultiIndex(lambda z: jnp.stack([1000 * z[0, 0], z[1, 0]]), 2).at_accuracy(Accuracy(points=512)), [0.3]
    )
    assert found["error"][0] == pytest.approx(0.7, abs=0.01)
    assert abs(found["error"][0] - 0.7) < found["error_estimate"][0]


@pytest.mark.thorough
def test_waves_give_no_information():
    """Labels modulo one are independent of wide fields; modes of the posterior are too many to be found."""
    value, error = information(lambda z: z[:, 0] - jnp.floor(z[:, 0]), np.diag([0.9, 0.6]))
    assert np.all(np.abs(np.diag(value)) < np.diag(error))


@pytest.mark.thorough
def test_information_of_two_tokens_is_twice_that_of_one():
    """The label is the product of the rows, for each of two tokens: its posterior is a sheet."""

    def product(z):
        return z[0] * z[1]

    variance = np.array([[0.5, 0.2], [0.2, 0.9]])
    value, error = information(product, variance, tokens=2)
    one, _ = information(lambda z: jnp.sum(product(z)), variance)
    assert np.all(np.abs(value - 2 * one) < error)
    assert np.all(error < 0.1)


@pytest.mark.thorough
def test_information_of_the_radius_of_a_circle():
    """The posterior is a circle, which no search for modes covers."""
    variance = np.diag([0.3, 0.3, 0.3])
    value, error = information(lambda z: jnp.stack([z[0, 0] ** 2 + z[1, 0] ** 2, z[2, 0]]), variance)
    radius, _ = information(lambda z: jnp.sum(z**2), variance[:2, :2])
    exact = np.diag([radius[0, 0], radius[1, 1], 1 / 0.3])
    assert np.all(np.abs(value - exact) <= error)
    assert np.all(error < 0.15)


@pytest.mark.thorough
def test_limits_from_nearest_labels():
    """The product of each of two tokens is learned as one product of twice as many samples."""

    def each(z):
        return z[0] * z[1]

    found = limits(SequenceMultiIndex(each, 2, 2).at_accuracy(Accuracy(points=512)), [0.9])
    alone = limits(SequenceMultiIndex(lambda z: jnp.sum(each(z)), 2).at_accuracy(Accuracy(points=512)), [1.8])
    assert found["error"][0] == pytest.approx(alone["error"][0], abs=found["error_estimate"][0] + 0.01)


def test_thresholds_without_noise_are_refused_with_the_remedy():
    channel = SequenceMultiIndex(lambda z: z[0] * z[1], 2, 2).at_accuracy(Accuracy(points=32)).channel
    channel.__dict__["small_noise_suffices"] = False
    assert channel.inference.with_more_noise is None
    with pytest.raises(IncompatibleError, match=r"noise = 0 .* Give a little noise"):
        channel._slopes(None, None)


@pytest.mark.slow
def test_scores_of_any_labels_are_normal():
    fields = np.random.default_rng(0).standard_normal((4096, 1))
    labels = np.concatenate([fields, np.exp(20 * fields), np.sign(fields), 0 * fields], axis=1)
    scores = NormalScores.of(labels)
    with jax.enable_x64(True):
        own = np.array(jax.vmap(scores)(labels))
        slope = np.array([jax.jacfwd(scores)(label).diagonal() for label in labels[:50]])
        log_slope = np.array([scores.log_slope(label) for label in labels[:50]])
    usual = np.abs(fields[:, 0]) < 2
    np.testing.assert_allclose(own[usual, 0], fields[usual, 0], atol=0.1)
    np.testing.assert_allclose(own[usual, 1], fields[usual, 0], atol=0.35)
    assert np.all(own[:, 2] * np.sign(fields[:, 0]) > 0)
    assert np.all(np.isfinite(own))
    np.testing.assert_allclose(log_slope, np.log(slope).sum(axis=1), rtol=1e-9)


@pytest.mark.thorough
def test_conjugate_overlap_includes_the_error_of_the_small_noise():
    model = SequenceMultiIndex(lambda z: jnp.stack([1000 * z[0, 0], z[0, 1]]), 1, 2).at_accuracy(Accuracy(points=64))
    found = conjugate_overlap(model, [0.5], accuracy=0.1)
    inference = model.channel.inference.high_accuracy().with_points(found.points)
    variance = np.array([[[0.5]]])
    noisier, value = (part.information(variance).value for part in (inference.with_more_noise, inference))
    assert abs(found.value - 4) < found.error_estimate
    assert found.error_estimate > abs(noisier - value)[0]
