"""Linear regression in context: its theory against published numbers, other theories and runs."""

import numpy as np
import pytest

from glassformer import (
    IncompatibleError,
    InContextRegression,
    Ridge,
    Sweep,
    compare,
    limits,
    phase_diagram,
    plan,
    simulate,
    thresholds,
)
from glassformer.core.hashing import identity
from glassformer.errors import ParameterError
from glassformer.learners.registry import learner
from glassformer.learners.ridge import ridge_error
from glassformer.random_matrices.sample_covariance import SampleCovariance

COLUMNS = ("training_error", "test_error", "new_task_error")
# Context, tasks, sample ratio, strength over the sample ratio and noise; errors, confirmed by runs at d = 40 to 160
# within corrections of order 1/d (benchmarks/check_in_context.py).
TABLE = {
    (1, 0.5, 0.5, 0, 0.25): (0.00000, 1.39663, 1.84208),
    (1, 2, 0.5, 0.1, 0.25): (0.00290, 1.59218, 1.71560),
    (10, 2, 0.3, 0, 0.01): (0.00000, 0.68113, 0.78660),
    (2, 1, 0.9, 0.03, 0.1): (0.01587, 1.36825, 1.91771),
    (5, 0.5, 1.5, 0.01, 0.1): (0.06566, 0.46551, 1.51394),
    (4, 1, 1.5, 0.2, 0): (0.07907, 0.26571, 0.55338),
}
# New tasks of a model with C = 1.7 on half of the directions and 0.3 on the others.
UNEQUAL = InContextRegression(5, 0.8, 0.1, task_spectrum=(1.7, 0.3))
NEW = {
    (1.0, 1.0): ({}, 1.18285),
    (1.7, 0.3): ({}, 0.90212),
    (0.3, 1.7): ({}, 1.46358),
    (1.0, 1.0, 2): ({"test_context": 2, "test_noise": 0.5}, 2.05218),
    (1.7, 0.3, 20): ({"test_context": 20, "test_noise": 0.0}, 0.65158),
}


@pytest.mark.parametrize("given", TABLE, ids=str)
def test_errors_to_the_digits(given):
    context, tasks, alpha, strength, noise = given
    found = limits(InContextRegression(context, tasks, noise), [alpha], Ridge(alpha * strength))
    assert tuple(round(float(found[name][0]), 5) for name in COLUMNS) == TABLE[given]


@pytest.mark.parametrize("spectrum", NEW, ids=str)
def test_new_tasks_of_other_laws_to_the_digits(spectrum):
    more, error = NEW[spectrum]
    found = limits(UNEQUAL.varied(test_spectrum=spectrum[:2], **more), [1.5], Ridge(0.03))
    assert round(float(found["new_task_error"][0]), 5) == error
    assert round(float(found["training_error"][0]), 5) == 0.07526
    assert round(float(found["test_error"][0]), 5) == 0.48055


def published_new_task_error(context, tasks, noise, alpha):
    """Return the error without a penalty of Lu et al., arXiv:2405.11751, for new tasks."""
    q = (1 + noise) / context

    def m_and_slope(x):
        root = np.sqrt((tasks - 1 + tasks * x) ** 2 + 4 * tasks * x)
        m = 2 / (x + 1 - 1 / tasks + np.sqrt((x + 1 - 1 / tasks) ** 2 + 4 * x / tasks))
        return m, -m * (tasks + m) / root

    if alpha < 1:
        m = (alpha - tasks * (1 + q) + np.sqrt((tasks * (1 + q) - alpha) ** 2 + 4 * q * alpha * tasks)) / (2 * q)
        x = q + (1 - alpha) / m
        m, slope = m_and_slope(x)
        d = 1 - 2 * (x - q) * m - (x - q) ** 2 * slope
        numerator = noise + x - x**2 * m - (x - q) * (1 - 2 * x * m - x**2 * slope)
        trained = numerator / (1 - d / alpha)
        scatter = trained / alpha * (m + (x - q) * slope)
        return 1 + noise - 2 * (1 - x * m) + (1 + q) * (1 - 2 * x * m - x**2 * slope + scatter)
    m, slope = m_and_slope(q)
    scatter = (noise + q - q**2 * m) / (alpha - 1) * m
    return 1 + noise - 2 * (1 - q * m) + (1 + q) * (1 - 2 * q * m - q**2 * slope + scatter)


def test_three_hundred_random_points_against_the_published_formula():
    rng = np.random.default_rng(0)
    for context, tasks, alpha, noise in zip(
        *(np.exp(rng.uniform(-2, 2, (3, 300)))), rng.uniform(0, 1, 300), strict=True
    ):
        found = limits(InContextRegression(context, tasks, noise), [alpha], Ridge(0))["new_task_error"][0]
        # The formula loses digits near alpha = 1.
        tolerance = 1e-12 * (1 + 1 / abs(alpha - 1))
        assert found == pytest.approx(published_new_task_error(context, tasks, noise, alpha), rel=tolerance)


