"""Laws of matrices of any spectrum in noise: identities, limits, the closed forms of factors, and matrices drawn."""

import numpy as np
import pytest

from glassformer.core.errors import ParameterError
from glassformer.priors.base import signal_power
from glassformer.priors.spectrum import RectangularSpectrumPrior, SymmetricSpectrumPrior, orthogonal
from glassformer.random_matrices.atoms import merge_close_atoms
from glassformer.random_matrices.given import Spectrum, power_law
from glassformer.random_matrices.rectangular import RectangularLaw
from glassformer.random_matrices.rectangular_atoms import RectangularAtomsLaw, RectangularCurve
from glassformer.random_matrices.symmetric import SymmetricLaw
from glassformer.random_matrices.symmetric_atoms import SymmetricAtomsLaw, SymmetricCurve

SYMMETRIC = [([-1.0, 1.0], t) for t in (1e-6, 0.5, 0.999, 1.0, 1.001, 100.0)] + [
    ([0.0, 0.0, 0.0, 2.0], 0.3),
    (power_law(1.25, 60).values, 1e-2),
    (power_law(1.25, 60).values, 3.0),
]
RECTANGULAR = [
    (values, noise, beta)
    for values in ([1.0], [0.0, 0.0, 1.0], [0.0, 0.3, 0.31, 2.0], power_law(1.5, 40).values)
    for noise, beta in ((1e-5, 1.0), (0.3, 1.0), (1.0, 1.0), (20.0, 1.0), (0.05, 1.0001), (0.3, 3.0), (4.0, 30.0))
]


@pytest.mark.parametrize(("values", "noise"), SYMMETRIC)
def test_symmetric_law_has_its_moments_and_both_forms_of_the_error(values, noise):
    prior = SymmetricSpectrumPrior(Spectrum(values))
    x, p = prior.atoms
    law = prior.noisy_law(noise)
    points, weight = law.curves[0].nodes
    assert np.isclose(weight.sum(), 1, rtol=0, atol=1e-10)
    assert np.isclose(weight @ points.value, p @ x, atol=1e-10)
    assert np.isclose(weight @ points.value**2, p @ x**2 + noise, rtol=1e-10)
    assert np.isclose(weight @ points.shrunk, p @ x, atol=1e-10)  # Nishimori: the mean
    found = law.mmse()
    overlap = p @ x**2 - weight @ points.shrunk**2  # Nishimori: E tr S_hat S = E tr S_hat^2
    cubic = noise - noise**2 * 4 * np.pi**2 / 3 * (weight @ points.density**2)
    tolerance = found.error[0] + 1e-13 * max(1.0, noise)
    assert np.isclose(overlap, found.value[0], rtol=1e-10, atol=tolerance)
    assert np.isclose(cubic, found.value[0], rtol=1e-10, atol=1e-12 * noise**2 + tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("values", "noise", "beta"), RECTANGULAR)
def test_rectangular_law_has_its_moments_and_three_forms_of_the_error(values, noise, beta):
    prior = RectangularSpectrumPrior(beta, Spectrum(values))
    x, p = prior.atoms
    law = prior.noisy_law(noise)
    points, weight = law.curves[0].nodes
    assert np.isclose(p @ x**2, np.sqrt(beta), rtol=1e-12)
    assert np.isclose(weight.sum(), 1, rtol=0, atol=1e-10)
    assert np.isclose(weight @ points.value**2, np.sqrt(beta) * (1 + noise), rtol=1e-10)
    known = 1 - weight @ points.shrunk**2 / np.sqrt(beta)  # Nishimori
    left = noise - weight @ (points.value - points.shrunk) ** 2 / np.sqrt(beta)
    tail = (beta - 1) ** 2 * np.sum(weight / points.value**2) if beta > 1 else 0.0
    cubic = noise - noise**2 / beta**1.5 * (tail + np.pi**2 / 3 * (weight @ points.density**2))
    found = law.mmse()
    tolerance = found.error[0] + 1e-11 * max(1.0, noise**2)  # of the mass, 1e-10 is promised
    for form in (known, left, cubic):
        assert np.isclose(form, found.value[0], rtol=1e-9, atol=tolerance)


