"""Traceable functions of one data point, compiled once and applied to many."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings

# Data points that are sent at once, and where fewer are left: every other length would be compiled anew.
_CHUNK, _REST = 512, 64


def chunks(data: Any, most: int = _CHUNK, rest: int = _REST) -> Iterator[tuple[Any, Any, int]]:
    """Parts of a tree of arrays over data points: the positions, the data there, and how many of them are real.

    The last one is padded, so that there are two lengths only: ``most``, and ``rest`` where fewer are left.
    """
    count, start = len(jax.tree.leaves(data)[0]), 0
    while start < count:
        length = most if count - start >= most else rest
        turns = np.arange(start, min(start + length, count))
        start += length
        index = np.pad(turns, (0, length - len(turns)), mode="edge")
        yield index, jax.tree.map(lambda part, index=index: np.asarray(part)[index], data), len(turns)


def map_chunks(work: Callable[[Any, Any], Any], data: Any, most: int = _CHUNK, rest: int = _REST) -> list[Array]:
    """``work(positions, chunk)`` of all chunks of the data, in double precision, on every core; results put together.

    Args:
        work: returns a tuple of arrays over the data points of its chunk.
        data: a tree of arrays over data points.
        most: data points that are sent at once.
        rest: where fewer are left.
    """

    def one(part: tuple[Any, Any, int]) -> list[Array]:
        index, chunk, real = part
        # The switch to double precision holds for one thread.
        with jax_settings():
            return [np.asarray(found)[:real] for found in work(index, chunk)]

    with jax_settings(), ThreadPoolExecutor(os.cpu_count()) as threads:
        parts = list(threads.map(one, chunks(data, most, rest)))
    return [np.concatenate(found) for found in zip(*parts, strict=True)]


def map_points(function: Callable[..., Any], data: Any, *numbers: float) -> Any:
    """``function`` of every data point, in double precision; compiled once for all functions that are alike.

    Args:
        function: of a data point, and of numbers that all of them share.
        data: a tree of arrays over data points.
        numbers: for whose values nothing is compiled anew.

    Example:
        >>> import jax.numpy as jnp
        >>> map_points(jnp.exp, np.zeros(3)).tolist()
        [1.0, 1.0, 1.0]
        >>> map_points(jnp.add, np.zeros(3), 2.0).tolist()
        [2.0, 2.0, 2.0]
    """
    over_points = CachedJit(_over_points, function=function)
    return map_chunks(lambda _, chunk: (over_points(chunk, tuple(map(np.float64, numbers))),), data)[0]


def _over_points(data: Any, numbers: Any, function: Callable[..., Any]) -> Any:
    return jax.vmap(lambda datum: function(datum, *numbers))(data)
