"""Fixed points of some sample ratios as starts for others."""

import numpy as np
import pytest

from glassformer import Accuracy, DeepAttention
from glassformer.bayes_optimal.evolution_map import EvolutionMap
from glassformer.bayes_optimal.first_stable import continuation_order, warm_start
from glassformer.bayes_optimal.solve import solve_state_evolution


@pytest.mark.parametrize("informed", [False, True])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 9])
def test_every_ratio_is_solved_once_and_begins_between_its_start_and_its_end(size, informed):
    alpha = np.random.default_rng(size).permutation(np.linspace(0.1, 2.0, size))
    done, parts = [], continuation_order(alpha, informed)
    for places, near, side in parts:
        assert set(near) <= set(done) and (side == -1) == informed
        if done:
            assert np.all(side * (alpha[places] - alpha[near]) > 0)
        done += list(places)
    assert sorted(done) == list(range(size)) and len(parts) <= 2 + np.log2(size)


def test_starts_are_never_on_the_wrong_side():
    """Above the fixed point of a smaller ratio nothing is known that is not, beyond it something might be missed."""
    root = np.random.default_rng(0).normal(size=(50, 3, 3))
    found, start = root @ np.swapaxes(root, 1, 2), np.broadcast_to(np.eye(3), (50, 3, 3))
    for side in (1.0, -1.0):
        begun = warm_start(start, found, side)
        for bound in (start, found):
            assert np.linalg.eigvalsh(side * (bound - begun)).min() >= -1e-10
    below = 0.5 * found / np.linalg.norm(found, axis=(1, 2), keepdims=True)
    assert np.allclose(warm_start(start, below, 1.0), below)
    assert np.allclose(warm_start(below, start, -1.0), start)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "depth", "ratios"),
    [
        ("uninformed", 1, [0.7, 0.25, 0.4]),
        ("informed", 1, [0.25, 0.7]),
        *(pytest.param(s, 2, [0.75, 0.3, 0.6, 2.0], marks=pytest.mark.thorough) for s in ("uninformed", "informed")),
    ],
)
def test_batched_ratios_have_the_fixed_points_of_single_ratios(start, depth, ratios):
    model, ratios = DeepAttention(depth=depth).at_accuracy(Accuracy(points=64)), np.array(ratios)
    together = solve_state_evolution(EvolutionMap(model, ratios, model.channel), start)
    for k, ratio in enumerate(ratios):
        alone = solve_state_evolution(EvolutionMap(model, ratios[k : k + 1], model.channel), start)
        assert together.settled[k] and alone.settled[0], ratio
        gap = np.linalg.norm(together.value[k] - alone.value[0])
        assert gap <= together.error_estimate[k] + alone.error_estimate[0]
