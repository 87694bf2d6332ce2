"""Roots of monotone functions: elementwise in brackets, or of one function in a bracket that moves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from glassformer.core.estimate import Array

# A step below the first number, relative to the root, that is followed by one of the second number times its size:
# cancellation in the function leaves no more digits. At double and triple roots steps shrink by 1/2 and 2/3.
_CLOSE, _STALLED = 1e-6, 0.75


def bracketed_root(
    function: Callable[[Array], tuple[Array, Array]],
    low: Array,
    high: Array,
    last_step: float = 1e-8,
    start: Array | None = None,
    cancels: bool = False,
) -> Array:
    """Return roots by Newton's method inside shrinking brackets, elementwise.

    General bracketing solvers need no derivative, but milliseconds per call; an iteration of message passing on data
    takes a few tenths of a millisecond.

    Args:
        function: returns the value and the derivative; must increase through its root in ``[low, high]``.
        low: lower ends, where the function is not positive.
        high: upper ends, where it is not negative.
        last_step: Newton step, relative to the root or to one, after which the iteration stops; the remaining error
            is its square over the scale of the curvature.
        start: initial values in the brackets; the middle by default, and where this is NaN.
        cancels: whether cancellation may leave few digits of the values, so that steps stop to shrink before the last
            one; the root is then where they do, and not sought by halving.

    Returns:
        The root to rounding error; NaN where the function is NaN.

    Example:
        >>> float(bracketed_root(lambda x: (x**2 - 2, 2 * x), np.array([0.0]), np.array([2.0]))[0])
        1.4142135623730951
    """
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    x = 0.5 * (low + high)
    if start is not None:
        x = np.where(np.isnan(start), x, np.clip(start, low, high))
    step = before = high - low
    done, by_newton = np.zeros(x.shape, dtype=bool), np.zeros(x.shape, dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(200):
            value, slope = function(x)
            low, high = np.where(value <= 0, x, low), np.where(value >= 0, x, high)
            newton = x - value / slope
            # Steps that do not shrink by half in two iterations may be a cycle: the bracket is halved instead.
            usable = (newton >= low) & (newton <= high) & (np.abs(newton - x) <= 0.5 * np.abs(before))
            size = np.maximum(np.abs(x), 1.0)
            # Close to a root steps of Newton's method shrink fast until the value is rounding; halving would go on.
            close = np.abs(step) <= _CLOSE * np.abs(x)
            rounding = cancels & by_newton & close & (np.abs(newton - x) >= _STALLED * np.abs(step))
            moved = np.where(rounding, x, np.where(usable, newton, 0.5 * (low + high)))
            before, step, by_newton = step, moved - x, usable
            settled = (usable & (np.abs(step) <= last_step * size)) | (high - low <= 4e-16 * size) | np.isnan(value)
            settled |= rounding
            # Converged elements stay: at a root the sign of the value is rounding.
            x = np.where(done, x, moved)
            done |= settled
            if done.all():
                break
    return np.where(np.isnan(value), np.nan, x)


def root_by_growth(
    function: Callable[[float], float], low: float, high: float, bounds: tuple[float, float], xtol: float = 1e-12
) -> float:
    """Return the root of a monotone function of one number; the first bracket need not contain it.

    The bracket moves by its width towards the root. It does not double: far from the root functions may be inaccurate.

    Args:
        function: monotone between the bounds.
        low: lower end of the first bracket.
        high: upper end of the first bracket.
        bounds: limits of the bracket.
        xtol: accuracy of the root.

    Returns:
        The root; minus or plus infinity if there is none between the bounds, NaN if the function is NaN.

    Example:
        >>> round(root_by_growth(lambda x: np.exp(-x) - 1e-6, 0.0, 1.0, bounds=(-30, 30)), 9)
        13.815510558
        >>> root_by_growth(lambda x: -np.exp(-x), 0.0, 1.0, bounds=(-30, 30))
        inf
    """
    ends = [function(low), function(high)]
    direction = -1.0 if ends[0] > ends[1] else 1.0
    left, right = (direction * end for end in ends)
    width = high - low
    while left > 0 or right < 0:
        if left > 0:
            if low <= bounds[0]:
                return -np.inf
            high, low, right = low, max(low - width, bounds[0]), left
            left = direction * function(low)
        else:
            if high >= bounds[1]:
                return np.inf
            low, high, left = high, min(high + width, bounds[1]), right
            right = direction * function(high)
    if np.isnan(left) or np.isnan(right):
        return np.nan
    # scipy loads this package when it is first used: --help is twice as fast without it.
    return float(scipy.optimize.brentq(function, low, high, xtol=xtol))
