"""Square loss without a penalty: around as many samples as unknowns, at it, and beyond perfect recovery."""

import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, RegularisedRisk, Ridge, limits
from glassformer.channels.regression import regression
from glassformer.learners.ridge import ridge_error
from glassformer.random_matrices.given import Spectrum
from glassformer.risk.fixed_points import iterated_points
from glassformer.risk.losses import Square
from glassformer.risk.penalties import penalty_of
from glassformer.risk.problem import RiskProblem

NOISY = BilinearSequenceRegression(rho=0.3, noise=0.1)
PENALTIES = ["ridge", "elastic", "nuclear"]
NEXT_TO = np.array([0.999, 1 - 1e-6, 1 + 1e-6, 1.001])


def interpolator(model, alpha, penalty, throw=True):
    return limits(model, alpha, RegularisedRisk("square", penalty, 0.0), throw=throw)


def exact(alpha):
    return np.where(alpha < 1, 1 - alpha + 0.1 * alpha / np.abs(1 - alpha), 0.1 / np.abs(alpha - 1))


def test_ridge_next_to_as_many_samples_as_unknowns():
    """A strength that stood for none gave a sixth of the error there."""
    for table in (interpolator(NOISY, NEXT_TO, "ridge"), limits(NOISY, NEXT_TO, Ridge(strength=0.0))):
        np.testing.assert_allclose(table["error"], exact(NEXT_TO), rtol=1e-14)
        assert np.all(table["error_estimate"] < 1e-14 * table["error"])


def test_all_penalties_are_least_squares_with_more_samples_than_unknowns():
    for penalty in PENALTIES:
        found = interpolator(NOISY, NEXT_TO[2:], penalty)
        np.testing.assert_allclose(found["error"], exact(NEXT_TO[2:]), rtol=1e-14)
        np.testing.assert_array_equal(found["threshold"], 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["elastic", "nuclear"])
def test_errors_that_diverge_do_so_at_the_right_rate(penalty):
    """Noise in units of missing samples, to the order of the samples that are missing."""
    found = interpolator(NOISY, [1 - 1e-4, 1 - 1e-6], penalty)
    np.testing.assert_array_less(np.abs(found["error"] * [1e-4, 1e-6] - 0.1), [1e-4, 1e-6])
    assert np.all(found["error_estimate"] < 2e-4 * found["error"])


def test_extrapolated_limit_agrees_with_the_closed_form():
    """The equations of the other penalties, for ridge; rounding is amplified next to as many samples as unknowns."""
    alpha = np.array([0.3, 0.99, 1 - 1e-6])
    point = iterated_points(RiskProblem(NOISY, Square(), penalty_of("ridge")), alpha, np.zeros(3))
    assert all(status.ok for status in point.status)
    assert np.all(np.abs(point.order.error - exact(alpha)) <= point.error_estimate)
    assert np.all(point.error_estimate < 2e-4 * point.order.error)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_as_many_samples_as_unknowns(penalty):
    found = interpolator(NOISY, [1.0], penalty)
    assert found["error"][0] == found["power"][0] == ridge_error(1.0, 0.1, 0.0) == np.inf
    expected = {"training_loss": 0.0, "degrees": 1.0, "rank": 1.0, "cosine": 0.0, "overlap": 1.0, "threshold": 0.0}
    assert {name: found[name][0] for name in expected} == expected
    signs = interpolator(BilinearSequenceRegression(rho=0.3, channel="sign"), [1.0], penalty)
    assert signs["overlap"][0] == pytest.approx(np.sqrt(2 / np.pi)) and signs["label_error"][0] == pytest.approx(0.5)


def test_links_of_any_slope():
    """The linear model for the linear part of the link, with the rest of it as noise."""
    model = BilinearSequenceRegression(rho=0.3, link=np.tanh)
    slope, rest = regression(model.channel)
    alpha = np.array([0.4, 0.99, 1.3])
    found = interpolator(model, alpha, "ridge")
    linear = interpolator(BilinearSequenceRegression(rho=0.3, noise=rest / slope**2), alpha, "ridge")
    np.testing.assert_allclose(found["overlap"], slope * linear["overlap"], rtol=1e-12)
    np.testing.assert_allclose(found["power"], slope**2 * linear["power"], rtol=1e-12)
    np.testing.assert_allclose(found["test_loss"], slope**2 * linear["test_loss"], rtol=1e-12)
    np.testing.assert_allclose(found["training_loss"], slope**2 * linear["training_loss"], rtol=1e-12)
    small = limits(model, alpha, RegularisedRisk("square", "ridge", 1e-7))
    for name in ("error", "training_loss", "test_loss", "effective_noise"):
        np.testing.assert_allclose(small[name], found[name], rtol=1e-2, atol=1e-9)


def test_a_strength_below_any_that_stood_for_none_is_that_strength():
    found = limits(NOISY, [1.0], RegularisedRisk("square", "ridge", 1e-13))
    assert found["error"][0] == pytest.approx(ridge_error(1.0, 0.1, 1e-13), rel=1e-6) and found["strength"][0] == 1e-13


def test_positive_matrices_do_not_diverge_at_as_many_samples_as_unknowns():
    model = AttentionIndexed(rho=0.5, tokens=1, channel="linear", noise=0.1)
    below, at, above = interpolator(model, [0.4999, 0.5, 0.5001], "trace")["error"]
    assert at == pytest.approx((below + above) / 2, rel=1e-6)


def test_the_rank_of_a_signal_that_is_recovered():
    for model, alpha, rank in (
        (BilinearSequenceRegression(rho=0.3), 0.8, 0.3),
        (BilinearSequenceRegression(beta=0.5, rho=0.2), 0.95, 0.4),
        (BilinearSequenceRegression(beta=2.0, rho=0.2), 0.95, 0.2),
        (BilinearSequenceRegression(beta=1, spectrum=Spectrum([0, 0, 1, 2])), 0.99, 0.5),
    ):
        found = interpolator(model, [alpha], "nuclear")
        assert found["error"][0] == 0 and found["rank"][0] == pytest.approx(rank)
    network = interpolator(AttentionIndexed(rho=0.3, tokens=1, channel="linear"), [0.45], "trace")
    assert network["error"][0] == 0 and network["rank"][0] == pytest.approx(0.3)
