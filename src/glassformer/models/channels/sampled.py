"""Channels whose averages are sampled: tabulated once, with their error estimates, and interpolated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr

from glassformer.core.kept import kept
from glassformer.core.numerics.extrapolation import remainder
from glassformer.core.numerics.quasi_random import confident, mean_and_error, normal_points
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.models.channels.control_variates import information
from glassformer.models.channels.scalar import Array, Integral, ScalarChannel

# Variances of the table, on a logarithmic grid, and the sampled data points at each: replicas times points.
_SMALLEST, _NODES = 1e-4, 17
_REPLICAS, _POINTS = 8, 1024


def require_data(tokens: int, work: float) -> None:
    """Raise if averages over posteriors of which each takes so many operations cannot be had.

    Example:
        >>> require_data(4, 1e6)
    """
    data = _NODES * _REPLICAS * _POINTS
    memory = 8.0 * _REPLICAS * _POINTS * 10 * tokens**2
    require_resources("tokens", tokens, memory, "use fewer tokens", data * float(work), "averages")


def parts_of(count: int, most: int) -> Iterator[tuple[int, slice]]:
    """Parts of so many data points at most, with the number of the replica that each is of.

    Posteriors of a replica are sampled with points of its own: were these the same for all data, no spread of replicas
    would tell their error.

    Example:
        >>> [(replica, part.start, part.stop) for replica, part in parts_of(20, 2)][:3]
        [(0, 0, 2), (0, 2, 3), (1, 3, 5)]
    """
    each = max(1, -(-count // _REPLICAS))
    for replica in range(_REPLICAS):
        end = min((replica + 1) * each, count)
        for start in range(replica * each, end, most):
            yield replica, slice(start, min(start + most, end))


def uniform_of(replica: int, shifts: Array, points: int) -> Array:
    """Uniform points for posteriors of a replica, two halves one after the other, shape (data, 2 points, dimensions).

    Quasi-random points of its own, moved around the circle by the shifts of each data point, shape (data, dimensions).
    """
    dimensions = shifts.shape[1]
    own = ndtr(normal_points(dimensions, points, 2 * _REPLICAS)[2 * replica : 2 * replica + 2])
    moved = (own.reshape(2 * points, dimensions) + shifts[:, None]) % 1
    return np.asarray(np.clip(moved, 1e-16, 1 - 1e-16))


def shifts_of(count: int, dimensions: int) -> Array:
    """Those of so many data points, always the same."""
    return np.random.default_rng(0).random((count, dimensions))


class Posterior(NamedTuple):
    """Sampled posterior of the field of each data point.

    Attributes:
        first, second: two independent estimates of the score, shape (n, K): their product estimates its square
            without the bias of sampling noise.
        curvature: minus its divergence, shape (n,).
        log_partition: shape (n,).
    """

    first: Array
    second: Array
    curvature: Array
    log_partition: Array

    @property
    def score(self) -> Array:
        """The better of the estimates: their mean."""
        return 0.5 * (self.first + self.second)

    @property
    def square(self) -> Array:
        """Squared score, free of the bias of sampling noise, shape (n,)."""
        return np.asarray(np.sum(self.first * self.second, axis=1))


class _Curves(NamedTuple):
    """Interpolants over log V of log(information), its relative error, E log Z and the error of that."""

    information: PchipInterpolator
    information_error: PchipInterpolator
    expected: PchipInterpolator
    expected_error: PchipInterpolator
    slope: float


class SampledChannel(ScalarChannel):
    """A channel that knows how to sample the posterior of its field, and no closed form for its averages."""

    power: float

    even = False
    noiseless = False

    @property
    @abstractmethod
    def components(self) -> int:
        """Components of the field of one data point."""

    @property
    @abstractmethod
    def source_dimensions(self) -> int:
        """Normal numbers a label consumes beside its field."""

    @property
    @abstractmethod
    def coarser(self) -> tuple[SampledChannel, ...]:
        """The same channel with a fourth and a sixteenth of the work on each posterior; none where it is exact."""

    @abstractmethod
    def label_from(self, field: Array, source: Array) -> Array:
        """Labels from fields, shape (n, K), and standard normal numbers, shape (n, source_dimensions)."""

    @abstractmethod
    def posterior(self, y: Array, omega: Array, variance: Array | float) -> Posterior:
        """Posterior of the field of each of n data points."""

    @property
    def field_components(self) -> tuple[int, ...]:
        return (self.components,)

    def at_power(self, power: float) -> ScalarChannel:
        return replace(self, power=power)  # type: ignore[type-var]

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        return self.label_from(h, rng.standard_normal((len(h), self.source_dimensions)))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.posterior(y, omega, variance).score

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.posterior(y, omega, variance).curvature

    def score_and_curvature(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        """Scores and slopes; the slopes are the squared scores where those are smaller on average.

        Sampled second moments carry an error of about one per cent of ``K/V``, more than the slope itself where labels
        say little. On average the two are equal (Nishimori), and the smaller one claims less.
        """
        found = self.posterior(y, omega, variance)
        return found.score, min(found.square, found.curvature, key=np.mean)

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.posterior(y, omega, variance).log_partition

    def information(self, variance: Array) -> Integral:
        x = np.log(np.asarray(variance, dtype=float))
        curves = self._curves
        inside = np.maximum(x, np.log(_SMALLEST))
        # Below the table the information goes on as the power of V that its last nodes show.
        value = np.exp(curves.information(inside) + curves.slope * np.minimum(x - np.log(_SMALLEST), 0.0))
        return Integral(value, value * curves.information_error(inside))

    def expected_log_partition(self, variance: Array) -> Integral:
        x = np.maximum(np.log(np.asarray(variance, dtype=float)), np.log(_SMALLEST))
        return Integral(self._curves.expected(x), self._curves.expected_error(x))

    @cached_property
    def _curves(self) -> _Curves:
        grid = np.geomspace(_SMALLEST, 1.0, _NODES)
        rows = kept(lambda: self._table(grid), self, grid)
        # A value lost in its error is as good as none, but its logarithm and relative error stay finite.
        known = np.maximum(rows[:, 0], np.maximum(1e-9 * rows[:, 1], 1e-300))
        x, information, relative = np.log(grid), np.log(known), rows[:, 1] / known
        slope = float((information[2] - information[0]) / (x[2] - x[0]))
        first, second, third, last = (PchipInterpolator(x, c) for c in (information, relative, *rows[:, 2:].T))
        return _Curves(first, second, third, last, slope)

    def _table(self, grid: Array) -> Array:
        return np.array([self.averages_at(float(v)) for v in track(grid, f"averages of the {self.label} channel")])

    def averages_at(self, v: float, data: int = _POINTS) -> tuple[float, float, float, float]:
        """Information and expected log partition, each with its error estimate; the same points for every V.

        ``data`` is the number of sampled data points per replica, a power of two; errors have a confidence of 95 % and
        count what posteriors of a fourth and a sixteenth of the fields say is missing.
        """
        size = self.components
        points = normal_points(2 * size + self.source_dimensions, data, _REPLICAS)
        t, u, source = np.split(points.reshape(-1, points.shape[-1]), [size, 2 * size], axis=1)
        omega = np.sqrt(max(self.power - v, 0.0)) * t
        labels = self.label_from(omega + np.sqrt(v) * u, source)
        found = [channel.posterior(labels, omega, v) for channel in (self, *self.coarser)]
        grid = (_REPLICAS, data)
        levels = [[part.reshape(*grid, 1, -1) for part in (f.first, f.second, f.curvature)] for f in found]
        replicas, missing = information(levels, (u / np.sqrt(v)).reshape(*grid, 1, -1), np.array([[v]]), data)
        log_z = [f.log_partition.reshape(grid).mean(axis=1) for f in found]
        (value, error), (expected, expected_error) = mean_and_error(replicas[:, 0, 0]), mean_and_error(log_z[0])
        standard, missing_log = confident(_REPLICAS), remainder([np.mean(part) for part in log_z])
        return (
            float(value),
            float(standard * error + np.abs(missing[0, 0])),
            float(expected),
            float(standard * expected_error + np.abs(missing_log)),
        )
