"""Channels whose averages are sampled: tabulated once, with their error estimates, and interpolated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from glassformer.channels.control_variates import information
from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.channels.scalar.tabulated import Tabulated
from glassformer.core.cache import cached_array
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error, normal_points
from glassformer.numerics.sequences import remaining_change


@dataclass(frozen=True)
class Averages:
    """Over how many data points averages are tabulated, and where."""

    smallest: float = 1e-4  # variance of the table
    per_decade: int = 4  # its nodes
    replicas: int = 8  # of the sampled data points at each
    points: int = 1024  # of a replica


_POLICY = Averages()


def require_data(tokens: int, work: float) -> None:
    """Raise if averages over posteriors of which each takes so many operations cannot be had.

    Example:
        >>> require_data(4, 1e6)
    """
    data = 17 * _POLICY.replicas * _POLICY.points
    memory = 8.0 * _POLICY.replicas * _POLICY.points * 10 * tokens**2
    require_resources("tokens", tokens, memory, "use fewer tokens", data * float(work), "averages")


class Posterior(NamedTuple):
    """Sampled posterior of the field of each data point.

    Attributes:
        first, second: two independent estimates of the score, shape (n, K): their product estimates its square
            without the bias of sampling noise.
        curvature: minus its divergence, shape (n,).
        log_partition: shape (n,).
        fewer: means of what fourths and then sixteenths of the fields give.
    """

    first: Array
    second: Array
    curvature: Array
    log_partition: Array
    fewer: tuple[Posterior, ...] = ()

    @property
    def score(self) -> Array:
        """The better of the estimates: their mean."""
        return 0.5 * (self.first + self.second)

    @property
    def square(self) -> Array:
        """Squared score, free of the bias of sampling noise, shape (n,)."""
        return np.asarray(np.sum(self.first * self.second, axis=1))


def weighed(
    log_weight: Array, scores: Array, bend: Array, blind: Array | None = None, shares: Sequence[int] = (1, 4, 16)
) -> Posterior:
    """Posteriors from weighted fields, two halves one after the other on the last axis of all arrays.

    Ratios of sums have a bias of one over the fields: twice the whole less its halves is free of the leading part.

    Args:
        log_weight: likelihood times prior over sampling density, shape (n, 2 fields).
        scores: what each field says of the score, shape (n, K, 2 fields).
        bend: of its slope, less the square of its mean, shape (n, 2 fields).
        blind: unit vector along which labels say nothing, so that what is found there is noise.
        shares: numbers of parts that the fields are taken in, with the whole first.
    """
    top = np.max(log_weight, axis=1, keepdims=True)
    weight, finest = np.exp(log_weight - top), 2 * max(shares)
    values = np.concatenate([np.ones_like(bend)[:, None], bend[:, None], scores], axis=1)
    values *= weight[:, None]
    sums = values.reshape(*values.shape[:2], 2, finest, -1).sum(axis=-1)
    found = [_of_parts(sums.reshape(*sums.shape[:3], share, 2, -1).sum(axis=-1), blind) for share in shares]
    unit = top[:, 0] - np.log(bend.shape[1])
    whole, *fewer = (part._replace(log_partition=part.log_partition + unit) for part in found)
    return whole._replace(fewer=tuple(fewer))


def _of_parts(sums: Array, blind: Array | None) -> Posterior:
    """Means over parts, from sums of weights, bends and scores of shape (n, 2 + K, 2, parts, 2): halves of halves."""
    whole, parts = sums.sum(axis=-1), sums.shape[3]
    one, few = _ratio(whole), _ratio(sums).mean(axis=-1)
    mean = np.where(np.isfinite(few), 2 * one - few, one)
    # A half without any weight is replaced by the other.
    mean = np.nan_to_num(np.where(np.isfinite(mean), mean, mean[:, :, ::-1])).mean(axis=-1)
    first, second = mean[:, 1:, 0], mean[:, 1:, 1]
    if blind is not None:
        first, second = (part - (part @ blind)[:, None] * blind for part in (first, second))
    # The product of means over independent halves: their squares would carry the sampling noise of each.
    curvature = np.sum(first * second, axis=1) + mean[:, 0].mean(axis=-1)
    mass, half = whole[:, 0].sum(axis=1) * parts, 2 * sums[:, 0].sum(axis=1) * parts
    log_half = np.log(np.maximum(half, 1e-300)).mean(axis=-1)
    log_mass = np.log(np.maximum(mass, 1e-300))
    log_z = np.where(np.all(half > 0, axis=-1), 2 * log_mass - log_half, log_mass).mean(axis=-1)
    return Posterior(first, second, curvature, log_z)


def _ratio(sums: Array) -> Array:
    """Over the weights, which come first; nan where there are none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(sums[:, :1] > 0, sums[:, 1:] / sums[:, :1], np.nan))


