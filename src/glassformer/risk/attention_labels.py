r"""What cross-entropy makes of the labels of attention: averages over all indices of a sample.

Fields have ``K`` components of equal variance; scores are vectors, their squares and slopes sums over components
(:mod:`glassformer.risk.labels` has the averages of one). Labels and loss are blind to the component along the
all-ones matrix, which is left out. With :math:`\omega = \frac m{Q_0}h + s\,t`, :math:`s^2 = q - m^2/Q_0` and ``t``
standard normal, an integration by parts spares the label's law:

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

from glassformer.channels.attention.hardmax import CORRELATION, orthant
from glassformer.channels.attention.prediction import row_disagreement
from glassformer.channels.attention.projected import all_ones
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels
from glassformer.numerics.quasi_random import normal_points
from glassformer.risk.labels import POLICY, Answers, Labels
from glassformer.risk.loss import Loss
from glassformer.risk.penalties import Learned


@dataclass(frozen=True)
class Accuracy:
    """How finely averages over indices are taken, most from one accuracy to the next."""

    plane: tuple[int, ...] = (6, 10, 15, 22, 33)  # nodes per panel of the plane of row differences
    product: tuple[int, ...] = (7, 10, 14, 19, 26, 34)  # nodes per variable of product rules
    points: tuple[int, int] = (256, 8192)  # sampled ones per replica
    negligible: tuple[float, float] = (1e-10, 1e-18)  # chances in a plane that add nothing, at first and later
    faint: float = 1e-14  # the same in a product of two
    around: tuple[float, ...] = (-6.0, -2.0, 2.0, 6.0)  # panels around a fast change, in units of its width
    narrow: float = 0.3  # width below which it has such panels


_POLICY = Accuracy()


@dataclass(frozen=True)
class AttentionLabels(Labels):
    """Labels of attention as rows of probabilities.

    Attributes:
        accuracy: of the averages, 0 for the least.
    """

    accuracy: int = 0

    accuracies: ClassVar[int]
    """How many there are."""

    @property
    def finer(self) -> Labels | None:
        return replace(self, accuracy=self.accuracy + 1) if self.accuracy + 1 < self.accuracies else None

    @cached_property
    def regression(self) -> tuple[float, float]:
        nothing = np.zeros(1)
        found = self.answers(Learned(*(nothing for _ in Learned._fields)))
        slope = float(found.gain[0]) / self.components
        return slope, float(found.power[0]) / self.components - slope**2

    @property
    def exact(self) -> float:
        return float(self.channel.rank)

    @property
    def decided(self) -> bool:
        return bool(self.channel.discrete)

    @property
    def tokens(self) -> int:
        """``T``."""
        return int(self.channel.tokens)

    def targets(self, labels: Array) -> Array:
        return np.asarray(self.channel.shares_of(labels))

    def wrong(self, found: Learned) -> Array:
        cosine = found.overlap / np.sqrt(np.maximum(found.power, POLICY.none) * self.power)
        return row_disagreement(self.tokens, np.minimum(cosine, 1.0))

    def answers(self, found: Learned) -> Answers:
        state = zip(found.overlap, found.power, found.susceptibility, strict=True)
        return Answers(*np.array([self._averages(*map(float, row)) for row in state]).T)

    @abstractmethod
    def _averages(self, overlap: float, power: float, susceptibility: float) -> list[float]:
        """Those of :class:`~glassformer.risk.labels.Answers`."""


class PlaneLabels(AttentionLabels):
    """Hardmax of two tokens: the plane of row differences is integrated, chances of labels have closed forms."""

    accuracies = len(_POLICY.plane)

    def _averages(self, overlap: float, power: float, susceptibility: float) -> list[float]:
        m, q = max(overlap, POLICY.none), max(power, POLICY.none)
        left = max(self.power - m**2 / q, POLICY.none)
        nodes = _margins(self._edges(m, q, left, susceptibility), _POLICY.plane[self.accuracy])
        chance, slopes = _chance(nodes, m / np.sqrt(q * left))
        near = np.flatnonzero(nodes.weight * chance > _POLICY.negligible[self.accuracy > 0])
        (z, sign, weight), chance, slopes = nodes.at(near), chance[near], slopes[:, near]
        omega = _components(np.sqrt(3 * q) * z * sign)
        y = self.channel.shares_of(np.stack([sign[0] < 0, sign[1] > 0], axis=1))
        g, curvature = self.loss.score(y, omega, susceptibility)
        pull = np.sum(slopes * _differences(g), axis=0) / np.sqrt(3 * left)
        losses = (self.loss.value(y, fitted) for fitted in (omega + susceptibility * g, omega))
        means = (chance * part for part in (np.sum(g**2, axis=1), curvature, *losses))
        return [float(weight @ part) for part in (pull, *means)]

    def _edges(self, m: float, q: float, left: float, susceptibility: float) -> Array:
        """Panels of a standardised row difference, finer where chances, losses or their minimisers change fast."""
        unit = np.sqrt(3 * q)
        widths = np.array([np.sqrt(left * q) / m, 1 / (self.loss.sharpness**0.5 * unit)])
        narrow = widths[widths < _POLICY.narrow]
        reach = self.loss.sharpness**0.5 * susceptibility / unit * np.array([-3.0, -1.0, 1.0, 3.0])
        every = [
            [-POLICY.tail, -3.0, 0.0, 3.0, POLICY.tail],
            (narrow[:, None] * np.array(_POLICY.around)).ravel(),
            reach,
        ]
        # Narrow panels stay: averages would jump where they went, and fixed points could end up in between.
        return np.unique(np.clip(np.concatenate(every), -POLICY.tail, POLICY.tail))


class FieldLabels(AttentionLabels):
    """Averages over nodes of the teacher's field, whose labels stay the same, and of what else is in the student's."""

    @property
    @abstractmethod
    def _grid(self) -> _Nodes:
        """At this accuracy."""

    def _averages(self, overlap: float, power: float, susceptibility: float) -> list[float]:
        nodes, left = self._grid, np.sqrt(max(power - overlap**2 / self.power, 0.0))
        y, w = self._labelled
        omega = overlap / np.sqrt(self.power) * nodes.field + left * nodes.rest
        g, curvature = self.loss.score(y, omega, susceptibility)
        stiffness = float(w @ curvature)
        pull = np.sqrt(self.power) * float(w @ np.sum(nodes.field * g, axis=1)) + overlap * stiffness
        losses = (self.loss.value(y, fitted) for fitted in (omega + susceptibility * g, omega))
        return [pull / self.power, float(w @ np.sum(g**2, axis=1)), stiffness, *(float(w @ part) for part in losses)]

    @cached_property
    def _labelled(self) -> tuple[Array, Array]:
        """Labels of the nodes, and weights."""
        nodes = self._grid
        labels = self.channel.sample(np.sqrt(self.power) * nodes.field, np.random.default_rng(0))
        return self.targets(labels), nodes.weight


class ProductLabels(FieldLabels):
    """Smooth labels of two tokens: a product of Gauss rules over two planes."""

    accuracies = len(_POLICY.product)

    @property
    def _grid(self) -> _Nodes:
        return _product(_POLICY.product[self.accuracy])


@dataclass(frozen=True)
class SampledLabels(FieldLabels):
    """More tokens: quasi-random points, always the same ones, so that averages are smooth; replicas tell the error.

    Attributes:
        replica: the only one that is averaged over; all of them where it is negative.
    """

    replica: int = -1

    accuracies = len(_POLICY.points)

    @property
    def replicas(self) -> Iterator[Labels]:
        return (replace(self, replica=number) for number in range(len(_points(self.tokens, self.accuracy))))

    @property
    def _grid(self) -> _Nodes:
        points = _points(self.tokens, self.accuracy)
        points = points.reshape(-1, points.shape[-1]) if self.replica < 0 else points[self.replica]
        field, rest = np.split(points, 2, axis=1)
        return _Nodes(field, rest, np.full(len(points), 1 / len(points)))


class _Nodes(NamedTuple):
    """Standard normal fields of the teacher and of the rest of the student's, shape (n, K), and their weights."""

    field: Array
    rest: Array
    weight: Array


