r"""Averages over labels with Gaussian noise where their solutions see each other: over the label, and the mean.

:math:`Z_{out}(y, \omega)` is visited once for each label, however many fields have it. In the label it is smooth on the
scale of the noise about the labels where solutions appear or vanish, and on that of what the link takes elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from glassformer.channels.link.field_quadrature import Rule, normal_density
from glassformer.channels.link.normal_intervals import interval_mass
from glassformer.channels.link.piecewise import LinkShape
from glassformer.channels.link.solution_panels import cells_on_branches, cells_on_flats
from glassformer.channels.scalar.base import Array
from glassformer.numerics.quadrature import gauss_panels

_PLASTIC = 0.7548776662466927  # the inverse of the plastic number


@dataclass(frozen=True)
class Labels:
    """How far and how finely averages go.

    Attributes:
        fields, means: of both, in standard deviations.
        seen: deviations of the noise between a label and those of the fields behind it.
        quantiles: panels of the labels of a link that nothing happens to.
        blurred, ratio: ends of panels about a label at which solutions appear or vanish, in deviations of the noise,
            and of neighbouring panels farther from it.
        closest: ends of panels of labels, in deviations of the noise.
        several: of as many quantiles within that distance are a label that the link approaches.
        prior: of the field given its mean, in standard deviations.
        steep, wide: width of a panel of fields in deviations of the noise, and of that prior.
        lattice: spacing of the means in units of that of the rule.
        most: nodes of a panel.
        powers: neighbouring means between which weights are powers.
        block: means treated at once, in units of those.
        counted: fields for one quantile of labels.
        nothing: density that is none.
        panels, entries: of the fields treated at once, at most about so many, and of one array.
    """

    fields: float = 8.0
    means: float = 7.4
    seen: float = 8.0
    quantiles: int = 14
    blurred: tuple[float, ...] = (1.25, 3.6, 7.4)
    ratio: float = 4.0
    closest: float = 0.5
    several: int = 3
    prior: float = 7.8
    steep: float = 5.0
    wide: float = 3.0
    lattice: float = 3.0
    most: int = 18
    block: int = 5
    powers: int = 8
    counted: int = 200
    nothing: float = 1e-280
    panels: int = 20_000
    entries: int = 60_000


LABELS = Labels()


class _Behind(NamedTuple):
    """What lies behind labels, in their order: the label's number, a place among the fields, and a weight.

    Places are fields, shape (n, 1), or the ends of intervals, shape (n, 2).
    """

    owner: NDArray[np.intp]
    place: Array
    weight: Array

    def near(self, centre: float, reach: float) -> _Behind:
        """Those within reach of a mean."""
        at = (self.place[:, -1] > centre - reach) & (self.place[:, 0] < centre + reach)
        return _Behind(self.owner[at], self.place[at], self.weight[at])

    def of(self, labels: slice) -> tuple[csr_array, NDArray[np.intp], Array]:
        """Weights by label, owners counted from the first of these, and places."""
        part = slice(*np.searchsorted(self.owner, [labels.start, labels.stop]))
        owner, weight = self.owner[part] - labels.start, self.weight[part]
        starts = np.searchsorted(owner, np.arange(labels.stop - labels.start + 1))
        shape = (labels.stop - labels.start, owner.size)
        return csr_array((weight, np.arange(owner.size), starts), shape=shape), owner, self.place[part]


@dataclass(frozen=True, eq=False)
class LabelAverages:
    """Information and expected log partition of a link with Gaussian noise of variance ``noise``.

    Example:
        >>> from glassformer.channels.link.field_quadrature import RULES
        >>> from glassformer.channels.link.piecewise import link_shape
        >>> averages = LabelAverages(link_shape(lambda h: h), 0.5, 12)
        >>> bool(abs(averages(0.5, RULES[0])[0] - 1) < 1e-8)  # 1/(V + noise)
        True
    """

    shape: LinkShape
    noise: float
    nodes: int

    def __call__(self, v: float, rule: Rule) -> tuple[float, float]:
        odd, even = self.shape.parities
        y, weight = self._labels(rule)
        # Lattices are displaced from one label to the next: what they leave out averages away. Where means of opposite
        # signs see the same, one lattice has as many of both.
        phase = np.asarray(np.arange(y.size) * (0.0 if even else _PLASTIC) % 1.0 - 0.5 * (not even), dtype=np.float64)
        spacing = LABELS.lattice * rule.lattice * np.sqrt(v)
        rows = max(1, LABELS.panels // (len(self.shape.branches) + len(self.shape.flats)))
        information = expected = 0.0
        for start in range(0, y.size, rows):
            part = slice(start, start + rows)
            behind = self._fields(y[part], v, rule), self._flats(y[part])
            square, log_z = _sums(behind, weight[part], phase[part], v, spacing, even)
            information, expected = information + square, expected + log_z
        both = (1 + even) * (1 + odd)
        return both * information, both * expected - float(np.log(self._sigma))

    @property
    def _sigma(self) -> float:
        return float(np.sqrt(self.noise))

    @cached_property
    def _labels(self) -> Callable[[Rule], tuple[Array, Array]]:
        """Labels in deviations of the noise, and their quadrature weights, by rule."""
        edges, own = self._edges, self.nodes

        def nodes(rule: Rule) -> tuple[Array, Array]:
            return gauss_panels(edges, _order(rule, own))

        return lru_cache(maxsize=8)(nodes)

    @cached_property
    def _edges(self) -> Array:
        """Ends of panels of labels; of those above zero, where labels of opposite signs come together."""
        fields = np.linspace(-LABELS.fields, LABELS.fields, LABELS.counted * LABELS.quantiles + 1)
        values = np.sort(self.shape.link(fields)) / self._sigma
        quantiles = values[:: LABELS.counted]
        turning = np.array(self.shape.turning_labels_within(LABELS.fields)) / self._sigma
        turning = np.concatenate([turning, _approached(quantiles)])
        least, most = np.sort(np.concatenate([values, turning]))[[0, -1]]
        far = LABELS.blurred[-1]
        depth = int(np.ceil(max(np.log((most - least) / far) / np.log(LABELS.ratio), 0.0)))
        offsets = np.concatenate([LABELS.blurred, far * LABELS.ratio ** np.arange(1, depth + 1)])
        near = turning[:, None] + np.concatenate([-offsets[::-1], [0.0], offsets])
        edges = np.concatenate([quantiles, near[(near > least - far) & (near < most + far)]])
        _, first = np.unique(np.floor(edges / LABELS.closest), return_index=True)
        edges = np.unique(np.concatenate([[least - far], edges[first], [most + far]]))
        return np.append(0.0, edges[edges > 0]) if self.shape.parities.odd else edges

    def _fields(self, y: Array, v: float, rule: Rule) -> _Behind:
        sigma = self._sigma
        window = np.full(y.size, -LABELS.fields), np.full(y.size, LABELS.fields)
        size = LABELS.steep * sigma, LABELS.wide * np.sqrt(v)
        owner, low, high = cells_on_branches(self.shape, sigma * y, LABELS.seen * sigma, window, size)
        order = _order(rule, self.nodes)
        h, w = (part.reshape(-1, order) for part in gauss_panels(np.stack([low, high], axis=-1), order))
        weight = w * normal_density(y[owner, None] - self.shape.link(h) / sigma) / np.sqrt(2 * np.pi * v)
        return _Behind(np.repeat(owner, order), h.reshape(-1, 1), weight.ravel())

    def _flats(self, y: Array) -> _Behind:
        sigma = self._sigma
        window = np.full(y.size, -np.inf), np.full(y.size, np.inf)
        owner, low, high = cells_on_flats(self.shape, sigma * y, LABELS.seen * sigma, window)
        value = self.shape.link(np.clip(0.5 * (np.maximum(low, -20) + np.minimum(high, 20)), -12, 12))
        return _Behind(owner, np.stack([low, high], axis=-1), normal_density(y[owner] - value / sigma))


def _order(rule: Rule, nodes: int) -> int:
    return min(rule.parts * rule.of(nodes), LABELS.most)


def _approached(labels: Array) -> Array:
    """Where several of those of as many fields lie within the noise: the link has next to no slope there."""
    _, first, count = np.unique(np.floor(labels / LABELS.closest), return_index=True, return_counts=True)
    return np.asarray(labels[first[count >= LABELS.several]])


def _blocks(spacing: float, half: bool) -> tuple[Array, int]:
    """Centres of blocks of neighbouring means, in units of their size, and how many means each has.

    Args:
        spacing: of the means, which lie half of it off the multiples.
        half: only those above zero.
    """
    count = (1 if half else 2) * LABELS.means / spacing + 2
    blocks = int(np.ceil(count / (LABELS.powers * LABELS.block)))
    centres = np.arange(blocks) + (0.5 if half else 0.5 * (1 - blocks))
    return np.asarray(centres, dtype=np.float64), LABELS.powers * int(np.ceil(count / (LABELS.powers * blocks)))


def _sums(
    behind: tuple[_Behind, _Behind], weight: Array, phase: Array, v: float, spacing: float, half: bool
) -> tuple[float, float]:
    """Integrals over some labels, with their weights, and over the means, in units of sqrt(q) displaced by a phase."""
    scale, (blocks, size) = np.sqrt(1 - v), _blocks(spacing, half)
    step = spacing * (np.arange(size) - 0.5 * (size - 1))
    reach = LABELS.prior * np.sqrt(v) + spacing * scale * (0.5 * size + 1)
    information = expected = 0.0
    for block in blocks:
        fields, flats = (part.near(spacing * scale * size * block, reach) for part in behind)
        for part in _parts((fields, flats), weight.size, size):
            middle = spacing * (size * block + phase[part])
            z, slope = _partitions((fields, flats), part, middle * scale, step * scale, v)
            chance = weight[part, None] * spacing * normal_density(middle[:, None] + step)
            seen = z > LABELS.nothing
            z, slope, chance = z[seen], slope[seen], chance[seen]
            information += float(chance @ (slope * (slope / z))) / v
            expected += float(chance @ (z * np.log(z)))
    return information, expected


def _parts(near: tuple[_Behind, ...], labels: int, size: int) -> Iterator[slice]:
    """Runs of labels with about as many fields behind them."""
    count = np.cumsum(sum(np.bincount(part.owner, minlength=labels) for part in near))
    start = 0
    while start < labels:
        before = count[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(count, before + LABELS.entries // size, side="right")))
        if count[stop - 1] > before:
            yield slice(start, stop)
        start = stop


def _partitions(
    near: tuple[_Behind, _Behind], labels: slice, middle: Array, step: Array, v: float
) -> tuple[Array, Array]:
    r"""Partition and its slope times sqrt(V), shape (labels, means), of means ``middle + step``."""
    fields, flats = near
    scale = np.sqrt(v)
    weights, owner, place = fields.of(labels)
    # Weights of neighbouring means are exponentials of multiples of one number.
    gap = (place.ravel() - middle[owner]) / scale
    inner = (step[: LABELS.powers] - step[: LABELS.powers].mean()) / scale
    outer = (step.reshape(-1, LABELS.powers).mean(axis=1)) / scale
    tilt = (np.exp(np.outer(gap, outer))[:, :, None] * np.exp(np.outer(gap, inner))[:, None]).reshape(
        gap.size, step.size
    )
    weights.data = weights.data * np.exp(-0.5 * gap**2)
    bell = np.exp(-0.5 * (step / scale) ** 2)
    z = weights @ tilt
    weights.data = weights.data * gap
    slope = (weights @ tilt - step / scale * z) * bell
    z = z * bell
    if flats.owner.size:
        weights, owner, place = flats.of(labels)
        low, high = ((end - middle[owner])[:, None] / scale - step / scale for end in place.T)
        z = z + weights @ interval_mass(low, high)
        slope = slope + weights @ (normal_density(low) - normal_density(high))
    return z, slope
