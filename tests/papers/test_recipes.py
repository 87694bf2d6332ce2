"""Recipes of figures: what their panels compute, draw and say."""

import numpy as np
import pandas
import pytest

from glassformer import SGD, BilinearSequenceRegression, NuclearNorm, RegularisedRisk, SequenceMultiIndex
from glassformer.papers import descent
from glassformer.papers.catalogue import FIGURES
from glassformer.papers.curves import Curve, CurvesPanel, Overlay, Runs
from glassformer.papers.drawing import draw_figure
from glassformer.papers.recipe import Recipe, compute
from glassformer.papers.row_risk import _nearest
from glassformer.papers.text import figure as text_figure
from glassformer.papers.text.attention_classifier import ClassifierRun
from glassformer.papers.text.questions import QuestionData, Questions

MODEL = BilinearSequenceRegression(beta=1, rho=0.5)
SIGNS = SequenceMultiIndex(descent._sign)
DESCENT = SGD(0.5, 0.5, loss="logistic", trajectories=4096)


def panel(runs=(), **settings):
    return CurvesPanel([Curve("optimum", MODEL, runs=runs)], np.linspace(0, 1, 11), "no noise", **settings)


@pytest.mark.parametrize("name", [name for name, one in FIGURES.items() if not one.takes_data and name != "risk-1"])
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


@pytest.mark.slow
def test_descent_is_drawn_with_the_error_of_its_equations_and_runs_at_some_steps():
    case = descent._Case("full batch", 2.0, DESCENT, 4)
    looks = {"training_loss": {"xscale": "log"}, "label_error": {"legend": None}}
    panel = lambda context: descent._in_time(  # noqa: E731
        context, SIGNS, [case], looks, (40, 2), "signs", True, lambda: {"label_error": descent._Level(0.2, "minimum")}
    )
    content = compute(Recipe([panel], names=["curve"]))
    loss, errors = content.axes
    line, marks, *_ = loss.series
    assert list(line.x) == list(marks.x) == [1, 2, 3, 4]
    assert "mean of 2 runs at $d = 40$" in loss.settings["title"] and errors.legend is None
    assert [one.label for one in errors.series][-1] == "minimum"
    assert "full batch: label error" in content.summary and "of the equations" in content.summary
    assert list(content.data["curve"].unique()) == ["full batch"]


def test_descent_after_several_steps_has_runs_at_some_sample_ratios():
    def after(computed) -> Overlay:
        return descent._after_steps(computed, lambda alpha: DESCENT, (1, 2, 3, 4), [1.0, 2.0], (40, 2), "label_error")

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
