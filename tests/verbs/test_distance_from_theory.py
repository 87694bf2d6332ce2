"""Means of simulated runs beside theory: intervals of few instances, and what is said of means far away."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    BlindMessagePassing,
    ConvergenceError,
    MessagePassing,
    OnlineSGD,
    RegularisedRisk,
    Ridge,
    SequenceMultiIndex,
    simulate,
)
from glassformer.core.checkpoints import CheckpointFolder
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.errors import ParameterError
from glassformer.learners.matrix_risk import RiskTheory
from glassformer.learners.ridge import RidgeTheory
from glassformer.risk.losses import Huber
from glassformer.verbs import simulate as simulating
from glassformer.verbs.instances import Experiment
from glassformer.verbs.simulate import far_from_theory, few_instances
from glassformer.verbs.trajectory import _far_from_theory

GOOD, BAD = (SimpleNamespace(status=status) for status in (Status.CONVERGED, Status.CONTRADICTED))


def said(mean, error, theory, runs):
    column = [np.array([value]) for value in (mean, error, theory, 0.0)]
    return far_from_theory([("the error", *column)], np.array([0.5]), [runs], 200)


@pytest.mark.parametrize(
    ("numbers", "runs", "words"),
    [
        ((0.914, 0.578, 0.217), [GOOD] * 2, "0.7 above theory. The 95 % interval of 2 instances"),
        ((0.914, 0.578, 0.217), [GOOD, BAD], "1 of 2 runs ended as contradicted_by_residual"),
        ((0.5, 0.01, 0.4), [GOOD] * 12, "0.1 above theory (10 standard errors). The distance exceeds"),
        ((0.5, 0.01, 0.4), [GOOD] * 4, "The distance exceeds the 95 % interval of 4 instances"),
        ((0.5, np.nan, 0.2), [GOOD], "0.3 above theory. One instance"),
    ],
)
def test_what_is_far_from_theory_says_by_how_much_and_why(numbers, runs, words):
    (note,) = said(*numbers, runs)
    assert words in note


@pytest.mark.parametrize(
    ("numbers", "runs"),
    [
        ((0.45, 0.02, 0.4), [GOOD] * 4),  # 2.5 standard errors, of which 3.18 are an interval
        ((0.404, 0.0001, 0.4), [GOOD] * 4),  # a hundredth
        ((np.nan, np.nan, 0.4), [GOOD]),
        ((0.9, 0.1, np.nan), [GOOD] * 4),
    ],
)
def test_what_is_close_or_has_no_theory_says_nothing(numbers, runs):
    assert not said(*numbers, runs)


def test_standard_errors_of_few_instances_say_so():
    assert "from 4 instances: 95 % intervals are 3.18" in few_instances(4)[0]
    assert not few_instances(1) and not few_instances(20)


@pytest.mark.parametrize(("instances", "noted"), [(4, False), (100, True)])
def test_steps_of_few_runs_are_far_from_theory_beyond_the_interval_of_their_number(instances, noted):
    """Five standard errors of four runs are 1.5 % by chance at every step."""
    numbers = {"alpha": 1, "error": 0.5, "error_estimate": 0, "measured_error": 0.6, "measured_standard_error": 0.02}
    columns = {name: np.full(2, value) for name, value in numbers.items()}
    table = Table("bsr", {"instances": instances, "d": 10}, columns, [Status.CONVERGED] * 2)
    assert ["outside of their 99.7 % interval" in note for note in _far_from_theory(table, 1)] == [True] * noted


def test_single_runs_are_reached_from_the_result():
    result = simulate(BilinearSequenceRegression(rho=0.5), [0.3, 0.6], Ridge(0.1), d=10, instances=3)
    errors = result.of_instances("error")
    np.testing.assert_array_equal(errors.mean(axis=1), result["error"])
    # Student's factor of three instances is 4.3027.
    np.testing.assert_allclose(result["interval"], 4.3027 * result["standard_error"], rtol=1e-4)
    np.testing.assert_array_equal(result.to_xarray()["instance_error"], errors)
    assert result.of_instances("status").tolist() == [["converged"] * 3] * 2
    assert result.to_dict()["points"][1]["instances"][2]["seed"] == 2
    with pytest.raises(ParameterError, match=r"name = 'row_error' is not allowed: expected one of .*training_error"):
        result.of_instances("row_error")


def test_runs_that_did_not_converge_raise_only_if_asked():
    model, learner = BilinearSequenceRegression(rho=0.5), MessagePassing().at_accuracy(Accuracy(max_iterations=1))
    assert simulate(model, [0.4], learner, d=8, instances=2, throw=False)["status"] == ["iteration_limit"]
    with pytest.raises(ConvergenceError, match="iteration_limit") as error:
        simulate(model, [0.4], learner, d=8, instances=2, throw=True)
    assert error.value.result.of_instances("error").shape == (1, 2)


def test_settings_of_runs_do_not_hide_parameters_and_are_written_as_json():
    model = SequenceMultiIndex(lambda z: z[0, 0], 1, 1)
    runs = simulate(model, [1.5], OnlineSGD(batch=1), d=8, instances=1, accuracy=Accuracy(points=32))
    assert runs.parameters["points"] == 32
    linear = BilinearSequenceRegression(rho=0.5, noise=0.1)
    for loss in (Huber(), lambda y, h: (y - h) ** 2):
        learner = RegularisedRisk(loss=loss, strength=0.1)
        runs = Experiment(linear, linear.at_size(4), np.ones(1), 4, 1, 0, learner, "float64", CheckpointFolder())
        assert json.dumps(runs.table({}, [], []).to_dict()["parameters"])


@pytest.mark.thorough
def test_theory_that_did_not_converge_is_noted_beside_runs(monkeypatch):
    model, alpha = BilinearSequenceRegression(rho=0.5, noise=0.1), np.array([0.5, 1.0])
    known = BlindMessagePassing(assumed_rho=1.0).theory(model).of_runs(alpha)
    assert [str(one) for one in known["status"]] == 2 * ["converged"]
    found = {"error": np.ones(2), "status": np.array([Status.CONVERGED, Status.ITERATION_LIMIT])}
    monkeypatch.setattr(RidgeTheory, "of_runs", lambda *_: found)
    notes = simulate(model, alpha, "ridge", d=4, instances=1).notes
    assert [note[:37] for note in notes if "iteration_limit" in note] == ["theory at alpha = 1 is iteration_limit"[:37]]


def test_notes_of_limits_are_those_of_runs_once(monkeypatch):
    def noted(function, *notes):
        def with_notes(*given, **options):
            found = function(*given, **options)
            return replace(found, notes=[*found.notes, *notes])

        return with_notes

    monkeypatch.setattr(
        simulating, "bayes_optimal_limits", noted(simulating.bayes_optimal_limits, "of both", "of the optimum")
    )
    monkeypatch.setattr(RiskTheory, "limits", noted(RiskTheory.limits, "of both", "of the minimum"))
    model = BilinearSequenceRegression(rho=0.5, noise=0.1)
    found = simulate(model, [0.5], RegularisedRisk(strength=0.1), d=4, instances=1)
    assert found.notes[:3] == ["of both", "of the optimum", "theory of risk: of the minimum"]
    assert sum("of both" in note for note in found.notes) == 1
