"""Branches followed in both directions end where the thresholds say."""

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    hysteresis,
    limits,
    thresholds,
)
from glassformer.cli import main
from glassformer.errors import ParameterError

HARD = BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute")


@pytest.mark.slow
def test_the_branches_part_at_the_ends_of_the_hard_phase():
    alpha = np.array([0.4, 0.6, 0.7, 0.8, 1.0])
    found, ends = hysteresis(HARD, alpha), thresholds(HARD)
    assert found.converged
    inside = (alpha > ends["hard_phase_start"].alpha) & (alpha < ends["hard_phase_end"].alpha)
    assert 0 < inside.sum() < len(alpha)
    np.testing.assert_array_equal(found["two_branches"] > 0, inside)
    table = limits(HARD, alpha, throw=False)
    np.testing.assert_allclose(found["error_up"], table["algorithmic_error"], atol=1e-6)
    np.testing.assert_allclose(found["error_down"], table["informed_error"], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", [BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), AttentionIndexed(0.5)])
def test_one_branch_without_a_hard_phase(model):
    found = hysteresis(model, np.linspace(0.05, 0.3, 6))
    assert not found["two_branches"].any()
    assert found.notes == ["One branch at these sample ratios"]
    np.testing.assert_allclose(found["error_up"], limits(model, found["alpha"])["error"], rtol=1e-6, atol=1e-9)


def test_a_signal_known_exactly_is_left_below_the_counting_threshold():
    found = hysteresis(BilinearSequenceRegression(beta=1, rho=0.5), [0.5, 0.7, 1.0])  # counting: 0.75
    np.testing.assert_allclose(found["error_down"], [0.351455158, 0.084381581, 0.0], atol=1e-8)
    assert found.notes == ["One branch at these sample ratios"]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_models_of_several_rows(depth):
    found = hysteresis(DeepAttention(depth=depth).at_accuracy(Accuracy(points=64)), [0.1, 0.6])
    assert found["row_error_up"].shape == (2, depth)
    assert not found["two_branches"].any()
    assert found["row_error_up"][0, -1] > 0.99
    assert found["row_error_up"][1, -1] < 0.2


@pytest.mark.slow
def test_the_command_line(capsys, tmp_path):
    line = (
        f"hysteresis bsr --rho 0.5 --channel absolute --alpha 0.6:1.0:3 --plot {tmp_path}/a.png --csv {tmp_path}/a.csv"
    )
    assert main(line.split()) == 0
    out = capsys.readouterr().out
    assert "Two branches" in out
    assert (tmp_path / "a.png").stat().st_size > 5000
    assert "error_up" in (tmp_path / "a.csv").read_text()
    with pytest.raises(ParameterError, match="increasing"):
        hysteresis(HARD, [0.5, 0.4])
