"""The sign of the field, without noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.channels.scalar.exponents import Exponents
from glassformer.core.errors import DataError
from glassformer.numerics.normal import inverse_mills_ratio

_T = np.linspace(-12.0, 12.0, 193)
_ROUNDING = 1e-14


@dataclass(frozen=True)
class SignChannel(ScalarChannel):
    r"""Labels :math:`y = \mathrm{sign}(h)`, each +1 or -1.

    With :math:`a = y\,\omega/\sqrt V`, :math:`Z_{out} = \Phi(a)` is the probability of the label (counting measure) and
    the score is :math:`g = y\,\phi(a)/(\sqrt V\,\Phi(a))`. Arrays broadcast; ``information`` and
    ``expected_log_partition`` take ``V`` of shape (batch,).

    Raises:
        DataError: a label is neither +1 nor -1.

    Example:
        >>> import numpy as np
        >>> bool(np.isclose(SignChannel().information(np.array([1.0])).value[0], 2 / np.pi))
        True
    """

    clean_label = np.sign
    values = (-1.0, 1.0)
    even = False
    exponents = Exponents(1.0, 1.0)
    noiseless = False
    discrete = True

    def true_label(self, h: Array) -> Array:
        return np.where(np.asarray(h) >= 0, 1.0, -1.0)

    clean = true_label

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        del rng
        return self.true_label(h)

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        y, scale = checked_signs(y), np.sqrt(np.asarray(variance, dtype=float))
        return np.asarray(y * inverse_mills_ratio(y * omega / scale) / scale)

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return np.asarray(log_ndtr(checked_signs(y) * omega / np.sqrt(np.asarray(variance, dtype=float))))

    def information(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        a = _scaled_field(v)
        # phi^2 / Phi, whose two labels contribute alike.
        integral = _average(v, 2 * inverse_mills_ratio(a) * np.exp(-(a**2) / 2) / np.sqrt(2 * np.pi))
        # Infinite where nothing is unknown: the integral vanishes as the root of the variance.
        with np.errstate(divide="ignore", invalid="ignore"):
            return Estimate(np.where(v > 0, integral.value / v, np.inf), np.where(v > 0, integral.error / v, 0.0))

    def expected_log_partition(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        log_phi = log_ndtr(_scaled_field(v))
        return _average(v, 2 * np.exp(log_phi) * log_phi)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""``label_error``: :math:`\arccos(\sqrt q)/\pi`; ``prediction_error``: :math:`1 - (2/\pi)\arcsin q`."""
        v = np.asarray(variance, dtype=float)
        # Half-angle forms keep the relative precision where V is small.
        wrong = np.arcsin(np.sqrt(v)) / np.pi
        square = 4 * np.arcsin(np.sqrt(v / 2)) / np.pi
        named = {"label_error": wrong, "prediction_error": square, "label_noise": np.zeros_like(v)}
        return {**named, "label_mse": square}


def checked_signs(y: ArrayLike) -> Array:
    """Labels as an array.

    Raises:
        DataError: one is neither +1 nor -1.

    Example:
        >>> checked_signs([1, -1])
        array([ 1., -1.])
    """
    labels = np.asarray(y, dtype=float)
    bad = np.abs(labels) != 1.0
    if np.any(bad):
        raise DataError("y", labels[bad].flat[0], "labels +1 or -1")
    return labels


def _scaled_field(variance: Array) -> Array:
    """Nodes of a = omega / sqrt(V): as V + q = 1, a = sqrt(q) t leaves the weight exp(-t^2/2) for every V."""
    return np.sqrt(1 - variance)[..., None] * _T


def _average(variance: Array, f: Array) -> Estimate:
    """Trapezoid rule for E f(a), a ~ N(0, q/V), where f(a) itself falls at least as exp(-a^2/2)."""
    v = variance[..., None]
    density = np.sqrt(v / (2 * np.pi)) * np.exp(-v * _T**2 / 2) * f
    step = _T[1] - _T[0]
    value, coarse = step * density.sum(-1), 2 * step * density[..., ::2].sum(-1)
    return Estimate(value, np.abs(value - coarse) + _ROUNDING * np.abs(value))
