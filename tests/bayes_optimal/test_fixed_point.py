"""The one fixed-point loop, on maps whose fixed points are known."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer import Accuracy, BilinearSequenceRegression, ConvergenceError, Status, limits
from glassformer.core.estimate import Estimate
from glassformer.core.settings import Iteration
from glassformer.numerics.fixed_points import solve as fixed_points
from glassformer.numerics.fixed_points.accelerated import Accelerated
from glassformer.numerics.fixed_points.damped import Damped
from glassformer.numerics.fixed_points.newton import Newton
from glassformer.results import Solution

ACCELERATED, PLAIN = Iteration(), Iteration(damping=0.0, max_iterations=50_000)
DAMPED = Iteration(damping=0.5, max_iterations=100_000)
COSINE = 0.7390851332151607  # zero of cos(x) - x, checked below by its own definition
both = pytest.mark.parametrize("settings", [ACCELERATED, PLAIN, DAMPED], ids=["accelerated", "plain", "damped"])


def solve(function, start, settings=None, inside=None):
    """Fixed points of an exact map that ignores which batch element it works on."""
    return fixed_point(lambda x, index: Estimate(function(x), np.zeros_like(x)), start, settings, inside)


def fixed_point(update, start, settings=None, inside=None):
    return fixed_points.solve(update, np.array(start), Accelerated(inside), settings)


def affine(root, slope):
    return lambda x: root + slope * (x - root)


# --- known roots ------------------------------------------------------------------------------------------------------


@both
def test_finds_a_known_root(settings):
    assert abs(np.cos(COSINE) - COSINE) < 1e-15
    solution = solve(np.cos, [1.0, 0.0, 0.5], settings)
    assert solution.converged
    np.testing.assert_allclose(solution.value, COSINE, atol=1e-9)
    assert solution.residual.max() < 1e-9


@pytest.mark.parametrize("power", [3, 9])
def test_damped_steps_that_overshoot_are_taken_back(power):
    """Far from its root x - x^power leads to ever larger numbers of both signs, and to infinity."""
    damped = Damped(lambda x: np.all(np.isfinite(x), axis=1))

    def function(x, index):
        with np.errstate(over="ignore", invalid="ignore"):
            return Estimate(x - x**power - 2 * x, 0 * x)

    found = fixed_points.solve(function, np.array([[2.0], [1e-3]]), damped, Iteration(tolerance=1e-6, floor=1e-6))
    assert found.converged
    np.testing.assert_allclose(found.value, 0.0, atol=1e-6)


def test_damped_steps_end_where_the_map_is_not_finite():
    damped = Damped(lambda x: np.all(np.isfinite(x), axis=1))
    found = fixed_points.solve(lambda x, index: Estimate(np.full_like(x, np.nan), x), np.ones((1, 1)), damped)
    assert found.status == [Status.NON_FINITE]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "slope"),
    [
        *((ACCELERATED, slope) for slope in (-0.9, -0.5, 0.0, 0.5, 0.9, 0.99)),
        (PLAIN, -0.9),
        (PLAIN, 0.9),
        (DAMPED, 0.9),
    ],
)
def test_error_estimate_bounds_the_true_error(settings, slope):
    solution = solve(affine(2.0, slope), [1.0, 5.0], settings)
    assert solution.converged
    error, rounding = np.abs(solution.value - 2.0), 4e-16
    # Residuals carry rounding errors, amplified to a distance by 1/(1 - slope); the slope is measured over a last
    # step of (1 - slope) 2e-10, so that it is rounded to this relative accuracy.
    known = rounding / ((1 - slope) ** 2 * 2e-10)
    assert np.all(error <= solution.error_estimate * (1 + 2 * known) + 5 * rounding / (1 - slope))
    assert np.all(error <= 2e-10 * (1 + 2 * known) + 1e-13)


@pytest.mark.parametrize("slope", [-0.5, 0.5, 0.9, 0.99])
def test_integration_errors_are_amplified_where_the_map_contracts_slowly(slope):
    """A map that is off by ``e`` everywhere has its fixed point off by ``e / (1 - slope)``."""
    off = 1e-4
    found = fixed_point(
        lambda x, index: Estimate(affine(2.0, slope)(x) + off, np.full_like(x, off)), np.array([1.0, 5.0])
    )
    assert found.converged
    error = np.abs(found.value - 2.0)
    np.testing.assert_allclose(error, off / (1 - slope), rtol=1e-5)
    assert np.all(error <= found.error_estimate * (1 + 1e-5))
    assert np.all(found.error_estimate <= 1.01 * max(1.0, 1 / (1 - slope)) * off + 1e-9)


@pytest.mark.parametrize("start", [0.1, 0.9])
def test_error_estimate_bounds_the_true_error_of_a_curved_map(start):
    for tolerance in (1e-3, 1e-6, 1e-9):
        solution = solve(lambda x: 0.5 * (x + 0.49 / x), [start], Iteration(tolerance=tolerance))
        assert solution.converged
        assert abs(solution.value[0] - 0.7) <= max(2 * solution.error_estimate[0], 1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [ACCELERATED, pytest.param(PLAIN, marks=pytest.mark.thorough)], ids=["accelerated", "plain"]
)
def test_slow_convergence_is_not_taken_for_a_small_distance(settings):
    """At slope 0.998 a residual r means a distance of 500 r: stopping at r < tolerance would be wrong by that."""
    solution = solve(affine(1.0, 0.998), [0.0], settings)
    assert solution.converged
    # The last steps of plain iteration are 1e-13 long: rounding leaves one digit of their slope.
    distance = abs(solution.value[0] - 1.0)
    assert distance <= 2e-10
    assert solution.error_estimate[0] >= distance / 2


def test_slow_convergence_cut_short_reports_its_distance():
    solution = solve(affine(1.0, 0.999), [0.0], Iteration(damping=0.0, max_iterations=100))
    assert solution.status == [Status.ITERATION_LIMIT]
    distance = abs(solution.value[0] - 1.0)
    assert solution.error_estimate[0] == pytest.approx(distance, rel=0.01)
    assert solution.error_estimate[0] > 500 * solution.residual[0]


def test_acceleration_pays_off():
    quick, slow = (solve(affine(1.0, 0.99), [0.0], settings) for settings in (ACCELERATED, PLAIN))
    assert quick.iterations[0] < slow.iterations[0] / 100


def test_integration_error_enters_the_estimate():
    solution = fixed_point(lambda x, index: Estimate(0.5 * x + 0.5, np.full_like(x, 1e-4)), np.array([0.0]))
    assert solution.error_estimate[0] >= 1e-4


# --- several fixed points ---------------------------------------------------------------------------------------------


@both
def test_an_unstable_start_is_left(settings):
    """x = 0 repels; a start next to it has a tiny residual, which must not be taken for a solution."""
    solution = solve(lambda x: np.tanh(2 * x), [1e-9], settings)
    assert solution.converged
    assert solution.value[0] == pytest.approx(np.tanh(2 * solution.value[0]), rel=1e-9)
    assert solution.value[0] > 0.9


def staircase(x):
    """Fixed points 0.2 (stable), 0.4 (unstable), 0.9 (stable)."""
    return x - 2.0 * (x - 0.2) * (x - 0.4) * (x - 0.9)


@both
@pytest.mark.parametrize(("start", "root"), [(0.0, 0.2), (0.39, 0.2), (0.41, 0.9), (1.0, 0.9)])
def test_bistable_map_converges_to_the_fixed_point_of_plain_iteration(settings, start, root):
    solution = solve(staircase, [start], settings)
    assert solution.converged
    assert solution.value[0] == pytest.approx(root, abs=1e-8)


def near_fold(gap):
    """A rising map with a stable fixed point at 0.5 - sqrt(gap), an unstable one at 0.5 + sqrt(gap), and 3 beyond."""
    return lambda x: np.where(x < 1.0, x + (x - 0.5) ** 2 - gap, 3.0 + 0.1 * (x - 3.0))


@pytest.mark.parametrize("gap", [1e-1, 1e-2, 1e-3, 1e-4])
def test_the_first_fixed_point_is_not_skipped_next_to_a_fold(gap):
    solution = solve(near_fold(gap), [-0.3], Iteration(max_iterations=5000))
    assert solution.converged
    assert solution.value[0] == pytest.approx(0.5 - np.sqrt(gap), abs=1e-7)


def growing(speed, gap):
    """Unstable at 0, then as above with fixed points 0.5 -+ sqrt(gap), and 1.5 beyond: a hard phase about to end."""
    return lambda x: np.where(x < 1, x + speed * x * ((x - 0.5) ** 2 - gap), 1.5 + 0.1 * (x - 1.5))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "gap"),
    [(1.0, 0.03), (1.0, 0.001), (3.0, 0.01), (1.0, 1e-4), (3.0, 3e-3)],
)
def test_the_first_fixed_point_is_not_skipped_after_growth(speed, gap):
    first = 0.5 - np.sqrt(gap)
    plain = solve(growing(speed, gap), [1e-6], Iteration(damping=0.0, max_iterations=5000))
    assert plain.value[0] == pytest.approx(first, abs=1e-7)
    quick = solve(growing(speed, gap), [1e-6], Iteration(max_iterations=5000))
    assert quick.converged
    assert quick.value[0] == pytest.approx(first, abs=1e-7)


# --- shapes -----------------------------------------------------------------------------------------------------------


@both
def test_states_of_any_shape(settings):
    target = np.arange(12.0).reshape(3, 2, 2) + 1
    mixing = np.array([[0.5, 0.2], [0.1, 0.4]])
    solution = fixed_point(
        lambda x, index: Estimate(target[index] + mixing @ (x - target[index]), np.zeros_like(x)),
        np.zeros((3, 2, 2)),
        settings,
    )
    assert solution.converged
    assert solution.value.shape == (3, 2, 2)
    assert solution.residual.shape == solution.iterations.shape == solution.error_estimate.shape == (3,)
    np.testing.assert_allclose(solution.value, target, rtol=1e-8)


@pytest.mark.slow
def test_batch_elements_stop_independently():
    slopes = np.array([0.0, 0.5, 0.99])
    seen = []

    def update(x, index):
        seen.append(list(index))
        return Estimate(1 + slopes[index] * (x - 1), np.zeros_like(x))

    solution = fixed_point(update, np.zeros(3), PLAIN)
    assert solution.converged
    assert solution.iterations[0] < solution.iterations[1] < solution.iterations[2]
    assert seen[0] == [0, 1, 2]
    assert seen[-1] == [2]
    assert solution.history.shape == (solution.iterations.max(), 3)
    assert np.isnan(solution.history[solution.iterations[0] :, 0]).all()


def test_a_failing_element_does_not_touch_the_others():
    solution = solve(lambda x: np.where(x > 4, np.nan, 0.5 * x + 0.5), [0.0, 5.0, 2.0])
    assert solution.status == [Status.CONVERGED, Status.NON_FINITE, Status.CONVERGED]
    np.testing.assert_allclose(solution.value[[0, 2]], 1.0, atol=1e-9)


def test_start_is_not_modified():
    start = np.array([1.0, 0.5])
    solve(np.cos, start)
    np.testing.assert_array_equal(start, [1.0, 0.5])


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_map_without_a_value_is_reported(bad):
    solution = solve(lambda x: np.full_like(x, bad), [1.0])
    assert solution.status == [Status.NON_FINITE]
    assert not solution.converged


def test_a_map_that_leaves_its_domain_is_reported():
    solution = solve(lambda x: x + 0.3, [0.1], inside=lambda x: (x >= 0).all(-1) & (x <= 1).all(-1))
    assert solution.status == [Status.OUTSIDE_CONE]


def test_states_never_leave_the_domain():
    seen = []

    def update(x):
        seen.append(x.copy())
        return 0.999 * x

    solution = solve(update, [1.0], inside=lambda x: (x >= 0).all(-1))
    assert solution.converged
    assert min(x.min() for x in seen) >= 0


@pytest.mark.parametrize("settings", [Iteration(max_iterations=3), Iteration(damping=0.5, max_iterations=3)])
def test_the_iteration_limit_is_reported(settings):
    solution = solve(np.cos, [0.0], settings)
    assert solution.status == [Status.ITERATION_LIMIT]
    assert solution.iterations[0] == 3


@pytest.mark.parametrize("damping", [0.0, 0.9, 0.999])
def test_damping_does_not_fake_convergence(damping):
    """A step shortened by damping is no small residual."""
    solution = solve(np.cos, [0.0], Iteration(damping=damping, max_iterations=20))
    residual = abs(np.cos(solution.value[0]) - solution.value[0])
    assert not solution.converged
    assert solution.residual[0] > 0.5 * residual


def test_oscillation_is_no_convergence():
    solution = solve(lambda x: 1 - x, [0.2], Iteration(damping=0.0, max_iterations=50))
    assert solution.status == [Status.ITERATION_LIMIT]
    assert solution.residual[0] == pytest.approx(0.6)


def test_growth_is_no_convergence():
    solution = solve(lambda x: 1 + 2 * (x - 1), [1 + 1e-12], Iteration(damping=0.0, max_iterations=20))
    assert not solution.converged


# --- what callers do with it ------------------------------------------------------------------------------------------


def solution_of(*statuses):
    count = len(statuses)
    numbers = np.zeros(count)
    return Solution(numbers, list(statuses), numbers, numbers.astype(int), numbers, np.zeros((1, count)))


def test_raise_unless_converged_returns_what_converged():
    solution = solution_of(Status.CONVERGED, Status.CONVERGED)
    assert solution.raise_unless_converged() is solution


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.CONVERGED], ids=str)
def test_raise_unless_converged_names_status_and_remedy(status):
    solution = solution_of(Status.CONVERGED, status)
    assert not solution.converged
    with pytest.raises(ConvergenceError) as caught:
        solution.raise_unless_converged()
    assert str(status) in str(caught.value)
    assert status.remedy in str(caught.value)
    assert caught.value.status is status
    assert caught.value.result is solution


def test_limits_raise_unless_throw_is_false():
    model, hurried = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), Accuracy(max_iterations=2)
    with pytest.raises(ConvergenceError, match="iteration_limit") as caught:
        limits(model, [0.3, 0.5], accuracy=hurried)
    kept = limits(model, [0.3, 0.5], accuracy=hurried, throw=False)
    assert kept.status == caught.value.result.status == [Status.ITERATION_LIMIT] * 2
    assert np.all(np.isfinite(kept["error"]))


@pytest.mark.slow
def test_a_hard_phase_is_no_failure_of_limits():
    table = limits(BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute"), [0.8])
    assert table.status == [Status.BISTABLE]


# --- Newton's method --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4, 12])
def test_newton_steps_of_many_slow_coordinates(size):
    """Slopes of -0.02 are regular, however small their determinant is."""
    root = np.arange(1.0, size + 1)
    solution = fixed_points.solve(
        lambda x, index: Estimate(x + 0.02 * (root - x), np.zeros_like(x)), np.zeros((1, size)), Newton()
    )
    assert solution.converged
    np.testing.assert_allclose(solution.value[0], root, rtol=1e-9)
