"""Averages over labels of two fields are sums over grids."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from glassformer import Accuracy, SequenceMultiIndex
from glassformer.channels.multi_index.latent_channel import LatentInference
from glassformer.channels.multi_index.plane_inference import PlaneInference
from glassformer.channels.multi_index.plane_integrals import PlaneIntegrals
from glassformer.channels.multi_index.plane_labels import NormalLabels

TILTED = np.array([[0.5, 0.2], [0.2, 0.6]])


def product(fields):
    return fields[:, 0] * fields[:, 1]


def inference(link, indices=2, tokens=1, noise=0.1, points=2048, noise_law=None):
    model = SequenceMultiIndex(link, indices, tokens, noise=noise, noise_law=noise_law).at_accuracy(
        Accuracy(points=points)
    )
    return model.channel.inference


@pytest.mark.parametrize("covariance", [TILTED, np.diag([1.0, 0.3]), np.diag([2e-3, 0.7]), 1e-3 * TILTED])
def test_linear_labels_have_their_exact_averages(covariance):
    along, noise = np.array([0.6, -1.1]), 0.2
    found = PlaneIntegrals(NormalLabels(lambda fields: fields @ along, noise)).averages(covariance, slope=True)
    width = noise + along @ covariance @ along
    assert np.allclose(found.information, np.outer(along, along) / width, atol=1e-6 / width)
    assert abs(found.log_partition + 0.5 * np.log(2 * np.pi * np.e * width)) < 1e-6
    four = np.einsum("i,j,k,l->ijkl", *[along] * 4) / width**2
    assert np.allclose(found.slope, four, atol=1e-5 / width**2)


def test_a_field_that_labels_do_not_depend_on_changes_nothing():
    of_one = SequenceMultiIndex(lambda z: jnp.tanh(2 * z[0, 0]), noise=0.1).channel.inference
    of_two = inference(lambda z: jnp.tanh(2 * z[0, 0]) + 0 * z[1, 0])
    expected = of_one.information(np.array([[[0.4]]])).value[0, 0, 0]
    found = of_two.information(np.diag([0.4, 0.8])[None])
    assert np.allclose(found.value[0], np.diag([expected, 0.0]), atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1.4])
def test_slopes_are_derivatives_of_averages(scale):
    integrals, step = PlaneIntegrals(NormalLabels(product, 0.3)), 1e-4
    more = np.array([[1.0, 0.5], [0.5, -0.3]])
    ends = [integrals.averages(TILTED + sign * step * more, scale=scale) for sign in (1, -1)]
    slope = integrals.averages(TILTED, slope=True, scale=scale).slope
    change = (ends[0].information - ends[1].information) / (2 * step)
    expected = -np.einsum("iakb,ab->ik", slope, more)
    assert np.allclose(change, expected, rtol=0, atol=0.01 * np.abs(expected).max())
    # The entropy of labels falls by half of the information for each unit of the overlap.
    change = (ends[0].log_partition - ends[1].log_partition) / (2 * step)
    information = integrals.averages(TILTED, scale=scale).information
    assert change == pytest.approx(-0.5 * np.sum(more * information), abs=2e-3)


LINKS = {
    "product": (lambda z: z[0, 0] * z[1, 0], 2, 1),
    "kink": (lambda z: jnp.maximum(z[0, 0], z[1, 0] + 0.2), 2, 1),
    "jump": (lambda z: z[0, 0] * (z[1, 0] > 0.3), 2, 1),
    "tokens": (lambda z: jnp.abs(z[0, 0] - 0.5 * z[0, 1]), 1, 2),
}


@pytest.mark.parametrize("name", LINKS)
def test_errors_contain_finer_grids_and_samples(name):
    usual = inference(*LINKS[name])
    rows = usual.channel.fields.rows
    variance = np.stack([0.9 * np.eye(rows), 0.3 * np.eye(rows), np.diag([0.05, 0.4])[:rows, :rows]])
    found, finer = usual.averages(variance), usual.with_points(4 * usual.points).averages(variance)
    assert isinstance(usual, PlaneInference)
    limit = np.abs(found.missing) + np.abs(finer.missing) + 1e-9
    assert np.all(np.abs(found.information.value - finer.information.value) <= limit)
    assert np.all(np.abs(found.missing) < 0.03 * (1 + np.abs(found.information.value)))
    sampled = LatentInference(usual.channel).with_points(64).averages(variance)
    difference = np.abs(found.information.value - sampled.information.value)
    assert np.all(difference <= 4 * (sampled.information.error + found.information.error) + 1e-6)


def test_a_half_plane_has_the_averages_of_one_field():
    along, v = np.array([0.6, 0.8]), 0.3
    of_one = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0])).channel.inference
    of_two = inference(lambda z: jnp.sign(along[0] * z[0, 0] + along[1] * z[1, 0]), noise=0.0)
    assert isinstance(of_two, PlaneInference)
    expected = of_one.averages(np.array([[[v]]]))
    found = of_two.averages(v * np.eye(2)[None])
    information = expected.information.value[0, 0, 0] * np.outer(along, along)
    assert np.all(np.abs(found.information.value[0] - information) <= np.abs(found.missing[0]))
    assert np.all(found.missing < 0.01)
    assert found.log_partition.value[0] == pytest.approx(expected.log_partition.value[0], abs=1e-4)
    errors = of_two.label_errors(v * np.eye(2)[None])
    difference = errors["label_error"][0] - np.arccos(np.sqrt(1 - v)) / np.pi
    assert abs(difference) <= 2.4 * errors["label_standard_error"][0] < 2e-3


def test_the_least_share_of_wrong_labels_of_a_product_of_signs():
    """Decisions change at both axes, on which nodes of the means would lie."""
    t = np.linspace(-9, 9, 20001)
    density = norm.pdf(t) * (t[1] - t[0])
    for variances in ((0.5, 0.5), (0.1, 0.1), (0.7, 0.2)):
        certain = [density @ np.abs(2 * norm.cdf(np.sqrt((1 - v) / v) * t) - 1) for v in variances]
        found = inference(lambda z: jnp.sign(z[0, 0] * z[1, 0]), noise=0.0).label_errors(np.diag(variances)[None])
        error, claimed = found["label_error"][0], 2.4 * found["label_standard_error"][0]
        assert abs(error - 0.5 * (1 - np.prod(certain))) < claimed < 3e-3


@pytest.mark.parametrize("noise_law", [None, pytest.param("flip:0.1", marks=pytest.mark.thorough)])
def test_labels_of_few_values_have_their_sampled_averages(noise_law):
    usual = inference(lambda z: 2.0 * ((z[0, 0] > 0.2) & (z[1, 0] > 0)) - 1, noise=0.0, noise_law=noise_law)
    assert isinstance(usual, PlaneInference)
    variance = TILTED[None]
    found, sampled = usual.averages(variance), LatentInference(usual.channel).with_points(256).averages(variance)
    for of_grid, of_sample in zip(found[:2], sampled[:2], strict=True):
        assert np.all(np.abs(of_grid.value - of_sample.value) <= 4 * (of_grid.error + of_sample.error))
    assert np.all(found.information.error < 0.2 * sampled.information.error.max())
    few = LatentInference(usual.channel).with_points(256).label_errors(variance)
    error = usual.label_errors(variance)
    assert error.keys() == few.keys()
    assert abs(error["label_error"][0] - few["label_error"][0]) <= 4 * few["label_standard_error"][0]
    # What is counted with flipped labels are the labels before.
    assert noise_law or error["label_standard_error"][0] < 0.1 * few["label_standard_error"][0]


def test_averages_next_to_exact_knowledge_are_sampled():
    usual = inference(LINKS["product"][0], points=64)
    variance = 1e-5 * np.eye(2)[None]
    sampled = LatentInference(usual.channel).averages(variance)
    assert np.array_equal(usual.averages(variance).information.value, sampled.information.value)
    slope = usual.averages_and_slope(variance[0])[1]
    assert np.array_equal(slope, LatentInference(usual.channel).averages_and_slope(variance[0])[1])


@pytest.mark.parametrize(
    "link, tokens",
    [(lambda z: z[:, 0], 1), (lambda z: jnp.sum(z**2), 2), (lambda z: jnp.exp(3 * z[0, 0]) * z[1, 0], 1)],
)
def test_other_labels_are_sampled(link, tokens):
    assert type(inference(link, 2, tokens)) is LatentInference
