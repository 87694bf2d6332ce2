"""Gradient descent on the weights of attention-indexed models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    AttentionIndexed,
    AveragedGradientDescent,
    GradientDescent,
    IncompatibleError,
    Status,
    simulate,
)
from glassformer.channels.attention.hardmax_pair import HardmaxPairChannel
from glassformer.channels.attention.linear import LinearAttentionChannel
from glassformer.channels.attention.softmax import SoftmaxAttentionChannel
from glassformer.designs.quadratic import QuadraticDesign
from glassformer.designs.token_pairs import to_matrices
from glassformer.learners.gradient_descent import descend
from glassformer.models.trainable import attention as module
from glassformer.models.trainable.attention import attention_student

SOFTMAX = SoftmaxAttentionChannel(2, temperature=0.7)


def drawn(channel, samples, d=10, width=2, seed=0):
    rng = np.random.default_rng(seed)
    design = QuadraticDesign.sample(samples, (channel.tokens, d), rng)
    factor = rng.standard_normal((d, width))
    signal = factor @ factor.T / np.sqrt(d * width)
    return design, signal, channel.sample(design.forward(signal, 0), rng)


@pytest.mark.slow
def test_the_students_indices_are_those_of_the_design():
    design, _, _ = drawn(SOFTMAX, 30)
    weights = np.random.default_rng(1).standard_normal((3, 10, 2))
    with jax.enable_x64(True):
        found = np.asarray(module.indices_of(jnp.asarray(weights), jnp.asarray(design.inputs[0])))
        signals = np.asarray(module._signals((jnp.asarray(weights),)))
    for k in range(3):
        np.testing.assert_allclose(found[k], to_matrices(design.forward(signals[k], 0), 2), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["linear", "softmax", "hardmax"])
def test_gradients_agree_with_finite_differences(label):
    design, _, labels = drawn(SOFTMAX, 20)
    rng, loss = np.random.default_rng(1), module._LOSSES[label]
    weights, direction = rng.standard_normal((2, 10, 2)), rng.standard_normal((2, 10, 2))
    with jax.enable_x64(True):
        data = (jnp.asarray(design.inputs[0]), jnp.asarray(labels), jnp.asarray(0.7))

        def total(step):
            return jnp.sum(loss((weights + step * direction,), data))

        total = jax.jit(total)
        slope, difference = float(jax.grad(total)(0.0)), float(total(1e-5) - total(-1e-5)) / 2e-5
    assert slope == pytest.approx(difference, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "channel"),
    [
        (GradientDescent(), SOFTMAX),
        pytest.param(GradientDescent(optimizer="sgd"), LinearAttentionChannel(1), marks=pytest.mark.thorough),
        (GradientDescent(start="small:0.001"), LinearAttentionChannel(2)),
        pytest.param(GradientDescent(), LinearAttentionChannel(2), marks=pytest.mark.thorough),
        pytest.param(GradientDescent(), LinearAttentionChannel(1), marks=pytest.mark.thorough),
        pytest.param(GradientDescent(optimizer="sgd"), SOFTMAX, marks=pytest.mark.thorough),
        pytest.param(GradientDescent(optimizer="sgd"), LinearAttentionChannel(2), marks=pytest.mark.thorough),
        pytest.param(GradientDescent(start="small:0.001"), SOFTMAX, marks=pytest.mark.thorough),
        pytest.param(GradientDescent(start="small:0.001"), LinearAttentionChannel(1), marks=pytest.mark.thorough),
    ],
)
def test_enough_noiseless_samples_are_learned_perfectly(channel, settings):
    design, signal, labels = drawn(channel, 150)
    found = descend(attention_student(channel, design, labels, 2), settings, np.random.default_rng(2), 2, signal)
    assert found.history[-1].error < 1e-3
    assert found.history[-1].averaged_error < 1e-3


@pytest.mark.thorough
def test_hardmax_labels_determine_the_signal_up_to_its_scale():
    channel = HardmaxPairChannel(1.2)
    design, signal, labels = drawn(channel, 400)
    found = descend(
        attention_student(channel, design, labels, 2),
        GradientDescent(steps=4000),
        np.random.default_rng(2),
        2,
        signal,
    )
    assert found.history[-1].training_error < 0.02
    assert found.history[-1].error < 0.1 * np.sum(signal**2) / 10
    assert np.trace(found.signals[0]) == pytest.approx(np.sqrt(20))


@pytest.mark.thorough
def test_starts_are_trained_independently():
    design, signal, labels = drawn(SOFTMAX, 60)
    settings = GradientDescent(steps=40)
    together = descend(attention_student(SOFTMAX, design, labels, 2), settings, np.random.default_rng(5), 3, signal)
    alone = descend(attention_student(SOFTMAX, design, labels, 2), settings, np.random.default_rng(5), 1, signal)
    np.testing.assert_allclose(together.signals[0], alone.signals[0], atol=1e-9)


@pytest.mark.thorough
def test_averaging_over_starts_halves_the_error_of_gradient_descent():
    ask = {"d": 30, "instances": 2, "storage": "float32"}
    settings = {"steps": 1500, "floor": 1e-6, "initialisations": 16}
    model = AttentionIndexed(0.5)
    single = simulate(model, [0.1], GradientDescent(**settings), **ask)
    averaged = simulate(model, [0.1], AveragedGradientDescent(**settings), **ask)
    optimal = averaged["theory_bayes_optimal"][0]
    assert optimal < averaged["relative_error"][0] < 1.6 * optimal
    assert 1.6 < single["error"][0] / averaged["error"][0] < 2.4


@pytest.mark.slow
def test_in_a_simulation():
    result = simulate(AttentionIndexed(0.3), [0.4], "gd", d=12, instances=2)
    assert np.all(result["relative_error"] < 1e-3)
    assert result.parameters["learner"] == "gd"
    assert result.parameters["steps"] == 50_000


@pytest.mark.slow
def test_defaults_end_where_few_samples_are_fitted_and_say_what_descent_reaches():
    learner = AveragedGradientDescent(initialisations=2)
    result = simulate(AttentionIndexed(0.5), [0.1], learner, d=12, instances=1)
    (run,) = result.instances[0]
    assert run.status is Status.CONVERGED and run.iterations < 10_000
    assert any("6 to 37 % above it" in note for note in result.notes)


def test_labels_without_gradient_raise():
    with pytest.raises(IncompatibleError, match="use gamp"):
        simulate(AttentionIndexed(0.5, untied=True), [0.2], "gd", d=10)
    noisy = AttentionIndexed(0.5, 2, lambda h: h[..., 0, :1], noise=0.5)
    with pytest.raises(IncompatibleError, match="linear, softmax and hardmax"):
        simulate(noisy, [0.2], "gd", d=10, instances=1)


@pytest.mark.slow
def test_noisy_softmax_is_trained_at_its_own_temperature():
    """The true weights have the training error of the noise, at any inverse temperature."""
    model = AttentionIndexed(0.2, tokens=2, noise=1e-4, temperature=4.0)
    size = model.at_size(20)
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((20, 4))
    design = size.design.sample(60, size.input_shape, rng)
    labels = size.model.channel.sample(design.forward(weights @ weights.T / np.sqrt(80), 0), rng)
    student = size.model.parametrisation.student(design, labels, 4)
    with jax.enable_x64(True):
        loss = float(student.loss((jnp.asarray(weights[None]),), tuple(map(jnp.asarray, student.data)))[0])
    assert loss == pytest.approx(0.25 * 60 * 4 * 1e-4, rel=0.4)
