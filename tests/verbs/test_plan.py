"""How many samples a target takes, against closed forms and against the curves that are inverted."""

import numpy as np
import pytest

from glassformer import (
    AttentionIndexed,
    BilinearSequenceRegression,
    GradientDescent,
    IncompatibleError,
    RegularisedRisk,
    Status,
    limits,
    plan,
)
from glassformer.cli import main
from glassformer.core.results import Table
from glassformer.errors import ParameterError
from glassformer.learners.ridge import RidgeTheory
from glassformer.verbs.crossings import CurveValues, crossings

NOISY = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
HARD = BilinearSequenceRegression(beta=1, rho=0.3, channel="absolute")


@pytest.fixture(scope="module")
def hard():
    return plan(HARD, 0.1, d=40)


@pytest.mark.parametrize("target", [0.9, 0.2, 1e-3])
def test_ridge_has_a_closed_form(target):
    """At the best strength the error v solves v^2 + (alpha + D - 1) v = D."""
    found = plan(NOISY, target, "ridge", d=30)["ridge"]
    exact = 1 - target - 0.1 + 0.1 / target
    assert abs(found.alpha - exact) <= found.error_estimate < 1e-6 * exact
    assert found.samples == np.ceil(round(exact * 900, 6))
    assert found.status.ok


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["gamp", RegularisedRisk(strength=0.2)])
def test_its_curve_at_the_ratio_is_the_target(learner):
    found = plan(NOISY, 0.25, learner)
    for entry in found.entries:
        table = limits(NOISY, [entry.alpha], RegularisedRisk(strength=0.2)) if entry.name == "risk" else None
        reached = (limits(NOISY, [entry.alpha]) if table is None else table)["error"][0]
        assert reached == pytest.approx(0.25, rel=1e-7)
    assert found.converged


def test_target_lost_at_the_interpolation_peak():
    """The interpolator of least norm has 1 - alpha + D alpha/(1 - alpha), and D/(alpha - 1) beyond the peak."""
    found = plan(NOISY, 0.7, RegularisedRisk(penalty="ridge", strength=0.0))
    last, first = found["risk"], found["risk_at_first"]
    below, above = np.sort(np.roots([1.0, 0.7 + 0.1 - 2.0, 1.0 - 0.7]))  # of (1-a)^2 + D a = t (1-a)
    assert last.alpha == pytest.approx(1 + 0.1 / 0.7, abs=max(last.error_estimate, 1e-9))
    assert first.alpha == pytest.approx(below, abs=max(first.error_estimate, 1e-9))
    assert f"lost again at alpha = {above:g}" in first.note


@pytest.mark.thorough
def test_a_hard_phase_is_named(hard):
    """Bayes-optimal: perfect recovery at alpha = 0.51 by counting; message passing: at the end of the hard phase."""
    best, algorithm = hard["bayes_optimal"], hard["message_passing"]
    end = hard.thresholds["hard_phase_end"]
    assert abs(best.alpha - 0.51) <= best.error_estimate < 1e-5
    assert abs(algorithm.alpha - end.alpha) <= algorithm.error_estimate + end.error_estimate < 1e-5
    assert all("jumps across" in entry.note for entry in hard.entries)
    assert any(note.startswith("hard phase: bayes_optimal reaches") for note in hard.notes)
    assert algorithm.samples > best.samples == 816


@pytest.mark.slow
def test_results_are_written_like_others():
    found = plan(NOISY, 0.25)
    document = found.to_dict()
    assert [one["name"] for one in document["needed"]] == ["bayes_optimal", "message_passing"]
    assert {one["name"] for one in document["thresholds"]} >= {"hard_phase_start", "hard_phase_end"}
    assert len(found.to_pandas()) == found.to_xarray().sizes["name"] == 2
    with pytest.raises(ParameterError, match="bayes_optimal, message_passing"):
        found["nobody"]


