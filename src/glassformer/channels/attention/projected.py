r"""Base of channels whose labels determine linear functions of the indices: linear attention and noiseless softmax."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.designs.token_pairs import to_matrices

Root = tuple[tuple[float, ...], ...]
"""Square root of the correlation of the tokens, shape (T, T) as nested tuples; empty for independent tokens."""


class ProjectedChannel(ScalarChannel):
    r"""All components of the indices, or all but some directions of them, with isotropic noise.

    With ``k`` visible components the score is :math:`P(\phi_y - \omega)/(V + \Delta)` and :math:`E|g|^2 = k/(V +
    \Delta)`. The indices of keys and queries with common weights form a symmetric matrix.
    """

    tokens: int
    noise: float

    @property
    @abstractmethod
    def _visible(self) -> int:
        """Number of components that labels determine."""

    @property
    def _components(self) -> int:
        """Number of components of the indices."""
        return self.tokens * (self.tokens + 1) // 2

    def _matrices(self, components: Array) -> Array:
        """Return the indices, shape (..., T, T), from their components."""
        return to_matrices(components, self.tokens)

    @abstractmethod
    def _residual(self, y: Array, omega: Array) -> Array:
        """Return the visible components of the label minus the components of ``omega``."""

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._residual(y, omega) / (self.noise + np.asarray(variance))

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        del y
        return np.broadcast_to(self._visible / (self.noise + np.asarray(variance, dtype=float)), np.shape(omega)[:-1])

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        total = self.noise + np.asarray(variance)
        square = np.sum(self._residual(y, omega) ** 2, axis=-1)
        return np.asarray(-0.5 * self._visible * np.log(2 * np.pi * total) - square / (2 * total))

    def information(self, variance: Array) -> Estimate:
        value = self._visible / (self.noise + np.asarray(variance, dtype=float))
        return Estimate(value, np.zeros_like(value))

    def expected_log_partition(self, variance: Array) -> Estimate:
        total = self.noise + np.asarray(variance, dtype=float)
        value = -0.5 * self._visible * (np.log(2 * np.pi * total) + 1)
        return Estimate(value, np.zeros_like(value))


class UntiedIndices(ProjectedChannel):
    """Indices of untied keys and queries: all ``T x T`` are independent with unit variance, in the order of rows."""

    @property
    def _components(self) -> int:
        return self.tokens**2

    def _matrices(self, components: Array) -> Array:
        return np.asarray(components.reshape(*components.shape[:-1], self.tokens, self.tokens))
