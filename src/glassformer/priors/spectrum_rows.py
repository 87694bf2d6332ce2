"""Rows of Gaussian weights seen through features of unequal variances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.checks import real_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.priors.base import SignalEstimate
from glassformer.priors.weight_rows import WeightRowsPrior

# Deviation of the mean eigenvalue from one that is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SpectrumRowsPrior(WeightRowsPrior):
    r"""``P`` rows :math:`W\Sigma^{1/2}` of standard normal weights on features of covariance :math:`\Sigma`.

    .. math:: V = E_s\bigl[(I/s + \hat Q)^{-1}\bigr], \qquad
       \Psi - \tfrac12\mathrm{Tr}\,Q\hat Q = \tfrac12\mathrm{Tr}\,\hat QV - \tfrac12E_s\log\det(I + s\hat Q)

    with ``s`` the eigenvalues of :math:`\Sigma`, of mean one: overlaps and errors are those of what labels see,
    :math:`\hat W\Sigma W^T/d`.

    Args:
        spectrum: eigenvalues, each of the same multiplicity, positive and of mean one.
        count: ``P``.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> prior = SpectrumRowsPrior((0.5, 1.5), 1)
        >>> prior.covariance(Estimate(np.eye(1)[None], np.zeros((1, 1, 1)))).value.round(4).ravel()
        array([0.4667])
    """

    spectrum: tuple[float, ...]
    count: int
    heads: int = 1
    side_information: float = 0.0

    rotational = True
    whitens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        values = real_numbers("feature_spectrum", self.spectrum).ravel()
        if values.size == 0 or not (np.all(values > 0) and abs(values.mean() - 1) < _ROUNDING):
            allowed = "positive eigenvalues of mean one"
            raise ParameterError("feature_spectrum", self.spectrum, allowed, "divide them by their mean")
        object.__setattr__(self, "spectrum", tuple(values.tolist()))

    @property
    def mmse_dimension(self) -> float:
        return float(self.count)

    @property
    def growth(self) -> float:
        return float(np.mean(np.square(self.spectrum)))

    def _posteriors(self, precision: Array) -> Array:
        """Posterior covariances at every eigenvalue, shape (eigenvalues, ..., P, P)."""
        own = np.array(self.spectrum).reshape(-1, *np.ones(precision.ndim, dtype=int))
        return np.asarray(np.linalg.inv(np.eye(self.count) / own + precision))

    def covariance(self, q_hat: Estimate) -> Estimate:
        parts = self._posteriors(q_hat.value)
        value, size = parts.mean(axis=0), np.abs(parts)
        error = (size @ np.abs(q_hat.error) @ size).mean(axis=0)
        return Estimate(0.5 * (value + np.swapaxes(value, -1, -2)), error)

    def profile(self, points: int) -> tuple[Array, Array]:
        precision = np.geomspace(1e-3, 1e3, points)
        own = np.array(self.spectrum)[:, None]
        return precision, np.mean(own / (1 + own * precision), axis=0)

    def entropy(self, q_hat: Array, variance: Array) -> Estimate:
        own = np.array(self.spectrum)[:, None, None, None]
        growth = np.linalg.slogdet(np.eye(self.count) + own * q_hat)[1].mean(axis=0)
        value = 0.5 * (np.einsum("nab,nba->n", q_hat, variance) - growth)
        return Estimate(value, np.zeros(len(variance)))

    def _places(self, dimension: int) -> NDArray[np.intp]:
        """The eigenvalue of every feature, by its number."""
        return np.arange(dimension) * len(self.spectrum) // dimension

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.standard_normal(shape) * np.sqrt(np.array(self.spectrum)[self._places(shape[-1])])

    def power_deviation(self, shape: tuple[Any, ...]) -> float:
        return float(np.sqrt(self.growth) * super().power_deviation(shape))

    def denoise(self, field: Array, precision: Array, memory: Any = None) -> SignalEstimate:
        del memory
        parts, places = self._posteriors(np.asarray(precision)), self._places(field.shape[-1])
        signal = np.einsum("dab,bd->ad", parts[places], field)
        variance = parts[places].mean(axis=0)
        return SignalEstimate(signal, variance, variance)
