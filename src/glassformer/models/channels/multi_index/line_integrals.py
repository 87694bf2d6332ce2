r"""Noiseless functions of several projections with one number as label, integrated along lines.

In whitened coordinates the fields of a data point are standard normal and the label fixes a level set. Lines parallel
to every axis cross it in points (continuous labels) or intervals (discrete ones) that are found by bisection, so one
integral is exact and the others are quasi-Monte Carlo. A crossing found along axis ``j`` carries the weight
:math:`(\partial_jg)^2/|\nabla g|^2`, which adds to one over the axes and removes the singularity of tangent lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from glassformer.core.errors import IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.numerics.batching import in_chunks
from glassformer.core.numerics.compiled import Specialised
from glassformer.models.channels.multi_index.importance_sampling import Effort, Functions, Moments
from glassformer.models.channels.multi_index.link_rows import LinkRowsChannel

# Half-length of a line, cells on it, crossings kept, and halvings of a cell that holds one.
_REACH, _CELLS, _CROSSINGS, _HALVINGS = 7.5, 96, 8, 45
# Lines per axis and half, and numbers in the pool of random shifts.
_LINES, _NUMBERS = 16, 400_000
_BATCH = 16


@dataclass(frozen=True, eq=False)
class LineChannel(LinkRowsChannel):
    """:math:`y = g(Z)`, one number, or several for discrete labels, without noise.

    Args:
        discrete: whether labels take few values.
        points: data points per replica of the averages.
    """

    discrete: bool
    effort: Effort = field(default=Effort(points=_LINES, starts=1, steps=1), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @property
    def rank(self) -> float:
        return 0.0 if self.discrete else 1.0

    @property
    def functions(self) -> Functions:
        return Functions(_nothing, _nothing, self.link)

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        if self.discrete:
            raise IncompatibleError("needs labels that vary smoothly with the weights")
        return super().traceable_label

    def moments(self, y: Array, omega: Array, root: Array) -> Moments:
        data = (self.observed(y), np.asarray(omega, dtype=float), root)
        with jax.enable_x64(True):
            lines = jnp.asarray(_lines(self.latents, self.effort.points))

        moments = Specialised(_moments, link=self.link, discrete=self.discrete)

        def work(index: Any, chunk: Any) -> Any:
            return moments(jnp.asarray(index % len(lines)), chunk, lines)

        return Moments(*in_chunks(work, data))


def _nothing(x: Any, datum: Any) -> Any:
    """Lines need no search for modes."""
    del datum
    return x


@lru_cache(maxsize=4)
def _lines(dimension: int, count: int) -> Array:
    """Where lines cross the other coordinates, shape (pool, 2 halves, lines, dimension - 1), symmetric about zero."""
    if dimension == 1:
        return np.zeros((1, 2, 1, 0))
    rng, base = np.random.default_rng(0), qmc.Sobol(dimension - 1, seed=0).random(count // 2)
    pool = int(np.clip(_NUMBERS // (2 * base.size), 16, 4096))
    shifted = (base + rng.random((pool, 2, 1, dimension - 1))) % 1
    points = ndtri(np.clip(shifted, 1e-12, 1 - 1e-12))
    return np.concatenate([points, -points], axis=2)


def _moments(turns: Any, data: Any, lines: Any, link: Callable[[Any], Any], discrete: bool) -> Any:
    def one(item: Any) -> Any:
        turn, (label, omega, root) = item

        def value(x: Any) -> Any:
            return link(omega + root @ x.reshape(omega.shape)) - label

        halves = [_half(value, discrete, omega.size, lines[turn, k]) for k in range(2)]
        return _combined(halves)

    return jax.lax.map(one, (turns, data), batch_size=_BATCH)


def _combined(halves: list[tuple[Any, Any, Any]]) -> Any:
    (m0, m1, m2), (n0, n1, n2) = halves
    tiny = 1e-300
    first, second = m1 / jnp.maximum(m0, tiny), n1 / jnp.maximum(n0, tiny)
    one, two = m2 / jnp.maximum(m0, tiny), n2 / jnp.maximum(n0, tiny)
    total = jnp.maximum(m0 + n0, tiny)
    mean, square = (m1 + n1) / total, (m2 + n2) / total
    whole = square - jnp.outer(mean, mean)
    parts = one - jnp.outer(first, first) + two - jnp.outer(second, second)
    return jnp.log(0.5 * total), first, second, 2 * whole - 0.5 * parts, one, two, jnp.ones(())


def _half(value: Callable[[Any], Any], discrete: bool, dimension: int, lines: Any) -> tuple[Any, Any, Any]:
    """Integrals of one, ``x`` and ``x x^T`` over the level set, from the lines along all axes."""
    on_axis = partial(_interval_moments if discrete else _point_moments, value)

    def along(axis: Any, rest: Any) -> Any:
        # The line's own coordinate goes to place ``axis``, the others keep their order.
        place = jnp.arange(dimension)
        others = jnp.where(place < axis, place, place - 1)
        padded = jnp.append(rest, 0.0)
        base = jnp.where(place == axis, 0.0, padded[jnp.clip(others, 0, max(dimension - 2, 0))])
        return on_axis(axis, base, jnp.where(place == axis, 1.0, 0.0))

    axes = jnp.arange(dimension)
    found = jax.vmap(lambda axis: jax.vmap(lambda rest: along(axis, rest))(lines))(axes)
    # Discrete labels: every axis estimates the whole; continuous ones: the axes share it.
    scale = (1 / dimension if discrete else 1.0) / len(lines)
    zeroth, first, second = (scale * jnp.sum(part, axis=(0, 1)) for part in found)
    return zeroth, first, second


def _crossings(test: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Places where a truth value along the line changes, padded with the far end, and the value at the near end."""
    grid = jnp.linspace(-_REACH, _REACH, _CELLS + 1)
    inside = jax.vmap(test)(grid)
    cell = jnp.nonzero(inside[1:] != inside[:-1], size=_CROSSINGS, fill_value=_CELLS)[0]
    low, high = grid[jnp.minimum(cell, _CELLS)], grid[jnp.minimum(cell + 1, _CELLS)]
    before = inside[jnp.minimum(cell, _CELLS)]

    def halve(_: int, ends: Any) -> Any:
        a, b = ends
        middle = 0.5 * (a + b)
        same = jax.vmap(test)(middle) == before
        return jnp.where(same, middle, a), jnp.where(same, b, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (low, high))
    return 0.5 * (low + high), inside[0]


