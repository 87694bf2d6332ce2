"""Regularised risk in time: it ends at the fixed point, and proximal message passing follows it to the minimiser."""

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    IncompatibleError,
    RegularisedRisk,
    limits,
    simulate,
    trajectory,
)
from glassformer.core.status import Status
from glassformer.errors import ParameterError
from glassformer.learners.regularised_risk import ProximalMessagePassing
from glassformer.risk.limits import risk_limits
from glassformer.risk.losses import Square
from glassformer.risk.penalties import penalty_of
from glassformer.risk.thresholds import risk_thresholds
from glassformer.risk.trajectory import risk_trajectory

LINEAR = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
WIDE = BilinearSequenceRegression(beta=2, rho=0.5, noise=0.1)
SIGNS = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
QUADRATIC = AttentionIndexed(rho=0.5, tokens=1, channel="linear", noise=0.1)
HARDMAX = AttentionIndexed(rho=0.5, tokens=2, channel="hardmax")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "learner", "alpha"),
    [
        (LINEAR, RegularisedRisk("square", "nuclear", 0.1), [0.5, 1.2]),
        pytest.param(WIDE, RegularisedRisk("square", "nuclear"), [0.8], marks=pytest.mark.thorough),
        pytest.param(LINEAR, RegularisedRisk("huber", "elastic", 0.2), [0.5], marks=pytest.mark.thorough),
        pytest.param(SIGNS, RegularisedRisk("logistic", "nuclear", 0.3), [2.0], marks=pytest.mark.thorough),
        (SIGNS, RegularisedRisk("hinge", "ridge", 0.3), [1.0]),
        pytest.param(QUADRATIC, RegularisedRisk("square", "trace", 0.1), [0.3], marks=pytest.mark.thorough),
        (QUADRATIC, RegularisedRisk("square", "pinned"), [0.6]),
    ],
)
def test_it_ends_at_the_fixed_point(model, learner, alpha):
    table, end = trajectory(model, np.array(alpha), learner, steps=100), limits(model, alpha, learner)
    assert table.converged and not table.notes
    for name in ("error", "overlap", "power", "rank", "effective_noise", "strength"):
        np.testing.assert_allclose(table[name][100::101], end[name], rtol=1e-7)
    np.testing.assert_allclose(table["error"][::101], model.prior.second_moment)
    sums = model.prior.second_moment - 2 * table["overlap"] + table["power"]
    np.testing.assert_allclose(table["error"], sums, atol=1e-9)


def test_ridge_regression_in_closed_form():
    """Every number of every step is that of a few fractions: V_0 = 2, then 1 / (stiffness + strength)."""
    alpha, noise, strength, variance, error, known = 0.8, 0.1, 0.3, 2.0, 1.0, [1.0]
    for _ in range(6):
        stiffness = alpha / (1 + variance)
        kept, seen = stiffness / (stiffness + strength), (error + noise) / alpha
        error, variance = (1 - kept) ** 2 + kept**2 * seen, 1 / (stiffness + strength)
        known.append(error)
    found = trajectory(LINEAR, np.array([alpha]), RegularisedRisk("square", "ridge", strength), steps=6)
    np.testing.assert_allclose(found["error"], known, rtol=1e-12)


@pytest.mark.slow
def test_message_passing_follows_the_trajectory_with_and_without_convergence():
    """With few samples the steps of the nuclear norm end in a cycle, in theory and on data."""
    learner = RegularisedRisk("square", "nuclear", 0.1)
    table = trajectory(LINEAR, [0.2, 0.5], learner, steps=12, d=80, instances=2)
    assert [one is Status.OSCILLATING for one in table.status] == [True] * 13 + [False] * 13
    assert "the minimiser is unstable" in table.notes[0]
    # One run fluctuates by 0.07 where the cycle is steepest.
    assert np.nanmax(np.abs(table["measured_error"] - table["error"])) < 0.1
    late = table["error"][7:13]
    assert np.ptp(late) > 0.3 and np.min(late) > limits(LINEAR, [0.2], learner)["error"][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "learner", "alpha"),
    [
        (WIDE, ("square", "nuclear", 0.2), 0.8),
        (SIGNS, ("logistic", "elastic", 0.4), 1.0),
        (LINEAR, ("huber", "ridge", 0.3), 0.7),
        pytest.param(HARDMAX, ("cross-entropy", "trace", 0.5), 1.0, marks=pytest.mark.thorough),
    ],
)
def test_message_passing_converges_to_the_minimiser(model, learner, alpha):
    steps = simulate(
        model, [alpha], ProximalMessagePassing(*learner).at_accuracy(Accuracy(max_iterations=400)), d=20, instances=1
    )
    certified = simulate(
        model, [alpha], RegularisedRisk(*learner).at_accuracy(Accuracy(tolerance=1e-10)), d=20, instances=1
    )
    assert steps.converged and certified.converged
    assert steps["error"][0] == pytest.approx(certified["error"][0], rel=1e-4)


