"""What plots show, looked up in the axes, and paths that are checked before anything is computed."""

import argparse
import shlex
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

from glassformer import AttentionIndexed, BilinearSequenceRegression, IncompatibleError, limits, simulate
from glassformer.bayes_optimal.threshold_results import Threshold, Thresholds
from glassformer.cli import main
from glassformer.cli.output import print_json, report
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.plotting import plots, sweep
from glassformer.plotting.curves import draw_curve, jumps
from glassformer.plotting.style import Picture
from glassformer.verbs.landscape import landscape
from glassformer.verbs.phase_diagram import PhaseDiagram


@pytest.fixture
def axes(monkeypatch):
    """The axes that plots draw on, kept."""
    drawn = Figure().subplots()

    @contextmanager
    def kept(path, columns=1, size=None):
        yield [drawn]

    monkeypatch.setattr(plots, "canvas", kept)
    return drawn


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_what_did_not_converge_is_marked_and_a_jump_is_no_slope(axes):
    alpha = np.linspace(0.1, 1.0, 10)
    error = np.where(alpha < 0.55, 1 - 0.1 * alpha, 0.0)
    status = [Status.CONVERGED] * 9 + [Status.ITERATION_LIMIT]
    columns = {"alpha": alpha, "error": error, "error_estimate": np.full(10, 0.01)}
    plots.plot_limits(Table("bsr", {"alpha": "n/(dL)", "channel": "gaussian", "rho": 0.3}, columns, status), Path())
    assert "iteration limit" in labels(axes)
    assert axes.get_title() == r"bsr, gaussian channel, $\rho = 0.3$"
    curve = axes.lines[0].get_ydata()
    assert np.isnan(curve).sum() == 1
    assert len(axes.collections) == 1  # the error bars
    assert any(line.get_linestyle() == ":" and len(line.get_xdata()) == 2 for line in axes.lines)


def test_rows_are_curves_of_their_own(axes):
    columns = {"alpha": np.array([1.0, 2.0]), "error": np.array([0.5, 0.4]), "error_estimate": np.zeros(2)}
    columns["row_error"] = np.array([[0.9, 0.1], [0.7, 0.1]])
    plots.plot_limits(Table("smi", {"alpha": "n/d", "link": "f"}, columns, [Status.CONVERGED] * 2), Path())
    assert labels(axes) == ["Bayes-optimal", "row 1", "row 2"]


def dotted(axes):
    """Sample ratios between which jumps are drawn."""
    lines = [line for line in axes.lines if line.get_linestyle() == ":" and len(line.get_xdata()) == 2]
    return [line.get_xdata().round(3).tolist() for line in lines]


# A hard phase that the upper branch leaves like a square root, between 0.5 and 0.6.
HARD = np.linspace(0.1, 0.7, 7)
UPPER = np.append(1 - 0.5 * HARD[:5], [0.0, 0.0])
TWO = np.array([0, 0, 1, 1, 1, 0, 0], dtype=bool)


def test_a_jump_is_known_by_the_end_of_its_branch(axes):
    columns = {"alpha": HARD, "algorithmic_error": UPPER, "error_estimate": np.zeros(7)}
    columns["error"] = np.where(HARD > 0.35, 0.0, UPPER)
    status = [Status.BISTABLE if two else Status.CONVERGED for two in TWO]
    plots.plot_limits(Table("bsr", {"alpha": "n/(dL)"}, columns, status), Path())
    assert dotted(axes) == [[0.3, 0.4], [0.5, 0.6]]


def test_branches_that_are_followed_jump_where_they_end(axes):
    lower = np.where(TWO, 0.0, UPPER)
    columns = {"alpha": HARD, "error_up": UPPER, "error_down": lower, "two_branches": TWO.astype(float)}
    plots.plot_branches(Table("bsr", {"alpha": "n/(dL)"}, columns, [Status.CONVERGED] * 7), Path())
    assert dotted(axes) == [[0.5, 0.6], [0.2, 0.3]]


