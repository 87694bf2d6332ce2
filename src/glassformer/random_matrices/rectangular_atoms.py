r"""Singular values of a matrix of any spectrum seen through Gaussian noise.

The law is that of :math:`Y = S/(dL)^{1/4} + \sqrt R\,Z`, ``Z`` with entries of variance :math:`1/\sqrt{dL}`, for the
singular values :math:`a_i` of :math:`S/(dL)^{1/4}` with weights :math:`p_i`; their mean square is :math:`\sqrt\beta`,
with :math:`\beta\ge1` the ratio of the sides, and :math:`\kappa = R/\sqrt\beta`. With
:math:`A(w) = 1 + \kappa\sum_i p_i/(w - a_i^2)` squared singular values are

.. math:: s^2 = A\,[wA + \kappa(\beta - 1)] ,

real along a curve ``w = u + iv``. With
:math:`T = \sum p/|w-a^2|^2`, :math:`T_1 = \sum pa^2/|w-a^2|^2` and :math:`H = \sum pa^2(u-a^2)/|w-a^2|^2` this says

.. math:: (1 - \kappa T_1)\,\mathrm{Re}\,A = \kappa T\,(u + \kappa\beta + \kappa H), \qquad
   s^2 = |A|^2\frac{1 - \kappa T_1}{\kappa T}, \qquad \hat s = s\,\frac{\kappa T_1}{1 - \kappa T_1} ,

and the density of :math:`s^2` is :math:`vT/(\pi|A|^2)`. The denoiser is a quotient of positive sums. On the real line
there is no density where :math:`A > 0` and :math:`s^2` grows with ``w``; between two atoms
:math:`(ds^2/dw)/A^2` is concave where ``A > 0``, so that one such interval lies there at most.

Source: the deterministic equivalent of Dozier and Silverstein, J. Multivariate Anal. 98 (2007), and the edges of
Vallet, Loubaton, Mestre, IEEE Trans. Inf. Theory 58 (2012); denoiser and concavity are derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root
from glassformer.random_matrices.atoms import AtomsCurve, AtomsLaw, CurvePoints, merge_close_atoms

# Halvings of a gap until it is known whether density vanishes in it.
_HALVINGS = 60


@dataclass(frozen=True)
class RectangularAtomsLaw(AtomsLaw):
    r"""Law of the singular values of a noisy matrix for those of the signal given as numbers.

    Equation :eq:`any-spectrum-rectangular` of the documentation.

    Args:
        values: singular values of :math:`S/(dL)^{1/4}`, distinct, ascending and not negative.
        weights: shares of them, per dimension of the smaller side.
        noise: :math:`R > 0`, in units where the noise has entries of variance :math:`R/\sqrt{dL}`.
        beta: ratio of the sides; one and its inverse give the same law.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> law = RectangularAtomsLaw(values=(0.0, 2.0), weights=(0.75, 0.25), noise=0.1, beta=1.0)
        >>> law.support.shape  # a bulk of noise, and one around 2
        (1, 2, 2)
        >>> bool(abs(law.mass()[0] - 1) < 1e-12)
        True
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.values[0] >= 0:
            raise ParameterError("values", self.values, "singular values, that is not negative")
        if not 0 < self.beta < np.inf:
            raise ParameterError("beta", self.beta, "finite and > 0")

    @property
    def ratio(self) -> float:
        """Of the longer side to the shorter one."""
        return max(float(self.beta), 1 / float(self.beta))

    def curve(self, noise: float) -> RectangularCurve:
        # Squares of singular values are seen from as far as these are from points with weight on both signs.
        width = noise / np.sqrt(self.ratio)
        values, weights = merge_close_atoms(np.array(self.values), np.array(self.weights), 0.5 * width)
        return RectangularCurve(values**2, weights, width, self.ratio)

    @property
    def unit(self) -> Array:
        return np.full(len(self.curves), 1 / np.sqrt(self.ratio))


