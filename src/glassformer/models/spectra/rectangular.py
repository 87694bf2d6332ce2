r"""Singular values of a noisy product of Gaussian matrices, in closed form along a curve.

The law is that of the singular values of :math:`Y = S' + \sqrt R\,Z`, a ``d x L`` matrix with
:math:`S' = V U^T/(\sqrt r\,(dL)^{1/4})`, ``U`` of shape ``(L, r)``, ``V`` of shape ``(d, r)``, standard normal entries,
and ``Z`` with independent normal entries of variance :math:`1/\sqrt{dL}`; :math:`\beta = L/d \ge 1`,
:math:`\rho = r/d`, all sizes large.

Everything is a function of one complex number ``m``, the moment function
:math:`\mathrm{tr}\,S'S'^T (t - S'S'^T)^{-1}/d` of the *noiseless* matrix at the subordinated point ``t``. Free additive
convolution with the noise makes the squared singular value a rational function of it,

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

The Bayes-optimal denoiser multiplies a singular value inside the support by :math:`B/(B + R\rho^2)`: a number in
(0, 1) that no cancellation can spoil. Both the error and the overlap are integrals of positive quantities over the
curve; each is used where it is the small one.

Source: Erba, Troiani, Biggio, Maillard, Zdeborova, arXiv:2410.18858 (denoising problem and its quartic).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array, Integral
from glassformer.core.numerics.quadrature import tanh_sinh
from glassformer.core.numerics.roots import bracketed_root
from glassformer.models.spectra.nodes import LawNodes

Flags = NDArray[np.bool_]

# Nodes per arc, and on either side of a cut of one.
NODES, SPLIT_NODES = 161, 101
_TABLE, _LONG_TABLE = np.linspace(-40.0, 40.0, NODES), np.concatenate([[-80.0], np.linspace(-40.0, 40.0, 41), [80.0]])


class _Arc(NamedTuple):
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


class _Points(NamedTuple):
    """Points of an arc: m = re_m + i height, p = re_p + i height, and d(s^2/sqrt(beta))/dx for x in (0, 1)."""

    re_m: Array
    re_p: Array
    height: Array
    modulus_m: Array
    modulus_p: Array
    slope: Array


@dataclass(frozen=True)
class RectangularLaw:
    r"""Law of the singular values of :math:`S' + \sqrt R\,Z`; see the module for symbols and normalisation.

    Equation :eq:`rectangular-law` of the documentation.

    Args:
        beta: aspect ratio :math:`L/d > 0`; below one the law is that of the transposed matrix,
            :math:`(1/\beta, \rho/\beta)`, which has the same singular values.
        rho: width ratio :math:`r/d > 0`.
        noise: noise level :math:`R > 0`, in units where ``S`` has entries of unit variance.

    All three are scalars or arrays of shape ``(batch,)``. ``mmse`` and ``support`` work on the batch; ``density``,
    ``hilbert`` and ``denoise`` belong to a single law.

    Raises:
        ParameterError: a parameter is out of range or not finite.

    Example:
        >>> law = RectangularLaw(beta=2.0, rho=0.5, noise=0.1)
        >>> float(law.mmse().value[0])  # below the prior variance 1 and below the noise 0.1
        0.0595985194...
        >>> law.support.shape  # one or two bulks, each with two edges
        (1, 2, 2)
    """

    beta: ArrayLike
    rho: ArrayLike
    noise: ArrayLike

    def __post_init__(self) -> None:
        for name in ("beta", "rho", "noise"):
            value = np.asarray(getattr(self, name), dtype=float)
            if not np.all(np.isfinite(value) & (value > 0)):
                raise ParameterError(name, getattr(self, name), "finite and > 0")

    @cached_property
    def _parameters(self) -> tuple[Array, Array, Array]:
        """``beta``, ``rho`` and ``noise`` of the orientation with ``beta >= 1``, each of shape (batch, 1)."""
        beta, rho, noise = (np.asarray(x, dtype=float) for x in (self.beta, self.rho, self.noise))
        beta, rho, noise = np.broadcast_arrays(np.atleast_1d(beta), rho, noise)
        rho = np.where(beta < 1, rho / beta, rho)
        beta = np.where(beta < 1, 1 / beta, beta)
        return beta[:, None], rho[:, None], noise[:, None]

    @cached_property
    def _coefficients(self) -> tuple[Array, Array, Array]:
        """``a_2``, ``a_1`` and ``K`` of the module's partial fractions."""
        beta, rho, noise = self._parameters
        a1 = 1 / rho + 1 / (rho * beta) + (1 + 2 * noise) / beta
        return 1 / (beta * rho), a1, (noise * rho) ** 2 / beta

    def _square(self, m: NDArray[Any], p: NDArray[Any], at: Any = slice(None)) -> NDArray[Any]:
        r"""``s^2`` from ``m`` and ``p = m + rho``."""
        beta, rho, noise = (x[at] for x in self._parameters)
        left = (1 + m) * p / rho + noise * m
        right = (1 + m / beta) * p / rho + noise * m / beta
        return np.sqrt(beta) * left * right * rho / (m * p)

    # Edges: each is a zero of f' = 2 a2 m + a1 - 1/m^2 + K/p^2, written as the equality of two positive sums so that
    # its logarithm is close to linear and Newton's method needs a handful of steps.

    @cached_property
    def _upper_edge(self) -> Array:
        """``m > 0`` at the largest singular value."""
        _, rho, _ = self._parameters
        a2, a1, k = self._coefficients

        def condition(t: Array) -> tuple[Array, Array]:
            m = np.exp(t)
            total = 2 * a2 * m + a1 + k / (m + rho) ** 2
            return np.log(total) + 2 * t, 2 + m * (2 * a2 - 2 * k / (m + rho) ** 3) / total

        high = -0.5 * np.log(a1)
        low = -0.5 * np.log(2 * a2 * np.exp(high) + a1 + k / rho**2)
        return np.exp(bracketed_root(condition, low - 1e-9, high + 1e-9))

    @cached_property
    def _lower_edge(self) -> tuple[Array, Array]:
        """``-m`` and ``p`` at the smallest singular value, both in (0, rho)."""
        _, rho, _ = self._parameters
        a2, a1, k = self._coefficients

        def split(t: Array) -> tuple[Array, Array]:
            return rho / (1 + np.exp(-t)), rho / (1 + np.exp(t))

        def condition(t: Array) -> tuple[Array, Array]:
            n, p = split(t)
            dn = n * p / rho
            left, right = k / p**2 + a1 + 2 * a2 * p, 1 / n**2 + 2 * a2 * rho
            return np.log(left / right), dn * ((2 * k / p**3 - 2 * a2) / left + 2 / n**3 / right)

        bound = np.full_like(rho, 90.0)
        return split(bracketed_root(condition, -bound, bound))

    @cached_property
    def _gap(self) -> tuple[Flags, Array, Array, Array]:
        """Whether there are two bulks; ``-p > 0`` at the end of the lower, the start of the upper, and in between.

        On ``m < -rho``, ``f'`` falls from infinity at the pole; it is convex up to one inflection point and concave
        beyond, so there is a gap exactly where its local minimum is negative and its local maximum positive. The last
        array is the place of that minimum: with a gap it lies inside, without one it is where two bulks would part.
        """
        _, rho, _ = self._parameters
        a2, a1, k = self._coefficients
        possible = k < 1
        quarter = np.where(possible, k, 0.5) ** 0.25
        inflection = np.log(rho * quarter / (1 - quarter))
        possible &= _bend(rho, a2, k, inflection, 1.0)[0] < 0
        gap = np.zeros_like(possible)
        end, start, closest = (np.full_like(k, np.nan) for _ in range(3))
        at = np.flatnonzero(possible)
        if at.size:
            found = _gap_edges(rho[at], a2[at], a1[at], k[at], inflection[at])
            gap[at], end[at], start[at], closest[at] = found
        return gap, end, start, closest

    @cached_property
    def _turning(self) -> tuple[Array, Array]:
        """Both real values of ``Re p`` at which the outer pair of solutions of the quadratic meet, larger one first."""
        _, rho, _ = self._parameters
        a2, a1, k = self._coefficients
        offset = a1 - 2 * a2 * rho
        quadratic, linear = 4 * a2 * rho, 2 * rho * (offset - a2 * rho)
        constant = (1 - np.sqrt(k)) ** 2 - rho**2 * offset
        root = np.sqrt(np.maximum(linear**2 - 4 * quadratic * constant, 0.0))
        # The root without cancellation first, the other from the sum or the product of the two.
        with np.errstate(divide="ignore", invalid="ignore"):
            larger = np.where(linear < 0, (root - linear) / (2 * quadratic), -2 * constant / (linear + root))
        return larger, -linear / quadratic - larger

    @cached_property
    def _arcs(self) -> tuple[_Arc, _Arc, _Arc]:
        """The curve from the smallest to the largest singular value, as graphs over ``Re m``.

        Every bulk may begin on the smaller solution of the quadratic, move left to the point where the solutions meet
        and return on the larger one: the first bulk when there is no gap, the second when there is one. Without a
        turn, a bulk after a gap lies on the larger solution and the bulk before it on the smaller. A single bulk that
        is about to part in two comes close to the real axis there; it is cut at that place, so that the quadrature,
        which crowds at the ends of an arc, resolves it.
        """
        _, rho, _ = self._parameters
        a2, a1, k = self._coefficients
        n1, p1 = self._lower_edge
        gap, end, start, closest = self._gap
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
        lower = _Arc(-sign, low_p - rho, low_p, -n1, p1, p1 - low_p, first_turns & ~cut, gap | first_turns)
        middle_p = np.where(cut, -closest, -start)
        has_middle = second_turns | cut
        middle = _Arc(-sign, meet - rho, meet, middle_p - rho, middle_p, middle_p - meet, has_middle, has_middle)
        high_p = np.where(turns, meet, np.where(gap, -start, p1))
        high_m = np.where(turns | gap, high_p - rho, -n1)
        m4 = self._upper_edge
        return lower, middle, _Arc(sign, high_m, high_p, m4, m4 + rho, m4 - high_m, turns, np.ones_like(gap))

    def _points(self, arc: _Arc, from_left: Array, from_right: Array, at: Any = slice(None)) -> _Points:
        """Points at fractions ``from_left = 1 - from_right`` of the arc's interval; slopes are per unit fraction.

        ``at`` selects the batch elements to which the arc belongs.
        """
        rho = self._parameters[1][at]
        a2, a1, k = (x[at] for x in self._coefficients)
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
        return _Points(u, a, height, A, B, slope)

    @cached_property
    def support(self) -> Array:
        """Edges of the one or two bulks of singular values, shape (batch, 2, 2); NaN for a bulk that is not there.

        The first bulk starts at exactly 0 for ``beta = 1``, where the smallest singular value meets a hard wall.
        """
        beta, rho, _ = self._parameters
        n1, p1 = self._lower_edge
        gap, end, start, _ = self._gap
        m4 = self._upper_edge
        first = np.where(beta == 1, 0.0, self._square(-n1, p1))
        with np.errstate(invalid="ignore"):
            inner = [np.where(gap, self._square(-b - rho, -b), np.nan) for b in (end, start)]
        last = self._square(m4, m4 + rho)
        lower = np.where(gap, np.hstack([first, inner[0]]), np.hstack([first, last]))
        upper = np.hstack([inner[1], np.where(gap, last, np.nan)])
        return np.sqrt(np.maximum(np.stack([lower, upper], axis=1), 0.0))

    def _weighted_points(self) -> Iterator[tuple[NDArray[np.intp], _Points, Array]]:
        r"""For each arc the elements that have it, its points, the weights of :math:`\int df\,\mathrm{Im}\,m/\pi`."""
        rule = tanh_sinh(NODES)
        for arc in self._arcs:
            at = np.flatnonzero(arc.exists)
            if at.size:
                part = _Arc(**{name: field[at] for name, field in arc._asdict().items()})
                points = self._points(part, rule.from_left, rule.from_right, at)
                with np.errstate(invalid="ignore", over="ignore"):
                    weight = points.height * points.slope * rule.weight / np.pi
                yield at, points, weight

    def _integrals(self) -> Array:
        """Overlap, its complement relative to the noise, and both by every second node; shape (4, batch)."""
        _, rho, noise = self._parameters
        total = np.zeros((4, len(rho)))
        for at, points, weight in self._weighted_points():
            B, square = points.modulus_p, rho[at] ** 2
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                share = weight / (B + noise[at] * square)
                parts = _finite(share * B), _finite(share * noise[at] * square**2 / B)
            for row, part in enumerate(parts):
                total[row, at] += part.sum(axis=1)
                total[row + 2, at] += 2 * part[:, ::2].sum(axis=1)
        return total

    @property
    def unit(self) -> Array:
        """From means over the values to errors per entry of the signal, shape (batch,)."""
        return 1 / np.sqrt(self._parameters[0][:, 0])

    def mmse(self) -> Integral:
        r"""Minimal mean squared error per entry of ``S`` (prior variance 1) and its estimated error, shape (batch,).

        .. math:: \mathrm{MMSE}(R) = 1 - \frac1\pi\int \frac{\mathrm{Im}\,m\;B}{B + R\rho^2}\,df
           = R\Bigl[1 - \frac{R\rho^4}\pi\int\frac{\mathrm{Im}\,m}{B\,(B + R\rho^2)}\,df\Bigr],

        the second form below ``R = 1`` and the first above. The error is the change from the rule with half the nodes,
        which bounds that of the full rule generously, plus the disagreement of the two forms beyond rounding: their
        equality is the Nishimori identity of the denoising problem, and fails if any part of the curve is missed.
        """
        overlap, deficit, coarse_overlap, coarse_deficit = self._integrals()
        R = self._parameters[2][:, 0]
        small = R < 1
        value = np.where(small, R * (1 - deficit), 1 - overlap)
        coarse = np.where(small, R * (1 - coarse_deficit), 1 - coarse_overlap)
        disagreement = np.abs((1 - overlap) - R * (1 - deficit))
        missed = np.where(disagreement > 1e-13 * np.maximum(R, 1.0), disagreement, 0.0)
        error = np.abs(value - coarse) + missed + 4e-16 * np.where(small, R, 1.0)
        # Neither the observation itself nor nothing at all has a larger one.
        return Integral(value, np.minimum(error, np.minimum(R, 1.0)))

    def mass(self) -> Array:
        """Total mass of the law, 1 up to integration error: a check that costs what ``mmse`` costs, shape (batch,)."""
        beta, rho, noise = self._parameters
        total = np.zeros(len(rho))
        for at, points, weight in self._weighted_points():
            m, p = points.re_m + 1j * points.height, points.re_p + 1j * points.height
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                density = weight * (1 + noise[at] * rho[at] ** 2 / points.modulus_p) * np.sqrt(beta[at])
                total[at] += _finite(density / np.abs(self._square(m, p, at))).sum(axis=1)
        return total

    def nodes(self, cut: ArrayLike = 0.0) -> LawNodes:
        r"""Quadrature over the singular values of each law, for functions that bend at ``cut``, shape (batch,).

        Integrands must be smooth on either side of the cut. The arcs of the law end where it comes close to parting in
        two, so that such places are resolved as well.

        Example:
            >>> s, weight, shrunk = RectangularLaw(beta=4.0, rho=0.5, noise=0.2).nodes(cut=1.0)
            >>> (weight[0] @ np.stack([np.ones_like(s[0]), s[0] ** 2], 1)).round(12)  # the mass, and (1 + R) sqrt(beta)
            array([1. , 2.4])
        """
        beta, rho, noise = self._parameters
        place, rule = np.broadcast_to(np.asarray(cut, dtype=float).reshape(-1, 1), rho.shape), tanh_sinh(SPLIT_NODES)
        found = []
        for whole in self._arcs:
            at = np.flatnonzero(whole.exists)
            if not at.size:
                continue
            arc = _Arc(**{name: part[at] for name, part in whole._asdict().items()})
            below, above = self._shares(arc, place[at], at)
            for start, width, rest in ((0.0, below, above), (below, above, 0.0)):
                points = self._points(arc, start + width * rule.from_left, rest + width * rule.from_right, at)
                square = np.abs(self._square(*_complex(points), at))
                shade = noise[at] * rho[at] ** 2
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    mass = points.height * points.slope * (1 + shade / points.modulus_p) / square
                    weight = _finite(width * rule.weight * np.sqrt(beta[at]) / np.pi * mass)
                values = np.sqrt(square), weight, np.sqrt(square) * points.modulus_p / (points.modulus_p + shade)
                # Laws without this arc have nodes of weight zero there.
                found.append(np.zeros((3, len(rho), rule.weight.size)))
                found[-1][:, at] = values
        return LawNodes(*np.concatenate(found, axis=2))

    def _shares(self, arc: _Arc, cut: Array, at: NDArray[np.intp]) -> tuple[Array, Array]:
        """Shares of an arc's interval on either side of the point at which the singular value is ``cut``."""

        def condition(t: Array) -> tuple[Array, Array]:
            left, right = 1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t))
            points = self._points(arc, left, right, at)
            square = np.abs(self._square(*_complex(points), at))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                slope = np.sqrt(self._parameters[0][at]) * points.slope * left * right / square
                return arc.root * (np.log(square) - 2 * np.log(cut)), slope

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

    def moment_function(self, s: ArrayLike) -> NDArray[np.complex128]:
        """``m`` at singular values ``s > 0`` of a single law: ``Im m > 0`` inside the support, real outside."""
        s = np.asarray(s, dtype=float)
        self._require_single(s)
        flat = s.ravel()
        low, high = self.support[0].T
        inside = np.any((flat[:, None] >= low) & (flat[:, None] <= high), axis=1)
        m = np.empty(flat.shape, dtype=complex)
        if np.any(inside):
            m[inside] = self._invert_inside(flat[inside])
        if not np.all(inside):
            m[~inside] = self._invert_outside(flat[~inside])
        return m.reshape(s.shape)

    def stieltjes(self, s: ArrayLike) -> NDArray[np.complex128]:
        r"""Boundary value :math:`h(s) + i\pi\mu(s)` of the Stieltjes transform of the symmetrised law, ``s > 0``."""
        s = np.asarray(s, dtype=float)
        _, rho, noise = self._parameters
        m = self.moment_function(s)
        return np.asarray((1 + m + noise[0, 0] * m / (1 + m / rho[0, 0])) / s)

    def density(self, s: ArrayLike) -> Array:
        r"""Density :math:`\mu(s)` of the symmetrised law: mass 1/2 on ``s > 0``; zero outside the support."""
        return self.stieltjes(s).imag / np.pi

    def hilbert(self, s: ArrayLike) -> Array:
        r"""Hilbert transform :math:`h(s) = \mathrm{Re}\,G(s)`, inside and outside the support."""
        return self.stieltjes(s).real

    def denoise(self, s: ArrayLike) -> Array:
        r"""Optimal shrinkage :math:`\hat s = s - (2R/\sqrt\beta)[(\beta-1)/(2s) + h(s)]` of singular values ``s > 0``.

        Inside the support the equal form :math:`s\,B/(B + R\rho^2)` is used. In the gap, where finite-size singular
        values stray, ``h`` is continued along the real branch of ``m``. Beyond the support on either side the factor
        :math:`\hat s/s` keeps its value at the edge: the continuation has a pole at ``s = 0`` for :math:`\beta > 1`,
        which no posterior mean follows, and would leave large outliers almost as they are, which come from noise more
        often than from the signal and make message passing oscillate at small sizes.
        """
        return self.shrinkage(s)[0]

    def shrinkage(self, s: ArrayLike) -> tuple[Array, Array]:
        """The values of :meth:`denoise` and their derivatives in ``s``."""
        s = np.asarray(s, dtype=float)
        self._require_single(s)
        beta, rho, noise = (float(x[0, 0]) for x in self._parameters)
        a2, a1, k = (float(x[0, 0]) for x in self._coefficients)
        low, high = float(self.support[0, 0, 0]), float(np.nanmax(self.support[0]))
        held = np.clip(s, low * (1 + 1e-12), high * (1 - 1e-12))
        m = self.moment_function(held)
        p = m + rho
        G = (1 + m + noise * m * rho / p) / held
        strength = 2 * noise / np.sqrt(beta)
        B = np.abs(p) ** 2
        factor = np.where(
            m.imag > 0, B / (B + noise * rho**2), 1 - strength * ((beta - 1) / (2 * held) + G.real) / held
        )
        dm = 2 * held / (np.sqrt(beta) * (2 * a2 * m + a1 - 1 / m**2 + k / p**2))
        dG = ((1 + noise * (rho / p) ** 2) * dm - G) / held
        slope = 1 - strength * (dG.real - (beta - 1) / (2 * held**2))
        return s * factor, np.where(s != held, factor, slope)

    def _require_single(self, s: Array) -> None:
        if self._parameters[0].size != 1:
            raise ParameterError("noise", self.noise, "a single law: densities and denoisers take no batch of laws")
        if not (np.all(np.isfinite(s)) and np.all(s > 0)):
            raise ParameterError("s", s, "finite singular values > 0")

    def _invert_inside(self, s: Array) -> NDArray[np.complex128]:
        """Solve ``f(m) = s^2/sqrt(beta)`` inside the support: along each arc the singular value is monotone."""
        beta = self._parameters[0]
        pieces = self._arcs
        member = np.searchsorted(self._arc_ends, s)
        arc = _Arc(
            *(np.choose(member[None, :], [np.asarray(f) for f in fields]) for fields in zip(*pieces, strict=True))
        )
        target = s**2

        def locate(arc: _Arc, t: Array) -> tuple[Array, Array, NDArray[np.complex128]]:
            left, right = 1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t))
            points = self._points(arc, left, right)
            m, p = points.re_m + 1j * points.height, points.re_p + 1j * points.height
            return np.abs(self._square(m, p))[0], (np.sqrt(beta) * points.slope)[0] * left * right, m[0]

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
        return locate(arc, bracketed_root(condition, low, high))[2]

    @cached_property
    def _arc_ends(self) -> tuple[float, float]:
        """Largest singular values on the lower and the middle arc of a single law; -1 for an arc it does not have."""
        lower, middle, _ = self._arcs
        first = self._value_at_left_end(lower) if lower.exists[0, 0] else -1.0
        if self._gap[0][0, 0]:
            first = float(self.support[0, 0, 1])
        return first, max(first, self._value_at_left_end(middle)) if middle.exists[0, 0] else first

    def _value_at_left_end(self, arc: _Arc) -> float:
        """Singular value where a single law's arc begins."""
        points = self._points(arc, np.array([1e-300]), np.array([1.0]))
        m, p = points.re_m + 1j * points.height, points.re_p + 1j * points.height
        return float(np.sqrt(np.abs(self._square(m, p)))[0, 0])

    def _invert_outside(self, s: Array) -> NDArray[np.complex128]:
        """Solve ``f(m) = s^2/sqrt(beta)`` on the physical real branch left of, between and right of the bulks.

        The branch is ``0 < m < m_4`` above the support (``m ~ sqrt(beta)/s^2`` at infinity), the stretch from the edge
        to the zero of ``f`` with ``G = 0`` below it, and the stretch of ``m < -rho`` between the two edges of the gap.
        """
        _, rho, noise = (x[0, 0] for x in self._parameters)
        edges, m4 = self.support[0], self._upper_edge[0, 0]
        linear = 1 + 1 / rho + noise
        zero = 2 / (linear + np.sqrt(linear**2 - 4 / rho))
        _, end, start, _ = (x[0, 0] for x in self._gap)
        m = np.full(s.shape, np.nan)
        above, below = s > np.nanmax(edges), s < edges[0, 0]
        m[above] = self._invert_on_line(s[above], 0.0, 1.0, m4 * 1e-40, m4, -1.0)
        m[below] = self._invert_on_line(s[below], 0.0, -1.0, zero, self._lower_edge[0][0, 0], 1.0)
        between = ~above & ~below
        m[between] = self._invert_on_line(s[between], -rho, -1.0, end, start, 1.0)
        return m.astype(complex)

    def _invert_on_line(self, s: Array, pole: float, side: float, near: float, far: float, direction: float) -> Array:
        """Real ``m = pole + side * b`` with ``near < b < far``, along which ``direction * f`` increases."""
        if s.size == 0:
            return s
        _, rho, _ = (x[0, 0] for x in self._parameters)
        a2, a1, k = (x[0, 0] for x in self._coefficients)
        beta = self._parameters[0][0, 0]

        def condition(t: Array) -> tuple[Array, Array]:
            b = np.exp(t)
            m, p = pole + side * b, (pole + rho) + side * b
            slope = np.sqrt(beta) * (2 * a2 * m + a1 - 1 / m**2 + k / p**2) * side * b
            square = self._square(m, p)[0]
            return direction * np.log(square / s**2), direction * slope / square

        t = bracketed_root(condition, np.full(s.shape, np.log(near)), np.full(s.shape, np.log(far)))
        return pole + side * np.exp(t)


