"""Linear algebra of a few small matrices per data point, unrolled: library calls cost more than their arithmetic."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

# Sizes up to which unrolled formulas compile to less work than a call per matrix.
_UNROLLED = 8


def inverse_and_log_det(matrix: Array) -> tuple[Array, Array]:
    """Inverse and log |det| of one square matrix; by cofactors up to three rows.

    Example:
        >>> inverse, log_det = inverse_and_log_det(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
        >>> jnp.diag(inverse).tolist(), round(float(log_det), 2)
        ([0.5, 0.25], 2.08)
    """
    size = matrix.shape[-1]
    if size > 3:
        return jnp.linalg.inv(matrix), jnp.linalg.slogdet(matrix)[1]
    if size == 1:
        adjugate, det = jnp.ones_like(matrix), matrix[0, 0]
    elif size == 2:
        (a, b), (c, d) = matrix
        adjugate, det = jnp.array([[d, -b], [-c, a]]), a * d - b * c
    else:
        first, second, third = matrix
        cofactors = jnp.stack([jnp.cross(second, third), jnp.cross(third, first), jnp.cross(first, second)])
        adjugate, det = cofactors.T, jnp.dot(first, cofactors[0])
    return adjugate / det, jnp.log(jnp.abs(det))


def cholesky(matrix: Array) -> Array:
    """Lower triangular square root of one positive definite matrix."""
    size = matrix.shape[-1]
    if size > _UNROLLED:
        return jnp.linalg.cholesky(matrix)
    rows: list[list[Array]] = []
    for i in range(size):
        row: list[Array] = []
        for j in range(i):
            row.append((matrix[i, j] - sum((row[k] * rows[j][k] for k in range(j)), jnp.zeros(()))) / rows[j][j])
        row.append(jnp.sqrt(matrix[i, i] - sum((value**2 for value in row), jnp.zeros(()))))
        rows.append(row)
    zero = jnp.zeros(())
    return jnp.array([row + [zero] * (size - len(row)) for row in rows])


def triangular_inverse(lower: Array) -> Array:
    """Inverse of one lower triangular matrix."""
    size = lower.shape[-1]
    if size > _UNROLLED:
        return jnp.linalg.inv(lower)
    rows: list[list[Array]] = []
    for i in range(size):
        row = [-sum((lower[i, k] * rows[k][j] for k in range(j, i)), jnp.zeros(())) / lower[i, i] for j in range(i)]
        rows.append([*row, 1 / lower[i, i]])
    zero = jnp.zeros(())
    return jnp.array([row + [zero] * (size - len(row)) for row in rows])


def row_flips(latent: Array, mean: Array, root: Array, signs: ArrayLike) -> Array:
    """Latents of the rows ``mean + root x``, shape (P, K), with their signs flipped: shape (count, P K).

    Args:
        latent: ``x``, flattened.
        mean: shape (P, K).
        root: lower triangular, shape (P, P).
        signs: shape (count, P).
    """
    flips = jnp.asarray(signs)
    flipped = flips[:, :, None] * (mean + root @ latent.reshape(mean.shape)) - mean
    return (triangular_inverse(root) @ flipped).reshape(len(flips), -1)
