"""Quadrature over a Gaussian field on panels that end at the breaks of a link, and its refinement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from glassformer.channels.link.piecewise import distinct
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quadrature import gauss_panels

TAIL = 8.3  # a standard normal exceeds this with probability 1e-16
WINDOW = 9.0  # standard deviations beyond which an interval has no mass
SETTLED = 1e-10  # relative change between two rules that ends the refinement
NO_INFORMATION = 1e-16  # a smaller information is zero up to the rounding of quadratures
SLOW = 10.0  # error of an unconverged rule in units of its last change, since convergence is slow
# Panels shorter than this share of sqrt(V) or of the spread of omega have FEW nodes.
SHORT, FEW = 0.25, 4
# From this number of breaks on, all panels of the deviation are short.
_MANY_BREAKS = 64


class Rule(NamedTuple):
    """A quadrature rule: parts per panel, share of the Gauss nodes on each, spacing of the lattice of deviations."""

    parts: int
    share: float
    lattice: float

    def order(self, nodes: int) -> int:
        """Return the Gauss nodes on each part."""
        return max(2, int(self.share * nodes))

    def panel_order(self, nodes: int) -> int:
        """Return the Gauss nodes of a short, undivided panel. More than 18 do not improve the accuracy."""
        return min(self.parts * self.order(nodes), 18)


# Rules in the order of refinement. The first differs from the second only in its order, and is cheaper.
RULES = (Rule(1, 0.75, 0.14), Rule(1, 1.0, 0.1), Rule(2, 1.0, 0.06), Rule(4, 1.0, 0.04))


def refine(values: Iterable[Array], tolerance: float, floor: Array | float, truncation: float = 0.0) -> Estimate:
    """Return the first value of a refined sequence that agrees with the previous one. The error is the last change.

    Args:
        values: arrays of one shape, one for each rule, computed when they are needed.
        tolerance: relative change that ends the refinement.
        floor: absolute change that ends the refinement, of each number or all.
        truncation: share of the values that every rule leaves out, added to the change.

    Example:
        >>> refine((np.array([1.0 + 10.0**-k]) for k in range(9)), 1e-3, 0.0).error.round(6)
        array([0.0009])
    """
    rest = iter(values)
    value, change = next(rest), np.array(np.inf)
    for finer in rest:
        value, change = finer, np.abs(finer - value) + truncation * np.abs(finer)
        if (change <= np.maximum(tolerance * np.abs(value), floor)).all():
            return Estimate(value, change)
    return Estimate(value, SLOW * change)


def stack_estimates(estimates: Sequence[Estimate], shape: tuple[int, ...]) -> Estimate:
    """Stack estimates of shape (quantities,) at many variances into one of shape (quantities, *shape)."""
    values, errors = (np.stack(parts, axis=-1).reshape(-1, *shape) for parts in zip(*estimates, strict=True))
    return Estimate(values, errors)


def normal_density(x: Array) -> Array:
    """Return the standard normal density, elementwise."""
    return np.asarray(np.exp(-0.5 * x**2) * (1 / np.sqrt(2 * np.pi)))


def interval_mass(low: Array, high: Array) -> Array:
    """Return the standard normal probability of intervals, computed in the lower tail to avoid cancellation.

    Example:
        >>> float(round(interval_mass(np.array(9.0), np.array(np.inf)) * 1e19, 6))
        1.128588
    """
    flip = low + high > 0
    return np.asarray(ndtr(np.where(flip, -low, high)) - ndtr(np.where(flip, -high, low)))


def lattice(reach: float, step: float) -> Array:
    """Return the multiples of ``step`` up to ``reach`` on either side of zero."""
    most = int(np.ceil(reach / step))
    return np.asarray(step * np.arange(-most, most + 1), dtype=np.float64)


def omega_nodes(v: float, breaks: Array, rule: Rule, nodes: int) -> tuple[Array, Array]:
    """Return nodes of omega ~ N(0, 1 - V) with probability weights, graded towards each break on the scale sqrt(V).

    At V = 1 the only node is zero.
    """
    q = 1.0 - v
    if q <= 0:
        return np.zeros(1), np.ones(1)
    scale = np.sqrt(v)
    octaves = scale * 2.0 ** np.arange(0, max(1, int(np.ceil(np.log2(3 / scale)))))
    graded = (breaks[:, None] + np.concatenate([-octaves, octaves])).ravel()
    # Between two close breaks the integrand has no structure except that of the breaks.
    smooth = np.concatenate(
        [np.sqrt(q) * np.linspace(-TAIL, TAIL, 13), graded[_distance(graded, breaks) > 0.4 * scale]]
    )
    edges = np.concatenate([smooth, breaks]) / np.sqrt(q)
    edges = subdivide(distinct(edges[np.abs(edges) <= TAIL * (1 + 1e-12)], 1e-13), rule.parts)
    # Panels are also short compared with the spread of omega: near V = 1 all panels are short compared with sqrt(V).
    short = np.diff(edges) * max(np.sqrt(q), scale) < SHORT * scale
    t, w = short_and_long_panels(edges, short, rule.order(nodes))
    order = np.argsort(t)
    return np.sqrt(q) * t[order], (w * normal_density(t))[order]


def short_and_long_panels(edges: Array, short: NDArray[np.bool_], nodes: int) -> tuple[Array, Array]:
    """Return Gauss nodes and weights on panels, :data:`FEW` on the short ones, which come last."""
    panels = np.stack([edges[:-1], edges[1:]], axis=-1)
    parts = (gauss_panels(panels[at], order) for at, order in ((~short, nodes), (short, FEW)) if at.any())
    x, w = (np.concatenate([part.ravel() for part in column]) for column in zip(*parts, strict=True))
    return x, w


def _distance(x: Array, breaks: Array) -> Array:
    """Return the distance of each place to the nearest break."""
    if breaks.size == 0:
        return np.full(x.shape, np.inf)
    after = np.searchsorted(breaks, x)
    sides = (np.abs(x - breaks[(after + k).clip(0, breaks.size - 1)]) for k in (-1, 0))
    return np.minimum(*sides)


def deviation_nodes(omega: Array, v: float, breaks: Array, rule: Rule, nodes: int) -> tuple[Array, Array]:
    """Return nodes u of h = omega + sqrt(V) u for every omega, shape (n, m), with probability weights.

    ``omega`` is ascending. Only breaks within reach of some mean are used. Square-root singularities at breaks do not
    reduce the accuracy.
    """
    reach = TAIL * np.sqrt(v)
    breaks = breaks[(breaks > omega[0] - reach) & (breaks < omega[-1] + reach)]
    base = np.broadcast_to(np.linspace(-TAIL, TAIL, 8 * rule.parts + 1), (omega.size, 8 * rule.parts + 1))
    cuts = np.clip((breaks - omega[:, None]) / np.sqrt(v), -TAIL, TAIL)
    edges = np.concatenate([base, cuts], axis=1)
    order = np.argsort(edges, axis=1)
    at_break = order >= base.shape[1]
    count = FEW if breaks.size > _MANY_BREAKS else rule.order(nodes)
    u, w = gauss_panels(np.take_along_axis(edges, order, 1), count, at_break[:, 1:] | at_break[:, :-1])
    return u, w * normal_density(u)


def subdivide(edges: Array, parts: int) -> Array:
    """Divide every panel into equal parts."""
    inner = edges[:-1, None] + np.diff(edges)[:, None] * np.arange(parts) / parts
    return np.asarray(np.append(inner.ravel(), edges[-1]))
