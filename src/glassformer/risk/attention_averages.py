r"""Averages of cross-entropy over all indices of a sample, which give conjugate parameters from order parameters.

Fields have ``K`` components of equal variance. Scores are vectors; their squares and derivatives are summed over
components (see :mod:`glassformer.risk.label_averages` for losses of one field). Labels and loss do not depend on the
component along the all-ones matrix, which is omitted. With :math:`\omega = \frac m{Q_0}h + s\,t`,
:math:`s^2 = q - m^2/Q_0` and standard normal ``t``, an integration by parts replaces the law of the label:

.. math:: Q_0\,E\,\partial_{\omega_0}\!\log Z_0\cdot g = E\,h\cdot g - m\,E\,\mathrm{Tr}\,\partial_\omega g.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr

from glassformer.channels.attention.hardmax_pair import CORRELATION, orthant
from glassformer.channels.attention.prediction import row_disagreement
from glassformer.channels.attention.shares import shares_of
from glassformer.channels.attention.softmax import all_ones
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels
from glassformer.numerics.quasi_random import normal_points
from glassformer.risk.label_averages import EMPTY, SMALLEST, TAIL, LabelAverages, SampleAverages
from glassformer.risk.loss_base import Loss
from glassformer.risk.order_parameters import OrderParameters

# Numbers of nodes at increasing accuracy: Gauss nodes per panel of the plane of row differences, Gauss nodes per
# variable of product rules, sampled points per replica (chosen by trial: each accuracy confirms the one before).
_PLANE_NODES = (6, 10, 15, 22, 33)
_PRODUCT_NODES = (7, 10, 14, 19, 26, 34)
_POINTS = (256, 8192)
# Probability below which nodes are dropped: of the plane at the first accuracy and at later ones, of product rules.
_NEGLIGIBLE, _NEGLIGIBLE_PRODUCT = (1e-10, 1e-18), 1e-14
# Ends of panels around a fast change, in units of its width, used if the width is below the limit.
_AROUND, _NARROW = np.array([-6.0, -2.0, 2.0, 6.0]), 0.3


@dataclass(frozen=True)
class AttentionAverages(LabelAverages):
    """Averages over labels of attention, which are rows of probabilities.

    Attributes:
        accuracy: index of the accuracy, 0 for the lowest.
    """

    accuracy: int = 0

    accuracies: ClassVar[int]
    """Number of accuracies."""

    @property
    def finer(self) -> LabelAverages | None:
        return replace(self, accuracy=self.accuracy + 1) if self.accuracy + 1 < self.accuracies else None

    @cached_property
    def regression(self) -> tuple[float, float]:
        unlearned = self.averages(OrderParameters(*(np.zeros(1) for _ in OrderParameters._fields)))
        slope = float(unlearned.m_hat[0]) / self.components
        return slope, float(unlearned.q_hat[0]) / self.components - slope**2

    @property
    def exact_components(self) -> float:
        return float(self.channel.labels.rank)

    @property
    def has_label_error(self) -> bool:
        return bool(self.channel.labels.discrete)

    @property
    def tokens(self) -> int:
        """``T``."""
        return int(self.channel.tokens)

    def targets(self, labels: Array) -> Array:
        return np.asarray(shares_of(self.channel, labels))

    def label_error(self, order: OrderParameters) -> Array:
        cosine = order.overlap / np.sqrt(np.maximum(order.power, SMALLEST) * self.power)
        return row_disagreement(self.tokens, np.minimum(cosine, 1.0))

    def averages(self, order: OrderParameters) -> SampleAverages:
        state = zip(order.overlap, order.power, order.susceptibility, strict=True)
        return SampleAverages(*np.array([self._averages(*map(float, row)) for row in state]).T)

    @abstractmethod
    def _averages(self, overlap: float, power: float, susceptibility: float) -> list[float]:
        """Return the entries of :class:`~glassformer.risk.label_averages.SampleAverages` at one state."""


def attention_averages(channel: Any, power: float, loss: Loss) -> AttentionAverages:
    """Return the averages for the labels of a channel: quadrature for two tokens, quasi-random points for more.

    Raises:
        IncompatibleError: labels are not rows of probabilities.
    """
    shares_of(channel, channel.sample(np.zeros((1, *channel.fields.shape)), np.random.default_rng(0)))
    if channel.tokens != 2:
        return SampledAverages(channel, power, loss)
    return (HardmaxAverages if channel.labels.discrete else ProductAverages)(channel, power, loss)


# Hardmax labels of two tokens: the plane of row differences --------------------------------------------------------


class HardmaxAverages(AttentionAverages):
    """Two tokens with hardmax labels: quadrature over the plane of row differences, with closed-form label laws."""

    accuracies = len(_PLANE_NODES)

    def _averages(self, overlap: float, power: float, susceptibility: float) -> list[float]:
        m, q = max(overlap, EMPTY), max(power, EMPTY)
        variance = max(self.power - m**2 / q, EMPTY)
        nodes = _plane_nodes(self._edges(m, q, variance, susceptibility), _PLANE_NODES[self.accuracy])
        probability, slopes = _label_probability(nodes, m / np.sqrt(q * variance))
        near = np.flatnonzero(nodes.weight * probability > _NEGLIGIBLE[self.accuracy > 0])
        (z, sign, weight), probability, slopes = nodes.select(near), probability[near], slopes[:, near]
        # Components with these row differences and zero component along the all-ones matrix, shape (n, 3).
        first, second = np.sqrt(3 * q) * z * sign
        difference, total = (first - second) / 2, (first + second) / np.sqrt(8)
        diagonal = total / 2
        parts = [diagonal + difference / np.sqrt(2), -total / np.sqrt(2), diagonal - difference / np.sqrt(2)]
        omega = np.stack(parts).T
        y = shares_of(self.channel, np.stack([sign[0] < 0, sign[1] > 0], axis=1))
        g, curvature = self.loss.score(y, omega, susceptibility)
        row_scores = np.sqrt(2) * g.T[[0, 2]] - g.T[1]
        pull = np.sum(slopes * row_scores, axis=0) / np.sqrt(3 * variance)
        losses = (self.loss.value(y, fitted) for fitted in (omega + susceptibility * g, omega))
        means = (probability * part for part in (np.sum(g**2, axis=1), curvature, *losses))
        return [float(weight @ part) for part in (pull, *means)]

    def _edges(self, m: float, q: float, variance: float, susceptibility: float) -> Array:
        """Return panels of a standardised row difference, finer where labels, losses or minimisers change fast."""
        unit, steepness = np.sqrt(3 * q), self.loss.sharpness**0.5
        widths = np.array([np.sqrt(variance * q) / m, 1 / (steepness * unit)])
        fixed = [-TAIL, -3.0, 0.0, 3.0, TAIL]
        narrow = (widths[widths < _NARROW][:, None] * _AROUND).ravel()
        reach = steepness * susceptibility / unit * np.array([-3.0, -1.0, 1.0, 3.0])
        # The number of panels may depend on the state only through narrow ones, which are always resolved: averages
        # that jump would leave the equations without a fixed point.
        return np.unique(np.clip(np.concatenate([fixed, narrow, reach]), -TAIL, TAIL))


class _PlaneNodes(NamedTuple):
    """Standardised row differences times the signs of their labels, and these signs, (2, n); weights, (n,)."""

    value: Array
    sign: Array
    weight: Array

    def select(self, nodes: Any) -> _PlaneNodes:
        return _PlaneNodes(*(part[..., nodes] for part in self))


def _plane_nodes(edges: Array, nodes: int) -> _PlaneNodes:
    """Return nodes of two correlated row differences.

    By the symmetries under exchange of the rows and of all signs, half of the plane is enough, with one of the two
    pairs of signs of the same product.
    """
    t, w = gauss_panels(edges, nodes)
    one, other = np.triu_indices(len(t))
    z, multiplicity = np.stack([t[one], t[other]]), np.where(one == other, 2.0, 4.0) * w[one] * w[other]
    parts, rest = [], 1 - CORRELATION**2
    for product in (1.0, -1.0):
        exponent = (z[0] ** 2 - 2 * product * CORRELATION * z[0] * z[1] + z[1] ** 2) / (2 * rest)
        weight = multiplicity * (np.exp(-exponent) / (2 * np.pi * np.sqrt(rest)))
        near = np.flatnonzero(weight > _NEGLIGIBLE[1])
        sign = np.broadcast_to([[1.0], [product]], (2, len(near)))
        parts.append(_PlaneNodes(z[:, near], sign, weight[near]))
    return _PlaneNodes(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))


def _label_probability(nodes: _PlaneNodes, scale: float) -> tuple[Array, Array]:
    """Return the probability that row differences with these means have these signs, and its slopes, (2, n)."""
    first, second = margin = scale * nodes.value
    product = np.prod(nodes.sign, axis=0)
    correlation = CORRELATION * product
    root = np.sqrt(1 - CORRELATION**2)
    conditional = ndtr(np.stack([second - correlation * first, first - correlation * second]) / root)
    slopes = nodes.sign * np.exp(-0.5 * margin**2) / np.sqrt(2 * np.pi) * conditional
    return np.maximum(orthant(first, second, product), 0.0), slopes


# Other labels: nodes of the fields of teacher and student ------------------------------------------------------------


class _FieldNodes(NamedTuple):
    """Standard normal fields of the teacher, and of the independent part of the student's field, (n, K); weights."""

    field: Array
    rest: Array
    weight: Array


