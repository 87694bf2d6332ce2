"""Channels of one row of fields, given by functions of arrays of numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from glassformer.channels.base import Channel, Inference
from glassformer.channels.field_averages import Averages, FieldPosterior, Response, Scores, Slopes
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quasi_random import normal_points

__all__ = ["Array", "Estimate", "Fields", "Labels", "ScalarChannel"]

# Relative step of finite differences of scores and of the information. Errors of rounding and of curvature are both far
# below the errors of quadratures.
_STEP = 1e-4
# A field of one number and variance one.
_NUMBER = Fields()


def minus_slope(score: Callable[[Array], Array], omega: Array, variance: Array | float) -> Array:
    """Return minus the derivative of a score in the mean, by central differences."""
    step = _STEP * np.sqrt(variance)
    return (score(omega - step) - score(omega + step)) / (2 * step)


class ScalarChannel(Channel):
    r"""An output channel :math:`P_{out}(y \mid h)`, with ``h`` of unit prior variance: a number, or ``K`` components.

    Fields of ``K`` components have shape (n, K) and isotropic variance; their scores have that shape, and the squares
    and slopes below are summed over components.

    With :math:`h = \omega + \sqrt V u`, ``u`` standard normal,
    :math:`Z_{out}(y, \omega, V) = E_u P_{out}(y \mid h)` and the score is
    :math:`g = \partial_\omega \log Z_{out} = (E[h \mid y, \omega, V] - \omega)/V`.

    In state evolution :math:`\omega \sim N(0, 1 - V)`: the overlap is :math:`q = 1 - V`. The variance is passed rather
    than the overlap because it keeps its relative precision where the signal is almost known.

    Example:
        ``docs/extending.md`` has a complete channel.
    """

    # A new channel writes these, and `labels`. They are functions of arrays of numbers.

    @abstractmethod
    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        """Draw one label per field ``h``; same shape as ``h``."""

    @abstractmethod
    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r"""Return :math:`g(y, \omega, V)`, elementwise with broadcasting.

        It is finite for every finite input and ``V > 0``.
        """

    @abstractmethod
    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r"""Return :math:`\log Z_{out}(y, \omega, V)`, elementwise with broadcasting."""

    @abstractmethod
    def information(self, variance: Array) -> Estimate:
        r"""Return :math:`E\,g^2` over :math:`\omega \sim N(0, 1-V)`, ``h`` and ``y``.

        ``variance`` is in (0, 1] and has shape (batch,).
        """

    @abstractmethod
    def expected_log_partition(self, variance: Array) -> Estimate:
        r"""Return :math:`E \log Z_{out}`, same arguments; its derivative in the overlap is half the information."""

    # A new channel may override these.

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r"""Return :math:`-\partial_\omega g`, elementwise. The default uses central differences."""
        return minus_slope(lambda mean: self.score(y, mean, variance), omega, variance)

    def score_and_curvature(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        """Return both; a channel that has them from one evaluation overrides it."""
        return self.score(y, omega, variance), self.curvature(y, omega, variance)

    def likeliest_label(self, omega: Array, variance: Array | float) -> Array:
        """Return the most probable discrete label, entry by entry, of fields with these means and one variance.

        A vanishing variance gives the labels without noise.

        Raises:
            IncompatibleError: labels are not discrete.
        """
        return super().likeliest_label(omega, np.asarray(variance))

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return the errors on a new label at posterior variance ``V``, by name. Empty if the channel defines none.

        ``prediction_error`` is the squared error of the posterior mean of the noiseless label, and ``plugin_error`` the
        squared error of the label at :math:`\omega`. ``label_noise`` is the variance of the noise: on noisy labels the
        sum is measured. Squares are summed over the entries of a label, and divided by ``error_unit``.
        ``label_error`` is the share of wrong discrete labels, without their own noise. ``label_mse`` and
        ``label_mse_plugin`` are squared errors that for some channels include the noise.
        """
        del variance
        return {}

    @property
    def without_noise(self) -> ScalarChannel:
        """The channel without label noise: without flipped labels or noise inside a threshold."""
        return self

    @property
    def fields(self) -> Fields:
        return _NUMBER

    @property
    def inference(self) -> Inference:
        return ScalarInference(self)


