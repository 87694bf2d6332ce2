"""Integrals over what lines have in common with the level set of a label, along all axes, compiled as one program.

Truth values at the nodes of a line's grid are the digits of one number, whose changes are followed one after the
other, on all lines at once. What longer cells would have found of the same is told beside it: two changes in one cell
are not seen, and how much was hidden by longer ones tells what these still hide.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.channels.multi_index.line_grids import grid
from glassformer.channels.multi_index.line_placement import POLICY, Bundle, Data, placed
from glassformer.channels.multi_index.line_search import Changes, Common, Hidden, Lines, Seeking, farther
from glassformer.numerics.scalarize import Entries, split_entries


class Sums(NamedTuple):
    """Integrals of one, ``x`` and ``x x^T`` over the level set, shape (longer, n, halves, parts, ...).

    The first axis runs over lengths of cells, the shortest first.
    """

    zeroth: Any
    first: Any
    second: Any


def integrals(
    data: Data,
    lines: Any,
    pilot: Any,
    link: Callable[[Any], Any],
    common: Seeking,
    rough: Any,
    cells: int,
    sharp: bool,
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
        sharp: whether cells may hide points next to jumps and kinks.
    """
    bundle = placed(data, lines, pilot, link)
    count, halves, parts, each, _ = lines.shape
    turned = _turned(data)

    def along(sums: Sums, own: Any) -> tuple[Sums, None]:
        axis, bundle, direction = own
        x = split_entries(jnp.moveaxis(bundle.base, -1, 0), 1)
        middle = _columns(data.omega)
        for place, changes in zip(x, turned, strict=True):
            middle = farther(middle, changes, place)
        through = Lines(axis, middle, turned, split_entries(direction, 2), _columns(data.label), link)
        moments = _followed(common(through, rough), cells, bundle.weight.shape)
        if sharp:
            search = partial(_uncovered, through, partial(common, rough=rough), cells, shape=bundle.weight.shape)
            beside = map(search, POLICY.longer)
            moments = jax.tree.map(lambda part, *more: part + jnp.stack(more), moments, *beside)

        def over_lines(part: Any) -> Any:
            return part.reshape(len(part), count, halves, parts, each).sum(axis=-1) / (parts * each)

        more = _of_lines(axis, x, [bundle.weight * part for part in moments], over_lines)
        return jax.tree.map(jnp.add, sums, more), None

    size = len(turned)
    start = Sums(*(jnp.zeros((len(POLICY.longer), count, halves, parts, *(size,) * k)) for k in range(3)))
    by_axis = Bundle(*(jnp.moveaxis(part, 1, 0) for part in bundle))
    return jax.lax.scan(along, start, (jnp.arange(size), by_axis, _directions(data)))[0]


def _columns(array: Any) -> Entries:
    """Entries of what data points have, of shape (n, 1), so that lines stand beside them."""
    return split_entries(jnp.moveaxis(array, 0, -1)[..., None], array.ndim - 1)


def _turned(data: Data) -> list[Changes]:
    """What each whitened coordinate changes the fields by: roots are lower triangular, columns apart."""
    root, (rows, columns) = _columns(data.root), data.omega.shape[1:]
    return [{(p, c): root[p, r] for p in range(r, rows)} for r in range(rows) for c in range(columns)]


def _directions(data: Data) -> Any:
    """The same as one array, shape (D, P, L, n, 1)."""
    rows, columns = data.omega.shape[1:]
    unit = jnp.eye(rows * columns).reshape(-1, 1, rows, columns)
    return jnp.moveaxis(data.root @ unit, 1, -1)[..., None]


