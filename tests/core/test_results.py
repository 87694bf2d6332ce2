"""Results in the forms a user takes them away in, and the public names."""

from __future__ import annotations

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import glassformer
from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    SequenceMultiIndex,
    Status,
    hysteresis,
    landscape,
    limits,
    simulate,
    thresholds,
    trajectory,
)
from glassformer.core.results import to_json_types, wide_error_bars
from glassformer.errors import ParameterError
from glassformer.results import Table

MODEL = BilinearSequenceRegression(beta=2, rho=0.5, noise=0.1)
ALPHAS = [0.0, 0.3, 0.8]
COLUMNS = ["error", "overlap", "q_hat", "algorithmic_error", "informed_error", "error_estimate", "residual"]


@pytest.fixture(scope="module")
def table():
    return limits(MODEL, ALPHAS)


@pytest.fixture(scope="module")
def simulation():
    return simulate(MODEL, [0.3, 0.8], d=12, instances=2, seed=4)


@pytest.fixture(scope="module")
def found():
    return thresholds(BilinearSequenceRegression(beta=1, rho=0.5))


@pytest.fixture(scope="module")
def curve():
    return landscape(MODEL, 0.5, overlaps=20)


def test_limits_to_pandas(table):
    frame = table.to_pandas()
    assert list(frame["alpha"]) == ALPHAS
    assert set(COLUMNS) <= set(frame.columns)
    assert list(frame["status"]) == ["converged"] * 3
    np.testing.assert_array_equal(frame["error"], table["error"])
    assert frame.attrs["model"] == "bsr"
    assert frame.attrs["beta"] == 2.0


def test_the_statuses_of_rows_are_a_column(table, curve):
    for found in (table, curve, trajectory(MODEL, [0.3], steps=3), hysteresis(MODEL, [0.3, 0.5])):
        names = [str(status) for status in found.status]
        assert list(found["status"]) == names == [row["status"] for row in found.rows()]
        assert "status" in found
        assert {name: len(found[name]) for name in found} == dict.fromkeys([*found.columns, "status"], len(names))
    with pytest.raises(KeyError, match=r"no column 'state': there are alpha, .*, status"):
        table["state"]


def test_limits_to_xarray(table):
    data = table.to_xarray()
    assert data["error"].dims == ("alpha",)
    assert float(data["error"].sel(alpha=0.3)) == table["error"][1]
    assert set(COLUMNS) <= set(data.data_vars)
    assert list(data["status"].values) == ["converged"] * 3
    assert data.attrs["noise"] == 0.1


def test_a_repeated_sample_ratio_keeps_its_rows():
    data = limits(MODEL, [0.3, 0.3, 0.5]).to_xarray()
    assert data["error"].dims == ("point",)
    assert data.sizes["point"] == 3


def test_limits_to_dict(table):
    document = table.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert [point["alpha"] for point in document["points"]] == ALPHAS
    assert document["points"][0]["error"] == 1.0
    assert document["parameters"]["channel"] == "gaussian"


def test_numbers_json_has_no_word_for_become_none():
    document = limits(BilinearSequenceRegression(beta=np.inf, rho=0.5), [0.9]).to_dict()
    assert document["parameters"]["beta"] is None
    json.dumps(document, allow_nan=False)
    assert to_json_types({"a": [np.nan, np.int64(3), np.bool_(True), Status.BISTABLE]}) == {
        "a": [None, 3, True, "bistable"]
    }


@pytest.mark.slow
def test_simulation_to_pandas_and_xarray(simulation):
    frame, data = simulation.to_pandas(), simulation.to_xarray()
    for name in ("error", "standard_error", "theory", "relative_error", "alpha_realised"):
        np.testing.assert_array_equal(frame[name], simulation[name])
        np.testing.assert_array_equal(data[name], simulation[name])
    assert list(simulation["status"]) == list(frame["status"])
    assert frame.attrs["seed"] == data.attrs["seed"] == 4


def test_simulation_to_dict_keeps_every_run(simulation):
    document = simulation.to_dict()
    json.dumps(document, allow_nan=False)
    for row, point in zip(document["points"], simulation.instances, strict=True):
        assert [run["seed"] for run in row["instances"]] == [4, 5]
        assert row["error"] == pytest.approx(np.mean([run["error"] for run in row["instances"]]))
        spread = np.std([run.error for run in point], ddof=1) / np.sqrt(2)
        assert row["standard_error"] == pytest.approx(spread)


@pytest.mark.slow
def test_a_single_run_has_no_standard_error():
    document = simulate(MODEL, [0.3], d=12, instances=1).to_dict()
    assert document["points"][0]["standard_error"] is None


