"""Level sets integrated along lines, against one-dimensional integrals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from glassformer import Accuracy, SequenceMultiIndex
from glassformer.channels.labelling import true_labels
from glassformer.channels.multi_index.line_channel import cells_for
from glassformer.channels.multi_index.line_integrals import CELLS
from glassformer.channels.multi_index.line_moments import in_blocks, line_pool
from glassformer.channels.multi_index.link_symmetries import row_symmetries
from glassformer.channels.multi_index.noisy_line_channel import NoisyLineChannel
from glassformer.numerics.scalarize import scalarize

DATA = 256
VARIANCE = np.diag([0.3, 0.7])


def data(seed=0):
    """Mean fields and fields of some data points, shape (n, 2)."""
    rng = np.random.default_rng(seed)
    omega = rng.standard_normal((DATA, 2)) * np.sqrt(1 - np.diag(VARIANCE))
    return omega, omega + rng.standard_normal((DATA, 2)) * np.sqrt(np.diag(VARIANCE))


def posterior(link, omega, labels):
    channel = SequenceMultiIndex(link, 2).channel
    return channel.posterior(labels, omega[:, :, None], np.broadcast_to(VARIANCE, (DATA, 2, 2)))


def of_a_curve(height, y, omega):
    """Scores where the label is ``z1 + height(z2)``: the level set is a graph over ``z2``."""
    z2 = np.linspace(-8, 8, 10001)
    v = np.diag(VARIANCE)
    z1 = y[:, None] - height(z2)
    log_weight = -((z1 - omega[:, :1]) ** 2) / (2 * v[0]) - (z2 - omega[:, 1:]) ** 2 / (2 * v[1])
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    mean = np.stack([np.sum(weight * z1, axis=1), np.sum(weight * z2, axis=1)], axis=1)
    return (mean - omega) / v


HEIGHTS = {
    "a cube": (lambda z: z**3, lambda z: z**3, 0.04),
    # Lines along the second axis cross this level set up to twenty times.
    "waves": (lambda z: jnp.sin(6 * z) + 0.2 * z, lambda z: np.sin(6 * z) + 0.2 * z, 0.35),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", HEIGHTS)
def test_scores_on_curves(name):
    traced, plain, noise = HEIGHTS[name]
    omega, z = data()
    y = z[:, 0] + plain(z[:, 1])
    found = posterior(lambda x: x[0, 0] + traced(x[1, 0]), omega, y)
    exact = of_a_curve(plain, y, omega)
    scale = np.sqrt(np.mean(exact**2, axis=0))
    for estimate in (found.first[:, :, 0], found.second[:, :, 0]):
        gap = estimate - exact
        assert np.all(np.sqrt(np.mean(gap**2, axis=0)) < noise * scale)
        # What is left averages away.
        assert np.all(np.abs(gap.mean(axis=0)) < 4 * gap.std(axis=0) / np.sqrt(DATA) + 1e-9)


@pytest.mark.slow
def test_scores_in_quadrants():
    omega, z = data()
    y = np.sign(z[:, 0] * z[:, 1])
    found = posterior(lambda x: jnp.sign(x[0, 0] * x[1, 0]), omega, y)
    a = omega / np.sqrt(np.diag(VARIANCE))
    up, slope = norm.cdf(a), norm.pdf(a) / np.sqrt(np.diag(VARIANCE))
    z_out = 0.5 + 0.5 * y * (2 * up[:, 0] - 1) * (2 * up[:, 1] - 1)
    exact = y[:, None] * slope * (2 * up[:, ::-1] - 1) / z_out[:, None]
    gap = found.score[:, :, 0] - exact
    assert np.all(np.sqrt(np.mean(gap**2, axis=0)) < 0.1 * np.sqrt(np.mean(exact**2, axis=0)))
    assert np.all(np.abs(gap.mean(axis=0)) < 4 * gap.std(axis=0) / np.sqrt(DATA))


@pytest.mark.thorough
def test_points_close_to_grid_nodes_are_not_atoms():
    """As V vanishes, V times the information is 11^T/8 (both fields positive) plus I/4 (one of them)."""
    channel = (
        SequenceMultiIndex(lambda z: jnp.maximum(z[0, 0], 0) + jnp.maximum(z[1, 0], 0), 2)
        .at_accuracy(Accuracy(points=256))
        .channel
    )
    value, error = channel.inference.information(1e-8 * np.eye(2)[None])
    exact = np.array([[0.375, 0.125], [0.125, 0.375]])
    assert np.all(np.abs(1e-8 * value[0] - exact) < 3 * 1e-8 * error[0])
    # Each of them left out would be as much.
    assert 1e-8 * error[0, 0, 1] < 5e-4


@pytest.mark.slow
def test_log_partitions_of_atoms_are_log_probabilities():
    """They must not contain a factor of the number of axes."""
    channel = SequenceMultiIndex(lambda z: jnp.maximum(z[0, 0], 0) + jnp.maximum(z[1, 0], 0), 2).channel
    omega = np.random.default_rng(0).standard_normal((448, 2, 1)) * 0.6
    found = channel.inference.log_partitions(np.zeros(448), omega, 0.64 * np.eye(2))
    gap = found - norm.logcdf(-omega[:, :, 0] / 0.8).sum(axis=1)
    # Of 128 lines along each axis; a few times what the largest of so many leaves.
    assert np.abs(gap).max() < 0.15
    assert np.abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(gap))


CORRELATED = np.array([[0.7, -0.3], [-0.3, 0.7]])


def largest(z):
    return jnp.max(z)


def sign_and_field(z):
    return jnp.sign(z[0, 0]) + z[1, 0]


def _beside(z, omega, row):
    """Density of one field, and mean and deviation of the other given it."""
    v, c = CORRELATED[row, row], CORRELATED[0, 1]
    mean = omega[:, 1 - row] + c / v * (z - omega[:, row])
    return norm.pdf(z, omega[:, row], np.sqrt(v)), mean, np.sqrt(CORRELATED[1 - row, 1 - row] - c**2 / v)


def _density_of_largest(y, omega):
    parts = [_beside(y, omega, row) for row in (0, 1)]
    return sum(density * norm.cdf((y - mean) / deviation) for density, mean, deviation in parts)


def _density_of_jump(y, omega):
    parts = [(sign, *_beside(y - sign, omega, 1)) for sign in (-1, 1)]
    return sum(density * norm.cdf(sign * mean / deviation) for sign, density, mean, deviation in parts)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("link", "density"),
    [
        # Kinks are in the suite with one label: test_points_next_to_kinks_of_level_links_are_found.
        pytest.param(largest, _density_of_largest, marks=pytest.mark.thorough),
        (sign_and_field, _density_of_jump),
    ],
)
def test_points_at_kinks_and_jumps_are_found_for_correlated_fields(link, density):
    """Two points in one cell count: without them log partitions are 0.01 and 0.02 too small, 20 standard errors."""
    # Fewer than a long chunk: the program of short ones serves other tests.
    rng, count = np.random.default_rng(0), 448
    omega = np.sqrt(0.3) * rng.standard_normal((count, 1)) * np.ones(2)
    z = omega + rng.standard_normal((count, 2)) @ np.linalg.cholesky(CORRELATED).T
    channel = SequenceMultiIndex(link, 2).channel
    y = channel.label_from(z[:, :, None], None)
    gap = channel.inference.log_partitions(y, omega[:, :, None], CORRELATED) - np.log(density(y, omega))
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(count)
    assert gap.std() < 0.03


def _scores_on_a_cusp(y, omega):
    """Where the label is ``sqrt(|z1|) + z2``: its level set is two half parabolas, ``z1`` plus or minus a square."""
    root = np.linspace(0, 3, 601)
    fields = np.stack([np.stack([sign * root**2 + 0 * y, y - root]) for sign in (-1, 1)], axis=1).reshape(2, -1)
    white = np.linalg.solve(np.linalg.cholesky(CORRELATED), fields - omega[:, None])
    weight = np.abs(np.tile(root, 2)) * np.exp(-0.5 * np.sum(white**2, axis=0))
    return np.linalg.solve(CORRELATED, fields @ weight / weight.sum() - omega)


@pytest.mark.thorough
def test_errors_contain_the_points_that_cells_hide():
    """Crossings next to a cusp are arbitrarily close to each other: a grid of fixed cells misses some of them."""
    rng, count = np.random.default_rng(0), 2048
    omega = np.sqrt(0.3) * rng.standard_normal((count, 1)) * np.ones(2)
    z = omega + rng.standard_normal((count, 2)) @ np.linalg.cholesky(CORRELATED).T
    y = np.sqrt(np.abs(z[:, 0])) + z[:, 1]
    scores = np.array([_scores_on_a_cusp(*pair) for pair in zip(y, omega, strict=True)])
    exact = np.mean(scores[:, 0] ** 2)
    channel = (
        SequenceMultiIndex(lambda z: jnp.sqrt(jnp.abs(z[0, 0])) + z[1, 0], 2).at_accuracy(Accuracy(points=256)).channel
    )
    value, error = (part[0, 0, 0] for part in channel.inference.information(CORRELATED[None]))
    assert abs(value - exact) < 2 * error
    assert error < 0.015


@pytest.mark.thorough
def test_jumps_are_found_with_the_shortest_cells():
    """The information vanishes; the shortest cells must be judged by still shorter ones."""
    channel = SequenceMultiIndex(lambda z: (z[0, 0] + z[1, 0] ** 2) % 1, 2).at_accuracy(Accuracy(points=32)).channel
    value, error = channel.inference.information(np.diag([1, 0.35])[None])
    assert channel.sharp
    assert np.all(np.abs(value[0]) < 3 * error[0] + 1e-4)
    assert np.all(error[0] < 2e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("link", [sign_and_field, lambda z: sign_and_field(z[::-1])])
def test_information_on_one_row_if_the_other_is_known_almost_perfectly(link):
    """The label is the known field plus the sign of the other: the order of the rows must not matter.

    The known field comes second, then first. In that case it hardly changes along any line, and lines of strongly
    correlated fields cross jumps: single precision would lose most of the level set.
    """
    known, variance, correlation = 1e-12, 0.27, -0.9
    scale = np.sqrt([variance, known])
    # Given the label the whitened known field is exact, and the sign shows the other one up to this deviation.
    rest = np.sqrt(variance * (1 - correlation**2))
    t, weight = np.polynomial.hermite_e.hermegauss(100)
    t *= np.sqrt(1 - rest**2) / rest
    of_sign = weight @ np.exp(2 * norm.logpdf(t) - norm.logcdf(t) - norm.logcdf(-t)) / weight.sum()
    inverse = np.linalg.inv([[1, 0], [correlation, rest / scale[0]]])
    # The known field first, as the Cholesky root has it.
    exact = (inverse.T @ np.diag([1, of_sign]) @ inverse)[::-1, ::-1]
    order = [0, 1] if link is sign_and_field else [1, 0]
    unit = np.outer(scale[order], scale[order])
    channel = SequenceMultiIndex(link, 2).at_accuracy(Accuracy(points=64)).channel
    value, error = channel.inference.information((unit * [[1, correlation], [correlation, 1]])[None])
    gap = unit * value[0] - exact[np.ix_(order, order)]
    assert np.all(np.abs(gap) < 2 * unit * error[0])
    assert np.all(unit * error[0] < 0.05)


@pytest.mark.thorough
def test_little_noise_is_one_more_row_of_the_fields():
    """For a linear link everything is known exactly; importance sampling needs thousands of latents."""
    noise = 0.01
    channel = SequenceMultiIndex(lambda z: z[0, 0] + z[1, 0], 2, noise=noise).at_accuracy(Accuracy(points=64)).channel
    found = channel.inference.averages(CORRELATED[None])
    spread = CORRELATED.sum() + noise
    gap, error = np.abs(found.information.value[0] - 1 / spread), found.information.error[0]
    assert np.all(gap < 2 * error)
    assert np.all(error < 0.02)
    y, omega = np.linspace(-1, 1, 64), np.zeros((64, 2, 1))
    gap = channel.inference.log_partitions(y, omega, CORRELATED) - norm.logpdf(y, 0, np.sqrt(spread))
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(y))
    assert gap.std() < 0.1


@pytest.mark.thorough
def test_points_next_to_kinks_of_level_links_are_found():
    """A link that is level on one side of a kink needs more halvings before the secants converge."""
    count, y = 448, -0.7
    channel = SequenceMultiIndex(largest, 2).channel
    found = channel.inference.log_partitions(np.full(count, y), np.zeros((count, 2, 1)), np.eye(2))
    density = np.exp(found).mean() / (2 * norm.pdf(y) * norm.cdf(y))
    # With one halving instead of six it is 3.5e-3, at 448 points as at 8192.
    assert abs(density - 1) < 2e-3


@pytest.mark.thorough
def test_labels_far_from_zero():
    """Single precision does not resolve their changes."""
    near, far = (
        SequenceMultiIndex(lambda z, own=own: own + z[0, 0] * z[1, 0], 2).at_accuracy(Accuracy(points=256)).channel
        for own in (0.0, 1e4)
    )
    value, same = (channel.inference.information(CORRELATED[None]).value for channel in (near, far))
    np.testing.assert_allclose(same, value, rtol=1e-4)


def _fast(z):
    return z[0, 0] + jnp.sin(6 * z[1, 0]) + 0.2 * z[1, 0]


@pytest.mark.slow
def test_cells_are_shorter_for_shorter_waves():
    """Two crossings in one cell cancel."""
    smooth, waves, fast = (
        cells_for(lambda z, f=f: jnp.ravel(f(z)), 2, 1)
        for f in (lambda z: z[0, 0] * z[1, 0], lambda z: z[0, 0] + jnp.sin(3 * z[1, 0]), _fast)
    )
    assert smooth == CELLS < waves < fast


@pytest.mark.thorough
def test_information_of_waves_within_its_error():
    """Crossings next to each other need cells shorter than those of smooth links."""
    value, error = (
        SequenceMultiIndex(_fast, 2).at_accuracy(Accuracy(points=1024)).channel.inference.information(np.eye(2)[None])
    )
    z2, y = np.linspace(-8, 8, 20001), np.linspace(-9, 9, 361)[:, None]
    z1 = y - (np.sin(6 * z2) + 0.2 * z2)
    joint = np.exp(-0.5 * (z1**2 + z2**2))
    density = joint.sum(axis=1)
    exact = np.sum(np.sum(joint * z1, axis=1) ** 2 / density) / np.sum(density)
    assert value[0, 0, 0] == pytest.approx(exact, abs=3 * error[0, 0, 0])
    assert error[0, 0, 0] < 1e-3


@pytest.mark.slow
def test_scalarized_functions_return_the_same_values():
    x = np.random.default_rng(0).standard_normal((3, 2))

    def link(z):
        inner = jax.jit(lambda w: jnp.max(jnp.maximum(w, 0.1), axis=1))(z)
        return jnp.stack([jnp.sum(inner), jnp.min(z), jnp.linalg.norm(z), jnp.argmax(z[:, 0]), jnp.prod(z)])

    with jax.enable_x64(True):
        np.testing.assert_allclose(scalarize(link)(x), link(x), rtol=1e-13)
        long = np.ones(100)
        assert scalarize(jnp.sum)(long) == 100


@pytest.mark.thorough
@pytest.mark.parametrize("unit", [1e-10, 1e12])
def test_the_unit_of_discrete_labels_does_not_change_results(unit):
    def link(z, unit):
        return unit * (0.1 * jnp.sign(z[0, 0]) + 0.7 * jnp.sign(z[1, 0]))

    one, other = (
        SequenceMultiIndex(lambda z, u=u: link(z, u), 2).channel.inference.with_points(64).channel for u in (1.0, unit)
    )
    expected, found = (channel.inference.averages(0.4 * np.eye(2)[None]).information.value for channel in (one, other))
    assert np.allclose(expected, found, rtol=1e-9)


@pytest.mark.thorough
def test_labels_in_several_roundings_are_one_label():
    weights = 0.1, 0.2, 0.3
    channel = SequenceMultiIndex(lambda z: sum(w * jnp.sign(z[k, 0]) for k, w in enumerate(weights)), 3).channel
    fields = np.array([[[1.0], [1.0], [-1.0]], [[-1.0], [-1.0], [1.0]]])
    labels = true_labels(channel, fields)
    assert labels[0] == labels[1]
    likeliest = channel.inference.likeliest_labels(fields, 1e-6 * np.eye(3))
    assert np.array_equal(likeliest, labels)


def test_small_labels_have_the_symmetries_of_large_ones():
    small, large = (row_symmetries(lambda z, u=u: jnp.ravel(u * (z[0] + z[1] ** 2)), 2, 1, False) for u in (1e-13, 1))
    assert len(small.invariances) == len(large.invariances) == 2


@pytest.mark.thorough
def test_level_sets_that_lines_miss_leave_the_log_partition_finite():
    channel = SequenceMultiIndex(lambda z: jnp.sum(z**2), 2).channel.inference.with_points(512).channel
    found = channel.inference.averages(0.9 * np.eye(2)[None]).log_partition
    # The same with noise far below all other scales, by another method.
    assert abs(found.value[0] + 1.6906) < 3 * found.error[0] < 0.05


@pytest.mark.parametrize("noise", [1e-7, 0.1])
def test_labels_with_little_noise_and_links_that_jump_are_integrated_along_lines(noise):
    channel = SequenceMultiIndex(lambda z: z[0, 0] + jnp.sign(z[1, 0]), 2, noise=noise).channel
    assert isinstance(channel, NoisyLineChannel)


def test_links_of_several_entries_that_jump_get_more_latents():
    jumping, smooth = (
        SequenceMultiIndex(lambda z, own=own: jnp.stack([z[0, 0], own(z[1, 0])]), 2, noise=0.1).channel
        for own in (jnp.sign, jnp.tanh)
    )
    assert jumping.effort.points == 8 * smooth.effort.points


def test_all_numbers_of_lines_are_blocks_of_one_shape():
    few, many = (line_pool(3, count) for count in (16, 64))
    assert in_blocks(few).shape[2:] == in_blocks(many).shape[2:]
    # Every block has its share of the lines drawn from the prior, the first half, and of those around the level set.
    first, second = np.split(in_blocks(many), 2, axis=4)
    for own, lines in ((first, many[:, :, :, :16]), (second, many[:, :, :, 16:])):
        np.testing.assert_array_equal(np.sort(own.ravel()), np.sort(lines.ravel()))


def test_lines_along_fields_that_only_choose_are_left_out():
    model = SequenceMultiIndex(lambda z: jnp.tanh(z[1, jnp.argmax(z[0])]), indices=2, tokens=3)
    assert model.channel._level == ((True,) * 3, (False,) * 3)
    # A label may vary where derivatives do not show it.
    stopped = SequenceMultiIndex(lambda z: z[1, 0] + jax.lax.stop_gradient(jnp.tanh(z[0, 0])), indices=2)
    assert stopped.channel._level == ((False,), (False,))


@pytest.mark.thorough
@pytest.mark.parametrize("unit", [2.0**-24, 2.0**24])
def test_the_unit_of_labels_does_not_change_scores(unit):
    """A jump is no point of the level set, however small it is. Products with powers of two are exact."""

    def link(z):
        return z[0, 0] + 0.7 * jnp.sign(z[1, 0]) + 0.3 * z[1, 0] ** 2

    omega, z = data()
    y = z[:, 0] + 0.7 * np.sign(z[:, 1]) + 0.3 * z[:, 1] ** 2
    plain, scaled = posterior(link, omega, y), posterior(lambda x: unit * link(x), omega, unit * y)
    np.testing.assert_allclose(scaled.score, plain.score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scaled.log_partition + np.log(unit), plain.log_partition, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("unit", [2.0**-150, 2.0**150])
def test_labels_may_exceed_single_precision(unit):
    omega, z = data()
    y = z[:, 0] * z[:, 1]
    plain = posterior(lambda x: x[0, 0] * x[1, 0], omega, y)
    scaled = posterior(lambda x: unit * (x[0, 0] * x[1, 0]), omega, unit * y)
    # Points are located with fifteen digits instead of seven, and then improved by one Newton step: by trial.
    np.testing.assert_allclose(scaled.score, plain.score, rtol=1e-4, atol=1e-4)
