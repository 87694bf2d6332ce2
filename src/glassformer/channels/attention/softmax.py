"""Softmax of the rows of matrices."""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array


def row_softmax(matrices: Array) -> Array:
    r"""Of each row, :math:`\sigma(x)_b = e^{x_b} / \sum_c e^{x_c}`: rows are along the last axis.

    Example:
        >>> row_softmax(np.log([[1.0, 3.0], [2.0, 2.0]]))
        array([[0.25, 0.75],
               [0.5 , 0.5 ]])
    """
    # Rows are put into an axis that comes first in memory: sums over a last one of few tokens take four times as long.
    weights = np.ascontiguousarray(np.moveaxis(matrices, -1, 0))
    weights = np.exp(weights - weights.max(axis=0))
    return np.moveaxis(weights / weights.sum(axis=0), 0, -1)
