"""Every verb of a sweep gives what the verb itself gives, and old words are refused with the new ones."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    DeepAttention,
    IncompatibleError,
    Ridge,
    Sweep,
    compare,
    limits,
    plan,
    simulate,
    thresholds,
    trajectory,
)
from glassformer.cli import main
from glassformer.core.renamed import RENAMED
from glassformer.errors import DataError, ParameterError, RenamedError
from glassformer.plotting.sweep import plot
from glassformer.sweeps.collect import to_frame

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.md"
FIXED = {"beta": 1, "noise": 0.1}
WIDTHS = [0.2, 0.5]


def model(rho):
    return BilinearSequenceRegression(rho=rho, **FIXED)


def found(folder, *arguments, **named):
    """The data set of a sweep that was computed in one call, and is complete."""
    sweep = Sweep(*arguments, **named)
    assert sweep.run(folder).computed == np.prod(sweep.shape)
    assert sweep.run(folder).computed == 0
    return Sweep.collect(folder)


# --- plan -------------------------------------------------------------------------------------------------------------


def test_plans_have_the_sample_ratios_and_numbers_of_samples(tmp_path):
    swept = found(tmp_path, "bsr", {"rho": WIDTHS}, "plan", FIXED, {"name": "ridge"}, {"d": 50}, target=0.3)
    assert (swept.attrs["verb"], swept.attrs["target"], swept.attrs["learner"]) == ("plan", 0.3, "ridge")
    for rho in WIDTHS:
        (entry,) = plan(model(rho), 0.3, "ridge", d=50).entries
        here = swept.sel(rho=rho)
        assert here["ridge"].item() == pytest.approx(entry.alpha, rel=1e-12)
        assert here["ridge_error_estimate"].item() == entry.error_estimate
        assert here["ridge_samples"].item() == entry.samples
        assert here["status"].item() == "converged"


@pytest.mark.thorough
def test_plans_of_a_hard_phase_have_both_curves(tmp_path):
    fixed = {"channel": "absolute"}
    swept = found(tmp_path, "bsr", {"rho": [0.5]}, "plan", fixed, target=0.3)
    plain = plan(BilinearSequenceRegression(rho=0.5, **fixed), 0.3)
    assert plain["bayes_optimal"].alpha < plain["message_passing"].alpha
    assert [swept[entry.name].item() for entry in plain.entries] == [entry.alpha for entry in plain.entries]
    assert not any(str(name).endswith("_samples") for name in swept)
    assert "hard phase" in swept["message"].item()


def test_a_target_that_is_never_reached_is_at_infinity(tmp_path):
    learner = {"name": "ridge", "strength": 10.0}
    swept = found(tmp_path, "bsr", {"rho": [0.5]}, "plan", FIXED, learner, target=1e-9)
    assert np.isinf(swept["ridge"]).all()
    assert "not reached" in swept["message"].item()


@pytest.mark.slow
def test_plans_of_other_quantities_and_sizes_on_the_grid(tmp_path):
    grid = {"rho": [0.5], "d": [20, 50]}
    swept = found(tmp_path, "bsr", grid, "plan", FIXED, target=0.3, quantity="prediction_error")
    plans = [plan(model(0.5), 0.3, quantity="prediction_error", d=d)["bayes_optimal"] for d in (20, 50)]
    assert swept["bayes_optimal_samples"].values.tolist() == [[entry.samples for entry in plans]]


# --- trajectory -------------------------------------------------------------------------------------------------------


def test_trajectories_have_a_dimension_of_iterations(tmp_path):
    grid = {"rho": WIDTHS, "alpha": [0.3, 0.8]}
    swept = found(tmp_path, "bsr", grid, "trajectory", FIXED, steps=4, start="overlap:0.3")
    assert swept["error"].dims == ("rho", "alpha", "iteration")
    assert swept["iteration"].values.tolist() == [0, 1, 2, 3, 4]
    for rho in WIDTHS:
        plain = trajectory(model(rho), [0.3, 0.8], steps=4, start="overlap:0.3")
        np.testing.assert_allclose(swept["error"].sel(rho=rho).values.ravel(), plain["error"], rtol=1e-12)
    frame = to_frame(swept)
    assert len(frame) == 2 * 2 * 5
    assert frame.query("iteration == 0")["error"].tolist() == pytest.approx([0.7] * 4)


@pytest.mark.slow
def test_trajectories_beside_runs(tmp_path):
    grid, runs = {"rho": [0.5], "alpha": [0.3, 0.8]}, {"d": 20, "instances": 2, "seed": 3}
    swept = found(tmp_path, "bsr", grid, "trajectory", FIXED, "gamp", runs, steps=3)
    plain = trajectory(model(0.5), [0.3, 0.8], steps=3, **runs)
    for name in ("error", "measured_error", "measured_standard_error"):
        np.testing.assert_allclose(swept[name].values.ravel(), plain[name], rtol=1e-9)
    np.testing.assert_allclose(swept["alpha_realised"].values.ravel(), plain["alpha"][::4])
    assert main(["sweep", "plot", str(tmp_path), "--quantity", "measured_error"]) == 0
    assert (tmp_path / "sweep.png").stat().st_size > 5000
    assert main(["sweep", "collect", str(tmp_path), "--netcdf", str(tmp_path / "a.nc")]) == 0


@pytest.mark.thorough
def test_an_axis_of_whole_numbers_is_drawn(tmp_path):
    swept = found(tmp_path, "attention", {"depth": [1, 2]}, "thresholds", accuracy={"points": 64})
    plot(swept, tmp_path / "a.png", "weak_recovery")
    assert (tmp_path / "a.png").stat().st_size > 5000


@pytest.mark.thorough
def test_trajectories_of_several_rows_keep_the_entries_of_vectors(tmp_path):
    (tmp_path / "links.py").write_text("def two(z):\n    return z[0, 0] + 0.5 * z[1, 0]\n")
    parameters = {"indices": 2, "tokens": 1, "noise": 0.1}
    swept = found(
        tmp_path / "store",
        *("smi", {"alpha": [0.5, 1.0]}, "trajectory", {**parameters, "link": f"{tmp_path}/links.py:two"}),
        **{"steps": 2, "accuracy": {"points": 64}},
    )
    assert swept["overlap"].dims == ("alpha", "iteration", "row", "column")
    assert swept["row_error"].shape == (2, 3, 2)


# --- compare ----------------------------------------------------------------------------------------------------------


def test_comparisons_have_a_dimension_of_learners(tmp_path):
    learners = ["gamp", {"name": "ridge", "strength": 0.5}, Ridge()]
    swept = found(tmp_path, "bsr", {"rho": WIDTHS, "alpha": [0.3, 0.8]}, "compare", FIXED, learners)
    assert swept["error"].dims == ("rho", "alpha", "learner")
    assert swept["learner"].values.tolist() == ["gamp", "ridge, strength 0.5", "ridge"]
    for rho in WIDTHS:
        plain = compare(model(rho), [0.3, 0.8], ["gamp", Ridge(0.5), Ridge()])
        for k, curve in enumerate(plain.curves):
            here = swept.sel(rho=rho).isel(learner=k)
            np.testing.assert_allclose(here["error"], curve.value, rtol=1e-12)
            np.testing.assert_allclose(here["error_estimate"], curve.bar, rtol=1e-12)


def test_another_learner_computes_its_own_points_only(tmp_path):
    grid = {"rho": [0.5], "alpha": [0.3, 0.8]}
    assert Sweep("bsr", grid, "compare", FIXED, ["gamp"]).run(tmp_path).computed == 2
    assert Sweep("bsr", grid, "compare", FIXED, ["ridge", "gamp"]).run(tmp_path).computed == 2
    assert Sweep.collect(tmp_path)["learner"].values.tolist() == ["ridge", "gamp"]


@pytest.mark.slow
def test_message_passing_in_a_hard_phase_has_its_own_error_beside_the_bayes_optimal_one(tmp_path):
    fixed = {"channel": "absolute"}
    swept = found(tmp_path, "bsr", {"rho": [0.5], "alpha": [0.8]}, "compare", fixed, ["gamp"])
    plain = limits(BilinearSequenceRegression(rho=0.5, **fixed), [0.8])
    assert plain["error"][0] < plain["algorithmic_error"][0]
    for name in ("error", "algorithmic_error"):
        assert swept[name].item() == pytest.approx(plain[name][0], rel=1e-9, abs=1e-12)
    assert swept["status"].item() == "bistable"


@pytest.mark.thorough
def test_comparisons_beside_runs_and_without_theory(tmp_path):
    grid, runs = {"rho": [0.5], "alpha": [0.0, 0.6]}, {"d": 12, "instances": 2, "seed": 5}
    sweep = Sweep("bsr", {**grid, "alpha": [0.3, 0.6]}, "compare", FIXED, ["gd", "ridge"], runs)
    sweep.run(tmp_path / "runs")
    swept = Sweep.collect(tmp_path / "runs")
    assert np.isnan(swept["error"].sel(learner="gd")).all()
    for name in ("gd", "ridge"):
        plain = simulate(model(0.5), [0.3, 0.6], name, **runs)
        np.testing.assert_allclose(swept["measured_error"].sel(learner=name)[0], plain["error"], rtol=1e-9)
        errors = swept["measured_standard_error"].sel(learner=name)[0]
        np.testing.assert_allclose(errors, plain["standard_error"], rtol=1e-9)
    plot(swept, tmp_path / "a.png", "measured_error")
    assert (tmp_path / "a.png").stat().st_size > 5000
    # Ridge regression has no theory without data.
    progress = Sweep("bsr", grid, "compare", FIXED, ["gamp", "ridge"]).run(tmp_path / "none")
    assert progress.counts == {"converged": 3, "failed": 1}


# --- training of one's own, objects, accuracy -------------------------------------------------------------------------

TRAINING = """
import numpy as np

