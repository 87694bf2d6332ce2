r"""Attention whose indices form no symmetric matrix: different matrices of keys and queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.channels.attention.projected import (
    LinearProjection,
    ProjectedChannel,
    SoftmaxProjection,
    row_logits,
)
from glassformer.channels.scalar.base import Array


class _UntiedChannel(ProjectedChannel):
    """All ``T x T`` indices, independent and of unit variance, row by row."""

    @property
    def field_components(self) -> tuple[int, ...]:
        return (self.tokens**2,)

    def _matrices(self, components: Array) -> Array:
        return np.asarray(components.reshape(*components.shape[:-1], self.tokens, self.tokens))


@dataclass(frozen=True)
class LinearUntiedChannel(_UntiedChannel, LinearProjection):
    r"""Linear attention :math:`y = h + \sqrt\Delta\,z`, ``z`` of independent entries: :math:`E|g|^2 = T^2/(V+\Delta)`.

    Args:
        tokens: ``T >= 1``.
        noise: :math:`\Delta\ge0`, a variance.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> LinearUntiedChannel(tokens=2, noise=0.5).information(np.array([0.5])).value
        array([4.])
    """

    tokens: int
    noise: float = 0.0

    def _residual(self, y: Array, omega: Array) -> Array:
        return np.asarray(np.asarray(y, dtype=float).reshape(omega.shape) - omega)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""``prediction_error``: :math:`V`, per index, beside the ``label_noise`` :math:`\Delta`."""
        v = np.asarray(variance, dtype=float)
        return {"prediction_error": v, "label_noise": np.full_like(v, self.noise)}


@dataclass(frozen=True)
class SoftmaxUntiedChannel(_UntiedChannel, SoftmaxProjection):
    r"""Softmax attention without noise: the log-ratios of a row show ``h`` up to a constant per row.

    Nothing ties those constants together: :math:`E|g|^2 = T(T-1)/V`, at whatever inverse temperature.

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
    def _seen(self) -> int:
        return self.tokens * (self.tokens - 1)

    def _residual(self, y: Array, omega: Array) -> Array:
        gap = row_logits(y, self.temperature) - self._matrices(omega)
        return np.asarray((gap - gap.mean(axis=-1, keepdims=True)).reshape(omega.shape))
