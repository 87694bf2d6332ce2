"""Models whose matrix has any spectrum: theory, data, and what they refuse."""

import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, limits, simulate
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models.base import counting_threshold
from glassformer.models.registry import build

PUBLISHED = {26515.6: 0.0533897, 160000: 0.0144176}


@pytest.mark.slow
@pytest.mark.parametrize("samples", [160000, pytest.param(26515.6, marks=pytest.mark.thorough)])
def test_released_power_law_theory(samples):
    """arXiv:2509.24882: eigenvalues k^-1.25 of power d, label noise 0.1, decay 0.1 sqrt(n)/d, d = 400."""
    d = 400
    values = np.arange(1, d + 1) ** -1.25
    scale = np.std(values * np.sqrt(d / np.sum(values**2)))
    model = AttentionIndexed(spectrum=values, tokens=1, channel="linear", noise=0.05 / scale**2)
    strength = 0.1 * np.sqrt(samples) / d / 4 / scale
    table = limits(model, [samples / d**2], RegularisedRisk(penalty="trace", strength=strength))
    assert np.isclose(table["error"][0] * scale**2, PUBLISHED[samples], rtol=5e-3)
    # Below the optimum nothing is.
    assert limits(model, [samples / d**2])["error"][0] < table["error"][0]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "components"),
    [
        (BilinearSequenceRegression(beta=1.5, spectrum=[0.0, 1.0, 2.0], noise=0.1), 1),
        (AttentionIndexed(spectrum=[0.0, 1.0, 2.0], tokens=2, channel="linear", noise=0.1), 3),
    ],
    ids=["bsr", "aim"],
)
def test_stationary_points_of_the_free_entropy_are_fixed_points(model, components):
    error = limits(model, [0.3])["error"][0]
    # Of linear labels: as many per unknown as there are, over the variance of one.
    q_hat = 0.3 * components / model.prior.degrees / (model.noise + error)
    step = 0.02 * q_hat
    below, at, above = free_entropy(model, 0.3, np.array([q_hat - step, q_hat, q_hat + step])).value
    bend = abs(above - 2 * at + below)
    assert bend > 1e-7
    assert abs(above - below) < 0.1 * bend


@pytest.mark.thorough
def test_transposed_and_scaled_models_have_the_same_theory():
    values = [0.0, 1.0, 3.0, 3.0]
    first, second, third = (
        limits(BilinearSequenceRegression(beta=beta, spectrum=s, noise=0.2), [0.4])["error"][0]
        for beta, s in ((2.0, values), (0.5, values), (2.0, [7 * x for x in values]))
    )
    assert first == second
    assert np.isclose(first, third, rtol=1e-12)


@pytest.mark.thorough
def test_perfect_recovery_is_where_degrees_of_freedom_are_counted():
    model = BilinearSequenceRegression(beta=2.0, spectrum=[0.0, 1.0])
    at = counting_threshold(model)
    assert np.isclose(at, model.prior.mmse_dimension)
    assert limits(model, [1.02 * at])["error"][0] < 1e-9


@pytest.mark.thorough
def test_risk_never_beats_the_optimum_and_has_its_threshold():
    model = BilinearSequenceRegression(beta=1.0, spectrum=[0.0, 0.0, 1.0, 2.0])
    at = model.baseline_thresholds["nuclear_norm_perfect_recovery"]
    learner = RegularisedRisk(strength=0.0)
    error = limits(model, [0.95 * at, 1.02 * at], learner)["error"]
    assert error[0] > 1e-4 and error[1] == 0
    assert error[0] > limits(model, [0.95 * at])["error"][0]


@pytest.mark.thorough
def test_runs_agree_with_theory():
    model = BilinearSequenceRegression(beta=1.5, spectrum="power-law:1.0:10", noise=0.2)
    for algorithm in ("gamp", RegularisedRisk(strength=0.2)):
        runs = simulate(model, [0.5], algorithm, d=60, instances=3)
        assert np.isclose(runs["error"][0], runs["theory"][0], rtol=0.1)
    assert runs.parameters["spectrum"] == "power-law:1:10"


def test_spectrum_excludes_other_widths_and_is_read_from_files(tmp_path):
    (tmp_path / "values.txt").write_text("0.5, 1.0\n2.0\n")
    np.save(tmp_path / "values.npy", np.array([0.5, 1.0, 2.0]))
    text, binary = (build("bsr", {"spectrum": str(tmp_path / f"values.{end}")}) for end in ("txt", "npy"))
    assert text.spectrum == binary.spectrum
    for more in ({"rho": 0.5}, {"width": 2}, {"prior": "rademacher"}):
        with pytest.raises(IncompatibleError):
            BilinearSequenceRegression(spectrum=[1.0], **more)
    for more in ({"rho": 0.5}, {"width": 2}, {"untied": True}):
        with pytest.raises(IncompatibleError):
            AttentionIndexed(spectrum=[1.0, 2.0], **more)
    with pytest.raises(IncompatibleError):
        build("aim", {"spectrum": "power-law:1", "layers": 2})
    (tmp_path / "words.txt").write_text("one two")
    for bad in ("power-law:a", "power-law:1:2:3", str(tmp_path / "words.txt"), str(tmp_path), "missing", 3.0):
        with pytest.raises(ParameterError, match="spectrum"):
            build("bsr", {"spectrum": bad})
    with pytest.raises(ParameterError, match="beta"):
        BilinearSequenceRegression(beta=np.inf, spectrum=[1.0])
