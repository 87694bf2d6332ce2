"""Inputs that are drawn when they are needed are those that could have been stored."""

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    IncompatibleError,
    MessagePassing,
    simulate,
)
from glassformer.designs.dense import DenseDesign
from glassformer.designs.generated import GeneratedDesign
from glassformer.designs.projection import ProjectionDesign, projection_design
from glassformer.designs.quadratic import LayeredQuadraticDesign, QuadraticDesign
from glassformer.learners.gamp import gamp
from glassformer.verbs.simulate import experiment_of

SHAPES = {
    DenseDesign: ((4, 5), (4, 5)),
    QuadraticDesign: ((2, 6), (6, 6)),
    LayeredQuadraticDesign: ((2, 6), (3, 6, 6)),
    ProjectionDesign: ((2, 6), (3, 6)),
    projection_design(2): ((2, 6), (4, 3)),
}


@pytest.mark.parametrize("kind", SHAPES, ids=lambda kind: kind.__name__)
def test_both_maps_are_those_of_the_stored_inputs(kind):
    shape, signal_shape = SHAPES[kind]
    design = GeneratedDesign(kind, (3, 1), number=23, shape=shape, block=5)
    whole, rng = design.stored(), np.random.default_rng(0)
    signal = rng.standard_normal(signal_shape)
    if kind in (QuadraticDesign, LayeredQuadraticDesign):
        signal = signal + np.swapaxes(signal, -1, -2)
    fields = design.forward(signal, 0)
    np.testing.assert_allclose(fields, whole.forward(signal, 0), rtol=1e-4, atol=1e-5)
    score = rng.standard_normal(fields.shape)
    np.testing.assert_allclose(design.adjoint(score, 0), whole.adjoint(score, 0), rtol=1e-4, atol=1e-5)
    assert design.sample_ratio == pytest.approx(whole.sample_ratio)
    assert design.signal_shape == whole.signal_shape
    assert design.damping == whole.damping
    assert design.field_shape[:2] == whole.field_shape[:2]


def test_a_smaller_sample_is_the_beginning_of_a_larger_one():
    design = GeneratedDesign(DenseDesign, (3, 1), number=23, shape=(4, 5), block=5)
    np.testing.assert_array_equal(design.first(12).stored().inputs, design.stored().inputs[:, :12])
    other = GeneratedDesign(DenseDesign, (4, 1), number=23, shape=(4, 5), block=5)
    assert not np.array_equal(other.stored().inputs, design.stored().inputs)


@pytest.mark.slow
def test_message_passing_takes_them_for_stored_ones():
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    design = GeneratedDesign(DenseDesign, (5,), number=200, shape=(20, 20), block=64)
    rng = np.random.default_rng(0)
    labels = model.channel.sample(design.forward(model.prior.sample((20, 20), rng), 0), rng)
    found, expected = gamp(model, design, labels), gamp(model, design.stored(), labels)
    np.testing.assert_allclose(found.value, expected.value, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1), marks=pytest.mark.thorough),
        AttentionIndexed(0.5),
    ],
)
def test_in_simulations(model):
    alpha = 0.5 if model.name == "bsr" else 0.1
    result = simulate(model, [alpha], d=24, instances=4, storage="generated")
    gap = abs(result["relative_error"][0] - result["theory"][0])
    assert gap < 4 * result["relative_standard_error"][0] + 0.05
    assert result.parameters["storage"] == "generated"


@pytest.mark.thorough
def test_in_simulations_of_several_rows():
    experiment = experiment_of(
        DeepAttention().at_accuracy(Accuracy(points=32)), np.array([1.5]), 100, 1, 0, MessagePassing(), "generated"
    )
    (run,) = experiment.runs()[0]
    assert np.all(run.row_error < 0.2)


@pytest.mark.parametrize("storage", ["generated", "sharded"])
def test_algorithms_that_need_their_inputs_refuse(storage):
    for algorithm in ("ridge", "averaged-gd"):
        with pytest.raises(IncompatibleError, match=f"storage {storage} is for learner gamp"):
            simulate(BilinearSequenceRegression(beta=1, rho=0.3), [0.5], algorithm, d=10, storage=storage)
    with pytest.raises(IncompatibleError, match="gamp"):
        simulate(DeepAttention(), [0.5], "sgd", d=10, storage=storage)
