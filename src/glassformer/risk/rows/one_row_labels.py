"""Laws of the labels of one field, in the form that averages of losses need."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

from glassformer.channels.confusion import confusion_law
from glassformer.channels.label_laws import LabelLaw, label_law
from glassformer.channels.link.contract import Link, array_link
from glassformer.channels.link.label_law import label_support, log_probabilities
from glassformer.channels.link.piecewise import find_pieces
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.models.smi import SequenceMultiIndex
from glassformer.numerics.quadrature import gauss_panels
from glassformer.risk.label_averages import EMPTY, _normal_panels

# Fields at which the probability of a label is tabulated, and the largest difference that is rounding between steps.
_REACH, _TABULATED, _CONSTANT = 9.0, 4001, 1e-12
# Trapezoid rule over the true field given the fitted one: standard deviations, and nodes per Gauss node of a panel.
_DEVIATIONS, _PER_NODE = 8.5, 2
# Quantiles of a continuous law between which its density is integrated, on so many Gauss nodes each.
_TAILS = 10.0 ** np.array([-15, -11, -8, -6, -4, -3, -2, -1])
_QUANTILES = np.concatenate([_TAILS, [0.3, 0.5, 0.7], 1 - _TAILS[::-1]])
_LAW_NODES = 12
# Gauss nodes of each panel of the field, panels between breaks of the link, and weights that are rounding.
_FIELD_NODES, _PANELS, _NEGLIGIBLE = 16, np.arange(-8.0, 8.1, 2.0), 1e-18


def has_identity_link(model: SequenceMultiIndex) -> bool:
    """Return whether the link of a model of one index and one token is the field itself, noise apart."""
    h = np.linspace(-4.0, 4.0, 33)
    return bool(np.allclose(Link(cast(Any, model.link), (1, 1))(h[:, None, None]), h, rtol=1e-14, atol=0))


class UniformSpline(NamedTuple):
    """A cubic spline on equidistant nodes: finding the piece of a point takes no search.

    Attributes:
        coefficients: of every piece, the highest power first, shape (4, pieces).
        start: first node.
        spacing: of the nodes.
    """

    coefficients: Array
    start: float
    spacing: float

    @classmethod
    def of(cls, x: Array, values: Array) -> UniformSpline:
        """Return the spline through values at equidistant nodes."""
        return cls(CubicSpline(x, values).c, float(x[0]), float(x[1] - x[0]))

    def __call__(self, x: Array) -> Array:
        place = (x - self.start) / self.spacing
        piece = np.minimum(place.astype(np.int64), self.coefficients.shape[1] - 1)
        rest = (place - piece) * self.spacing
        cubic, square, linear, constant = (part.take(piece) for part in self.coefficients)
        return np.asarray(((cubic * rest + square) * rest + linear) * rest + constant)


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
    def of(cls, model: SequenceMultiIndex) -> BinaryLaw:
        """Return the law of a model whose labels are +1 and -1.

        Raises:
            IncompatibleError: the probability has jumps and slopes.
        """
        if model.noise_law is None or confusion_law(model.noise_law) is not None:
            return cls.of_channel(model.channel)
        law, pieces = (
            log_probabilities(label_law(model.noise_law)),
            find_pieces(array_link(Link(cast(Any, model.link), (1, 1)))),
        )
        h = np.linspace(-_REACH, _REACH, _TABULATED)
        return cls._smooth(pieces.breaks, h, np.exp(law(np.ones_like(h), np.asarray(pieces.link(h), dtype=float))))

    @classmethod
    def of_channel(cls, channel: Any) -> BinaryLaw:
        """Return the law of a channel whose labels are +1 and -1.

        Raises:
            IncompatibleError: the probability has jumps and slopes.
        """
        steps = np.array(sorted(channel.labels.steps))
        edges = np.concatenate([[-_REACH], steps, [_REACH]])
        inner = edges[:-1, None] + np.diff(edges)[:, None] * np.array([0.02, 0.3, 0.5, 0.7, 0.98])
        levels = _chance(channel, inner.ravel()).reshape(inner.shape)
        if np.all(np.ptp(levels, axis=1) < _CONSTANT):
            return cls(steps, levels[:, 2], None)
        h = np.linspace(-_REACH, _REACH, _TABULATED)
        return cls._smooth(steps, h, _chance(channel, h))

    @classmethod
    def _smooth(cls, steps: Array, h: Array, chances: Array) -> BinaryLaw:
        if steps.size:
            raise IncompatibleError("labels +1 and -1 whose probability has both jumps and slopes have no quadrature")
        return cls(steps, np.zeros(0), UniformSpline.of(h, chances))

    @property
    def odd(self) -> bool:
        """Whether labels of opposite fields are opposite."""
        if not self.levels.size:
            h = np.linspace(0.0, _REACH, 97)
            return bool(np.max(np.abs(self.smooth(h) + self.smooth(-h) - 1)) < _CONSTANT)
        mirrored = np.allclose(self.steps, -self.steps[::-1], atol=_CONSTANT)
        return bool(mirrored and np.allclose(self.levels, 1 - self.levels[::-1], atol=_CONSTANT))

    def chance(self, field: Array, variance: Array, nodes: int) -> tuple[Array, Array]:
        """Return the probability of +1 for a true field of this mean and variance, and its slope in the mean.

        Args:
            field: mean of the true field.
            variance: of the true field, > 0.
            nodes: accuracy where the probability is smooth.
        """
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


class JointNodes(NamedTuple):
    """Quadrature over labels and true fields, shape (nodes,).

    Attributes:
        y: labels, without their Gaussian noise.
        field: true field.
        weight: probabilities.
        noise: variance of Gaussian noise on the labels.
        own_noise: mean variance of the label given the field.
        field_variance: variance of the true field around that of a node; one for classes, whose means nodes are.
    """

    y: Array
    field: Array
    weight: Array
    noise: float
    own_noise: float
    field_variance: float = 0.0

    @classmethod
    def of(cls, model: Any) -> JointNodes:
        """Return the nodes of a model of one index and one token."""
        states = model.channel.fields.states
        if states is not None:
            return cls(states.labels, states.shifts[:, 0, 0], states.probabilities, 0.0, 0.0, 1.0)
        pieces = find_pieces(array_link(Link(model.link, (1, 1))))
        h, weight = _normal_panels([np.concatenate([_PANELS, pieces.breaks])], _FIELD_NODES)
        h, weight = h[weight > _NEGLIGIBLE], weight[weight > _NEGLIGIBLE]
        link = np.asarray(pieces.link(h), dtype=float)
        if model.noise_law is None:
            return cls(link, h, weight, float(model.noise), float(model.noise))
        if confusion_law(model.noise_law) is not None:
            values = np.array(model.channel.labels.values)
            chances = np.exp(model.channel.log_partition(values, h[:, None], np.full((1, 1), EMPTY)))
            return cls._product(h, weight, np.broadcast_to(values, chances.shape), chances)
        law = label_law(model.noise_law)
        support = label_support(law, link[:: max(1, len(link) // 64)])
        return cls._product(h, weight, *(_continuous(law, link) if support is None else _discrete(law, link)))

    @classmethod
    def _product(cls, h: Array, weight: Array, y: Array, chances: Array) -> JointNodes:
        mean = np.sum(chances * y, axis=1)
        own_noise = float(weight @ np.sum(chances * (y - mean[:, None]) ** 2, axis=1))
        weights, fields = weight[:, None] * chances, np.broadcast_to(h[:, None], y.shape)
        kept = weights > _NEGLIGIBLE
        return cls(y[kept], fields[kept], weights[kept], 0.0, own_noise)

    @property
    def mean(self) -> float:
        """Mean of the label."""
        return float(self.weight @ self.y)

    @property
    def regression(self) -> tuple[float, float]:
        """Slope of the label on the field, and the variance of the rest around zero."""
        slope = float(self.weight @ (self.y * self.field))
        return slope, max(float(self.weight @ self.y**2) - slope**2, 0.0) + self.noise

    def with_noise(self, nodes: int) -> JointNodes:
        """Return nodes of noisy labels."""
        if self.noise == 0:
            return self
        x, weight = _normal_panels([np.zeros(1)], nodes)
        y = self.y[:, None] + np.sqrt(self.noise) * x
        fields = np.broadcast_to(self.field[:, None], y.shape)
        weights = self.weight[:, None] * weight
        kept = weights > _NEGLIGIBLE
        return JointNodes(y[kept], fields[kept], weights[kept], 0.0, self.own_noise, self.field_variance)


def _continuous(law: LabelLaw, link: Array) -> tuple[Array, Array]:
    """Return labels and their probabilities at values of the link, shape (links, labels)."""
    edges = np.asarray(law.quantile(*np.broadcast_arrays(link[:, None], _QUANTILES)), dtype=float)
    y, width = gauss_panels(edges, _LAW_NODES)
    return y, width * np.exp(log_probabilities(law)(y, np.broadcast_to(link[:, None], y.shape)))


def _discrete(law: LabelLaw, link: Array) -> tuple[Array, Array]:
    support = label_support(law, link)
    if support is None:
        raise IncompatibleError(f"noise_law = {law.label} has more labels than can be summed over")
    y = np.broadcast_to(support, (len(link), len(support)))
    return y, np.exp(log_probabilities(law)(y, np.broadcast_to(link[:, None], y.shape)))