class _Line(NamedTuple):
    """On the real line: ``A`` and minus its slope, slope and bend of ``s^2``, shape (n,) each."""

    height: Array
    fall: Array
    slope: Array
    bend: Array

    def relative_slope(self) -> tuple[Array, Array]:
        """Return the slope of ``s^2`` over the square of ``A``, and its derivative."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            square = self.height**2
            return self.slope / square, (self.bend + 2 * self.slope * self.fall / self.height) / square


@dataclass(frozen=True)
class RectangularCurve(AtomsCurve):
    r"""The curve of one law: squared singular values, weights, :math:`\kappa` and the ratio of the sides."""

    atoms: Array
    weights: Array
    kappa: float
    beta: float

    @cached_property
    def bulks(self) -> Array:
        left, right = self._gaps()
        low, high = self.atoms[:1] - self._reach, self.atoms[-1:] + self._reach
        zero = self._height_root(low, self.atoms[:1] - 0.5 * self.kappa * self.weights[:1])
        first, last = self._edge(low, zero, -1.0), self._edge(self.atoms[-1:], high, 1.0)
        ends = np.concatenate([first, right]), np.concatenate([left, last])
        # The first bulk may begin where w is negative, that is where its root is imaginary.
        return np.sqrt(np.maximum(np.stack(ends, axis=1), 0.0))

    def _line(self, w: Array) -> _Line:
        k, b1 = self.kappa, self.beta - 1
        with np.errstate(divide="ignore", over="ignore"):
            inverse = 1 / (w[:, None] - self.atoms)
        power = self.weights * inverse
        g = power.sum(1)
        t, t3 = ((power := power * inverse).sum(1) for _ in range(2))
        a = 1 + k * g
        slope = a**2 - 2 * k * t * w * a - k**2 * b1 * t
        bend = -4 * k * a * t + 4 * k * t3 * w * a + 2 * k**2 * t**2 * w + 2 * k**2 * b1 * t3
        return _Line(a, k * (inverse**2 @ self.weights), slope, bend)

    def _height_root(self, low: Array, high: Array) -> Array:
        """Return where ``A``, which falls from ``low`` to ``high``, is zero."""

        def condition(w: Array) -> tuple[Array, Array]:
            with np.errstate(divide="ignore", over="ignore"):
                inverse = 1 / (w[:, None] - self.atoms)
            return -(1 + self.kappa * (inverse @ self.weights)), self.kappa * (inverse**2 @ self.weights)

        return bracketed_root(condition, low, high, last_step=1e-12)

    def _edge(self, low: Array, high: Array, rise: float) -> Array:
        """Return where the slope of ``s^2``, relative to the square of ``A``, passes zero."""

        def condition(w: Array) -> tuple[Array, Array]:
            line = self._line(w)
            value, slope = line.relative_slope()
            # For square matrices both may vanish together: that is the edge at which singular values begin at zero.
            value = np.where(line.height == 0, -1.0, value)
            # Poles of second order become close to linear.
            root = np.sqrt(1 - np.minimum(value, 0.0))
            return rise * np.where(value < 0, 1 - root, 0.5 * value), rise * 0.5 * slope / root

        return bracketed_root(condition, low, high, last_step=1e-12)

    @property
    def _reach(self) -> float:
        """Beyond the outermost atoms by this much there is no density."""
        return float(
            4 * (self.kappa * (self.beta + 1) + np.sqrt(self.kappa * self.beta * (self.atoms[-1] + self.kappa)))
        )

    def _gaps(self) -> tuple[Array, Array]:
        """Return the ends of the intervals between atoms in which there is no density."""
        a, b = self.atoms[:-1], self.atoms[1:]
        if not a.size:
            return a, b
        zero = self._height_root(a, b)
        low, high = a.copy(), zero.copy()
        best = np.full_like(a, np.nan)
        pending = np.arange(len(a))
        for _ in range(_HALVINGS):
            if not pending.size:
                break
            w = 0.5 * (low[pending] + high[pending])
            line = self._line(w)
            found = line.slope > 0
            best[pending[found]] = w[found]
            falling = line.bend * line.height + 2 * line.fall * line.slope < 0
            high[pending[falling]], low[pending[~falling]] = w[falling], w[~falling]
            # A concave function is nowhere above its tangents.
            value, slope = line.relative_slope()
            with np.errstate(invalid="ignore"):
                bound = value + np.maximum(slope * (high[pending] - w), slope * (low[pending] - w))
            pending = pending[~found & ~(bound < 0)]
        at = np.isfinite(best)
        return self._edge(a[at], best[at], 1.0), self._edge(best[at], zero[at], -1.0)

    def _heights(self, u: Array, gap: Array) -> Array:
        r"""Return the squares ``Y`` of the heights of :math:`\sqrt w` at its real parts ``u``.

        With ``gap`` :math:`= u^2 - a^2`, shape (n, K), :math:`|w-a^2|^2 = (\mathrm{gap}-Y)^2 + 4u^2Y` grows with ``Y``.
        """
        k, square = self.kappa, u**2
        p = self.weights[:, None] * self.atoms[:, None] ** np.arange(3)

        def condition(t: Array) -> tuple[Array, Array]:
            Y = np.exp(t)
            size, real = square + Y, square + k * self.beta - Y
            off = gap - Y[:, None]
            inverse = 1 / (off**2 + (4 * square * Y)[:, None])
            (T, T1, _), (g, H, _) = (inverse @ p).T, ((off * inverse) @ p).T
            inverse *= inverse
            once, twice = (inverse @ p).T, ((off * inverse) @ p).T
            dT, dT1 = (-2 * (size * once[i] + once[i + 1]) for i in range(2))
            dg, dH = (-(T, T1)[i] - 2 * (size * twice[i] + twice[i + 1]) for i in range(2))
            e, rest, part = 1 + k * g, real + k * H, 1 - k * T1
            value = e * part - k * T * rest
            slope = k * (dg * part - e * dT1 - dT * rest - T * (k * dH - 1))
            # Both terms are poles near an atom; their ratio to the larger is not. Other solutions have negative s^2.
            scale, wrong = np.maximum(np.abs(e * part) + np.abs(k * T * rest), 1e-300), part <= 0
            return np.where(wrong, -1.0, value / scale), np.where(wrong, np.nan, slope * Y / scale)

        # The sandwich of the two sides' free convolutions: none is higher than all weight in one place would make it,
        # nor lower than that of an atom by itself.
        least = np.max(0.5 * k * self.weights - (u[:, None] - np.sqrt(self.atoms)) ** 2, axis=1)
        high = np.full_like(u, np.log(k * self.beta) + 1e-9)
        low = np.log(np.maximum(least, k * self.beta * np.exp(-120.0))) - 1e-9
        return np.exp(bracketed_root(condition, low, high, last_step=1e-7))

    def block(self, u: Array) -> CurvePoints:
        k, b = self.kappa, self.beta
        root = np.sqrt(self.atoms)
        gap = (u[:, None] - root) * (u[:, None] + root)
        Y = self._heights(u, gap)
        zeta = u + 1j * np.sqrt(Y)
        inverse = 1 / (gap - Y[:, None] + 2j * (u * zeta.imag)[:, None])
        modulus = np.abs(inverse) ** 2
        T, T1 = modulus @ self.weights, modulus @ (self.weights * self.atoms)
        A, dA = 1 + k * (inverse @ self.weights), -k * (inverse**2 @ self.weights)
        w, v = zeta**2, 2 * u * zeta.imag
        slope = A**2 + dA * (2 * A * w + k * (b - 1))
        along = 2 * zeta * slope
        x = np.maximum((A * (w * A + k * (b - 1))).real, 0.0)
        value, size, noise = np.sqrt(x), np.abs(A) ** 2, k * np.sqrt(b)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Two forms that are equal on the curve; the second divides by what is zero where s is.
            shrunk = np.where(k * T1 < 0.9, value * k * T1 / (1 - k * T1), size * T1 / (T * value))
            shrunk = np.where(value > 0, shrunk, 0.0)
            loss = noise * np.sqrt(b) - (value - shrunk) ** 2 if noise < 1 else np.sqrt(b) - shrunk**2
            density = v * T / size / np.pi
            weight = density * np.abs(along) ** 2 / along.real
            steep = 1 - 2 * ((1 - 1 / A) + 2 * x * dA / A**2 / slope).real + k * (b - 1) / x
        return CurvePoints(value, weight, 2 * value * density, shrunk, steep, loss)
