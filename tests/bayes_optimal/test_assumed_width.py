"""Message passing with the denoiser of another width: its fixed points."""

import itertools
from functools import cache

import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, limits
from glassformer.bayes_optimal.assumed_width import assumed_prior_limits, denoised_error
from glassformer.core.errors import IncompatibleError
from glassformer.priors.bilinear import BilinearPrior

MODEL = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)


@cache
def assuming(rho):
    return assumed_prior_limits(MODEL, [0.5], BilinearPrior(1.0, rho))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rho", "error"),
    [
        (0.3, 0.3553),
        *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in [(0.2, 0.3709), (0.5, 0.3730), (1.0, 0.4275)]),
    ],
)
def test_known_errors(rho, error):
    table = assuming(rho)
    assert table.converged
    assert np.isclose(table["error"][0], error, atol=6e-5)
    assert table["error_estimate"][0] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "noise"), [(0.1, 1.1), (0.2, 0.9), (1.0, 1.0)])
def test_errors_of_a_denoiser_are_within_their_estimates(rho, noise):
    """Against the midpoint rule between all edges, which knows nothing of the square roots there."""
    prior, assumed = BilinearPrior(1.0, 0.3), BilinearPrior(1.0, rho)
    law, other = prior.noisy_law(np.array([noise])), assumed.noisy_law(np.array([noise]))
    found = denoised_error(prior, assumed, noise)

    def excess(points):
        edges = np.unique(np.concatenate([law.support.ravel(), other.support.ravel()]))
        edges = edges[(edges >= law.support[0, 0, 0]) & (edges <= np.nanmax(law.support))]
        total = 0.0
        for low, high in itertools.pairwise(edges):
            s = low + (high - low) * (np.arange(points) + 0.5) / points
            total += (high - low) * np.mean(2 * law.density(s) * (other.denoise(s) - law.denoise(s)) ** 2)
        return law.mmse().value[0] + law.unit[0] * total

    coarse, fine = excess(2000), excess(8000)
    assert abs(found.value - fine) <= found.error + abs(fine - coarse)
    assert abs(fine - coarse) < 1e-5


@pytest.mark.slow
def test_the_excess_of_a_wrong_denoiser_shows_in_singular_values():
    """The mean over the values of one large matrix, whose fluctuations are of relative order 1/d."""
    rng, noise, d = np.random.default_rng(0), 1.1, 600
    prior, assumed = BilinearPrior(1.0, 0.3), BilinearPrior(1.0, 0.1)
    law, other = prior.noisy_law(np.array([noise])), assumed.noisy_law(np.array([noise]))
    observed = prior.sample((d, d), rng) + np.sqrt(noise) * rng.standard_normal((d, d))
    s = np.linalg.svd(observed, compute_uv=False) / np.sqrt(d)
    seen = np.mean((other.denoise(s) - law.denoise(s)) ** 2)
    excess = denoised_error(prior, assumed, noise).value - law.mmse().value[0]
    assert np.isclose(seen, excess, rtol=20 / d)


@pytest.mark.thorough
def test_the_right_width_is_the_optimum_and_no_other_is_better():
    optimum = limits(MODEL, [0.5])["error"][0]
    errors = [assuming(rho)["error"][0] for rho in (0.25, 0.3, 0.36)]
    assert np.isclose(errors[1], optimum, rtol=1e-8)
    assert min(errors[0], errors[2]) > optimum + 1e-4


def test_models_without_this_theory_raise():
    for model in (
        BilinearSequenceRegression(beta=1, rho=0.3, channel="sign"),
        AttentionIndexed(rho=0.3, tokens=1, channel="linear", noise=0.1),
    ):
        with pytest.raises(IncompatibleError):
            assumed_prior_limits(model, [0.5], BilinearPrior(1.0, 0.3))


@pytest.mark.parametrize("tokens", [1, 2])
def test_the_right_width_of_attention_is_the_optimum(tokens):
    model = AttentionIndexed(rho=0.5, tokens=tokens, channel="linear", noise=0.1)
    right = assumed_prior_limits(model, [0.3], model.prior)
    assert np.isclose(right["error"][0], limits(model, [0.3])["error"][0], rtol=1e-6)


def test_error_is_one_without_data():
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    assert assumed_prior_limits(model, [0.0], BilinearPrior(beta=1, rho=0.5))["error"][0] == 1.0
    model, assumed = AttentionIndexed(rho=0.5, tokens=1, channel="linear"), AttentionIndexed(rho=0.2).prior
    wrong = 1 + (np.sqrt(0.5) - np.sqrt(0.2)) ** 2
    np.testing.assert_allclose(assumed_prior_limits(model, [0.0], assumed)["error"], wrong, rtol=1e-12)


@pytest.mark.slow
def test_errors_without_noise_are_never_negative():
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0)
    assert assumed_prior_limits(model, [0.9], BilinearPrior(beta=1, rho=0.5))["error"][0] >= 0
