"""Sequences seen by one quadratic form of their tokens each: attention pooled over a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glassformer.core.integral import Array
from glassformer.models.designs.stored import StoredDesign


@dataclass(frozen=True)
class PooledDesign(StoredDesign):
    r"""Fields :math:`h_\mu = [\sum_a x_{\mu a}^TSx_{\mu a} - \langle S, M\rangle]/d` of a symmetric matrix ``S``.

    Both maps are one product of the matrix of all tokens with a matrix of width ``d``: memory is that of the tokens.

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
    def signal_shape(self) -> tuple[int, int]:
        d = int(self.inputs.shape[3])
        return d, d

    @property
    def sample_ratio(self) -> float:
        return 2 * self.samples / self.signal_shape[0] ** 2

    def first(self, samples: int) -> PooledDesign:
        """The design of the first samples alone, sharing memory with this one."""
        return PooledDesign(self.inputs[:, :samples], self.centre)

    def forward(self, signal: Array, instance: int) -> Array:
        tokens, d = self.inputs[instance], self.signal_shape[0]
        product = (tokens.reshape(-1, d) @ signal.astype(tokens.dtype, copy=False)).reshape(tokens.shape)
        return (np.einsum("ntd,ntd->n", product, tokens) - np.sum(signal * self.centre)) / d

    def adjoint(self, score: Array, instance: int) -> Array:
        tokens, d = self.inputs[instance], self.signal_shape[0]
        weighted = (tokens * score.astype(tokens.dtype, copy=False)[:, None, None]).reshape(-1, d)
        return (tokens.reshape(-1, d).T @ weighted - np.sum(score) * self.centre) / d

    def rotated(self, left: Array, right: Array) -> Array:
        """Fields of all products of a column of ``left``, shape (d, i), and one of ``right``: shape (samples, i, j)."""
        tokens = self.inputs[0].astype(np.float64, copy=False)
        seen = np.swapaxes(tokens @ left, 1, 2) @ (tokens @ right)
        return (seen - left.T @ self.centre @ right) / self.signal_shape[0]
