"""The command line's contract: JSON keys, exit codes, one line per mistake."""

import json
import subprocess
import sys

import numpy as np
import pytest

from glassformer.cli import main, parse_alpha

LIMITS = ["limits", "bsr", "--rho", "0.5", "--alpha"]


def run(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_usage_error(capsys, *arguments):
    """Exit code and standard error of a call that argparse may end itself."""
    try:
        code = main(list(arguments))
    except SystemExit as stop:
        code = stop.code
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("0.3", [0.3]), ("0.1,0.2,0.5", [0.1, 0.2, 0.5]), ("0:1:3", [0.0, 0.5, 1.0]), ("0.2:0.9:1", [0.2])],
)
def test_alpha_forms(spec, expected):
    assert parse_alpha(spec) == pytest.approx(expected)


def test_limits_json(capsys):
    code, out, _ = run(capsys, *LIMITS, "0:0.6:3", "--beta", "2", "--noise", "0.1", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["model"] == "bsr"
    assert document["parameters"]["rho"] == 0.5 and document["parameters"]["beta"] == 2.0
    assert [point["alpha"] for point in document["points"]] == pytest.approx([0, 0.3, 0.6])
    for point in document["points"]:
        assert {"alpha", "error", "overlap", "status", "error_estimate"} <= set(point)
        assert point["status"] == "converged"
        assert point["error"] + point["overlap"] == pytest.approx(1)
    assert document["points"][0]["error"] == 1


def test_thresholds_json(capsys):
    code, out, _ = run(capsys, "thresholds", "bsr", "--rho", "0.5", "--json")
    entries = {entry["name"]: entry["alpha"] for entry in json.loads(out)["thresholds"]}
    assert code == 0
    assert entries["perfect_recovery"] == pytest.approx(0.75)
    assert entries["weak_recovery"] == 0
    assert 0.75 < entries["nuclear_norm_perfect_recovery"] < 1
    assert json.loads(out)["hard_phase"] is False


def test_thresholds_that_do_not_exist_are_null(capsys):
    _, out, _ = run(capsys, "thresholds", "bsr", "--rho", "0.5", "--noise", "0.1", "--json")
    entries = {entry["name"]: entry["alpha"] for entry in json.loads(out)["thresholds"]}
    assert entries["perfect_recovery"] is None and entries["nuclear_norm_perfect_recovery"] is None


def test_landscape_json(capsys):
    code, out, _ = run(capsys, "landscape", "bsr", "--rho", "0.5", "--alpha", "0.3,0.5", "--points", "40", "--json")
    curves = json.loads(out)["landscapes"]
    assert code == 0
    assert [curve["alpha"] for curve in curves] == [0.3, 0.5]
    assert all(curve["hard_phase"] is False and len(curve["points"]) == 40 for curve in curves)


def test_simulate_json(capsys):
    call = ["simulate", "bsr", "--rho", "0.4", "--noise", "0.1", "--alpha", "0.5", "--d", "24", "--seed", "5"]
    code, out, _ = run(capsys, *call, "--algorithm", "gamp", "--instances", "2", "--json")
    (point,) = json.loads(out)["points"]
    assert {"alpha", "error", "standard_error", "theory", "instances"} <= set(point)
    assert [instance["seed"] for instance in point["instances"]] == [5, 6]
    for instance in point["instances"]:
        assert {"seed", "error", "status", "iterations"} <= set(instance)
    assert point["error"] == pytest.approx(np.mean([instance["error"] for instance in point["instances"]]))
    assert code == (0 if all(i["status"] == "converged" for i in point["instances"]) else 3)


def test_hard_phase_is_exit_code_3_and_named(capsys):
    code, out, err = run(capsys, *LIMITS, "0.8", "--channel", "absolute")
    assert code == 3
    assert "bistable" in out and "bistable" in err


def test_unsettled_run_is_exit_code_3(capsys):
    call = ["simulate", "bsr", "--rho", "0.4", "--alpha", "0.5", "--d", "20", "--instances", "1"]
    code, out, err = run(capsys, *call, "--max-iterations", "2")
    assert code == 3
    assert "iteration_limit" in out and "max_iterations" in err


def test_limits_of_parameters_are_values(capsys):
    for extra in (["--rho", "0"], ["--rho", "inf"], ["--rho", "0.5", "--beta", "inf"], ["--rho", "0", "--beta", "inf"]):
        code, out, _ = run(capsys, "limits", "bsr", "--alpha", "0.9", *extra, "--noise", "0.1", "--json")
        assert code == 0
        assert 0 < json.loads(out)["points"][0]["error"] < 1


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ([*LIMITS, "-0.1"], "alpha"),
        ([*LIMITS, "nan"], "alpha"),
        ([*LIMITS, "0:1"], "alpha"),
        ([*LIMITS, "0:1:0"], "alpha"),
        ([*LIMITS, "much"], "alpha"),
        ([*LIMITS, "0.3", "--beta", "0"], "beta"),
        ([*LIMITS, "0.3", "--beta", "nan"], "beta"),
        ([*LIMITS, "0.3", "--noise", "-1"], "noise"),
        ([*LIMITS, "0.3", "--noise", "much"], "noise"),
        ([*LIMITS, "0.3", "--channel", "relu"], "channel"),
        ([*LIMITS, "0.3", "--width", "2"], "width"),
        (["limits", "bsr", "--alpha", "0.3"], "rho"),
        (["limits", "bsr", "--alpha", "0.3", "--rho", "-1"], "rho"),
        (["limits", "bsr", "--rho", "1"], "alpha"),
        (["limits", "other", "--alpha", "0.3"], "model"),
        (["simulate", "bsr", "--rho", "0", "--alpha", "0.3"], "rho"),
        (["simulate", "bsr", "--rho", "1", "--alpha", "0.3", "--d", "0"], "d"),
        (["simulate", "bsr", "--rho", "1", "--alpha", "0.3", "--seed", "-1"], "seed"),
        (["simulate", "bsr", "--rho", "1", "--alpha", "0.3", "--instances", "0"], "instances"),
        (["simulate", "bsr", "--rho", "1", "--alpha", "0.3", "--algorithm", "magic"], "algorithm"),
        (["simulate", "bsr", "--rho", "1", "--alpha", "0.3", "--storage", "float16"], "storage"),
        (["figure", "no-such"], "name"),
        (["figure", "bsr-3", "--reference", "no/such/folder"], "reference"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(capsys, tmp_path, monkeypatch, call, named):
    monkeypatch.chdir(tmp_path)
    code, err = run_usage_error(capsys, *call)
    assert code == 2
    assert err.count("\n") == 1 and "Traceback" not in err
    assert named in err


def test_files_are_written(capsys, tmp_path):
    for name, extra in (
        ("limits", ["--alpha", "0:1:5"]),
        ("thresholds", []),
        ("landscape", ["--alpha", "0.3", "--points", "30"]),
        ("simulate", ["--alpha", "0.5", "--d", "16", "--instances", "2"]),
    ):
        csv, plot = tmp_path / f"{name}.csv", tmp_path / f"{name}.png"
        run(capsys, name, "bsr", "--rho", "0.5", "--noise", "0.1", *extra, "--csv", str(csv), "--plot", str(plot))
        assert "alpha" in csv.read_text().splitlines()[0]
        assert plot.read_bytes().startswith(b"\x89PNG")


def test_figures_are_listed_and_drawn(capsys, tmp_path):
    code, out, _ = run(capsys, "figure", "--list")
    assert code == 0 and out.startswith("bsr-1")
    code, out, _ = run(capsys, "figure", "bsr-3", "--quick", "--out", str(tmp_path))
    assert code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"bsr-3.png", "bsr-3.csv", "bsr-3.txt"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bsr-1", "bsr-2", "bsr-4", "bsr-5"])
def test_every_figure_can_be_drawn(capsys, tmp_path, name):
    code, out, _ = run(capsys, "figure", name, "--quick", "--out", str(tmp_path))
    assert code in (0, 3)
    assert name in out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_help_imports_nothing_heavy():
    script = (
        "import sys\n"
        "from glassformer.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'matplotlib', 'pandas', 'xarray', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
