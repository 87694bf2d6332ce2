"""Panels that resolve the posterior of a field given a noisy label."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.link.piecewise import Branch, PiecewiseLink
from glassformer.core.estimate import Array

_FARTHEST = 60.0  # largest deviation of the field, in units of sqrt(V), that a label may require
_INITIAL = np.sinh(np.linspace(-1, 1, 161) * np.arcsinh(_FARTHEST))

Window = tuple[Array, Array]
"""Range of relevant fields for each label: lower and upper ends, shape (labels,) each."""


def initial_panels(breaks: Array, omega: Array, scale: Array) -> tuple[Array, Array]:
    """Return edges in u = (h - omega) / sqrt(V) over the whole range, and the breaks, shapes (rows, edges) each."""
    cuts = np.clip((breaks - omega) / scale, _INITIAL[0], _INITIAL[-1])
    return np.broadcast_to(_INITIAL, (len(omega), _INITIAL.size)), cuts


def equidistribute(edges: Array, change: Array, panels: int) -> Array:
    """Return new edges between which every row has equal changes. ``change`` has shape (rows, old panels)."""
    measure = np.cumsum(change + 1e-9, axis=1)
    measure = np.concatenate([np.zeros((len(edges), 1)), measure / measure[:, -1:]], axis=1)
    # One interpolation for all rows: the measure of row i is shifted to [2 i, 2 i + 1].
    rows = 2.0 * np.arange(len(edges))[:, None]
    wanted = rows + np.linspace(0, 1, panels + 1)
    return np.interp(wanted.ravel(), (rows + measure).ravel(), edges.ravel()).reshape(len(edges), -1)


class LabelPanels(NamedTuple):
    """Panels of fields for labels, in the order of the labels.

    Attributes:
        owner: number of the label.
        low, high: ends of the panel.
    """

    owner: NDArray[np.intp]
    low: Array
    high: Array


def branch_panels(
    pieces: PiecewiseLink, label: Array, reach: float, window: Window, size: tuple[float, float]
) -> LabelPanels:
    """Return panels around the solutions of each label on the monotone branches.

    Args:
        pieces: the link.
        label: shape (labels,).
        reach: largest relevant difference between the link and the label.
        window: range of relevant fields.
        size: change of the link and change of the field over one panel, of which each panel combines a share.
    """
    parts: list[tuple[NDArray[np.intp], Array, Array]] = []
    low, high = window
    for branch in pieces.branches:
        up = int(branch.h[-1] > branch.h[0])
        ends = [np.interp(label + side * reach, branch.values, branch.h) for side in (-1, 1)]
        a, b = np.maximum(ends[1 - up], low), np.minimum(ends[up], high)
        own = np.flatnonzero(b > a)
        if own.size:
            parts.append(_divide(branch, own, a[own], b[own], *size))
    return _by_owner(parts)


def flat_panels(pieces: PiecewiseLink, label: Array, reach: float, window: Window) -> LabelPanels:
    """Return the flat intervals whose value is close to each label. Arguments as for :func:`branch_panels`."""
    parts: list[tuple[NDArray[np.intp], Array, Array]] = []
    low, high = window
    for flat in pieces.flats:
        close = np.abs(flat.value - label) < reach
        for a, b in flat.intervals:
            own = np.flatnonzero(close & (low < b) & (high > a))
            parts.append((own, np.maximum(a, low[own]), np.minimum(b, high[own])))
    return _by_owner(parts)


def _divide(
    branch: Branch, own: NDArray[np.intp], a: Array, b: Array, link_size: float, field_size: float
) -> tuple[NDArray[np.intp], Array, Array]:
    """Divide each interval into panels across which value and field together change by one unit."""
    up = 1 if branch.h[-1] > branch.h[0] else -1
    h, values = branch.h[::up], branch.values[::up]
    measure = up * (values - values[0]) / link_size + (h - h[0]) / field_size
    first, last = np.interp(a, h, measure), np.interp(b, h, measure)
    count = np.maximum(np.ceil(last - first), 1).astype(int)
    number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    owner, step, total = (np.repeat(x, count) for x in (own, (last - first) / count, count))
    start = np.repeat(first, count)
    low = np.where(number == 0, np.repeat(a, count), np.interp(start + number * step, measure, h))
    high = np.where(number + 1 == total, np.repeat(b, count), np.interp(start + (number + 1) * step, measure, h))
    return owner, low, high


def _by_owner(parts: list[tuple[NDArray[np.intp], Array, Array]]) -> LabelPanels:
    if not parts:
        return LabelPanels(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))
    owner, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(owner, kind="stable")
    return LabelPanels(owner[order], low[order], high[order])
