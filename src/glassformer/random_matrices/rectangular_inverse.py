"""Inverse of the curve of a noisy Gaussian product: the moment function at given singular values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root
from glassformer.random_matrices.rectangular_curve import Arc, ProductCurve

# Places along an arc, as log-odds of the share of its interval to their left.
_TABLE, _LONG_TABLE = np.linspace(-40.0, 40.0, 161), np.concatenate([[-80.0], np.linspace(-40.0, 40.0, 41), [80.0]])


def moment_function(curve: ProductCurve, s: Array) -> NDArray[np.complex128]:
    """Return ``m`` at singular values ``s > 0``, shape (n,), of a single law.

    ``Im m > 0`` in the support, real outside.
    """
    low, high = curve.support[0].T
    inside = np.any((s[:, None] >= low) & (s[:, None] <= high), axis=1)
    m = np.empty(s.shape, dtype=complex)
    if np.any(inside):
        m[inside] = _inside(curve, s[inside])
    if not np.all(inside):
        m[~inside] = _outside(curve, s[~inside])
    return m


def shares(curve: ProductCurve, arc: Arc, cut: Array, at: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return shares of an arc's interval on either side of the point at which the singular value is ``cut``."""
    # A cut at zero leaves nothing below it, also where laws begin there.
    level = 2 * np.log(np.maximum(cut, np.finfo(float).tiny))

    def condition(t: Array) -> tuple[Array, Array]:
        left, right = 1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t))
        points = curve.points(arc, left, right, at)
        square = curve.square_at(points, at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = np.sqrt(curve.beta[at]) * points.slope * left * right / square
            return arc.root * (np.log(square) - level), slope

    # Along an arc of the smaller solution the singular value decreases with Re m, else it increases.
    table = np.fmax.accumulate(condition(_LONG_TABLE)[0], axis=1)
    cell = np.sum(~(table >= 0), axis=1)
    # Where the whole arc lies on one side there is nothing to search for.
    low, high = (
        _LONG_TABLE[np.maximum(cell - 1, 0), None],
        _LONG_TABLE[np.minimum(cell, len(_LONG_TABLE) - 1), None],
    )
    t = bracketed_root(condition, low, high)
    return 1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t))


def _inside(curve: ProductCurve, s: Array) -> NDArray[np.complex128]:
    """Solve ``f(m) = s^2/sqrt(beta)`` inside the support: along each arc the singular value is monotone."""
    pieces = curve.arcs
    member = np.searchsorted(_arc_ends(curve), s)
    arc = Arc(*(np.choose(member[None, :], [np.asarray(f) for f in fields]) for fields in zip(*pieces, strict=True)))
    target = s**2

    def locate(arc: Arc, t: Array) -> tuple[Array, Array, NDArray[np.complex128]]:
        left, right = 1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t))
        points = curve.points(arc, left, right)
        return curve.square_at(points)[0], (np.sqrt(curve.beta) * points.slope)[0] * left * right, points.m[0]

    def condition(t: Array) -> tuple[Array, Array]:
        square, slope, _ = locate(arc, t)
        return arc.root[0] * np.log(square / target), slope / square

    # Along an arc of the smaller solution the singular value decreases with Re m, else it increases.
    low, high = np.full(s.shape, -80.0), np.full(s.shape, 80.0)
    for index, piece in enumerate(pieces):
        here = member == index
        if np.any(here):
            direction = float(piece.root[0, 0])
            table = np.maximum.accumulate(direction * locate(piece, _TABLE)[0])
            cell = np.searchsorted(table, direction * target[here])
            low[here] = np.concatenate([[-80.0], _TABLE])[cell]
            high[here] = np.concatenate([_TABLE, [80.0]])[cell]
    # Next to an edge, where slopes are small, a step of 1e-8 would leave as much of the distance to it.
    return locate(arc, bracketed_root(condition, low, high, last_step=1e-12, cancels=True))[2]


def _arc_ends(curve: ProductCurve) -> tuple[float, float]:
    """Return largest singular values on the lower and the middle arc of a single law.

    -1 for an arc it does not have.
    """
    lower, middle, _ = curve.arcs
    first = _value_at_left_end(curve, lower) if lower.exists[0, 0] else -1.0
    if curve.gap[0][0, 0]:
        first = float(curve.support[0, 0, 1])
    return first, max(first, _value_at_left_end(curve, middle)) if middle.exists[0, 0] else first


def _value_at_left_end(curve: ProductCurve, arc: Arc) -> float:
    """Return the singular value at which a single law's arc begins."""
    points = curve.points(arc, np.array([1e-300]), np.array([1.0]))
    return float(np.sqrt(curve.square_at(points))[0, 0])


def _outside(curve: ProductCurve, s: Array) -> NDArray[np.complex128]:
    """Solve ``f(m) = s^2/sqrt(beta)`` on the physical real branch left of, between and right of the bulks.

    The branch is ``0 < m < m_4`` above the support (``m ~ sqrt(beta)/s^2`` at infinity), the stretch from the edge
    to the zero of ``f`` with ``G = 0`` below it, and the stretch of ``m < -rho`` between the two edges of the gap.
    """
    rho, noise = curve.rho[0, 0], curve.noise[0, 0]
    edges, m4 = curve.support[0], curve.upper_edge[0, 0]
    linear = 1 + 1 / rho + noise
    zero = 2 / (linear + np.sqrt(linear**2 - 4 / rho))
    _, end, start, _ = (x[0, 0] for x in curve.gap)
    m = np.full(s.shape, np.nan)
    above, below = s > np.nanmax(edges), s < edges[0, 0]
    m[above] = _on_line(curve, s[above], 0.0, 1.0, m4 * 1e-40, m4, -1.0)
    m[below] = _on_line(curve, s[below], 0.0, -1.0, zero, curve.lower_edge[0][0, 0], 1.0)
    between = ~above & ~below
    m[between] = _on_line(curve, s[between], -rho, -1.0, end, start, 1.0)
    return m.astype(complex)


def _on_line(
    curve: ProductCurve, s: Array, pole: float, side: float, near: float, far: float, direction: float
) -> Array:
    """Return real ``m = pole + side * b`` with ``near < b < far``, along which ``direction * f`` increases."""
    if s.size == 0:
        return s
    beta, rho = curve.beta[0, 0], curve.rho[0, 0]
    a2, a1, k = (x[0, 0] for x in curve.coefficients)

    def condition(t: Array) -> tuple[Array, Array]:
        b = np.exp(t)
        m, p = pole + side * b, (pole + rho) + side * b
        slope = np.sqrt(beta) * (2 * a2 * m + a1 - 1 / m**2 + k / p**2) * side * b
        square = curve.square(m, p)[0]
        return direction * np.log(square / s**2), direction * slope / square

    t = bracketed_root(condition, np.full(s.shape, np.log(near)), np.full(s.shape, np.log(far)))
    return pole + side * np.exp(t)
