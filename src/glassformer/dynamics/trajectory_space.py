"""Vectors over trajectories, histories of them, and orthonormal directions in them.

A vector has one number for every trajectory and token. Vectors of all rows have shape (chunks, P, n), where ``n``
counts the numbers of a chunk of trajectories. A history of them has shape (chunks, T, P, n), with zeros for later
steps, and a matrix of coefficients along its vectors has shape (rows, T P).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from glassformer.core.arrays import AnyArray

# Earlier steps that are summed over in one product, so that it fits into the cache of a processor (half or twice as
# many take the same time).
_BLOCK = 16
# Share of its power below which the part of a vector that is independent of earlier ones is rounding.
_DEPENDENT = 1e-12

_Part = TypeVar("_Part", jax.Array, int)
_Add = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
_Inner = Callable[[jax.Array, jax.Array], jax.Array]


def padded_steps(steps: int) -> int:
    """Return the length of histories, a whole number of blocks, so that numbers of steps share an executable."""
    return -(-(steps + 1) // _BLOCK) * _BLOCK


@dataclass(frozen=True)
class TrajectorySpace:
    """The vectors over all trajectories, on one device or on several. JAX can trace all methods.

    An inner product is a weight times the sum over trajectories. It is zero between rows of different heads.

    Attributes:
        chunks: number of chunks of trajectories.
        padded: length ``T`` of histories.
        same_head: one for pairs of rows that see the same coordinates, zero for others, shape (P, P).
        axis: name of the axis of devices that share the trajectories; None for one device.
    """

    chunks: int
    padded: int
    same_head: AnyArray
    axis: str | None

    def total(self, part: _Part) -> _Part:
        """Return the sum over devices."""
        if self.axis is None:
            return part
        summed: _Part = jax.lax.psum(part, self.axis)  # type: ignore[no-untyped-call]
        return summed

    def over_chunks(self, of_chunk: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
        """Return sums over chunks of the first part of ``of_chunk(number, *arguments)``, and its second part of each.

        Args:
            of_chunk: function of the number of a chunk and of the arguments of the chunk.
            arguments: trees of arrays, whose first axes run over chunks.
        """

        def add(sums: Any, chunk: Any) -> tuple[Any, Any]:
            summed, separate = of_chunk(*chunk)
            return jax.tree.map(jnp.add, sums, summed), separate

        numbered = (jnp.arange(self.chunks), *arguments)
        shapes = jax.eval_shape(of_chunk, *jax.tree.map(lambda part: part[0], numbered))[0]
        zeros = jax.tree.map(lambda part: jnp.zeros(part.shape), shapes)
        return jax.lax.scan(add, zeros, numbered)

    def combine(self, coefficients: jax.Array, history: jax.Array, chunk: jax.Array, until: jax.Array) -> jax.Array:
        """Return the sum of coefficients times the vectors of a history before a step, in one chunk."""

        def add(now: jax.Array, block: jax.Array, place: jax.Array) -> jax.Array:
            return now + jax.lax.dynamic_slice_in_dim(coefficients, place, len(block), axis=1) @ block

        start = jnp.zeros((len(coefficients), history.shape[-1]))
        return self._over_blocks(add, start, history, chunk, until)

    def project(self, vectors: jax.Array, history: jax.Array, until: jax.Array, weight: AnyArray | float) -> jax.Array:
        """Return inner products of vectors with those of a history before a step, shape (rows, T P)."""
        rows = len(self.same_head)

        def of_chunk(chunk: jax.Array, now: jax.Array) -> tuple[jax.Array, None]:
            def add(products: jax.Array, block: jax.Array, place: jax.Array) -> jax.Array:
                return jax.lax.dynamic_update_slice_in_dim(products, block @ now.T, place, axis=0)

            return self._over_blocks(add, jnp.zeros((self.padded * rows, len(now))), history, chunk, until), None

        sums, _ = self.over_chunks(of_chunk, vectors)
        earlier = jnp.repeat(jnp.arange(self.padded) < until, rows)
        allowed = jnp.tile(self.same_head, (vectors.shape[1] // rows, self.padded))
        return self.total(jnp.where(earlier, sums.T, 0.0)) * weight * allowed

    def _over_blocks(
        self, add: _Add, start: jax.Array, history: jax.Array, chunk: jax.Array, until: jax.Array
    ) -> jax.Array:
        """Return a sum over blocks of the steps before one, each of shape (block times P, n), with its first place."""
        rows = len(self.same_head)
        sizes = (1, _BLOCK, *history.shape[2:])

        def add_block(number: jax.Array, now: jax.Array) -> jax.Array:
            block = jax.lax.dynamic_slice(history, (chunk, number * _BLOCK, 0, 0), sizes)
            return add(now, block.reshape(_BLOCK * rows, -1), number * _BLOCK * rows)

        return jax.lax.fori_loop(0, (until + _BLOCK - 1) // _BLOCK, add_block, start)

    def expand(
        self, vectors: jax.Array, history: jax.Array, until: jax.Array, weight: AnyArray | float
    ) -> tuple[jax.Array, jax.Array]:
        """Return coefficients of vectors along a history of orthonormal directions, and the rest of the vectors.

        The second time removes what rounding leaves of vectors that nearly depend on the directions.
        """

        def subtract(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            found, rest = state
            new = self.project(rest, history, until, weight)
            numbered = jnp.arange(self.chunks), rest
            rest = jax.lax.map(lambda part: part[1] - self.combine(new, history, part[0], until), numbered)
            return found + new, rest

        none = jnp.zeros((vectors.shape[1], self.padded * len(self.same_head)))
        return jax.lax.fori_loop(0, 2, subtract, (none, vectors))

    def orthonormal(self, rest: jax.Array, size: jax.Array, weight: AnyArray | float) -> tuple[jax.Array, jax.Array]:
        """Return coefficients of vectors along new directions, shape (P, P), and these: :func:`orthonormal_rows`."""

        def inner(first: jax.Array, second: jax.Array) -> jax.Array:
            return self.total(jnp.vdot(first, second)) * weight

        lower, new = orthonormal_rows(jnp.swapaxes(rest, 0, 1), size, self.same_head, inner)
        return lower, jnp.swapaxes(new, 0, 1)


def orthonormal_rows(rest: jax.Array, size: jax.Array, allowed: AnyArray, inner: _Inner) -> tuple[jax.Array, jax.Array]:
    """Return the triangular matrix and the orthonormal rows whose product are given rows.

    Args:
        rest: rows, shape (P, ...).
        size: powers that they had before parts along earlier directions were removed, shape (P,): what is smaller by
            far is rounding, and its direction is zero.
        allowed: one for pairs of rows whose inner product counts, shape (P, P).
        inner: inner product of two rows.
    """
    lower, found = jnp.zeros((len(rest), len(rest))), list[jax.Array]()
    for row, left in enumerate(rest):
        for other, direction in enumerate(found):
            part = allowed[row, other] * inner(left, direction)
            left, lower = left - part * direction, lower.at[row, other].set(part)
        power = inner(left, left)
        new = power > _DEPENDENT * size[row]
        length = jnp.sqrt(jnp.where(new, power, 1.0))
        lower = lower.at[row, row].set(jnp.where(new, length, 0.0))
        found.append(jnp.where(new, left / length, 0.0))
    return lower, jnp.stack(found)