@pytest.mark.slow
def test_note_on_the_end_of_the_curve_for_unreached_targets():
    """At a fixed strength logistic loss makes estimates of labels without mistakes ever larger."""
    model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    found = plan(model, 0.3, RegularisedRisk("logistic", strength=0.3))["risk"]
    assert found.alpha == np.inf
    assert found.samples is None
    assert "not falling; smallest value found 0.75" in found.note
    easy = plan(NOISY, 1.5)["bayes_optimal"]
    assert easy.alpha == 0
    assert easy.note.startswith("reached at every ratio computed")


@pytest.mark.slow
def test_small_targets_are_looked_for_farther_away():
    """The error of many samples is that of D/alpha seen on the degrees of freedom: 0.51 D/alpha."""
    found = plan(NOISY, 1e-6)["bayes_optimal"]
    assert found.alpha == pytest.approx(0.51 * 0.1 / 1e-6, rel=1e-3)
    assert plan(NOISY, 0.999)["bayes_optimal"].alpha == pytest.approx(1e-3 * 1.1, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("target", [1e-20, *(pytest.param(x, marks=pytest.mark.thorough) for x in (1e-12, 1e-15))])
def test_rounding_beyond_perfect_recovery_is_no_curve(target):
    found = plan(BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0), target)
    assert [entry.name for entry in found.entries] == ["bayes_optimal", "message_passing"]
    assert found["bayes_optimal"].alpha == pytest.approx(0.51, abs=1e-6)


@pytest.mark.slow
def test_values_below_a_large_error_estimate_are_not_zero(monkeypatch):
    def uncertain(self, alpha, throw=False):
        alpha = np.asarray(alpha, dtype=float)
        columns = {"alpha": alpha, "error": 0.05 + 0 * alpha, "error_estimate": 0.06 + 0 * alpha}
        return Table("bsr", {}, columns, [Status.CONVERGED] * len(alpha))

    monkeypatch.setattr(RidgeTheory, "limits", uncertain)
    found = plan(NOISY, 0.04, "ridge")["ridge"]
    assert found.alpha == np.inf
    assert "within the error estimate 0.06" in found.note


def test_errors_on_labels():
    model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    found = plan(model, 0.1, quantity="label_error")
    for entry in found.entries:
        assert limits(model, [entry.alpha])["label_error"][0] == pytest.approx(0.1, rel=1e-6)
    with pytest.raises(IncompatibleError, match=r"quantity = label_error is not among.*use error or prediction_error"):
        plan(NOISY, 0.1, quantity="label_error")


@pytest.mark.slow
def test_number_of_samples_at_sizes_beyond_memory():
    found = plan(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), 0.3, d=10**6)["bayes_optimal"]
    assert found.samples == np.ceil(found.alpha * 10**12)


def test_arguments_are_validated():
    with pytest.raises(ParameterError, match=r"target = 0 "):
        plan(NOISY, 0)
    with pytest.raises(ParameterError, match="quantity = 'overlap'"):
        plan(NOISY, 0.1, quantity="overlap")
    with pytest.raises(IncompatibleError, match="no closed equations"):
        plan(NOISY, 0.1, GradientDescent())
    with pytest.raises(IncompatibleError):
        plan(BilinearSequenceRegression(rho=np.inf), 0.1, d=10)


@pytest.mark.parametrize("d", [0, -3, 1, 2.5, np.nan, True, "40"])
@pytest.mark.parametrize("model", [NOISY, AttentionIndexed(rho=0.3, noise=0.1)], ids=["bsr", "aim"])
def test_invalid_size_raises_before_any_computation(model, d, monkeypatch):
    monkeypatch.setattr("glassformer.verbs.plan._first_ratios", lambda theory: pytest.fail("was computed"))
    with pytest.raises(ParameterError, match=rf"^d = {d!r} is not allowed: expected an integer >= 2"):
        plan(model, 0.2, d=d)


def curve_of(value, error_estimate=0.0, status=Status.CONVERGED):
    def curve(alpha):
        same = np.full_like(alpha, error_estimate)
        return CurveValues(value(alpha), value(alpha), same, np.zeros_like(alpha), [status] * len(alpha))

    return curve


