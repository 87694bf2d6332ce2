r"""Averages over labels that are a function of two fields with normal noise, by sums over grids.

With the eigenvectors of the posterior covariance as axes, both fields are independent given their means
:math:`\omega_a`, of variance :math:`v_a`. Partition and derivatives at all means of a grid follow from the likelihood
at the nodes ``z`` of another one by two products with matrices:

.. math::
   \partial_1^j\partial_2^kZ_{out}(y, \omega) = \sum_{z_1z_2}\partial^jN(\omega_1; z_1, v_1)\,
      \partial^kN(\omega_2; z_2, v_2)\,N(y; g(z), \Delta).

Scores are :math:`\partial\log Z_{out}`, and data have the density :math:`N(\omega; 0, Q)\,Z_{out}`. Sums over
equidistant nodes converge faster than any power of the spacing where ``g`` is smooth, like its square next to kinks,
and like the spacing next to jumps.

Means are divided into tiles, each with the nodes and labels that matter to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.quasi_random import normal_points

# Half-length of grids, in standard deviations: 2e-9 of the weight is outside.
_REACH = 6.0
# Spacings, all by trial on smooth links and links with kinks: of nodes over the width of the likelihood and over the
# posterior deviation of a field, of labels over the deviation of the noise.
_OF_LIKELIHOOD, _OF_POSTERIOR, _OF_LABELS = 1.0, 0.9, 0.8
# The same of means, over the width of partitions, which next to kinks is a few posterior deviations, and next to jumps
# one; the longest, and the power of the means up to which it is longer.
_OF_MEANS, _AT_KINKS, _LONGEST, _LARGEST, _SMALL_POWER = 0.8, 3.0, 0.35, 1.0, 0.25
# Width below which partitions next to kinks have little weight.
_SHORTEST = 0.25
# Values of the likelihood below which more nodes take little time, and how much closer they are then: errors fall like
# the spacing next to jumps (True), and like its square next to kinks.
_FEW, _CLOSEST = {False: 6e5, True: 3e6}, {False: 0.25, True: 0.12}
# Values of the likelihood up to which sums are faster than samples.
_MANY = 3e7
# The width of the likelihood is that where the slope of the link has this quantile.
_STEEP, _SLOPE_POINTS, _STEP = 0.9, 1024, 1e-5
# Probability of labels that are left out at either end, and of tiles that are left out.
_UNSEEN, _UNLIKELY = 1e-8, 1e-11
# Length of a tile of means over the posterior deviation, and its fewest means in each field.
_TILE, _FEWEST_MEANS = 20.0, 3
# Nodes and values of the likelihood that are treated at once: the latter stay in the cache.
_NODES, _AT_ONCE = 2**20, 2**15
_TINY = 1e-300
# Logarithm below which likelihoods are nothing: arithmetic with numbers close to underflow takes ten times as long.
_LEAST_LOG = -80.0

Function = Callable[[Array], Array]
"""A function of fields, shape (n, 2), with values of shape (n,)."""


class PlaneAverages(NamedTuple):
    r"""Averages over means and labels.

    Attributes:
        information: :math:`E\,gg^T`, shape (2, 2).
        log_partition: :math:`E\log Z_{out}`.
        slope: :math:`E\,D\otimes D` of :math:`D = \partial g/\partial\omega`, shape (2, 2, 2, 2); None if not wanted.
    """

    information: Array
    log_partition: float
    slope: Array | None


class _Axis(NamedTuple):
    """Means of one field, their weights, the spacing of its nodes, and its posterior deviation."""

    means: Array
    weights: Array
    spacing: float
    deviation: float

    def segments(self, derivatives: int) -> list[_Segment]:
        """Return parts of the axis of about twenty posterior deviations, with derivatives of their kernels."""
        length, size = self.means[-1] - self.means[0], len(self.means)
        wanted = int(length / (_TILE * self.deviation))
        # Means that share no nodes are apart.
        apart = length > 2 * _REACH * self.deviation * (size - 1)
        count = max(min(wanted, size // (1 if apart else _FEWEST_MEANS)), 1)
        parts = zip(np.array_split(self.means, count), np.array_split(self.weights, count), strict=True)
        return [self._replace(means=means, weights=weights)._segment(derivatives) for means, weights in parts]

    def _segment(self, derivatives: int) -> _Segment:
        low = max(self.means[0] - _REACH * self.deviation, -_REACH)
        high = min(self.means[-1] + _REACH * self.deviation, _REACH)
        first, last = np.floor(low / self.spacing), np.ceil(high / self.spacing)
        nodes = (np.arange(first, last) + 0.5) * self.spacing
        mass = self.spacing * np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi)
        distance = (nodes - self.means[:, None]) / self.deviation
        density = self.spacing / self.deviation * np.exp(-0.5 * distance**2) / np.sqrt(2 * np.pi)
        polynomials = (1.0, distance / self.deviation, (distance**2 - 1) / self.deviation**2)
        kernels = np.concatenate([density * one for one in polynomials[: derivatives + 1]])
        return _Segment(self.weights, nodes, mass, kernels)


class _Segment(NamedTuple):
    r"""Part of an axis.

    Attributes:
        weights: of its means.
        nodes: of the field that matter to the means, all on one grid.
        mass: of the prior at the nodes.
        kernels: :math:`\partial^jN(\omega; z, v)` times the spacing, of all orders and means, shape (j means, nodes).
    """

    weights: Array
    nodes: Array
    mass: Array
    kernels: Array

    @property
    def weight(self) -> float:
        """Probability of its means."""
        return float(self.weights.sum())


class _Tile(NamedTuple):
    """Segments of both axes, and values of the link at their nodes."""

    first: _Segment
    second: _Segment
    values: Array


@dataclass(frozen=True)
class PlaneIntegrals:
    r"""Averages over :math:`y = g(z_1, z_2) + \sqrt\Delta\,\xi`.

    Args:
        link: ``g``.
        noise: :math:`\Delta`.
        jumps: whether the link jumps.

    Example:
        >>> found = PlaneIntegrals(lambda z: z[:, 0], 1.0).averages(np.diag([0.5, 1.0]))
        >>> np.round(found.information, 6).tolist()
        [[0.666667, 0.0], [0.0, 0.0]]
    """

    link: Function
    noise: float
    jumps: bool = False

    @cached_property
    def width(self) -> float:
        """Width of the likelihood in the fields where the link is steep."""
        fields = normal_points(2, _SLOPE_POINTS, 1)[0]
        steps = _STEP * np.eye(2)
        slopes = [(self.link(fields + step) - self.link(fields - step)) / (2 * _STEP) for step in steps]
        steep = np.quantile(np.hypot(*slopes), _STEEP)
        return float(np.sqrt(self.noise) / max(steep, np.sqrt(self.noise)))

    @cached_property
    def size(self) -> float:
        """Values of the likelihood at fields of the prior: nodes times labels."""
        fields = normal_points(2, _SLOPE_POINTS, 1)[0]
        values = self.link(fields)
        nodes = (2 * _REACH / (_OF_LIKELIHOOD * self.width)) ** 2
        return float(nodes * (np.ptp(values) / (_OF_LABELS * np.sqrt(self.noise)) + 2 * _REACH))

    @property
    def fast(self) -> bool:
        """Whether sums are faster than samples: the noise is not too small for grids."""
        return self.size < _MANY

    @cached_property
    def spacing(self) -> float:
        """Spacing of nodes for broad posteriors."""
        closer = np.clip(np.sqrt(self.size / _FEW[self.jumps]), _CLOSEST[self.jumps], 1.0)
        return float(_OF_LIKELIHOOD * self.width * closer)

    def averages(self, covariance: Array, slope: bool = False, scale: float = 1.0) -> PlaneAverages:
        """Return the averages at a posterior covariance of the fields, shape (2, 2), of the prior covariance one.

        Args:
            covariance: positive definite, with eigenvalues of at most one.
            slope: whether the slope is wanted.
            scale: factor of all spacings.
        """
        variances, vectors = np.linalg.eigh(covariance)
        first, second = (self._axis(float(v), scale).segments(1 + slope) for v in variances)
        likely = [pair for pair in product(first, second) if pair[0].weight * pair[1].weight > _UNLIKELY]
        parts = [
            self._part(tile, labels, slope)
            for tile in self._tiles(likely, vectors)
            for labels in self._labels(tile, scale)
        ]
        spacing = _OF_LABELS * scale * np.sqrt(self.noise)
        information, log_partition, slopes = (spacing * sum(column) for column in zip(*parts, strict=True))
        turned = vectors @ information @ vectors.T
        if not slope:
            return PlaneAverages(turned, float(log_partition), None)
        full = np.einsum("ijkl,ai,bj,ck,dl->abcd", slopes, *[vectors] * 4, optimize=True)
        return PlaneAverages(turned, float(log_partition), full)

    def _axis(self, variance: float, scale: float) -> _Axis:
        """Return the grids of one field at its posterior variance."""
        power, deviation = max(1 - variance, 0.0), np.sqrt(variance)
        spacing = scale * min(self.spacing, _OF_POSTERIOR * deviation)
        if power < np.finfo(float).eps:
            return _Axis(np.zeros(1), np.ones(1), spacing, deviation)
        longest = min(_LONGEST * max(1.0, np.sqrt(_SMALL_POWER / power)), _LARGEST)
        next_to_kinks = max(_AT_KINKS * deviation, _SHORTEST * scale)
        width = deviation if self.jumps else min(np.hypot(deviation, self.width), next_to_kinks)
        own = scale * min(longest, _OF_MEANS * width / np.sqrt(power))
        count = int(np.ceil(2 * _REACH / own))
        normal = (np.arange(count) + 0.5) * (2 * _REACH / count) - _REACH
        weights = np.exp(-0.5 * normal**2)
        return _Axis(np.sqrt(power) * normal, weights / weights.sum(), spacing, deviation)

    def _tiles(self, pairs: list[tuple[_Segment, _Segment]], vectors: Array) -> Iterator[_Tile]:
        """Yield the tiles with the values of the link, which is evaluated for many of them at once."""
        total = np.cumsum([len(first.nodes) * len(second.nodes) for first, second in pairs])
        for group in np.split(np.arange(len(pairs)), 1 + np.flatnonzero(np.diff(total // _NODES))):
            own = [pairs[k] for k in group]
            grids = [np.meshgrid(first.nodes, second.nodes, indexing="ij") for first, second in own]
            fields = np.stack([np.concatenate([grid[k].ravel() for grid in grids]) for k in (0, 1)], axis=-1)
            ends = np.cumsum([grid[0].size for grid in grids])[:-1]
            values = np.split(self.link(fields @ vectors.T), ends)
            for (first, second), grid, part in zip(own, grids, values, strict=True):
                yield _Tile(first, second, part.reshape(grid[0].shape))

    def _labels(self, tile: _Tile, scale: float) -> Iterator[Array]:
        """Yield the labels of a tile that have any weight, in parts."""
        mass = np.outer(tile.first.mass, tile.second.mass).ravel()
        order = np.argsort(tile.values, axis=None)
        total = np.cumsum(mass[order])
        low, high = np.searchsorted(total, (_UNSEEN, total[-1] - _UNSEEN))
        if low >= high:
            return
        lowest, highest = tile.values.ravel()[order[[low, high]]]
        deviation = np.sqrt(self.noise)
        spacing, reach = _OF_LABELS * scale * deviation, _REACH * deviation
        ends = np.floor((lowest - reach) / spacing), np.ceil((highest + reach) / spacing)
        labels = spacing * np.arange(ends[0], ends[1] + 1)
        yield from np.array_split(labels, min(-(-len(labels) * tile.values.size // _AT_ONCE), len(labels)))

    def _part(self, tile: _Tile, labels: Array, slope: bool) -> tuple[Array, float, Array]:
        """Return the sums over the labels and means of a tile: of information, log partition and slope."""
        orders = 2 + slope
        # In place: memory for temporaries takes longer than the arithmetic.
        likelihood = labels[:, None, None] - tile.values
        likelihood *= likelihood
        likelihood *= -0.5 / self.noise
        np.maximum(likelihood, _LEAST_LOG, out=likelihood)
        np.exp(likelihood, out=likelihood)
        first = tile.first.kernels / np.sqrt(2 * np.pi * self.noise)
        found = first @ likelihood @ tile.second.kernels.T
        found = found.reshape(len(labels), orders, len(tile.first.weights), orders, -1)
        partition = np.maximum(found[:, 0, :, 0], _TINY)
        weight = np.outer(tile.first.weights, tile.second.weights) * partition
        score = np.stack([found[:, 1, :, 0], found[:, 0, :, 1]]) / partition
        log_partition = float(np.sum(weight * np.log(partition)))
        if not slope:
            return _products(score, weight), log_partition, np.zeros(())
        mixed = found[:, 1, :, 1]
        bend = np.stack([found[:, 2, :, 0], mixed, mixed, found[:, 0, :, 2]]) / partition
        bend -= (score[:, None] * score).reshape(bend.shape)
        return _products(score, weight), log_partition, _products(bend, weight).reshape(2, 2, 2, 2)


def _products(parts: Array, weight: Array) -> Array:
    """Return sums of the products of pairs of parts, shape (k, ...), with weights."""
    flat = parts.reshape(len(parts), -1)
    return np.asarray((flat * weight.ravel()) @ flat.T)