class FieldAverages(AttentionAverages):
    """Averages over fixed nodes of the teacher's field, with labels drawn once, and of the independent part."""

    @property
    @abstractmethod
    def _grid(self) -> _FieldNodes:
        """Nodes at this accuracy."""

    def _averages(self, overlap: float, power: float, susceptibility: float) -> list[float]:
        nodes, rest = self._grid, np.sqrt(max(power - overlap**2 / self.power, 0.0))
        y, w = self._labels, nodes.weight
        omega = overlap / np.sqrt(self.power) * nodes.field + rest * nodes.rest
        g, curvature = self.loss.score(y, omega, susceptibility)
        v_hat = float(w @ curvature)
        pull = np.sqrt(self.power) * float(w @ np.sum(nodes.field * g, axis=1)) + overlap * v_hat
        losses = (self.loss.value(y, fitted) for fitted in (omega + susceptibility * g, omega))
        return [pull / self.power, float(w @ np.sum(g**2, axis=1)), v_hat, *(float(w @ part) for part in losses)]

    @cached_property
    def _labels(self) -> Array:
        fields = np.sqrt(self.power) * self._grid.field
        return self.targets(self.channel.sample(fields, np.random.default_rng(0)))


class ProductAverages(FieldAverages):
    """Two tokens with smooth labels: a product of Gauss rules over two planes."""

    accuracies = len(_PRODUCT_NODES)

    @property
    def _grid(self) -> _FieldNodes:
        return _product_nodes(_PRODUCT_NODES[self.accuracy])


