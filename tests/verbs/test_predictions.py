"""Errors of predictions that simulations measure on new inputs, beside the theory."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    DeepAttention,
    DeepAttentionIndexed,
    SequenceMultiIndex,
    limits,
    simulate,
)
from glassformer.models.comparison import NewInputs
from glassformer.verbs.instances import standard_error


def sums_of_rows(indices):
    """One number of every token."""
    return np.tanh(indices.sum(axis=-1))


MODELS = {
    "linear": AttentionIndexed(0.5, channel="linear", noise=0.1),
    "linear, correlated tokens": AttentionIndexed(0.5, channel="linear", noise=0.1, token_correlation=0.5),
    "linear, untied": AttentionIndexed(0.5, channel="linear", noise=0.1, untied=True),
    "softmax": AttentionIndexed(0.5),
    "softmax of three": AttentionIndexed(0.5, tokens=3, temperature=2.0),
    "softmax, untied": AttentionIndexed(0.5, untied=True),
    "narrow": AttentionIndexed(width=8),
}


def symmetric(normal):
    """Matrices that indices see as their own: as symmetric as these, of the same power."""
    return (normal + np.swapaxes(normal, -1, -2)) / np.sqrt(2 * normal.shape[-1])


def free(normal):
    return normal


# Of every model the dimension of its tokens, what noise of its signal is like, and what is left between 4096 new inputs
# and theory: fields of projections are normal at any size, indices in the limit of many dimensions.
GIVEN = {
    **{name: (model, 100, free if model.untied else symmetric, 0.1) for name, model in MODELS.items()},
    "softmax with noise": (AttentionIndexed(0.5, noise=0.1), 100, symmetric, 0.1),
    "sums of rows": (AttentionIndexed(0.5, tokens=3, channel=sums_of_rows, noise=0.1), 100, symmetric, 0.1),
    "two wide layers": (DeepAttentionIndexed(0.5), 100, symmetric, 0.1),
    "two layers": (DeepAttention(), 4000, free, 0.1),
    "two heads": (DeepAttention(depth=1, heads=2), 4000, free, 0.1),
    "product": (SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0], 2, 1, noise=0.1), 4000, free, 0.1),
    "tanh": (SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]) + z[1, 1], 2, 2, noise=0.1), 4000, free, 0.1),
}


@pytest.mark.parametrize("name", GIVEN)
def test_an_estimate_as_good_as_the_posterior_mean_predicts_as_theory_says(name):
    """The unit, the law of the fields on new inputs, and what the average over the posterior is worth."""
    (model, d, like, allowed), share, rng = GIVEN[name], 0.3, np.random.default_rng(0)
    size = model.at_size(d)
    power = size.model.prior.self_overlap
    design = size.design.sample(2, size.input_shape, rng)
    signal = size.model.prior.sample(size.model.signal_shape(design), rng)
    noise = like(rng.standard_normal(signal.shape)).reshape(len(power), -1)
    noise = (np.linalg.cholesky(power) @ noise).reshape(signal.shape)
    estimate = (1 - share) * signal + np.sqrt(share * (1 - share)) * noise
    new = NewInputs(size.design, size.input_shape, (0, 4))
    found = size.model.measured(estimate, signal, share * power, new=new)
    expected = size.model.channel.inference.label_errors(share * power[None])
    for quantity in ("prediction_error", "plugin_error"):
        # Where labels are linear in the indices the two are one.
        theory = expected.get(quantity, expected["prediction_error"])[0]
        assert found[quantity] == pytest.approx(theory, rel=allowed)


# Of further tokens, weights and widths among the thorough tests.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name.startswith(("softmax ", "softmax,", "narrow")) else ())
        for name in MODELS
    ],
)
def test_they_stand_beside_their_theory(name):
    model = MODELS[name]
    found = simulate(model, [0.3], d=16, instances=2)
    runs = found.instances[0]
    expected = limits(model.at_size(16).model, found["alpha_realised"], throw=False)
    for quantity in ("prediction", "plugin"):
        assert found[f"{quantity}_error"][0] == np.mean([getattr(run, f"{quantity}_error") for run in runs])
        assert found[f"{quantity}_standard_error"][0] > 0
        # Where labels are linear in the indices the two are one: theory has one column for both.
        assert (f"{quantity}_theory" in found.columns) == (f"{quantity}_error" in expected.columns)
        if f"{quantity}_error" in expected.columns:
            np.testing.assert_allclose(found[f"{quantity}_theory"], expected[f"{quantity}_error"], rtol=1e-6)
    np.testing.assert_array_equal(found["label_noise"], expected["label_noise"])
    assert runs[0].label_error is None


def test_of_labels_linear_in_the_indices_they_are_the_error_itself():
    """Of new inputs: up to the fluctuation of 4096 samples of three components."""
    found = simulate(MODELS["linear"], [0.3], d=24, instances=2)
    for run in found.instances[0]:
        assert run.plugin_error == pytest.approx(run.error, rel=0.1)
        assert run.prediction_error == pytest.approx(run.plugin_error, rel=1e-9)


def test_labels_that_are_positions_have_none():
    found = simulate(AttentionIndexed(0.5, channel="hardmax"), [0.5], d=16, instances=2)
    assert "label_error" in found.columns and not {"prediction_error", "plugin_error"} & set(found.columns)


@pytest.mark.thorough
def test_more_tokens_than_theory_averages_over_are_measured_all_the_same():
    found = simulate(AttentionIndexed(0.5, tokens=13), [0.01], d=12, instances=1)
    assert 0 < found["prediction_error"][0] < 1
    assert not {"prediction_theory", "label_noise"} & set(found.columns)


def test_a_known_signal_predicts_every_label_and_every_seed_has_inputs_of_its_own():
    size = MODELS["softmax"].at_size(12)
    signal, other = (size.model.prior.sample((12, 12), np.random.default_rng(k)) for k in range(2))
    new = [NewInputs(size.design, size.input_shape, (seed, 4)) for seed in (0, 0, 1)]
    known = size.model.measured(signal, signal, new=new[0])
    assert known["prediction_error"] == known["plugin_error"] == 0
    first, again, apart = (size.model.measured(other, signal, new=one)["plugin_error"] for one in new)
    assert first == again != apart


def test_indices_of_few_columns_are_taken_as_they_are():
    """One column: indices are products of two normal numbers, and labels of a student know more than Gaussian ones."""
    size = AttentionIndexed(width=1).at_size(40)
    true = size.model.prior.sample((40, 40), np.random.default_rng(0))
    own = size.model.prior.gram(true[None], true[None])
    estimate = 0.5 * true
    measured = size.model.measured(estimate, true, new=NewInputs(size.design, size.input_shape, (0, 4)))
    normal = size.model.measured(estimate, true)
    assert own.shape == (1, 1)
    assert abs(measured["plugin_error"] / normal["plugin_error"] - 1) > 0.05


# What is left of the difference at these sizes falls as 1/d ("Predictions of runs" in docs/theory.md).
SIZES = {
    "linear": (0.3, 100, 8, 0.06),
    "linear, correlated tokens": (0.3, 100, 8, 0.06),
    "linear, untied": (0.1, 100, 8, 0.03),
    "softmax": (0.1, 100, 8, 0.06),
    "softmax of three": (0.04, 100, 8, 0.06),
    "softmax, untied": (0.2, 100, 8, 0.03),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SIZES)
def test_message_passing_predicts_as_theory_says(name):
    alpha, d, instances, allowed = SIZES[name]
    found = simulate(MODELS[name], [alpha], d=d, instances=instances)
    for quantity in ("prediction", "plugin"):
        theory = found.columns.get(f"{quantity}_theory", found["prediction_theory"])
        gap = abs(found[f"{quantity}_error"] - theory)[0]
        assert gap < 3 * found[f"{quantity}_standard_error"][0] + allowed * theory[0]


# The last of two layers is known to within a tenth of its error at this size, and to theory of so few points.
ROWS = {
    "product": (
        SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0], 2, 1, noise=0.1).at_accuracy(Accuracy(points=512)),
        5.0,
        300,
        6,
        0.03,
    ),
    "two layers": (DeepAttention().at_accuracy(Accuracy(points=256)), 0.6, 600, 6, 0.1),
    "two wide layers": (DeepAttentionIndexed(0.5), 0.2, 60, 3, 0.15),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ROWS)
def test_models_of_several_rows_predict_as_theory_says(name):
    model, alpha, d, instances, allowed = ROWS[name]
    found = simulate(model, [alpha], d=d, instances=instances)
    for quantity in ("prediction", "plugin"):
        gap = abs(found[f"{quantity}_error"] - found[f"{quantity}_theory"])[0]
        assert gap < 3 * found[f"{quantity}_standard_error"][0] + allowed * found[f"{quantity}_theory"][0]


def test_the_standard_error_is_that_of_the_sample():
    """Two values 1 and 3: sample deviation sqrt(2), over sqrt(2)."""
    np.testing.assert_allclose(standard_error(np.array([[1.0, 3.0]])), [1.0], rtol=1e-15)
    assert np.isnan(standard_error(np.array([[1.0]]))[0])
