"""The command line is a contract: forms of input, keys of output, exit codes, one line per mistake."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, limits, simulate, thresholds
from glassformer.cli import main, parse_alpha

HEAVY = {"numpy", "scipy", "matplotlib", "pandas", "pydantic", "xarray", "rich"}
POINT_KEYS = {"alpha", "error", "overlap", "status", "error_estimate"}
SMALL = "--beta 1 --rho 0.5 --noise 0.5 --d 16 --instances 2 --seed 3"


@pytest.fixture
def run(capsys):
    """Run a command line; returns exit code, standard output and standard error."""

    def call(line):
        try:
            code = main(shlex.split(line))
        except SystemExit as leaving:
            code = leaving.code
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


@pytest.fixture
def document(run):
    def call(line, code=0):
        got, out, _ = run(f"{line} --json")
        assert got == code
        return json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))

    return call


def in_process_of_its_own(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "glassformer", *arguments], capture_output=True, text=True, check=False, timeout=120
    )


# --- limits -----------------------------------------------------------------------------------------------------------


def test_limits_as_json(document):
    answer = document("limits bsr --alpha 0,0.3,0.9 --beta 2 --rho 0.5 --noise 0.1")
    assert answer["model"] == "bsr"
    assert {"beta": 2.0, "rho": 0.5, "noise": 0.1, "channel": "gaussian"}.items() <= answer["parameters"].items()
    expected = limits(BilinearSequenceRegression(beta=2, rho=0.5, noise=0.1), [0, 0.3, 0.9])
    for point, alpha, error in zip(answer["points"], [0, 0.3, 0.9], expected["error"], strict=True):
        assert set(point) >= POINT_KEYS
        assert (point["alpha"], point["error"], point["status"]) == (alpha, error, "converged")
        assert point["overlap"] == pytest.approx(1 - error)
    assert answer["points"][0]["error"] == 1.0


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ("0.3", [0.3]),
        ("1e-1", [0.1]),
        ("0.1,0.2,0.5", [0.1, 0.2, 0.5]),
        ("0:1:5", [0, 0.25, 0.5, 0.75, 1]),
        ("0.2:0.2:1", [0.2]),
        ("1:0:3", [1, 0.5, 0]),
    ],
)
def test_forms_of_a_sample_ratio(document, spec, values):
    np.testing.assert_allclose(parse_alpha(spec), values, atol=1e-15)
    points = document(f"limits bsr --rho inf --alpha {spec}")["points"]
    np.testing.assert_allclose([point["alpha"] for point in points], values, atol=1e-15)


def test_points_of_a_range_are_round_where_decimals_are():
    assert parse_alpha("0.2:0.8:4") == [0.2, 0.4, 0.6, 0.8]
    assert parse_alpha("0.3:0.8:1") == [0.3]


@pytest.mark.slow
def test_rows_at_ratios_close_to_each_other_are_told_apart(run):
    _, out, _ = run("limits bsr --rho 0.3 --alpha 0.50999978,0.50999979")
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["0.50999978", "0.50999979"]


def test_a_range_includes_both_ends_exactly():
    values = parse_alpha("0.05:1.1:22")
    assert len(values) == 22
    assert (values[0], values[-1]) == (0.05, 1.1)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["gaussian", "sign", "absolute"])
def test_every_channel_by_name(document, channel):
    answer = document(f"limits bsr --alpha 0.4 --rho 0.5 --channel {channel}")
    assert answer["parameters"]["channel"] == channel
    expected = limits(BilinearSequenceRegression(rho=0.5, channel=channel), 0.4)["error"][0]
    assert answer["points"][0]["error"] == expected


@pytest.mark.parametrize("limit", ["--rho 0", "--rho inf", "--rho 0.5 --beta inf", "--rho 0 --beta inf", "--width 2"])
def test_limits_of_parameters_are_values(document, limit):
    (point,) = document(f"limits bsr --alpha 0.8 --noise 0.1 {limit}")["points"]
    assert 0 < point["error"] < 1


def test_units_of_the_sample_ratio_are_stated(document):
    assert document("limits bsr --alpha 0.8 --rho 0.5")["parameters"]["alpha"] == "n/(dL)"
    assert document("limits bsr --alpha 0.8 --rho 0")["parameters"]["alpha"] == "n/(r(L+d))"


def test_a_hard_phase_lists_both_errors_and_exits_with_3(document):
    (point,) = document("limits bsr --alpha 0.8 --rho 0.5 --channel absolute", code=3)["points"]
    assert point["status"] == "bistable"
    assert point["error"] == point["informed_error"] < 1e-10
    assert point["algorithmic_error"] > 0.1


def test_a_table_for_the_eye(run):
    code, out, err = run("limits bsr --alpha 0:1:3 --rho 0.5")
    lines = out.splitlines()
    assert code == 0
    assert err == ""
    assert all(part in lines[0] for part in ("beta = 1", "rho = 0.5", "noise = 0", "channel = gaussian"))
    assert lines[1].split()[:2] == ["alpha", "error"]
    assert len(lines) == 5


# --- thresholds and landscape -----------------------------------------------------------------------------------------


def test_thresholds_as_json(document):
    answer = document("thresholds bsr --beta 2 --rho 0.5")
    entries = {entry["name"]: entry["alpha"] for entry in answer["thresholds"]}
    found = thresholds(BilinearSequenceRegression(beta=2, rho=0.5))
    assert answer["model"] == "bsr"
    for name in ("perfect_recovery", "weak_recovery", "nuclear_norm_perfect_recovery"):
        assert entries[name] == found[name].alpha
    assert entries["perfect_recovery"] == 0.625
    assert answer["hard_phase"] is False


def test_the_threshold_of_a_subspace(document):
    (entry,) = document("thresholds bsr --rho 0.5 --channel absolute --subspace 1")["thresholds"]
    assert entry["alpha"] == pytest.approx(0.5)
    assert (entry["name"], entry["layer"], entry["subspace"]) == ("subspace", "row 1", [[1.0]])
    assert entry["note"] == "weak recovery of row 1 if nothing is known"


def test_thresholds_that_do_not_apply_are_null(document, run):
    answer = document("thresholds bsr --rho 0.5 --noise 0.1")
    entries = {entry["name"]: entry for entry in answer["thresholds"]}
    assert entries["perfect_recovery"]["alpha"] is None
    assert entries["perfect_recovery"]["note"]
    code, out, _ = run("thresholds bsr --rho 0.5 --noise 0.1")
    assert code == 0
    assert "hard phase: no" in out


def test_a_phase_diagram_tells_never_from_does_not_apply_as_thresholds_do(run):
    code, out, _ = run("phase-diagram bsr --along noise=1 --rho 0.3")
    cells = {line.split()[1]: line.split()[2:4] for line in out.splitlines()[1:]}
    assert code == 0
    assert (cells["perfect_recovery"], cells["hard_phase_start"]) == (["inf", "-"], ["-", "-"])


@pytest.mark.slow
def test_landscape_as_json(document, run):
    answer = document("landscape bsr --alpha 0.3,0.6 --rho 0.5 --noise 0.1 --overlaps 20")
    assert answer["model"] == "bsr"
    assert [curve["alpha"] for curve in answer["landscapes"]] == [0.3, 0.6]
    for curve in answer["landscapes"]:
        assert len(curve["points"]) == 20
        assert {"overlap", "free_entropy", "error_estimate"} <= set(curve["points"][0])
        assert curve["hard_phase"] is False
    code, out, _ = run("landscape bsr --alpha 0.8 --rho 0.5 --channel absolute --overlaps 40")
    assert code == 0
    assert "hard phase" in out
    assert "no hard phase" not in out


# --- simulate ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_simulate_as_json(document):
    answer = document(f"simulate bsr --learner gamp --alpha 0.4,0.9 {SMALL}")
    expected = simulate(BilinearSequenceRegression(rho=0.5, noise=0.5), [0.4, 0.9], d=16, instances=2, seed=3)
    assert answer["model"] == "bsr"
    assert {"learner": "gamp", "d": 16, "seed": 3}.items() <= answer["parameters"].items()
    for i, point in enumerate(answer["points"]):
        assert {"alpha", "error", "standard_error", "theory", "instances"} <= set(point)
        assert point["error"] == expected["error"][i]
        assert [entry["seed"] for entry in point["instances"]] == [3, 4]
        for entry in point["instances"]:
            assert {"seed", "error", "status", "iterations"} <= set(entry)
        assert point["error"] == pytest.approx(np.mean([entry["error"] for entry in point["instances"]]))


def test_simulate_twice_gives_identical_output(run):
    first, second = (run(f"simulate bsr --alpha 0.4 {SMALL} --json") for _ in range(2))
    assert first == second


def test_simulate_at_fixed_width_and_in_single_precision(document):
    answer = document("simulate bsr --alpha 2 --width 1 --noise 0.1 --d 40 --instances 2 --storage float32")
    assert answer["parameters"]["storage"] == "float32"
    assert answer["parameters"]["width"] == 1


def test_what_did_not_converge_is_printed_with_its_status_and_exits_with_3(run, document):
    line = f"simulate bsr --alpha 0.5 {SMALL} --max-iterations 2"
    code, out, err = run(line)
    assert code == 3
    assert "iteration_limit" in out
    assert err.startswith("glassformer: iteration_limit: ")
    assert err.count("\n") == 1
    (point,) = document(line, code=3)["points"]
    assert point["status"] == "iteration_limit"
    assert [entry["status"] for entry in point["instances"]] == ["iteration_limit"] * 2


# --- files ------------------------------------------------------------------------------------------------------------

COMMANDS = {
    "limits": "limits bsr --alpha 0:0.6:4 --rho 0.5",
    "thresholds": "thresholds bsr --rho 0.5",
    "landscape": "landscape bsr --alpha 0.3,0.6 --rho 0.5 --overlaps 20",
    "simulate": f"simulate bsr --alpha 0.4,0.9 {SMALL}",
    "spectrum": "spectrum bsr --alpha 0.3 --rho 0.3 --noise 0.1 --learner ridge",
}
ROWS = {"limits": 4, "thresholds": 7, "landscape": 40, "simulate": 2, "spectrum": 83}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_csv(run, tmp_path, name):
    path = tmp_path / "result.csv"
    code, out, _ = run(f"{COMMANDS[name]} --csv {path}")
    assert code == 0
    assert out
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == ROWS[name]
    assert "alpha" in rows[0]
    if name == "limits":
        values = limits(BilinearSequenceRegression(rho=0.5), [0, 0.2, 0.4, 0.6])["error"]
        np.testing.assert_allclose([float(row["error"]) for row in rows], values, rtol=1e-15)
        assert {row["status"] for row in rows} == {"converged"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ending"),
    [
        *((name, "png") for name in COMMANDS),
        ("thresholds", "pdf"),
        *(pytest.param(name, "pdf", marks=pytest.mark.thorough) for name in COMMANDS if name != "thresholds"),
    ],
)
def test_plot(run, tmp_path, name, ending):
    path = tmp_path / f"result.{ending}"
    code, _, err = run(f"{COMMANDS[name]} --plot {path}")
    assert code == 0
    assert err == ""
    assert path.read_bytes().startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[ending])
    assert path.stat().st_size > 3000


@pytest.mark.slow
def test_files_and_json_together(run, tmp_path):
    table, picture = tmp_path / "a.csv", tmp_path / "a.png"
    code, out, _ = run(f"{COMMANDS['limits']} --json --csv {table} --plot {picture}")
    assert code == 0
    assert len(json.loads(out)["points"]) == 4
    assert table.exists()
    assert picture.exists()


# --- figures ----------------------------------------------------------------------------------------------------------


def test_figures_are_listed(run):
    code, out, _ = run("figure --list")
    assert code == 0
    assert any(line.startswith("bsr-1 ") for line in out.splitlines())
    assert all(len(line.split()) > 1 for line in out.splitlines())
    assert next(line for line in out.splitlines() if line.startswith("smi-clamped ")).endswith("2502.00901, figure 5]")


@pytest.mark.slow
def test_all_figures_are_drawn_but_those_that_lack_their_data(run, tmp_path, monkeypatch):
    from glassformer.papers import catalogue

    few = {name: catalogue.FIGURES[name] for name in ("bsr-3", "smi-3-right", "bsr-8")}
    monkeypatch.setattr(catalogue, "FIGURES", few)
    code, out, _ = run(f"figure --all --quick --out {tmp_path}")
    assert code == 0
    assert {path.stem for path in tmp_path.iterdir()} == {"bsr-3", "bsr-8"}
    assert "smi-3-right: left out" in out


def test_figures_have_functions():
    from glassformer.papers import catalogue

    assert all(callable(figure.compute) for figure in catalogue.FIGURES.values())


def test_published_descents_are_compared_where_both_files_are_there(tmp_path):
    import pandas

    from glassformer.papers.published import at_ratios, descents

    rows = pandas.DataFrame({"alpha": [0.1, 0.2], "gen_error_mean": [0.9, 0.7], "gen_error_std": [0.1, 0.1]})
    rows.to_csv(tmp_path / "first.csv", index=False)
    assert descents(tmp_path) is None
    rows.assign(gen_error_mean=[1.8, 1.3]).to_csv(tmp_path / "second.csv", index=False)
    found = descents(tmp_path)
    assert found is not None
    assert [frame["gen_error_mean"].max() for frame in found] == [1.8, 0.9]
    there, published = at_ratios(pandas.concat([rows, rows]), np.array([0.2, 0.5]))
    assert there.tolist() == [True, False]
    assert published["gen_error_mean"].tolist() == [0.7]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        (
            "bsr-3",
            {"rho": [0.2], "beta": [1.0], "alpha_BO": [0.36], "alpha_MNNE": [0.5]},
            "beta = 1: Bayes-optimal",
        ),
        pytest.param(
            "bsr-5",
            {"rho": [0.2], "beta": [1.0], "alpha_BO": [0.36], "alpha_MNNE": [0.5]},
            "threshold of the nuclear norm",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "aim-3",
            {"": [0, 1], "alpha": [0.1, 0.2], "gen_error": [0.7, 0.4]},
            "largest difference at all 2 ratios",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_figures_compare_with_published_data(run, tmp_path, name, table, words):
    import pandas

    pandas.DataFrame(table).to_csv(tmp_path / "published.csv", index=False)
    code, out, _ = run(f"figure {name} --quick --out {tmp_path} --reference {tmp_path}")
    assert code in (0, 3)
    assert words in out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_papers_are_cited(run):
    code, out, _ = run("cite aim nuclear-norm")
    assert code == 0
    assert out.count("@") == 3
    assert "2506.01582" in out
    assert run("cite")[1].count("2502.00901") == 1
    is_one_clear_line(run("cite ising"), "ising", "bsr")


def test_every_learner_is_cited(run):
    """Those without papers of their own by the papers of the models; they were refused."""
    code, out, _ = run("cite ridge")
    assert code == 0 and all(number in out for number in ("2410.18858", "2506.01582", "2502.00901"))
    assert "saad1995on" not in out and "2210.06591" in run("cite gd")[1]
    assert run("cite online-sgd")[1].count("@") == 1


@pytest.mark.slow
def test_a_figure_leaves_picture_data_and_summary(run, tmp_path):
    code, out, _ = run(f"figure bsr-3 --quick --out {tmp_path}")
    assert code == 0
    assert out.startswith("bsr-3: ")
    assert {path.name for path in tmp_path.iterdir()} == {"bsr-3.png", "bsr-3.csv", "bsr-3.txt"}


def test_a_figure_with_a_run_that_did_not_settle_is_complete_and_names_the_run(run, tmp_path, monkeypatch):
    import pandas

    from glassformer.papers.drawing import FigureContent

    statuses = ["converged", "iteration_limit", "iteration_limit"]
    rows = {"source": ["theory", "gamp", "gamp"], "rho": 0.5, "alpha": [0.1, 0.2, 0.3], "error": 0.1}
    data = pandas.DataFrame({**rows, "status": statuses})
    content = FigureContent([], data, "one curve")
    monkeypatch.setattr("glassformer.papers.recipe.compute", lambda recipe, quick, reference: content)
    monkeypatch.setattr("glassformer.papers.drawing.draw_figure", lambda path, content: None)
    code, out, errors = run(f"figure bsr-3 --quick --out {tmp_path}")
    assert code == 3
    assert "written to" in out
    assert errors.splitlines() == [
        "glassformer: bsr-3: the figure is complete; did not converge: source = gamp, rho = 0.5, alpha = 0.2 "
        "(iteration_limit), and 1 more in the CSV file"
    ]


LONG_FIGURES = [
    pytest.param(name, marks=pytest.mark.thorough)
    for name in ("bsr-1-noisy", "bsr-4", "bsr-5-noisy", "bsr-7", "sgd-1", "smi-4")
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bsr-8", pytest.param("bsr-1", marks=pytest.mark.thorough), *LONG_FIGURES])
def test_every_figure_can_be_drawn(run, tmp_path, name):
    code, out, _ = run(f"figure {name} --quick --out {tmp_path}")
    assert code in (0, 3)
    assert name in out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("figure", ["name", "--list", "--all"]),
        ("figure bsr-1 --all", ["--all", "not allowed with"]),
        ("figure bsr-3 --quick --out {folder} --data {folder}", ["data = ", "nothing for bsr-3"]),
        ("figure smi-3-right --out {folder} --reference {folder}", ["reference = ", "nothing for smi-3-right"]),
        ("figure nope", ["name = 'nope'", "bsr-1"]),
        ("figure bsr-3 --quick --out {folder} --reference {folder}/missing", ["reference = ", "existing folder"]),
    ],
)
def test_bad_figures(run, tmp_path, line, words):
    is_one_clear_line(run(line.format(folder=tmp_path)), *words)


# --- bad usage --------------------------------------------------------------------------------------------------------


def is_one_clear_line(result, *words):
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("glassformer")
    assert "Traceback" not in err
    for word in words:
        assert word in err


BAD = [
    ("limits bsr --rho 0.5 --alpha -0.1", ["alpha = -0.1", ">= 0"]),
    ("limits bsr --rho 0.5 --alpha nan", ["alpha = nan", "finite"]),
    ("limits bsr --rho 0.5 --alpha inf", ["alpha = inf", "finite"]),
    ("limits bsr --rho 0.5 --alpha 0.1,nan", ["alpha = nan", "finite"]),
    ("limits bsr --rho -1 --alpha 0.5", ["rho = -1.0", ">= 0"]),
    ("limits bsr --rho nan --alpha 0.5", ["rho = nan", ">= 0"]),
    ("limits bsr --rho 0.5 --beta 0 --alpha 0.5", ["beta = 0.0", "> 0"]),
    ("limits bsr --rho 0.5 --beta -2 --alpha 0.5", ["beta = -2.0", "> 0"]),
    ("limits bsr --rho 0.5 --noise -1 --alpha 0.5", ["noise = -1.0", ">= 0"]),
    ("limits bsr --rho 0.5 --noise inf --alpha 0.5", ["noise = inf", "finite"]),
    ("limits bsr --rho 0.5 --noise much --alpha 0.5", ["--noise", "'much'"]),
    ("limits bsr --rho 0.5 --channel relu --alpha 0.5", ["channel = 'relu'", "gaussian, sign, absolute"]),
    ("limits bsr --rho 0.5 --width 2 --alpha 0.5", ["rho = 0.5 and width = 2 exclude each other"]),
    ("limits bsr --width 0 --alpha 0.5", ["width = 0", ">= 1"]),
    ("limits bsr --width 2 --beta inf --alpha 0.5", ["beta = inf", "finite"]),
    ("limits bsr --alpha 0.5", ["width is missing", "rho"]),
    ("limits bsr --rho 0.5", ["--alpha"]),
    ("limits bsr --rho x --alpha 0.5", ["--rho", "'x'"]),
    ("limits lstm --rho 0.5 --alpha 0.5", ["MODEL", "'lstm'", "bsr", "aim"]),
    ("limits aim --alpha 0.5", ["--rho"]),
    ("limits aim --rho 0.5 --alpha 0.5 --tokens 1", ["tokens = 1", ">= 2"]),
    ("limits aim --rho 0.5 --alpha 0.5 --tokens 0 --channel linear", ["tokens = 0", ">= 1"]),
    ("limits aim --rho 0.5 --alpha 0.5 --channel relu", ["channel = 'relu'", "linear, softmax, hardmax"]),
    ("limits aim --rho 0.5 --alpha 0.5 --channel hardmax --noise 0.1", ["noise = 0.1", "hardmax"]),
    ("limits aim --rho 0.5 --alpha 0.5 --temperature 0", ["temperature = 0", "> 0"]),
    ("limits aim --rho 0.5 --alpha 0.5 --channel linear --temperature 2", ["temperature = 2", "softmax"]),
    ("limits aim --rho inf --alpha 0.5 --channel hardmax", ["rho = inf", "hardmax"]),
    ("simulate aim --rho 0 --alpha 0.5", ["rho = 0", "needs a finite size"]),
    ("limits bsr --rho 0.5 --alpha abc", ["alpha = 'abc'", "start:stop:count"]),
    ("limits bsr --rho 0.5 --alpha 0:1", ["alpha = '0:1'", "start:stop:count"]),
    ("limits bsr --rho 0.5 --alpha 0:1:0", ["alpha = '0:1:0'", "count >= 1"]),
    ("limits bsr --rho 0.5 --alpha 0:1:2.5", ["alpha = '0:1:2.5'", "start:stop:count"]),
    ("limits bsr --rho 0.5 --alpha 0:1:-3", ["alpha = '0:1:-3'", "count >= 1"]),
    ("limits bsr --rho 0.5 --alpha 0:inf:3", ["alpha = '0:inf:3'", "start:stop:count"]),
    ("limits bsr --rho 0.5 --alpha 0.1,,0.2", ["alpha = '0.1,,0.2'", "comma list"]),
    ("limits bsr --rho 0.5 --alpha ''", ["alpha = ''", "a number"]),
    ("landscape bsr --rho 0.5 --alpha nan", ["alpha = nan", "finite"]),
    ("landscape bsr --rho 0.5 --alpha 0.5 --overlaps 3", ["--overlaps = 3", ">= 10"]),
    ("landscape bsr --rho 0.5 --alpha 0.5 --row 2", ["row = 2", "from 1 to 1"]),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 0", ["d = 0", ">= 2"]),
    ("simulate bsr --rho 0.5 --alpha -1 --d 10", ["alpha = -1.0", ">= 0"]),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 10 --seed -1", ["seed = -1", ">= 0"]),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 10 --instances 0", ["instances = 0", ">= 1"]),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 10 --instances 1000000", ["instances = 1000000", "less than a day"]),
    (
        "simulate bsr --rho 0.5 --alpha 0.5 --d 10 --learner gd --initialisations 1000000",
        ["initialisations = 1000000", "at most"],
    ),
    (
        "simulate bsr --rho 0.5 --alpha 0.5 --d 10 --learner gd --student-width 1000000",
        ["--student-width", "1 to 100000"],
    ),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 10 --learner gd --weight-decay 1e300", ["--weight-decay = 1e+300", "1e6"]),
    ("simulate attention --alpha 0.5 --d 10 --learner sgd --weight-decay 1e300", ["--weight-decay = 1e+300", "1e6"]),
    ("simulate attention --alpha 0.5 --d 10 --learner online-sgd --weight-decay 1e300", ["--weight-decay", "1e6"]),
    ("landscape bsr --rho 0.5 --alpha 0:1:60000 --overlaps 4000", ["alpha = '<60000 values>'", "less than a day"]),
    ("limits bsr --rho 0.5 --alpha 0:1:10000000", ["alpha = '0:1:10000000'", "at most 1000000"]),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 10 --learner newton", ["learner = 'newton'", "gamp"]),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 10 --storage half", ["storage = 'half'", "float32"]),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 10 --max-iterations 0", ["--max-iterations = 0", ">= 1"]),
    ("simulate bsr --rho 0.5 --alpha 0.5 --d 999999", ["d = 999999", "memory"]),
    ("simulate bsr --rho 0 --alpha 0.5 --d 10", ["rho = 0.0", "simulation needs a finite size"]),
    ("simulate bsr --rho inf --alpha 0.5 --d 10", ["rho = inf", "simulation needs a finite size"]),
    ("simulate bsr --rho 0.5 --beta inf --alpha 0.5 --d 10", ["beta = inf", "simulation needs a finite size"]),
    ("thresholds bsr --rho 0.5 --alpha 0.5", ["--alpha"]),
    ("thresholds bsr --rho -1", ["rho = -1.0"]),
    ("thresholds bsr --rho 0.5 --subspace 2", ["subspace = '2'", "integers from 1 to 1"]),
    ("thresholds bsr --rho 0.5 --known 1", ["--known 1", "add --subspace"]),
    ("thresholds bsr --rho 0.5 --subspace 1 --known 1", ["known = '1'", "other rows than those of --subspace 1"]),
    ("thresholds bsr --rho 0.5 --subspace 1 --learner ridge", ["--subspace 1", "learner ridge"]),
    ("plan bsr --rho 0.3 --noise 0.1 --target 0.2 --d 0", ["d = 0", ">= 2"]),
    ("schema foo", ["kind = 'foo'", "table, thresholds"]),
    ("frobnicate", ["frobnicate", "limits"]),
    ("limits bsr --rho 0.5 --alpha 0.5 --csv /nonexistent/a.csv", ["/nonexistent"]),
]


@pytest.mark.thorough
def test_commands_that_take_long_are_refused_with_their_time_unless_data_points_are_given(run, monkeypatch):
    line = "simulate attention --alpha 1 --depth 2 --heads 2 --untied --d 60"
    is_one_clear_line(run(line), "depth = 2", "at most 10 minutes", "minutes needed", "--points 2048")
    monkeypatch.setattr("glassformer.verbs.simulate.experiment_of", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(f"{line} --points 2048")


@pytest.mark.slow
@pytest.mark.parametrize(("line", "words"), BAD, ids=[line for line, _ in BAD])
def test_bad_usage_is_one_line_on_standard_error(run, line, words):
    is_one_clear_line(run(line), *words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("limits bsr --rho 0.5 --alpha -0.1,0.2", ["alpha = -0.1", ">= 0"]),
        ("limits bsr --rho -1e3 --alpha 0.5", ["rho = -1000.0", ">= 0"]),
        ("limits bsr --rho -inf --alpha 0.5", ["rho = -inf", ">= 0"]),
        ("limits attention --alpha 0.5 --rank -1,2", ["rank = -1 ", ">= 1"]),
        ("limits aim --alpha 0.5 --rho 0.5 --layers 3 --skip -.5,2", ["skip = (-0.5, 2.0)", ">= 0"]),
        ("limits smi --alpha 0.5 --indices 1 --link {link} --feature-spectrum -1,3", ["--feature-spectrum = ", "-1"]),
        ("phase-diagram bsr --rho 0.5 --along -1:1:3", ["along = '-1:1:3'", "NAME=SPEC"]),
        ("limits bsr --rho 0.5 --alpha 0.5 --json -5,3", ["--json", "'-5,3'"]),
        ("limits bsr --rho 0.5 --alpha --json", ["--alpha", "expected one argument"]),
        ("limits bsr --rho=0.5 -5,3 --alpha 0.5", ["'-5,3' is neither an option nor the value of one"]),
    ],
)
def test_a_negative_list_is_named_with_its_value(run, line, words, tmp_path):
    (tmp_path / "link.py").write_text("def link(z):\n    return z[0, 0]\n")
    is_one_clear_line(run(line.format(link=tmp_path / "link.py:link")), *words)


def test_an_unknown_picture_format_is_one_line(run, tmp_path):
    is_one_clear_line(run(f"{COMMANDS['limits']} --plot {tmp_path / 'a.nope'}"), "nope")


def test_no_command_shows_the_usage(run):
    code, out, _ = run("")
    assert code == 2
    assert "usage: glassformer" in out


@pytest.mark.slow
def test_exit_codes_and_streams_of_a_real_process():
    good = in_process_of_its_own("limits", "bsr", "--alpha", "0.3", "--rho", "inf", "--json")
    assert good.returncode == 0
    assert good.stderr == ""
    assert json.loads(good.stdout)["points"][0]["error"] == pytest.approx(0.7)
    bad = in_process_of_its_own("limits", "bsr", "--alpha", "nan", "--rho", "0.5")
    assert bad.returncode == 2
    assert bad.stdout == ""
    assert bad.stderr.count("\n") == 1
    hard = in_process_of_its_own("limits", "bsr", "--alpha", "1.3", "--rho", "0", "--channel", "absolute")
    assert hard.returncode == 3
    assert hard.stderr.startswith("glassformer: bistable: ")


# --- help -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("line", ["--help", "limits --help", "simulate --help", "figure --help", "--version"])
def test_help_imports_nothing_heavy(line):
    code = (
        "import sys\n"
        "from glassformer.cli import main\n"
        "try:\n"
        f"    main({line.split()!r})\n"
        "except SystemExit as leaving:\n"
        "    assert leaving.code == 0\n"
        "print('heavy:', *sorted(name for name in sys.modules if '.' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    text, modules = done.stdout.split("heavy:")
    assert "glassformer" in text
    assert not HEAVY & set(modules.split())


def test_options_of_a_model_are_listed_without_the_optimisers_of_scipy():
    code = (
        "import sys\n"
        "from glassformer.cli import main\n"
        "try:\n"
        "    main(['limits', 'bsr', '--help'])\n"
        "except SystemExit:\n"
        "    print('scipy.optimize' in sys.modules)"
    )
    # They would take half of the time.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["limits aim --alpha 0.05,0.1", "simulate aim --alpha 0.1 --d 12 --instances 2"])
def test_attention_results_are_drawn_and_written(run, tmp_path, command):
    plot, csv = tmp_path / "a.png", tmp_path / "a.csv"
    code, _, _ = run(f"{command} --rho 0.5 --plot {plot} --csv {csv}")
    assert code in (0, 3)
    assert plot.stat().st_size > 1000
    assert csv.read_text().startswith("alpha,error")


def test_help_tells_no_default_of_what_cannot_be_left_out(run):
    code, out, _ = run("trajectory smi --help")
    said = " ".join(out.split())
    assert (code, "directions P of the weights --tokens" in said) == (0, True), said
    assert "tokens L per sequence (default 1)" in said


def test_help_documents_the_contract(run):
    code, out, _ = run("limits bsr --help")
    assert code == 0
    for word in ("start:stop:count", "--rho 0", "Exit codes", "--json", "--csv", "--plot", "--channel"):
        assert word in out


def test_the_module_runs_where_the_package_is_not_installed_as_a_script():
    source = Path(main.__code__.co_filename).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", "--version"], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.startswith("glassformer ")
