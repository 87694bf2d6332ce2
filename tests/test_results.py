"""Results as tables: every row with its status, in the formats users go on with."""

import numpy as np
import pytest

import glassformer
from glassformer import BilinearSequenceRegression, ConvergenceError, Iteration, landscape, limits, simulate, thresholds
from glassformer.solution import Status

MODEL = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1)


def test_limits_as_frame_and_dataset():
    table = limits(MODEL, [0.2, 0.4])
    frame, data = table.to_pandas(), table.to_xarray()
    assert list(frame["status"]) == ["converged", "converged"]
    assert data["error"].sel(alpha=0.4).item() == table["error"][1]
    assert data.attrs["rho"] == 0.5 and frame.attrs["model"] == "bsr"


def test_repeated_ratios_keep_their_rows():
    assert limits(MODEL, [0.2, 0.2]).to_xarray()["error"].dims == ("point",)


def test_simulation_keeps_every_run():
    result = simulate(MODEL, [0.4], d=16, instances=3, seed=2)
    (row,) = result.to_dict()["points"]
    assert len(row["instances"]) == 3
    assert result.to_pandas().shape[0] == 1
    assert result["standard_error"][0] > 0


def test_a_single_instance_has_no_standard_error():
    assert simulate(MODEL, [0.4], d=16, instances=1).to_dict()["points"][0]["standard_error"] is None


def test_thresholds_and_landscape():
    found = thresholds(BilinearSequenceRegression(rho=0.5))
    assert found.to_pandas().shape[0] == found.to_xarray().sizes["name"] == len(found.entries)
    with pytest.raises(glassformer.ParameterError, match="^name = "):
        found["best"]
    curve = landscape(MODEL, 0.5, points=50)
    assert curve.to_pandas().shape[0] == 50
    assert curve.to_xarray()["free_entropy"].size == 50


def test_an_unconverged_row_is_raised_or_kept_with_its_status():
    hurried = Iteration(max_iterations=1)
    with pytest.raises(ConvergenceError, match="max_iterations") as caught:
        limits(MODEL, [0.3], hurried)
    assert caught.value.status is Status.ITERATION_LIMIT
    table = limits(MODEL, [0.0, 0.3], hurried, throw=False)
    assert [str(status) for status in table.status][1] == "iteration_limit"
    assert np.isfinite(table["error"]).all()


def test_public_names_exist():
    for name in glassformer.__all__:
        assert getattr(glassformer, name) is not None
    with pytest.raises(AttributeError):
        _ = glassformer.no_such_name


def test_every_status_has_a_remedy():
    assert all(status.remedy and str(status) == status.label for status in Status)
