"""Message passing that takes another width for the signal's, or none."""

import numpy as np
import pytest

from glassformer import (
    BilinearSequenceRegression,
    BlindMessagePassing,
    MessagePassing,
    VectorMessagePassing,
    hysteresis,
    limits,
    simulate,
    thresholds,
)
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.priors.bilinear import BilinearPrior
from glassformer.priors.measured import AssumedPrior, UnknownLawPrior
from glassformer.random_matrices.estimated import EstimatedLaw
from glassformer.random_matrices.rectangular import RectangularLaw

MODEL = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
ASK = {"d": 40, "instances": 4, "seed": 2, "storage": "float32"}


@pytest.mark.thorough
def test_error_of_a_wrong_width_agrees_with_theory():
    found = simulate(MODEL, [0.5], BlindMessagePassing(assumed_rho=1.0), **ASK)
    right = simulate(MODEL, [0.5], **ASK)
    assert found.converged
    excess = found["relative_error"] - right["relative_error"]
    # Both runs see the same data: what is left is the spread of the difference, and a bias of order 1/d.
    spread = np.std([w.error - r.error for w, r in zip(found.instances[0], right.instances[0], strict=True)], ddof=1)
    assert abs(excess - (found["theory"] - right["theory"])) < 4 * spread / np.sqrt(4) + 0.4 / 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beta", "rho", "noise", "alpha"),
    [
        *(pytest.param(*one, marks=pytest.mark.thorough) for one in ((1, 0.3, 0.1, 0.5), (2, 0.2, 0.5, 1))),
        (0.5, 1, 0.1, 0.7),
    ],
)
def test_without_a_width_it_is_next_to_the_one_that_knows_it(beta, rho, noise, alpha):
    model = BilinearSequenceRegression(beta=beta, rho=rho, noise=noise)
    blind, knowing = (simulate(model, [alpha], name, **ASK) for name in ("blind-gamp", "gamp"))
    assert blind.converged
    assert np.isclose(blind["theory"], knowing["theory"])
    assert blind["relative_error"] < 1.06 * knowing["relative_error"]


@pytest.mark.slow
def test_without_noise_it_recovers_the_signal():
    model = BilinearSequenceRegression(beta=1, rho=0.3)
    found = simulate(model, [0.7], "blind-gamp", d=40, instances=1)
    assert found.converged
    assert found["error"][0] < 1e-6


def test_the_claimed_error_is_the_error_of_any_denoiser():
    rng = np.random.default_rng(1)
    signal = BilinearPrior(1.5, 0.3).sample((180, 120), rng)
    observed = signal + np.sqrt(0.5) * rng.standard_normal(signal.shape)
    for prior in (AssumedPrior(BilinearPrior(1.5, 0.05)), AssumedPrior(BilinearPrior(1.5, 2.0)), UnknownLawPrior(2.0)):
        found = prior.denoise(2 * observed, 2.0)
        # Noise times the spread of the mean of 180 x 120 squares, twice for the part that depends on the denoiser.
        assert abs(found.variance - np.mean((found.signal - signal) ** 2)) < 4 * 2 * 0.5 * np.sqrt(2 / observed.size)


def test_the_slope_is_that_of_the_whole_denoiser():
    s = np.sort(np.random.default_rng(3).uniform(0.2, 2.0, 12))
    law, step = EstimatedLaw(beta=1.3, noise=0.02, smoothing=2.0), 1e-6
    slope = law.shrinkage(s)[1]
    for k in range(len(s)):
        ahead, behind = (law.shrinkage(s + sign * step * (np.arange(len(s)) == k))[0][k] for sign in (1, -1))
        assert np.isclose((ahead - behind) / (2 * step), slope[k], atol=1e-6)


def test_the_estimated_denoiser_tends_to_the_optimal_one():
    rng, gaps = np.random.default_rng(4), []
    for d in (50, 400):
        observed = BilinearPrior(1.0, 0.3).sample((d, d), rng) + rng.standard_normal((d, d))
        s = np.linalg.svd(observed, compute_uv=False) / np.sqrt(d)
        optimal = RectangularLaw(1.0, 0.3, 1.0).denoise(s)
        gaps.append(np.mean((EstimatedLaw(1.0, 1.0).shrinkage(s)[0] - optimal) ** 2))
    assert gaps[1] < 0.25 * gaps[0]


@pytest.mark.slow
def test_limits_use_the_assumed_width():
    table = limits(MODEL, [0.5], BlindMessagePassing(assumed_rho=0.3))
    np.testing.assert_allclose(table["error"], limits(MODEL, [0.5])["error"], rtol=1e-8)
    blind = limits(MODEL, [0.5], BlindMessagePassing())
    assert blind["error"][0] == limits(MODEL, [0.5])["error"][0]
    assert any("not proven" in note for note in blind.notes)


@pytest.mark.slow
@pytest.mark.parametrize("learner", [BlindMessagePassing(), VectorMessagePassing()], ids=lambda one: one.name)
def test_thresholds_and_branches_are_those_of_the_optimum(learner):
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0)
    assert thresholds(model, learner).entries == thresholds(model).entries
    alpha = np.array([0.45, 0.55])
    found, optimum = (hysteresis(model, alpha, one) for one in (learner, MessagePassing()))
    for name in ("error_up", "error_down"):
        np.testing.assert_array_equal(found[name], optimum[name])
    assert found.parameters["learner"] == learner.name


def test_assumed_width_has_limits_but_no_thresholds():
    for ask in (lambda one: thresholds(MODEL, one), lambda one: hysteresis(MODEL, [0.3, 0.5], one)):
        with pytest.raises(IncompatibleError, match=r"assumed_rho = 0\.5 has limits, but no"):
            ask(BlindMessagePassing(0.5))


def test_incompatible_models_raise():
    with pytest.raises(IncompatibleError, match="linear labels"):
        simulate(BilinearSequenceRegression(beta=1, rho=0.3, channel="sign"), [1.0], "blind-gamp", d=10)
    with pytest.raises(IncompatibleError, match="give finite rho"):
        limits(BilinearSequenceRegression(beta=1, width=2), [1.0], BlindMessagePassing(0.3))
    with pytest.raises(ParameterError, match="assumed_rho"):
        BlindMessagePassing(assumed_rho=0.0)
