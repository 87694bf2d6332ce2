"""Sweeps: their points, their store, and what interruptions leave of them."""

import asyncio
import contextlib
import errno
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
import xarray

from glassformer import BilinearSequenceRegression, IncompatibleError, Sweep, __version__, limits, simulate
from glassformer.cli import main
from glassformer.errors import DataError, ParameterError
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models.registry import build
from glassformer.plotting.sweep import plot
from glassformer.sweeps.collect import collect, to_frame
from glassformer.sweeps.run import progress, run_sweep
from glassformer.sweeps.store import Record, Store
from glassformer.sweeps.workers import compute_tasks

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "sweeps.md"
THEORY = Sweep("bsr", {"rho": [0.2, 0.5], "alpha": "0.1:0.9:5"}, parameters={"beta": 1})
RUNS = Sweep(
    "bsr",
    {"rho": [0.2, 0.5], "alpha": [0.2, 0.4, 0.6]},
    verb="simulate",
    parameters={"beta": 1, "noise": 1},
    runs={"d": 12, "instances": 2, "seed": 3},
)
TOML = """
[sweep]
model = "bsr"
verb = "simulate"
[parameters]
beta = 1
noise = 1
[grid]
rho = [0.2, 0.5]
alpha = [0.2, 0.4, 0.6]
[runs]
d = 12
instances = 2
seed = 3
"""


def content(store):
    """All that was found, without the time it took."""
    records = Store.existing(store).read()
    return {key: (record.status, record.values, record.message) for key, record in records.items()}


def files(store):
    return {path.name: path.stat().st_mtime_ns for path in (Path(store) / "points").iterdir()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    run_sweep(RUNS, folder)
    return content(folder)


@pytest.mark.slow
def test_theory_is_that_of_the_plain_computation(tmp_path):
    assert run_sweep(THEORY, tmp_path).good
    found = collect(tmp_path)
    for rho in (0.2, 0.5):
        plain = limits(BilinearSequenceRegression(beta=1, rho=rho), np.linspace(0.1, 0.9, 5))
        np.testing.assert_allclose(found["error"].sel(rho=rho), plain["error"], rtol=1e-9, atol=1e-12)
    assert found["alpha"].attrs["units"] == "n/(dL)"
    assert found.attrs["beta"] == 1


@pytest.mark.slow
def test_runs_are_those_of_the_plain_simulation(undisturbed, tmp_path):
    run_sweep(RUNS, tmp_path)
    found = collect(tmp_path)
    model = BilinearSequenceRegression(beta=1, rho=0.5, noise=1)
    plain = simulate(model, [0.2, 0.4, 0.6], d=12, instances=2, seed=3)
    np.testing.assert_allclose(found["error"].sel(rho=0.5).mean("seed"), plain["error"], rtol=1e-9)
    assert list(found["seed"].values) == [3, 4]
    assert content(tmp_path) == undisturbed


def test_thresholds_have_axes_without_alpha(tmp_path):
    run_sweep(Sweep("bsr", {"rho": [0.2, 0.5]}, verb="thresholds", parameters={"beta": 1}), tmp_path)
    np.testing.assert_allclose(collect(tmp_path)["perfect_recovery"], [0.36, 0.75])


@pytest.mark.slow
def test_a_picture_of_a_sweep_has_its_model_and_parameters_for_a_title(tmp_path, monkeypatch):
    from glassformer.plotting import sweep

    run_sweep(Sweep("bsr", {"rho": [0.2, 0.5]}, verb="thresholds", parameters={"noise": 0.1}), tmp_path)
    said = []
    monkeypatch.setattr(sweep, "title_of", lambda model, parameters: said.append((model, parameters["noise"])) or "")
    plot(collect(tmp_path), tmp_path / "a.png")
    assert said == [("bsr", 0.1)]


def test_what_is_no_number_has_no_error_either(tmp_path):
    run_sweep(Sweep("bsr", {"rho": [0.2]}, verb="thresholds", parameters={"noise": 0.1}), tmp_path)
    found = collect(tmp_path)
    assert np.isinf(found["perfect_recovery"]).all()
    assert np.isnan(found["perfect_recovery_error_estimate"]).all()


def test_what_thresholds_note_is_kept(tmp_path):
    run_sweep(Sweep("bsr", {}, verb="thresholds", parameters={"rho": 0.5, "noise": 0.1}), tmp_path)
    assert "perfect_recovery: " in str(collect(tmp_path)["message"].values)


@pytest.mark.slow
def test_what_simulations_note_is_kept(tmp_path):
    # The width is rounded to a whole number.
    grid = {"rho": [0.33], "alpha": [0.5]}
    run_sweep(Sweep("bsr", grid, verb="simulate", learner="ridge", runs={"d": 10}), tmp_path)
    assert "rho = 0.3" in collect(tmp_path)["message"].item()


@pytest.mark.slow
def test_settings_are_written_as_on_the_command_line(tmp_path):
    (tmp_path / "losses.py").write_text("def doubled(label, field):\n    return (label - field) ** 2\n")
    common = {"parameters": {"beta": 1, "noise": 1, "rho": 0.5}, "folder": str(tmp_path)}
    errors = {}
    for name, settings in {
        "best": {"strength": "best"},
        "default": {},
        "own": {"loss": "losses.py:doubled", "strength": 0.4},
        "square": {"strength": 0.2},
    }.items():
        learner = {"name": "risk", **settings}
        run_sweep(Sweep("bsr", {"alpha": [0.5]}, learner=learner, **common), tmp_path / name)
        errors[name] = collect(tmp_path / name)["error"].item()
    assert errors["best"] == errors["default"]
    np.testing.assert_allclose(errors["own"], errors["square"], rtol=1e-6)


def test_a_loss_of_a_file_is_told_by_its_content(tmp_path):
    keys = set()
    for factor in (1, 2):
        (tmp_path / "losses.py").write_text(f"def mine(label, field):\n    return {factor} * (label - field) ** 2\n")
        learner = {"name": "risk", "loss": "losses.py:mine", "strength": 0.4}
        sweep = Sweep("bsr", {"alpha": [0.5]}, parameters={"rho": 0.5}, learner=learner, folder=str(tmp_path))
        keys.add(sweep.points[0].key)
    assert len(keys) == 2


def test_limits_and_thresholds_of_a_learner(tmp_path):
    settings = {"strength": 0.3, "loss": "square"}
    plain = limits(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), [0.3, 0.6], RegularisedRisk(**settings))
    common = {"parameters": {"beta": 1, "noise": 0.1, "rho": 0.5}, "learner": {"name": "risk", **settings}}
    run_sweep(Sweep("bsr", {"alpha": [0.3, 0.6]}, **common), tmp_path / "limits")
    np.testing.assert_allclose(collect(tmp_path / "limits")["error"], plain["error"], rtol=1e-9)
    run_sweep(Sweep("bsr", {}, verb="thresholds", **common), tmp_path / "thresholds")
    assert collect(tmp_path / "thresholds")["interpolation"] == 1


