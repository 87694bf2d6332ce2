r"""Matrices of any spectrum seen through noise: laws of what finitely many values, with weights, become.

The law is followed along a curve that noise lifts into the complex plane (free convolution by subordination): its real
part ``u`` runs over the intervals on which the curve lies above the real line, the bulks. Everything is explicit in the
height of the curve, which solves one monotone equation at each ``u``. What is special to symmetric and to rectangular
matrices is in :mod:`~glassformer.random_matrices.symmetric_atoms` and
:mod:`~glassformer.random_matrices.rectangular_atoms`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.roots import bracketed_root
from glassformer.random_matrices.nodes import LawNodes
from glassformer.random_matrices.panels import Panels, settled_panels

# Differences of points and atoms held at a time.
_BLOCK = 2_000_000


class Points(NamedTuple):
    r"""What the curve has at places ``u``, shape (n,) each.

    Attributes:
        value: eigenvalue or singular value of the noisy matrix.
        weight: density of the law per unit of ``u``.
        density: density per unit of the value.
        shrunk: what the Bayes-optimal denoiser makes of it.
        slope: of the denoiser.
        loss: its mean over the law is the least mean squared error, in the unit of the values.
    """

    value: Array
    weight: Array
    density: Array
    shrunk: Array
    slope: Array
    loss: Array


class Curve(ABC):
    """The curve of one law."""

    atoms: Array
    """What is compared with places ``u``, shape (K,)."""

    @property
    @abstractmethod
    def bulks(self) -> Array:
        """Intervals of ``u`` in which there is density, ascending, shape (bulks, 2)."""

    @abstractmethod
    def block(self, u: Array) -> Points:
        """The curve at a few places."""

    def at(self, u: Array) -> Points:
        """The curve at places ``u`` inside the bulks, of any number."""
        size = max(1, _BLOCK // len(self.atoms))
        parts = [self.block(u[start : start + size]) for start in range(0, len(u), size)]
        return Points(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    @cached_property
    def quadrature(self) -> tuple[Panels, Array]:
        """Panels that suffice for the mass and the mean of the loss, and what is left open of either."""

        def terms(u: Array) -> Array:
            points = self.at(u)
            return np.stack([points.weight, points.weight * points.loss])

        return settled_panels(self.bulks, terms)

    @cached_property
    def nodes(self) -> tuple[Points, Array]:
        """Points at the nodes of all panels, ascending, and the weights of averages over the law."""
        u, weight = self.quadrature[0].nodes()
        points = self.at(u.ravel())
        return points, points.weight * weight.ravel()

    def mmse(self) -> tuple[float, float]:
        """Mean of the loss and its error: what rules differ by, and what is missed of the mass."""
        points, weight = self.nodes
        value = float(weight @ points.loss)
        missed = abs(float(np.sum(weight)) - 1) * float(np.max(np.abs(points.loss)))
        return value, float(self.quadrature[1][1]) + missed + 4e-16 * abs(value)

    def split_at(self, cut: float) -> tuple[Points, Array]:
        """As :attr:`nodes`, with the panel in which the value is ``cut`` split there."""
        points, weight = self.nodes
        panels, _ = self.quadrature
        size = len(weight) // len(panels.soft)
        inside = np.flatnonzero((self._ends[:, 0] < cut) & (cut < self._ends[:, 1]))
        if not inside.size:
            return points, weight
        index = int(inside[0])
        low, high = panels.ends[index, :1], panels.ends[index, 1:]
        middle = float(bracketed_root(lambda u: self._beyond(u, cut), low, high)[0])
        ends = np.array([[panels.ends[index, 0], middle], [middle, panels.ends[index, 1]]])
        # Halves are halved again, towards the cut and away from it, so that a rule of fixed order keeps its digits.
        quarters = np.stack([ends[:, 0], ends.mean(axis=1), ends[:, 1]], axis=1)
        ends = np.concatenate([quarters[:, :2], quarters[:, 1:]])
        u, share = Panels(ends, np.full(len(ends), panels.soft[index])).nodes()
        new = self.at(u.ravel())
        taken = np.ones(len(weight), dtype=bool)
        taken[index * size : (index + 1) * size] = False
        joined = Points(*(np.concatenate([old[taken], more]) for old, more in zip(points, new, strict=True)))
        return joined, np.concatenate([weight[taken], new.weight * share.ravel()])

    def _beyond(self, u: Array, cut: float) -> tuple[Array, Array]:
        """By how much values are beyond a cut, and the slope of that."""
        points = self.block(u)
        with np.errstate(divide="ignore", invalid="ignore"):
            return points.value - cut, points.weight / points.density

    @cached_property
    def _ends(self) -> Array:
        """Values at the ends of panels, shape (panels, 2)."""
        ends = self.quadrature[0].ends
        return self.at(ends.ravel()).value.reshape(ends.shape)

    @cached_property
    def support(self) -> Array:
        """Values at the ends of bulks, shape (bulks, 2)."""
        ends = self.bulks
        return self.at(ends.ravel()).value.reshape(ends.shape)

    @cached_property
    def _edges(self) -> tuple[Array, Array]:
        """Values at the ends of bulks and what is made of them, shape (2 * bulks,) each."""
        points = self.at(self.bulks.ravel())
        return points.value, points.shrunk

    def shrinkage(self, value: Array) -> tuple[Array, Array]:
        """What the denoiser makes of values, and its slope; beyond the edges it is held, and across gaps a line.

        A value of a matrix of finite size strays from a bulk by about the width of the bulk of a single atom. There
        the formula would follow the noise back to it.
        """
        at, shrunk = self._edges
        points, _ = self.nodes
        known = _ascending(points.value, points.shrunk, points.slope)
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
        """Density at values; zero outside the bulks."""
        at, _ = self._edges
        points, _ = self.nodes
        place = np.searchsorted(at, value)
        x = np.concatenate([points.value, at])
        order = np.argsort(x)
        # The square is linear at the edges.
        square = np.concatenate([points.density**2, np.zeros_like(at)])[order]
        found = scipy.interpolate.PchipInterpolator(*_ascending(x[order], square))(value)
        return np.where(place % 2 == 1, np.sqrt(np.maximum(found, 0.0)), 0.0)


def _ascending(x: Array, *more: Array) -> tuple[Array, ...]:
    """Those in which ``x`` increases: nodes next to an edge may coincide to rounding."""
    keep = np.concatenate([[True], np.diff(np.maximum.accumulate(x)) > 1e-14 * np.abs(x[1:])])
    return tuple(part[keep] for part in (x, *more))


@dataclass(frozen=True)
class AtomsLaw(ABC):
    """A batch of laws of one matrix at several noise levels; a :class:`~glassformer.random_matrices.nodes.SpectralLaw`.

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
    def curves(self) -> list[Curve]:
        """One per noise level."""
        return [self.curve(float(noise)) for noise in np.atleast_1d(np.asarray(self.noise, dtype=float))]

    @abstractmethod
    def curve(self, noise: float) -> Curve:
        """The curve at one noise level."""

    @property
    @abstractmethod
    def unit(self) -> Array:
        """From means over the values to errors, shape (batch,)."""

    @property
    def support(self) -> Array:
        """Edges of the bulks, shape (batch, bulks, 2); NaN for a bulk that is not there."""
        parts = [curve.support for curve in self.curves]
        found = np.full((len(parts), max(map(len, parts)), 2), np.nan)
        for row, part in zip(found, parts, strict=True):
            row[: len(part)] = part
        return found

    def mmse(self) -> Estimate:
        """Least mean squared error of the signal and its estimated error, shape (batch,)."""
        value, error = np.array([curve.mmse() for curve in self.curves]).T
        return Estimate(value * self.unit, error * self.unit)

    def nodes(self, cut: ArrayLike = 0.0) -> LawNodes:
        """Quadrature over the values of each law, for functions that bend at ``cut``, shape (batch,)."""
        cuts = np.broadcast_to(np.asarray(cut, dtype=float).ravel(), (len(self.curves),))
        parts = [curve.split_at(float(place)) for curve, place in zip(self.curves, cuts, strict=True)]
        found = np.zeros((3, len(parts), max(len(weight) for _, weight in parts)))
        for row, (points, weight) in enumerate(parts):
            found[:, row, : len(weight)] = points.value, weight, points.shrunk
        return LawNodes(*found)

    def mass(self) -> Array:
        """Total mass of each law, one up to integration error, shape (batch,)."""
        return np.array([np.sum(curve.nodes[1]) for curve in self.curves])

    def density(self, s: ArrayLike) -> Array:
        """Density of a single law at values ``s``."""
        return self._single.density(np.asarray(s, dtype=float))

    def denoise(self, s: ArrayLike) -> Array:
        """What the Bayes-optimal denoiser of a single law makes of noisy values."""
        return self.shrinkage(s)[0]

    def shrinkage(self, s: ArrayLike) -> tuple[Array, Array]:
        """The values of :meth:`denoise`, and their derivatives."""
        return self._single.shrinkage(np.asarray(s, dtype=float))

    @property
    def _single(self) -> Curve:
        if len(self.curves) != 1:
            raise ParameterError("noise", self.noise, "a single law: densities and denoisers take no batch of laws")
        return self.curves[0]
