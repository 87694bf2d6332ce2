r"""Information and generative exponent of a link: how many samples it takes to find the direction that it reads.

With the normalised Hermite polynomials :math:`h_k`, the information exponent is the smallest :math:`k\ge1` with
:math:`E[y\,h_k(z)]\ne0`, and the generative exponent the smallest with :math:`E[E[h_k(z)\mid y]^2]>0`: transforming
labels never makes the latter smaller. At generative exponent 1 any data help, at 2 there is a finite weak-recovery
threshold, above there is none at a finite sample ratio. Gaussian label noise changes neither.

Source: Damian, Pillaud-Vivien, Lee, Bruna, arXiv:2403.05529.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from glassformer.channels.link.field_quadrature import TAIL, normal_density
from glassformer.channels.link.function import array_link
from glassformer.channels.link.level_set import LevelSet
from glassformer.channels.link.piecewise import LinkShape, distinct, link_shape
from glassformer.channels.scalar.base import Array
from glassformer.channels.scalar.exponents import Exponents
from glassformer.numerics.quadrature import gauss_panels


@dataclass(frozen=True)
class Policy:
    """Which coefficients are looked at, and which are none."""

    largest: int = 16  # exponent looked for
    nodes: int = 16  # per panel
    zero: float = 1e-5  # size of coefficients: next to an extremum, solutions are known to the root of rounding
    unseen: float = 1e-14  # probability of a label that is none


_POLICY = Policy()


def link_exponents(link: Callable[..., Any]) -> Exponents:
    """Exponents of a function from a field to its label, as far as sixteen.

    Coefficients below 1e-5 of their scale count as zero.

    Raises:
        LinkError: the function cannot be used as a link.

    Example:
        >>> link_exponents(lambda z: z**3 - 3 * z)
        Exponents(information=3.0, generative=1.0)
        >>> link_exponents(lambda z: z**2 * np.exp(-(z**2)))
        Exponents(information=4.0, generative=4.0)
    """
    return exponents_of(link_shape(array_link(link, "link")))


def exponents_of(shape: LinkShape) -> Exponents:
    """Exponents of a link whose shape is known."""
    information = first_exponent(_coefficients(shape))
    # What labels say of the field on average they say label by label: the latter is the smaller one.
    return Exponents(information, 1.0 if information == 1 else first_exponent(_conditional(shape)))


def first_exponent(sizes: Iterable[float]) -> float:
    """Return the order of the first coefficient that is not zero, from those of orders 1, 2, ...; inf without one."""
    return next((float(k) for k, size in enumerate(sizes, 1) if size > _POLICY.zero), np.inf)


def _coefficients(shape: LinkShape) -> Iterator[float]:
    """Sizes of the coefficients of the link, relative to its standard deviation."""
    edges = distinct(np.concatenate([np.linspace(-TAIL, TAIL, 33), shape.breaks[np.abs(shape.breaks) < TAIL]]), 1e-13)
    z, weight = gauss_panels(edges, _POLICY.nodes)
    weight = weight * normal_density(z)
    label = shape.link(z)
    label = label - weight @ label
    size = max(float(np.sqrt(weight @ label**2)), 1e-300)
    for k in range(1, _POLICY.largest + 1):
        yield abs(float(weight @ (label * hermite(k, z)))) / size


def _conditional(shape: LinkShape) -> Iterator[float]:
    """Root mean squares of the polynomials given the label: sums over the solutions of a label, and flat parts."""
    h, weight, gap, log_odds = LevelSet(shape, _POLICY.nodes).solutions()
    odds = np.exp(log_odds - gap * (h + 0.5 * gap))
    total = 1 + np.sum(odds, axis=0)
    for k in range(1, _POLICY.largest + 1):
        mean = (hermite(k, h) + np.sum(odds * hermite(k, h + gap), axis=0)) / total
        flat = sum(_on_flat(intervals, k) for _, intervals in shape.flats)
        yield float(np.sqrt(weight @ mean**2 + flat))


def _on_flat(intervals: Array, k: int) -> float:
    """Square of the integral of a polynomial over the intervals of one label, over the label's probability."""
    edges = np.clip(intervals, -TAIL, TAIL)
    # The integral of h_k times the normal density is that of h_(k-1), with the other sign, over the root of k.
    inner = -hermite(k - 1, edges) * np.where(np.isfinite(intervals), normal_density(edges), 0.0) / np.sqrt(k)
    mass = float(np.sum(np.diff(ndtr(edges), axis=1)))
    return float(np.sum(np.diff(inner, axis=1))) ** 2 / mass if mass > _POLICY.unseen else 0.0


def hermite(k: int, z: Array) -> Array:
    """Return the normalised Hermite polynomial of order k, by its recurrence."""
    before, now = np.zeros_like(z), np.ones_like(z)
    for j in range(k):
        before, now = now, (z * now - np.sqrt(j) * before) / np.sqrt(j + 1)
    return now
