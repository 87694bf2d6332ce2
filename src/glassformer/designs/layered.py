"""Pairs of tokens seen by several symmetric matrices, one per layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.core.estimate import Array
from glassformer.designs.quadratic import QuadraticDesign


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
