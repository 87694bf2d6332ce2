"""Integrals over the level set of a label along lines parallel to all axes, compiled as one program.

Half of the lines of a data point are drawn from the prior and half around its level set. The flags at the nodes
of a line's grid are the bits of a few words; changes between neighbouring bits mark the cells that the level set
crosses, and all lines treat one marked cell each at a time. The integrals that cells of twice the length would have
given are returned as well: two changes in one cell cancel, and what longer cells hide shows what the shortest still
hide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.multi_index.line_crossings import Changes, LevelSet, Lines, Moments, shift_fields
from glassformer.core.arrays import AnyArray
from glassformer.core.estimate import Array
from glassformer.numerics.scalarize import Entries, scalarize, split_entries

# Cells of a line where links are smooth; the flags of so many nodes fit into one word of 64 bits.
CELLS = 56
# Lengths of cells, in units of the shortest, whose integrals are returned.
LENGTHS = (1, 2)
# Half-length of a line, the same in units of equal cells of the length in its middle, and the even power with which
# cells grow from there: the last ones are ten times as long. Chosen by trial.
_REACH, _CENTRE, _GROWTH = 7.5, 4.2, 16
# Rounds in which a pilot sample approaches the level set, and its nearest points that give the next one. By trial.
_PILOT_ROUNDS, _PILOT_NEAREST = 2, 8
# Width of lines around the level set over that of the nearest pilot points, and the smallest width. By trial.
_WIDENING, _NARROWEST = 1.4, 0.2
# Blocks of lines of which few have cells that hide points.
_BLOCKS = 32


class Data(NamedTuple):
    """Labels (n, k), mean fields (n, P, L) and roots of their covariances (n, P, P)."""

    label: AnyArray
    omega: AnyArray
    root: AnyArray


@dataclass(frozen=True)
class Search:
    """How the level sets of a link are searched for.

    Attributes:
        link: from the fields of a data point to its flat label.
        level_set: points or intervals of :mod:`~.line_crossings`.
        cells: of a line, a multiple of :data:`CELLS`.
        sharp: whether cells may hide points next to jumps and kinks.
        level: whether the label is piecewise constant in each field, shape (P, L): lines along such fields alone have
            no points.
    """

    link: Callable[[jax.Array], jax.Array]
    level_set: Callable[[Lines], LevelSet]
    cells: int
    sharp: bool
    level: tuple[tuple[bool, ...], ...]


class Integrals(NamedTuple):
    """Integrals of 1, ``x`` and ``x x^T`` over the level set, shape (lengths of cells, n, halves, parts, ...)."""

    zeroth: AnyArray
    first: AnyArray
    second: AnyArray


@lru_cache(maxsize=8)
def grid(cells: int) -> Array:
    """Return the ends of cells: equal where fields are likely, longer where a missed level set has little weight.

    Of twice as many cells every other end is one of these.

    Example:
        >>> ends = grid(56)
        >>> bool(np.allclose(grid(112)[::2], ends)), ends[[0, 28, 56]].tolist()
        (True, [-7.5, 0.0, 7.5])
    """
    even = np.linspace(-1.0, 1.0, cells + 1)
    return np.asarray(_CENTRE * even * (1 + (_REACH / _CENTRE - 1) * even**_GROWTH))


def level_set_integrals(data: Data, lines: jax.Array, near: tuple[jax.Array, jax.Array], search: Search) -> Integrals:
    """Return the integrals of every half and part of the lines, as means over lines summed over axes.

    Args:
        data: labels and fields.
        lines: standard normal places at which each data point's lines cross the other coordinates, shape (n, 2 halves,
            2 parts, lines, D - 1). The first half of the lines of a part is used as drawn from the prior, the second
            moved to the level set: either half of a quasi-random sample is a sample itself.
        near: centre and spread of the part of the prior next to the level set, from :func:`near_level_set`.
        search: how the level sets are searched for.
    """
    middles, weights = jax.vmap(_lines_around)(lines, *near)
    count, halves, parts, each, _ = lines.shape
    rows, columns = data.omega.shape[1:]
    root, size = columns_of(data.root), rows * columns
    # Roots are lower triangular, and columns of the fields independent.
    directions: list[Changes] = [
        {(p, c): root[p, r] for p in range(r, rows)} for r in range(rows) for c in range(columns)
    ]

    changing = ~np.array(search.level)[..., None, None]

    def along_axis(sums: Integrals, own: tuple[jax.Array, ...]) -> tuple[Integrals, None]:
        passes = jnp.any((own[-1] != 0) & changing)
        return jax.lax.cond(passes, add_axis, lambda sums, _: sums, sums, own), None

    def add_axis(sums: Integrals, own: tuple[jax.Array, ...]) -> Integrals:
        axis, middle, weight, direction = own
        x = split_entries(jnp.moveaxis(middle, -1, 0), 1)
        fields = columns_of(data.omega)
        for place, changes in zip(x, directions, strict=True):
            fields = shift_fields(fields, changes, place)
        through = Lines(axis, fields, directions, split_entries(direction, 2), columns_of(data.label), search.link)
        searched = search.level_set(through)
        values = jax.lax.map(
            lambda node: jnp.broadcast_to(searched.value(node), weight.shape), jnp.asarray(grid(search.cells))
        )
        moments = _over_crossed_cells(searched, values)
        if search.sharp:
            hidden = _over_hidden_points(through, search.level_set, values)
            moments = jax.tree.map(jnp.add, moments, hidden)

        def over_lines(part: jax.Array) -> jax.Array:
            return part.reshape(len(part), count, halves, parts, each).sum(axis=-1) / (parts * each)

        more = _all_coordinates(axis, x, [weight * part for part in moments], over_lines)
        return jax.tree.map(jnp.add, sums, more)

    start = Integrals(*(jnp.zeros((len(LENGTHS), count, halves, parts, *(size,) * k)) for k in range(3)))
    unit = jnp.eye(size).reshape(-1, 1, rows, columns)
    along = jnp.moveaxis(data.root @ unit, 1, -1)[..., None]
    by_axis = (jnp.arange(size), jnp.moveaxis(middles, 1, 0), jnp.moveaxis(weights, 1, 0), along)
    return jax.lax.scan(along_axis, start, by_axis)[0]


def columns_of(array: AnyArray) -> Entries:
    """Return entries of an array over data points, each of shape (n, 1): an axis of lines can stand beside them."""
    return split_entries(jnp.moveaxis(array, 0, -1)[..., None], array.ndim - 1)


def near_level_set(
    data: Data, pilot: jax.Array, link: Callable[[jax.Array], jax.Array], rough: type
) -> tuple[jax.Array, jax.Array]:
    """Return centre and spread of the part of the prior next to each level set, in whitened coordinates, shape (n, D).

    Args:
        data: labels and fields.
        pilot: standard normal whitened coordinates, shape (points, D).
        link: from the fields of a data point to its flat label.
        rough: type of the numbers that compare distances. Single precision suffices, and is five times as fast.
    """
    scalar_link = scalarize(link)

    def one(datum: Data) -> tuple[jax.Array, jax.Array]:
        label, omega, root = datum
        rows, columns = omega.shape

        def distance(x: jax.Array) -> jax.Array:
            # Term by term: products of many small matrices take several times as long.
            shaped = x.reshape(*x.shape[:-1], rows, columns)
            fields = sum((root[:, q, None] * shaped[..., q, None, :] for q in range(rows)), omega)
            deviation = jax.vmap(lambda z: jnp.sum(jnp.abs(scalar_link(z) - label)))(fields)
            return jnp.where(jnp.isnan(deviation), jnp.inf, deviation)

        centre, spread = jnp.zeros(pilot.shape[1]), jnp.ones(pilot.shape[1])
        for _ in range(_PILOT_ROUNDS):
            points = centre + spread * pilot
            _, index = jax.lax.top_k(-distance(points).astype(rough), _PILOT_NEAREST)
            close = points[index]
            share = jax.nn.softmax(0.5 * jnp.sum(pilot[index] ** 2 - close**2, axis=1))
            centre = share @ close
            spread = jnp.maximum(_WIDENING * jnp.sqrt(share @ (close - centre) ** 2), _NARROWEST)
        return centre, spread

    return jax.vmap(one)(data)


def _lines_around(lines: jax.Array, centre: jax.Array, spread: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return middles of lines along every axis, shape (D, m, D), and their importance weights."""
    middles, weights = [], []
    for axis in range(len(centre)):
        # The coordinate along the line is inserted as zero, the others keep their order.
        others = np.delete(np.arange(len(centre)), axis)
        across, weight = moved_to(lines, centre[others], spread[others])
        middles.append(jnp.insert(across, axis, 0.0, axis=1))
        weights.append(weight)
    return jnp.stack(middles), jnp.stack(weights)


