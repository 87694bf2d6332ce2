"""What must hold for the theory of every model, whatever its prior and channel."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer import Accuracy, BilinearSequenceRegression, Status, limits
from glassformer.bayes_optimal.equation_of_state import equation_of_state
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.core.settings import Iteration
from glassformer.learners.ridge import ridge_error

ACCURACY = 1e-9
# Variances below this are not told from zero, by definition of the setting.
FLOOR = Iteration().floor


def update(model, alpha, variance):
    """One step of state evolution, and its integration error."""
    information, information_error = model.channel.information(variance)
    value, error = model.prior.mmse(alpha * information)
    relative = np.divide(information_error, information, out=np.zeros_like(value), where=information > 0)
    return value, error + relative * value


def nontrivial(model, variance):
    """Fixed points at which the curves have derivatives: neither perfect recovery nor no recovery."""
    return (variance > 1e-4) & (variance < 1 - 1e-4)


def along_q_hat(function, q_hat, step=1e-2):
    """Sixth-order difference in log(q_hat)."""
    total = np.zeros_like(q_hat)
    for k, weight in {1: 45.0, 2: -9.0, 3: 1.0}.items():
        total += weight * (function(q_hat * np.exp(k * step)) - function(q_hat * np.exp(-k * step)))
    return total / (60 * step)


def slopes(model, alpha, q_hat):
    """Slope of the free entropy in log(q_hat) by differences, and by the exact gradient [alpha E g^2 - q_hat]/2."""
    measured = along_q_hat(lambda x: free_entropy(model, alpha, x).value, q_hat)
    overlap_slope = along_q_hat(lambda x: 1 - model.prior.mmse(x).value, q_hat)
    gradient = (alpha * model.channel.information(model.prior.mmse(q_hat).value).value - q_hat) / 2
    return measured, gradient * overlap_slope, overlap_slope


def test_every_point_converges_or_is_bistable(model, curve):
    assert set(curve.status) <= {Status.CONVERGED, Status.BISTABLE}
    assert Status.BISTABLE not in curve.status or model.channel.labels.even


def test_nothing_is_known_without_data(curve):
    assert curve["error"][0] == pytest.approx(1.0, abs=1e-15)
    assert curve["algorithmic_error"][0] == pytest.approx(1.0, abs=1e-15)
    assert curve["overlap"][0] == pytest.approx(0.0, abs=1e-15)


def test_error_lies_between_perfect_and_none(curve):
    for name in ("error", "algorithmic_error", "informed_error"):
        assert np.all((curve[name] >= 0) & (curve[name] <= 1))


def test_error_and_overlap_add_up_to_the_signal_power(curve):
    np.testing.assert_allclose(curve["error"] + curve["overlap"], 1.0, atol=1e-15)


@pytest.mark.parametrize("name", ["error", "algorithmic_error"])
def test_more_data_never_hurt(curve, name):
    rise = np.diff(curve[name])
    assert np.all(rise <= 2 * curve["error_estimate"].max())
    changing = (curve[name][1:] > 1e-3) & (curve[name][1:] < 1 - 1e-3)
    assert np.all(rise[changing] < -1e-6)


def test_knowing_the_signal_never_hurts(curve):
    slack = ACCURACY * curve["algorithmic_error"] + 1e-12
    assert np.all(curve["informed_error"] <= curve["algorithmic_error"] + slack)
    assert np.all(curve["error"] <= curve["algorithmic_error"] + slack)


@pytest.mark.slow
def test_fixed_points_solve_the_equation_of_state(model, alphas, ends):
    for solution in ends.values():
        kept = nontrivial(model, solution.value)
        curve = equation_of_state(model, solution.extra["q_hat"][kept])
        slack = ACCURACY * alphas[kept] + curve.error
        assert np.all(np.abs(curve.alpha - alphas[kept]) <= slack)


@pytest.mark.slow
def test_free_entropy_is_stationary_at_fixed_points(model, alphas, ends):
    for solution in ends.values():
        kept = nontrivial(model, solution.value)
        q_hat, alpha = solution.extra["q_hat"][kept], alphas[kept]
        measured, _, overlap_slope = slopes(model, alpha, q_hat)
        assert np.all(np.abs(measured) <= 1e-7 * q_hat * overlap_slope)


@pytest.mark.slow
def test_gradient_of_the_free_entropy_is_state_evolution(model):
    alpha = 0.7 * model.prior.mmse_dimension
    q_hat = model.prior.weak_recovery_onset + model.prior.mmse_dimension * np.geomspace(0.3, 30, 8)
    measured, exact, overlap_slope = slopes(model, alpha, q_hat)
    np.testing.assert_array_less(np.abs(measured - exact), 1e-6 * q_hat * overlap_slope)


@pytest.mark.slow
def test_a_warm_start_lands_on_the_same_fixed_point(model, alphas, curve):
    cold = curve["algorithmic_error"]
    for start in (np.maximum(cold, 1e-13), np.minimum(1.0, 1.001 * cold + 1e-9)):
        warm = state_evolution(model, alphas, start)
        assert warm.converged
        np.testing.assert_allclose(warm.value, cold, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("channel", ["gaussian", "absolute"])
def test_knowing_the_signal_exactly_is_a_legal_start(channel):
    """The documented range of a start is [0, 1], and limits themselves return errors of exactly 0."""
    known = state_evolution(BilinearSequenceRegression(beta=1, rho=0.5, channel=channel), [1.5], [0.0])
    assert known.converged
    assert known.value[0] == 0.0


@pytest.mark.slow
def test_damping_changes_the_path_only(model, alphas):
    # Where plain iteration creeps it may stop at its limit, but then it says so.
    alpha = alphas[[2, 3, 9]]
    plain = state_evolution(model, alpha, settings=Iteration(damping=0.3, max_iterations=100))
    quick = state_evolution(model, alpha)
    done = np.array([status.ok for status in plain.status])
    assert done.any()
    gap = np.abs(plain.value - quick.value)
    assert np.all(gap[done] <= 10 * (plain.error_estimate + quick.error_estimate)[done] + 1e-10)


@pytest.mark.slow
def test_a_batch_equals_its_elements(model, alphas):
    kept = alphas[[0, 3, 6]]
    batch = state_evolution(model, kept)
    for i, alpha in enumerate(kept):
        single = state_evolution(model, alpha)
        assert single.status[0] is batch.status[i]
        assert single.value[0] == pytest.approx(batch.value[i], rel=1e-9, abs=1e-12)


@pytest.mark.slow
def test_the_residual_is_that_of_the_undamped_map(model, alphas):
    alpha = alphas[[3, 5, 8]]
    for settings in (Iteration(), Iteration(damping=0.3, max_iterations=100)):
        solution = state_evolution(model, alpha, settings=settings)
        value, error = update(model, alpha, solution.value)
        again = np.abs(value - solution.value)
        done = np.array([status.ok for status in solution.status])
        np.testing.assert_allclose(solution.residual[done], again[done], rtol=1e-6, atol=1e-14)
        assert np.all(again[done] <= (solution.error_estimate + error + FLOOR)[done])
        assert np.all(solution.error_estimate >= solution.residual)


def test_the_residual_belongs_to_the_value_where_iteration_was_cut_short():
    model, alpha = BilinearSequenceRegression(beta=1, rho=np.inf, noise=0.1), np.array([0.8])
    solution = state_evolution(model, alpha, settings=Iteration(damping=0.5, max_iterations=5))
    value, _ = update(model, alpha, solution.value)
    assert solution.residual[0] == pytest.approx(abs(value[0] - solution.value[0]), rel=1e-9)


def test_unconverged_results_say_so(model, alphas):
    if model.channel.labels.even and model.prior.weak_recovery_onset > 0:
        pytest.skip("zero overlap is a fixed point at every sample ratio, found at once")
    table = limits(model, alphas[3:5], accuracy=Accuracy(max_iterations=1), throw=False)
    assert Status.ITERATION_LIMIT in table.status
    assert not table.converged


def test_linear_regression_is_never_better(model, alphas, curve):
    if model.channel.label != "gaussian" or model.counts_low_rank:
        pytest.skip("ridge theory is that of linear labels, counted by n/(dL)")
    ridge = ridge_error(alphas, model.noise)
    assert np.all(curve["error"] <= ridge + ACCURACY * curve["error"] + 2 * FLOOR)
    if np.isinf(model.rho):
        np.testing.assert_allclose(curve["error"], ridge, rtol=ACCURACY, atol=1e-12)


def test_score_is_the_slope_of_the_log_partition(model):
    rng = np.random.default_rng(0)
    for variance in (0.8, 0.1):
        omega = np.sqrt(1 - variance) * rng.standard_normal(12)
        y = model.channel.sample(omega + np.sqrt(variance) * rng.standard_normal(12), rng)
        step = 1e-3 * np.sqrt(variance)
        values = [model.channel.log_partition(y, omega + k * step, variance) for k in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
        np.testing.assert_allclose(model.channel.score(y, omega, variance), slope, rtol=1e-7, atol=1e-7)