def attention_labels(channel: Any, power: float, loss: Loss) -> AttentionLabels:
    """Labels of a channel with the best averages that there are of them.

    Raises:
        IncompatibleError: labels are no rows of probabilities.
    """
    channel.shares_of(channel.sample(np.zeros((1, *channel.field_components)), np.random.default_rng(0)))
    return _BEST.get((int(channel.tokens), bool(channel.discrete)), SampledLabels)(channel, power, loss)


# By the number of tokens, and whether labels are discrete.
_BEST: dict[tuple[int, bool], type[AttentionLabels]] = {(2, True): PlaneLabels, (2, False): ProductLabels}


class _Margins(NamedTuple):
    """Standardised row differences times their labels' signs, and the signs, shape (2, n); weights, shape (n,)."""

    value: Array
    sign: Array
    weight: Array

    def at(self, nodes: Any) -> _Margins:
        return _Margins(*(part[..., nodes] for part in self))


def _margins(edges: Array, nodes: int) -> _Margins:
    """Nodes of standardised row differences, and their weights.

    Exchanging the rows changes nothing, nor does turning all signs around: half of the plane is enough, and one of the
    two pairs of signs with the same product.
    """
    t, w = gauss_panels(edges, nodes)
    one, other = np.triu_indices(len(t))
    margin, twice = np.stack([t[one], t[other]]), np.where(one == other, 2.0, 4.0) * w[one] * w[other]
    parts = []
    for product in (1.0, -1.0):
        weight = twice * _density(margin, product * CORRELATION)
        near = np.flatnonzero(weight > _POLICY.negligible[1])
        sign = np.broadcast_to([[1.0], [product]], (2, len(near)))
        parts.append(_Margins(margin[:, near], sign, weight[near]))
    return _Margins(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))


