"""Thresholds of regularised risk: closed forms, and the ends that limits and finite data show."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar

from glassformer import AttentionIndexed, BilinearSequenceRegression, IncompatibleError, hysteresis, limits, thresholds
from glassformer.laws import nuclear_norm_threshold
from glassformer.learners.gradient_descent import GradientDescent
from glassformer.learners.nuclear_norm import NuclearNorm
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.random_matrices.nuclear_norm import trace_dimension


def shifted(h):
    return np.where(h > 0.7, 1.0, -1.0)


def alpha_of(model, name, **settings):
    return thresholds(model, RegularisedRisk(**settings))[name].alpha


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_perfect_recovery_without_noise(beta):
    model = BilinearSequenceRegression(beta=beta, rho=0.3)
    assert alpha_of(model, "perfect_recovery") == pytest.approx(nuclear_norm_threshold(beta, 0.3))
    assert alpha_of(model, "perfect_recovery", strength=0.1) == np.inf
    assert alpha_of(model, "perfect_recovery", penalty="ridge") == 1.0
    assert thresholds(model, NuclearNorm())["perfect_recovery"].alpha == alpha_of(model, "perfect_recovery")
    attention = AttentionIndexed(rho=0.3, tokens=2, channel="linear")
    trace = alpha_of(attention, "perfect_recovery", penalty="trace")
    assert trace == pytest.approx(trace_dimension(0.3) / 6)


def test_estimate_is_zero_below_the_weak_recovery_threshold():
    model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    learner = RegularisedRisk("logistic", strength=1.0)
    begin = thresholds(model, learner)["weak_recovery"].alpha
    power = limits(model, begin * np.array([0.95, 1.05]), learner)["power"]
    assert power[0] == 0 < power[1]


@pytest.mark.slow
def test_positive_matrices_fit_labels_up_to_the_interpolation_threshold():
    model = AttentionIndexed(rho=0.5, tokens=2, channel="linear", noise=0.1)
    end = alpha_of(model, "interpolation", penalty="trace")
    table = limits(model, end * np.array([0.95, 1.05]), RegularisedRisk("square", "trace", 0.0))
    assert table["training_loss"][0] < 1e-12 < 1e-5 < table["training_loss"][1]
    assert table["degrees"] / (6 * table["alpha"]) == pytest.approx([1.0, 0.99], abs=0.05)


@pytest.mark.parametrize("channel", ["sign", shifted])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_labels_are_separable_below_the_interpolation_threshold(channel, share):
    model = BilinearSequenceRegression(beta=1, rho=0.3, channel=channel, noise_law=f"flip:{share}")
    rng = np.random.default_rng(0)
    h = rng.standard_normal(400_000)
    margin, z = model.channel.sample(h, rng) * h, rng.standard_normal(h.size)
    least = minimize_scalar(lambda c: np.mean(np.maximum(z - c * margin, 0) ** 2), bounds=(0, 30), method="bounded")
    assert alpha_of(model, "interpolation", loss="logistic") == pytest.approx(1 / least.fun, rel=0.012)
    clear = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    assert alpha_of(clear, "interpolation", loss="logistic") == np.inf


def test_the_chance_to_tell_labels_apart_turns_at_the_threshold():
    model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign", noise_law="flip:0.1")
    end, dimension, rng = alpha_of(model, "interpolation", loss="hinge"), 120, np.random.default_rng(1)
    found = []
    for ratio in (0.8, 1.2):
        x = rng.standard_normal((round(ratio * end * dimension), dimension))
        y = model.channel.sample(x[:, 0], rng)
        told = [linprog(np.zeros(dimension), -(y[:, None] * x), -np.ones(len(y)), bounds=(None, None)).status == 0]
        found += told
    assert found == [True, False]


def test_refusals():
    with pytest.raises(IncompatibleError, match="no closed equations"):
        thresholds(BilinearSequenceRegression(beta=1, rho=0.3), GradientDescent())


def test_a_convex_risk_has_one_branch():
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    table = hysteresis(model, [0.3, 0.6], RegularisedRisk(strength=0.2))
    np.testing.assert_array_equal(table["error_up"], limits(model, [0.3, 0.6], RegularisedRisk(strength=0.2))["error"])
    assert not table["two_branches"].any()
