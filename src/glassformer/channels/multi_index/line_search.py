"""What lines have in common with the level set of a label, cell by cell: points, or intervals that begin and end.

Everything is compiled for many lines at once, and written out number by number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from glassformer.channels.multi_index.line_placement import POLICY
from glassformer.numerics.scalarize import Entries, fill_entries, on_entries

Changes = dict[tuple[int, int], Any]
"""What is added to some entries, arrays of shape (n, 1); the others are not computed anew."""


class Lines(NamedTuple):
    """Lines along one axis of the whitened coordinates of n data points, m along each.

    Attributes:
        axis: which.
        middle: the fields of their middles, arrays of shape (n, m).
        turned: what each whitened coordinate changes the fields by, where it does.
        along: what the coordinate that runs along the lines does, arrays of shape (n, 1).
        label: of the level sets, arrays of shape (n, 1).
        link: of the labels.
    """

    axis: Any
    middle: Entries
    turned: list[Changes]
    along: Entries
    label: Entries
    link: Callable[[Any], Any]

    def fields(self, place: Any) -> Entries:
        """Those at a place of each line."""
        pairs = zip(self.middle.ravel(), self.along.ravel(), strict=True)
        return fill_entries(self.middle.shape, (own + place * part for own, part in pairs))

    def deviations(self, fields: Entries) -> Entries:
        """The label of fields less the one observed."""
        pairs = zip(on_entries(self.link)(fields), self.label, strict=True)
        return fill_entries(self.label.shape, (value - own for value, own in pairs))

    def some(self, places: Any, each: int) -> Lines:
        """Lines of these numbers alone, in one row; so many belong to every data point."""

        def own(part: Any) -> Any:
            return part[places // each, places % each if part.shape[1] > 1 else 0]

        def all_of(parts: Entries) -> Entries:
            return fill_entries(parts.shape, map(own, parts.ravel()))

        turned = [{place: own(change) for place, change in changes.items()} for changes in self.turned]
        return Lines(self.axis, all_of(self.middle), turned, all_of(self.along), all_of(self.label), self.link)

    def rounded(self, kind: Any) -> Lines:
        """The same in another precision."""

        def own(parts: Entries) -> Entries:
            return fill_entries(parts.shape, (part.astype(kind) for part in parts.ravel()))

        return self._replace(middle=own(self.middle), along=own(self.along), label=own(self.label))


class Hidden(NamedTuple):
    """What cells hide whose ends have the same flag.

    Attributes:
        value: at places, whose sign is the flag.
        found: integrals of 1, ``t`` and ``t^2``, from four nodes, the ends of a cell between two others, and whether
            it is to be searched.
    """

    value: Callable[[Any], Any]
    found: Callable[[list[Any], Any], tuple[Any, Any, Any]]


class Common(NamedTuple):
    """What lines have in common with level sets.

    Attributes:
        flag: a truth value at places, which changes from node to node where there is something.
        crossed: integrals of 1, ``t`` and ``t^2``, from the ends of a cell, whether it is one in which the flag
            changes, and the flag before.
        left: the same integrals behind the last node, from the flag there.
        hidden: what cells whose ends have the same flag may hide.
    """

    flag: Callable[[Any], Any]
    crossed: Callable[[Any, Any, Any, Any], tuple[Any, Any, Any]]
    left: Callable[[Any], tuple[Any, Any, Any]]
    hidden: Hidden


class Seeking(Protocol):
    """What lines have in common with level sets, searched for with numbers of the type ``rough``."""

    def __call__(self, lines: Lines, rough: Any) -> Common: ...


def points(lines: Lines, rough: Any, halvings: int = POLICY.first) -> Common:
    r"""Points at which the label passes through the one observed, weighted by :math:`|\partial_jg|/|\nabla g|^2`.

    Numbers of the type ``rough`` say where, after so many halvings of a cell; Newton's step from there has all digits.
    """
    near, rounded = lines.rounded(rough), np.finfo(rough).eps / np.finfo(np.float32).eps

    def roughly(place: Any) -> Any:
        return near.deviations(near.fields(place.astype(rough)))[0].astype(rough)

    def above(place: Any) -> Any:
        return roughly(place) > 0

    def crossed(low: Any, high: Any, here: Any, before: Any) -> tuple[Any, Any, Any]:
        del before
        return counted(*at(_bracketed(roughly, low.astype(rough), high.astype(rough), halvings), low, high, here))

    def at(start: Any, low: Any, high: Any, here: Any) -> tuple[Any, Any]:
        start = start.astype(low.dtype)
        value, gradient = _with_gradient(lambda z: lines.deviations(z)[0], lines.fields(start), lines.turned)
        slope = sum(jnp.where(lines.axis == q, part, 0.0) for q, part in enumerate(gradient))
        step = -value / jnp.where(slope == 0, 1.0, slope)
        size = sum(part**2 for part in gradient)
        # A jump of the label is no root, not even one from next to it.
        allowed = POLICY.root * (rounded + jnp.sqrt(size))
        root = here & (jnp.abs(value) <= allowed) & (size > 0)
        place = jnp.where(root, jnp.clip(start + step, low, high), 0.0)
        return place, jnp.where(root, _height(place) * jnp.abs(slope) / size, 0.0)

    def counted(place: Any, weight: Any) -> tuple[Any, Any, Any]:
        return weight, weight * place, weight * place**2

    def hidden(nodes: list[Any], here: Any) -> tuple[Any, Any, Any]:
        _, low, high, _ = nodes
        ends = [node.astype(rough) for node in nodes]
        starts = _converged(roughly, *ends[:2]), _converged(roughly, ends[3], ends[2])
        inside = [here & (start >= ends[1]) & (start <= ends[2]) for start in starts]
        (first, own), (second, other) = (at(start, low, high, own) for start, own in zip(starts, inside, strict=True))
        # From both sides the search may end at the same point.
        twice = (own > 0) & (jnp.abs(first - second) < POLICY.apart * (high - low))
        both = counted(first, own), counted(second, jnp.where(twice, 0.0, other))
        return jax.tree.map(jnp.add, *both)

    def left(last: Any) -> tuple[Any, Any, Any]:
        nothing = jnp.zeros(last.shape)
        return nothing, nothing, nothing

    return Common(above, crossed, left, Hidden(roughly, hidden))


def intervals(lines: Lines, rough: Any) -> Common:
    """Intervals on which the label is the one observed; along every axis alone they add to the whole level set."""
    del rough

    def inside(place: Any) -> Any:
        same = [jnp.abs(part) < POLICY.same for part in lines.deviations(lines.fields(place))]
        return jnp.all(jnp.stack(same), axis=0)

    def crossed(low: Any, high: Any, here: Any, before: Any) -> tuple[Any, Any, Any]:
        def halve(_: int, ends: Any) -> Any:
            middle = 0.5 * (ends[0] + ends[1])
            same = inside(middle) == before
            return jnp.where(same, middle, ends[0]), jnp.where(same, ends[1], middle)

        place = 0.5 * sum(jax.lax.fori_loop(0, POLICY.halvings, halve, (low, high)))
        # Where the interval ends there is more of it, where it begins less.
        sign = jnp.where(here, jnp.where(before, 1.0, -1.0), 0.0) / len(lines.turned)
        return sign * ndtr(place), -sign * _height(place), sign * (ndtr(place) - place * _height(place))

    def left(last: Any) -> tuple[Any, Any, Any]:
        open_end = last / len(lines.turned)
        return open_end, jnp.zeros(last.shape), open_end

    return Common(inside, crossed, left, Hidden(jnp.zeros_like, lambda nodes, _: left(nodes[0])))


def farther(fields: Entries, changes: Changes, step: Any) -> Entries:
    """Fields so many steps farther."""
    moved = fields.copy()
    for place, change in changes.items():
        moved[place] = moved[place] + step * change
    return moved


def _height(place: Any) -> Any:
    return jnp.exp(-0.5 * place**2) / np.sqrt(2 * np.pi)


def _with_gradient(value: Callable[[Entries], Any], fields: Entries, turned: list[Changes]) -> tuple[Any, list[Any]]:
    """A function of the fields, and its changes with whitened coordinates.

    By differences: compiled, the derivative of a maximum compares numbers that may have been rounded twice.
    """
    here = value(fields)
    return here, [(value(farther(fields, own, POLICY.step)) - here) / POLICY.step for own in turned]


def _bracketed(value: Callable[[Any], Any], low: Any, high: Any, halvings: int) -> Any:
    """Where ``value`` vanishes between two ends, nearly, by Illinois iteration after some halvings."""

    def halve(_: int, state: Any) -> Any:
        a, b, fa, fb = state
        middle = 0.5 * (a + b)
        found = value(middle)
        same = (found > 0) == (fa > 0)
        return tuple(jnp.where(same, *pair) for pair in ((middle, a), (b, middle), (found, fa), (fb, found)))

    halved = jax.lax.fori_loop(0, halvings, halve, (low, high, value(low), value(high)))
    return _converged(value, *halved)


def _converged(value: Callable[[Any], Any], low: Any, high: Any, *values: Any) -> Any:
    """The same from two places next to a root, which need not be between them."""

    def secant(_: int, state: Any) -> Any:
        old, new, f_old, f_new = state
        slope = f_new - f_old
        place = new - f_new * (new - old) / jnp.where(slope == 0, 1.0, slope)
        found = value(place)
        # An end that is kept twice running counts half: this makes the convergence superlinear.
        across = (found > 0) != (f_new > 0)
        return jnp.where(across, new, old), place, jnp.where(across, f_new, 0.5 * f_old), found

    return jax.lax.fori_loop(0, POLICY.secants, secant, (low, high, *(values or (value(low), value(high)))))[1]
