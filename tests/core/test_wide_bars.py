"""Error bars that are a large share of the value say so."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import SequenceMultiIndex, limits
from glassformer.core.results import wide_error_bars


@pytest.mark.parametrize(("error", "estimate"), [(0.5, 0.05), (1e-8, 1e-6), (np.nan, 0.1), (0.5, np.nan), (0.0, 0.0)])
def test_small_bars_and_errors_that_vanish_say_nothing(error, estimate):
    assert not wide_error_bars(np.ones(1), np.array([error]), np.array([estimate]), {})


def test_the_widest_bar_is_named_with_its_remedy():
    (note,) = wide_error_bars(np.array([1.0, 2.0]), np.array([0.143, 0.2]), np.array([0.125, 0.1]), {"points": 64})
    assert "0.125 at alpha = 1 is 87 % of the error 0.143. Raise points = 64 (--data-points); 1 more" in note


@pytest.mark.slow
def test_limits_with_few_points_say_how_rough_they_are():
    """They were called converged without a word."""
    model = SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), indices=2, noise=0.1, points=32)
    table = limits(model, [6.0], throw=False)
    assert table.converged and table["error_estimate"][0] > 0.2 * table["error"][0]
    assert ["wide error bar" in note for note in table.notes] == [True]
