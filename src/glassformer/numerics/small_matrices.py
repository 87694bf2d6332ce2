"""Linear algebra of a few small matrices per data point, written out.

Library calls cost more than their arithmetic, and batches of them share the threads that programs run on: two programs
at once, each waiting for a thread that the other holds, wait forever.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

# Sizes up to which formulas number by number compile to less work than those row by row.
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
        return _eliminated(matrix)
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


def _eliminated(matrix: Array) -> tuple[Array, Array]:
    """The same by elimination of Gauss and Jordan, the largest pivots first."""
    size = len(matrix)
    rows = list(jnp.concatenate([matrix, jnp.eye(size)], axis=1))
    log_det = jnp.zeros(())
    for k in range(size):
        for i in range(k + 1, size):
            larger = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
            rows[k], rows[i] = jnp.where(larger, rows[i], rows[k]), jnp.where(larger, rows[k], rows[i])
        log_det += jnp.log(jnp.abs(rows[k][k]))
        rows[k] = rows[k] / rows[k][k]
        rows = [row if i == k else row - row[k] * rows[k] for i, row in enumerate(rows)]
    return jnp.stack(rows)[:, size:], log_det


def cholesky(matrix: Array) -> Array:
    """Lower triangular square root of one positive definite matrix."""
    size = matrix.shape[-1]
    if size > _UNROLLED:
        return _cholesky_by_columns(matrix)
    rows: list[list[Array]] = []
    for i in range(size):
        row: list[Array] = []
        for j in range(i):
            row.append((matrix[i, j] - sum((row[k] * rows[j][k] for k in range(j)), jnp.zeros(()))) / rows[j][j])
        row.append(jnp.sqrt(matrix[i, i] - sum((value**2 for value in row), jnp.zeros(()))))
        rows.append(row)
    zero = jnp.zeros(())
    return jnp.array([row + [zero] * (size - len(row)) for row in rows])


def _cholesky_by_columns(matrix: Array) -> Array:
    columns: list[Array] = []
    for j in range(len(matrix)):
        left = matrix[j:, j] - sum((column[j:] * column[j] for column in columns), jnp.zeros(()))
        columns.append(jnp.concatenate([jnp.zeros(j), left / jnp.sqrt(left[0])]))
    return jnp.stack(columns, axis=1)


def triangular_inverse(lower: Array) -> Array:
    """Inverse of one lower triangular matrix."""
    size = lower.shape[-1]
    if size > _UNROLLED:
        return _triangular_inverse_by_rows(lower)
    rows: list[list[Array]] = []
    for i in range(size):
        row = [-sum((lower[i, k] * rows[k][j] for k in range(j, i)), jnp.zeros(())) / lower[i, i] for j in range(i)]
        rows.append([*row, 1 / lower[i, i]])
    zero = jnp.zeros(())
    return jnp.array([row + [zero] * (size - len(row)) for row in rows])


def _triangular_inverse_by_rows(lower: Array) -> Array:
    rows: list[Array] = []
    for i, unit in enumerate(jnp.eye(len(lower))):
        rows.append((unit - sum((lower[i, k] * row for k, row in enumerate(rows)), jnp.zeros(()))) / lower[i, i])
    return jnp.stack(rows)


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
