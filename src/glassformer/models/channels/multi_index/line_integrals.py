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
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from glassformer.core.errors import IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.numerics.batching import in_chunks
from glassformer.core.numerics.eigenvalues import with_eigenvalues
from glassformer.core.numerics.quasi_random import normal_points, turns
from glassformer.models.channels.multi_index.importance_sampling import Effort, Moments
from glassformer.models.channels.multi_index.latent_functions import Family, Functions
from glassformer.models.channels.multi_index.line_crossings import Crossings
from glassformer.models.channels.multi_index.line_grids import cells_for
from glassformer.models.channels.multi_index.line_placement import POLICY, Bundle, Data
from glassformer.models.channels.multi_index.link_rows import LinkRowsChannel

_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class LineChannel(LinkRowsChannel):
    """:math:`y = g(Z)`, one number, or several for discrete labels, without noise.

    Args:
        atoms: probability of labels whose level sets have positive measure: one for labels that take few values.
        points: data points per replica of the averages.
    """

    atoms: float
    effort: Effort = field(default=Effort(points=POLICY.lines, starts=1, steps=1), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    def hasty(self) -> Self:
        # What few lines leave out is less than what few data points do.
        return replace(self, effort=replace(self.effort, points=max(self.effort.points // POLICY.hasty, 1)))

    @property
    def rank(self) -> float:
        return 1.0 - self.atoms

    @property
    def discrete(self) -> bool:
        return self.atoms == 1

    def truth(self, fields: Array) -> Array:
        return LinkRowsChannel.label_from(self, fields, fields) if self.discrete else super().truth(fields)

    def decided(self, mean: Array, variance: Array) -> Array:
        root = np.linalg.cholesky(with_eigenvalues(variance, lambda values: np.maximum(values, POLICY.decisive)))
        roots = np.broadcast_to(root, (len(mean), *root.shape))
        log_z = [
            LineChannel.moments(self, np.broadcast_to(value, (len(mean), *self.shape)), mean, roots).log_partition
            for value in self.known_labels
        ]
        return np.asarray(self.known_labels[np.argmax(log_z, axis=0)])

    @cached_property
    def known_labels(self) -> Array:
        """Labels that many random fields have, without noise, in ascending order."""
        fields = np.random.default_rng(2).standard_normal((POLICY.shown, *self.field_components))
        return np.unique(self.truth(fields), axis=0)

    @cached_property
    def cells(self) -> int:
        """Cells of lines. Discrete labels have none that are missed for being crossed twice."""
        return POLICY.cells if self.discrete else cells_for(self.link, self.indices, self.tokens)

    @property
    def family(self) -> Family:
        return Family(partial(Functions, _nothing, _nothing, self.link))

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        if self.atoms == 1:
            raise IncompatibleError("needs labels that vary smoothly with the weights")
        return super().traceable_label

    def moments(self, y: Array, omega: Array, root: Array) -> Moments:
        lines, pilot = _lines(self.latents, self.effort.points), normal_points(self.latents, POLICY.pilot, 1)[0]
        crossings = Crossings(self.link, self.cells)
        kinds: list[_Kind] = [_Intervals(crossings)] * (self.atoms > 0) + [_Points(crossings)] * (self.atoms < 1)

        def work(index: Any, chunk: Any) -> Any:
            label, mean, factor = (np.asarray(part) for part in chunk)
            turn = turns(index, len(y), self.points, len(lines))
            parts = [slice(start, start + POLICY.batch) for start in range(0, len(label), POLICY.batch)]
            found = [
                _moments(Data(label[part], mean[part], factor[part]), kinds, lines[turn[part]], pilot) for part in parts
            ]
            return [np.concatenate(columns) for columns in zip(*found, strict=True)]

        found: list[Any] = in_chunks(work, (self.observed(y), np.asarray(omega, dtype=float), root))
        return Moments(*found)


def _nothing(x: Any, datum: Any) -> Any:
    """Lines need no search for modes."""
    del datum
    return x


class _Sums(NamedTuple):
    """Integrals of one, ``x`` and ``x x^T`` over the level set, summed over axes, shape (n, groups of lines, ...)."""

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
    pool = int(np.clip(POLICY.numbers // (4 * base.size), 16, 4096))
    shifted = (base + rng.random((pool, 2, 2, 1, dimension - 1))) % 1
    points = ndtri(np.clip(shifted, 1e-12, 1 - 1e-12))
    return points


def _moments(data: Data, kinds: list[_Kind], lines: Array, pilot: Array) -> tuple[Array, ...]:
    """Moments of some data points; ``lines`` of each as in :func:`_lines`."""
    bundle = kinds[0].crossings.placed(data, lines, pilot)
    sums = [_over_lines(kind, bundle, lines.shape) for kind in kinds]
    # A level set of positive measure has no points apart from it that matter. A node of a grid that meets a point has
    # the label of its surroundings, which are the wider in whitened coordinates the less these change the fields.
    massive = sums[0][0].sum(axis=(1, 2)) > POLICY.massive / bundle.spread
    chosen = [np.where(_like(massive, first), first, last) for first, last in zip(sums[0], sums[-1], strict=True)]
    return _combined(chosen, kinds[-1].scale(pilot.shape[1]))


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


def _over_lines(kind: _Kind, bundle: Bundle, shape: tuple[int, ...]) -> list[Array]:
    """Integrals of one, ``x`` and ``x x^T`` over the level set, by halves and parts of the lines along all axes."""
    count, halves, parts, each, _ = shape
    found = kind.along(bundle, each)
    return [part.reshape(count, halves, parts, *part.shape[2:]) / (parts * each) for part in found]


@dataclass(frozen=True)
class _Kind(ABC):
    """What lines have in common with level sets."""

    crossings: Crossings

    @abstractmethod
    def scale(self, axes: int) -> float:
        """Share of the integrals along all axes that the level set counts for."""

    @abstractmethod
    def along(self, lines: Bundle, each: int) -> _Sums:
        """Integrals over the part of lines in the level set, summed over so many that are next to each other."""


class _Intervals(_Kind):
    """Intervals on which the label is the one observed."""

    def scale(self, axes: int) -> float:
        # Every axis alone integrates over the whole of it.
        return 1 / axes

    def along(self, lines: Bundle, each: int) -> _Sums:
        line, place, leaves, open_end = self.crossings.edges(lines)
        height = np.exp(-0.5 * place**2) / np.sqrt(2 * np.pi)
        parts = (ndtr(place), -height, ndtr(place) - place * height)
        m0, m1, m2 = (_summed(line, leaves * part, open_end.shape) for part in parts)
        # Of a difference of two probabilities rounding is all that may be left.
        along = [lines.weight * part for part in (np.maximum(m0 + open_end, 0.0), m1, m2 + open_end)]
        axes = [self._along(axis, lines.base[:, axis], *(m[:, axis] for m in along)) for axis in range(m0.shape[1])]
        whole = [np.sum(part, axis=0) for part in zip(*axes, strict=True)]
        return _Sums(*(part.reshape(len(part), -1, each, *part.shape[2:]).sum(axis=2) for part in whole))

    @staticmethod
    def _along(axis: int, base: Array, m0: Array, m1: Array, m2: Array) -> _Sums:
        """Moments of lines along one axis, from those of their own coordinate."""
        first = m0[..., None] * base
        second = _outer(first, base)
        mixed = m1[..., None] * base
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

    def along(self, lines: Bundle, each: int) -> _Sums:
        count, axes, along = lines.weight.shape
        line, weight, x = self.crossings.points(lines)
        group = (line // (axes * along) * along + line % along) // each
        shape, first = (count, along // each), weight * x.T
        pairs = [(a, b) for a in range(axes) for b in range(a + 1)]
        zeroth, *found = (
            _summed(group, part, shape) for part in (weight, *first, *(first[a] * x[:, b] for a, b in pairs))
        )
        second = np.empty((*shape, axes, axes))
        for (a, b), part in zip(pairs, found[axes:], strict=True):
            second[..., a, b] = second[..., b, a] = part
        return _Sums(zeroth, np.stack(found[:axes], axis=-1), second)


def _summed(index: NDArray[np.intp], part: Array, shape: tuple[int, ...]) -> Array:
    """Sums of what belongs to each entry of an array, counted along it."""
    return np.asarray(np.bincount(index, part, minlength=int(np.prod(shape))).reshape(shape))