def moved_to(places: jax.Array, centre: jax.Array, spread: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return normal places of one data point, the second half of each part moved, and their importance weights.

    Args:
        places: standard normal numbers, shape (..., places, d).
        centre: to which they are moved, shape (d,).
        spread: by which deviations are multiplied, shape (d,).

    Returns:
        Places of shape (m, d) and weights of shape (m,).
    """
    each, flat = places.shape[-2], places.reshape(-1, places.shape[-1])
    near = (jnp.arange(len(flat)) % each >= (each + 1) // 2)[:, None]
    moved = jnp.where(near, centre + spread * flat, flat)
    log_ratio = 0.5 * (moved**2 - ((moved - centre) / spread) ** 2) - jnp.log(spread)
    ratio = jnp.exp(jnp.sum(log_ratio, axis=1))
    return moved, 2 / (1 + ratio) if each > 1 else jnp.ones_like(ratio)


def _over_crossed_cells(level_set: LevelSet, values: jax.Array) -> Moments:
    """Return the integrals of 1, ``t`` and ``t^2``, shape (lengths, ...), from values at the nodes of every line."""
    cells, flags = len(values) - 1, values > 0
    ends = jnp.asarray(grid(cells))
    words = [_as_bits(flags[first : first + CELLS + 1]) for first in range(0, cells, CELLS)]
    changes = [(word ^ (word >> 1)) & (2**CELLS - 1) for word in words]

    def integrate(cell: jax.Array, here: jax.Array, before: jax.Array) -> Moments:
        own = level_set.in_cell(ends[cell], ends[cell + 1], here, before)
        counted = [_counts_in_longer(changes, cell, length) for length in LENGTHS]
        return jax.tree.map(lambda part: jnp.stack([jnp.where(by, part, 0.0) for by in counted]), own)

    beyond = level_set.beyond((words[-1] >> CELLS) & 1 == 1)
    start = tuple(jnp.stack([part] * len(LENGTHS)) for part in beyond)
    return _cell_by_cell(changes, words, CELLS, integrate, start)


def _counts_in_longer(changes: list[jax.Array], cell: jax.Array, length: int) -> jax.Array | bool:
    """Return whether longer cells would count the change in a cell.

    They count the first of an odd number of changes, and none of an even number.
    """
    if length == 1:
        return True
    number, place = cell // CELLS, cell % CELLS
    word = changes[0]
    for k, own in enumerate(changes[1:], 1):
        word = jnp.where(number == k, own, word)
    start = place // length * length
    together = (word >> start.astype(word.dtype)) & (2**length - 1)
    before = together & ((1 << (place - start).astype(word.dtype)) - 1)
    return (jax.lax.population_count(together) % 2 == 1) & (before == 0)


def _cell_by_cell(
    cells: list[jax.Array],
    flags: list[jax.Array],
    each: int,
    integrate: Callable[[jax.Array, jax.Array, jax.Array], Moments],
    start: Moments,
) -> Moments:
    """Add the integrals in all cells marked in words of ``each`` bits to ``start``, one cell of all lines at a time."""
    shape = cells[0].shape

    def next_cell(state: tuple[list[jax.Array], Moments]) -> tuple[list[jax.Array], Moments]:
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
        return left, jax.tree.map(jnp.add, sums, integrate(cell, here, before))

    def unfinished(state: tuple[list[jax.Array], Moments]) -> jax.Array:
        return jnp.any(jnp.stack([jnp.any(own != 0) for own in state[0]]))

    return jax.lax.while_loop(unfinished, next_cell, (cells, start))[1]


def _as_bits(flags: jax.Array) -> jax.Array:
    """Return flags, at most 64 for each line along the first axis, as the bits of one word for each line."""

    def bit(k: jax.Array, word: jax.Array) -> jax.Array:
        return word | (flags[k].astype(word.dtype) << k.astype(word.dtype))

    return jax.lax.fori_loop(0, len(flags), bit, jnp.zeros(flags.shape[1:], jnp.uint64))


def _over_hidden_points(lines: Lines, level_set: Callable[[Lines], LevelSet], values: jax.Array) -> Moments:
    """Return integrals over points in cells whose ends have the same flag, shape (lengths, ...).

    Secants indicate a root in these cells.
    """
    ends, shape = jnp.asarray(grid(len(values) - 1)), values.shape[1:]
    size, block = values[0].size, -(-values[0].size // _BLOCKS)

    def of_length(length: jax.Array, words: list[jax.Array]) -> Moments:
        def on_line(numbers: jax.Array, here: jax.Array) -> Moments:
            hidden = level_set(lines.select(numbers, shape[1])).hidden
            own = [jnp.where(here, word.ravel()[numbers], 0) for word in words]

            def integrate(cell: jax.Array, here: jax.Array, before: jax.Array) -> Moments:
                del before
                return hidden([ends[(cell + k) * length] for k in range(4)], here)

            return _cell_by_cell(own, own, CELLS, integrate, tuple(jnp.zeros(numbers.shape) for _ in range(3)))

        # Few lines have such cells: they are gathered and treated block by block.
        which = jnp.any(jnp.stack([word != 0 for word in words]), axis=0)
        places = jnp.nonzero(which.ravel(), size=size + block, fill_value=size)[0]

        def next_block(state: tuple[jax.Array, Moments]) -> tuple[jax.Array, Moments]:
            start, sums = state
            own = jax.lax.dynamic_slice(places, (start,), (block,))
            more = on_line(jnp.minimum(own, size - 1), own < size)
            return start + block, jax.tree.map(lambda part, new: part.at[own].add(new, mode="drop"), sums, more)

        start = (jnp.zeros((), int), tuple(jnp.zeros(size) for _ in range(3)))
        sums = jax.lax.while_loop(lambda state: state[0] < jnp.sum(which), next_block, start)[1]
        return jax.tree.map(lambda part: part.reshape(shape), sums)

    words = [
        jnp.stack(parts)
        for parts in zip(*(_hiding(values[::length], len(values) - 1) for length in LENGTHS), strict=True)
    ]
    # One program for all lengths.
    return jax.lax.map(lambda own: of_length(*own), (jnp.asarray(LENGTHS), words))


def _hiding(values: jax.Array, most: int) -> list[jax.Array]:
    """Return whether cells may hide points, from the values at all nodes, the bits of words for ``most`` cells.

    The first is the cell between the second and the third node. The outermost cells, seven standard deviations away,
    have no weight.
    """
    before, low, high, behind = values[:-3], values[1:-2], values[2:-1], values[3:]
    left, right, sign = 2 * low - before > 0, 2 * high - behind > 0, low > 0
    hides = ((high > 0) == sign) & ((left != sign) | (right != sign))
    hides = jnp.pad(hides, ((0, most - len(hides)), (0, 0), (0, 0)))
    return [_as_bits(hides[first : first + CELLS]) for first in range(0, most, CELLS)]


def _all_coordinates(
    axis: jax.Array, base: Entries, moments: list[jax.Array], over_lines: Callable[[jax.Array], jax.Array]
) -> Integrals:
    """Return the integrals over ``x`` from those of the coordinate along the lines, which is zero in ``base``."""
    m0, m1, m2 = moments
    own = [axis == q for q in range(len(base))]
    first = [jnp.where(mine, m1, m0 * x) for mine, x in zip(own, base, strict=True)]
    second = {
        (a, b): over_lines(jnp.where(own[a], jnp.where(own[b], m2, m1 * base[b]), first[b] * base[a]))
        for a in range(len(base))
        for b in range(a + 1)
    }
    rows = [jnp.stack([second[max(a, b), min(a, b)] for b in range(len(base))], axis=-1) for a in range(len(base))]
    return Integrals(over_lines(m0), jnp.stack(list(map(over_lines, first)), axis=-1), jnp.stack(rows, axis=-2))
