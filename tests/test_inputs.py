"""Bad input to the Python API: one clear error that names the parameter, its value and what is allowed."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    GlassformerError,
    IncompatibleError,
    MessagePassing,
    landscape,
    limits,
    simulate,
)
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.channels import GaussianChannel, LinkChannel
from glassformer.core.settings import Iteration
from glassformer.designs import DenseDesign
from glassformer.errors import DataError, ParameterError
from glassformer.learners.gamp import gamp
from glassformer.learners.ridge import ridge_error

MODEL = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1)
INPUTS = np.random.default_rng(0).standard_normal((6, 4, 4))
LABELS = np.random.default_rng(1).standard_normal(6)


def refuses(call, name, value, allowed):
    """The call ends in one error of the package that names parameter, value and what is allowed."""
    with pytest.raises(ParameterError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"{name} = "), message
    assert value in message
    assert "expected" in message
    assert allowed in message
    assert "\n" not in message
    assert isinstance(caught.value, GlassformerError | ValueError)


@pytest.mark.parametrize(
    ("arguments", "name", "value", "allowed"),
    [
        ({"beta": 0.0}, "beta", "0.0", "> 0"),
        ({"beta": -1}, "beta", "-1", "> 0"),
        ({"beta": np.nan}, "beta", "nan", "> 0"),
        ({"beta": "1"}, "beta", "'1'", "a number, not a value of type str"),
        ({"beta": None}, "beta", "None", "> 0"),
        ({"beta": True}, "beta", "True", "a number, not a value of type bool"),
        ({"rho": -0.5}, "rho", "-0.5", ">= 0"),
        ({"rho": np.nan}, "rho", "nan", ">= 0"),
        ({"rho": "0.5"}, "rho", "'0.5'", "a number, not a value of type str"),
        ({"rho": [0.5]}, "rho", "[0.5]", "a number, not a value of type list"),
        ({"noise": -0.1}, "noise", "-0.1", ">= 0"),
        ({"noise": np.nan}, "noise", "nan", ">= 0"),
        ({"noise": np.inf}, "noise", "inf", "finite"),
        ({"channel": "relu"}, "channel", "'relu'", "one of gaussian, sign, absolute"),
        ({"channel": 3}, "channel", "3", "one of gaussian, sign, absolute"),
        ({"rho": None, "width": 0}, "width", "0", "integer >= 1"),
        ({"rho": None, "width": 1.5}, "width", "1.5", "integer >= 1"),
        ({"rho": None, "width": 2, "beta": np.inf}, "beta", "inf", "finite"),
    ],
)
def test_model_parameters(arguments, name, value, allowed):
    refuses(lambda: BilinearSequenceRegression(**{"rho": 0.5, **arguments}), name, value, allowed)


def test_width_and_rho_exclude_each_other():
    for arguments, words in (
        ({"rho": 0.5, "width": 2}, "rho = 0.5 and width = 2 exclude each other"),
        ({}, "width is missing"),
    ):
        with pytest.raises(IncompatibleError, match=words):
            BilinearSequenceRegression(beta=1, **arguments)


def test_noise_given_twice_is_refused():
    with pytest.raises(IncompatibleError, match=r"noise = 0\.1 .*exclude"):
        BilinearSequenceRegression(rho=0.5, noise=0.1, channel=GaussianChannel(0.2))


def test_a_link_that_is_not_a_number_is_refused():
    refuses(lambda: LinkChannel(lambda h: np.full_like(h, np.nan)), "channel", "function", "finite")
    refuses(lambda: BilinearSequenceRegression(rho=0.5, channel=lambda h: "label"), "channel", "lambda", "real number")


@pytest.mark.parametrize("call", [limits, state_evolution, simulate], ids=["limits", "state_evolution", "simulate"])
@pytest.mark.parametrize(
    ("alpha", "value"), [(-0.1, "-0.1"), ([0.5, np.nan], "nan"), ([np.inf], "inf"), ([[0.5]], "[[0.5]]"), ([], "[]")]
)
def test_sample_ratios(call, alpha, value):
    refuses(lambda: call(MODEL, alpha), "alpha", value, "")


@pytest.mark.parametrize("alpha", [-0.1, np.nan, np.inf])
def test_sample_ratio_of_a_landscape_and_of_ridge(alpha):
    refuses(lambda: landscape(MODEL, alpha), "alpha", str(alpha), "finite and >= 0")
    refuses(lambda: ridge_error(alpha), "alpha", str(alpha), "finite and >= 0")


@pytest.mark.parametrize("points", [9, 0, -1])
def test_points_of_a_landscape(points):
    refuses(lambda: landscape(MODEL, 0.5, overlaps=points), "overlaps", str(points), "integer >= 10")


@pytest.mark.parametrize("start", ["warm", [0.5, 0.5], [np.nan], [-0.1], [1.1], [[0.5]]])
def test_starts(start):
    refuses(lambda: state_evolution(MODEL, [0.5], start), "start", "", "variances")


@pytest.mark.parametrize("settings", [Iteration, Accuracy, MessagePassing])
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("tolerance", 0.0, "(0, 1)"),
        ("tolerance", np.nan, "(0, 1)"),
        ("floor", -1e-3, "(0, 1)"),
        ("floor", 1.0, "(0, 1)"),
        ("max_iterations", 0, "integer >= 1"),
        ("max_iterations", -3, "integer >= 1"),
        ("damping", 1.0, "[0, 1)"),
        ("damping", -0.1, "[0, 1)"),
        ("damping", np.nan, "[0, 1)"),
    ],
)
def test_settings(settings, name, value, allowed):
    if name in {one.name for one in fields(settings)}:
        refuses(lambda: settings(**{name: value}), name, str(value), allowed)


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf])
def test_random_start(value):
    refuses(lambda: MessagePassing(random_start=value), "random_start", str(value), "finite number >= 0")


@pytest.mark.parametrize(
    ("arguments", "name", "value", "allowed"),
    [
        ({"d": 0}, "d", "0", "integer >= 2"),
        ({"d": -5}, "d", "-5", "integer >= 2"),
        ({"d": 20.5}, "d", "20.5", "integer >= 2"),
        ({"d": True}, "d", "True", "integer >= 2"),
        ({"instances": 0}, "instances", "0", "integer >= 1"),
        ({"seed": -1}, "seed", "-1", "integer >= 0"),
        ({"seed": 1.5}, "seed", "1.5", "integer >= 0"),
        ({"learner": "newton"}, "learner", "'newton'", "gamp"),
        ({"storage": "float16"}, "storage", "'float16'", "float64 or float32"),
        ({"d": 10**6}, "d", "1000000", "fit into memory"),
    ],
)
def test_simulation_parameters(arguments, name, value, allowed):
    refuses(lambda: simulate(MODEL, [0.5], **{"d": 8, **arguments}), name, value, allowed)


@pytest.mark.parametrize("limit", [{"rho": 0}, {"rho": np.inf}, {"rho": 0.5, "beta": np.inf}, {"rho": 0, "beta": 2}])
def test_a_limit_has_no_data(limit):
    with pytest.raises(IncompatibleError, match=r"simulation needs a finite size.*give finite"):
        simulate(BilinearSequenceRegression(**limit), [0.5], d=8)


# --- data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "value"),
    [
        (INPUTS.tolist(), "list"),
        (INPUTS.astype(int), "int64"),
        (INPUTS.astype(complex), "complex128"),
        (INPUTS.astype(np.float16), "float16"),
        (INPUTS[0], "(4, 4)"),
        (INPUTS[None, None], "(1, 1, 6, 4, 4)"),
        (INPUTS[:0], "(0, 4, 4)"),
        (INPUTS[:, :0], "(6, 0, 4)"),
        (INPUTS[:, :, :0], "(6, 4, 0)"),
    ],
)
def test_inputs_of_another_kind(inputs, value):
    refuses(lambda: DenseDesign(inputs), "X", value, "")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_inputs_that_are_not_finite(bad, kind):
    inputs = INPUTS.astype(kind)
    inputs[3, 1, 2] = bad
    refuses(lambda: DenseDesign(inputs), "X", "instance 0", "finite entries")


def test_infinities_of_both_signs_do_not_cancel():
    inputs = INPUTS.copy()
    inputs[0, 0, 0], inputs[1, 1, 1] = np.inf, -np.inf
    refuses(lambda: DenseDesign(inputs), "X", "instance 0", "finite entries")


@pytest.mark.parametrize("labels", [LABELS[:5], LABELS[:, None], np.tile(LABELS, (2, 1)), LABELS[:0], 1.0])
def test_labels_that_do_not_match_the_inputs(labels):
    refuses(lambda: gamp(MODEL, DenseDesign(INPUTS), labels), "y", str(np.shape(labels)), "matches X")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_labels_that_are_not_finite(bad):
    labels = LABELS.copy()
    labels[2] = bad
    refuses(lambda: gamp(MODEL, DenseDesign(INPUTS), labels), "y", "", "finite entries")


@pytest.mark.parametrize(("channel", "value"), [("sign", "0.5"), ("absolute", "-1.0")])
def test_labels_the_channel_cannot_produce(channel, value):
    labels = np.ones(6)
    labels[4] = float(value)
    model = BilinearSequenceRegression(beta=1, rho=0.5, channel=channel)
    with pytest.raises(DataError, match=rf"y = {value} .*labels"):
        gamp(model, DenseDesign(INPUTS), labels)


def test_data_errors_are_parameter_errors_and_value_errors():
    assert issubclass(DataError, ParameterError)
    assert issubclass(ParameterError, ValueError)
    assert issubclass(IncompatibleError, GlassformerError)


def test_a_sample_ratio_without_samples_is_refused():
    refuses(lambda: simulate(MODEL, [0.0], d=10, instances=1), "alpha", "0.0", "at least one sample at d = 10")
