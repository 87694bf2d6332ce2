"""Fields of signals on new samples: those of new inputs, or of the law that these have."""

import numpy as np
import pytest

from glassformer.designs.base import row_fields
from glassformer.designs.dense import DenseDesign
from glassformer.designs.pairs import PairDesign
from glassformer.designs.projection import projection_design
from glassformer.designs.quadratic import LayeredQuadraticDesign, QuadraticDesign

# Of every design the input of one sample and the shape of one signal, rows first.
DESIGNS = {
    "dense": (DenseDesign, (4, 6), (1, 4, 6)),
    "projections": (projection_design(1), (2, 12), (3, 12)),
    "heads": (projection_design(2), (2, 12), (4, 6)),
    "pairs of tokens": (QuadraticDesign, (3, 8), (1, 8, 8)),
    "layers": (LayeredQuadraticDesign, (2, 8), (2, 8, 8)),
    "two sequences": (PairDesign, (4, 8), (1, 8, 8)),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_they_have_the_moments_of_fields_of_inputs(name):
    kind, inputs, shape = DESIGNS[name]
    rng, samples = np.random.default_rng(0), 20_000
    signals = rng.standard_normal((2, *shape))
    if "quadratic" in kind.__name__.lower():
        signals = signals + np.swapaxes(signals, -1, -2)
    found = kind.new_fields(signals, inputs, samples, rng)
    design = kind.sample(samples, inputs, rng)
    expected = np.stack([row_fields(design, signal, 0) for signal in signals])
    assert found.shape == expected.shape
    flat, other = (np.moveaxis(part, 1, 0).reshape(samples, -1) for part in (found, expected))
    scale = np.sqrt(np.mean(other**2, axis=0))
    # Means and products of 20,000 samples, whose fourth moments are up to four times those of normal numbers.
    assert np.all(np.abs(flat.mean(axis=0) - other.mean(axis=0)) < 6 * scale / np.sqrt(samples))
    gap = np.abs(flat.T @ flat - other.T @ other) / samples
    assert np.all(gap < 0.1 * np.outer(scale, scale))


@pytest.mark.parametrize("name", DESIGNS)
def test_those_of_one_signal_are_the_same_for_its_copy(name):
    kind, inputs, shape = DESIGNS[name]
    signal = np.random.default_rng(1).standard_normal(shape)
    first, second = kind.new_fields(np.stack([signal, signal]), inputs, 50, np.random.default_rng(2))
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-6)
    again, _ = kind.new_fields(np.stack([signal, signal]), inputs, 50, np.random.default_rng(2))
    np.testing.assert_array_equal(first, again)


def test_inputs_are_drawn_a_part_at_a_time(monkeypatch):
    from glassformer.designs import base

    signals = np.random.default_rng(1).standard_normal((2, 1, 8, 8))
    whole = QuadraticDesign.new_fields(signals, (3, 8), 100, np.random.default_rng(2))
    monkeypatch.setattr(base, "_DRAWN_AT_ONCE", 240)
    parts = QuadraticDesign.new_fields(signals, (3, 8), 100, np.random.default_rng(2))
    np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=1e-12)
