"""Gradient descent on the weights of several attention layers of extensive width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import AveragedGradientDescent, DeepAttentionIndexed, GradientDescent, simulate
from glassformer.designs.quadratic import LayeredQuadraticDesign
from glassformer.learners.gradient_descent import descend
from glassformer.models.trainable.attention import layered_student


def drawn(channel, samples, d=8, width=2, seed=0):
    rng = np.random.default_rng(seed)
    design = LayeredQuadraticDesign.sample(samples, (channel.tokens, d), rng)
    weights = rng.standard_normal((len(channel.skip) + 1, d, width))
    signal = weights @ np.swapaxes(weights, 1, 2) / np.sqrt(d * width)
    return design, signal, weights, channel.label_from(design.forward(signal, 0), np.empty((samples, 0)))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        {"layers": 2},
        pytest.param({"layers": 3, "skip": (0.5, 2.0), "tokens": 3}, marks=pytest.mark.thorough),
        {"layers": 2, "channel": "linear"},
    ],
)
def test_the_loss_of_the_teacher_is_zero_and_its_signals_are_its_own(options):
    channel = DeepAttentionIndexed(0.25, **options).channel
    design, signal, weights, labels = drawn(channel, 20)
    student = layered_student(channel, design, labels, 2)
    with jax.enable_x64(True):
        data = tuple(map(jnp.asarray, student.data))
        found = np.asarray(student.loss((jnp.asarray(weights[None]),), data))
        other = np.asarray(student.loss((jnp.asarray(weights[None] + 0.3),), data))
        signals = np.asarray(student.signals((jnp.asarray(weights[None]),)))
    assert found[0] < 1e-20 * student.power
    assert other[0] > 1e-4 * student.power
    np.testing.assert_allclose(signals[0], signal, atol=1e-12)
    assert student.distance(signals[0], signal) < 1e-20


@pytest.mark.thorough
def test_enough_samples_are_learned_from_one_of_four_starts():
    channel = DeepAttentionIndexed(0.25).channel
    design, signal, _, labels = drawn(channel, 400)
    found = descend(layered_student(channel, design, labels, 2), GradientDescent(), np.random.default_rng(1), 4, signal)
    assert min(np.sum((one - signal) ** 2) for one in found.signals) < 1e-2


@pytest.mark.parametrize(
    "learner", [GradientDescent, pytest.param(AveragedGradientDescent, marks=pytest.mark.thorough)]
)
def test_simulations_tell_the_error_of_every_layer(learner):
    result = simulate(DeepAttentionIndexed(0.3), [0.3], learner(initialisations=2, steps=20), d=10, instances=1)
    assert result["row_error"].shape == (1, 2)
    assert np.all(np.isfinite(result["row_error"]))
    assert result["error"][0] == pytest.approx(result["row_error"].mean())
    assert result.notes
