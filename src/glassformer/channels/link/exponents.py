r"""Moments of a link with Hermite polynomials: information and generative exponent, slope and mean square.

With the normalised Hermite polynomials :math:`h_k`, the information exponent is the smallest :math:`k\ge1` with
:math:`E[y\,h_k(z)]\ne0`, and the generative exponent the smallest with :math:`E[E[h_k(z)\mid y]^2]>0`, which no
transformation of the labels can lower. At generative exponent 1 weak recovery is possible at any sample ratio, at 2
there is a finite weak-recovery threshold, above 2 weak recovery is impossible at any finite sample ratio. Gaussian
label noise changes neither exponent.

Source: Damian, Pillaud-Vivien, Lee, Bruna, arXiv:2403.05529.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.special import ndtr

from glassformer.channels.labels import Exponents
from glassformer.channels.link.contract import array_link
from glassformer.channels.link.level_set import LevelSetPosterior
from glassformer.channels.link.piecewise import PiecewiseLink, distinct, find_pieces
from glassformer.channels.link.quadrature import TAIL, normal_density
from glassformer.core.errors import LinkError
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels, normal_nodes

LARGEST = 16  # largest exponent that is tested
_NODES = 16  # Gauss nodes per panel
# smaller coefficients count as zero: near an extremum solutions have an error of the square root of rounding
_ZERO = 1e-5
_RARE = 1e-14  # labels of smaller probability are ignored

# Second moments: initial panels, largest number of halvings, and ends of the range, which grows for fast growing
# labels.
_PANELS, _HALVINGS, _RANGES = 32, 11, (8.5, 12.0, 17.0, 24.0, 34.0)
# Relative change that ends the refinement, and largest accepted change.
_SETTLED, _UNSETTLED = 1e-13, 1e-9


def link_exponents(link: Callable[..., Any]) -> Exponents:
    """Return the exponents of a function from a field to its label. Exponents above sixteen are infinite.

    Coefficients below 1e-5 of their scale count as zero.

    Raises:
        LinkError: the function cannot be used as a link.

    Example:
        >>> link_exponents(lambda z: z**3 - 3 * z)
        Exponents(information=3.0, generative=1.0)
        >>> link_exponents(lambda z: z**2 * np.exp(-(z**2)))
        Exponents(information=4.0, generative=4.0)
    """
    return exponents_of(find_pieces(array_link(link, "link")))


def exponents_of(pieces: PiecewiseLink) -> Exponents:
    """Return the exponents of a piecewise link."""
    information = first_exponent(_coefficients(pieces))
    # The generative exponent is never larger.
    return Exponents(information, 1.0 if information == 1 else first_exponent(_conditional_coefficients(pieces)))


def first_exponent(sizes: Iterable[float]) -> float:
    """Return the order of the first nonzero coefficient among the orders 1, 2, ..., or infinity."""
    return next((float(k) for k, size in enumerate(sizes, 1) if size > _ZERO), np.inf)


def hermite(k: int, z: Array) -> Array:
    """Return the normalised Hermite polynomial of order k, by its recurrence."""
    before, now = np.zeros_like(z), np.ones_like(z)
    for j in range(k):
        before, now = now, (z * now - np.sqrt(j) * before) / np.sqrt(j + 1)
    return now


def _coefficients(pieces: PiecewiseLink) -> Iterator[float]:
    """Yield the sizes of the coefficients of the link, relative to its standard deviation."""
    breaks = pieces.breaks[np.abs(pieces.breaks) < TAIL]
    edges = distinct(np.concatenate([np.linspace(-TAIL, TAIL, 33), breaks]), 1e-13)
    z, weight = gauss_panels(edges, _NODES)
    weight = weight * normal_density(z)
    label = pieces.link(z)
    label = label - weight @ label
    size = max(float(np.sqrt(weight @ label**2)), 1e-300)
    for k in range(1, LARGEST + 1):
        yield abs(float(weight @ (label * hermite(k, z)))) / size


def _conditional_coefficients(pieces: PiecewiseLink) -> Iterator[float]:
    """Yield root mean squares of the conditional means of the polynomials given the label."""
    h, weight, gap, log_odds = LevelSetPosterior(pieces, _NODES).nodes_at()
    odds = np.exp(log_odds - gap * (h + 0.5 * gap))
    total = 1 + np.sum(odds, axis=0)
    for k in range(1, LARGEST + 1):
        mean = (hermite(k, h) + np.sum(odds * hermite(k, h + gap), axis=0)) / total
        flat = sum(_flat_part_coefficient(part.intervals, k) for part in pieces.flats)
        yield float(np.sqrt(weight @ mean**2 + flat))


def _flat_part_coefficient(intervals: Array, k: int) -> float:
    """Return the squared integral of a polynomial over the intervals of one label, over the label's probability."""
    edges = np.clip(intervals, -TAIL, TAIL)
    # The integral of h_k times the normal density is minus that of h_(k-1) over the root of k.
    inner = -hermite(k - 1, edges) * np.where(np.isfinite(intervals), normal_density(edges), 0.0) / np.sqrt(k)
    mass = float(np.sum(np.diff(ndtr(edges), axis=1)))
    return float(np.sum(np.diff(inner, axis=1))) ** 2 / mass if mass > _RARE else 0.0


def second_moments(pieces: PiecewiseLink) -> tuple[float, float]:
    r"""Return :math:`E[h\varphi(h)]` and :math:`E[\varphi(h)^2]` of a standard normal field, to thirteen digits.

    Raises:
        LinkError: the quadratures do not converge, because the link grows or oscillates too fast.

    Example:
        >>> slope, square = second_moments(find_pieces(array_link(lambda h: np.exp(h))))
        >>> bool(np.isclose(slope, np.exp(0.5), rtol=1e-13) and np.isclose(square, np.exp(2), rtol=1e-13))
        True
    """
    moments, change = _moments_within(pieces, _RANGES[0])
    for reach in _RANGES[1:]:
        wider, wider_change = _moments_within(pieces, reach)
        if not np.isfinite(wider).all():
            break
        extension = _relative_change(moments, wider)
        moments, change = wider, max(wider_change, extension)
        if extension <= _SETTLED:
            break
    if not change <= _UNSETTLED:
        allowed = "a link whose labels have a second moment that can be integrated"
        remedy = f"quadratures differ by {change:.1g} of it: the link grows or oscillates too fast"
        raise LinkError("link", pieces.link, allowed, remedy)
    return float(moments[0]), float(moments[1])


def _moments_within(pieces: PiecewiseLink, reach: float) -> tuple[Array, float]:
    """Return both moments on a range, with panels halved until convergence, and the last change."""

    def quadrature(panels: int) -> Array:
        h, weight = normal_nodes(pieces.breaks, panels, _NODES, reach)
        with np.errstate(over="ignore", invalid="ignore"):
            label = pieces.link(h)
            return np.array([weight @ (h * label), weight @ label**2])

    moments, change = quadrature(_PANELS), np.inf
    for k in range(1, _HALVINGS):
        before, moments = moments, quadrature(_PANELS << k)
        change = _relative_change(before, moments)
        if not change > _SETTLED:
            break
    return moments, change


def _relative_change(before: Array, after: Array) -> float:
    """Return the change relative to the bounds: E[h y] is at most the root of E[y^2]."""
    scale = np.array([np.sqrt(after[1]), after[1]])
    return float(np.max(np.abs(after - before) / np.maximum(scale, 1e-300)))
