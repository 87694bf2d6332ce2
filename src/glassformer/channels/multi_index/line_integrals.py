r"""Noiseless functions of several projections with one number as label, integrated along lines.

In whitened coordinates the fields of a data point are standard normal and the label fixes a level set. Lines parallel
to every axis cross it in points (continuous labels) or intervals (discrete ones) that are bracketed on a grid, so one
integral is exact and the others are quasi-Monte Carlo. A continuous label may have atoms (zero, for sums of rectified
fields): level sets of positive measure, where lines lie in them for whole intervals. A crossing
found along axis ``j`` carries the weight
:math:`(\partial_jg)^2/|\nabla g|^2`, which adds to one over the axes and removes the singularity of tangent lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from glassformer.channels.link.contract import returns_positions
from glassformer.channels.multi_index.importance_sampling import Effort, Moments
from glassformer.channels.multi_index.latent_functions import Family, Functions
from glassformer.channels.multi_index.line_crossings import Sums, integrals
from glassformer.channels.multi_index.line_grids import cells_for, sharp
from glassformer.channels.multi_index.line_placement import POLICY, Data, spread
from glassformer.channels.multi_index.line_search import Seeking, intervals, points
from glassformer.channels.multi_index.link_rows import LinkRowsChannel
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.batching import in_chunks
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.eigenvalues import with_eigenvalues
from glassformer.numerics.quasi_random import normal_points, turns

_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class LineChannel(LinkRowsChannel):
    """:math:`y = g(Z)`, one number, or several for discrete labels, without noise.

    Args:
        atoms: probability of labels whose level sets have positive measure: one for labels that take few values.
        points: data points per replica of the averages.
    """

    atoms: float
    refinement_factor = default_property(2, "How many times longer cells are in each further posterior.")

    effort: Effort = field(default=Effort(points=POLICY.lines, starts=1, steps=1), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    def low_accuracy(self) -> Self:
        # What few lines leave out is less than what few data points do.
        return replace(self, effort=replace(self.effort, points=max(self.effort.points // POLICY.low_accuracy, 1)))

    @property
    def rank(self) -> float:
        return 1.0 - self.atoms

    @property
    def discrete(self) -> bool:
        return self.atoms == 1

    @cached_property
    def classes(self) -> bool:
        return self.discrete and returns_positions(self.link, (self.indices, self.tokens))

    @property
    def predictable(self) -> bool:
        return not self.classes

    def true_labels(self, fields: Array) -> Array:
        return LinkRowsChannel.label_from(self, fields, fields) if self.discrete else super().true_labels(fields)

    def likeliest_labels(self, mean: Array, variance: Array) -> Array:
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
        return np.unique(self.true_labels(fields), axis=0)

    @cached_property
    def cells(self) -> int:
        """Cells of lines. Discrete labels have none that are missed for being crossed twice."""
        return POLICY.cells if self.discrete else cells_for(self.link, self.indices, self.tokens)

    @cached_property
    def sharp(self) -> bool:
        """Whether cells hide points next to jumps and kinks from lines that run in other directions than the axes."""
        return not self.discrete and sharp(self.link, self.indices, self.tokens, self.cells)

    @cached_property
    def far(self) -> bool:
        """Whether labels are far from zero next to their spread."""
        if self.discrete:
            return False
        fields = np.random.default_rng(2).standard_normal((POLICY.probed, *self.field_components))
        low, middle, high = np.quantile(self.label_from(fields, fields), (0.25, 0.5, 0.75))
        return bool(abs(middle) > POLICY.far * (high - low))

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
        most = max(POLICY.at_once // int(np.prod(lines.shape[1:4])), 1)

        def work(index: Any, chunk: Any) -> Any:
            data = Data(*map(np.asarray, chunk))
            turn = turns(index, len(y), self.points, len(lines))
            found = [
                self._moments(Data(*(part[some] for part in data)), lines[turn[some]], pilot)
                for some in (slice(start, start + most) for start in range(0, len(turn), most))
            ]
            return [np.concatenate(columns) for columns in zip(*found, strict=True)]

        found: list[Any] = in_chunks(work, (self.observed(y), np.asarray(omega, dtype=float), root))
        size = len(found) // len(POLICY.longer)
        whole, *fewer = (Moments(*found[start : start + size]) for start in range(0, len(found), size))
        return whole._replace(fewer=tuple(fewer))

    def _moments(self, data: Data, lines: Array, pilot: Array) -> list[Array]:
        """Moments of some data points, then those of longer cells; ``lines`` of each as in :func:`_lines`."""
        wide = spread(data.root)
        # A sign is wrong next to a crossing alone, whose cell is then the next one, unless cells are as short as that.
        at_points = "points closely" if wide.min() < POLICY.short or self.far else "points"
        kinds = ["intervals"] * (self.atoms > 0) + [at_points] * (self.atoms < 1)
        sums = [Sums(*map(np.asarray, self._compiled[kind](data, lines, pilot))) for kind in kinds]
        # A level set of positive measure has no points apart from it that matter. A node of a grid that meets a point
        # has the label of its surroundings, the wider in whitened coordinates the less these change the fields.
        massive = sums[0].zeroth[0].sum(axis=(1, 2)) > POLICY.massive / wide
        chosen = [np.where(_like(massive, a[0]), a, b) for a, b in zip(sums[0], sums[-1], strict=True)]
        return [part for own in zip(*chosen, strict=True) for part in _combined(list(own))]

    @cached_property
    def _compiled(self) -> dict[str, CachedJit]:
        def of(common: Seeking, rough: type) -> CachedJit:
            own = {"cells": self.cells, "sharp": self.sharp}
            return CachedJit(integrals, link=self.link, common=common, rough=rough, **own)

        along = partial(points, halvings=POLICY.kinked) if self.sharp else points
        return {
            "intervals": of(intervals, np.float64),
            "points": of(along, np.float32),
            "points closely": of(along, np.float64),
        }


def _nothing(x: Any, datum: Any) -> Any:
    """Lines need no search for modes."""
    del datum
    return x


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


def _combined(integrals: list[Array]) -> tuple[Array, ...]:
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
    log_partition = np.log(0.5 * np.maximum(whole[0], _TINY))
    pairs = [part[:, half] for part in (means, squares) for half in (0, 1)]
    return log_partition, *pairs[:2], covariance, *pairs[2:], np.ones_like(log_partition)


def _outer(a: Array, b: Array) -> Array:
    return np.asarray(a[..., :, None] * b[..., None, :])


def _like(few: Any, many: Array) -> Any:
    """With further axes of length one, as many as ``many`` has."""
    return few.reshape(few.shape + (1,) * (many.ndim - few.ndim))


def _ratio(part: Array, zeroth: Array) -> Array:
    return np.asarray(part / _like(np.maximum(zeroth, _TINY), part))
