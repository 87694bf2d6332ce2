"""Priors of matrices: denoising errors and entropies against closed forms, limits, and matrices drawn."""

import numpy as np
import pytest
from scipy.integrate import quad

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Estimate
from glassformer.priors.bilinear import BilinearPrior, GaussianMatrixPrior, LongSequencePrior, LowWidthPrior
from glassformer.priors.wishart import NarrowWishartPrior

BILINEAR = [
    BilinearPrior(1.0, 0.3),
    BilinearPrior(1.0, 2.0),
    BilinearPrior(4.0, 0.5),
    BilinearPrior(4.0, 1.7),
    BilinearPrior(0.5, 0.2),
    BilinearPrior(0.25, 3.0),
]
PRIORS = [
    *BILINEAR,
    LongSequencePrior(0.3),
    LongSequencePrior(1.0),
    LongSequencePrior(2.5),
    LowWidthPrior(1.0),
    LowWidthPrior(5.0),
    LowWidthPrior(0.2),
    LowWidthPrior(np.inf),
    GaussianMatrixPrior(),
]
Q_HAT = np.array([0.05, 0.3, 0.7, 1.0, 3.0, 20.0, 300.0])


@pytest.fixture(params=PRIORS, ids=repr)
def prior(request):
    return request.param


@pytest.mark.slow
def test_mutual_information_has_half_the_mmse_as_derivative(prior):
    # Sixth-order differences with a step of 1e-2: truncation about 1e-10 of the derivative.
    step = 1e-2 * Q_HAT
    derivative, quadrature = np.zeros_like(Q_HAT), np.zeros_like(Q_HAT)
    for k, weight in {1: 45.0, 2: -9.0, 3: 1.0}.items():
        above, below = (prior.mutual_information(Q_HAT + sign * k * step) for sign in (1, -1))
        derivative += weight * (above.value - below.value) / (60 * step)
        quadrature += abs(weight) * (above.error + below.error) / (60 * step)
    # The overlap of a low-width prior starts with a kink: no difference may reach across it.
    smooth = np.abs(Q_HAT - prior.weak_recovery_onset) > 4 * step
    assert np.count_nonzero(smooth) >= 5
    expected = prior.mmse(Q_HAT).value / 2
    assert np.all((np.abs(derivative - expected) <= 1e-8 * expected + quadrature)[smooth])
    assert np.all((quadrature < 1e-4 * expected)[smooth])


def test_mutual_information_starts_at_zero(prior):
    assert abs(prior.mutual_information(np.zeros(1)).value[0]) < 1e-15


def test_mutual_information_of_a_kink_is_continuous():
    prior = LowWidthPrior(3.0)
    below = prior.weak_recovery_onset * np.array([0.3, 1.0])
    np.testing.assert_allclose(prior.mutual_information(below).value, below / 2, rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", [*BILINEAR[::2], *(pytest.param(p, marks=pytest.mark.thorough) for p in BILINEAR[1::2])], ids=repr
)
def test_error_estimate_of_the_mutual_information(prior):
    q_hat = np.array([0.3, 3.0, 30.0])
    value, error = prior.mutual_information(q_hat)
    for i, end in enumerate(q_hat):
        reference, uncertainty = quad(
            lambda x: 0.5 * np.exp(x) * prior.mmse(np.array([np.expm1(x)])).value[0],
            0.0,
            np.log1p(end),
            epsabs=0.0,
            epsrel=1e-11,
            limit=200,
        )
        assert abs(value[i] - reference) <= error[i] + uncertainty + 1e-13 * reference
    assert np.all(error < 1e-7 * value)


def test_mmse_at_both_ends(prior):
    np.testing.assert_array_equal(prior.mmse(np.array([0.0, np.inf])).value, [1.0, 0.0])


def test_mmse_decreases(prior):
    value = prior.mmse(np.geomspace(1e-3, 1e6, 200)).value
    assert np.all((value > 0) & (value <= 1))
    assert np.all(np.diff(value) <= 0)
    assert np.all(np.diff(value[value < 1]) < 0)


def test_dimension_is_the_limit_of_q_hat_times_mmse(prior):
    q_hat = 10.0 ** np.array([4, 6, 8, 10])
    distance = np.abs(q_hat * prior.mmse(q_hat).value - prior.mmse_dimension)
    # 1/q_hat corrections; 1/sqrt(q_hat) where the signal is just of full rank.
    assert np.all(distance <= 10 * prior.mmse_dimension / np.sqrt(q_hat))
    assert np.all((distance[1:] < distance[:-1]) | (distance[1:] < 1e-10))


