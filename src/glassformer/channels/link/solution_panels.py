"""Panels of fields behind a noisy label: about its solutions on monotone branches, and on flat parts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.link.piecewise import Branch, LinkShape
from glassformer.channels.scalar.base import Array

Window = tuple[Array, Array]


class Cells(NamedTuple):
    """Panels of the posterior, in the order of their owners, from and to.

    Attributes:
        owner: the label, by its number.
        low, high: fields.
    """

    owner: NDArray[np.intp]
    low: Array
    high: Array


def cells_on_branches(shape: LinkShape, label: Array, seen: float, window: Window, size: tuple[float, float]) -> Cells:
    """Panels about the solutions of each label on the monotone branches.

    Args:
        shape: of the link.
        label: shape (labels,).
        seen: difference from the label up to which fields count.
        window: fields that count, from and to, shape (labels,) each.
        size: change of the link and of the field across one panel, of which one may be reached or both in part.
    """
    found: list[tuple[NDArray[np.intp], Array, Array]] = []
    low, high = window
    for branch in shape.branches:
        up = int(branch.h[-1] > branch.h[0])
        ends = [np.interp(label + side * seen, branch.values, branch.h) for side in (-1, 1)]
        a, b = np.maximum(ends[1 - up], low), np.minimum(ends[up], high)
        own = np.flatnonzero(b > a)
        if own.size:
            found.append(_levelled(branch, own, a[own], b[own], *size))
    return _sorted(found)


def cells_on_flats(shape: LinkShape, label: Array, seen: float, window: Window) -> Cells:
    """Flat intervals whose value is close to each label; arguments as of :func:`cells_on_branches`."""
    parts: list[tuple[NDArray[np.intp], Array, Array]] = []
    low, high = window
    for flat in shape.flats:
        close = np.abs(flat.value - label) < seen
        for a, b in flat.intervals:
            own = np.flatnonzero(close & (low < b) & (high > a))
            parts.append((own, np.maximum(a, low[own]), np.minimum(b, high[own])))
    return _sorted(parts)


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


def _sorted(parts: list[tuple[NDArray[np.intp], Array, Array]]) -> Cells:
    if not parts:
        return Cells(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))
    owner, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(owner, kind="stable")
    return Cells(owner[order], low[order], high[order])
