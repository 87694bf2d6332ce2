"""The shape of a scalar function: jumps, kinks, flat intervals and monotone branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, make_interp_spline
from scipy.optimize import brentq
from scipy.special import ndtr

from glassformer.channels.link.function import CHECKED, OVERFLOW, Function
from glassformer.channels.scalar.base import Array

FEW_ULP = 8 * np.finfo(float).eps  # relative difference below which two values are the same


@dataclass(frozen=True)
class Scan:
    """How the breaks, branches and symmetries of a link are looked for."""

    reach: float = 12.0  # fields that are looked at; beyond 8.3 a standard normal has mass below 1e-16
    cells: int = 12001  # between them: odd, so that zero, the usual place of a kink, falls inside one
    unseen: float = 1e-8  # probability of fields that is none
    seen: float = 7.6  # fields whose signs are compared
    pairs: int = 997  # of those that are
    spacing: float = 0.002  # of the table of a branch
    apart: float = 0.01  # distance below which two findings are one


SCAN = Scan()

SAME = 1e-9  # two breaks closer than this are one
ENDED = 11.0  # largest field at which a branch ends, and not the table of the link


class Branch(NamedTuple):
    """An interval on which the link is monotone: values ascending, ``h`` at the same places, and its derivative."""

    h: Array
    values: Array
    derivative: BSpline

    def holds(self, h: Array) -> NDArray[np.bool_]:
        """Whether each field lies on this branch."""
        low, high = sorted((self.h[0], self.h[-1]))
        return (h >= low) & (h <= high)


class Flat(NamedTuple):
    """All the intervals on which the link takes one value: shape (intervals, 2), columns from and to."""

    value: float
    intervals: Array

    def takes(self, y: Array) -> NDArray[np.bool_]:
        """Whether each label is this value."""
        return np.abs(y - self.value) <= 2 * FEW_ULP * abs(self.value)


class Parities(NamedTuple):
    """Of a link; both false for most."""

    odd: bool
    even: bool


@dataclass(frozen=True, eq=False)
class LinkShape:
    """A link function and what a posterior and its quadrature rules need to know about it.

    ``breaks`` are the jumps, kinks, extrema and ends of flat intervals, ascending.
    """

    link: Function
    breaks: Array
    branches: tuple[Branch, ...]
    flats: tuple[Flat, ...]

    @property
    def flat_mass(self) -> float:
        """Probability that a standard normal field lies on a flat interval."""
        return float(sum(np.sum(ndtr(f.intervals[:, 1]) - ndtr(f.intervals[:, 0])) for f in self.flats))

    @property
    def stepped(self) -> bool:
        """Whether the link takes values on whole intervals alone."""
        return abs(self.flat_mass - 1) < SCAN.unseen

    @property
    def turning_labels(self) -> list[float]:
        """Labels at which solutions appear or vanish: those at the ends of branches, and of flat parts."""
        return self.turning_labels_within(ENDED)

    def turning_labels_within(self, reach: float) -> list[float]:
        """Those of ends of branches at fields within reach, and of all flat parts."""
        ends = [branch.values[k] for branch in self.branches for k in (0, -1) if abs(branch.h[k]) < reach]
        return [*ends, *(flat.value for flat in self.flats)]

    @cached_property
    def parities(self) -> Parities:
        """Whether fields of opposite signs have opposite labels, or one label."""
        h = np.linspace(0.0, SCAN.seen, SCAN.pairs)
        there, mirrored = self.link(h), self.link(-h)
        mirror = np.all(np.isin(np.round(-self.breaks, 9) + 0.0, np.round(self.breaks, 9)))
        slack = 1e-13 * np.maximum(np.abs(there), np.abs(there).mean())
        gaps = (np.abs(there - side * mirrored)[1:] <= slack[1:] for side in (-1, 1))
        return Parities(*(bool(mirror and np.all(gap)) for gap in gaps))

    def is_flat(self, h: Array) -> NDArray[np.bool_]:
        """Whether each field lies inside a flat interval."""
        inside = np.zeros(h.shape, dtype=bool)
        for flat in self.flats:
            for a, b in flat.intervals:
                inside |= (h > a) & (h < b)
        return inside


def link_shape(link: Function) -> LinkShape:
    """Cut the line at jumps, kinks and ends of flat runs; sort the pieces into flat ones and monotone branches.

    Example:
        >>> shape = link_shape(lambda h: np.maximum(h, 0.0))
        >>> shape.breaks, len(shape.branches), shape.flat_mass
        (array([0.]), 1, 0.5)
    """
    grid, values = _table(link)
    cuts = _jumps(link, grid, values)
    cuts += _new_cuts(_kinks(grid, values), cuts)
    cuts += _new_cuts(_flat_ends(grid, values), cuts)
    cuts.sort()
    starts = [grid[0], *(cut.right for cut in cuts)]
    ends = [*(cut.left for cut in cuts), grid[-1]]
    branches: list[Branch] = []
    levels: list[tuple[float, float, float]] = []
    for a, b in zip(starts, ends, strict=True):
        h = np.linspace(a, b, max(17, int((b - a) / SCAN.spacing)))
        v = link(h)
        # The ends of a piece may sit on the far side of a jump by rounding.
        if np.ptp(v[1:-1]) <= FEW_ULP * np.max(np.abs(v[1:-1])):
            outer = (-np.inf if a == grid[0] else a, np.inf if b == grid[-1] else b)
            levels.append((float(v[h.size // 2]), *outer))
        else:
            branches += _monotone(link, h, v)
    ends_of = np.array([x for branch in branches for x in (branch.h[0], branch.h[-1])])
    breaks = np.concatenate([[cut.place for cut in cuts], ends_of[np.abs(ends_of) < grid[-1]]])
    return LinkShape(link, distinct(breaks, SAME), tuple(branches), _grouped(levels))


def distinct(x: Array, gap: float) -> Array:
    """Sorted, without those that follow another by ``gap`` or less."""
    x = np.sort(x)
    return np.asarray(x[np.diff(x, prepend=-np.inf) > gap])


class _Cut(NamedTuple):
    """A point where the link is not smooth: the last field to its left and the first to its right, equal at a kink."""

    left: float
    right: float

    @property
    def place(self) -> float:
        return 0.5 * (self.left + self.right)


def _new_cuts(places: list[float], known: list[_Cut]) -> list[_Cut]:
    ends = np.sort([-np.inf, *(cut.place for cut in known), np.inf])
    after = np.searchsorted(ends[1:], places)
    near = np.minimum(np.abs(places - ends[after]), np.abs(ends[after + 1] - places)) <= SCAN.apart
    return [_Cut(x, x) for x, close in zip(places, near, strict=True) if not close]


def _table(link: Function) -> tuple[Array, Array]:
    """Grid and values, on a shorter interval where the link overflows on the whole one."""
    grid = np.linspace(-SCAN.reach, SCAN.reach, SCAN.cells + 1)
    values = link(grid)
    overflown = np.abs(values) >= 0.1 * OVERFLOW
    if np.any(overflown):
        bound = np.min(np.abs(grid[overflown])) - 0.01
        grid = np.linspace(-bound, bound, SCAN.cells + 1)
        values = link(grid)
    return grid, values


def _jumps(link: Function, grid: Array, values: Array) -> list[_Cut]:
    """Cells whose change survives bisection to rounding."""
    size = np.abs(np.diff(values))
    around = np.pad(size, 2, mode="edge")
    usual = np.minimum(np.maximum(around[:-4], around[1:-3]), np.maximum(around[3:-1], around[4:]))
    found = np.flatnonzero(size > 3 * usual + FEW_ULP * np.max(np.abs(values[np.abs(grid) <= CHECKED])))
    if found.size == 0:
        return []
    left, right = grid[found], grid[found + 1]
    low, high = values[found], values[found + 1]
    for _ in range(60):
        middle = 0.5 * (left + right)
        v = link(middle)
        lower = np.abs(v - low) > np.abs(high - v)
        right, high = np.where(lower, middle, right), np.where(lower, v, high)
        left, low = np.where(lower, left, middle), np.where(lower, low, v)
    # A label of its own at the jump itself, as that of a sign, leaves half of it on either side.
    real = np.abs(high - low) > 0.4 * (size[found] - usual[found])
    return [_Cut(*ends) for ends in zip(left[real].tolist(), right[real].tolist(), strict=True)]


def _kinks(grid: Array, values: Array) -> list[float]:
    """Cells across which the slope changes much faster than on either side, located by extrapolation."""
    slope = np.diff(values) / np.diff(grid)
    change = np.abs(slope[2:] - slope[:-2])
    padded = np.pad(change, 5, mode="edge")
    usual = np.maximum(padded[:-10], padded[10:])
    typical = np.max(np.abs(slope[np.abs(grid[:-1]) <= CHECKED]))
    rounding = 1e-9 * (np.abs(slope[2:]) + np.abs(slope[:-2]) + typical)
    cells = np.flatnonzero(change > 4 * usual + rounding) + 1
    groups = np.split(cells, np.flatnonzero(np.diff(cells) > 4) + 1)
    return [_kink_place(grid, values, g) for g in groups if g.size and g[0] >= 6 and g[-1] <= SCAN.cells - 6]


def _kink_place(grid: Array, values: Array, group: NDArray[np.intp]) -> float:
    """Where the smooth continuations from both sides meet."""
    step, centre = grid[1] - grid[0], float(np.mean(grid[group] + grid[group + 1]) / 2)
    first, last = int(group[0]), int(group[-1]) + 1
    # One node is kept clear of the group: the kink may sit on either of its ends.
    sides = [slice(first - 5, first), slice(last + 1, last + 6)]
    fits = [np.polynomial.Polynomial.fit((grid[s] - centre) / step, values[s], 4, domain=[-5, 5]) for s in sides]
    roots = (fits[1] - fits[0]).roots()
    near = roots[(np.abs(roots.imag) < 1e-6) & (np.abs(roots.real) <= 3)].real
    if near.size == 0:
        return centre
    place = centre + step * float(near[np.argmin(np.abs(near))])
    # A kink at zero is written as such in nearly every link; one extrapolated to rounding is that one.
    return 0.0 if abs(place) < 1e-12 else place


def _flat_ends(grid: Array, values: Array) -> list[float]:
    """Ends of long runs of equal values, where a function saturates in double precision."""
    flat = np.abs(np.diff(values)) <= FEW_ULP * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    edges = np.flatnonzero(np.diff(flat.astype(int), prepend=0, append=0))
    return [float(grid[x]) for a, b in edges.reshape(-1, 2) if b - a >= 8 for x in (a, b) if 0 < x < SCAN.cells]


def _monotone(link: Function, h: Array, v: Array) -> Iterator[Branch]:
    """Split a smooth piece at its extrema."""
    spline = make_interp_spline(h, v, k=7)
    derivative = spline.derivative()
    for a, b in pairwise([h[0], *_extrema(derivative, h, v), h[-1]]):
        x = np.concatenate([[a], h[(h > a) & (h < b)], [b]])
        values = link(x)
        # The ends of a piece may sit on the far side of a jump by rounding: the smooth continuation decides there.
        values[[0, -1]] = spline(x[[0, -1]])
        order = slice(None) if values[-1] > values[0] else slice(None, None, -1)
        yield Branch(x[order], np.maximum.accumulate(values[order]), derivative)


def _extrema(derivative: BSpline, h: Array, v: Array) -> Iterator[float]:
    """Zeros of the derivative near the places where the table turns."""
    rise = np.sign(np.where(np.abs(np.diff(v)) <= FEW_ULP * np.abs(v[1:]), 0.0, np.diff(v)))
    moving = np.flatnonzero(rise)
    for i in moving[:-1][rise[moving[1:]] != rise[moving[:-1]]]:
        a, b = h[max(i - 1, 0)], h[min(i + 3, h.size - 1)]
        bracketed = derivative(a) * derivative(b) < 0
        yield float(brentq(derivative, a, b, xtol=1e-15)) if bracketed else h[i + 1]


def _grouped(levels: list[tuple[float, float, float]]) -> tuple[Flat, ...]:
    """One flat part per value, from (value, from, to) of every flat interval."""
    flats: list[Flat] = []
    for value, a, b in sorted(levels):
        if flats and flats[-1].takes(np.asarray(value)):
            flats[-1] = Flat(flats[-1].value, np.vstack([flats[-1].intervals, (a, b)]))
        else:
            flats.append(Flat(value, np.array([[a, b]])))
    return tuple(flats)
