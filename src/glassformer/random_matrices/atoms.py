r"""Laws of noisy matrices whose noiseless spectrum is given as finitely many values with weights.

Noise lifts the real line to a curve in the complex plane (free convolution by subordination). The real part ``u`` runs
over the bulks, the intervals on which the curve lies above the real line. Everything is explicit in the height of the
curve, which solves one monotone equation at each ``u``. The equations of symmetric and of rectangular matrices are in
:mod:`~glassformer.random_matrices.symmetric_atoms` and :mod:`~glassformer.random_matrices.rectangular_atoms`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quadrature import gauss_panels
from glassformer.numerics.roots import bracketed_root


class LawNodes(NamedTuple):
    """Nodes, weights that sum to 1, and denoised values at the nodes, shape (batch, nodes) each."""

    s: Array
    weight: Array
    shrunk: Array


class SpectralLaw(Protocol):
    """A batch of laws of matrices seen through noise."""

    @property
    def unit(self) -> Array:
        """Mean of a function of the values, times this, is in the unit in which errors are counted, shape (batch,)."""

    @property
    def support(self) -> Array:
        """Edges of the bulks, shape (batch, bulks, 2); NaN for a bulk that is not there."""

    def mmse(self) -> Estimate:
        """Return the least mean squared error of the signal, shape (batch,)."""

    def nodes(self, cut: ArrayLike = 0.0) -> LawNodes:
        """Return a quadrature for functions that bend at ``cut``, shape (batch,)."""

    @property
    def given(self) -> tuple[Array, Array] | None:
        """Values of the noiseless signal, ascending, and their shares, if these are given; None if it has a density."""

    @property
    def density_mass(self) -> float:
        """Mass of :meth:`density` over all values: a half for symmetrised laws."""

    def density(self, s: ArrayLike) -> Array:
        """Return the density of a single law at values ``s``."""

    def shrinkage(self, s: Array) -> tuple[Array, Array]:
        """Return the denoised values of a single law, and their derivative."""

    def denoise(self, s: ArrayLike) -> Array:
        """Return the Bayes-optimal denoiser of a single law at values ``s``."""


# Nodes per panel of the Gauss rule and of the coarser rule that it is compared with: smooth integrands agree to 1e-10
# after few halvings (chosen by trial). Panels are halved until the rules agree to this share of the whole, but not more
# often than _HALVINGS times and not beyond _MOST_PANELS; the difference that remains is part of the error.
NODES, _COARSE_NODES = 16, 11
_AGREEMENT, _HALVINGS, _MOST_PANELS = 1e-10, 30, 20_000
# Nodes of the Gauss rule that replaces a cluster of atoms: 1/(w - x) is averaged to fourteen digits.
_CLUSTER_NODES = 14
# Differences of points and atoms that are held in memory at a time.
_BLOCK = 2_000_000


class BulkPanels(NamedTuple):
    """Intervals, shape (panels, 2), in ascending order, and which of them end at an edge of a bulk."""

    ends: Array
    soft: NDArray[np.bool_]

    def nodes(self, count: int = NODES) -> tuple[Array, Array]:
        """Return the nodes and weights, shape (panels, count) each."""
        u, weight = gauss_panels(self.ends, count, self.soft[:, None])
        return u, weight


def adaptive_panels(bulks: Array, terms: Callable[[Array], Array]) -> tuple[BulkPanels, Array]:
    """Return panels that cover the bulks, and the remaining difference of two Gauss rules, one number per integrand.

    Args:
        bulks: ends of intervals at which integrands have square roots, shape (bulks, 2).
        terms: integrands at points of shape (n,), each of one sign or nearly so, shape (integrands, n).

    Example:
        >>> panels, difference = adaptive_panels(np.array([[-1.0, 1.0]]), lambda u: np.sqrt(1 - u**2)[None])
        >>> u, weight = panels.nodes()
        >>> bool(abs(np.sum(weight * np.sqrt(1 - u**2)) - np.pi / 2) < 1e-12)
        True
    """
    pending, done = BulkPanels(bulks, np.ones(len(bulks), dtype=bool)), []
    differences: list[Array] = []
    totals: list[Array] = []
    for round_ in range(_HALVINGS + 1):
        fine, coarse = (_integrals(pending, terms, count) for count in (NODES, _COARSE_NODES))
        difference = np.abs(fine - coarse)
        whole = sum(totals, np.zeros(len(fine))) + np.sum(np.abs(fine), axis=1)
        # Every panel may contribute the same share of the allowed difference.
        allowed = _AGREEMENT * whole[:, None] / max(len(pending.soft), 8)
        good = ~np.any(difference > allowed, axis=0) | (round_ == _HALVINGS) | (len(pending.soft) > _MOST_PANELS)
        done.append(BulkPanels(pending.ends[good], pending.soft[good]))
        differences.append(np.sum(difference[:, good], axis=1))
        totals.append(np.sum(np.abs(fine[:, good]), axis=1))
        if good.all():
            break
        pending = BulkPanels(_halves(pending.ends[~good]), np.tile(pending.soft[~good], 2))
    ends, soft = (np.concatenate(parts) for parts in zip(*done, strict=True))
    order = np.argsort(ends[:, 0])
    return BulkPanels(ends[order], soft[order]), np.sum(differences, axis=0)


def _integrals(panels: BulkPanels, terms: Callable[[Array], Array], count: int) -> Array:
    """Return the integral of each integrand over each panel, shape (integrands, panels)."""
    u, weight = panels.nodes(count)
    found = terms(u.ravel())
    return np.asarray(np.sum((found * weight.ravel()).reshape(len(found), len(panels.soft), count), axis=2))


def _halves(ends: Array) -> Array:
    """Return the lower halves of intervals, shape (n, 2), and then the upper halves."""
    parts = np.stack([ends[:, 0], ends.mean(axis=1), ends[:, 1]], axis=1)
    return np.concatenate([parts[:, :2], parts[:, 1:]])


def merge_close_atoms(atoms: Array, weights: Array, noise: float) -> tuple[Array, Array]:
    r"""Return fewer atoms and weights that give the same noisy law, to rounding.

    Atoms of total weight ``m`` within a width :math:`\omega`, :math:`\omega^2\le\frac12m\Delta`, are seen from points
    outside an ellipse around them: along the curve of the noisy law :math:`\sum p/|w-x|^2\le1/\Delta`. There the Gauss
    rule of their measure has the averages of :math:`1/(w-x)` to fourteen digits.

    Example:
        >>> x, p = merge_close_atoms(np.linspace(0, 0.01, 400), np.full(400, 1 / 400), noise=1.0)
        >>> len(x), round(float(p @ x**3) * 1e6, 6)
        (14, 0.250627)
    """
    if len(atoms) <= _CLUSTER_NODES:
        return atoms, weights
    mass = np.concatenate([[0.0], np.cumsum(weights)])
    found, start = [], 0
    while start < len(atoms):
        # The largest cluster that begins here, if it has more atoms than the rule has nodes.
        close = (atoms[start:] - atoms[start]) ** 2 <= 0.5 * noise * (mass[start + 1 :] - mass[start])
        end = start + int(np.flatnonzero(close)[-1]) + 1
        if end - start > _CLUSTER_NODES:
            found.append(gauss_rule(atoms[start:end], weights[start:end]))
            start = end
        else:
            found.append((atoms[start : start + 1], weights[start : start + 1]))
            start += 1
    x, p = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return x, p


def gauss_rule(atoms: Array, weights: Array, nodes: int = _CLUSTER_NODES) -> tuple[Array, Array]:
    """Return the Gauss rule of a discrete measure, by Lanczos' method with full orthogonalisation.

    Example:
        >>> x, p = gauss_rule(np.linspace(-1, 1, 50), np.full(50, 0.02), nodes=3)
        >>> bool(np.isclose(p @ x**4, np.mean(np.linspace(-1, 1, 50) ** 4)))
        True
    """
    total, middle, reach = weights.sum(), 0.5 * (atoms[0] + atoms[-1]), 0.5 * (atoms[-1] - atoms[0])
    x = (atoms - middle) / reach
    basis = np.zeros((nodes, len(x)))
    basis[0] = np.sqrt(weights / total)
    diagonal, off_diagonal = np.zeros(nodes), np.zeros(nodes - 1)
    for k in range(nodes):
        new = x * basis[k]
        diagonal[k] = new @ basis[k]
        for _ in range(2):
            new = new - (basis[: k + 1] @ new) @ basis[: k + 1]
        if k + 1 < nodes:
            off_diagonal[k] = np.linalg.norm(new)
            basis[k + 1] = new / off_diagonal[k]
    # Importing the tridiagonal solver of SciPy would take longer than most limits take to compute.
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off_diagonal, -1))
    return middle + reach * values, total * vectors[0] ** 2


class CurvePoints(NamedTuple):
    r"""The curve at real parts ``u``, shape (n,) each.

    Attributes:
        value: eigenvalue or singular value of the noisy matrix.
        weight: density of the law per unit of ``u``.
        density: density per unit of the value.
        shrunk: Bayes-optimal denoiser of the value.
        slope: of the denoiser.
        loss: its mean over the law is the least mean squared error, in the unit of the values.
    """

    value: Array
    weight: Array
    density: Array
    shrunk: Array
    slope: Array
    loss: Array


class AtomsCurve(ABC):
    """The curve of one law."""

    atoms: Array
    """Atoms that ``u`` is compared with, shape (K,)."""

    @property
    @abstractmethod
    def bulks(self) -> Array:
        """Intervals of ``u`` in which there is density, ascending, shape (bulks, 2)."""

    @abstractmethod
    def block(self, u: Array) -> CurvePoints:
        """Return the curve at few values of ``u``."""

    def at(self, u: Array) -> CurvePoints:
        """Return the curve at any number of values ``u`` inside the bulks, in blocks of bounded memory."""
        size = max(1, _BLOCK // len(self.atoms))
        parts = [self.block(u[start : start + size]) for start in range(0, len(u), size)]
        return CurvePoints(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    @cached_property
    def quadrature(self) -> tuple[BulkPanels, Array]:
        """BulkPanels for the mass and the mean of the loss, and the quadrature errors of both."""

        def terms(u: Array) -> Array:
            points = self.at(u)
            return np.stack([points.weight, points.weight * points.loss])

        return adaptive_panels(self.bulks, terms)

    @cached_property
    def nodes(self) -> tuple[CurvePoints, Array]:
        """CurvePoints at the nodes of all panels, ascending, and the weights of averages over the law."""
        u, weight = self.quadrature[0].nodes()
        points = self.at(u.ravel())
        return points, points.weight * weight.ravel()

    def mmse(self) -> tuple[float, float]:
        """Return the mean of the loss and its error: the difference of two rules and the missing mass."""
        points, weight = self.nodes
        value = float(weight @ points.loss)
        missed = abs(float(np.sum(weight)) - 1) * float(np.max(np.abs(points.loss)))
        return value, float(self.quadrature[1][1]) + missed + 4e-16 * abs(value)

    def split_at(self, cut: float) -> tuple[CurvePoints, Array]:
        """Return the quadrature of :attr:`nodes`, with the panel that contains the value ``cut`` split there."""
        points, weight = self.nodes
        panels, _ = self.quadrature
        size = len(weight) // len(panels.soft)
        inside = np.flatnonzero((self._ends[:, 0] < cut) & (cut < self._ends[:, 1]))
        if not inside.size:
            return points, weight
        index = int(inside[0])

        def excess(u: Array) -> tuple[Array, Array]:
            own = self.block(u)
            with np.errstate(divide="ignore", invalid="ignore"):
                return own.value - cut, own.weight / own.density

        middle = float(bracketed_root(excess, panels.ends[index, :1], panels.ends[index, 1:])[0])
        # Both parts are halved, so that a rule of fixed order keeps its digits.
        ends = _halves(np.array([[panels.ends[index, 0], middle], [middle, panels.ends[index, 1]]]))
        u, share = BulkPanels(ends, np.full(len(ends), panels.soft[index])).nodes()
        new = self.at(u.ravel())
        taken = np.ones(len(weight), dtype=bool)
        taken[index * size : (index + 1) * size] = False
        joined = CurvePoints(*(np.concatenate([old[taken], more]) for old, more in zip(points, new, strict=True)))
        return joined, np.concatenate([weight[taken], new.weight * share.ravel()])

    @cached_property
    def _ends(self) -> Array:
        """Values at the ends of panels, shape (panels, 2)."""
        ends = self.quadrature[0].ends
        return self.at(ends.ravel()).value.reshape(ends.shape)

    @property
    def support(self) -> Array:
        """Values at the ends of bulks, shape (bulks, 2)."""
        return self._edges[0].reshape(-1, 2)

    @cached_property
    def _edges(self) -> tuple[Array, Array]:
        """Values and denoised values at the ends of bulks, shape (2 * bulks,) each."""
        points = self.at(self.bulks.ravel())
        return points.value, points.shrunk

    def shrinkage(self, value: Array) -> tuple[Array, Array]:
        """Return denoised values and the slope of the denoiser.

        Beyond the outer edges the denoised value at the edge is kept; gaps are crossed by a straight line. Values of a
        finite matrix stray from a bulk by about the width of the bulk of a single atom, and the continued formula would
        follow this noise.
        """
        at, shrunk = self._edges
        points, _ = self.nodes
        known = _strictly_ascending(points.value, points.shrunk, points.slope)
        spline = scipy.interpolate.CubicHermiteSpline(*known, extrapolate=False)
        place = np.searchsorted(at, value)
        inside = (place % 2 == 1) & (value > points.value[0]) & (value < points.value[-1])
        found = np.interp(value, at, shrunk)
        slope = np.zeros_like(found)
        between = (place % 2 == 0) & (place > 0) & (place < len(at))
        left = np.where(between, place - 1, 0)
        slope[between] = (np.diff(shrunk) / np.maximum(np.diff(at), 1e-300))[left[between]]
        found[inside], slope[inside] = spline(value[inside]), spline(value[inside], 1)
        return found, slope

    def density(self, value: Array) -> Array:
        """Return the density at values; zero outside the bulks."""
        at, _ = self._edges
        points, _ = self.nodes
        place = np.searchsorted(at, value)
        x = np.concatenate([points.value, at])
        order = np.argsort(x)
        # The square of the density is linear at the edges.
        square = np.concatenate([points.density**2, np.zeros_like(at)])[order]
        found = scipy.interpolate.PchipInterpolator(*_strictly_ascending(x[order], square))(value)
        return np.where(place % 2 == 1, np.sqrt(np.maximum(found, 0.0)), 0.0)


def _strictly_ascending(x: Array, *more: Array) -> tuple[Array, ...]:
    """Drop entries at which ``x`` does not increase: nodes next to an edge may coincide to rounding."""
    keep = np.concatenate([[True], np.diff(np.maximum.accumulate(x)) > 1e-14 * np.abs(x[1:])])
    return tuple(part[keep] for part in (x, *more))


@dataclass(frozen=True)
class AtomsLaw(ABC):
    """A batch of laws of one matrix at several noise levels; a :class:`~glassformer.random_matrices.atoms.SpectralLaw`.

    Args:
        values: eigenvalues or singular values of the signal, distinct and ascending.
        weights: shares of them, positive, of sum one.
        noise: variance of the noise, positive; a scalar or of shape (batch,).

    Raises:
        ParameterError: an argument is out of range.
    """

    values: tuple[float, ...]
    weights: tuple[float, ...]
    noise: ArrayLike

    def __post_init__(self) -> None:
        if not (np.all(np.diff(self.values) > 0) and np.all(np.isfinite(self.values))):
            raise ParameterError("values", self.values, "finite, distinct and ascending")
        weights = np.asarray(self.weights)
        if not (len(weights) == len(self.values) and np.all(weights > 0) and abs(weights.sum() - 1) < 1e-9):
            raise ParameterError("weights", self.weights, "as many as values, positive, of sum one")
        noise = np.asarray(self.noise, dtype=float)
        if not np.all(np.isfinite(noise) & (noise > 0)):
            raise ParameterError("noise", self.noise, "finite and > 0")

    @cached_property
    def curves(self) -> list[AtomsCurve]:
        """One per noise level."""
        return [self.curve(float(noise)) for noise in np.atleast_1d(np.asarray(self.noise, dtype=float))]

    @abstractmethod
    def curve(self, noise: float) -> AtomsCurve:
        """Return the curve at one noise level."""

    @property
    @abstractmethod
    def unit(self) -> Array:
        """Factor from means over the values to errors, shape (batch,)."""

    @property
    def support(self) -> Array:
        """Edges of the bulks, shape (batch, bulks, 2); NaN for a bulk that is not there."""
        parts = [curve.support for curve in self.curves]
        found = np.full((len(parts), max(map(len, parts)), 2), np.nan)
        for row, part in zip(found, parts, strict=True):
            row[: len(part)] = part
        return found

    def mmse(self) -> Estimate:
        """Return the least mean squared error of the signal and its estimated error, shape (batch,)."""
        value, error = np.array([curve.mmse() for curve in self.curves]).T
        return Estimate(value * self.unit, error * self.unit)

    def nodes(self, cut: ArrayLike = 0.0) -> LawNodes:
        """Return a quadrature over the values of each law, for functions that bend at ``cut``, shape (batch,)."""
        cuts = np.broadcast_to(np.asarray(cut, dtype=float).ravel(), (len(self.curves),))
        parts = [curve.split_at(float(place)) for curve, place in zip(self.curves, cuts, strict=True)]
        found = np.zeros((3, len(parts), max(len(weight) for _, weight in parts)))
        for row, (points, weight) in enumerate(parts):
            found[:, row, : len(weight)] = points.value, weight, points.shrunk
        return LawNodes(*found)

    def mass(self) -> Array:
        """Return the total mass of each law, one up to integration error, shape (batch,)."""
        return np.array([np.sum(curve.nodes[1]) for curve in self.curves])

    @property
    def given(self) -> tuple[Array, Array]:
        """Values of the noiseless signal, ascending, and their shares."""
        return np.array(self.values), np.array(self.weights)

    density_mass = 1.0

    def density(self, s: ArrayLike) -> Array:
        """Return the density of a single law at values ``s``."""
        return self._single.density(np.asarray(s, dtype=float))

    def denoise(self, s: ArrayLike) -> Array:
        """Return the Bayes-optimal denoiser of a single law at noisy values."""
        return self.shrinkage(s)[0]

    def shrinkage(self, s: ArrayLike) -> tuple[Array, Array]:
        """Return the values of :meth:`denoise`, and their derivatives."""
        return self._single.shrinkage(np.asarray(s, dtype=float))

    @property
    def _single(self) -> AtomsCurve:
        if len(self.curves) != 1:
            raise ParameterError("noise", self.noise, "a single law: densities and denoisers take no batch of laws")
        return self.curves[0]
