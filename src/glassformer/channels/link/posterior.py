"""Interface of the posterior of a field given its label, and the closed form for affine links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from glassformer.channels.link.piecewise import FEW_ULP, PiecewiseLink
from glassformer.channels.scalar.base import minus_slope
from glassformer.core.estimate import Array


@dataclass(frozen=True, eq=False)
class LinkPosterior(ABC):
    """The law of h = omega + sqrt(V) u given a label, by Gauss rules of ``nodes`` nodes per panel."""

    pieces: PiecewiseLink
    nodes: int

    truncation: ClassVar[float] = 1e-13
    """Share of the averages that every rule leaves out: tails beyond its range, and rounding."""

    closed_form: ClassVar[bool] = False
    """Whether averages are closed forms, which need no interpolation."""

    @abstractmethod
    def averages(self, v: float, level: int) -> tuple[float, float]:
        """Return (information, expected log partition) at posterior variance ``v`` by the rule of this level."""

    @abstractmethod
    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        """Return log partition and score of each data point. Arguments are one-dimensional and of equal length."""

    def score_and_curvature(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        r"""Return score and :math:`-\partial_\omega g`, by central differences unless both have the same integrals."""

        def score(mean: Array) -> Array:
            return self.posterior(y, mean, v)[1]

        return score(omega), minus_slope(score, omega, v)


@dataclass(frozen=True, eq=False)
class AffinePosterior(LinkPosterior):
    r"""Labels :math:`y = ah + b + \sqrt\Delta\,z`: normal around :math:`a\omega + b` with variance :math:`a^2V+\Delta`.

    The information is :math:`a^2/(a^2V+\Delta)`.
    """

    noise: float
    slope: float
    offset: float

    closed_form: ClassVar[bool] = True

    @classmethod
    def of(cls, pieces: PiecewiseLink, nodes: int, noise: float) -> Self | None:
        """Return the posterior of a link that is affine up to rounding. Return None for any other link.

        Example:
            >>> from glassformer.channels.link.piecewise import find_pieces
            >>> AffinePosterior.of(find_pieces(lambda h: 2 * h + 1), 12, 0.5).averages(0.5, 0)[0]
            1.6
            >>> AffinePosterior.of(find_pieces(np.tanh), 12, 0.5) is None
            True
        """
        if pieces.flats or len(pieces.branches) != 1:
            return None
        h, values = pieces.branches[0].h, pieces.branches[0].values
        slope = float((values[-1] - values[0]) / (h[-1] - h[0]))
        offset = float(pieces.link(np.zeros(1))[0])
        straight = np.all(np.abs(offset + slope * h - values) <= FEW_ULP * np.max(np.abs(values)))
        return cls(pieces, nodes, noise, slope, offset) if straight else None

    def averages(self, v: float, level: int) -> tuple[float, float]:
        del level
        label_variance = self.slope**2 * v + self.noise
        return float(self.slope**2 / label_variance), float(-0.5 * (np.log(2 * np.pi * label_variance) + 1))

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        gap, label_variance = y - self.offset - self.slope * omega, self.slope**2 * v + self.noise
        log_partition = -0.5 * (np.log(2 * np.pi * label_variance) + gap**2 / label_variance)
        return log_partition, self.slope * gap / label_variance
