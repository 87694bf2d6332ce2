"""Models of several indices whose symmetries, null directions and atoms state evolution must respect."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, SequenceMultiIndex, Status, limits, thresholds
from glassformer.bayes_optimal.bounds import information_bound
from glassformer.bayes_optimal.instability import Instability
from glassformer.bayes_optimal.staircase import known_at_any_ratio
from glassformer.channels.label_errors import prediction_errors

POINTS = 128


def argmax(z):
    return jnp.argmax(z[:, 0])


def majority(z):
    return jnp.sign(jnp.sum(jnp.sign(z[:, 0])))


def committee(z):
    return jnp.sum(jnp.tanh(z[:, 0]))


def tanh_of_sum(z):
    return jnp.tanh(z[0, 0] + z[1, 0])


def product(z):
    return z[0, 0] * jnp.tanh(z[1, 0])


def skewed(z):
    return z[0, 0] * z[1, 0] + z[0, 0]


def rectified(z):
    return jnp.maximum(z[0, 0], 0) + jnp.maximum(z[1, 0], 0)


def shifted_softmax(z):
    return jax.nn.softmax(z[0] + jnp.array([0.5, -0.5]))


LONG = [
    (skewed, 2, 0.2),
    (tanh_of_sum, 2, 0.1),
    (argmax, 3, 0.0),
    (committee, 3, 0.1),
    (product, 2, 0.1),
    (majority, 3, 0.0),
]
LONG_SIZES = (512, [0.5, 1.5, 4.0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "indices", "noise", "many", "ratios"),
    [
        # Errors of the same link along a path: tests/bayes_optimal/test_trajectory.py.
        pytest.param(skewed, 2, 0.2, 256, [0.5, 4.0], marks=pytest.mark.thorough),
        *(pytest.param(*case, *LONG_SIZES, marks=pytest.mark.thorough) for case in LONG),
    ],
)
def test_state_evolution_ends_and_errors_cover(link, indices, noise, many, ratios):
    few, more = (
        limits(SequenceMultiIndex(link, indices, noise=noise).at_accuracy(Accuracy(points=points)), ratios)
        for points in (64, many)
    )
    apart = np.abs(few["error"] - more["error"])
    assert np.all(apart <= few["error_estimate"] + more["error_estimate"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "indices", "same", "alike", "shown"),
    [
        (argmax, 3, 1, 6, np.eye(3) - 1 / 3),
        (committee, 3, 6, 12, np.eye(3)),
        (tanh_of_sum, 2, 2, 4, np.full((2, 2), 0.5)),
        (product, 2, 2, 4, np.eye(2)),
        (lambda z: jnp.sign(z[0, 0] + 0.5 * z[1, 0]), 2, 1, 2, np.array([[0.8, 0.4], [0.4, 0.2]])),
    ],
)
def test_symmetries_of_links(link, indices, same, alike, shown):
    found = SequenceMultiIndex(link, indices).channel.labels.row_symmetries
    assert (len(found.invariances), len(found.relabellings)) == (same, alike)
    np.testing.assert_allclose(found.visible, shown, atol=1e-6)


@pytest.mark.thorough
def test_directions_without_information_stay_unknown_exactly():
    found = limits(SequenceMultiIndex(tanh_of_sum, 2, noise=0.1).at_accuracy(Accuracy(points=512)), [4.0])
    overlap = found["overlap"][0]
    np.testing.assert_allclose(overlap, np.full((2, 2), overlap[0, 0]), atol=1e-12)
    assert found["error_estimate"][0] < 0.02


@pytest.mark.thorough
def test_equivalent_rows_remain_equal_at_a_stable_symmetric_state():
    overlap = limits(SequenceMultiIndex(committee, 3, noise=0.1).at_accuracy(Accuracy(points=32)), [1.5])["overlap"][0]
    np.testing.assert_allclose(overlap, np.full((3, 3), overlap[0, 0]), atol=1e-12)
    assert overlap[0, 0] == pytest.approx(0.270, abs=0.01)


@pytest.mark.thorough
def test_labels_with_an_atom_are_integrated_there_too():
    """Plain quadrature gives 0.3887 in every entry at zero overlap."""
    channel = SequenceMultiIndex(rectified, 2).at_accuracy(Accuracy(points=128)).channel
    assert channel.labels.rank == pytest.approx(0.75, abs=0.01)
    value, error = channel.inference.information(np.eye(2)[None])
    assert np.all(error < 4e-3)
    np.testing.assert_allclose(value[0], 0.3887, atol=3 * float(error.max()) + 1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize(("variance", "exact"), [(1.0, 0.60900), (0.5, 1.5638)])
def test_the_largest_of_three_tokens(variance, exact):
    """Exact values by quadrature over the label, and a bound that has no posterior."""
    model = SequenceMultiIndex(lambda z: jnp.max(z[0]), 1, 3).at_accuracy(Accuracy(points=128))
    value, error = model.channel.inference.information(np.array([[[variance]]]))
    assert abs(value[0, 0, 0] - exact) < 4 * error[0, 0, 0] + 0.004
    bound = information_bound(model, np.array([[variance]]), np.ones(1), samples=2**18)
    assert value[0, 0, 0] + 4 * error[0, 0, 0] > bound.value - 4 * bound.error


@pytest.mark.thorough
def test_the_noise_given_to_labels_without_is_in_the_error():
    found = limits(SequenceMultiIndex(shifted_softmax, 1, 2).at_accuracy(Accuracy(points=32)), [1.3], throw=False)
    assert found.status[0] is Status.CONVERGED
    assert abs(found["error"][0]) < found["error_estimate"][0]
    assert any("3e-4" in note for note in found.notes)


@pytest.mark.parametrize("link", [product, skewed])
def test_plugin_errors_are_no_less_than_bayes(link):
    channel = SequenceMultiIndex(link, 2, noise=0.1).at_accuracy(Accuracy(points=64)).channel
    found = prediction_errors(channel, np.array([0.9, 0.3, 0.01, 1e-5])[:, None, None] * np.eye(2))
    assert np.all(found.plugin.value >= found.bayes.value)


@pytest.mark.thorough
def test_later_thresholds_after_rows_known_at_any_ratio():
    """z^2 with noise 0.1 begins at 0.51807, by plain quadrature."""
    model = SequenceMultiIndex(lambda z: jnp.array([z[0, 0], z[1, 0] ** 2]), 2, noise=0.1).at_accuracy(
        Accuracy(points=64)
    )
    np.testing.assert_allclose(known_at_any_ratio(model), np.diag([1.0, 0.0]), atol=1e-12)
    found = thresholds(model)
    assert found["weak_recovery"].alpha == 0
    later = found["weak_recovery_2"]
    assert later.layer == model.row_names[1]
    assert abs(later.alpha - 0.51807) < 3 * later.error_estimate + 2e-3
    assert found.hard_phase is False
    assert "agree at alpha" in found.hard_phase_reason


@pytest.mark.thorough
def test_threshold_is_infinite_if_nothing_grows_within_the_error():
    found = thresholds(
        SequenceMultiIndex(lambda z: jnp.sign(z[0, 0] * z[1, 0] * z[2, 0]), 3).at_accuracy(Accuracy(points=32))
    )
    assert found["weak_recovery"].alpha == np.inf
    assert "nothing is learnable up to" in found["weak_recovery"].note
    assert found.hard_phase is None
    assert found.hard_phase_reason


@pytest.mark.slow
def test_rough_averages_give_an_undetermined_threshold(monkeypatch):
    """Gumbel noise on a product once had a growth of 4797 +- 3570, of which 10785 were missing: `inf`, for 0.71."""
    rough = Instability(4797.0, 3570.0, np.eye(2) / 2, True, np.zeros(8), 10785.0)
    monkeypatch.setattr("glassformer.bayes_optimal.staircase.instability", lambda *_: rough)
    # The link of the README, whose programs are compiled once for all tests.
    found = thresholds(SequenceMultiIndex(product, 2, 1, noise=0.1).at_accuracy(Accuracy(points=64)))["weak_recovery"]
    assert np.isnan(found.alpha)
    assert "too rough" in found.note


@pytest.mark.thorough
def test_rows_separate_at_the_unstable_symmetric_state():
    """Above its specialisation threshold, 4.64, the committee leaves the fixed point of equal rows."""
    found = limits(SequenceMultiIndex(committee, 3, noise=0.1).at_accuracy(Accuracy(points=64)), [3.0, 10.0])
    together, apart = found["overlap"]
    np.testing.assert_allclose(together, np.full((3, 3), together[0, 0]), atol=1e-12)
    assert np.min(np.diag(apart)) > 0.8
    assert np.max(apart[~np.eye(3, dtype=bool)]) < 0.15


@pytest.mark.thorough
@pytest.mark.parametrize(("ratio", "exact"), [(8.0, [0.8062, 0.0897]), (12.0, [0.9037, 0.0436])])
def test_rows_leave_an_unstable_symmetric_state(ratio, exact):
    """Where two rows were one, errors of large entries hid that they part (0.44 and 0.44 +- 0.09 at 256 points).

    Overlaps are those of a quadrature of 18^3 fields for each of 2048 data points.
    """
    found = limits(SequenceMultiIndex(committee, 3, noise=0.1).at_accuracy(Accuracy(points=256)), [ratio])
    diagonal = np.eye(3, dtype=bool)
    overlap, error = found["overlap"][0], found["error_estimate"][0]
    assert error < 0.1
    np.testing.assert_allclose(overlap[diagonal], exact[0], atol=error)
    np.testing.assert_allclose(overlap[~diagonal], exact[1], atol=error)
