"""Sequences of tokens with independent entries, seen through one linear functional each."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.designs.stored import StoredDesign, normal_fields


@dataclass(frozen=True)
class DenseDesign(StoredDesign):
    r"""Inputs :math:`X_\mu \in \mathbb R^{L\times d}` with :math:`h_\mu = \mathrm{Tr}(X_\mu S^T)/\sqrt{dL}`.

    The array is kept as it comes, never copied. Stored in single precision it takes half the memory and half the
    time of a matrix product; scores and estimates stay in double precision, and fields carry a relative error of
    about 1e-7.

    Args:
        inputs: shape ``(instances, samples, L, d)`` or, for one instance, ``(samples, L, d)``; float64 or float32.

    Raises:
        DataError: wrong number of dimensions, an empty axis, another type, or values that are not finite.

    Example:
        >>> design = DenseDesign(np.ones((3, 2, 2)))
        >>> design.forward(np.ones((2, 2)), 0)
        array([2., 2., 2.])
        >>> design.sample_ratio
        0.75
    """

    axes: ClassVar[str] = "samples, L, d"

    @property
    def signal_shape(self) -> tuple[int, int]:
        return int(self.inputs.shape[2]), int(self.inputs.shape[3])

    @property
    def sample_ratio(self) -> float:
        return self.samples / self._size

    @property
    def _size(self) -> int:
        return self.signal_shape[0] * self.signal_shape[1]

    def checked_labels(self, labels: ArrayLike) -> Array:
        """Labels as an array, one number per sample.

        Raises:
            DataError: they do not match the inputs, or are not finite.
        """
        y = np.asarray(labels, dtype=float)
        if y.shape != (self.samples,):
            raise DataError("y", y.shape, f"a shape ({self.samples},) that matches X")
        if not np.all(np.isfinite(y)):
            raise DataError("y", "<labels>", "finite entries", "remove or repair the samples")
        return y

    def forward(self, signal: Array, instance: int) -> Array:
        size = self._size
        matrix = self.inputs[instance].reshape(self.samples, size)
        product = matrix @ signal.ravel().astype(matrix.dtype, copy=False)
        return product.astype(np.float64, copy=False) / sqrt(size)

    def adjoint(self, score: Array, instance: int) -> Array:
        rows, columns = self.signal_shape
        matrix = self.inputs[instance].reshape(self.samples, rows * columns)
        product = score.astype(matrix.dtype, copy=False) @ matrix
        return product.reshape(rows, columns).astype(np.float64, copy=False) / sqrt(rows * columns)

    @classmethod
    def new_fields(cls, signals: Array, shape: tuple[int, int], samples: int, rng: np.random.Generator) -> Array:
        return normal_fields(signals, 1, samples, rng)

    def variances(self) -> Array:
        """Of the fields of a signal of independent entries of unit variance, shape (samples,)."""
        inputs = self.inputs[0]
        return np.einsum("nld,nld->n", inputs, inputs) / self._size

    def rotated(self, left: Array, right: Array) -> Array:
        """Fields of all products of a column of ``left``, shape (L, i), and one of ``right``: shape (samples, i, j)."""
        inputs = self.inputs[0].astype(np.float64, copy=False)
        if left.shape[1] > right.shape[1]:
            return left.T @ (inputs @ right) / np.sqrt(self._size)
        return (left.T @ inputs) @ right / np.sqrt(self._size)
