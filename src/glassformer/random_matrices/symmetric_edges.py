r"""Where the bulks of eigenvalues of a noisy Wishart matrix begin and end, as values of ``s``.

The symbols are those of :mod:`~glassformer.random_matrices.symmetric`: edges are where :math:`\psi = \pm1`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root
from glassformer.random_matrices.symmetric_curve import direction_at

# Beyond exp(+-_FAR) of its bracket no parameter of the curve lies.
_FAR = 80.0


class Edges(NamedTuple):
    """Values of ``s`` at the edges, each of shape (batch,); the inner two are NaN where there is one bulk.

    ``closest`` is the place inside a single bulk where it would part in two, NaN where there is none.
    """

    first: Array
    inner_end: Array
    inner_start: Array
    last: Array
    closest: Array


def edges(rho: Array, noise: Array) -> Edges:
    """Those of a batch of laws, parameters of shape (batch,): the real roots of a quartic, each in a bracket."""
    peak, dip = critical_points(rho, noise)
    two = ~np.isnan(peak)
    with np.errstate(invalid="ignore"):
        high, low = (direction_at(rho, noise, np.log(s))[0] for s in (peak, dip))
        early, late = two & (high > -1), two & (low < 1)
        gap_above, gap_below = two & (high > 1) & (low < 1), two & (low < -1) & (high > -1)
        below, above = edges_near(rho, noise)
        top = np.fmax.reduce(above, axis=1)
        first = crossing(rho, noise, -1, np.where(two & ~early, dip, 0), np.where(early, peak, np.inf), 1, below[:, 0])
        last = crossing(rho, noise, 1, np.where(late, dip, 0), np.where(two & ~late, peak, np.inf), 1, top)
        end, start = np.full_like(rho, np.nan), np.full_like(rho, np.nan)
        zero, far = np.zeros_like(rho), np.full_like(rho, np.inf)
        # A gap above the level 1 lies between a rising and a falling crossing, one below -1 the other way round.
        gaps = (
            (gap_above, 1, (zero, peak, dip), 1, above[:, 0], above[:, 1]),
            (gap_below, -1, (peak, dip, far), -1, below[:, 1], below[:, 2]),
        )
        for at, level, ends, rise, *guesses in gaps:
            if np.any(at):
                a, b, c = (x[at] for x in ends)
                end[at] = crossing(rho[at], noise[at], level, a, b, rise, guesses[0][at])
                start[at] = crossing(rho[at], noise[at], level, b, c, -rise, guesses[1][at])
        near = np.where(1 - high < low + 1, peak, dip)
        single = two & ~gap_above & ~gap_below & (near > first) & (near < last)
    return Edges(first, end, start, last, np.where(single, near, np.nan))


def critical_points(rho: Array, noise: Array) -> tuple[Array, Array]:
    r"""Maximum and minimum of :math:`\psi`, where :math:`(\Delta+s)[1 + (2\Delta+s)/s^2] = 1/\rho`; NaN for none.

    They are the positive roots of :math:`s^3 + (1+\Delta-1/\rho)\,s^2 + 3\Delta s + 2\Delta^2`: the larger in closed
    form, the smaller from the sum of all pairs and the product, where nothing cancels.
    """
    # The sum is least where 4 Delta^2/s^3 + 3 Delta/s^2 = 1: there are two roots if it is below 1/rho there.
    lowest = largest_root(np.zeros_like(noise), -3 * noise, -4 * noise**2)
    two = rho * (noise + lowest + 2 * (noise / lowest) ** 2 + 3 * noise / lowest + 1) < 1
    peak, dip = np.full_like(rho, np.nan), np.full_like(rho, np.nan)
    if np.any(two):
        square = 1 + noise[two] - 1 / rho[two]
        dip[two] = np.maximum(largest_root(square, 3 * noise[two], 2 * noise[two] ** 2), lowest[two])
        product = 2 * noise[two] ** 2 / dip[two]
        half = 0.5 * (3 * noise[two] + product) / dip[two]
        peak[two] = np.minimum(half + np.sqrt(half**2 + product), lowest[two])
    return peak, dip


def largest_root(square: Array, linear: Array, constant: Array) -> Array:
    r"""The largest real root of :math:`x^3 + a x^2 + b x + c`, elementwise, to rounding relative to the largest of all.

    Example:
        >>> largest_root(np.array([0.0, -6.0]), np.array([-3.0, 11.0]), np.array([-18.0, -6.0])).round(12)
        array([3., 3.])
    """
    p = square**2 / 9 - linear / 3
    q = square * linear / 6 - constant / 2 - (square / 3) ** 3
    with np.errstate(invalid="ignore", divide="ignore"):
        three = 2 * np.sqrt(p) * np.cos(np.arccos(np.clip(q / p**1.5, -1, 1)) / 3)
        outer = np.cbrt(q + np.copysign(np.sqrt(np.maximum(q**2 - p**3, 0.0)), q))
        root = np.where(q**2 <= p**3, three, outer + np.where(outer == 0, 0.0, p / outer))
    return np.asarray(root - square / 3)


def edges_near(rho: Array, noise: Array) -> tuple[Array, Array]:
    r"""Where :math:`\psi` is -1 and where it is 1, to some digits: ``s`` in rising order, NaN last, shape (batch, 4).

    With :math:`w = \sqrt{\Delta + s}`, negative on the lower branch, both are
    :math:`\rho w^4 - 2\sqrt\rho\,w^3 + (1 - \rho - \rho\Delta)\,w^2 + 2\sqrt\rho\,\Delta w - \Delta = 0`.
    """
    root, companion = np.sqrt(rho), np.zeros((len(rho), 4, 4))
    companion[:, [1, 2, 3], [0, 1, 2]] = 1
    with np.errstate(over="ignore", divide="ignore"):
        top = np.stack([2 / root, 1 + noise - 1 / rho, -2 * noise / root, noise / rho], axis=1)
    known = np.isfinite(top).all(axis=1, keepdims=True)
    companion[:, 0] = np.where(known, top, 0.0)
    w = np.where(known, np.linalg.eigvals(companion), np.nan)
    s = np.where(np.abs(w.imag) < 1e-6 * np.abs(w.real), w.real**2 - noise[:, None], np.nan)
    s = np.where(s > 0, s, np.nan)
    return np.sort(np.where(w.real < 0, s, np.nan), axis=1), np.sort(np.where(w.real > 0, s, np.nan), axis=1)


def crossing(rho: Array, noise: Array, level: float, low: Array, high: Array, rise: float, near: Array) -> Array:
    r"""Where in ``[low, high]`` the monotone :math:`\psi` is at a level, near another value of ``s`` if known."""

    def condition(t: Array) -> tuple[Array, Array]:
        value, slope = direction_at(rho, noise, t)
        # Close to linear in log s where psi is large.
        return rise * (np.arcsinh(value) - np.arcsinh(level)), rise * slope / np.sqrt(1 + value**2)

    with np.errstate(divide="ignore"):
        first, last = np.maximum(np.log(low), -_FAR), np.minimum(np.log(high), _FAR)
    # A bulk of noise may be so short in log s that its ends are needed to the last digit.
    return np.exp(bracketed_root(condition, first, last, last_step=1e-13, start=np.log(near)))
