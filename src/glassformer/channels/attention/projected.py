r"""Attention channels whose noiseless labels fix the indices by linear algebra: linear and softmax attention."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from glassformer.channels.attention.prediction import prediction_errors
from glassformer.channels.attention.softmax import row_softmax
from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError, ParameterError
from glassformer.designs.token_pairs import pair_indices, to_components, to_matrices


def checked_tokens(tokens: int, smallest: int = 1) -> None:
    """Raise unless ``tokens`` is an integer of at least ``smallest``."""
    require_integer("tokens", tokens, smallest)


class ProjectedChannel(ScalarChannel):
    """Components of the indices, or all but some directions of them, with isotropic noise."""

    tokens: int
    noise: float

    @property
    def even(self) -> bool:
        return False

    @property
    def noiseless(self) -> bool:
        return self.noise == 0

    @property
    @abstractmethod
    def _seen(self) -> int:
        """Number of components that labels show."""

    @property
    def rank(self) -> float:
        return float(self._seen) if self.noiseless else 0.0

    @property
    def label_shape(self) -> tuple[int, ...]:
        return self.tokens, self.tokens

    @property
    def field_components(self) -> tuple[int, ...]:
        return (self.tokens * (self.tokens + 1) // 2,)

    def _matrices(self, components: Array) -> Array:
        """Indices, shape (..., T, T), from their components."""
        return to_matrices(components, self.tokens)

    @abstractmethod
    def _residual(self, y: Array, omega: Array) -> Array:
        """What the labels show beyond ``omega``, in components."""

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._residual(y, omega) / (self.noise + np.asarray(variance))

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        del y
        return np.broadcast_to(self._seen / (self.noise + np.asarray(variance, dtype=float)), np.shape(omega)[:-1])

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        total = self.noise + np.asarray(variance)
        square = np.sum(self._residual(y, omega) ** 2, axis=-1)
        return np.asarray(-0.5 * self._seen * np.log(2 * np.pi * total) - square / (2 * total))

    def information(self, variance: Array) -> Estimate:
        value = self._seen / (self.noise + np.asarray(variance, dtype=float))
        return Estimate(value, np.zeros_like(value))

    def expected_log_partition(self, variance: Array) -> Estimate:
        total = self.noise + np.asarray(variance, dtype=float)
        value = -0.5 * self._seen * (np.log(2 * np.pi * total) + 1)
        return Estimate(value, np.zeros_like(value))


class LinearProjection(ProjectedChannel):
    """All components, with noise or none."""

    any_power = True

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
        return self.field_components[0]

    def components_of(self, labels: Array) -> Array:
        return self._residual(labels, np.zeros((len(labels), *self.field_components)))

    @property
    def regression(self) -> tuple[float, float]:
        return 1.0, self.noise

    @property
    def label_noise(self) -> float:
        return self.noise

    @property
    def error_unit(self) -> float:
        """The squared norm of labels whose components are one: errors are counted per component."""
        return float(np.sum(self._matrices(np.ones(self.field_components)) ** 2))

    def clean(self, h: Array) -> Array:
        return self._matrices(h)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        noise = np.sqrt(self.noise) * rng.standard_normal(h.shape) if self.noise else 0.0
        return self._matrices(h + noise)


class SoftmaxProjection(ProjectedChannel):
    """What softmax of the rows shows, without noise."""

    temperature: float
    power: float

    def __post_init__(self) -> None:
        checked_tokens(self.tokens, 2)
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ParameterError("temperature", self.temperature, "an inverse temperature, finite and > 0")

    @property
    def label(self) -> str:
        return "softmax"

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        del rng
        return self.clean(h)

    @property
    def error_unit(self) -> float:
        """Errors are counted per row."""
        return float(self.tokens)

    def clean(self, h: Array) -> Array:
        return row_softmax(self._matrices(self.temperature * h))

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""``prediction_error``: :math:`E\|y - E[y\mid\omega]\|_F^2/T` on a new label; ``plugin_error`` beside it."""
        sizes = (self.field_components[0], self.tokens)
        return prediction_errors(self.clean, *sizes, self.power, variance, self.label_noise)


