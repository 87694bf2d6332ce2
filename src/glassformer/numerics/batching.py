"""Functions of one data point, compiled once and applied to many data points in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from glassformer.core.arrays import AnyArray
from glassformer.core.estimate import Array
from glassformer.core.resources import usable_cores
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings

# Data points of a chunk, and of a chunk for the last few of them: every other length would be compiled anew.
_CHUNK, _REST = 512, 64
# The same for single functions, which take less time than the calls of short chunks: from 1024 points on the last chunk
# is a whole one.
_POINTS, _POINTS_REST, _POINTS_PADDED = 4096, 512, 1024
# Points from which chunks are longer: compiling for another length takes as long as the calls for so many.
_MANY_POINTS, _LONG = 2**17, 2**15

Tree = TypeVar("Tree")
"""A tree of arrays whose first axis runs over data points."""

Part = TypeVar("Part")
"""What one thread is given."""

Found = TypeVar("Found")
"""What one thread returns."""


def on_all_cores(work: Callable[[Part], Found], parts: Sequence[Part]) -> list[Found]:
    """Return ``work`` of every part, on all cores, in double precision.

    Example:
        >>> on_all_cores(lambda number: 2 * number, [1, 2, 3])
        [2, 4, 6]
    """

    def one(part: Part) -> Found:
        # Double precision is set for one thread only.
        with jax_settings():
            return work(part)

    if len(parts) == 1 or usable_cores() == 1:
        # Threads take longer to start than short functions.
        return list(map(one, parts))
    with jax_settings(), ThreadPoolExecutor(usable_cores()) as threads:
        return list(threads.map(one, parts))


def chunks(
    data: Tree, most: int = _CHUNK, rest: int = _REST, padded: int | None = None
) -> Iterator[tuple[NDArray[np.intp], Tree, int]]:
    """Yield chunks of a tree of arrays over data points: positions, data, and the number of data that are no padding.

    The last chunk is padded: all chunks have the length ``most``, or ``rest`` for the last data points, which are fewer
    than ``padded``, or than ``most`` if this is not given.
    """
    count, start = len(jax.tree.leaves(data)[0]), 0
    while start < count:
        length = most if count - start >= (padded or most) else rest
        turns = np.arange(start, min(start + length, count))
        start += length
        index = np.pad(turns, (0, length - len(turns)), mode="edge")
        # Whole chunks are views.
        place = slice(turns[0], turns[-1] + 1) if len(turns) == length else index
        yield index, jax.tree.map(lambda part, place=place: np.asarray(part)[place], data), len(turns)


def map_chunks(
    work: Callable[[NDArray[np.intp], Tree], Iterable[AnyArray]],
    data: Tree,
    most: int = _CHUNK,
    rest: int = _REST,
    padded: int | None = None,
) -> list[Array]:
    """Return the joined results of ``work(positions, chunk)`` for all chunks, in double precision, on all cores.

    Args:
        work: returns a tuple of arrays over the data points of its chunk.
        data: a tree of arrays over data points.
        most: data points of a chunk.
        rest: data points of the last chunks.
        padded: data points from which the last chunk has ``most`` of them; by default ``most``.
    """

    def one(part: tuple[NDArray[np.intp], Tree, int]) -> list[Array]:
        index, chunk, real = part
        return [np.asarray(found)[:real] for found in work(index, chunk)]

    parts = on_all_cores(one, list(chunks(data, most, rest, padded)))
    return parts[0] if len(parts) == 1 else [np.concatenate(found) for found in zip(*parts, strict=True)]


def map_points(function: Callable[..., Any], data: object, *numbers: float) -> Array:
    """Return ``function`` of every data point, in double precision, compiled once for all functions of equal content.

    Args:
        function: a function of one data point and of numbers that all data points share.
        data: a tree of arrays over data points.
        numbers: these numbers; nothing is compiled anew for other values.

    Example:
        >>> import jax.numpy as jnp
        >>> map_points(jnp.exp, np.zeros(3)).tolist()
        [1.0, 1.0, 1.0]
        >>> map_points(jnp.add, np.zeros(3), 2.0).tolist()
        [2.0, 2.0, 2.0]
    """
    over_points = CachedJit(_over_points, function=function)
    given = tuple(map(np.float64, numbers))
    sizes = (_POINTS, _POINTS_REST, _POINTS_PADDED)
    if len(jax.tree.leaves(data)[0]) >= _MANY_POINTS:
        sizes = (_LONG, _POINTS, 2 * _POINTS)
    return map_chunks(lambda _, chunk: (over_points(chunk, given),), data, *sizes)[0]


def _over_points(data: object, numbers: tuple[AnyArray, ...], function: Callable[..., Any]) -> Any:
    return jax.vmap(lambda datum: function(datum, *numbers))(data)
