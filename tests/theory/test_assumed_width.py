"""Message passing with the denoiser of another width: fixed points, and runs of the plain iteration."""

import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, limits
from glassformer.core.errors import IncompatibleError
from glassformer.models.designs.dense import DenseDesign
from glassformer.models.priors.bilinear import BilinearPrior
from glassformer.models.priors.shrunk import shrunk_rectangular
from glassformer.theory.assumed_width import assumed_prior_limits

MODEL = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)


@pytest.mark.parametrize(("rho", "error"), [(0.3, 0.3553), (0.5, 0.3730), (1.0, 0.4275)])
def test_known_errors(rho, error):
    table = assumed_prior_limits(MODEL, [0.5], BilinearPrior(1.0, rho))
    assert table.converged
    assert np.isclose(table["error"][0], error, atol=6e-5)


def test_the_right_width_is_the_optimum_and_no_other_is_better():
    optimum = limits(MODEL, [0.7])["error"][0]
    errors = [assumed_prior_limits(MODEL, [0.7], BilinearPrior(1.0, rho))["error"][0] for rho in (0.25, 0.3, 0.36)]
    assert np.isclose(errors[1], optimum, rtol=1e-8)
    assert min(errors[0], errors[2]) > optimum + 1e-4


def test_what_has_no_such_theory_is_refused():
    for model in (
        BilinearSequenceRegression(beta=1, rho=0.3, channel="sign"),
        AttentionIndexed(rho=0.3, tokens=1, channel="linear", noise=0.1),
    ):
        with pytest.raises(IncompatibleError):
            assumed_prior_limits(model, [0.5], BilinearPrior(1.0, 0.3))


def iterated(rho: float, seed: int, d: int = 100, alpha: float = 0.5, steps: int = 40) -> float:
    """Error of the plain iteration whose noise is measured from residuals."""
    rng = np.random.default_rng(seed)
    signal = MODEL.prior.sample((d, d), rng)
    design = DenseDesign.sample(round(alpha * d * d), (d, d), rng)
    labels = MODEL.channel.sample(design.forward(signal, 0), rng)
    estimate, residual = np.zeros((d, d)), labels.copy()
    scale = design.adjoint(design.forward(signal, 0), 0)
    scale = np.sum(scale * signal) / np.sum(signal**2) / alpha
    for _ in range(steps):
        noise = np.mean(residual**2) / alpha
        noisy = estimate + design.adjoint(residual, 0) / (alpha * scale)
        new = shrunk_rectangular(BilinearPrior(1.0, rho).noisy_law(np.array([noise])), noisy / noise, 1 / noise)
        residual = labels - design.forward(new.signal, 0) + residual * (new.onsager / noise / alpha)
        estimate = new.signal
    return float(np.mean((estimate - signal) ** 2))


@pytest.mark.statistics
@pytest.mark.parametrize("rho", [0.2, 0.5, 1.0])
def test_runs_reach_what_is_foretold(rho):
    errors = [iterated(rho, seed) for seed in range(6)]
    theory = assumed_prior_limits(MODEL, [0.5], BilinearPrior(1.0, rho))["error"][0]
    bar = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - theory) < 3 * bar + 0.01
