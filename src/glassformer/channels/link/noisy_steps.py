"""Averages over noisy labels of a step function: over the mean of the field and the label, near the steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.link.field_quadrature import TAIL, Rule, normal_density
from glassformer.channels.link.normal_intervals import WINDOW, interval_mass
from glassformer.channels.link.piecewise import LinkShape
from glassformer.channels.scalar.base import Array

_BLOCK, _COLUMNS = 64, 512  # means, and labels, treated at once


@dataclass(frozen=True, eq=False)
class NoisySteps:
    """Information and expected log partition of a step function with Gaussian noise of variance ``noise``.

    The levels near a mean have probabilities in closed form, so that two smooth integrals are left, by lattices.
    """

    shape: LinkShape
    noise: float

    def __call__(self, v: float, rule: Rule) -> tuple[float, float]:
        sigma, q = np.sqrt(self.noise), max(1.0 - v, 0.0)
        spacing = 2 * rule.lattice * np.sqrt(min(v, q)) if q > 0 else 1.0
        # Means at which one level is certain carry no information.
        information, expected = 0.0, -0.5 - np.log(sigma * np.sqrt(2 * np.pi))
        certain = expected
        for omega in self._means(v, q, spacing):
            weight = normal_density(omega / np.sqrt(q)) * spacing / np.sqrt(q) if q > 0 else np.ones(1)
            weight = weight * np.where(omega > 0, 2.0, 1.0) if self._mirrored else weight
            square, log_z = self._given(omega, v, 2.5 * rule.lattice * sigma)
            information += float(weight @ square)
            expected += float(weight @ (log_z - certain))
        return information, float(expected)

    @cached_property
    def _levels(self) -> tuple[Array, Array]:
        """Intervals, ascending, shape (levels, 2), and their values."""
        intervals = np.concatenate([flat.intervals for flat in self.shape.flats])
        values = np.repeat(
            [flat.value for flat in self.shape.flats], [len(flat.intervals) for flat in self.shape.flats]
        )
        order = np.argsort(intervals[:, 0])
        return intervals[order], values[order]

    @cached_property
    def _mirrored(self) -> bool:
        """Whether means of opposite signs see the same: levels are even or odd, up to a constant."""
        intervals, values = self._levels
        mirror = np.allclose(intervals, -intervals[::-1, ::-1], rtol=0, atol=1e-9)
        slack = 1e-12 * np.max(np.abs(values))
        pairs = (values - side * values[::-1] for side in (1, -1))
        return mirror and any(np.ptp(pair) <= slack for pair in pairs)

    def _means(self, v: float, q: float, spacing: float) -> Iterator[Array]:
        """Runs of neighbouring lattice points near the steps."""
        if q == 0:
            yield np.zeros(1)
            return
        most, farthest = int(TAIL * np.sqrt(q) / spacing), TAIL * np.sqrt(q) + WINDOW * np.sqrt(v)
        steps = self._levels[0][1:, 0]
        steps = steps[np.abs(steps) < farthest]
        first, last = (
            np.clip(np.rint((steps + side * WINDOW * np.sqrt(v)) / spacing), -most, most).astype(np.int64)
            for side in (-1, 1)
        )
        apart = np.flatnonzero(first[1:] > last[:-1] + _BLOCK)
        least = 0 if self._mirrored else -most
        for low, high in zip(first[np.append(0, apart + 1)], last[np.append(apart, -1)], strict=True):
            for start in range(max(int(low), least), int(high) + 1, _BLOCK):
                yield np.asarray(spacing * np.arange(start, min(start + _BLOCK, int(high) + 1)), dtype=np.float64)

    def _given(self, omega: Array, v: float, spacing: float) -> tuple[Array, Array]:
        """Integrals over the label of its information and its log partition, shape (omega,) each."""
        (low, high), values = self._levels[0].T, self._levels[1]
        reach, sigma = WINDOW * np.sqrt(v), np.sqrt(self.noise)
        seen = (high > omega[0] - reach) & (low < omega[-1] + reach)
        ends = [(x[seen] - omega[:, None]) / np.sqrt(v) for x in (low, high)]
        mass, slope = interval_mass(*ends), normal_density(ends[0]) - normal_density(ends[1])
        square, log_z = np.zeros(omega.size), np.zeros(omega.size)
        for y in self._labels(values[seen], spacing):
            close = np.abs(values[seen] - 0.5 * (y[0] + y[-1])) < WINDOW * sigma + 0.5 * (y[-1] - y[0])
            likelihood = normal_density((y - values[seen][close, None]) / sigma) / sigma
            z, g = np.maximum(mass[:, close] @ likelihood, 1e-290), slope[:, close] @ likelihood
            square += spacing * np.sum(g * (g / z), axis=1) / v
            log_z += spacing * np.sum(z * np.log(z), axis=1)
        return square, log_z

    def _labels(self, values: Array, spacing: float) -> Iterator[Array]:
        """Lattice points near the values, a block at a time."""
        reach = int(np.ceil(WINDOW * np.sqrt(self.noise) / spacing))
        centres = np.sort(np.rint(values / spacing)).astype(np.int64)
        if np.all(np.diff(centres) <= 2 * reach + 1):
            places: NDArray[np.int64] = np.arange(centres[0] - reach, centres[-1] + reach + 1)
        else:
            places = np.unique(centres[:, None] + np.arange(-reach, reach + 1))
        for start in range(0, places.size, _COLUMNS):
            yield np.asarray(spacing * places[start : start + _COLUMNS], dtype=np.float64)