def _density(z: Array, correlation: float) -> Array:
    """Of two standard normal variables."""
    left = 1 - correlation**2
    exponent = (z[0] ** 2 - 2 * correlation * z[0] * z[1] + z[1] ** 2) / (2 * left)
    return np.asarray(np.exp(-exponent) / (2 * np.pi * np.sqrt(left)))


def _chance(nodes: _Margins, scale: float) -> tuple[Array, Array]:
    """Probability that rows of unit variance and these means have these signs, and its slopes, shape (2, n)."""
    first, second = margin = scale * nodes.value
    correlation = CORRELATION * np.prod(nodes.sign, axis=0)
    root = np.sqrt(1 - CORRELATION**2)
    beside = ndtr(np.stack([second - correlation * first, first - correlation * second]) / root)
    slopes = nodes.sign * np.exp(-0.5 * margin**2) / np.sqrt(2 * np.pi) * beside
    return np.maximum(orthant(first, second, correlation), 0.0), slopes


def _components(differences: Array) -> Array:
    """Of the indices of two tokens with these row differences and nothing along the all-ones matrix, shape (n, 3)."""
    first, second = differences
    apart, along = (first - second) / 2, (first + second) / np.sqrt(8)
    own = along / 2
    return np.stack([own + apart / np.sqrt(2), -along / np.sqrt(2), own - apart / np.sqrt(2)]).T


def _differences(components: Array) -> Array:
    """What row differences' components are worth, shape (2, n): their transpose on scores."""
    return np.asarray(np.sqrt(2) * components.T[[0, 2]] - components.T[1])


@lru_cache(maxsize=8)
def _plane(tokens: int) -> Array:
    """Orthonormal components orthogonal to the all-ones matrix, shape (K - 1, K); the first one odd for two tokens."""
    ones = all_ones(tokens)
    if tokens == 2:
        return np.array([[np.sqrt(0.5), 0.0, -np.sqrt(0.5)], [0.5, -np.sqrt(0.5), 0.5]])
    return np.asarray(np.linalg.svd(ones[None])[2][1:])


@lru_cache(maxsize=8)
def _product(nodes: int) -> _Nodes:
    """Exchanging the tokens turns the odd coordinates around: half of one of them is enough."""
    t, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / np.sqrt(2 * np.pi)
    half = t > -1e-9
    doubled = np.where(np.abs(t) < 1e-9, w, 2 * w)[half]
    grids = np.meshgrid(t[half], t, t, t, indexing="ij")
    weight = doubled[:, None, None, None] * w[:, None, None] * w[:, None] * w
    near = weight > _POLICY.faint
    points = np.stack([grid[near] for grid in grids], axis=1)
    return _Nodes(points[:, :2] @ _plane(2), points[:, 2:] @ _plane(2), weight[near])


@lru_cache(maxsize=4)
def _points(tokens: int, accuracy: int) -> Array:
    """Of both fields, shape (replicas, points, 2 K)."""
    plane = _plane(tokens)
    points = normal_points(2 * len(plane), _POLICY.points[accuracy])
    return np.concatenate([part @ plane for part in np.split(points, 2, axis=-1)], axis=-1)
