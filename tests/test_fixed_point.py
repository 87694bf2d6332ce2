"""The loop that iterates: it finds the right fixed point and never claims one it has not reached."""

import numpy as np
import pytest

from glassformer.integral import Integral
from glassformer.settings import Iteration
from glassformer.solution import Status
from glassformer.state_evolution import fixed_point

STYLES = [None, 0.0, 0.5]


def solve(function, start, damping=None, inside=None, **settings):
    def exact(x, index):
        value = function(x)
        return Integral(value, np.zeros_like(value))

    return fixed_point(exact, np.asarray(start, dtype=float), Iteration(damping=damping, **settings), inside)


@pytest.mark.parametrize("damping", STYLES)
def test_known_root_and_honest_estimate(damping):
    solution = solve(np.cos, [1.0, 0.2], damping)
    root = 0.7390851332151607
    assert solution.converged
    assert np.all(np.abs(solution.value - root) <= solution.error_estimate + 1e-13)
    np.testing.assert_allclose(solution.value, root, rtol=1e-9)


@pytest.mark.parametrize("damping", STYLES)
def test_slow_convergence_is_not_mistaken_for_convergence(damping):
    solution = solve(lambda x: 0.5 + 0.99 * (x - 0.5), [1.0], damping, max_iterations=10_000)
    assert solution.converged
    assert abs(solution.value[0] - 0.5) < 1e-9


def test_slow_convergence_cut_short_is_reported_with_its_distance():
    solution = solve(lambda x: 0.5 + 0.999 * (x - 0.5), [1.0], damping=0.0, max_iterations=50)
    assert solution.status[0] is Status.ITERATION_LIMIT
    assert solution.residual[0] < 1e-3
    assert abs(solution.value[0] - 0.5) == pytest.approx(solution.error_estimate[0], rel=0.05)


def test_an_unstable_start_is_left_and_the_first_stable_point_found():
    # Fixed points 0 (unstable), 1/4 (stable), 1/2 (unstable), 3/4 (stable).
    solution = solve(lambda x: x - 2 * x * (x - 0.25) * (x - 0.5) * (x - 0.75), [1e-6, 0.45, 0.55])
    assert solution.converged
    np.testing.assert_allclose(solution.value, [0.25, 0.25, 0.75], atol=1e-8)


def test_elements_of_a_batch_do_not_disturb_each_other():
    scale = np.array([0.1, 0.5, 0.9, 0.99])
    together = fixed_point(
        lambda x, index: Integral(scale[index] * np.cos(x), 0 * x), np.ones(4), Iteration(tolerance=1e-12)
    )
    for k, value in enumerate(scale):
        alone = solve(lambda x, value=value: value * np.cos(x), [1.0], tolerance=1e-12)
        assert alone.value[0] == together.value[k]


def test_matrix_states():
    target = np.array([[0.5, 0.1], [0.1, 0.2]])
    mixing = np.array([[0.9, 0.05], [0.0, 0.6]])
    solution = solve(lambda x: target + mixing @ (x - target), np.ones((1, 2, 2)), max_iterations=2000)
    assert solution.converged
    np.testing.assert_allclose(solution.value[0], target, atol=1e-8)


def test_failures_have_names():
    nan = solve(lambda x: np.where(x > 0.5, np.nan, x + 0.1), [0.1])
    assert nan.status[0] is Status.NON_FINITE
    outside = solve(lambda x: x - 0.4, [0.9], damping=0.0, inside=lambda x: np.all(x >= 0, axis=-1))
    assert outside.status[0] is Status.OUTSIDE_CONE
    assert not nan.converged and not outside.converged
