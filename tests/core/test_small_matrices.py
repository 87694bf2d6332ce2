"""Small matrices against NumPy, without calls of a library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.numerics.small_matrices import cholesky, inverse_and_log_det, triangular_inverse


def positive(size):
    root = np.random.default_rng(size).standard_normal((size, size))
    return root @ root.T + 0.1 * np.eye(size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_inverse_and_log_det(size):
    # Turned upside down, its first pivots are small.
    matrix = positive(size)[::-1]
    with jax.enable_x64(True):
        inverse, log_det = jax.jit(inverse_and_log_det)(jnp.asarray(matrix))
        np.testing.assert_allclose(inverse @ matrix, np.eye(size), atol=1e-11)
        assert float(log_det) == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-11)


def test_pivots_that_vanish():
    with jax.enable_x64(True):
        inverse, log_det = jax.jit(inverse_and_log_det)(jnp.eye(4)[jnp.array([1, 0, 3, 2])])
        np.testing.assert_array_equal(inverse, np.eye(4)[[1, 0, 3, 2]])
        assert float(log_det) == 0


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 8, 9])
def test_triangular_roots(size):
    matrix = positive(size)
    with jax.enable_x64(True):
        lower = jax.jit(cholesky)(jnp.asarray(matrix))
        np.testing.assert_allclose(lower, np.linalg.cholesky(matrix), atol=1e-12)
        np.testing.assert_allclose(jax.jit(triangular_inverse)(lower) @ lower, np.eye(size), atol=1e-12)


@pytest.mark.parametrize("function", [inverse_and_log_det, cholesky, triangular_inverse])
@pytest.mark.parametrize("size", [4, 12])
def test_programs_never_wait_for_each_other(function, size):
    """A batch that a library works on shares the threads of the programs: two at once may wait forever."""
    assert "lapack" not in jax.jit(function).lower(jnp.eye(size)).as_text()
    assert "lapack" in jax.jit(jnp.linalg.inv).lower(jnp.eye(size)).as_text()
