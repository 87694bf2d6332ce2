"""Sums of heads and sequence outputs: posteriors against plain integrals, thresholds against closed forms."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, DeepAttention, IncompatibleError
from glassformer.bayes_optimal import staircase
from glassformer.bayes_optimal.instability import ACCURACY, LOW_ACCURACY, instability
from glassformer.channels.multi_index.attention_network import Architecture
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.inverted_attention import InvertedAttentionChannel


def attention(vectors):
    scores = vectors[..., :, None] * vectors[..., None, :]
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def inverted(matrices):
    """Vectors of two tokens with this attention, and the log-density of matrices if vectors are spread evenly."""
    entries = matrices.reshape(-1, 4)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(entries)
        a, b = logs[:, 0] - logs[:, 1], logs[:, 3] - logs[:, 2]
        vectors = np.stack([a, -b], axis=1) / np.sqrt(a + b)[:, None]
        log_weight = -np.log(a + b) - logs.sum(axis=1)
    return vectors, np.where(np.all(entries > 0, axis=1) & (a + b > 0), log_weight, -np.inf)


def log_slope(vectors):
    with np.errstate(divide="ignore"):
        entries = np.log(attention(vectors)).reshape(-1, 4).sum(axis=1)
        return 2 * np.log(np.abs(vectors[:, 0] - vectors[:, 1])) + entries


def heads_given(first, label):
    """Divided between the two heads, as the weight of either diverges where the other saturates."""
    second, log_weight = inverted(label - attention(first))
    shared = -np.logaddexp(log_slope(first), -log_weight)
    return np.stack([first, second], axis=1), np.where(np.isfinite(log_weight), shared, -np.inf)


def layers_given(last, label):
    mixing = np.linalg.solve(np.eye(2) + attention(last), label)
    first, log_weight = inverted(mixing - np.eye(2))
    log_weight = log_weight - np.log(np.abs(np.linalg.det(np.eye(2) + attention(last)) * np.linalg.det(mixing)))
    with np.errstate(invalid="ignore"):
        return np.stack([np.einsum("nij,nj->ni", np.linalg.inv(mixing), last), first], axis=1), log_weight


def plain_score(mean, variance, label, given, charts):
    """The score from sums over a grid of the free row; rows are in turn the free one and the solved one."""
    axis = np.linspace(-7, 7, 1401)
    free = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    fields, log_weight = given(free, label)
    fields, log_weight = fields[np.isfinite(log_weight)], log_weight[np.isfinite(log_weight)]
    total, moment = 0.0, np.zeros((2, 2))
    for chart in charts:
        for sign in (1.0, -1.0):
            deviation = (fields * np.array([1.0, sign])[:, None])[:, chart] - mean
            weight = np.exp(log_weight - 0.5 * np.sum(deviation**2 / np.diag(variance)[:, None], axis=(1, 2)))
            total, moment = total + weight.sum(), moment + np.einsum("n,npl->pl", weight, deviation)
    return moment / total / np.diag(variance)[:, None]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "given", "charts"),
    [
        ({"depth": 1, "heads": 2}, heads_given, ([0, 1], [1, 0])),
        ({"output": "sequence"}, layers_given, ([1, 0],)),
    ],
)
def test_posterior_is_that_of_a_plain_integral(options, given, charts):
    channel = replace(DeepAttention(**options).channel, effort=Effort(2048, 8, 8))
    mean, variance = np.array([[0.3, -0.2], [0.5, 0.1]]), np.diag([0.8, 0.6])
    truth = np.array([[[0.9, -0.6], [-0.4, 1.1]]])
    label = channel.label_from(truth, np.empty((1, 0)))
    found = channel.posterior(label, mean[None], variance[None])
    np.testing.assert_allclose(found.score[0], plain_score(mean, variance, label[0], given, charts), atol=0.04)


@pytest.mark.slow
def test_one_layer_has_the_same_information_as_sequence_and_as_attention():
    model = DeepAttention(depth=1, output="sequence", skip=0.7).at_accuracy(Accuracy(points=32))
    found = instability(model, np.eye(1), np.eye(1))
    assert 1 / found.rate == pytest.approx(1 / 6, rel=1e-9)
    fields = np.random.default_rng(0).standard_normal((5, 1, 2))
    shown = model.channel.observation(model.channel.label_from(fields, np.zeros((5, 0))))
    np.testing.assert_allclose(np.abs(shown), np.abs(fields[:, 0]), atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        {"depth": 1, "heads": 2, "head_weights": [[1.0, -0.5]]},
        pytest.param({"output": "sequence"}, marks=pytest.mark.thorough),
    ],
)
def test_every_possible_latent_gives_fields_with_the_label(options):
    channel = DeepAttention(**options).channel
    functions, rng = channel.functions, np.random.default_rng(0)
    mean, root = 0.3 * rng.standard_normal((2, 2)), np.array([[0.9, 0.0], [0.2, 0.7]])
    label = channel.label_from(np.array([[[0.9, -0.6], [-0.4, 1.1]]]), np.empty((1, 0)))[0]

    @partial(jax.jit, static_argnums=(1, 2))
    def stands_for(x, kind, number):
        datum = functions.on_chart((*map(jnp.asarray, (label, mean, root)),), kind, number)
        datum = (*datum, kind) if len(functions.charts) > 1 else datum
        latent = functions.start(x, datum)
        return functions.target(latent, datum)[1], functions.features(latent, datum)

    with jax.enable_x64(True):
        for kind, number in ((k, n) for k, count in enumerate(functions.charts) for n in range(count)):
            found = [stands_for(x, kind, number) for x in rng.standard_normal((8, 2))]
            branches = [branch for weight, both in found if np.isfinite(weight[0]) for branch in both]
            assert len(branches) > 4
            for branch in branches:
                fields = mean + root @ branch.reshape(2, 2)
                np.testing.assert_allclose(channel.label_from(fields[None], np.empty((1, 0)))[0], label, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [{"depth": 1, "heads": 3}, {"heads": 2}, {"depth": 3, "output": "sequence"}, {"output": "sequence", "skip": 0.5}],
)
def test_square_and_slope_of_the_score_are_equal_on_average(options):
    model = DeepAttention(**options).at_accuracy(Accuracy(points=128))
    channel, variance = replace(model.channel, points=128, effort=Effort(64, 32, 10)), 0.2 * np.eye(model.prior.rows)
    omega, deviation, labels = (part[0] for part in channel.inference._data(variance[None]))
    found = channel.inference.scores(labels, omega, variance)
    square = np.einsum("npl,npl->np", found.first, found.second)
    for other in (np.einsum("npp->np", found.curvature), np.einsum("npl,npl->np", found.first, deviation)):
        gap = square - other
        assert np.all(np.abs(gap.mean(axis=0)) < 4 * gap.std(axis=0) / np.sqrt(len(gap)) + 0.03 * square.mean(axis=0))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "layer", "bound"),
    [
        ({"depth": 1, "heads": 2}, None, 0.251),
        ({"output": "sequence"}, 0, 0.42),
        ({"output": "sequence", "skip": 4.0}, 0, 0.29),
    ],
)
def test_thresholds_respect_the_bounds_of_histograms(options, layer, bound):
    model = DeepAttention(**options)
    found = instability(model, np.eye(2), np.eye(2), 5e-3)
    threshold = model.prior.degrees / found.rate
    assert threshold - 2 * found.error * threshold / found.rate < bound
    if layer is not None:
        assert found.matrix[layer, layer] == pytest.approx(1, abs=0.02)


def test_first_thresholds_of_expensive_posteriors_are_less_accurate(monkeypatch):
    asked = []

    def first_step(model, accuracy):
        asked.append(accuracy)
        return staircase.WeakRecoveryStep(np.inf, 0.0, np.eye(2), False)

    monkeypatch.setattr(staircase, "_first_step", first_step)
    for options in ({}, {"output": "sequence"}):
        staircase.weak_recovery_steps(DeepAttention(**options))
    assert asked == [ACCURACY, LOW_ACCURACY]


def test_networks_that_do_not_invert_are_refused():
    three = Architecture(1, 3, (1.0,), "softmax", True, 2, "attention", ((1.0, 1.0),))
    with pytest.raises(IncompatibleError, match="two tokens"):
        InvertedAttentionChannel(three)
    assert DeepAttention(depth=1, heads=2).channel.labels.rank == 2
