r"""The curve of complex numbers along which a squared singular value of a noisy Gaussian product is real.

Every result of :class:`~glassformer.random_matrices.rectangular.RectangularLaw` is a function of one complex number
``m``, the moment function :math:`\mathrm{tr}\,S'S'^T (t - S'S'^T)^{-1}/d` of the *noiseless* matrix at the subordinated
point ``t``. Free additive convolution with the noise makes the squared singular value a rational function of it,

.. math:: \frac{s^2}{\sqrt\beta} = f(m) =
   \frac{[(1+m)(1+m/\rho) + R m]\,[(1+m/\beta)(1+m/\rho) + R m/\beta]}{m\,(1+m/\rho)}
   = a_2 m^2 + a_1 m + a_0 + \frac1m - \frac{K}{m+\rho},

.. math:: a_2 = \frac1{\beta\rho}, \quad a_1 = \frac1\rho + \frac1{\rho\beta} + \frac{1 + 2R}\beta, \quad
   K = \frac{R^2\rho^2}\beta, \qquad s\,G(s) = 1 + m + \frac{R\,m}{1 + m/\rho},

with ``G`` the Stieltjes transform of the symmetrised law. The quartic of the source is this equation after the change
of variable. The support is the image of the curve on which ``f`` is real. With :math:`p = m + \rho`,
:math:`A = |m|^2`, :math:`B = |p|^2` that curve is :math:`2 a_2 \mathrm{Re}\,m + a_1 = 1/A - K/B`: a quadratic
equation for ``A`` and ``B`` at given :math:`\mathrm{Re}\,m`, so a quadrature node costs no root finding and no choice
between the roots of a polynomial. The edges are the real zeros of ``f'``, each alone in a bracket known beforehand.

Source: Erba, Troiani, Biggio, Maillard, Zdeborova, arXiv:2410.18858 (denoising problem and its quartic).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root

Flags = NDArray[np.bool_]
Elements = slice | NDArray[np.intp] | Flags
"""Selects elements of a batch."""


def upper_edge(rho: Array, a2: Array, a1: Array, k: Array) -> Array:
    """Return ``m > 0`` at the largest singular value."""

    def condition(t: Array) -> tuple[Array, Array]:
        m = np.exp(t)
        total = 2 * a2 * m + a1 + k / (m + rho) ** 2
        return np.log(total) + 2 * t, 2 + m * (2 * a2 - 2 * k / (m + rho) ** 3) / total

    high = -0.5 * np.log(a1)
    low = -0.5 * np.log(2 * a2 * np.exp(high) + a1 + k / rho**2)
    return np.exp(bracketed_root(condition, low - 1e-9, high + 1e-9))


def lower_edge(beta: Array, rho: Array, noise: Array, a2: Array, a1: Array, k: Array) -> tuple[Array, Array]:
    """Return ``-m`` and ``p`` at the smallest singular value, both in (0, rho).

    Between the poles both factors of ``f`` vanish once. Between these two places, and there alone, ``f`` is positive,
    with one maximum: the edge. Wide matrices with little noise have other zeros of ``f'`` beside them.
    """

    def split(t: Array) -> tuple[Array, Array]:
        return rho / (1 + np.exp(-t)), rho / (1 + np.exp(t))

    def zero(c: Array) -> Array:
        """Return the logarithm of ``-m / p`` where ``(c + m) p / rho + R m`` is zero.

        Neither is computed as a difference.
        """
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
    """Return whether there are two bulks; ``-p > 0`` at the end of the lower, the start of the upper, and in between.

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
    """Return log-ratio, and slope, whose sign is that of the slope of ``f'`` at ``p = -exp(t)``."""
    b = np.exp(t)
    total = k / b**3 + a2
    return sign * np.log(total * (rho + b) ** 3), sign * (3 * b / (rho + b) - 3 * (total - a2) / total)


def _level(rho: Array, a2: Array, a1: Array, k: Array, t: Array, sign: float) -> tuple[Array, Array]:
    """Return log-ratio, and slope, whose sign is that of ``f'`` itself at ``p = -exp(t)``."""
    b = np.exp(t)
    left, right = k / b**2 + a1, 1 / (rho + b) ** 2 + 2 * a2 * (rho + b)
    slope = -2 * k / b**2 / left + b * (2 / (rho + b) ** 3 - 2 * a2) / right
    return sign * np.log(left / right), sign * slope


def _parted(rho: Array, a2: Array, a1: Array, k: Array, inflection: Array) -> tuple[Flags, Array, Array, Array]:
    """Return edges of :func:`gap_edges` where ``f'`` has a local minimum.

    The minimum is nearer to the pole than the inflection point.
    """
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
    """Return where ``f'`` is zero, to the last digits.

    Near the point where two bulks separate its curvature is large.
    """
    return np.exp(bracketed_root(lambda t: _level(*at, t, sign), low, high, last_step=1e-11, start=start))


