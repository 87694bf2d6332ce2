"""Labels that are linear in some rows and piecewise constant in the others, against closed forms and lines."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from glassformer import Accuracy, SequenceMultiIndex
from glassformer.channels.multi_index.conditionally_linear import ConditionallyLinearChannel, rows_of_linear_labels
from glassformer.channels.multi_index.line_channel import LineChannel

DATA = 448
COVARIANCE = np.array([[0.6, -0.2], [-0.2, 0.3]])


def value_of_hard_attention(z):
    return z[1, jnp.argmax(z[0])]


def signed(z):
    return jnp.sign(z[0, 0]) * z[1, 0]


def data():
    rng = np.random.default_rng(0)
    omega = rng.standard_normal((DATA, 2)) * np.sqrt(1 - np.diag(COVARIANCE))
    z = omega + rng.standard_normal((DATA, 2)) @ np.linalg.cholesky(COVARIANCE).T
    return omega, np.sign(z[:, 0]) * z[:, 1]


def exact_of_signed(omega, y):
    """Log partitions and scores: for either sign of the first field the label is plus or minus the second one."""
    (v, c), (_, w) = COVARIANCE
    deviation = np.sqrt(v - c**2 / w)
    parts = []
    for sign in (1, -1):
        mean = omega[:, 0] + c / w * (sign * y - omega[:, 1])
        share = norm.pdf(sign * y, omega[:, 1], np.sqrt(w)) * norm.cdf(sign * mean / deviation)
        hazard = np.exp(norm.logpdf(mean / deviation) - norm.logcdf(sign * mean / deviation))
        parts.append((share, mean + sign * deviation * hazard, sign * y))
    share, first, second = (np.array(part) for part in zip(*parts, strict=True))
    means = [np.sum(share * part, axis=0) / share.sum(axis=0) for part in (first, second)]
    return np.log(share.sum(axis=0)), np.linalg.solve(COVARIANCE, np.stack(means) - omega.T).T


@pytest.mark.parametrize("turned", [False, True])
def test_posteriors_with_a_random_sign(turned):
    """The order of the rows does not matter."""
    omega, y = data()
    log_partition, score = exact_of_signed(omega, y)
    link, order = (lambda z: signed(z[::-1]), [1, 0]) if turned else (signed, [0, 1])
    channel = SequenceMultiIndex(link, 2).channel
    assert isinstance(channel, ConditionallyLinearChannel)
    variance = np.broadcast_to(COVARIANCE[np.ix_(order, order)], (DATA, 2, 2))
    found = channel.posterior(y, omega[:, order, None], variance)
    gap = found.log_partition - log_partition
    assert gap.std() < 0.03
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(DATA)
    for own in (found.first, found.second):
        gap = own[:, :, 0] - score[:, order]
        assert np.all(gap.std(axis=0) < 0.06 * score[:, order].std(axis=0))
        assert np.all(np.abs(gap.mean(axis=0)) < 4 * gap.std(axis=0) / np.sqrt(DATA))


def test_a_label_that_nothing_explains_leaves_the_prior():
    channel = SequenceMultiIndex(signed, 2).channel
    variance = np.broadcast_to(1e-6 * COVARIANCE, (2, 2, 2))
    found = channel.posterior(np.array([1.0, 5.0]), np.ones((2, 2, 1)), variance)
    assert np.all(np.abs(found.score[0]) < 10 / np.sqrt(1e-6))
    assert found.log_partition[0] > 0
    np.testing.assert_array_equal(found.score[1], 0)
    np.testing.assert_allclose(found.curvature[1], 0, atol=1e-6)
    assert found.log_partition[1] < -600


def test_rows_that_others_determine_are_integrated_along_lines():
    """Places would have to meet a level set as thin as what is unknown of the linear row."""
    channel = SequenceMultiIndex(signed, 2).at_accuracy(Accuracy(points=64)).channel
    nearly = np.broadcast_to([[0.5, 0.499], [0.499, 0.5]], (DATA, 2, 2))
    omega, y = data()
    found = channel.posterior(y, omega[:, :, None], nearly)
    same = channel._lines.posterior(y, omega[:, :, None], nearly)
    np.testing.assert_array_equal(found.log_partition, same.log_partition)


def test_labels_beyond_the_range_of_squares_have_no_infinite_scores():
    channel = SequenceMultiIndex(value_of_hard_attention, 2, 3).channel
    found = channel.posterior(np.array([1e307]), np.zeros((1, 2, 3)), np.diag([0.5, 1e-12])[None])
    np.testing.assert_array_equal(found.score, 0)


def test_noise_is_one_more_linear_row():
    noise = 0.2
    channel = SequenceMultiIndex(
        lambda z: jnp.sign(z[0, 0]) + jnp.sign(z[1, 0]), 2, noise=noise, label_type="continuous"
    ).channel
    omega = np.random.default_rng(0).standard_normal((DATA, 2)) * 0.7
    y = np.linspace(-3, 3, DATA)
    up = norm.cdf(omega / 0.7)
    weights = [(1 - up).prod(axis=1), (up * (1 - up[:, ::-1])).sum(axis=1), up.prod(axis=1)]
    exact = sum(w * norm.pdf(y, value, np.sqrt(noise)) for w, value in zip(weights, (-2, 0, 2), strict=True))
    gap = channel.inference.log_partitions(y, omega[:, :, None], 0.49 * np.eye(2)) - np.log(exact)
    # A few labels are explained by few of the places.
    assert gap.std() < 0.15
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(DATA)


@pytest.mark.parametrize(
    ("link", "rows"),
    [
        (value_of_hard_attention, (1,)),
        (lambda z: z[0, jnp.argmax(z[2])] - z[1, 0] * jnp.sign(z[2, 1]), (0, 1)),
        (lambda z: jnp.sum(jax.nn.softmax(z[0]) * z[1]), ()),
        (lambda z: z[0, 0] * z[1, 0], ()),
        (lambda z: jnp.sign(z[0, 0]) * jnp.maximum(z[1, 0], z[1, 1]), ()),
        # Linear along every line through the origin.
        (lambda z: jnp.sign(z[0, 0]) * z[1, 0] ** 3 / (z[1, 0] ** 2 + z[1, 1] ** 2), ()),
        # A label of positive probability.
        (lambda z: (z[0, 0] > 0) * z[1, 0], ()),
        (lambda z: z[0, 0] + z[1, 1], ()),
        # Small pieces, of which few places meet the right one.
        (lambda z: jnp.round(50 * z[0, 0]) / 50 + z[1, 0], ()),
        # Rounding of large labels is no line.
        (lambda z: 1e8 * jnp.sign(z[0, 0]) + 0.03 * jnp.tanh(z[1, 0]), ()),
    ],
)
def test_rows_in_which_labels_are_linear(link, rows):
    assert rows_of_linear_labels(lambda z: jnp.ravel(link(z)), 3 if len(rows) == 2 else 2, 2) == rows


@pytest.mark.thorough
@pytest.mark.parametrize("variance", [np.diag([0.8, 0.5]), np.diag([0.3, 1e-3]), np.array([[0.5, 0.3], [0.3, 0.4]])])
def test_averages_are_those_of_lines(variance):
    channel = SequenceMultiIndex(value_of_hard_attention, 2, 3).at_accuracy(Accuracy(points=512)).channel
    lines = LineChannel(channel.link, 2, 3, (), channel.symmetric, 0.0, points=512)
    found, same = (one.inference.averages(variance[None]) for one in (channel, lines))
    for own, other in ((found.information, same.information), (found.log_partition, same.log_partition)):
        assert np.all(np.abs(own.value - other.value) <= 2 * np.hypot(own.error, other.error))
    scale = np.sqrt(np.outer(np.diag(variance), np.diag(variance)))
    assert np.all(scale * found.information.error[0] < 0.01)


@pytest.mark.thorough
@pytest.mark.parametrize(("tokens", "points", "more"), [(3, 256, 64), (6, 2048, 16)])
def test_errors_contain_the_bias_of_few_places(tokens, points, more):
    """Where the first row decides among values that are known almost exactly, few places meet rare pieces."""
    channel = SequenceMultiIndex(value_of_hard_attention, 2, tokens).at_accuracy(Accuracy(points=points)).channel
    many = replace(channel, effort=replace(channel.effort, points=more * channel.effort.points))
    for variance in (np.diag([0.34, 1e-4]), np.diag([0.15, 1e-12])):
        found, exact = (one.inference.averages(variance[None]) for one in (channel, many))
        for own, other in ((found.information, exact.information), (found.log_partition, exact.log_partition)):
            assert np.all(np.abs(own.value - other.value) <= 2.4 * own.error)
