r"""Averages over labels with Gaussian noise: over the field, the noise of its label, and the mean given both.

Given a field ``h`` and the noise of its label, the mean is :math:`\omega = qh + \sqrt{qV}\,t` with ``t`` standard
normal, so that all three have smooth laws whatever the noise. The posterior lives where the link comes within some
noise of the label: on panels about every solution, short against both the noise and the prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.core.numerics.quadrature import gauss_panels
from glassformer.models.channels.link.field_quadrature import FEW, SHORT, Rule, lattice, normal_density
from glassformer.models.channels.link.inverse_branches import preimages
from glassformer.models.channels.link.normal_intervals import interval_mass
from glassformer.models.channels.link.piecewise import SAME, Branch, LinkShape, distinct
from glassformer.models.channels.scalar import Array

# Powers of the plastic number.
_IRRATIONAL = (0.7548776662466927, 0.5698402909980532)


@dataclass(frozen=True)
class Reach:
    """How far and how finely averages go.

    Attributes:
        fields, noise, means: of the three averages, in standard deviations.
        prior: of the prior of a posterior, which must hold all fields.
        seen: deviations of the noise between labels of fields that see each other.
        steep, wide: width of a panel in deviations of the noise, and of the prior.
        most: nodes of a panel that no integrand here exceeds.
        ratio, finest: of neighbouring panels next to a break, and how many of them there are at most.
        entries: of one array of likelihoods.
    """

    fields: float = 7.6
    noise: float = 7.4
    means: float = 7.4
    prior: float = 7.8
    seen: float = 10.8
    steep: float = 5.0
    wide: float = 3.0
    most: int = 18
    ratio: float = 4.0
    finest: int = 15
    entries: int = 100_000


REACH = Reach()


class _Cells(NamedTuple):
    """Panels of the posterior: the field that they belong to, from and to, in the order of the fields."""

    owner: NDArray[np.intp]
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class NoisyAverages:
    """Information and expected log partition of a link with Gaussian noise of variance ``noise``."""

    shape: LinkShape
    noise: float
    nodes: int

    def __call__(self, v: float, rule: Rule) -> tuple[float, float]:
        h, weight = self._fields(v, rule)
        label = self.shape.link(h)
        steep, level = self._on_branches(h, label, v), self._on_flats(h, label, v)
        counts = [np.bincount(cells.owner, minlength=h.size) for cells in (steep, level)]
        # One panel after the other of one solution has no rivals, and nothing happens on a smaller scale.
        alone = self._alone(steep, level, h.size)
        information = expected = 0.0
        steps = ((alone, (5.5 * rule.lattice, 4 * rule.lattice)), (~alone, (4 * rule.lattice, 3 * rule.lattice)))
        for of_these, widths in steps:
            x, t = (lattice(reach, step) for reach, step in zip((REACH.noise, REACH.means), widths, strict=True))
            size = self._order(rule) * counts[0] + counts[1]
            for part in _groups(np.flatnonzero(of_these), size, t.size + x.size):
                # Lattices are displaced from one field to the next: what they leave out averages away.
                noise, mean = (
                    y + step * _phases(part, k) for k, (y, step) in enumerate(zip((x, t), widths, strict=True))
                )
                chance = np.prod(widths) * normal_density(noise)[:, :, None] * normal_density(mean)[:, None]
                omega, y = (
                    (1 - v) * h[part, None] + np.sqrt((1 - v) * v) * mean,
                    label[part, None] / self._sigma + noise,
                )
                z, slope = self._partitions(steep, level, counts, part, omega, y, v, rule)
                information += float(weight[part] @ np.sum(chance * (slope / z) ** 2, axis=(1, 2))) / v
                expected += float(weight[part] @ np.sum(chance * np.log(z), axis=(1, 2)))
        return information, expected - float(np.sum(weight)) * np.log(self._sigma * np.sqrt(2 * np.pi))

    @property
    def _sigma(self) -> float:
        return float(np.sqrt(self.noise))

    def _order(self, rule: Rule) -> int:
        """Nodes per panel: panels are short already, and a higher order is worth more than shorter ones."""
        return min(rule.parts * rule.of(self.nodes), REACH.most)

    def _partitions(
        self,
        steep: _Cells,
        level: _Cells,
        counts: list[NDArray[np.intp]],
        part: NDArray[np.intp],
        omega: Array,
        y: Array,
        v: float,
        rule: Rule,
    ) -> tuple[Array, Array]:
        """Partition and its slope times sqrt(V), shape (fields, noise, means), over the largest density of the noise.

        Labels ``y`` are in deviations of the noise.
        """
        z = slope = np.zeros(1)
        scale = np.sqrt(v)
        if np.any(counts[0][part]):
            low, high = _padded(steep, counts[0], part)
            nodes, w = gauss_panels(np.stack([low, high], axis=-1), self._order(rule))
            nodes, w = nodes.reshape(len(part), -1), w.reshape(len(part), -1)
            likelihood = _bell(y[:, :, None] - (self.shape.link(nodes) / self._sigma)[:, None])
            likelihood *= w[:, None] / (scale * np.sqrt(2 * np.pi))
            u = (nodes / scale)[:, None] - (omega / scale)[:, :, None]
            prior = _bell(u)
            z = z + likelihood @ np.swapaxes(prior, 1, 2)
            slope = slope + likelihood @ np.swapaxes(np.multiply(prior, u, out=u), 1, 2)
        if np.any(counts[1][part]):
            low, high = _padded(level, counts[1], part)
            likelihood = _bell(y[:, :, None] - (self.shape.link(0.5 * (low + high)) / self._sigma)[:, None])
            a, b = ((x[:, None] - omega[:, :, None]) / scale for x in (low, high))
            z = z + likelihood @ np.swapaxes(interval_mass(a, b), 1, 2)
            slope = slope + likelihood @ np.swapaxes(normal_density(a) - normal_density(b), 1, 2)
        return np.maximum(z, 1e-290), slope

    def _fields(self, v: float, rule: Rule) -> tuple[Array, Array]:
        """Nodes of a standard normal field with probability weights, graded towards what changes its posterior."""
        scale, breaks = np.sqrt(v), self.shape.breaks
        near = [place + _offsets(min(width, scale) / 4) for place, width in self._ends]
        for place, width in self._shared:
            # A solution appears or vanishes there, over the width of the noise.
            if np.min(np.abs(breaks - place)) < 2 * REACH.prior * scale:
                near.append(place + _offsets(width / 2))
        smooth = np.concatenate([np.linspace(-REACH.fields, REACH.fields, 13), *near])
        fixed = np.concatenate([breaks, [0.0] if self._parity else []])
        # Between breaks that are close to each other nothing happens but at them.
        edges = np.concatenate([smooth[~self._crowded(smooth, scale)], fixed])
        edges = distinct(edges[np.abs(edges) <= REACH.fields], 1e-13)
        middle = 0.5 * (edges[1:] + edges[:-1])
        short = self.shape.is_flat(middle) & (np.diff(edges) < SHORT * scale)
        rules = [(~short, self._order(rule)), (short, FEW)]
        pairs = [
            gauss_panels(np.stack([edges[:-1][at], edges[1:][at]], axis=-1), order) for at, order in rules if at.any()
        ]
        h, w = (np.concatenate([part.ravel() for part in parts]) for parts in zip(*pairs, strict=True))
        w = w * normal_density(h)
        if self._parity:
            kept = h > 0
            h, w = h[kept], 2 * w[kept]
        return h, w

    @cached_property
    def _parity(self) -> bool:
        """Whether fields of opposite signs have one label, or opposite ones."""
        h = np.linspace(0.0, REACH.fields, 997)
        there, mirrored = self.shape.link(h), self.shape.link(-h)
        mirror = np.all(np.isin(np.round(-self.shape.breaks, 9) + 0.0, np.round(self.shape.breaks, 9)))
        slack = 1e-13 * np.maximum(np.abs(there), np.abs(there).mean())
        gaps = (np.abs(there - side * mirrored)[1:] <= slack[1:] for side in (1, -1))
        return bool(mirror and any(np.all(gap) for gap in gaps))

    def _crowded(self, places: Array, scale: float) -> NDArray[np.bool_]:
        """Which places lie on flat parts so short that nothing happens but at their ends."""
        ends = np.concatenate([[-np.inf], self.shape.breaks, [np.inf]])
        after = np.searchsorted(ends, places, side="right").clip(1, ends.size - 1)
        return self.shape.is_flat(places) & (ends[after] - ends[after - 1] < SHORT * scale)

    @cached_property
    def _ends(self) -> list[tuple[float, float]]:
        """Breaks, and the width over which the noise blurs the label beside them, as far as that is below one."""
        widths = np.ones(self.shape.breaks.size)
        for branch in self.shape.branches:
            for k, side in ((0, 1), (-1, -1)):
                blurred = np.interp(branch.values[k] + side * self._sigma, branch.values, branch.h)
                at = np.abs(self.shape.breaks - branch.h[k]) < 1e-6
                widths[at] = np.minimum(widths[at], np.abs(blurred - branch.h[k]))
        return list(zip(self.shape.breaks.tolist(), widths.tolist(), strict=True))

    @cached_property
    def _shared(self) -> list[tuple[float, float]]:
        """Fields that share a label with a break of the link, and the widths over which noise blurs that."""
        values = distinct(np.array(self.shape.turning_labels), SAME)
        if not self.shape.branches or values.size == 0:
            return []
        found = preimages(self.shape, values)
        places, widths = found.h.ravel(), self._sigma * np.exp(-found.log_slope.ravel())
        apart = np.min(np.abs(places[:, None] - self.shape.breaks), axis=1, initial=np.inf) > 1e-6
        used = apart & (np.abs(places) < REACH.fields)
        return sorted(zip(places[used].tolist(), widths[used].tolist(), strict=True))

    def _on_branches(self, h: Array, label: Array, v: float) -> _Cells:
        """Panels about the solutions of each label on the monotone branches."""
        found: list[tuple[NDArray[np.intp], Array, Array]] = []
        low, high = self._window(h, v)
        steep, wide = self._sigma * REACH.steep, np.sqrt(v) * REACH.wide
        for branch in self.shape.branches:
            up = int(branch.h[-1] > branch.h[0])
            ends = [np.interp(label + side * REACH.seen * self._sigma, branch.values, branch.h) for side in (-1, 1)]
            a, b = np.maximum(ends[1 - up], low), np.minimum(ends[up], high)
            own = np.flatnonzero(b > a)
            if own.size:
                found.append(_levelled(branch, own, a[own], b[own], steep, wide))
        return _sorted(found)

    def _on_flats(self, h: Array, label: Array, v: float) -> _Cells:
        """Flat intervals whose value is close to each label."""
        parts: list[tuple[NDArray[np.intp], Array, Array]] = []
        low, high = self._window(h, v)
        for flat in self.shape.flats:
            close = np.abs(flat.value - label) < REACH.seen * self._sigma
            for a, b in flat.intervals:
                own = np.flatnonzero(close & (low < b) & (high > a))
                parts.append((own, np.maximum(a, low[own]), np.minimum(b, high[own])))
        return _sorted(parts)

    def _window(self, h: Array, v: float) -> tuple[Array, Array]:
        """Fields that posteriors may reach, from the fields that made the labels."""
        reach = np.sqrt(v) * (REACH.prior + REACH.means * np.sqrt(1 - v))
        return (1 - v) * h - reach, (1 - v) * h + reach

    def _alone(self, steep: _Cells, level: _Cells, count: int) -> NDArray[np.bool_]:
        """Whether the panels of each field lie next to each other on one smooth piece of the link."""
        piece = np.searchsorted(self.shape.breaks, 0.5 * (steep.low + steep.high))
        least, most = np.full(count, np.iinfo(np.intp).max), np.full(count, -1)
        np.minimum.at(least, steep.owner, piece)
        np.maximum.at(most, steep.owner, piece)
        return np.asarray((least == most) & (np.bincount(level.owner, minlength=count) == 0))


def _levelled(
    branch: Branch, own: NDArray[np.intp], a: Array, b: Array, steep: float, wide: float
) -> tuple[NDArray[np.intp], Array, Array]:
    """Each interval in panels across which value and field together change by one unit."""
    up = 1 if branch.h[-1] > branch.h[0] else -1
    h, values = branch.h[::up], branch.values[::up]
    measure = up * (values - values[0]) / steep + (h - h[0]) / wide
    first, last = np.interp(a, h, measure), np.interp(b, h, measure)
    count = np.maximum(np.ceil(last - first), 1).astype(int)
    number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    owner, per, size = (np.repeat(x, count) for x in (own, (last - first) / count, count))
    start = np.repeat(first, count)
    low = np.where(number == 0, np.repeat(a, count), np.interp(start + number * per, measure, h))
    high = np.where(number + 1 == size, np.repeat(b, count), np.interp(start + (number + 1) * per, measure, h))
    return owner, low, high


def _sorted(parts: list[tuple[NDArray[np.intp], Array, Array]]) -> _Cells:
    if not parts:
        return _Cells(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))
    owner, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(owner, kind="stable")
    return _Cells(owner[order], low[order], high[order])


def _padded(cells: _Cells, counts: NDArray[np.intp], part: NDArray[np.intp]) -> tuple[Array, Array]:
    """Panels of some fields, shape (fields, most), padded with empty ones."""
    start = np.cumsum(counts) - counts
    place = start[part, None] + np.arange(counts[part].max())
    real = np.arange(counts[part].max()) < counts[part, None]
    # The padding lies at the last panel's end, close to those that are real.
    safe = np.where(real, place, np.maximum(start + counts - 1, 0)[part, None]).clip(0, len(cells.low) - 1)
    return np.where(real, cells.low[safe], cells.high[safe]), cells.high[safe]


def _groups(index: NDArray[np.intp], size: NDArray[np.intp], width: int) -> Iterator[NDArray[np.intp]]:
    """Fields in groups of about the same number of nodes."""
    order = index[np.argsort(size[index], kind="stable")]
    start = 0
    while start < order.size:
        smallest = int(size[order[start]])
        rows = max(1, REACH.entries // (max(smallest, 1) * width))
        alike = int(np.searchsorted(size[order], 1.3 * smallest + 12, side="right"))
        stop = max(start + 1, min(start + rows, alike))
        yield order[start:stop]
        start = stop


def _phases(index: NDArray[np.intp], which: int) -> Array:
    """Quasi-random displacements in [-1/2, 1/2), shape (fields, 1)."""
    return np.asarray((index * _IRRATIONAL[which] % 1.0 - 0.5)[:, None])


def _bell(x: Array) -> Array:
    """exp(-x^2/2)."""
    bell = x * x
    bell *= -0.5
    return np.exp(bell, out=bell)


def _offsets(finest: float) -> Array:
    """Distances from a break at which panels end, down to the finest."""
    offsets = REACH.ratio ** -np.arange(0, np.clip(np.ceil(-np.log(finest) / np.log(REACH.ratio)), 1, REACH.finest) + 1)
    return np.concatenate([-offsets, offsets])
