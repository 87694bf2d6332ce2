"""Arguments of another kind than public functions take: one error each, before anything is computed."""

from __future__ import annotations

import inspect
import re

import jax.numpy as jnp
import numpy as np
import pytest

import glassformer
from glassformer import (
    BilinearSequenceRegression,
    MessagePassing,
    SequenceMultiIndex,
    Sweep,
    VectorMessagePassing,
    limits,
    thresholds,
)
from glassformer.bayes_optimal.assumed_width import assumed_prior_limits
from glassformer.bayes_optimal.equation_of_state import equation_of_state
from glassformer.bayes_optimal.staircase import subspace_threshold
from glassformer.bayes_optimal.vector_state_evolution import vector_state_evolution
from glassformer.core.checks import kinds_of
from glassformer.core.settings import Iteration
from glassformer.data_analysis import cross_validate, leave_one_out
from glassformer.designs import DenseDesign
from glassformer.dynamics.online_sgd import Pace, Start
from glassformer.errors import ParameterError
from glassformer.learners.gamp import gamp
from glassformer.learners.ridge import ridge_error
from glassformer.learners.vamp import vamp
from glassformer.priors.resolve import rows_prior

MODEL = BilinearSequenceRegression(rho=0.5, noise=0.1)
RNG = np.random.default_rng(0)
DESIGN, LABELS = DenseDesign(RNG.standard_normal((30, 5, 5))), RNG.standard_normal(30)
GIVEN = {
    "Any": None,
    "ArrayLike": [0.5],
    "Array": np.ones(1),
    "Design": DESIGN,
    "DenseDesign": DESIGN,
    "Iteration": Iteration(),
    "MessagePassing": MessagePassing(),
    "VectorMessagePassing": VectorMessagePassing(),
    "Model": MODEL,
    "Pace": Pace(1.0, 1, 0.0),
    "Start": Start(np.eye(1), np.eye(1)),
    "Sweep": Sweep("bsr", {"rho": [0.5], "alpha": [0.5]}),
    "bool": True,
    "float": 0.5,
    "int": 2,
    "Sequence[Any]": ["gamp"],
    "Sequence[str]": [],
    "str": "x",
}
FUNCTIONS = [
    gamp,
    *(f for f in (getattr(glassformer, name) for name in glassformer.__all__) if inspect.isfunction(f)),
]
ARGUMENTS = [(function, name) for function in FUNCTIONS for name in inspect.signature(function).parameters]


NAMED = {
    "inputs": DESIGN.inputs[0],
    "labels": LABELS,
    "quantity": "error",
    "learner": "gamp",
    "X": DESIGN.inputs[0],
    "y": LABELS,
}


def _given(name, annotation):
    kinds = annotation.split(" | ")
    if name == "learner" and "str" not in kinds:
        return None
    if name == "start" and "str" in kinds:
        return "uninformed"
    return NAMED.get(name, None if "None" in kinds else GIVEN[kinds[0]])


