r"""Eigenvalues of a noisy Wishart matrix, in closed form along a curve.

The law is that of the eigenvalues of :math:`Y = S + \sqrt\Delta\,Z`, ``d x d`` and symmetric, with
:math:`S = W W^T/\sqrt{rd}`, ``W`` of shape ``(d, r)`` with standard normal entries, :math:`\rho = r/d`, and ``Z`` a
Gaussian orthogonal matrix whose off-diagonal entries have variance :math:`1/d`; all sizes large. Its Stieltjes
transform ``G`` solves

.. math:: z = \frac1G + \frac{\rho}{\sqrt\rho - G} + \Delta G .

Where ``z`` is real and ``G`` is not, the imaginary part of that equation reads
:math:`1/|G|^2 = \Delta + \rho/|\sqrt\rho - G|^2`. With :math:`s = \rho/|\sqrt\rho - G|^2` as the parameter everything
is rational:

.. math:: |G|^2 = \frac1{\Delta + s}, \qquad u = \mathrm{Re}\,G = \frac1{2\sqrt\rho}\Bigl[\frac1{\Delta+s} +
   \rho\,\frac{s-1}s\Bigr], \qquad z = 2\Delta u + \sqrt\rho\,s ,

so the Bayes-optimal denoiser :math:`\hat\lambda = z - 2\Delta\,\mathrm{Re}\,G` is :math:`\sqrt\rho\,s`: the curve is
parametrised by the *denoised* eigenvalue, and no polynomial is solved at a quadrature node. The edges are the points
with :math:`\psi = u\sqrt{\Delta+s} = \pm1`, the real roots of a quartic in ``s``; :math:`\psi` has at most two
critical points, which bracket them. In the roots of that quartic,

.. math:: \mathrm{Im}^2 G = \frac{\rho\prod_i (s - s_i)}{-4\,s^2(\Delta+s)^2} ,

which is free of cancellation at the edges.

Source: the free convolution is that of arXiv:2408.03733 and arXiv:2506.01582; the parametrisation is derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quadrature import tanh_sinh
from glassformer.numerics.roots import bracketed_root
from glassformer.random_matrices.atoms import LawNodes


def eigenvalue_at(rho: Array | float, noise: Array | float, s: Array) -> tuple[Array, Array]:
    """Return the eigenvalue, and its derivative, along the curve."""
    root = np.sqrt(rho)
    value = noise / (root * (noise + s)) + noise * root * (1 - 1 / s) + root * s
    return np.asarray(value), np.asarray(root * (1 + noise / s**2) - noise / (root * (noise + s) ** 2))


def log_s_at(z: Array, low: Array, high: Array, rho: Array | float, noise: Array | float) -> Array:
    """Return where on a piece of the curve the eigenvalue is ``z``; the nearer end where it is nowhere."""

    def condition(t: Array) -> tuple[Array, Array]:
        value, slope = eigenvalue_at(rho, noise, np.exp(t))
        return value - z, slope * np.exp(t)

    return bracketed_root(condition, low, high)


def eigenvalue_of(rho: float, noise: float, G: Array) -> tuple[Array, Array]:
    """Return the functional equation of the Stieltjes transform, and its derivative."""
    rest = np.sqrt(rho) - G
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return 1 / G + rho / rest + noise * G, -1 / G**2 + rho / rest**2 + noise


def direction_at(rho: Array | float, noise: Array | float, log_s: Array) -> tuple[Array, Array]:
    r"""Return :math:`\mathrm{Re}\,G/|G|` along the curve, and its derivative in ``log_s``."""
    s, excess = np.exp(log_s), np.expm1(log_s)
    w, root = np.sqrt(noise + s), np.sqrt(rho)
    value = 0.5 / (root * w) + 0.5 * root * excess / s * w
    slope = -0.25 * s / (root * w**3) + 0.5 * root * (w / s + 0.5 * excess / w)
    return np.asarray(value), np.asarray(slope)


# Beyond exp(+-_FAR) of its bracket no parameter of the curve lies.
_FAR = 80.0


class Edges(NamedTuple):
    """Values of ``s`` at the edges, each of shape (batch,); the inner two are NaN where there is one bulk.

    ``closest`` is the place inside a single bulk where it would part in two, NaN where there is none.
    """

    first: Array
    inner_end: Array
    inner_start: Array
    last: Array
    closest: Array


def edges(rho: Array, noise: Array) -> Edges:
    """Return the edges of a batch of laws, parameters of shape (batch,): real roots of a quartic, each in a bracket."""
    peak, dip = critical_points(rho, noise)
    two = ~np.isnan(peak)
    with np.errstate(invalid="ignore"):
        high, low = (direction_at(rho, noise, np.log(s))[0] for s in (peak, dip))
        early, late = two & (high > -1), two & (low < 1)
        gap_above, gap_below = two & (high > 1) & (low < 1), two & (low < -1) & (high > -1)
        below, above = edges_near(rho, noise)
        top = np.fmax.reduce(above, axis=1)
        first = crossing(rho, noise, -1, np.where(two & ~early, dip, 0), np.where(early, peak, np.inf), 1, below[:, 0])
        last = crossing(rho, noise, 1, np.where(late, dip, 0), np.where(two & ~late, peak, np.inf), 1, top)
        end, start = np.full_like(rho, np.nan), np.full_like(rho, np.nan)
        zero, far = np.zeros_like(rho), np.full_like(rho, np.inf)
        # A gap above the level 1 lies between a rising and a falling crossing, one below -1 the other way round.
        gaps = (
            (gap_above, 1, (zero, peak, dip), 1, above[:, 0], above[:, 1]),
            (gap_below, -1, (peak, dip, far), -1, below[:, 1], below[:, 2]),
        )
        for at, level, ends, rise, *guesses in gaps:
            if np.any(at):
                a, b, c = (x[at] for x in ends)
                end[at] = crossing(rho[at], noise[at], level, a, b, rise, guesses[0][at])
                start[at] = crossing(rho[at], noise[at], level, b, c, -rise, guesses[1][at])
        near = np.where(1 - high < low + 1, peak, dip)
        single = two & ~gap_above & ~gap_below & (near > first) & (near < last)
    return Edges(first, end, start, last, np.where(single, near, np.nan))


def critical_points(rho: Array, noise: Array) -> tuple[Array, Array]:
    r"""Return maximum and minimum of :math:`\psi`, where :math:`(\Delta+s)[1 + (2\Delta+s)/s^2] = 1/\rho`.

    NaN if there are none.

    They are the positive roots of :math:`s^3 + (1+\Delta-1/\rho)\,s^2 + 3\Delta s + 2\Delta^2`: the larger in closed
    form, the smaller from the sum of all pairs and the product, where nothing cancels.
    """
    # The sum is least where 4 Delta^2/s^3 + 3 Delta/s^2 = 1: there are two roots if it is below 1/rho there.
    lowest = largest_root(np.zeros_like(noise), -3 * noise, -4 * noise**2)
    two = rho * (noise + lowest + 2 * (noise / lowest) ** 2 + 3 * noise / lowest + 1) < 1
    peak, dip = np.full_like(rho, np.nan), np.full_like(rho, np.nan)
    if np.any(two):
        square = 1 + noise[two] - 1 / rho[two]
        dip[two] = np.maximum(largest_root(square, 3 * noise[two], 2 * noise[two] ** 2), lowest[two])
        product = 2 * noise[two] ** 2 / dip[two]
        half = 0.5 * (3 * noise[two] + product) / dip[two]
        peak[two] = np.minimum(half + np.sqrt(half**2 + product), lowest[two])
    return peak, dip


def largest_root(square: Array, linear: Array, constant: Array) -> Array:
    r"""Return largest real root of :math:`x^3 + a x^2 + b x + c`, elementwise.

    The accuracy is rounding relative to the largest root.

    Example:
        >>> largest_root(np.array([0.0, -6.0]), np.array([-3.0, 11.0]), np.array([-18.0, -6.0])).round(12)
        array([3., 3.])
    """
    p = square**2 / 9 - linear / 3
    q = square * linear / 6 - constant / 2 - (square / 3) ** 3
    with np.errstate(invalid="ignore", divide="ignore"):
        three = 2 * np.sqrt(p) * np.cos(np.arccos(np.clip(q / p**1.5, -1, 1)) / 3)
        outer = np.cbrt(q + np.copysign(np.sqrt(np.maximum(q**2 - p**3, 0.0)), q))
        root = np.where(q**2 <= p**3, three, outer + np.where(outer == 0, 0.0, p / outer))
    return np.asarray(root - square / 3)


def edges_near(rho: Array, noise: Array) -> tuple[Array, Array]:
    r"""Return where :math:`\psi` is -1 and where it is 1, to some digits.

    ``s`` in rising order, NaN last, shape (batch, 4).

    With :math:`w = \sqrt{\Delta + s}`, negative on the lower branch, both are
    :math:`\rho w^4 - 2\sqrt\rho\,w^3 + (1 - \rho - \rho\Delta)\,w^2 + 2\sqrt\rho\,\Delta w - \Delta = 0`.
    """
    root, companion = np.sqrt(rho), np.zeros((len(rho), 4, 4))
    companion[:, [1, 2, 3], [0, 1, 2]] = 1
    with np.errstate(over="ignore", divide="ignore"):
        top = np.stack([2 / root, 1 + noise - 1 / rho, -2 * noise / root, noise / rho], axis=1)
    known = np.isfinite(top).all(axis=1, keepdims=True)
    companion[:, 0] = np.where(known, top, 0.0)
    w = np.where(known, np.linalg.eigvals(companion), np.nan)
    s = np.where(np.abs(w.imag) < 1e-6 * np.abs(w.real), w.real**2 - noise[:, None], np.nan)
    s = np.where(s > 0, s, np.nan)
    return np.sort(np.where(w.real < 0, s, np.nan), axis=1), np.sort(np.where(w.real > 0, s, np.nan), axis=1)


def crossing(rho: Array, noise: Array, level: float, low: Array, high: Array, rise: float, near: Array) -> Array:
    r"""Return where in ``[low, high]`` the monotone :math:`\psi` is at a level.

    The search starts near another value of ``s`` if it is known.
    """

    def condition(t: Array) -> tuple[Array, Array]:
        value, slope = direction_at(rho, noise, t)
        # Close to linear in log s where psi is large.
        return rise * (np.arcsinh(value) - np.arcsinh(level)), rise * slope / np.sqrt(1 + value**2)

    with np.errstate(divide="ignore"):
        first, last = np.maximum(np.log(low), -_FAR), np.minimum(np.log(high), _FAR)
    # A bulk of noise may be so short in log s that its ends are needed to the last digit.
    return np.exp(bracketed_root(condition, first, last, last_step=1e-13, start=np.log(near)))


Flags = NDArray[np.bool_]

# Nodes of the tanh-sinh rule per piece, and on either side of a cut: exact to rounding (checked by half the nodes).
NODES, SPLIT_NODES = 161, 101
# A bulk whose ends differ by less in log s is integrated over the angle of G, with this many nodes: exact to rounding.
_NARROW, _ANGLES = 0.1, 33


class _Piece(NamedTuple):
    """Part of a bulk between two values of ``s``, shape (batch,) each, and the elements that have it."""

    low: Array
    high: Array
    exists: Flags


class _Points(NamedTuple):
    r"""Quadrature over a piece, arrays of shape (elements, nodes).

    Attributes:
        at: elements of the batch, as flags of shape (batch,).
        log_s: parameter of the curve.
        height: :math:`\mathrm{Im}\,G`.
        weight: weights of :math:`\int\mu\,dz`; every second node with twice the weight is a coarser quadrature.
        rounding: relative error of the integral from rounding, shape (elements,).
    """

    at: Flags
    log_s: Array
    height: Array
    weight: Array
    rounding: Array


@dataclass(frozen=True)
class SymmetricLaw:
    r"""Law of the eigenvalues of :math:`S + \sqrt\Delta\,Z`; see the module for symbols and normalisation.

    Equation :eq:`symmetric-law` of the documentation.

    Args:
        rho: width ratio :math:`r/d > 0`.
        noise: noise level :math:`\Delta > 0`, in units where ``Z`` has off-diagonal variance ``1/d``.

    Both are scalars or arrays of shape ``(batch,)``. ``mmse`` and ``support`` work on the batch; ``density``,
    ``hilbert`` and ``denoise`` belong to a single law.

    Raises:
        ParameterError: a parameter is out of range or not finite.

    Example:
        >>> law = SymmetricLaw(rho=0.5, noise=0.1)
        >>> float(law.mmse().value[0])  # below the prior variance 1 and below the noise 0.1
        0.0665414...
        >>> law.support.shape  # one or two bulks, each with two edges
        (1, 2, 2)
    """

    rho: ArrayLike
    noise: ArrayLike

    def __post_init__(self) -> None:
        for name in ("rho", "noise"):
            value = np.asarray(getattr(self, name), dtype=float)
            if not np.all(np.isfinite(value) & (value > 0)):
                raise ParameterError(name, getattr(self, name), "finite and > 0")

    @cached_property
    def _parameters(self) -> tuple[Array, Array]:
        """``rho`` and ``noise``, each of shape (batch,)."""
        rho, noise = np.broadcast_arrays(*(np.atleast_1d(np.asarray(x, dtype=float)) for x in (self.rho, self.noise)))
        return rho, noise

    @cached_property
    def _edges(self) -> Edges:
        return edges(*self._parameters)

    @cached_property
    def _pieces(self) -> tuple[_Piece, _Piece]:
        """The bulks from the smallest to the largest eigenvalue; a single one is cut where it nearly parts in two."""
        first, end, start, last, closest = self._edges
        two, cut = ~np.isnan(end), ~np.isnan(closest)
        below = np.where(two, end, np.where(cut, closest, last))
        above = np.where(two, start, np.where(cut, closest, last))
        return _Piece(first, below, np.ones_like(two)), _Piece(above, last, two | cut)

    def _height(self, s: Array, at: Flags) -> Array:
        r"""Return :math:`\mathrm{Im}\,G` at values ``s``, shape (batch, nodes), in the bulks of the elements ``at``."""
        rho, noise = (x[at, None] for x in self._parameters)
        first, end, start, last, _ = (x[at, None] for x in self._edges)
        # Roots that are no edges come as one quadratic factor, from the sum and the product of all four.
        half = 1 / rho + 1 - noise - 0.5 * (first + last)
        with np.errstate(invalid="ignore"):
            pair = (s - half) ** 2 + (noise**2 / (first * last) - half**2)
            rest = np.where(np.isnan(end), pair, (s - end) * (s - start))
        inside = np.maximum((s - first) * (last - s) * rest, 0.0)
        return np.asarray(0.5 * np.sqrt(rho * inside) / (s * (noise + s)))

    def _weighted_points(self) -> Iterator[_Points]:
        r"""Yield quadratures of :math:`\int\mu\,dz` over the pieces; narrow bulks have one of their own."""
        for low, high, exists in self._pieces:
            ends = np.log(low), np.log(high)
            # Without a cut, between -1 and 1, psi is monotone.
            rising = np.isnan(self._edges.closest) & (direction_at(*self._parameters, ends[0])[0] < 0)
            rising &= direction_at(*self._parameters, ends[1])[0] > 0
            narrow = exists & rising & (ends[1] - ends[0] < _NARROW)
            for at, points in ((exists & ~narrow, self._points_along_curve), (narrow, self._points_over_angle)):
                if np.any(at):
                    yield points(at, ends[0][at], ends[1][at])

    def _points_along_curve(self, at: Flags, low: Array, high: Array) -> _Points:
        r"""Return nodes between two values of ``log s``.

        A bulk from ``s`` to ``s + w`` has a mass proportional to the square of ``w``, and where :math:`\psi` hardly
        rises between its ends they are known to few digits.
        """
        rule, rounding = tanh_sinh(NODES), np.zeros(len(low))
        rho, noise = (x[at] for x in self._parameters)
        for end in (low, high):
            # Where one bulk is cut in two nothing is lost.
            slope = np.where(end == np.log(self._edges.closest[at]), np.inf, direction_at(rho, noise, end)[1])
            rounding += 4e-16 * (2 + np.abs(end) + 1 / np.abs(slope)) / (high - low)
        length = (high - low)[:, None]
        log_s = low[:, None] + length * rule.from_left
        s, height = np.exp(log_s), self._height(np.exp(log_s), at)
        weight = height / np.pi * eigenvalue_at(rho[:, None], noise[:, None], s)[1] * s * length * rule.weight
        return _Points(at, log_s, height, weight, rounding)

    def _points_over_angle(self, at: Flags, low: Array, high: Array) -> _Points:
        r"""Return nodes at equal steps of the angle of ``G`` in a bulk in which :math:`\psi` rises from -1 to 1.

        With :math:`\mathrm{Im}\,G = |G|\sqrt{1-\psi^2}` no digits are lost, however close the two ends are.
        """
        angle, step = np.linspace(0, np.pi, _ANGLES, retstep=True)
        psi, (rho, noise) = -np.cos(angle), (x[at, None] for x in self._parameters)

        def condition(log_s: Array) -> tuple[Array, Array]:
            value, slope = direction_at(rho, noise, log_s)
            return value - psi, slope

        start = low[:, None] + (high - low)[:, None] * 0.5 * (1 + psi)
        first, last = (np.broadcast_to(end[:, None], start.shape) for end in (low, high))
        log_s = bracketed_root(condition, first, last, last_step=1e-13, start=start)
        s = np.exp(log_s)
        height = np.sin(angle) / np.sqrt(noise + s)
        slope = eigenvalue_at(rho, noise, s)[1] * s / direction_at(rho, noise, log_s)[1]
        return _Points(at, log_s, height, height / np.pi * slope * np.sin(angle) * step, 1e-15 * np.abs(low))

    @property
    def unit(self) -> Array:
        """Factor from means over the values to errors per dimension, shape (batch,)."""
        return np.ones(len(self._parameters[0]))

    def mmse(self) -> Estimate:
        r"""Return minimal mean squared error :math:`E\|S - \hat S\|_F^2/d`, and its estimated error, shape (batch,).

        .. math:: \mathrm{MMSE} = 1 - \rho\int (s-1)^2\,\mu\,dz
           = \Delta\Bigl[1 - \frac{4\pi^2}3\Delta\int\mu^3 dz\Bigr],

        the second form below :math:`\Delta = 1`. It is 1 before any data: the mean :math:`\sqrt\rho\,I` is known. The
        error is the change from the rule with half the nodes, plus the disagreement of the two forms beyond rounding
        (their equality is the Nishimori identity of the denoising problem), plus what rounding of the edges makes of
        narrow bulks.
        """
        rho, noise = self._parameters
        total, rounding = np.zeros((4, len(rho))), np.zeros((2, len(rho)))
        for at, log_s, height, weight, error in self._weighted_points():
            parts = rho[at, None] * np.expm1(log_s) ** 2 * weight, 4 / 3 * noise[at, None] * height**2 * weight
            for row, part in enumerate(parts):
                total[row, at] += part.sum(axis=1)
                total[row + 2, at] += 2 * part[:, ::2].sum(axis=1)
                rounding[row, at] += error * part.sum(axis=1)
        overlap, deficit, coarse_overlap, coarse_deficit = total
        small = noise < 1
        value = np.where(small, noise * (1 - deficit), 1 - overlap)
        coarse = np.where(small, noise * (1 - coarse_deficit), 1 - coarse_overlap)
        disagreement = np.abs((1 - overlap) - noise * (1 - deficit))
        # The forms differ by what is missed of the mass of the law, times the noise in one of them.
        missed = disagreement / np.maximum(noise, 1.0)
        missed = np.where(missed > 1e-11, missed, 0.0) + np.where(small, rounding[1], rounding[0])
        return Estimate(value, np.abs(value - coarse) + (missed + 1e-14) * np.where(small, noise, 1.0))

    def nodes(self, cut: ArrayLike = 0.0) -> LawNodes:
        r"""Return a quadrature over the eigenvalues of each law, for functions that bend at ``cut``, shape (batch,).

        Example:
            >>> z, weight, shrunk = SymmetricLaw(rho=0.5, noise=0.1).nodes(cut=1.0)
            >>> (weight[0] @ np.stack([np.ones_like(z[0]), z[0], z[0] ** 2], 1)).round(12)  # 1, sqrt(rho), 1 + rho + R
            array([1.        , 0.70710678, 1.6       ])
        """
        place = np.broadcast_to(np.asarray(cut, dtype=float).ravel(), self._parameters[0].shape)
        rule, found = tanh_sinh(SPLIT_NODES), []
        for low, high, exists in self._pieces:
            if not np.any(exists):
                continue
            rho, noise = (x[exists, None] for x in self._parameters)
            ends = np.log(low[exists, None]), np.log(high[exists, None])
            middle = log_s_at(place[exists, None], *ends, rho, noise)
            for start, end in ((ends[0], middle), (middle, ends[1])):
                s = np.exp(start + (end - start) * rule.from_left)
                z, slope = eigenvalue_at(rho, noise, s)
                weight = self._height(s, exists) / np.pi * slope * s * (end - start) * rule.weight
                found.append(np.zeros((3, len(place), rule.weight.size)))
                found[-1][:, exists] = z, weight, np.sqrt(rho) * s
        return LawNodes(*np.concatenate(found, axis=2))

    def mass(self) -> Array:
        """Return the total mass of the law, 1 up to integration error, shape (batch,)."""
        total = np.zeros(len(self._parameters[0]))
        for at, _, _, weight, _ in self._weighted_points():
            total[at] += weight.sum(axis=1)
        return total

    @cached_property
    def support(self) -> Array:
        """Edges of the one or two bulks of eigenvalues, shape (batch, 2, 2); NaN for a bulk that is not there."""
        first, end, start, last, _ = self._edges
        two = ~np.isnan(end)
        with np.errstate(invalid="ignore"):
            a, b, c, e = (eigenvalue_at(*self._parameters, s)[0] for s in (first, end, start, last))
        lower = np.stack([a, np.where(two, b, e)], axis=1)
        return np.stack([lower, np.stack([c, np.where(two, e, np.nan)], axis=1)], axis=1)

    def stieltjes(self, z: ArrayLike) -> NDArray[np.complex128]:
        r"""Return the boundary value :math:`h(z) + i\pi\mu(z)` of the Stieltjes transform of a single law."""
        points = np.asarray(z, dtype=float)
        return self._solve(points.ravel())[2].reshape(points.shape)

    given = None
    density_mass = 1.0

    def density(self, z: ArrayLike) -> Array:
        r"""Return the density :math:`\mu(z)`, of mass 1; zero outside the support."""
        return self.stieltjes(z).imag / np.pi

    def hilbert(self, z: ArrayLike) -> Array:
        r"""Return the Hilbert transform :math:`h(z) = \mathrm{Re}\,G(z)`, inside and outside the support."""
        return self.stieltjes(z).real

    def denoise(self, z: ArrayLike) -> Array:
        r"""Return optimal shrinkage :math:`\hat\lambda = \lambda - 2\Delta\,\mathrm{Re}\,G(\lambda)` of eigenvalues.

        Beyond the support the shrinkage towards the mean, :math:`(\hat\lambda - \sqrt\rho)/(\lambda - \sqrt\rho)`,
        keeps its value at the edge. The continued formula would leave outlying eigenvalues almost as they are; more
        often than from the signal they come from noise that is not quite Gaussian, and passing them on makes message
        passing unstable at small sizes. In a gap ``G`` is continued along its real branch.
        """
        return self.shrinkage(z)[0]

    def shrinkage(self, z: ArrayLike) -> tuple[Array, Array]:
        """Return the values of :meth:`denoise` and their derivatives."""
        points = np.asarray(z, dtype=float)
        low, high, mean = self.support[0, 0, 0], np.nanmax(self.support[0]), np.sqrt(self._parameters[0][0])
        held = np.clip(points, low, high)
        estimate, slope, _ = (x.reshape(points.shape) for x in self._solve(held.ravel()))
        factor = (estimate - mean) / np.where(held == mean, 1.0, held - mean)
        # The signal is positive: so is its posterior mean.
        beyond = np.maximum(mean + factor * (points - mean), 0.0)
        outside = points != held
        return np.where(outside, beyond, estimate), np.where(outside, np.where(beyond > 0, factor, 0.0), slope)

    def _solve(self, z: Array) -> tuple[Array, Array, NDArray[np.complex128]]:
        """Return the denoised eigenvalue, its derivative and the boundary value of ``G`` at each ``z``."""
        if self._parameters[0].size != 1:
            raise ParameterError("noise", self.noise, "a single law: densities and denoisers take no batch of laws")
        if not np.all(np.isfinite(z)):
            raise ParameterError("z", z, "finite eigenvalues")
        edges = self.support[0]
        estimate, slope, G = np.empty_like(z), np.empty_like(z), np.empty(z.shape, dtype=complex)
        inside = np.any((z[:, None] >= edges[:, 0]) & (z[:, None] <= edges[:, 1]), axis=1)
        for members, solve in ((inside, self._solve_inside), (~inside, self._solve_outside)):
            if np.any(members):
                estimate[members], slope[members], G[members] = solve(z[members])
        return estimate, slope, G

    def _solve_inside(self, z: Array) -> tuple[Array, Array, NDArray[np.complex128]]:
        """Solve inside a bulk, where the eigenvalue increases with ``s``."""
        rho, noise = (float(x[0]) for x in self._parameters)
        first, end, start, last, _ = (float(x[0]) for x in self._edges)
        second = z > self.support[0, 0, 1]
        low = np.where(second, start, first)
        high = np.where(second | np.isnan(end), last, end)
        s = np.exp(log_s_at(z, np.log(low), np.log(high), rho, noise))
        one = np.ones(1, dtype=bool)
        u = direction_at(rho, noise, np.log(s))[0] / np.sqrt(noise + s)
        with np.errstate(divide="ignore"):
            slope = np.sqrt(rho) / eigenvalue_at(rho, noise, s)[1]
        return np.sqrt(rho) * s, slope, u + 1j * self._height(s[None], one)[0]

    def _solve_outside(self, z: Array) -> tuple[Array, Array, NDArray[np.complex128]]:
        """Solve on the real branches, on which ``z`` decreases with ``G``."""
        rho, noise = (float(x[0]) for x in self._parameters)
        edges = self.support[0]
        roots = np.array([float(x[0]) for x in self._edges[:4]])
        with np.errstate(invalid="ignore"):
            g = direction_at(rho, noise, np.log(roots))[0] / np.sqrt(noise + roots)
        below, above = z < edges[0, 0], z > np.nanmax(edges)
        with np.errstate(divide="ignore"):
            tiny = 0.5 / (np.abs(z) + np.sqrt(rho) + 1 / np.sqrt(rho) + np.sqrt(noise))
        low = np.where(below, g[0], np.where(above, 0.0, g[2]))
        high = np.where(below, 0.0, np.where(above, g[3], g[1]))
        low, high = np.where(above, np.minimum(tiny, g[3]), low), np.where(below, np.maximum(-tiny, g[0]), high)

        def condition(G: Array) -> tuple[Array, Array]:
            return z - eigenvalue_of(rho, noise, G)[0], -eigenvalue_of(rho, noise, G)[1]

        G = bracketed_root(condition, low, high)
        return z - 2 * noise * G, 1 - 2 * noise / eigenvalue_of(rho, noise, G)[1], G.astype(complex)
