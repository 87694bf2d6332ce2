"""Where lines cross the level sets of a label: bracketed on a grid, then searched, however many there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from glassformer.core.integral import Array
from glassformer.core.numerics.compiled import Specialised
from glassformer.core.numerics.written_out import written_out

# Half-length of a line, and cells on it.
_REACH, _CELLS = 7.5, 96
_GRID = np.linspace(-_REACH, _REACH, _CELLS + 1)
# Halvings of a cell that holds the edge of an interval; those of one that holds a point, and the secants that follow.
_HALVINGS, _FIRST, _SECANTS = 24, 2, 7
# Difference of labels that are the same.
_SAME = 1e-9
# Step of the differences that make a gradient, in whitened coordinates.
_STEP = 1e-5
# Whitened deviation of fields, below which cells are too short for single precision.
_SHORT = 3e-3
# Crossings searched at once: always as many, so that one length is compiled.
_AT_ONCE = 4096


class Bundle(NamedTuple):
    """Parallel lines through the fields of n data points.

    Attributes:
        axis: whitened coordinate along which they run.
        start: their middles, shape (n, m, P, L).
        turned: what each whitened coordinate changes the fields by, shape (n, D, P, L).
        label: of the level sets, shape (n, k).
    """

    axis: int
    start: Array
    turned: Array
    label: Array


@dataclass(frozen=True, eq=False)
class Crossings:
    """Searches for the crossings of lines with the level sets of one link, compiled once."""

    link: Callable[[Any], Any]

    def distances(self, fields: Array, label: Array) -> Array:
        """Between the labels of fields, shape (n, m, P, L), and those of shape (n, k), summed over entries."""
        return np.asarray(self._compiled[_distances](fields, label))

    def edges(self, lines: Bundle) -> tuple[NDArray[np.intp], Array, Array, NDArray[np.bool_]]:
        """Edges of the intervals on which the label is the one observed.

        Returns:
            The line of each edge, counted over all data points; its place on it; 1 where the interval ends there, -1
            where it begins; and whether each line ends inside, shape (n, m).
        """
        inside, at, (place,) = self._searched(_equal, _halved, lines)
        leaves = np.where(inside.reshape(-1, _CELLS + 1)[at // _CELLS, at % _CELLS], 1.0, -1.0)
        return at // _CELLS, place, leaves, inside[:, :, -1]

    def roots(self, lines: Bundle) -> tuple[NDArray[np.intp], Array, Array, Array]:
        """Points at which the label passes through the one observed, or jumps over it.

        Returns:
            The line of each point, its place on it, what the label misses there, and its gradient in all whitened
            coordinates, shape (points, D).
        """
        # A sign is wrong next to a crossing alone, whose cell is then the next one, unless cells are as short as that.
        short = np.abs(lines.turned).max(axis=(2, 3)).min() < _SHORT
        precision = np.float64 if short else np.float32
        _, at, (place, left, gradient) = self._searched(_above, _solved, lines, precision)
        return at // _CELLS, place, left, gradient

    @cached_property
    def _compiled(self) -> dict[Callable[..., Any], Specialised]:
        return {part: Specialised(part, link=self.link) for part in (_distances, _equal, _halved, _above, _solved)}

    def _searched(
        self, test: Callable[..., Any], search: Callable[..., Any], lines: Bundle, precision: type = np.float64
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp], list[Array]]:
        """A truth value on the grid of every line, shape (n, m, cells + 1), and a search of the cells where it changes.

        Cells are counted line by line over all data points; what the search finds has one entry for each.
        """
        along = lines.turned[:, lines.axis]
        fields: list[Array] = [part.astype(precision) for part in (lines.start, along, lines.label)]
        inside = np.asarray(self._compiled[test](*fields))
        at = np.flatnonzero(inside[:, :, 1:] != inside[:, :, :-1])
        filled = np.zeros(-(-max(len(at), 1) // _AT_ONCE) * _AT_ONCE, dtype=np.intp)
        filled[: len(at)] = at
        start, found = lines.start.reshape(-1, *lines.start.shape[2:]), []
        for part in filled.reshape(-1, _AT_ONCE):
            line, cell = part // _CELLS, part % _CELLS
            own = line // lines.start.shape[1]
            data = start[line], along[own], lines.turned[own], lines.label[own]
            found.append(self._compiled[search](*data, _GRID[cell], _GRID[cell + 1]))
        return inside, at, [np.concatenate(columns)[: len(at)] for columns in zip(*found, strict=True)]


def _distances(fields: Any, label: Any, link: Callable[[Any], Any]) -> Any:
    quick = written_out(link)
    return jax.vmap(lambda own, y: jax.vmap(lambda z: jnp.sum(jnp.abs(quick(z) - y)))(own))(fields, label)


def _on_grid(test: Callable[[Any], Any], start: Any, direction: Any, label: Any, link: Callable[[Any], Any]) -> Any:
    quick = written_out(link)

    def of_datum(own: Any, along: Any, y: Any) -> Any:
        grid = jnp.asarray(_GRID, own.dtype)
        return jax.vmap(lambda z: jax.vmap(lambda t: test(quick(z + t * along) - y))(grid))(own)

    return jax.vmap(of_datum)(start, direction, label)


def _above(start: Any, direction: Any, label: Any, link: Callable[[Any], Any]) -> Any:
    return _on_grid(lambda value: value[0] > 0, start, direction, label, link)


def _equal(start: Any, direction: Any, label: Any, link: Callable[[Any], Any]) -> Any:
    return _on_grid(lambda value: jnp.all(jnp.abs(value) < _SAME), start, direction, label, link)


def _halved(
    start: Any, along: Any, turned: Any, label: Any, low: Any, high: Any, link: Callable[[Any], Any]
) -> tuple[Any]:
    """The place between two ends at which the label begins or ceases to be the one observed."""
    del turned

    def one(z: Any, along: Any, y: Any, low: Any, high: Any) -> Any:
        def inside(t: Any) -> Any:
            return jnp.all(jnp.abs(link(z + t * along) - y) < _SAME)

        before = inside(low)

        def halve(_: int, ends: Any) -> Any:
            middle = 0.5 * (ends[0] + ends[1])
            same = inside(middle) == before
            return jnp.where(same, middle, ends[0]), jnp.where(same, ends[1], middle)

        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (low, high))
        return 0.5 * (low + high)

    return (jax.vmap(one)(start, along, label, low, high),)


def _solved(
    start: Any, along: Any, turned: Any, label: Any, low: Any, high: Any, link: Callable[[Any], Any]
) -> tuple[Any, Any, Any]:
    """The place between two ends at which the label passes through the one observed: Illinois iteration.

    Returns:
        Places, what is left of the difference of labels, and its gradient in all whitened coordinates.
    """

    def one(z: Any, along: Any, directions: Any, y: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
        def value(fields: Any) -> Any:
            return link(fields)[0] - y[0]

        def at(t: Any) -> Any:
            return value(z + t * along)

        def halve(_: int, state: Any) -> Any:
            a, b, fa, fb = state
            middle = 0.5 * (a + b)
            found = at(middle)
            same = (found > 0) == (fa > 0)
            return tuple(jnp.where(same, *pair) for pair in ((middle, a), (b, middle), (found, fa), (fb, found)))

        def secant(_: int, state: Any) -> Any:
            a, b, fa, fb, side, best, least = state
            slope = fb - fa
            place = jnp.clip(a - fa * (b - a) / jnp.where(slope == 0, 1.0, slope), a, b)
            found = at(place)
            same = (found > 0) == (fa > 0)
            better = jnp.abs(found) < jnp.abs(least)
            # An end that is kept twice running counts half: this makes the convergence superlinear.
            new_fa = jnp.where(same, found, jnp.where(side < 0, 0.5 * fa, fa))
            new_fb = jnp.where(same, jnp.where(side > 0, 0.5 * fb, fb), found)
            ends = jnp.where(same, place, a), jnp.where(same, b, place)
            kept = jnp.where(better, place, best), jnp.where(better, found, least)
            return *ends, new_fa, new_fb, jnp.where(same, 1.0, -1.0), *kept

        state = jax.lax.fori_loop(0, _FIRST, halve, (low, high, at(low), at(high)))
        nearer = jnp.abs(state[2]) < jnp.abs(state[3])
        kept = jnp.where(nearer, state[0], state[1]), jnp.where(nearer, state[2], state[3])
        *_, place, left = jax.lax.fori_loop(0, _SECANTS, secant, (*state, jnp.zeros(()), *kept))
        # By differences: compiled, the derivative of a maximum compares numbers that may have been rounded twice.
        here = z + place * along
        ahead, behind = (jax.vmap(lambda d, sign=sign: value(here + sign * _STEP * d))(directions) for sign in (1, -1))
        return place, left, (ahead - behind) / (2 * _STEP)

    return jax.vmap(one)(start, along, turned, label, low, high)