def test_another_learner_has_other_keys():
    grid = {"alpha": [0.3]}
    keys = {
        Sweep("bsr", grid, parameters={"rho": 0.3}, learner=name).points[0].key for name in ("gamp", "ridge", "risk")
    }
    assert len(keys) == 3


@pytest.mark.slow
def test_vectors_and_matrices_keep_their_shape(tmp_path):
    # The link of the README, whose programs are compiled once for all tests.
    link = "import jax.numpy as jnp\n\ndef gated(z):\n    return z[0, 0] * jnp.tanh(z[1, 0])\n"
    (tmp_path / "links.py").write_text(link)
    parameters = {"link": "links.py:gated", "indices": 2, "tokens": 1, "noise": 0.1}
    grid = {"side_information": [0.2], "alpha": [0.1]}
    own = Sweep("smi", grid, parameters=parameters, accuracy={"points": 64}, folder=str(tmp_path))
    run_sweep(own, tmp_path / "store")
    found = collect(tmp_path / "store")
    assert found["overlap"].dims == ("side_information", "alpha", "row", "column")
    assert {"overlap_1_2", "row_error_2", "error", "status"} <= set(to_frame(found).columns)


@pytest.mark.slow
def test_a_store_of_another_format_says_so(tmp_path):
    run_sweep(THEORY, tmp_path)
    described = tmp_path / "sweep.json"
    described.write_text(described.read_text().replace('"format": 3', '"format": 1'))
    with pytest.raises(DataError, match=r"run the sweep again.*format 1"):
        collect(tmp_path)


def test_a_computation_without_axes_is_one_line(tmp_path):
    run_sweep(Sweep("bsr", {}, verb="thresholds", parameters={"rho": 0.5}), tmp_path)
    assert len(to_frame(collect(tmp_path))) == 1


