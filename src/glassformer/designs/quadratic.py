"""Quadratic fields of all pairs of tokens of a sequence: the indices of an attention layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.revealed import GaussianEquivalent, gaussian_matrices
from glassformer.designs.stored import SquareDesign
from glassformer.designs.token_pairs import pair_indices


@dataclass(frozen=True)
class QuadraticDesign(SquareDesign):
    r"""Pairs of tokens seen by a symmetric matrix: :math:`h_{ab} = (x_a^TSx_b - \delta_{ab}\mathrm{Tr}S)/\sqrt d`.

    Fields are the pairs :math:`a\le b` in the order of
    :func:`~glassformer.designs.token_pairs.pair_indices`, the diagonal divided by :math:`\sqrt 2`,
    so that all components of a signal of unit power have unit variance. Both maps are one product of the ``(n T, d)``
    matrix of tokens with a matrix of width ``d``: memory is that of the tokens, never :math:`n d^2`. The transpose
    belongs to the inner product :math:`\mathrm{Tr}\,AB/(2/d)` of the free entries.

    Args:
        inputs: shape ``(instances, samples, T, d)`` or, for one instance, ``(samples, T, d)``; float64 or float32.

    Raises:
        DataError: wrong number of dimensions, an empty axis, another type, or values that are not finite.

    Example:
        >>> design = QuadraticDesign(np.ones((3, 2, 4)))
        >>> design.forward(np.eye(4), 0)[0]  # h_11/sqrt(2), h_12, h_22/sqrt(2)
        array([0., 2., 0.])
    """

    axes: ClassVar[str] = "samples, T, d"

    # Sums of x x^T are a Gaussian matrix only for very many tokens; undamped, outlying eigenvectors oscillate.
    damping = 0.3

    @classmethod
    def reveal_equivalent(
        cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> Design:
        tokens, d = shape
        pairs, free = tokens * (tokens + 1) // 2, d * (d + 1) // 2
        matrices = gaussian_matrices(samples * pairs, (free,), d, rng, storage)
        return GaussianEquivalent(cls(np.zeros((1, *shape))), samples, matrices)

    @property
    def metric(self) -> float:
        return self.signal_shape[0] / 2

    @property
    def tokens(self) -> int:
        """``T``, the tokens per sample."""
        return int(self.inputs.shape[2])

    @property
    def field_shape(self) -> tuple[int, ...]:
        return self.samples, self.tokens * (self.tokens + 1) // 2

    @property
    def sample_ratio(self) -> float:
        d = self.signal_shape[0]
        return 2 * self.samples / d**2

    def forward(self, signal: Array, instance: int) -> Array:
        tokens, d = self.inputs[instance], self.signal_shape[0]
        matrix = signal.astype(tokens.dtype, copy=False)
        rows, columns = pair_indices(self.tokens)
        fields = np.empty(self.field_shape)
        for part in self._blocks(self.tokens):
            block = tokens[part]
            product = (block.reshape(-1, d) @ matrix).reshape(block.shape)
            for k, (a, b) in enumerate(zip(rows, columns, strict=True)):
                fields[part, k] = np.einsum("nd,nd->n", product[:, a], block[:, b])
        diagonal = rows == columns
        fields[:, diagonal] = (fields[:, diagonal] - np.trace(signal)) / np.sqrt(2)
        return fields / np.sqrt(d)

    def adjoint(self, score: Array, instance: int) -> Array:
        tokens, d = self.inputs[instance], self.signal_shape[0]
        rows, columns = pair_indices(self.tokens)
        gamma = np.zeros((self.samples, self.tokens, self.tokens), tokens.dtype)
        gamma[:, rows, columns] = np.where(rows == columns, score / np.sqrt(2), score / 2)
        gamma[:, columns, rows] = gamma[:, rows, columns]
        total = np.zeros((d, d))
        for part in self._blocks(self.tokens):
            block = tokens[part]
            total += block.reshape(-1, d).T @ (gamma[part] @ block).reshape(-1, d)
        trace = float(np.sum(score[:, rows == columns])) / np.sqrt(2)
        total[np.diag_indices(d)] -= trace
        return (total + total.T) / (d * np.sqrt(d))


@dataclass(frozen=True)
class LayeredQuadraticDesign(QuadraticDesign):
    """The quadratic design applied to each layer: fields of shape (samples, L, K) from signals of shape (L, d, d).

    Example:
        >>> design = LayeredQuadraticDesign(np.ones((3, 2, 4)))
        >>> design.forward(np.stack([np.eye(4), np.zeros((4, 4))]), 0).shape
        (3, 2, 3)
    """

    several_rows = True

    def forward(self, signal: Array, instance: int) -> Array:
        return np.stack([super(LayeredQuadraticDesign, self).forward(layer, instance) for layer in signal], axis=1)

    def adjoint(self, score: Array, instance: int) -> Array:
        layers = [score[:, k] for k in range(score.shape[1])]
        return np.stack([super(LayeredQuadraticDesign, self).adjoint(layer, instance) for layer in layers])
