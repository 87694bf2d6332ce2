"""Decompositions of matrices, small ones on one thread.

Threads of a BLAS wait for each other in every panel of a small matrix: beside two busy processes the singular values of
100 x 100 numbers take thirty times as long on two threads as on one, and on an idle machine two gain nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController

from glassformer.core.estimate import Array

# Rows up to which a matrix is so small that no BLAS shares its work, and telling it so would take as long; and small.
_TINY, _SMALL = 64, 512


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition, as that of NumPy.

    Example:
        >>> svd(np.diag([1.0, 2.0]))[1].tolist()
        [2.0, 1.0]
    """
    with _threads_for(matrix):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return left, values, right


def singular_values(matrices: Array) -> Array:
    """Singular values, the largest first.

    Example:
        >>> singular_values(np.diag([1.0, 2.0])).tolist()
        [2.0, 1.0]
    """
    with _threads_for(matrices):
        return np.asarray(np.linalg.svd(matrices, compute_uv=False))


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of symmetric matrices, as ``numpy.linalg.eigh``.

    Example:
        >>> eigh(np.diag([1.0, 2.0]))[0].tolist()
        [1.0, 2.0]
    """
    with _threads_for(matrix):
        values, vectors = np.linalg.eigh(matrix)
    return values, vectors


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
