r"""What symmetries of a label say of its averages, whatever the sampling.

An orthogonal matrix ``O`` over the rows that leaves every label as it is (:math:`g(OZ) = g(Z)`) cannot be told from the
identity: while overlaps obey :math:`OQ = Q`, so does the information. One that relabels (:math:`g(OZ) = b(g(Z))`, ``b``
one to one) carries the information at ``Q`` to that at :math:`OQO^T`. A direction that no label shows has none.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.estimate import Array

# Deviation of an overlap from a symmetry that is rounding.
_ROUNDING = 1e-9
# Rows up to which all permutations are listed: of more, the cyclic ones, which leave the same covariances alone.
_PERMUTED = 4


class RowSymmetries(NamedTuple):
    """Orthogonal matrices over the rows, the identity among them, and what labels can show.

    Attributes:
        same: leave every label as it is, shape (count, P, P).
        alike: map labels one to one, shape (count, P, P); those of ``same`` are among them.
        shown: projector on the directions that change labels, shape (P, P).
        turned: groups of rows, each of families of equally many: labels are blind to every rotation, or reflection, of
            the rows of all families of a group together. Some of these are among ``same``, and leave the same
            covariances alone as all of them.
        exchanged: groups of rows that trade places, among those that stand alone in ``turned``.
    """

    same: Array
    alike: Array
    shown: Array
    turned: tuple[tuple[tuple[int, ...], ...], ...] = ()
    exchanged: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of_rotations(
        cls, groups: tuple[tuple[tuple[int, ...], ...], ...], exchanged: tuple[tuple[int, ...], ...] = ()
    ) -> Self:
        """Those that turn the rows of each of several groups among themselves; a row alone changes its sign.

        Args:
            groups: of rows, each of families.
            exchanged: groups of rows, each a group alone above, that trade places as well.

        Example:
            >>> found = RowSymmetries.of_rotations((((0, 1),),))
            >>> found.respected(np.array([[1.0, 0.5], [0.5, 3.0]]), np.eye(2)).tolist()
            [[2.0, 0.0], [0.0, 2.0]]
            >>> found = RowSymmetries.of_rotations((((0,),), ((1,),)), ((0, 1),))
            >>> len(found.same), found.aligning(np.array([[0.1, 0.9], [-0.8, 0.2]])).tolist()
            (8, [[0.0, -1.0], [1.0, 0.0]])
        """
        size = sum(len(family) for group in groups for family in group)
        found = np.zeros((1, size, size))
        for group in groups:
            own = np.array([_placed(turn, group, size) for turn in _turns(len(group[0]))])
            found = (found[:, None] + own).reshape(-1, size, size)
        for rows in exchanged:
            found = (found[:, None] @ _exchanges(rows, size)).reshape(-1, size, size)
        return cls(found, found, np.eye(size), groups, exchanged)

    @property
    def signs(self) -> Array:
        """Of those that leave labels as they are, the ones that flip signs alone, shape (count, P)."""
        diagonals = np.diagonal(self.same, axis1=1, axis2=2)
        return np.asarray(diagonals[np.all(np.abs(diagonals) == 1, axis=1)])

    def aligning(self, cross: Array) -> Array:
        """Of the orthogonal matrices ``O`` that labels are blind to, the one of the largest trace of ``O cross``.

        Args:
            cross: inner products of estimated with true rows, shape (P, P).

        Example:
            >>> quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
            >>> RowSymmetries.of_rotations((((0, 1),),)).aligning(quarter) @ quarter
            array([[1., 0.],
                   [0., 1.]])
        """
        if not self.turned:
            return np.diag(max(self.signs, key=lambda signs: float(signs @ np.diag(cross))))
        order = self._matched(cross)
        cross, found = cross[order], np.zeros_like(cross)
        for group in self.turned:
            blocks = [cross[np.ix_(family, family)] for family in group]
            left, _, right = np.linalg.svd(sum(blocks[1:], blocks[0]))
            found += _placed((left @ right).T, group, len(cross))
        return found @ np.eye(len(cross))[order]

    def _matched(self, cross: Array) -> NDArray[np.intp]:
        """Which estimated row stands for each true one: those of a group as overlaps in absolute value say."""
        from scipy.optimize import linear_sum_assignment

        order = np.arange(len(cross))
        for rows in map(np.array, self.exchanged):
            estimated, true = linear_sum_assignment(np.abs(cross[np.ix_(rows, rows)]), maximize=True)
            order[rows[true]] = rows[estimated]
        return order

    def unturned(self, matrices: Array) -> Array:
        """The part of matrices, shape (n, P, P), that neither rotations nor exchanges change.

        It is a multiple of the identity on every group.
        """
        if not self.turned:
            return matrices
        found = np.zeros_like(matrices)
        singles = [np.array([family[0] for family in group]) for group in self.turned if len(group[0]) == 1]
        alone = np.concatenate(singles) if singles else np.empty(0, dtype=int)
        found[:, alone[:, None], alone] = matrices[:, alone[:, None], alone]
        for group in self.turned:
            for first, second in itertools.product(group, repeat=2):
                mean = np.mean(matrices[:, first, second], axis=1)
                found[:, first, second] = mean[:, None]
        for rows in map(list, self.exchanged):
            level = np.mean(found[:, rows, rows], axis=1)[:, None]
            found[:, rows], found[:, :, rows] = 0.0, 0.0
            found[:, rows, rows] = level
        return found

    @classmethod
    def of_signs(cls, signs: ArrayLike) -> Self:
        """Those that flip signs of rows, shape (count, P), and no other.

        Example:
            >>> RowSymmetries.of_signs([[1, 1], [1, -1]]).respected(np.ones((2, 2)), np.zeros((2, 2))).tolist()
            [[1.0, 0.0], [0.0, 0.0]]
        """
        flips = np.asarray(signs, dtype=float)[:, :, None] * np.eye(np.shape(signs)[1])
        return cls(flips, flips, np.eye(flips.shape[1]))

    def silent(self, overlap: Array) -> Array:
        """Projector on the directions of which nothing can be known at an overlap: labels are even in them."""
        own = self.same[_unmoved(self.same @ overlap, overlap)]
        return np.asarray(np.eye(len(overlap)) - np.mean(own, axis=0) @ self.shown)

    def respected(self, matrices: Array, overlap: Array) -> Array:
        """The part of sampled averages, shape (..., P, P), that is exact averages' at an overlap, shape (P, P)."""
        loud = np.eye(len(overlap)) - self.silent(overlap)
        turned = self.alike @ overlap @ np.swapaxes(self.alike, 1, 2)
        own = self.alike[_unmoved(turned, overlap)]
        part = loud @ matrices @ loud
        return np.asarray(np.mean([o @ part @ o.T for o in own], axis=0))


