"""Recipes of figures: what their panels compute, draw and say."""

import numpy as np
import pandas
import pytest
from matplotlib.figure import Figure

from glassformer import (
    SGD,
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    GradientDescent,
    NuclearNorm,
    RegularisedRisk,
    SequenceMultiIndex,
)
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.papers import descent, layer_order, panels, positional, published_attention, universality
from glassformer.papers.catalogue import FIGURES
from glassformer.papers.curves import PERFECT, WEAK, ComputedCurve, Curve, CurvesPanel, Overlay, Runs, _difference
from glassformer.papers.drawing import RunSize, draw_figure
from glassformer.papers.links import first_field, sign
from glassformer.papers.positional import _nearest
from glassformer.papers.published import deviations
from glassformer.papers.recipe import Recipe, compute
from glassformer.papers.text import figure as text_figure
from glassformer.papers.text.attention_classifier import ClassifierRun
from glassformer.papers.text.questions import QuestionData, Questions
from glassformer.plotting.style import signal_power
from glassformer.verbs.thresholds import thresholds

MODEL = BilinearSequenceRegression(beta=1, rho=0.5)
SIGNS = SequenceMultiIndex(sign)
DESCENT = SGD(0.5, 0.5, loss="logistic").at_accuracy(Accuracy(trajectories=4096))


def panel(runs=(), **settings):
    return CurvesPanel([Curve("optimum", MODEL, runs=runs)], np.linspace(0, 1, 11), "no noise", **settings)


@pytest.mark.parametrize("name", [name for name, one in FIGURES.items() if not one.needs_data and name != "risk-1"])
def test_every_figure_has_a_recipe_of_either_size(name):
    for quick in (True, False):
        assert FIGURES[name].compute(quick).panels


def test_a_noiseless_curve_ends_at_its_exact_threshold():
    content = compute(Recipe([panel(marks=["perfect_recovery"])]))
    line = content.axes[0].series[0]
    threshold = MODEL.prior.mmse_dimension
    assert threshold in line.x and len(line.x) == 12
    assert line.y[line.x == threshold][0] < 1e-9


def test_marks_and_their_bars_are_inside_the_frame_and_titles_name_size_and_number_of_runs(tmp_path):
    runs = Runs("nuclear norm", NuclearNorm(), [0.1, 0.2], 10, 2)
    content = compute(Recipe([panel([runs])]), quick=True)
    (axis,) = content.axes
    (marks,) = [one for one in axis.series if one.error is not None]
    assert axis.settings["ylim"][1] > np.max(marks.y + marks.error)
    assert "mean of 2 runs at $d = 10$" in axis.settings["title"]
    assert content.caption.startswith("quick") and content.summary.startswith("quick")
    draw_figure(tmp_path / "a.png", content)
    assert (tmp_path / "a.png").stat().st_size > 3000


def test_runs_without_a_theory_are_compared_with_the_optimum_by_name():
    runs = Runs("descent", GradientDescent(steps=2), [0.3], 4, 2)
    summary = compute(Recipe([panel([runs])])).summary
    assert "Bayes-optimal 0." in summary and "  theory 0." not in summary


@pytest.mark.parametrize(("runs", "distance", "expected"), [(2, 382, "+3.1"), (5, 5.3, "+2.7"), (80, -2.6, "-2.5")])
def test_distances_of_few_runs_from_theory_are_those_of_students_distribution(runs, distance, expected):
    mean, spread, bare = np.array([0.2 + 0.01 * distance]), np.array([0.01]), np.array([0.2])
    assert f"({expected})" in _difference(mean[0], spread[0], bare[0], runs)
    assert f"({expected})" in deviations("runs", bare, mean, bare, spread, runs=runs)


def test_weak_recovery_is_among_the_ratios_of_a_curve():
    limit = Curve("limit", BilinearSequenceRegression(beta=1, rho=0, noise=0.1))
    content = compute(Recipe([CurvesPanel([limit], np.linspace(0, 2, 5), "small width", marks=[WEAK, PERFECT])]))
    onset = thresholds(limit.model)["weak_recovery"].alpha
    assert onset in content.axes[0].series[0].x
    assert [place for place, _, _ in content.axes[0].verticals] == [onset]


