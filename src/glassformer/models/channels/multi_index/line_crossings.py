"""Integrals over what lines have in common with the level set of a label, along all axes, compiled as one program.

Truth values at the nodes of a line's grid are the digits of one number, whose changes are followed one after the
other, on all lines at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.core.numerics.entries import Entries, entries, filled
from glassformer.models.channels.multi_index.line_grids import grid
from glassformer.models.channels.multi_index.line_placement import POLICY, Bundle, Data, placed
from glassformer.models.channels.multi_index.line_search import Common, Lines


class Sums(NamedTuple):
    """Integrals of one, ``x`` and ``x x^T`` over the level set, shape (n, halves, parts, ...)."""

    zeroth: Any
    first: Any
    second: Any


def integrals(
    data: Data,
    lines: Any,
    pilot: Any,
    link: Callable[[Any], Any],
    common: Callable[[Lines, Any], Common],
    rough: Any,
    cells: int,
) -> Sums:
    """Parts' shares of means over lines, summed over axes.

    Args:
        data: labels and fields.
        lines: places of lines, as :func:`~.line_placement.placed` takes them.
        pilot: likewise.
        link: of the labels.
        common: what of lines counts.
        rough: type of the numbers that tell where.
        cells: of a line, a multiple of those that one number holds.
    """
    bundle = placed(data, lines, pilot, link)
    count, halves, parts, each, _ = lines.shape
    turned = _turned(data)

    def along(sums: Sums, own: Any) -> tuple[Sums, None]:
        axis, bundle, direction = own
        x = entries(jnp.moveaxis(bundle.base, -1, 0), 1)
        middle = reduce(_added, (_scaled(part, d) for part, d in zip(x, turned, strict=True)), _columns(data.omega))
        found = common(Lines(axis, middle, turned, entries(direction, 2), _columns(data.label), link), rough)
        moments = _followed(found, cells, bundle.weight.shape)

        def over_lines(part: Any) -> Any:
            return part.reshape(count, halves, parts, each).sum(axis=-1) / (parts * each)

        more = _of_lines(axis, x, [bundle.weight * part for part in moments], over_lines)
        return jax.tree.map(jnp.add, sums, more), None

    size = len(turned)
    start = Sums(*(jnp.zeros((count, halves, parts, *(size,) * k)) for k in range(3)))
    axes = jnp.arange(size)
    directions = jnp.stack([jnp.stack(list(part.ravel())).reshape(*part.shape, count, 1) for part in turned])
    by_axis = Bundle(*(jnp.moveaxis(part, 1, 0) for part in bundle))
    return jax.lax.scan(along, start, (axes, by_axis, directions))[0]


def _columns(array: Any) -> Entries:
    """Entries of what data points have, of shape (n, 1), so that lines stand beside them."""
    return entries(jnp.moveaxis(array, 0, -1)[..., None], array.ndim - 1)


def _turned(data: Data) -> list[Entries]:
    """What each whitened coordinate changes the fields by."""
    rows, columns = data.omega.shape[1:]
    unit = jnp.eye(rows * columns).reshape(-1, rows, columns)
    return [_columns(data.root @ own) for own in unit]


def _scaled(factor: Any, parts: Entries) -> Entries:
    return filled(parts.shape, (factor * part for part in parts.ravel()))


def _added(a: Entries, b: Entries) -> Entries:
    return filled(a.shape, (x + y for x, y in zip(a.ravel(), b.ravel(), strict=True)))


def _followed(common: Common, cells: int, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Integrals of 1, ``t`` and ``t^2`` on every line."""
    ends = jnp.asarray(grid(cells))

    def piece(k: Any, sums: Any) -> Any:
        own = jax.lax.dynamic_slice(ends, (k * POLICY.cells,), (POLICY.cells + 1,))
        flags = jax.lax.fori_loop(0, POLICY.cells + 1, lambda j, word: _digit(word, j, common.flag(own[j])), none)
        changes = (flags ^ (flags >> 1)) & (2**POLICY.cells - 1)

        def next_change(state: Any) -> Any:
            changes, sums = state
            here = changes != 0
            cell = jnp.where(here, jax.lax.population_count((changes & -changes) - 1), 0)
            before = (flags >> cell) & 1 == 1
            found = common.crossed(own[cell], own[cell + 1], here, before)
            return changes & (changes - 1), jax.tree.map(jnp.add, sums, found)

        return jax.lax.while_loop(lambda state: jnp.any(state[0] != 0), next_change, (changes, sums))[1]

    none = jnp.zeros(shape, jnp.uint64)
    left = common.left(jnp.broadcast_to(common.flag(ends[-1]), shape))
    return jax.lax.fori_loop(0, cells // POLICY.cells, piece, left)


def _digit(word: Any, place: Any, flag: Any) -> Any:
    return word | (flag.astype(word.dtype) << place.astype(word.dtype))


def _of_lines(axis: Any, base: Entries, moments: list[Any], over_lines: Callable[[Any], Any]) -> Sums:
    """Integrals over lines along one axis, from those of their own coordinate, which is zero in ``base``."""
    m0, m1, m2 = moments
    own = [axis == q for q in range(len(base))]
    first = [jnp.where(mine, m1, m0 * x) for mine, x in zip(own, base, strict=True)]
    second = {
        (a, b): over_lines(jnp.where(own[a], jnp.where(own[b], m2, m1 * base[b]), first[b] * base[a]))
        for a in range(len(base))
        for b in range(a + 1)
    }
    rows = [jnp.stack([second[max(a, b), min(a, b)] for b in range(len(base))], axis=-1) for a in range(len(base))]
    return Sums(over_lines(m0), jnp.stack(list(map(over_lines, first)), axis=-1), jnp.stack(rows, axis=-2))
