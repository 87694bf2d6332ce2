"""Lines through the fields of data points, half of them drawn around the level sets of their labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.scalarize import scalarize


@dataclass(frozen=True)
class Lines:
    """How lines are laid through level sets, where they cross them, and what is made of the crossings."""

    lines: int = 64  # per axis and half
    low_accuracy: int = 4  # how many times fewer of them tell where fixed points are
    pilot: int = 64  # points of a pilot sample, which tells where lines are best
    rounds: int = 2  # of that sample
    nearest: int = 8  # points of it next to a level set
    wider: float = 1.4  # spread of lines around these, over theirs
    narrowest: float = 0.2  # that spread at least
    reach: float = 7.5  # half-length of a line
    cells: int = 56  # on it, where links are smooth
    longer: tuple[int, ...] = (1, 2)  # times as long: what longer ones hide tells what theirs do
    finer: tuple[int, ...] = (1, 2, 4, 8, 16)  # times as many of waves, but the last: they are told by those
    unseen: float = 1e-3  # share of the weight of level sets that two crossings in one cell may hide
    probed: int = 512  # lines that tell it
    turned: int = 4  # times as many, in all directions, tell what jumps and kinks hide where fields are correlated
    sharp: float = 1e-2  # share that those may hide: smooth curves do, and have most of it along other axes
    apart: float = 1e-4  # share of a cell between two points, below which they are one
    far: float = 16.0  # median of labels over their spread from which on single precision is none of their changes
    centre: float = 4.2  # half as many times the length of those next to its middle
    growth: int = 16  # even power with which they grow from there, the last ones to ten times that length
    halvings: int = 16  # of a cell that holds the edge of an interval: errors of 1e-6, of either sign, average away
    first: int = 1  # halvings of one that holds a point
    kinked: int = 6  # the same where links have kinks: next to one that is level on one side secants hardly move
    secants: int = 7  # that follow
    same: float = 1e-9  # difference of labels that are the same
    root: float = 1e-5  # deviation of a label at a crossing that is none of a jump
    step: float = 1e-5  # of the differences that make a gradient, in whitened coordinates
    short: float = 3e-3  # whitened deviation of fields, below which cells are too short for single precision
    at_once: int = 2**14  # lines along each axis that are followed at once, so that temporaries stay in the cache
    blocks: int = 32  # of those lines, few of which have cells that hide something
    numbers: int = 800_000  # in the pool of random shifts
    massive: float = 1e-9  # share of a level set in intervals from which on it has positive measure, times their spread
    shown: int = 2**14  # random fields that show the labels there are
    decisive: float = 1e-9  # variance below which the mean alone decides between them


POLICY = Lines()


class Data(NamedTuple):
    """Labels (n, k), mean fields (n, P, L) and roots of their covariances (n, P, P)."""

    label: Any
    omega: Any
    root: Any


class Bundle(NamedTuple):
    """Lines along the axes of the D whitened coordinates of n data points, m along each.

    Attributes:
        base: whitened coordinates of their middles, shape (n, D, m, D).
        weight: importance weights, shape (n, D, m).
    """

    base: Any
    weight: Any


def spread(root: Array) -> Array:
    """What the whitened coordinate of least effect changes the fields by, shape (n,), from roots of shape (n, P, P)."""
    return np.asarray(np.abs(root).max(axis=1).min(axis=1))


def placed(data: Data, lines: Any, pilot: Any, link: Callable[[Any], Any]) -> Bundle:
    """Lines of data points.

    Args:
        data: labels and fields.
        lines: standard normal places at which each data point's lines cross the other coordinates, shape (n, 2 halves,
            2 parts, lines, D - 1). The first half of each part is drawn from the prior, the second around the level
            set: either half of a quasi-random sample is one itself.
        pilot: standard normal whitened coordinates, shape (points, D).
        link: of the labels.
    """
    quick = scalarize(link)

    def one(datum: Data, lines: Any) -> Bundle:
        label, omega, root = datum
        rows, columns = omega.shape

        def fields(x: Any) -> Any:
            # Term by term: products of many small matrices take several times as long.
            shaped = x.reshape(*x.shape[:-1], rows, columns)
            terms = (root[:, q, None] * shaped[..., q, None, :] for q in range(rows))
            return sum(terms, omega)

        def distance(x: Any) -> Any:
            found = jax.vmap(lambda z: jnp.sum(jnp.abs(quick(z) - label)))(fields(x))
            return jnp.where(jnp.isnan(found), jnp.inf, found)

        return Bundle(*_around(lines, *_near(distance, pilot)))

    return jax.vmap(one)(data, lines)


def _near(distance: Callable[[Any], Any], pilot: Any) -> tuple[Any, Any]:
    """Centre and spread, shape (D,), of the part of the prior next to a level set."""
    centre, spread = jnp.zeros(pilot.shape[1]), jnp.ones(pilot.shape[1])
    for _ in range(POLICY.rounds):
        points = centre + spread * pilot
        # Single precision is enough to choose, and five times as fast.
        _, index = jax.lax.top_k(-distance(points).astype(jnp.float32), POLICY.nearest)
        close = points[index]
        share = jax.nn.softmax(0.5 * jnp.sum(pilot[index] ** 2 - close**2, axis=1))
        centre = share @ close
        spread = jnp.maximum(POLICY.wider * jnp.sqrt(share @ (close - centre) ** 2), POLICY.narrowest)
    return centre, spread


def _around(lines: Any, centre: Any, spread: Any) -> tuple[Any, Any]:
    """Middles of lines along every axis, shape (D, m, D), and their importance weights."""
    each, size = lines.shape[-2], len(centre)
    flat = lines.reshape(-1, lines.shape[-1])
    near = (jnp.arange(len(flat)) % each >= each // 2)[:, None]
    found = []
    for axis in range(size):
        # The line's own coordinate goes to place ``axis``, the others keep their order.
        across = jnp.arange(size) != axis
        base = jnp.insert(flat, axis, 0.0, axis=1)
        base = jnp.where(near & across, centre + spread * base, base)
        shape = 0.5 * (base**2 - ((base - centre) / spread) ** 2) - jnp.log(spread)
        ratio = jnp.exp(jnp.sum(jnp.where(across, shape, 0.0), axis=1))
        found.append((base, 2 / (1 + ratio) if each > 1 else jnp.ones_like(ratio)))
    middles, weights = zip(*found, strict=True)
    return jnp.stack(middles), jnp.stack(weights)
