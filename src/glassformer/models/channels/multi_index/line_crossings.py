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
from glassformer.models.channels.multi_index.line_grids import grid
from glassformer.models.channels.multi_index.line_placement import POLICY, Bundle, Data, placed
from glassformer.models.channels.multi_index.line_search import Cells, halved, solved


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
    """Searches for the crossings of lines, of so many cells, with the level sets of one link, compiled once."""

    link: Callable[[Any], Any]
    cells: int

    def placed(self, data: Data, lines: Array, pilot: Array) -> Bundle:
        """Lines through the fields of data points, as :func:`~.line_placement.placed` has them."""
        return Bundle(*map(np.asarray, self._compiled["placed"](*data, lines, pilot)))

    def edges(self, lines: Bundle) -> tuple[NDArray[np.intp], Array, Array, NDArray[np.bool_]]:
        """Edges of the intervals on which the label is the one observed.

        Returns:
            The line of each edge, counted over data points and axes; its place on it; 1 where the interval ends there,
            -1 where it begins; and whether each line ends inside, shape (n, D, m).
        """
        inside = np.asarray(self._compiled["equal"](*_on_lines(lines, np.float64)))
        at = self._changing(inside)
        (place,) = self._searched("halved", at, lines)
        return at // (self.cells + 1), place, np.where(inside.ravel()[at], 1.0, -1.0), inside[..., -1]

    def points(self, lines: Bundle) -> Crossed:
        """Points at which the label passes through the one observed; those at which it jumps over it have no weight."""
        # A sign is wrong next to a crossing alone, whose cell is then the next one, unless cells are as short as that.
        short = lines.spread.min() < POLICY.short
        at = self._changing(np.asarray(self._compiled["above"](*_on_lines(lines, np.float64 if short else np.float32))))
        weight, place = self._searched("solved closely" if short else "solved", at, lines)
        return Crossed(at // (self.cells + 1), weight, place)

    @cached_property
    def _compiled(self) -> dict[str, Specialised]:
        return {
            "placed": Specialised(placed, link=self.link),
            "equal": Specialised(_on_grid, link=self.link, test=_equal, cells=self.cells),
            "above": Specialised(_on_grid, link=self.link, test=_above, cells=self.cells),
            "halved": Specialised(halved, link=self.link),
            "solved": Specialised(solved, link=self.link, rough=np.float32),
            "solved closely": Specialised(solved, link=self.link, rough=np.float64),
        }

    def _searched(self, search: str, at: NDArray[np.intp], lines: Bundle) -> list[Array]:
        """What a search finds in the cells behind nodes, counted as those are: one entry for each."""
        filled = np.zeros(-(-max(len(at), 1) // POLICY.at_once) * POLICY.at_once, dtype=np.intp)
        filled[: len(at)] = at
        found = [self._compiled[search](self._cells(part, lines)) for part in filled.reshape(-1, POLICY.at_once)]
        return [np.concatenate(columns)[: len(at)] for columns in zip(*found, strict=True)]

    def _changing(self, flags: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Nodes, counted line by line, behind which a truth value changes on the way to the next of their line."""
        flat = flags.ravel()
        at = np.flatnonzero(flat[1:] != flat[:-1])
        return np.asarray(at[at % (self.cells + 1) != self.cells])

    def _cells(self, at: NDArray[np.intp], lines: Bundle) -> Cells:
        axes, each, size = lines.base.shape[1:]
        (line, place), ends = np.divmod(at, self.cells + 1), grid(self.cells)
        datum = line // (axes * each)
        return Cells(
            line // each % axes,
            # Several times as fast as indices.
            lines.base.reshape(-1, size).take(line, axis=0),
            lines.weight.ravel().take(line),
            lines.turned.take(datum, axis=0),
            lines.omega.take(datum, axis=0),
            lines.label.take(datum, axis=0),
            ends.take(place),
            ends.take(place + 1),
        )


def _on_lines(lines: Bundle, precision: type) -> list[Array]:
    return [part.astype(precision) for part in (lines.base, lines.turned, lines.omega, lines.label)]


def _on_grid(
    base: Any, turned: Any, omega: Any, label: Any, link: Callable[[Any], Any], test: Callable[[Any], Any], cells: int
) -> Any:
    """A truth value on the grid of every line, shape (n, D, m, cells + 1)."""
    quick, ends = written_out(link), jnp.asarray(grid(cells), base.dtype)

    def of_datum(own: Any, directions: Any, middle: Any, y: Any) -> Any:
        def of_axis(places: Any, along: Any) -> Any:
            start = sum((places[:, q, None, None] * d for q, d in enumerate(directions)), middle)
            return jax.vmap(lambda z: jax.vmap(lambda t: test(quick(z + t * along) - y))(ends))(start)

        return jax.vmap(of_axis)(own, directions)

    return jax.vmap(of_datum)(base, turned, omega, label)


def _above(value: Any) -> Any:
    return value[0] > 0


def _equal(value: Any) -> Any:
    return jnp.all(jnp.abs(value) < POLICY.same)
