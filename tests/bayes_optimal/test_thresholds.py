"""Which direction thresholds name, and results as mappings."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, BilinearSequenceRegression, SequenceMultiIndex, plan, thresholds
from glassformer.bayes_optimal.weak_recovery import weak_recovery
from glassformer.core.errors import ParameterError
from glassformer.models.aim import AttentionIndexed
from glassformer.models.deep_aim import DeepAttentionIndexed


def sign_of_sum(h):
    return jnp.sign(h[0, 0] + h[1, 0])


def largest(h):
    return jnp.argmax(h[:, 0])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("link", "indices", "direction"),
    [
        (sign_of_sum, 2, np.full((2, 2), 0.5)),
        pytest.param(largest, 3, (np.eye(3) - 1 / 3) / 2, marks=pytest.mark.thorough),
    ],
)
def test_labels_that_are_not_even_name_the_subspace_that_they_tell_of(link, indices, direction):
    found = weak_recovery(SequenceMultiIndex(link, indices, 1).at_accuracy(Accuracy(points=32)))[0]
    assert found.alpha == 0
    assert found.layer is None
    # Symmetries of the link fix the subspace to rounding.
    np.testing.assert_allclose(found.subspace, direction, atol=1e-12)


@pytest.mark.thorough
def test_difference_of_rows_is_learned_after_their_sum():
    def link(h):
        return h[0, 0] + h[1, 0] + (h[0, 0] - h[1, 0]) ** 2

    found = thresholds(SequenceMultiIndex(link, 2, 1, noise=0.1).at_accuracy(Accuracy(points=64)))
    for name, sign in (("weak_recovery", 1), ("weak_recovery_2", -1)):
        np.testing.assert_allclose(found[name].subspace, [[0.5, 0.5 * sign], [0.5 * sign, 0.5]], atol=1e-6)


@pytest.mark.thorough
def test_beyond_an_onset_the_layer_of_most_information_is_first():
    first = thresholds(DeepAttentionIndexed(rho=0.0, layers=2))["weak_recovery"]
    assert first.layer == "layer 2"
    assert first.subspace == [[0.0, 0.0], [0.0, 1.0]]
    # One layer alone, whose mixing nothing precedes, is found with fewer samples.
    assert thresholds(AttentionIndexed(rho=0.0))["weak_recovery"].alpha < first.alpha


@pytest.mark.slow
def test_side_information_tells_of_all_rows():
    model = SequenceMultiIndex(lambda h: h[0, 0] * h[1, 0], 2, 1, noise=0.1, side_information=0.3).at_accuracy(
        Accuracy(points=32)
    )
    first = weak_recovery(model)[0]
    assert (first.alpha, first.subspace) == (0.0, [[0.5, 0.0], [0.0, 0.5]])


@pytest.mark.parametrize("ask", [thresholds, lambda model: plan(model, 0.5)], ids=["thresholds", "plan"])
def test_results_of_named_entries_are_mappings(ask):
    found = ask(BilinearSequenceRegression(rho=0.5))
    names = [entry.name for entry in found.entries]
    assert isinstance(found, Mapping)
    assert list(found) == list(found.keys()) == names
    assert len(found) == len(names)
    assert names[0] in found
    assert "nothing" not in found
    assert found.get("nothing") is None
    assert dict(found)[names[0]] is found[names[0]] is found.get(names[0])
    with pytest.raises(ParameterError, match="one of"):
        found["nothing"]
