"""Where free entropies cross inside a hard phase, against plain quadratures of the replica potential."""

from math import log, pi

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr

from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    SequenceMultiIndex,
    limits,
    phase_diagram,
    plan,
    thresholds,
)
from glassformer.bayes_optimal.equation_of_state import perfect_end

TRANSITION = "bayes_optimal_transition"
T = np.linspace(-12, 12, 4001)
NORMAL = np.exp(-(T**2) / 2) / np.sqrt(2 * pi) * (T[1] - T[0])


def sign_of_one(h):
    return jnp.sign(h[0, 0])


def value(h):
    return h[0, 0]


def modulus(h):
    return abs(h[0, 0])


def entropy_of_signs(q_hat):
    """Prior part of the free entropy of weights +1 and -1 without the term -q q_hat/2, and their overlap."""
    field = np.sqrt(q_hat) * T + q_hat
    return NORMAL @ (np.logaddexp(field, -field) - log(2)) - q_hat / 2, NORMAL @ np.tanh(field)


# --- signs of one index ---------------------------------------------------------------------------------------------


def gap_of_the_perceptron(alpha):
    """Free entropy -log 2 of weights known exactly less that of the uninformed fixed point, by iteration from zero."""
    q, q_hat, before = 0.0, 0.0, 1.0
    while abs(q - before) > 1e-13:
        before, ratio = q, np.sqrt(q / (1 - q))
        chance = ndtr(ratio * T)
        q_hat = alpha * 2 * NORMAL @ (np.exp(-((ratio * T) ** 2)) / (2 * pi) / chance) / (1 - q)
        q = entropy_of_signs(q_hat)[1]
    output = 2 * NORMAL @ (chance * log_ndtr(ratio * T))
    return -log(2) - (alpha * output + entropy_of_signs(q_hat)[0] - q * q_hat / 2)


@pytest.mark.thorough
def test_the_binary_perceptron_against_plain_quadrature():
    """Gyorgyi (1990) prints 1.245."""
    model = SequenceMultiIndex(sign_of_one, 1, 1, prior="rademacher")
    found = thresholds(model)
    exact = brentq(gap_of_the_perceptron, 1.2, 1.3, xtol=1e-9)
    assert exact == pytest.approx(1.245, abs=5e-4)
    transition = found[TRANSITION]
    # Iterations to 1e-13 and the trapezoid rule leave the plain value some 1e-10 off.
    assert abs(transition.alpha - exact) <= transition.error_estimate + 1e-9
    assert transition.error_estimate < 1e-6
    assert found["perfect_recovery"].alpha == transition.alpha
    assert found["algorithmic_perfect_recovery"].alpha == found["hard_phase_end"].alpha
    side = limits(model, exact + np.array([-1e-4, 1e-4]))
    assert side["error"][0] > 0.3
    assert side["error"][1] < 1e-12


@pytest.mark.thorough
def test_the_start_of_a_hard_phase_of_discrete_weights_is_exactly_zero():
    start = thresholds(SequenceMultiIndex(sign_of_one, 1, 1, prior="rademacher"))["hard_phase_start"]
    assert (start.alpha, start.error_estimate) == (0.0, 0.0)
    assert "stable at any alpha > 0" in start.note


@pytest.mark.parametrize(("noise", "end"), [(0.0, 0.0), (1e-6, np.inf)])
@pytest.mark.parametrize("link", [value, modulus])
def test_noise_bounds_the_information_and_ends_the_stability_of_exact_weights(link, noise, end):
    assert perfect_end(SequenceMultiIndex(link, 1, 1, prior="rademacher", noise=noise)) == end


@pytest.mark.thorough
def test_a_symmetric_binary_perceptron_of_even_odds_takes_one_bit_per_label():
    """Until weak recovery at 1.36 nothing is known, and labels of even odds have one bit each."""
    model = SequenceMultiIndex(lambda h: jnp.sign(abs(h[0, 0]) - 0.6744897501960817), 1, 1, prior="rademacher")
    found = thresholds(model)[TRANSITION]
    assert abs(found.alpha - 1) <= found.error_estimate + 1e-10


# --- noise and other priors -------------------------------------------------------------------------------------------


def sparse_potential(rest, alpha, rho, noise):
    """Mutual information per weight of a sparse Gaussian signal seen through a linear channel, at error ``rest``."""
    width = np.sqrt(1 + alpha / (noise + rest) / rho)

    def bells(y):
        return (1 - rho) * np.exp(-(y**2) / 2), rho / width * np.exp(-((y / width) ** 2) / 2)

    # Half of the line, with as many nodes on every scale from one deviation of the noise to that of the signal.
    t = np.linspace(-9, np.log(12 * width), 6000)
    y = np.exp(t)
    density = sum(bells(y)) / np.sqrt(2 * pi)
    information = -2 * np.trapezoid(y * density * np.log(density), t) - 0.5 * log(2 * pi * np.e)
    return information + alpha / 2 * (np.log1p(rest / noise) - rest / (noise + rest))