def marked(axes, status):
    """Places of the marks of a status."""
    (line,) = (one for one in axes.lines if one.get_label() == str(status).replace("_", " "))
    return sorted(zip(line.get_xdata().tolist(), line.get_ydata().tolist(), strict=True))


def test_a_landscape_begins_at_the_overlap_without_data():
    for model, first in (
        (AttentionIndexed(rho=0.5, channel="linear", tokens=1), "0.5"),
        (BilinearSequenceRegression(rho=0.5), "0"),
    ):
        axes = Figure().subplots()
        landscape(model, 0.3, overlaps=10).plot(ax=axes)
        assert rf"\Phi(q) - \Phi({first})$" in axes.get_ylabel()


def test_an_infinite_error_is_a_gap(axes):
    values = np.array([0.9, 0.5, np.inf, 0.5, 0.4])
    line = draw_curve(axes, np.linspace(0.2, 1.0, 5), values, np.full(5, 0.1))
    assert np.isnan(line.get_ydata()).tolist() == [False, False, True, False, False]


def test_a_steep_first_step_is_no_jump():
    assert jumps(np.linspace(0.0, 2.0, 5), np.array([1.0, 0.2, 0.1, 0.05, 0.02])).size == 0


def test_both_branches_and_every_row_are_marked_where_they_are_drawn(axes):
    status = [Status.CONVERGED, Status.ITERATION_LIMIT]
    alpha, up, down = np.array([0.5, 0.6]), np.array([0.9, 0.8]), np.array([0.9, 0.1])
    columns = {"alpha": alpha, "error_up": up, "error_down": down, "two_branches": np.array([0.0, 1.0])}
    plots.plot_branches(Table("bsr", {"alpha": "n/(dL)"}, columns, status), Path())
    assert marked(axes, Status.ITERATION_LIMIT) == [(0.6, 0.1), (0.6, 0.8)]
    axes.clear()
    rows = np.array([[1.0, 1.0], [0.9, 0.3]])
    columns = {"alpha": np.ones(2), "iteration": np.arange(2.0), "error": rows.mean(axis=1), "row_error": rows}
    plots.plot_trajectory(Table("smi", {"alpha": "n/d"}, columns, status), Path())
    assert marked(axes, Status.ITERATION_LIMIT) == [(1.0, 0.3), (1.0, 0.9)]


def test_the_error_of_rows_is_named_for_every_learner(axes):
    table = {"alpha": np.ones(2), "iteration": np.arange(2.0), "error": np.array([1.4, 1.2])}
    parameters = {"alpha": "n/d", "activation": "softmax", "skip": [0.5, 1.0]}
    plots.plot_trajectory(Table("attention", parameters, table, [Status.CONVERGED] * 2), Path())
    assert "Tr" not in axes.get_ylabel()
    assert "w" in axes.get_ylabel()
    assert "$c = (0.5, 1)$" in axes.get_title()
    assert "theory" not in labels(axes)


def test_runs_are_told_from_theory(axes):
    table = {"alpha": np.ones(2), "iteration": np.arange(2.0), "error": np.array([1.0, 0.5])}
    table |= {"measured_error": np.array([1.0, 0.6]), "measured_standard_error": np.array([0.1, 0.1])}
    parameters = {"alpha": "n/(dL)", "d": 20, "instances": 3}
    plots.plot_trajectory(Table("bsr", parameters, table, [Status.CONVERGED] * 2), Path())
    assert labels(axes)[1:] == ["theory", "mean of 3 runs, $d = 20$, standard errors"]


@pytest.mark.slow
def test_runs_are_points_beside_the_line_of_limits(tmp_path):
    model = BilinearSequenceRegression(rho=0.5, noise=0.1)
    line, runs = limits(model, np.linspace(0.2, 1.2, 11)), simulate(model, [0.3, 0.9], d=10, instances=2)
    axes = Figure().subplots()
    assert line.plot(ax=axes, runs=runs) is axes
    assert labels(axes) == ["Bayes-optimal", "gamp, mean of 2 runs, $d = 10$"]
    (points,) = axes.containers
    np.testing.assert_array_equal(points[0].get_ydata(), runs["error"])
    assert len(points[2][0].get_segments()) == 2  # standard errors; those of the line are too small to be seen
    for refused, said in (
        (lambda: line.plot(runs=simulate(replace(model, rho=0.4), [0.3], d=10)), "rho = 0.5 and 0.4"),
        (lambda: line.plot(runs=line), "simulate"),
        (lambda: runs.plot(runs=runs), "limits"),
        (lambda: line.plot(tmp_path / "a.png", ax=axes), "leave out path"),
    ):
        with pytest.raises(IncompatibleError, match=said):
            refused()
    line.plot(tmp_path / "runs.svg", runs=runs)
    assert (tmp_path / "runs.svg").stat().st_size > 1000


