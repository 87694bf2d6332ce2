r"""What a label leaves open of several directions that enter by their Gram matrix: a rotation, and what softmax hides.

Directions ``v`` of shape (r, L) with the label :math:`\sigma(v^Tv)` are known up to an orthogonal matrix. Softmax shows
the Gram matrix of their deviations from the mean over tokens, and the products of these with the mean, alone: where
``r >= L`` the mean has components that nothing shows.

Rotations have one chart for each choice ``D`` of signs, :math:`O = D(I - A)(I + A)^{-1}` with a skew matrix ``A``. The
invariant measure is :math:`\det(I + A)^{1-r}dA` in each, and since :math:`\sum_D\det(I + DO) = 2^r` those terms share
out every rotation among the charts: :math:`\det(I + A)^{-r}` in each of them.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.small_matrices import inverse_and_log_det


def angles(rank: int) -> int:
    """Dimension of the rotations of so many directions."""
    return rank * (rank - 1) // 2


def shown(rank: int, tokens: int, hidden: int) -> int:
    """Directions that labels of so many tokens tell apart, one less where softmax hides (``hidden = 1``) the mean.

    Example:
        >>> shown(2, 3, 1), shown(2, 2, 1)
        (2, 1)
    """
    return min(rank, tokens - hidden)


def fixed(rank: int, tokens: int, hidden: int) -> int:
    """Fields of a data point that its label fixes: the dimension of all labels.

    Example:
        >>> fixed(1, 2, 1), fixed(2, 2, 1), fixed(2, 2, 0), fixed(2, 3, 1)
        (2, 2, 3, 5)
    """
    seen = shown(rank, tokens, hidden)
    return seen * tokens - angles(seen)


def rotations(skew: Any, rank: int) -> tuple[Any, Any]:
    """Orthogonal matrices of all charts, shape (2^r, r, r), and the log-density of the chart, from entries of ``A``.

    Example:
        >>> matrices, log_density = rotations(jnp.zeros(1), 2)
        >>> matrices.shape, float(log_density)
        ((4, 2, 2), -0.0)
    """
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=rank)))
    above = jnp.zeros((rank, rank)).at[np.triu_indices(rank, 1)].set(skew)
    matrix, identity = above - above.T, jnp.eye(rank)
    inverse, log_det = inverse_and_log_det(identity + matrix)
    return signs[:, :, None] * ((identity - matrix) @ inverse), -rank * log_det


def standing_for(directions: Array, hidden: int) -> Array:
    """Of all directions with the same label one choice, shape (n, r, L), that does not tell which these were.

    Args:
        directions: shape (n, r, L).
        hidden: one for softmax.
    """
    rank, tokens = directions.shape[1:]
    mean = hidden * directions.mean(axis=2, keepdims=True)
    turned = np.swapaxes(np.linalg.svd(directions - mean)[0], 1, 2) @ directions
    turned[:, shown(rank, tokens, hidden) :] = 0.0
    return np.asarray(turned)


def from_scores(scores: Array, rank: int, hidden: int) -> tuple[Array, Array]:
    """That choice from symmetric scores, for softmax up to a constant, and what is no Gram matrix of so few directions.

    Args:
        scores: shape (n, L, L).
        rank: ``r``.
        hidden: one for softmax.

    Returns:
        Directions, shape (n, r, L), and the eigenvalues that should vanish, relative to the largest, shape (n, ...).
    """
    tokens = scores.shape[1]
    sides = scores - hidden * scores.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(sides - hidden * sides.mean(axis=2, keepdims=True))
    seen = shown(rank, tokens, hidden)
    kept = np.maximum(values[:, tokens - seen :], 0.0)
    along = np.swapaxes(vectors[:, :, tokens - seen :], 1, 2)
    # The products of a direction with the mean, over its length twice, are the mean's component along it.
    products = np.einsum("nkl,nlm->nk", along, sides) / tokens
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = hidden * np.nan_to_num(products / np.sqrt(kept), posinf=0.0, neginf=0.0)
    found = np.zeros((len(scores), rank, tokens))
    found[:, :seen] = np.sqrt(kept)[:, :, None] * along + mean[:, :, None]
    beside = np.concatenate([values[:, : tokens - seen], np.minimum(values[:, tokens - seen :], 0.0)], axis=1)
    return found, np.abs(beside) / (1 + np.abs(values[:, -1:]))