@pytest.mark.thorough
def test_sparse_weights_with_little_noise_against_the_potential_of_compressed_sensing():
    rho, noise = 0.1, 1e-4
    found = thresholds(SequenceMultiIndex(value, 1, 1, prior=f"gauss-bernoulli:{rho}", noise=noise))
    alpha = found[TRANSITION].alpha
    assert found["hard_phase_start"].alpha < alpha < found["hard_phase_end"].alpha

    def least(low, high):
        return minimize_scalar(
            lambda t: sparse_potential(np.exp(t), alpha, rho, noise), bounds=(log(low), log(high)), method="bounded"
        ).fun

    # The potentials differ by the slope, of order one, times what alpha is off; quadrature leaves 1e-7.
    assert least(1e-5, 3e-3) == pytest.approx(least(3e-2, 0.9), abs=1e-6)


@pytest.mark.thorough
def test_noisy_phase_retrieval_of_signs_against_sums_over_grids():
    noise = 0.1
    model = SequenceMultiIndex(modulus, 1, 1, prior="rademacher", noise=noise)
    alpha = thresholds(model)[TRANSITION].alpha
    table = limits(model, [alpha])
    h, y = np.linspace(-7, 7, 1401), np.linspace(-2, 7, 451)
    channel = np.exp(-((y[:, None] - abs(h)) ** 2) / (2 * noise)) / np.sqrt(2 * pi * noise)

    def potential(variance):
        q_hat = brentq(lambda x: 1 - entropy_of_signs(x)[1] - variance, 1e-8, 60)
        omega = np.linspace(-7, 7, 281) * np.sqrt(1 - variance)
        bell = np.exp(-((h[:, None] - omega) ** 2) / (2 * variance)) / np.sqrt(2 * pi * variance) * (h[1] - h[0])
        z = channel @ bell
        weight = np.exp(-(omega**2) / (2 * (1 - variance)))
        mean = np.sum(z * np.log(np.maximum(z, 1e-300)), axis=0) * (y[1] - y[0]) @ weight / weight.sum()
        return alpha * mean + entropy_of_signs(q_hat)[0] - (1 - variance) * q_hat / 2

    low, high = (potential(float(table[name].ravel()[0])) for name in ("informed_error", "algorithmic_error"))
    # The kink of the modulus between nodes of the grid leaves 1e-5.
    assert low == pytest.approx(high, abs=5e-5)


@pytest.mark.thorough
def test_transition_at_the_start_of_the_hard_phase_for_labels_that_determine_the_field():
    dense = thresholds(BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute"))
    assert dense[TRANSITION].alpha == dense["perfect_recovery"].alpha == 0.75
    signs = thresholds(SequenceMultiIndex(modulus, 1, 1, prior="rademacher"))
    assert signs[TRANSITION].alpha == signs["perfect_recovery"].alpha == 0.0


def test_a_product_of_signs_seen_through_signs_has_an_error_bar_of_its_quadratures():
    """Of weights known exactly, and of a product whose factors share log 2 each."""
    found = thresholds(BilinearSequenceRegression(beta=1, width=1, prior="rademacher", channel="sign"))
    assert found[TRANSITION].error_estimate < 1e-6
    prior = BilinearSequenceRegression(beta=1, width=1, prior="rademacher", channel="sign").prior
    value, error = prior.mutual_information(np.array([30.0, 1e3, 1e6]))
    assert np.all(np.abs(value - log(2)) <= error)
    assert np.all(error < 1e-8)


@pytest.mark.thorough
def test_noisy_labels_never_determine_weights_exactly():
    found = thresholds(SequenceMultiIndex(value, 1, 1, prior="rademacher", noise=0.01))
    assert found["hard_phase_start"].alpha > 0
    assert found["perfect_recovery"].alpha == found["algorithmic_perfect_recovery"].alpha == np.inf


def test_without_a_hard_phase_there_is_no_transition():
    found = thresholds(BilinearSequenceRegression(rho=0.5))
    assert np.isnan(found[TRANSITION].alpha)
    assert found[TRANSITION].note == "No hard phase"


def test_plans_and_phase_diagrams_have_the_transition():
    model = BilinearSequenceRegression(beta=1, width=1, prior="rademacher", noise=0.01)
    transition = thresholds(model)[TRANSITION]
    needed = plan(model, 0.05)
    assert needed["bayes_optimal"].alpha == pytest.approx(transition.alpha, rel=2e-6)
    assert needed.thresholds[TRANSITION].alpha == transition.alpha
    curve = phase_diagram(model, "noise", [0.01, 0.02]).curve(TRANSITION)
    assert curve[0] == transition.alpha
    assert curve[1] > curve[0]


@pytest.mark.thorough
def test_two_decoupled_sparse_rows_have_the_transition_of_one():
    def rows(h):
        return h[:, 0]

    options = {"prior": "gauss-bernoulli:0.1", "noise": 1e-4}
    one = thresholds(SequenceMultiIndex(value, 1, 1, **options))[TRANSITION]
    two = thresholds(SequenceMultiIndex(rows, 2, 1, **options).at_accuracy(Accuracy(points=64)))[TRANSITION]
    assert abs(two.alpha - one.alpha) <= two.error_estimate
    assert two.error_estimate < 0.005
