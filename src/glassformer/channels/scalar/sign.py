"""Sign of the field: without noise, and with noise and a constant inside the sign."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from glassformer.channels.labels import Exponents, Labels
from glassformer.channels.scalar.base import PowerChannel, ScalarChannel
from glassformer.core.checks import is_number
from glassformer.core.errors import DataError, ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.normal import inverse_mills_ratio
from glassformer.numerics.quadrature import gauss_panels, trapezoid

# Nodes of the trapezoid rule, in standard deviations. Every integral estimates its own error.
_NODES, _STEP = np.linspace(-12.0, 12.0, 193, retstep=True)
_ROUNDING = 1e-14
# Gauss panels of wrong labels: where standard normal variables end, and nodes of a panel.
_TAIL, _PANEL_NODES = 8.5, 24


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

    labels = Labels(discrete=True, values=(-1.0, 1.0), exponents=Exponents(1.0, 1.0))

    def clean(self, h: Array) -> Array:
        """Return the sign, +1 at zero."""
        return np.where(np.asarray(h) >= 0, 1.0, -1.0)

    def likeliest_label(self, omega: Array, variance: Array | float) -> Array:
        del variance
        return self.clean(omega)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        del rng
        return self.clean(h)

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        y, scale = checked_signs(y), np.sqrt(np.asarray(variance, dtype=float))
        return np.asarray(y * inverse_mills_ratio(y * omega / scale) / scale)

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return np.asarray(log_ndtr(checked_signs(y) * omega / np.sqrt(np.asarray(variance, dtype=float))))

    def information(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        a = _scaled_field(v)
        # phi^2/Phi; both labels contribute the same.
        integral = _average(v, 2 * inverse_mills_ratio(a) * np.exp(-(a**2) / 2) / np.sqrt(2 * np.pi))
        # Infinite at V = 0: the integral vanishes as the root of the variance.
        with np.errstate(divide="ignore", invalid="ignore"):
            return Estimate(np.where(v > 0, integral.value / v, np.inf), np.where(v > 0, integral.error / v, 0.0))

    def expected_log_partition(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        log_phi = log_ndtr(_scaled_field(v))
        return _average(v, 2 * np.exp(log_phi) * log_phi)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``label_error``, :math:`\arccos(\sqrt q)/\pi`.

        The ``prediction_error`` is :math:`1 - (2/\pi)\arcsin q`.
        """
        v = np.asarray(variance, dtype=float)
        # Half-angle forms keep the relative precision where V is small.
        wrong = np.arcsin(np.sqrt(v)) / np.pi
        square = 4 * np.arcsin(np.sqrt(v / 2)) / np.pi
        named = {"label_error": wrong, "prediction_error": square, "label_noise": np.zeros_like(v)}
        return {**named, "label_mse": square}


