"""Distribution of new labels around predictions: errors of regressors, probabilities of classifiers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri

from glassformer.core.estimate import Array

# Smallest share of the variance of an error that does not depend on the input (chosen by trial).
_LEAST_SHARE = 0.05


@dataclass(frozen=True)
class LeaveOneOutErrors:
    r"""Leave-one-out residuals of the training samples, without a parametric law of errors.

    For a fit of ``k`` degrees of freedom the error of the estimate is the share :math:`k/n` of the variance of a
    residual, and grows with the power ``P`` of an input, in units of that of the training inputs. Errors are measured
    in units of :math:`\sqrt{1 + (P - 1)k/n}`: inputs far outside of the training range have larger errors.

    Attributes:
        residuals: shape (n,).
        weights: of the samples, > 0.
        share: :math:`k/n`.
        power: of the training inputs, shape (n,).
    """

    residuals: Array
    weights: Array
    share: float
    power: Array

    def _unit(self, power: Array) -> Array:
        """Return the unit of errors at these powers; its mean square over the training inputs is one."""
        mean = max(float(np.average(self.power, weights=self.weights)), 1e-300)
        return np.sqrt(np.maximum(1 + self.share * (power / mean - 1), _LEAST_SHARE))

    def deviation(self, power: Array) -> Array:
        """Return standard deviations, shape (n,), at inputs whose fields have these variances."""
        square = float(np.average(self.residuals**2, weights=self.weights))
        return np.asarray(np.sqrt(square) * self._unit(power))

    def half_width(self, power: Array, coverage: float) -> Array:
        """Return half-widths of intervals that contain this share of the labels, shape (n,).

        They are the quantile of the sizes of the residuals, with the new one among them. A quantile beyond all of
        them is infinite.

        Example:
            >>> errors = LeaveOneOutErrors(np.arange(-50.0, 50.0), np.ones(100), 0.5, np.ones(100))
            >>> errors.half_width(np.array([1.0, 19.0]), 0.9).round(1)
            array([ 45. , 142.3])
        """
        sizes = np.abs(self.residuals) / self._unit(self.power)
        order = np.argsort(sizes)
        share = np.cumsum(self.weights[order])
        # The new residual has the mean weight of the others: the unit of the weights does not matter.
        place = int(np.searchsorted(share, coverage * (share[-1] + self.weights.mean())))
        return np.asarray(np.append(sizes[order], np.inf)[place] * self._unit(power))


@dataclass(frozen=True)
class PosteriorErrors:
    r"""Gaussian errors of variance :math:`P\,(E\,\langle x^2\rangle + \Delta)`, of a posterior mean of error ``E``.

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


ErrorDistribution = LeaveOneOutErrors | PosteriorErrors


@dataclass(frozen=True)
class ProbitProbabilities:
    r"""Probability :math:`\Phi\bigl(h/\sqrt{E\,\langle x^2\rangle + \Delta}\bigr)` of the second of two classes.

    Attributes:
        error: ``E``, of the posterior mean.
        noise: :math:`\Delta`.

    Example:
        >>> odds = ProbitProbabilities(0.5, 0.5).log_odds(np.array([1.0]), np.ones(1))
        >>> bool(np.isclose(1 / (1 + np.exp(-odds[0])), 0.841345))
        True
    """

    error: float
    noise: float

    def log_odds(self, fields: Array, power: Array) -> Array:
        """Return log-odds of the second class at these fields, of inputs whose fields have these variances."""
        standardised = fields / np.sqrt(self.error * power + self.noise)
        return np.asarray(log_ndtr(standardised) - log_ndtr(-standardised))