def test_onset_is_where_the_overlap_leaves_zero(prior):
    at_or_below = prior.weak_recovery_onset * np.array([0.5, 1.0])
    np.testing.assert_array_equal(prior.mmse(at_or_below).value, 1.0)
    above = prior.weak_recovery_onset + 1e-3
    assert prior.mmse(np.array([above])).value[0] < 1 - 1e-7


@pytest.mark.parametrize("beta", [0.2, 1.0, 5.0])
def test_low_width_overlap_is_the_product_of_the_factors(beta):
    prior = LowWidthPrior(beta)
    left, right = prior.factor_overlaps(Q_HAT)
    np.testing.assert_allclose(prior.mmse(Q_HAT).value, 1 - left * right, rtol=1e-12, atol=1e-15)
    x = (1 + beta) * Q_HAT
    published = np.maximum(x**2 - beta, 0) / (x * (x + beta)), np.maximum(x**2 - beta, 0) / (x * (x + 1))
    np.testing.assert_allclose((left, right), published, atol=1e-14)


def test_low_width_does_not_change_under_transposition():
    np.testing.assert_allclose(LowWidthPrior(4.0).mmse(Q_HAT).value, LowWidthPrior(0.25).mmse(Q_HAT).value, rtol=1e-13)


@pytest.mark.parametrize("rho", [0.3, 1.0, 2.5])
def test_long_sequences_as_published(rho):
    D = 1 / Q_HAT
    overlap = 1 - D + D / 2 * (np.sqrt(1 + rho * ((D + 2) * rho * D + 2 * D + rho - 2)) - (rho - 1) - D * rho)
    # The published form subtracts terms of size 1 + D + rho D^2.
    np.testing.assert_allclose(
        1 - LongSequencePrior(rho).mmse(Q_HAT).value, overlap, atol=2e-15 * (2 + 3 * D.max() ** 2)
    )


@pytest.mark.parametrize(
    ("cls", "arguments", "name"),
    [
        (BilinearPrior, (0.0, 0.5), "beta"),
        (BilinearPrior, (np.inf, 0.5), "beta"),
        (BilinearPrior, (1.0, -0.5), "rho"),
        (BilinearPrior, (1.0, np.nan), "rho"),
        (LongSequencePrior, (0.0,), "rho"),
        (LongSequencePrior, (np.inf,), "rho"),
        (LowWidthPrior, (0.0,), "beta"),
        (LowWidthPrior, (np.nan,), "beta"),
    ],
)
def test_bad_parameters_are_named(cls, arguments, name):
    with pytest.raises(ParameterError, match=rf"^{name} = "):
        cls(*arguments)


@pytest.mark.parametrize("beta", [2.0, 0.5])
def test_denoising_a_matrix_commutes_with_transposition(beta):
    rho, precision = 0.4, 3.0
    rng = np.random.default_rng(0)
    signal = BilinearPrior(beta, rho).sample((round(60 * beta), 60), rng)
    field = precision * signal + np.sqrt(precision) * rng.standard_normal(signal.shape)
    direct = BilinearPrior(beta, rho).denoise(field, precision)
    transposed = BilinearPrior(1 / beta, rho / beta).denoise(field.T, precision)
    np.testing.assert_allclose(direct.signal, transposed.signal.T, atol=1e-12)
    assert direct.variance == pytest.approx(transposed.variance, rel=1e-12)


def test_denoising_without_information_returns_the_prior_mean():
    estimate = BilinearPrior(2.0, 0.5).denoise(np.ones((8, 4)), 0.0)
    assert not estimate.signal.any()
    assert estimate.variance == 1.0


def test_errors_of_a_precision_are_propagated_to_variances():
    """V = 1 - max(1 - 1/q_hat, 0)^2: nothing but rounding below the onset at one, and |V'| = 1/4 at two (to 1e-3)."""
    q_hat = np.array([1e-32, 0.9, 2.0])[:, None, None]
    error = np.array([8e-33, 0.05, 1e-3])[:, None, None]
    found = NarrowWishartPrior().covariance(Estimate(q_hat, error)).error.ravel()
    assert np.all(found[:2] < 1e-15)
    assert found[2] == pytest.approx(2.5e-4, rel=2e-3)
