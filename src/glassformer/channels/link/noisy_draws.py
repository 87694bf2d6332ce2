"""Nodes of the noise of a label and of the mean of its field, for many fields at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from glassformer.channels.link.field_quadrature import lattice, normal_density
from glassformer.channels.scalar.base import Array

# Powers of the plastic number.
_IRRATIONAL = (0.7548776662466927, 0.5698402909980532)

Nodes = tuple[Array, Array, Array]


class Draws(NamedTuple):
    """Two standard normal numbers.

    Attributes:
        size: nodes of both together.
        of: from numbers of fields to nodes, shape (fields, first) and (fields, second), and joint probabilities.
    """

    size: int
    of: Callable[[NDArray[np.intp]], Nodes]


def lattices(reach: float, steps: tuple[float, float]) -> Draws:
    """Lattices, displaced from one field to the next: what they leave out averages away.

    Example:
        >>> lattices(7.4, (0.5, 0.5)).of(np.arange(3))[2].sum(axis=(1, 2)).round(12)
        array([1., 1., 1.])
    """
    lattice_nodes = [lattice(reach, step) for step in steps]

    def of(fields: NDArray[np.intp]) -> Nodes:
        first, second = (
            x + step * (fields * jump % 1.0 - 0.5)[:, None]
            for x, step, jump in zip(lattice_nodes, steps, _IRRATIONAL, strict=True)
        )
        return first, second, steps[0] * normal_density(first)[:, :, None] * steps[1] * normal_density(second)[:, None]

    return Draws(sum(x.size for x in lattice_nodes), of)


def few(count: int) -> Draws:
    """Gauss rules, for functions that are next to polynomials.

    Example:
        >>> x, _, chance = few(5).of(np.arange(2))
        >>> np.sum(chance * x[:, :, None] ** 4, axis=(1, 2)).round(12)
        array([3., 3.])
    """
    x, w = hermegauss(count)
    w = w / np.sum(w)

    def of(fields: NDArray[np.intp]) -> Nodes:
        nodes = np.broadcast_to(x, (fields.size, count))
        return nodes, nodes, np.multiply.outer(w, w)[None]

    return Draws(2 * count, of)
