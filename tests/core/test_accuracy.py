"""Accuracy, apart from model and learner, and words that are old."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import glassformer
from glassformer import (
    Accuracy,
    BilinearSequenceRegression,
    DeepAttention,
    IncompatibleError,
    MessagePassing,
    RegularisedRisk,
    SequenceMultiIndex,
    fit,
    hysteresis,
    landscape,
    limits,
    phase_diagram,
    plan,
    simulate,
    thresholds,
    trajectory,
)
from glassformer.core.renamed import RENAMED
from glassformer.errors import ParameterError, RenamedError

BSR = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
FEW = Accuracy(points=32)


def test_values_are_checked():
    for bad in ({"points": 100}, {"points": 16}, {"tolerance": 2.0}, {"max_iterations": 0}, {"trajectories": 1.5}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            Accuracy(**bad)


@pytest.mark.parametrize(
    "ask",
    [
        lambda accuracy: limits(BSR, [0.5], "ridge", accuracy=accuracy),
        lambda accuracy: thresholds(BSR, accuracy=accuracy),
        lambda accuracy: hysteresis(BSR, [0.3, 0.5], accuracy=accuracy),
        lambda accuracy: trajectory(BSR, [0.5], accuracy=accuracy),
        lambda accuracy: simulate(BSR, [0.5], d=4, accuracy=accuracy),
        lambda accuracy: plan(BSR, 0.2, accuracy=accuracy),
        lambda accuracy: landscape(BSR, 0.5, accuracy=accuracy),
        lambda accuracy: phase_diagram(BSR, "rho", [0.5], accuracy=accuracy),
        lambda accuracy: fit(BSR, np.ones((2, 4, 4)), np.ones(2), accuracy=accuracy),
    ],
)
def test_what_has_no_effect_is_refused(ask):
    with pytest.raises(IncompatibleError, match="points = 32 has no effect on"):
        ask(FEW)


def test_it_reaches_models_and_learners_and_is_none_of_their_parameters():
    network = DeepAttention(depth=1)
    assert (
        limits(network, [0.3], accuracy=FEW).parameters["points"]
        == network.at_accuracy(FEW).channel.inference.points
        == 32
    )
    assert network.points == 2048 and network.at_accuracy(None) is network
    few = network.at_accuracy(FEW)
    assert few != network and repr(few) == repr(network)
    for same in (copy.copy(few), pickle.loads(pickle.dumps(few)), few.varied(depth=1), replace(few, depth=1)):
        assert same.points == 32
    runs = simulate(BSR, [0.5], d=8, instances=1, accuracy=Accuracy(max_iterations=2))
    assert str(runs.status[0]) == "iteration_limit" and runs.parameters["max_iterations"] == 2
    rough, fine = (limits(BSR, [0.5], accuracy=Accuracy(tolerance=t), throw=False)["error"][0] for t in (1e-2, 1e-12))
    assert 0 < abs(rough - fine) < 1e-2


def test_old_arguments_and_names_say_the_new_ones():
    for call in (
        lambda: SequenceMultiIndex(lambda z: z[0, 0], points=64),
        lambda: MessagePassing(max_iterations=3),
        lambda: RegularisedRisk(tolerance=1e-3),
        lambda: simulate(BSR, [0.5], algorithm="ridge"),
        lambda: trajectory(BSR, [0.5], overlap=0.1),
    ):
        with pytest.raises(RenamedError, match="is now"):
            call()
    with pytest.raises(TypeError, match="unexpected keyword"):
        MessagePassing(speed=3)
    for name in (word for word in RENAMED if word.isidentifier()):
        with pytest.raises(AttributeError, match=f"{name} is now"):
            getattr(glassformer, name)


def test_new_names_of_the_table_are_there():
    for name, new in RENAMED.items():
        if name.isidentifier() and new.startswith("glassformer."):
            module, _, attribute = new.rpartition(".")
            assert hasattr(__import__(module, fromlist=[attribute]), attribute), new
    assert len(glassformer.__all__) <= 34
