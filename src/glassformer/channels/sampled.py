"""Scalar channels with sampled posteriors. Averages are tabulated once, with error estimates, and interpolated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from glassformer.channels.control_variates import information
from glassformer.channels.fields import Fields
from glassformer.channels.scalar.base import Array, Estimate, PowerChannel
from glassformer.channels.scalar.tabulated import Tabulated
from glassformer.core.cache import cached_array
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error, normal_points
from glassformer.numerics.sequences import remaining_change

# Table of the averages: smallest variance, nodes per decade, and replicas and data points of each replica at a node.
_SMALLEST, _PER_DECADE, _REPLICAS, _POINTS = 1e-4, 4, 8, 1024


def require_average_resources(tokens: int, work: float) -> None:
    """Raise if the table of averages would take too much memory or time.

    Args:
        tokens: value of the parameter that is named in the error.
        work: number of operations of one posterior.

    Example:
        >>> require_average_resources(4, 1e6)
    """
    data = 17 * _REPLICAS * _POINTS
    memory = 8.0 * _REPLICAS * _POINTS * 10 * tokens**2
    require_resources("tokens", tokens, memory, "use fewer tokens", data * float(work), "averages")


class SampledPosterior(NamedTuple):
    """Sampled posterior of the field of each data point.

    Attributes:
        first, second: two independent estimates of the score, shape (n, K): their product estimates its square
            without the bias of sampling noise.
        curvature: minus the divergence of the score, shape (n,).
        log_partition: shape (n,).
        fewer: estimates from parts of the sampled fields, averaged over parts: first fourths, then sixteenths.
    """

    first: Array
    second: Array
    curvature: Array
    log_partition: Array
    fewer: tuple[SampledPosterior, ...] = ()

    @property
    def score(self) -> Array:
        """Mean of the two estimates of the score."""
        return 0.5 * (self.first + self.second)

    @property
    def square(self) -> Array:
        """Squared score without the bias of sampling noise, shape (n,)."""
        return np.asarray(np.sum(self.first * self.second, axis=1))


def weighted_posterior(
    log_weight: Array, scores: Array, bend: Array, blind: Array | None = None, shares: Sequence[int] = (1, 4, 16)
) -> SampledPosterior:
    """Return posteriors from weighted fields, the two halves of the sample one after the other on the last axis.

    Ratios of sums have a bias of one over the number of fields: twice the ratio of all fields minus the mean ratio of
    both halves is free of the leading term.

    Args:
        log_weight: log of likelihood times prior over sampling density, shape (n, 2 fields).
        scores: score of each field, shape (n, K, 2 fields).
        bend: minus the slope of the score minus its square, shape (n, 2 fields).
        blind: unit vector along which labels carry no information, so that scores in its direction are noise.
        shares: numbers of parts into which the fields are divided, the whole sample first.
    """
    top = np.max(log_weight, axis=1, keepdims=True)
    weight, finest = np.exp(log_weight - top), 2 * max(shares)
    values = np.concatenate([np.ones_like(bend)[:, None], bend[:, None], scores], axis=1)
    values *= weight[:, None]
    sums = values.reshape(*values.shape[:2], 2, finest, -1).sum(axis=-1)
    parts = [_mean_over_parts(sums.reshape(*sums.shape[:3], share, 2, -1).sum(axis=-1), blind) for share in shares]
    unit = top[:, 0] - np.log(bend.shape[1])
    whole, *fewer = (part._replace(log_partition=part.log_partition + unit) for part in parts)
    return whole._replace(fewer=tuple(fewer))


def _mean_over_parts(sums: Array, blind: Array | None) -> SampledPosterior:
    """Return means over parts, from sums of weights, bends and scores of shape (n, 2 + K, 2, parts, 2)."""
    whole, parts = sums.sum(axis=-1), sums.shape[3]
    ratio, half_ratio = _ratio(whole), _ratio(sums).mean(axis=-1)
    mean = np.where(np.isfinite(half_ratio), 2 * ratio - half_ratio, ratio)
    # A half with zero total weight is replaced by the other half.
    mean = np.nan_to_num(np.where(np.isfinite(mean), mean, mean[:, :, ::-1])).mean(axis=-1)
    first, second = mean[:, 1:, 0], mean[:, 1:, 1]
    if blind is not None:
        first, second = (part - (part @ blind)[:, None] * blind for part in (first, second))
    # The product of means over independent halves has no bias; the squares would contain sampling noise.
    curvature = np.sum(first * second, axis=1) + mean[:, 0].mean(axis=-1)
    mass, half = whole[:, 0].sum(axis=1) * parts, 2 * sums[:, 0].sum(axis=1) * parts
    log_half = np.log(np.maximum(half, 1e-300)).mean(axis=-1)
    log_mass = np.log(np.maximum(mass, 1e-300))
    log_z = np.where(np.all(half > 0, axis=-1), 2 * log_mass - log_half, log_mass).mean(axis=-1)
    return SampledPosterior(first, second, curvature, log_z)


def _ratio(sums: Array) -> Array:
    """Divide sums by the sums of weights, which come first. NaN if these vanish."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(sums[:, :1] > 0, sums[:, 1:] / sums[:, :1], np.nan))


