"""Subspaces of the rows: as projectors, by name, and the symmetric matrices on them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.models.base import Model

# Weight of a matrix on one row from which on it names that row.
_PURE = 0.98
# Eigenvalue, relative to the largest, that belongs to the range of a matrix.
_RANGE = 0.05


class Basis(NamedTuple):
    """Orthonormal directions, shape (P, k), and an orthonormal basis of the symmetric matrices on them, (n, k, k).

    Attributes:
        directions: of the subspace.
        matrices: that may overlap.
        blind: projector on the matrices, flattened, that rotations and exchanges of the rows leave alone, where labels
            are blind to these: what they say of the subspace is one, data point by data point. None where there is no
            such thing.
    """

    directions: Array
    matrices: Array
    blind: Array | None = None


def symmetric_basis(unknown: Array, model: Model) -> Basis:
    """Directions of a projector, whole rows where it has some, and the symmetric matrices on them that may overlap.

    Growth that rotations or exchanges of the rows cannot tell apart is as fast in all of them: that of their mean
    stands for it, where they leave the projector as it is.
    """
    values, vectors = np.linalg.eigh(unknown)
    directions = vectors[:, values > 0.5]
    # Where whole rows are unknown they are the directions.
    rows = np.flatnonzero(np.abs(np.diag(unknown) - 1) < 1e-12)
    if len(rows) == directions.shape[1]:
        directions = np.eye(len(unknown))[:, rows]
    size = directions.shape[1]
    matrices = np.zeros((size * (size + 1) // 2, size, size))
    for matrix, (a, b) in zip(matrices, combinations_with_replacement(range(size), 2), strict=True):
        matrix[a, b] = matrix[b, a] = 1.0 if a == b else np.sqrt(0.5)
    full = directions @ matrices @ directions.T
    allowed = [np.allclose(model.prior.allowed(own), own) for own in full]
    symmetries = model.channel.row_symmetries
    if not np.allclose(symmetries.invariant_part(unknown[None])[0], unknown):
        return Basis(directions, matrices[allowed])
    level = directions.T @ symmetries.invariant_part(full[allowed]) @ directions
    blind = None
    if symmetries.rotation_groups:
        units = directions @ np.eye(size**2).reshape(-1, size, size) @ directions.T
        blind = (directions.T @ symmetries.invariant_part(units) @ directions).reshape(size**2, size**2)
    return Basis(directions, _independent(matrices[allowed], level), blind)


def _independent(matrices: Array, level: Array) -> Array:
    """An orthonormal basis of what is left of one, shape (n, k, k): the basis itself where all of it is."""
    if np.allclose(matrices, level):
        return matrices
    _, values, vectors = np.linalg.svd(level.reshape(len(level), -1), full_matrices=False)
    return vectors[values > 0.5].reshape(-1, *level.shape[1:])


def range_of(matrix: Array) -> Array:
    """Projector on the range of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    kept = vectors[:, values > _RANGE * values[-1]]
    return np.asarray(kept @ kept.T)


def group_named(matrix: Array, groups: Mapping[str, tuple[int, ...]]) -> str | None:
    """The group of rows that a positive semi-definite matrix of unit trace singles out; None if it mixes several."""
    weight = {name: float(np.sum(np.diag(matrix)[list(rows)])) for name, rows in groups.items()}
    name = max(weight, key=lambda name: weight[name])
    return name if weight[name] >= _PURE else None


def of_whole_rows(projector: Array) -> bool:
    """Whether a projector is on rows, none of them mixed with others."""
    return bool(np.max(np.abs(projector - np.diag(np.diag(projector)))) < 1 - _PURE)


def projector_on(model: Model, name: str, given: int | ArrayLike) -> Array:
    """Projector on a row, a direction or several."""
    size = model.prior.rows
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < size:
        return np.diag(np.eye(size)[given])
    directions = np.atleast_1d(np.asarray(given, dtype=float) if not isinstance(given, int) else np.empty(0))
    if len(directions) != size or not np.all(np.isfinite(directions)) or not np.any(directions):
        allowed = f"a row from 0 to {size - 1}, or directions of shape ({size},) or ({size}, k), not zero"
        raise ParameterError(name, given, allowed)
    columns = directions.reshape(size, -1) / np.max(np.abs(directions))
    return range_of(columns @ columns.T)
