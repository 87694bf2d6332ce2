"""What is compiled for one value of a number serves all others."""

from collections import OrderedDict

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, DeepAttention, SequenceMultiIndex
from glassformer.numerics import cached_jit as compiled


def product(z):
    return z[0, 0] * jnp.tanh(z[1, 0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        lambda number: DeepAttention(skip=number).at_accuracy(Accuracy(points=64)),
        lambda number: SequenceMultiIndex(product, indices=2, tokens=1, noise=number).at_accuracy(Accuracy(points=32)),
    ],
)
def test_new_numbers_do_not_recompile(made, monkeypatch):
    monkeypatch.setattr(compiled, "_executables", OrderedDict())
    found, keys = [], []
    for number in (0.4, 0.9):
        channel = made(number).channel
        found.append(channel.inference.averages(0.5 * np.eye(2)[None])[0])
        keys.append(set(compiled._executables))
    assert keys[0] == keys[1]
    assert np.max(np.abs(np.asarray(found[0]) - np.asarray(found[1]))) > 0.01
