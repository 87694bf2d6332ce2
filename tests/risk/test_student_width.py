"""Students narrower than the minimum of the risk."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    IncompatibleError,
    RegularisedRisk,
    SequenceMultiIndex,
    limits,
    simulate,
)
from glassformer.core.errors import ParameterError
from glassformer.laws import nuclear_norm_threshold
from glassformer.random_matrices.nuclear_norm import trace_dimension

LINEAR = BilinearSequenceRegression(rho=0.3, noise=0.1)


def test_a_wide_student_reaches_the_minimum_and_a_narrow_one_has_its_rank():
    full = limits(LINEAR, [0.5], RegularisedRisk(strength=0.1))
    wide = limits(LINEAR, [0.5], RegularisedRisk(strength=0.1, student_rho=0.5))
    np.testing.assert_array_equal(wide["error"], full["error"])
    assert not wide.notes
    narrow = limits(LINEAR, [0.5], RegularisedRisk(strength=0.1, student_rho=0.2))
    assert narrow["rank"][0] == pytest.approx(0.2, abs=1e-8)
    assert narrow["error"][0] > full["error"][0]
    assert "heuristic" in narrow.notes[0]
    # The error has two expressions, whose difference is part of its error estimate.
    assert narrow["error_estimate"][0] < 1e-8


@pytest.mark.parametrize(("width", "error"), [(31, 0.0656), (13, 0.0283), (9, 0.0284), (4, 0.0584)])
def test_published_errors_of_narrow_students_of_a_power_law(width, error):
    """Quadratic network, eigenvalues k^-1.25, d = 400, n = 26515.6; published theory of the same heuristic."""
    d, samples = 400, 26515.6
    model = AttentionIndexed(tokens=1, noise=0.05, channel="linear", spectrum="power-law:1.25:400")
    # The package scales eigenvalues to power one around their mean, the source to power one.
    power = model.matrix_prior.second_moment
    model = model.varied(noise=0.05 * power)
    strength = 0.1 * np.sqrt(samples * power) / d / 4
    learner = RegularisedRisk("square", "trace", strength, student_rho=width / d)
    assert limits(model, [samples / d**2], learner)["error"][0] / power == pytest.approx(error, rel=0.02)


@pytest.mark.thorough
def test_factors_of_the_width_descend_close_to_the_theory():
    learner = RegularisedRisk(strength=0.1, student_rho=0.4).at_accuracy(Accuracy(max_iterations=500))
    found = simulate(LINEAR, [0.5], learner, d=20, instances=4, throw=False)
    assert abs(found["error"][0] - found["theory"][0]) < 3 * found["standard_error"][0] + 0.05


def test_what_has_no_width_is_refused():
    rows = SequenceMultiIndex(lambda Z: Z[0, 0], 1, noise=0.1)
    for learner, model, text in (
        (RegularisedRisk(penalty="ridge", strength=0.1, student_rho=0.2), LINEAR, "nuclear and trace"),
        (RegularisedRisk(strength=0.0, student_rho=0.2), LINEAR, "strength > 0"),
        (RegularisedRisk(strength=0.1, student_rho=0.2), rows, "bsr and aim only"),
    ):
        with pytest.raises(IncompatibleError, match=text):
            limits(model, [0.5], learner)


@pytest.mark.parametrize(("beta", "rho"), [(1.0, 0.3), (2.0, 0.2), (0.5, 0.2)])
def test_perfect_recovery_goes_from_counting_to_the_nuclear_norm(beta, rho):
    alpha = [nuclear_norm_threshold(beta, rho, width) for width in np.linspace(rho, max(1.0, beta), 9)]
    assert alpha[0] == pytest.approx(rho * (1 + 1 / beta - rho / beta))
    assert alpha[-1] == pytest.approx(nuclear_norm_threshold(beta, rho), rel=1e-12)
    assert np.all(np.diff(alpha) >= -1e-12)
    assert trace_dimension(rho, rho) == pytest.approx(1 - (1 - rho) ** 2)
    assert trace_dimension(rho, 1.0) == pytest.approx(trace_dimension(rho))
    with pytest.raises(ParameterError, match="student_rho"):
        nuclear_norm_threshold(beta, rho, 0.5 * rho)


@pytest.mark.slow
def test_errors_of_weak_decay_vanish_beyond_the_threshold_of_a_narrow_student():
    model, width = LINEAR.varied(noise=0.0), 0.35
    threshold = nuclear_norm_threshold(1.0, LINEAR.parameters["rho"], width)
    for factor, vanishes in ((0.97, False), (1.03, True)):
        strengths = (1e-3, 1e-4)
        errors = [
            limits(model, [factor * threshold], RegularisedRisk("square", "nuclear", one, student_rho=width))["error"][
                0
            ]
            for one in strengths
        ]
        assert (errors[1] < 0.1 * errors[0]) == vanishes
