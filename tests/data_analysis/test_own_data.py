"""Data of one's own through one door: arrays of any numbers, sizes that contradict the model, inputs that do."""

import warnings

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    IncompatibleError,
    SequenceMultiIndex,
    Status,
)
from glassformer.core.errors import DataWarning
from glassformer.data_analysis import diagnose
from glassformer.designs import DenseDesign
from glassformer.designs.pairs import PairDesign
from glassformer.designs.projection import ProjectionDesign, projection_design
from glassformer.designs.quadratic import QuadraticDesign
from glassformer.errors import DataError, ParameterError
from glassformer.learners.data_assumptions import violations
from glassformer.learners.data_validation import validate_data
from glassformer.learners.gamp import MessagePassing, gamp

SIZE = 12
MODEL = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
SIGNS = BilinearSequenceRegression(beta=1, rho=0.2, channel="sign")
SHORT = MessagePassing().at_accuracy(Accuracy(max_iterations=4))


def first_direction(z):
    return z[0, 0]


def drawn(n=300, shape=(SIZE, SIZE), seed=0):
    rng = np.random.default_rng(seed)
    inputs, signal = rng.standard_normal((n, *shape)), MODEL.prior.sample(shape, rng)
    return inputs, fields(inputs, signal) + np.sqrt(0.1) * rng.standard_normal(n), signal


def fields(inputs, signal):
    return np.einsum("nld,ld->n", inputs, signal) / np.sqrt(signal.size)


def test_an_array_is_as_good_as_a_design():
    inputs, labels, _ = drawn()
    np.testing.assert_array_equal(gamp(MODEL, inputs, labels).value, gamp(MODEL, DenseDesign(inputs), labels).value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "tokens", "kind"),
    [
        (AttentionIndexed(rho=0.5, tokens=2, channel="linear", noise=0.1), 2, QuadraticDesign),
        (AttentionIndexed(rho=0.5, tokens=2, untied=True), 4, PairDesign),
        (SequenceMultiIndex(first_direction, 1, 2, noise=0.1), 2, ProjectionDesign),
        (DeepAttention(depth=1, tokens=2, heads=2, noise=0.1), 2, projection_design(2)),
    ],
)
def test_arrays_of_other_families(model, tokens, kind):
    inputs = np.random.default_rng(0).standard_normal((60, tokens, 10))
    labels = np.zeros((60, *model.channel.labels.shape))
    design, own = validate_data(model, inputs, labels)
    assert type(design).__name__ == kind.__name__ and design.inputs.base is inputs
    assert own.shape == (1, *labels.shape)


def test_truth_values_are_signs_where_labels_are():
    inputs, labels, _ = drawn()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = gamp(SIGNS, inputs, labels > 0, SHORT), gamp(SIGNS, inputs, np.sign(labels), SHORT)
    np.testing.assert_array_equal(one.value, other.value)


def test_whole_numbers_and_lists_are_inputs():
    inputs = np.sign(drawn()[0]).astype(int)
    labels = fields(inputs, drawn()[2])
    one = gamp(MODEL, inputs, labels, SHORT)
    np.testing.assert_array_equal(one.value, gamp(MODEL, inputs.tolist(), labels.tolist(), SHORT).value)
    np.testing.assert_array_equal(one.value, gamp(MODEL, inputs.astype(float), labels, SHORT).value)


@pytest.mark.parametrize(
    ("model", "shape", "words"),
    [
        (BilinearSequenceRegression(beta=2, rho=0.2, noise=0.1), (SIZE, SIZE), "beta = 2 .*give beta=1"),
        (MODEL, (4, 8), r"beta = 1 .*\(4, 8\) have 4 tokens, not 8; give beta=0.5"),
        (AttentionIndexed(rho=0.5, tokens=2), (3, 8), "tokens = 2 .*give tokens=3"),
        (AttentionIndexed(rho=0.5, tokens=2, untied=True), (6, 8), "tokens = 2 .*give tokens=3: .* query tokens first"),
        (SequenceMultiIndex(first_direction, 1, 2, noise=0.1), (3, 8), "tokens = 2 .*give tokens=3"),
    ],
)
def test_sizes_that_contradict_the_model(model, shape, words):
    inputs = np.random.default_rng(0).standard_normal((20, *shape))
    with pytest.raises(ParameterError, match=words):
        gamp(model, inputs, np.zeros(20))


