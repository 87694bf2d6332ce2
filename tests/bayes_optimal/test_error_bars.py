"""Error bars cover: sampled averages against four times the work, at random overlaps.

``benchmarks/check_error_bars.py`` is the long version, over all families and 64 times the work.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, DeepAttention, SequenceMultiIndex, limits
from glassformer.bayes_optimal.instability import Instability, _goal, instability
from glassformer.channels.control_variates import controlled_mean, information
from glassformer.numerics.quasi_random import confidence_factor

MODELS = {
    "a link with noise": SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 1]), 2, 2, noise=0.3).at_accuracy(
        Accuracy(points=256)
    ),
    "a link without noise": SequenceMultiIndex(lambda z: z[0, 0] + z[1, 0] ** 3, 2, 1).at_accuracy(
        Accuracy(points=256)
    ),
    "attention": DeepAttention(depth=1, tokens=3).at_accuracy(Accuracy(points=256)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a link with noise", marks=pytest.mark.thorough),
        pytest.param("a link without noise", marks=pytest.mark.thorough),
        "attention",
    ],
)
def test_at_random_overlaps(name):
    channel, rng = MODELS[name].channel, np.random.default_rng(1)
    variance = np.array([np.diag(np.maximum(rng.beta(0.8, 0.8, channel.fields.rows), 0.02)) for _ in range(6)])
    small, large = (channel.inference.with_points(count).information(variance) for count in (256, 1024))
    gap, claimed = (
        np.linalg.norm(part, axis=(1, 2)) for part in (small.value - large.value, confidence_factor(8) * small.error)
    )
    assert np.sum(gap > claimed) <= 1
    assert np.all(gap < 3 * claimed)
    # An error bar that is never nearly reached says as little as one that lies.
    assert np.any(gap > 0.1 * claimed) or np.all(claimed < 1e-9)


@pytest.mark.slow
def test_labels_that_the_sample_has_none_of():
    """Near perfect recovery the few whose sign is in doubt are all that is left of the error."""
    channel = DeepAttention(depth=1, tokens=3).at_accuracy(Accuracy(points=64)).channel
    variance = np.array([0.003, 0.01, 0.03])[:, None, None]
    small, large = (channel.inference.with_points(count).information(variance) for count in (64, 4096))
    gap, claimed = np.abs(small.value - large.value).ravel(), confidence_factor(8) * small.error.ravel()
    assert np.all(gap < claimed)
    assert np.all(claimed < 0.05 * small.value.ravel())


def test_a_replica_has_no_say_in_its_controls():
    """Else the rare points of a sample cancel by fit, and the spread of replicas tells too small an error."""
    rng = np.random.default_rng(0)
    target, controls = rng.standard_normal((8, 16)), rng.standard_normal((8, 16, 3))
    moved = target.copy()
    moved[2, 5] += 4.0
    change = controlled_mean(moved, controls) - controlled_mean(target, controls)
    assert change[2] == pytest.approx(4.0 / 16)
    assert np.all(np.abs(np.delete(change, 2)) > 1e-6)
    assert np.allclose(controlled_mean(1.5 + controls @ np.array([1.0, -2.0, 0.5]), controls), 1.5)


@pytest.mark.thorough
def test_of_growth():
    """Eigenvalues at zero overlap, from which thresholds follow, against sixteen times the data points."""
    kinds: list[dict] = [{"depth": 1, "untied": True}, {"depth": 2, "skip": 0.3}, {"depth": 2, "activation": "linear"}]
    models = [DeepAttention(**kind).at_accuracy(Accuracy(points=points)) for kind in kinds for points in (128, 256)]
    found, blur = [], []
    for model in models:
        nothing = np.eye(model.prior.rows)
        few, many = (instability(model, nothing, nothing, np.inf, finer) for finer in (1, 16))
        found.append(abs(few.rate / many.rate - 1))
        blur.append(few.relative_error)
    ratio = np.array(found) / np.array(blur)
    # The two numbers of points share half of theirs, so that what goes wrong goes wrong twice.
    assert np.sum(ratio > 1) <= 2
    assert np.all(ratio < 2)
    assert np.any(ratio > 0.1)


@pytest.mark.thorough
def test_thin_shells_are_followed():
    """Faint noise takes next to nothing of what a label says; few latents would see but half of its shell."""

    def committee(z):
        return jnp.tanh(z[0, 0]) + jnp.tanh(z[1, 0])

    covariance = np.array([[[0.55, -0.2], [-0.2, 0.55]]])
    faint, none = (
        SequenceMultiIndex(committee, 2, 1, noise=noise)
        .at_accuracy(Accuracy(points=512))
        .channel.inference.information(covariance)
        for noise in (1e-4, 0.0)
    )
    assert np.all(np.abs(faint.value - none.value) < 3 * (faint.error + none.error))
    assert np.all(faint.error < 0.05 * none.value)


def test_information_turns_with_the_rows():
    """What little is known of a direction that is no row has the error of little, not that of its large entries."""
    rng = np.random.default_rng(0)
    values, truth = np.array([0.2, 0.6, 0.95]), rng.standard_normal((8, 64, 3, 1))
    truth /= np.sqrt(values)[:, None]
    levels = [[known * truth + 0.3 * rng.standard_normal(truth.shape) for known in (0.5, 0.5)] for _ in range(3)]
    slopes = 0.2 * rng.standard_normal((3, 8, 64, 3, 3))
    levels = [[*level, slope + np.swapaxes(slope, -1, -2)] for level, slope in zip(levels, slopes, strict=True)]
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turned = [[turn @ first, turn @ second, turn @ slope @ turn.T] for first, second, slope in levels]
    here = information(levels, truth, np.diag(values), 64)
    there = information(turned, turn @ truth, turn * values @ turn.T, 64)
    for found, again in zip(here, there, strict=True):
        np.testing.assert_allclose(turn @ found @ turn.T, again, atol=1e-10)


@pytest.mark.thorough
def test_standard_errors_on_labels_include_those_of_fixed_points():
    """The label is the field: what is missed of it is the variance, known as well as the fixed point."""
    model = SequenceMultiIndex(lambda z: z[0, 0], noise_law="laplace:0.5").at_accuracy(Accuracy(points=32))
    found = limits(model, [0.8])
    alone = model.channel.inference.label_errors(found["error"][:, None, None])
    gap = np.abs(alone["prediction_error"] - found["error"])
    assert np.all(gap < confidence_factor(8) * alone["prediction_standard_error"])
    for name in ("prediction_standard_error", "plugin_standard_error"):
        of_the_point = np.sqrt(found[name] ** 2 - alone[name] ** 2)
        # Parts of an error estimate are added, those of a standard error squared.
        assert 0.55 < of_the_point[0] * confidence_factor(8) / found["error_estimate"][0] < 1.2


@pytest.mark.parametrize(("error", "goal"), [(1e-4, 5e-4), (3e-3, 5e-4), (8e-3, 4e-3), (0.05, np.inf)])
def test_accuracy_of_growth_is_limited_by_the_number_of_data_points(error, goal):
    found = Instability(2.0, 2 * error, np.eye(1), False, np.full(8, 2.0))
    assert _goal(found, 5e-4) == goal