def test_a_sweep_shows_means_with_standard_errors_and_theory_not_a_series_per_seed():
    errors = np.array([[0.5, 0.7, 0.6], [0.3, 0.3, np.nan]])
    dims = ("alpha", "seed")
    found = xarray.Dataset(
        {
            "error": (dims, errors),
            "theory": (dims, [[0.61] * 3, [0.29] * 3]),
            "status": (dims, np.array([["converged"] * 3, ["converged", "oscillating", "failed"]], dtype=object)),
        },
        coords={"alpha": [0.5, 1.0], "seed": [0, 1, 2]},
        attrs={"verb": "simulate", "model": "bsr", "d": 20},
    )
    axes = Figure().subplots()
    sweep.plot(found, Picture(None, axes=axes))
    points = axes.containers[0]
    np.testing.assert_allclose(points[0].get_ydata(), [0.6, 0.3])
    heights = [float(np.ptp(bar[:, 1])) for bar in points[2][0].get_segments()]
    np.testing.assert_allclose(heights, [2 * 0.1 / np.sqrt(3), 0.0], atol=1e-12)
    (theory,) = (one for one in axes.lines if np.array_equal(one.get_ydata(), [0.61, 0.29]))
    assert theory.get_linestyle() == ":"  # two points are no curve
    assert sorted(labels(axes)) == ["mean of 3 runs, $d = 20$, standard errors", "oscillating", "theory"]
    # Quantities without a theory have none in the picture.
    axes = Figure().subplots()
    sweep.plot(found.assign(cosine=found["error"]), Picture(None, axes=axes), "cosine")
    assert "theory" not in labels(axes)


def test_a_sweep_names_values_that_are_no_numbers_and_other_axes_than_the_sample_ratio():
    names, alpha, status = ["gaussian", "sign"], [0.3, 0.6], np.full((2, 2), "converged", dtype=object)
    dims, attributes = ("channel", "alpha"), {"verb": "limits", "model": "bsr"}
    columns = {"label_error": (dims, np.full((2, 2), 0.3)), "label_error_estimate": (dims, np.full((2, 2), 0.1))}
    found = xarray.Dataset({**columns, "status": (dims, status)}, {"channel": names, "alpha": alpha}, attributes)
    axes = Figure().subplots()
    sweep.plot(found, Picture(None, axes=axes), "label_error")
    assert labels(axes) == ["channel = gaussian", "channel = sign"]
    assert len(axes.collections) == 2  # error bars
    # Thresholds against a parameter; names are drawn beside each other.
    dims, values = ("prior",), list("abcd")
    columns = {"weak_recovery": (dims, np.arange(4.0)), "status": (dims, np.full(4, "converged", dtype=object))}
    axes = Figure().subplots()
    sweep.plot(
        xarray.Dataset(columns, {"prior": values}, {**attributes, "verb": "thresholds"}), Picture(None, axes=axes)
    )
    assert [text.get_text() for text in axes.get_xticklabels()] == values
    found = xarray.Dataset(columns, {"prior": values}, {**attributes, "verb": "thresholds"}).rename(prior="rho")
    found = found.assign_coords(rho=[0.1, 0.2, 0.3, 0.4])
    found["rho"].attrs["units"] = "r/d"
    axes = Figure().subplots()
    sweep.plot(found, Picture(None, axes=axes))
    assert axes.get_xlabel() == "rho (r/d)"


