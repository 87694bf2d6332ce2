"""Labels that are affine in the field: a Gaussian law in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from glassformer.channels.link.piecewise import FEW_ULP, LinkShape
from glassformer.channels.link.posterior import LinkPosterior
from glassformer.channels.scalar.base import Array


@dataclass(frozen=True, eq=False)
class AffineLink(LinkPosterior):
    r"""Labels :math:`y = ah + b + \sqrt\Delta\,z`: normal around :math:`a\omega + b` with variance :math:`a^2V+\Delta`.

    The information is :math:`a^2/(a^2V+\Delta)`.
    """

    noise: float
    slope: float
    offset: float

    closed: ClassVar[bool] = True

    @classmethod
    def recognised(cls, shape: LinkShape, nodes: int, noise: float) -> Self | None:
        """The law of a link that is affine to rounding; None for any other.

        Example:
            >>> from glassformer.channels.link.piecewise import link_shape
            >>> AffineLink.recognised(link_shape(lambda h: 2 * h + 1), 12, 0.5).averages(0.5, 0)[0]
            1.6
            >>> AffineLink.recognised(link_shape(np.tanh), 12, 0.5) is None
            True
        """
        if shape.flats or len(shape.branches) != 1:
            return None
        h, values = shape.branches[0].h, shape.branches[0].values
        slope = float((values[-1] - values[0]) / (h[-1] - h[0]))
        offset = float(shape.link(np.zeros(1))[0])
        straight = np.all(np.abs(offset + slope * h - values) <= FEW_ULP * np.max(np.abs(values)))
        return cls(shape, nodes, noise, slope, offset) if straight else None

    def averages(self, v: float, level: int) -> tuple[float, float]:
        del level
        width = self._width(np.asarray(v))
        return float(self.slope**2 / width), float(-0.5 * (np.log(2 * np.pi * width) + 1))

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        gap, width = y - self.offset - self.slope * omega, self._width(v)
        return -0.5 * (np.log(2 * np.pi * width) + gap**2 / width), self.slope * gap / width

    def _width(self, v: Array) -> Array:
        """Variance of a label."""
        return self.slope**2 * v + self.noise
