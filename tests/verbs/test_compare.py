"""Several learners in one table and one picture."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge as RidgeOfScikitLearn

from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    ConvergenceError,
    GradientDescent,
    IncompatibleError,
    RegularisedRisk,
    Ridge,
    SequenceMultiIndex,
    compare,
    limits,
    simulate,
)
from glassformer.errors import ParameterError

NOISY = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
HARD = BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute")


def test_curves_are_the_limits_of_each_learner_and_marks_the_means_of_its_runs():
    alpha = [0.0, 0.5, 1.0]
    found = compare(NOISY, alpha, ["gamp", Ridge(0.2)], d=10, run_alpha=[0.5], instances=3, seed=2)
    optimal, passing, ridge, fits = found.curves
    assert [one.label for one in found.curves] == [
        *("Bayes-optimal", "message passing", "ridge, strength 0.2", "ridge, strength 0.2")
    ]
    assert [one.runs for one in found.curves] == [False, True, False, True]
    np.testing.assert_array_equal(optimal.value, limits(NOISY, alpha)["error"])
    np.testing.assert_array_equal(ridge.value, limits(NOISY, alpha[1:], Ridge(0.2))["error"])
    for runs, learner in ((passing, "gamp"), (fits, Ridge(0.2))):
        again = simulate(NOISY, [0.5], learner, d=10, instances=3, seed=2)
        np.testing.assert_array_equal(runs.value, again["error"])
        np.testing.assert_array_equal(runs.bar, again["standard_error"])
    frame = found.to_pandas()
    assert len(frame) == 7 and set(frame["kind"]) == {"theory", "runs"}
    assert found.to_dict()["parameters"]["quantity"] == "error"


@pytest.mark.slow
def test_in_a_hard_phase_message_passing_has_a_curve_of_its_own():
    found = compare(HARD, [0.7, 0.8, 1.2], ["gamp"])
    optimal, passing = found.curves
    table = limits(HARD, [0.7, 0.8, 1.2])
    np.testing.assert_array_equal(optimal.value, table["error"])
    np.testing.assert_array_equal(passing.value, table["algorithmic_error"])
    assert (optimal.label, passing.label) == ("Bayes-optimal", "message passing")
    assert np.any(passing.value > optimal.value + 0.1)


@pytest.mark.thorough
def test_labels_that_are_equal_are_numbered_and_every_learner_has_its_colour():
    found = compare(NOISY, np.linspace(0.2, 1.0, 9), ["gamp", Ridge(), Ridge(0.1), "nuclear-norm"], d=6, instances=2)
    axes = Figure().subplots()
    found.plot(ax=axes)
    handles, labels = axes.get_legend_handles_labels()
    assert {"message passing", "mean of 2 runs, $d = 6$, standard errors"} <= {*labels}
    assert {"ridge, strength 0.1 (1)", "ridge, strength 0.1 (2)"} <= {*labels} and len(labels) == 6
    lines = [handle for handle in handles if hasattr(handle, "get_linestyle")]
    assert len({line.get_color() for line in lines}) == len(lines) == 4
    # Six of the nine ratios, both ends among them.
    assert found.curves[1].alpha[[0, -1]] == pytest.approx([0.2, 1.0], abs=0.02) and len(found.curves[1].alpha) == 6


def test_what_has_no_theory_needs_runs_and_is_noted():
    with pytest.raises(IncompatibleError, match="no closed equations"):
        compare(NOISY, [0.5], ["gamp", GradientDescent()])
    found = compare(NOISY, [0.5], ["ridge", GradientDescent()], d=6, instances=1)
    assert any("no theory of gd" in note for note in found.notes)
    assert [one.runs for one in found.curves] == [False, True, True]


def test_training_of_ones_own_stands_beside_the_limits():
    signs = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)

    def means(X, y, rng):
        weights = (y[:, None] * X[:, 0]).mean(axis=0)
        return lambda X: np.sign(X[:, 0] @ weights)

    found = compare(signs, [2.0], ["gamp", means, RidgeOfScikitLearn()], quantity="label_error", d=60, instances=2)
    optimal = found.curves[0]
    own = {one.label: one for one in found.curves if one.runs}
    assert {"means", "Ridge"} <= set(own)
    assert all(optimal.value[0] - 0.05 < own[name].value[0] < 0.5 for name in ("means", "Ridge"))


def test_arguments_are_checked_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr("glassformer.verbs.compare.simulate", lambda *_, **__: pytest.fail("drawn"))
    for given, words in (
        ({"learners": []}, "learners"),
        ({"learners": "gamp"}, "learners"),
        ({"learners": ["gamp"], "quantity": "overlap"}, "quantity"),
        ({"learners": ["newton"]}, "newton"),
    ):
        with pytest.raises(ParameterError, match=words):
            compare(NOISY, [0.5], **given)
    with pytest.raises(IncompatibleError, match="run_alpha"):
        compare(NOISY, [0.5], ["gamp"], run_alpha=[0.5])
    with pytest.raises(IncompatibleError, match="points = 64 has no effect"):
        compare(NOISY, [0.5], ["ridge"], accuracy=Accuracy(points=64))
    with pytest.raises(IncompatibleError, match="label_error is not among the limits of gamp on bsr"):
        compare(NOISY, [0.5], ["gamp"], quantity="label_error")


def test_with_throw_a_row_that_did_not_converge_raises_with_the_table():
    with pytest.raises(ConvergenceError) as caught:
        compare(NOISY, [0.5], ["gamp"], accuracy=Accuracy(max_iterations=2), throw=True)
    assert caught.value.result.curves[0].label == "Bayes-optimal"
    assert RegularisedRisk().at_accuracy(Accuracy(max_iterations=3)).accurate("max_iterations") == 3


def test_training_of_ones_own_stands_beside_theory_of_linear_labels():
    def fit(X, y, rng):
        weights = np.linalg.lstsq(X.reshape(len(X), -1), y)[0]
        return lambda new: new.reshape(len(new), -1) @ weights

    with pytest.raises(ParameterError, match=r"quantity = 'error' .* prediction_error beside fit, which predicts"):
        compare(NOISY, [0.5], ["ridge", fit], d=6)
    found = compare(NOISY, [1.5], ["ridge", fit], d=6, quantity="prediction_error")
    assert [(one.label, one.runs) for one in found.curves] == [
        ("ridge, strength 0.1", False),
        ("ridge, strength 0.1", True),
        ("fit", True),
    ]
    np.testing.assert_array_equal(found.curves[0].value, limits(NOISY, [1.5], "ridge")["error"])
