"""Cells of lines: as short as the waves of a link ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.multi_index.line_placement import POLICY
from glassformer.core.cache import memoize
from glassformer.core.estimate import Array
from glassformer.numerics.batching import mapped


@lru_cache(maxsize=8)
def grid(cells: int) -> Array:
    """Ends of cells: alike where fields are likely, longer where a level set that is missed has hardly any weight.

    Of twice as many cells every other end is one of these.

    Example:
        >>> ends = grid(56)
        >>> bool(np.allclose(grid(112)[::2], ends)), ends[[0, 28, 56]].tolist()
        (True, [-7.5, 0.0, 7.5])
    """
    even = np.linspace(-1.0, 1.0, cells + 1)
    return np.asarray(POLICY.centre * even * (1 + (POLICY.reach / POLICY.centre - 1) * even**POLICY.growth))


def cells_for(link: Callable[[Any], Any], indices: int, tokens: int) -> int:
    """The number of cells whose crossings hold all but a negligible share of the level sets of continuous labels.

    Two crossings in one cell are not seen. Lines next to them cross the set along other axes, with the rest of the
    weight: what counts is what is missing of it, for fields of which nothing is known yet, where waves are shortest.

    Args:
        link: label of fields of shape (P, L), its entries on one axis.
        indices: ``P``.
        tokens: ``L``.
    """
    found: int = memoize(lambda: _cells_for(link, (indices, tokens)), "cells of lines", link, indices, tokens)
    return found


def sharp(link: Callable[[Any], Any], indices: int, tokens: int, cells: int) -> bool:
    """Whether so many cells hide more on lines in other directions than those of the axes: next to jumps and kinks."""

    def compute() -> bool:
        size = indices * tokens
        turned = np.random.default_rng(5).standard_normal((POLICY.turned * POLICY.probed, size))
        crossings = _weighed(link, (indices, tokens), turned / np.linalg.norm(turned, axis=1, keepdims=True))
        return _hidden(*crossings, cells // POLICY.cells) > POLICY.sharp

    found: bool = memoize(compute, "sharp links", link, indices, tokens, cells)
    return found


def _cells_for(link: Callable[[Any], Any], shape: tuple[int, int]) -> int:
    size = shape[0] * shape[1]
    crossings = _weighed(link, shape, np.eye(size)[np.random.default_rng(3).integers(size, size=POLICY.probed)])
    enough = (factor for factor in POLICY.finer[:-2] if _hidden(*crossings, factor) <= POLICY.unseen)
    return POLICY.cells * next(enough, POLICY.finer[-2])


def _hidden(weight: Array, cell: NDArray[np.intp], line: NDArray[np.intp], factor: int) -> float:
    """Share of the weight of crossings that cells hide."""
    total = weight.sum()
    if total == 0:
        return 0.0
    # Crossings of one coarse cell: of an odd number one is found, of an even number none.
    place = line * factor * POLICY.cells + cell * factor // POLICY.finer[-1]
    _, own, count = np.unique(place, return_inverse=True, return_counts=True)
    seen = np.sum(np.where(count % 2 == 1, np.bincount(own, weight) / count, 0.0))
    return float(1 - seen / total)


def _weighed(
    link: Callable[[Any], Any], shape: tuple[int, int], along: Array
) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """Weights of the crossings of lines with level sets of labels, their cells of the finest grid, and lines.

    Lines run in the directions ``along``, shape (m, P L).
    """
    size, ends = shape[0] * shape[1], grid(POLICY.cells * POLICY.finer[-1])
    base = np.random.default_rng(4).standard_normal(along.shape)

    def labels(points: Array) -> Array:
        return np.asarray(mapped(link, points.reshape(-1, *shape)))[:, 0].reshape(points.shape[:-1])

    rest = base - np.sum(base * along, axis=1, keepdims=True) * along
    above = labels(rest[:, None] + ends[:, None] * along[:, None]) > labels(base)[:, None]
    line, cell = np.nonzero(above[:, 1:] != above[:, :-1])
    place = 0.5 * (ends[cell] + ends[cell + 1])
    at, steps = rest[line] + place[:, None] * along[line], POLICY.step * np.eye(size)
    gradient = (labels(at[:, None] + steps) - labels(at[:, None] - steps)) / (2 * POLICY.step)
    square = np.sum(gradient**2, axis=1)
    own = np.abs(np.sum(gradient * along[line], axis=1))
    weight = np.exp(-0.5 * place**2) * np.divide(own, square, out=np.zeros_like(own), where=square > 0)
    return np.where(np.isfinite(weight), weight, 0.0), cell, line
