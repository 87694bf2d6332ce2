r"""Singular values of a noisy product of Gaussian matrices, in closed form along a curve.

The law is that of the singular values of :math:`Y = S' + \sqrt R\,Z`, a ``d x L`` matrix with
:math:`S' = V U^T/(\sqrt r\,(dL)^{1/4})`, ``U`` of shape ``(L, r)``, ``V`` of shape ``(d, r)``, standard normal entries,
and ``Z`` with independent normal entries of variance :math:`1/\sqrt{dL}`; :math:`\beta = L/d \ge 1`,
:math:`\rho = r/d`, all sizes large.

The curve is that of the complex numbers ``m`` of :mod:`~glassformer.random_matrices.rectangular_curve`, and
:math:`B = |m + \rho|^2`. The Bayes-optimal denoiser multiplies a singular value inside the support by
:math:`B/(B + R\rho^2)`, a number in (0, 1) without cancellation. Both the error and the overlap are integrals of
positive quantities over the curve. The smaller of the two is computed.

Source: Erba, Troiani, Biggio, Maillard, Zdeborova, arXiv:2410.18858 (denoising problem and its quartic).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quadrature import tanh_sinh
from glassformer.random_matrices.atoms import LawNodes
from glassformer.random_matrices.rectangular_curve import ArcPoints, ProductCurve
from glassformer.random_matrices.rectangular_inverse import moment_function, shares

# Nodes of the tanh-sinh rule per arc, and on either side of a cut: exact to rounding (checked by half the nodes).
NODES, SPLIT_NODES = 161, 101
# Numbers of a temporary array: larger ones leave the cache, and the C library returns them to the system each time.
_NUMBERS_AT_ONCE = 2**12


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
    def _curve(self) -> ProductCurve:
        """The curve of the orientation with ``beta >= 1``."""
        beta, rho, noise = (np.asarray(x, dtype=float) for x in (self.beta, self.rho, self.noise))
        beta, rho, noise = np.broadcast_arrays(np.atleast_1d(beta), rho, noise)
        rho = np.where(beta < 1, rho / beta, rho)
        beta = np.where(beta < 1, 1 / beta, beta)
        return ProductCurve(beta[:, None], rho[:, None], noise[:, None])

    @property
    def support(self) -> Array:
        """Edges of the one or two bulks of singular values, shape (batch, 2, 2); NaN for a bulk that is not there.

        The first bulk starts at exactly 0 for ``beta = 1``, where the smallest singular value meets a hard wall.
        """
        return self._curve.support

    def _weighted_points(self) -> Iterator[tuple[NDArray[np.intp], ArcPoints, Array]]:
        r"""Yield for each arc, a block at a time, the elements that have it, its points and weights.

        The weights are those of :math:`\int df\,\mathrm{Im}\,m/\pi`.
        """
        rule = tanh_sinh(NODES)
        rows = max(_NUMBERS_AT_ONCE // rule.weight.size, 1)
        for arc in self._curve.arcs:
            there = np.flatnonzero(arc.exists)
            for first in range(0, there.size, rows):
                at = there[first : first + rows]
                points = self._curve.points(arc.of(at), rule.from_left, rule.from_right, at)
                with np.errstate(invalid="ignore", over="ignore"):
                    weight = points.height * points.slope * rule.weight / np.pi
                yield at, points, weight

    def _integrals(self) -> Array:
        """Return overlap, its complement relative to the noise, and both by every second node; shape (4, batch)."""
        rho, noise = self._curve.rho, self._curve.noise
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
        """Factor from means over the values to errors per entry of the signal, shape (batch,)."""
        return 1 / np.sqrt(self._curve.beta[:, 0])

    def mmse(self) -> Estimate:
        r"""Return minimal mean squared error per entry of ``S`` (prior variance 1) and its estimated error.

        Shape (batch,).

        .. math:: \mathrm{MMSE}(R) = 1 - \frac1\pi\int \frac{\mathrm{Im}\,m\;B}{B + R\rho^2}\,df
           = R\Bigl[1 - \frac{R\rho^4}\pi\int\frac{\mathrm{Im}\,m}{B\,(B + R\rho^2)}\,df\Bigr],

        the second form below ``R = 1`` and the first above. The error is the change from the rule with half the nodes,
        which bounds that of the full rule generously, plus the disagreement of the two forms beyond rounding: their
        equality is the Nishimori identity of the denoising problem, and fails if any part of the curve is missed.
        """
        overlap, deficit, coarse_overlap, coarse_deficit = self._integrals()
        R = self._curve.noise[:, 0]
        small = R < 1
        value = np.where(small, R * (1 - deficit), 1 - overlap)
        coarse = np.where(small, R * (1 - coarse_deficit), 1 - coarse_overlap)
        disagreement = np.abs((1 - overlap) - R * (1 - deficit))
        missed = np.where(disagreement > 1e-13 * np.maximum(R, 1.0), disagreement, 0.0)
        error = np.abs(value - coarse) + missed + 4e-16 * np.where(small, R, 1.0)
        # The estimates Y and 0 have the errors R and 1, so the MMSE is at most the smaller of both.
        return Estimate(value, np.minimum(error, np.minimum(R, 1.0)))

    def mass(self) -> Array:
        """Return total mass of the law, 1 up to integration error.

        The check takes as long as ``mmse``. Shape (batch,).
        """
        curve = self._curve
        total = np.zeros(len(curve.rho))
        for at, points, weight in self._weighted_points():
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                density = (
                    weight * (1 + curve.noise[at] * curve.rho[at] ** 2 / points.modulus_p) * np.sqrt(curve.beta[at])
                )
                total[at] += _finite(density / curve.square_at(points, at)).sum(axis=1)
        return total

    def nodes(self, cut: ArrayLike = 0.0) -> LawNodes:
        r"""Return a quadrature over the singular values of each law, for functions that bend at ``cut``.

        Shape (batch,).

        Integrands must be smooth on either side of the cut. The arcs of the law end where it comes close to parting in
        two, so that such places are resolved as well.

        Example:
            >>> s, weight, shrunk = RectangularLaw(beta=4.0, rho=0.5, noise=0.2).nodes(cut=1.0)
            >>> (weight[0] @ np.stack([np.ones_like(s[0]), s[0] ** 2], 1)).round(12)  # the mass, and (1 + R) sqrt(beta)
            array([1. , 2.4])
        """
        curve = self._curve
        beta, rho, noise = curve.beta, curve.rho, curve.noise
        place, rule = np.broadcast_to(np.asarray(cut, dtype=float).reshape(-1, 1), rho.shape), tanh_sinh(SPLIT_NODES)
        found = []
        for whole in curve.arcs:
            at = np.flatnonzero(whole.exists)
            if not at.size:
                continue
            arc = whole.of(at)
            below, above = shares(curve, arc, place[at], at)
            for start, width, rest in ((0.0, below, above), (below, above, 0.0)):
                points = curve.points(arc, start + width * rule.from_left, rest + width * rule.from_right, at)
                square = curve.square_at(points, at)
                shade = noise[at] * rho[at] ** 2
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    mass = points.height * points.slope * (1 + shade / points.modulus_p) / square
                    weight = _finite(width * rule.weight * np.sqrt(beta[at]) / np.pi * mass)
                values = np.sqrt(square), weight, np.sqrt(square) * points.modulus_p / (points.modulus_p + shade)
                # Laws without this arc have nodes of weight zero there.
                found.append(np.zeros((3, len(rho), rule.weight.size)))
                found[-1][:, at] = values
        return LawNodes(*np.concatenate(found, axis=2))

    def moment_function(self, s: ArrayLike) -> NDArray[np.complex128]:
        """Return ``m`` at singular values ``s > 0`` of a single law: ``Im m > 0`` inside the support, real outside."""
        s = np.asarray(s, dtype=float)
        self._require_single(s)
        return moment_function(self._curve, s.ravel()).reshape(s.shape)

    def stieltjes(self, s: ArrayLike) -> NDArray[np.complex128]:
        r"""Return boundary value :math:`h(s) + i\pi\mu(s)` of the Stieltjes transform of the symmetrised law.

        ``s`` is positive.
        """
        s, curve = np.asarray(s, dtype=float), self._curve
        m = self.moment_function(s)
        return np.asarray((1 + m + curve.noise[0, 0] * m / (1 + m / curve.rho[0, 0])) / s)

    given = None
    density_mass = 0.5

    def density(self, s: ArrayLike) -> Array:
        r"""Return density :math:`\mu(s)` of the symmetrised law: mass 1/2 on ``s > 0``; zero outside the support."""
        return self.stieltjes(s).imag / np.pi

    def hilbert(self, s: ArrayLike) -> Array:
        r"""Return the Hilbert transform :math:`h(s) = \mathrm{Re}\,G(s)`, inside and outside the support."""
        return self.stieltjes(s).real

    def denoise(self, s: ArrayLike) -> Array:
        r"""Return the optimal shrinkage :math:`\hat s = s - (2R/\sqrt\beta)[(\beta-1)/(2s) + h(s)]`, ``s > 0``.

        Inside the support the equal form :math:`s\,B/(B + R\rho^2)` is used. In the gap, where finite-size singular
        values stray, ``h`` is continued along the real branch of ``m``. Beyond the support on either side the factor
        :math:`\hat s/s` keeps its value at the edge: the continuation has a pole at ``s = 0`` for :math:`\beta > 1`,
        which no posterior mean follows, and would leave large outliers almost as they are, which come from noise more
        often than from the signal and make message passing oscillate at small sizes.
        """
        return self.shrinkage(s)[0]

    def shrinkage(self, s: ArrayLike) -> tuple[Array, Array]:
        """Return the values of :meth:`denoise` and their derivatives in ``s``."""
        s = np.asarray(s, dtype=float)
        self._require_single(s)
        curve = self._curve
        beta, rho, noise = (float(x[0, 0]) for x in (curve.beta, curve.rho, curve.noise))
        a2, a1, k = (float(x[0, 0]) for x in curve.coefficients)
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
        if self._curve.rho.size != 1:
            raise ParameterError("noise", self.noise, "a single law: densities and denoisers take no batch of laws")
        if not (np.all(np.isfinite(s)) and np.all(s > 0)):
            raise ParameterError("s", s, "finite singular values > 0")


def _finite(terms: Array) -> Array:
    """Return the terms; at the very ends of an arc a vanishing weight can meet an overflow, and adds nothing."""
    return np.where(np.isfinite(terms), terms, 0.0)
