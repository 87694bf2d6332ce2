"""Quadrature: the tanh-sinh rule on the unit interval, Gauss-Legendre rules on panels, normal averages."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike, NDArray

from glassformer.core.estimate import Array, Estimate

# Relative rounding error of a sum of some hundred terms.
_ROUNDING = 1e-14


class UnitRule(NamedTuple):
    """Nodes on (0, 1) by their distances to both ends, which keep their relative precision at both ends."""

    from_left: Array
    from_right: Array
    weight: Array


@lru_cache(maxsize=8)
def tanh_sinh(nodes: int, extent: float = 3.8) -> UnitRule:
    """Return the tanh-sinh rule, which is exact to rounding for integrable singularities at the ends.

    The trapezoid sum ends at ``extent``: 3.8 leaves out 1e-30 of the interval at each end, so that inverse square
    roots there keep fifteen digits.

    Example:
        >>> rule = tanh_sinh(81)
        >>> round(float(np.sum(rule.weight / np.sqrt(rule.from_left))), 12)
        2.0
    """
    t, step = np.linspace(-extent, extent, nodes, retstep=True)
    stretched = np.pi * np.sinh(t)
    left, right = 1 / (1 + np.exp(-stretched)), 1 / (1 + np.exp(stretched))
    return UnitRule(left, right, step * np.pi * np.cosh(t) * left * right)


def trapezoid(values: Array, step: float) -> Estimate:
    """Return the trapezoid rule on the last axis, for functions that vanish at both ends.

    The error is the difference from the rule with every second node.

    Example:
        >>> t = np.linspace(-12.0, 12.0, 193)
        >>> found = trapezoid(np.exp(-0.5 * t**2), t[1] - t[0])
        >>> bool(abs(found.value - np.sqrt(2 * np.pi)) < 1e-14)
        True
    """
    value, coarse = step * values.sum(-1), 2 * step * values[..., ::2].sum(-1)
    return Estimate(value, np.abs(value - coarse) + _ROUNDING * np.abs(value))


_legendre = lru_cache(maxsize=32)(leggauss)


def gauss_panels(edges: Array, nodes: int, soft: NDArray[np.bool_] | bool = False) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights on the panels between consecutive ``edges``.

    On ``soft`` panels the substitution :math:`x = 3s^2 - 2s^3` smooths square-root singularities at the ends.

    Args:
        edges: ascending along the last axis, shape (..., panels + 1); empty panels get weight 0.
        nodes: nodes per panel.
        soft: one flag per panel, shape (..., panels), or one for all.

    Returns:
        Nodes and weights, each of shape (..., panels * nodes).

    Example:
        >>> x, weight = gauss_panels(np.array([0.0, 1.0, 3.0]), 4)
        >>> round(float(weight @ x**2), 12)
        9.0
    """
    s, w = _legendre(nodes)
    s, w = 0.5 * (1 + s), 0.5 * w
    bent = np.asarray(soft)[..., None]
    s, w = np.where(bent, s**2 * (3 - 2 * s), s), np.where(bent, w * 6 * s * (1 - s), w)
    width = np.diff(edges)[..., None]
    flat = (*edges.shape[:-1], -1)
    return (edges[..., :-1, None] + width * s).reshape(flat), (width * w).reshape(flat)


def normal_nodes(breaks: ArrayLike = (), panels: int = 12, nodes: int = 12, tail: float = 8.5) -> tuple[Array, Array]:
    """Return nodes and probabilities of a standard normal variable, on panels that end at the breaks as well.

    Example:
        >>> t, weight = normal_nodes(breaks=[0.3])
        >>> round(float(weight @ (t > 0.3)), 12)
        0.382088577811
    """
    inner = np.clip(np.asarray(breaks, dtype=float), -tail, tail)
    t, weight = gauss_panels(np.union1d(np.linspace(-tail, tail, panels + 1), inner), nodes)
    return t, weight * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