@pytest.mark.slow
def test_a_rerun_computes_only_what_is_missing(tmp_path):
    assert run_sweep(THEORY, tmp_path).computed == 10
    before = files(tmp_path)
    assert run_sweep(THEORY, tmp_path).computed == 0
    assert files(tmp_path) == before
    wider = Sweep("bsr", {"rho": [0.2, 0.3, 0.5], "alpha": "0.1:0.9:9"}, parameters={"beta": 1})
    assert run_sweep(wider, tmp_path).computed == 27 - 10
    assert collect(tmp_path)["error"].shape == (3, 9)
    # The narrower sweep is all there still, and fixed parameters count like axes of one value.
    assert run_sweep(Sweep("bsr", {"alpha": "0.1:0.9:5"}, parameters={"beta": 1.0, "rho": 0.5}), tmp_path).computed == 0


def test_failures_are_kept_and_retried_on_request(tmp_path):
    sweep = Sweep("bsr", {"rho": [0.5, -1.0], "alpha": [0.2, 0.3]}, parameters={"beta": 1})
    found = run_sweep(sweep, tmp_path)
    assert found.counts == {"converged": 2, "failed": 2}
    assert not found.good
    assert "rho" in str(collect(tmp_path)["message"].sel(rho=-1.0).values[0])
    assert np.isnan(collect(tmp_path)["error"].sel(rho=-1.0)).all()
    assert run_sweep(sweep, tmp_path).computed == 0
    assert run_sweep(sweep, tmp_path, retry=True).computed == 2


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "changed", "binary"])
def test_a_damaged_record_is_reported_and_computed_again(damage, tmp_path):
    run_sweep(THEORY, tmp_path)
    before = content(tmp_path)
    path = sorted((tmp_path / "points").iterdir())[0]
    text = path.read_text()
    if damage == "cut":
        path.write_text(text[: len(text) - 30])
    elif damage == "changed":
        path.write_text(text.replace('"overlap": 0.', '"overlap": 1.', 1))
    else:
        path.write_bytes(b"\xff\xfe" + text.encode())
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert progress(Store.existing(tmp_path)).counts["missing"] >= 1
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert 1 <= run_sweep(THEORY, tmp_path).computed <= 5
    assert content(tmp_path) == before


@pytest.mark.slow
def test_a_full_disk_ends_in_an_error_and_a_usable_store(tmp_path, monkeypatch):
    replace, calls = Path.replace, []

    def full(self, target):
        calls.append(1)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, target)

    with monkeypatch.context() as patch, pytest.raises(DataError, match="free some space"):
        patch.setattr(Path, "replace", full)
        run_sweep(RUNS, tmp_path)
    left = content(tmp_path)
    assert len(left) == 2
    assert not list(tmp_path.rglob("*.part"))
    assert run_sweep(RUNS, tmp_path).computed == 10


@pytest.mark.parametrize("kept", [slice(0, None, 2), slice(0, 3), slice(0, -1)])
def test_records_that_are_computed_again_are_those_that_were_lost(kept, tmp_path):
    sweep = Sweep("bsr", {"alpha": "0.05:1.5:24"}, parameters={"beta": 1, "rho": 0.5, "noise": 0.1})
    run_sweep(sweep, tmp_path)
    before = {key: record.values for key, record in Store.existing(tmp_path).read().items()}
    (path,) = (tmp_path / "points").iterdir()
    path.write_text("".join(path.read_text().splitlines(keepends=True)[kept]))
    assert run_sweep(sweep, tmp_path).computed == 24 - len(range(24)[kept])
    for key, record in Store.existing(tmp_path).read().items():
        # Rounding: batches of another size may be summed in another order.
        assert record.values["error"] == pytest.approx(before[key]["error"], rel=1e-14)
        assert abs(record.values["error"] - before[key]["error"]) <= before[key]["error_estimate"]


def test_an_error_of_jax_fails_its_own_points_only(tmp_path, monkeypatch):
    def broken(name, parameters, folder):
        if parameters["rho"] == 0.2:
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return build(name, parameters, folder)

    monkeypatch.setattr("glassformer.sweeps.compute.build", broken)
    found = run_sweep(Sweep("bsr", {"rho": [0.2, 0.5], "alpha": [0.5]}), tmp_path)
    assert found.counts == {"failed": 1, "converged": 1}
    assert "RESOURCE_EXHAUSTED" in collect(tmp_path)["message"].values[0, 0]


