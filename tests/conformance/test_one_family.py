"""A scalar model is the case of one row: its results are those of the matrix code, for every scalar model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from glassformer import limits
from glassformer.bayes_optimal.conjugate_overlap import conjugate_overlap
from glassformer.bayes_optimal.evolution_map import EvolutionMap
from glassformer.bayes_optimal.first_stable import FirstStable
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.bayes_optimal.refinement import Refinement
from glassformer.core.settings import Iteration
from glassformer.learners.gamp import gamp
from glassformer.models.base import Model
from glassformer.numerics.fixed_points.solve import solve
from glassformer.priors.layered import LayeredPrior

CLOSE = 1e-8
SOME = slice(None, None, 2)


@dataclass(frozen=True)
class InRows(Model):
    """A scalar model with its overlaps as 1 x 1 matrices."""

    scalar: Any

    name = "in rows"
    parameters = property(lambda self: self.scalar.parameters)
    prior = property(lambda self: LayeredPrior(self.scalar.prior, 1))
    channel = property(lambda self: self.scalar.channel)

    def at_size(self, d):
        raise NotImplementedError


def matrices(values):
    return np.asarray(values)[:, None, None]


@pytest.mark.slow
@pytest.mark.parametrize("start", ["uninformed", "informed"])
def test_newton_steps_on_matrices_end_at_the_fixed_points_of_the_scalar_iteration(model, alphas, ends, start):
    """The code for sampled averages of several rows, on averages that are exact; down to perfect recovery."""
    scalar = ends[start].value[SOME]
    update = EvolutionMap(model, alphas[SOME], model.channel)
    # From beside the fixed point: which one is the first from far away is told by iteration alone.
    begin = np.clip(scalar * 1.001, 0, 1)
    settings = Iteration(tolerance=1e-10)
    coarse = solve(update, matrices(begin), FirstStable(update), settings)
    found = solve(update, coarse.value, Refinement(coarse), settings)
    settled = np.array([status.ok for status in found.status])
    np.testing.assert_allclose(found.value[settled, 0, 0], scalar[settled], atol=CLOSE, rtol=0)
    assert settled.mean() >= 0.8


@pytest.mark.slow
def test_limits_and_free_entropies_of_the_one_row_are_those_of_the_scalar_model(model, alphas, curve):
    rows = InRows(model)
    matrix = limits(rows, alphas[SOME], throw=False)
    assert matrix.status == curve.status[SOME]
    np.testing.assert_allclose(matrix["overlap"][:, 0, 0], curve["overlap"][SOME], atol=CLOSE)
    np.testing.assert_allclose(matrix["row_error"][:, 0], curve["error"][SOME], atol=CLOSE)
    q_hat = model.prior.weak_recovery_onset + np.array([0.1, 1.0])
    phi = free_entropy(model, 0.5, q_hat).value, free_entropy(rows, 0.5, matrices(q_hat)).value
    np.testing.assert_allclose(*phi, atol=CLOSE)


def test_one_step_of_state_evolution_is_a_question_to_every_model(model):
    found = conjugate_overlap(model, 0.4 * model.prior.second_moment, alpha=0.7)
    expected = 0.7 / model.prior.degrees * model.channel.information(np.array([0.6])).value[0]
    assert found.reached
    assert found.value.item() == pytest.approx(expected, rel=1e-12)


def test_nothing_is_added_to_a_variance_that_vanishes(model):
    """The rule for a signal known exactly, and a variance far below any jitter."""
    update = EvolutionMap(model, np.full(2, 3.0 * model.prior.mmse_dimension), model.channel)
    value = update(matrices([0.0, 1e-13]), np.arange(2)).value[:, 0, 0]
    information = model.channel.information(np.array([1e-13])).value
    expected = model.prior.mmse(3.0 * model.prior.mmse_dimension / model.prior.degrees * information).value[0]
    assert value[1] == pytest.approx(expected, rel=1e-12)
    assert (value[0] == 0) == (model.channel.labels.rank > 0)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["linear", "sign"])
def test_message_passing_on_the_one_row_is_that_on_the_scalar_model(draw, channel):
    from glassformer import BilinearSequenceRegression

    chosen = {"channel": "sign"} if channel == "sign" else {"noise": 0.1}
    model = BilinearSequenceRegression(beta=1, rho=0.4, **chosen)
    _, design, labels = draw(model, 24, 1.5)
    solution = gamp(model, design, labels)
    assert solution.extra["variance"].shape == (1,)
    assert solution.value.shape == (1, 24, 24)
