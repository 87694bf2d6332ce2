"""Message passing for inputs known by their singular values, against message passing and state evolution."""

import numpy as np
import pytest

from glassformer import Accuracy, BilinearSequenceRegression, DeepAttention, IncompatibleError
from glassformer.bayes_optimal.vector_state_evolution import vector_state_evolution
from glassformer.data_analysis import diagnose
from glassformer.errors import DataError, DataWarning
from glassformer.learners.gamp import gamp
from glassformer.learners.vamp import vamp

MODEL = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)


def problem(inputs, seed=0):
    rng = np.random.default_rng(seed)
    signal = MODEL.prior.sample(inputs.shape[1:], rng)
    clean = np.einsum("nld,ld->n", inputs, signal) / np.sqrt(signal.size)
    return signal, clean + np.sqrt(0.1) * rng.standard_normal(len(inputs))


def orthogonal(n, d, seed):
    flat = np.random.default_rng([seed, 1]).standard_normal((d * d, n))
    return d * np.linalg.qr(flat)[0].T.reshape(n, d, d)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [200, 900])  # fewer and more than the 400 entries
def test_on_independent_inputs_it_is_message_passing(samples):
    inputs = np.random.default_rng(1).standard_normal((samples, 20, 20))
    signal, labels = problem(inputs)
    vector, plain = vamp(MODEL, inputs, labels), gamp(MODEL, inputs, labels)
    assert vector.converged
    assert plain.converged
    apart = np.mean((vector.value - plain.value) ** 2)
    assert apart < 0.1 * np.mean((plain.value[0] - signal) ** 2)
    assert abs(vector.extra["nishimori_ratio"][0] - 1) < 4 * np.sqrt(2 / samples)


@pytest.mark.slow
def test_vamp_on_orthogonal_inputs_agrees_with_theory():
    found = []
    for seed in range(4):
        inputs = orthogonal(288, 24, seed)
        signal, labels = problem(inputs, seed)
        run = vamp(MODEL, inputs, labels)
        assert run.converged
        found.append(np.mean((run.value[0] - signal) ** 2) / np.mean(signal**2))
    theory = vector_state_evolution(MODEL, np.ones(288), 576)
    assert theory.converged
    assert abs(np.mean(found) - theory.value[0]) < 3 * np.std(found, ddof=1) / 2
    assert not gamp(MODEL, inputs, labels).converged


def test_diagnose_names_inputs_for_it():
    asked = "vamp and its state evolution, on linear labels of X as it is"
    x = orthogonal(200, 20, 0)
    assert asked in diagnose(x).trusted
    copied = np.random.default_rng(0).standard_normal((600, 10, 10))
    copied[:, 5:] = np.roll(copied[:, :5], 3, axis=2)
    refused = next(one for one in diagnose(copied).verdicts if one.theory == asked)
    assert not refused.trusted
    assert "entry correlation" in refused.reason


@pytest.mark.slow
def test_incompatible_models():
    x, y = np.random.default_rng(0).standard_normal((50, 4, 4)), np.ones(50)
    signs = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
    with pytest.raises(IncompatibleError, match="vamp learns from linear labels"):
        vamp(signs, x, y)
    for other in (signs, DeepAttention(depth=1).at_accuracy(Accuracy(points=64))):
        with pytest.raises(IncompatibleError, match="of one matrix"):
            vector_state_evolution(other, np.ones(5), 10)
    with pytest.raises(IncompatibleError, match="extensive width"):
        vector_state_evolution(BilinearSequenceRegression(width=2, noise=0.1), np.ones(5), 10)
    with pytest.raises(DataError, match="1 to 10 finite numbers >= 0"):
        vector_state_evolution(MODEL, -np.ones(5), 10)
    with pytest.warns(DataWarning, match="mean"):
        vamp(MODEL, x + 1, problem(x)[1])
