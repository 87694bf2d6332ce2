r"""Averages of a loss over the labels of one row, by quadrature.

The label averages of matrices (:mod:`glassformer.risk.label_averages`) hold for one row of power one: true and fitted
field have the same joint law. Two things are added. Labels +1 and -1 have a probability that is a function of the true
field, constant between steps or smooth, from which :math:`Z_0` follows without the posterior of the channel. And an
intercept ``b``, a number added to the fitted field, is the one with :math:`E\,g = 0`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

from glassformer.core.cache import memoize
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.risk.label_averages import _AROUND_STEP, EMPTY, LabelAverages, SampleAverages, _column, _normal_panels
from glassformer.risk.penalties import OrderParameters

# Fields at which the probability of a label is tabulated, and the largest difference that is rounding between steps.
_REACH, _TABULATED, _CONSTANT = 9.0, 4001, 1e-12
# Trapezoid rule over the true field given the fitted one: standard deviations, and nodes per Gauss node of a panel.
_DEVIATIONS, _PER_NODE = 8.5, 3
# Newton steps for the intercept, the step that ends them, and the longest step.
_STEPS, _LAST_STEP, _LONGEST = 60, 1e-11, 2.0


class BinaryLaw(NamedTuple):
    r"""Probability of the label +1 as a function of the true field.

    Attributes:
        steps: fields at which it jumps.
        levels: its values between them, one more than steps; empty where it is no step function.
        smooth: spline of it otherwise.
    """

    steps: Array
    levels: Array
    smooth: Any

    @classmethod
    def of(cls, channel: Any) -> BinaryLaw:
        """Return the law of a channel of labels +1 and -1."""
        steps = np.array(sorted(channel.steps))
        edges = np.concatenate([[-_REACH], steps, [_REACH]])
        inner = edges[:-1, None] + np.diff(edges)[:, None] * np.array([0.02, 0.3, 0.5, 0.7, 0.98])
        levels = _chance(channel, inner.ravel()).reshape(inner.shape)
        if np.all(np.ptp(levels, axis=1) < _CONSTANT):
            return cls(steps, levels[:, 2], None)
        if steps.size:
            raise IncompatibleError(f"channel {channel.label} has no quadrature over labels with steps and slopes")
        h = np.linspace(-_REACH, _REACH, _TABULATED)
        return cls(steps, np.zeros(0), CubicSpline(h, _chance(channel, h)))

    @property
    def odd(self) -> bool:
        """Whether labels of opposite fields are opposite."""
        if not self.levels.size:
            h = np.linspace(0.0, _REACH, 97)
            return bool(np.max(np.abs(self.smooth(h) + self.smooth(-h) - 1)) < _CONSTANT)
        mirrored = np.allclose(self.steps, -self.steps[::-1], atol=_CONSTANT)
        return bool(mirrored and np.allclose(self.levels, 1 - self.levels[::-1], atol=_CONSTANT))

    def chance(self, field: Array, variance: Array, nodes: int) -> tuple[Array, Array]:
        """Return the probability of +1 for a true field of this mean and variance, and its slope in the mean."""
        root = np.sqrt(variance)
        if self.levels.size:
            chance, slope = np.full(field.shape, self.levels[0]), np.zeros(field.shape)
            for step, height in zip(self.steps, np.diff(self.levels), strict=True):
                x = (field - step) / root
                chance += height * ndtr(x)
                slope += height / np.sqrt(2 * np.pi) * np.exp(-0.5 * x**2) / root
            return chance, slope
        u, width = np.linspace(-_DEVIATIONS, _DEVIATIONS, _PER_NODE * nodes, retstep=True)
        chance, slope = np.zeros(field.shape), np.zeros(field.shape)
        for deviation, weight in zip(u, width * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi), strict=True):
            value = weight * self.smooth(np.clip(field + root * deviation, -_REACH, _REACH))
            chance += value
            slope += deviation / root * value
        return chance, slope


def _chance(channel: Any, field: Array) -> Array:
    return np.asarray(np.exp(channel.log_partition(np.ones_like(field), field, np.full_like(field, EMPTY))))


@dataclass(frozen=True)
class OneRowAverages(LabelAverages):
    """Averages over the labels of a channel of one field, for a linear student of one row.

    Attributes:
        intercept: whether a number is fitted that is added to the field.
    """

    has_intercept: bool = field(default=False, kw_only=True)

    @property
    def exact_components(self) -> float:
        slope, rest = self.regression
        return 1.0 if rest <= EMPTY * slope**2 else 0.0

    @cached_property
    def mean_label(self) -> float:
        """Mean of the label."""
        if self.channel.values:
            y, nothing = np.array(self.channel.values), np.zeros(len(self.channel.values))
            return float(np.exp(self.channel.log_partition(y, nothing, 1.0)) @ y)
        nodes = self.channel.label_nodes()
        return float(nodes.weight @ nodes.y)

    @cached_property
    def regression(self) -> tuple[float, float]:
        slope, rest = super().regression
        return slope, rest - (self.mean_label**2 if self.has_intercept else 0.0)

    @cached_property
    def law(self) -> BinaryLaw:
        """Probability of the label +1."""
        law: BinaryLaw = memoize(lambda: BinaryLaw.of(self.channel), "law of binary labels", self.channel)
        return law

    @property
    def mirrored(self) -> bool:
        """Whether both labels have the same averages."""
        return self.loss.binary and not self.has_intercept and self.law.odd

    def averages(self, order: OrderParameters) -> SampleAverages:
        """Return the averages at these order parameters."""
        if self.loss.quadratic:
            return self._square(order)
        return self._at_intercept(order, self.intercept(order))

    def intercept(self, order: OrderParameters) -> Array:
        r"""Return the intercept, with :math:`E\,g = 0`, at these order parameters; zero without one."""
        shift = np.zeros_like(order.power)
        if not self.has_intercept:
            return shift
        if self.loss.quadratic:
            return np.full_like(shift, self.mean_label)
        for _ in range(_STEPS):
            weight, score, curvature = self._scores(order, shift)
            slope = np.maximum(_total(weight * curvature), EMPTY)
            step = np.clip(_total(weight * score) / slope, -_LONGEST, _LONGEST)
            shift = shift + step
            if np.all(np.abs(step) <= _LAST_STEP * (1 + np.abs(shift))):
                break
        return shift

    def slope_square(self, order: OrderParameters) -> Array:
        r"""Return :math:`E(\partial_\omega g)^2`."""
        if self.loss.quadratic:
            return self._square(order).v_hat ** 2
        weight, _, curvature = self._scores(order, self.intercept(order))
        return _total(weight * curvature**2)

    def _scores(self, order: OrderParameters, shift: Array) -> tuple[Array, Array, Array]:
        nodes = self._label_nodes(order, shift)
        return nodes.weight, *self.loss.score(nodes.y, nodes.omega, _column(order.susceptibility))

    def _at_intercept(self, order: OrderParameters, shift: Array) -> SampleAverages:
        y, omega, weight, truth = self._label_nodes(order, shift)
        v = _column(order.susceptibility)
        score, curvature = self.loss.score(y, omega, v)
        losses = (self.loss.value(y, fitted) for fitted in (omega + v * score, omega))
        values = (truth * score, *(weight * part for part in (score**2, curvature, *losses)))
        return SampleAverages(*(_total(part) for part in values))

    def _label_nodes(self, order: OrderParameters, shift: Array) -> _Nodes:
        return self._binary_nodes(order, shift) if self.binary else self._continuous_nodes(order, shift)

    def _binary_nodes(self, order: OrderParameters, shift: Array) -> _Nodes:
        y = np.array([[1.0]]) if self.mirrored else np.array([[-1.0], [1.0]])
        root, m, b = np.sqrt(_column(order.power)), _column(order.overlap), shift[:, None, None]
        variance = np.maximum(self.power - (m / root) ** 2, EMPTY)
        cuts = [(part - b) / root for part in self.loss.breakpoints(y, _column(order.susceptibility))]
        cuts += [(step + _AROUND_STEP * np.sqrt(variance)) * root / m for step in self.law.steps]
        edges = [np.broadcast_to(part, (len(root), len(y), part.shape[-1])) for part in cuts]
        t, weight = _normal_panels(edges, self.nodes)
        chance, slope = self.law.chance(m / root * t, variance, self.nodes)
        truth = weight * y * slope
        chance = np.where(y > 0, chance, 1 - chance) * weight
        factor = 2.0 if self.mirrored else 1.0
        return _Nodes(y, root * t + b, factor * chance, factor * truth)

    def _continuous_nodes(self, order: OrderParameters, shift: Array) -> _Nodes:
        q, m, b = _column(order.power), _column(order.overlap), shift[:, None, None]
        y, probability, mean, spread = (part[:, None] for part in self._nodes)
        slope, variance = m / self.power, np.maximum(self.power - m**2 / q, EMPTY)
        centre, width = slope * mean + b, np.sqrt(np.maximum(q - m * slope + slope**2 * spread, EMPTY**2))
        cuts = [(place - centre) / width for place in self.loss.breakpoints(y, _column(order.susceptibility))]
        edges = [np.broadcast_to(part, (len(q), len(y), part.shape[-1])) for part in cuts]
        t, weight = _normal_panels(edges, self.nodes)
        omega, true = centre + width * t, mean + slope * spread / width * t
        weight = weight * probability
        return _Nodes(y, omega, weight, weight * (true - m / q * (omega - b)) / variance)

    def label_error(self, order: OrderParameters) -> Array:
        """Return the share of new labels +1 and -1 that the sign of the fitted field misses; shape (batch,).

        Labels are without their own noise where they have any without it.
        """
        channel = self.channel.without_noise
        clean = replace(self, channel=channel, has_intercept=False, loss=self.loss)
        shift = self.intercept(order)
        root, m = np.sqrt(np.minimum(_column(order.power), 1 / EMPTY)), _column(order.overlap)
        m = np.minimum(m, root)
        variance = np.maximum(self.power - (m / root) ** 2, EMPTY)
        cuts = [-shift[:, None, None] / root]
        cuts += [(step + _AROUND_STEP * np.sqrt(variance)) * root / np.maximum(m, EMPTY) for step in clean.law.steps]
        t, weight = _normal_panels([np.broadcast_to(part, (len(root), 1, part.shape[-1])) for part in cuts], self.nodes)
        chance, _ = clean.law.chance(m / root * t, variance, self.nodes)
        positive = root * t + shift[:, None, None] > 0
        return _total(weight * np.where(positive, 1 - chance, chance))

    def prediction_error(self, order: OrderParameters) -> Array:
        """Return the mean squared difference of new labels, without their noise, from the fitted field."""
        slope, rest = self.regression
        noise = float(self.channel.label_noise)
        square = rest - noise + slope**2 * self.power - 2 * slope * order.overlap + order.power
        mean = self.mean_label if self.has_intercept else 0.0
        return np.asarray(square + (self.intercept(order) - mean) ** 2) / float(self.channel.error_unit)

    def margins(self) -> tuple[Array, Array]:
        y = np.array([[1.0], [-1.0]])
        steps = [np.broadcast_to(step, (2, 1)) for step in [*self.law.steps, -1.0, 1.0]]
        t, weight = _normal_panels(steps, self.nodes)
        chance, _ = self.law.chance(t, np.full_like(t, EMPTY), self.nodes)
        return (y * t).ravel(), (weight * np.where(y > 0, chance, 1 - chance)).ravel()


class _Nodes(NamedTuple):
    r"""Nodes of labels and fitted fields.

    Attributes:
        y: labels.
        omega: fitted fields, intercept included.
        weight: probabilities.
        truth: probabilities times :math:`\partial_{\omega_0}\log Z_0`.
    """

    y: Array
    omega: Array
    weight: Array
    truth: Array


def _total(values: Array) -> Array:
    return np.asarray(np.sum(values, axis=(1, 2)))
