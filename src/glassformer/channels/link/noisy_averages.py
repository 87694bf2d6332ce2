r"""Averages over labels with Gaussian noise: over the field, the noise of its label, and the mean given both.

Given a field ``h`` and the noise of its label, the mean is :math:`\omega = qh + \sqrt{qV}\,t` with ``t`` standard
normal, so that all three have smooth laws whatever the noise. The posterior lives where the link comes within some
noise of the label: on panels about every solution, short against both the noise and the prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.link.field_quadrature import FEW, SHORT, Rule, normal_density
from glassformer.channels.link.inverse_branches import preimages
from glassformer.channels.link.noisy_draws import Draws, few, lattices
from glassformer.channels.link.normal_intervals import interval_mass
from glassformer.channels.link.piecewise import SAME, LinkShape, distinct
from glassformer.channels.link.solution_panels import Cells, cells_on_branches, cells_on_flats
from glassformer.channels.scalar.base import Array
from glassformer.numerics.quadrature import gauss_panels


@dataclass(frozen=True)
class Reach:
    """How far and how finely averages go.

    Attributes:
        fields, draws: of the average over fields, and those over noise and means, in standard deviations.
        prior: of the prior of a posterior, which must hold all fields.
        seen: deviations of the noise between labels of fields that see each other.
        steep, wide: width of a panel in deviations of the noise, and of the prior.
        most: nodes of a panel that no integrand here exceeds.
        ratio, finest: of neighbouring panels next to a break, and how many of them there are at most.
        level: slope of an extremum, relative to what the link takes beside it.
        straight: smallest slope of the link where a posterior may be, in units of its largest, from which on averages
            are next to those of polynomials.
        few: nodes of these, times the spacing of the rule.
        entries: of one array of likelihoods.
    """

    fields: float = 7.6
    draws: float = 7.4
    prior: float = 7.8
    seen: float = 10.8
    steep: float = 5.0
    wide: float = 3.0
    most: int = 18
    ratio: float = 4.0
    finest: int = 15
    level: float = 1e-6
    straight: float = 0.7
    few: float = 1.1
    entries: int = 100_000


REACH = Reach()


@dataclass(frozen=True, eq=False)
class NoisyAverages:
    """Information and expected log partition of a link with Gaussian noise of variance ``noise``."""

    shape: LinkShape
    noise: float
    nodes: int

    def __call__(self, v: float, rule: Rule) -> tuple[float, float]:
        h, weight = self._fields(v, rule)
        label = self.shape.link(h)
        window, seen = self._window(h, v), REACH.seen * self._sigma
        steep = cells_on_branches(self.shape, label, seen, window, (REACH.steep * self._sigma, REACH.wide * np.sqrt(v)))
        level = cells_on_flats(self.shape, label, seen, window)
        counts = [np.bincount(cells.owner, minlength=h.size) for cells in (steep, level)]
        information = expected = 0.0
        size = self._order(rule) * counts[0] + counts[1]
        for of_these, draws in self._draws(steep, level, h.size, rule):
            for part in _groups(np.flatnonzero(of_these), size, draws.size):
                noise, mean, chance = draws.of(part)
                omega, y = (
                    (1 - v) * h[part, None] + np.sqrt((1 - v) * v) * mean,
                    label[part, None] / self._sigma + noise,
                )
                z, slope = self._partitions(steep, level, counts, part, omega, y, v, rule)
                information += float(weight[part] @ np.sum(chance * (slope / z) ** 2, axis=(1, 2))) / v
                expected += float(weight[part] @ np.sum(chance * np.log(z), axis=(1, 2)))
        return information, expected - float(np.sum(weight)) * np.log(self._sigma * np.sqrt(2 * np.pi))

    def _draws(self, steep: Cells, level: Cells, count: int, rule: Rule) -> Iterator[tuple[NDArray[np.bool_], Draws]]:
        """Which fields take which nodes of noise and mean."""
        # One panel after the other of one solution has no rivals, and nothing happens on a smaller scale.
        alone = self._alone(steep, level, count)
        straight = alone & self._straight(steep, count)
        yield straight, few(int(REACH.few / rule.lattice))
        yield alone & ~straight, lattices(REACH.draws, (5.5 * rule.lattice, 4 * rule.lattice))
        yield ~alone, lattices(REACH.draws, (4 * rule.lattice, 3 * rule.lattice))

    @property
    def _sigma(self) -> float:
        return float(np.sqrt(self.noise))

    def _order(self, rule: Rule) -> int:
        """Nodes per panel: panels are short already, and a higher order is worth more than shorter ones."""
        return min(rule.parts * rule.of(self.nodes), REACH.most)

    def _partitions(
        self,
        steep: Cells,
        level: Cells,
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
        finest = [(place, (width if smooth else min(width, scale)) / 4) for place, width, smooth in self._ends]
        # A solution appears or vanishes there, over the width of the noise.
        sighted = 2 * REACH.prior * scale
        finest += [(place, width / 2) for place, width in self._shared if np.min(np.abs(breaks - place)) < sighted]
        places = np.sort([place for place, _ in finest])
        near = [_around(place, depth, places) for place, depth in finest]
        smooth = np.concatenate([np.linspace(-REACH.fields, REACH.fields, 13), *near])
        fixed = np.concatenate([breaks, [0.0] if any(self.shape.parities) else []])
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
        if any(self.shape.parities):
            kept = h > 0
            h, w = h[kept], 2 * w[kept]
        return h, w

    def _crowded(self, places: Array, scale: float) -> NDArray[np.bool_]:
        """Which places lie on flat parts so short that nothing happens but at their ends."""
        ends = np.concatenate([[-np.inf], self.shape.breaks, [np.inf]])
        after = np.searchsorted(ends, places, side="right").clip(1, ends.size - 1)
        return self.shape.is_flat(places) & (ends[after] - ends[after - 1] < SHORT * scale)

    @cached_property
    def _ends(self) -> list[tuple[float, float, bool]]:
        """Breaks, the width over which the noise blurs the label beside them, up to one, and whether they are extrema.

        The link is smooth at an extremum: nothing happens there on a scale below that width.
        """
        widths, extrema = np.ones(self.shape.breaks.size), np.zeros(self.shape.breaks.size, dtype=int)
        for branch in self.shape.branches:
            for k, side in ((0, 1), (-1, -1)):
                blurred = np.interp(branch.values[k] + side * self._sigma, branch.values, branch.h)
                at = np.abs(self.shape.breaks - branch.h[k]) < 1e-6
                widths[at] = np.minimum(widths[at], np.abs(blurred - branch.h[k]))
                extrema[at] += abs(branch.derivative(branch.h[k])) < REACH.level * np.ptp(branch.values)
        return list(zip(self.shape.breaks.tolist(), widths.tolist(), (extrema == 2).tolist(), strict=True))

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

    def _window(self, h: Array, v: float) -> tuple[Array, Array]:
        """Fields that posteriors may reach, from the fields that made the labels."""
        reach = np.sqrt(v) * (REACH.prior + REACH.draws * np.sqrt(1 - v))
        return (1 - v) * h - reach, (1 - v) * h + reach

    def _alone(self, steep: Cells, level: Cells, count: int) -> NDArray[np.bool_]:
        """Whether the panels of each field lie next to each other on one smooth piece of the link."""
        piece = np.searchsorted(self.shape.breaks, 0.5 * (steep.low + steep.high))
        least, most = np.full(count, np.iinfo(np.intp).max), np.full(count, -1)
        np.minimum.at(least, steep.owner, piece)
        np.maximum.at(most, steep.owner, piece)
        return np.asarray((least == most) & (np.bincount(level.owner, minlength=count) == 0))

    def _straight(self, steep: Cells, count: int) -> NDArray[np.bool_]:
        """Whether the link is next to a straight line on all panels of each field."""
        low, high = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(low, steep.owner, steep.low)
        np.maximum.at(high, steep.owner, steep.high)
        at = np.flatnonzero(high > low)
        values = self.shape.link(low[at, None] + (high - low)[at, None] * np.linspace(0, 1, 9))
        slopes = np.abs(np.diff(values, axis=1))
        straight = np.zeros(count, dtype=bool)
        straight[at] = slopes.min(axis=1) >= REACH.straight * slopes.max(axis=1)
        return straight


def _padded(cells: Cells, counts: NDArray[np.intp], part: NDArray[np.intp]) -> tuple[Array, Array]:
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


def _bell(x: Array) -> Array:
    """exp(-x^2/2)."""
    bell = x * x
    bell *= -0.5
    return np.exp(bell, out=bell)


def _around(place: float, finest: float, places: Array) -> Array:
    """Ends of panels about a place, down to the finest and up to half the distance to its neighbours."""
    depth = np.clip(np.ceil(-np.log(finest) / np.log(REACH.ratio)), 1, REACH.finest)
    offsets = REACH.ratio ** -np.arange(0, depth + 1)
    near = np.searchsorted(places, [place - SAME, place + SAME])
    below, above = np.append(-np.inf, places)[near[0]], np.append(places, np.inf)[near[1]]
    return np.concatenate([place - offsets[2 * offsets < place - below], place + offsets[2 * offsets < above - place]])
