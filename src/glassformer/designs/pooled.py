"""One quadratic field for each sequence: attention pooled over the tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.designs.stored import SquareDesign


class Moments(NamedTuple):
    """Free entries of symmetric matrices.

    Attributes:
        places: rows and columns of the upper triangle.
        moments: entries there, shape (instances, samples, entries).
    """

    places: tuple[NDArray[np.intp], NDArray[np.intp]]
    moments: NDArray[Any]


@dataclass(frozen=True)
class PooledDesign(SquareDesign):
    r"""Fields :math:`h_\mu = [\sum_a x_{\mu a}^TSx_{\mu a} - \langle S, M\rangle]/d` of a symmetric matrix ``S``.

    Both maps are one product of the matrix of all tokens with a matrix of width ``d``; of tokens that are many for
    their dimension, one with the free entries of :math:`\sum_ax_ax_a^T`, which are kept: at most as many numbers again.

    Args:
        inputs: shape ``(samples, T, d)``; float64 or float32.
        centre: ``M``, shape (d, d), symmetric: the mean of :math:`\sum_ax_ax_a^T` makes fields of mean zero.

    Raises:
        DataError: wrong number of dimensions, an empty axis, another type, or values that are not finite.

    Example:
        >>> design = PooledDesign(np.ones((3, 2, 4)), np.zeros((4, 4)))
        >>> design.forward(np.eye(4), 0)
        array([2., 2., 2.])
    """

    centre: Array

    axes: ClassVar[str] = "samples, T, d"

    @property
    def sample_ratio(self) -> float:
        return 2 * self.samples / self.signal_shape[0] ** 2

    def first(self, samples: int) -> Self:
        """Return the design of the first samples alone, sharing memory with this one."""
        return replace(self, inputs=self.inputs[:, :samples])

    def forward(self, signal: Array, instance: int) -> Array:
        tokens, d = self.inputs[instance], self.signal_shape[0]
        if self._pair_moments is not None:
            rows, columns = self._pair_moments.places
            both = np.where(rows == columns, 0.5, 1.0) * (signal + signal.T)[rows, columns]
            seen = self._pair_moments.moments[instance] @ both.astype(tokens.dtype, copy=False)
        else:
            matrix, seen = signal.astype(tokens.dtype, copy=False), np.empty(self.samples, tokens.dtype)
            for part in self._blocks(self.input_shape[0]):
                product = (tokens[part].reshape(-1, d) @ matrix).reshape(tokens[part].shape)
                seen[part] = np.einsum("ntd,ntd->n", product, tokens[part])
        return np.asarray((seen - np.sum(signal * self.centre)) / d)

    def adjoint(self, score: Array, instance: int) -> Array:
        tokens, d = self.inputs[instance], self.signal_shape[0]
        if self._pair_moments is not None:
            rows, columns = self._pair_moments.places
            total = np.empty((d, d))
            total[rows, columns] = score.astype(tokens.dtype, copy=False) @ self._pair_moments.moments[instance]
            total[columns, rows] = total[rows, columns]
        else:
            weight, total = score.astype(tokens.dtype, copy=False)[:, None, None], np.zeros((d, d))
            for part in self._blocks(self.input_shape[0]):
                total += tokens[part].reshape(-1, d).T @ (tokens[part] * weight[part]).reshape(-1, d)
        return np.asarray((total - np.sum(score) * self.centre) / d)

    @cached_property
    def _pair_moments(self) -> Moments | None:
        """Free entries of all sums of products, where they are no more than the entries of the tokens."""
        tokens, d = self.input_shape
        if d + 1 > 2 * tokens:
            return None
        rows, columns = np.triu_indices(d)
        whole = np.swapaxes(self.inputs, 2, 3) @ self.inputs
        return Moments((rows, columns), whole[:, :, rows, columns])

    def variances(self) -> Array:
        """Return the variances of the fields of a Gaussian symmetric signal of unit power, shape (samples,)."""
        tokens, d = self.inputs[0].astype(np.float64, copy=False), self.signal_shape[0]
        gram = np.einsum("ntd,nsd->nts", tokens, tokens, optimize=True)
        mean = np.einsum("ntd,ntd->n", tokens @ self.centre, tokens)
        return 2 / d**3 * (np.einsum("nts,nts->n", gram, gram) - 2 * mean + np.sum(self.centre**2))

    def rotated(self, left: Array, right: Array) -> Array:
        """Return fields of all products of a column of ``left``, shape (d, i), and one of ``right``.

        Shape (samples, i, j).
        """
        tokens = self.inputs[0].astype(np.float64, copy=False)
        seen = np.swapaxes(tokens @ left, 1, 2) @ (tokens @ right)
        return (seen - left.T @ self.centre @ right) / self.signal_shape[0]


@dataclass(frozen=True)
class UnitPooledDesign(PooledDesign):
    r"""The same, in units in which fields of a signal :math:`\mathrm{Tr}\,S^2 = d` have unit variance.

    The sums :math:`\sum_ax_ax_a^T - M` are then Gaussian symmetric matrices as far as sums over many entries can tell,
    and the design is that of one attention index: the transpose belongs to the inner product
    :math:`d\,\mathrm{Tr}\,AB/2` of the free entries.

    Args:
        inputs: as there.
        centre: as there.
        unit: what fields are multiplied by.

    Example:
        >>> tokens = np.random.default_rng(0).standard_normal((4000, 2, 10))
        >>> design = UnitPooledDesign.of(PooledDesign(tokens, 2 * np.eye(10)))
        >>> bool(abs(np.var(design.forward(np.diag([1.0, -1.0] * 5), 0)) - 1) < 0.1)
        True
    """

    unit: float = 1.0

    @property
    def metric(self) -> float:
        return self.signal_shape[0] / 2

    # As of all quadratic forms: outlying eigenvectors oscillate where nothing is damped.
    damping = 0.3

    @classmethod
    def of(cls, design: PooledDesign) -> UnitPooledDesign:
        """Return the design of the same inputs in units of their variance off the diagonal."""
        tokens, d = design.inputs[0].astype(np.float64, copy=False), design.signal_shape[0]
        gram = np.einsum("ntd,nsd->nts", tokens, tokens, optimize=True)
        own = np.einsum("ntd,ntd->nd", tokens, tokens, optimize=True)
        # Squares of all entries but those of the diagonal, without making any.
        square = np.sum(gram**2) - np.sum(own**2)
        mean = design.centre - np.diag(np.diag(design.centre))
        variance = square / (design.samples * d * max(d - 1, 1)) - np.sum(mean**2) / (d * max(d - 1, 1))
        return cls(design.inputs, design.centre, float(np.sqrt(d / (2 * max(variance, 1e-300)))))

    def forward(self, signal: Array, instance: int) -> Array:
        return self.unit * super().forward(signal, instance)

    def adjoint(self, score: Array, instance: int) -> Array:
        return 2 * self.unit / self.signal_shape[0] * super().adjoint(score, instance)