def test_runs_that_do_not_converge_are_reported():
    """Sums of few outer products of tokens are no Gaussian matrix, and undamped steps oscillate."""
    table = trajectory(
        AttentionIndexed(rho=0.5, tokens=2, channel="linear", noise=0.1),
        [0.1],
        RegularisedRisk("square", "trace", 0.1),
        steps=40,
        d=30,
        instances=1,
    )
    assert table.converged
    assert any("1 of 1 runs do not converge" in note for note in table.notes)


@pytest.mark.thorough
def test_runs_that_deviate_from_theory_are_reported():
    """One token: its outer product with itself is a Gaussian matrix up to terms of order 1/d only."""
    model = AttentionIndexed(rho=0.5, tokens=1, channel="linear", noise=0.1)
    learner = RegularisedRisk("square", "trace", 0.1)
    near, far = (
        trajectory(one, [1.0], own, steps=4, d=50, instances=8).notes
        for one, own in (
            (BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), RegularisedRisk(strength=0.1)),
            (model, learner),
        )
    )
    assert not any("differ from theory" in note for note in near)
    assert any("differ from theory" in note and "d = 50 may be too small" in note for note in far)


@pytest.mark.slow
def test_learners_without_equations_of_steps_raise():
    for strength, model in ((0.0, LINEAR), (None, BilinearSequenceRegression(beta=1, rho=0.3))):
        with pytest.raises(IncompatibleError, match="is a limit in which the number of steps diverges"):
            trajectory(model, [0.9], RegularisedRisk("square", "nuclear", strength), steps=3)
    with pytest.raises(IncompatibleError, match=r"start = overlap:0\.1 is for gamp"):
        trajectory(LINEAR, [0.9], RegularisedRisk(strength=0.1), steps=3, start="overlap:0.1")
    with pytest.raises(IncompatibleError, match="linear around"):
        trajectory(SIGNS, [0.9], RegularisedRisk(far_hinge, strength=0.1), steps=3, d=20, instances=1)
    with pytest.raises(ParameterError, match="steps"):
        trajectory(LINEAR, [0.9], RegularisedRisk(strength=0.1), steps=0)


def far_hinge(y, h):
    import jax.numpy as jnp

    return jnp.maximum(0.0, 9.0 - y * h)


def test_ratios_and_strengths_out_of_range_are_refused_by_name():
    square, nuclear = Square(), penalty_of("nuclear")
    with pytest.raises(ParameterError, match="loss = 'square' is not allowed: expected an object of class Loss"):
        risk_limits(LINEAR, 0.5, "square", nuclear, 0.1)
    with pytest.raises(ParameterError, match=r"alpha = 0.0 is not allowed: expected > 0"):
        risk_trajectory(LINEAR, [0.5, 0.0], square, nuclear, 0.1, 1)
    assert risk_trajectory(LINEAR, [0.5], square, nuclear, 0.1, 1)["error"].shape == (2,)
    for call in (
        lambda: risk_limits(LINEAR, [0.5], square, nuclear, -0.1),
        lambda: risk_thresholds(LINEAR, square, nuclear, -0.1),
    ):
        with pytest.raises(ParameterError, match=r"strength = -0.1 is not allowed: expected finite and >= 0"):
            call()
