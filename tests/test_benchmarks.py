"""Every benchmark, in small: that it runs, not what it finds."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
# What makes a script small; `--quick` where it is not named.
SMALL = {
    "check_aim_gamp": "stability --d 10 --seeds 1 --budget-seconds 5",
    "check_bad_inputs": "cite",
    "check_blind": "--d 12 --instances 1 --sizes 10 12 --size-instances 2 2",
    "check_coverage": "--d 12 --instances 1",
    "check_descent": "8 2 logistic",
    "check_error_bars": "--pairs 2",
    "check_explorer": "--moves 1",
    "check_finite_size": "--d 10 20 --instances 2 --alphas 0.3",
    "check_forecasts": "BilinearRegressor theory --d 6 --sets 1",
    "check_gamp_stability": "--d 10 --seeds 1 --alphas 0.3",
    "check_hidden_states": "--settings 2 --d 60 --instances 2",
    "check_links": "He1",
    "check_mmse_oracle": "1",
    "check_priors": "--d 20 --instances 1",
    "check_real_data": "--folds 2 --only forecast",
    "check_risk": "10 2 hinge",
    "check_risk_parameters": "1",
    "check_row_risk": "10 2 logistic",
    "check_sampled_posteriors": "--quick --points 1 --share 4",
    "check_vamp": "--d 8 --instances 1",
}
SCRIPTS = sorted(path.stem for kind in ("bench_*.py", "check_*.py") for path in FOLDER.glob(kind))


@pytest.mark.thorough
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_runs(name, tmp_path):
    if name == "check_explorer":
        pytest.importorskip("playwright")
    words = SMALL.get(name, "--quick").split()
    found = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *words], cwd=tmp_path, capture_output=True, text=True
    )
    # Small samples may miss what a check asks of large ones, which is its exit code 1.
    assert found.returncode in ((0,) if name.startswith("bench") else (0, 1)), found.stderr
    assert "Traceback" not in found.stderr and found.stdout, found.stderr


@pytest.mark.thorough
def test_tables_of_the_mean_of_descents_are_those_of_the_draws(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("check_mean_of_descents")
    script.write_tables(script.summaries(script.DRAWS), tmp_path)
    tables = sorted(tmp_path.glob("*.csv"))
    assert len(tables) == len(script.TABLES)
    for table in tables:
        assert table.read_text() == (script.PAGES / table.name).read_text(), table.name


@pytest.mark.thorough
def test_runs_of_descent_on_matrices_agree_with_theory(monkeypatch, capsys):
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("check_matrix_descent")
    script.check_runs(script.KEPT, [], quick=False, compute=False)
    inside, count = map(int, re.search(r"all: (\d+) of (\d+)", capsys.readouterr().out).groups())
    # Quantities and steps of a setting are correlated: fewer than 95 % may be inside.
    assert count > 150 and inside >= 0.9 * count


def test_every_small_size_is_that_of_a_benchmark():
    assert set(SMALL) <= set(SCRIPTS)


def test_files_of_the_tests_that_benchmarks_read_exist():
    named = [
        found for path in FOLDER.glob("*.py") for found in re.findall(r'"tests"((?: / "[\w.]+")+)', path.read_text())
    ]
    assert len(named) >= 2
    for parts in named:
        assert FOLDER.parent.joinpath("tests", *re.findall(r"[\w.]+", parts)).is_file(), parts
