"""Linear algebra of small matrices in JAX without LAPACK.

Calls of a library take longer than the arithmetic of small matrices. Batches of them also share the threads on which
programs run: two programs at once can wait for each other's threads forever.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

# Rows up to which formulas entry by entry are faster to compile than formulas row by row (measured).
_UNROLLED = 8


def inverse_and_log_det(matrix: Array) -> tuple[Array, Array]:
    """Return the inverse and log |det| of one square matrix, by cofactors up to three rows.

    Example:
        >>> inverse, log_det = inverse_and_log_det(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
        >>> jnp.diag(inverse).tolist(), round(float(log_det), 2)
        ([0.5, 0.25], 2.08)
    """
    size = matrix.shape[-1]
    if size > 3:
        return _gauss_jordan(matrix)
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


def _gauss_jordan(matrix: Array) -> tuple[Array, Array]:
    """Return the same by Gauss-Jordan elimination with pivoting."""
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
    """Return the lower triangular square root of one positive definite matrix."""
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
    """Return the inverse of one lower triangular matrix."""
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
    """Return the latents of the rows ``mean + root x``, shape (P, K), after changes of their signs: shape (count, P K).

    Args:
        latent: the latents ``x``, flattened.
        mean: shape (P, K).
        root: lower triangular, shape (P, P).
        signs: the signs of the rows, shape (count, P).
    """
    flips = jnp.asarray(signs)
    flipped = flips[:, :, None] * (mean + root @ latent.reshape(mean.shape)) - mean
    return (triangular_inverse(root) @ flipped).reshape(len(flips), -1)


def flip_first_rows(latent: Array, mean: Array, root: Array, signs: ArrayLike) -> Array:
    """Return the images of :func:`row_flips` for the first rows; the other latents stay as they are.

    Args:
        latent: latents of the first rows, and then any others.
        mean: of all rows, shape (P, K).
        root: of all rows, lower triangular.
        signs: the signs of the first rows, shape (count, rows).
    """
    rows = np.shape(signs)[1]
    if rows == 0:
        return latent[None]
    own, others = jnp.split(latent, [rows * mean.shape[1]])
    flipped = row_flips(own, mean[:rows], root[:rows, :rows], signs)
    return jnp.concatenate([flipped, jnp.broadcast_to(others, (len(flipped), len(others)))], axis=1)
