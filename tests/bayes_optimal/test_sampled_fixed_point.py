"""Newton steps on sampled maps, which are rough, where slopes are close to one."""

from __future__ import annotations

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Accuracy, SequenceMultiIndex, Status
from glassformer.bayes_optimal.evolution_map import EvolutionMap, SampledStep
from glassformer.bayes_optimal.first_stable import _leave_unstable_points
from glassformer.bayes_optimal.refinement import Refinement, _newton_gain
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.channels.field_averages import Averages
from glassformer.core.estimate import Estimate
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.numerics.fixed_points.solve import solve

ROUGH, REPLICAS = 4e-4, 8


class RoughMap:
    """``V -> V (1 - slow) - bend V^2 + offset``, rough as samples are, of one number."""

    alpha = np.ones(1)

    def __init__(self, slow, bend, offset=0.0):
        self.slow, self.bend, self.offset, self.calls = slow, bend, offset, 0
        self.apart = np.linspace(-1, 1, REPLICAS) * ROUGH / np.std(np.linspace(-1, 1, REPLICAS))

    def step_with_replicas(self, variance, index, kept):
        self.calls += 1
        kept[:, index] = 1.0
        value = variance * (1 - self.slow) - self.bend * variance**2 + self.offset
        value = value + 0.3 * ROUGH * variance * np.sin(1e9 * variance)
        rest = value[:, None] + (self.apart / np.sqrt(REPLICAS))[:, None, None] * variance[:, None]
        return SampledStep(value, rest, value, value)

    def respect_symmetries(self, matrices, variance):
        del variance
        return matrices


def found(rough, start, slope, unstable=False):
    return from_place(rough, np.array([[[start]]]), np.array([[[slope]]]), unstable)


def from_place(rough, start, slope, unstable=False):
    extra = {"slope": slope, "q_hat": start, "q_hat_error": start, "unstable": np.array([unstable])}
    nothing = np.zeros(1)
    place = Solution(start, [Status.CONVERGED], nothing, nothing.astype(int), nothing, np.zeros((1, 1)), extra)
    return solve(rough, start, Refinement(place), Iteration(tolerance=1e-4, floor=1e-6))


class KnownRowMap:
    """Two rows, the second known to the smallest variance: what is left of a correlation with it roughens the first."""

    alpha, smallest, contraction = np.ones(1), 1e-12, 0.4

    def step_with_replicas(self, variance, index, kept):
        kept[:, index] = 1.0
        first, both, second = variance[:, 0, 0], variance[:, 0, 1], np.maximum(variance[:, 1, 1], self.smallest)
        value = np.zeros_like(variance)
        value[:, 0, 0] = 0.2717 + self.contraction * (first - 0.2717) + 0.5 * np.abs(both) / np.sqrt(first * second)
        value[:, 0, 1] = value[:, 1, 0] = 0.2 * both
        value[:, 1, 1] = 0.5 * second
        apart = np.linspace(-1, 1, REPLICAS) / np.sqrt(REPLICAS - 1) * 1e-4
        rest = value[:, None] + apart[:, None, None] * np.diag([1.0, 0.0])
        return SampledStep(value, rest, value, value)

    def respect_symmetries(self, matrices, variance):
        del variance
        return matrices


@pytest.mark.parametrize(
    ("first", "both", "second", "mixed"),
    [
        (0.27226556, 9.8109e-11, 9.882e-13, (0.4, -755.1, -2182.3, -6.332e7)),
        (0.27165826, 7.1734e-10, 4.3275e-12, (0.4, 0.0, 0.0, 0.0)),
        (0.27258213, 1.3514e-10, 3.7887e-12, (0.4, 0.0, 0.0, 0.0)),
    ],
)
def test_known_row_does_not_distort_slopes_of_another_row(first, both, second, mixed):
    rough, slope = KnownRowMap(), np.diag([0.4, 0.2, 0.2, 0.45])
    slope[0] = mixed
    solution = from_place(rough, np.array([[[first, both], [both, second]]]), slope[None])
    assert solution.status == [Status.CONVERGED]
    assert solution.iterations[0] <= 10
    assert abs(solution.value[0, 0, 0] - 0.2717) <= 2 * solution.error_estimate[0]
    assert solution.residual[0] <= solution.error_estimate[0] <= 1e-3


@pytest.mark.parametrize("start", [3e-4, 2e-3, 2e-2])
def test_few_steps_at_merging_fixed_points_with_a_large_error_estimate(start):
    """The slope at zero is one: roughness is all that is known of it next to there."""
    rough = RoughMap(slow=0.0, bend=1.0)
    solution = found(rough, start, 1 - 2 * start)
    assert solution.status == [Status.CONVERGED]
    assert rough.calls <= 10
    assert solution.value[0, 0, 0] <= solution.error_estimate[0]


@pytest.mark.parametrize("slope", [0.985, 0.995])
def test_long_steps_are_shortened_not_replaced_by_those_of_the_map(slope):
    """The map contracts by a hundredth per step: a twentieth of the way takes it 300 steps."""
    rough = RoughMap(slow=0.01, bend=0.0, offset=0.01 * 0.05)
    solution = found(rough, 0.9, slope)
    assert solution.status == [Status.CONVERGED]
    assert rough.calls <= 20
    assert abs(solution.value[0, 0, 0] - 0.05) <= solution.error_estimate[0]


