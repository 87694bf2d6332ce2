"""Where the bulks of singular values of a noisy Gaussian product begin and end, as values of the moment function.

The symbols are those of :mod:`~glassformer.random_matrices.rectangular_curve`. Each edge is a zero of
``f' = 2 a2 m + a1 - 1/m^2 + K/p^2``, written as the equality of two positive sums so that its logarithm is close to
linear and Newton's method needs a handful of steps. All arrays have shape (batch, 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root

Flags = NDArray[np.bool_]


def upper_edge(rho: Array, a2: Array, a1: Array, k: Array) -> Array:
    """``m > 0`` at the largest singular value."""

    def condition(t: Array) -> tuple[Array, Array]:
        m = np.exp(t)
        total = 2 * a2 * m + a1 + k / (m + rho) ** 2
        return np.log(total) + 2 * t, 2 + m * (2 * a2 - 2 * k / (m + rho) ** 3) / total

    high = -0.5 * np.log(a1)
    low = -0.5 * np.log(2 * a2 * np.exp(high) + a1 + k / rho**2)
    return np.exp(bracketed_root(condition, low - 1e-9, high + 1e-9))


def lower_edge(beta: Array, rho: Array, noise: Array, a2: Array, a1: Array, k: Array) -> tuple[Array, Array]:
    """``-m`` and ``p`` at the smallest singular value, both in (0, rho).

    Between the poles both factors of ``f`` vanish once. Between these two places, and there alone, ``f`` is positive,
    with one maximum: the edge. Wide matrices with little noise have other zeros of ``f'`` beside them.
    """

    def split(t: Array) -> tuple[Array, Array]:
        return rho / (1 + np.exp(-t)), rho / (1 + np.exp(t))

    def zero(c: Array) -> Array:
        """Logarithm of ``-m / p`` where ``(c + m) p / rho + R m`` is zero; neither of the two is a difference."""
        b = c - rho + noise * rho
        root = np.hypot(b, 2 * rho * np.sqrt(noise))
        p = np.where(b > 0, 2 * noise * rho**2 / (np.abs(b) + root), 0.5 * (root - b))
        return np.log(2 * rho * c / (b + 2 * rho + root)) - np.log(p)

    def condition(t: Array) -> tuple[Array, Array]:
        n, p = split(t)
        dn = n * p / rho
        left, right = k / p**2 + a1 + 2 * a2 * p, 1 / n**2 + 2 * a2 * rho
        return np.log(left / right), dn * ((2 * k / p**3 - 2 * a2) / left + 2 / n**3 / right)

    ends = zero(np.ones_like(beta)), zero(beta)
    return split(bracketed_root(condition, np.minimum(*ends), np.maximum(*ends)))


def gap_edges(rho: Array, a2: Array, a1: Array, k: Array) -> tuple[Flags, Array, Array, Array]:
    """Whether there are two bulks; ``-p > 0`` at the end of the lower, the start of the upper, and in between.

    On ``m < -rho``, ``f'`` falls from infinity at the pole; it is convex up to one inflection point and concave
    beyond, so there is a gap exactly where its local minimum is negative and its local maximum positive. The last
    array is the place of that minimum: with a gap it lies inside, without one it is where two bulks would part.
    """
    possible = k < 1
    quarter = 0.25 * np.log(np.where(possible, k, 0.5))
    inflection = np.log(rho) + quarter - np.log(-np.expm1(quarter))
    possible &= _bend(rho, a2, k, inflection, 1.0)[0] < 0
    gap = np.zeros_like(possible)
    end, start, closest = (np.full_like(k, np.nan) for _ in range(3))
    at = np.flatnonzero(possible)
    if at.size:
        found = _parted(rho[at], a2[at], a1[at], k[at], inflection[at])
        gap[at], end[at], start[at], closest[at] = found
    return gap, end, start, closest


def _bend(rho: Array, a2: Array, k: Array, t: Array, sign: float) -> tuple[Array, Array]:
    """Log-ratio, and slope, whose sign is that of the slope of ``f'`` at ``p = -exp(t)``."""
    b = np.exp(t)
    total = k / b**3 + a2
    return sign * np.log(total * (rho + b) ** 3), sign * (3 * b / (rho + b) - 3 * (total - a2) / total)


def _level(rho: Array, a2: Array, a1: Array, k: Array, t: Array, sign: float) -> tuple[Array, Array]:
    """Log-ratio, and slope, whose sign is that of ``f'`` itself at ``p = -exp(t)``."""
    b = np.exp(t)
    left, right = k / b**2 + a1, 1 / (rho + b) ** 2 + 2 * a2 * (rho + b)
    slope = -2 * k / b**2 / left + b * (2 / (rho + b) ** 3 - 2 * a2) / right
    return sign * np.log(left / right), sign * slope


def _parted(rho: Array, a2: Array, a1: Array, k: Array, inflection: Array) -> tuple[Flags, Array, Array, Array]:
    """The edges of :func:`gap_edges` where ``f'`` has a local minimum, nearer to the pole than its inflection point."""
    cube = np.log(k) / 3
    nearest = np.log(rho) + cube - np.log(-np.expm1(cube)) - 1e-9
    lowest = bracketed_root(lambda t: _bend(rho, a2, k, t, -1.0), nearest, inflection, start=nearest + 1e-8)
    beyond = np.maximum(np.log(np.maximum(a2 ** (-1 / 3) - rho, rho * 1e-300)), inflection) + 1e-9
    highest = bracketed_root(lambda t: _bend(rho, a2, k, t, 1.0), inflection, beyond, start=beyond - 1e-8)
    gap = (_level(rho, a2, a1, k, lowest, 1.0)[0] < 0) & (_level(rho, a2, a1, k, highest, 1.0)[0] > 0)
    closest = np.exp(lowest)
    end, start = np.full_like(k, np.nan), np.full_like(k, np.nan)
    if np.any(gap):
        at, inside = (rho[gap], a2[gap], a1[gap], k[gap]), closest[gap]
        first = 0.5 * np.log(at[3] / (1 / at[0] ** 2 + 2 * at[1] * (at[0] + inside))) - 1e-9
        end[gap] = _at_level(at, -1.0, first, lowest[gap], first + 1e-8)
        start[gap] = _at_level(at, 1.0, lowest[gap], highest[gap], None)
    return gap, end, start, closest


def _at_level(
    at: tuple[Array, Array, Array, Array], sign: float, low: Array, high: Array, start: Array | None
) -> Array:
    """Where ``f'`` is zero, to the last digits: next to the place where two bulks part it bends within a short way."""
    return np.exp(bracketed_root(lambda t: _level(*at, t, sign), low, high, last_step=1e-11, start=start))