def batched_posterior(
    count: int, most: int, dimensions: int, fields: int, block: Callable[[slice, Array], SampledPosterior]
) -> SampledPosterior:
    """Compute posteriors batch by batch.

    Args:
        count: number of data points.
        most: data points of one batch.
        dimensions: of the quasi-random points with which a posterior is sampled.
        fields: number of points of each half.
        block: posteriors of a batch, from uniform points of shape (data, 2 fields, dimensions).
    """
    # Points are shifted by a vector of every data point and half, the same in every call.
    shifts = np.random.default_rng(0).random((count, 2, dimensions))
    return _concatenate([block(part, _uniform(k, shifts[part], fields)) for k, part in _batches(count, most)])


def _batches(count: int, most: int) -> Iterator[tuple[int, slice]]:
    """Yield batches of data points with the number of their replica.

    Each replica samples its posteriors with its own points. With common points, the spread of replicas would not show
    their error.

    Example:
        >>> [(replica, part.start, part.stop) for replica, part in _batches(20, 2)][:3]
        [(0, 0, 2), (0, 2, 3), (1, 3, 5)]
    """
    each = max(1, -(-count // _REPLICAS))
    for replica in range(_REPLICAS):
        end = min((replica + 1) * each, count)
        for start in range(replica * each, end, most):
            yield replica, slice(start, min(start + most, end))


def _uniform(replica: int, shifts: Array, points: int) -> Array:
    """Return the uniform points of a replica, shifted modulo one, shape (data, 2 points, dimensions)."""
    count, _, dimensions = shifts.shape
    own = ndtr(normal_points(dimensions, points, 2 * _REPLICAS)[2 * replica : 2 * replica + 2])
    shifted = np.clip((own + shifts[:, :, None]) % 1, 1e-16, 1 - 1e-16)
    return np.asarray(shifted.reshape(count, 2 * points, dimensions))


def _concatenate(parts: Sequence[SampledPosterior]) -> SampledPosterior:
    fewer = tuple(_concatenate(level) for level in zip(*(part.fewer for part in parts), strict=True))
    columns = [np.concatenate(column) for column in zip(*(part[:4] for part in parts), strict=True)]
    return SampledPosterior(columns[0], columns[1], columns[2], columns[3], fewer)


class SampledChannel(PowerChannel):
    """A channel with sampled posteriors and no closed form for its averages."""

    @property
    @abstractmethod
    def components(self) -> int:
        """Number of components of the field of one data point."""

    @property
    @abstractmethod
    def source_dimensions(self) -> int:
        """Number of standard normal variables in the noise of a label."""

    @abstractmethod
    def label_from(self, field: Array, source: Array) -> Array:
        """Return labels of fields, shape (n, K), and standard normal numbers, shape (n, source_dimensions)."""

    @abstractmethod
    def posterior(self, y: Array, omega: Array, variance: Array | float) -> SampledPosterior:
        """Return the posteriors of the fields of n data points."""

    @property
    def fields(self) -> Fields:
        return Fields((self.components,), self.power)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        return self.label_from(h, rng.standard_normal((len(h), self.source_dimensions)))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.posterior(y, omega, variance).score

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.posterior(y, omega, variance).curvature

    def score_and_curvature(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        """Return scores, and the curvatures or the squared scores, whichever are smaller on average.

        Sampled second moments have an error of about one per cent of ``K/V``, larger than the curvature where labels
        carry little information. On average both are equal (Nishimori); the smaller one claims less.
        """
        posterior = self.posterior(y, omega, variance)
        return posterior.score, min(posterior.square, posterior.curvature, key=np.mean)

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.posterior(y, omega, variance).log_partition

    @property
    def smallest_tabulated(self) -> float:
        """Smallest variance of the table. Below it the information follows its asymptotic law."""
        return _SMALLEST

    def information(self, variance: Array) -> Estimate:
        return self._tabulated.information(np.asarray(variance, dtype=float))

    def expected_log_partition(self, variance: Array) -> Estimate:
        return self._tabulated.expected_log_partition(np.asarray(variance, dtype=float))

    @cached_property
    def _tabulated(self) -> Tabulated:
        decades = np.log10(self.power / self.smallest_tabulated)
        grid = np.geomspace(self.smallest_tabulated, self.power, 2 * int(np.ceil(_PER_DECADE * decades / 2)) + 1)

        def table() -> Array:
            return np.array([self.averages_at(float(v)) for v in track(grid, f"averages of the {self.label} channel")])

        return Tabulated.of(grid, cached_array(table, self, grid))

    def averages_at(self, v: float, data: int = _POINTS) -> tuple[float, float, float, float]:
        """Return information, its error, expected log partition and its error; the same points at every variance.

        ``data`` is the number of sampled data points per replica, a power of two. Errors have a confidence of 95 % and
        include the bias extrapolated from fourths and sixteenths of the sampled fields.
        """
        size = self.components
        points = normal_points(2 * size + self.source_dimensions, data, _REPLICAS)
        t, u, source = np.split(points.reshape(-1, points.shape[-1]), [size, 2 * size], axis=1)
        omega = np.sqrt(max(self.power - v, 0.0)) * t
        labels = self.label_from(omega + np.sqrt(v) * u, source)
        whole = self.posterior(labels, omega, v)
        posteriors = (whole, *whole.fewer)
        grid = (_REPLICAS, data)
        levels = [[part.reshape(*grid, 1, -1) for part in (p.first, p.second, p.curvature)] for p in posteriors]
        replicas, bias = information(levels, (u / np.sqrt(v)).reshape(*grid, 1, -1), np.array([[v]]), data)
        log_z = [p.log_partition.reshape(grid).mean(axis=1) for p in posteriors]
        (value, error), (expected, expected_error) = mean_and_error(replicas[:, 0, 0]), mean_and_error(log_z[0])
        confidence, means = confidence_factor(_REPLICAS), [np.mean(part) for part in log_z]
        # Freed of its leading bias, the log partition may approach its limit from alternating sides. A small change
        # after a large one then is no sign of convergence: its error is that of a bias of one over the work.
        changes = np.diff(means)
        alternating = 0.25 * np.abs(changes[-1]) if len(changes) == 2 and np.prod(changes) < 0 else 0.0
        log_bias = max(np.abs(remaining_change(means)), alternating)
        return (
            float(value),
            float(confidence * error + np.abs(bias[0, 0])),
            float(expected),
            float(confidence * expected_error + log_bias),
        )
