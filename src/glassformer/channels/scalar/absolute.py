"""The absolute value of the field, without noise: real phase retrieval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from glassformer.channels.labels import Exponents, Labels
from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.core.errors import DataError
from glassformer.numerics.quadrature import trapezoid

# Nodes of the trapezoid rules (every integral estimates its own error). Only t >= 0 and r >= 0 are stored where the
# integrand is even.
_T, _STEP = np.linspace(0.0, 13.0, 209, retstep=True)
_R = np.linspace(0.0, 42.0, 253)
_U = np.linspace(-12.0, 12.0, 161)
_ROUNDING = 1e-14
# exp(-a^2/2) is below rounding relative to one beyond this.
_FAR = 9.6
# Number of entries of one block, so that temporaries fit into the cache of the processor.
_AT_ONCE = 256


@dataclass(frozen=True)
class AbsoluteChannel(ScalarChannel):
    r"""Labels :math:`y = |h|`, without noise.

    :math:`Z_{out} = N(y;\omega,V) + N(-y;\omega,V)`, a density on :math:`y \ge 0`, :math:`E[h \mid y] =
    y\tanh(y\omega/V)` and :math:`g = (y\tanh(y\omega/V) - \omega)/V`. The information behaves as :math:`2q` for small
    overlap ``q = 1 - V`` (weak recovery at :math:`\alpha = 1/2`) and as ``1/V`` for small ``V``. Arrays broadcast;
    ``information`` and ``expected_log_partition`` take ``V`` of shape (batch,).

    Raises:
        DataError: a label is negative or not a number.

    Example:
        >>> import numpy as np
        >>> AbsoluteChannel().score(np.array([2.0]), np.array([0.0]), 1.0)
        array([0.])
        >>> q = 1e-6
        >>> bool(abs(AbsoluteChannel().information(np.array([1 - q])).value[0] / (2 * q) - 1) < 1e-4)
        True
    """

    labels = Labels(even=True, rank=1.0, exponents=Exponents(2.0, 2.0))

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        return abs

    def clean(self, h: Array) -> Array:
        """Return the absolute value of the field."""
        return np.asarray(np.abs(h), dtype=float)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        del rng
        return self.clean(h)

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        y, v = _checked(y), np.asarray(variance, dtype=float)
        return np.asarray((y * np.tanh(y * omega / v) - omega) / v)

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        y, v = _checked(y), np.asarray(variance, dtype=float)
        both = np.logaddexp(-((y - omega) ** 2) / (2 * v), -((y + omega) ** 2) / (2 * v))
        return np.asarray(both - 0.5 * np.log(2 * np.pi * v))

    def information(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        a = np.sqrt(1 - v)[..., None] * _T
        loss = _ambiguity(a)
        # 1 - loss is exact to rounding where the overlap is large, the direct average where it is small.
        missing = _average(v, loss)
        gain, small = 1 - loss, (a < 1) & (v >= 0.5)[..., None]
        gain[small] = _small_field_gain(a[small])
        direct = _average(v, gain)
        value = np.where(v < 0.5, 1 - missing.value, direct.value)
        error = np.where(v < 0.5, missing.error + _ROUNDING, direct.error)
        # Infinite at V = 0.
        with np.errstate(divide="ignore"):
            return Estimate(value / v, error / v)

    def expected_log_partition(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        a = np.sqrt(1 - v)[..., None] * _T
        sign_part = _average(v, _even_average(a, lambda x: np.cosh(x) * np.log1p(np.exp(-2 * x)) + x * np.exp(-x)))
        return Estimate(sign_part.value - 0.5 * np.log(2 * np.pi * v) - 0.5, sign_part.error + _ROUNDING)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``prediction_error``: :math:`E(|h| - E[|h|\mid\omega])^2`, of a folded normal."""
        v = np.asarray(variance, dtype=float)
        a = np.sqrt(1 - v)[..., None] * _T
        mean = np.sqrt(2 / np.pi) * np.exp(-(a**2) / 2) + a * erf(a / np.sqrt(2))
        # Far from zero the label is the field up to its sign, with its variance. Near zero the unknown sign changes the
        # square.
        gained = _average(v, mean**2 - a**2).value
        named = {"prediction_error": v * (1 - gained), "label_noise": np.zeros_like(v)}
        return {**named, "label_mse": named["prediction_error"]}


def _checked(y: ArrayLike) -> Array:
    labels = np.asarray(y, dtype=float)
    bad = ~(labels >= 0)
    if np.any(bad):
        raise DataError("y", labels[bad].flat[0], "labels >= 0")
    return labels


def _average(variance: Array, f: Array) -> Estimate:
    """Return E f(a) over a ~ N(0, q/V), by the trapezoid rule in a = sqrt(q) t.

    The density of t is proportional to sqrt(V) exp(-V t^2/2).
    """
    v = variance[..., None]
    density = np.sqrt(2 * v / np.pi) * np.exp(-v * _T**2 / 2) * f
    density[..., 0] *= 0.5
    return trapezoid(density, _STEP)


def _even_average(a: Array, f: Callable[[Array], Array], power: int = 0) -> Array:
    """Return exp(-a^2/2) E_h[h^power f(|h a|)], h standard normal; the nodes follow the decay of both weights."""
    step = _R[1] - _R[0]

    def one(a: Array) -> Array:
        scale = 1 / np.sqrt(1 + a**2)[:, None]
        h = scale * _R
        density = h**power * np.exp(-(h**2) / 2) * f(h * a[:, None])
        density[:, 0] *= 0.5
        return np.asarray(np.sqrt(2 / np.pi) * np.exp(-(a**2) / 2) * scale[:, 0] * step * density.sum(-1))

    found, near = np.zeros(a.shape), ~(a >= _FAR)  # NaN stays NaN
    found[near] = _in_parts(one, a[near])
    return found


def _in_parts(function: Callable[[Array], Array], a: Array) -> Array:
    """Apply a function to every entry of a one-dimensional array, block by block."""
    parts = [function(a[start : start + _AT_ONCE]) for start in range(0, max(len(a), 1), _AT_ONCE)]
    return np.concatenate(parts)


def _ambiguity(a: Array) -> Array:
    """Return 1 - V E[g^2 | omega] = E[h^2 sech^2(h a)], h ~ N(a, 1): the variance left by not knowing the sign."""

    def sech(x: Array) -> Array:
        decay = np.exp(-x)
        return np.asarray(2 * decay / (1 + decay**2))

    return _even_average(a, sech, power=2)


def _small_field_gain(a: Array) -> Array:
    """Return V E[g^2 | omega] = E (h tanh(h a) - a)^2, h ~ N(a, 1).

    a^2 is factored out to keep relative precision at 0.
    """
    weight = np.exp(-(_U**2) / 2) * (_U[1] - _U[0]) / np.sqrt(2 * np.pi)

    def one(a: Array) -> Array:
        h = a[:, None] + _U
        x = h * a[:, None]
        ratio = np.where(np.abs(x) < 1e-4, 1 - x**2 / 3, np.tanh(x) / np.where(x == 0, 1.0, x))
        return np.asarray(a**2 * ((h**2 * ratio - 1) ** 2 @ weight))

    return _in_parts(one, a)