def _quadratic_root(rate: Array, linear: Array, product: Array, discriminant_root: Array, root: Array) -> Array:
    """Larger (``root = 1``) or smaller solution of ``rate x^2 - linear x + product = 0``, in the form that adds."""
    plain = linear + root * discriminant_root
    other = linear - root * discriminant_root
    return np.where(root * linear > 0, plain / (2 * rate), 2 * product / other)


def _complex(points: _Points) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """``m`` and ``p``."""
    return points.re_m + 1j * points.height, points.re_p + 1j * points.height


def _finite(terms: Array) -> Array:
    """The terms; at the very ends of an arc a vanishing weight can meet an overflow, and adds nothing."""
    return np.where(np.isfinite(terms), terms, 0.0)


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


def _gap_edges(rho: Array, a2: Array, a1: Array, k: Array, inflection: Array) -> tuple[Flags, Array, Array, Array]:
    """The content of ``_gap`` where ``f'`` has a local minimum, nearer to the pole than its inflection point."""
    cube = np.cbrt(k)
    nearest = np.log(rho * cube / (1 - cube)) - 1e-9
    lowest = bracketed_root(lambda t: _bend(rho, a2, k, t, -1.0), nearest, inflection)
    beyond = np.maximum(np.log(np.maximum(a2 ** (-1 / 3) - rho, rho * 1e-300)), inflection) + 1e-9
    highest = bracketed_root(lambda t: _bend(rho, a2, k, t, 1.0), inflection, beyond)
    gap = (_level(rho, a2, a1, k, lowest, 1.0)[0] < 0) & (_level(rho, a2, a1, k, highest, 1.0)[0] > 0)
    closest = np.exp(lowest)
    end, start = np.full_like(k, np.nan), np.full_like(k, np.nan)
    if np.any(gap):
        at, inside = (rho[gap], a2[gap], a1[gap], k[gap]), closest[gap]
        first = 0.5 * np.log(at[3] / (1 / at[0] ** 2 + 2 * at[1] * (at[0] + inside))) - 1e-9
        end[gap] = np.exp(bracketed_root(lambda t: _level(*at, t, -1.0), first, lowest[gap]))
        start[gap] = np.exp(bracketed_root(lambda t: _level(*at, t, 1.0), lowest[gap], highest[gap]))
    return gap, end, start, closest