def test_a_point_that_two_sweeps_have_keeps_its_result(tmp_path):
    point = Sweep("bsr", {"rho": [0.5], "alpha": [0.5]}).points[0]
    for first, second in (("a", "b"), ("b", "a")):
        store = Store(tmp_path / first)
        store.write(first, {point.key: (point, Record("failed", {}))})
        store.write(second, {point.key: (point, Record("converged", {"error": 0.5}))})
        assert store.read()[point.key].good


class Scaled:
    """Functions that look equal in words."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, h):
        return self.scale * h

    def __repr__(self):
        return "Scaled"


def test_functions_of_equal_words_are_points_of_their_own(tmp_path):
    fixed = {"rho": 0.5, "noise": 0.5}
    run_sweep(Sweep("bsr", {"link": [Scaled(1.0), Scaled(3.0)], "alpha": [0.5]}, parameters=fixed), tmp_path)
    error = collect(tmp_path)["error"].to_numpy().ravel()
    expected = [limits(BilinearSequenceRegression(noise=noise, rho=0.5), 0.5)["error"][0] for noise in (0.5, 0.5 / 9)]
    np.testing.assert_allclose(error, expected, rtol=1e-6)


def test_a_store_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="store"):
        run_sweep(THEORY, tmp_path / "file")
    assert main(["sweep", "status", str(tmp_path / "nothing")]) == 2
    assert "sweep run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model": "ising"}, "model"),
        ({"verb": "guess"}, "verb"),
        ({"grid": {"rho": [0.5]}}, "alpha"),
        ({"grid": {"alpha": []}}, "alpha"),
        ({"grid": {"alpha": [0.1, 0.1]}}, "alpha"),
        ({"grid": {"alpha": "0.1:0.2"}}, "alpha"),
        ({"grid": {"alpha": [0.1], "beta": [1, 2]}}, "beta"),
        ({"parameters": {"beta": 1, "rho": 0.5, "width_": 3}}, "width_"),
        ({"parameters": {"beta": 1, "rho": 0.5, "_accuracy": 3}}, "_accuracy"),
        ({"runs": {"d": 10}}, "simulate"),
        ({"verb": "simulate", "learner": "magic"}, "learner"),
        ({"verb": "simulate", "learner": {"name": "magic"}}, "learner"),
        ({"verb": "simulate", "learner": {"name": "gamp", "speed": 1}}, "speed"),
        ({"verb": "simulate", "learner": {"speed": 1}}, r"name = None .*table \[learner\]"),
        ({"verb": "simulate", "learner": 3}, "learner = 3"),
        ({"verb": "simulate", "learner": ["gamp", "ridge"]}, "one learner, for verb simulate"),
        ({"verb": "compare", "learner": "gamp"}, r"a list of learners, in a file tables \[\[learner\]\]"),
        ({"verb": "compare", "learner": []}, "a list of learners"),
        ({"verb": "compare", "learner": ["ridge", {"name": "ridge"}]}, "learners that differ"),
        ({"learner": "magic"}, "learner"),
        ({"learner": {"name": "gamp", "loss": "hinge"}}, "loss"),
        ({"learner": {"name": "ridge", "rho": 0.5}}, r"rho.*table \[parameters\], or of"),
        ({"model": "attention", "parameters": {"points": 64}}, r"points = 64 .*table \[accuracy\]"),
        ({"learner": "risk", "parameters": {"rho": 0.5, "strength": 0.1}}, r"strength = 0.1 .*table \[learner\]"),
        ({"verb": "simulate", "runs": {"damping": 0.5}}, r"damping = 0.5 .*table \[learner\]"),
        ({"verb": "simulate", "learner": {"name": "gamp", "storage": "float32"}}, r"storage = .*table \[runs\]"),
        ({"verb": "simulate", "learner": {"name": "gamp", "tolerance": 0.1}}, r"tolerance = .*table \[accuracy\]"),
        ({"verb": "simulate", "grid": {"alpha": [0.1], "seed": [1]}}, "seed"),
        ({"accuracy": {"speed": 1}}, "speed = 1 .*one of tolerance"),
        ({"accuracy": {"tolerance": 2}}, "tolerance = 2"),
        ({"accuracy": {"points": "a"}}, "points = 'a'"),
        ({"accuracy": 3}, "accuracy = 3"),
        ({"target": 0.1}, "target = 0.1 .*belongs to plan, not to limits"),
        ({"steps": 3}, "steps = 3 .*belongs to trajectory, not to limits"),
        ({"quantity": "error"}, "quantity = .*belongs to plan and compare, not to limits"),
        ({"verb": "plan", "grid": {}}, "target = None .*plan needs one"),
        ({"verb": "plan", "grid": {}, "target": -1.0}, "target = -1.0"),
        ({"verb": "plan", "grid": {}, "target": 0.1, "quantity": "colour"}, "quantity = 'colour'"),
        ({"verb": "plan", "target": 0.1}, "no axis alpha, for plan"),
        ({"verb": "plan", "grid": {}, "target": 0.1, "runs": {"d": 50, "seed": 1}}, "seed = 1"),
        ({"verb": "trajectory", "grid": {}}, "an axis alpha, for trajectory"),
        ({"verb": "trajectory", "steps": 0}, "steps = 0"),
        ({"verb": "trajectory", "start": 0.5}, "start = 0.5"),
        ({"verb": "trajectory", "runs": {"instances": 2}}, "instances = 2 .*without the token dimension d"),
    ],
)
def test_mistakes_in_a_sweep_are_named(changed, named):
    with pytest.raises(ParameterError, match=named):
        Sweep(**{"model": "bsr", "grid": {"alpha": [0.1]}, "parameters": {"beta": 1, "rho": 0.5}, **changed})


def test_axes_of_whole_numbers_are_given_by_their_ends_as_well():
    own = {"parameters": {"rho": 0.5}, "verb": "simulate"}
    assert Sweep("bsr", {"alpha": [0.5], "d": "20:40:3"}, **own).axes["d"] == [20, 30, 40]
    with pytest.raises(ParameterError, match=r"d\[1\] = 20.5"):
        Sweep("bsr", {"alpha": [0.5], "d": "20:21:3"}, **own)


def test_settings_that_cannot_be_identified_are_computed_with_a_warning():
    numbers = (number for number in ())

    def loss(y, h):
        return (y - h) ** 2 if numbers else 0.0

    learner = {"name": "risk", "loss": loss, "strength": 0.1}
    own = Sweep("bsr", {"alpha": [0.5]}, "simulate", {"rho": 0.5, "noise": 0.1}, learner)
    with pytest.warns(RuntimeWarning, match="this learner are valid for this run only"):
        assert own.points[0].key != own.points[0].key


@pytest.mark.parametrize(
    ("text", "named"),
    [("[sweep]\nmodel = ", "TOML"), ("[model]\nname = 1\n", "model"), ("[sweep]\nmodel = 'bsr'\n", "verb")],
)
def test_mistakes_in_a_file_are_named(text, named, tmp_path):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(ParameterError, match=named):
        Sweep.from_toml(tmp_path / "sweep.toml")


@pytest.mark.slow
def test_a_link_of_ones_own_is_found_beside_the_file_and_part_of_the_key(tmp_path):
    (tmp_path / "links.py").write_text("def link(z):\n    return 2.0 * z[0, 0]\n")
    (tmp_path / "sweep.toml").write_text(
        "[sweep]\nmodel = 'smi'\nverb = 'limits'\n[parameters]\nlink = 'links.py:link'\nindices = 1\nnoise = 0.1\n"
        "[grid]\nalpha = [0.5]\n"
    )
    links = [tmp_path / "links.py"]
    assert run_sweep(Sweep.from_toml(tmp_path / "sweep.toml", links), tmp_path / "store").computed == 1
    assert run_sweep(Sweep.from_toml(tmp_path / "sweep.toml", links), tmp_path / "store").computed == 0
    (tmp_path / "links.py").write_text("def link(z):\n    return 3.0 * z[0, 0]\n")
    assert run_sweep(Sweep.from_toml(tmp_path / "sweep.toml", links), tmp_path / "store").computed == 1


@pytest.mark.slow
def test_the_command_line(tmp_path, capsys):
    (tmp_path / "sweep.toml").write_text(TOML.replace("instances = 2", "instances = 1"))
    store = str(tmp_path / "store")
    assert main(["sweep", "run", str(tmp_path / "sweep.toml"), "--store", store, "--json"]) in (0, 3)
    assert json.loads(capsys.readouterr().out)["computed"] == 6
    main(["sweep", "status", store])
    assert "6 points" in capsys.readouterr().out
    assert main(["sweep", "collect", store, "--netcdf", f"{store}/a.nc", "--csv", f"{store}/a.csv"]) == 0
    import pandas
    import xarray

    frame = pandas.read_csv(f"{store}/a.csv")
    with xarray.open_dataset(f"{store}/a.nc") as found:
        assert found["error"].shape == (2, 3, 1)
        np.testing.assert_allclose(frame["error"], found["error"].values.ravel())
        assert found.attrs["learner"] == "gamp"
    assert main(["sweep", "plot", store]) == 0
    assert (tmp_path / "store" / "sweep.png").stat().st_size > 5000
    with pytest.raises(ParameterError, match="quantity"):
        plot(collect(store), tmp_path / "a.png", "colour")


@pytest.mark.slow
def test_collecting_what_is_not_settled_exits_as_status_does(tmp_path, capsys):
    run_sweep(THEORY, tmp_path)
    assert main(["sweep", "collect", str(tmp_path)]) == 0
    sorted((tmp_path / "points").iterdir())[0].unlink()
    assert main(["sweep", "collect", str(tmp_path)]) == main(["sweep", "status", str(tmp_path)]) == 3
    assert "5 missing" in capsys.readouterr().err


def test_large_seeds_are_written_as_netcdf(tmp_path):
    runs = {"d": 4, "seed": 2**31}
    run_sweep(Sweep("bsr", {"alpha": [0.5]}, "simulate", {"rho": 0.5, "noise": 0.1}, "ridge", runs), tmp_path)
    assert main(["sweep", "collect", str(tmp_path), "--netcdf", str(tmp_path / "a.nc")]) == 0
    with xarray.open_dataset(tmp_path / "a.nc", engine="scipy") as found:
        assert found["seed"].values.tolist() == [2**31]


def test_records_tell_their_version(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("glassformer.sweeps.compute.Record", partial(Record, version="0.0.1"))
    run_sweep(Sweep("bsr", {"rho": [0.2], "alpha": [0.3]}), tmp_path)
    assert collect(tmp_path).attrs["glassformer"] == "0.0.1"
    assert main(["sweep", "status", str(tmp_path)]) == 0
    assert "records are of glassformer 0.0.1" in capsys.readouterr().err


def test_records_of_several_versions_name_them_all(tmp_path, monkeypatch):
    run_sweep(Sweep("bsr", {"rho": [0.2], "alpha": [0.3]}), tmp_path)
    monkeypatch.setattr("glassformer.sweeps.compute.Record", partial(Record, version="0.0.1"))
    run_sweep(Sweep("bsr", {"rho": [0.2, 0.5], "alpha": [0.3]}), tmp_path)
    assert collect(tmp_path).attrs["glassformer"] == f"0.0.1, {__version__}"


@pytest.mark.slow
def test_a_sweep_that_hides_another_says_so(tmp_path):
    assert run_sweep(THEORY, tmp_path).hidden == ""
    wider = Sweep("bsr", {"rho": [0.2, 0.5, 1.0], "alpha": "0.1:0.9:5"}, parameters={"beta": 1})
    assert run_sweep(wider, tmp_path).hidden == ""
    other = Sweep("bsr", {"rho": [0.2]}, verb="thresholds")
    assert run_sweep(other, tmp_path).hidden == "limits bsr over rho, alpha"
    again = run_sweep(wider, tmp_path)
    assert (again.computed, again.hidden) == (0, "thresholds bsr over rho")


@pytest.mark.slow
def test_warnings_are_one_line_per_file(tmp_path):
    run_sweep(THEORY, tmp_path)
    path = sorted((tmp_path / "points").iterdir())[0]
    path.write_text(path.read_text().replace("converged", "convergxd", 2))
    command = [sys.executable, "-m", "glassformer", "sweep", "status", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert line.startswith("glassformer: warning: ")
    assert "(lines 1, 2)" in line


def started(folder, *options):
    (folder / "sweep.toml").write_text(TOML)
    command = [sys.executable, "-m", "glassformer", "sweep", "run", "sweep.toml", "--store", "store", *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def until_recorded(folder, count, process=None):
    deadline = time.monotonic() + 120
    while len(list((folder / "store" / "points").glob("*.jsonl"))) < count:
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.02)


def workers_of(process):
    return [child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), pytest.param(("--workers", "2"), marks=pytest.mark.thorough)])
def test_a_killed_driver_loses_and_repeats_nothing(options, tmp_path, undisturbed):
    process = started(tmp_path, *options)
    until_recorded(tmp_path, 2, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = files(tmp_path / "store")
    assert 2 <= len(before) <= 12
    process = started(tmp_path, *options)
    assert b"Traceback" not in process.communicate(timeout=240)[1]
    after = files(tmp_path / "store")
    assert {name: after[name] for name in before} == before
    assert content(tmp_path / "store") == undisturbed


@pytest.mark.thorough
def test_a_killed_worker_is_replaced(tmp_path, undisturbed):
    process = started(tmp_path, "--workers", "2")
    until_recorded(tmp_path, 1, process)
    workers_of(process)[0].kill()
    assert b"Traceback" not in process.communicate(timeout=240)[1]
    assert content(tmp_path / "store") == undisturbed


@pytest.mark.thorough
def test_interrupts_end_a_sweep_and_its_workers_without_a_word_more(tmp_path):
    (tmp_path / "sweep.toml").write_text(TOML.replace("instances = 2", "instances = 400"))
    command = [sys.executable, "-m", "glassformer", "sweep", "run", "sweep.toml", "--store", "store", "--workers", "2"]
    # A group of its own, whose processes are all interrupted, as on a terminal.
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    until_recorded(tmp_path, 1, process)
    workers = workers_of(process)
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
    said = b"glassformer: interrupted: finished points are kept, and the same command goes on\n"
    assert process.communicate(timeout=60)[1] == said
    assert process.returncode == 130
    assert not any(worker.is_running() for worker in workers)
    assert len(content(tmp_path / "store")) >= 1


# The documented job below has two processes as well.
@pytest.mark.thorough
@pytest.mark.slow
def test_two_processes_share_a_store(tmp_path, undisturbed):
    together = [started(tmp_path) for _ in range(2)]
    for process in together:
        assert b"Traceback" not in process.communicate(timeout=240)[1]
    assert content(tmp_path / "store") == undisturbed


@pytest.mark.thorough
def test_a_cluster_loses_a_worker_and_nothing_else(tmp_path, undisturbed):
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        store = tmp_path / "store"

        def kill():
            until_recorded(tmp_path, 1)
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        (store / "points").mkdir(parents=True)
        thread.start()
        found = run_sweep(RUNS, store, scheduler=cluster.scheduler_address)
        thread.join()
    assert found.complete
    assert found.computed == 12
    assert content(store) == undisturbed


SRUN = """#!/bin/bash
shift  # the number of tasks
for task in 1 2; do "$@" & done
wait
"""


@pytest.mark.thorough
def test_the_documented_job_script_computes_a_sweep(tmp_path, undisturbed):
    (script,) = re.findall(r"```bash\n(#!.*?)```", DOCUMENTATION.read_text(), flags=re.DOTALL)
    (tmp_path / "job.sh").write_text(script)
    (tmp_path / "sweep.toml").write_text(TOML)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srun").write_text(SRUN)
    (tmp_path / "bin" / "srun").chmod(0o755)
    places = [str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(places)}
    with (tmp_path / "output").open("w") as output:
        # A group of its own: a system for jobs ends what a script leaves behind, and so does this test.
        job = subprocess.Popen(
            ["bash", "job.sh"], cwd=tmp_path, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            assert job.wait(timeout=240) == 0, (tmp_path / "output").read_text()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
    assert content(tmp_path / "results") == undisturbed


DEADLY = """
import os, signal
from pathlib import Path