@pytest.mark.slow
def test_laws_of_factors_come_out_of_their_own_singular_values():
    # Quantiles of the closed forms at next to no noise stand for the spectrum of products of Gaussian factors.
    for beta, rho in ((1.0, 0.5), (2.0, 0.3)):
        values, weight, _ = (part[0] for part in RectangularLaw(beta, rho, 1e-7).nodes())
        order = np.argsort(values)
        total = np.cumsum(weight[order]) - weight[order] / 2
        spectrum = Spectrum(np.interp((np.arange(300) + 0.5) / 300, total, values[order]))
        error = RectangularSpectrumPrior(beta, spectrum).mmse(np.array([2.0])).value[0]
        assert np.isclose(error, RectangularLaw(beta, rho, 0.5).mmse().value[0], rtol=2e-3)
    values, weight, _ = (part[0] for part in SymmetricLaw(0.5, 1e-7).nodes())
    order = np.argsort(values)
    spectrum = Spectrum(
        np.interp((np.arange(300) + 0.5) / 300, np.cumsum(weight[order]) - weight[order] / 2, values[order])
    )
    error = SymmetricSpectrumPrior(spectrum).mmse(np.array([2.0])).value[0]
    assert np.isclose(error, SymmetricLaw(0.5, 0.5).mmse().value[0], rtol=2e-3)


def test_equal_values_of_a_square_matrix_are_a_symmetric_law():
    # Of beta = 1 the law is the free convolution of the symmetrised one with a semicircle.
    noise, s = 0.3, np.linspace(0.2, 2.5, 40)
    square = RectangularAtomsLaw((0.5, 1.5), (0.5, 0.5), noise)
    mirrored = SymmetricAtomsLaw((-1.5, -0.5, 0.5, 1.5), (0.25,) * 4, noise)
    assert np.allclose(square.density(s), 2 * mirrored.density(s), atol=2e-4)
    inside = square.density(s) > 0
    assert np.allclose(square.denoise(s)[inside], mirrored.denoise(s)[inside], atol=1e-7)


@pytest.mark.slow
def test_weights_that_noise_cannot_tell_apart_are_replaced_without_a_trace():
    x, p = np.sort(power_law(1.25, 300).values), np.full(300, 1 / 300)
    for noise in (1e-3, 0.05):
        few, weights = merge_close_atoms(x, p, noise)
        assert len(few) < 200
        assert np.isclose(
            SymmetricCurve(few, weights, noise).mmse()[0], SymmetricCurve(x, p, noise).mmse()[0], rtol=1e-11
        )
        law = RectangularAtomsLaw(tuple(x), tuple(p), noise, 2.0)
        whole = RectangularCurve(x**2, p, noise / np.sqrt(2), 2.0)
        assert np.isclose(law.curves[0].mmse()[0], whole.mmse()[0], rtol=1e-11)


@pytest.mark.slow
def test_quadrature_with_a_cut_has_soft_thresholds_exactly():
    for law in (
        SymmetricAtomsLaw((0.0, 1.0, 3.0), (0.5, 0.3, 0.2), [0.05, 0.4]),
        RectangularAtomsLaw((0.0, 1.0, 3.0), (0.5, 0.3, 0.2), [0.05, 0.4], 2.0),
    ):
        for cut in (0.2, 0.9, 1.1, 2.0):
            s, weight, shrunk = law.nodes(cut)
            kept = np.maximum(s - cut, 0)
            fine = [np.sum(w * np.maximum(x - cut, 0) * x) for x, w in _fine(law)]
            assert np.allclose(np.sum(weight * kept * s, axis=1), fine, rtol=1e-5)
            assert np.allclose(weight.sum(axis=1), 1, atol=1e-10)
            assert np.all(shrunk[weight > 0] >= -1e-9)


