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
from glassformer.models.channels.multi_index.line_placement import POLICY, Bundle, Data, placed

_GRID = np.linspace(-POLICY.reach, POLICY.reach, POLICY.cells + 1)


class Crossed(NamedTuple):
    """What lines cross, one entry for each crossing.

    Attributes:
        line: which, counted over data points, axes and the lines along them.
        weight: of the crossing in integrals over the level set, shape (crossings,).
        at: its whitened coordinates, shape (crossings, D).
    """

    line: NDArray[np.intp]
    weight: Array
    at: Array


@dataclass(frozen=True, eq=False)
class Crossings:
    """Searches for the crossings of lines with the level sets of one link, compiled once."""

    link: Callable[[Any], Any]

    def placed(self, data: Data, lines: Array, pilot: Array) -> Bundle:
        """Lines through the fields of data points, as :func:`~.line_placement.placed` has them."""
        return Bundle(*map(np.asarray, self._compiled[placed](*data, lines, pilot)))

    def edges(self, lines: Bundle) -> tuple[NDArray[np.intp], Array, Array, NDArray[np.bool_]]:
        """Edges of the intervals on which the label is the one observed.

        Returns:
            The line of each edge, counted over data points and axes; its place on it; 1 where the interval ends there,
            -1 where it begins; and whether each line ends inside, shape (n, D, m).
        """
        inside, at, (place,) = self._searched(_equal, _halved, lines)
        leaves = np.where(inside.reshape(-1, POLICY.cells + 1)[at // POLICY.cells, at % POLICY.cells], 1.0, -1.0)
        return at // POLICY.cells, place, leaves, inside[..., -1]

    def points(self, lines: Bundle) -> Crossed:
        """Points at which the label passes through the one observed; those at which it jumps over it have no weight."""
        # A sign is wrong next to a crossing alone, whose cell is then the next one, unless cells are as short as that.
        short = np.abs(lines.turned).max(axis=(2, 3)).min() < POLICY.short
        _, at, (weight, place) = self._searched(_above, _solved, lines, np.float64 if short else np.float32)
        return Crossed(at // POLICY.cells, weight, place)

    @cached_property
    def _compiled(self) -> dict[Callable[..., Any], Specialised]:
        return {part: Specialised(part, link=self.link) for part in (placed, _equal, _halved, _above, _solved)}

    def _searched(
        self, test: Callable[..., Any], search: Callable[..., Any], lines: Bundle, precision: type = np.float64
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp], list[Array]]:
        """A truth value on the grid of every line, shape (n, D, m, cells + 1), and a search where it changes.

        Cells are counted line by line over all data points; what the search finds has one entry for each.
        """
        fields: list[Array] = [part.astype(precision) for part in (lines.start, lines.turned, lines.label)]
        inside = np.asarray(self._compiled[test](*fields))
        at = np.flatnonzero(inside[..., 1:] != inside[..., :-1])
        filled = np.zeros(-(-max(len(at), 1) // POLICY.at_once) * POLICY.at_once, dtype=np.intp)
        filled[: len(at)] = at
        found = [self._compiled[search](part, lines) for part in filled.reshape(-1, POLICY.at_once)]
        return inside, at, [np.concatenate(columns)[: len(at)] for columns in zip(*found, strict=True)]


def _on_grid(test: Callable[[Any], Any], start: Any, turned: Any, label: Any, link: Callable[[Any], Any]) -> Any:
    quick = written_out(link)

    def of_datum(own: Any, directions: Any, y: Any) -> Any:
        grid = jnp.asarray(_GRID, own.dtype)

        def of_axis(middles: Any, along: Any) -> Any:
            return jax.vmap(lambda z: jax.vmap(lambda t: test(quick(z + t * along) - y))(grid))(middles)

        return jax.vmap(of_axis)(own, directions)

    return jax.vmap(of_datum)(start, turned, label)


def _above(start: Any, turned: Any, label: Any, link: Callable[[Any], Any]) -> Any:
    return _on_grid(lambda value: value[0] > 0, start, turned, label, link)


def _equal(start: Any, turned: Any, label: Any, link: Callable[[Any], Any]) -> Any:
    return _on_grid(lambda value: jnp.all(jnp.abs(value) < POLICY.same), start, turned, label, link)


class _Cell(NamedTuple):
    """A cell of a line, and what it belongs to."""

    axis: Any
    base: Any
    weight: Any
    start: Any
    turned: Any
    label: Any
    low: Any
    high: Any

    @property
    def along(self) -> Any:
        """What the coordinate along the line changes the fields by."""
        return self.turned[self.axis]

    @classmethod
    def at(cls, cell: Any, lines: Bundle) -> _Cell:
        axes, each, size = lines.base.shape[1:]
        line, grid = cell // POLICY.cells, jnp.asarray(_GRID)
        datum, place = line // (axes * each), cell % POLICY.cells
        return cls(
            line // each % axes,
            jnp.asarray(lines.base).reshape(-1, size)[line],
            jnp.asarray(lines.weight).ravel()[line],
            jnp.asarray(lines.start).reshape(-1, *lines.start.shape[3:])[line],
            jnp.asarray(lines.turned)[datum],
            jnp.asarray(lines.label)[datum],
            grid[place],
            grid[place + 1],
        )


def _halved(cells: Any, lines: Bundle, link: Callable[[Any], Any]) -> tuple[Any]:
    """The place between two ends at which the label begins or ceases to be the one observed."""

    def one(index: Any) -> Any:
        cell = _Cell.at(index, lines)

        def inside(t: Any) -> Any:
            return jnp.all(jnp.abs(link(cell.start + t * cell.along) - cell.label) < POLICY.same)

        before = inside(cell.low)

        def halve(_: int, ends: Any) -> Any:
            middle = 0.5 * (ends[0] + ends[1])
            same = inside(middle) == before
            return jnp.where(same, middle, ends[0]), jnp.where(same, ends[1], middle)

        low, high = jax.lax.fori_loop(0, POLICY.halvings, halve, (cell.low, cell.high))
        return 0.5 * (low + high)

    return (jax.vmap(one)(cells),)


def _solved(cells: Any, lines: Bundle, link: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Points between two ends at which the label passes through the one observed, by Illinois iteration.

    Returns:
        Weights of the points, zero where the label jumps, and their whitened coordinates.
    """
    quick = written_out(link)

    def one(index: Any) -> tuple[Any, Any]:
        cell = _Cell.at(index, lines)
        place, left, gradient = _root(cell, lambda fields: quick(fields)[0] - cell.label[0])
        size = jnp.sum(gradient**2)
        # A jump of the label is no root.
        root = (jnp.abs(left) <= POLICY.root * (1 + jnp.sqrt(size))) & (size > 0)
        height = jnp.exp(-0.5 * place**2) / np.sqrt(2 * np.pi)
        weight = cell.weight * height * jnp.abs(gradient[cell.axis]) / size
        at = jnp.where(jnp.arange(len(gradient)) == cell.axis, place, cell.base)
        return jnp.where(root, weight, 0.0), jnp.where(root, at, 0.0)

    return jax.vmap(one)(cells)


def _root(cell: _Cell, value: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Where ``value`` of the fields vanishes, what is left of it there, and its gradient in whitened coordinates."""

    def at(t: Any) -> Any:
        return value(cell.start + t * cell.along)

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

    state = jax.lax.fori_loop(0, POLICY.first, halve, (cell.low, cell.high, at(cell.low), at(cell.high)))
    nearer = jnp.abs(state[2]) < jnp.abs(state[3])
    kept = jnp.where(nearer, state[0], state[1]), jnp.where(nearer, state[2], state[3])
    *_, place, left = jax.lax.fori_loop(0, POLICY.secants, secant, (*state, jnp.zeros(()), *kept))
    # By differences: compiled, the derivative of a maximum compares numbers that may have been rounded twice.
    here = cell.start + place * cell.along
    ahead, behind = (
        jax.vmap(lambda d, sign=sign: value(here + sign * POLICY.step * d))(cell.turned) for sign in (1, -1)
    )
    return place, left, (ahead - behind) / (2 * POLICY.step)
