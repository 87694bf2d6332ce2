"""Gradient descent on factors, ridge on data, and their place in simulations."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    AttentionIndexed,
    AveragedGradientDescent,
    BilinearSequenceRegression,
    DeepAttention,
    GradientDescent,
    IncompatibleError,
    Ridge,
    simulate,
)
from glassformer.cli import main
from glassformer.core.settings import Iteration
from glassformer.designs.dense import DenseDesign
from glassformer.errors import DataError, ParameterError
from glassformer.learners.gradient_descent import descend
from glassformer.learners.nuclear_norm import least_nuclear_norm
from glassformer.learners.ridge import ridge
from glassformer.models.trainable.factors import _identity, factor_student
from glassformer.models.trainable.factors import _loss as loss_of_link

_loss = loss_of_link(_identity)
MODEL = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.0)


def drawn(samples=80, size=10, width=2, seed=0):
    rng = np.random.default_rng(seed)
    design = DenseDesign.sample(samples, (size, size), rng)
    signal = rng.standard_normal((size, width)) @ rng.standard_normal((width, size)) / np.sqrt(width)
    return design, signal, design.forward(signal, 0)


@pytest.mark.slow
def test_gradients_agree_with_finite_differences():
    design, _, labels = drawn(20, 6)
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        data = (jnp.asarray(design.inputs[0].reshape(20, -1)), jnp.asarray(labels))
        factors = tuple(jnp.asarray(rng.standard_normal((3, 6, 2))) for _ in range(2))
        direction = tuple(rng.standard_normal((3, 6, 2)) for _ in range(2))
        slope = jax.grad(lambda f: jnp.sum(_loss(f, data)))(factors)
        expected = sum(float(np.sum(np.asarray(g) * v)) for g, v in zip(slope, direction, strict=True))
        ends = [
            float(jnp.sum(_loss(tuple(f + s * 1e-5 * v for f, v in zip(factors, direction, strict=True)), data)))
            for s in (1, -1)
        ]
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(expected, rel=1e-7)


@pytest.mark.slow
def test_starts_are_trained_independently():
    design, signal, labels = drawn()
    settings = GradientDescent(steps=200)
    together = descend(factor_student(design, labels, 2), settings, np.random.default_rng(5), 3, signal)
    rng = np.random.default_rng(5)
    left, right = rng.standard_normal((3, 10, 2)), rng.standard_normal((3, 10, 2))

    class Fixed:
        def __init__(self, k):
            self.parts = iter((left[k : k + 1], right[k : k + 1]))

        def standard_normal(self, shape):
            part = next(self.parts)
            assert part.shape == shape
            return part

    for k in range(3):
        alone = descend(factor_student(design, labels, 2), settings, Fixed(k), 1, signal)
        np.testing.assert_allclose(together.signals[k], alone.signals[0], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        GradientDescent(),
        GradientDescent(start="small:0.001"),
        GradientDescent(optimizer="adam", learning_rate=0.02),
        GradientDescent(momentum=0.8, learning_rate=0.05),
        GradientDescent(student_width=4),
    ],
)
def test_enough_noiseless_samples_are_learned_perfectly(settings):
    design, signal, labels = drawn(90)
    width = settings.student_width or 2
    found = descend(factor_student(design, labels, width), settings, np.random.default_rng(2), 1, signal)
    assert found.training.status.ok
    last = found.history[-1]
    assert last.training_error < 1e-7 * np.mean(labels**2)
    assert last.error < (1e-5 if width == 2 else 0.2)
    assert np.mean(last.singular_values) == pytest.approx(last.nuclear_norm)


@pytest.mark.slow
def test_a_rate_that_diverges_is_halved_until_it_does_not():
    design, signal, labels = drawn()
    found = descend(
        factor_student(design, labels, 2), GradientDescent(learning_rate=30.0), np.random.default_rng(2), 2, signal
    )
    assert found.training.learning_rate < 30
    assert found.training.status.ok
    assert found.history[0].step == 0
    assert np.all(np.isfinite(found.signals))


@pytest.mark.slow
def test_steps_too_short_to_learn_are_not_called_converged():
    design, _, labels = drawn(120, 6, 1)
    settings = GradientDescent(learning_rate=1e-6, steps=5000)
    short = descend(factor_student(design, labels, 1), settings, np.random.default_rng(2))
    assert not short.training.status.ok
    silent = descend(factor_student(design, 0 * labels, 1), GradientDescent(), np.random.default_rng(2))
    assert silent.training.status.ok


@pytest.mark.thorough
def test_narrow_student_stops_at_a_flat_objective():
    design, signal, labels = drawn(120, 6, 3)
    found = descend(factor_student(design, labels, 1), GradientDescent(), np.random.default_rng(2), 1, signal)
    assert found.training.status.ok
    assert found.training.steps < 50_000
    assert found.history[-1].training_error > 0.05


@pytest.mark.thorough
def test_averaging_over_starts_brings_gradient_descent_close_to_the_optimal_error():
    averaged, single = (
        simulate(MODEL, [0.2], kind(initialisations=16, learning_rate=0.5), d=36, instances=3)
        for kind in (AveragedGradientDescent, GradientDescent)
    )
    gap = averaged["relative_error"][0] - averaged["theory_bayes_optimal"][0]
    assert abs(gap) < 3 * averaged["relative_standard_error"][0] + 0.12
    assert single["relative_error"][0] > 1.5 * averaged["relative_error"][0]


@pytest.mark.slow
def test_no_floor_counts_while_weights_explore():
    design, signal, labels = drawn(90)
    student, settings = factor_student(design, labels, 2), GradientDescent(explore=700, floor=1e-6)
    found = descend(student, settings, np.random.default_rng(2), 2, signal).training
    # Without exploration it takes 4100 steps.
    assert 800 <= found.steps < 2000
    assert found.learning_rate <= 0.07 * (1 + 1e-12)
    assert found.status.ok
    assert np.all(found.loss <= 1e-5 * student.power)


@pytest.mark.slow
def test_results_say_how_averages_were_trained():
    ask = {"d": 10, "instances": 1}
    own = simulate(MODEL, [0.3], AveragedGradientDescent(initialisations=2, steps=200), **ask).parameters
    assert (own["optimizer"], own["learning_rate"], own["explore"]) == ("adam", 0.5, 100)
    fewer = simulate(MODEL, [0.3], AveragedGradientDescent(initialisations=2, steps=200, explore=50), **ask).parameters
    assert (fewer["optimizer"], fewer["explore"]) == ("adam", 50)
    plain = simulate(MODEL, [0.3], AveragedGradientDescent(initialisations=2, steps=200, explore=0), **ask).parameters
    assert (plain["optimizer"], plain["learning_rate"], plain["explore"]) == ("sgd", 0.7, 0)


@pytest.mark.parametrize("explore", [-1, False, 50_000, 1.0])
def test_exploration_is_shorter_than_the_run(explore):
    with pytest.raises(ParameterError, match="explore"):
        GradientDescent(explore=explore)


@pytest.mark.thorough
def test_means_over_exploring_starts_are_closer_to_the_optimal_error():
    ask = {"d": 30, "instances": 4, "storage": "float32"}
    plain, exploring = (
        simulate(MODEL, [0.3], AveragedGradientDescent(initialisations=16, floor=1e-6, optimizer=name), **ask)
        for name in ("sgd", None)
    )
    errors = [np.array([run.error for run in found.instances[0]]) for found in (plain, exploring)]
    gain = errors[0] - errors[1]
    assert np.mean(gain) > 2 * np.std(gain, ddof=1) / np.sqrt(len(gain))
    optimal = exploring["theory_bayes_optimal"][0]
    assert optimal - 0.1 < exploring["relative_error"][0] < optimal + 0.1


@pytest.mark.slow
def test_ridge_on_data_has_the_error_of_its_theory():
    model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.3)
    for settings in (Ridge(), Ridge(strength=1.0)):
        result = simulate(model, [0.4, 1.6], settings, d=24, instances=6)
        gap = np.abs(result["relative_error"] - result["theory"])
        assert np.all(gap < 4 * result["relative_standard_error"] + 0.01)
        assert result.converged


def test_ways_of_solving_ridge_agree():
    for samples, strength in ((50, 0.1), (200, 0.1), (50, 0.0), (200, 0.0)):
        design, _, labels = drawn(samples)
        factored, iterated = (ridge(design, labels, strength, factored=k) for k in (10_000, 1))
        np.testing.assert_allclose(factored.value, iterated.value, atol=1e-6)
        assert factored.residual[0] < 1e-10
    with pytest.raises(ParameterError, match="regularisation"):
        ridge(design, labels, -1.0)
    twice = DenseDesign(np.concatenate([design.inputs[:, :40]] * 2, axis=1))
    with pytest.raises(DataError, match="linearly independent samples for a regularisation"):
        ridge(twice, np.concatenate([labels[:40]] * 2), 1e-30)


@pytest.mark.slow
def test_nuclear_norm_in_a_simulation():
    result = simulate(MODEL, [0.7], "nuclear-norm", d=20, instances=2)
    assert result.converged
    assert result["error"][0] < 1e-4
    noisy = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.5)
    assert simulate(noisy, [0.7], "nuclear-norm", d=20, instances=2).converged


def test_combinations_that_do_not_exist_are_refused():
    with pytest.raises(IncompatibleError, match=r"use risk .* or gamp"):
        simulate(AttentionIndexed(rho=0.5, tokens=2), [0.2], "ridge", d=20)
    with pytest.raises(IncompatibleError, match="sgd or online-sgd or gamp"):
        simulate(DeepAttention(), [0.2], "averaged-gd", d=20)
    with pytest.raises(IncompatibleError, match="differentiable link"):
        simulate(BilinearSequenceRegression(beta=1, rho=0.2, channel="sign"), [0.2], "gd", d=20)
    with pytest.raises(IncompatibleError, match="sgd"):
        simulate(MODEL, [0.2], "sgd", d=20)
    with pytest.raises(ParameterError, match="learner"):
        simulate(MODEL, [0.2], "other", d=20)
    for bad in (
        {"optimizer": "newton"},
        {"start": "large"},
        {"start": "overlap:0.3"},
        {"initialisations": 0},
        {"momentum": 1.0},
        {"learning_rate": 0.0},
    ):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            GradientDescent(**bad)
    with pytest.raises(ParameterError, match="momentum"):
        GradientDescent(optimizer="adam", momentum=0.5)


@pytest.mark.thorough
def test_links_with_slopes_are_fitted():
    """Enough noisy labels of a bent link: close to the optimum, from one start."""
    model = BilinearSequenceRegression(beta=1, rho=0.1, channel=jnp.tanh, noise=0.01)
    settings = GradientDescent(steps=800)
    found = simulate(model, [1.2], settings, d=20, instances=1)
    assert 0.2 * found["theory_bayes_optimal"][0] < found["error"][0] < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("link", [np.tanh, lambda h: 1.0 if h > 0 else -1.0, jnp.sign])
def test_links_without_gradient_raise(link):
    with pytest.raises(IncompatibleError, match="labels of a differentiable link"):
        simulate(BilinearSequenceRegression(beta=1, rho=0.2, channel=link), [0.2], "gd", d=20)


def test_errors_of_even_labels_are_those_of_the_better_sign():
    model = BilinearSequenceRegression(beta=1, rho=0.2, channel="absolute")
    design = DenseDesign.sample(5, (4, 4), np.random.default_rng(0))
    student = model.parametrisation.student(design, np.ones(5), 1)
    signal = np.arange(16.0).reshape(4, 4)
    assert student.distance(-signal, signal) == student.distance(signal, signal) == 0


@pytest.mark.slow
def test_baselines_from_the_command_line(capsys):
    common = ["simulate", "bsr", "--rho", "0.2", "--alpha", "0.3", "--d", "10", "--instances", "2"]
    assert main([*common, "--learner", "gd", "--initialisations", "2", "--optimizer", "adam", "--json"]) == 0
    point = json.loads(capsys.readouterr().out)["points"][0]
    history = point["instances"][0]["history"]
    assert {"step", "training_error", "error", "nuclear_norm", "singular_values"} <= set(history[-1])
    assert point["early_stopped_error"] <= point["error"]
    assert main([*common, "--learner", "nuclear-norm", "--all-columns"]) == 0
    assert "theory_bayes_optimal" in capsys.readouterr().out
    assert main([*common, "--learner", "ridge", "--initialisations", "3"]) == 2
    assert "learner ridge has no option --initialisations" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [
        {"learning_rate": 0.2},
        pytest.param({"momentum": 0.8, "learning_rate": 0.1}, marks=pytest.mark.thorough),
        {"optimizer": "adam"},
    ],
    ids=str,
)
def test_weight_decay_is_one_objective_for_every_optimizer(own):
    """At full width the minimum is that of the nuclear norm with 2 w sqrt(r)/(dL)^(1/4), per root of its size."""
    rng, size, decay = np.random.default_rng(0), 8, 0.3
    design, signal = DenseDesign.sample(40, (size, size), rng), np.outer(*rng.standard_normal((2, size)))
    labels = design.forward(signal, 0) + 0.3 * rng.standard_normal(40)
    penalty = 2 * decay * np.sqrt(size)
    best = least_nuclear_norm(design, labels, penalty, Iteration(tolerance=1e-9)).value[0]
    settings = GradientDescent(weight_decay=decay, student_width=size, steps=4000, **own)
    found = descend(factor_student(design, labels, size), settings, rng, 1, signal)
    residual = design.forward(best, 0) - labels
    least = 0.25 * np.sum(residual**2) + 0.5 * penalty * np.linalg.svd(best, compute_uv=False).sum()
    assert found.training.history[-1, 0] == pytest.approx(least, rel=1e-4)
    assert found.history[-1].error == pytest.approx(np.mean((best - signal) ** 2), rel=3e-3)
    assert found.history[-1].training_error == pytest.approx(np.mean(residual**2), rel=3e-3)
