"""Tokens of one sequence that are correlated."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    DeepAttention,
    IncompatibleError,
    SequenceMultiIndex,
    limits,
    simulate,
    thresholds,
)
from glassformer.bayes_optimal.bounds import growth_bound
from glassformer.cli import main
from glassformer.designs.quadratic import QuadraticDesign
from glassformer.errors import ParameterError
from glassformer.models.token_correlation import correlation_root
from glassformer.testing import check_model

MATRIX = [[1.0, 0.5], [0.5, 1.0]]


def both(z):
    return z[0, 0] + z[0, 1]


@pytest.mark.thorough
def test_a_sum_of_two_tokens_is_one_field_of_more_power():
    """y = z1 + z2 with noise: variance 2 (1 + c) of the field instead of 2."""
    model = SequenceMultiIndex(both, 1, 2, noise=0.4, token_correlation=0.5).at_accuracy(Accuracy(points=128))
    one = SequenceMultiIndex(lambda z: z[0, 0], 1, 1, noise=0.4 / 3)
    found, exact = limits(model, [0.7, 1.5], throw=False), limits(one, [0.7, 1.5])
    assert np.all(np.abs(found["error"] - exact["error"]) < 4 * found["error_estimate"] + 2e-3)


@pytest.mark.slow
def test_a_number_and_its_matrix_are_one():
    by_number, by_matrix = (
        DeepAttention(depth=1, token_correlation=c).at_accuracy(Accuracy(points=64)) for c in (0.5, MATRIX)
    )
    v = 0.5 * np.eye(1)[None]
    assert by_number.channel.inference.information(v).value == pytest.approx(
        by_matrix.channel.inference.information(v).value, rel=1e-12
    )


@pytest.mark.slow
def test_one_layer_is_inverted_for_correlated_tokens():
    """The label shows the fields up to a sign: the threshold is that of independent tokens."""
    found = thresholds(DeepAttention(depth=1, token_correlation=0.5).at_accuracy(Accuracy(points=64)))["weak_recovery"]
    assert found.alpha == pytest.approx(1 / 6, rel=1e-6)


@pytest.mark.thorough
def test_two_layers_respect_the_bound_of_their_own_labels():
    model = DeepAttention(depth=2, token_correlation=0.6).at_accuracy(Accuracy(points=256))
    rate, error = growth_bound(model)
    first = model.channel
    assert first.network.root
    found = thresholds(
        DeepAttention(depth=1, token_correlation=0.6, output="sequence").at_accuracy(Accuracy(points=64))
    )["weak_recovery"]
    assert found.alpha == pytest.approx(1 / 6, rel=1e-6)
    assert rate - 5 * error > 4


@pytest.mark.thorough
def test_message_passing_agrees():
    model = SequenceMultiIndex(both, 1, 2, noise=0.4, token_correlation=0.5).at_accuracy(Accuracy(points=256))
    result = simulate(model, [1.0], d=150, instances=3)
    assert abs(result["error"][0] - result["theory"][0]) < 5 * result["standard_error"][0] + 0.02


@pytest.mark.parametrize("given", [1.0, -1.5, np.nan, [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.1]], "a"])
def test_invalid_correlations(given):
    with pytest.raises(ParameterError, match="token_correlation"):
        SequenceMultiIndex(both, 1, 2, noise=0.4, token_correlation=given)


def test_a_single_token_has_none():
    with pytest.raises(ParameterError, match="token_correlation"):
        SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]), 1, 1, noise=0.4, token_correlation=0.5)


def test_the_root_squares_to_the_matrix():
    root = np.array(correlation_root(-0.4, 4))
    place = np.arange(4)
    np.testing.assert_allclose(root @ root, (-0.4) ** np.abs(place[:, None] - place), atol=1e-12)


@pytest.mark.slow
def test_the_command_line(capsys):
    line = "limits attention --depth 1 --alpha 0.3 --token-correlation 0.5 --points 64"
    assert main(line.split(" ")) == 0
    assert "token_correlation = 0.5" in capsys.readouterr().out


def test_indices_of_correlated_tokens_are_linear_in_those_of_independent_ones():
    """Tokens drawn correlated, products and their mean written out."""
    rng, root = np.random.default_rng(0), np.array(correlation_root(0.6, 3))
    tokens, weights = rng.standard_normal((5, 3, 20)), rng.standard_normal((20, 8))
    signal = weights @ weights.T / np.sqrt(160)
    model = AttentionIndexed(0.4, tokens=3, channel="linear", token_correlation=0.6)
    found = model.channel.sample(QuadraticDesign(tokens).forward(signal, 0), rng)
    correlated = root @ tokens
    products = correlated @ signal @ np.swapaxes(correlated, 1, 2)
    np.testing.assert_allclose(found, (products - root @ root * np.trace(signal)) / np.sqrt(20), atol=1e-10)
    soft = AttentionIndexed(0.4, tokens=3, token_correlation=0.6)
    labels = soft.channel.sample(QuadraticDesign(tokens).forward(signal, 0), rng)
    np.testing.assert_allclose(labels, np.exp(found) / np.exp(found).sum(axis=2, keepdims=True), rtol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        {"channel": "softmax"},
        pytest.param({"channel": "linear", "noise": 0.2}, marks=pytest.mark.thorough),
        pytest.param({"channel": "softmax", "noise": 0.05}, marks=pytest.mark.thorough),
    ],
)
def test_parts_of_attention_indices_agree(options):
    report = check_model(AttentionIndexed(0.5, tokens=3, token_correlation=0.7, **options), d=24)
    assert report.ok, str(report)


def test_squared_errors_on_labels_are_those_of_predictions_and_their_noise():
    channel = AttentionIndexed(rho=0.3, tokens=2, channel="linear", noise=0.3, token_correlation=0.6).channel
    found = channel.label_error(np.array([0.24, 1.3]))
    # Per component, of h -> C^(1/2) h C^(1/2): the squares of its eigenvalues 0.4, 0.8 and 1.6 have the mean 1.12.
    np.testing.assert_allclose(found["prediction_error"], [1.12 * 0.24, 1.12 * 1.3], rtol=1e-12)
    np.testing.assert_allclose(found["label_mse"], found["prediction_error"] + found["label_noise"], rtol=1e-12)


@pytest.mark.slow
def test_noiseless_attention_indices_tell_as_much_of_correlated_tokens():
    for channel in ("linear", "softmax"):
        plain, own = (AttentionIndexed(0.5, channel=channel, token_correlation=c) for c in (0.0, 0.6))
        alpha = [0.05, 0.15]
        np.testing.assert_allclose(limits(own, alpha)["error"], limits(plain, alpha)["error"], atol=1e-9)
        assert own.parameters["token_correlation"] == 0.6
    noisy = [
        limits(AttentionIndexed(0.5, channel="linear", noise=0.3, token_correlation=c), [0.3])["error"][0]
        for c in (0, 0.9)
    ]
    assert noisy[1] > noisy[0] + 0.02


def test_correlated_attention_indices_that_cannot_be():
    for options in ({"channel": "hardmax"}, {"untied": True}):
        with pytest.raises(IncompatibleError, match="token_correlation"):
            AttentionIndexed(0.5, token_correlation=0.5, **options)
    with pytest.raises(ParameterError, match="token_correlation"):
        AttentionIndexed(0.5, tokens=1, channel="linear", token_correlation=0.5)
    with pytest.raises(IncompatibleError, match="independent tokens"):
        simulate(AttentionIndexed(0.5, token_correlation=0.5), [0.3], "gd", d=20)
