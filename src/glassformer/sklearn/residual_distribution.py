"""By how much predictions of new labels miss them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from glassformer.core.estimate import Array

# Share of the variance of an error that is there at any input.
_LEAST = 0.05


class Misses(Protocol):
    """Errors of predictions, noise of the labels included, in the units of targets."""

    def deviation(self, power: Array) -> Array:
        """Standard deviations, shape (n,), of inputs that see a signal in no direction with these variances."""

    def half_width(self, power: Array, coverage: float) -> Array:
        """Of intervals around the predictions that hold this share of the labels, shape (n,)."""


@dataclass(frozen=True)
class LeftOutMisses:
    r"""What samples were missed by when the others alone were learned from: no law of errors is assumed.

    Where the fit has ``k`` degrees of freedom, the error of the estimate has the share :math:`k/n` of their variance,
    and grows with the power ``P`` of an input, in units of that of the inputs that were learned from. So errors are
    in units of :math:`\sqrt{1 + (P - 1)k/n}`: predictions at inputs far out of the range of the others are off by more.

    Attributes:
        residuals: shape (n,).
        weights: of the samples, > 0.
        share: :math:`k/n`.
        power: of the inputs that were learned from, shape (n,).
    """

    residuals: Array
    weights: Array
    share: float
    power: Array

    def _unit(self, power: Array) -> Array:
        """What errors at inputs of these powers are in units of: a mean square of one over what was learned from."""
        mean = max(float(np.average(self.power, weights=self.weights)), 1e-300)
        return np.sqrt(np.maximum(1 + self.share * (power / mean - 1), _LEAST))

    def deviation(self, power: Array) -> Array:
        square = float(np.average(self.residuals**2, weights=self.weights))
        return np.asarray(np.sqrt(square) * self._unit(power))

    def half_width(self, power: Array, coverage: float) -> Array:
        """The quantile of the sizes of the residuals, a new one counted among them; infinite beyond all of them.

        Example:
            >>> one = LeftOutMisses(np.arange(-50.0, 50.0), np.ones(100), 0.5, np.ones(100))
            >>> one.half_width(np.array([1.0, 19.0]), 0.9).round(1)
            array([ 45. , 142.3])
        """
        sizes = np.abs(self.residuals) / self._unit(self.power)
        order = np.argsort(sizes)
        share = np.cumsum(self.weights[order])
        place = int(np.searchsorted(share, coverage * (share[-1] + 1)))
        return np.asarray(np.append(sizes[order], np.inf)[place] * self._unit(power))


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