def _placed(turn: Array, group: tuple[tuple[int, ...], ...], size: int) -> Array:
    """A rotation of the rows of every family of a group as a matrix over all rows, zero for others, shape (P, P)."""
    found = np.zeros((size, size))
    for family in group:
        found[np.ix_(family, family)] = turn
    return found


def _exchanges(rows: tuple[int, ...], size: int) -> Array:
    """Permutations of some rows as matrices over all, shape (count, P, P)."""
    count = len(rows)
    cycles = (np.roll(range(count), k) for k in range(count))
    orders = np.array(list(itertools.permutations(range(count)) if count <= _PERMUTED else cycles))
    found = np.tile(np.eye(size), (len(orders), 1, 1))
    found[:, np.array(rows)[:, None], rows] = np.eye(count)[orders]
    return found


def _turns(rank: int) -> Array:
    """Signs and cyclic permutations: no other symmetric matrices than multiples of the identity commute with them."""
    signs = [np.diag(flips) for flips in itertools.product([1.0, -1.0], repeat=rank)]
    cycles = [np.roll(np.eye(rank), k, axis=0) for k in range(rank)]
    return np.array([cycle @ sign for cycle in cycles for sign in signs])


def _unmoved(turned: Array, overlap: Array) -> Array:
    return np.asarray(np.max(np.abs(turned - overlap), axis=(1, 2)) <= _ROUNDING)
