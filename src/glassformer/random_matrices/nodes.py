"""Quadrature over a law of eigenvalues or singular values."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from numpy.typing import ArrayLike

from glassformer.core.estimate import Array, Estimate


class LawNodes(NamedTuple):
    """Nodes, weights that sum to 1, and what the optimal denoiser makes of the nodes, shape (batch, nodes) each."""

    s: Array
    weight: Array
    shrunk: Array


class SpectralLaw(Protocol):
    """A batch of laws of matrices seen through noise."""

    @property
    def unit(self) -> Array:
        """Mean of a function of the values, times this, is in the unit in which errors are counted, shape (batch,)."""

    @property
    def support(self) -> Array:
        """Edges of the bulks, shape (batch, bulks, 2); NaN for a bulk that is not there."""

    def mmse(self) -> Estimate:
        """Least mean squared error of the signal, shape (batch,)."""

    def nodes(self, cut: ArrayLike = 0.0) -> LawNodes:
        """Quadrature for functions that bend at ``cut``, shape (batch,)."""

    def density(self, s: ArrayLike) -> Array:
        """Density of a single law at values ``s``."""

    def denoise(self, s: ArrayLike) -> Array:
        """What the Bayes-optimal denoiser of a single law makes of values ``s``."""