def once(marker):
    if not Path(marker).exists():
        Path(marker).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return marker

def always(marker):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.thorough
def test_tasks_of_lost_workers_are_tried_again_and_given_up_at_last(tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(tmp_path)
    deadly = importlib.import_module("deadly")
    marker = str(tmp_path / "marker")
    found = {}
    assert list(compute_tasks(deadly.once, [marker], found.__setitem__, workers=2)) == [marker]
    assert found == {marker: marker}
    list(compute_tasks(deadly.always, [marker], found.__setitem__, workers=2))
    assert isinstance(found[marker], ChildProcessError)


@pytest.mark.slow
def test_where_tasks_cannot_be_computed_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("glassformer.sweeps.workers"), "_PATIENCE", 0.3)
    with pytest.raises(ParameterError, match="workers"):
        run_sweep(THEORY, tmp_path, workers=0)
    sweep = Sweep("smi", {"alpha": [0.5]}, parameters={"link": lambda z: z[0, 0], "indices": 1, "noise": 0.1})
    with pytest.raises(IncompatibleError, match=r"FILE\.py:FUNCTION"):
        run_sweep(sweep, tmp_path, workers=2)
    with pytest.raises(ParameterError, match="scheduler"):
        run_sweep(THEORY, tmp_path / "other", scheduler="tcp://127.0.0.1:9")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["closed", "silent", "worker", "tcp://nowhere", "nonsense", "", "ucx://a:1"])
