"""What labels say of the order of indices: which of those off the diagonal bound which others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.core.errors import DataError


class LabelOrder(NamedTuple):
    """The pairs of tokens ``a < b``, numbered row by row, as labels order their indices.

    Attributes:
        order: pairs of every data point, each after those that bound its index, shape (n, pairs).
        bounds: the two pairs whose indices are larger than its own, shape (n, pairs, 2); the number of pairs itself
            where a row says nothing of it.
    """

    order: NDArray[np.intp]
    bounds: NDArray[np.intp]


def label_order(labels: NDArray[np.intp]) -> LabelOrder:
    r"""The order of labels :math:`y_a = \mathrm{argmax}_b\,h_{ab}`, shape (n, T).

    Row ``a`` says :math:`h_{ab} \le h_{a y_a}`, which is an index off the diagonal unless :math:`y_a = a`.

    Raises:
        DataError: rows name each other in a circle, each a larger index than the last: no symmetric matrix does.

    Example:
        >>> found = label_order(np.array([[1, 1, 1]]))  # the largest of row 0 is h_01, of row 2 h_12
        >>> found.order.tolist(), found.bounds.tolist()
        ([[0, 2, 1]], [[[3, 3], [0, 2], [3, 3]]])
    """
    tokens = labels.shape[1]
    rows, columns = np.triu_indices(tokens, 1)
    pairs = len(rows)
    number = np.full((tokens, tokens), pairs)
    number[rows, columns] = number[columns, rows] = np.arange(pairs)
    named = number[np.arange(tokens), labels]
    bounds = np.stack([named[:, rows], named[:, columns]], axis=-1)
    bounds[bounds == np.arange(pairs)[:, None]] = pairs
    # What nothing bounds comes first; a pair comes after the pairs that bound it.
    depth = np.full((len(labels), pairs + 1), -1)
    places = np.arange(len(labels))[:, None, None]
    for _ in range(pairs + 1):
        deeper = 1 + np.max(depth[places, bounds], axis=-1)
        if np.array_equal(deeper, depth[:, :-1]):
            return LabelOrder(np.argsort(depth[:, :-1], axis=1, kind="stable"), bounds)
        depth[:, :-1] = deeper
    circle = labels[np.max(depth, axis=1) >= pairs][0]
    raise DataError("y", circle.tolist(), "labels of a symmetric matrix: no largest entries point in a circle")
