r"""Averages over labels of two fields, by sums over grids.

With the eigenvectors of the posterior covariance as axes, both fields are independent given their means
:math:`\omega_a`, of variance :math:`v_a`. Partition and derivatives at all means of a grid follow from the likelihood
at the nodes ``z`` of another one by two products with matrices:

.. math::
   \partial_1^j\partial_2^kZ_{out}(y, \omega) = \sum_{z_1z_2}\partial^jN(\omega_1; z_1, v_1)\,
      \partial^kN(\omega_2; z_2, v_2)\,p(y\mid z).

Scores are :math:`\partial\log Z_{out}`, and data have the density :math:`N(\omega; 0, Q)\,Z_{out}`. Sums over
equidistant nodes converge faster than any power of the spacing where the likelihood is smooth, like its square next to
kinks, and like the spacing next to jumps.

Means are divided into tiles, each with the nodes and labels that matter to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from glassformer.channels.multi_index.plane_labels import Part, PlaneLabels
from glassformer.core.estimate import Array

# Half-length of grids, in standard deviations: 2e-9 of the weight is outside.
_REACH = 6.0
# Spacing of means over the width of partitions, which next to kinks is a few posterior deviations, and next to jumps
# one; the longest, and the power of the means up to which it is longer. By trial, as all numbers here.
_OF_MEANS, _AT_KINKS, _LONGEST, _LARGEST, _SMALL_POWER = 0.8, 3.0, 0.35, 1.0, 0.25
# Spacing of means of averages over that of decisions.
_OF_DECISIONS = 4
# Width below which partitions next to kinks have little weight.
_SHORTEST = 0.25
# Probability of tiles that are left out.
_UNLIKELY = 1e-11
# Length of a tile of means over the posterior deviation, and its fewest means in each field.
_TILE, _FEWEST_MEANS = 20.0, 3
# Nodes at which the link is evaluated at once.
_NODES = 2**20
# Posterior deviations beyond which kernels vanish.
_FAR = 12.0
_TINY = 1e-300


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
        # Arithmetic with numbers close to underflow takes ten times as long.
        density[np.abs(distance) > _FAR] = 0.0
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
    """Segments of both axes, and what determines the likelihood at their nodes."""

    first: _Segment
    second: _Segment
    values: Array


@dataclass(frozen=True)
class PlaneIntegrals:
    """Averages over labels of two fields.

    Args:
        labels: the law of the labels.

    Example:
        >>> from glassformer.channels.multi_index.plane_labels import NormalLabels
        >>> found = PlaneIntegrals(NormalLabels(lambda z: z[:, 0], 1.0)).averages(np.diag([0.5, 1.0]))
        >>> bool(np.allclose(found.information, np.diag([1 / 1.5, 0.0]), atol=1e-6))
        True
    """

    labels: PlaneLabels

    def averages(
        self, covariance: Array, slope: bool = False, fineness: float = 1.0, scale: float = 1.0
    ) -> PlaneAverages:
        """Return the averages at a posterior covariance of the fields, shape (2, 2), of the prior covariance one.

        Args:
            covariance: positive definite, with eigenvalues of at most one.
            slope: whether the slope is wanted.
            fineness: usual spacings over those of the sums; nodes next to jumps may be closer than that.
            scale: factor of all spacings.
        """
        variances, vectors = np.linalg.eigh(covariance)
        closer, scale = fineness**-self.labels.node_power * scale, scale / fineness
        axes = [self._axis(float(v), scale, closer).segments(1 + slope) for v in variances]
        parts = [_averages(*own, slope) for own in self._parts(axes, vectors, scale)]
        information, log_partition, slopes = (sum(column) for column in zip(*parts, strict=True))
        turned = vectors @ information @ vectors.T
        full = np.einsum("ijkl,ai,bj,ck,dl->abcd", slopes, *[vectors] * 4, optimize=True) if slope else None
        return PlaneAverages(turned, float(log_partition), full)

    def certainty(self, covariance: Array, fineness: float = 1.0, scale: float = 1.0) -> float:
        """Return the mean probability of the most probable of few labels.

        It has kinks where two labels are equally probable, so that means are closer than for averages.

        Args:
            covariance: as for :meth:`averages`.
            fineness: as for :meth:`averages`.
            scale: as for :meth:`averages`.
        """
        variances, vectors = np.linalg.eigh(covariance)
        closer, scale = fineness**-self.labels.node_power * scale, scale / fineness / _OF_DECISIONS
        axes = [self._axis(float(v), scale, closer).segments(0) for v in variances]
        return float(sum(_certainty(*own) for own in self._parts(axes, vectors, scale)))

    def _parts(self, axes: list[list[_Segment]], vectors: Array, scale: float) -> Iterator[tuple[_Tile, Part]]:
        """Yield the tiles of all likely pairs of segments with their labels."""
        first, second = axes
        likely = [pair for pair in product(first, second) if pair[0].weight * pair[1].weight > _UNLIKELY]
        for tile in self._tiles(likely, vectors):
            for part in self.labels.parts(tile.values, np.outer(tile.first.mass, tile.second.mass), scale):
                yield tile, part

    def _axis(self, variance: float, scale: float, closer: float) -> _Axis:
        """Return the grids of one field; ``scale`` is the factor of the spacing of means, ``closer`` that of nodes."""
        power, deviation = max(1 - variance, 0.0), np.sqrt(variance)
        spacing = _power_below(closer * self.labels.spacing(float(deviation)))
        if power < np.finfo(float).eps:
            return _Axis(np.zeros(1), np.ones(1), spacing, deviation)
        longest = min(_LONGEST * max(1.0, np.sqrt(_SMALL_POWER / power)), _LARGEST)
        next_to_kinks = max(_AT_KINKS * deviation, _SHORTEST * scale)
        width = deviation if self.labels.jumps else min(np.hypot(deviation, self.labels.width), next_to_kinks)
        own = scale * min(longest, _OF_MEANS * width / np.sqrt(power))
        count = int(np.ceil(2 * _REACH / _power_below(own)))
        normal = (np.arange(count) + 0.5) * (2 * _REACH / count) - _REACH
        weights = np.exp(-0.5 * normal**2)
        return _Axis(np.sqrt(power) * normal, weights / weights.sum(), spacing, deviation)

    def _tiles(self, pairs: list[tuple[_Segment, _Segment]], vectors: Array) -> Iterator[_Tile]:
        """Yield the tiles with what determines the likelihood, which is evaluated for many of them at once."""
        total = np.cumsum([len(first.nodes) * len(second.nodes) for first, second in pairs])
        for group in np.split(np.arange(len(pairs)), 1 + np.flatnonzero(np.diff(total // _NODES))):
            own = [pairs[k] for k in group]
            grids = [np.meshgrid(first.nodes, second.nodes, indexing="ij") for first, second in own]
            fields = np.stack([np.concatenate([grid[k].ravel() for grid in grids]) for k in (0, 1)], axis=-1)
            ends = np.cumsum([grid[0].size for grid in grids])[:-1]
            values = np.split(self.labels.at(fields @ vectors.T), ends)
            for (first, second), grid, part in zip(own, grids, values, strict=True):
                yield _Tile(first, second, part.reshape(*grid[0].shape, *part.shape[1:]))


def _averages(tile: _Tile, part: Part, slope: bool) -> tuple[Array, float, Array]:
    """Return the sums over some labels and the means of a tile: all of :class:`PlaneAverages`."""
    orders = 2 + slope
    found = tile.first.kernels @ part.likelihood @ tile.second.kernels.T
    found = found.reshape(len(part.likelihood), orders, len(tile.first.weights), orders, -1)
    partition = np.maximum(found[:, 0, :, 0], _TINY)
    weight = part.weight * np.outer(tile.first.weights, tile.second.weights) * partition
    score = np.stack([found[:, 1, :, 0], found[:, 0, :, 1]]) / partition
    log_partition = float(np.sum(weight * (np.log(partition) + part.log_unit)))
    sums = _products(score, weight), log_partition
    if not slope:
        return *sums, np.zeros(())
    mixed = found[:, 1, :, 1]
    bend = np.stack([found[:, 2, :, 0], mixed, mixed, found[:, 0, :, 2]]) / partition
    bend -= (score[:, None] * score).reshape(bend.shape)
    return *sums, _products(bend, weight).reshape(2, 2, 2, 2)


def _certainty(tile: _Tile, part: Part) -> float:
    """Return the sum over the means of a tile of the largest probability of a label."""
    partition = tile.first.kernels @ part.likelihood @ tile.second.kernels.T
    return float(part.weight * (tile.first.weights @ np.max(partition, axis=0) @ tile.second.weights))


def _power_below(spacing: float) -> float:
    """Return the next smaller power of the fourth root of two: errors of equal grids are smooth in the covariance."""
    return float(2 ** (np.floor(4 * np.log2(spacing)) / 4))


def _products(parts: Array, weight: Array) -> Array:
    """Return sums of the products of pairs of parts, shape (k, ...), with weights."""
    flat = parts.reshape(len(parts), -1)
    return np.asarray((flat * weight.ravel()) @ flat.T)
