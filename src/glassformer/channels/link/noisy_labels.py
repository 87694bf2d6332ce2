r"""Averages over noisy labels for wide posteriors and for step functions: over the label, and the mean of the field.

:math:`Z_{out}(y, \omega)` is computed once for each label, however many fields have it. In the label it is smooth on
the scale of the noise around the labels where solutions appear or vanish, and on the scale of the link elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from glassformer.channels.link.piecewise import PiecewiseLink
from glassformer.channels.link.posterior_panels import branch_panels, flat_panels
from glassformer.channels.link.quadrature import TAIL, WINDOW, Rule, interval_mass, normal_density
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels

# Ranges in standard deviations: of the field, of the mean, of the prior of the field given its mean, and of the noise.
_FIELD_RANGE, _MEAN_RANGE, _PRIOR_RANGE, _NOISE_RANGE = 8.0, 7.4, 7.8, 8.0
# Panels of labels end at quantiles of the labels of fields on a fine grid. Around labels at which solutions appear or
# vanish they end at given deviations of the noise, and grow by a ratio beyond. No two ends are closer than _CLOSEST
# deviations. If _SEVERAL quantiles lie within that distance, the link approaches a limiting label there.
_QUANTILES, _FIELDS_PER_QUANTILE = 14, 200
_BLUR, _GRADING = (1.25, 3.6, 7.4), 4.0
_CLOSEST, _SEVERAL = 0.5, 3
_LINK_SIZE, _FIELD_SIZE = 5.0, 3.0  # size of a panel of fields in deviations of the noise, and of the prior
_MEAN_SPACING = 3.0  # spacing of the lattice of means, in units of the spacing of the rule
# number of neighbouring means whose weights are powers of one number, and number of such groups in one block
_POWERS, _BLOCK = 8, 5
_NOTHING = 1e-280  # smaller densities count as zero
_PANELS, _ENTRIES = 20_000, 60_000  # approximate number of fields of one block, and size of one array
_IRRATIONAL = 0.7548776662466927  # the inverse of the plastic number
_MEANS, _COLUMNS = 64, 512  # numbers of means and labels of one block, for a step function


class _WeightedFields(NamedTuple):
    """Fields that are compatible with each label, in the order of the labels, with the weights of their integral.

    Attributes:
        owner: number of the label, shape (n,).
        place: fields, shape (n, 1), or ends of intervals, shape (n, 2).
        weight: shape (n,).
    """

    owner: NDArray[np.intp]
    place: Array
    weight: Array

    def near(self, centre: float, reach: float) -> _WeightedFields:
        """Return the fields within reach of a mean."""
        at = (self.place[:, -1] > centre - reach) & (self.place[:, 0] < centre + reach)
        return _WeightedFields(self.owner[at], self.place[at], self.weight[at])

    def of(self, labels: slice) -> tuple[csr_array, NDArray[np.intp], Array]:
        """Return the weights for some labels, their owners counted from the first of these labels, and places."""
        part = slice(*np.searchsorted(self.owner, [labels.start, labels.stop]))
        owner, weight = self.owner[part] - labels.start, self.weight[part]
        starts = np.searchsorted(owner, np.arange(labels.stop - labels.start + 1))
        shape = (labels.stop - labels.start, owner.size)
        return csr_array((weight, np.arange(owner.size), starts), shape=shape), owner, self.place[part]


@dataclass(frozen=True, eq=False)
class LabelIntegrals:
    """Information and expected log partition of a link with branches and Gaussian noise of variance ``noise``.

    Example:
        >>> from glassformer.channels.link.piecewise import find_pieces
        >>> from glassformer.channels.link.quadrature import RULES
        >>> averages = LabelIntegrals(find_pieces(lambda h: h), 0.5, 12)
        >>> bool(abs(averages(0.5, RULES[0])[0] - 1) < 1e-8)  # 1/(V + noise)
        True
    """

    pieces: PiecewiseLink
    noise: float
    nodes: int

    def __call__(self, v: float, rule: Rule) -> tuple[float, float]:
        odd, even = self.pieces.parity
        y, weight = self._labels(rule)
        # Lattices of means are shifted from one label to the next, so that their errors average out. For an even link
        # one lattice has as many means of either sign.
        phase = np.asarray(np.arange(y.size) * (0.0 if even else _IRRATIONAL) % 1.0 - 0.5 * (not even), np.float64)
        spacing = _MEAN_SPACING * rule.lattice * np.sqrt(v)
        rows = max(1, _PANELS // (len(self.pieces.branches) + len(self.pieces.flats)))
        information = expected = 0.0
        for start in range(0, y.size, rows):
            part = slice(start, start + rows)
            candidates = self._fields(y[part], v, rule), self._flats(y[part])
            square, log_z = _integrals(candidates, weight[part], phase[part], v, spacing, even)
            information, expected = information + square, expected + log_z
        both = (1 + even) * (1 + odd)
        return both * information, both * expected - float(np.log(self._sigma))

    @property
    def _sigma(self) -> float:
        return float(np.sqrt(self.noise))

    @cached_property
    def _labels(self) -> Callable[[Rule], tuple[Array, Array]]:
        """Return labels in deviations of the noise and their quadrature weights, for a rule."""
        edges, nodes = self._edges, self.nodes
        return lru_cache(maxsize=8)(lambda rule: gauss_panels(edges, rule.panel_order(nodes)))

    @cached_property
    def _edges(self) -> Array:
        """Ends of panels of labels. For an odd link only the positive ones."""
        fields = np.linspace(-_FIELD_RANGE, _FIELD_RANGE, _FIELDS_PER_QUANTILE * _QUANTILES + 1)
        values = np.sort(self.pieces.link(fields)) / self._sigma
        quantiles = values[::_FIELDS_PER_QUANTILE]
        # Several quantiles lie within the noise, so the link is nearly flat there.
        _, first, count = np.unique(np.floor(quantiles / _CLOSEST), return_index=True, return_counts=True)
        critical = np.array(self.pieces.critical_labels(_FIELD_RANGE)) / self._sigma
        critical = np.concatenate([critical, quantiles[first[count >= _SEVERAL]]])
        least, most = np.sort(np.concatenate([values, critical]))[[0, -1]]
        far = _BLUR[-1]
        depth = int(np.ceil(max(np.log((most - least) / far) / np.log(_GRADING), 0.0)))
        offsets = np.concatenate([_BLUR, far * _GRADING ** np.arange(1, depth + 1)])
        near = critical[:, None] + np.concatenate([-offsets[::-1], [0.0], offsets])
        edges = np.concatenate([quantiles, near[(near > least - far) & (near < most + far)]])
        _, first = np.unique(np.floor(edges / _CLOSEST), return_index=True)
        edges = np.unique(np.concatenate([[least - far], edges[first], [most + far]]))
        return np.append(0.0, edges[edges > 0]) if self.pieces.parity.odd else edges

    def _fields(self, y: Array, v: float, rule: Rule) -> _WeightedFields:
        sigma = self._sigma
        window = np.full(y.size, -_FIELD_RANGE), np.full(y.size, _FIELD_RANGE)
        size = _LINK_SIZE * sigma, _FIELD_SIZE * np.sqrt(v)
        owner, low, high = branch_panels(self.pieces, sigma * y, _NOISE_RANGE * sigma, window, size)
        order = rule.panel_order(self.nodes)
        h, w = (part.reshape(-1, order) for part in gauss_panels(np.stack([low, high], axis=-1), order))
        weight = w * normal_density(y[owner, None] - self.pieces.link(h) / sigma) / np.sqrt(2 * np.pi * v)
        return _WeightedFields(np.repeat(owner, order), h.reshape(-1, 1), weight.ravel())

    def _flats(self, y: Array) -> _WeightedFields:
        sigma = self._sigma
        window = np.full(y.size, -np.inf), np.full(y.size, np.inf)
        owner, low, high = flat_panels(self.pieces, sigma * y, _NOISE_RANGE * sigma, window)
        value = self.pieces.link(np.clip(0.5 * (np.maximum(low, -20) + np.minimum(high, 20)), -12, 12))
        return _WeightedFields(owner, np.stack([low, high], axis=-1), normal_density(y[owner] - value / sigma))


def _integrals(
    candidates: tuple[_WeightedFields, _WeightedFields],
    weight: Array,
    phase: Array,
    v: float,
    spacing: float,
    half: bool,
) -> tuple[float, float]:
    """Return the integrals over some labels with weights, and over lattices of means, shifted by a phase.

    Means are in units of sqrt(q). ``half`` takes only those above zero.
    """
    scale = np.sqrt(1 - v)
    # Means in blocks of equally many, a multiple of _POWERS, that lie symmetrically around zero or above it.
    means = (1 if half else 2) * _MEAN_RANGE / spacing + 2
    blocks = int(np.ceil(means / (_POWERS * _BLOCK)))
    size = _POWERS * int(np.ceil(means / (_POWERS * blocks)))
    step = spacing * (np.arange(size) - 0.5 * (size - 1))
    reach = _PRIOR_RANGE * np.sqrt(v) + spacing * scale * (0.5 * size + 1)
    information = expected = 0.0
    for block in np.arange(blocks) + (0.5 if half else 0.5 * (1 - blocks)):
        fields, flats = (part.near(spacing * scale * size * block, reach) for part in candidates)
        for part in _label_groups((fields, flats), weight.size, size):
            middle = spacing * (size * block + phase[part])
            z, slope = _partitions((fields, flats), part, middle * scale, step * scale, v)
            probability = weight[part, None] * spacing * normal_density(middle[:, None] + step)
            possible = z > _NOTHING
            z, slope, probability = z[possible], slope[possible], probability[possible]
            information += float(probability @ (slope * (slope / z))) / v
            expected += float(probability @ (z * np.log(z)))
    return information, expected


def _label_groups(near: tuple[_WeightedFields, ...], labels: int, size: int) -> Iterator[slice]:
    """Yield groups of consecutive labels with about equal total numbers of fields."""
    count = np.cumsum(sum(np.bincount(part.owner, minlength=labels) for part in near))
    start = 0
    while start < labels:
        before = count[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(count, before + _ENTRIES // size, side="right")))
        if count[stop - 1] > before:
            yield slice(start, stop)
        start = stop


def _partitions(
    near: tuple[_WeightedFields, _WeightedFields], labels: slice, middle: Array, step: Array, v: float
) -> tuple[Array, Array]:
    r"""Return the partition and its slope times sqrt(V), shape (labels, means), at means ``middle + step``."""
    fields, flats = near
    scale = np.sqrt(v)
    weights, owner, place = fields.of(labels)
    # Weights of neighbouring means are powers of one number.
    gap = (place.ravel() - middle[owner]) / scale
    inner = (step[:_POWERS] - step[:_POWERS].mean()) / scale
    outer = (step.reshape(-1, _POWERS).mean(axis=1)) / scale
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


@dataclass(frozen=True, eq=False)
class StepIntegrals:
    """Information and expected log partition of a step function with Gaussian noise of variance ``noise``.

    The levels near a mean have probabilities in closed form: two smooth integrals remain, over mean and label.
    """

    pieces: PiecewiseLink
    noise: float

    def __call__(self, v: float, rule: Rule) -> tuple[float, float]:
        sigma, q = np.sqrt(self.noise), max(1.0 - v, 0.0)
        spacing = 2 * rule.lattice * np.sqrt(min(v, q)) if q > 0 else 1.0
        # Means at which one level is certain carry no information.
        information, expected = 0.0, -0.5 - np.log(sigma * np.sqrt(2 * np.pi))
        certain = expected
        for omega in self._means(v, q, spacing):
            weight = normal_density(omega / np.sqrt(q)) * spacing / np.sqrt(q) if q > 0 else np.ones(1)
            weight = weight * np.where(omega > 0, 2.0, 1.0) if self._symmetric else weight
            square, log_z = self._given_mean(omega, v, 2.5 * rule.lattice * sigma)
            information += float(weight @ square)
            expected += float(weight @ (log_z - certain))
        return information, float(expected)

    @cached_property
    def _levels(self) -> tuple[Array, Array]:
        """Intervals, ascending, shape (levels, 2), and their values."""
        intervals, part = self.pieces.flat_intervals
        return intervals, np.array([flat.value for flat in self.pieces.flats])[part]

    @cached_property
    def _symmetric(self) -> bool:
        """Whether means of opposite signs have equal contributions: levels are even or odd, up to a constant."""
        intervals, values = self._levels
        mirror = np.allclose(intervals, -intervals[::-1, ::-1], rtol=0, atol=1e-9)
        slack = 1e-12 * np.max(np.abs(values))
        pairs = (values - sign * values[::-1] for sign in (1, -1))
        return mirror and any(np.ptp(pair) <= slack for pair in pairs)

    def _means(self, v: float, q: float, spacing: float) -> Iterator[Array]:
        """Yield groups of neighbouring lattice points near the steps."""
        if q == 0:
            yield np.zeros(1)
            return
        most, farthest = int(TAIL * np.sqrt(q) / spacing), TAIL * np.sqrt(q) + WINDOW * np.sqrt(v)
        steps = self._levels[0][1:, 0]
        steps = steps[np.abs(steps) < farthest]
        first, last = (
            np.clip(np.rint((steps + side * WINDOW * np.sqrt(v)) / spacing), -most, most).astype(np.int64)
            for side in (-1, 1)
        )
        separate = np.flatnonzero(first[1:] > last[:-1] + _MEANS)
        least = 0 if self._symmetric else -most
        for low, high in zip(first[np.append(0, separate + 1)], last[np.append(separate, -1)], strict=True):
            for start in range(max(int(low), least), int(high) + 1, _MEANS):
                yield np.asarray(spacing * np.arange(start, min(start + _MEANS, int(high) + 1)), dtype=np.float64)

    def _given_mean(self, omega: Array, v: float, spacing: float) -> tuple[Array, Array]:
        """Return the integrals over the label of its information and its log partition, shape (omega,) each."""
        (low, high), values = self._levels[0].T, self._levels[1]
        reach, sigma = WINDOW * np.sqrt(v), np.sqrt(self.noise)
        near = (high > omega[0] - reach) & (low < omega[-1] + reach)
        ends = [(x[near] - omega[:, None]) / np.sqrt(v) for x in (low, high)]
        mass, slope = interval_mass(*ends), normal_density(ends[0]) - normal_density(ends[1])
        square, log_z = np.zeros(omega.size), np.zeros(omega.size)
        for y in self._labels(values[near], spacing):
            close = np.abs(values[near] - 0.5 * (y[0] + y[-1])) < WINDOW * sigma + 0.5 * (y[-1] - y[0])
            likelihood = normal_density((y - values[near][close, None]) / sigma) / sigma
            z, g = np.maximum(mass[:, close] @ likelihood, 1e-290), slope[:, close] @ likelihood
            square += spacing * np.sum(g * (g / z), axis=1) / v
            log_z += spacing * np.sum(z * np.log(z), axis=1)
        return square, log_z

    def _labels(self, values: Array, spacing: float) -> Iterator[Array]:
        """Yield lattice points near the values, a block at a time."""
        reach = int(np.ceil(WINDOW * np.sqrt(self.noise) / spacing))
        centres = np.sort(np.rint(values / spacing)).astype(np.int64)
        if np.all(np.diff(centres) <= 2 * reach + 1):
            places: NDArray[np.int64] = np.arange(centres[0] - reach, centres[-1] + reach + 1)
        else:
            places = np.unique(centres[:, None] + np.arange(-reach, reach + 1))
        for start in range(0, places.size, _COLUMNS):
            yield np.asarray(spacing * places[start : start + _COLUMNS], dtype=np.float64)