def found_thresholds(**alpha):
    entries = tuple(Threshold(name, value, 0.0, "") for name, value in alpha.items())
    return Thresholds("bsr", {"alpha": "n/(dL)", "noise": 0.1}, entries, None)


def test_thresholds_begin_at_zero_and_name_what_is_never_reached(axes):
    plots.plot_thresholds(found_thresholds(weak_recovery=0.0, perfect_recovery=np.inf, hard_phase_end=np.nan), Path())
    assert axes.get_xlim()[0] == 0
    assert [label.get_text() for label in axes.get_yticklabels()] == ["weak recovery", "perfect recovery"]
    assert [text.get_text() for text in axes.texts] == ["0", "never"]


def test_coincident_curves_of_a_diagram_differ_and_what_is_nowhere_has_no_entry(axes):
    point = found_thresholds(weak_recovery=0.5, perfect_recovery=0.5, hard_phase_end=np.inf)
    plots.plot_phase_diagram(PhaseDiagram("bsr", "rho", [0.1, 0.2], [point, point]), Path())
    assert labels(axes) == ["weak recovery", "perfect recovery"]
    assert len({(line.get_marker(), line.get_linestyle()) for line in axes.lines}) == 2


def test_an_axis_of_whole_numbers_has_no_others(axes):
    from glassformer import AttentionIndexed, phase_diagram

    plots.plot_phase_diagram(phase_diagram(AttentionIndexed(rho=0.5), "tokens", [2, 3]), Path())
    assert all(float(place).is_integer() for place in axes.get_xticks())
    assert all(line.get_linestyle() == ":" for line in axes.lines)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, pytest.param(0.1, marks=pytest.mark.thorough)])
