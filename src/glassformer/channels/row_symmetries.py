r"""Symmetries of a label over the rows of its fields, and their exact consequences for sampled averages.

Let ``O`` be an orthogonal matrix over the rows that leaves every label unchanged, :math:`g(OZ) = g(Z)`. If overlaps
satisfy :math:`OQ = Q`, so does the information. If ``O`` relabels, :math:`g(OZ) = b(g(Z))` with ``b`` one to one, it
maps the information at ``Q`` to the information at :math:`OQO^T`. A direction on which no label depends has no
information.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.estimate import Array

_ROUNDING = 1e-9  # a smaller deviation of an overlap from a symmetry counts as rounding
# Largest number of rows for which all permutations are listed. For more rows cyclic ones fix the same covariances.
_MOST_PERMUTED = 4


class RowSymmetries(NamedTuple):
    """Orthogonal matrices over the rows that leave labels unchanged or relabel them.

    Attributes:
        invariances: matrices that leave every label unchanged, the identity included, shape (count, P, P).
        relabellings: matrices that map labels one to one, the invariances included, shape (count, P, P).
        visible: projector on the directions on which labels depend, shape (P, P).
        rotation_groups: groups of families of rows. The families of a group have equal size. Labels are invariant under
            every rotation or reflection that acts in the same way on all families of a group. Some of these are among
            ``invariances`` and fix the same covariances as all of them.
        permutation_groups: rows that may be permuted. Each is the only row of its rotation group.
        of_all_rotations: whether every rotation or reflection of all rows leaves labels unchanged, without groups.
        by_jumps: whether continuous labels change along some direction by jumps alone. Labels without noise do not
            determine it then.
    """

    invariances: Array
    relabellings: Array
    visible: Array
    rotation_groups: tuple[tuple[tuple[int, ...], ...], ...] = ()
    permutation_groups: tuple[tuple[int, ...], ...] = ()
    of_all_rotations: bool = False
    by_jumps: bool = False

    @classmethod
    def of_rotations(
        cls, groups: tuple[tuple[tuple[int, ...], ...], ...], permuted: tuple[tuple[int, ...], ...] = ()
    ) -> Self:
        """Return the rotations of the rows of each group. A single row changes its sign.

        Args:
            groups: groups of families of rows.
            permuted: rows that may be permuted as well. Each must be a group of its own.

        Example:
            >>> pair = RowSymmetries.of_rotations((((0, 1),),))
            >>> pair.symmetrise(np.array([[1.0, 0.5], [0.5, 3.0]]), np.eye(2)).tolist()
            [[2.0, 0.0], [0.0, 2.0]]
            >>> single = RowSymmetries.of_rotations((((0,),), ((1,),)), ((0, 1),))
            >>> len(single.invariances), single.alignment(np.array([[0.1, 0.9], [-0.8, 0.2]])).tolist()
            (8, [[0.0, -1.0], [1.0, 0.0]])
        """
        size = sum(len(family) for group in groups for family in group)
        matrices = np.zeros((1, size, size))
        for group in groups:
            own = np.array([_embed(rotation, group, size) for rotation in _signed_cycles(len(group[0]))])
            matrices = (matrices[:, None] + own).reshape(-1, size, size)
        for rows in permuted:
            matrices = (matrices[:, None] @ _permutations(rows, size)).reshape(-1, size, size)
        return cls(matrices, matrices, np.eye(size), groups, permuted)

    @classmethod
    def of_signs(cls, signs: ArrayLike) -> Self:
        """Return the symmetries that only flip signs of rows, given by signs of shape (count, P).

        Example:
            >>> RowSymmetries.of_signs([[1, 1], [1, -1]]).symmetrise(np.ones((2, 2)), np.zeros((2, 2))).tolist()
            [[1.0, 0.0], [0.0, 0.0]]
        """
        flips = np.asarray(signs, dtype=float)[:, :, None] * np.eye(np.shape(signs)[1])
        return cls(flips, flips, np.eye(flips.shape[1]))

    @property
    def signs(self) -> Array:
        """Diagonals of the invariances that only flip signs, shape (count, P)."""
        diagonals = np.diagonal(self.invariances, axis1=1, axis2=2)
        return np.asarray(diagonals[np.all(np.abs(diagonals) == 1, axis=1)])

    @property
    def even(self) -> bool:
        """True when sign flips that leave labels unchanged change the sign of every row."""
        return bool(np.all(np.any(self.signs < 0, axis=0)))

    def alignment(self, cross: Array, rotational: bool = True) -> Array:
        """Return the symmetry ``O`` of the labels with the largest trace of ``O cross``.

        Args:
            cross: inner products of estimated with true rows, shape (P, P).
            rotational: whether rotations keep the prior; for other priors the listed matrices alone are tried.

        Example:
            >>> quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
            >>> RowSymmetries.of_rotations((((0, 1),),)).alignment(quarter) @ quarter
            array([[1., 0.],
                   [0., 1.]])
            >>> from glassformer import SequenceMultiIndex
            >>> product = SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0], indices=2, noise=0.1).channel
            >>> product.labels.row_symmetries.alignment(np.eye(2)[::-1])
            array([[0., 1.],
                   [1., 0.]])
        """
        from scipy.optimize import linear_sum_assignment

        if self.of_all_rotations and rotational:
            left, _, right = np.linalg.svd(cross)
            return np.asarray((left @ right).T)
        if not self.rotation_groups:
            return np.asarray(max(self.invariances, key=lambda matrix: float(np.sum(matrix * cross.T))))
        order = np.arange(len(cross))
        for rows in map(np.array, self.permutation_groups):
            estimated, true = linear_sum_assignment(np.abs(cross[np.ix_(rows, rows)]), maximize=True)
            order[rows[true]] = rows[estimated]
        cross, rotation = cross[order], np.zeros_like(cross)
        for group in self.rotation_groups:
            blocks = [cross[np.ix_(family, family)] for family in group]
            left, _, right = np.linalg.svd(sum(blocks[1:], blocks[0]))
            rotation += _embed((left @ right).T, group, len(cross))
        return rotation @ np.eye(len(cross))[order]

    def invariant_part(self, matrices: Array) -> Array:
        """Return the part of matrices, shape (n, P, P), that no rotation or permutation changes.

        It is a multiple of the identity on every group.
        """
        if not self.rotation_groups:
            return matrices
        part = np.zeros_like(matrices)
        singles = [np.array([family[0] for family in group]) for group in self.rotation_groups if len(group[0]) == 1]
        alone = np.concatenate(singles) if singles else np.empty(0, dtype=int)
        part[:, alone[:, None], alone] = matrices[:, alone[:, None], alone]
        for group in self.rotation_groups:
            for first, second in itertools.product(group, repeat=2):
                mean = np.mean(matrices[:, first, second], axis=1)
                part[:, first, second] = mean[:, None]
        for rows in map(list, self.permutation_groups):
            level = np.mean(part[:, rows, rows], axis=1)[:, None]
            part[:, rows], part[:, :, rows] = 0.0, 0.0
            part[:, rows, rows] = level
        return part

    def hidden(self, overlap: Array) -> Array:
        """Return the projector on directions without information at an overlap, in which labels are even."""
        own = self.invariances[_is_fixed(self.invariances @ overlap, overlap)]
        return np.asarray(np.eye(len(overlap)) - np.mean(own, axis=0) @ self.visible)

    def symmetrise(self, matrices: Array, overlap: Array) -> Array:
        """Project sampled averages, shape (..., P, P), on those allowed by the symmetries at an overlap, (P, P)."""
        informed = np.eye(len(overlap)) - self.hidden(overlap)
        mapped = self.relabellings @ overlap @ np.swapaxes(self.relabellings, 1, 2)
        own = self.relabellings[_is_fixed(mapped, overlap)]
        part = informed @ matrices @ informed
        return np.asarray(np.mean([o @ part @ o.T for o in own], axis=0))


def _embed(rotation: Array, group: tuple[tuple[int, ...], ...], size: int) -> Array:
    """Return a rotation of the rows of every family of a group as a matrix over all rows, zero for other rows."""
    matrix = np.zeros((size, size))
    for family in group:
        matrix[np.ix_(family, family)] = rotation
    return matrix


def _permutations(rows: tuple[int, ...], size: int) -> Array:
    """Return permutations of some rows as matrices over all, shape (count, P, P)."""
    count = len(rows)
    cycles = (np.roll(range(count), k) for k in range(count))
    orders = np.array(list(itertools.permutations(range(count)) if count <= _MOST_PERMUTED else cycles))
    matrices = np.tile(np.eye(size), (len(orders), 1, 1))
    matrices[:, np.array(rows)[:, None], rows] = np.eye(count)[orders]
    return matrices


def _signed_cycles(rank: int) -> Array:
    """Return signed cyclic permutations. Only multiples of the identity are symmetric and commute with all of them."""
    signs = [np.diag(flips) for flips in itertools.product([1.0, -1.0], repeat=rank)]
    cycles = [np.roll(np.eye(rank), k, axis=0) for k in range(rank)]
    return np.array([cycle @ sign for cycle in cycles for sign in signs])


def _is_fixed(mapped: Array, overlap: Array) -> Array:
    return np.asarray(np.max(np.abs(mapped - overlap), axis=(1, 2)) <= _ROUNDING)
