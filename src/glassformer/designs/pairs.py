"""Bilinear fields of all pairs of tokens of two sequences: attention with untied keys and queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.revealed import GaussianEquivalent, gaussian_matrices
from glassformer.designs.stored import SquareDesign


@dataclass(frozen=True)
class PairDesign(SquareDesign):
    r"""Tokens of two sequences seen by a matrix of unit entries: :math:`h_{ab} = x_a^TSz_b/d`.

    Fields are the ``T x T`` pairs row by row, of unit variance. Both maps are one product of the ``(n T, d)`` matrix of
    tokens with a matrix of width ``d``. The transpose belongs to the inner product of the entries.

    Args:
        inputs: shape ``(instances, samples, 2 T, d)`` or, for one instance, ``(samples, 2 T, d)``, the queries before
            the keys; float64 or float32.

    Raises:
        DataError: wrong number of dimensions, an empty axis, another type, or values that are not finite.

    Example:
        >>> design = PairDesign(np.ones((3, 4, 5)))
        >>> design.forward(np.eye(5), 0)[0]
        array([1., 1., 1., 1.])
    """

    axes: ClassVar[str] = "samples, 2 T, d"

    # Products of tokens are independent Gaussian entries only for very many of them, as for symmetric matrices.
    damping = 0.3

    @classmethod
    def reveal_equivalent(
        cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> Design:
        tokens, d = shape
        matrices = gaussian_matrices(samples * (tokens // 2) ** 2, (d * d,), d, rng, storage)
        return GaussianEquivalent(cls(np.zeros((1, *shape))), samples, matrices, symmetric=False)

    @property
    def tokens(self) -> int:
        """``T``, the tokens of either sequence."""
        return int(self.inputs.shape[2]) // 2

    @property
    def field_shape(self) -> tuple[int, ...]:
        return self.samples, self.tokens**2

    @property
    def sample_ratio(self) -> float:
        return self.samples / self.signal_shape[0] ** 2

    def forward(self, signal: Array, instance: int) -> Array:
        tokens, d = self.inputs[instance], self.signal_shape[0]
        matrix, fields = signal.astype(tokens.dtype, copy=False), np.empty((self.samples, self.tokens, self.tokens))
        for part in self._blocks(self.tokens):
            queries, keys = np.split(tokens[part], 2, axis=1)
            fields[part] = (queries.reshape(-1, d) @ matrix).reshape(queries.shape) @ np.swapaxes(keys, 1, 2)
        return fields.reshape(self.field_shape) / d

    def adjoint(self, score: Array, instance: int) -> Array:
        tokens, d = self.inputs[instance], self.signal_shape[0]
        gamma = score.reshape(self.samples, self.tokens, self.tokens).astype(tokens.dtype, copy=False)
        total = np.zeros((d, d))
        for part in self._blocks(self.tokens):
            queries, keys = np.split(tokens[part], 2, axis=1)
            total += queries.reshape(-1, d).T @ (gamma[part] @ keys).reshape(-1, d)
        return total / d
