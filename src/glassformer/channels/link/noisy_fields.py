r"""Averages over noisy labels for narrow posteriors: over the field, the noise of its label, and the mean given both.

Given a field ``h`` and the noise of its label, the mean is :math:`\omega = qh + \sqrt{qV}\,t` with ``t`` standard
normal, so all three have smooth laws whatever the noise. The posterior lives where the link comes within some standard
deviations of the noise of the label: on panels around every solution, short against both the noise and the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from glassformer.channels.link.piecewise import SAME, PiecewiseLink, distinct, preimages
from glassformer.channels.link.posterior_panels import LabelPanels, branch_panels, flat_panels
from glassformer.channels.link.quadrature import (
    SHORT,
    Rule,
    interval_mass,
    lattice,
    normal_density,
    short_and_long_panels,
)
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels

# Ranges in standard deviations: of the field, of noise and mean given the field, of the prior of a posterior. The share
# that is left out is `NoisyPosterior.truncation`.
_FIELD_RANGE, _NOISE_RANGE, _PRIOR_RANGE = 7.6, 7.4, 7.8
_LABEL_REACH = 10.8  # difference of labels, in deviations of the noise, up to which a field counts
_LINK_SIZE, _FIELD_SIZE = 5.0, 3.0  # size of a panel in deviations of the noise, and of the prior
_GRADING, _MOST_PANELS = 4.0, 15  # ratio of neighbouring panels next to a break, and their largest number
_ZERO_SLOPE = 1e-6  # slope at an extremum, relative to the range of the branch
_STRAIGHT = 0.7  # smallest ratio of slopes of the link over a posterior for which averages are nearly polynomials
_FEW = 1.1  # nodes of a Gauss rule for nearly polynomial averages, times the spacing of the lattice of the rule
_ENTRIES = 100_000  # size of one array of likelihoods
_IRRATIONAL = (0.7548776662466927, 0.5698402909980532)  # powers of the inverse of the plastic number


class NormalPairs(NamedTuple):
    """A quadrature rule for two standard normal numbers, which may differ between fields.

    Attributes:
        size: nodes of both numbers together.
        nodes: maps indices of fields to nodes, shapes (fields, first) and (fields, second), and joint probabilities.
    """

    size: int
    nodes: Callable[[NDArray[np.intp]], tuple[Array, Array, Array]]


def shifted_lattices(reach: float, steps: tuple[float, float]) -> NormalPairs:
    """Return lattices that are shifted between fields, so that their errors average out.

    Example:
        >>> shifted_lattices(7.4, (0.5, 0.5)).nodes(np.arange(3))[2].sum(axis=(1, 2)).round(12)
        array([1., 1., 1.])
    """
    points = [lattice(reach, step) for step in steps]

    def nodes(fields: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        first, second = (
            x + step * (fields * shift % 1.0 - 0.5)[:, None]
            for x, step, shift in zip(points, steps, _IRRATIONAL, strict=True)
        )
        return first, second, steps[0] * normal_density(first)[:, :, None] * steps[1] * normal_density(second)[:, None]

    return NormalPairs(sum(x.size for x in points), nodes)


def gauss_pairs(count: int) -> NormalPairs:
    """Return a product of Gauss-Hermite rules, for functions that are nearly polynomials.

    Example:
        >>> x, _, probability = gauss_pairs(5).nodes(np.arange(2))
        >>> np.sum(probability * x[:, :, None] ** 4, axis=(1, 2)).round(12)
        array([3., 3.])
    """
    x, w = hermegauss(count)
    w = w / np.sum(w)

    def nodes(fields: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        first = np.broadcast_to(x, (fields.size, count))
        return first, first, np.multiply.outer(w, w)[None]

    return NormalPairs(2 * count, nodes)


class _Candidates(NamedTuple):
    """Panels around the solutions of the label of each field, on branches and flat parts, and their numbers."""

    steep: LabelPanels
    flat: LabelPanels
    steep_counts: NDArray[np.intp]
    flat_counts: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class FieldIntegrals:
    """Information and expected log partition of a link with Gaussian noise of variance ``noise``."""

    pieces: PiecewiseLink
    noise: float
    nodes: int

    def __call__(self, v: float, rule: Rule) -> tuple[float, float]:
        h, weight = self._fields(v, rule)
        label = self.pieces.link(h)
        prior_reach = np.sqrt(v) * (_PRIOR_RANGE + _NOISE_RANGE * np.sqrt(1 - v))
        window, reach = ((1 - v) * h - prior_reach, (1 - v) * h + prior_reach), _LABEL_REACH * self._sigma
        size = _LINK_SIZE * self._sigma, _FIELD_SIZE * np.sqrt(v)
        steep = branch_panels(self.pieces, label, reach, window, size)
        flat = flat_panels(self.pieces, label, reach, window)
        panels = _Candidates(steep, flat, *(np.bincount(part.owner, minlength=h.size) for part in (steep, flat)))
        information = expected = 0.0
        cost = rule.panel_order(self.nodes) * panels.steep_counts + panels.flat_counts
        for chosen, pairs in self._pair_rules(panels, rule):
            for part in _groups(np.flatnonzero(chosen), cost, pairs.size):
                noise, mean, probability = pairs.nodes(part)
                omega = (1 - v) * h[part, None] + np.sqrt((1 - v) * v) * mean
                y = label[part, None] / self._sigma + noise
                z, slope = self._partitions(panels, part, omega, y, v, rule)
                information += float(weight[part] @ np.sum(probability * (slope / z) ** 2, axis=(1, 2))) / v
                expected += float(weight[part] @ np.sum(probability * np.log(z), axis=(1, 2)))
        return information, expected - float(np.sum(weight)) * np.log(self._sigma * np.sqrt(2 * np.pi))

    @property
    def _sigma(self) -> float:
        return float(np.sqrt(self.noise))

    def _pair_rules(self, panels: _Candidates, rule: Rule) -> Iterator[tuple[NDArray[np.bool_], NormalPairs]]:
        """Yield masks of fields with their rule for noise and mean."""
        steep, count = panels.steep, panels.steep_counts.size
        # A field whose panels lie on one smooth piece of the link has one solution.
        piece = np.searchsorted(self.pieces.breaks, 0.5 * (steep.low + steep.high))
        least, most = np.full(count, np.iinfo(np.intp).max), np.full(count, -1)
        np.minimum.at(least, steep.owner, piece)
        np.maximum.at(most, steep.owner, piece)
        single = np.asarray((least == most) & (panels.flat_counts == 0))
        straight = single & self._is_straight(steep, count)
        yield straight, gauss_pairs(int(_FEW / rule.lattice))
        yield single & ~straight, shifted_lattices(_NOISE_RANGE, (5.5 * rule.lattice, 4 * rule.lattice))
        yield ~single, shifted_lattices(_NOISE_RANGE, (4 * rule.lattice, 3 * rule.lattice))

    def _is_straight(self, steep: LabelPanels, count: int) -> NDArray[np.bool_]:
        """Return whether the link is nearly a straight line on all panels of each field."""
        low, high = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(low, steep.owner, steep.low)
        np.maximum.at(high, steep.owner, steep.high)
        at = np.flatnonzero(high > low)
        values = self.pieces.link(low[at, None] + (high - low)[at, None] * np.linspace(0, 1, 9))
        slopes = np.abs(np.diff(values, axis=1))
        straight = np.zeros(count, dtype=bool)
        straight[at] = slopes.min(axis=1) >= _STRAIGHT * slopes.max(axis=1)
        return straight

    def _partitions(
        self, panels: _Candidates, part: NDArray[np.intp], omega: Array, y: Array, v: float, rule: Rule
    ) -> tuple[Array, Array]:
        """Return the partition and its slope times sqrt(V), shape (fields, noise, means), over the largest density.

        Labels ``y`` are in deviations of the noise.
        """
        z = slope = np.zeros(1)
        scale = np.sqrt(v)
        if np.any(panels.steep_counts[part]):
            low, high = _padded(panels.steep, panels.steep_counts, part)
            nodes, w = gauss_panels(np.stack([low, high], axis=-1), rule.panel_order(self.nodes))
            nodes, w = nodes.reshape(len(part), -1), w.reshape(len(part), -1)
            likelihood = _bell(y[:, :, None] - (self.pieces.link(nodes) / self._sigma)[:, None])
            likelihood *= w[:, None] / (scale * np.sqrt(2 * np.pi))
            u = (nodes / scale)[:, None] - (omega / scale)[:, :, None]
            prior = _bell(u)
            z = z + likelihood @ np.swapaxes(prior, 1, 2)
            slope = slope + likelihood @ np.swapaxes(np.multiply(prior, u, out=u), 1, 2)
        if np.any(panels.flat_counts[part]):
            low, high = _padded(panels.flat, panels.flat_counts, part)
            likelihood = _bell(y[:, :, None] - (self.pieces.link(0.5 * (low + high)) / self._sigma)[:, None])
            a, b = ((x[:, None] - omega[:, :, None]) / scale for x in (low, high))
            z = z + likelihood @ np.swapaxes(interval_mass(a, b), 1, 2)
            slope = slope + likelihood @ np.swapaxes(normal_density(a) - normal_density(b), 1, 2)
        return np.maximum(z, 1e-290), slope

    def _fields(self, v: float, rule: Rule) -> tuple[Array, Array]:
        """Return nodes of a standard normal field with probability weights, graded towards changes of its posterior."""
        scale, breaks = np.sqrt(v), self.pieces.breaks
        finest = [(place, (width if smooth else min(width, scale)) / 4) for place, width, smooth in self._breaks]
        # A solution appears or vanishes at the label of a break, over the width of the noise.
        visible = 2 * _PRIOR_RANGE * scale
        finest += [
            (place, width / 2)
            for place, width in self._fields_with_break_labels
            if np.min(np.abs(breaks - place)) < visible
        ]
        places = np.sort([place for place, _ in finest])
        near = [_graded(place, depth, places) for place, depth in finest]
        smooth = np.concatenate([np.linspace(-_FIELD_RANGE, _FIELD_RANGE, 13), *near])
        symmetric = any(self.pieces.parity)
        fixed = np.concatenate([breaks, [0.0] if symmetric else []])
        # On such a short flat part the integrand has structure only at the ends.
        ends = np.concatenate([[-np.inf], breaks, [np.inf]])
        after = np.searchsorted(ends, smooth, side="right").clip(1, ends.size - 1)
        crowded = self.pieces.is_flat(smooth) & (ends[after] - ends[after - 1] < SHORT * scale)
        edges = np.concatenate([smooth[~crowded], fixed])
        edges = distinct(edges[np.abs(edges) <= _FIELD_RANGE], 1e-13)
        short = self.pieces.is_flat(0.5 * (edges[1:] + edges[:-1])) & (np.diff(edges) < SHORT * scale)
        h, w = short_and_long_panels(edges, short, rule.panel_order(self.nodes))
        w = w * normal_density(h)
        return (h[h > 0], 2 * w[h > 0]) if symmetric else (h, w)

    @cached_property
    def _breaks(self) -> list[tuple[float, float, bool]]:
        """Breaks, the width over which noise blurs the label there (at most one), and whether they are extrema.

        The link is smooth at an extremum, so there is no structure below that width.
        """
        widths, extrema = np.ones(self.pieces.breaks.size), np.zeros(self.pieces.breaks.size, dtype=int)
        for branch in self.pieces.branches:
            for k, side in ((0, 1), (-1, -1)):
                blurred = np.interp(branch.values[k] + side * self._sigma, branch.values, branch.h)
                at = np.abs(self.pieces.breaks - branch.h[k]) < 1e-6
                widths[at] = np.minimum(widths[at], np.abs(blurred - branch.h[k]))
                extrema[at] += abs(branch.derivative(branch.h[k])) < _ZERO_SLOPE * np.ptp(branch.values)
        return list(zip(self.pieces.breaks.tolist(), widths.tolist(), (extrema == 2).tolist(), strict=True))

    @cached_property
    def _fields_with_break_labels(self) -> list[tuple[float, float]]:
        """Fields that share a label with a break of the link, and the widths over which noise blurs that label."""
        # Noise blurs finer differences of labels.
        labels = distinct(np.array(self.pieces.critical_labels()), SAME * self._sigma)
        if not self.pieces.branches or labels.size == 0:
            return []
        solutions = preimages(self.pieces, labels)
        places, widths = solutions.h.ravel(), self._sigma * np.exp(-solutions.log_slope.ravel())
        other = np.min(np.abs(places[:, None] - self.pieces.breaks), axis=1, initial=np.inf) > 1e-6
        used = other & (np.abs(places) < _FIELD_RANGE)
        return sorted(zip(places[used].tolist(), widths[used].tolist(), strict=True))


def _graded(place: float, finest: float, places: Array) -> Array:
    """Return the ends of panels around a place, from the finest width to half the distance to its neighbours."""
    depth = np.clip(np.ceil(-np.log(finest) / np.log(_GRADING)), 1, _MOST_PANELS)
    offsets = _GRADING ** -np.arange(0, depth + 1)
    near = np.searchsorted(places, [place - SAME, place + SAME])
    below, above = np.append(-np.inf, places)[near[0]], np.append(places, np.inf)[near[1]]
    return np.concatenate([place - offsets[2 * offsets < place - below], place + offsets[2 * offsets < above - place]])


def _padded(panels: LabelPanels, counts: NDArray[np.intp], part: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return the panels of some fields, shape (fields, most), padded with empty panels."""
    start = np.cumsum(counts) - counts
    place = start[part, None] + np.arange(counts[part].max())
    real = np.arange(counts[part].max()) < counts[part, None]
    safe = np.where(real, place, np.maximum(start + counts - 1, 0)[part, None]).clip(0, len(panels.low) - 1)
    return np.where(real, panels.low[safe], panels.high[safe]), panels.high[safe]


def _groups(index: NDArray[np.intp], cost: NDArray[np.intp], width: int) -> Iterator[NDArray[np.intp]]:
    """Yield fields in groups of about the same number of nodes."""
    order = index[np.argsort(cost[index], kind="stable")]
    start = 0
    while start < order.size:
        smallest = int(cost[order[start]])
        rows = max(1, _ENTRIES // (max(smallest, 1) * width))
        similar = int(np.searchsorted(cost[order], 1.3 * smallest + 12, side="right"))
        stop = max(start + 1, min(start + rows, similar))
        yield order[start:stop]
        start = stop


def _bell(x: Array) -> Array:
    """Return exp(-x^2/2) with one temporary array."""
    bell = x * x
    bell *= -0.5
    return np.exp(bell, out=bell)