RELEASED = {
    1: ((1.0385, 1.2611, 1.2340), (0.8012, 0.8018, 0.6096)),
    10: ((0.8643, 0.8208, 0.8912), (0.5507, 0.2463, 0.1124)),
    100: ((0.8202, 0.7016, 1.2725), (0.5047, 0.1221, 0.0300)),
}


@pytest.mark.parametrize("context", RELEASED)
def test_numbers_beside_released_runs(context):
    """Released runs at d = 100 agree with these within terms of order 1/d."""
    found = limits(InContextRegression(context, 0.5, 0.01), [0.2, 0.5, 2.0], Ridge(0))
    for name, values in zip(("new_task_error", "test_error"), RELEASED[context], strict=True):
        np.testing.assert_allclose(found[name], values, atol=6e-5)


@pytest.mark.parametrize("strength", [0, 0.1, 2.0])
def test_infinitely_many_tasks_are_bilinear_regression(strength):
    context, noise, ratios = 2.0, 0.3, np.array([0.1, 0.5, 0.9, 1.3, 4.0])
    c = (1 + noise) / context
    sigma2 = noise + c - c**2 / (1 + c)
    found = limits(InContextRegression(context, np.inf, noise), ratios, Ridge(strength))
    other = sigma2 + ridge_error(ratios, sigma2 * (1 + c), strength / (1 + c)) / (1 + c)
    np.testing.assert_allclose(found["test_error"], other, rtol=1e-12)
    np.testing.assert_allclose(found["new_task_error"], other, rtol=1e-12)
    best = limits(InContextRegression(context, np.inf, noise), ratios, "ridge")
    np.testing.assert_allclose(best["strength"], (1 + c) ** 2 * sigma2, rtol=1e-5)


def test_many_sequences_and_tokens_end_at_the_noise_and_memorise_few_tasks():
    noise, ratio = 0.2, 1e8
    for tasks in (0.5, 2.0):
        found = limits(InContextRegression(1e4, tasks, noise), [ratio], Ridge(0))
        assert found["test_error"][0] == pytest.approx(noise, rel=1e-3)
        assert found["new_task_error"][0] == pytest.approx(noise + max(1 - tasks, 0), rel=2e-2)


def test_contexts_that_show_their_tasks():
    model = InContextRegression(np.inf, 0.5, 0.1)
    assert thresholds(model, "ridge")["interpolation"].alpha == 0.5
    found = limits(model, [0.0, 0.2, 1.0], Ridge(0))
    assert found["test_error"][0] == pytest.approx(1.1)
    # As many samples as twice the map of the seen tasks has entries; none of it reaches other directions.
    assert found["test_error"][2] == pytest.approx(0.2)
    assert found["new_task_error"][2] == pytest.approx(0.1 + 0.5)
    near = limits(model.varied(context=1e9), [0.2, 1.0, 3.0], Ridge(1e-3))
    for name in COLUMNS:
        np.testing.assert_allclose(limits(model, [0.2, 1.0, 3.0], Ridge(1e-3))[name], near[name], rtol=1e-3)


def test_one_eigenvalue_twice_is_one():
    one, two = SampleCovariance(np.ones(1), 0.7), SampleCovariance(np.array([1.0, 1 + 1e-13]), 0.7)
    z = np.array([1e-6, 0.1, 5.0])
    for first, second in zip(one.resolvent(z), two.resolvent(z), strict=True):
        np.testing.assert_allclose(np.mean(first, axis=-1), np.mean(second, axis=-1), rtol=1e-9)


def test_verbs(tmp_path):
    model = InContextRegression(2, 1.5, 0.1)
    interpolation = thresholds(model, "ridge")["interpolation"]
    assert interpolation.alpha == 1
    assert "kink at tasks = 1" in interpolation.note
    found = plan(model, 0.8, "ridge", quantity="new_task_error", d=50)["ridge"]
    assert limits(model, found.alpha, "ridge")["new_task_error"][0] == pytest.approx(0.8, rel=1e-6)
    both = compare(model, [0.5, 2.0], ["ridge", Ridge(0.0)], quantity="test_error")
    assert np.all(both["test_error"][:2] < both["test_error"][2:])
    both.plot(tmp_path / "both.png")
    limits(model, [0.5, 2.0], "ridge").plot(tmp_path / "limits.png")
    simulate(model, [0.5], "ridge", d=10, instances=2).plot(tmp_path / "runs.png")
    assert len(list(tmp_path.glob("*.png"))) == 3
    diagram = phase_diagram(InContextRegression(np.inf, 1.0), "tasks", [0.2, 0.6, 2.0], "ridge")
    assert diagram.curve("interpolation").tolist() == [0.2, 0.6, 1.0]
    assert len(Sweep("icl", {"tasks": [0.5, 1.0], "alpha": [0.5]}, learner="ridge").points) == 2
    with pytest.raises(IncompatibleError, match="use test_error or new_task_error"):
        plan(model, 0.8, "ridge")


