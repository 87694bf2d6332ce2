"""The solver of the minimal nuclear norm against a general convex solver, and its certificate."""

import cvxpy
import numpy as np
import pytest

from glassformer import Status
from glassformer.core.settings import Iteration
from glassformer.designs.dense import DenseDesign
from glassformer.errors import DataError, ParameterError
from glassformer.learners.nuclear_norm import least_nuclear_norm
from glassformer.learners.ridge import ridge


def drawn(samples, shape, width, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    design = DenseDesign.sample(samples, shape, rng)
    signal = rng.standard_normal((shape[0], width)) @ rng.standard_normal((width, shape[1])) / np.sqrt(width)
    return design, signal, design.forward(signal, 0) + np.sqrt(noise) * rng.standard_normal(samples)


def reference(design, labels, penalty):
    """The same problem for an interior-point solver."""
    shape = design.signal_shape
    inputs = design.inputs[0].reshape(design.samples, -1) / np.sqrt(shape[0] * shape[1])
    matrix = cvxpy.Variable(shape)
    fields = inputs @ cvxpy.vec(matrix, order="C")
    norm = cvxpy.normNuc(matrix)
    if penalty:
        problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(fields - labels) + penalty * norm))
    else:
        problem = cvxpy.Problem(cvxpy.Minimize(norm), [fields == labels])
    problem.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
    return problem.value, matrix.value


def objective(design, labels, penalty, signal):
    norm = np.linalg.svd(signal, compute_uv=False).sum()
    if not penalty:
        return norm
    return 0.5 * np.sum((design.forward(signal, 0) - labels) ** 2) + penalty * norm


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(8, 8), (6, 10)])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_least_nuclear_norm_agrees_with_an_interior_point_solver(shape, penalty):
    design, _, labels = drawn(30, shape, 2, noise=0.1 * (penalty > 0))
    found = least_nuclear_norm(design, labels, penalty, Iteration(tolerance=1e-9, floor=1e-14, max_iterations=20_000))
    value, matrix = reference(design, labels, penalty)
    assert found.converged
    assert objective(design, labels, penalty, found.value[0]) == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found.value[0], matrix, atol=1e-4)
    if not penalty:
        np.testing.assert_allclose(design.forward(found.value[0], 0), labels, atol=1e-9)


def test_gap_bounds_the_distance_from_the_minimum():
    design, _, labels = drawn(60, (12, 12), 2)
    exact = least_nuclear_norm(design, labels, settings=Iteration(tolerance=1e-10, floor=1e-14, max_iterations=20_000))
    least = objective(design, labels, 0.0, exact.value[0])
    for steps in (6, 11, 21):
        rough = least_nuclear_norm(design, labels, settings=Iteration(tolerance=1e-12, max_iterations=steps))
        assert rough.status[0] is Status.ITERATION_LIMIT
        value = objective(design, labels, 0.0, rough.value[0])
        assert 0 <= value - least <= rough.error_estimate[0] * value + 1e-9


def test_enough_noiseless_samples_give_the_signal_back():
    design, signal, labels = drawn(240, (20, 20), 2)
    np.testing.assert_allclose(least_nuclear_norm(design, labels).value[0], signal, atol=1e-4)


@pytest.mark.parametrize(("samples", "size"), [(1, 10), (1, 5), (3, 8)])
def test_very_few_samples_are_solved(samples, size):
    design, _, labels = drawn(samples, (size, size), 2)
    assert least_nuclear_norm(design, labels).converged


def test_unsolvable_problems_raise():
    design, _, labels = drawn(30, (5, 5), 1)
    with pytest.raises(DataError, match="penalty > 0"):
        least_nuclear_norm(design, labels)
    assert least_nuclear_norm(design, labels, penalty=0.1).converged
    with pytest.raises(DataError, match="shape"):
        least_nuclear_norm(design, labels[:-1])
    with pytest.raises(DataError, match="finite"):
        least_nuclear_norm(design, np.where(np.arange(30) == 3, np.nan, labels))
    with pytest.raises(ParameterError, match="penalty"):
        least_nuclear_norm(design, labels, penalty=-1.0)
    assert np.all(least_nuclear_norm(design.first(10), np.zeros(10)).value == 0)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_the_library_of_accelerators_finds_the_same(penalty, monkeypatch):
    design, _, labels = drawn(30, (8, 6), 1)
    plain = least_nuclear_norm(design, labels, penalty), ridge(design, labels, penalty)
    monkeypatch.setattr("glassformer.numerics.array_library._has_accelerator", lambda: True)
    other = least_nuclear_norm(design, labels, penalty), ridge(design, labels, penalty)
    for first, second in zip(plain, other, strict=True):
        np.testing.assert_allclose(second.value, first.value, atol=1e-8)
    dependent = DenseDesign(np.concatenate([design.inputs, design.inputs], axis=1))
    with pytest.raises(DataError, match="linearly independent"):
        least_nuclear_norm(dependent, np.concatenate([labels, labels]))
