"""The place in a cell of a line at which it crosses the level set of a label: compiled for many cells at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.numerics.written_out import written_out
from glassformer.models.channels.multi_index.line_placement import POLICY


class Cells(NamedTuple):
    """Cells of lines, and what they belong to, one entry for each.

    Attributes:
        axis: which coordinate runs along the line, shape (cells,).
        base: whitened coordinates of the line's middle, shape (cells, D).
        weight: of the line, shape (cells,).
        turned: what each whitened coordinate changes the fields by, shape (cells, D, P, L).
        omega: the fields where all of them vanish, shape (cells, P, L).
        label: of the level set, shape (cells, k).
        low, high: ends of the cell, shape (cells,).
    """

    axis: Any
    base: Any
    weight: Any
    turned: Any
    omega: Any
    label: Any
    low: Any
    high: Any

    def line(self, kind: Any) -> Callable[[Any], Any]:
        """The fields at a place of one cell's line, in the precision of a kind."""
        terms = zip(self.base, self.turned, strict=True)
        start = sum((x * direction for x, direction in terms), self.omega).astype(kind)
        along = _own(self.axis, self.turned).astype(kind)
        return lambda t: start + t * along


def _own(axis: Any, parts: Iterable[Any]) -> Any:
    """The part of the axis that a line runs along."""
    return sum((jnp.where(axis == q, part, 0.0) for q, part in enumerate(parts)), jnp.zeros(()))


def halved(cells: Cells, link: Callable[[Any], Any]) -> tuple[Any]:
    """The place between two ends at which the label begins or ceases to be the one observed."""

    def one(cell: Cells) -> Any:
        fields = cell.line(cell.base.dtype)

        def inside(t: Any) -> Any:
            return jnp.all(jnp.abs(link(fields(t)) - cell.label) < POLICY.same)

        before = inside(cell.low)

        def halve(_: int, ends: Any) -> Any:
            middle = 0.5 * (ends[0] + ends[1])
            same = inside(middle) == before
            return jnp.where(same, middle, ends[0]), jnp.where(same, ends[1], middle)

        low, high = jax.lax.fori_loop(0, POLICY.halvings, halve, (cell.low, cell.high))
        return 0.5 * (low + high)

    return (jax.vmap(one)(cells),)


def solved(cells: Cells, link: Callable[[Any], Any], rough: Any) -> tuple[Any, Any]:
    """Points between two ends at which the label passes through the one observed.

    Numbers of the type ``rough`` say where; Newton's step from there has all digits.

    Returns:
        Weights of the points, zero where the label jumps, and their whitened coordinates.
    """
    quick = written_out(link)

    def one(cell: Cells) -> tuple[Any, Any]:
        near, own = cell.line(rough), cell.label[0].astype(rough)
        ends = cell.low.astype(rough), cell.high.astype(rough)
        start = _bracketed(lambda t: quick(near(t))[0].astype(rough) - own, *ends).astype(cell.base.dtype)
        fields = cell.line(start.dtype)(start)
        value, gradient = _with_gradient(lambda z: quick(z)[0] - cell.label[0], fields, cell.turned)
        slope = _own(cell.axis, gradient)
        step = -value / jnp.where(slope == 0, 1.0, slope)
        place = jnp.clip(start + step, cell.low, cell.high)
        size = sum(part**2 for part in gradient)
        # A jump of the label is no root.
        root = (jnp.abs(value) <= POLICY.root * (1 + jnp.sqrt(size))) & (size > 0)
        height = jnp.exp(-0.5 * place**2) / np.sqrt(2 * np.pi)
        weight = cell.weight * height * jnp.abs(slope) / size
        at = jnp.where(jnp.arange(len(gradient)) == cell.axis, place, cell.base)
        return jnp.where(root, weight, 0.0), jnp.where(root, at, 0.0)

    return jax.vmap(one)(cells)


def _with_gradient(value: Callable[[Any], Any], fields: Any, turned: Any) -> tuple[Any, list[Any]]:
    """A function of the fields, and its changes with whitened coordinates.

    By differences: compiled, the derivative of a maximum compares numbers that may have been rounded twice.
    """
    here = value(fields)
    return here, [(value(fields + POLICY.step * d) - here) / POLICY.step for d in turned]


def _bracketed(value: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Where ``value`` vanishes between two ends, nearly, by Illinois iteration."""

    def halve(_: int, state: Any) -> Any:
        a, b, fa, fb = state
        middle = 0.5 * (a + b)
        found = value(middle)
        same = (found > 0) == (fa > 0)
        return tuple(jnp.where(same, *pair) for pair in ((middle, a), (b, middle), (found, fa), (fb, found)))

    def secant(_: int, state: Any) -> Any:
        old, new, f_old, f_new = state
        slope = f_new - f_old
        place = new - f_new * (new - old) / jnp.where(slope == 0, 1.0, slope)
        found = value(place)
        # An end that is kept twice running counts half: this makes the convergence superlinear.
        across = (found > 0) != (f_new > 0)
        return jnp.where(across, new, old), place, jnp.where(across, f_new, 0.5 * f_old), found

    state = jax.lax.fori_loop(0, POLICY.first, halve, (low, high, value(low), value(high)))
    return jax.lax.fori_loop(0, POLICY.secants, secant, state)[1]
