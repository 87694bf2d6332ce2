"""Errors on new labels of a link that takes a few values, each on whole intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.link.field_quadrature import REFINEMENT, RULES, Rule, omega_nodes, refined
from glassformer.channels.link.normal_intervals import WINDOW, interval_mass
from glassformer.channels.link.piecewise import LinkShape
from glassformer.channels.scalar.base import Array, Estimate

_PAIRS = 400_000  # means and intervals treated at once


def step_errors(shape: LinkShape, v: float, nodes: int) -> Estimate:
    r"""Errors at posterior variance ``v``: sums over the values, and one quadrature over the mean of the field.

    Returns:
        Squared errors of the mean label and of that at the mean field, and how often the likeliest is wrong, shape
        (3,), with the last change.

    Example:
        >>> from glassformer.channels.link.piecewise import link_shape
        >>> step_errors(link_shape(np.sign), 0.5, 12).value.round(8).tolist()[2]  # arccos(sqrt(1/2))/pi
        0.25
    """
    return refined((_by_rule(shape, v, rule, nodes) for rule in RULES), REFINEMENT.settled)


def _by_rule(shape: LinkShape, v: float, rule: Rule, nodes: int) -> Array:
    intervals = np.concatenate([flat.intervals for flat in shape.flats])
    owner = np.repeat(np.arange(len(shape.flats)), [len(flat.intervals) for flat in shape.flats])
    order = np.argsort(intervals[:, 0])
    intervals, owner = intervals[order], owner[order]
    values = np.array([flat.value for flat in shape.flats])
    errors = np.zeros(3)
    for omega, weight, seen in _near_steps(shape, intervals, v, rule, nodes):
        low, high = ((end[seen] - omega[:, None]) / np.sqrt(v) for end in intervals.T)
        label = shape.link(omega)
        kinds, column = np.unique(owner[seen], return_inverse=True)
        mass = interval_mass(low, high)
        # Several intervals may take one value.
        chance = mass if kinds.size == seen.size else _summed(mass, column, kinds.size)
        value = values[owner[seen]] if kinds.size == seen.size else values[kinds]
        gap = value - label[:, None]
        mean = np.sum(chance * gap, axis=1)
        plugin = np.sum(chance * gap**2, axis=1)
        errors += [weight @ part for part in (plugin - mean**2, plugin, 1 - chance.max(axis=1))]
    return errors


def _summed(mass: Array, column: NDArray[np.intp], kinds: int) -> Array:
    order = np.argsort(column, kind="stable")
    starts = np.searchsorted(column[order], np.arange(kinds))
    return np.asarray(np.add.reduceat(mass[:, order], starts, axis=1))


def _near_steps(
    shape: LinkShape, intervals: Array, v: float, rule: Rule, nodes: int
) -> Iterator[tuple[Array, Array, NDArray[np.intp]]]:
    """Nodes of the mean with their weights, few at a time, and the intervals in sight of them."""
    omega, weight = omega_nodes(v, shape.breaks, rule, nodes)
    reach = WINDOW * np.sqrt(v)
    ends = np.concatenate([[-np.inf], shape.breaks, [np.inf]])
    after = np.searchsorted(ends, omega)
    near = np.minimum(omega - ends[after - 1], ends[after] - omega) < reach
    # Elsewhere labels are certain.
    omega, weight = omega[near], weight[near]
    first = np.searchsorted(intervals[:, 1], omega - reach)
    last = np.searchsorted(intervals[:, 0], omega + reach)
    start = 0
    while start < omega.size:
        room = _PAIRS // max(int(last[start] - first[start]), 1)
        stop = min(start + max(room, 1), omega.size)
        # Neighbours farther than a window would see intervals of no use to each other.
        stop = max(start + 1, min(stop, int(np.searchsorted(omega, omega[start] + reach))))
        yield omega[start:stop], weight[start:stop], np.arange(first[start], last[stop - 1])
        start = stop
