r"""Noiseless functions of several projections with one number as label, integrated along lines.

In whitened coordinates the fields of a data point are standard normal and the label fixes a level set. Lines parallel
to every axis cross it in points (continuous labels) or intervals (discrete ones) that are bracketed on a grid, so one
integral is exact and the others are quasi-Monte Carlo. A continuous label may have atoms (zero, for sums of rectified
fields): level sets of positive measure, where lines lie in them for whole intervals. A crossing
found along axis ``j`` carries the weight
:math:`(\partial_jg)^2/|\nabla g|^2`, which adds to one over the axes and removes the singularity of tangent lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, softmax
from scipy.stats import qmc

from glassformer.core.errors import IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.numerics.batching import in_chunks
from glassformer.core.numerics.eigenvalues import with_eigenvalues
from glassformer.core.numerics.quasi_random import normal_points
from glassformer.models.channels.multi_index.importance_sampling import Effort, Moments
from glassformer.models.channels.multi_index.latent_functions import Family, Functions
from glassformer.models.channels.multi_index.line_crossings import Bundle, Crossings
from glassformer.models.channels.multi_index.link_rows import LinkRowsChannel

# Share of a level set in intervals from which on it has positive measure.
_MASSIVE = 1e-9
_TINY = 1e-300
# Deviation of a label at a crossing that is none of a jump.
_ROOT = 1e-5
# Points of a pilot sample, those next to a level set, and the spread of lines around them over theirs, and at least.
_PILOT, _NEAREST, _WIDER, _NARROWEST = 64, 8, 1.4, 0.2
# Lines per axis and half, and numbers in the pool of random shifts.
_LINES, _NUMBERS = 64, 800_000
# Data points whose lines are followed at once, so that temporaries stay in the cache.
_BATCH = 64
# Random fields that show the labels there are, and variance below which the mean alone decides between them.
_MANY, _DECISIVE = 2**14, 1e-9


@dataclass(frozen=True, eq=False)
class LineChannel(LinkRowsChannel):
    """:math:`y = g(Z)`, one number, or several for discrete labels, without noise.

    Args:
        atoms: probability of labels whose level sets have positive measure: one for labels that take few values.
        points: data points per replica of the averages.
    """

    atoms: float
    effort: Effort = field(default=Effort(points=_LINES, starts=1, steps=1), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @property
    def rank(self) -> float:
        return 1.0 - self.atoms

    @property
    def discrete(self) -> bool:
        return self.atoms == 1

    def truth(self, fields: Array) -> Array:
        return LinkRowsChannel.label_from(self, fields, fields) if self.discrete else super().truth(fields)

    def decided(self, mean: Array, variance: Array) -> Array:
        root = np.linalg.cholesky(with_eigenvalues(variance, lambda values: np.maximum(values, _DECISIVE)))
        roots = np.broadcast_to(root, (len(mean), *root.shape))
        log_z = [
            LineChannel.moments(self, np.broadcast_to(value, (len(mean), *self.shape)), mean, roots).log_partition
            for value in self.known_labels
        ]
        return np.asarray(self.known_labels[np.argmax(log_z, axis=0)])

    @cached_property
    def known_labels(self) -> Array:
        """Labels that many random fields have, without noise, in ascending order."""
        fields = np.random.default_rng(2).standard_normal((_MANY, *self.field_components))
        return np.unique(self.truth(fields), axis=0)

    @property
    def family(self) -> Family:
        return Family(partial(Functions, _nothing, _nothing, self.link))

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        if self.atoms == 1:
            raise IncompatibleError("needs labels that vary smoothly with the weights")
        return super().traceable_label

    def moments(self, y: Array, omega: Array, root: Array) -> Moments:
        lines, pilot = _lines(self.latents, self.effort.points), normal_points(self.latents, _PILOT, 1)[0]
        crossings = Crossings(self.link)
        kinds: list[_Kind] = [_Intervals(crossings)] * (self.atoms > 0) + [_Points(crossings)] * (self.atoms < 1)

        def work(index: Any, chunk: Any) -> Any:
            label, mean, factor = (np.asarray(part) for part in chunk)
            parts = [slice(start, start + _BATCH) for start in range(0, len(label), _BATCH)]
            found = [
                _moments(_Data(label[part], mean[part], factor[part]), kinds, lines[index[part] % len(lines)], pilot)
                for part in parts
            ]
            return [np.concatenate(columns) for columns in zip(*found, strict=True)]

        found: list[Any] = in_chunks(work, (self.observed(y), np.asarray(omega, dtype=float), root))
        return Moments(*found)


def _nothing(x: Any, datum: Any) -> Any:
    """Lines need no search for modes."""
    del datum
    return x


class _Data(NamedTuple):
    """Labels (n, k), mean fields (n, P, L) and roots of their covariances (n, P, P)."""

    label: Array
    omega: Array
    root: Array

    def fields(self, x: Array) -> Array:
        """Fields, shape (n, m, P, L), of whitened coordinates of shape (n, m, P L)."""
        shaped = x.reshape(*x.shape[:2], *self.omega.shape[1:])
        # Term by term: products of many small matrices take several times as long.
        terms = (self.root[:, None, :, q, None] * shaped[:, :, q, None] for q in range(self.omega.shape[1]))
        return np.asarray(sum(terms, self.omega[:, None]))

    @property
    def turned(self) -> Array:
        """What each whitened coordinate changes the fields by, shape (n, P L, P, L)."""
        rows, columns = self.omega.shape[1:]
        unit = np.eye(rows * columns).reshape(-1, rows, columns)
        return np.asarray(self.root[:, None] @ unit)


class _Lines(NamedTuple):
    """Lines along one axis: whitened coordinates at their middle, shape (n, m, D), and importance weights (n, m)."""

    axis: int
    base: Array
    weight: Array

    def of(self, data: _Data) -> Bundle:
        """Themselves in the space of the fields."""
        return Bundle(self.axis, data.fields(self.base), data.turned, data.label)


class _Sums(NamedTuple):
    """Integrals of one, ``x`` and ``x x^T`` over the level set, by line, shape (n, m, ...)."""

    zeroth: Array
    first: Array
    second: Array


@lru_cache(maxsize=4)
def _lines(dimension: int, count: int) -> Array:
    """Where lines cross the other coordinates, shape (pool, 2 halves, 2 parts, lines, dimension - 1).

    Parts are independent: how far they are apart tells the bias of ratios.
    """
    if dimension == 1:
        return np.zeros((1, 2, 1, 1, 0))
    rng, base = np.random.default_rng(0), qmc.Sobol(dimension - 1, seed=0).random(count // 2)
    pool = int(np.clip(_NUMBERS // (4 * base.size), 16, 4096))
    shifted = (base + rng.random((pool, 2, 2, 1, dimension - 1))) % 1
    points = ndtri(np.clip(shifted, 1e-12, 1 - 1e-12))
    return points


def _moments(data: _Data, kinds: list[_Kind], lines: Array, pilot: Array) -> tuple[Array, ...]:
    """Moments of some data points; ``lines`` of each as in :func:`_lines`."""
    where = _near(data, kinds[0].crossings, pilot)
    sums = [_over_lines(kind, data, lines, *where) for kind in kinds]
    # A level set of positive measure has no points apart from it that matter.
    massive = sums[0][0].sum(axis=(1, 2)) > _MASSIVE
    chosen = [np.where(_like(massive, first), first, last) for first, last in zip(sums[0], sums[-1], strict=True)]
    return _combined(chosen, kinds[-1].scale(pilot.shape[1]))


def _near(data: _Data, crossings: Crossings, pilot: Array) -> tuple[Array, Array]:
    """Centre and spread, shape (n, D), of the part of the prior next to the level sets, from two rounds of a pilot."""
    centre, spread = np.zeros((len(data.label), pilot.shape[1])), np.ones((len(data.label), pilot.shape[1]))
    for _ in range(2):
        points = centre[:, None] + spread[:, None] * pilot
        distance = np.nan_to_num(crossings.distances(data.fields(points), data.label), nan=np.inf)
        index = np.argpartition(distance, _NEAREST, axis=1)[:, :_NEAREST]
        close = np.take_along_axis(points, index[:, :, None], axis=1)
        share = softmax(0.5 * np.sum(pilot[index] ** 2 - close**2, axis=2), axis=1)
        centre = np.einsum("nk,nkd->nd", share, close)
        deviation = np.sqrt(np.einsum("nk,nkd->nd", share, (close - centre[:, None]) ** 2))
        spread = np.maximum(_WIDER * deviation, _NARROWEST)
    return centre, spread


def _combined(integrals: list[Array], scale: float) -> tuple[Array, ...]:
    """Moments from the integrals of 1, ``x`` and ``x x^T`` along the lines, shape (n, 2 halves, 2 parts, ...)."""
    halves = [part.sum(axis=2) for part in integrals]
    whole = [part.sum(axis=1) for part in halves]
    mean, square = (_ratio(part, whole[0]) for part in whole[1:])
    # A half that misses the level set is replaced by the other, a part by its half.
    own = [np.where(_like(halves[0] > 0, part), part, part[:, ::-1]) for part in halves]
    parts = [
        np.where(_like(integrals[0] > 0, part), part, half[:, :, None])
        for part, half in zip(integrals, own, strict=True)
    ]
    # The bias of a ratio falls as one over the sample: twice the whole less the mean of its parts is free of it.
    plain = [_ratio(own[k], own[0]) for k in (1, 2)]
    means, squares = (2 * plain[k - 1] - np.mean(_ratio(parts[k], parts[0]), axis=2) for k in (1, 2))
    within = np.mean(plain[1] - _outer(plain[0], plain[0]), axis=1)
    covariance = 2 * (square - _outer(mean, mean)) - within
    log_partition = np.log(0.5 * scale * np.maximum(whole[0], _TINY))
    pairs = [part[:, half] for part in (means, squares) for half in (0, 1)]
    return log_partition, *pairs[:2], covariance, *pairs[2:], np.ones_like(log_partition)


def _outer(a: Array, b: Array) -> Array:
    return np.asarray(a[..., :, None] * b[..., None, :])


def _like(few: Any, many: Array) -> Any:
    """With further axes of length one, as many as ``many`` has."""
    return few.reshape(few.shape + (1,) * (many.ndim - few.ndim))


def _ratio(part: Array, zeroth: Array) -> Array:
    return np.asarray(part / _like(np.maximum(zeroth, _TINY), part))


def _over_lines(kind: _Kind, data: _Data, lines: Array, centre: Array, spread: Array) -> list[Array]:
    """Integrals of one, ``x`` and ``x x^T`` over the level set, by halves and parts of the lines along all axes."""
    count, halves, parts, each, _ = lines.shape
    found = [kind.along(data, _placed(lines, axis, centre, spread)) for axis in range(centre.shape[1])]
    totals = [sum(columns) for columns in zip(*found, strict=True)]
    grouped = [np.asarray(part).reshape(count, halves, parts, each, *np.shape(part)[2:]) for part in totals]
    return [part.sum(axis=3) / (parts * each) for part in grouped]


def _placed(lines: Array, axis: int, centre: Array, spread: Array) -> _Lines:
    """Lines along an axis: the second half of each part drawn around the level set, the first from the prior.

    Either half of a quasi-random sample is one itself.
    """
    count, _, parts, each, _ = lines.shape
    # The line's own coordinate goes to place ``axis``, the others keep their order.
    base = np.insert(lines.reshape(count, -1, lines.shape[-1]), axis, 0.0, axis=2)
    near = np.tile(np.arange(each) >= each // 2, 2 * parts)
    across = np.arange(base.shape[2]) != axis
    base = np.where(near[:, None] & across, centre[:, None] + spread[:, None] * base, base)
    shape = 0.5 * (base**2 - ((base - centre[:, None]) / spread[:, None]) ** 2) - np.log(spread[:, None])
    with np.errstate(over="ignore"):
        ratio = np.exp(np.sum(np.where(across, shape, 0.0), axis=2))
    return _Lines(axis, base, 2 / (1 + ratio) if each > 1 else np.ones_like(ratio))


@dataclass(frozen=True)
class _Kind(ABC):
    """What lines have in common with level sets."""

    crossings: Crossings

    @abstractmethod
    def scale(self, axes: int) -> float:
        """Share of the integrals along all axes that the level set counts for."""

    @abstractmethod
    def along(self, data: _Data, lines: _Lines) -> _Sums:
        """Integrals over the part of each line in the level set."""


class _Intervals(_Kind):
    """Intervals on which the label is the one observed."""

    def scale(self, axes: int) -> float:
        # Every axis alone integrates over the whole of it.
        return 1 / axes

    def along(self, data: _Data, lines: _Lines) -> _Sums:
        shape, base = lines.weight.shape, lines.base
        line, place, leaves, open_end = self.crossings.edges(lines.of(data))
        height = np.exp(-0.5 * place**2) / np.sqrt(2 * np.pi)
        parts = (ndtr(place), -height, ndtr(place) - place * height)
        m0, m1, m2 = (_by_line(line, leaves * part, shape) for part in parts)
        # Of a difference of two probabilities rounding is all that may be left.
        m0, m1, m2 = (lines.weight * part for part in (np.maximum(m0 + open_end, 0.0), m1, m2 + open_end))
        first = m0[..., None] * base
        second = _outer(first, base)
        mixed = m1[..., None] * base
        axis = lines.axis
        second[..., axis, :] += mixed
        second[..., :, axis] += mixed
        second[..., axis, axis] += m2
        first[..., axis] += m1
        return _Sums(m0, first, second)


class _Points(_Kind):
    """Points at which the label passes through the one observed."""

    def scale(self, axes: int) -> float:
        # The weights of a point add to one over the axes.
        return 1.0

    def along(self, data: _Data, lines: _Lines) -> _Sums:
        shape, axis = lines.weight.shape, lines.axis
        line, place, left, gradient = self.crossings.roots(lines.of(data))
        size = np.sum(gradient**2, axis=1)
        # A jump of the label is no root.
        root = (np.abs(left) <= _ROOT * (1 + np.sqrt(size))) & (size > 0)
        line, place, gradient, size = line[root], place[root], gradient[root], size[root]
        weight = np.exp(-0.5 * place**2) / np.sqrt(2 * np.pi) * np.abs(gradient[:, axis]) / size
        weight *= lines.weight.ravel()[line]
        x = lines.base.reshape(-1, gradient.shape[1])[line]
        x[:, axis] = place
        first = weight[:, None] * x
        every = range(x.shape[1])
        sums = [_by_line(line, first[:, a], shape) for a in every]
        squares = [[_by_line(line, first[:, a] * x[:, b], shape) for b in every] for a in every]
        return _Sums(
            _by_line(line, weight, shape), np.stack(sums, axis=-1), np.moveaxis(np.array(squares), (0, 1), (-2, -1))
        )


def _by_line(line: NDArray[np.intp], part: Array, shape: tuple[int, ...]) -> Array:
    """Sums of what belongs to each of the lines, in their shape."""
    return np.asarray(np.bincount(line, part, minlength=int(np.prod(shape))).reshape(shape))
