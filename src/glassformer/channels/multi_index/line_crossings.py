"""Parts of lines on which a label is the one observed: points, or intervals that begin and end.

All functions treat many lines at once, entry by entry of the small arrays of one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from glassformer.numerics.scalarize import Entries, fill_entries, no_recompute, on_entries

# Halvings of a cell before the secants that find a point; more for links with kinks, next to which a link may be level
# on one side so that secants hardly move. Chosen by trial.
HALVINGS, HALVINGS_AT_KINKS = 1, 6
_SECANTS = 7
# Halvings that find the end of an interval: errors of 1e-6, of either sign, average away.
_INTERVAL_HALVINGS = 16
# Step of the differences that make a gradient, in whitened coordinates.
GRADIENT_STEP = 1e-5
# Largest deviation of the label at a point of the level set, in units of gradient and label: a jump deviates more.
_ROOT_DEVIATION = 1e-5
# Share of a cell below which two points are one.
_SAME_POINT = 1e-4

Changes = dict[tuple[int, int], jax.Array]
"""Changes of some entries, arrays of shape (n, 1); the other entries stay."""
Moments = tuple[jax.Array, ...]
"""The three integrals of 1, ``t`` and ``t^2`` against the normal density along each line."""
_Bracket = tuple[jax.Array, ...]
"""Two places, and the two values there."""


class Lines(NamedTuple):
    """Lines along one axis of the whitened coordinates of n data points, m for each.

    Attributes:
        axis: number of the axis.
        middle: fields of the middles of the lines, arrays of shape (n, m).
        directions: change of the fields with each whitened coordinate.
        along: change of the fields along the lines, arrays of shape (n, 1).
        label: observed label, arrays of shape (n, 1).
        link: from the fields of one data point to its flat label.
    """

    axis: jax.Array
    middle: Entries
    directions: list[Changes]
    along: Entries
    label: Entries
    link: Callable[[jax.Array], jax.Array]

    def fields(self, place: jax.Array) -> Entries:
        """Return the fields at one place of each line."""
        pairs = zip(self.middle.ravel(), self.along.ravel(), strict=True)
        return fill_entries(self.middle.shape, (own + place * part for own, part in pairs))

    def deviations(self, fields: Entries) -> Entries:
        """Return the label of fields minus the observed one."""
        pairs = zip(on_entries(self.link)(fields), self.label, strict=True)
        return fill_entries(self.label.shape, (value - own for value, own in pairs))

    def select(self, numbers: jax.Array, each: int) -> Lines:
        """Return the lines of these numbers in one row; ``each`` lines belong to every data point."""

        def own(part: jax.Array) -> jax.Array:
            return part[numbers // each, numbers % each if part.shape[1] > 1 else 0]

        directions = [{place: own(change) for place, change in changes.items()} for changes in self.directions]
        middle, along, label = (_each_entry(own, parts) for parts in (self.middle, self.along, self.label))
        return Lines(self.axis, middle, directions, along, label, self.link)

    def astype(self, kind: type) -> Lines:
        """Return the same lines in another precision."""
        middle, along, label = (
            _each_entry(lambda part: part.astype(kind), parts) for parts in (self.middle, self.along, self.label)
        )
        return self._replace(middle=middle, along=along, label=label)


def _each_entry(function: Callable[[jax.Array], jax.Array], parts: Entries) -> Entries:
    return fill_entries(parts.shape, map(function, parts.ravel()))


class LevelSet(NamedTuple):
    """Intersections of lines with a level set, as functions of places on the lines.

    Attributes:
        value: a number at places, whose sign, the flag, changes where a line crosses the level set.
        in_cell: integrals in a cell in which the flag changes, from the ends of the cell, whether each line has the
            cell, and the flag before it.
        beyond: integrals beyond the last node, from the flag there.
        hidden: integrals in a cell whose ends have the same flag, from four nodes, the ends of the cell between two
            others, and whether each line has the cell.
    """

    value: Callable[[jax.Array], jax.Array]
    in_cell: Callable[[jax.Array, jax.Array, jax.Array, jax.Array], Moments]
    beyond: Callable[[jax.Array], Moments]
    hidden: Callable[[list[jax.Array], jax.Array], Moments]


def points(lines: Lines, rough: type, size: float, halvings: int = HALVINGS) -> LevelSet:
    r"""Return points at which a continuous label passes the observed label.

    Each has the weight :math:`|\partial_jg|/|\nabla g|^2`.

    Args:
        lines: the lines.
        rough: type of the numbers that locate a point to some digits. One Newton step in double precision gives the
            others.
        size: typical size of labels, in whose units rounding moves them.
        halvings: of a cell before the secants.
    """
    rough_lines, rounding = lines.astype(rough), size * np.finfo(rough).eps / np.finfo(np.float32).eps

    def value(place: jax.Array) -> jax.Array:
        return no_recompute(rough_lines.deviations(rough_lines.fields(place.astype(rough)))[0].astype(rough))

    def in_cell(low: jax.Array, high: jax.Array, here: jax.Array, before: jax.Array) -> Moments:
        del before
        return moments(*newton_step(_root(value, low.astype(rough), high.astype(rough), halvings), low, high, here))

    def newton_step(start: jax.Array, low: jax.Array, high: jax.Array, here: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the point next to ``start`` and its weight."""
        start = start.astype(low.dtype)
        deviation, gradient = _with_gradient(lambda z: lines.deviations(z)[0], lines.fields(start), lines.directions)
        slope = sum(jnp.where(lines.axis == q, part, 0.0) for q, part in enumerate(gradient))
        step = -deviation / jnp.where(slope == 0, 1.0, slope)
        square = sum(part**2 for part in gradient)
        # A jump of the label is no root, nor is a place next to it.
        allowed = _ROOT_DEVIATION * (rounding + jnp.sqrt(square))
        root = here & (jnp.abs(deviation) <= allowed) & (square > 0)
        place = no_recompute(jnp.where(root, jnp.clip(start + step, low, high), 0.0))
        return place, no_recompute(jnp.where(root, _normal_density(place) * jnp.abs(slope) / square, 0.0))

    def moments(place: jax.Array, weight: jax.Array) -> Moments:
        return weight, weight * place, weight * place**2

    def hidden(nodes: list[jax.Array], here: jax.Array) -> Moments:
        """Return up to two points, from secants through the nodes on either side of the cell."""
        _, low, high, _ = nodes
        ends = [node.astype(rough) for node in nodes]
        starts = [_secants(value, (a, b, value(a), value(b))) for a, b in (ends[:2], ends[3:1:-1])]
        inside = [here & (start >= ends[1]) & (start <= ends[2]) for start in starts]
        (first, own), (second, other) = (
            newton_step(start, low, high, within) for start, within in zip(starts, inside, strict=True)
        )
        twice = (own > 0) & (jnp.abs(first - second) < _SAME_POINT * (high - low))
        return jax.tree.map(jnp.add, moments(first, own), moments(second, jnp.where(twice, 0.0, other)))

    def beyond(last: jax.Array) -> Moments:
        nothing = jnp.zeros(last.shape)
        return nothing, nothing, nothing

    return LevelSet(value, in_cell, beyond, hidden)


