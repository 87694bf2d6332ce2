"""Inputs that are not stored but drawn again from their seed whenever they are needed, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.core.frozen import set_fields
from glassformer.core.random_streams import random_stream
from glassformer.core.resources import usable_cores
from glassformer.designs.base import Design
from glassformer.designs.shifted import ShiftedDesign
from glassformer.designs.stored import StoredDesign
from glassformer.designs.wrapped import WrappedDesign

# Numbers of a block: large enough for a matrix product to be quick, small enough for several in memory.
_BLOCK = 1 << 23


@dataclass(frozen=True)
class GeneratedDesign(WrappedDesign):
    r"""A design of another kind whose inputs are never stored.

    Block ``k`` of the samples is drawn in single precision from the seed ``[*seed, k]``, used, and forgotten: memory is
    that of a few blocks (and of labels and fields), time that of two draws of all inputs per step of message passing.

    Args:
        kind: makes the design that a block is of independent numbers: a class of designs, for instance.
        seed: whole numbers.
        number: of samples.
        shape: of the input of one sample.
        block: samples per block; by default some 32 MiB.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> design = GeneratedDesign(DenseDesign, (1,), number=10, shape=(4, 5), block=3)
        >>> whole = design.stored()
        >>> bool(np.allclose(design.forward(np.ones((4, 5)), 0), whole.forward(np.ones((4, 5)), 0)))
        True
    """

    kind: Callable[[NDArray[Any]], StoredDesign]
    seed: tuple[int, ...]
    number: int
    shape: tuple[int, int]
    block: int = 0

    def __post_init__(self) -> None:
        if self.block == 0:
            set_fields(self, block=max(1, _BLOCK // (self.shape[0] * self.shape[1])))

    def first(self, samples: int) -> Self:
        return replace(self, number=samples)

    def shifted(self, signal: Array, shifts: Array) -> Design:
        return ShiftedDesign(self, signal, shifts)

    def stored(self) -> StoredDesign:
        """Return the same inputs in memory."""
        parts = [part for _, part in self._blocks(range(self._count))]
        return replace(parts[0], inputs=np.concatenate([part.inputs[0] for part in parts]))

    def parts(self, instance: int = 0) -> Iterator[Array]:
        del instance
        yield from (part.inputs[0] for _, part in self._blocks(range(self._count)))

    @property
    def inputs_per_sample(self) -> int:
        """Numbers of one sample's input."""
        return self.shape[0] * self.shape[1]

    @property
    def samples(self) -> int:
        return self.number

    def forward(self, signal: Array, instance: int) -> Array:
        del instance
        return np.concatenate(self._over_blocks(lambda _, part: part.forward(signal, 0)))

    def adjoint(self, score: Array, instance: int) -> Array:
        del instance
        total: Array = sum(self._over_blocks(lambda where, part: part.adjoint(score[where], 0)))  # type: ignore[assignment]
        return total

    @cached_property
    def _inner(self) -> StoredDesign:
        return self.kind(np.zeros((1, *self.shape)))

    @property
    def _count(self) -> int:
        return -(-self.samples // self.block)

    def _blocks(self, numbers: Iterable[int]) -> Iterator[tuple[slice, StoredDesign]]:
        for k in numbers:
            where = slice(k * self.block, min((k + 1) * self.block, self.samples))
            # The last block may be a part of one: the beginning of what a larger sample would draw.
            rng = random_stream(*self.seed, k)
            yield where, self.kind(rng.standard_normal((where.stop - where.start, *self.shape), dtype=np.float32))

    def _over_blocks(self, function: Callable[[slice, StoredDesign], Array]) -> list[Array]:
        """Return the function of every block, in order; drawing keeps one thread busy per core."""

        def one(k: int) -> Array:
            (where, part) = next(self._blocks([k]))
            return function(where, part)

        with ThreadPoolExecutor(min(self._count, usable_cores())) as pool:
            return list(pool.map(one, range(self._count)))
