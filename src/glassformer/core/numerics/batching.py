"""Traceable functions of one data point, compiled once and applied to many."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.integral import Array

# Data points that are sent at once, and the fewest.
_CHUNK, _FEWEST = 512, 64


def chunks(data: Any) -> Iterator[tuple[Any, Any, int]]:
    """Parts of a tree of arrays over data points: the positions, the data there, and how many of them are real.

    They are padded to few different lengths, for every new one would be compiled.
    """
    count = len(jax.tree.leaves(data)[0])
    for start in range(0, count, _CHUNK):
        turns = np.arange(start, min(start + _CHUNK, count))
        length = min(_CHUNK, max(_FEWEST, 1 << (len(turns) - 1).bit_length()))
        index = np.pad(turns, (0, length - len(turns)), mode="edge")
        yield index, jax.tree.map(lambda part, index=index: jnp.asarray(part[index]), data), len(turns)


def in_chunks(work: Callable[[Any, Any], Any], data: Any) -> list[Array]:
    """``work(positions, chunk)`` of all chunks of the data, in double precision, on every core; results put together.

    Args:
        work: returns a tuple of arrays over the data points of its chunk.
        data: a tree of arrays over data points.
    """

    def one(part: tuple[Any, Any, int]) -> list[Array]:
        index, chunk, real = part
        # The switch to double precision holds for one thread.
        with jax.enable_x64(True):
            return [np.asarray(found)[:real] for found in work(index, chunk)]

    with jax.enable_x64(True), ThreadPoolExecutor(os.cpu_count()) as threads:
        parts = list(threads.map(one, chunks(data)))
    return [np.concatenate(found) for found in zip(*parts, strict=True)]


def mapped(function: Callable[[Any], Any], data: Any) -> Any:
    """``function`` of every data point, in double precision; the same object at every call, or it is compiled again.

    Example:
        >>> import math
        >>> mapped(jnp.exp, np.zeros(3)).tolist()
        [1.0, 1.0, 1.0]
    """
    return in_chunks(lambda _, chunk: (_batched(function)(chunk),), data)[0]


@lru_cache(maxsize=64)
def _batched(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jax.jit(jax.vmap(function))