def test_thresholds_in_every_form(found):
    document, frame, data = found.to_dict(), found.to_pandas(), found.to_xarray()
    json.dumps(document, allow_nan=False)
    names = [entry["name"] for entry in document["thresholds"]]
    assert {"perfect_recovery", "weak_recovery", "nuclear_norm_perfect_recovery"} <= set(names)
    assert list(frame["name"]) == names == list(data["name"].values)
    assert float(data["alpha"].sel(name="perfect_recovery")) == found["perfect_recovery"].alpha == 0.75
    assert document["hard_phase"] is False


def test_an_unknown_threshold_is_named(found):
    with pytest.raises(ParameterError, match=r"name = 'strong'.*perfect_recovery"):
        found["strong"]


@pytest.mark.slow
def test_landscape_in_every_form(curve):
    document, frame, data = curve.to_dict(), curve.to_pandas(), curve.to_xarray()
    json.dumps(document, allow_nan=False)
    assert len(document["points"]) == len(frame) == 20
    np.testing.assert_array_equal(frame["free_entropy"], curve.free_entropy)
    np.testing.assert_array_equal(np.sort(data["overlap"]), np.sort(curve.overlap))
    assert document["hard_phase"] is False
    assert document["maxima"] == [pytest.approx(1 - limits(MODEL, 0.5)["error"][0], abs=1e-9)]


def test_landscape_is_highest_at_the_bayes_optimal_overlap(curve):
    top = int(np.argmax(curve.free_entropy))
    assert curve.overlap[top - 1] < curve.maxima[0] < curve.overlap[top + 1]
    assert curve.free_entropy.shape == curve.error_estimate.shape == curve.q_hat.shape


def test_a_table_names_the_failed_row():
    bad = Table("bsr", {}, {"alpha": np.array([0.1, 0.2])}, [Status.CONVERGED, Status.OSCILLATING])
    assert not bad.converged
    with pytest.raises(glassformer.ConvergenceError, match="oscillating"):
        bad.raise_unless_converged()
    assert bad.to_dict()["points"][1]["status"] == "oscillating"


@pytest.mark.parametrize(("error", "estimate"), [(0.5, 0.05), (1e-8, 1e-6), (np.nan, 0.1), (0.5, np.nan), (0.0, 0.0)])
def test_narrow_error_bars_and_errors_that_vanish_have_no_note(error, estimate):
    assert not wide_error_bars(np.ones(1), np.array([error]), np.array([estimate]), {})


def test_the_widest_error_bar_is_named_with_its_remedy():
    (note,) = wide_error_bars(np.array([1.0, 2.0]), np.array([0.143, 0.2]), np.array([0.125, 0.1]), {"points": 64})
    assert "0.125 at alpha = 1 is 87 % of the error 0.143. Raise points = 64; 1 more" in note


@pytest.mark.thorough
def test_limits_with_few_points_have_a_note_on_their_error_bars():
    model = SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), indices=2, noise=0.1).at_accuracy(
        Accuracy(points=32)
    )
    table = limits(model, [6.0], throw=False)
    assert table.converged and table["error_estimate"][0] > 0.2 * table["error"][0]
    assert ["wide error bar" in note for note in table.notes] == [True]


def test_every_status_has_a_remedy():
    assert all(status.remedy and str(status) == status.label for status in Status)


@pytest.mark.parametrize(
    ("parameters", "named", "unnamed"),
    [
        ({"noise": 0.0, "noise_law": "poisson", "points": 256}, {"points"}, {"noise"}),
        ({"noise": 0.0}, {"noise"}, {"points"}),
        ({"noise": 0.0, "steps": 9}, {"steps"}, {"max_iterations", "points"}),
        ({"points": 256, "max_iterations": 9}, {"max_iterations", "points"}, {"noise"}),
    ],
)
def test_remedies_name_only_settings_of_the_result(parameters, named, unnamed):
    statuses = (Status.INTEGRATION_NOT_CONVERGED, Status.ITERATION_LIMIT, Status.OSCILLATING)
    tables = [Table("m", parameters, {"alpha": np.ones(1)}, [status]) for status in statuses]
    said = " ".join(str(table).partition(chr(10))[2] for table in tables)
    errors = []
    for table in tables:
        with pytest.raises(glassformer.ConvergenceError) as caught:
            table.raise_unless_converged()
        errors.append(str(caught.value))
    for words in (said, " ".join(errors)):
        assert {name for name in named | unnamed if name in words} == named


def test_public_names_exist():
    assert {"BilinearSequenceRegression", "limits", "thresholds", "simulate"} <= set(glassformer.__all__)
    assert set(glassformer.__all__) <= set(dir(glassformer))
    for name in glassformer.__all__:
        assert getattr(glassformer, name) is not None, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Bilinear'"):
        _ = glassformer.Bilinear


def test_importing_the_package_imports_no_slow_module():
    code = "import sys, glassformer; print(*({'numpy', 'scipy', 'pandas', 'xarray', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
