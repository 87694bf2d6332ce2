r"""Softmax attention without noise: labels determine the indices up to a constant per row.

Tied keys and queries have symmetric indices, which determine these constants up to a common one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from glassformer.channels.attention.prediction import prediction_errors
from glassformer.channels.attention.projected import ProjectedChannel, Root, UntiedIndices
from glassformer.channels.attention.shares import require_shares
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.channels.scalar.base import Array
from glassformer.core.checks import require_integer
from glassformer.core.errors import ParameterError
from glassformer.designs.token_pairs import pair_indices, to_components


class SoftmaxProjection(ProjectedChannel):
    """Components of the indices that the softmax of the rows determines, without noise."""

    temperature: float
    power: float

    label = "softmax"

    def __post_init__(self) -> None:
        require_integer("tokens", self.tokens, 2)
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ParameterError("temperature", self.temperature, "an inverse temperature, finite and > 0")

    @property
    def fields(self) -> Fields:
        return Fields((self._components,), self.power)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        del rng
        return self.clean(h)

    @cached_property
    def labels(self) -> Labels:
        # Errors are per row.
        shape = (self.tokens, self.tokens)
        return Labels(rank=float(self._visible), shape=shape, error_unit=float(self.tokens))

    def clean(self, h: Array) -> Array:
        return row_softmax(self._matrices(self.temperature * h))

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``prediction_error``, :math:`E\|y - E[y\mid\omega]\|_F^2/T` on a new label, and ``plugin_error``."""
        sizes = (self._components, self.tokens)
        return prediction_errors(self.clean, *sizes, self.power, variance, 0.0)


@dataclass(frozen=True)
class SoftmaxAttentionChannel(SoftmaxProjection):
    r"""Softmax attention without noise, :math:`y_{ab} = e^{b h_{ab}}/\sum_c e^{b h_{ac}}` at inverse temperature ``b``.

    The log-ratios of a row determine ``h`` up to a constant per row, and symmetry determines these constants up to a
    common one. So labels determine ``h`` except along the all-ones matrix, at any temperature, and
    :math:`E|g|^2 = (T^2+T-2)/(2V)`.

    Args:
        tokens: ``T >= 2``.
        temperature: inverse temperature ``b > 0``, finite.
        power: :math:`Q_0 = E h_{ab}^2` off the diagonal. Only errors on labels depend on it.

    Raises:
        ParameterError: an argument is out of range.
        DataError: a label is not a matrix of positive rows that sum to one.

    Source: arXiv:2506.01582.

    Example:
        >>> SoftmaxAttentionChannel(tokens=2).information(np.array([0.5])).value
        array([4.])
    """

    tokens: int
    temperature: float = 1.0
    power: float = 1.0
    noise = 0.0

    @property
    def _visible(self) -> int:
        return (self.tokens * (self.tokens + 1) - 2) // 2

    @cached_property
    def labels(self) -> Labels:
        return replace(super().labels, probabilities=True)

    def _residual(self, y: Array, omega: Array) -> Array:
        difference = to_components(symmetric_logits(y, self.temperature)) - omega
        ones = all_ones(self.tokens)
        return np.asarray(difference - (difference @ ones)[..., None] * ones)


@dataclass(frozen=True)
class SoftmaxUntiedChannel(UntiedIndices, SoftmaxProjection):
    r"""Softmax attention without noise of untied keys and queries: :math:`E|g|^2 = T(T-1)/V` at any temperature.

    The log-ratios of a row determine ``h`` up to a constant per row.

    Args:
        tokens: ``T >= 2``.
        temperature: inverse temperature ``b > 0``, finite.

    Raises:
        ParameterError: an argument is out of range.
        DataError: a label is not a matrix of positive rows that sum to one.

    Example:
        >>> SoftmaxUntiedChannel(tokens=3).information(np.array([0.5])).value
        array([12.])
    """

    tokens: int
    temperature: float = 1.0
    noise = 0.0
    power = 1.0

    @property
    def _visible(self) -> int:
        return self.tokens * (self.tokens - 1)

    def _residual(self, y: Array, omega: Array) -> Array:
        gap = row_logits(y, self.temperature) - self._matrices(omega)
        return np.asarray((gap - gap.mean(axis=-1, keepdims=True)).reshape(omega.shape))


@dataclass(frozen=True)
class CorrelatedSoftmaxChannel(SoftmaxAttentionChannel):
    r"""Softmax attention of correlated tokens, whose indices are :math:`C^{1/2}hC^{1/2}` (:mod:`.linear`).

    Labels determine ``h`` except along :math:`C^{-1/2}11^TC^{-1/2}`. The information is the same as for independent
    tokens.

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
        visible = self._inverse @ symmetric_logits(y, self.temperature) @ self._inverse
        difference, sums = to_components(visible) - omega, self._inverse.sum(axis=1)
        hidden = np.sqrt(2) * to_components(np.outer(sums, sums) / (sums @ sums))
        return np.asarray(difference - (difference @ hidden)[..., None] * hidden)


def row_softmax(matrices: Array) -> Array:
    r"""Return :math:`\sigma(x)_b = e^{x_b} / \sum_c e^{x_c}` for each row. Rows are along the last axis.

    Example:
        >>> row_softmax(np.log([[1.0, 3.0], [2.0, 2.0]]))
        array([[0.25, 0.75],
               [0.5 , 0.5 ]])
    """
    # The axis of a row comes first in memory. Sums over a short last axis take four times as long.
    weights = np.ascontiguousarray(np.moveaxis(matrices, -1, 0))
    weights = np.exp(weights - weights.max(axis=0))
    return np.moveaxis(weights / weights.sum(axis=0), 0, -1)


def row_logits(y: Array, temperature: float) -> Array:
    """Return matrices whose row softmax is ``y``. They are unique up to a constant per row.

    Raises:
        DataError: a label is not a matrix of positive rows that sum to one.
    """
    y = np.asarray(y, dtype=float)
    require_shares(y)
    return np.asarray(np.log(y) / temperature)


def symmetric_logits(y: Array, temperature: float) -> Array:
    """Return symmetric matrices whose row softmax is ``y``. They are unique up to a multiple of the all-ones matrix.

    Raises:
        DataError: a label is not a matrix of positive rows that sum to one.
    """
    logits = row_logits(y, temperature)
    # Row a is known up to a constant c_a. Symmetry gives c_a - mean(c).
    shift = np.mean(logits - np.swapaxes(logits, -1, -2), axis=-1, keepdims=True)
    return np.asarray(logits - shift)


def all_ones(tokens: int) -> Array:
    """Return the unit vector of components along the matrix of ones."""
    rows, columns = pair_indices(tokens)
    return np.where(rows == columns, 1 / np.sqrt(2), 1.0) * np.sqrt(2) / tokens
