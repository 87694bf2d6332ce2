r"""Attention channels of correlated tokens: indices :math:`C^{1/2}hC^{1/2}` of those of independent ones.

With tokens :math:`C^{1/2}X` the products are :math:`C^{1/2}XSX^TC^{1/2}`, of mean :math:`C\,\mathrm{Tr}S`. Indices are
centred by that mean, as those of independent tokens are by theirs: what is left is linear in ``h``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glassformer.channels.attention.projected import (
    LinearAttentionChannel,
    SoftmaxAttentionChannel,
    symmetric_logits,
)
from glassformer.channels.attention.softmax import row_softmax
from glassformer.core.estimate import Array, Estimate
from glassformer.designs.token_pairs import to_components, to_matrices

Root = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class OfCorrelatedIndices:
    """A function of the indices of correlated tokens, as one of those of independent ones, shape (..., T, T).

    Attributes:
        function: of the former.
        root: :math:`C^{1/2}`.
    """

    function: Callable[[Array], Array]
    root: Root

    def __call__(self, indices: Array) -> Array:
        root = np.array(self.root)
        return self.function(root @ indices @ root)


@dataclass(frozen=True)
class CorrelatedLinearChannel(LinearAttentionChannel):
    r"""Linear attention of correlated tokens, :math:`y = C^{1/2}hC^{1/2} + \sqrt\Delta\,z`, with noise as without.

    With the eigenvalues :math:`a_k` of :math:`h\mapsto C^{1/2}hC^{1/2}`, products of two of :math:`C^{1/2}`:
    :math:`E|g|^2 = \sum_k a_k^2/(\Delta + a_k^2V)`, without noise that of independent tokens.

    Args:
        root: :math:`C^{1/2}`, shape (T, T) as nested tuples.

    Example:
        >>> channel = CorrelatedLinearChannel(2, 0.5, root=((1.0, 0.0), (0.0, 2.0)))
        >>> channel.information(np.array([0.5])).value.round(6)  # gains 1, 2 and 4
        array([4.482353])
    """

    root: Root = ()

    @property
    def linear(self) -> bool:
        return False

    @cached_property
    def _modes(self) -> tuple[Array, Array]:
        """Gains and the components that have them, as columns."""
        root, units = np.array(self.root), np.eye(self.field_components[0])
        values, vectors = np.linalg.eigh(to_components(root @ to_matrices(units, self.tokens) @ root))
        return values, vectors

    def _spread(self, variance: Array | float) -> Array:
        """Variances of the labels along the modes, shape (..., K)."""
        return np.asarray(self.noise + self._modes[0] ** 2 * np.asarray(variance, dtype=float)[..., None])

    def _along(self, y: Array, omega: Array) -> Array:
        """What labels show beyond ``omega``, along the modes."""
        gains, modes = self._modes
        return np.asarray(self._residual(y, np.zeros_like(omega)) @ modes - gains * (omega @ modes))

    def clean(self, h: Array) -> Array:
        return super().clean(self._mixed(h))

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        return super().sample(self._mixed(h), rng)

    def _mixed(self, h: Array) -> Array:
        """Components of the indices of correlated tokens."""
        gains, modes = self._modes
        return np.asarray((gains * (h @ modes)) @ modes.T)

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        gains, modes = self._modes
        return np.asarray((gains * self._along(y, omega) / self._spread(variance)) @ modes.T)

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        del y
        return np.broadcast_to(np.sum(self._modes[0] ** 2 / self._spread(variance), axis=-1), np.shape(omega)[:-1])

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        spread = self._spread(variance)
        return np.asarray(-0.5 * np.sum(np.log(2 * np.pi * spread) + self._along(y, omega) ** 2 / spread, axis=-1))

    def information(self, variance: Array) -> Estimate:
        value = np.sum(self._modes[0] ** 2 / self._spread(variance), axis=-1)
        return Estimate(value, np.zeros_like(value))

    def expected_log_partition(self, variance: Array) -> Estimate:
        value = -0.5 * np.sum(np.log(2 * np.pi * self._spread(variance)) + 1, axis=-1)
        return Estimate(value, np.zeros_like(value))

    def label_error(self, variance: Array) -> dict[str, Array]:
        """``prediction_error``: of the indices of correlated tokens, per component, beside the ``label_noise``."""
        return super().label_error(np.asarray(variance, dtype=float) * np.mean(self._modes[0] ** 2))


@dataclass(frozen=True)
class CorrelatedSoftmaxChannel(SoftmaxAttentionChannel):
    r"""Softmax attention of correlated tokens without noise: ``h`` is seen except along :math:`C^{-1/2}11^TC^{-1/2}`.

    Information is that of independent tokens.

    Args:
        root: :math:`C^{1/2}`, shape (T, T) as nested tuples.
    """

    root: Root = ()

    @cached_property
    def _inverse(self) -> Array:
        return np.linalg.inv(np.array(self.root))

    def clean(self, h: Array) -> Array:
        root = np.array(self.root)
        return row_softmax(self.temperature * (root @ self._matrices(h) @ root))

    def _residual(self, y: Array, omega: Array) -> Array:
        seen = self._inverse @ symmetric_logits(y, self.temperature) @ self._inverse
        difference, sums = to_components(seen) - omega, self._inverse.sum(axis=1)
        hidden = np.sqrt(2) * to_components(np.outer(sums, sums) / (sums @ sums))
        return np.asarray(difference - (difference @ hidden)[..., None] * hidden)