@pytest.mark.parametrize("status", [Status.CONVERGED, Status.INTEGRATION_NOT_CONVERGED])
def test_unstable_point_is_left_although_few_points_do_not_resolve_it(status):
    """From a half on states stay there, below it they go to a tenth."""

    def solve(state, index):
        there = state[:, 0, 0] >= 0.5
        value, slope = np.where(there, 0.5, 0.1)[:, None, None], np.where(there, 1.5, 0.5)[:, None, None]
        nothing = np.zeros(len(index))
        return Solution(
            value, [status] * len(index), nothing, nothing.astype(int), nothing, np.zeros((1, 1)), {"slope": slope}
        )

    assert (
        _leave_unstable_points(solve, np.array([[[0.8]]]), np.arange(1), Iteration(tolerance=1e-4)).value.item() == 0.1
    )


def test_a_point_that_no_push_leaves_for_a_stable_one_is_not_converged():
    """Wherever states are pushed to, slopes lead away: what is found last is no fixed point to print."""

    def solve(state, index):
        nothing = np.zeros(len(index))
        extra = {"slope": np.full((len(index), 1, 1), 1.5)}
        return Solution(0.9 * state, [Status.CONVERGED], nothing, nothing.astype(int), nothing, np.zeros((1, 1)), extra)

    assert _leave_unstable_points(solve, np.array([[[0.8]]]), np.arange(1), Iteration(tolerance=1e-4)).extra[
        "unstable"
    ].tolist() == [True]
    ends = [found(RoughMap(slow=0.5, bend=0.0), 0.01, 0.5, unstable).status for unstable in (False, True)]
    assert ends == [[Status.CONVERGED], [Status.INTEGRATION_NOT_CONVERGED]]


@pytest.mark.thorough
@pytest.mark.parametrize("points", [32, pytest.param(64, marks=pytest.mark.thorough)])
def test_a_product_with_a_tanh_converges_at_its_counting_threshold(points):
    """Labels are as many as unknowns at a ratio of two, from which on the error is zero."""
    model = SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), 2).at_accuracy(Accuracy(points=points))
    solution = state_evolution(model, [2.0], np.diag([1e-3, 2.5e-3])[None])
    assert solution.status == [Status.CONVERGED]
    assert np.linalg.norm(solution.value[0]) <= solution.error_estimate[0]


@pytest.mark.thorough
def test_a_product_with_a_tanh_converges_next_to_its_threshold():
    """Weak recovery is at 0.5905: overlaps grow in proportion from there, on a map as rough as it is flat."""
    model = SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), 2)
    solution = state_evolution(model, [0.596, 0.604, 0.608])
    assert solution.status == [Status.CONVERGED] * 3
    error = np.trace(solution.value, axis1=1, axis2=2) / 2
    np.testing.assert_allclose(error, 0.993, atol=2e-3)


def test_slopes_for_information_with_negative_sampled_eigenvalues():
    """As for the map itself, what is negative within its error is none: of Gaussian weights dV = -dQ there."""
    one = np.ones((1, 1, 1))
    noisy = Averages(Estimate(-3 * one, 10 * one), Estimate(one, one), one[None], 0.0, 0 * one)
    inference = SimpleNamespace(
        sampled=True, smallest=1e-12, work=1.0, averages_and_slope=lambda state: (noisy, np.full((1, 1), 0.5))
    )
    channel = SimpleNamespace(inference=inference)
    update = EvolutionMap(SequenceMultiIndex(lambda z: z[0, 0], indices=1, tokens=1), np.ones(1), channel)
    # Differences over a step of 1e-4.
    assert update.slope(0.1 * one, np.arange(1)).item() == pytest.approx(0.5, rel=2e-4)


def test_newton_gain_of_large_slopes_near_an_exactly_known_signal():
    """Sampled slopes of discrete rows there are 1e18 and singular."""
    assert np.isfinite(_newton_gain(-1e18 * np.ones((1, 4, 4)))).all()
    regular = np.diag([0.5, 0.2])[None]
    np.testing.assert_allclose(_newton_gain(regular)[0], np.diag([2.0, 1.25]), rtol=1e-12)


class ScriptedMap:
    """A map of one number with given residuals, spreads between replicas and biases in successive calls."""

    alpha = np.ones(1)

    def __init__(self, residuals, spreads, bias=0.0):
        self.script, self.bias = list(zip(residuals, spreads, strict=True)), bias

    def step_with_replicas(self, variance, index, kept):
        residual, spread = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        kept[:, index] = 1.0 + spread
        value = variance + residual
        deviations = np.linspace(-1, 1, REPLICAS) / np.sqrt(REPLICAS - 1) * spread
        return SampledStep(value, value[:, None] + deviations[:, None, None], value, value + self.bias)

    def respect_symmetries(self, matrices, variance):
        del variance
        return matrices


def test_error_estimate_belongs_to_the_converged_state_if_an_earlier_step_was_shorter():
    """The second step is longer than the first, but below its own, larger sampling error: there the steps end."""
    solution = found(ScriptedMap([1e-3, 2e-3], [1e-6, 1e-2]), 0.5, 0.0)
    assert solution.status[0] is Status.CONVERGED
    assert solution.iterations[0] == 2
    assert solution.error_estimate[0] > 5e-3
    assert solution.residual[0] == pytest.approx(2e-3)
    assert solution.extra["q_hat"].item() == pytest.approx(1.01)
    np.testing.assert_allclose(solution.value.item(), 0.5 + 1e-3 + 2e-3, rtol=1e-12)


@pytest.mark.parametrize(("bias", "status"), [(5e-3, Status.CONVERGED), (0.0, Status.ITERATION_LIMIT)])
def test_steps_that_do_not_become_shorter_are_judged_by_sampling_error_and_bias(bias, status):
    solution = found(ScriptedMap([1e-3], [1e-4], bias), 0.5, 0.0)
    assert solution.status[0] is status
    assert solution.iterations[0] < 24
    assert solution.error_estimate[0] > bias
