"""Gradient descent on a linear map of features, in time: regression in context."""

import numpy as np
import pytest

from glassformer import (
    SGD,
    Accuracy,
    IncompatibleError,
    InContextRegression,
    OnlineSGD,
    Ridge,
    Status,
    limits,
    simulate,
    trajectory,
)
from glassformer.dynamics.feature_descent import (
    descent_errors,
    descent_filter,
    flow_filter,
    largest_eigenvalue,
    one_pass_errors,
)
from glassformer.errors import ParameterError
from glassformer.learners.registry import learner
from glassformer.random_matrices.anisotropic_ridge import FeatureNodes, Quadratic

MODEL = InContextRegression(context=2, tasks=0.5, noise=0.1)
NODES = MODEL.features.nodes(256)
ZERO = "small:1e-9"


def test_gradient_flow_to_the_digits():
    """Runs at d = 40 had 0.6182(67), 0.5131(73) and 0.6895(98)."""
    found, change = descent_errors(NODES, 0.8, flow_filter(np.array([0.2, 1.0, 5.0]), 0.8), 0.2)
    assert found["test_error"].round(4).tolist() == [0.6172, 0.5117, 0.6822]
    assert change < 1e-8


def test_the_best_time_is_better_than_the_best_ridge():
    found, _ = descent_errors(NODES, 0.8, flow_filter(np.linspace(0, 4, 200), 0.8), 0.2)
    assert round(float(found["test_error"].min()), 4) == 0.5081
    assert round(float(limits(MODEL, [0.8], "ridge")["test_error"][0]), 4) == 0.5179


@pytest.mark.parametrize(("alpha", "decay"), [(0.3, 0.0), (2.5, 0.0), (0.3, 0.3), (1.0, 0.3), (2.5, 0.3)])
def test_many_steps_end_at_ridge(alpha, decay):
    rate = 1 / (largest_eigenvalue(NODES, alpha) + decay)
    function = descent_filter(1, rate, decay)
    last = type(function)(lambda x: (1 - rate * (decay + x))[None] ** 4000, lambda x: None)
    last = last._replace(learned=lambda x: (1 - last.start(x)) / (decay + x))
    found, change = descent_errors(NODES, alpha, last, 1 / (rate * 4000))
    assert change < 1e-8
    ridge = limits(MODEL, [alpha], Ridge(decay))
    # Without decay the smallest eigenvalues are learned slowly.
    for name in ("test_error", "new_task_error"):
        assert found[name][-1] == pytest.approx(ridge[name][0], rel=0.1 if decay == 0 else 1e-6)
    assert found["training_error"][-1] == pytest.approx(ridge["training_error"][0], abs=1e-2 if decay == 0 else 1e-8)


@pytest.mark.parametrize(("context", "tasks"), [(1, 0.5), (1, 1), (1, 2), (1, np.inf), (np.inf, 0.5), (np.inf, 2)])
def test_decay_ends_at_ridge_for_any_number_of_tasks(context, tasks):
    model = InContextRegression(context, tasks, 0.1)
    sgd = SGD(weight_decay=2.0, steps=80, start=ZERO)
    for alpha in (0.6, 3.0):
        found, ridge = (limits(model, [alpha], one) for one in (sgd, Ridge(2.0)))
        for name in ("test_error", "new_task_error", "training_error"):
            assert found[name][0] == pytest.approx(ridge[name][0], rel=5e-3)
    online = trajectory(model, [2.0], OnlineSGD(learning_rate=0.3, start=ZERO), steps=4)
    assert np.all(np.diff(online["test_error"]) < 0)


def test_small_steps_are_the_flow():
    steps, _ = descent_errors(NODES, 0.8, descent_filter(1000, 1.0 / 0.8 / 1000, 0.0), 0.5)
    flow, _ = descent_errors(NODES, 0.8, flow_filter(np.array([1.0]), 0.8), 0.5)
    for name, value in flow.items():
        assert steps[name][-1] == pytest.approx(value[0], rel=1e-3)


@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_white_features_against_their_spectrum(alpha):
    """Functions of a sample covariance of white features, from its eigenvalues."""
    one = np.ones(1)
    white = FeatureNodes(one, one, one, 0.5, {"test_error": Quadratic(1.5, one, one)})
    found, _ = descent_errors(white, alpha, descent_filter(12, 0.1, 0.0), 0.5, start=0.3)
    rng, p = np.random.default_rng(0), 1200
    phi = rng.standard_normal((round(alpha * p), p)) / np.sqrt(p)
    x = np.linalg.eigvalsh(phi.T @ phi)
    left = (1 - 0.1 * x) ** np.arange(13)[:, None]
    kept = np.where(x > 1e-9, (1 - left) / np.maximum(x, 1e-300), 0.0)
    direct = 0.5 + np.mean(left**2 * 1.3 + 0.5 * kept**2 * x, axis=1)
    np.testing.assert_allclose(found["test_error"], direct, rtol=5e-3)
    assert largest_eigenvalue(white, alpha) == pytest.approx((1 + np.sqrt(alpha)) ** 2)


