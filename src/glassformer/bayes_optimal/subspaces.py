"""Subspaces of the rows: projectors, their names, and bases of the symmetric matrices on them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.models.base import Model

# Weight on one group of rows above which a matrix of unit trace is named after the group (a convention).
_PURE = 0.98
# Smallest eigenvalue, relative to the largest, that belongs to the range of a sampled matrix (chosen by trial).
_RANGE = 0.05


class Basis(NamedTuple):
    """Orthonormal directions, and a basis of the symmetric matrices on them.

    Attributes:
        directions: orthonormal directions of the subspace, shape (P, k).
        matrices: orthonormal basis of the possible overlaps in the subspace, shape (n, k, k).
        invariant: projector on the flattened matrices that rotations and exchanges of the rows leave invariant, if
            labels are invariant under these; None otherwise.
    """

    directions: Array
    matrices: Array
    invariant: Array | None = None


def symmetric_basis(unknown: Array, model: Model) -> Basis:
    """Return the directions of a projector, whole rows if possible, and a basis of the overlaps that may be non-zero.

    Matrices that rotations or exchanges of the rows map onto each other grow equally fast. If these symmetries leave
    the projector invariant, the mean of such matrices represents them.
    """
    values, vectors = np.linalg.eigh(unknown)
    directions = vectors[:, values > 0.5]
    rows = np.flatnonzero(np.abs(np.diag(unknown) - 1) < 1e-12)
    if len(rows) == directions.shape[1]:
        directions = np.eye(len(unknown))[:, rows]
    size = directions.shape[1]
    matrices = np.zeros((size * (size + 1) // 2, size, size))
    for matrix, (a, b) in zip(matrices, combinations_with_replacement(range(size), 2), strict=True):
        matrix[a, b] = matrix[b, a] = 1.0 if a == b else np.sqrt(0.5)
    full = directions @ matrices @ directions.T
    allowed = [np.allclose(model.prior.allowed(matrix), matrix) for matrix in full]
    matrices, full = matrices[allowed], full[allowed]
    symmetries = model.channel.labels.row_symmetries
    if not np.allclose(symmetries.invariant_part(unknown[None])[0], unknown):
        return Basis(directions, matrices)
    averaged = directions.T @ symmetries.invariant_part(full) @ directions
    if not np.allclose(matrices, averaged):
        _, weights, axes = np.linalg.svd(averaged.reshape(len(averaged), -1), full_matrices=False)
        matrices = axes[weights > 0.5].reshape(-1, size, size)
    invariant = None
    if symmetries.rotation_groups:
        units = directions @ np.eye(size**2).reshape(-1, size, size) @ directions.T
        invariant = (directions.T @ symmetries.invariant_part(units) @ directions).reshape(size**2, size**2)
    return Basis(directions, matrices, invariant)


def range_of(matrix: Array) -> Array:
    """Return the projector on the range of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    kept = vectors[:, values > _RANGE * values[-1]]
    return np.asarray(kept @ kept.T)


def group_named(matrix: Array, groups: Mapping[str, tuple[int, ...]]) -> str | None:
    """Return the group of rows that a positive semi-definite matrix of unit trace singles out, or None."""
    weight = {name: float(np.sum(np.diag(matrix)[list(rows)])) for name, rows in groups.items()}
    name = max(weight, key=lambda name: weight[name])
    return name if weight[name] >= _PURE else None


def is_on_whole_rows(projector: Array) -> bool:
    """Return whether a projector is diagonal: it projects on whole rows."""
    return bool(np.max(np.abs(projector - np.diag(np.diag(projector)))) < 1 - _PURE)


def projector_on(model: Model, name: str, given: int | ArrayLike) -> Array:
    """Return the projector on a row, a direction or several directions."""
    size = model.prior.rows
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < size:
        return np.diag(np.eye(size)[given])
    directions = np.atleast_1d(np.asarray(given, dtype=float) if not isinstance(given, int) else np.empty(0))
    if len(directions) != size or not np.all(np.isfinite(directions)) or not np.any(directions):
        allowed = f"a row from 0 to {size - 1}, or directions of shape ({size},) or ({size}, k), not zero"
        raise ParameterError(name, given, allowed)
    columns = directions.reshape(size, -1) / np.max(np.abs(directions))
    return range_of(columns @ columns.T)
