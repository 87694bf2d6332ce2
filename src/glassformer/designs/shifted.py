"""Inputs whose tokens hidden states shift along the rows of a signal, for designs that hold no array of entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.wrapped import WrappedDesign


@dataclass(frozen=True, eq=False)
class ShiftedDesign(WrappedDesign):
    r"""Tokens :math:`X_\mu + s_\mu^TW^*/\sqrt d`, with the tokens :math:`X_\mu` of another design.

    Products are those of the other design and a matrix of the rank of the signal: entries are never formed.

    Args:
        base: inputs without shifts, of one instance.
        signal: :math:`W^*`, shape (P, d).
        shifts: ``s`` of every sample, shape (samples, P, L).

    Example:
        >>> from glassformer.designs.projection import ProjectionDesign
        >>> base = ProjectionDesign(np.zeros((2, 1, 4)))
        >>> design = ShiftedDesign(base, np.ones((1, 4)), np.array([[[3.0]], [[-3.0]]]))
        >>> design.forward(np.ones((1, 4)), 0).ravel().tolist()
        [3.0, -3.0]
    """

    base: Design
    signal: Array
    shifts: Array

    @property
    def revealed(self) -> bool:  # type: ignore[override]
        """True when the entries of the inputs are not known."""
        return self.base.revealed

    @property
    def samples(self) -> int:
        return self.base.samples

    @property
    def _inner(self) -> Design:
        return self.base

    @property
    def inputs_per_sample(self) -> int:
        """Numbers of one sample's input."""
        return self.input_shape[0] * self.input_shape[1]

    def first(self, samples: int) -> Self:
        return type(self)(self.base.first(samples), self.signal, self.shifts[:samples])

    def parts(self, instance: int = 0) -> Iterator[Array]:
        start = 0
        for part in self.base.parts(instance):
            own = self.shifts[start : start + len(part)]
            start += len(part)
            yield part + np.swapaxes(own, 1, 2) @ self.signal / np.sqrt(self.signal.shape[1])

    def forward(self, signal: Array, instance: int) -> Array:
        overlap = signal @ self.signal.T / self.signal.shape[1]
        return np.asarray(self.base.forward(signal, instance) + overlap @ self.shifts)

    def adjoint(self, score: Array, instance: int) -> Array:
        along = np.einsum("nal,npl->ap", score, self.shifts, optimize=True)
        return np.asarray(self.base.adjoint(score, instance) + along @ self.signal / self.signal.shape[1])
