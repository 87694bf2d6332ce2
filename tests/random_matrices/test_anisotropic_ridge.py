"""Ridge regression on features of any covariance."""

import numpy as np
import pytest

from glassformer import RegularisedRisk, SequenceMultiIndex, limits
from glassformer.errors import ParameterError
from glassformer.learners.ridge import ridge_error
from glassformer.random_matrices.anisotropic_ridge import Eigenvalues, anisotropic_ridge, interpolation_ratio

RATIOS = np.array([0.0, 0.1, 0.5, 0.9, 1.1, 2.0, 30.0])
WHITE = Eigenvalues(np.ones(1), np.ones(1), np.ones(1), 0.3)
SPECTRUM = (0.2, 0.5, 2.3)
UNEQUAL = Eigenvalues(np.array(SPECTRUM), np.full(3, 1 / 3), np.ones(3), 0.2)


@pytest.mark.parametrize("strength", [0, 0.1, 0.3, 2.0])
def test_white_features_have_the_closed_form(strength):
    fit = anisotropic_ridge(WHITE, RATIOS, strength)
    np.testing.assert_allclose(WHITE.errors(fit)["error"], ridge_error(RATIOS, 0.3, strength), rtol=1e-13)


def test_it_agrees_with_the_risk_of_a_row_on_features_of_that_spectrum():
    """One row of weights, and its risk by the equations of any loss and penalty."""
    model = SequenceMultiIndex(lambda z: z[0, 0], 1, 1, noise=0.2, feature_spectrum=SPECTRUM)
    for strength in (0.1, 0.6):
        found = limits(model, [0.4, 1.5], RegularisedRisk("square", "ridge", strength))
        fit = anisotropic_ridge(UNEQUAL, [0.4, 1.5], strength)
        np.testing.assert_allclose(found["error"], fit.error - 0.2, rtol=1e-7)


@pytest.mark.parametrize("strength", [0, 0.05, 1.0])
def test_it_agrees_with_data(strength):
    rng, n, p = np.random.default_rng(0), 900, 600
    scale = np.sqrt(np.repeat(SPECTRUM, p // 3))
    found = []
    for _ in range(4):
        phi, theta = rng.standard_normal((n, p)) * scale / np.sqrt(p), rng.standard_normal(p)
        y = phi @ theta + np.sqrt(0.2) * rng.standard_normal(n)
        estimate = np.linalg.solve(phi.T @ phi + strength * np.eye(p), phi.T @ y)
        off = estimate - theta
        found.append([np.mean(off**2), np.mean(scale**2 * off**2) + 0.2, np.mean((y - phi @ estimate) ** 2)])
    fit = anisotropic_ridge(UNEQUAL, [1.5], strength)
    errors = UNEQUAL.errors(fit)
    theory = [errors["error"][0], errors["test_error"][0], fit.training_error[0]]
    # Relative deviations of squares at this size, from four draws: 2 %, and five of them.
    np.testing.assert_allclose(np.mean(found, axis=0), theory, rtol=0.1)


def test_the_best_strength_is_the_noise_for_random_weights_and_no_other_is_better():
    fit = anisotropic_ridge(UNEQUAL, RATIOS[1:], None)
    np.testing.assert_allclose(fit.strength, 0.2, rtol=1e-5)
    skewed = Eigenvalues(UNEQUAL.values, UNEQUAL.weights, np.array([2.0, 0.5, 0.5]), 0.2)
    best = anisotropic_ridge(skewed, RATIOS, None).error
    others = [anisotropic_ridge(skewed, RATIOS, strength).error for strength in np.geomspace(1e-3, 1e3, 61)]
    assert np.all(best <= np.min(others, axis=0) * (1 + 1e-12))
    noiseless = Eigenvalues(UNEQUAL.values, UNEQUAL.weights, UNEQUAL.power, 0.0)
    assert np.all(anisotropic_ridge(noiseless, RATIOS[1:], None).strength == 0)


def test_least_squares_interpolates_up_to_as_many_samples_as_features():
    assert interpolation_ratio(UNEQUAL) == 1
    fit = anisotropic_ridge(UNEQUAL, [0.5, 1.0, 2.0], 0)
    assert fit.training_error[0] == 0
    assert fit.error[1] == np.inf
    # Noise is doubled by twice as many samples as features, whatever their covariance.
    assert fit.error[2] == pytest.approx(0.4)


def test_wrong_arguments_are_refused():
    for ratio, strength in (([-1.0], 0.1), ([np.nan], 0.1), ([1.0], -0.1), ([1.0], np.inf)):
        with pytest.raises(ParameterError):
            anisotropic_ridge(WHITE, ratio, strength)