@dataclass(frozen=True)
class LinearAttentionChannel(LinearProjection):
    r"""Linear attention :math:`y = h + \sqrt\Delta\,z` with symmetric noise, :math:`E z_{ab}^2 = 1 + \delta_{ab}`.

    Labels are symmetric ``T x T`` matrices; :math:`E|g|^2 = T(T+1)/[2(V+\Delta)]` in components of equal variance
    (:mod:`~glassformer.designs.token_pairs`). ``T = 1`` is a quadratic network of extensive width.

    Args:
        tokens: ``T >= 1``.
        noise: :math:`\Delta\ge0`, a variance.

    Raises:
        ParameterError: an argument is out of range.
        DataError: a label is not symmetric.

    Source: arXiv:2506.01582; ``T = 1``: arXiv:2408.03733.

    Example:
        >>> LinearAttentionChannel(tokens=2, noise=0.5).information(np.array([0.5])).value
        array([3.])
    """

    tokens: int
    noise: float = 0.0

    def _residual(self, y: Array, omega: Array) -> Array:
        y = np.asarray(y, dtype=float)
        if not np.allclose(y, np.swapaxes(y, -1, -2), rtol=1e-9, atol=1e-12):
            raise DataError("y", "<labels>", "symmetric matrices", "symmetrise them")
        return np.asarray(to_components(y) - omega)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""``prediction_error``: :math:`V`, per component, beside the ``label_noise`` :math:`\Delta`."""
        v = np.asarray(variance, dtype=float)
        noise = np.full_like(v, self.label_noise)
        return {"prediction_error": v, "label_noise": noise, "label_mse": v + noise}


@dataclass(frozen=True)
class SoftmaxAttentionChannel(SoftmaxProjection):
    r"""Softmax attention without noise, :math:`y_{ab} = e^{b h_{ab}}/\sum_c e^{b h_{ac}}` at inverse temperature ``b``.

    The log-ratios of a row show ``h`` up to a constant per row, and its symmetry ties those constants together: labels
    are ``h`` itself except along the all-ones matrix, at whatever temperature. So :math:`E|g|^2 = (T^2+T-2)/(2V)`.

    Args:
        tokens: ``T >= 2``.
        temperature: inverse temperature ``b > 0``, finite.
        power: :math:`Q_0 = E h_{ab}^2` off the diagonal; errors on labels alone depend on it.

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
    def _seen(self) -> int:
        return (self.tokens * (self.tokens + 1) - 2) // 2

    def at_power(self, power: float) -> ScalarChannel:
        return replace(self, power=power)

    def shares_of(self, labels: Array) -> Array:
        y = np.asarray(labels, dtype=float)
        _require_shares(y)
        return y

    def _residual(self, y: Array, omega: Array) -> Array:
        difference = to_components(symmetric_logits(y, self.temperature)) - omega
        ones = all_ones(self.tokens)
        return np.asarray(difference - (difference @ ones)[..., None] * ones)


def row_logits(y: Array, temperature: float) -> Array:
    """Matrices whose row softmax is ``y``, one of the many that differ by a constant per row.

    Raises:
        DataError: a label is not a matrix of positive rows that sum to one.
    """
    y = np.asarray(y, dtype=float)
    _require_shares(y)
    return np.asarray(np.log(y) / temperature)


def _require_shares(y: Array) -> None:
    if not (np.all(y > 0) and np.allclose(np.sum(y, axis=-1), 1, rtol=0, atol=1e-6)):
        raise DataError(
            "y", "<labels>", "positive rows that sum to one", "where a softmax underflows, lower the temperature"
        )


def symmetric_logits(y: Array, temperature: float) -> Array:
    """Symmetric matrices whose row softmax is ``y``, one of the many that differ along the all-ones matrix.

    Raises:
        DataError: a label is not a matrix of positive rows that sum to one.
    """
    logits = row_logits(y, temperature)
    # Rows are known up to a constant c_a each; symmetry gives c_a - mean(c).
    shift = np.mean(logits - np.swapaxes(logits, -1, -2), axis=-1, keepdims=True)
    return np.asarray(logits - shift)


def all_ones(tokens: int) -> Array:
    """Unit vector of components along the matrix of ones."""
    rows, columns = pair_indices(tokens)
    return np.where(rows == columns, 1 / np.sqrt(2), 1.0) * np.sqrt(2) / tokens
