"""Labels without noise: the posterior lives on the level set link(h) = y."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, logsumexp, ndtr

from glassformer.channels.link.field_quadrature import RULES, TAIL, lattice, normal_density, split
from glassformer.channels.link.flat_averages import flat_averages
from glassformer.channels.link.inverse_branches import Preimages, preimages
from glassformer.channels.link.piecewise import ENDED, SAME, Branch, Flat, distinct
from glassformer.channels.link.posterior import LinkPosterior
from glassformer.channels.scalar.base import Array
from glassformer.core.errors import DataError
from glassformer.numerics.quadrature import gauss_panels


@dataclass(frozen=True)
class Sight:
    """What of a level set counts.

    Attributes:
        rivals: minus the logarithm of the weight below which another solution of a label plays no part.
        distance: of solutions that play a part, in units of sqrt(V).
        far: halvings of sqrt(V) from which on only neighbouring branches are in sight.
        deepest: halvings of the distance to a break beyond which nothing is left to see.
        negligible: probability below which a node is left out.
        level: slope at the end of the table, relative to the steepest, below which the link approaches a value there.
        blurred: distance between a break and a solution for its label below which they are one.
        kept: doubles of level sets kept, which many branches make large.
        chunk: largest number of doubles in one temporary array.
    """

    rivals: float = 45.0
    distance: float = 30.0
    far: int = 6
    deepest: int = 30
    negligible: float = 1e-25
    level: float = 0.05
    blurred: float = 1e-6
    kept: int = 10_000_000
    chunk: int = 2_000_000


SIGHT = Sight()


@dataclass(frozen=True, eq=False)
class LevelSet(LinkPosterior):
    r"""A sum over the solutions of :math:`\varphi(h) = y`, or a truncated normal where that is a flat part.

    :math:`Z_{out} = \sum_b N(h_b; \omega, V)/|\varphi'(h_b)|` is a density of labels, and the probability of the label
    on a flat part. The score is :math:`(E[h \mid y] - \omega)/V` with the terms of that sum as weights.
    """

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        log_z, g = _on_solutions(preimages(self.shape, y), omega, v)
        for flat in self.shape.flats:
            at = np.flatnonzero(flat.takes(y))
            if at.size:
                log_z[at], g[at] = on_intervals(flat, omega[at], v[at])
        impossible = ~np.isfinite(log_z)
        if np.any(impossible):
            raise DataError("y", y[impossible][0], "labels in the range of the link function", "add label noise")
        return log_z, g

    def averages(self, v: float, level: int) -> tuple[float, float]:
        on_branches = np.array(self._branch_averages(v, level))
        information, expected = on_branches + flat_averages(self.shape.flats, v, RULES[level].lattice)
        return float(information), float(expected + self._mean_log_slope)

    def _branch_averages(self, v: float, level: int) -> tuple[float, float]:
        r"""The part of both averages from labels outside the flat parts.

        The label is that of a field ``h``, so its level set depends on ``h`` alone and is found once; the mean given
        the field is :math:`\omega = q h + \sqrt{qV} t`. Without other solutions :math:`E_t g^2 = h^2 + q/V`.
        """
        if not self.shape.branches:
            return 0.0, 0.0
        # Where every label has one solution nothing happens on the scale of sqrt(V).
        octaves = min(int(np.ceil(-0.5 * np.log2(v))), SIGHT.deepest) if self._rivalled else 0
        fields, q = self._fields(octaves, level), max(1.0 - v, 0.0)
        square, log_z = fields.h**2 + q / v, -0.5 * (v * fields.h**2 + q) - 0.5 * np.log(2 * np.pi * v)
        rival = (2 - q) * fields.gap**2 / (8 * v) + 0.5 * (fields.gap * fields.h - fields.odds)
        count = np.sum(rival < SIGHT.rivals, axis=0)
        most, reached = int(count.max(initial=0)), np.flatnonzero(count)
        if most == 0:
            return float(fields.weight @ square), float(fields.weight @ log_z)
        nearest = np.argsort(rival[:, reached], axis=0)[:most]
        gap, odds, depth = (
            np.take_along_axis(x[:, reached], nearest, axis=0).T for x in (fields.gap, fields.odds, rival)
        )
        seen = depth < SIGHT.rivals
        gap, odds = np.where(seen, gap, 0.0), np.where(seen, odds, -np.inf)
        step = RULES[level].lattice
        t = lattice(TAIL, step)
        weight = step * normal_density(t)
        rows = max(1, SIGHT.chunk // max(t.size, int(np.ceil(np.sqrt(t.size))) * most))
        for start in range(0, reached.size, rows):
            part = slice(start, start + rows)
            at = reached[part]
            pull, more = _of_rivals(gap[part], odds[part], fields.h[at, None], t, v)
            deviation = v * fields.h[at, None] - np.sqrt(q * v) * t
            square[at] = (((deviation + pull) / v) ** 2) @ weight
            log_z[at] += more @ weight
        return float(fields.weight @ square), float(fields.weight @ log_z)

    def solutions(self) -> Fields:
        """Nodes of a standard normal field, and all the fields that share the label of each."""
        if not self.shape.branches:
            return Fields(np.zeros(0), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))
        return self._fields(0, 1)

    def _fields(self, octaves: int, level: int) -> Fields:
        """Nodes of a standard normal field outside the flat parts, graded towards the breaks, and their level sets."""
        key = (octaves, level)
        if key not in self._known:
            self._known[key] = self._solved(octaves, level)
            # Variances are asked for in their order, more or less: those of before are not needed any more.
            while len(self._known) > 1 and sum(fields.gap.size for fields in self._known.values()) > SIGHT.kept / 2:
                del self._known[next(iter(self._known))]
        return self._known[key]

    @cached_property
    def _rivalled(self) -> bool:
        return bool(np.any(np.isfinite(self._fields(0, 1).odds)))

    @cached_property
    def _known(self) -> dict[tuple[int, int], Fields]:
        return {}

    def _solved(self, octaves: int, level: int) -> Fields:
        elsewhere = np.concatenate([self._shared, self._asymptotic])
        rule, breaks = RULES[level], np.concatenate([self.shape.breaks, elsewhere])
        # Where another solution turns its weight diverges: that takes panels down to rounding while it is in sight.
        scales = [(self.shape.breaks, octaves + 3), (elsewhere, octaves + 3 if octaves > SIGHT.far else SIGHT.deepest)]
        places = np.unique(breaks)
        near = [_graded(x, depth, places) for x, depth in scales]
        edges = np.concatenate([np.linspace(-TAIL, TAIL, 25), *near, breaks])
        edges = distinct(edges[np.abs(edges) <= TAIL], 1e-13)
        ends = np.isin(edges[1:], breaks) | np.isin(edges[:-1], breaks)
        h, w = gauss_panels(split(edges, rule.parts), rule.of(self.nodes), np.repeat(ends, rule.parts))
        w = w * normal_density(h)
        kept = (w > SIGHT.negligible) & ~self.shape.is_flat(h)
        h, w = h[kept], w[kept]
        sight = SIGHT.distance * 0.5 ** (octaves - 1)
        found, log_slope = preimages(self.shape, self.shape.link(h), h, sight)
        mine = np.array([branch.holds(h) for branch in self.shape.branches])
        # Beyond the table of the link there are no solutions and nothing to add.
        solved = np.any(mine, axis=0)
        h, w, found, log_slope, mine = h[solved], w[solved], found[:, solved], log_slope[:, solved], mine[:, solved]
        own = np.sum(np.where(mine, log_slope, 0.0), axis=0)
        other = ~mine & ~np.isnan(found)
        # Of many branches few are in sight: as many rows as the field with most of them takes.
        first = np.argsort(~other, axis=0, kind="stable")[: np.sum(other, axis=0).max(initial=0)]
        seen = np.take_along_axis(other, first, axis=0)
        found, log_slope = (np.take_along_axis(part, first, axis=0) for part in (found, log_slope))
        return Fields(h, w, np.where(seen, found - h, 0.0), np.where(seen, own - log_slope, -np.inf))

    @cached_property
    def _shared(self) -> Array:
        """Fields that share a label with a break of the link without being one."""
        shared = self._labelled(self.shape.turning_labels)
        # Solutions next to an extremum are known to the root of rounding.
        return np.asarray(shared[self._distances(shared).min(axis=1, initial=np.inf) > SIGHT.blurred])

    @cached_property
    def _asymptotic(self) -> Array:
        """Fields, breaks or not, with a label that the link approaches far out."""
        ends = [
            branch.values[k]
            for branch in self.shape.branches
            for k, slope in zip((0, -1), _end_slopes(branch), strict=True)
            if abs(branch.h[k]) >= ENDED
            and slope < SIGHT.level
            and not np.any(np.abs(self.shape.breaks - branch.h[k]) < SAME)
        ]
        found = self._labelled(ends)
        gaps = self._distances(found)
        blurred = np.flatnonzero(gaps.min(axis=1, initial=np.inf) <= SIGHT.blurred)
        found[blurred] = self.shape.breaks[gaps[blurred].argmin(axis=1)] if blurred.size else 0.0
        return distinct(found, SAME)

    def _labelled(self, values: list[float]) -> Array:
        """Fields with one of these labels."""
        found = preimages(self.shape, distinct(np.array(values), 1e-14)).h.ravel()
        return distinct(found[np.abs(found) < TAIL], SAME)

    def _distances(self, h: Array) -> Array:
        """From fields to breaks, shape (fields, breaks)."""
        return np.asarray(np.abs(h[:, None] - self.shape.breaks))

    @cached_property
    def _mean_log_slope(self) -> float:
        """Minus the mean logarithm of the slope, on panels that shrink geometrically towards each singularity."""
        if not self.shape.branches:
            return 0.0
        near = (self.shape.breaks[:, None] + _offsets(40)).ravel()
        edges = distinct(np.concatenate([np.linspace(-TAIL, TAIL, 33), near[np.abs(near) < TAIL]]), 1e-13)
        h, w = gauss_panels(edges, self.nodes, True)
        total = 0.0
        for branch in self.shape.branches:
            on = branch.holds(h)
            slope = np.maximum(np.abs(branch.derivative(h[on])), 1e-300)
            total -= float((w * normal_density(h))[on] @ np.log(slope))
        return total


def _graded(places: Array, depth: int, neighbours: Array) -> Array:
    """Panel ends around places, each up to half the distance to its neighbours, shape (ends,)."""
    found = places[:, None] + _offsets(depth)
    low = np.append(-np.inf, neighbours)[np.searchsorted(neighbours, places - SAME)]
    high = np.append(neighbours, np.inf)[np.searchsorted(neighbours, places + SAME)]
    inside = (2 * found > (places + low)[:, None]) & (2 * found < (places + high)[:, None])
    return np.asarray(found[inside | (found == places[:, None])])


def _end_slopes(branch: Branch) -> Array:
    """Slopes at both ends of a branch, relative to its steepest, where ``h`` is that of the table."""
    slope = np.abs(branch.derivative(branch.h))
    return np.asarray(slope[[0, -1]] / np.max(slope))


def _offsets(depth: int) -> Array:
    """Distances from a break at which panels end."""
    offsets = 0.5 ** np.arange(0, depth)
    return np.concatenate([-offsets, [0.0], offsets])


class Fields(NamedTuple):
    """Fields ``h``, their probability weights, and the other solutions of the label of each.

    ``gap`` is the distance to each other solution and ``odds`` the logarithm of the slope over the slope there, shape
    (others, fields), minus infinity where there is none in sight.
    """

    h: Array
    weight: Array
    gap: Array
    odds: Array


def _of_rivals(gap: Array, odds: Array, h: Array, t: Array, v: float) -> tuple[Array, Array]:
    """Mean distance from a field to the solutions of its label, and the logarithm of their total weight over its own.

    ``gap`` and ``odds`` have shape (fields, rivals), ``h`` (fields, 1). Weights are exponentials of linear functions of
    ``t``, a lattice: those of its blocks times those of the places in a block.
    """
    size = int(np.ceil(np.sqrt(t.size)))
    step = t[1] - t[0]
    starts, places = t[0] + step * size * np.arange(-(-t.size // size)), step * np.arange(size)
    slope = gap * np.sqrt((1.0 - v) / v)
    level = odds - gap * (0.5 * gap / v + h)
    # At most e^300 is far beyond any sum of weights that matters.
    block = np.exp(np.minimum(level[:, None] + slope[:, None] * starts[:, None], 300.0))
    within = np.exp(slope[:, :, None] * places)
    shape = (len(gap), -1)
    total = 1 + (block @ within).reshape(shape)[:, : t.size]
    pull = ((block * gap[:, None]) @ within).reshape(shape)[:, : t.size]
    return pull / total, np.log(total)


def _on_solutions(solutions: Preimages, omega: Array | float, v: Array | float) -> tuple[Array, Array]:
    """(log partition, score) as sums over the solutions, shape (labels,); -inf and 0 where there is none."""
    h, log_slope = solutions
    if h.shape[0] == 0:
        return np.full(h.shape[1], -np.inf), np.zeros(h.shape[1])
    logit = -((h - omega) ** 2) / (2 * v) - 0.5 * np.log(2 * np.pi * v) - log_slope
    logit = np.where(np.isnan(h), -np.inf, logit)
    top = np.max(logit, axis=0)
    weight = np.exp(logit - np.where(np.isfinite(top), top, 0.0))
    total = np.sum(weight, axis=0)
    deviation = np.sum(weight * np.where(np.isnan(h), 0.0, h - omega), axis=0)
    reached = total > 0
    safe = np.where(reached, total, 1.0)
    return np.where(reached, top + np.log(safe), -np.inf), deviation / safe / v


def on_intervals(flat: Flat, omega: Array, v: Array | float) -> tuple[Array, Array]:
    """(log partition, score) of a flat part: log probability of h ~ N(omega, V) in its intervals, and its slope."""
    edges = (flat.intervals.T[:, :, None] - omega) / np.sqrt(v)
    flip = edges[0] + edges[1] < 0
    low, high = np.where(flip, -edges[1], edges[0]), np.where(flip, -edges[0], edges[1])
    # The nearer edge's exponential is taken out, so that nothing underflows however far the interval.
    shift = np.where(low > 0, low**2 / 2, 0.0)
    drop = np.exp(-(high - low) * np.where(np.isinf(high), 1.0, high + low) / 2)
    r = np.sqrt(2)
    outside = 0.5 * (erfcx(np.maximum(low, 0) / r) - drop * erfcx(np.maximum(high, 0) / r))
    mass = np.where(low > 0, outside, ndtr(high) - ndtr(low))
    slope = np.where(low > 0, 1 - drop, np.exp(-(np.minimum(low, 0) ** 2) / 2) * (1 - drop)) / np.sqrt(2 * np.pi)
    log_p = logsumexp(np.log(np.maximum(mass, 1e-300)) - shift, axis=0)
    mean = np.sum(np.where(flip, -1, 1) * slope * np.exp(-shift - log_p), axis=0)
    return log_p, mean / np.sqrt(v)
