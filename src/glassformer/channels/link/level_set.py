r"""Labels without noise: the posterior lives on the level set :math:`\varphi(h) = y` of the link.

On monotone branches a level set is a few points; on a flat part it is a union of intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, logsumexp, ndtr

from glassformer.channels.link.piecewise import (
    SAME,
    TABLE_END,
    Branch,
    FlatPart,
    PiecewiseLink,
    Preimages,
    distinct,
    preimages,
)
from glassformer.channels.link.posterior import LinkPosterior
from glassformer.channels.link.quadrature import RULES, TAIL, WINDOW, interval_mass, lattice, normal_density, subdivide
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels

# Another solution of a label is ignored if minus the logarithm of its weight exceeds the first number, or if its
# distance exceeds the second number of units of sqrt(V). Both leave out less than rounding.
_LOG_WEIGHT, _DISTANCE = 45.0, 30.0
# Octaves of sqrt(V) below one: largest number over which panels shrink towards breaks. Beyond _FAR_OCTAVES only
# solutions on neighbouring branches lie within _DISTANCE.
_MOST_OCTAVES, _FAR_OCTAVES = 30, 6
_LEAST_WEIGHT = 1e-25  # nodes of smaller weight are left out
# A branch approaches a limiting label if its slope at the end of the table is below this share of its largest slope.
_FLAT_SLOPE = 0.05
_SAME_LABEL = 1e-14  # labels with a smaller relative difference are one label
_BLURRED = 1e-6  # a solution within this distance of a break is the break itself, up to rounding near extrema
_CACHED, _CHUNK = 5_000_000, 2_000_000  # number of doubles of all cached level sets, and of one temporary array


class LevelSetNodes(NamedTuple):
    """Quadrature nodes of a standard normal field, and all other solutions of the label of each.

    Attributes:
        h: fields, shape (fields,).
        weight: their probability weights.
        gap: distance to each other solution, shape (others, fields).
        log_odds: logarithm of the ratio of the slope at ``h`` to the slope at the solution. Minus infinity without one.
    """

    h: Array
    weight: Array
    gap: Array
    log_odds: Array


@dataclass(frozen=True, eq=False)
class LevelSetPosterior(LinkPosterior):
    r"""A sum over the solutions of :math:`\varphi(h) = y`, or a truncated normal law on a flat part.

    :math:`Z_{out} = \sum_b N(h_b; \omega, V)/|\varphi'(h_b)|` is a density of labels, and the probability of the label
    on a flat part. The score is :math:`(E[h \mid y] - \omega)/V` with the terms of that sum as weights.
    """

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        log_z, g = _solution_posterior(preimages(self.pieces, y), omega, v)
        for flat in self.pieces.flats:
            at = np.flatnonzero(flat.has_label(y))
            if at.size:
                log_z[at], g[at] = flat_posterior(flat, omega[at], v[at])
        impossible = ~np.isfinite(log_z)
        if np.any(impossible):
            raise DataError("y", y[impossible][0], "labels in the range of the link function", "add label noise")
        return log_z, g

    def averages(self, v: float, level: int) -> tuple[float, float]:
        on_branches = np.array(self._branch_averages(v, level))
        information, expected = on_branches + flat_averages(self.pieces.flats, v, RULES[level].lattice)
        return float(information), float(expected + self._mean_log_slope)

    def _branch_averages(self, v: float, level: int) -> tuple[float, float]:
        r"""Return the part of both averages from labels outside the flat parts.

        The label is that of a field ``h``, so its level set depends on ``h`` alone and is computed once; the mean given
        the field is :math:`\omega = q h + \sqrt{qV} t`. Without other solutions :math:`E_t g^2 = h^2 + q/V`.
        """
        if not self.pieces.branches:
            return 0.0, 0.0
        # If every label has one solution, the integrand has no structure on the scale of sqrt(V).
        octaves = min(int(np.ceil(-0.5 * np.log2(v))), _MOST_OCTAVES) if self._has_other_solutions else 0
        nodes, q = self.nodes_at(octaves, level), max(1.0 - v, 0.0)
        square, log_z = nodes.h**2 + q / v, -0.5 * (v * nodes.h**2 + q) - 0.5 * np.log(2 * np.pi * v)
        depth = (2 - q) * nodes.gap**2 / (8 * v) + 0.5 * (nodes.gap * nodes.h - nodes.log_odds)
        count = np.sum(depth < _LOG_WEIGHT, axis=0)
        most, affected = int(count.max(initial=0)), np.flatnonzero(count)
        if most == 0:
            return float(nodes.weight @ square), float(nodes.weight @ log_z)
        nearest = np.argsort(depth[:, affected], axis=0)[:most]
        gap, log_odds, depth = (
            np.take_along_axis(x[:, affected], nearest, axis=0).T for x in (nodes.gap, nodes.log_odds, depth)
        )
        counts = depth < _LOG_WEIGHT
        gap, log_odds = np.where(counts, gap, 0.0), np.where(counts, log_odds, -np.inf)
        step = RULES[level].lattice
        t = lattice(TAIL, step)
        weight = step * normal_density(t)
        rows = max(1, _CHUNK // max(t.size, int(np.ceil(np.sqrt(t.size))) * most))
        for start in range(0, affected.size, rows):
            part = slice(start, start + rows)
            at = affected[part]
            mean_gap, log_total = _other_solutions(gap[part], log_odds[part], nodes.h[at, None], t, v)
            deviation = v * nodes.h[at, None] - np.sqrt(q * v) * t
            square[at] = (((deviation + mean_gap) / v) ** 2) @ weight
            log_z[at] += log_total @ weight
        return float(nodes.weight @ square), float(nodes.weight @ log_z)

    def nodes_at(self, octaves: int = 0, level: int = 1) -> LevelSetNodes:
        """Return nodes outside the flat parts, graded towards the breaks over some octaves, and their level sets."""
        if not self.pieces.branches:
            return LevelSetNodes(np.zeros(0), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))
        key = (octaves, level)
        if key not in self._cache:
            self._cache[key] = self._level_sets(octaves, level)
            # Variances are roughly ordered, so level sets of earlier variances are not needed again.
            while len(self._cache) > 1 and sum(nodes.gap.size for nodes in self._cache.values()) > _CACHED:
                del self._cache[next(iter(self._cache))]
        return self._cache[key]

    @cached_property
    def _cache(self) -> dict[tuple[int, int], LevelSetNodes]:
        return {}

    @cached_property
    def _has_other_solutions(self) -> bool:
        return bool(np.any(np.isfinite(self.nodes_at().log_odds)))

    def _level_sets(self, octaves: int, level: int) -> LevelSetNodes:
        pieces, rule = self.pieces, RULES[level]
        elsewhere = np.concatenate([self._fields_with_break_labels, self._fields_with_asymptotic_labels])
        breaks = np.concatenate([pieces.breaks, elsewhere])
        # The weight of another solution diverges if that solution is an extremum. Panels shrink down to rounding as
        # long as it lies within reach.
        depths = [(pieces.breaks, octaves + 3), (elsewhere, octaves + 3 if octaves > _FAR_OCTAVES else _MOST_OCTAVES)]
        places = np.unique(breaks)
        near = [_graded(x, depth, places) for x, depth in depths]
        edges = np.concatenate([np.linspace(-TAIL, TAIL, 25), *near, breaks])
        edges = distinct(edges[np.abs(edges) <= TAIL], 1e-13)
        ends = np.isin(edges[1:], breaks) | np.isin(edges[:-1], breaks)
        h, w = gauss_panels(subdivide(edges, rule.parts), rule.order(self.nodes), np.repeat(ends, rule.parts))
        w = w * normal_density(h)
        used = (w > _LEAST_WEIGHT) & ~pieces.is_flat(h)
        h, w = h[used], w[used]
        solutions, log_slope = preimages(pieces, pieces.link(h), h, _DISTANCE * 0.5 ** (octaves - 1))
        own = np.array([branch.contains(h) for branch in pieces.branches])
        # Fields beyond the table of the link lie on no branch.
        inside = np.any(own, axis=0)
        h, w, solutions, log_slope = (part[..., inside] for part in (h, w, solutions, log_slope))
        own = own[:, inside]
        own_log_slope = np.sum(np.where(own, log_slope, 0.0), axis=0)
        other = ~own & ~np.isnan(solutions)
        # Only few of many branches lie within reach. The number of rows is the largest number of solutions of a field.
        first = np.argsort(~other, axis=0, kind="stable")[: np.sum(other, axis=0).max(initial=0)]
        real = np.take_along_axis(other, first, axis=0)
        solutions, log_slope = (np.take_along_axis(part, first, axis=0) for part in (solutions, log_slope))
        gap, log_odds = np.where(real, solutions - h, 0.0), np.where(real, own_log_slope - log_slope, -np.inf)
        return LevelSetNodes(h, w, gap, log_odds)

    @cached_property
    def _fields_with_break_labels(self) -> Array:
        """Fields that share a label with a break of the link and are not breaks themselves."""
        fields = self._fields_with(self.pieces.critical_labels())
        return np.asarray(fields[self._distances(fields).min(axis=1, initial=np.inf) > _BLURRED])

    @cached_property
    def _fields_with_asymptotic_labels(self) -> Array:
        """Fields, breaks included, with a label that the link approaches at large fields."""
        ends = [
            branch.values[k]
            for branch in self.pieces.branches
            for k, slope in zip((0, -1), _relative_end_slopes(branch), strict=True)
            if abs(branch.h[k]) >= TABLE_END
            and slope < _FLAT_SLOPE
            and not np.any(np.abs(self.pieces.breaks - branch.h[k]) < SAME)
        ]
        fields = self._fields_with(ends)
        distances = self._distances(fields)
        blurred = np.flatnonzero(distances.min(axis=1, initial=np.inf) <= _BLURRED)
        fields[blurred] = self.pieces.breaks[distances[blurred].argmin(axis=1)] if blurred.size else 0.0
        return distinct(fields, SAME)

    def _fields_with(self, labels: list[float]) -> Array:
        ascending = np.unique(labels)
        different = np.diff(ascending, prepend=-np.inf) > _SAME_LABEL * np.abs(ascending)
        fields = preimages(self.pieces, ascending[different]).h.ravel()
        return distinct(fields[np.abs(fields) < TAIL], SAME)

    def _distances(self, h: Array) -> Array:
        """Return the distances of fields to breaks, shape (fields, breaks)."""
        return np.asarray(np.abs(h[:, None] - self.pieces.breaks))

    @cached_property
    def _mean_log_slope(self) -> float:
        """Minus the mean logarithm of the slope, by panels that shrink geometrically towards each singularity."""
        if not self.pieces.branches:
            return 0.0
        near = (self.pieces.breaks[:, None] + _offsets(40)).ravel()
        edges = distinct(np.concatenate([np.linspace(-TAIL, TAIL, 33), near[np.abs(near) < TAIL]]), 1e-13)
        h, w = gauss_panels(edges, self.nodes, True)
        total = 0.0
        for branch in self.pieces.branches:
            on = branch.contains(h)
            slope = np.maximum(np.abs(branch.derivative(h[on])), 1e-300)
            total -= float((w * normal_density(h))[on] @ np.log(slope))
        return total


def _graded(places: Array, depth: int, neighbours: Array) -> Array:
    """Return the ends of panels around places, up to half the distance to the neighbours, shape (ends,)."""
    ends = places[:, None] + _offsets(depth)
    low = np.append(-np.inf, neighbours)[np.searchsorted(neighbours, places - SAME)]
    high = np.append(neighbours, np.inf)[np.searchsorted(neighbours, places + SAME)]
    inside = (2 * ends > (places + low)[:, None]) & (2 * ends < (places + high)[:, None])
    return np.asarray(ends[inside | (ends == places[:, None])])


def _offsets(depth: int) -> Array:
    """Return the distances from a break at which panels end."""
    offsets = 0.5 ** np.arange(0, depth)
    return np.concatenate([-offsets, [0.0], offsets])


def _relative_end_slopes(branch: Branch) -> Array:
    """Return the slopes at both ends of a branch, relative to its largest slope."""
    slope = np.abs(branch.derivative(branch.h))
    return np.asarray(slope[[0, -1]] / np.max(slope))


def _other_solutions(gap: Array, log_odds: Array, h: Array, t: Array, v: float) -> tuple[Array, Array]:
    """Return the mean distance of a field to the solutions of its label, and the log of their weight over its own.

    ``gap`` and ``log_odds`` have shape (fields, others), ``h`` (fields, 1). Weights are exponentials of linear
    functions on the lattice ``t``: each is a product of a factor of its block and a factor of its place in the block.
    """
    size = int(np.ceil(np.sqrt(t.size)))
    step = t[1] - t[0]
    starts, places = t[0] + step * size * np.arange(-(-t.size // size)), step * np.arange(size)
    slope = gap * np.sqrt((1.0 - v) / v)
    level = log_odds - gap * (0.5 * gap / v + h)
    # e^300 is far beyond any sum of weights that matters.
    block = np.exp(np.minimum(level[:, None] + slope[:, None] * starts[:, None], 300.0))
    within = np.exp(slope[:, :, None] * places)
    shape = (len(gap), -1)
    total = 1 + (block @ within).reshape(shape)[:, : t.size]
    moment = ((block * gap[:, None]) @ within).reshape(shape)[:, : t.size]
    return moment / total, np.log(total)


def _solution_posterior(solutions: Preimages, omega: Array, v: Array) -> tuple[Array, Array]:
    """Return (log partition, score) as sums over the solutions, shape (labels,); -inf and 0 without a solution."""
    h, log_slope = solutions
    if h.shape[0] == 0:
        return np.full(h.shape[1], -np.inf), np.zeros(h.shape[1])
    logit = -((h - omega) ** 2) / (2 * v) - 0.5 * np.log(2 * np.pi * v) - log_slope
    logit = np.where(np.isnan(h), -np.inf, logit)
    top = np.max(logit, axis=0)
    weight = np.exp(logit - np.where(np.isfinite(top), top, 0.0))
    total = np.sum(weight, axis=0)
    deviation = np.sum(weight * np.where(np.isnan(h), 0.0, h - omega), axis=0)
    possible = total > 0
    safe = np.where(possible, total, 1.0)
    return np.where(possible, top + np.log(safe), -np.inf), deviation / safe / v


def flat_posterior(flat: FlatPart, omega: Array, v: Array | float) -> tuple[Array, Array]:
    """Return the log probability that h ~ N(omega, V) lies on a flat part, and its slope in omega (the score)."""
    edges = (flat.intervals.T[:, :, None] - omega) / np.sqrt(v)
    flip = edges[0] + edges[1] < 0
    low, high = np.where(flip, -edges[1], edges[0]), np.where(flip, -edges[0], edges[1])
    # The exponential of the nearer edge is factored out, so that nothing underflows for distant intervals.
    shift = np.where(low > 0, low**2 / 2, 0.0)
    drop = np.exp(-(high - low) * np.where(np.isinf(high), 1.0, high + low) / 2)
    r = np.sqrt(2)
    outside = 0.5 * (erfcx(np.maximum(low, 0) / r) - drop * erfcx(np.maximum(high, 0) / r))
    mass = np.where(low > 0, outside, ndtr(high) - ndtr(low))
    slope = np.where(low > 0, 1 - drop, np.exp(-(np.minimum(low, 0) ** 2) / 2) * (1 - drop)) / np.sqrt(2 * np.pi)
    log_p = logsumexp(np.log(np.maximum(mass, 1e-300)) - shift, axis=0)
    mean = np.sum(np.where(flip, -1, 1) * slope * np.exp(-shift - log_p), axis=0)
    return log_p, mean / np.sqrt(v)


def flat_posteriors(pieces: PiecewiseLink, omega: Array, v: Array | float) -> tuple[Array, Array]:
    """Return log probabilities and scores of every flat part, in ascending order of values, shape (values, n) each."""
    parts = [flat_posterior(flat, omega, v) for flat in pieces.flats]
    return np.array([log_p for log_p, _ in parts]), np.array([score for _, score in parts])


def flat_averages(flats: tuple[FlatPart, ...], v: float, step: float) -> Array:
    r"""Return the sums over flat parts of :math:`E_\omega (\partial_\omega p)^2/p` and :math:`E_\omega\,p\log p`.

    ``p`` is the probability that :math:`h = \omega + \sqrt V u` lies on the part. Both integrands are smooth on the
    scale :math:`\sqrt V` and vanish away from the edges, so a lattice in :math:`\omega` of spacing ``step`` in units
    of the smaller deviation is exact to rounding.

    Example:
        >>> from glassformer.channels.link.piecewise import find_pieces
        >>> flat_averages(find_pieces(np.sign).flats, 1.0, 0.1).round(6) + 0.0  # 2/pi, -log 2
        array([ 0.63662 , -0.693147])
    """
    if not flats:
        return np.zeros(2)
    scale, q = np.sqrt(v), max(1.0 - v, 0.0)
    edges = np.concatenate([flat.intervals for flat in flats])
    owner = np.repeat(np.arange(len(flats)), [len(flat.intervals) for flat in flats])
    spacing = step * np.sqrt(min(v, q)) if q > 0 else 1.0
    reach = int(np.ceil((TAIL + 0.2) * np.sqrt(q) / spacing))
    place, interval = _lattice_near_edges(edges, WINDOW * scale / spacing, spacing, reach)
    omega = spacing * place
    low, high = ((edges[interval, k] - omega) / scale for k in (0, 1))
    mass = interval_mass(low, high)
    slope = (normal_density(low) - normal_density(high)) / scale
    if len(edges) > len(flats):
        # Sum over the intervals of one value, at each lattice point.
        keys, where = np.unique(owner[interval] * (2 * reach + 1) + place + reach, return_inverse=True)
        mass, slope = (np.bincount(where, part).astype(float) for part in (mass, slope))
        omega = spacing * (keys % (2 * reach + 1) - reach)
    weight = normal_density(omega / np.sqrt(q)) * spacing / np.sqrt(q) if q > 0 else np.ones_like(omega)
    possible = mass > 0
    mass, slope, weight = mass[possible], slope[possible], weight[possible]
    return np.array([weight @ (slope * (slope / mass)), weight @ (mass * np.log(mass))])


def _lattice_near_edges(edges: Array, window: float, spacing: float, reach: int) -> tuple[Array, Array]:
    """Return the lattice points within ``window`` points of an end of each interval, and their intervals."""
    centre = np.clip(edges / spacing, -2.0 * reach - 2 * window, 2.0 * reach + 2 * window)
    first = np.clip(np.ceil(centre - window), -reach, reach + 1)
    last = np.clip(np.floor(centre + window), -reach - 1, reach)
    # The window of the upper end begins after that of the lower one.
    first[:, 1] = np.maximum(first[:, 1], last[:, 0] + 1)
    count = np.maximum(last - first + 1, 0).astype(int).ravel()
    start = np.repeat(first.ravel() - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
    place = (start + np.arange(count.sum())).astype(int)
    return place, np.repeat(np.arange(len(edges)).repeat(2), count)
