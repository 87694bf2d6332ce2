"""Decompositions of matrices, and functions of symmetric matrices.

Small matrices are decomposed on one thread: threads of a BLAS wait for each other in every panel. Beside two busy
processes the singular values of a 100 x 100 matrix take thirty times as long on two threads as on one, and on an idle
machine two threads gain nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController

from glassformer.core.estimate import Array

# Rows up to which no BLAS shares the work of a matrix (limiting its threads would take as long), and up to which one is
# small (measured).
_TINY, _SMALL = 64, 512


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition, as NumPy does.

    Example:
        >>> svd(np.diag([1.0, 2.0]))[1].tolist()
        [2.0, 1.0]
    """
    with _threads_for(matrix):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return left, values, right


def svd_by_squares(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition, the smallest value first, in half the time of :func:`svd`.

    From the eigenvectors of ``M M^T`` or ``M^T M``, the smaller one; the values are norms of the rows that they pick,
    so that their errors are of second order. A function of the values that changes over a scale ``delta`` has an error
    of ``1e-16 (largest / delta)^2`` of itself.

    Example:
        >>> svd_by_squares(np.diag([4.0, 3.0]))[1].tolist()
        [3.0, 4.0]
    """
    if matrix.shape[0] > matrix.shape[1]:
        left, values, right = svd_by_squares(matrix.T)
        return right.T, values, left.T
    _, vectors = eigh(matrix @ matrix.T)
    rows = vectors.T @ matrix
    values = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return vectors, values, rows / np.maximum(values, np.finfo(float).tiny)[:, None]


def singular_values(matrices: Array) -> Array:
    """Return singular values, the largest first.

    Example:
        >>> singular_values(np.diag([1.0, 2.0])).tolist()
        [2.0, 1.0]
    """
    with _threads_for(matrices):
        return np.asarray(np.linalg.svd(matrices, compute_uv=False))


def spectral_values(matrices: Array, symmetric: bool) -> Array:
    r"""Return values by which matrices of different sizes are compared, ascending.

    Eigenvalues of symmetric matrices, otherwise singular values in units of :math:`(dL)^{1/4}`.

    Example:
        >>> spectral_values(np.diag([4.0, -2.0]), True).tolist(), spectral_values(np.diag([4.0, 2.0]), False).tolist()
        ([-2.0, 4.0], [1.414213562373095, 2.82842712474619])
    """
    if symmetric:
        return np.asarray(np.linalg.eigvalsh(matrices))
    rows, columns = matrices.shape[-2:]
    return singular_values(matrices)[..., ::-1] / float(rows * columns) ** 0.25


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of symmetric matrices, as ``numpy.linalg.eigh``.

    Example:
        >>> eigh(np.diag([1.0, 2.0]))[0].tolist()
        [1.0, 2.0]
    """
    with _threads_for(matrix):
        values, vectors = np.linalg.eigh(matrix)
    return values, vectors


def map_eigenvalues(matrices: Array, function: Callable[[Array], Array]) -> Array:
    """Return symmetric matrices, shape (..., P, P), with a function applied to their eigenvalues.

    Example:
        >>> map_eigenvalues(np.diag([2.0, -1.0]), np.abs)
        array([[2., 0.],
               [0., 1.]])
    """
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def square_root(matrix: Array) -> Array:
    """Return the symmetric square root; eigenvalues that are negative by rounding or sampling count as zero.

    Example:
        >>> square_root(np.diag([4.0, 0.0]))
        array([[2., 0.],
               [0., 0.]])
    """
    return map_eigenvalues(matrix, lambda values: np.sqrt(np.maximum(values, 0.0)))


@contextmanager
def _threads_for(matrix: Array) -> Iterator[None]:
    rows, columns = matrix.shape[-2:]
    if max(rows, columns) <= _TINY or min(rows, columns) > _SMALL:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