def intervals(lines: Lines, tolerance: tuple[float, ...]) -> LevelSet:
    """Return intervals on which a discrete label is the observed one, up to a tolerance of every entry.

    Every axis by itself gives the whole level set.
    """
    axes = len(lines.directions)

    def inside(place: jax.Array) -> jax.Array:
        deviations = map(no_recompute, lines.deviations(lines.fields(place)).ravel())
        same = [jnp.abs(part) <= own for part, own in zip(deviations, tolerance, strict=True)]
        return jnp.all(jnp.stack(same), axis=0)

    def in_cell(low: jax.Array, high: jax.Array, here: jax.Array, before: jax.Array) -> Moments:
        def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            middle = 0.5 * (ends[0] + ends[1])
            same = inside(middle) == before
            return jnp.where(same, middle, ends[0]), jnp.where(same, ends[1], middle)

        place = 0.5 * sum(jax.lax.fori_loop(0, _INTERVAL_HALVINGS, halve, (low, high)))
        # The integral up to the end of an interval counts, minus the integral up to its beginning.
        sign = jnp.where(here, jnp.where(before, 1.0, -1.0), 0.0) / axes
        below, density = ndtr(place), _normal_density(place)
        return sign * below, -sign * density, sign * (below - place * density)

    def beyond(last: jax.Array) -> Moments:
        open_end = last / axes
        return open_end, jnp.zeros(last.shape), open_end

    def value(place: jax.Array) -> jax.Array:
        return jnp.where(inside(place), jnp.float32(1.0), jnp.float32(-1.0))

    return LevelSet(value, in_cell, beyond, lambda nodes, _: beyond(nodes[0]))


def shift_fields(fields: Entries, changes: Changes, step: jax.Array | float) -> Entries:
    """Return the fields after a step along one whitened coordinate."""
    result = fields.copy()
    for place, change in changes.items():
        result[place] = result[place] + step * change
    return result


def _normal_density(place: jax.Array) -> jax.Array:
    return jnp.exp(-0.5 * place**2) / np.sqrt(2 * np.pi)


def _with_gradient(
    value: Callable[[Entries], jax.Array], fields: Entries, directions: list[Changes]
) -> tuple[jax.Array, list[jax.Array]]:
    """Return a function of the fields and its gradient in whitened coordinates.

    By differences: the compiled derivative of a maximum compares numbers that may have been rounded twice.
    """
    here = no_recompute(value(fields))
    changes = [value(shift_fields(fields, own, GRADIENT_STEP)) - here for own in directions]
    return here, [no_recompute(change / GRADIENT_STEP) for change in changes]


def _root(value: Callable[[jax.Array], jax.Array], low: jax.Array, high: jax.Array, halvings: int) -> jax.Array:
    """Return a root between two places, approximately: halvings, then Illinois iteration."""

    def halve(_: int, state: _Bracket) -> _Bracket:
        a, b, f_a, f_b = state
        middle = 0.5 * (a + b)
        f_middle = value(middle)
        same = (f_middle > 0) == (f_a > 0)
        return tuple(jnp.where(same, *pair) for pair in ((middle, a), (b, middle), (f_middle, f_a), (f_b, f_middle)))

    return _secants(value, jax.lax.fori_loop(0, halvings, halve, (low, high, value(low), value(high))))


def _secants(value: Callable[[jax.Array], jax.Array], ends: _Bracket) -> jax.Array:
    """Return a root by Illinois iteration from two places, between which it need not lie."""

    def secant(_: int, state: _Bracket) -> _Bracket:
        old, new, f_old, f_new = state
        slope = f_new - f_old
        place = new - f_new * (new - old) / jnp.where(slope == 0, 1.0, slope)
        f_place = value(place)
        # The value at an end that is kept twice in a row is halved, which makes the convergence superlinear.
        across = (f_place > 0) != (f_new > 0)
        return jnp.where(across, new, old), place, jnp.where(across, f_new, 0.5 * f_old), f_place

    return jax.lax.fori_loop(0, _SECANTS, secant, ends)[1]
