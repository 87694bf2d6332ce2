r"""Noiseless functions of several projections with one number as label, integrated along lines.

In whitened coordinates the fields of a data point are standard normal and the label fixes a level set. Lines parallel
to every axis cross it in points (continuous labels) or intervals (discrete ones) that are found by bisection, so one
integral is exact and the others are quasi-Monte Carlo. A continuous label may have atoms (zero, for sums of rectified
fields): level sets of positive measure, where lines lie in them for whole intervals. A crossing
found along axis ``j`` carries the weight
:math:`(\partial_jg)^2/|\nabla g|^2`, which adds to one over the axes and removes the singularity of tangent lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
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
from glassformer.core.numerics.eigenvalues import with_eigenvalues
from glassformer.core.numerics.quasi_random import normal_points
from glassformer.models.channels.multi_index.importance_sampling import Effort, Functions, Moments
from glassformer.models.channels.multi_index.link_rows import LinkRowsChannel

# Half-length of a line, cells on it, crossings kept, and halvings of a cell that holds one.
_REACH, _CELLS, _CROSSINGS, _HALVINGS = 7.5, 96, 8, 20
# Share of a level set in intervals from which on it has positive measure.
_MASSIVE = 1e-9
_TINY = 1e-300
# Deviation of a label at a crossing that is none of a jump.
_ROOT = 1e-5
# Points of a pilot sample, those next to a level set, and the spread of lines around them over theirs, and at least.
_PILOT, _NEAREST, _WIDER, _NARROWEST = 256, 16, 1.4, 0.2
# Step of the differences that make a gradient, in whitened coordinates.
_STEP = 1e-5
# Lines per axis and half, and numbers in the pool of random shifts.
_LINES, _NUMBERS = 32, 800_000
_BATCH = 16
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
    def functions(self) -> Functions:
        return Functions(_nothing, _nothing, self.link)

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        if self.atoms == 1:
            raise IncompatibleError("needs labels that vary smoothly with the weights")
        return super().traceable_label

    def moments(self, y: Array, omega: Array, root: Array) -> Moments:
        data = (self.observed(y), np.asarray(omega, dtype=float), root)
        with jax.enable_x64(True):
            lines = jnp.asarray(_lines(self.latents, self.effort.points))
            pilot = jnp.asarray(normal_points(self.latents, _PILOT, 1)[0])

        moments = Specialised(_moments, link=self.link, points=self.atoms < 1, intervals=self.atoms > 0)

        def work(index: Any, chunk: Any) -> Any:
            return moments(jnp.asarray(index % len(lines)), chunk, lines, pilot)

        return Moments(*in_chunks(work, data))


def _nothing(x: Any, datum: Any) -> Any:
    """Lines need no search for modes."""
    del datum
    return x


@lru_cache(maxsize=4)
def _lines(dimension: int, count: int) -> Array:
    """Where lines cross the other coordinates, shape (pool, 2 halves, 2 parts, lines, dimension - 1).

    A line is followed by its mirror image. Parts are independent: how far they are apart tells the bias of ratios.
    """
    if dimension == 1:
        return np.zeros((1, 2, 1, 1, 0))
    rng, base = np.random.default_rng(0), qmc.Sobol(dimension - 1, seed=0).random(count // 4)
    pool = int(np.clip(_NUMBERS // (4 * base.size), 16, 4096))
    shifted = (base + rng.random((pool, 2, 2, 1, dimension - 1))) % 1
    points = ndtri(np.clip(shifted, 1e-12, 1 - 1e-12))
    return np.stack([points, -points], axis=4).reshape(pool, 2, 2, count // 2, dimension - 1)


def _moments(
    turns: Any, data: Any, lines: Any, pilot: Any, link: Callable[[Any], Any], points: bool, intervals: bool
) -> Any:
    def one(item: Any) -> Any:
        turn, (label, omega, root) = item

        def value(x: Any) -> Any:
            return link(omega + root @ x.reshape(omega.shape)) - label

        kinds = [_interval_moments] * intervals + [_point_moments] * points
        where = _near(value, pilot)
        sums = [_along_axes(partial(kind, value), lines[turn], *where) for kind in kinds]
        # A level set of positive measure has no points apart from it that matter.
        massive = jnp.sum(sums[0][0]) > _MASSIVE
        chosen = [jnp.where(massive, first, last) for first, last in zip(sums[0], sums[-1], strict=True)]
        return _combined(chosen, 1 / omega.size if intervals and not points else 1.0)

    return jax.lax.map(one, (turns, data), batch_size=_BATCH)


def _near(value: Callable[[Any], Any], pilot: Any) -> tuple[Any, Any]:
    """Centre and spread of the part of the prior that is next to the level set, from a pilot sample in two rounds."""
    centre, spread = jnp.zeros(pilot.shape[1]), jnp.ones(pilot.shape[1])
    for _ in range(2):
        points = centre + spread * pilot
        distance = jnp.sum(jnp.abs(jax.vmap(value)(points)), axis=1)
        index = jax.lax.top_k(-distance, _NEAREST)[1]
        share = jax.nn.softmax(0.5 * jnp.sum(pilot[index] ** 2 - points[index] ** 2, axis=1))
        centre = share @ points[index]
        spread = jnp.maximum(_WIDER * jnp.sqrt(share @ (points[index] - centre) ** 2), _NARROWEST)
    return centre, spread


def _combined(integrals: Any, scale: float) -> Any:
    """Moments from the integrals of 1, ``x`` and ``x x^T`` along the lines, shape (2 halves, 2 parts, ...)."""
    zeroth, first, second = integrals
    halves = [part.sum(axis=1) for part in (zeroth, first, second)]
    whole = [part.sum(axis=0) for part in halves]
    mean, square = (_ratio(part, whole[0]) for part in whole[1:])
    # A half that misses the level set is replaced by the other, a part by its half.
    own = [jnp.where(_found(halves[0], part), part, part[::-1]) for part in halves]
    parts = [
        jnp.where(_found(zeroth, part), part, half[:, None])
        for part, half in zip((zeroth, first, second), own, strict=True)
    ]
    # The bias of a ratio falls as one over the sample: twice the whole less the mean of its parts is free of it.
    means, squares = (2 * _ratio(own[k], own[0]) - jnp.mean(_ratio(parts[k], parts[0]), axis=1) for k in (1, 2))
    plain = [_ratio(own[k], own[0]) for k in (1, 2)]
    within = jnp.mean(plain[1] - jnp.einsum("hi,hj->hij", plain[0], plain[0]), axis=0)
    covariance = 2 * (square - jnp.outer(mean, mean)) - within
    return jnp.log(0.5 * scale * jnp.maximum(whole[0], _TINY)), *means, covariance, *squares, jnp.ones(())


def _found(zeroth: Any, like: Any) -> Any:
    return (zeroth > 0).reshape(zeroth.shape + (1,) * (like.ndim - zeroth.ndim))


def _ratio(part: Any, zeroth: Any) -> Any:
    return part / jnp.maximum(zeroth, _TINY).reshape(zeroth.shape + (1,) * (part.ndim - zeroth.ndim))


def _along_axes(on_axis: Callable[..., Any], lines: Any, centre: Any, spread: Any) -> tuple[Any, Any, Any]:
    """Integrals of one, ``x`` and ``x x^T`` over the level set, by halves and parts of the lines along all axes."""
    dimension, count = len(centre), lines.shape[2]
    place = jnp.arange(dimension)
    # Every other pair of lines is drawn around the level set, the others from the prior.
    near = jnp.arange(count) // 2 % 2 == 1

    def along(axis: Any, rest: Any, near: Any) -> Any:
        # The line's own coordinate goes to place ``axis``, the others keep their order.
        others = jnp.where(place < axis, place, place - 1)
        padded = jnp.append(rest, 0.0)[jnp.clip(others, 0, max(dimension - 2, 0))]
        across = place != axis
        base = jnp.where(across, jnp.where(near, centre + spread * padded, padded), 0.0)
        shape = 0.5 * (base**2 - ((base - centre) / spread) ** 2) - jnp.log(spread)
        ratio = jnp.exp(jnp.sum(jnp.where(across, shape, 0.0)))
        weight = 2 / (1 + ratio) if count > 1 else 1.0
        return [weight * part for part in on_axis(axis, base, jnp.where(across, 0.0, 1.0))]

    flat, kinds = lines.reshape(-1, max(dimension - 1, 0)), jnp.tile(near, lines.shape[0] * lines.shape[1])
    found = jax.vmap(lambda axis: jax.vmap(partial(along, axis))(flat, kinds))(place)
    sums = [part.sum(axis=0).reshape(*lines.shape[:3], *part.shape[2:]).sum(axis=2) for part in found]
    zeroth, first, second = (part / (lines.shape[1] * count) for part in sums)
    return zeroth, first, second


def _crossings(test: Callable[[Any], Any]) -> tuple[tuple[Any, Any], Any]:
    """Ends of the cells in which a truth value along the line changes, padded with the far end, and its first value."""
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
    return (low, high), inside[0]


def _interval_moments(value: Callable[[Any], Any], axis: Any, base: Any, unit: Any) -> tuple[Any, Any, Any]:
    del axis
    (low, high), inside = _crossings(lambda t: jnp.all(jnp.abs(value(base + t * unit)) < 1e-9))
    edges = jnp.concatenate([jnp.full(1, -jnp.inf), 0.5 * (low + high), jnp.full(1, jnp.inf)])
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

    (low, high), _ = _crossings(lambda t: at(base + t * unit) > 0)
    below, above = (jax.vmap(lambda t: at(base + t * unit))(end) for end in (low, high))
    # A secant ends the search.
    share = jnp.clip(below / jnp.where(below == above, 1.0, below - above), 0.0, 1.0)
    places = low + share * (high - low)
    x = base + places[:, None] * unit
    left = jax.vmap(at)(x)
    # By differences: compiled, the derivative of a maximum compares numbers that may have been rounded twice.
    steps = _STEP * jnp.eye(base.size)
    ahead, behind = (jax.vmap(jax.vmap(at))(x[:, None] + sign * steps) for sign in (1, -1))
    gradient = (ahead - behind) / (2 * _STEP)
    size = jnp.sum(gradient**2, axis=1)
    # A jump of the label is no root, and padding no crossing.
    root = (jnp.abs(left) <= _ROOT * (1 + jnp.sqrt(size))) & (jnp.abs(places) < _REACH) & (size > 0)
    weight = (
        jnp.exp(-0.5 * places**2) / np.sqrt(2 * np.pi) * jnp.abs(gradient[:, axis]) / jnp.where(size > 0, size, 1.0)
    )
    weight = jnp.where(root, weight, 0.0)
    return jnp.sum(weight), weight @ x, (weight * x.T) @ x