@dataclass(frozen=True)
class SampledAverages(FieldAverages):
    """More than two tokens: fixed quasi-random points, so that averages are smooth; replicas estimate the error.

    Attributes:
        replica: index of the single replica that is averaged over; all replicas if negative.
    """

    replica: int = -1

    accuracies = len(_POINTS)

    @property
    def replicas(self) -> Iterator[LabelAverages]:
        return (replace(self, replica=number) for number in range(len(_sampled_points(self.tokens, self.accuracy))))

    @property
    def _grid(self) -> _FieldNodes:
        points = _sampled_points(self.tokens, self.accuracy)
        points = points.reshape(-1, points.shape[-1]) if self.replica < 0 else points[self.replica]
        field, rest = np.split(points, 2, axis=1)
        return _FieldNodes(field, rest, np.full(len(points), 1 / len(points)))


@lru_cache(maxsize=8)
def _orthogonal_components(tokens: int) -> Array:
    """Return orthonormal components orthogonal to the all-ones matrix, shape (K - 1, K); the first is odd for T = 2."""
    if tokens == 2:
        return np.array([[np.sqrt(0.5), 0.0, -np.sqrt(0.5)], [0.5, -np.sqrt(0.5), 0.5]])
    return np.asarray(np.linalg.svd(all_ones(tokens)[None])[2][1:])


@lru_cache(maxsize=8)
def _product_nodes(nodes: int) -> _FieldNodes:
    """Return product nodes; an exchange of the tokens flips the odd coordinates, so half of one of them is enough."""
    t, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / np.sqrt(2 * np.pi)
    half = t > -1e-9
    doubled = np.where(np.abs(t) < 1e-9, w, 2 * w)[half]
    grids = np.meshgrid(t[half], t, t, t, indexing="ij")
    weight = doubled[:, None, None, None] * w[:, None, None] * w[:, None] * w
    near = weight > _NEGLIGIBLE_PRODUCT
    points, components = np.stack([grid[near] for grid in grids], axis=1), _orthogonal_components(2)
    return _FieldNodes(points[:, :2] @ components, points[:, 2:] @ components, weight[near])


@lru_cache(maxsize=4)
def _sampled_points(tokens: int, accuracy: int) -> Array:
    """Return quasi-random points of both fields, shape (replicas, points, 2 K)."""
    components = _orthogonal_components(tokens)
    points = normal_points(2 * len(components), _POINTS[accuracy])
    return np.concatenate([part @ components for part in np.split(points, 2, axis=-1)], axis=-1)
