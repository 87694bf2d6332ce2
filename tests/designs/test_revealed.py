"""Inputs that are revealed only where an algorithm looks: their law is that of stored ones."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

from glassformer import (
    SGD,
    AttentionIndexed,
    AveragedGradientDescent,
    BilinearSequenceRegression,
    DeepAttentionIndexed,
    GradientDescent,
    IncompatibleError,
    NuclearNorm,
    SequenceMultiIndex,
    simulate,
)
from glassformer.core.checkpoints import Checkpoint
from glassformer.core.errors import ParameterError
from glassformer.designs.dense import CorrelatedDesign, DenseDesign
from glassformer.designs.gaussian_matrix import TOLERANCE, GaussianMatrix
from glassformer.designs.pairs import PairDesign
from glassformer.designs.projection import projection_design
from glassformer.designs.quadratic import LayeredQuadraticDesign, QuadraticDesign
from glassformer.learners.data_set import DataSet
from glassformer.models.token_correlation import correlation_root
from glassformer.numerics.jax_settings import jax_settings
from glassformer.verbs.storage import memory_and_work

ROOT = correlation_root(0.5, 3)
EXACT = {
    "dense": (DenseDesign, (3, 4)),
    "correlated": (CorrelatedDesign(ROOT), (3, 4)),
    "rows": (projection_design(1), (3, 4)),
    "heads": (projection_design(2), (3, 4)),
}
EQUIVALENT = {
    "symmetric": (QuadraticDesign, (2, 40)),
    "layered": (LayeredQuadraticDesign, (2, 40)),
    "untied": (PairDesign, (4, 40)),
}


def adaptive_sequence(matrix, rng):
    """Look at the matrix as message passing does: each vector depends on all that was seen before."""
    n, size = matrix.shape
    left, right = np.zeros(n), rng.standard_normal(size)
    for _ in range(3):
        left = np.tanh(matrix.times(right)) - 0.5 * left
        right = np.maximum(matrix.transpose_times(left), 0.0) + 0.3 * right


def entries(matrix):
    return np.stack([matrix.times(one) for one in np.eye(matrix.shape[1])], axis=1)


@pytest.mark.parametrize("shape", [(4, 3), (3, 5)])
def test_entries_are_independent_normal_numbers_whatever_was_looked_at_before(shape):
    """The covariance of all entries is the identity within five standard errors, and they are normal."""
    count, rng = 3000, np.random.default_rng(0)
    drawn = np.empty((count, shape[0] * shape[1]))
    for one in drawn:
        matrix = GaussianMatrix(shape, rng)
        adaptive_sequence(matrix, np.random.default_rng(1))
        one[:] = entries(matrix).ravel()
    covariance = drawn.T @ drawn / count
    error = np.sqrt((1 + np.eye(len(covariance))) / count)
    assert np.all(np.abs(covariance - np.eye(len(covariance))) < 5 * error)
    assert np.all(np.abs(drawn.mean(axis=0)) < 5 / np.sqrt(count))
    assert kstest(drawn.ravel(), "norm").pvalue > 1e-3


def test_products_with_known_vectors_have_the_covariance_of_stored_ones():
    """Columns X w_i have covariance w_i . w_j, and X^T e and X w the correlation e w^T."""
    count, rng = 3000, np.random.default_rng(2)
    vectors, score = rng.standard_normal((2, 5)), rng.standard_normal(4)
    seen = np.empty((count, 13))
    for one in seen:
        matrix = GaussianMatrix((4, 5), rng)
        one[:4], one[4:9], one[9:] = matrix.times(vectors[0]), matrix.transpose_times(score), matrix.times(vectors[1])
    maps = np.vstack([np.kron(np.eye(4), vectors[0]), np.kron(score, np.eye(5)), np.kron(np.eye(4), vectors[1])])
    expected = maps @ maps.T
    power = np.diag(expected)
    error = np.sqrt((np.outer(power, power) + expected**2) / count)
    assert np.all(np.abs(seen.T @ seen / count - expected) < 5 * error)


def test_both_sides_agree_to_rounding():
    rng = np.random.default_rng(3)
    matrix = GaussianMatrix((60, 80), rng)
    vectors, scores = rng.standard_normal((10, 80)), rng.standard_normal((10, 60))
    fields = [matrix.times(one) for one in vectors]
    sums = [matrix.transpose_times(one) for one in scores]
    np.testing.assert_allclose(np.array(sums) @ vectors.T, scores @ np.array(fields).T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(matrix.times(vectors[3]), fields[3], rtol=1e-12, atol=1e-12)
    assert matrix.directions == 20


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_dependent_directions_are_dropped_with_an_error_of_the_tolerance(precision):
    rng = np.random.default_rng(4)
    matrix = GaussianMatrix((200, 300), rng, np.dtype(precision))
    vector, other = rng.standard_normal((2, 300))
    first = matrix.times(vector)
    tolerance = TOLERANCE[np.dtype(precision).itemsize]
    beside = matrix.times(vector + 0.5 * tolerance * other)
    assert matrix.directions == 1
    assert np.linalg.norm(beside - first) <= 2 * tolerance * np.linalg.norm(first)
    matrix.times(vector + 4 * tolerance * other)
    assert matrix.directions == 2


@pytest.mark.parametrize("name", EXACT)
def test_revealed_fields_have_the_covariance_of_stored_ones(name):
    kind, shape = EXACT[name]
    rng, count = np.random.default_rng(5), 4000
    stored = kind.sample(count, shape, rng)
    signal = rng.standard_normal((4, *stored.row_shape) if stored.several_rows else stored.signal_shape)
    revealed = kind.reveal(count, shape, rng)
    assert (revealed.samples, revealed.field_shape) == (count, stored.field_shape)
    assert revealed.sample_ratio == stored.sample_ratio
    fields = [design.forward(signal, 0).reshape(count, -1) for design in (stored, revealed)]
    one, other = (np.cov(own.T).reshape(fields[0].shape[1], -1) for own in fields)
    assert np.all(np.abs(one - other) < 10 * np.diag(one).max() / np.sqrt(count))


@pytest.mark.parametrize("name", EXACT)
def test_revealed_sums_are_the_transpose(name):
    kind, shape = EXACT[name]
    rng = np.random.default_rng(6)
    design, stored = kind.reveal(7, shape, rng), kind.sample(7, shape, rng)
    signal = rng.standard_normal((4, *stored.row_shape) if stored.several_rows else stored.signal_shape)
    fields = design.forward(signal, 0)
    score = rng.standard_normal(fields.shape)
    total = design.adjoint(score, 0)
    assert (fields.shape, total.shape) == (stored.forward(signal, 0).shape, stored.adjoint(score, 0).shape)
    assert np.sum(score * fields) == pytest.approx(np.sum(signal * total))


@pytest.mark.parametrize("name", EQUIVALENT)
def test_equivalent_fields_have_the_power_and_the_transpose_of_stored_ones(name):
    kind, shape = EQUIVALENT[name]
    rng, count = np.random.default_rng(7), 2000
    stored, design = kind.sample(count, shape, rng), kind.reveal_equivalent(count, shape, rng)
    size = (2, 40, 40) if stored.several_rows else (40, 40)
    signal = rng.standard_normal(size)
    signal = signal if name == "untied" else (signal + np.swapaxes(signal, -1, -2)) / np.sqrt(2)
    ours, theirs = design.forward(signal, 0), stored.forward(signal, 0)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours.var(axis=0), theirs.var(axis=0), rtol=0.2)
    score = rng.standard_normal(ours.shape)
    ratios = [
        np.sum(score * own.forward(signal, 0)) / np.sum(signal * own.adjoint(score, 0)) for own in (design, stored)
    ]
    assert ratios[0] == pytest.approx(ratios[1])


@pytest.mark.parametrize("name", [*EXACT, *EQUIVALENT])
def test_the_transpose_belongs_to_the_inner_product_of_the_design(name):
    """Fields and sums of stored, revealed and equivalent inputs: <e, h(S)> is the metric times the sum over entries."""
    kind, shape = {**EXACT, **EQUIVALENT}[name]
    rng = np.random.default_rng(8)
    stored = kind.sample(9, shape, rng)
    other = kind.reveal(9, shape, rng) if name in EXACT else kind.reveal_equivalent(9, shape, rng)
    rows = {"layered": (2,), "rows": (4,), "heads": (4,)}.get(name, ())
    signal = rng.standard_normal((*rows, *(stored.row_shape if stored.several_rows else stored.signal_shape)))
    signal = signal + np.swapaxes(signal, -1, -2) if name in ("symmetric", "layered") else signal
    for design in (stored, other):
        fields = design.forward(signal, 0)
        score = rng.standard_normal(fields.shape)
        total = np.sum(signal * design.adjoint(score, 0))
        assert np.sum(score * fields) == pytest.approx(design.metric * total)


def test_what_cannot_be_revealed_is_refused_with_the_remedy():
    rng = np.random.default_rng(0)
    with pytest.raises(IncompatibleError, match="use storage"):
        AttentionIndexed(rho=0.5).at_size(10).design.reveal(5, (2, 10), rng)
    with pytest.raises(IncompatibleError, match="use storage revealed"):
        BilinearSequenceRegression(rho=0.5).at_size(10).design.reveal_equivalent(5, (10, 10), rng)
    design = DenseDesign.reveal(5, (2, 3), rng)
    with pytest.raises(IncompatibleError, match="entries"):
        next(iter(design.parts()))
    with pytest.raises(ParameterError, match="float64 or float32"):
        DenseDesign.reveal(5, (2, 3), rng, "float16")


def test_memory_is_checked_while_it_grows(monkeypatch):
    monkeypatch.setattr("glassformer.core.resources.available_memory", lambda: 1e6)
    matrix = GaussianMatrix((10**6, 10), np.random.default_rng(0), name=("d", 10))
    with pytest.raises(ParameterError, match=r"d = 10 .* 1 revealed directions .*smaller d"):
        matrix.times(np.ones(10))


# --- runs -------------------------------------------------------------------------------------------------------------

LINEAR = BilinearSequenceRegression(rho=0.5, noise=0.1)


@dataclass
class Stopping(Checkpoint):
    """A checkpoint whose computation is interrupted after some writes."""

    left: float = np.inf

    def save(self, arrays):
        super().save(arrays)
        self.every, self.left = 0.0, self.left - 1
        if self.left <= 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("learner", ["gamp", "blind-gamp", "ridge", "risk"])
def test_runs_on_revealed_inputs_reach_theory(learner):
    found = simulate(LINEAR, [0.4], learner, d=30, instances=4, storage="revealed")
    assert found.parameters["storage"] == "revealed"
    assert abs(found["error"][0] - found["theory"][0]) < 4 * found["standard_error"][0] + 0.01


@pytest.mark.thorough
@pytest.mark.parametrize("learner", [NuclearNorm(strength=0.5), GradientDescent(learning_rate=0.2, steps=50)])
def test_runs_on_revealed_inputs_have_the_distribution_of_stored_ones(learner):
    """A small version of benchmarks/check_revealed.py."""
    ask = {"d": 10, "instances": 50, "throw": False}
    stored = simulate(LINEAR, [0.5], learner, **ask)
    revealed = simulate(LINEAR, [0.5], learner, storage="revealed", seed=10**6, **ask)
    errors = [[run.error for run in found.instances[0]] for found in (stored, revealed)]
    assert ks_2samp(*errors).pvalue > 1e-3


@pytest.mark.thorough
def test_rows_on_revealed_tokens_reach_theory():
    model = SequenceMultiIndex(lambda z: z[0, 0] + 0.5 * z[0, 1], 1, tokens=2, noise=0.1)
    found = simulate(model, [0.8], d=300, instances=2, storage="revealed-float32")
    assert abs(found["error"][0] - found["theory"][0]) < 0.05


def test_ratios_of_revealed_runs_are_independent_and_repeatable():
    ask = {"d": 20, "instances": 2, "storage": "revealed"}
    both, alone = simulate(LINEAR, [0.3, 0.5], **ask), simulate(LINEAR, [0.5], **ask)
    assert both["error"][1] == alone["error"][0] != both["error"][0]


def test_inputs_beyond_the_stated_size_are_revealed_by_default(monkeypatch):
    ask = {"d": 12, "instances": 1}
    assert simulate(LINEAR, [0.5], **ask).parameters["storage"] == "float64"
    monkeypatch.setattr("glassformer.verbs.storage.LARGEST_STORED", 1000)
    assert simulate(LINEAR, [0.5], **ask).parameters["storage"] == "revealed"
    # What needs the entries, or has tokens in squares, keeps its arrays.
    assert simulate(LINEAR, [0.5], "vamp", **ask).parameters["storage"] == "float64"
    assert simulate(AttentionIndexed(rho=0.5), [0.2], **ask).parameters["storage"] == "float64"


def test_learners_that_need_entries_refuse_revealed_inputs():
    with pytest.raises(IncompatibleError, match="storage revealed is for learner gamp"):
        simulate(LINEAR, [0.5], "vamp", d=10, storage="revealed")


def rows_label(z):
    return jnp.tanh(z[0, 0]) + z[0, 1] * z[1, 0]


ROWS = SequenceMultiIndex(rows_label, 2, 2, noise=0.1)
SAME = {
    "descent": (LINEAR, GradientDescent(learning_rate=0.2, steps=100)),
    "decay": (LINEAR, GradientDescent(learning_rate=0.2, steps=100, weight_decay=0.3, momentum=0.5)),
    "exploration": (LINEAR, AveragedGradientDescent(initialisations=2, explore=100, steps=200)),
    "interpolator": (LINEAR, NuclearNorm(strength=0.0)),
    "penalty": (LINEAR, NuclearNorm(strength=0.5)),
    "rows": (ROWS, SGD(learning_rate=0.1, steps=30)),
    "batches": (ROWS, SGD(learning_rate=0.1, batch=0.3, momentum=0.5, weight_decay=0.1, steps=30)),
    "passes": (ROWS, SGD(learning_rate=0.02, batch=10, passes=3)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name in ("exploration", "rows") else ()) for name in SAME]
)
def test_learners_do_on_completely_revealed_inputs_what_they_do_on_stored_ones(name):
    model, learner = SAME[name]
    size, rng = model.at_size(10), np.random.default_rng(0)
    revealed = size.design.reveal(60, size.input_shape, rng)
    stored = size.design(entries(revealed.matrices[0]).reshape(60, *size.input_shape))
    signal = size.model.prior.sample(size.model.signal_shape(stored), rng)
    labels = size.model.channel.sample(stored.forward(signal, 0), rng)
    ours, theirs = (learner.learn(size.model, DataSet(one, labels, 1, teacher=signal)) for one in (revealed, stored))
    np.testing.assert_allclose(ours.estimates, theirs.estimates, atol=1e-5 * np.abs(theirs.estimates).max())


@pytest.mark.parametrize(
    "model",
    [
        AttentionIndexed(rho=0.5),
        AttentionIndexed(rho=0.5, channel="softmax"),
        DeepAttentionIndexed(rho=0.5, layers=2),
    ],
    ids=["linear", "softmax", "layers"],
)
def test_gradient_of_the_gaussian_equivalent_is_the_derivative(model):
    size, rng = model.at_size(6), np.random.default_rng(1)
    design = size.design.reveal_equivalent(20, size.input_shape, rng)
    student = size.model.parametrisation.student(design, rng.random((20, 2, 2)), 3)
    with jax_settings():
        weights, change = rng.standard_normal((2, 2, *student.parameters[0]))
        data = tuple(map(jnp.asarray, student.data))
        slope = float(np.vdot(student.gradient((jnp.asarray(weights),), data)[0], change))
        above, below = (float(np.sum(student.loss((jnp.asarray(weights + h * change),), data))) for h in (1e-3, -1e-3))
    assert slope == pytest.approx((above - below) / 2e-3, rel=1e-4)


@pytest.mark.parametrize("learner", [GradientDescent(steps=300), SGD(steps=40, learning_rate=0.1)])
def test_an_interrupted_run_goes_on_with_the_directions_it_has_seen(learner, tmp_path):
    model = LINEAR if learner.name == "gd" else ROWS
    size, path = model.at_size(12), tmp_path / "run.npz"

    def run(stop):
        design = size.design.reveal(60, size.input_shape, np.random.default_rng(0))
        signal = size.model.prior.sample(size.model.signal_shape(design), np.random.default_rng(1))
        labels = size.model.channel.sample(design.forward(signal, 0), np.random.default_rng(2))
        checkpoint = Stopping(path, 0.0, part=design, left=stop)
        return learner.learn(size.model, DataSet(design, labels, 1, checkpoint, teacher=signal))

    whole = run(np.inf)
    path.unlink()
    with pytest.raises(KeyboardInterrupt):
        run(2)
    np.testing.assert_array_equal(run(np.inf).estimates, whole.estimates)


@pytest.mark.slow
def test_the_gaussian_equivalent_of_attention_indices_reaches_theory():
    model = AttentionIndexed(rho=0.5, noise=0.1, channel="linear")
    found = simulate(model, [0.1], d=40, instances=4, storage="revealed-equivalent")
    assert abs(found["error"][0] - found["theory"][0]) < 0.05


def test_memory_of_revealed_runs_is_that_of_directions():
    """At d = 2000 inputs would take 51 TB, and the first directions take less than 3 GB."""
    memory, work = memory_and_work("revealed", LINEAR.at_size(2000), 1.6e6)
    assert memory == 8 * work == 8 * 64 * (1.6e6 + 2000**2)
    assert memory_and_work("float64", LINEAR.at_size(2000), 1.6e6)[0] == pytest.approx(51.2e12)
