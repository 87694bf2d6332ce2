"""Crossings: sample ratios at which a learning curve crosses a target value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.status import Status

# Statuses of rows whose numbers are valid.
_VALID = (Status.CONVERGED, Status.BISTABLE)

# Relative width of the final bracket, for exact and for sampled curves, and largest number of rounds.
_EXACT_WIDTH, _SAMPLED_WIDTH, _MOST_ROUNDS = 1e-7, 1e-4, 12
# Points of a round: distances from the interpolated crossing, in widths of the bracket. If a round leaves more than a
# tenth of the width, the next one divides the bracket into sixteenths instead (chosen by trial).
_NEAR, _LARGEST_REMAINDER, _EVEN = (-3e-2, -3e-3, -1e-4, 0.0, 1e-4, 3e-3, 3e-2), 0.1, 16
# Relative distance from thresholds, at which curves may jump; closer to them iterations do not resolve fixed points.
_JUMP_DISTANCE = 1e-6
# Relative distance of the two points that measure a slope.
_SLOPE_STEP = 1e-3
# A curve jumps if it falls by more than this share over a narrow bracket, and by more than half of its fall over a
# bracket that is ten times wider on either side.
_JUMP, _AROUND_JUMP, _JUMP_SHARE = 1e-2, 10.0, 0.5


class CurveValues(NamedTuple):
    """A learning curve at some sample ratios, arrays of shape (points,).

    Attributes:
        value: values of the quantity.
        error: error of the estimate, on which the quantity depends.
        error_estimate: absolute error of ``error``.
        standard_error: additional standard error of ``value``.
        status: status of each point.
    """

    value: Array
    error: Array
    error_estimate: Array
    standard_error: Array
    status: Sequence[Status]


@dataclass(frozen=True)
class Crossing:
    """A sample ratio at which a curve crosses a target.

    Attributes:
        alpha: sample ratio.
        error_estimate: absolute error of ``alpha``.
        falls: whether the curve is below the target beyond the crossing.
        sides: values just before and just after the crossing.
        jumps: whether the curve jumps between these values.
        status: the first invalid status among the points that the crossing depends on.
    """

    alpha: float
    error_estimate: float
    falls: bool
    sides: tuple[float, float]
    jumps: bool
    status: Status


def invalid_statuses(status: Sequence[Status]) -> list[Status]:
    """Return the statuses of rows whose numbers are not valid."""
    return [one for one in status if one not in _VALID]


def valid_rows(values: CurveValues) -> Array:
    """Return whether each point has a valid number, shape (points,)."""
    valid = np.array([one in _VALID for one in values.status], dtype=bool)
    return np.asarray(valid & ~np.isnan(values.value))


def crossings(
    curve: Callable[[Array], CurveValues],
    alpha: Array,
    values: CurveValues,
    target: float,
    thresholds: Sequence[float] = (),
    sampled: bool = False,
    width: float | None = None,
) -> list[Crossing]:
    """Return the crossings of a curve and a target, in the order of the sample ratio.

    Every interval between two ratios with values on different sides of the target is narrowed down. Pairs of crossings
    within one interval are missed.

    Args:
        curve: function that returns the values of the curve at sample ratios.
        alpha: increasing ratios > 0.
        values: values of the curve at these ratios.
        target: target value.
        thresholds: ratios at which the curve may jump.
        sampled: whether the curve has sampling errors.
        width: relative width of the final bracket; None for that of exact or of sampled curves.

    Example:
        >>> def square(alpha):
        ...     nothing = np.zeros_like(alpha)
        ...     return CurveValues(1 / alpha**2, 1 / alpha**2, nothing, nothing, [Status.CONVERGED] * len(alpha))
        >>> alpha = np.array([1.0, 2.0, 4.0])
        >>> found = crossings(square, alpha, square(alpha), 0.1)
        >>> [(round(one.alpha, 6), one.falls) for one in found]
        [(3.162278, True)]
    """
    valid = valid_rows(values)
    ratios, quantity = alpha[valid], values.value[valid]
    brackets = np.flatnonzero(np.diff(quantity <= target))
    jumps = np.asarray(thresholds, dtype=float)
    return [_narrow(curve, ratios[k : k + 2], quantity[k : k + 2], target, jumps, sampled, width) for k in brackets]


def _narrow(
    curve: Callable[[Array], CurveValues],
    ends: Array,
    values: Array,
    target: float,
    thresholds: Array,
    sampled: bool,
    final: float | None,
) -> Crossing:
    """Return the crossing in the bracket between two sample ratios, ``ends``, with these values."""
    narrow = final or (_SAMPLED_WIDTH if sampled else _EXACT_WIDTH)
    falls = bool(values[1] <= target)
    invalid: list[Status] = []
    evenly = False
    for _ in range(_MOST_ROUNDS):
        width = np.log(ends[1] / ends[0])
        if width <= narrow:
            break
        if evenly:
            alpha = ends[0] * np.exp(width * np.linspace(0, 1, _EVEN + 1)[1:-1])
            sides = np.outer(thresholds, [1 - _JUMP_DISTANCE, 1 + _JUMP_DISTANCE]).ravel()
            alpha = np.unique(np.concatenate([alpha, sides[(ends[0] < sides) & (sides < ends[1])]]))
        else:
            shares = np.clip(_interpolated_share(values, target) + np.array(_NEAR), 1e-3, 1 - 1e-3)
            alpha = ends[0] * np.exp(width * np.unique(shares))
        new = curve(alpha)
        valid = valid_rows(new)
        # The first crossing among the valid points.
        places = np.concatenate([ends[:1], alpha[valid], ends[1:]])
        quantity = np.concatenate([values[:1], new.value[valid], values[1:]])
        first = int(np.flatnonzero(np.diff(quantity <= target))[0])
        ends, values = places[first : first + 2], quantity[first : first + 2]
        evenly = bool(np.log(ends[1] / ends[0]) > _LARGEST_REMAINDER * width)
        invalid = invalid_statuses(new.status) if evenly else []
    width = np.log(ends[1] / ends[0])
    place = float(np.exp(np.log(ends[0]) + width * np.clip(_interpolated_share(values, target), 0, 1)))
    jumps = bool(width <= 10 * narrow) and _jumps(curve, ends, values, target)
    # For sampled averages the position of a jump depends on their error just before it; exact ones move by rounding.
    step = max(_SLOPE_STEP, narrow)
    sides = ends[0] * np.array([1 - step, 1.0]) if jumps else place * np.array([1 - step, 1 + step])
    values_at_sides = curve(sides)
    error = float(ends[1] - ends[0]) + (_JUMP_DISTANCE * place if jumps else 0.0)
    if sampled or not jumps:
        # Errors of the values, divided by the slopes between the two sides.
        distance = float(sides[1] - sides[0])
        for errors, quantity in (
            (values_at_sides.error_estimate, values_at_sides.error),
            (values_at_sides.standard_error, values_at_sides.value),
        ):
            if np.max(errors) > 0:
                error += float(np.max(errors)) * distance / max(abs(float(quantity[1] - quantity[0])), 1e-300)
    status = next(iter([*invalid_statuses(values_at_sides.status), *invalid]), Status.CONVERGED)
    return Crossing(place, error, falls, (float(values[0]), float(values[1])), jumps, status)


def _interpolated_share(values: Array, target: float) -> float:
    """Return the relative position of the target between two values, on a logarithmic scale."""
    if not np.all(np.isfinite(values)) or min(target, *values) <= 0:
        return 0.5
    first, last, log_target = np.log([*values, target])
    return float((log_target - first) / (last - first))


def _jumps(curve: Callable[[Array], CurveValues], ends: Array, values: Array, target: float) -> bool:
    """Return whether the fall over a narrow bracket is larger than slopes explain."""
    fall = abs(float(values[0] - values[1]))
    if fall <= _JUMP * max(float(np.max(np.abs(values))), target):
        return False
    away = _AROUND_JUMP * float(ends[1] - ends[0])
    around = curve(ends + np.array([-away, away])).value
    return not fall <= _JUMP_SHARE * abs(float(around[0] - around[1]))
