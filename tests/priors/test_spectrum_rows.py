"""Features of unequal variances."""

import numpy as np
import pytest

from glassformer import IncompatibleError, SequenceMultiIndex, limits, simulate, thresholds
from glassformer.cli import main
from glassformer.errors import ParameterError
from glassformer.priors.features import row_growth
from glassformer.priors.rows import SpectrumRowsPrior
from glassformer.testing import check_model

SPECTRUM = [0.2, 0.5, 2.3]


def linear(z):
    return z[0, 0]


def test_ridge_regression_on_features_of_unequal_variances():
    """Linear labels: V is the mean of s / (1 + s q_hat), q_hat = alpha / (V + noise)."""
    alpha = np.array([0.5, 2.0])
    found = limits(SequenceMultiIndex(linear, 1, 1, noise=0.2, feature_spectrum=SPECTRUM), alpha)["error"]
    variance, own = np.ones(2), np.array(SPECTRUM)[:, None]
    for _ in range(400):
        variance = np.mean(own / (1 + own * alpha / (variance + 0.2)), axis=0)
    np.testing.assert_allclose(found, variance, rtol=1e-8)


@pytest.mark.slow
def test_its_parts_agree():
    report = check_model(SequenceMultiIndex(linear, 1, 1, noise=0.2, feature_spectrum=SPECTRUM), d=30)
    assert report.ok, str(report)


@pytest.mark.slow
def test_weak_recovery_begins_earlier_by_the_mean_square():
    """Phase retrieval: 1/2 over the mean of s^2."""
    found = thresholds(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1, feature_spectrum=SPECTRUM))["weak_recovery"]
    assert found.alpha == pytest.approx(0.5 / np.mean(np.square(SPECTRUM)), rel=1e-6)


def test_one_eigenvalue_equals_independent_features():
    precision = np.array([[2.0, 0.3], [0.3, 1.0]])
    plain, flat = SequenceMultiIndex(linear, 1, 1).prior, SpectrumRowsPrior((1.0, 1.0), 2)
    field = np.random.default_rng(0).standard_normal((2, 8))
    found = flat.denoise(field, precision)
    np.testing.assert_allclose(found.variance, np.linalg.inv(np.eye(2) + precision))
    np.testing.assert_allclose(found.signal, np.linalg.inv(np.eye(2) + precision) @ field)
    assert row_growth(plain) == row_growth(flat) == 1


@pytest.mark.slow
def test_message_passing_agrees():
    model = SequenceMultiIndex(linear, 1, 1, noise=0.2, feature_spectrum=SPECTRUM)
    found = simulate(model, [1.0], d=300, instances=4)
    assert abs(found["error"][0] - found["theory"][0]) < 5 * found["standard_error"][0] + 0.01


@pytest.mark.parametrize("given", [[], [1.0, 2.0], [-1.0, 3.0], [np.nan, 1.0]])
def test_invalid_spectra_are_refused(given):
    with pytest.raises(ParameterError, match="feature_spectrum"):
        SequenceMultiIndex(linear, 1, 1, feature_spectrum=given)


def test_parameters_that_exclude_a_spectrum_are_named():
    with pytest.raises(IncompatibleError, match="feature_spectrum"):
        SequenceMultiIndex(linear, 1, 1, prior="rademacher", feature_spectrum=SPECTRUM)
    with pytest.raises(IncompatibleError, match="feature_spectrum"):
        SequenceMultiIndex(linear, 1, 1, side_information=0.1, feature_spectrum=SPECTRUM)


def test_the_command_line(tmp_path, capsys):
    (tmp_path / "link.py").write_text("def link(z):\n    return z[0, 0]\n")
    line = f"limits smi --link {tmp_path}/link.py:link --indices 1 --noise 0.2 --feature-spectrum 0.5,1.5 --alpha 1"
    assert main(line.split(" ")) == 0
    assert "feature_spectrum = [0.5, 1.5]" in capsys.readouterr().out
