"""Edges of noisy Gaussian products: the first of several stationary points, and all of the mass between them."""

import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, RegularisedRisk, limits
from glassformer.random_matrices.rectangular import RectangularLaw
from glassformer.random_matrices.rectangular_curve import ProductCurve


def laws(seed, count):
    """Parameters over many decades; half of them where wide matrices with little noise have three stationary points."""
    rng = np.random.default_rng(seed)
    beta = np.where(rng.random(count) < 0.4, 1.0, 10 ** rng.uniform(0, 3, count))
    near = rng.uniform(0.8, 2.6, count) * np.where(rng.random(count) < 0.5, 1.0, beta)
    rho = np.where(rng.random(count) < 0.5, near, 10 ** rng.uniform(-3, 3, count))
    return beta, rho, 10 ** rng.uniform(-12, 4, count)


@pytest.mark.parametrize("cut", [0.0, 0.3])
def test_the_mass_of_every_law_is_one(cut):
    beta, rho, noise = laws(0, 300)
    weight = RectangularLaw(beta=beta, rho=rho, noise=noise).nodes(np.full(300, cut))[1]
    # What so many nodes leave out where laws begin at a hard wall.
    assert np.abs(weight.sum(axis=1) - 1).max() < 1e-6


@pytest.mark.parametrize(("rho", "noise"), [(0.5, 0.1), (1.5, 1.0), (1.0, 1.0), (2.5, 1.0)])
def test_a_cut_at_the_lower_edge_has_no_mass_below(rho, noise):
    s, weight, _ = RectangularLaw(beta=1.0, rho=rho, noise=noise).nodes(0.0)
    assert np.isclose(weight.sum(), 1, atol=1e-6)
    assert np.isclose((weight * s**2).sum(), 1 + noise, atol=1e-6)


def test_the_lower_edge_is_the_first_stationary_point():
    """From ``m = 0`` on, where the squared singular value is minus infinity."""
    beta, rho, noise = laws(1, 200)
    curve = ProductCurve(*(part[:, None] for part in (beta, rho, noise)))
    (n, p), (a2, a1, k) = curve.lower_edge, curve.coefficients
    assert np.allclose((n + p)[:, 0], rho, rtol=1e-13)
    before = n * np.linspace(1e-3, 1 - 1e-6, 2000)
    slope = a1 - 2 * a2 * before - 1 / before**2 + k / (curve.rho - before) ** 2
    assert np.all(slope < 0)
    # Rows and columns alike: it is where the singular value is zero.
    square = beta == 1
    scale = (1 + rho + noise * rho)[square]
    assert np.allclose(n[square, 0], 2 * rho[square] / (scale + np.sqrt(scale**2 - 4 * rho[square])), rtol=1e-7)


def test_a_width_above_one_with_little_noise():
    """The narrow bracket once missed the edge: error 0.0193 +- 0.0025, and a rank of 1.12 that was called converged."""
    found = limits(BilinearSequenceRegression(rho=1.8), [0.98])
    # By roots of the quartic and adaptive quadrature.
    assert np.isclose(found["error"][0], 0.016413, atol=1e-6)
    assert found["error_estimate"][0] < 1e-9
    trained = limits(BilinearSequenceRegression(rho=1.5, noise=0.02), [10.0], RegularisedRisk("square", "nuclear"))
    assert trained["rank"][0] <= 1
    assert trained["error_estimate"][0] < 1e-6


def test_next_to_where_no_gap_is_possible():
    """``K`` one rounding below one: its fourth root is one."""
    beta = np.exp(0.5)
    found = RectangularLaw(beta=beta, rho=1.0, noise=np.exp(0.25)).mmse()
    assert 0 < found.value[0] < 1