def test_regions_and_crossing_of_two_minima():
    alpha = np.array([0.5, 1.0, 1.5, 2.0, 2.5])
    columns = {
        "alpha": alpha,
        "means_up": np.array([0.4, 0.4, 0.4, 0.4, 0.0])[:, None, None],
        "free_energy_up": np.array([1.0, 1.0, 1.0, 1.0, 0.5]),
        "free_energy_down": np.array([1.0, 1.5, 0.5, 0.5, 0.5]),
        "two_branches": np.array([0.0, 1.0, 1.0, 1.0, 0.0]),
    }
    status = [Status.CONVERGED] * 3 + [Status.ITERATION_LIMIT, Status.CONVERGED]
    table = Table("smi", {}, columns, status)
    assert positional._region(table).tolist() == [0, 1, 2, -1, 3]
    assert positional._crossing(table) == pytest.approx(1.25)
    # Points that did not settle do not hide the crossing.
    columns["free_energy_down"] = np.array([1.0, 1.5, 7.0, 0.5, 0.5])
    status = [Status.CONVERGED] * 2 + [Status.ITERATION_LIMIT] + [Status.CONVERGED] * 2
    assert positional._crossing(Table("smi", {}, columns, status)) == pytest.approx(1.5)


def test_whitened_words_have_unit_covariance():
    rng = np.random.default_rng(0)
    tokens = rng.integers(2, 40, (300, 6)).astype(np.int32)
    questions = Questions(tokens, np.zeros(300, np.int32))
    words = universality._Words(QuestionData(questions, questions, ("A",), 40))
    seen = words(rng, (300, 6, 3)).reshape(-1, 3)
    np.testing.assert_allclose(np.cov(words.embeddings[3][tokens].reshape(-1, 3).T), np.eye(3), atol=1e-8)
    assert seen.shape == (1800, 3) and "ten most frequent" in words.described(3)


def test_laws_of_tokens_that_fail_are_named():
    model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1)
    family = universality._Family(
        "bilinear", model, (0.5,), 12, "ridge", RegularisedRisk(penalty="ridge", strength=0.1)
    )
    laws = {
        "Gaussian": lambda rng, shape: rng.standard_normal(shape),
        "small": lambda rng, shape: 1e-3 * rng.standard_normal(shape),
    }
    part = universality._panel(None, family, laws, 3)
    assert "ridge on small at alpha = 0.5" in part.lines[-2]
    assert part.axes[0].settings["xticklabels"] == ["Gaussian", "small"]
    (frame,) = part.frames
    assert not frame["fails"][frame["curve"] == "Gaussian"].any()


def test_the_layer_with_the_lower_bound_is_named():
    rows = [
        layer_order._row(kind, "sequence", skip, layer, value, 0.01)
        for kind, skip, values in (
            ("bound", 0.5, (0.3, 0.9)),
            ("bound", 1.0, (0.4, 0.6)),
            ("bound over both skips", (1.0, 0.25), (0.6, 0.3)),
            ("bound over both skips", (1.0, 1.0), (0.5, 0.52)),
        )
        for layer, value in enumerate(values)
    ]
    equal, both = layer_order._order(pandas.DataFrame(rows))
    assert "1.50 (c = 1) to 3.00 (c = 0.5)" in equal
    assert "layer 1 first in 0 of 2 cases" in both and "layer 2 first at c = (1, 0.25)" in both
    assert "undecided at c = (1, 1)" in both


def test_early_stopping_is_compared_with_the_best_decay(monkeypatch):
    value, error = descent._columns("error")
    found = {value: np.array([1.0, 0.4, 0.5]), error: np.array([0.0, 0.01, 0.02])}
    monkeypatch.setattr(descent, "trajectory", lambda model, alpha, learner, steps, throw: found)
    case = descent._Stopped("square loss: error", SequenceMultiIndex(first_field, noise=0.5), "square", "error")
    part = descent._cost_of_stopping(None, [case], np.array([1.0, 2.0]), 2, SGD)
    (frame,) = part.frames
    assert frame["iteration"].tolist() == [1, 1] and frame["best_step"].tolist() == [0.4, 0.4]
    np.testing.assert_allclose(frame["excess_percent"], 100 * (0.4 / frame["best_decay"] - 1))
    assert part.axes[0].series[-1].label == "minimum at the best decay"


