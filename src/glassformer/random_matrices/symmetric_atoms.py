r"""Eigenvalues of a symmetric matrix of any spectrum seen through Gaussian noise.

The law is that of :math:`Y = S + \sqrt\Delta\,Z`, ``S`` with eigenvalues :math:`x_i` of weights :math:`p_i`, ``Z`` a
Gaussian orthogonal matrix whose off-diagonal entries have variance :math:`1/d`. With ``w = u + iv`` on the curve

.. math:: \sum_i \frac{p_i}{(u-x_i)^2 + v^2} = \frac1\Delta, \qquad z = u + \Delta\,\mathrm{Re}\,G_S(w), \qquad
   \mu(z) = \frac{v}{\pi\Delta} ,

the weights :math:`q_i = p_i\Delta/|w-x_i|^2` sum to one: they are the posterior of what an eigenvector of eigenvalue
``z`` belongs to. The Bayes-optimal denoiser is their mean, :math:`\hat\lambda = \sum_i q_ix_i = 2u - z`, and the least
error the average of their variance, free of cancellation at any noise.

Source: Biane, "On the free convolution with a semi-circular distribution", Indiana Univ. Math. J. 46 (1997); the
denoiser is that of Bun, Allez, Bouchaud, Potters, arXiv:1502.06736. The form of the least error is derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root
from glassformer.random_matrices.atoms import AtomsCurve, AtomsLaw, CurvePoints, merge_close_atoms

# Newton's method for the height rises to it; it doubles its digits at the end.
_STEPS, _SETTLED = 60, 1e-9


@dataclass(frozen=True)
class SymmetricAtomsLaw(AtomsLaw):
    r"""Law of the eigenvalues of :math:`S + \sqrt\Delta\,Z` for eigenvalues of ``S`` given as numbers.

    Equation :eq:`any-spectrum` of the documentation.

    Args:
        values: eigenvalues of ``S``, distinct and ascending.
        weights: shares of them.
        noise: :math:`\Delta > 0`; a scalar or of shape (batch,).

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> law = SymmetricAtomsLaw(values=(-1.0, 1.0), weights=(0.5, 0.5), noise=0.5)
        >>> law.support.shape  # below the noise 1, two bulks
        (1, 2, 2)
        >>> bool(abs(law.denoise(np.array([0.0]))[0]) < 1e-12)
        True
    """

    def curve(self, noise: float) -> SymmetricCurve:
        return SymmetricCurve(*merge_close_atoms(np.array(self.values), np.array(self.weights), noise), noise)

    @property
    def unit(self) -> Array:
        return np.ones(len(self.curves))


@dataclass(frozen=True)
class SymmetricCurve(AtomsCurve):
    """The curve of one law: eigenvalues, their weights and the noise."""

    atoms: Array
    weights: Array
    noise: float

    @cached_property
    def bulks(self) -> Array:
        left, right = self._gaps()
        x, p, t = self.atoms, self.weights, self.noise
        # Beyond the outermost atoms one crossing each: no farther than all the weight in one atom would put it.
        first = self._crossing(x[:1] - np.sqrt(t), x[:1] - np.sqrt(p[:1] * t), 1.0)
        last = self._crossing(x[-1:] + np.sqrt(p[-1:] * t), x[-1:] + np.sqrt(t), -1.0)
        return np.stack([np.concatenate([first, right]), np.concatenate([left, last])], axis=1)

    def _gaps(self) -> tuple[Array, Array]:
        """Return the ends of the intervals between atoms in which there is no density."""
        x, p, t = self.atoms, self.weights, self.noise
        a, b = x[:-1], x[1:]
        # The two neighbours alone may close a gap.
        wide = (np.cbrt(p[:-1]) + np.cbrt(p[1:])) ** 3 / (b - a) ** 2 < 1 / t
        a, b, pa, pb = a[wide], b[wide], p[:-1][wide], p[1:][wide]
        if not a.size:
            return a, b
        lowest = bracketed_root(self._bend, a + np.sqrt(pa * t), b - np.sqrt(pb * t))
        open_ = self._density(lowest)[0] < 1 / t
        a, b, pa, pb, lowest = (part[open_] for part in (a, b, pa, pb, lowest))
        return (
            self._crossing(a + np.sqrt(pa * t), lowest, -1.0),
            self._crossing(lowest, b - np.sqrt(pb * t), 1.0),
        )

    def _density(self, u: Array) -> tuple[Array, Array, Array]:
        r"""Return :math:`\sum p/(u-x)^2` and two derivatives on the real line."""
        with np.errstate(divide="ignore"):
            inverse = 1 / (u[:, None] - self.atoms)
        square = inverse**2 * self.weights
        cube = square * inverse
        return square.sum(1), -2 * cube.sum(1), 6 * (cube * inverse).sum(1)

    def _bend(self, u: Array) -> tuple[Array, Array]:
        """Return the slope of the density, and its slope, relative to a third power that poles have."""
        value, slope, bend = self._density(u)
        scale = value**1.5
        return slope / scale, bend / scale - 1.5 * slope**2 / (scale * value)

    def _crossing(self, low: Array, high: Array, rise: float) -> Array:
        """Return where the density, which rises or falls from ``low`` to ``high``, is one over the noise."""

        def condition(u: Array) -> tuple[Array, Array]:
            value, slope, _ = self._density(u)
            root = np.sqrt(value * self.noise)
            # Close to linear: one over the root of a pole of second order.
            return rise * (1 - 1 / root), rise * 0.5 * slope / value / root

        return bracketed_root(condition, low, high, last_step=1e-12)

    def _heights(self, gap: Array) -> Array:
        """Return the squares of the heights at distances ``gap`` from the atoms, shape (n, K)."""
        square, p, t = gap**2, self.weights, self.noise
        # The harmonic mean of distances is concave in the height: Newton's method rises, from a bound below.
        s = np.maximum(t - square @ p, np.max(p * t - square, axis=1))
        s = np.maximum(s, 0.0)
        for _ in range(_STEPS):
            with np.errstate(divide="ignore", invalid="ignore"):
                inverse = 1 / (square + s[:, None])
                total = inverse @ p
                step = total * (t * total - 1) / (inverse**2 @ p)
            step = np.where(np.isfinite(step), step, 0.0)
            s = np.maximum(s + step, 0.0)
            if np.all(np.abs(step) <= _SETTLED * s):
                break
        return s

    def block(self, u: Array) -> CurvePoints:
        t, p = self.noise, self.weights
        gap = u[:, None] - self.atoms
        s = self._heights(gap)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1 / (gap**2 + s[:, None])
        share = p * inverse
        share = share / share.sum(axis=1, keepdims=True)
        a, b = (share * gap * inverse).sum(1) / t, (share * inverse).sum(1) / t
        shrunk = share @ self.atoms
        loss = (share * (self.atoms - shrunk[:, None]) ** 2).sum(1)
        density = np.sqrt(s) / (np.pi * t)
        stretch = 2 * t * (s * b + a**2 / b)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = 2 / stretch - 1
        return CurvePoints(2 * u - shrunk, density * stretch, density, shrunk, slope, loss)
