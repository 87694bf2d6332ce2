"""Quadrature over the Gaussian field, split where the link has breaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.channels.link.piecewise import distinct
from glassformer.channels.scalar.base import Array, Estimate
from glassformer.numerics.quadrature import gauss_panels


@dataclass(frozen=True)
class Refinement:
    """Relative changes below which refinement stops, and what of a change is none.

    Attributes:
        settled: between two rules, of errors and of averages over mislabelled links.
        exact: between two rules of single averages, between those at nodes of curves, which converge by two digits at a
            time, and of the curve itself: without noise, for links of few branches.
        sharp: the same for links of more, where they cost more.
        simple: the same with noise, of few branches.
        hard: and of more.
        branches: that are few.
        floor: information, relative to the overlap, from which on a change is a relative one.
        nothing: information that is none.
    """

    settled: float = 1e-10
    exact: tuple[float, float, float] = (1e-10, 1e-10, 1e-10)
    sharp: tuple[float, float, float] = (1e-8, 1e-6, 1e-6)
    simple: tuple[float, float, float] = (1e-10, 1e-6, 1e-7)
    hard: tuple[float, float, float] = (1e-5, 1e-5, 5e-6)
    branches: int = 2
    floor: float = 1e-3
    nothing: float = 1e-16


REFINEMENT = Refinement()


TAIL = 8.3  # a standard normal has mass below 1e-16 beyond

# Panels that are short against sqrt(V) and the spread of omega, the nodes that they take, and breaks from which on
# all panels are short.
SHORT, FEW, _CROWD = 0.25, 4, 64
# The error in units of the last change, where the largest rule still changes.
SLOW = 10.0


class Rule(NamedTuple):
    """A quadrature rule: parts of every panel, share of the Gauss nodes on each, spacing of lattices of deviations."""

    parts: int
    share: float
    lattice: float

    def of(self, nodes: int) -> int:
        """Gauss nodes on each part."""
        return max(2, int(self.share * nodes))


# One after the other, until two agree: the first differs from the second in order alone, and costs less.
RULES = (Rule(1, 0.75, 0.14), Rule(1, 1.0, 0.1), Rule(2, 1.0, 0.06), Rule(4, 1.0, 0.04))


def refined(values: Iterable[Array], enough: float, least: float = 1e-20) -> Estimate:
    """The first of ever finer values, shape (n,), that all agree with the ones before; errors are the last change.

    Args:
        values: by one rule after the other, each computed when it is asked for.
        enough: change that ends the refinement, as a share of the value.
        least: change that always does.

    Example:
        >>> refined((np.array([1.0 + 10.0**-k]) for k in range(9)), 1e-3).error.round(6)
        array([0.0009])
    """
    rest = iter(values)
    value, change = next(rest), np.array(np.inf)
    for finer in rest:
        value, change = finer, np.abs(finer - value)
        if np.all(change <= np.maximum(enough * np.abs(value), least)):
            return Estimate(value, change)
    # A rule that is still changing converges slowly: its last change may be a fraction of what is left.
    return Estimate(value, SLOW * change)


def normal_density(x: Array) -> Array:
    """Standard normal density, elementwise."""
    return np.asarray(np.exp(-0.5 * x**2) * (1 / np.sqrt(2 * np.pi)))


def lattice(reach: float, step: float) -> Array:
    """Multiples of ``step`` as far as ``reach``."""
    most = int(np.ceil(reach / step))
    return np.asarray(step * np.arange(-most, most + 1), dtype=np.float64)


def omega_nodes(v: float, breaks: Array, rule: Rule, nodes: int) -> tuple[Array, Array]:
    """Nodes of omega ~ N(0, 1 - V) with probability weights, graded towards each break on the scale sqrt(V).

    At V = 1 the one node is zero.
    """
    q = 1.0 - v
    if q <= 0:
        return np.zeros(1), np.ones(1)
    scale = np.sqrt(v)
    octaves = scale * 2.0 ** np.arange(0, max(1, int(np.ceil(np.log2(3 / scale)))))
    graded = (breaks[:, None] + np.concatenate([-octaves, octaves])).ravel()
    # Between breaks that are close to each other nothing happens but at them.
    smooth = np.concatenate(
        [np.sqrt(q) * np.linspace(-TAIL, TAIL, 13), graded[_distance(graded, breaks) > 0.4 * scale]]
    )
    edges = np.concatenate([smooth, breaks]) / np.sqrt(q)
    edges = split(distinct(edges[np.abs(edges) <= TAIL * (1 + 1e-12)], 1e-13), rule.parts)
    # Short against the spread of omega as well: next to V = 1 all panels are short against sqrt(V).
    short = np.diff(edges) * max(np.sqrt(q), scale) < SHORT * scale
    panels = np.stack([edges[:-1], edges[1:]], axis=-1)
    rules = (gauss_panels(panels[at], order) for at, order in ((~short, rule.of(nodes)), (short, FEW)) if at.any())
    t, w = (np.concatenate([part.ravel() for part in parts]) for parts in zip(*rules, strict=True))
    order = np.argsort(t)
    return np.sqrt(q) * t[order], (w * normal_density(t))[order]


def _distance(x: Array, breaks: Array) -> Array:
    """From each place to the next break."""
    if breaks.size == 0:
        return np.full(x.shape, np.inf)
    after = np.searchsorted(breaks, x)
    sides = (np.abs(x - breaks[(after + k).clip(0, breaks.size - 1)]) for k in (-1, 0))
    return np.minimum(*sides)


def unit_nodes(omega: Array, v: float, breaks: Array, rule: Rule, nodes: int) -> tuple[Array, Array]:
    """Nodes u of h = omega + sqrt(V) u for every omega, shape (n, m), with probability weights; split at the breaks.

    ``omega`` is ascending, and only breaks in reach of some of them count. Panels that touch a break are soft: a
    square-root singularity there costs no accuracy.
    """
    reach = TAIL * np.sqrt(v)
    breaks = breaks[(breaks > omega[0] - reach) & (breaks < omega[-1] + reach)]
    base = np.broadcast_to(np.linspace(-TAIL, TAIL, 8 * rule.parts + 1), (omega.size, 8 * rule.parts + 1))
    cuts = np.clip((breaks - omega[:, None]) / np.sqrt(v), -TAIL, TAIL)
    edges = np.concatenate([base, cuts], axis=1)
    order = np.argsort(edges, axis=1)
    at_break = order >= base.shape[1]
    count = FEW if breaks.size > _CROWD else rule.of(nodes)
    u, w = gauss_panels(np.take_along_axis(edges, order, 1), count, at_break[:, 1:] | at_break[:, :-1])
    return u, w * normal_density(u)


def split(edges: Array, parts: int) -> Array:
    """Every panel in equal parts."""
    inner = edges[:-1, None] + np.diff(edges)[:, None] * np.arange(parts) / parts
    return np.asarray(np.append(inner.ravel(), edges[-1]))
