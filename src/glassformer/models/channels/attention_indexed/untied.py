r"""Attention whose indices form no symmetric matrix: different matrices of keys and queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from glassformer.core.errors import DataError, ParameterError
from glassformer.models.channels.attention_indexed.prediction import prediction_error
from glassformer.models.channels.attention_indexed.projected import ProjectedChannel, checked_tokens
from glassformer.models.channels.scalar import Array


class _UntiedChannel(ProjectedChannel):
    """All ``T x T`` indices, independent and of unit variance, row by row."""

    @property
    def field_components(self) -> tuple[int, ...]:
        return (self.tokens**2,)


@dataclass(frozen=True)
class LinearUntiedChannel(_UntiedChannel):
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

    def __post_init__(self) -> None:
        checked_tokens(self.tokens)
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise ParameterError("noise", self.noise, "finite and >= 0")

    @property
    def label(self) -> str:
        return "linear"

    @property
    def linear(self) -> bool:
        return True

    @property
    def _seen(self) -> int:
        return self.tokens**2

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        noise = np.sqrt(self.noise) * rng.standard_normal(h.shape) if self.noise else 0.0
        return _square(h + noise, self.tokens)

    def _residual(self, y: Array, omega: Array) -> Array:
        return np.asarray(np.asarray(y, dtype=float).reshape(omega.shape) - omega)

    @property
    def label_noise(self) -> float:
        return self.noise

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""``prediction_error``: :math:`V`, per index, beside the ``label_noise`` :math:`\Delta`."""
        v = np.asarray(variance, dtype=float)
        return {"prediction_error": v, "label_noise": np.full_like(v, self.noise)}


@dataclass(frozen=True)
class SoftmaxUntiedChannel(_UntiedChannel):
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

    def __post_init__(self) -> None:
        checked_tokens(self.tokens, 2)
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ParameterError("temperature", self.temperature, "an inverse temperature, finite and > 0")

    @property
    def label(self) -> str:
        return "softmax"

    @property
    def _seen(self) -> int:
        return self.tokens * (self.tokens - 1)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        del rng
        return self._attention(_square(h, self.tokens))

    def _residual(self, y: Array, omega: Array) -> Array:
        labels = np.asarray(y, dtype=float)
        if not (np.all(labels > 0) and np.allclose(labels.sum(axis=-1), 1, rtol=0, atol=1e-6)):
            remedy = "where a softmax underflows, lower the temperature"
            raise DataError("y", "<labels>", "positive rows that sum to one", remedy)
        gap = np.log(labels) / self.temperature - _square(omega, self.tokens)
        return np.asarray((gap - gap.mean(axis=-1, keepdims=True)).reshape(omega.shape))

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""``prediction_error``: :math:`E\|y - E[y\mid\omega]\|_F^2/T` on a new label, with its standard error."""
        return prediction_error(self._attention, self.tokens, 1.0, variance, self.label_noise, _square)

    def _attention(self, h: Array) -> Array:
        return np.exp(log_softmax(self.temperature * h, axis=-1))


def _square(components: Array, tokens: int) -> Array:
    return np.asarray(components.reshape(*components.shape[:-1], tokens, tokens))
