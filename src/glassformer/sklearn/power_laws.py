r"""Learning curves continued as they were measured, by all laws :math:`e(n) = c + a\,n^{-b}` that fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.core.estimate import Array

# Exponents that are allowed, and shares of the mean error measured that may be left for ever.
_EXPONENTS, _LEFT = np.linspace(0.1, 2.0, 96), np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class PowerLaws:
    r"""Laws :math:`c + a\,(n/n_0)^{-b}` on a grid of ``b`` and ``c``, with the best ``a`` of each.

    Attributes:
        unit: :math:`n_0`, the most samples measured.
        left: ``c``, shape (k,).
        scale: ``a``, >= 0, shape (k,).
        exponent: ``b``, shape (k,).
        distance: from what was measured, a sum of squares in units of its errors, shape (k,).
        free: measurements beyond the three that a law needs, at least one.
    """

    unit: float
    left: Array
    scale: Array
    exponent: Array
    distance: Array
    free: int

    @classmethod
    def through(cls, samples: Array, measured: Array, blur: Array) -> PowerLaws:
        """Laws through errors measured at several numbers of samples.

        Args:
            samples: shape (m,), m > 1.
            measured: shape (m,), >= 0.
            blur: their standard errors, > 0, shape (m,).

        Example:
            >>> n = np.array([10.0, 20.0, 40.0, 80.0])
            >>> laws = PowerLaws.through(n, 0.1 + 2 / n, np.full(4, 1e-3))
            >>> low, error, high = laws.band(np.array([160.0]))
            >>> bool(low[0] < 0.1125 < high[0]), round(float(error[0]), 2)
            (True, 0.11)
        """
        unit, weight = float(samples.max()), 1 / blur**2
        # Their mean, not their least: that is low by chance.
        flat = float(weight @ measured / weight.sum())
        exponent, left = (grid.ravel() for grid in np.meshgrid(_EXPONENTS, _LEFT * flat))
        shape, above = (samples / unit) ** -exponent[:, None], measured - left[:, None]
        scale = np.maximum((shape * above) @ weight / (shape**2 @ weight), 0.0)
        distance = (above - scale[:, None] * shape) ** 2 @ weight
        return cls(unit, left, scale, exponent, distance, max(1, len(samples) - 3))

    def band(self, samples: Array, deviations: float = 2.0) -> tuple[Array, Array, Array]:
        """Least, nearest and largest error at these numbers of samples, by laws within so many standard deviations.

        Where even the nearest law is further from the measurements than their errors explain, these are taken to be
        as much larger.
        """
        least = float(self.distance.min())
        allowed = self.distance <= least + deviations**2 * max(1.0, least / self.free)
        shape = (samples / self.unit) ** -self.exponent[:, None]
        error = self.left[:, None] + self.scale[:, None] * shape
        return error[allowed].min(axis=0), error[int(np.argmin(self.distance))], error[allowed].max(axis=0)