def test_a_design_of_another_size_is_refused_as_well():
    with pytest.raises(ParameterError, match="give beta=1"):
        gamp(BilinearSequenceRegression(beta=2, rho=0.2), DenseDesign(drawn()[0]), drawn()[1])


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.zeros((5, SIZE * SIZE)), r"X = \(5, 144\) .*X.reshape\(n, L, d\)"),
        (np.full((5, SIZE, SIZE), "a"), "X = '<<U1>' .*encode categories"),
        ([np.zeros((2, 3)), np.zeros((4, 3))], "X = '<list>' .*unequal length"),
        (np.zeros((5, SIZE, SIZE), complex), "real numbers"),
        (np.where(np.arange(5 * SIZE**2).reshape(5, SIZE, SIZE) == 150, np.nan, 1.0), r"X\[1, 0, 6\] = nan"),
        (np.zeros((0, SIZE, SIZE)), "no axis empty"),
    ],
)
def test_inputs_that_are_none(inputs, words):
    with pytest.raises(DataError, match=words):
        gamp(MODEL, inputs, np.zeros(5))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.zeros(4), r"y = \(4,\) .*\(5,\)"),
        (["a"] * 5, "y = '<<U1>' .*encode classes"),
        ([0, 1, np.inf, 0, 0], r"y\[2\] = inf"),
    ],
)
def test_labels_that_are_none(labels, words):
    with pytest.raises(DataError, match=words):
        gamp(MODEL, np.ones((5, SIZE, SIZE)), labels)


def test_classes_that_are_no_signs_say_what_to_do():
    with pytest.raises(DataError, match=r"y = 0.*\+1"):
        gamp(SIGNS, drawn()[0], (drawn()[1] > 0).astype(int))


def test_untied_and_infinite_widths_have_data_too():
    inputs, labels, _ = drawn()
    assert np.isfinite(gamp(BilinearSequenceRegression(beta=1, rho=np.inf, noise=1), inputs, labels, SHORT).value).all()
    with pytest.raises(IncompatibleError, match="give beta = L/d"):
        gamp(BilinearSequenceRegression(beta=np.inf, rho=0.2), inputs, labels)


def with_mean(x, rng):
    return x + 0.3


def with_correlated_tokens(x, rng):
    distance = np.abs(np.subtract.outer(np.arange(x.shape[1]), np.arange(x.shape[1])))
    return np.einsum("ab,nbd->nad", np.linalg.cholesky(0.7**distance), x)


def with_correlated_features(x, rng):
    return np.swapaxes(with_correlated_tokens(np.swapaxes(x, 1, 2), rng), 1, 2)


def with_tails(x, rng):
    return rng.standard_t(3, size=x.shape) / np.sqrt(3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "name"),
    [
        (with_mean, "mean"),
        (with_correlated_tokens, "token correlation"),
        pytest.param(with_correlated_features, "feature correlation", marks=pytest.mark.thorough),
        (with_tails, "heavy tails"),
    ],
)
def test_inputs_that_are_not_what_they_are_taken_for_are_blamed(changed, name):
    """A warning names what is wrong, and a run that does not converge does not blame its length or size."""
    inputs, _, signal = drawn(n=400)
    rng = np.random.default_rng(1)
    inputs = changed(inputs, rng)
    labels = fields(inputs, signal) + np.sqrt(0.1) * rng.standard_normal(400)
    with pytest.warns(DataWarning, match=name):
        found = gamp(MODEL, inputs, labels)
    assert found.status[0] in (Status.CONVERGED, Status.MISTAKEN)
    assert "max_iterations" not in found.status[0].remedy


def test_labels_of_another_size_are_told():
    inputs, labels, _ = drawn()
    with pytest.warns(DataWarning, match="mean square of y from that of the model, 1.1"):
        gamp(MODEL, inputs, 10 * labels, SHORT)


def test_independent_inputs_are_not_blamed():
    """Limits are five standard errors from what chance does."""
    rng = np.random.default_rng(0)
    for shape in [(10, 2, 100), (12, 4, 4), (50, 10, 10), (100, 3, 40), (30, 1, 8)] * 20:
        assert not violations(rng.standard_normal(shape))
    assert not violations(np.sign(rng.standard_normal((200, 8, 8))))


@pytest.mark.slow
def test_a_width_that_residuals_contradict_is_named():
    """A width of 0.5 for 0.1; the right one says nothing."""
    rng = np.random.default_rng(0)
    true, wrong = (BilinearSequenceRegression(beta=1, rho=rho, noise=0.1) for rho in (0.1, 0.5))
    X, S = rng.standard_normal((600, 30, 30)), true.prior.sample((30, 30), rng)
    y = np.einsum("nld,ld->n", X, S) / 30 + np.sqrt(0.1) * rng.standard_normal(600)
    with pytest.warns(DataWarning, match=r"claimed error 0\..* estimate_model\(X, y\)"):
        found = gamp(wrong, X, y)
    assert found.status[0] is Status.CONTRADICTED
    assert gamp(true, X, y).converged


def test_ragged_labels_are_named():
    model, inputs = BilinearSequenceRegression(beta=1, rho=0.5), np.random.default_rng(0).standard_normal((20, 4, 4))
    for called in (lambda y: gamp(model, inputs, y), lambda y: diagnose(inputs, y)):
        with pytest.raises(DataError, match=r"y = '<list>' is not allowed: .*give labels of equal shapes"):
            called([[1.0]] * 19 + [[1.0, 2.0]])