def test_errors_of_values_are_errors_of_ratios():
    alpha = np.array([0.5, 1.0, 2.0])
    exact, blurred = curve_of(lambda a: 1 / a), curve_of(lambda a: (1 + 1e-3) / a, error_estimate=1e-3)
    (first,), (other,) = (crossings(one, alpha, one(alpha), 0.7) for one in (exact, blurred))
    assert abs(first.alpha - 1 / 0.7) <= first.error_estimate
    assert abs(other.alpha - 1 / 0.7) <= other.error_estimate < 5e-3


def test_jumps_are_distinguished_from_slopes():
    alpha, leap = np.array([0.5, 1.0, 2.0]), 1.2345
    curve = curve_of(lambda a: np.where(a < leap, 0.9 - 0.1 * a, 0.01 / a))
    for likely in ([], [leap]):
        (found,) = crossings(curve, alpha, curve(alpha), 0.1, likely)
        assert found.jumps
        assert found.sides == pytest.approx((0.9 - 0.1 * leap, 0.01 / leap), rel=1e-4)
        assert abs(found.alpha - leap) <= found.error_estimate < 1e-5


def test_an_end_at_zero_is_no_leap():
    """Of a target of a few widths of the bracket a straight line falls by a share at once."""
    alpha = np.array([0.25, 0.5, 1.0])
    line = curve_of(lambda a: np.maximum(3 * (0.51 - a), 0))
    (found,) = crossings(line, alpha, line(alpha), 1e-6)
    assert not found.jumps
    assert abs(found.alpha - (0.51 - 1e-6 / 3)) <= found.error_estimate + 1e-15 < 1e-6


def test_status_of_rows_that_did_not_converge():
    def curve(alpha):
        looked = curve_of(lambda a: 1 / a)(alpha)
        return looked._replace(status=[Status.CONVERGED if a in (1.0, 2.0) else Status.ITERATION_LIMIT for a in alpha])

    alpha = np.array([1.0, 2.0])
    (found,) = crossings(curve, alpha, curve(alpha), 0.7)
    assert found.status is Status.ITERATION_LIMIT
    assert found.error_estimate >= 1


@pytest.mark.slow
def test_on_the_command_line(tmp_path, capsys):
    words = ["plan", "bsr", "--rho", "0.3", "--noise", "0.1", "--learner", "ridge", "--d", "30"]
    files = ["--csv", str(tmp_path / "plan.csv"), "--plot", str(tmp_path / "plan.png")]
    assert main([*words, "--target", "0.2", *files]) == 0
    said = capsys.readouterr().out
    assert "1.2" in said
    assert "1080" in said
    assert "interpolation" in said
    assert (tmp_path / "plan.csv").read_text().startswith("name,alpha,error_estimate,samples")
    assert (tmp_path / "plan.png").stat().st_size > 1000


@pytest.mark.slow
def test_label_errors_on_the_command_line(capsys):
    words = ["plan", "bsr", "--rho", "0.3", "--channel", "sign"]
    assert main([*words, "--target", "0.1", "--quantity", "label_error"]) == 0
    said = capsys.readouterr().out
    found = plan(BilinearSequenceRegression(rho=0.3, channel="sign"), 0.1, quantity="label_error")
    assert "label_error at or below 0.1" in said
    assert all(f"{entry.alpha:.8g}" in said for entry in found.entries)
    assert main([*words, "--target", "0.1", "--quantity", "nonsense"]) == 2
    assert "--quantity = 'nonsense'" in capsys.readouterr().err


def test_exit_code_of_limits_that_did_not_converge(monkeypatch, capsys):
    def failing(self, alpha, throw=False):
        table = limits(self.model, alpha, RegularisedRisk("square", "ridge", 0.1), throw=throw)
        table.status[:] = [Status.ITERATION_LIMIT if a > 1 else Status.CONVERGED for a in table["alpha"]]
        return table

    monkeypatch.setattr(RidgeTheory, "limits", failing)
    assert main(["plan", "bsr", "--noise", "0.1", "--rho", "1", "--learner", "ridge", "--target", "0.5"]) == 3
    told = capsys.readouterr()
    assert "iteration_limit" in told.out
    assert "glassformer: iteration_limit" in told.err
