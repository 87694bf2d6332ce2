"""Inputs divided among the devices of JAX, which multiply their parts in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import DTypeLike

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.dense import DenseDesign
from glassformer.designs.projection import ProjectionDesign
from glassformer.designs.quadratic import LayeredQuadraticDesign, QuadraticDesign
from glassformer.designs.shifted import ShiftedDesign
from glassformer.designs.stored import StoredDesign
from glassformer.designs.token_pairs import pair_indices
from glassformer.designs.wrapped import WrappedDesign
from glassformer.numerics.jax_settings import jax_settings


@dataclass(frozen=True)
class ShardedDesign(WrappedDesign):
    """A stored design of one instance whose samples are divided among devices, GPUs for instance.

    Fields are computed where the samples are, sums over samples are added up across devices. Results are those of the
    stored design to rounding.

    Args:
        stored: the design; its precision is that of the products.
        devices: what to share it among; by default all that JAX finds.

    Raises:
        IncompatibleError: a kind of design that has no such maps, or several instances.

    Example:
        >>> stored = DenseDesign.sample(7, (3, 4), np.random.default_rng(0))
        >>> sharded = ShardedDesign(stored)
        >>> bool(np.allclose(sharded.forward(np.ones((3, 4)), 0), stored.forward(np.ones((3, 4)), 0)))
        True
    """

    stored: StoredDesign
    devices: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if self.stored.instances != 1:
            raise IncompatibleError(f"{type(self.stored).__name__} cannot be divided among devices: use one instance")
        _maps_of(self.stored)

    def shifted(self, signal: Array, shifts: Array) -> Design:
        return ShiftedDesign(self, signal, shifts)

    def first(self, samples: int) -> Self:
        return type(self)(self.stored.first(samples), self.devices)

    @property
    def samples(self) -> int:
        return self.stored.samples

    @property
    def _inner(self) -> StoredDesign:
        return self.stored

    def parts(self, instance: int = 0) -> Iterator[Array]:
        yield from self.stored.parts(instance)

    def forward(self, signal: Array, instance: int) -> Array:
        del instance
        fields = self._mapped(0, signal, self._placed())
        return np.asarray(fields, dtype=float)[: self.samples]

    def adjoint(self, score: Array, instance: int) -> Array:
        del instance
        padded = np.concatenate([score, np.zeros((self._padding, *score.shape[1:]))])
        return np.asarray(self._mapped(1, padded, self._placed("samples")), dtype=float)

    def _mapped(self, which: int, values: Array, placement: NamedSharding) -> Any:
        kind = self.stored.inputs.dtype
        with jax_settings(kind == np.float64):
            placed = jax.device_put(values.astype(kind), placement)
            return _maps_of(self.stored)[which](self._inputs, placed)

    @cached_property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(jax.devices() if self.devices is None else self.devices), ("samples",))

    def _placed(self, *axes: str) -> NamedSharding:
        spec: Any = PartitionSpec
        return NamedSharding(self._mesh, spec(*axes))

    @property
    def _padding(self) -> int:
        """Samples without inputs that make the number of samples a multiple of that of devices."""
        return -self.samples % self._mesh.size

    @cached_property
    def _inputs(self) -> Any:
        own = self.stored.inputs[0]
        padded = np.concatenate([own, np.zeros((self._padding, *own.shape[1:]), own.dtype)]) if self._padding else own
        with jax_settings(own.dtype == np.float64):
            return jax.device_put(padded, self._placed("samples"))


@jax.jit
def _dense_forward(x: jax.Array, signal: jax.Array) -> jax.Array:
    return x.reshape(len(x), -1) @ signal.ravel() / np.sqrt(signal.size)


@jax.jit
def _dense_adjoint(x: jax.Array, score: jax.Array) -> jax.Array:
    return (score @ x.reshape(len(x), -1)).reshape(x.shape[1:]) / np.sqrt(x.shape[1] * x.shape[2])


@partial(jax.jit, static_argnames="heads")
def _projection_forward(x: jax.Array, signal: jax.Array, heads: int) -> jax.Array:
    parts, rows = _by_head(x, 2, heads), _by_head(signal, 0, heads)
    fields = jnp.einsum("nlhd,phd->nphl", parts, rows)
    return fields.reshape(len(x), -1, x.shape[1]) / np.sqrt(parts.shape[3])


@partial(jax.jit, static_argnames="heads")
def _projection_adjoint(x: jax.Array, score: jax.Array, heads: int) -> jax.Array:
    parts, rows = _by_head(x, 2, heads), score.reshape(len(x), -1, heads, x.shape[1])
    total = jnp.einsum("nphl,nlhd->phd", rows, parts)
    return total.reshape(-1, parts.shape[3]) / np.sqrt(parts.shape[3])


def _by_head(values: jax.Array, axis: int, heads: int) -> jax.Array:
    """Return one axis as two: parts of the tokens come head after head, rows of the weights in turns."""
    shape = values.shape
    split = (heads, -1) if axis else (-1, heads)
    return values.reshape(*shape[:axis], *split, *shape[axis + 1 :])


def _pair_maps(tokens: int, kind: DTypeLike) -> tuple[Array, Array]:
    """Return which entries of a pair matrix make each component.

    The second array is the factor of the diagonal.
    """
    rows, columns = pair_indices(tokens)
    maps = np.zeros((len(rows), tokens, tokens), kind)
    maps[np.arange(len(rows)), rows, columns] += 0.5
    maps[np.arange(len(rows)), columns, rows] += 0.5
    diagonal = (rows == columns).astype(kind) / np.sqrt(2).astype(kind)
    maps[rows == columns] /= np.sqrt(2).astype(kind)
    return maps, diagonal


@jax.jit
def _quadratic_forward(x: jax.Array, signal: jax.Array) -> jax.Array:
    maps, diagonal = _pair_maps(x.shape[1], x.dtype)
    pairs = jnp.einsum("nad,nbd->nab", x @ signal, x)
    fields = jnp.einsum("nab,kab->nk", pairs, maps) - jnp.trace(signal) * diagonal
    return fields / jnp.sqrt(jnp.asarray(x.shape[2], x.dtype))


@jax.jit
def _quadratic_adjoint(x: jax.Array, score: jax.Array) -> jax.Array:
    maps, diagonal = _pair_maps(x.shape[1], x.dtype)
    d = jnp.asarray(x.shape[2], x.dtype)
    total = jnp.einsum("nad,nae->de", x, jnp.einsum("nk,kab->nab", score, maps) @ x)
    total = total - jnp.sum(score @ diagonal) * jnp.eye(x.shape[2], dtype=x.dtype)
    return (total + total.T) / (d * jnp.sqrt(d))


def _layers(function: Callable[[Any, Any], Any], which: int, x: jax.Array, values: jax.Array) -> jax.Array:
    """Return the map of each layer: layers come first in signals and second in fields."""
    return jnp.stack([function(x, part) for part in (values if which == 0 else jnp.moveaxis(values, 1, 0))], 1 - which)


_Maps = tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]
_MAPS: dict[type, _Maps] = {
    DenseDesign: (_dense_forward, _dense_adjoint),
    QuadraticDesign: (_quadratic_forward, _quadratic_adjoint),
    LayeredQuadraticDesign: (partial(_layers, _quadratic_forward, 0), partial(_layers, _quadratic_adjoint, 1)),
}


def _maps_of(stored: StoredDesign) -> _Maps:
    """Return forward and adjoint map of the inputs of a design, whose kind has to be one of those known."""
    if isinstance(stored, ProjectionDesign):
        return partial(_projection_forward, heads=stored.heads), partial(_projection_adjoint, heads=stored.heads)
    if type(stored) not in _MAPS:
        raise IncompatibleError(f"{type(stored).__name__} cannot be divided among devices: use the stored design")
    return _MAPS[type(stored)]