def test_landscapes_show_their_maxima(axes, noise):
    model = BilinearSequenceRegression(rho=0.5, noise=noise, channel="absolute")
    curves = [landscape(model, alpha, overlaps=60) for alpha in (0.8, 1.1)]
    plots.plot_landscapes(curves, Path())
    low, high = axes.get_ylim()
    heights = [np.interp(c.maxima, c.overlap, c.free_entropy - c.free_entropy[0]) for c in curves]
    assert all(low < height < high for height in np.concatenate(heights))
    assert high - low < 1.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--csv {folder}", "csv"),
        ("--csv {file}/below.csv", "csv"),
        ("--csv {folder}/none/a.csv", "folder {folder}/none first"),
        ("--plot {folder}/none/a.png", "folder {folder}/none first"),
        ("--plot {folder}/a.xyz", "plot"),
        ("--plot {folder}/a.png --plot-size 4", "--plot-size = '4'"),
        ("--plot {folder}/a.png --plot-size 4x0", "--plot-size = "),
        ("--plot {folder}/a.png --plot-theme gray", "--plot-theme = 'gray'"),
        ("--plot-theme dark", "--plot"),
    ],
)
def test_files_that_cannot_be_written_stop_before_the_computation(options, said, tmp_path, monkeypatch, capsys):
    def refuse(options):
        raise AssertionError("computed")

    monkeypatch.setattr("glassformer.cli.parser.parse_grid", refuse)
    (tmp_path / "file").touch()
    line = options.format(folder=tmp_path, file=tmp_path / "file")
    assert main(shlex.split(f"limits bsr --alpha 0.1 --rho 0.5 {line}")) == 2
    assert said.format(folder=tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_size_and_theme_of_a_plot(tmp_path):
    from matplotlib.image import imread

    table = limits(BilinearSequenceRegression(rho=np.inf), [0.3])
    plots.plot_limits(table, plots.Picture(tmp_path / "a.png", (3.0, 2.0), "dark"))
    drawn = imread(tmp_path / "a.png")
    assert drawn.shape[:2] == (400, 600)
    assert drawn[2, 2, :3].max() < 0.2


def test_never_and_does_not_apply_are_told_apart():
    found = [Threshold("a", alpha, 0.0, "").to_dict() for alpha in (0.5, np.inf, np.nan)]
    assert [one["reached"] for one in found] == ["at_alpha", "never", "does_not_apply"]
    assert Threshold("a", np.nan, 0.0, "Not determined: no threshold is finite").reached == "unknown"
    assert [one["alpha"] for one in found] == [0.5, None, None]
    assert [one["error_estimate"] for one in found] == [0.0, None, None]
    shown = str(found_thresholds(a=0.5, b=np.inf, c=np.nan)).splitlines()[2:5]
    assert [line.split()[:2] for line in shown] == [["a", "0.5"], ["b", "inf"], ["c", "-"]]


def test_numbers_that_json_does_not_have_are_null(capsys):
    print_json("doctor", {"machine": {"free_gigabytes": np.inf}})
    assert '"free_gigabytes": null' in capsys.readouterr().out


def test_tables_print_five_columns_and_tell_infinite_from_unknown(capsys):
    columns = {name: np.array([0.5, k]) for k, name in enumerate(("alpha", "error", "theory"))}
    columns |= {"threshold": np.array([np.inf, np.nan]), "row_error": np.array([[0.1, -np.inf], [np.nan, 0.2]])}
    columns |= {"standard_error": np.zeros(2), "error_estimate": np.zeros(2)}
    table = Table("m", {}, columns, [Status.CONVERGED] * 2)
    names = ["alpha", "error", "threshold", "row_error", "theory", "status"]
    options = argparse.Namespace(json=False, all_columns=False)
    assert report(options, table, names) == 0
    _, head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["alpha", "error", "threshold", "row_error", "status"]
    assert rows[0] == ["0.5", "0.5", "inf", "0.1", "-inf", "converged"]
    assert rows[1] == ["0", "1", "-", "-", "0.2", "converged"]
    options.all_columns = True
    report(options, table, names)
    assert capsys.readouterr().out.splitlines()[1].split() == [*columns, "status"]
    assert table.to_dict()["points"][0]["threshold"] is None  # JSON has no word for it
    shown = str(table).splitlines()
    assert shown[1].split() == ["alpha", "error", "standard_error", "theory", "status"]
    assert shown[-1] == "4 more columns: to_pandas() returns all columns"


def table_of(error, **parameters):
    """A table of limits at thirty sample ratios."""
    alpha = np.linspace(0.1, 3.0, 30)
    columns = {"alpha": alpha, "error": error / alpha, "error_estimate": np.zeros(30)}
    return Table("bsr", {"alpha": "n/(dL)", "rho": 0.5, **parameters}, columns, [Status.CONVERGED] * 30)


def test_results_on_one_axis_have_their_own_colours_and_are_named_by_what_differs():
    ridge = {"learner": "ridge", "loss": "square", "penalty": "ridge", "strength": 0.1}
    axes = Figure().subplots()
    for table in (table_of(0.1), table_of(0.2, **ridge), table_of(0.3, **ridge, noise=0.2)):
        table.plot(ax=axes)
    assert labels(axes) == ["Bayes-optimal", "ridge, strength 0.1", r"ridge, strength 0.1, $\Delta = 0.2$"]
    assert axes.get_title() == r"bsr, $\rho = 0.5$"
    assert len({line.get_color() for line in axes.lines}) == len(axes.lines) == 3
    assert {line.get_marker() for line in axes.lines} == {"None"}
    # Rows are told by their learner; the same mark has one entry; units that differ are left out.
    axes = Figure().subplots()
    for table in (table_of(0.1), table_of(0.2, **ridge)):
        rows = {**table.columns, "row_error": np.stack([table["error"], 2 * table["error"]], axis=1)}
        status = [*table.status[1:], Status.ITERATION_LIMIT]
        replace(table, columns=rows, status=status, parameters={**table.parameters, "alpha": "n/d"}).plot(ax=axes)
    assert labels(axes)[1:4] == ["row 1, Bayes-optimal", "row 2, Bayes-optimal", "iteration limit"]
    assert labels(axes)[4:] == ["ridge, strength 0.1", "row 1, ridge, strength 0.1", "row 2, ridge, strength 0.1"]
    table_of(0.3).plot(ax=axes)
    assert axes.get_xlabel() == "sample ratio" and axes.get_ylabel() == "estimation error"
