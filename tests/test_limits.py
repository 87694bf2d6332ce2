"""Bayes-optimal limits against published curves, closed forms and independent integration."""

from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from glassformer import BilinearSequenceRegression, limits, nuclear_norm_threshold, thresholds
from glassformer.estimators.ridge import ridge_error

REFERENCE = Path(__file__).parents[2] / "shared" / "reference" / "bsr"


def error(alpha, **parameters):
    return limits(BilinearSequenceRegression(**parameters), alpha)["error"]


def published(name):
    path = REFERENCE / name
    if not path.exists():
        pytest.skip("published data are not there")
    return np.genfromtxt(path, delimiter=",", names=True)


@pytest.mark.parametrize("name", ["mmse_delta0_beta1.csv", "mmse_delta0.1_beta5.csv"])
def test_published_curves(name):
    data = published(name)
    for rho in np.unique(data["rho"]):
        rows = data[data["rho"] == rho]
        model = BilinearSequenceRegression(beta=rows["beta"][0], rho=rho, noise=rows["delta"][0])
        if model.noise == 0:
            rows = rows[rows["alpha"] < model.prior.dimension - 1e-9]
        difference = limits(model, rows["alpha"])["error"] - rows["mmse"]
        assert np.abs(difference).max() <= 3e-5


def test_published_thresholds():
    data = published("perfect_recovery_thresholds.csv")
    data = data[data["rho"] > 0][::40]
    for rho, beta, bayes in zip(data["rho"], data["beta"], data["alpha_BO"], strict=True):
        assert BilinearSequenceRegression(beta=beta, rho=rho).prior.dimension == pytest.approx(bayes, abs=1e-12)


def test_small_width():
    ratio = np.array([0.3, 0.6, 0.9, 1.5])
    for beta in (1.0, 3.0):
        limit = error(ratio, beta=beta, rho=0, noise=0.1)
        gaps = [
            np.abs(error(ratio * rho * (1 + beta) / beta, beta=beta, rho=rho, noise=0.1) - limit).max()
            for rho in (0.1, 0.01, 1e-3, 1e-4)
        ]
        assert np.all(np.diff(gaps) < 0) and gaps[-1] < 5e-3


def test_long_sequences():
    alpha = np.array([0.1, 0.3, 0.6])
    limit = error(alpha, beta=np.inf, rho=0.4, noise=0.1)
    gaps = [np.abs(error(alpha, beta=beta, rho=0.4, noise=0.1) - limit).max() for beta in (10.0, 1e2, 1e4, 1e6)]
    # The approach is of first order in 1/beta, with a coefficient of about 6.
    assert np.all(np.diff(gaps) < 0) and gaps[-1] < 1e-5
    D = (1 + 0.1 - (1 - limit)) / alpha
    rho = 0.4
    closed = 1 - D + D / 2 * (np.sqrt(1 + rho * ((D + 2) * rho * D + 2 * D + rho - 2)) - (rho - 1) - D * rho)
    np.testing.assert_allclose(1 - limit, closed, atol=1e-9)


def test_long_sequences_of_small_width():
    a, noise = np.array([0.2, 0.8, 2.0]), 0.3
    q = (1 + noise + a - np.sqrt((a - 1) ** 2 + 2 * (a + 1) * noise + noise**2)) / 2
    np.testing.assert_allclose(error(a, beta=np.inf, rho=0, noise=noise), 1 - q, atol=1e-9)
    np.testing.assert_allclose(error(a * 1e-5, beta=1e9, rho=1e-5, noise=noise), 1 - q, atol=1e-3)


def test_unlimited_width_is_ridge():
    alpha = np.linspace(0, 1.5, 7)
    for noise in (0.0, 0.2):
        np.testing.assert_allclose(error(alpha, rho=np.inf, noise=noise), ridge_error(alpha, noise), atol=1e-8)
        gaps = [np.abs(error(alpha, rho=rho, noise=noise) - ridge_error(alpha, noise)).max() for rho in (5, 50, 5000)]
        assert np.all(np.diff(gaps) < 0) and gaps[-1] < 1e-3


