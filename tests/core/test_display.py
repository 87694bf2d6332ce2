"""Results show themselves in a notebook, as tables and as pictures; so does how far a computation is."""

import functools
import sys
import types

import numpy as np
import pytest
from matplotlib.figure import Figure

from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    SequenceMultiIndex,
    Status,
    compare,
    hysteresis,
    landscape,
    limits,
    phase_diagram,
    plan,
    simulate,
    spectrum,
    thresholds,
    trajectory,
)
from glassformer.bayes_optimal.conjugate_overlap import conjugate_overlap
from glassformer.core.display import DisplayMixin
from glassformer.core.progress import in_notebook
from glassformer.data_analysis import cross_validate, diagnose, estimate_model, risk_path
from glassformer.designs import DenseDesign
from glassformer.dynamics.online_sgd import online_sgd
from glassformer.plotting.render import Drawing
from glassformer.results import Solution, Table
from glassformer.risk.nuclear_norm import nuclear_norm_risk

LINEAR = BilinearSequenceRegression(rho=np.inf, noise=0.1)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 6, 6))
Y = np.einsum("nld,ld->n", X, RNG.standard_normal((6, 6))) / 6 + 0.3 * RNG.standard_normal(120)


def of_network():
    from glassformer.dynamics.online_sgd import Pace

    return online_sgd(
        SequenceMultiIndex(lambda z: z[0, 0]).at_accuracy(Accuracy(points=32)),
        np.array([0.5, 1.0]),
        Pace(0.5, 1),
        points=64,
    )


# One of each kind, with words that its table shows.
RESULTS = {
    "limits": (lambda: limits(LINEAR, [0.3, 0.6]), "alpha = n/(dL)"),
    "simulate": (
        lambda: simulate(BilinearSequenceRegression(noise=0.1, rho=1), [0.6], "ridge", d=10, instances=1),
        "standard_error",
    ),
    "follow_branches": (lambda: hysteresis(LINEAR, [0.3, 0.6]), "error_up"),
    "trajectory": (lambda: trajectory(LINEAR, [0.6], steps=2), "iteration"),
    "landscape": (lambda: landscape(LINEAR, 0.5, overlaps=20), "free_entropy"),
    "spectrum": (lambda: spectrum(BilinearSequenceRegression(rho=0.5, noise=0.1), 0.5, "ridge"), "density"),
    "thresholds": (lambda: thresholds(LINEAR), "hard phase: no"),
    "plan": (lambda: plan(LINEAR, 0.3, "ridge"), "error at or below 0.3"),
    "phase_diagram": (lambda: phase_diagram(LINEAR, "beta", [1, 2]), "weak_recovery"),
    "compare": (
        lambda: compare(BilinearSequenceRegression(rho=0.5, noise=0.1), [0.3, 0.6], ["gamp", "ridge"], d=8),
        "ridge, strength 0.1",
    ),
    "online_sgd": (of_network, "cosine"),
    "risk_path": (lambda: risk_path(DenseDesign(X), Y, strengths=[3.0, 1.0]), "rank"),
    "cross_validate": (lambda: cross_validate(DenseDesign(X), Y, strengths=5), "standard_error"),
    "conjugate_overlap": (lambda: conjugate_overlap(LINEAR, 0.5), "row 1, column 1"),
    "nuclear_norm_risk": (lambda: nuclear_norm_risk(1, 0.3, 0.5, 0.1, 0.2), "effective_noise"),
    "diagnose": (lambda: diagnose(X, Y), "120 samples of 6 tokens"),
    "estimate_model": (lambda: estimate_model(X, Y), "rho_low"),
    "directions": (lambda: estimate_model(X, Y).directions, "noise"),
}


@functools.cache
def computed(name):
    return RESULTS[name][0]()


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_shows_and_draws_itself(name, tmp_path):
    found, words = computed(name), RESULTS[name][1]
    shown = found._repr_html_()
    assert words in shown
    assert words in str(found)
    assert shown.count("<tr") == len(found.to_pandas()) + 1 or "..." in shown
    picture = found.plot(tmp_path / "picture.svg", size=(4, 3), theme="dark")
    assert (tmp_path / "picture.svg").stat().st_size > 1000
    assert isinstance(picture, Drawing)
    assert picture.figure.get_size_inches().tolist() == [4, 3]
    assert 'alt="' in picture._repr_html_()
    axes = Figure().subplots()
    assert found.plot(ax=axes) is axes
    assert axes.has_data() or axes.texts or axes.collections


@pytest.mark.slow
def test_no_kind_of_result_is_left_out():
    def below(kind):
        return {kind}.union(*(below(one) for one in kind.__subclasses__()))

    drawn = {kind.drawing for kind in below(DisplayMixin) if hasattr(kind, "drawing")}
    tested = {type(computed(name)).drawing for name in RESULTS}
    # Below, with the forecasts, and with the plans.
    assert drawn - tested <= {"plot_history", "plot_forecast", "plot_width_plan"}


def test_unconverged_rows_are_marked_with_a_remedy():
    bad = Table("<m>", {"a": 1}, {"alpha": np.array([0.5, 0.6])}, [Status.CONVERGED, Status.OSCILLATING], ["a < b"])
    shown = bad._repr_html_()
    assert "\N{WARNING SIGN} oscillating" in shown
    assert Status.OSCILLATING.remedy.split(":")[0] in shown
    assert "&lt;m&gt;" in shown
    assert "a &lt; b" in shown
    title, _, *rows, remark, remedy = str(bad).splitlines()
    assert (title, len(rows), remark) == ("<m>: a = 1", 2, "a < b")
    assert remedy == f"oscillating: {Status.OSCILLATING.remedy}"
    one = np.ones(1)
    ended = Solution(one, [Status.ITERATION_LIMIT], one, one, one, np.geomspace(1, 0.1, 5)[:, None])
    assert "max_iterations" in ended._repr_html_()
    assert ended.plot().text == "Solution"


def test_notebooks_are_known_by_their_shell(monkeypatch):
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert in_notebook()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not in_notebook()
