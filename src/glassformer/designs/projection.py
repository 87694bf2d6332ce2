"""Projections of tokens on a few directions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.revealed import RevealedProjections, gaussian_matrices
from glassformer.designs.stored import StoredDesign, normal_fields


@dataclass(frozen=True)
class ProjectionDesign(StoredDesign):
    r"""Fields :math:`Z = W X^T/\sqrt d`, shape (samples, P, L), of weights ``W`` of shape (P, d).

    With several heads the tokens are split into as many parts of equal length; row ``k`` of the weights, of length
    ``d/heads``, sees part ``k mod heads``.

    Args:
        inputs: shape ``(instances, samples, L, d)`` or, for one instance, ``(samples, L, d)``; float64 or float32.
        heads: parts of the coordinates; divides ``d``.

    Raises:
        DataError: wrong number of dimensions, an empty axis, another type, or values that are not finite.

    Example:
        >>> ProjectionDesign(np.ones((3, 2, 4))).forward(np.ones((1, 4)), 0)[0]
        array([[2., 2.]])
    """

    axes: ClassVar[str] = "samples, L, d"
    revealable = True
    heads: ClassVar[int] = 1

    several_rows = True

    @property
    def signal_shape(self) -> tuple[int, int]:
        return 1, int(self.inputs.shape[3]) // self.heads

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.signal_shape[1:]

    @property
    def sample_ratio(self) -> float:
        return self.samples / self.signal_shape[1]

    def forward(self, signal: Array, instance: int) -> Array:
        tokens, length = self.inputs[instance], self.signal_shape[1]
        weights = signal.astype(tokens.dtype, copy=False)
        fields = np.empty((self.samples, len(signal), tokens.shape[1]))
        for head in range(self.heads):
            part = tokens[:, :, head * length : (head + 1) * length]
            fields[:, head :: self.heads] = np.swapaxes(part @ weights[head :: self.heads].T, 1, 2)
        return fields / np.sqrt(length)

    def shifted(self, signal: Array, shifts: Array) -> Design:
        moved = np.swapaxes(shifts, 1, 2) @ signal / np.sqrt(signal.shape[1])
        return replace(self, inputs=self.inputs[:1] + moved.astype(self.inputs.dtype, copy=False))

    @classmethod
    def reveal(cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64") -> Design:
        sizes = (shape[1] // cls.heads,) * cls.heads
        matrices = gaussian_matrices(samples * shape[0], sizes, shape[1], rng, storage)
        return RevealedProjections(cls(np.zeros((1, *shape))), samples, matrices)

    @classmethod
    def new_fields(cls, signals: Array, shape: tuple[int, int], samples: int, rng: np.random.Generator) -> Array:
        fields = np.empty((len(signals), samples, signals.shape[1], shape[0]))
        for head in range(cls.heads):
            # Rows of different heads see different coordinates.
            fields[:, :, head :: cls.heads] = normal_fields(signals[:, head :: cls.heads], shape[0], samples, rng)
        return fields

    def adjoint(self, score: Array, instance: int) -> Array:
        tokens, length = self.inputs[instance], self.signal_shape[1]
        total = np.empty((score.shape[1], length))
        for head in range(self.heads):
            part = tokens[:, :, head * length : (head + 1) * length].reshape(-1, length)
            rows = score[:, head :: self.heads].astype(tokens.dtype, copy=False)
            total[head :: self.heads] = np.swapaxes(rows, 1, 2).reshape(-1, rows.shape[1]).T @ part
        return total / np.sqrt(length)


def projection_design(heads: int) -> type[ProjectionDesign]:
    """Return the class of designs with that many heads.

    Example:
        >>> projection_design(2)(np.ones((3, 2, 4))).signal_shape
        (1, 2)
    """
    return ProjectionDesign if heads == 1 else type(f"ProjectionDesign{heads}", (ProjectionDesign,), {"heads": heads})
