"""Thresholds of directions of one's choice."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, AttentionIndexed, DeepAttention, IncompatibleError, SequenceMultiIndex, thresholds
from glassformer.bayes_optimal import staircase
from glassformer.bayes_optimal.instability import growth_of, instability
from glassformer.bayes_optimal.staircase import subspace_threshold
from glassformer.bayes_optimal.subspaces import symmetric_basis
from glassformer.errors import ParameterError

SQUARES = SequenceMultiIndex(lambda z: z[0, 0] ** 2 + 0.5 * z[1, 0] ** 2, 2, 1, noise=0.1).at_accuracy(
    Accuracy(points=32)
)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, pytest.param(0.5, marks=pytest.mark.thorough)])
def test_weak_recovery_of_one_index_agrees_with_its_threshold(noise):
    """Slopes of a link of one index are sampled at labels with their noise; its threshold follows from quadratures."""
    model = SequenceMultiIndex(lambda z: z[0, 0] ** 2, noise=noise)
    # Of eight times 2048 data points or more.
    assert subspace_threshold(model, 0).alpha == pytest.approx(thresholds(model)["weak_recovery"].alpha, rel=0.01)


@pytest.mark.slow
def test_one_layer():
    with pytest.raises(IncompatibleError, match="use thresholds"):
        subspace_threshold(AttentionIndexed(0.0), 0)
    assert subspace_threshold(DeepAttention(depth=1).at_accuracy(Accuracy(points=64)), 0).alpha == pytest.approx(
        1 / 6, rel=1e-6
    )


@pytest.mark.thorough
def test_rows_of_their_own():
    """The stronger of two squares is found first, the other one alone later than the mixture of both."""
    strong, weak = (subspace_threshold(SQUARES, row) for row in (0, 1))
    assert strong.alpha < weak.alpha
    both = subspace_threshold(SQUARES, np.eye(2))
    assert both.alpha <= strong.alpha + 4 * (both.error_estimate + strong.error_estimate)
    np.testing.assert_allclose(subspace_threshold(SQUARES, [0.0, 2.0]).alpha, weak.alpha)


@pytest.mark.thorough
def test_known_rows_lower_the_thresholds_of_others():
    model = DeepAttention(depth=2).at_accuracy(Accuracy(points=256))
    entries = thresholds(model).entries
    alone, later = subspace_threshold(model, 0), subspace_threshold(model, 0, known=1)
    assert later.alpha == pytest.approx(entries[1].alpha, rel=0.02)
    assert later.alpha < alone.alpha


@pytest.mark.parametrize("given", [2, -1, True, [1.0], [0.0, 0.0], [np.nan, 1.0]])
def test_invalid_subspaces_raise(given):
    model = SequenceMultiIndex(lambda z: jnp.abs(z[0, 0] * z[1, 0]), 2, 1, noise=0.1).at_accuracy(Accuracy(points=32))
    with pytest.raises(ParameterError, match="subspace"):
        subspace_threshold(model, given)


@pytest.mark.thorough
def test_search_along_a_known_direction_agrees_with_single_fixed_points(monkeypatch):
    model = SequenceMultiIndex(lambda z: z[0, 0] + z[1, 0] ** 2, indices=2, noise=0.2).at_accuracy(Accuracy(points=128))
    along = thresholds(model)["weak_recovery_2"]
    monkeypatch.setattr(staircase, "_along_known_direction", lambda *arguments: None)
    one_by_one = thresholds(model)["weak_recovery_2"]
    assert abs(along.alpha - one_by_one.alpha) <= along.error_estimate + one_by_one.error_estimate
    assert along.error_estimate < 0.01 * along.alpha


@pytest.mark.thorough
def test_noise_that_breaks_rotations_does_not_grow():
    """Labels of one layer of rank two are blind to rotations: both halves of a sample may err alike."""
    model = DeepAttention(depth=1, tokens=1, rank=2, activation="linear").at_accuracy(Accuracy(points=32))
    channel, basis = model.channel, symmetric_basis(np.eye(2), model)
    sampled = channel.inference.response(np.eye(2), 0, np.eye(2))
    noise = np.random.default_rng(0).standard_normal(sampled.first.shape)
    noise -= np.einsum("nalam,pq->nplqm", noise, np.eye(2)) / 2
    noisy = sampled._replace(first=sampled.first + noise, second=sampled.second + noise)
    assert growth_of(model, basis, noisy).rate == pytest.approx(growth_of(model, basis, sampled).rate, rel=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize(("row", "exact"), [(0, 0.39724), (1, 0.41736)])
def test_the_error_bars_of_two_linear_layers_cover(row, exact):
    """Exact values by quadrature over the label and the earlier layer."""
    model = DeepAttention(depth=2, activation="linear")
    found = instability(model, np.eye(2), np.diag(np.eye(2)[row]), np.inf, 4)
    assert abs(found.rate * exact - 1) <= found.relative_error < 0.02


@pytest.mark.thorough
@pytest.mark.parametrize(("tokens", "rank", "exact"), [(2, 2, 1 / 3), (1, 3, 1.5)])
def test_linear_layers_of_higher_rank(tokens, rank, exact):
    """r/(L (L + 1)); what sampled posteriors break of rotations moved the first to 0.3329 +- 0.0003."""
    model = DeepAttention(depth=1, tokens=tokens, rank=rank, activation="linear")
    found = subspace_threshold(model, np.eye(rank))
    assert found.alpha == pytest.approx(exact, abs=2 * found.error_estimate)


@pytest.mark.parametrize(("start", "most"), [(0.05, 6), (0.5, 5), (1.3, 3)])
def test_the_search_for_a_later_threshold_needs_few_fixed_points(start, most):
    places = []

    def growth(alpha):
        places.append(alpha)
        return (alpha / 2) ** 1.5 / (1 + 0.1 * alpha) * 1.2

    low, high = staircase._bracket(growth, start, 60 * start)
    assert low[0] < 2 < high[0]
    low = low if low[0] > start else (start, growth(start))
    assert staircase._root(growth, low, high, 0.02)[0] == pytest.approx(2, rel=2e-3)
    assert len(places) <= most


def test_growth_that_stays_below_one_has_no_bracket():
    assert staircase._bracket(lambda alpha: alpha / 100, 0.1, 6.0) is None