class Arc(NamedTuple):
    """A stretch of the curve over an interval of ``Re m``; ``Re p`` is kept too, as each is small where its pole is.

    ``root`` (+1 or -1) selects the solution of the quadratic, ``turning`` marks arcs whose left end is a point where
    the two solutions meet, ``exists`` the batch elements that have this arc at all. Fields have shape (batch, 1).
    """

    root: Array
    left_m: Array
    left_p: Array
    right_m: Array
    right_p: Array
    width: Array
    turning: Flags
    exists: Flags

    def of(self, at: NDArray[np.intp]) -> Arc:
        """Return the arcs of some elements of the batch."""
        return Arc._make(field[at] for field in self)


class ArcPoints(NamedTuple):
    """Points of an arc: m = re_m + i height, p = re_p + i height, and d(s^2/sqrt(beta))/dx for x in (0, 1)."""

    re_m: Array
    re_p: Array
    height: Array
    modulus_m: Array
    modulus_p: Array
    slope: Array

    @property
    def m(self) -> NDArray[np.complex128]:
        return self.re_m + 1j * self.height

    @property
    def p(self) -> NDArray[np.complex128]:
        return self.re_p + 1j * self.height


@dataclass(frozen=True, eq=False)
class ProductCurve:
    """The curves of a batch of laws.

    Args:
        beta, rho, noise: as in the law, ``beta >= 1``, each of shape (batch, 1).
    """

    beta: Array
    rho: Array
    noise: Array

    @cached_property
    def coefficients(self) -> tuple[Array, Array, Array]:
        """``a_2``, ``a_1`` and ``K`` of the module's partial fractions."""
        beta, rho, noise = self.beta, self.rho, self.noise
        a1 = 1 / rho + 1 / (rho * beta) + (1 + 2 * noise) / beta
        return 1 / (beta * rho), a1, (noise * rho) ** 2 / beta

    def square(self, m: NDArray[Any], p: NDArray[Any], at: Elements = slice(None)) -> NDArray[Any]:
        r"""Return ``s^2`` from ``m`` and ``p = m + rho``."""
        beta, rho, noise = self.beta[at], self.rho[at], self.noise[at]
        left = (1 + m) * p / rho + noise * m
        right = (1 + m / beta) * p / rho + noise * m / beta
        return np.sqrt(beta) * left * right * rho / (m * p)

    def square_at(self, points: ArcPoints, at: Elements = slice(None)) -> Array:
        """Return ``s^2`` at points of an arc that belongs to the batch elements ``at``."""
        return np.abs(self.square(points.m, points.p, at))

    @cached_property
    def upper_edge(self) -> Array:
        """``m > 0`` at the largest singular value."""
        return upper_edge(self.rho, *self.coefficients)

    @cached_property
    def lower_edge(self) -> tuple[Array, Array]:
        """``-m`` and ``p`` at the smallest singular value."""
        return lower_edge(self.beta, self.rho, self.noise, *self.coefficients)

    @cached_property
    def gap(self) -> tuple[Flags, Array, Array, Array]:
        """Whether there are two bulks, and ``-p`` at both ends of the gap and inside it."""
        return gap_edges(self.rho, *self.coefficients)

    @cached_property
    def _turning(self) -> tuple[Array, Array]:
        """Both real values of ``Re p`` at which the outer pair of solutions of the quadratic meet, larger one first."""
        rho = self.rho
        a2, a1, k = self.coefficients
        offset = a1 - 2 * a2 * rho
        quadratic, linear = 4 * a2 * rho, 2 * rho * (offset - a2 * rho)
        constant = (1 - np.sqrt(k)) ** 2 - rho**2 * offset
        root = np.sqrt(np.maximum(linear**2 - 4 * quadratic * constant, 0.0))
        # The root without cancellation first, the other from the sum or the product of the two.
        with np.errstate(divide="ignore", invalid="ignore"):
            larger = np.where(linear < 0, (root - linear) / (2 * quadratic), -2 * constant / (linear + root))
        return larger, -linear / quadratic - larger

    @cached_property
    def arcs(self) -> tuple[Arc, Arc, Arc]:
        """The curve from the smallest to the largest singular value, as graphs over ``Re m``.

        Every bulk may begin on the smaller solution of the quadratic, move left to the point where the solutions meet
        and return on the larger one: the first bulk when there is no gap, the second when there is one. Without a
        turn, a bulk after a gap lies on the larger solution and the bulk before it on the smaller. A single bulk that
        is about to part in two comes close to the real axis there; it is cut at that place, so that the quadrature,
        which crowds at the ends of an arc, resolves it.
        """
        rho = self.rho
        a2, a1, k = self.coefficients
        n1, p1 = self.lower_edge
        gap, end, start, closest = self.gap
        meet, _ = self._turning

        def on_smaller(m: Array, p: Array) -> Flags:
            rate = a1 + 2 * a2 * m
            return 2 * rate * p**2 < 1 - k + rate * rho * (m + p)

        first_turns = ~gap & on_smaller(-n1, p1)
        with np.errstate(invalid="ignore"):
            second_turns = gap & on_smaller(-start - rho, -start)
        turns, sign = first_turns | second_turns, np.ones_like(rho)
        with np.errstate(invalid="ignore"):
            cut = first_turns & (-closest > meet) & (-closest < p1) & on_smaller(-closest - rho, -closest)
        low_p = np.where(gap, -end, np.where(cut, -closest, meet))
        lower = Arc(-sign, low_p - rho, low_p, -n1, p1, p1 - low_p, first_turns & ~cut, gap | first_turns)
        middle_p = np.where(cut, -closest, -start)
        has_middle = second_turns | cut
        middle = Arc(-sign, meet - rho, meet, middle_p - rho, middle_p, middle_p - meet, has_middle, has_middle)
        high_p = np.where(turns, meet, np.where(gap, -start, p1))
        high_m = np.where(turns | gap, high_p - rho, -n1)
        m4 = self.upper_edge
        return lower, middle, Arc(sign, high_m, high_p, m4, m4 + rho, m4 - high_m, turns, np.ones_like(gap))

    def points(self, arc: Arc, from_left: Array, from_right: Array, at: Elements = slice(None)) -> ArcPoints:
        """Return points at fractions ``from_left = 1 - from_right`` of the arc's interval.

        Slopes are per unit fraction.

        ``at`` selects the batch elements to which the arc belongs.
        """
        rho = self.rho[at]
        a2, a1, k = (x[at] for x in self.coefficients)
        other = self._turning[1][at]
        near_right = from_left > 0.5
        u = np.where(near_right, arc.right_m - arc.width * from_right, arc.left_m + arc.width * from_left)
        a = np.where(near_right, arc.right_p - arc.width * from_right, arc.left_p + arc.width * from_left)
        rate, c = 2 * a2 * u + a1, -rho * (u + a)
        w, kappa = -rate * c, np.sqrt(k)
        factor = np.where(arc.turning, 4 * a2 * rho * arc.width * from_left * (a - other), w + (1 - kappa) ** 2)
        root = np.sqrt(np.maximum(factor * (w + (1 + kappa) ** 2), 0.0))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            A = _quadratic_root(rate, 1 - k - w, c, root, arc.root)
            B = _quadratic_root(rate, 1 - k + w, k * c, root, arc.root)
            height = np.sqrt(np.maximum(np.where(np.abs(a) < np.abs(u), B - a * a, A - u * u), 0.0))
            dA = 2 * arc.root * A * (rho * k / B - a2 * B) / root
            dB = 2 * arc.root * B * (rho / A - a2 * A) / root
            slope = 6 * a2 * u + 2 * a1 - dA * (u / A**2 + a2) + dB * k * a / B**2
            slope = np.abs(slope) * arc.width
        return ArcPoints(u, a, height, A, B, slope)

    @cached_property
    def support(self) -> Array:
        """Edges of the one or two bulks of singular values, shape (batch, 2, 2); NaN for a bulk that is not there.

        The first bulk starts at exactly 0 for ``beta = 1``, where the smallest singular value meets a hard wall.
        """
        rho = self.rho
        n1, p1 = self.lower_edge
        gap, end, start, _ = self.gap
        m4 = self.upper_edge
        first = np.where(self.beta == 1, 0.0, self.square(-n1, p1))
        with np.errstate(invalid="ignore"):
            inner = [np.where(gap, self.square(-b - rho, -b), np.nan) for b in (end, start)]
        last = self.square(m4, m4 + rho)
        lower = np.where(gap, np.hstack([first, inner[0]]), np.hstack([first, last]))
        upper = np.hstack([inner[1], np.where(gap, last, np.nan)])
        return np.sqrt(np.maximum(np.stack([lower, upper], axis=1), 0.0))


def _quadratic_root(rate: Array, linear: Array, product: Array, discriminant_root: Array, root: Array) -> Array:
    """Return the larger (``root = 1``) or smaller solution of ``rate x^2 - linear x + product = 0``.

    The form without cancellation is used.
    """
    plain = linear + root * discriminant_root
    other = linear - root * discriminant_root
    return np.where(root * linear > 0, plain / (2 * rate), 2 * product / other)
