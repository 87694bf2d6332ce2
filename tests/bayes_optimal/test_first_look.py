"""First looks: from one sample ratio to the next, with few sampled data points."""

import numpy as np
import pytest

from glassformer import Accuracy, BilinearSequenceRegression, DeepAttention
from glassformer.bayes_optimal.solve import first_look, state_evolution
from glassformer.core.errors import ParameterError


@pytest.mark.slow
def test_it_leads_where_every_ratio_by_itself_does_in_fewer_steps():
    model, alpha = DeepAttention(depth=1).at_accuracy(Accuracy(points=64)), [0.9, 0.1, 0.3]
    found = dict(first_look(model, alpha))
    assert list(found) == sorted(alpha)
    alone = state_evolution(model, list(found))
    assert alone.settled.all()
    for value, error, one in zip(alone.value, alone.error_estimate, found.values(), strict=True):
        assert one.settled.all()
        assert np.linalg.norm(one.value[0] - value) <= one.error_estimate[0] + error
    assert sum(one.iterations[0] for one in found.values()) < alone.iterations.sum()


def test_averages_that_are_not_sampled_need_none_and_bad_ratios_are_refused():
    assert not list(first_look(BilinearSequenceRegression(rho=0.5), [0.5]))
    with pytest.raises(ParameterError, match="alpha"):
        list(first_look(DeepAttention(depth=1).at_accuracy(Accuracy(points=32)), [-1.0]))