@dataclass(frozen=True, eq=False)
class ScalarInference(Inference):
    """Inference from the functions of a scalar channel; averages are not sampled."""

    channel: ScalarChannel

    sampled: ClassVar[bool] = False
    smallest: ClassVar[float] = 1e-14

    @property
    def points(self) -> int:
        return 2048

    def with_points(self, points: int) -> Self:
        """Return the same, since averages are not sampled."""
        del points
        return self

    def _flat(self, fields: Array) -> Array:
        """Return fields of shape (n, 1, K) in the shape of the functions of the channel."""
        return fields.reshape(len(fields), *self.channel.fields.shape)

    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        score, slope = self.channel.score_and_curvature(y, self._flat(omega), float(variance[0, 0]))
        both = score.reshape(omega.shape)
        return Scores(both, both, slope.reshape(-1, 1, 1))

    def log_partitions(self, y: Array, omega: Array, variance: Array) -> Array:
        return self.channel.log_partition(y, self._flat(omega), float(variance[0, 0]))

    def likeliest_labels(self, mean: Array, variance: Array) -> Array:
        return self.channel.likeliest_label(self._flat(mean), float(variance[0, 0]))

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        flat, v = self._flat(omega), variance[:, 0, 0]
        score, slope = self.channel.score_and_curvature(y, flat, v)
        both, log_partition = score.reshape(omega.shape), self.channel.log_partition(y, flat, v)
        return (FieldPosterior(both, both, slope.reshape(-1, 1, 1), log_partition),)

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        """Return the slopes for fields of one component."""
        slope = -self.channel.score_and_curvature(y, self._flat(omega), variance[:, 0, 0])[1].reshape(-1, 1, 1, 1, 1)
        return [(slope, slope)]

    def labels_from(self, fields: Array, source: Array, rng: np.random.Generator) -> Array:
        del source
        return self.channel.sample(self._flat(fields), rng)

    def information(self, variance: Array) -> Estimate:
        return Estimate(*(part.reshape(-1, 1, 1) for part in self.channel.information(np.ravel(variance))))

    def averages(self, variance: Array) -> Averages:
        found = self.information(variance)
        log_partition = self.channel.expected_log_partition(np.ravel(variance))
        return Averages(found, log_partition, found.value[:, None], 0.0, np.zeros_like(found.value))

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        """Return averages and the derivative of the information, by finite differences since nothing is sampled."""
        step = 2 * _STEP * float(variance[0, 0])
        most = min(float(variance[0, 0]) * (1 + _STEP), self.channel.fields.power)
        more, less = self.channel.information(np.array([most - step, most])).value
        return self.averages(variance[None]), np.array([[(more - less) / step]])

    def response(self, variance: Array, known: int = 0, wider: Array | None = None) -> Response:
        """Return slopes of the score on sampled data points, for fields of one component."""
        points = normal_points(2, self.points, REPLICAS)[:, known:].reshape(-1, 2)
        v, stretch = float(variance[0, 0]), 1.0 if wider is None else float(np.sqrt(1 + 4 * wider[0, 0]))
        omega, u = np.sqrt(max(self.channel.fields.power - v, 0.0)) * points[:, 0], stretch * points[:, 1]
        labels = self.channel.sample(self._flat(omega + np.sqrt(v) * u), np.random.default_rng(0))
        slope = -self.channel.curvature(labels, omega, v)
        weight = stretch * np.exp(-0.5 * (u**2 - points[:, 1] ** 2))
        both, truth = (part.reshape(-1, 1, 1, 1, 1) for part in (slope, (u**2 - 1) / v))
        return Response(both, both, truth, weight, REPLICAS)

    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        """Return the errors of :meth:`label_error`."""
        del last_layer, decisions
        return {name: np.asarray(value) for name, value in self.channel.label_error(variance[:, 0, 0]).items()}


class PowerChannel(ScalarChannel):
    """A channel that depends on the prior variance of its field, the field ``power`` of its dataclass."""

    power: float

    @property
    def fields(self) -> Fields:
        return Fields(power=self.power)