def test_one_pass_of_white_features_has_a_closed_form():
    one = np.ones(1)
    white = FeatureNodes(one, one, one, 0.5, {"test_error": Quadratic(1.5, one, one)})
    times = np.array([0.0, 0.5, 2.0])
    found = one_pass_errors(white, times, 0.4, 2, 0.0)["test_error"]
    # The error without noise falls at the rate 2 eta - eta^2/b to a level that the noise sets.
    rate = 2 * 0.4 - 0.4**2 / 2
    level = 0.4**2 / 2 * 0.5 / rate
    np.testing.assert_allclose(found, 0.5 + level + (1 - level) * np.exp(-rate * times), rtol=1e-7)


def test_runs_follow_both():
    kinds = {
        "steps": (SGD(start=ZERO), 12),
        "with decay from a random map": (SGD(weight_decay=0.1, start="small:0.5"), 12),
        "one pass": (OnlineSGD(learning_rate=0.3, batch=2, start=ZERO), 4),
    }
    for name, (kind, steps) in kinds.items():
        found = trajectory(MODEL, [0.8], kind, steps=steps, d=24, instances=4)
        for column in ("test_error", "new_task_error"):
            gap = np.abs(found[f"measured_{column}"] - found[column])
            bars = found[f"measured_{column.removesuffix('error')}standard_error"]
            # Terms of order 1/d.
            assert np.all(gap < 5 * bars + 2 / 24), name
        assert np.all(found["test_error_estimate"] < 1e-6)
        assert found.converged


def test_limits_and_runs_of_the_last_step():
    sgd = SGD(steps=12, start=ZERO)
    path, last = trajectory(MODEL, [0.8], sgd), limits(MODEL, [0.8], sgd)
    assert path["test_error"][-1] == last["test_error"][0]
    assert last["early_stopped_test_error"][0] == path["test_error"].min()
    found = simulate(MODEL, [0.8], sgd, d=20, instances=2)
    assert found["test_theory"] == pytest.approx(last["test_error"], rel=0.1)
    online = OnlineSGD(learning_rate=0.3, start=ZERO)
    end = trajectory(MODEL, [0.8], online, steps=3)["test_error"][-1]
    assert simulate(MODEL, [0.8], online, d=20, instances=1)["test_theory"] == pytest.approx(end, rel=0.1)


def test_steps_that_are_too_large_diverge_and_say_so():
    found = trajectory(MODEL, [0.8], SGD(learning_rate=0.3), steps=3, throw=False)
    assert [str(one) for one in found.status] == ["converged", "diverging", "diverging", "diverging"]
    assert any("lower the learning rate below 0.2229" in note for note in found.notes)
    run = simulate(MODEL, [0.8], SGD(learning_rate=0.6, steps=60), d=20, instances=1).instances[0][0]
    assert run.status is Status.DIVERGING


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sgd", {"batch": 0.5}),
        ("sgd", {"momentum": 0.5}),
        ("sgd", {"loss": "logistic"}),
        ("sgd", {"start": "overlap:0.3"}),
        ("sgd", {"learning_rate": [0.1, 0.2]}),
        ("online-sgd", {"start": "overlap:0.3"}),
    ],
)
def test_settings_without_equations_are_refused(name, settings):
    with pytest.raises(IncompatibleError):
        trajectory(MODEL, [0.8], learner(name, **settings), steps=2)
    with pytest.raises(IncompatibleError, match=f"learner {name} "):
        simulate(MODEL, [0.8], learner(name, **settings), d=10)


def test_questions_without_equations_are_refused():
    with pytest.raises(IncompatibleError, match="use learner ridge"):
        trajectory(MODEL.varied(task_spectrum=(0.5, 1.5)), [0.8], SGD(start=ZERO), steps=2)
    with pytest.raises(IncompatibleError, match="use learner ridge"):
        trajectory(MODEL.varied(test_spectrum=(0.5, 1.5)), [0.8], SGD(start=ZERO), steps=2)
    with pytest.raises(IncompatibleError, match="trajectories = 1024 has no effect"):
        trajectory(MODEL, [0.8], SGD(), steps=2, accuracy=Accuracy(trajectories=1024))
    with pytest.raises(IncompatibleError, match="use trajectory"):
        limits(MODEL, [0.8], OnlineSGD())
    with pytest.raises(ParameterError, match="alpha = 0"):
        trajectory(MODEL, [0.0], SGD(), steps=2)
