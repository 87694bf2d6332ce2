"""Interpolated tables of the averages of a channel, with errors, and extrapolation to smaller variances."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator

from glassformer.core.estimate import Array, Estimate

# Smallest factor by which the error of a cubic spline falls with twice the nodes, for smooth functions (16 in the
# limit).
_ORDER = 8.0
# Power of the variance at its small end above which the information is taken to saturate (chosen by trial).
_BOUNDED = -0.25


class _LogSpline:
    """A cubic spline over log V, whose error is estimated from the spline through every second node.

    Args:
        x: logarithms of V, an odd number of them.
        values: at these.
    """

    def __init__(self, x: Array, values: Array) -> None:
        self._x, self._fine = x, CubicSpline(x, values)
        middle = 0.5 * (x[1:] + x[:-1])
        gap = np.abs(self._fine(middle) - CubicSpline(x[::2], values[::2])(middle)) / _ORDER
        # The largest difference over three intervals, because the two splines cross somewhere.
        self._gap = np.max([gap, np.append(gap[1:], gap[-1]), np.append(gap[0], gap[:-1])], axis=0)

    def __call__(self, x: Array) -> Estimate:
        place = np.clip(np.searchsorted(self._x, x) - 1, 0, len(self._gap) - 1)
        return Estimate(self._fine(x), self._gap[place])


class _Extrapolation(Protocol):
    """Information below the smallest variance of the table."""

    def information(self, variance: Array) -> Estimate:
        """Return the information, with the error of the extrapolation."""

    def integral(self, variance: Array) -> Array:
        """Return the integral of the information from these variances to the smallest variance of the table."""


class _Saturated(NamedTuple):
    """Information ``1/(a + b V)``, as of noisy labels that are locally linear in the field."""

    smallest: float
    a: float
    b: float

    @classmethod
    def of(cls, v: Array, information: Array) -> _Saturated:
        """Fit the two smallest variances; the information falls with the variance."""
        one, two = 1 / information[:2]
        b = max(float((two - one) / (v[1] - v[0])), 1e-300)
        return cls(float(v[0]), max(float(one - b * v[0]), 0.5 * float(one)), b)

    def information(self, variance: Array) -> Estimate:
        value = 1 / (self.a + self.b * variance)
        # The error estimate is the full effect of the slope.
        return Estimate(value, value * self.b * (self.smallest - variance) / (self.a + self.b * self.smallest))

    def integral(self, variance: Array) -> Array:
        return np.asarray(np.log1p(self.b * (self.smallest - variance) / (self.a + self.b * variance)) / self.b)


class _Power(NamedTuple):
    """Information as a power of the variance, fitted to the smallest ones, and the change of this power there."""

    smallest: float
    value: float
    slope: float
    change: float

    @classmethod
    def of(cls, v: Array, information: Array) -> _Power:
        """Fit the five smallest variances."""
        x, y = np.log(v[:5]), np.log(information[:5])
        slope, before = (y[2] - y[0]) / (x[2] - x[0]), (y[4] - y[2]) / (x[4] - x[2])
        # The information of labels is at most the information 1/V of the field itself, whose integral diverges.
        return cls(float(v[0]), float(information[0]), max(float(slope), -1 + 1e-6), abs(float(slope - before)))

    def information(self, variance: Array) -> Estimate:
        ratio = np.log(variance / self.smallest)
        value = self.value * np.exp(self.slope * ratio)
        return Estimate(value, value * self.change * np.abs(ratio))

    def integral(self, variance: Array) -> Array:
        power = self.slope + 1
        return np.asarray(self.value * self.smallest / power * -np.expm1(power * np.log(variance / self.smallest)))


class Tabulated(NamedTuple):
    r"""Information and :math:`E\log Z` at all variances up to the largest of a table.

    Attributes:
        smallest: variance of the table.
        log_information, expected: splines over log V.
        relative, error: interpolants of the relative error of the information and of the error of E log Z.
        law: extrapolation of the information to smaller variances.
    """

    smallest: float
    log_information: _LogSpline
    expected: _LogSpline
    relative: PchipInterpolator
    error: PchipInterpolator
    law: _Extrapolation

    @classmethod
    def of(cls, v: Array, rows: Array) -> Tabulated:
        """Return the table of an odd number of ascending variances.

        The rows are information and E log Z with their errors.
        """
        # A value far below its error is zero within the error. The bound keeps its logarithm and relative error finite.
        known = np.maximum(rows[:, 0], np.maximum(1e-9 * rows[:, 1], 1e-300))
        x, power = np.log(v), _Power.of(v, known)
        law = power if power.slope < _BOUNDED else _Saturated.of(v, known)
        curves = _LogSpline(x, np.log(known)), _LogSpline(x, rows[:, 2])
        return cls(
            float(v[0]), *curves, PchipInterpolator(x, rows[:, 1] / known), PchipInterpolator(x, rows[:, 3]), law
        )

    def information(self, variance: Array) -> Estimate:
        """Return the information at variances in the table and below it."""
        x, below = np.log(np.maximum(variance, self.smallest)), variance < self.smallest
        found, law = self.log_information(x), self.law.information(np.minimum(variance, self.smallest))
        value, relative = np.where(below, law.value, np.exp(found.value)), self.relative(x) + found.error
        return Estimate(value, value * relative + np.where(below, law.error, 0.0))

    def expected_log_partition(self, variance: Array) -> Estimate:
        """Return E log Z, whose slope is minus half the information."""
        x = np.log(np.maximum(variance, self.smallest))
        found, rest = self.expected(x), 0.5 * self.law.integral(np.minimum(variance, self.smallest))
        return Estimate(found.value + rest, found.error + self.error(x))
