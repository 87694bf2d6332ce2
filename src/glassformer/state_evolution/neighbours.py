"""Sample ratios in an order in which the fixed points of some are good starts for the others.

The map is monotone in ``V`` and in the sample ratio, so that fixed points reached from the uninformed start come in the
order of their ratios: those of smaller ratios lie between the start and those of larger ones, and no other fixed point
does. From the informed start it is the other way around.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.eigenvalues import with_eigenvalues
from glassformer.state_evolution.fixed_point import Index


class Round(NamedTuple):
    """Elements of a batch that are solved at once, and for each an earlier one that it may start from; none at first.

    Attributes:
        places: of the elements.
        near: of those before.
        side: one where starts are above fixed points, minus one where they are below.
    """

    places: Index
    near: Index
    side: float


def rounds(alpha: Array, informed: bool = False) -> list[Round]:
    """Halving what is left, so that there are few rounds and many elements in the last ones.

    Args:
        alpha: sample ratios, shape (batch,).
        informed: whether the start is the informed one.

    Example:
        >>> [(part.places.tolist(), part.near.tolist()) for part in rounds(np.array([0.3, 0.1, 0.2, 0.4]))]
        [([1], []), ([0], [1]), ([2, 3], [1, 0])]
    """
    order = np.argsort(-alpha if informed else alpha, kind="stable")
    side = -1.0 if informed else 1.0
    found = [Round(order[:1], order[:0], side)]
    step = 1 << max(len(order) - 1, 0).bit_length()
    while step > 1:
        step //= 2
        some = np.arange(step, len(order), 2 * step)
        found.append(Round(order[some], order[some - step], side))
    return found


def started(start: Array, found: Array, side: float) -> Array:
    """``start``, shape (n, P, P), where that is nearer, fixed points before it otherwise, direction by direction.

    Directions that the one before has not learned keep the start, which breaks their symmetry.

    Example:
        >>> started(np.diag([0.9, 0.9])[None], np.diag([1.0, 0.5])[None], 1.0)[0]
        array([[0.9, 0. ],
               [0. , 0.5]])
    """
    return start - side * with_eigenvalues(side * (start - found), lambda values: np.maximum(values, 0.0))
