r"""Noiseless labels that are linear in some rows of fields and piecewise constant in all others.

Such is the value that hard attention reads, :math:`y = z_{1,\arg\max z_0}`. With the fields :math:`Z'` of the rows in
which it is piecewise constant, :math:`y = c(Z') + \langle a(Z'), Z\rangle`. Given :math:`Z'`, the label fixes one
direction of the other rows, and their posterior is normal. In whitened coordinates, with ``x'`` those of :math:`Z'`,
``s`` the gradient along the others, and ``t`` the distance of the label from its mean in units of ``|s|``,

.. math:: p(x'\mid y) \propto \frac{1}{|s|}\exp\bigl(-\tfrac12|x'|^2 - \tfrac12t^2\bigr), \qquad
    x\mid x', y \sim N\bigl(t\,u, 1 - uu^T\bigr), \quad u = s/|s|.

Only :math:`x'` is sampled, by quasi-Monte Carlo from the prior and around the part of it that explains the label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from glassformer.channels.labels import Labels
from glassformer.channels.multi_index.importance_sampling import Effort, PosteriorMoments
from glassformer.channels.multi_index.line_integrals import Data, columns_of, moved_to
from glassformer.channels.multi_index.line_moments import by_blocks, expanded, in_blocks, line_pool, moments_from
from glassformer.channels.multi_index.link_rows import IntegratedRowsChannel
from glassformer.core.cache import memoize
from glassformer.core.estimate import Array
from glassformer.numerics.batching import map_chunks, map_points
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.quasi_random import normal_points, pool_indices
from glassformer.numerics.scalarize import Entries, fill_entries, no_recompute, on_entries

# Random fields on which linearity is tried, places along straight lines through them, and the relative deviation that
# is rounding.
_TRIALS, _PLACES, _ROUNDING = 2**12, (-2.0, 0.7, 3.0), 1e-9
# Small step of the fields, and share of steps that meet a jump, more than do by chance.
_STEP, _JUMPS = 1e-5, 1e-3
# Sampled places of each part of each half, and points of the pilot sample. By trial.
_POINTS, _PILOT = 64, 256
# Rounds in which the pilot sample approaches what explains the label.
_ROUNDS = 2
# Width of the places around what explains the label over that of the pilot points, and the smallest width. By trial.
_WIDENING, _NARROWEST = 1.4, 0.2
# Distance from which on a place does not explain a label, logarithm of a weight below those of places that do, and
# that of no weight.
_REACH, _LEAST, _NONE = 7.5, -1e3, -1e30
# Blocks of places that are treated at once, so that temporaries stay in the cache (measured).
_BLOCKS = 512


@dataclass(frozen=True, eq=False)
class ConditionallyLinearChannel(IntegratedRowsChannel):
    """:math:`y = c(Z') + <a(Z'), Z>`, one number without noise, linear in some rows given the others.

    Args:
        linear: numbers of the rows in which labels are linear.
        points: data points per replica of the averages.
    """

    linear: tuple[int, ...]

    effort: Effort = field(default=Effort(points=_POINTS, starts=1, steps=1), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @cached_property
    def labels(self) -> Labels:
        return replace(super().labels, rank=1.0)

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """All rows, with those in which labels are linear last."""
        return (*(row for row in range(self.indices) if row not in self.linear), *self.linear)

    def moments(self, y: Array, omega: Array, root: Array) -> PosteriorMoments:
        order = np.array(self._order)
        turned = np.linalg.cholesky((root @ np.swapaxes(root, 1, 2))[:, order][:, :, order])
        sampled = (self.indices - len(self.linear)) * self.tokens
        places, pilot = in_blocks(line_pool(sampled + 1, self.effort.points)), normal_points(sampled, _PILOT, 1)[0]

        def work(index: NDArray[np.intp], chunk: tuple[Array, ...]) -> list[Array]:
            data = Data(*chunk)
            near = tuple(map(np.asarray, self._near(data, pilot)))
            own = places[pool_indices(index, len(y), self.points, len(places))]
            scale, *integrals = by_blocks(lambda parts, own: self._compiled(*parts, own), (data, near), own, _BLOCKS)
            log_scale = scale.max(axis=1, keepdims=True)
            share = np.exp(scale - log_scale)
            log_partition, *others = moments_from([(expanded(share, part) * part).mean(axis=1) for part in integrals])
            return [log_partition + log_scale[:, 0], *others]

        mean = np.asarray(omega, dtype=float)[:, order]
        columns = map_chunks(work, (self.observation(y), mean, np.asarray(turned, dtype=float)))
        # Whitened coordinates in the given order of the rows.
        back = np.linalg.solve(root, turned[:, np.argsort(order)])
        return PosteriorMoments.of_levels([columns[0], *(_turned(part, back, self.tokens) for part in columns[1:])])[0]

    @cached_property
    def _near(self) -> CachedJit:
        return CachedJit(_explaining, link=self.link, order=self._order, linear=len(self.linear))

    @cached_property
    def _compiled(self) -> CachedJit:
        return CachedJit(_integrals, link=self.link, order=self._order, linear=len(self.linear))


def rows_of_linear_labels(link: Callable[[Any], Any], indices: int, tokens: int) -> tuple[int, ...]:
    """Return the rows in which a flat label is linear, if it is piecewise constant in all others; none otherwise.

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
        steps *= np.isin(np.arange(indices), rows)[:, None]
        change = map_points(link, fields + steps) - here
        if np.any(change == 0):
            return ()
        for place in _PLACES:
            found = map_points(link, fields + place * steps)
            bend = np.abs(found - here - place * change)
            if np.any(bend > _ROUNDING * (np.abs(here) + np.abs(change) + np.abs(found))):
                return ()
        return tuple(rows)

    rows: tuple[int, ...] = memoize(compute, "rows of linear labels", link, indices, tokens)
    return rows


def _turned(part: Array, back: Array, tokens: int) -> Array:
    """Return means, shape (n, D), or second moments, (n, D, D), after a rotation of the rows, shape (n, P, P)."""
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
    # Places that do not explain the label have no weight even if there are no others.
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
    """Return centre and spread of the sampled coordinates that explain each label, shape (n, sampled coordinates)."""
    count, size = len(data.label), pilot.shape[1]
    centre, spread = jnp.zeros((count, size)), jnp.ones((count, size))
    for _ in range(_ROUNDS):
        points = centre[:, None] + spread[:, None] * pilot
        log_weight, _ = _given_sampled(data, jnp.moveaxis(points, -1, 0), link, order, linear)
        share = jax.nn.softmax(log_weight + 0.5 * jnp.sum(pilot**2 - points**2, axis=2), axis=1)[..., None]
        centre = jnp.sum(share * points, axis=1)
        deviation = jnp.sqrt(jnp.sum(share * (points - centre[:, None]) ** 2, axis=1))
        spread = jnp.maximum(_WIDENING * deviation, _NARROWEST)
    return centre, spread


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
    distance = no_recompute(jnp.where(sound, deviation, 0.0) / width)
    log_weight = -0.5 * distance**2 - jnp.log(width) - 0.5 * np.log(2 * np.pi)
    unit = [no_recompute(jnp.where(sound, part, 0.0) / width) for part in slope.ravel().tolist()]
    return jnp.where(sound, jnp.maximum(log_weight, _NONE), _NONE), _Linear(distance, unit)
