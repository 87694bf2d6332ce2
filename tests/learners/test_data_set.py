"""What a learner is given: what is refused, and what is followed."""

import numpy as np
import pytest

from glassformer import Accuracy, DeepAttention
from glassformer.designs import DenseDesign
from glassformer.errors import DataError, ParameterError
from glassformer.learners.data_set import DataSet

DESIGN = DenseDesign(np.ones((1, 3, 2, 2)))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.ones(4), r"y = \(4,\) is not allowed: expected one label for each of 3 samples"),
        (np.float64(1.0), r"y = \(\) is not allowed"),
        (np.array([1.0, np.nan, 1.0]), r"y = .*y\[1\] = nan.* is not allowed: expected finite entries"),
    ],
)
def test_labels_are_one_per_sample_and_finite(labels, said):
    with pytest.raises(DataError, match=said):
        DataSet(DESIGN, labels)


@pytest.mark.parametrize("seed", [-1, 0.5, True])
def test_seeds_are_whole(seed):
    with pytest.raises(ParameterError, match=r"seed = .* expected an integer >= 0"):
        DataSet(DESIGN, np.ones(3), seed)


@pytest.mark.slow
def test_nothing_is_followed_without_a_teacher():
    model, rng = DeepAttention(depth=1).at_accuracy(Accuracy(points=64)), np.random.default_rng(0)
    size = model.at_size(10)
    design = size.design.sample(20, size.input_shape, rng)
    signal = model.prior.sample(model.signal_shape(design), rng)
    labels = model.channel.sample(design.forward(signal, 0), rng)
    assert DataSet(design, labels).errors_of(model, signal) == {}
    found = DataSet(design, labels, teacher=signal).errors_of(model, signal)
    assert set(found) == {"row_error", "cosine", "prediction_error", "plugin_error"}
    np.testing.assert_allclose(found["row_error"], 0, atol=1e-12)  # rounding


def test_seed_determines_random_numbers():
    first, again, other = (DataSet(DESIGN, np.ones(3), seed).rng.standard_normal() for seed in (1, 1, 2))
    assert first == again
    assert first != other
