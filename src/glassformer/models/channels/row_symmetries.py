r"""What symmetries of a label say of its averages, whatever the sampling.

An orthogonal matrix ``O`` over the rows that leaves every label as it is (:math:`g(OZ) = g(Z)`) cannot be told from the
identity: while overlaps obey :math:`OQ = Q`, so does the information. One that relabels (:math:`g(OZ) = b(g(Z))`, ``b``
one to one) carries the information at ``Q`` to that at :math:`OQO^T`. A direction that no label shows has none.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.integral import Array

# Deviation of an overlap from a symmetry that is rounding.
_ROUNDING = 1e-9


class RowSymmetries(NamedTuple):
    """Orthogonal matrices over the rows, the identity among them, and what labels can show.

    Attributes:
        same: leave every label as it is, shape (count, P, P).
        alike: map labels one to one, shape (count, P, P); those of ``same`` are among them.
        shown: projector on the directions that change labels, shape (P, P).
    """

    same: Array
    alike: Array
    shown: Array

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


def _unmoved(turned: Array, overlap: Array) -> Array:
    return np.asarray(np.max(np.abs(turned - overlap), axis=(1, 2)) <= _ROUNDING)