def _interval_moments(value: Callable[[Any], Any], axis: Any, base: Any, unit: Any) -> tuple[Any, Any, Any]:
    del axis
    places, inside = _crossings(lambda t: jnp.all(jnp.abs(value(base + t * unit)) < 1e-9))
    edges = jnp.concatenate([jnp.full(1, -jnp.inf), places, jnp.full(1, jnp.inf)])
    within = inside ^ (jnp.arange(len(edges) - 1) % 2 == 1)
    # Padding repeats the far end, where intervals are empty.
    used = within & (edges[1:] > edges[:-1])
    cdf, pdf = jax.scipy.stats.norm.cdf(edges), jax.scipy.stats.norm.pdf(edges)
    moment = jnp.where(jnp.isfinite(edges), edges, 0.0) * pdf
    m0 = jnp.sum(jnp.where(used, jnp.diff(cdf), 0.0))
    m1 = jnp.sum(jnp.where(used, -jnp.diff(pdf), 0.0))
    m2 = m0 - jnp.sum(jnp.where(used, jnp.diff(moment), 0.0))
    square = m0 * jnp.outer(base, base) + m1 * (jnp.outer(base, unit) + jnp.outer(unit, base))
    return m0, m0 * base + m1 * unit, square + m2 * jnp.outer(unit, unit)


def _point_moments(value: Callable[[Any], Any], axis: Any, base: Any, unit: Any) -> tuple[Any, Any, Any]:
    def at(x: Any) -> Any:
        return value(x)[0]

    places, _ = _crossings(lambda t: at(base + t * unit) > 0)
    x = base + places[:, None] * unit
    left, gradient = jax.vmap(jax.value_and_grad(at))(x)
    size = jnp.sum(gradient**2, axis=1)
    # A jump of the label is no root, and padding no crossing.
    root = (jnp.abs(left) <= 1e-6 * (1 + jnp.sqrt(size))) & (jnp.abs(places) < _REACH) & (size > 0)
    weight = (
        jnp.exp(-0.5 * places**2) / np.sqrt(2 * np.pi) * jnp.abs(gradient[:, axis]) / jnp.where(size > 0, size, 1.0)
    )
    weight = jnp.where(root, weight, 0.0)
    return jnp.sum(weight), weight @ x, (weight * x.T) @ x
