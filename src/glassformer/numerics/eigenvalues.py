"""Functions of symmetric matrices by their eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glassformer.core.estimate import Array


def with_eigenvalues(matrices: Array, function: Callable[[Array], Array]) -> Array:
    """Symmetric matrices, shape (..., P, P), with their eigenvalues replaced by a function of them.

    Example:
        >>> with_eigenvalues(np.diag([2.0, -1.0]), np.abs)
        array([[2., 0.],
               [0., 1.]])
    """
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def square_root(matrix: Array) -> Array:
    """Symmetric square root; eigenvalues that are negative by rounding or sampling count as zero.

    Example:
        >>> square_root(np.diag([4.0, 0.0]))
        array([[2., 0.],
               [0., 0.]])
    """
    return with_eigenvalues(matrix, lambda values: np.sqrt(np.maximum(values, 0.0)))