def in_parts(
    count: int, most: int, dimensions: int, fields: int, block: Callable[[slice, Array], Posterior]
) -> Posterior:
    """Posteriors of so many data points, of some at a time.

    Args:
        count: data points.
        most: of one part.
        dimensions: of the points that one posterior is sampled with.
        fields: of each half.
        block: posteriors of a part of the data, from uniform points of shape (data, 2 fields, dimensions).
    """
    # Those of every data point and half, always the same.
    shifts = np.random.default_rng(0).random((count, 2, dimensions))
    return _joined([block(part, _uniform(k, shifts[part], fields)) for k, part in _parts(count, most)])


def _parts(count: int, most: int) -> Iterator[tuple[int, slice]]:
    """Parts of so many data points at most, with the number of the replica that each is of.

    Posteriors of a replica are sampled with points of its own: were these the same for all data, no spread of replicas
    would tell their error.

    Example:
        >>> [(replica, part.start, part.stop) for replica, part in _parts(20, 2)][:3]
        [(0, 0, 2), (0, 2, 3), (1, 3, 5)]
    """
    each = max(1, -(-count // _POLICY.replicas))
    for replica in range(_POLICY.replicas):
        end = min((replica + 1) * each, count)
        for start in range(replica * each, end, most):
            yield replica, slice(start, min(start + most, end))


def _uniform(replica: int, shifts: Array, points: int) -> Array:
    """Uniform points for posteriors of a replica, two halves one after the other, shape (data, 2 points, dimensions).

    Quasi-random points of its own, moved around the circle by the shifts of each data point and half.
    """
    count, _, dimensions = shifts.shape
    own = ndtr(normal_points(dimensions, points, 2 * _POLICY.replicas)[2 * replica : 2 * replica + 2])
    moved = np.clip((own + shifts[:, :, None]) % 1, 1e-16, 1 - 1e-16)
    return np.asarray(moved.reshape(count, 2 * points, dimensions))


def _joined(parts: Sequence[Posterior]) -> Posterior:
    """The posteriors of all data points of these parts, one after the other."""
    fewer = tuple(_joined(level) for level in zip(*(part.fewer for part in parts), strict=True))
    columns = [np.concatenate(column) for column in zip(*(part[:4] for part in parts), strict=True)]
    return Posterior(columns[0], columns[1], columns[2], columns[3], fewer)


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

    @property
    def smallest_tabulated(self) -> float:
        """Variance below which the information follows its law."""
        return _POLICY.smallest

    def information(self, variance: Array) -> Estimate:
        return self._tabulated.information(np.asarray(variance, dtype=float))

    def expected_log_partition(self, variance: Array) -> Estimate:
        return self._tabulated.expected_log_partition(np.asarray(variance, dtype=float))

    @cached_property
    def _tabulated(self) -> Tabulated:
        decades = np.log10(self.power / self.smallest_tabulated)
        grid = np.geomspace(self.smallest_tabulated, self.power, 2 * int(np.ceil(_POLICY.per_decade * decades / 2)) + 1)
        return Tabulated.of(grid, cached_array(lambda: self._table(grid), self, grid))

    def _table(self, grid: Array) -> Array:
        return np.array([self.averages_at(float(v)) for v in track(grid, f"averages of the {self.label} channel")])

    def averages_at(self, v: float, data: int = _POLICY.points) -> tuple[float, float, float, float]:
        """Information and expected log partition, each with its error estimate; the same points for every V.

        ``data`` is the number of sampled data points per replica, a power of two; errors have a confidence of 95 % and
        count what fourths and sixteenths of the sampled fields say is missing.
        """
        size = self.components
        points = normal_points(2 * size + self.source_dimensions, data, _POLICY.replicas)
        t, u, source = np.split(points.reshape(-1, points.shape[-1]), [size, 2 * size], axis=1)
        omega = np.sqrt(max(self.power - v, 0.0)) * t
        labels = self.label_from(omega + np.sqrt(v) * u, source)
        whole = self.posterior(labels, omega, v)
        found = (whole, *whole.fewer)
        grid = (_POLICY.replicas, data)
        levels = [[part.reshape(*grid, 1, -1) for part in (f.first, f.second, f.curvature)] for f in found]
        replicas, missing = information(levels, (u / np.sqrt(v)).reshape(*grid, 1, -1), np.array([[v]]), data)
        log_z = [f.log_partition.reshape(grid).mean(axis=1) for f in found]
        (value, error), (expected, expected_error) = mean_and_error(replicas[:, 0, 0]), mean_and_error(log_z[0])
        standard, missing_log = confidence_factor(_POLICY.replicas), remaining_change([np.mean(part) for part in log_z])
        return (
            float(value),
            float(standard * error + np.abs(missing[0, 0])),
            float(expected),
            float(standard * expected_error + np.abs(missing_log)),
        )
