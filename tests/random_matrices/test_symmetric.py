"""The law of a noisy Wishart matrix: against 50-digit arithmetic, its own functional equation, and a random matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from glassformer.errors import ParameterError
from glassformer.laws import SymmetricLaw

POINTS = [(0.5, 0.1), (0.5, 1e-3), (2.0, 0.1), (0.01, 1e-3), (0.3, 1e-2), (0.95, 1e-4), (1.0, 1e-3), (0.1, 1.0)]


def oracle_edges(rho, noise):
    """The values of z at the real solutions of dz/dG = 0, ascending, and the real part at the complex ones."""
    r = mp.sqrt(rho)
    quartic = [-rho, 2 * r, rho * noise - 1 + rho, -2 * r * noise, noise]
    roots = mp.polyroots(quartic, maxsteps=500, extraprec=400, asc=True)
    stationary = [1 / g + rho / (r - g) + noise * g for g in roots]
    real = [abs(mp.im(g)) < mp.mpf(10) ** (-mp.dps // 2) * abs(g) for g in roots]
    edges = sorted(mp.re(z) for z, flag in zip(stationary, real, strict=True) if flag)
    return edges, [mp.re(z) for z, flag in zip(stationary, real, strict=True) if not flag]


def oracle_density(rho, noise, z):
    r = mp.sqrt(rho)
    cubic = [-r, 1 - rho + z * r, -(noise * r + z), noise]
    return max(mp.im(g) for g in mp.polyroots(cubic, maxsteps=500, extraprec=200, asc=True)) / mp.pi


def oracle_mmse(rho, noise):
    """Delta - (4 pi^2/3) Delta^2 int mu^3, the published form, with digits to spare for its cancellation."""
    with mp.workdps(50):
        rho, noise = mp.mpf(rho), mp.mpf(noise)
        edges, necks = oracle_edges(rho, noise)
        total = mp.mpf(0)
        for a, b in zip(edges[::2], edges[1::2], strict=True):

            def integrand(angle, a=a, b=b):
                z = (a + b) / 2 - (b - a) / 2 * mp.cos(angle)
                return oracle_density(rho, noise, z) ** 3 * mp.sin(angle) * (b - a) / 2

            # A bulk about to part in two is nearly singular at its neck.
            cuts = [mp.acos((a + b - 2 * z) / (b - a)) for z in set(necks) if a < z < b]
            total += mp.quad(integrand, sorted([0, mp.pi / 2, mp.pi, *cuts]))
        return float(noise - 4 * mp.pi**2 / 3 * noise**2 * total)


def check_mmse(rho, noise, tolerance=1e-8):
    value, error = SymmetricLaw(rho, noise).mmse()
    expected = oracle_mmse(rho, noise)
    assert value[0] == pytest.approx(expected, rel=tolerance)
    assert error[0] <= tolerance * expected


@pytest.mark.thorough
@pytest.mark.parametrize(("rho", "noise"), [(1.0, 1.0), (0.3, 1e6)])
def test_mmse(rho, noise):
    check_mmse(rho, noise)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("noise", "rho"),
    [
        (1e-6, 10.0),
        *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in [(1e6, 10.0), (1e-6, 0.01), (1e6, 0.01)]),
    ],
)
def test_mmse_at_the_corners_of_the_promised_range(rho, noise):
    check_mmse(rho, noise)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_mmse_over_the_promised_range(seed):
    rng = np.random.default_rng(seed)
    check_mmse(*np.exp(rng.uniform(np.log([0.01, 1e-6]), np.log([10, 1e6]))))


@pytest.mark.thorough
@pytest.mark.parametrize("factor", [1 - 1e-3, 1 - 1e-6, 1 + 1e-6, 1 + 1e-3])
def test_mmse_where_two_bulks_merge(factor):
    rho, low, high = 0.3, 1e-2, 1.0
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if np.isfinite(SymmetricLaw(rho, middle).support[0, 1, 0]) else (low, middle)
    check_mmse(rho, low * factor)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rho", "noise"), [(1.8646578193708595e-06, 66.9043896717317), (0.029403217703892977, 1.6332711492947504e-07)]
)
def test_rounding_of_the_edges_of_a_narrow_bulk_is_in_the_error(rho, noise):
    value, error = SymmetricLaw(rho, noise).mmse()
    assert abs(value[0] - oracle_mmse(rho, noise)) <= error[0] <= 1e-4 * value[0]


@pytest.mark.parametrize("rho", [0.005, 0.05, 0.5])
def test_mmse_of_narrow_bulks_approaches_its_limit_to_rounding(rho):
    """At small noise, MMSE = noise * dimension * (1 - c * noise)."""
    noise = np.array([1e-6, 1e-7, 1e-10, 1e-14])
    value, error = SymmetricLaw(rho, noise).mmse()
    missing = 1 - value / (noise * rho * (2 - rho))
    np.testing.assert_allclose(missing, missing[0] * noise / noise[0], rtol=1e-4, atol=1e-13)
    assert np.all(error < 1e-11 * value)


@pytest.mark.parametrize(("rho", "noise"), POINTS)
def test_edges(rho, noise):
    support = SymmetricLaw(rho, noise).support[0].ravel()
    with mp.workdps(40):
        expected = np.array([float(z) for z in oracle_edges(mp.mpf(rho), mp.mpf(noise))[0]])
    assert np.allclose(support[np.isfinite(support)], expected, rtol=1e-10, atol=1e-10)


def residual(law, z):
    rho, noise = law._parameters
    G = np.conj(law.stieltjes(z))
    return np.abs(1 / G + rho / (np.sqrt(rho) - G) + noise * G - z)


@pytest.mark.parametrize(("rho", "noise"), POINTS)
def test_the_transform_solves_its_equation_inside_and_outside(rho, noise):
    law = SymmetricLaw(rho, noise)
    edges = law.support[0]
    for low, high in edges[np.isfinite(edges[:, 0])]:
        z = low + (high - low) * np.linspace(0.01, 0.99, 20)
        assert np.all(law.density(z) > 0)
        assert np.all(residual(law, z) < 1e-7)
    outside = [edges[0, 0] - 0.3, np.nanmax(edges) + 0.3, *([edges[:, :].mean()] if np.isfinite(edges).all() else [])]
    if np.isfinite(edges).all():
        outside[-1] = 0.5 * (edges[0, 1] + edges[1, 0])
    assert np.all(law.density(outside) == 0)
    assert np.all(residual(law, np.array(outside)) < 1e-8)


@pytest.mark.parametrize(("rho", "noise"), POINTS)
def test_denoiser(rho, noise):
    """It is the published expression, its derivative is the slope, and it is continuous across the edges."""
    law = SymmetricLaw(rho, noise)
    edges = law.support[0][np.isfinite(law.support[0])]
    z = edges[0] + (edges[-1] - edges[0]) * np.linspace(0.013, 0.987, 30)
    value, slope = law.shrinkage(z)
    assert np.allclose(value, np.maximum(z - 2 * noise * law.hilbert(z), 0), atol=1e-9)
    step = 1e-6
    inner = np.min(np.abs(z[:, None] - edges), axis=1) > 1e-3
    numeric = (law.denoise(z + step) - law.denoise(z - step)) / (2 * step)
    assert np.allclose(slope[inner], numeric[inner], rtol=1e-4, atol=1e-6)
    for edge in edges:
        pair = law.denoise([edge - 1e-10, edge + 1e-10])
        assert abs(pair[1] - pair[0]) < 1e-3


def test_denoiser_on_a_random_matrix():
    rng = np.random.default_rng(0)
    d, width, noise = 600, 300, 0.05
    factor = rng.standard_normal((d, width))
    signal = factor @ factor.T / np.sqrt(width * d)
    z = rng.standard_normal((d, d))
    values, vectors = np.linalg.eigh(signal + np.sqrt(noise) * (z + z.T) / np.sqrt(2 * d))
    law = SymmetricLaw(width / d, noise)
    error = np.sum((signal - (vectors * law.denoise(values)) @ vectors.T) ** 2) / d
    assert error == pytest.approx(law.mmse().value[0], rel=0.02)


@settings(max_examples=50, deadline=None)
@given(st.floats(-2, 1), st.floats(-6, 6))
def test_mass_is_one_and_the_mmse_below_prior_variance_and_noise(log_rho, log_noise):
    law = SymmetricLaw(10**log_rho, 10**log_noise)
    assert law.mass()[0] == pytest.approx(1, abs=1e-8)
    assert law.mmse().value[0] <= min(1, 10**log_noise) * (1 + 1e-12)


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_unlimited_width(noise):
    """The centred signal becomes a Gaussian matrix, at the rate 1/rho."""
    errors = [SymmetricLaw(rho, noise).mmse().value[0] - noise / (1 + noise) for rho in (1e2, 1e3, 1e4)]
    assert abs(errors[2]) < 1e-3
    assert errors[1] / errors[2] == pytest.approx(10, rel=0.1)


def test_batch_equals_single_laws():
    noise = np.geomspace(1e-4, 1e4, 9)
    together = SymmetricLaw(0.4, noise).mmse().value
    alone = [SymmetricLaw(0.4, x).mmse().value[0] for x in noise]
    assert np.allclose(together, alone, rtol=1e-13)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, 1.0), "rho"),
        ((-1.0, 1.0), "rho"),
        ((0.5, 0.0), "noise"),
        ((np.nan, 1.0), "rho"),
        ((0.5, np.inf), "noise"),
    ],
)
def test_bad_parameters_are_named(arguments, name):
    with pytest.raises(ParameterError, match=f"{name} = "):
        SymmetricLaw(*arguments)


def test_bad_eigenvalues_and_batches_are_refused():
    with pytest.raises(ParameterError, match="z = "):
        SymmetricLaw(0.5, 1.0).denoise([np.nan])
    with pytest.raises(ParameterError, match="single law"):
        SymmetricLaw(0.5, [1.0, 2.0]).denoise([1.0])
