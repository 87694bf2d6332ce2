"""Prediction errors on a new noiseless label of a link of one field."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.link.piecewise import PiecewiseLink
from glassformer.channels.link.quadrature import (
    RULES,
    SETTLED,
    WINDOW,
    Rule,
    deviation_nodes,
    interval_mass,
    omega_nodes,
    refine,
)
from glassformer.core.estimate import Array, Estimate

_ROWS = 128  # number of means of the field of one block
_PAIRS = 400_000  # number of means times intervals of one block
# Relative change that ends the refinement of smooth labels. The finer of the two rules has twice as many digits.
_SETTLED_SMOOTH = 1e-7
# Share of the mean square of labels at typical fields that is rounding: changes below it end the refinement as well.
_ROUNDING, _TYPICAL = 1e-20, np.linspace(-2.0, 2.0, 101)


def prediction_errors(pieces: PiecewiseLink, v: float, nodes: int) -> Estimate:
    r"""Return prediction errors at posterior variance ``v``, by quadrature over the mean of the field and the field.

    Returns:
        Squared errors of the posterior mean of the label and of the label at the mean field; for a step function also
        the probability that the most probable label is wrong. Shape (2,) or (3,), the error is the last change.

    Example:
        >>> from glassformer.channels.link.piecewise import find_pieces
        >>> prediction_errors(find_pieces(lambda h: h**2), 0.5, 12).value.round(8)  # 2 (1 - q^2), and that plus V^2
        array([1.5 , 1.75])
        >>> prediction_errors(find_pieces(np.sign), 0.5, 12).value.round(8).tolist()[2]  # arccos(sqrt(1/2))/pi
        0.25
    """
    # Rounding of squared errors is relative to the square of the labels.
    square = float(np.mean(pieces.link(_TYPICAL) ** 2))
    if pieces.is_step_function:
        floors = _ROUNDING * np.array([square, square, 1.0])
        return refine((_step_errors(pieces, v, rule, nodes) for rule in RULES), SETTLED, floors)
    errors = (_smooth_errors(pieces, v, *rules, nodes) for rules in pairwise(RULES))
    return refine(errors, _SETTLED_SMOOTH, _ROUNDING * square)


def _smooth_errors(pieces: PiecewiseLink, v: float, outer: Rule, inner: Rule, nodes: int) -> Array:
    omega, weight = omega_nodes(v, pieces.breaks, outer, nodes)
    errors = np.zeros(2)
    for start in range(0, omega.size, _ROWS):
        part = slice(start, start + _ROWS)
        u, w = deviation_nodes(omega[part], v, pieces.breaks, inner, nodes)
        plugin = pieces.link(omega[part])[:, None]
        offset = pieces.link(omega[part, None] + np.sqrt(v) * u) - plugin
        mean = np.sum(w * offset, axis=1, keepdims=True)
        errors += [weight[part] @ np.sum(w * x**2, axis=1) for x in (offset - mean, offset)]
    return errors


def _step_errors(pieces: PiecewiseLink, v: float, rule: Rule, nodes: int) -> Array:
    intervals, owner = pieces.flat_intervals
    values = np.array([flat.value for flat in pieces.flats])
    errors = np.zeros(3)
    for omega, weight, near in _means_near_steps(pieces, intervals, v, rule, nodes):
        low, high = ((end[near] - omega[:, None]) / np.sqrt(v) for end in intervals.T)
        probability, value = interval_mass(low, high), values[owner[near]]
        labels, column = np.unique(owner[near], return_inverse=True)
        if labels.size < near.size:
            # Several intervals take one value.
            by_label = np.argsort(column, kind="stable")
            starts = np.searchsorted(column[by_label], np.arange(labels.size))
            probability, value = np.add.reduceat(probability[:, by_label], starts, axis=1), values[labels]
        gap = value - pieces.link(omega)[:, None]
        mean = np.sum(probability * gap, axis=1)
        plugin = np.sum(probability * gap**2, axis=1)
        errors += [weight @ part for part in (plugin - mean**2, plugin, 1 - probability.max(axis=1))]
    return errors


def _means_near_steps(
    pieces: PiecewiseLink, intervals: Array, v: float, rule: Rule, nodes: int
) -> Iterator[tuple[Array, Array, NDArray[np.intp]]]:
    """Yield blocks of nodes of the mean near steps, their weights, and the intervals within their reach.

    Labels are certain for other means.
    """
    omega, weight = omega_nodes(v, pieces.breaks, rule, nodes)
    reach = WINDOW * np.sqrt(v)
    ends = np.concatenate([[-np.inf], pieces.breaks, [np.inf]])
    after = np.searchsorted(ends, omega)
    near = np.minimum(omega - ends[after - 1], ends[after] - omega) < reach
    omega, weight = omega[near], weight[near]
    first = np.searchsorted(intervals[:, 1], omega - reach)
    last = np.searchsorted(intervals[:, 0], omega + reach)
    start = 0
    while start < omega.size:
        rows = _PAIRS // max(int(last[start] - first[start]), 1)
        stop = min(start + max(rows, 1), omega.size)
        # Means at larger distances than a window have no common intervals.
        stop = max(start + 1, min(stop, int(np.searchsorted(omega, omega[start] + reach))))
        yield omega[start:stop], weight[start:stop], np.arange(first[start], last[stop - 1])
        start = stop
