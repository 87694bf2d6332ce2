r"""Symmetric matrices of attention indices, and their independent components of equal variance.

With :math:`E h_{ab}^2 = V (1 + \delta_{ab})` the components :math:`h_{aa}/\sqrt 2` and :math:`h_{ab}`, ``a < b``, are
independent with variance ``V``. In these components fields are isotropic Gaussian, and :math:`\sum_k \phi_k^2 =
\|h\|_F^2/2`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array


@lru_cache(maxsize=16)
def pair_indices(tokens: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return row and column of each component, row by row: (1, 1), (1, 2), ..., (2, 2), ...

    Example:
        >>> pair_indices(2)
        (array([0, 0, 1]), array([0, 1, 1]))
    """
    rows, columns = np.triu_indices(tokens)
    return rows, columns


def to_matrices(components: Array, tokens: int) -> Array:
    """Return symmetric matrices, shape (..., T, T), from components, shape (..., T (T + 1)/2).

    Example:
        >>> to_matrices(np.array([1.0, 2.0, 3.0]), 2) / np.array([[np.sqrt(2), 1], [1, np.sqrt(2)]])
        array([[1., 2.],
               [2., 3.]])
    """
    rows, columns = pair_indices(tokens)
    matrices = np.empty((*components.shape[:-1], tokens, tokens))
    matrices[..., rows, columns] = components * np.where(rows == columns, np.sqrt(2), 1.0)
    matrices[..., columns, rows] = matrices[..., rows, columns]
    return matrices


def to_components(matrices: Array) -> Array:
    """Return components, shape (..., T (T + 1)/2), of symmetric matrices, shape (..., T, T).

    The inverse of `to_matrices`.
    """
    rows, columns = pair_indices(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] / np.where(rows == columns, np.sqrt(2), 1.0))