def test_identity_has_every_parameter():
    models = [
        UNEQUAL,
        UNEQUAL.varied(test_spectrum=(1.0, 1.0)),
        UNEQUAL.varied(test_context=2.0),
        UNEQUAL.at_size(7).model,
    ]
    assert len({identity(one) for one in [*models, UNEQUAL.varied(test_noise=0.3)]}) == 5


@pytest.mark.parametrize("name", ["gamp", "blind-gamp", "vamp", "nuclear-norm", "risk", "gd", "averaged-gd"])
def test_learners_without_a_theory_refuse_by_name(name):
    with pytest.raises(IncompatibleError):
        limits(UNEQUAL, [1.0], name)
    with pytest.raises(IncompatibleError, match=f"learner {name} .*use .*ridge"):
        simulate(UNEQUAL, [1.0], learner(name), d=10)


@pytest.mark.parametrize(
    "given",
    [
        {"context": 0},
        {"context": -1},
        {"tasks": 0},
        {"noise": np.inf},
        {"noise": -0.1},
        {"test_context": 0},
        {"task_spectrum": [1, -1]},
        {"task_spectrum": [1, 0.0]},
        {"task_spectrum": [1, 2], "test_spectrum": [1, 2, 3]},
    ],
    ids=str,
)
def test_wrong_parameters_are_refused(given):
    with pytest.raises(ParameterError):
        InContextRegression(**given)


def test_contexts_have_their_law():
    """Sums of chi-squared numbers against labelled tokens that are drawn."""
    model, d, rng = InContextRegression(0.5, 1.0, 0.4).at_size(8).model, 8, np.random.default_rng(0)
    size = model.at_size(d)
    design = size.design.sample(40_000, size.input_shape, rng)
    tasks = rng.standard_normal((1, d))
    drawn, labels, _ = design.with_tasks(tasks, 4, 0.4, rng, several=True)
    x = rng.standard_normal((40_000, 4, d))
    y = x @ tasks[0] / np.sqrt(d) + np.sqrt(0.4) * rng.standard_normal((40_000, 4))
    direct = np.sqrt(d) / 4 * np.einsum("nl,nld->nd", y, x)
    for power in (1, 2, 3):
        one, other = (np.mean((h @ tasks[0]) ** power) for h in (drawn.inputs[0, :, 1], direct))
        assert one == pytest.approx(other, rel=0.15)
    for h in (drawn.inputs[0, :, 1], direct):
        expected = 2 * (np.sum(tasks**2) / d + 0.4) * np.eye(d) + tasks.T @ tasks / 4
        np.testing.assert_allclose(np.cov(h.T), expected, atol=0.15)
    np.testing.assert_allclose(labels, drawn.inputs[0, :, 0] @ tasks[0] / np.sqrt(d))


def test_runs_agree_with_theory():
    """Excesses are terms of order 1/d: 0.2 of them times 1/40."""
    found = simulate(InContextRegression(10, 2, 0.01), [0.3], Ridge(0), d=30, instances=6)
    for name in ("test", "new_task"):
        gap = found[f"{name}_error"] - found[f"{name}_theory"]
        assert abs(gap) < 4 * found[f"{name}_standard_error"] + 0.5 / 30
    assert found["training_error"] < 1e-12
    again = simulate(InContextRegression(10, 2, 0.01), [0.3], Ridge(0), d=30, instances=1)
    assert again.instances[0][0] == found.instances[0][0]


@pytest.mark.parametrize("tasks", [0.5, np.inf])
def test_ridge_solves_its_normal_equations(tasks):
    size = InContextRegression(2, tasks, 0.1).at_size(10)
    design = size.design.sample(150, size.input_shape, np.random.default_rng(0))
    signal = np.random.default_rng(1).standard_normal(size.model.signal_shape(design))
    design, labels = size.model.labelled(design, signal, np.random.default_rng(2))
    phi = design.entry_fields()
    for strength, samples in ((0.3, 150), (0.0, 150), (0.0, 60)):
        found = learner("ridge", strength=strength).fit(size.model, _data(design.first(samples), labels[:samples]))
        part = phi[:samples]
        if strength == 0:
            exact = np.linalg.lstsq(part, labels[:samples], rcond=None)[0]
        else:
            exact = np.linalg.solve(part.T @ part + strength * np.eye(100), part.T @ labels[:samples])
        np.testing.assert_allclose(found.value[0].ravel(), exact, atol=1e-6)
        assert found.converged


def _data(design, labels):
    from glassformer.learners.data_set import DataSet

    return DataSet(design, labels)
