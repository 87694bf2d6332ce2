"""A scalar link as a piecewise function: jumps, kinks, flat intervals, monotone branches, and its inverse on these."""

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

from glassformer.channels.link.contract import CHECKED, OVERFLOW, Function
from glassformer.core.estimate import Array

FEW_ULP = 8 * np.finfo(float).eps  # two values with a smaller relative difference are equal
SAME = 1e-9  # two breaks at a smaller distance are one break
NEGLIGIBLE_MASS = 1e-8  # smaller probabilities of fields count as zero
SYMMETRY_FIELDS = np.linspace(0.0, 7.6, 997)  # fields at which labels of opposite fields are compared
TABLE_END = 11.0  # a branch that ends beyond this field ends with the table of the link, not at a break

# The link is tabulated for |h| <= _REACH (a normal field exceeds 8.3 with probability 1e-16) on an odd number of cells,
# so that zero, the usual place of a kink, lies inside one.
_REACH, _CELLS = 12.0, 12001
_SPACING = 0.002  # of the table of a branch
_SEPARATION = 0.01  # a kink or end of a flat run this close to another break is the same break
_ROOT_STEPS = 60  # largest number of steps of root finding, which is slow near an extremum


class Branch(NamedTuple):
    """An interval on which the link is monotone.

    A table of ascending values, their fields ``h``, and the derivative.
    """

    h: Array
    values: Array
    derivative: BSpline

    def contains(self, h: Array) -> NDArray[np.bool_]:
        """Return whether each field lies on this branch."""
        low, high = sorted((self.h[0], self.h[-1]))
        return (h >= low) & (h <= high)


class FlatPart(NamedTuple):
    """All intervals on which the link takes one value: shape (intervals, 2), lower and upper ends."""

    value: float
    intervals: Array

    def has_label(self, y: Array) -> NDArray[np.bool_]:
        """Return whether each label is the value of this part."""
        return np.abs(y - self.value) <= 2 * FEW_ULP * abs(self.value)


class Parity(NamedTuple):
    """Whether a link is odd, and whether it is even."""

    odd: bool
    even: bool


@dataclass(frozen=True, eq=False)
class PiecewiseLink:
    """A link with its monotone branches and flat parts.

    ``breaks`` are the jumps, kinks, extrema and ends of flat intervals, ascending; flat parts have ascending values.
    """

    link: Function
    breaks: Array
    branches: tuple[Branch, ...]
    flats: tuple[FlatPart, ...]

    @property
    def flat_mass(self) -> float:
        """Probability that a standard normal field lies on a flat part."""
        return float(sum(np.sum(ndtr(f.intervals[:, 1]) - ndtr(f.intervals[:, 0])) for f in self.flats))

    @property
    def is_step_function(self) -> bool:
        """Whether the link is constant almost everywhere."""
        return abs(self.flat_mass - 1) < NEGLIGIBLE_MASS

    def critical_labels(self, reach: float = TABLE_END) -> list[float]:
        """Return labels at which solutions appear or vanish: ends of branches with ``|h| < reach``, and flat parts."""
        ends = [branch.values[k] for branch in self.branches for k in (0, -1) if abs(branch.h[k]) < reach]
        return [*ends, *(flat.value for flat in self.flats)]

    @cached_property
    def parity(self) -> Parity:
        """Parity of the link, breaks included."""
        at, mirrored = self.link(SYMMETRY_FIELDS), self.link(-SYMMETRY_FIELDS)
        mirror = np.all(np.isin(np.round(-self.breaks, 9) + 0.0, np.round(self.breaks, 9)))
        slack = 1e-13 * np.maximum(np.abs(at), np.abs(at).mean())
        gaps = (np.abs(at - sign * mirrored)[1:] <= slack[1:] for sign in (-1, 1))
        return Parity(*(bool(mirror and np.all(gap)) for gap in gaps))

    @cached_property
    def flat_intervals(self) -> tuple[Array, NDArray[np.intp]]:
        """All flat intervals in ascending order, shape (intervals, 2), and the number of the flat part of each."""
        intervals = np.concatenate([flat.intervals for flat in self.flats])
        part = np.repeat(np.arange(len(self.flats)), [len(flat.intervals) for flat in self.flats])
        order = np.argsort(intervals[:, 0])
        return intervals[order], part[order]

    def is_flat(self, h: Array) -> NDArray[np.bool_]:
        """Return whether each field lies inside a flat interval."""
        inside = np.zeros(h.shape, dtype=bool)
        for flat in self.flats:
            for a, b in flat.intervals:
                inside |= (h > a) & (h < b)
        return inside


