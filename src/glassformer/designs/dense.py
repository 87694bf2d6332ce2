"""Sequences of tokens with independent entries and one linear field for each sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.revealed import RevealedSequences, gaussian_matrices
from glassformer.designs.stored import StoredDesign, normal_fields

# Number of samples whose tokens are mixed at once. Their numbers are in memory twice.
_BLOCK = 1024


@dataclass(frozen=True)
class DenseDesign(StoredDesign):
    r"""Inputs :math:`X_\mu \in \mathbb R^{L\times d}` with :math:`h_\mu = \mathrm{Tr}(X_\mu S^T)/\sqrt{dL}`.

    The array is not copied. In single precision it takes half the memory and half the time of a matrix product. Scores
    and estimates stay in double precision, and fields have a relative error of about 1e-7.

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
    revealable = True

    @property
    def signal_shape(self) -> tuple[int, int]:
        return int(self.inputs.shape[2]), int(self.inputs.shape[3])

    @property
    def sample_ratio(self) -> float:
        return self.samples / self._size

    @property
    def _size(self) -> int:
        return self.signal_shape[0] * self.signal_shape[1]

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

    def entry_fields(self) -> Array:
        return self.inputs[0].reshape(self.samples, self._size).astype(np.float64, copy=False) / sqrt(self._size)

    @classmethod
    def reveal(
        cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> RevealedSequences:
        matrices = gaussian_matrices(samples, (shape[0] * shape[1],), shape[1], rng, storage)
        return RevealedSequences(cls(np.zeros((1, *shape))), samples, matrices)

    @classmethod
    def new_fields(cls, signals: Array, shape: tuple[int, int], samples: int, rng: np.random.Generator) -> Array:
        return normal_fields(signals, 1, samples, rng)

    def variances(self) -> Array:
        """Return the variances of the fields of a signal of independent entries of unit variance, shape (samples,)."""
        inputs = self.inputs[0]
        return np.einsum("nld,nld->n", inputs, inputs) / self._size

    def rotated(self, left: Array, right: Array) -> Array:
        """Return fields of all products of a column of ``left``, shape (L, i), and one of ``right``.

        Shape (samples, i, j).
        """
        inputs = self.inputs[0].astype(np.float64, copy=False)
        if left.shape[1] > right.shape[1]:
            return left.T @ (inputs @ right) / np.sqrt(self._size)
        return (left.T @ inputs) @ right / np.sqrt(self._size)


@dataclass(frozen=True)
class CorrelatedDesign:
    r"""A kind of :class:`~glassformer.designs.dense.DenseDesign`: inputs :math:`X = C^{1/2} Z`, shape (L, d).

    ``Z`` has standard normal entries, so that tokens have the covariance :math:`E\,x_l\cdot x_m/d = C_{lm}`. Fields
    have unit variance for a unit diagonal of ``C`` and a signal of independent tokens. Like a class of designs it has
    ``sample``, and makes a design when called: of independent numbers, which it correlates.

    Args:
        root: :math:`C^{1/2}`, shape (L, L).

    Example:
        >>> from glassformer.models.token_correlation import correlation_root
        >>> kind = CorrelatedDesign(correlation_root(0.5, 2))
        >>> design = kind.sample(4000, (2, 3), np.random.default_rng(0))
        >>> bool(abs(np.mean(design.inputs[0, :, 0] * design.inputs[0, :, 1]) - 0.5) < 0.05)
        True
    """

    root: tuple[tuple[float, ...], ...]

    revealable: ClassVar[bool] = True

    def __call__(self, independent: NDArray[Any]) -> DenseDesign:
        return DenseDesign(self._mixed(independent))

    def sample(
        self, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> DenseDesign:
        """Return one instance of random inputs. A longer draw from the same generator state begins alike."""
        design = DenseDesign.sample(samples, shape, rng, storage)
        inputs = design.inputs[0]
        for begin in range(0, samples, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            inputs[block] = self._mixed(inputs[block])
        return design

    def reveal(
        self, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> Design:
        """Return random inputs that are never drawn, as of :meth:`~glassformer.designs.base.Design.reveal`."""
        design = DenseDesign.reveal(samples, shape, rng, storage)
        return replace(design, root=np.array(self.root))

    def reveal_equivalent(
        self, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> Design:
        """Raise, since inputs are Gaussian themselves."""
        return DenseDesign.reveal_equivalent(samples, shape, rng, storage)

    def _mixed(self, independent: NDArray[Any]) -> NDArray[Any]:
        """Return every input times the root, in its own precision."""
        return np.asarray(np.array(self.root, dtype=independent.dtype) @ independent)
