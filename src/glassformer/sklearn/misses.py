"""By how much predictions of new labels miss them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from glassformer.core.integral import Array


class Misses(Protocol):
    """Errors of predictions, noise of the labels included, in the units of targets."""

    def deviation(self, power: Array) -> Array:
        """Standard deviations, shape (n,), of inputs that see a signal in no direction with these variances."""

    def half_width(self, power: Array, coverage: float) -> Array:
        """Of intervals around the predictions that hold this share of the labels, shape (n,)."""


@dataclass(frozen=True)
class LeftOutMisses:
    """What samples were missed by when the others alone were learned from: no law of errors is assumed.

    Attributes:
        residuals: shape (n,).
        weights: of the samples, > 0.
    """

    residuals: Array
    weights: Array

    def deviation(self, power: Array) -> Array:
        square = float(np.average(self.residuals**2, weights=self.weights))
        return np.full(len(power), np.sqrt(square))

    def half_width(self, power: Array, coverage: float) -> Array:
        """The quantile of the sizes of the residuals, a new one counted among them; infinite beyond all of them.

        Example:
            >>> one = LeftOutMisses(np.arange(-50.0, 50.0), np.ones(100))
            >>> one.half_width(np.ones(1), 0.9)
            array([45.])
        """
        order = np.argsort(np.abs(self.residuals))
        share = np.cumsum(self.weights[order])
        place = int(np.searchsorted(share, coverage * (share[-1] + 1)))
        sizes = np.append(np.abs(self.residuals)[order], np.inf)
        return np.full(len(power), sizes[place])


@dataclass(frozen=True)
class PosteriorMisses:
    r"""Variances :math:`P\,(E\,\langle x^2\rangle + \Delta)` of a posterior whose entries have errors ``E``; Gaussian.

    Attributes:
        unit: :math:`\sqrt P`.
        error: ``E``.
        noise: :math:`\Delta`.
    """

    unit: float
    error: float
    noise: float

    def deviation(self, power: Array) -> Array:
        return np.asarray(self.unit * np.sqrt(self.error * power + self.noise))

    def half_width(self, power: Array, coverage: float) -> Array:
        return np.asarray(ndtri(0.5 * (1 + coverage)) * self.deviation(power))