def test_the_teachers_of_runs_are_the_reason_why_runs_deviate_alike():
    runs = pandas.DataFrame({"alpha": [1.0, 1.0, 2.0, 2.0], "power": [0.99, 0.835, 0.99, 0.835]})
    assert "power 0.990, 0.835 (1 in theory)" in positional._teachers(runs)


def test_published_branches_are_recognised_by_their_order_parameters():
    alpha = np.array([1.0, 2.0])
    ours = pandas.DataFrame({"alpha": alpha, "theta": [0.1, 0.15], "m": 0.0})
    semantic = ours.assign(theta=-ours["theta"], Phi=[-0.002, -0.004])
    positional = semantic.assign(theta=0.0, m=0.25)
    found = _nearest([positional, semantic], ours)
    np.testing.assert_allclose(found["theta"], ours["theta"])
    np.testing.assert_allclose(found["energy"], 0.008)
    assert _nearest([], ours) is None


def test_a_curve_of_two_panels_is_computed_and_written_once():
    curve = Curve("optimum", MODEL)
    left, right = (CurvesPanel([curve], np.linspace(0, 1, 11), title) for title in ("left", "right"))
    content = compute(Recipe([left, right]))
    assert len(content.axes) == 2
    assert len(content.data) == 11


@pytest.mark.thorough
def test_descent_is_drawn_with_the_error_of_its_equations_and_runs_at_some_steps():
    case = descent._Case("full batch", 2.0, DESCENT, 4)
    looks = {"training_loss": {"xscale": "log"}, "label_error": {"legend": None}}
    level = descent._Level(0.2, "minimum")
    panel = descent._DescentPanel(SIGNS, [case], looks, RunSize(40, 2), "signs", True, lambda: {"label_error": level})
    content = compute(Recipe([panel], names=["curve"]))
    loss, errors = content.axes
    line, marks, *_ = loss.series
    assert list(line.x) == list(marks.x) == [1, 2, 3, 4]
    assert "mean of 2 runs at $d = 40$" in loss.settings["title"] and errors.legend is None
    assert [one.label for one in errors.series][-1] == "minimum"
    assert "full batch: label error" in content.summary and "of the equations" in content.summary
    assert list(content.data["curve"].unique()) == ["full batch"]


@pytest.mark.thorough
def test_descent_after_several_steps_has_runs_at_some_sample_ratios():
    def after(computed) -> Overlay:
        return descent._after_steps(
            computed, lambda alpha: DESCENT, (1, 2, 3, 4), [1.0, 2.0], RunSize(40, 2), "label_error"
        )

    curves = [Curve("optimum", SIGNS), Curve("minimum", SIGNS, RegularisedRisk("logistic", strength=0.5))]
    content = compute(Recipe([CurvesPanel(curves, np.array([1.0, 2.0]), "signs", "label_error", further=after)]))
    lines = {one.label: one for one in content.axes[0].series if one.label}
    assert len(lines["descent, 1 step"].x) == 2
    assert [len(one.x) for one in content.axes[0].series if one.error is not None] == [1] * 4
    assert "minimum of the risk: 1." in content.summary


@pytest.mark.parametrize(("accuracy", "collapsed"), [(0.5, True), (0.9, False)])
def test_training_that_learns_nothing_is_said(monkeypatch, accuracy, collapsed):
    questions = Questions(np.ones((4, 2), np.int32), np.array([0, 0, 1, 2], np.int32))
    data = QuestionData(questions, questions, ("A", "B", "C"), 5)
    run = ClassifierRun(np.arange(3.0), np.ones((3, 2)), np.full(3, accuracy), np.ones(3))
    monkeypatch.setattr(text_figure, "repeated_runs", lambda *given: [run, run])
    monkeypatch.setattr(text_figure, "read_questions", lambda folder: data)
    content = compute(text_figure.layers_of_text(True, "folder", "checkpoints"), quick=True)
    assert ("collapsed in 2 of 2 runs" in content.summary) == collapsed
    assert all(("2 collapsed" in axis.settings["title"]) == collapsed for axis in content.axes)
    # Runs that learned nothing have no order of layers.
    assert ("too few runs learned" in content.summary) == collapsed
    for axis in content.axes:
        shown = [one.label for one in axis.series if one.label]
        assert ("layer 1" in shown) != collapsed and ("layers of collapsed runs" in shown) == collapsed


