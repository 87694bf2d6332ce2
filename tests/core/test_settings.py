"""Settings are checked, and none is ignored in silence."""

from dataclasses import fields

import numpy as np
import pytest

from glassformer import Accuracy, MessagePassing, SequenceMultiIndex, simulate
from glassformer.channels.multi_index.single_index import SingleIndexChannel
from glassformer.channels.scalar.absolute import AbsoluteChannel
from glassformer.core.settings import Iteration
from glassformer.errors import ParameterError
from glassformer.learners.data_set import DataSet


@pytest.mark.parametrize(
    "bad",
    [
        {"max_iterations": 2.5},
        {"max_iterations": True},
        {"tolerance": "tight"},
        {"tolerance": np.nan},
        {"floor": True},
        {"damping": np.nan},
    ],
)
@pytest.mark.parametrize("kind", [Iteration, Accuracy, MessagePassing])
def test_values_that_are_not_numbers_are_refused(kind, bad):
    if next(iter(bad)) not in {one.name for one in fields(kind)}:
        return
    with pytest.raises(ParameterError, match=f"^{next(iter(bad))} = "):
        kind(**bad)


def test_numbers_of_numpy_are_numbers():
    assert Iteration(max_iterations=np.int64(3), tolerance=np.float64(0.1)).max_iterations == 3


class SingleIndexAbsolute(SingleIndexChannel, AbsoluteChannel):
    """The absolute value in fields of shape (n, 1, 1)."""

    def label_integrals(self, variance):
        return {}


def absolute():
    """The absolute value of one projection, with the averages that are known in closed form."""
    model = SequenceMultiIndex(_absolute).at_accuracy(Accuracy(points=32))
    model.__dict__["channel"] = SingleIndexAbsolute()
    return model


def _absolute(z):
    return abs(z[0, 0])


def test_random_starts_are_those_asked_for():
    """Labels without sign give a vanishing start no time to grow in a few steps."""
    model, rng = absolute(), np.random.default_rng(0)
    size = model.at_size(60)
    design = size.design.sample(180, size.input_shape, rng)
    signal = model.prior.sample(model.signal_shape(design), rng)
    labels = model.channel.sample(design.forward(signal, 0), rng)
    vanishing, usual, large = (
        MessagePassing(random_start=start)
        .at_accuracy(Accuracy(max_iterations=6))
        .learn(model, DataSet(design, labels))
        .estimates
        for start in (1e-12, None, 0.5)
    )
    assert np.abs(vanishing).max() < 1e-3 * np.abs(usual).max()
    assert not np.array_equal(usual, large)


@pytest.mark.slow
def test_the_optimum_of_a_hard_phase_is_not_where_message_passing_ends():
    result = simulate(absolute(), [1.05], MessagePassing().at_accuracy(Accuracy(max_iterations=5)), d=40, instances=1)
    assert result["theory_bayes_optimal"][0] < 1e-6
    assert result["theory"][0] == pytest.approx(0.43, abs=0.02)
    assert any("hard phase" in note for note in result.notes)
