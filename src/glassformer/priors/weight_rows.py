"""Rows of independent weights: how many, by which heads they are seen, and what is known of them beforehand."""

from __future__ import annotations

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.priors.base import Prior


class WeightRowsPrior(Prior):
    r"""What priors of rows of weights share; a data class of these fields gives the law of the weights.

    Attributes:
        count: ``P >= 1``.
        heads: groups of rows, row ``k`` in group ``k mod heads``, that see disjoint coordinates of the inputs: their
            overlaps vanish and each has ``1/heads`` of the weights.
        side_information: :math:`\lambda` in [0, 1).
    """

    count: int
    heads: int
    side_information: float

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ParameterError("indices", self.count, "an integer >= 1")
        if not 0 <= self.side_information < 1:
            raise ParameterError("side_information", self.side_information, "a number in [0, 1)")

    @property
    def rows(self) -> int:
        return self.count

    @property
    def side(self) -> float:
        return self.side_information / (1 - self.side_information)

    @property
    def degrees(self) -> float:
        return 1 / self.heads

    @property
    def block(self) -> Array:
        """One for rows of the same head, zero for others, shape (P, P)."""
        head = np.arange(self.count) % self.heads
        return (head[:, None] == head).astype(float)

    def allowed(self, matrices: Array) -> Array:
        return np.asarray(matrices * self.block)

    def gram(self, first: Array, second: Array) -> Array:
        return self.allowed(first @ second.T / first.shape[-1])
