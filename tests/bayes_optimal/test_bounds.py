"""Bounds by coarse labels stay below what is exact, and come close to it."""

import numpy as np
import pytest

from glassformer import Accuracy, BilinearSequenceRegression, DeepAttention, SequenceMultiIndex
from glassformer.bayes_optimal.bounds import growth_bound, information_bound
from glassformer.errors import ParameterError

SAMPLES = 2**19

# Eigenvalues at zero overlap by plain quadrature over label and field.
EXACT = {
    "|z|": (lambda z: abs(z[0, 0]), 0.0, 2.0),
    "|z|, noisy": (lambda z: abs(z[0, 0]), 0.1, 1 / 0.6042877),
    "z^2, noisy": (lambda z: z[0, 0] ** 2, 0.1, 1 / 0.5180659),
    "z^2, noisier": (lambda z: z[0, 0] ** 2, 1.0, 1 / 0.6465908),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_growth_of_one_index(name):
    link, noise, exact = EXACT[name]
    found = growth_bound(SequenceMultiIndex(link, 1, 1, noise=noise), samples=SAMPLES)
    assert found.value - 4 * found.error < exact
    assert found.value + 4 * found.error > 0.98 * exact
    assert found.error < 0.02 * exact


@pytest.mark.thorough
def test_the_error_is_that_of_repeated_samples():
    model = SequenceMultiIndex(EXACT["z^2, noisy"][0], 1, 1, noise=0.1)
    found = [growth_bound(model, samples=2**17, seed=seed) for seed in range(10)]
    spread, claimed = np.std([b.value for b in found], ddof=1), np.mean([b.error for b in found])
    assert 0.6 < spread / claimed < 1.6


@pytest.mark.slow
def test_one_layer_of_attention():
    """Two tokens: the threshold is exactly 1/6."""
    found = growth_bound(DeepAttention(depth=1, tokens=2), samples=SAMPLES)
    assert 1 / (found.value - 4 * found.error) > 1 / 6
    assert 1 / found.value < 0.19


@pytest.mark.parametrize("variance", [1.0, 0.3])
def test_information_of_noisy_labels(variance):
    """Linear labels: 1 / (V + noise)."""
    model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.5)
    found, exact = information_bound(model, variance * np.eye(1), np.ones(1), SAMPLES), 1 / (variance + 0.5)
    assert found.value - 4 * found.error < exact
    assert found.value > 0.9 * exact - 4 * found.error


@pytest.mark.thorough
def test_information_agrees_with_state_evolution():
    model = SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0] + z[0, 0], 2, 1, noise=0.2).at_accuracy(Accuracy(points=256))
    variance = np.array([[0.3, 0.05], [0.05, 0.5]])
    used, error = (part[0] for part in model.channel.inference.information(variance[None]))
    for k in range(2):
        found = information_bound(model, variance, np.eye(2)[k], SAMPLES)
        assert found.value < used[k, k] + 4 * np.hypot(found.error, error[k, k])


def test_too_few_samples():
    with pytest.raises(ParameterError, match="samples"):
        growth_bound(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), samples=100)
