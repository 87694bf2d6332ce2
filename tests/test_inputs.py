"""Bad input ends in one error that names the parameter, its value and what is allowed."""

import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, DataError, IncompatibleError, ParameterError, limits, simulate
from glassformer.designs.dense import DenseDesign
from glassformer.gamp import gamp
from glassformer.settings import Descent, Iteration
from glassformer.state_evolution import state_evolution

MODEL = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rho": -1}, "rho"),
        ({"rho": np.nan}, "rho"),
        ({"rho": "wide"}, "rho"),
        ({"rho": 1, "beta": 0}, "beta"),
        ({"rho": 1, "beta": -2}, "beta"),
        ({"rho": 1, "beta": np.nan}, "beta"),
        ({"rho": 1, "noise": -0.1}, "noise"),
        ({"rho": 1, "noise": np.inf}, "noise"),
        ({"rho": 1, "channel": "relu"}, "channel"),
        ({"width": 0}, "width"),
        ({"width": 1.5}, "width"),
        ({"width": 2, "beta": np.inf}, "beta"),
    ],
)
def test_model_parameters(arguments, named):
    with pytest.raises(ParameterError, match=f"^{named} = .* is not allowed: expected"):
        BilinearSequenceRegression(**arguments)


@pytest.mark.parametrize("arguments", [{}, {"rho": 1, "width": 2}])
def test_width_or_rho(arguments):
    with pytest.raises(IncompatibleError, match="rho and width"):
        BilinearSequenceRegression(**arguments)


@pytest.mark.parametrize("alpha", [-0.1, np.nan, np.inf, [], [[0.1]], [0.1, -1]])
def test_alpha(alpha):
    with pytest.raises(ParameterError, match="^alpha = "):
        limits(MODEL, alpha)


@pytest.mark.parametrize("start", ["lukewarm", [0.5, 0.5], [1.5], [np.nan]])
def test_start(start):
    with pytest.raises(ParameterError, match="^start = "):
        state_evolution(MODEL, [0.3], start)


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        (Iteration, {"tolerance": 0}, "tolerance"),
        (Iteration, {"max_iterations": 0}, "max_iterations"),
        (Iteration, {"damping": 1.0}, "damping"),
        (Descent, {"floor": 2.0}, "floor"),
        (Descent, {"random_start": -1}, "random_start"),
    ],
)
def test_settings(kind, arguments, named):
    with pytest.raises(ParameterError, match=f"^{named} = "):
        kind(**arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"d": 0}, "d"),
        ({"d": 10.5}, "d"),
        ({"instances": 0}, "instances"),
        ({"seed": -1}, "seed"),
        ({"algorithm": "magic"}, "algorithm"),
        ({"storage": "float16"}, "storage"),
    ],
)
def test_simulation(arguments, named):
    with pytest.raises(ParameterError, match=f"^{named} = "):
        simulate(MODEL, [0.3], **{"d": 10, **arguments})


@pytest.mark.parametrize("arguments", [{"rho": 0}, {"rho": np.inf}, {"rho": 1, "beta": np.inf}])
def test_limits_have_no_data(arguments):
    with pytest.raises(IncompatibleError, match="limit without data"):
        simulate(BilinearSequenceRegression(**arguments), [0.3], d=10)


def test_inputs_too_large_for_memory_are_refused_at_once():
    with pytest.raises(ParameterError, match="GB needed"):
        simulate(MODEL, [1.0], d=100_000)


@pytest.mark.parametrize(
    "inputs",
    [np.ones((3, 2)), np.ones((0, 2, 2)), np.ones((3, 2, 0)), np.ones((3, 2, 2), dtype=int), [[1.0]]],
)
def test_shape_and_type_of_inputs(inputs):
    with pytest.raises(DataError, match="^X = "):
        DenseDesign(inputs)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_inputs_must_be_finite(bad):
    inputs = np.ones((3, 2, 2))
    inputs[1, 0, 1] = bad
    with pytest.raises(DataError, match="^X = .* finite"):
        DenseDesign(inputs)


@pytest.mark.parametrize("labels", [np.ones(4), np.ones((2, 3)), np.array([1.0, np.nan, 0.0])])
def test_labels_match_inputs_and_are_finite(labels):
    with pytest.raises(DataError, match="^y = "):
        gamp(MODEL, DenseDesign(np.ones((3, 2, 2))), labels)