@pytest.mark.parametrize(("beta", "rho"), [(2.0, 0.5), (5.0, 0.1), (1.5, 2.0)])
def test_transposition(beta, rho):
    alpha = np.linspace(0.05, 1.2, 6)
    for channel, noise in (("gaussian", 0.05), ("sign", 0.0)):
        direct = error(alpha, beta=beta, rho=rho, noise=noise, channel=channel)
        transposed = error(alpha, beta=1 / beta, rho=rho / beta, noise=noise, channel=channel)
        np.testing.assert_allclose(direct, transposed, rtol=1e-9)


def test_ridge_bounds_the_optimum_and_both_decrease():
    alpha = np.linspace(0, 1.3, 40)
    for beta in (0.5, 1.0, 4.0):
        for rho in (0.1, 0.7, 2.0):
            for noise in (0.0, 0.1, 1.0):
                optimum = error(alpha, beta=beta, rho=rho, noise=noise)
                assert np.all(optimum <= ridge_error(alpha, noise) + 1e-9)
                assert np.all(np.diff(optimum) <= 1e-10)
                assert optimum[0] == 1


def test_sign_channel_against_independent_integration():
    model = BilinearSequenceRegression(rho=0.5, channel="sign")

    def information(V):
        def integrand(w):
            a = w / np.sqrt(V)
            return 2 * stats.norm.pdf(w, scale=np.sqrt(1 - V)) * stats.norm.pdf(a) ** 2 / (V * stats.norm.cdf(a))

        width = 8 * np.sqrt(1 - V)
        return integrate.quad(integrand, -min(width, 30 * np.sqrt(V)), width, points=[0], limit=400)[0]

    for alpha in (1.0, 3.0):
        V = optimize.brentq(lambda V: model.prior.mmse(np.array([alpha * information(V)])).value[0] - V, 0.01, 0.99)
        assert limits(model, alpha)["error"][0] == pytest.approx(V, abs=1e-7)


@pytest.mark.parametrize(("beta", "rho"), [(1.0, 0.5), (0.5, 0.2), (5.0, 0.8), (2.0, 3.0)])
def test_perfect_recovery_is_where_the_error_vanishes(beta, rho):
    model = BilinearSequenceRegression(beta=beta, rho=rho)
    threshold = thresholds(model)["perfect_recovery"].alpha
    expected = rho * (1 + beta - rho) / beta if rho < min(1, beta) else 1.0
    assert threshold == pytest.approx(expected, rel=1e-12)
    below, above = limits(model, [0.98 * threshold, 1.02 * threshold])["error"]
    assert below > 1e-4 and above < 1e-12
    assert threshold <= nuclear_norm_threshold(beta, rho) <= 1


@pytest.mark.parametrize("beta", [0.5, 1.0, 4.0])
def test_weak_recovery_of_small_width(beta):
    model = BilinearSequenceRegression(beta=beta, rho=0, noise=0.2)
    threshold = thresholds(model)["weak_recovery"].alpha
    assert threshold == pytest.approx(1.2 * np.sqrt(beta) / (1 + beta), rel=1e-12)
    below, above = limits(model, [0.97 * threshold, 1.03 * threshold])["error"]
    assert below == pytest.approx(1, abs=1e-9) and above < 1 - 1e-5


@pytest.mark.parametrize("rho", [0.3, 2.0])
def test_absolute_labels_have_weak_recovery_at_one_half_and_a_hard_phase(rho):
    model = BilinearSequenceRegression(rho=rho, channel="absolute")
    found = thresholds(model)
    assert found["weak_recovery"].alpha == pytest.approx(0.5, abs=1e-6)
    assert found.hard_phase
    start, end = found["hard_phase_start"].alpha, found["hard_phase_end"].alpha
    inside, outside = limits(model, [0.5 * (start + end), 1.05 * end]), limits(model, [0.98 * start])
    assert [str(status) for status in inside.status] == ["bistable", "converged"]
    assert outside.converged
    assert inside["informed_error"][0] < inside["algorithmic_error"][0] - 0.1
    assert inside["error"][0] == inside["informed_error"][0]


def test_linear_labels_have_no_hard_phase():
    for beta in (1.0, 5.0):
        for rho in (0.05, 0.3, 0.9, 2.0):
            for noise in (0.0, 1e-3, 0.1):
                assert not thresholds(BilinearSequenceRegression(beta=beta, rho=rho, noise=noise)).hard_phase