def _fine(law):
    """Values and weights on a grid along the curve, law by law."""
    for curve in law.curves:
        angle = np.pi * (np.arange(4000) + 0.5) / 4000
        for_each = [curve.at(0.5 * (a + b) - 0.5 * (b - a) * np.cos(angle)) for a, b in curve.bulks]
        steps = [0.5 * (b - a) * np.sin(angle) * np.pi / 4000 for a, b in curve.bulks]
        values = np.concatenate([points.value for points in for_each])
        yield values, np.concatenate([points.weight * step for points, step in zip(for_each, steps, strict=True)])


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_denoiser_on_drawn_rectangular_matrices(beta):
    prior = RectangularSpectrumPrior(beta, Spectrum([0.0, 0.0, 1.0, 2.0]))
    rng, d = np.random.default_rng(3), 200
    signal = prior.sample((int(beta * d), d), rng)
    assert np.isclose(signal_power(prior, signal), 1)
    for noise in (0.05, 0.5):
        noisy = signal + np.sqrt(noise) * rng.standard_normal(signal.shape)
        found = prior.denoise(noisy / noise, 1 / noise)
        error = np.mean((found.signal - signal) ** 2)
        assert np.isclose(error, found.variance, rtol=0.03)
        assert np.isclose(found.onsager, found.variance, rtol=0.03)
        # No other denoiser of singular values does better: these are the best for this very matrix.
        left, _, right = np.linalg.svd(noisy, full_matrices=False)
        oracle = np.einsum("ik,ij,kj->k", left, signal, right)
        assert np.mean(((left * oracle) @ right - signal) ** 2) < error < 1.05 * found.variance


def test_denoiser_on_drawn_symmetric_matrices():
    prior = SymmetricSpectrumPrior(power_law(0.8, 100))
    rng, d = np.random.default_rng(4), 400
    signal = prior.sample((d, d), rng)
    for noise in (0.05, 0.5):
        z = rng.standard_normal((d, d))
        noisy = signal + np.sqrt(noise / (2 * d)) * (z + z.T)
        found = prior.denoise(noisy / noise, 1 / noise)
        assert np.isclose(signal_power(prior, found.signal - signal), found.variance, rtol=0.04)
        assert np.isclose(found.onsager, found.variance, rtol=0.04)


def test_degrees_of_freedom_and_ends():
    # Distinct values of weights p: what noise cannot reach is that equal ones are equal.
    prior = SymmetricSpectrumPrior(Spectrum([0.0, 0.0, 1.0]))
    assert np.isclose(prior.mmse_dimension, 1 - 5 / 9)
    large = np.array([1e6, 1e8, 1e12, np.inf])
    found = prior.mmse(large)
    assert np.allclose(large[:3] * found.value[:3], prior.mmse_dimension, rtol=1e-3)
    assert found.value[-1] == 0
    assert prior.mmse(np.array([0.0])).value[0] == 1
    assert np.isclose(RectangularSpectrumPrior(2.0, Spectrum([0.0, 1.0])).mmse_dimension, (5 - 0.5 - 1.5**2) / 4)


def test_resized_spectra_keep_their_mean_and_shape():
    spectrum = power_law(1.0, 100)
    for count in (10, 33, 200):
        assert np.isclose(
            np.mean(spectrum.resized(count).sized(max(count, 100) // count * count)), np.mean(spectrum.values)
        )
    assert spectrum.resized(200) is spectrum
    basis = orthogonal(30, 7, np.random.default_rng(0))
    assert np.allclose(basis.T @ basis, np.eye(7))


@pytest.mark.parametrize(
    "call",
    [
        lambda: SymmetricSpectrumPrior(Spectrum([1.0, 1.0])),
        lambda: RectangularSpectrumPrior(1.0, Spectrum([-1.0, 1.0])),
        lambda: RectangularSpectrumPrior(0.0, Spectrum([1.0])),
        lambda: Spectrum([]),
        lambda: Spectrum([np.nan]),
        lambda: Spectrum("abc"),
        lambda: power_law(-1.0),
        lambda: power_law(1.0, 2.5),
        lambda: SymmetricAtomsLaw((1.0, 0.0), (0.5, 0.5), 1.0),
        lambda: SymmetricAtomsLaw((0.0, 1.0), (0.5, 0.6), 1.0),
        lambda: SymmetricAtomsLaw((0.0, 1.0), (0.5, 0.5), 0.0),
        lambda: RectangularAtomsLaw((-1.0, 1.0), (0.5, 0.5), 1.0),
        lambda: SymmetricAtomsLaw((0.0, 1.0), (0.5, 0.5), [1.0, 2.0]).denoise(0.0),
    ],
)
def test_bad_arguments_are_named(call):
    with pytest.raises(ParameterError):
        call()
