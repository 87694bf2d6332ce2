r"""Noiseless labels that are linear in some rows of fields and piecewise constant in all others.

Such is the value that hard attention reads, :math:`y = z_{1,\arg\max z_0}`. With the fields :math:`Z'` of the rows in
which it is piecewise constant, :math:`y = c(Z') + \langle a(Z'), Z\rangle`. Given :math:`Z'`, the label fixes one
direction of the other rows, and their posterior is normal. In whitened coordinates, with ``x'`` those of :math:`Z'` and
``x''`` the others, ``s`` the gradient of the label in ``x''``, and ``t`` the distance of the label from its mean, in
units of ``|s|``,

.. math:: p(x'\mid y) \propto \frac{1}{|s|}\exp\bigl(-\tfrac12|x'|^2 - \tfrac12t^2\bigr), \qquad
    x''\mid x', y \sim N\bigl(t\,u, 1 - uu^T\bigr), \quad u = s/|s|.

Only :math:`x'` is sampled, by quasi-Monte Carlo from the prior and around one place that explains the label. This holds
for all labels that are linear in some rows. Few places are enough for labels that are piecewise constant in the others,
with few large pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from glassformer.channels.labels import Labels
from glassformer.channels.multi_index.importance_sampling import Effort, PosteriorMoments
from glassformer.channels.multi_index.line_channel import LineChannel
from glassformer.channels.multi_index.line_integrals import Data, columns_of, moved_to
from glassformer.channels.multi_index.line_moments import by_blocks, expanded, in_blocks, line_pool, moments_from
from glassformer.channels.multi_index.link_rows import IntegratedRowsChannel
from glassformer.core.cache import memoize
from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array
from glassformer.numerics.batching import map_chunks, map_points
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.quasi_random import normal_points, pool_indices
from glassformer.numerics.scalarize import Entries, fill_entries, no_recompute, on_entries

# Random fields on which linearity is tried, places along straight lines through them, the relative deviation that is
# rounding, and that in units of the last digit of labels.
_TRIALS, _PLACES, _ROUNDING, _ROUNDINGS = 2**12, (-2.0, 0.7, 3.0), 1e-9, 32
# Small step of the fields, and share of steps that meet a jump, more than do by chance.
_STEP, _JUMPS = 1e-5, 1e-3
# Least probability that two places are in the same piece: of smaller ones few places meet the right one.
_SAME_PIECE = 0.05
# Sampled places of each half, points of the pilot sample, and those for more than three sampled coordinates. By trial.
_POINTS, _PILOT, _LARGE_PILOT, _COORDINATES = 64, 256, 1024, 3
# Rounds in which the pilot sample approaches what explains the label.
_ROUNDS = 2
# Width of the places around what explains the label over that of the pilot points, and the smallest width. By trial.
_WIDENING, _NARROWEST = 1.4, 0.2
# Distance from which on a place does not explain a label, logarithm of a weight below those of places that do, and
# that of no weight.
_REACH, _LEAST, _NONE = 7.5, -1e3, -1e30
# Share of their variance that the linear rows keep if the others are known, below which places hardly meet a level set:
# lines also run across the others.
_NEARLY_KNOWN = 0.05
# Largest distance of a label, whose square is no infinite number.
_LARGEST = 1e150
# Blocks of places that are treated at once, and data points with all points of the pilot sample, so that temporaries
# stay in the cache (measured).
_BLOCKS, _TOGETHER = 512, 16


@dataclass(frozen=True, eq=False)
class ConditionallyLinearChannel(IntegratedRowsChannel):
    """:math:`y = c(Z') + <a(Z'), Z>`, one number without noise, linear in some rows given the others.

    Args:
        linear: numbers of the rows in which labels are linear.
        points: data points per replica of the averages.
    """

    linear: tuple[int, ...]
    refinement_factor = default_property(2, "How many times fewer places there are in the further posterior.")

    effort: Effort = field(default=Effort(points=_POINTS, starts=1, steps=1), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @cached_property
    def labels(self) -> Labels:
        return replace(super().labels, rank=1.0)

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """All rows, with those in which labels are linear last."""
        return (*(row for row in range(self.indices) if row not in self.linear), *self.linear)

    @cached_property
    def _lines(self) -> LineChannel:
        rows = (self.indices, self.tokens, self.shape, self.symmetric)
        return LineChannel(self.link, *rows, 0.0, effort=self.effort, points=self.points)

    def moments(self, y: Array, omega: Array, root: Array) -> PosteriorMoments:
        order, sampled = np.array(self._order), self.indices - len(self.linear)
        variance = (root @ np.swapaxes(root, 1, 2))[:, order][:, :, order]
        turned = np.asarray(np.linalg.cholesky(variance), dtype=float)
        kept = np.linalg.solve(np.linalg.cholesky(variance[:, sampled:, sampled:]), turned[:, sampled:, sampled:])
        if np.linalg.svd(kept, compute_uv=False).min() ** 2 < _NEARLY_KNOWN:
            return self._lines.moments(y, omega, root)
        size = sampled * self.tokens
        places = in_blocks(line_pool(size + 1, self.effort.points))
        pilot = normal_points(size, _PILOT if size <= _COORDINATES else _LARGE_PILOT, 1)[0]

        def work(index: NDArray[np.intp], chunk: tuple[Array, ...]) -> list[Array]:
            data = Data(*chunk)
            near = tuple(map(np.asarray, self._near(data, pilot)))
            own = places[pool_indices(index, len(y), self.points, len(places))]
            scale, *integrals = by_blocks(lambda parts, own: self._compiled(*parts, own), (data, near), own, _BLOCKS)
            return [part for level in _moments_of_levels(scale, integrals) for part in level]

        columns = map_chunks(work, (self.observation(y), np.asarray(omega, dtype=float)[:, order], turned))
        # Whitened coordinates in the given order of the rows.
        back = np.linalg.solve(root, turned[:, np.argsort(order)])
        return PosteriorMoments.of_levels([_turned(part, back, self.tokens) for part in columns])[0]

    @cached_property
    def _near(self) -> CachedJit:
        return CachedJit(_explaining, link=self.link, order=self._order, linear=len(self.linear))

    @cached_property
    def _compiled(self) -> CachedJit:
        return CachedJit(_integrals, link=self.link, order=self._order, linear=len(self.linear))


def rows_of_linear_labels(link: Callable[[Any], Any], indices: int, tokens: int) -> tuple[int, ...]:
    """Return the rows in which a flat label is linear, if it is piecewise constant in all others; none otherwise.

    None as well if the pieces are many and small.

    Args:
        link: flat label of one entry, of fields of shape (P, L).
        indices: ``P``.
        tokens: ``L``.

    Example:
        >>> rows_of_linear_labels(lambda z: jnp.ravel(z[1, jnp.argmax(z[0])]), 2, 3)
        (1,)
        >>> rows_of_linear_labels(lambda z: jnp.ravel(z[0, 0] * z[1, 0]), 2, 1)
        ()
    """

    def compute() -> tuple[int, ...]:
        rng = np.random.default_rng(5)
        fields, steps = rng.standard_normal((2, _TRIALS, indices, tokens))
        here = map_points(link, fields)
        rows = []
        for row in range(indices):
            only = (np.arange(indices) == row)[:, None]
            if np.mean(np.any(map_points(link, fields + _STEP * steps * only) != here, axis=1)) > _JUMPS:
                rows.append(row)
        if len(rows) == indices:
            return ()
        in_rows = np.isin(np.arange(indices), rows)[:, None]
        elsewhere = map_points(link, np.where(in_rows, fields, np.roll(fields, 1, axis=0)))
        steps *= in_rows
        change = map_points(link, fields + steps) - here
        if np.any(change == 0) or np.mean(elsewhere == here) < _SAME_PIECE:
            return ()
        for place in _PLACES:
            found = map_points(link, fields + place * steps)
            rounding = np.finfo(float).eps * (np.abs(here) + np.abs(here + change) + np.abs(found))
            if np.any(np.abs(found - here - place * change) > _ROUNDING * np.abs(change) + _ROUNDINGS * rounding):
                return ()
        return tuple(rows)

    rows: tuple[int, ...] = memoize(compute, "rows of linear labels", link, indices, tokens)
    return rows


def _moments_of_levels(scale: Array, integrals: list[Array]) -> Iterator[tuple[Array, ...]]:
    """Yield the moments of all blocks, and if there are several, means of those of either half of the blocks.

    Args:
        scale: logarithm of the unit of the integrals, shape (n, blocks).
        integrals: of 1, ``x`` and ``x x^T``, shape (n, blocks, 2 halves, 2 parts, ...).
    """
    log_scale = scale.max(axis=1, keepdims=True)
    share = np.exp(scale - log_scale)
    scaled, blocks = [expanded(share, part) * part for part in integrals], scale.shape[1]
    for groups in (1, 2)[:blocks]:
        parts = [moments_from([part[:, k::groups].mean(axis=1) for part in scaled]) for k in range(groups)]
        log_partition, *others = (np.mean(column, axis=0) for column in zip(*parts, strict=True))
        yield log_partition + log_scale[:, 0], *others


def _turned(part: Array, back: Array, tokens: int) -> Array:
    """Return numbers, shape (n,), means, (n, D), or second moments, (n, D, D), after a rotation of the rows."""
    if part.ndim == 1:
        return part
    full = np.einsum("npq,kl->npkql", back, np.eye(tokens)).reshape(len(back), *(part.shape[1],) * 2)
    if part.ndim == 2:
        return np.asarray((full @ part[..., None])[..., 0])
    return np.asarray(full @ part @ np.swapaxes(full, 1, 2))


def _integrals(
    data: Data,
    near: tuple[jax.Array, jax.Array],
    places: jax.Array,
    link: Callable[[jax.Array], jax.Array],
    order: tuple[int, ...],
    linear: int,
) -> tuple[jax.Array, ...]:
    """Return the log of a scale of each data point, and in its units the integrals of 1, ``x`` and ``x x^T``.

    Args:
        data: labels and fields, with the rows in which labels are linear last.
        near: centre and spread of the sampled coordinates that explain the label, from :func:`_explaining`.
        places: standard normal numbers, shape (n, 2 halves, 2 parts, places, sampled coordinates).
        link: from the fields of a data point, in their own order, to its flat label.
        order: numbers of the rows.
        linear: number of the rows in which labels are linear.
    """
    count, halves, parts, each, _ = places.shape
    moved, weight = jax.vmap(moved_to)(places, *near)
    log_weight, own = _given_sampled(data, jnp.moveaxis(moved, -1, 0), link, order, linear)
    # Places far from the label have no weight even if there are no others: the data point keeps its prior then.
    log_weight = jnp.where(jnp.abs(own.distance) < _REACH, log_weight + jnp.log(weight), _NONE)
    scale = jnp.maximum(jnp.max(log_weight, axis=1, keepdims=True), _LEAST)
    weight = no_recompute(jnp.exp(log_weight - scale))

    def mean(part: jax.Array) -> jax.Array:
        return part.reshape(count, halves, parts, each).sum(axis=-1) / (parts * each)

    sampled = moved.shape[-1]
    x = [*jnp.moveaxis(moved, -1, 0), *(own.distance * part for part in own.unit)]
    size = len(x)
    first = [no_recompute(weight * part) for part in x]
    second = {}
    for a in range(size):
        for b in range(a + 1):
            product = first[a] * x[b]
            if b >= sampled:
                product = product + weight * ((a == b) - own.unit[a - sampled] * own.unit[b - sampled])
            second[a, b] = mean(product)
    rows = [jnp.stack([second[max(a, b), min(a, b)] for b in range(size)], axis=-1) for a in range(size)]
    return scale[:, 0], mean(weight), jnp.stack(list(map(mean, first)), axis=-1), jnp.stack(rows, axis=-2)


class _Linear(NamedTuple):
    """Posterior of the rows in which labels are linear, given sampled coordinates, entry by entry.

    Attributes:
        distance: whitened coordinate along the direction in which they are known.
        unit: this direction.
    """

    distance: jax.Array
    unit: list[jax.Array]


def _explaining(
    data: Data, pilot: jax.Array, link: Callable[[jax.Array], jax.Array], order: tuple[int, ...], linear: int
) -> tuple[jax.Array, jax.Array]:
    """Return centre and spread of the sampled coordinates that explain each label, shape (n, sampled coordinates).

    Of several regions that do, one normal density covers the larger or all of them; the prior covers the others.
    """

    def batch(own: Data) -> tuple[jax.Array, jax.Array]:
        centre, spread = (jnp.full((len(own.label), pilot.shape[1]), value) for value in (0.0, 1.0))
        for _ in range(_ROUNDS):
            points = centre[:, None] + spread[:, None] * pilot
            log_weight, _ = _given_sampled(own, jnp.moveaxis(points, -1, 0), link, order, linear)
            share = jax.nn.softmax(log_weight + 0.5 * jnp.sum(pilot**2 - points**2, axis=2), axis=1)[..., None]
            centre = jnp.sum(share * points, axis=1)
            deviation = jnp.sqrt(jnp.sum(share * (points - centre[:, None]) ** 2, axis=1))
            spread = jnp.maximum(_WIDENING * deviation, _NARROWEST)
        return centre, spread

    parts = jax.tree.map(lambda part: part.reshape(-1, _TOGETHER, *part.shape[1:]), data)
    return jax.tree.map(lambda part: part.reshape(-1, part.shape[-1]), jax.lax.map(batch, parts))


def _given_sampled(
    data: Data, sampled: jax.Array, link: Callable[[jax.Array], jax.Array], order: tuple[int, ...], linear: int
) -> tuple[jax.Array, _Linear]:
    """Return log-likelihoods of sampled coordinates, shape (coordinates, n, m), and the rest given them."""
    rows, columns = data.omega.shape[1:]
    first = rows - linear
    root, omega = (columns_of(part) for part in (data.root, data.omega))
    x = fill_entries((first, columns), sampled)
    mean = omega.copy()
    for p, c in np.ndindex(rows, columns):
        mean[p, c] = omega[p, c] + sum(root[p, q] * x[q, c] for q in range(min(p + 1, first)))
    back = np.argsort(order)

    def label(own: Entries) -> jax.Array:
        return no_recompute(on_entries(link)(np.concatenate([mean[:first], own])[back])[0])

    nothing = fill_entries((linear, columns), np.zeros(linear * columns))
    offset = label(nothing)
    deviation, slope = columns_of(data.label)[0] - offset, fill_entries((linear, columns), [0.0] * linear * columns)
    for p, c in np.ndindex(linear, columns):
        one = nothing.copy()
        one[p, c] = 1.0
        change = label(one) - offset
        deviation = deviation - change * mean[first + p, c]
        for q in range(p + 1):
            slope[q, c] = slope[q, c] + root[first + p, first + q] * change
    size = jnp.sqrt(sum(part**2 for part in slope.ravel()))
    sound = jnp.isfinite(size) & jnp.isfinite(deviation) & (size > 0)
    width = jnp.where(sound, size, 1.0)
    distance = no_recompute(jnp.clip(jnp.where(sound, deviation, 0.0) / width, -_LARGEST, _LARGEST))
    log_weight = -0.5 * distance**2 - jnp.log(width) - 0.5 * np.log(2 * np.pi)
    unit = [no_recompute(jnp.where(sound, part, 0.0) / width) for part in slope.ravel().tolist()]
    return jnp.where(sound, jnp.maximum(log_weight, _NONE), _NONE), _Linear(distance, unit)