@dataclass(frozen=True)
class NoisySignChannel(PowerChannel):
    r"""Labels :math:`y = \mathrm{sign}(h + b + \sqrt\Delta\,z)`, each +1 or -1, ``z`` standard normal: a probit model.

    With :math:`t = (\omega + b)/\sqrt{\Delta + V}`: :math:`Z_{out} = \Phi(yt)`, and the score is
    :math:`g = y\,\phi(t)/(\sqrt{\Delta + V}\,\Phi(yt))`. The constant makes one class rarer than the other.

    Args:
        noise: variance :math:`\Delta\ge 0` of the noise inside the sign.
        offset: :math:`b`.
        power: :math:`Q_0`, variance of the field: of attention indices :math:`1 + \rho`.

    Raises:
        ParameterError: an argument is out of range.
        DataError: a label is neither +1 nor -1.

    Example:
        >>> channel = NoisySignChannel(noise=1.0)
        >>> bool(np.isclose(channel.information(np.array([1.0])).value[0], 1 / np.pi))
        True
    """

    noise: float = 0.0
    offset: float = 0.0
    power: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.noise) and 0 <= self.noise < np.inf):
            raise ParameterError("noise", self.noise, "finite and >= 0")
        if not (is_number(self.offset) and np.isfinite(self.offset)):
            raise ParameterError("offset", self.offset, "a finite number")
        if not (is_number(self.power) and 0 < self.power < np.inf):
            raise ParameterError("power", self.power, "finite and > 0")

    @property
    def label(self) -> str:
        return "noisy-sign"

    @cached_property
    def labels(self) -> Labels:
        total = self.power + self.noise
        slope = float(np.sqrt(2 / (np.pi * total)) * np.exp(-0.5 * self.offset**2 / total))
        return Labels(
            discrete=True,
            values=(-1.0, 1.0),
            steps=(-self.offset,),
            exponents=Exponents(1.0, 1.0),
            regression=(slope, 1 - slope**2 * self.power),
        )

    def likeliest_label(self, omega: Array, variance: Array | float) -> Array:
        del variance
        return np.where(np.asarray(omega) + self.offset >= 0, 1.0, -1.0)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        return self.likeliest_label(h + np.sqrt(self.noise) * rng.standard_normal(np.shape(h)), 0.0)

    def chance(self, omega: Array, variance: Array | float) -> Array:
        """Return the probability of the label +1, elementwise."""
        return np.asarray(ndtr(self._distance(omega, variance)))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        y = checked_signs(y)
        return np.asarray(y * inverse_mills_ratio(y * self._distance(omega, variance)) / self._width(variance))

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        y = checked_signs(y)
        t = y * self._distance(omega, variance)
        ratio = inverse_mills_ratio(t)
        return np.asarray(ratio * (ratio + t) / self._width(variance) ** 2)

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return np.asarray(log_ndtr(checked_signs(y) * self._distance(omega, variance)))

    def information(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        t = self._nodes(v)
        found = self._average(v, (inverse_mills_ratio(t) + inverse_mills_ratio(-t)) / np.sqrt(2 * np.pi))
        width = self._width(v) ** 2
        return Estimate(found.value / width, found.error / width)

    def expected_log_partition(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        t = self._nodes(v)
        # Phi log Phi falls as the density in both tails: in logarithms nothing overflows before it is multiplied.
        parts = (log_ndtr(s * t) * np.exp(log_ndtr(s * t) + 0.5 * t**2) for s in (1, -1))
        return self._average(v, sum(parts, np.zeros_like(t)))

    @property
    def without_noise(self) -> NoisySignChannel:
        return replace(self, noise=0.0)

    def label_error(self, variance: Array) -> dict[str, Array]:
        """Return ``label_error``: the share of new noiseless labels that differ from the more probable label."""
        return {"label_error": self.without_noise.missed(variance)}

    def missed(self, variance: Array) -> Array:
        """Return the share of new noisy labels that differ from the more probable label."""
        v = np.asarray(variance, dtype=float)
        spread = np.maximum(np.sqrt(np.maximum(self.power - v, 0.0)), _ROUNDING)[:, None]
        edges = [np.broadcast_to([-_TAIL, 0.0, _TAIL], (len(v), 3))]
        width = np.maximum(self._width(v), _ROUNDING)[:, None]
        edges += [(-self.offset + step * width) / spread for step in (-8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0)]
        x, weight = gauss_panels(np.sort(np.clip(np.concatenate(edges, axis=1), -_TAIL, _TAIL), axis=1), _PANEL_NODES)
        t = (spread * x + self.offset) / width
        density = weight * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
        return np.asarray(np.sum(density * ndtr(-np.abs(t)), axis=1))

    def _width(self, variance: Array | float) -> Array:
        return np.sqrt(self.noise + np.asarray(variance, dtype=float))

    def _distance(self, omega: Array, variance: Array | float) -> Array:
        return np.asarray((omega + self.offset) / self._width(variance))

    def _nodes(self, variance: Array) -> Array:
        r"""Return the nodes in ``t``: the weight of ``omega`` times :math:`e^{-t^2/2}` is normal."""
        s, q, total = self._width(variance)[:, None], self.power - variance[:, None], self.power + self.noise
        return np.asarray(s * self.offset / total + np.sqrt(q / total) * _NODES)

    def _average(self, variance: Array, f: Array) -> Estimate:
        r"""Return the trapezoid rule for :math:`E[f\,e^{-t^2/2}]`, where ``f`` grows slowly."""
        total = self.power + self.noise
        weight = self._width(variance) * np.exp(-0.5 * self.offset**2 / total) / np.sqrt(2 * np.pi * total)
        density = weight[:, None] * np.exp(-0.5 * _NODES**2) * f
        return trapezoid(density, _STEP)


def checked_signs(y: ArrayLike) -> Array:
    """Return labels as an array.

    Raises:
        DataError: a label is neither +1 nor -1.

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
    """Return nodes of a = omega / sqrt(V): as V + q = 1, a = sqrt(q) t leaves the weight exp(-t^2/2) for every V."""
    return np.sqrt(1 - variance)[..., None] * _NODES


def _average(variance: Array, f: Array) -> Estimate:
    """Return the trapezoid rule for E f(a), a ~ N(0, q/V), where f(a) itself falls at least as exp(-a^2/2)."""
    v = variance[..., None]
    density = np.sqrt(v / (2 * np.pi)) * np.exp(-v * _NODES**2 / 2) * f
    return trapezoid(density, _STEP)
