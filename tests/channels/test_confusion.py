"""Discrete labels with noise: closed forms, quadrature, sampled labels, bsr and smi, refusals."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    IncompatibleError,
    SequenceMultiIndex,
    limits,
    simulate,
    thresholds,
)
from glassformer.channels.confusion import Confusion, Flip, Neighbour
from glassformer.channels.link.label_noise import LabelNoiseChannel
from glassformer.cli import main
from glassformer.core.display import heading
from glassformer.errors import ParameterError
from glassformer.testing import check_model


def ordinal(h):
    """Three grades."""
    return np.where(h < -0.5, 0.0, np.where(h < 0.7, 1.0, 2.0))


@pytest.mark.slow
@pytest.mark.parametrize("v", [1.0, 0.4, 0.01])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
def test_flipped_signs_agree_with_plain_quadrature(epsilon, v):
    found = LabelNoiseChannel(np.sign, Flip(epsilon)).information(np.array([v]))

    def given(omega):
        plus, slope = ndtr(omega / np.sqrt(v)), norm.pdf(omega / np.sqrt(v)) / np.sqrt(v)
        p = epsilon + (1 - 2 * epsilon) * plus
        return ((1 - 2 * epsilon) * slope) ** 2 / (p * (1 - p)) if 0 < p < 1 else 0.0

    if v == 1:
        expected = given(0.0)
    else:
        reach, scale = 8 * np.sqrt(1 - v), np.sqrt(1 - v)
        edges = np.unique(np.clip(np.linspace(-8, 8, 17) * np.sqrt(v), -reach, reach))
        parts = [
            quad(lambda x: given(x) * norm.pdf(x, scale=scale), *ends, epsrel=1e-11)[0] for ends in pairwise(edges)
        ]
        expected = sum(parts)
    assert found.value[0] == pytest.approx(expected, rel=1e-8)
    assert abs(found.value[0] - expected) <= found.error[0] + 1e-9 * expected


@pytest.mark.thorough
@pytest.mark.parametrize(
    "law",
    [
        *(pytest.param(law, marks=pytest.mark.thorough) for law in (Flip(0.1), Neighbour(0.2))),
        Confusion([[1, 0, 0], [0.5, 0.5, 0], [0, 0.1, 0.9]]),
    ],
)
def test_averages_agree_with_sampled_labels(law):
    channel, v, rng = LabelNoiseChannel(ordinal, law), 0.3, np.random.default_rng(0)
    omega = np.sqrt(1 - v) * rng.standard_normal(200_000)
    h = omega + np.sqrt(v) * rng.standard_normal(len(omega))
    labels = channel.sample(h, rng)
    score = channel.score(labels, omega, v)
    information = channel.information(np.array([v])).value[0]
    for measured in (score**2, score * (h - omega) / v, channel.curvature(labels, omega, v)):
        assert abs(measured.mean() - information) < 5 * measured.std() / np.sqrt(len(h)) + 1e-6
    log_z = channel.log_partition(labels, omega, v)
    assert log_z.mean() == pytest.approx(channel.expected_log_partition(np.array([v])).value[0], abs=0.01)
    errors = channel.label_error(np.array([v]))
    noise = (labels - channel.clean(h)) ** 2
    assert errors["label_noise"][0] == pytest.approx(noise.mean(), rel=0.02)


def test_without_noise_it_is_the_link():
    v = np.array([0.6, 0.05])
    flipped = BilinearSequenceRegression(rho=0.5, channel="sign", noise_law="flip:0").channel
    plain = BilinearSequenceRegression(rho=0.5, channel="sign").channel
    np.testing.assert_allclose(flipped.information(v).value, plain.information(v).value, rtol=1e-9)
    for name in ("label_error", "prediction_error"):
        np.testing.assert_allclose(flipped.label_error(v)[name], plain.label_error(v)[name], rtol=1e-8)


@pytest.mark.slow
def test_bsr_and_smi_agree():
    """Flips with probability 0.1 leave 0.64 of the information of signs at zero overlap."""
    alpha = np.array([0.5, 2.0])
    one = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]), 1, 1, noise_law="flip:0.1")
    other = BilinearSequenceRegression(beta=1, rho=np.inf, channel="sign", noise_law=Flip(0.1))
    np.testing.assert_allclose(limits(one, alpha)["error"].ravel(), limits(other, alpha)["error"], rtol=1e-6)
    assert one.channel.inference.information(np.ones((1, 1, 1))).value[0, 0, 0] == pytest.approx(0.64 * 2 / np.pi)
    assert one.parameters["noise_law"] == "flip:0.1"


@pytest.mark.thorough
def test_label_noise_raises_the_weak_recovery_threshold():
    """Information at vanishing overlap goes like the square of 1 - 2 epsilon, for both labels alike."""
    quiet, loud = (
        thresholds(SequenceMultiIndex(lambda z: jnp.sign(abs(z[0, 0]) - 0.67448975), 1, 1, noise_law=law))[
            "weak_recovery"
        ]
        for law in ("flip:0", "flip:0.2")
    )
    assert loud.alpha == pytest.approx(quiet.alpha / 0.36, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cut", "epsilon"),
    [(0.7, 0.1), *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in [(0.7, 0.3), (1.3, 0.1)])],
)
def test_weak_recovery_of_even_labels_is_within_its_error(cut, epsilon):
    """Their slope at vanishing overlap is a closed form: next to V = 1 averages over the mean field keep theirs."""
    inside = epsilon + (1 - 2 * epsilon) * 2 * ndtr(-cut)
    slope = (1 - 2 * epsilon) * 2 * cut * norm.pdf(cut)
    model = SequenceMultiIndex(lambda z: jnp.where(abs(z[0, 0]) > cut, 1.0, -1.0), 1, 1, noise_law=f"flip:{epsilon}")
    found = thresholds(model)["weak_recovery"]
    exact = 1 / (slope**2 * (1 / inside + 1 / (1 - inside)))
    assert abs(found.alpha - exact) <= found.error_estimate < 1e-7


@pytest.mark.thorough
def test_several_indices_agree_with_sums_over_quadrants():
    """The sign of z1 z2, flipped: Z of either label from normal probabilities."""
    epsilon, v = 0.15, 0.4
    model = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0] * z[1, 0]), 2, 1, noise_law=f"flip:{epsilon}").at_accuracy(
        Accuracy(points=64)
    )
    omega = np.random.default_rng(0).standard_normal((5, 2, 1))
    y = np.array([1.0, -1, 1, -1, 1])
    found = model.channel.inference.high_accuracy().channel.posterior(
        y, omega, np.broadcast_to(v * np.eye(2), (5, 2, 2))
    )
    plus = ndtr(omega[:, :, 0] / np.sqrt(v))
    slope = norm.pdf(omega[:, :, 0] / np.sqrt(v)) / np.sqrt(v)
    product = (2 * plus - 1).prod(axis=1)
    z = 0.5 * (1 + y * (1 - 2 * epsilon) * product)
    other = (2 * plus - 1)[:, ::-1]
    expected = y[:, None] * (1 - 2 * epsilon) * slope * other / z[:, None]
    np.testing.assert_allclose(found.score[:, :, 0], expected, atol=0.03)
    np.testing.assert_allclose(found.log_partition, np.log(z), atol=0.01)


@pytest.mark.thorough
def test_message_passing_agrees_with_theory():
    found = simulate(
        BilinearSequenceRegression(rho=0.5, channel="sign", noise_law="flip:0.1"), [3.0], d=60, instances=3
    )
    assert np.all(abs(found["relative_error"] - found["theory"]) < 5 * found["relative_standard_error"] + 0.04)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "model",
    [
        SequenceMultiIndex(lambda z: jnp.sign(z[0, 0] + 0.3) + jnp.sign(z[0, 0] - 1), 1, 1, noise_law="neighbour:0.2"),
        SequenceMultiIndex(lambda z: jnp.sign(z[0, 0] + z[1, 0]), 2, 1, noise_law="flip:0.1").at_accuracy(
            Accuracy(points=512)
        ),
        BilinearSequenceRegression(rho=0.5, channel="sign", noise_law="flip:0.1"),
    ],
)
def test_parts_agree(model):
    report = check_model(model)
    assert report.ok, str(report)


def test_refusals():
    for given in ("flip:1", "flip:-0.1", "neighbour:nan", "flip"):
        with pytest.raises(ParameterError, match="noise_law"):
            BilinearSequenceRegression(rho=0.5, channel="sign", noise_law=given)
    with pytest.raises(ParameterError, match="2 labels"):
        BilinearSequenceRegression(rho=0.5, channel="sign", noise_law=Confusion(np.eye(3)))
    for use in (
        lambda law: SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]), 1, 1, noise_law=law).channel.labels.even,
        lambda law: limits(BilinearSequenceRegression(rho=0.5, channel="sign", noise_law=law), [1.0]),
    ):
        with pytest.raises(ParameterError, match=r"noise_law = 'flip:0.5'.*no information"):
            use("flip:0.5")
    with pytest.raises(IncompatibleError, match="exclude"):
        BilinearSequenceRegression(rho=0.5, channel="sign", noise=0.1, noise_law="flip:0.1")
    for channel in ("gaussian", "absolute", np.tanh):
        with pytest.raises(IncompatibleError, match=r"few values|discrete"):
            BilinearSequenceRegression(rho=0.5, channel=channel, noise_law="flip:0.1")
    with pytest.raises(IncompatibleError, match="at most"):
        SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0], 2, 1, noise_law="flip:0.1")


def test_the_command_line(capsys):
    words = ["limits", "bsr", "--rho", "0.5", "--channel", "sign", "--noise-law", "flip:0.1", "--alpha", "1"]
    assert main(words) == 0
    assert "sign, flip:0.1" in capsys.readouterr().out


def test_tables_name_the_law_instead_of_a_variance():
    model = BilinearSequenceRegression(rho=0.5, channel="sign", noise_law="flip:0.1")
    text = heading(model.name, model.parameters)
    assert "noise_law = flip:0.1" in text
    assert "noise = " not in text


def test_tables_name_the_link_whose_labels_are_exchanged():
    def low(h):
        return np.where(h > 0.3, 1.0, 0.0)

    found = BilinearSequenceRegression(rho=0.5, link=low, noise_law="flip:0.1")
    assert found.parameters["channel"] == "low, flip:0.1"
    named = BilinearSequenceRegression(rho=0.5, channel="sign", noise_law="flip:0.1")
    assert named.parameters["channel"] == "sign, flip:0.1"
