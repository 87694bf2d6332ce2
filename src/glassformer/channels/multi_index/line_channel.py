r"""Noiseless functions of several projections with one number, or a discrete label, integrated along lines.

In whitened coordinates the fields of a data point are standard normal, and the label fixes a level set. Lines parallel
to every axis cross it in points (continuous labels) or intervals (discrete labels) that are bracketed on a grid, so one
integral is exact and the others are quasi-Monte Carlo. A continuous label may have atoms, values whose level sets have
positive measure (zero, for sums of rectified fields): there, lines lie in the level set for whole intervals. A crossing
found along axis ``j`` has the weight :math:`(\partial_jg)^2/|\nabla g|^2`, which adds up to one over the axes and
removes the singularity of tangent lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from glassformer.channels.base import Inference
from glassformer.channels.confusion import distinct_labels, label_tolerance
from glassformer.channels.labels import Labels
from glassformer.channels.link.tracing import returns_positions
from glassformer.channels.multi_index.importance_sampling import Effort, PosteriorMoments
from glassformer.channels.multi_index.latent_channel import LatentInference
from glassformer.channels.multi_index.line_crossings import (
    GRADIENT_STEP,
    HALVINGS,
    HALVINGS_AT_KINKS,
    LevelSet,
    Lines,
    intervals,
    points,
)
from glassformer.channels.multi_index.line_integrals import (
    CELLS,
    Data,
    Search,
    grid,
    level_set_integrals,
    near_level_set,
)
from glassformer.channels.multi_index.line_moments import by_blocks, expanded, in_blocks, line_pool, moments_from
from glassformer.channels.multi_index.link_rows import IntegratedRowsChannel, LinkRowsChannel
from glassformer.channels.multi_index.plane_inference import plane_inference
from glassformer.channels.multi_index.plane_labels import FewLabels
from glassformer.core.cache import memoize
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.batching import map_chunks, map_points
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.decompositions import map_eigenvalues
from glassformer.numerics.quasi_random import normal_points, pool_indices
from glassformer.numerics.scalarize import scalarize

# Lines per axis and half.
_LINES = 64
# Points of the pilot sample that shows where lines are best (by trial).
_PILOT = 64
# Lines along each axis that are treated at once, so that temporaries stay in the cache (measured).
_LINES_AT_ONCE = 2**14
# Share of a level set in intervals, times the spread of the fields, from which on it has positive measure.
_POSITIVE_MEASURE = 1e-9
# Whitened deviation of fields below which cells are too short for single precision, median of the labels over their
# spread from which on single precision does not resolve their changes, and sizes of labels within its range.
_SINGLE_PRECISION, _FAR_FROM_ZERO, _SINGLE_RANGE = 3e-3, 16.0, (1e-30, 1e30)
# Fields from which on a program takes as long to compile as to run: all states share one, in double precision.
_MANY_FIELDS = 5
# Random fields that show the values of a discrete label, and the variance below which the mean alone decides.
_FIELDS, _DECISIVE_VARIANCE = 2**14, 1e-9
# Share of small differences that contain a jump of a label, more than lie on it by chance.
_JUMPS = 1e-3
# Factors by which cells may be shorter than those of smooth links; the last grid but one is judged by the last.
_REFINEMENTS = (1, 2, 4, 8, 16)
# Random lines on which cells are chosen, and the share of the weight of crossings that cells may hide.
_TRIAL_LINES, _HIDDEN_SHARE = 512, 1e-3
# The same for lines in all directions, which show jumps and kinks: smooth curves hide some of it, but have most of it
# along other axes.
_TURNED_LINES, _SHARP_SHARE = 2048, 1e-2


@dataclass(frozen=True, eq=False)
class LineChannel(IntegratedRowsChannel):
    """:math:`y = g(Z)`, one number, or several for discrete labels, without noise.

    Args:
        atoms: probability of labels whose level sets have positive measure: one for discrete labels.
        points: data points per replica of the averages.
    """

    atoms: float
    refinement_factor = default_property(2, "How many times longer cells are in each further posterior.")

    effort: Effort = field(default=Effort(points=_LINES, starts=1, steps=1), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @cached_property
    def labels(self) -> Labels:
        classes = self._discrete and returns_positions(self.link, (self.indices, self.tokens))
        return replace(super().labels, rank=1.0 - self.atoms, discrete=self._discrete, classes=classes)

    @property
    def _discrete(self) -> bool:
        """True when all labels have a level set of positive measure."""
        return self.atoms == 1

    def label_from(self, fields: Array, source: Array) -> Array:
        labels = super().label_from(fields, source)
        if self._discrete and self._several_roundings:
            labels = labels.copy()
            for value in self._values:
                equal = np.abs(labels - value) <= np.reshape(self._tolerance, self.shape)
                labels[np.all(equal.reshape(len(labels), -1), axis=1)] = value
        return labels

    def likeliest_label(self, mean: Array, variance: Array) -> Array:
        if not self._discrete:
            return super().likeliest_label(mean, variance)
        if not np.any(variance):
            return LineChannel.label_from(self, mean, mean)
        root = np.linalg.cholesky(map_eigenvalues(variance, lambda values: np.maximum(values, _DECISIVE_VARIANCE)))
        roots = np.broadcast_to(root, (len(mean), *root.shape))
        log_z = [
            LineChannel.moments(self, np.broadcast_to(value, (len(mean), *self.shape)), mean, roots).log_partition
            for value in self._values
        ]
        return np.asarray(self._values[np.argmax(log_z, axis=0)])

    @cached_property
    def _values(self) -> Array:
        """Values of a discrete label, in ascending order."""
        return distinct_labels(self._shown_labels)

    @cached_property
    def _several_roundings(self) -> bool:
        """Whether the link gives the same discrete label in several roundings."""
        return len(np.unique(self._shown_labels, axis=0)) > len(self._values)

    @cached_property
    def _shown_labels(self) -> Array:
        """Labels of random fields, shape (n, ...), as the link gives them."""
        fields = np.random.default_rng(2).standard_normal((_FIELDS, *self.fields.shape))
        return LinkRowsChannel.label_from(self, fields, fields)

    @cached_property
    def _tolerance(self) -> tuple[float, ...]:
        """Difference of equal labels by rounding, of each entry; atoms of continuous labels have the typical size."""
        labels = self._shown_labels.reshape(_FIELDS, -1) if self._discrete else np.full((1, 1), self._label_size)
        return tuple(label_tolerance(labels).tolist())

    @cached_property
    def _label_size(self) -> float:
        """Typical size of a label other than zero."""
        shown = np.abs(self._shown_labels)
        return float(np.median(shown[shown > 0]))

    @cached_property
    def inference(self) -> Inference:
        return plane_inference(self, FewLabels(self._shares)) if self._discrete else LatentInference(self)

    def _shares(self, fields: Array) -> Array:
        """Return which of the values of a discrete label pairs of fields have, shape (n, values)."""
        labels = LineChannel.label_from(self, fields.reshape(-1, *self.fields.shape), fields)
        return np.asarray(np.abs(labels[:, None] - self._values) <= self._tolerance[0], dtype=float)

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        if self._discrete:
            raise IncompatibleError("needs labels that vary smoothly with the weights")
        return super().traceable_label

    @cached_property
    def cells(self) -> int:
        """Cells of a line. Discrete labels need none that are shorter: cells that are crossed twice do not matter."""
        return CELLS if self._discrete else cells_for(self.link, self.indices, self.tokens)

    @cached_property
    def sharp(self) -> bool:
        """Whether cells hide points next to jumps and kinks from lines that do not run along the axes."""
        return not self._discrete and _is_sharp(self.link, self.indices, self.tokens, self.cells)

    @cached_property
    def _level(self) -> tuple[tuple[bool, ...], ...]:
        """Whether a continuous label is piecewise constant in each field, without slope at all random fields.

        Derivatives alone do not tell: a link may stop gradients. Differences alone do not either: some contain a jump.
        """
        if self._discrete or self.atoms > 0:
            return ((False,) * self.tokens,) * self.indices
        fields = np.random.default_rng(2).standard_normal((_FIELDS, *self.fields.shape))
        level = np.all(map_points(jax.jacfwd(self.link), fields) == 0, axis=(0, 1))
        labels = map_points(self.link, fields)
        for place in zip(*np.nonzero(level), strict=True):
            moved = fields.copy()
            moved[(slice(None), *place)] += GRADIENT_STEP
            level[place] = np.mean(map_points(self.link, moved) != labels) < _JUMPS
        return tuple(map(tuple, level.tolist()))

    @cached_property
    def _needs_double_precision(self) -> bool:
        """Whether labels, or their changes, are out of the range of single precision."""
        if self._discrete:
            return False
        if self._rough is np.float64:
            return True
        fields = np.random.default_rng(2).standard_normal((_TRIAL_LINES, *self.fields.shape))
        low, middle, high = np.quantile(self.label_from(fields, fields), (0.25, 0.5, 0.75))
        return bool(abs(middle) > _FAR_FROM_ZERO * (high - low))

    def moments(self, y: Array, omega: Array, root: Array) -> PosteriorMoments:
        lines, pilot = (
            in_blocks(line_pool(self.latents, self.effort.points)),
            normal_points(self.latents, _PILOT, 1)[0],
        )

        def work(index: NDArray[np.intp], chunk: tuple[Array, ...]) -> list[Array]:
            data = Data(*chunk)
            turn = pool_indices(index, len(y), self.points, len(lines))
            centre, spread = map(np.asarray, self._near(data, pilot))
            return self._moments(data, lines[turn], (centre, spread))

        columns = map_chunks(work, (self.observation(y), np.asarray(omega, dtype=float), root))
        return PosteriorMoments.of_levels(columns)[0]

    def _moments(self, data: Data, lines: Array, near: tuple[Array, Array]) -> list[Array]:
        """Return the moments of some data points, of all lengths of cells one after the other.

        Lines have the shape (n, blocks, 2 halves, 2 parts, lines, D - 1).
        """
        # Change of the fields in the whitened direction of least effect.
        spread = np.linalg.svd(data.root, compute_uv=False)[:, -1]
        # Single precision gets signs wrong next to a crossing only, which then is in the next cell, unless cells are as
        # short as that.
        exact = spread.min() < _SINGLE_PRECISION or self._needs_double_precision or self.latents >= _MANY_FIELDS
        kinds = ["intervals"] * (self.atoms > 0) + ["exact points" if exact else "points"] * (self.atoms < 1)
        sums = [self._integrals(kind, data, lines, near) for kind in kinds]
        # A level set of positive measure has no points apart from it that matter. A node that meets a point has the
        # label of its surroundings, the wider in whitened coordinates the less these change the fields.
        massive = sums[0][0][0].sum(axis=(1, 2)) > _POSITIVE_MEASURE / spread
        chosen = [np.where(expanded(massive, a[0]), a, b) for a, b in zip(sums[0], sums[-1], strict=True)]
        return [part for own in zip(*chosen, strict=True) for part in moments_from(list(own))]

    def _integrals(self, kind: str, data: Data, lines: Array, near: tuple[Array, Array]) -> list[Array]:
        """Return the three integrals over all blocks of lines."""
        most = max(_LINES_AT_ONCE // int(np.prod(lines.shape[2:5])), 1)

        def of_block(parts: tuple[Data, tuple[Array, Array]], own: Array) -> list[Array]:
            return [np.moveaxis(np.asarray(part), 0, 1) for part in self._compiled[kind](parts[0], own, parts[1])]

        return [np.moveaxis(part.mean(axis=1), 1, 0) for part in by_blocks(of_block, (data, near), lines, most)]

    @property
    def _rough(self) -> type:
        """Type of numbers in whose range labels are."""
        return np.float32 if _SINGLE_RANGE[0] < self._label_size < _SINGLE_RANGE[1] else np.float64

    @cached_property
    def _near(self) -> CachedJit:
        return CachedJit(near_level_set, link=self.link, rough=self._rough)

    @cached_property
    def _compiled(self) -> dict[str, CachedJit]:
        halvings = HALVINGS_AT_KINKS if self.sharp else HALVINGS
        level_sets: dict[str, Callable[[Lines], LevelSet]] = {
            "intervals": partial(intervals, tolerance=self._tolerance),
            "points": partial(points, rough=np.float32, size=self._label_size, halvings=halvings),
            "exact points": partial(points, rough=np.float64, size=self._label_size, halvings=halvings),
        }
        searches = {
            name: Search(self.link, own, self.cells, self.sharp, self._level) for name, own in level_sets.items()
        }
        return {name: CachedJit(level_set_integrals, search=search) for name, search in searches.items()}


def cells_for(link: Callable[[Any], Any], indices: int, tokens: int) -> int:
    """Return the number of cells whose crossings hold all but a negligible share of the level sets of a link.

    Two crossings in one cell are missed. Lines next to them cross the level set along other axes, with the rest of the
    weight, so only the weight of missed crossings counts. Fields have the covariance of the prior, where waves are
    shortest.

    Args:
        link: flat continuous label of fields of shape (P, L).
        indices: ``P``.
        tokens: ``L``.
    """

    def compute() -> int:
        size = indices * tokens
        along = np.eye(size)[np.random.default_rng(3).integers(size, size=_TRIAL_LINES)]
        crossings = _weighted_crossings(link, (indices, tokens), along)
        enough = (factor for factor in _REFINEMENTS[:-2] if _hidden_share(*crossings, factor) <= _HIDDEN_SHARE)
        return CELLS * next(enough, _REFINEMENTS[-2])

    cells: int = memoize(compute, "cells of lines", link, indices, tokens)
    return cells


def _is_sharp(link: Callable[[Any], Any], indices: int, tokens: int, cells: int) -> bool:
    """Return whether so many cells hide more on lines in all directions: next to jumps and kinks."""

    def compute() -> bool:
        turned = np.random.default_rng(5).standard_normal((_TURNED_LINES, indices * tokens))
        along = turned / np.linalg.norm(turned, axis=1, keepdims=True)
        crossings = _weighted_crossings(link, (indices, tokens), along)
        return _hidden_share(*crossings, cells // CELLS) > _SHARP_SHARE

    sharp: bool = memoize(compute, "sharp links", link, indices, tokens, cells)
    return sharp


def _hidden_share(weight: Array, cell: NDArray[np.intp], line: NDArray[np.intp], factor: int) -> float:
    """Return the share of the weight of crossings that cells, ``factor`` times as many as for smooth links, hide."""
    total = weight.sum()
    if total == 0:
        return 0.0
    # One crossing is found in a cell with an odd number of them, none in a cell with an even number.
    place = line * factor * CELLS + cell * factor // _REFINEMENTS[-1]
    _, own, count = np.unique(place, return_inverse=True, return_counts=True)
    seen = np.sum(np.where(count % 2 == 1, np.bincount(own, weight) / count, 0.0))
    return float(1 - seen / total)


def _weighted_crossings(
    link: Callable[[Any], Any], shape: tuple[int, int], along: Array
) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """Return weights of the crossings of random lines with level sets, their cells of the finest grid, and their lines.

    Lines run in the directions ``along``, shape (m, P L).
    """
    size, ends = shape[0] * shape[1], grid(CELLS * _REFINEMENTS[-1])
    base = np.random.default_rng(4).standard_normal(along.shape)

    def labels(points: Array) -> Array:
        return np.asarray(map_points(scalarize(link), points.reshape(-1, *shape)))[:, 0].reshape(points.shape[:-1])

    rest = base - np.sum(base * along, axis=1, keepdims=True) * along
    above = labels(rest[:, None] + ends[:, None] * along[:, None]) > labels(base)[:, None]
    line, cell = np.nonzero(above[:, 1:] != above[:, :-1])
    place = 0.5 * (ends[cell] + ends[cell + 1])
    at, steps = rest[line] + place[:, None] * along[line], GRADIENT_STEP * np.eye(size)
    gradient = (labels(at[:, None] + steps) - labels(at[:, None] - steps)) / (2 * GRADIENT_STEP)
    square = np.sum(gradient**2, axis=1)
    own = np.abs(np.sum(gradient * along[line], axis=1))
    weight = np.exp(-0.5 * place**2) * np.divide(own, square, out=np.zeros_like(own), where=square > 0)
    return np.where(np.isfinite(weight), weight, 0.0), cell, line
