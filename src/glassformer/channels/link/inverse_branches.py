"""The fields that share a label: all solutions of link(h) = y."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.link.function import Function
from glassformer.channels.link.piecewise import FEW_ULP, Branch, LinkShape
from glassformer.channels.scalar.base import Array

_STEPS = 60  # of root finding: next to an extremum it is slow, and most labels are done after a few


class Preimages(NamedTuple):
    """Solutions, shape (branches, labels), NaN where a branch has none; and log |link'(h)| there."""

    h: Array
    log_slope: Array


def preimages(shape: LinkShape, y: Array, known: Array | None = None, sight: float = np.inf) -> Preimages:
    """Solve link(h) = y on every branch, for labels ``y`` of shape (labels,).

    ``known`` is one solution per label where it is at hand: its branch is then not solved, nor are those that lie
    farther than ``sight`` from it.

    Example:
        >>> from glassformer.channels.link.piecewise import link_shape
        >>> preimages(link_shape(lambda h: h**2), np.array([4.0])).h.ravel().round(12)
        array([-2.,  2.])
    """
    h = np.full((len(shape.branches), y.size), np.nan)
    log_slope = np.zeros_like(h)
    brackets = []
    for row, branch in enumerate(shape.branches):
        low, high = branch.values[0], branch.values[-1]
        slack = FEW_ULP * max(abs(low), abs(high))
        reached = (y >= low - slack) & (y <= high + slack)
        if known is not None:
            own = branch.holds(known)
            h[row, own] = known[own]
            ends = sorted((branch.h[0], branch.h[-1]))
            reached &= ~own & (known > ends[0] - sight) & (known < ends[1] + sight)
        brackets.append(_bracket(branch, row, np.flatnonzero(reached), np.clip(y[reached], low, high)))
    if brackets:
        every = _Brackets(*(np.concatenate(column) for column in zip(*brackets, strict=True)))
        h[every.row, every.place] = _solved(shape.link, every)
    for row, branch in enumerate(shape.branches):
        filled = ~np.isnan(h[row])
        log_slope[row, filled] = np.log(np.maximum(np.abs(branch.derivative(h[row, filled])), 1e-300))
    return Preimages(h, log_slope)


class _Brackets(NamedTuple):
    """Where solutions lie, one entry each: branch, label, ends of a cell of the table, how far values are off."""

    row: NDArray[np.intp]
    place: NDArray[np.intp]
    goal: Array
    a: Array
    b: Array
    fa: Array
    fb: Array


def _bracket(branch: Branch, row: int, place: NDArray[np.intp], y: Array) -> _Brackets:
    j = np.clip(np.searchsorted(branch.values, y) - 1, 0, branch.h.size - 2)
    ends = branch.h[j], branch.h[j + 1], branch.values[j] - y, branch.values[j + 1] - y
    return _Brackets(np.full(place.size, row), place, y, *ends)


def _solved(link: Function, brackets: _Brackets) -> Array:
    """Illinois iteration from the tabulated brackets, on what is not yet solved to rounding, all branches at once."""
    _, _, goal, a, b, fa, fb = brackets
    best = np.where(-fa < fb, a, b)
    active = np.flatnonzero(np.minimum(-fa, fb) > 0)
    a, b, fa, fb, goal = (x[active] for x in (a, b, fa, fb, goal))
    side = np.zeros(active.size)
    for _ in range(_STEPS):
        if active.size == 0:
            break
        c = np.clip(a - fa * ((b - a) / (fb - fa)), np.minimum(a, b), np.maximum(a, b))
        fc = link(c) - goal
        best[active] = c
        # Where rounding leaves the end of a bracket, the value there is all that can be had.
        todo = (np.abs(fc) > np.finfo(float).eps * np.abs(goal)) & (c != a) & (c != b)
        below = fc < 0
        # An end that is kept twice running counts half: this makes the convergence superlinear.
        fa, fb = (
            np.where(below, fc, np.where(side > 0, 0.5 * fa, fa)),
            np.where(below, np.where(side < 0, 0.5 * fb, fb), fc),
        )
        a, b, side = np.where(below, c, a), np.where(below, b, c), np.where(below, -1.0, 1.0)
        active = active[todo]
        a, b, fa, fb, goal, side = (x[todo] for x in (a, b, fa, fb, goal, side))
    return best