def find_pieces(link: Function) -> PiecewiseLink:
    """Return a link as a piecewise function: its jumps, kinks, flat parts and monotone branches.

    Example:
        >>> relu = find_pieces(lambda h: np.maximum(h, 0.0))
        >>> relu.breaks, len(relu.branches), relu.flat_mass
        (array([0.]), 1, 0.5)
    """
    grid, values = _tabulate(link)
    cuts = _jumps(link, grid, values)
    cuts += _new_cuts(_kinks(grid, values), cuts)
    cuts += _new_cuts(_flat_ends(grid, values), cuts)
    cuts.sort()
    starts = [grid[0], *(cut.right for cut in cuts)]
    ends = [*(cut.left for cut in cuts), grid[-1]]
    branches: list[Branch] = []
    constants: list[tuple[float, float, float]] = []
    for a, b in zip(starts, ends, strict=True):
        h = np.linspace(a, b, max(17, int((b - a) / _SPACING)))
        v = link(h)
        # By rounding, the ends of a piece may sit on the far side of a jump.
        if np.ptp(v[1:-1]) <= FEW_ULP * np.max(np.abs(v[1:-1])):
            outer = (-np.inf if a == grid[0] else a, np.inf if b == grid[-1] else b)
            constants.append((float(v[h.size // 2]), *outer))
        else:
            branches += _monotone_branches(link, h, v)
    flats: list[FlatPart] = []
    for value, a, b in sorted(constants):
        if flats and flats[-1].has_label(np.asarray(value)):
            flats[-1] = FlatPart(flats[-1].value, np.vstack([flats[-1].intervals, (a, b)]))
        else:
            flats.append(FlatPart(value, np.array([[a, b]])))
    branch_ends = np.array([x for branch in branches for x in (branch.h[0], branch.h[-1])])
    breaks = np.concatenate([[cut.place for cut in cuts], branch_ends[np.abs(branch_ends) < grid[-1]]])
    return PiecewiseLink(link, distinct(breaks, SAME), tuple(branches), tuple(flats))


def distinct(x: Array, gap: float) -> Array:
    """Return sorted values without duplicates, which exceed another value by ``gap`` or less."""
    x = np.sort(x)
    return np.asarray(x[np.diff(x, prepend=-np.inf) > gap])


class _Cut(NamedTuple):
    """A point where the link is not smooth: the last field on its left and the first on its right. Equal at a kink."""

    left: float
    right: float

    @property
    def place(self) -> float:
        return 0.5 * (self.left + self.right)


def _new_cuts(places: list[float], known: list[_Cut]) -> list[_Cut]:
    ends = np.sort([-np.inf, *(cut.place for cut in known), np.inf])
    after = np.searchsorted(ends[1:], places)
    near = np.minimum(np.abs(places - ends[after]), np.abs(ends[after + 1] - places)) <= _SEPARATION
    return [_Cut(x, x) for x, close in zip(places, near, strict=True) if not close]


def _tabulate(link: Function) -> tuple[Array, Array]:
    """Return grid and values, on a shorter interval if the link overflows on the full interval."""
    grid = np.linspace(-_REACH, _REACH, _CELLS + 1)
    values = link(grid)
    overflown = np.abs(values) >= 0.1 * OVERFLOW
    if np.any(overflown):
        bound = np.min(np.abs(grid[overflown])) - 0.01
        grid = np.linspace(-bound, bound, _CELLS + 1)
        values = link(grid)
    return grid, values


def _jumps(link: Function, grid: Array, values: Array) -> list[_Cut]:
    """Return the cells whose change remains under bisection down to rounding."""
    size = np.abs(np.diff(values))
    around = np.pad(size, 2, mode="edge")
    usual = np.minimum(np.maximum(around[:-4], around[1:-3]), np.maximum(around[3:-1], around[4:]))
    cells = np.flatnonzero(size > 3 * usual + FEW_ULP * np.max(np.abs(values[np.abs(grid) <= CHECKED])))
    if cells.size == 0:
        return []
    left, right = grid[cells], grid[cells + 1]
    low, high = values[cells], values[cells + 1]
    for _ in range(60):
        middle = 0.5 * (left + right)
        v = link(middle)
        lower = np.abs(v - low) > np.abs(high - v)
        right, high = np.where(lower, middle, right), np.where(lower, v, high)
        left, low = np.where(lower, left, middle), np.where(lower, low, v)
    # A third label at the jump itself, like sign(0) = 0, leaves half of the jump on either side.
    real = np.abs(high - low) > 0.4 * (size[cells] - usual[cells])
    return [_Cut(*ends) for ends in zip(left[real].tolist(), right[real].tolist(), strict=True)]


def _kinks(grid: Array, values: Array) -> list[float]:
    """Return places at which the slope changes much faster than on either side."""
    slope = np.diff(values) / np.diff(grid)
    change = np.abs(slope[2:] - slope[:-2])
    padded = np.pad(change, 5, mode="edge")
    usual = np.maximum(padded[:-10], padded[10:])
    typical = np.max(np.abs(slope[np.abs(grid[:-1]) <= CHECKED]))
    rounding = 1e-9 * (np.abs(slope[2:]) + np.abs(slope[:-2]) + typical)
    cells = np.flatnonzero(change > 4 * usual + rounding) + 1
    groups = np.split(cells, np.flatnonzero(np.diff(cells) > 4) + 1)
    return [_kink_place(grid, values, g) for g in groups if g.size and g[0] >= 6 and g[-1] <= _CELLS - 6]


def _kink_place(grid: Array, values: Array, group: NDArray[np.intp]) -> float:
    """Return the field at which the smooth continuations from both sides meet."""
    step, centre = grid[1] - grid[0], float(np.mean(grid[group] + grid[group + 1]) / 2)
    first, last = int(group[0]), int(group[-1]) + 1
    # One node on either side is left out, because the kink may be at either end of the group.
    sides = [slice(first - 5, first), slice(last + 1, last + 6)]
    fits = [np.polynomial.Polynomial.fit((grid[s] - centre) / step, values[s], 4, domain=[-5, 5]) for s in sides]
    roots = (fits[1] - fits[0]).roots()
    near = roots[(np.abs(roots.imag) < 1e-6) & (np.abs(roots.real) <= 3)].real
    if near.size == 0:
        return centre
    place = centre + step * float(near[np.argmin(np.abs(near))])
    # Nearly every kink next to zero is at zero.
    return 0.0 if abs(place) < 1e-12 else place


def _flat_ends(grid: Array, values: Array) -> list[float]:
    """Return the ends of long runs of equal values. Functions that saturate in double precision have such runs."""
    flat = np.abs(np.diff(values)) <= FEW_ULP * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    edges = np.flatnonzero(np.diff(flat.astype(int), prepend=0, append=0))
    return [float(grid[x]) for a, b in edges.reshape(-1, 2) if b - a >= 8 for x in (a, b) if 0 < x < _CELLS]


def _monotone_branches(link: Function, h: Array, v: Array) -> Iterator[Branch]:
    """Split a smooth piece at its extrema."""
    spline = make_interp_spline(h, v, k=7)
    derivative = spline.derivative()
    for a, b in pairwise([h[0], *_extrema(derivative, h, v), h[-1]]):
        x = np.concatenate([[a], h[(h > a) & (h < b)], [b]])
        values = link(x)
        # By rounding, the ends of a piece may sit on the far side of a jump: use the smooth continuation there.
        values[[0, -1]] = spline(x[[0, -1]])
        order = slice(None) if values[-1] > values[0] else slice(None, None, -1)
        yield Branch(x[order], np.maximum.accumulate(values[order]), derivative)


def _extrema(derivative: BSpline, h: Array, v: Array) -> Iterator[float]:
    """Yield the zeros of the derivative near local extrema of the table."""
    rise = np.sign(np.where(np.abs(np.diff(v)) <= FEW_ULP * np.abs(v[1:]), 0.0, np.diff(v)))
    changing = np.flatnonzero(rise)
    for i in changing[:-1][rise[changing[1:]] != rise[changing[:-1]]]:
        a, b = h[max(i - 1, 0)], h[min(i + 3, h.size - 1)]
        bracketed = derivative(a) * derivative(b) < 0
        yield float(brentq(derivative, a, b, xtol=1e-15)) if bracketed else h[i + 1]


class Preimages(NamedTuple):
    """Solutions of link(h) = y, shape (branches, labels), NaN if a branch has none, and log |link'(h)| there."""

    h: Array
    log_slope: Array


def preimages(pieces: PiecewiseLink, y: Array, known: Array | None = None, distance: float = np.inf) -> Preimages:
    """Solve link(h) = y on every branch, for labels ``y`` of shape (labels,).

    Args:
        pieces: the link.
        y: labels.
        known: one known solution per label, whose branch is not solved again. Optional.
        distance: branches at a larger distance from the known solution are left out.

    Example:
        >>> preimages(find_pieces(lambda h: h**2), np.array([4.0])).h.ravel().round(12)
        array([-2.,  2.])
    """
    h = np.full((len(pieces.branches), y.size), np.nan)
    log_slope = np.zeros_like(h)
    brackets = []
    for row, branch in enumerate(pieces.branches):
        low, high = branch.values[0], branch.values[-1]
        slack = FEW_ULP * max(abs(low), abs(high))
        in_range = (y >= low - slack) & (y <= high + slack)
        if known is not None:
            own = branch.contains(known)
            h[row, own] = known[own]
            ends = sorted((branch.h[0], branch.h[-1]))
            in_range &= ~own & (known > ends[0] - distance) & (known < ends[1] + distance)
        column, target = np.flatnonzero(in_range), np.clip(y[in_range], low, high)
        j = np.clip(np.searchsorted(branch.values, target) - 1, 0, branch.h.size - 2)
        cell = branch.h[j], branch.h[j + 1], branch.values[j] - target, branch.values[j + 1] - target
        brackets.append((np.full(column.size, row), column, target, *cell))
    if brackets:
        rows, columns, *bracket = (np.concatenate(part) for part in zip(*brackets, strict=True))
        h[rows, columns] = _illinois(pieces.link, *bracket)
    for row, branch in enumerate(pieces.branches):
        solved = ~np.isnan(h[row])
        log_slope[row, solved] = np.log(np.maximum(np.abs(branch.derivative(h[row, solved])), 1e-300))
    return Preimages(h, log_slope)


def _illinois(link: Function, target: Array, a: Array, b: Array, fa: Array, fb: Array) -> Array:
    """Solve link(h) = target to rounding by the Illinois iteration, in all brackets at once.

    ``a`` and ``b`` are the ends of the brackets, ``fa <= 0`` and ``fb >= 0`` link minus target there.
    """
    best = np.where(-fa < fb, a, b)
    active = np.flatnonzero(np.minimum(-fa, fb) > 0)
    a, b, fa, fb, target = (x[active] for x in (a, b, fa, fb, target))
    side = np.zeros(active.size)
    for _ in range(_ROOT_STEPS):
        if active.size == 0:
            break
        c = np.clip(a - fa * ((b - a) / (fb - fa)), np.minimum(a, b), np.maximum(a, b))
        fc = link(c) - target
        best[active] = c
        # A step that does not leave an end of its bracket has reached rounding.
        todo = (np.abs(fc) > np.finfo(float).eps * np.abs(target)) & (c != a) & (c != b)
        below = fc < 0
        # The value at an end that is kept twice in a row is halved, which makes the convergence superlinear.
        fa, fb = (
            np.where(below, fc, np.where(side > 0, 0.5 * fa, fa)),
            np.where(below, np.where(side < 0, 0.5 * fb, fb), fc),
        )
        a, b, side = np.where(below, c, a), np.where(below, b, c), np.where(below, -1.0, 1.0)
        active = active[todo]
        a, b, fa, fb, target, side = (x[todo] for x in (a, b, fa, fb, target, side))
    return best