def test_single_runs_have_no_standard_errors_and_other_errors_have_their_own():
    noisy = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.5)
    descent, title = GradientDescent(steps=3), "no noise"
    runs = Runs("descent", descent, [0.3], 4, 1, "relative_error")
    content = compute(Recipe([panel([runs])]))
    assert content.axes[0].settings["title"] == title + "\nmarks: 1 run at $d = 4$, relative to $\\|S\\|_F^2$"
    assert "a single run" in content.summary and "nan" not in content.summary
    early = Runs("descent", descent, [0.3], 4, 2, "early_stopped_error")
    content = compute(Recipe([CurvesPanel([Curve("optimum", noisy, runs=[early])], np.linspace(0, 1, 11), "noise")]))
    assert "nan" not in content.summary
    assert signal_power("n/d") == r"$\|w\|^2$"


def test_message_passing_has_whole_steps():
    columns = {"alpha": np.ones(3), "iteration": np.arange(3.0), "error": np.array([1.0, 0.5, 0.4])}
    axes = Figure().subplots()
    panels._draw_steps(axes, Table("bsr", {"alpha": "n/(dL)"}, columns, [Status.CONVERGED] * 3))
    assert all(float(place).is_integer() for place in axes.get_xticks())


def test_published_errors_of_attention_are_recognised_by_name(tmp_path, monkeypatch):
    """Softmax agrees with ours. The published hardmax curve is not Bayes-optimal, which the summary proves."""
    alpha = np.array([0.1, 0.2, 0.4])
    optimum = {"softmax": 0.9 - alpha, "hardmax": 0.1 / alpha**2}
    files = {
        "softmax_T2_rho0.5": optimum["softmax"],
        "averaged_gd_softmax_T2_rho0.5_d200": 1.1 * optimum["softmax"],
        "gd_softmax_T2_rho0.5_d200": np.array([2.0, 0.9, 0.8]),
        "hardmax_T2_rho0.5": 0.1 / alpha,
        "softmax_T9_rho0.5": alpha,
        "other": alpha,
    }
    for name, error in files.items():
        pandas.DataFrame({"alpha": alpha, "mmse": error, "mmse_std": 0.01}).to_csv(tmp_path / f"{name}.csv")
    theory = lambda model, alpha, throw=True: {"error": optimum[model.parameters["channel"]][: len(alpha)]}  # noqa: E731
    runs = {"error": [0.507], "standard_error": [0.01]}
    monkeypatch.setattr(published_attention, "limits", theory)
    monkeypatch.setattr(published_attention, "simulate", lambda *given, **settings: runs)
    found = {}
    for channel in ("softmax", "hardmax"):
        curve = Curve("optimum", AttentionIndexed(0.5, 2, channel), scale=4.0)
        found[channel] = published_attention.compare_errors(tmp_path, [ComputedCurve(curve, None, [])])
    text = "\n".join(found["softmax"].lines)
    assert "theory, softmax, T = 2, rho = 0.5: largest difference 0.0e+00" in text and "T = 9" not in text
    assert "average of GD, softmax, T = 2, rho = 0.5, d = 200: 1.10 to 1.10 Bayes-optimal errors" in text
    drawn = {one.style: one for one in found["softmax"].series if len(one.x)}
    assert set(drawn) == {".", "+", "2"} and list(drawn["."].x) == [0.4, 0.8, 1.6]
    assert len(drawn["2"].x) == 2  # an error above that without data has no place
    text = "\n".join(found["hardmax"].lines)
    assert "-1.00 published, -2.00 here" in text and "not Bayes-optimal" in text and "0.507 +- 0.010" in text
    assert [one.label for one in found["hardmax"].series][-1] == r"published theory, $\rho = 0.5$: not optimal"
