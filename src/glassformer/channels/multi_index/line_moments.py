"""Places of quasi-random lines of data points, and moments from integrals along them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from glassformer.core.arrays import AnyArray
from glassformer.core.estimate import Array
from glassformer.numerics.batching import Tree
from glassformer.numerics.quasi_random import sobol_points

# Lines of one block in each part of each half: those of low accuracy.
_LINES_OF_BLOCK = 8
# Random numbers in the pool of lines.
_POOL_NUMBERS = 800_000
_TINY = 1e-300


@lru_cache(maxsize=4)
def line_pool(dimension: int, count: int) -> Array:
    """Return places at which lines cross the other coordinates, shape (pool, 2 halves, 2 parts, lines, dimension - 1).

    The parts are independent: their difference shows the bias of ratios.
    """
    if dimension == 1:
        return np.zeros((1, 2, 1, 1, 0))
    rng, base = np.random.default_rng(0), sobol_points(dimension - 1, count // 2)
    pool = int(np.clip(_POOL_NUMBERS // (4 * base.size), 16, 4096))
    shifted = (base + rng.random((pool, 2, 2, 1, dimension - 1))) % 1
    return np.asarray(ndtri(np.clip(shifted, 1e-12, 1 - 1e-12)))


def in_blocks(lines: Array) -> Array:
    """Return lines in blocks of few, shape (pool, blocks, ...), so that one program serves every number of lines.

    Each block has lines drawn from the prior and lines around the level set in equal numbers, from both halves.
    """
    pool, halves, parts, each, size = lines.shape
    blocks = max(each // _LINES_OF_BLOCK, 1)
    split = lines.reshape(pool, halves, parts, -1, blocks, each // blocks // min(each, 2), size)
    return np.moveaxis(split, 4, 1).reshape(pool, blocks, halves, parts, each // blocks, size)


def by_blocks(function: Callable[..., Iterable[AnyArray]], data: Tree, blocks: Array, most: int) -> list[Array]:
    """Return ``function(data, lines)`` of all blocks of lines, arrays of shape (n, blocks, ...).

    Args:
        function: of data and lines with one first axis, to arrays with this axis.
        data: a tree of arrays over data points.
        blocks: lines of shape (n, blocks, ...).
        most: number of blocks of one call.
    """
    count, each = blocks.shape[:2]
    rows, flat = np.repeat(np.arange(count), each), blocks.reshape(count * each, *blocks.shape[2:])
    found = []
    for start in range(0, len(rows), most):
        own = rows[start : start + most]
        part = jax.tree.map(lambda part, own=own: part[own], data)
        found.append([np.asarray(column) for column in function(part, flat[start : start + most])])
    joined = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return [part.reshape(count, each, *part.shape[1:]) for part in joined]


def moments_from(integrals: list[Array]) -> tuple[Array, ...]:
    """Return moments from the integrals of 1, ``x`` and ``x x^T`` along the lines.

    Shape (n, 2 halves, 2 parts, ...).
    """
    halves = [part.sum(axis=2) for part in integrals]
    whole = [part.sum(axis=1) for part in halves]
    mean, square = (_ratio(part, whole[0]) for part in whole[1:])
    # A half that misses the level set is replaced by the other one, a part by its half.
    own = [np.where(expanded(halves[0] > 0, part), part, part[:, ::-1]) for part in halves]
    parts = [
        np.where(expanded(integrals[0] > 0, part), part, half[:, :, None])
        for part, half in zip(integrals, own, strict=True)
    ]
    # The bias of a ratio falls as one over the sample size: twice the whole minus the mean of its parts is free of it.
    plain = [_ratio(own[k], own[0]) for k in (1, 2)]
    means, squares = (2 * plain[k - 1] - np.mean(_ratio(parts[k], parts[0]), axis=2) for k in (1, 2))
    # So does that of a logarithm; if one half misses the level set, this gives the value of the other.
    log_whole, log_halves = (np.log(np.maximum(part, _TINY)) for part in (0.5 * whole[0], halves[0]))
    log_partition = log_whole + np.minimum(log_whole - np.mean(log_halves, axis=1), np.log(2.0))
    within = np.mean(plain[1] - _outer(plain[0]), axis=1)
    covariance = 2 * (square - _outer(mean)) - within
    # A data point whose level set no line meets keeps the moments of the prior.
    covariance[whole[0] == 0] = squares[whole[0] == 0] = np.eye(mean.shape[-1])
    pairs = [part[:, half] for part in (means, squares) for half in (0, 1)]
    return log_partition, *pairs[:2], covariance, *pairs[2:]


def _outer(a: Array) -> Array:
    return np.asarray(a[..., :, None] * a[..., None, :])


def expanded(few: NDArray[Any], many: NDArray[Any]) -> NDArray[Any]:
    """Return an array with further axes of length one, up to the number of axes of ``many``."""
    return few.reshape(few.shape + (1,) * (many.ndim - few.ndim))


def _ratio(part: Array, zeroth: Array) -> Array:
    return np.asarray(part / expanded(np.maximum(zeroth, _TINY), part))
