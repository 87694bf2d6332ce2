"""Labels of attention as rows of probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.channels.scalar.base import ScalarChannel
from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array


def shares_of(channel: ScalarChannel, labels: ArrayLike) -> Array:
    """Return labels as rows of probabilities, shape (..., T, T). A position becomes a row with a single one.

    Raises:
        IncompatibleError: labels are neither probabilities nor positions.
        DataError: the channel cannot have these labels.
    """
    facts = channel.labels
    if not facts.probabilities:
        raise IncompatibleError(f"labels of channel {channel.label} are not rows of probabilities: use another loss")
    if facts.discrete:
        tokens = facts.shape[-1]
        return np.eye(tokens)[positions(labels, tokens)]
    y = np.asarray(labels, dtype=float)
    require_shares(y)
    return y


def positions(y: ArrayLike, tokens: int) -> NDArray[np.intp]:
    """Return positions of largest entries as integers.

    Raises:
        DataError: a label is not the index of a token.

    Example:
        >>> positions(np.array([[0.0, 1.0]]), 2)
        array([[0, 1]])
    """
    labels = np.asarray(y, dtype=float)
    bad = ~np.isin(labels, np.arange(tokens))
    if np.any(bad):
        allowed = "0 or 1" if tokens == 2 else f"0 to {tokens - 1}"
        raise DataError("y", labels[bad].flat[0], f"the index of the largest entry, {allowed}")
    return labels.astype(np.intp)


def require_shares(y: Array) -> None:
    """Raise unless labels are matrices of positive rows that sum to one.

    Example:
        >>> require_shares(np.array([[[0.5, 0.5], [0.1, 0.9]]]))
    """
    if not (np.all(y > 0) and np.allclose(np.sum(y, axis=-1), 1, rtol=0, atol=1e-6)):
        remedy = "if the softmax underflows, use a smaller inverse temperature"
        raise DataError("y", "<labels>", "positive rows that sum to one", remedy)
