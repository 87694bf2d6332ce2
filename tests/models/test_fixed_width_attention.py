"""Attention indices of a fixed width: the theory of vanishing width, and data."""

import numpy as np
import pytest

from glassformer import AttentionIndexed, IncompatibleError, limits, simulate, thresholds
from glassformer.errors import ParameterError


def test_message_passing_at_eight_columns():
    model = AttentionIndexed(width=8, channel="linear", noise=0.3)
    found = simulate(model, [2.0], d=60, instances=2)
    assert abs(found["relative_error"][0] - found["theory"][0]) < 0.06
    assert found.parameters["width"] == 8
    assert "order 0.13" in found.notes[0]
    np.testing.assert_allclose(found["alpha_realised"], 2.0)


def test_thresholds_are_those_of_vanishing_width():
    narrow, limit = thresholds(AttentionIndexed(width=3)), thresholds(AttentionIndexed(rho=0))
    assert [e.alpha for e in narrow.entries[:3]] == [e.alpha for e in limit.entries[:3]]


@pytest.mark.parametrize("given", [{"rho": 0.5}, {"untied": True}])
def test_parameters_that_exclude_a_width(given):
    with pytest.raises(IncompatibleError, match="width"):
        AttentionIndexed(width=2, **given)


def test_some_width_is_needed():
    with pytest.raises(ParameterError, match="rho = None"):
        AttentionIndexed()
    with pytest.raises(ParameterError, match="width"):
        AttentionIndexed(width=0)


def test_few_columns_are_not_many():
    """Their indices are products, far from Gaussian: at one column messages end well above the theory of many."""
    few, many = (limits(AttentionIndexed(width=r, channel="linear", noise=0.1), [1.0]) for r in (1, 8))
    assert "indices of so few columns are not Gaussian" in few.notes[0]
    assert not many.notes
