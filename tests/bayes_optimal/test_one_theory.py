"""One theory for one row and several: results of the two agree."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, SequenceMultiIndex, landscape, limits, thresholds
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.errors import ParameterError

PHASE_RETRIEVAL = SequenceMultiIndex(lambda z: jnp.abs(z[0, 0]))
SAME = BilinearSequenceRegression(rho=np.inf, channel="absolute")


def test_state_evolution_answers_for_models_of_rows():
    model = SequenceMultiIndex(lambda z: z[0, 0])
    found = state_evolution(model, [0.25, 0.5])
    assert found.converged
    np.testing.assert_allclose(found.value[:, 0, 0], [0.75, 0.5], atol=1e-9)
    assert found.extra["q_hat"].shape == (2, 1, 1)


@pytest.mark.slow
def test_residual_and_error_of_the_informed_branch_are_reported():
    table = limits(PHASE_RETRIEVAL, [1.05])
    best = state_evolution(PHASE_RETRIEVAL, [1.05], "informed")
    worse = state_evolution(PHASE_RETRIEVAL, [1.05], "uninformed")
    assert str(table.status[0]) == "bistable"
    assert table["error"][0] == pytest.approx(0.0, abs=1e-9)
    assert table["algorithmic_error"][0] == pytest.approx(worse.value[0, 0, 0], rel=1e-6)
    assert table["residual"][0] <= best.residual[0] + 1e-12
    assert table["error_estimate"][0] <= best.error_estimate[0] + 1e-12
    assert table["row_error"][0, 0] == table["error"][0]


def test_one_index_is_the_scalar_model_of_the_same_labels():
    alpha = [0.3, 0.8, 1.05, 1.3]
    rows, scalar = limits(PHASE_RETRIEVAL, alpha), limits(SAME, alpha)
    assert rows.status == scalar.status
    for name in ("error", "algorithmic_error", "informed_error"):
        np.testing.assert_allclose(rows[name], scalar[name], atol=1e-6)
    found = [thresholds(model) for model in (PHASE_RETRIEVAL, SAME)]
    assert [entry.name for entry in found[0].entries] == [e.name for e in found[1].entries if "nuclear" not in e.name]
    for entry in found[0].entries:
        assert entry.alpha == pytest.approx(found[1][entry.name].alpha, rel=1e-5, nan_ok=True)
    assert found[0]["weak_recovery"].layer == "row 1"


@pytest.mark.parametrize("model", [SAME, PHASE_RETRIEVAL])
@pytest.mark.parametrize("row", [1, -1, True, 0.0])
def test_invalid_row_raises_for_one_row(model, row):
    with pytest.raises(ParameterError, match="row"):
        landscape(model, 0.5, row=row)
