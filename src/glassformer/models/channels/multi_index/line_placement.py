"""Lines through the fields of data points, half of them drawn around the level sets of their labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.core.numerics.written_out import written_out

# Points of a pilot sample next to a level set, and the spread of lines around them over theirs, and at least.
_NEAREST, _WIDER, _NARROWEST = 8, 1.4, 0.2
# Rounds of that sample.
_ROUNDS = 2


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
        start: the fields of their middles, shape (n, D, m, P, L).
        turned: what each whitened coordinate changes the fields by, shape (n, D, P, L).
        label: of the level sets, shape (n, k).
    """

    base: Any
    weight: Any
    start: Any
    turned: Any
    label: Any


def placed(label: Any, omega: Any, root: Any, lines: Any, pilot: Any, link: Callable[[Any], Any]) -> Bundle:
    """Lines of data points.

    Args:
        label: as in :class:`Data`.
        omega: as in it.
        root: as in it.
        lines: standard normal places at which each data point's lines cross the other coordinates, shape (n, 2 halves,
            2 parts, lines, D - 1). The first half of each part is drawn from the prior, the second around the level
            set: either half of a quasi-random sample is one itself.
        pilot: standard normal whitened coordinates, shape (points, D).
        link: of the labels.
    """
    quick = written_out(link)

    def one(label: Any, omega: Any, root: Any, lines: Any) -> Bundle:
        rows, columns = omega.shape

        def fields(x: Any) -> Any:
            # Term by term: products of many small matrices take several times as long.
            shaped = x.reshape(*x.shape[:-1], rows, columns)
            terms = (root[:, q, None] * shaped[..., q, None, :] for q in range(rows))
            return sum(terms, omega)

        def distance(x: Any) -> Any:
            found = jax.vmap(lambda z: jnp.sum(jnp.abs(quick(z) - label)))(fields(x))
            return jnp.where(jnp.isnan(found), jnp.inf, found)

        base, weight = _around(lines, *_near(distance, pilot))
        unit = jnp.eye(rows * columns).reshape(-1, rows, columns)
        return Bundle(base, weight, fields(base), root @ unit, label)

    return jax.vmap(one)(label, omega, root, lines)


def _near(distance: Callable[[Any], Any], pilot: Any) -> tuple[Any, Any]:
    """Centre and spread, shape (D,), of the part of the prior next to a level set."""
    centre, spread = jnp.zeros(pilot.shape[1]), jnp.ones(pilot.shape[1])
    for _ in range(_ROUNDS):
        points = centre + spread * pilot
        # Single precision is enough to choose, and five times as fast.
        _, index = jax.lax.top_k(-distance(points).astype(jnp.float32), _NEAREST)
        close = points[index]
        share = jax.nn.softmax(0.5 * jnp.sum(pilot[index] ** 2 - close**2, axis=1))
        centre = share @ close
        spread = jnp.maximum(_WIDER * jnp.sqrt(share @ (close - centre) ** 2), _NARROWEST)
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