def _followed(common: Common, cells: int, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Integrals of 1, ``t`` and ``t^2`` on every line, shape (longer, ...)."""
    ends, each = jnp.asarray(grid(cells)), POLICY.cells
    flags = [_flags(common, ends[first : first + each + 1], shape) for first in range(0, cells, each)]
    changes = [(word ^ (word >> 1)) & (2**each - 1) for word in flags]

    def found(cell: Any, here: Any, before: Any) -> Any:
        own = common.crossed(ends[cell], ends[cell + 1], here, before)
        seen = [_first_of_odd(changes, cell, longer) for longer in POLICY.longer]
        return jax.tree.map(lambda part: jnp.stack([jnp.where(by, part, 0.0) for by in seen]), own)

    beyond = common.left((flags[-1] >> each) & 1 == 1)
    start = tuple(jnp.stack([part] * len(POLICY.longer)) for part in beyond)
    return _one_by_one(changes, flags, each, found, start)


def _first_of_odd(changes: list[Any], cell: Any, longer: int) -> Any:
    """Whether cells so many times as long find the change in this one: of an odd number the first, of an even none."""
    if longer == 1:
        return True
    number, place = cell // POLICY.cells, cell % POLICY.cells
    word = changes[0]
    for k, own in enumerate(changes[1:], 1):
        word = jnp.where(number == k, own, word)
    start = place // longer * longer
    together = (word >> start.astype(word.dtype)) & (2**longer - 1)
    before = together & ((1 << (place - start).astype(word.dtype)) - 1)
    return (jax.lax.population_count(together) % 2 == 1) & (before == 0)


def _one_by_one(
    cells: list[Any], flags: list[Any], each: int, found: Callable[[Any, Any, Any], Any], start: Any
) -> Any:
    """What is found in cells given by so many digits of each word, added to ``start``, one of all lines at a time."""
    shape = cells[0].shape

    def next_cell(state: Any) -> Any:
        cells, sums = state
        here, cell, before = jnp.zeros(shape, bool), jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool)
        left = []
        for k, (own, word) in enumerate(zip(cells, flags, strict=True)):
            first = ~here & (own != 0)
            place = jax.lax.population_count((own & -own) - 1)
            cell = jnp.where(first, k * each + place.astype(jnp.int32), cell)
            before = jnp.where(first, (word >> place) & 1 == 1, before)
            here |= first
            left.append(jnp.where(first, own & (own - 1), own))
        return left, jax.tree.map(jnp.add, sums, found(cell, here, before))

    def unfinished(state: Any) -> Any:
        return jnp.any(jnp.stack([jnp.any(own != 0) for own in state[0]]))

    return jax.lax.while_loop(unfinished, next_cell, (cells, start))[1]


def _uncovered(
    lines: Lines, common: Callable[[Lines], Common], cells: int, longer: int, shape: tuple[int, int]
) -> tuple[Any, Any, Any]:
    """Integrals over points in cells whose ends have the same flag, though values beside them point to another one.

    Of cells so many times as long as the shortest.
    """
    ends, each = jnp.asarray(grid(cells)[::longer]), POLICY.cells // longer
    # The outermost cells, seven standard deviations away, hide nothing that matters.
    nodes, hidden = jnp.pad(ends, 1, mode="edge"), common(lines).hidden
    hiding = [_hiding(hidden, nodes[first : first + each + 3], shape) for first in range(0, cells // longer, each)]

    def along(some: Any, here: Any) -> Any:
        search = common(lines.some(some, shape[1])).hidden
        words = [jnp.where(here, word.ravel()[some], 0) for word in hiding]

        def found(cell: Any, here: Any, before: Any) -> Any:
            del before
            return search.found([nodes[cell + k] for k in range(4)], here)

        return _one_by_one(words, words, each, found, tuple(jnp.zeros(some.shape) for _ in range(3)))

    return _along_few(jnp.any(jnp.stack([word != 0 for word in hiding]), axis=0), along)


def _hiding(hidden: Hidden, nodes: Any, shape: tuple[int, int]) -> Any:
    """Whether cells may hide something, the digits of one number for each line; of all nodes but the outer ones."""

    def digit(k: Any, state: Any) -> Any:
        word, before, low, high = state
        behind = hidden.value(nodes[k + 3])
        sign = low > 0
        left, right = 2 * low - before > 0, 2 * high - behind > 0
        hides = ((high > 0) == sign) & ((left != sign) | (right != sign))
        return word | (hides.astype(word.dtype) << k.astype(word.dtype)), low, high, behind

    start = jnp.zeros(shape, jnp.uint64), *(hidden.value(nodes[k]) for k in range(3))
    return jax.lax.fori_loop(0, len(nodes) - 3, digit, start)[0]


def _along_few(which: Any, along: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any]:
    """Integrals along lines that are few, a block of them after the other; all others have none.

    Args:
        which: lines there are, shape (n, m).
        along: integrals along lines of these numbers, those that are there.
    """
    size, block = which.size, -(-which.size // POLICY.blocks)
    places = jnp.nonzero(which.ravel(), size=size + block, fill_value=size)[0]

    def next_block(state: Any) -> Any:
        start, sums = state
        own = jax.lax.dynamic_slice(places, (start,), (block,))
        found = along(jnp.minimum(own, size - 1), own < size)
        return start + block, jax.tree.map(lambda part, more: part.at[own].add(more, mode="drop"), sums, found)

    start = (0, tuple(jnp.zeros(size) for _ in range(3)))
    found = jax.lax.while_loop(lambda state: state[0] < jnp.sum(which), next_block, start)[1]
    return jax.tree.map(lambda part: part.reshape(which.shape), found)


def _flags(common: Common, ends: Any, shape: tuple[int, int]) -> Any:
    """Truth values at some nodes, the digits of one number for each line."""

    def digit(k: Any, word: Any) -> Any:
        return word | (common.flag(ends[k]).astype(word.dtype) << k.astype(word.dtype))

    return jax.lax.fori_loop(0, len(ends), digit, jnp.zeros(shape, jnp.uint64))


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