def test_an_address_without_a_scheduler_is_one_error(place, monkeypatch):
    workers = importlib.import_module("glassformer.sweeps.workers")
    monkeypatch.setattr(workers, "_PATIENCE", 0.3)
    if place == "worker":
        monkeypatch.setattr(workers, "_kind_of_server", lambda address: asyncio.sleep(0, "Worker"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if place != "closed":
            listening.listen()
        port = listening.getsockname()[1]
        address = f"tcp://127.0.0.1:{port}" if place in ("closed", "silent", "worker") else place
        with pytest.raises(ParameterError, match=r"^scheduler = .*running dask scheduler; ") as caught:
            list(compute_tasks(abs, [1], {}.__setitem__, scheduler=address))
    assert "\n" not in str(caught.value)


@pytest.mark.thorough
def test_a_scheduler_that_dies_is_one_line(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(importlib.import_module("glassformer.sweeps.workers"), "_PATIENCE", 2)
    (tmp_path / "sweep.toml").write_text(TOML)
    place = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    with subprocess.Popen(
        [*command, "--scheduler-file", str(place)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as scheduler:
        deadline = time.monotonic() + 60
        while not (place.exists() and place.read_text().endswith("}")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        address = json.loads(place.read_text())["address"]

        def kill():
            # Tasks are locked while they are on their way.
            while not list((tmp_path / "store").glob("locks/*")):
                time.sleep(0.05)
            scheduler.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        store = str(tmp_path / "store")
        assert main(["sweep", "run", str(tmp_path / "sweep.toml"), "--store", store, "--scheduler", address]) == 2
        thread.join()
    (line,) = capfd.readouterr().err.splitlines()
    assert f"scheduler = '{address}'" in line
    assert "run the same command again" in line


@pytest.mark.slow
def test_a_wrong_scheduler_loses_nothing(tmp_path):
    run_sweep(Sweep("bsr", {"rho": [0.2], "alpha": "0.1:0.9:5"}, parameters={"beta": 1}), tmp_path)
    before = files(tmp_path)
    with pytest.raises(ParameterError, match="scheduler"):
        run_sweep(THEORY, tmp_path, scheduler="nonsense")
    assert files(tmp_path) == before
    assert run_sweep(THEORY, tmp_path).computed == 5


@pytest.mark.thorough
def test_a_file_of_a_spectrum_is_found_beside_the_sweep_and_part_of_the_key(tmp_path, monkeypatch):
    """What the file holds determines a point, not its name."""
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path)
    file, text = (
        tmp_path / "own" / "values.txt",
        '[sweep]\nmodel = "bsr"\nverb = "limits"\n[parameters]\nnoise = 0.1\n',
    )
    (tmp_path / "own" / "sweep.toml").write_text(text + 'spectrum = "values.txt"\n[grid]\nalpha = [0.5]\n')
    found = []
    for values in ([1.0, 0.5, 0.2], [5.0, 0.5, 0.001]):
        np.savetxt(file, values)
        (tmp_path / "values.txt").write_text("7")
        sweep = Sweep.from_toml(tmp_path / "own" / "sweep.toml")
        assert run_sweep(sweep, tmp_path / "store").computed == 1
        assert run_sweep(sweep, tmp_path / "store").computed == 0
        found.append(float(collect(tmp_path / "store")["error"].squeeze()))
        expected = limits(BilinearSequenceRegression(spectrum=values, noise=0.1), [0.5])["error"][0]
        assert found[-1] == pytest.approx(expected, rel=1e-12)
    file.unlink()
    with pytest.raises(ParameterError, match=r"there is no file .*own/values.txt"):
        run_sweep(Sweep.from_toml(tmp_path / "own" / "sweep.toml"), tmp_path / "store")
