"""Estimates from data, and their predictions."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    ConvergenceError,
    DeepAttention,
    GradientDescent,
    IncompatibleError,
    MessagePassing,
    NuclearNorm,
    RegularisedRisk,
    Ridge,
    SequenceMultiIndex,
    fit,
)
from glassformer.channels.labelling import clean_labels, true_labels
from glassformer.core.random_streams import random_stream
from glassformer.errors import DataError, DataWarning, ParameterError
from glassformer.learners.gamp import gamp

NOISY = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.01)


def drawn(model, alpha, d, seed=0):
    """Inputs, labels without and with noise, of a teacher."""
    size = model.at_size(d)
    n = round(alpha * size.unit)
    design = size.design.sample(n, size.input_shape, random_stream(seed, 1))
    signal = size.model.prior.sample(size.model.signal_shape(design), random_stream(seed, 0))
    fields = design.forward(signal, 0)
    labels = size.model.channel.sample(fields, random_stream(seed, 2))
    shape = (size.model.channel.fields.rows, size.model.channel.fields.columns)
    return size.model, np.asarray(design.inputs[0]), labels, np.asarray(fields).reshape(n, *shape)


def test_it_is_message_passing_and_predicts_fields_of_linear_labels():
    model, X, y, fields = drawn(NOISY, 0.9, 20)
    found = fit(model, X[:300], y[:300])
    np.testing.assert_array_equal(found.estimate, gamp(model, X[:300], y[:300]).value[0])
    assert found.converged and found.claimed_error < 0.2
    np.testing.assert_allclose(found.predict(X[300:]), np.einsum("nld,ld->n", X[300:], found.estimate) / 20, atol=1e-9)
    assert np.mean((found.predict(X[300:]) - fields[300:, 0, 0]) ** 2) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "alpha", "d", "learner", "worst"),
    [
        (NOISY, 0.9, 16, Ridge(), 0.4),
        (NOISY, 0.9, 16, NuclearNorm(), 0.2),
        (BilinearSequenceRegression(beta=1, rho=0.2, channel="sign"), 3.0, 16, MessagePassing(), 0.15),
        (BilinearSequenceRegression(beta=1, rho=0.2, channel="sign"), 3.0, 16, RegularisedRisk("logistic"), 0.2),
        (AttentionIndexed(rho=0.3, tokens=2, channel="softmax"), 0.6, 20, MessagePassing(), 0.1),
        (AttentionIndexed(rho=0.3, tokens=2, channel="hardmax"), 1.0, 20, MessagePassing(), 0.15),
        (
            SequenceMultiIndex(lambda z: jnp.argmax(z[:, 0]), 3),
            6.0,
            60,
            RegularisedRisk("cross-entropy", strength=0.1),
            0.3,
        ),
        (DeepAttention(depth=1), 3.0, 60, MessagePassing(), 0.3),
    ],
)
def test_predictions_are_close_to_labels_without_noise(model, alpha, d, learner, worst):
    model, X, y, fields = drawn(model.at_accuracy(Accuracy(points=64)), 1.5 * alpha, d)
    n = 2 * len(X) // 3
    found = fit(model, X[:n], y[:n], learner, throw=False)
    predicted = found.predict(X[n:])
    assert predicted.shape == np.shape(y[n:])
    if model.channel.labels.discrete:
        assert np.mean(predicted != true_labels(model.channel, fields[n:]).reshape(predicted.shape)) < worst
    else:
        clean = np.asarray(clean_labels(model.channel, fields[n:])).reshape(predicted.shape)
        assert np.mean((predicted - clean) ** 2) < worst * np.var(clean)


def test_bad_data_and_arguments_are_named():
    X, y = np.random.default_rng(0).standard_normal((30, 4, 4)), np.ones(30)
    model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1)
    for given, error, words in (
        ({"X": X[:, 0]}, DataError, "X"),
        ({"y": y[:-1]}, DataError, "y"),
        ({"y": y * np.nan}, DataError, "y"),
        ({"seed": -1}, ParameterError, "seed"),
        ({"learner": "sgd"}, IncompatibleError, "learner sgd"),
        ({"accuracy": Accuracy(points=64)}, IncompatibleError, "points = 64 has no effect on fits of gamp on bsr"),
    ):
        with pytest.raises(error, match=words):
            fit(model, **{"X": X, "y": y, **given})
    with pytest.raises(DataError, match="X"):
        fit(model, X, X[:, 0, 0], "ridge").predict(X[:, 0])
    with pytest.warns(DataWarning, match="mean"):
        fit(model, X + 3, X[:, 0, 0], throw=False)


@pytest.mark.thorough
def test_what_did_not_converge_raises_with_the_fit_and_training_continues(tmp_path):
    model, X, y, _ = drawn(NOISY, 0.5, 12)
    with pytest.raises(ConvergenceError) as caught:
        fit(model, X, y, accuracy=Accuracy(max_iterations=2))
    assert caught.value.result.estimate.shape == (12, 12)
    kept = fit(model, X, y, GradientDescent(), throw=False, checkpoint=tmp_path)
    assert not list(tmp_path.glob("*.npz")) and kept.predict(X).shape == y.shape