@pytest.mark.parametrize(("function", "name"), ARGUMENTS, ids=lambda part: getattr(part, "__name__", part))
def test_an_object_of_another_kind(function, name):
    if not kinds_of(function, name):
        assert name in ("loss",)
        return
    annotations = function.__annotations__
    given = {other: _given(other, annotations[other]) for other in inspect.signature(function).parameters}
    # Functions of data call these X and y.
    named = {"inputs": "X", "design": "(X|design)", "labels": "(y|labels)"}.get(name, name)
    with pytest.raises(ParameterError, match=rf"^{named} = (<object|'<object).* is not allowed: expected "):
        function(**{**given, name: object()})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: limits("bsr", 0.5), "model = 'bsr' is not allowed: expected an object of class Model"),
        (
            lambda: limits(MODEL, 0.5, accuracy=()),
            "accuracy = () is not allowed: expected None, or an object of",
        ),
        (lambda: limits(MODEL, 0.5, throw="no"), "throw = 'no' is not allowed: expected True or False"),
        (lambda: vamp(MODEL, DESIGN, LABELS, seed=print), "seed = <built-in function print> is not allowed"),
        (lambda: vamp(MODEL, DESIGN, LABELS, seed=-1), "seed = -1 is not allowed: expected an integer >= 0"),
        (lambda: vector_state_evolution(MODEL, [1.0], 3, settings=()), "settings = () is not allowed"),
        (lambda: vector_state_evolution(MODEL, [1.0], 10**400), "entries = "),
        (
            lambda: assumed_prior_limits(MODEL, 0.5, "narrow"),
            "assumed = 'narrow' is not allowed: expected an object of",
        ),
        (lambda: equation_of_state(MODEL, [1.0, 0.0]), "q_hat = 0.0 is not allowed: expected > 0"),
        (lambda: rows_prior(None, 1, 1, 0.0, 2), "expected positive eigenvalues of mean one"),
        (lambda: cross_validate(DESIGN, LABELS, intercept=object()), "intercept = <object"),
        (lambda: leave_one_out(DESIGN, LABELS, np.ones(3), 0.1), "estimate = "),
        (lambda: leave_one_out(DESIGN, LABELS, np.ones((5, 5)), -1.0), "strength = -1.0 is not allowed"),
        (lambda: ridge_error(1e308, noise=3), "alpha = 1e+308 is not allowed: expected finite and >= 0, up to 1e+300"),
        (lambda: ridge_error(0.5, noise="3"), "noise = '3' is not allowed: expected a number"),
    ],
)
def test_what_was_accepted_or_failed_inside(call, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("accuracy", ["nan", np.nan, 0.0, -1.0, np.inf])
def test_accuracy_of_a_subspace(accuracy):
    model = SequenceMultiIndex(lambda z: abs(z[0, 0]))
    with pytest.raises(ParameterError, match="accuracy"):
        subspace_threshold(model, 0, accuracy=accuracy)


def test_ridge_at_the_largest_ratios():
    """With alpha = noise = strength the error is half of the signal; it falls as noise/alpha beyond."""
    assert ridge_error(1e300, noise=1e300) == pytest.approx(0.5, rel=1e-12)
    assert ridge_error(1e300, noise=3.0) == pytest.approx(3e-300, rel=1e-12)


def test_a_scalar_array_is_a_number():
    assert ridge_error(0.5, noise=np.float32(0.5)) == ridge_error(0.5, noise=np.array(0.5))


def test_results_are_compared_by_content():
    first, second, other = (limits(MODEL, [0.5, alpha]) for alpha in (1.0, 1.0, 1.5))
    assert first == second
    assert first != other
    assert first != first.columns
    assert len({first, second, other}) == 2
    here, there = thresholds(MODEL), thresholds(MODEL)
    assert here == there
    assert here["perfect_recovery"] == there["perfect_recovery"]
    assert hash(here) == hash(there)


@pytest.mark.parametrize("number", [np.array, jnp.asarray], ids=["numpy", "jax"])
def test_arrays_of_one_number_are_numbers(number):
    """They were refused with the reason of a range: rho = 0.2 is not allowed: expected >= 0."""
    model = BilinearSequenceRegression(rho=number(0.5), noise=number(0.125))
    assert (model.rho, model.noise) == (0.5, 0.125) and type(model.rho) is float
    assert type(SequenceMultiIndex(lambda z: z[0, 0], 1, number(2)).tokens) is int
    assert type(Iteration(tolerance=number(0.25), max_iterations=number(3)).max_iterations) is int
    path = cross_validate(DESIGN, LABELS, strengths=number(3), folds=number(2), seed=number(1))
    np.testing.assert_array_equal(path.losses, cross_validate(DESIGN, LABELS, strengths=3, folds=2, seed=1).losses)


@pytest.mark.parametrize("value", ["0.2", np.array([0.2]), 0.2j, True])
def test_values_that_are_no_numbers_are_refused_by_their_type(value):
    words = f"is not allowed: expected a number, not a value of type {type(value).__name__}$"
    with pytest.raises(ParameterError, match=f"^rho = .* {words}"):
        BilinearSequenceRegression(rho=value, noise=0.1)
    with pytest.raises(ParameterError, match=f"^tolerance = .* {words}"):
        Iteration(tolerance=value)