def fit(X, y, rng):
    flat = X.reshape(len(X), -1)
    weights = np.linalg.solve(flat.T @ flat + {strength} * np.eye(flat.shape[1]), flat.T @ y)
    return lambda X: X.reshape(len(X), -1) @ weights
"""


@pytest.mark.thorough
def test_training_of_ones_own_is_simulated_and_compared(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING.format(strength=0.1))
    toml = """
[sweep]
model = "bsr"
verb = "simulate"
[parameters]
rho = 0.5
noise = 0.1
[grid]
alpha = [0.5, 1.0]
[learner]
name = "train.py:fit"
[runs]
d = 10
instances = 2
"""
    (tmp_path / "sweep.toml").write_text(toml)
    store, links = tmp_path / "store", [tmp_path / "train.py"]
    assert Sweep.from_toml(tmp_path / "sweep.toml", links).run(store, workers=2).computed == 4
    assert Sweep.from_toml(tmp_path / "sweep.toml", links).run(store).computed == 0
    swept = Sweep.collect(store)
    assert swept.attrs["learner"] == "train.py:fit"
    assert "error" not in swept
    names: dict = {}
    exec(TRAINING.format(strength=0.1), names)
    plain = simulate(model(0.5), [0.5, 1.0], names["fit"], d=10, instances=2)
    np.testing.assert_allclose(swept["prediction_error"].mean("seed"), plain["prediction_error"], rtol=1e-9)
    # Its content is part of the keys.
    (tmp_path / "train.py").write_text(TRAINING.format(strength=10.0))
    assert Sweep.from_toml(tmp_path / "sweep.toml", links).run(store).computed == 4
    several = "[[learner]]\nname = 'gamp'\n[[learner]]\nname = 'train.py:fit'\n"
    text = toml.replace("simulate", 'compare"\nquantity = "prediction_error')
    (tmp_path / "sweep.toml").write_text(re.sub(r"\[learner\]\n.*\n", several, text))
    assert Sweep.from_toml(tmp_path / "sweep.toml", links).run(store).complete
    swept = Sweep.collect(store)
    assert swept["learner"].values.tolist() == ["gamp", "train.py:fit"]
    assert np.isfinite(swept["measured_prediction_error"]).all()
    assert np.isnan(swept["prediction_error"].sel(learner="train.py:fit")).all()


def of_zeros(X, y, rng):
    """Training without an effect."""
    return lambda X: np.zeros(len(X))


def test_learners_and_training_are_also_given_as_objects(tmp_path):
    grid, runs = {"rho": [0.5], "alpha": [0.5]}, {"d": 8}
    swept = found(tmp_path, "bsr", grid, "simulate", FIXED, of_zeros, runs)
    assert swept["prediction_error"].item() == pytest.approx(
        simulate(model(0.5), [0.5], of_zeros, d=8, instances=1)["prediction_error"][0]
    )
    assert swept.attrs["learner"] == "of_zeros"
    keys = [
        Sweep("bsr", grid, "simulate", FIXED, learner, runs).points[0].key
        for learner in ({"name": "ridge", "strength": 0.5}, Ridge(0.5), Ridge(), "ridge", {"name": "ridge"})
    ]
    assert keys[0] == keys[1] != keys[2] == keys[3] == keys[4]
    assert Sweep("bsr", grid, "simulate", FIXED, Ridge(0.5)).to_dict()["learner"] == {"name": "ridge", "strength": 0.5}


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("limits", {}),
        ("thresholds", {"grid": {"rho": [0.5]}}),
        ("plan", {"grid": {"rho": [0.5]}, "target": 0.1}),
        ("trajectory", {}),
        ("compare", {"learner": ["ridge", of_zeros]}),
    ],
)
def test_training_of_ones_own_needs_runs(verb, more):
    given = {"model": "bsr", "grid": {"alpha": [0.5]}, "learner": of_zeros, **more}
    given["parameters"] = {} if "rho" in given["grid"] else {"rho": 0.5}
    with pytest.raises(IncompatibleError, match=r"of_zeros.*measured only"):
        Sweep(verb=verb, **given)


@pytest.mark.slow
def test_the_accuracy_is_that_of_every_call(tmp_path):
    grid, parameters = {"alpha": [0.3]}, {"depth": 1}
    keys, errors = [], []
    for points in (64, 128):
        own = Sweep("attention", grid, parameters=parameters, accuracy={"points": points})
        own.run(tmp_path / str(points))
        swept = Sweep.collect(tmp_path / str(points))
        plain = limits(DeepAttention(depth=1), [0.3], accuracy=Accuracy(points=points), throw=False)
        assert swept.attrs["points"] == points
        np.testing.assert_allclose(swept["error"].values, plain["error"], rtol=1e-9)
        keys.append(own.points[0].key)
        errors.append(swept["error"].item())
        assert Sweep("attention", grid, parameters=parameters, accuracy=Accuracy(points=points)).points == own.points
    assert keys[0] != keys[1]
    assert errors[0] != errors[1]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"accuracy": {"points": 64}}, "points = 64 has no effect on limits of gamp on bsr"),
        ({"accuracy": {"tolerance": 0.1}, "learner": "ridge"}, "tolerance = 0.1 has no effect on limits of ridge"),
        ({"accuracy": {"tolerance": 0.1}, "verb": "thresholds", "grid": {}}, "tolerance = 0.1 has no effect"),
        ({"accuracy": {"tolerance": 0.1}, "verb": "trajectory"}, "tolerance = 0.1 has no effect on trajectory"),
        ({"accuracy": {"points": 64}, "verb": "compare", "learner": ["gamp", "ridge"]}, "compare of gamp, ridge"),
    ],
)
def test_an_accuracy_without_effect_is_refused(given, named):
    with pytest.raises(IncompatibleError, match=named):
        Sweep(**{"model": "bsr", "grid": {"alpha": [0.3]}, "parameters": {"rho": 0.5}, **given})


def test_learners_that_are_compared_take_the_accuracy_that_they_have(tmp_path):
    grid, accuracy = {"rho": [0.5], "alpha": [0.5]}, {"tolerance": 1e-3}
    swept = found(tmp_path, "bsr", grid, "compare", FIXED, ["gamp", "ridge"], accuracy=accuracy)
    plain = compare(model(0.5), [0.5], ["gamp", "ridge"], accuracy=Accuracy(**accuracy))
    np.testing.assert_allclose(swept["error"].values.ravel(), [curve.value[0] for curve in plain.curves], rtol=1e-12)


# --- a file with everything, and old words ----------------------------------------------------------------------------

GOOD = """
[sweep]
model = "bsr"
verb = "plan"
target = 0.3
quantity = "prediction_error"
[parameters]
noise = 0.1
[grid]
rho = [0.2, 0.5]
[learner]
name = "ridge"
strength = 0.5
[runs]
d = 50
"""


def test_a_file_is_the_same_sweep_as_in_python(tmp_path):
    (tmp_path / "sweep.toml").write_text(GOOD)
    sweep = Sweep.from_toml(tmp_path / "sweep.toml")
    learner = {"name": "ridge", "strength": 0.5}
    own = Sweep("bsr", {"rho": WIDTHS}, "plan", {"noise": 0.1}, learner, {"d": 50}, {}, 0.3, "prediction_error")
    assert sweep.points == own.points
    assert sweep.to_dict() == own.to_dict()
    (tmp_path / "sweep.toml").write_text(
        "[sweep]\nmodel = 'bsr'\nverb = 'trajectory'\nsteps = 3\nstart = 'overlap:0.1'\n"
        "[grid]\nrho = [0.5]\nalpha = [0.5]\n[accuracy]\n[learner]\nname = 'gamp'\n"
    )
    sweep = Sweep.from_toml(tmp_path / "sweep.toml")
    own = Sweep("bsr", {"rho": [0.5], "alpha": [0.5]}, "trajectory", steps=3, start="overlap:0.1")
    assert sweep.points == own.points


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[runs]", "[simulate]", "[simulate] is now [runs]"),
        ("[learner]", "[settings]", "[settings] is now [learner]"),
        ("verb =", "compute =", "compute is now verb"),
        ("target = 0.3", "learner = 'ridge'", "learner is now name in the table [learner]"),
        ("d = 50", "learner = 'ridge'", "learner is now name in the table [learner]"),
        ("d = 50", "algorithm = 'ridge'", "algorithm is now name in the table [learner]"),
    ],
)
def test_old_words_in_a_file_are_refused_with_the_new_ones(old, new, words, tmp_path, capsys):
    file, store = tmp_path / "sweep.toml", tmp_path / "store"
    file.write_text(GOOD.replace(old, new))
    assert file.read_text() != GOOD
    assert main(["sweep", "run", str(file), "--store", str(store)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{file}: {words}" in line
    assert not store.exists()


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ({"compute": "limits"}, "compute is now verb"),
        ({"simulation": {"d": 10}}, "simulation is now runs"),
        ({"settings": {"strength": 0.1}}, "settings is now learner"),
        ({"compute": "simulate", "simulation": {}}, "compute is now verb"),
    ],
)
def test_old_arguments_are_refused_with_the_new_ones(old, words):
    with pytest.raises(RenamedError, match=words):
        Sweep("bsr", {"alpha": [0.5]}, parameters={"rho": 0.5}, **old)
    with pytest.raises(TypeError, match="colour"):
        Sweep("bsr", {"alpha": [0.5]}, colour=1)


@pytest.mark.parametrize("name", ["run_sweep", "collect"])
def test_old_functions_are_methods(name):
    import glassformer

    with pytest.raises(AttributeError, match=f"{name} is now {RENAMED[name]}"):
        getattr(glassformer, name)


def test_a_store_of_an_earlier_version_is_refused_with_the_new_words_and_left_as_it_is(tmp_path, capsys):
    described = {"model": "bsr", "compute": "limits", "learner": "gamp", "parameters": {}, "axes": {"alpha": [0.5]}}
    old = {"format": 2, "sweep": {**described, "units": {}, "simulation": {}, "settings": {}}, "keys": ["a"]}
    (tmp_path / "points").mkdir()
    (tmp_path / "sweep.json").write_text(json.dumps(old))
    words = "of format 2: compute is now verb, simulation is now runs, settings is now learner"
    for action in ("status", "collect", "plot"):
        assert main(["sweep", action, str(tmp_path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
        assert "run the sweep again in another folder" in line
    sweep = Sweep("bsr", {"alpha": [0.5]}, parameters={"rho": 0.5})
    with pytest.raises(DataError, match=words):
        sweep.run(tmp_path)
    assert json.loads((tmp_path / "sweep.json").read_text()) == old
    assert not list((tmp_path / "points").iterdir())


def test_thresholds_of_a_learner_with_settings(tmp_path):
    learner = {"name": "risk", "strength": 0.3}
    swept = found(tmp_path, "bsr", {"rho": [0.5]}, "thresholds", FIXED, learner)
    from glassformer import RegularisedRisk

    for entry in thresholds(model(0.5), RegularisedRisk(strength=0.3)).entries:
        np.testing.assert_allclose(swept[entry.name].item(), entry.alpha)


def test_an_option_that_is_missing_names_the_verb():
    with pytest.raises(ParameterError, match=r"target = None .*: plan needs one"):
        Sweep("bsr", {"rho": [0.5]}, "plan")


def test_the_comparison_of_the_page_is_one(tmp_path):
    block = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[1]
    (tmp_path / "sweep.toml").write_text(block)
    (tmp_path / "train.py").write_text(TRAINING.format(strength=0.1))
    sweep = Sweep.from_toml(tmp_path / "sweep.toml", links=[tmp_path / "train.py"])
    assert sweep.shape == (2, 4, 2)
