"""Rows of weights: standard normal ones, and those seen through features of unequal variances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.checks import real_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.frozen import set_fields
from glassformer.core.settings import positive_integer, unit_interval
from glassformer.priors.base import Prior, SignalEstimate
from glassformer.priors.features import feature_places, feature_variances, row_growth

# Deviation of the mean eigenvalue from one that is taken for rounding (a convention).
_ROUNDING = 1e-9


class WeightComponents(NamedTuple):
    r"""Gaussians, and points of variance zero, that the weights of a row are a mixture of, shape (components,).

    Attributes:
        weights: their probabilities.
        means: of the weights that labels see, :math:`W\Sigma^{1/2}`.
        variances: of the same.
        eigenvalues: of the covariance of the features.
    """

    weights: Array
    means: Array
    variances: Array
    eigenvalues: Array


class WeightRowsPrior(Prior):
    r"""Rows of independent weights, whose law a data class of these fields gives.

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
        positive_integer("indices", self.count)
        unit_interval("side_information", self.side_information)

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
        """One for pairs of rows of the same head, zero for others, shape (P, P)."""
        head = np.arange(self.count) % self.heads
        return (head[:, None] == head).astype(float)

    @property
    def weight_components(self) -> WeightComponents | None:
        """The law of one weight as a mixture of Gaussians and points; None for laws that are none."""
        return None

    def allowed(self, matrices: Array) -> Array:
        return np.asarray(matrices * self.block)

    def gram(self, first: Array, second: Array) -> Array:
        return self.allowed(first @ second.T / first.shape[-1])


@dataclass(frozen=True)
class GaussianRowsPrior(WeightRowsPrior):
    r"""``P`` rows of independent standard normal weights, :math:`V = (I + \hat Q + sI)^{-1}`.

    Side information is :math:`\sqrt\lambda\,W + \sqrt{1-\lambda}` times standard normal noise, so
    :math:`s = \lambda/(1-\lambda)`.

    Args:
        count: ``P >= 1``.
        heads: groups of rows, row ``k`` in group ``k mod heads``, that see disjoint coordinates of the inputs: their
            overlaps vanish and each has ``1/heads`` of the weights.
        side_information: :math:`\lambda` in [0, 1).

    Raises:
        ParameterError: an argument is out of range.

    Source: arXiv:2502.00901.

    Example:
        >>> prior = GaussianRowsPrior(2)
        >>> prior.covariance(Estimate(np.eye(2)[None], np.zeros((1, 2, 2)))).value[0]
        array([[0.5, 0. ],
               [0. , 0.5]])
    """

    count: int
    heads: int = 1
    side_information: float = 0.0

    rotational = True

    @property
    def mmse_dimension(self) -> float:
        return float(self.count)

    @property
    def weight_components(self) -> WeightComponents | None:
        return WeightComponents(np.ones(1), np.zeros(1), np.ones(1), np.ones(1))

    def covariance(self, q_hat: Estimate) -> Estimate:
        identity = np.eye(self.count)
        value = np.linalg.inv((1 + self.side) * identity + q_hat.value * self.block)
        # |dV| <= |V| |dQ_hat| |V|, entry by entry.
        size = np.abs(value)
        return Estimate(np.asarray(0.5 * (value + np.swapaxes(value, -1, -2))), size @ np.abs(q_hat.error) @ size)

    def profile(self, points: int) -> tuple[Array, Array]:
        variance = 1 / (1 + np.exp(np.linspace(-6, 6, points)))
        return 1 / variance - 1 - self.side, variance

    def entropy(self, q_hat: Array, variance: Array) -> Estimate:
        del q_hat
        overlap = np.eye(self.count) - variance
        value = (1 + self.side) * np.trace(overlap, axis1=1, axis2=2) + np.linalg.slogdet(variance)[1]
        return Estimate(0.5 * self.degrees * value, np.zeros(len(variance)))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.standard_normal(shape)

    def denoise(self, field: Array, precision: Array, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        del memory
        variance = np.asarray(np.linalg.inv(np.eye(self.count) + precision * self.block), dtype=float)
        return SignalEstimate(np.tensordot(variance, field, axes=1), variance, variance)


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

    def __post_init__(self) -> None:
        super().__post_init__()
        values = real_numbers("feature_spectrum", self.spectrum).ravel()
        if values.size == 0 or not (np.all(values > 0) and abs(values.mean() - 1) < _ROUNDING):
            allowed = "positive eigenvalues of mean one"
            raise ParameterError("feature_spectrum", self.spectrum, allowed, "divide them by their mean")
        set_fields(self, spectrum=tuple(values.tolist()))

    @property
    def mmse_dimension(self) -> float:
        return float(self.count)

    @property
    def feature_spectrum(self) -> tuple[float, ...]:
        return self.spectrum

    @property
    def weight_components(self) -> WeightComponents | None:
        own = np.array(self.spectrum)
        return WeightComponents(np.full(own.shape, 1 / own.size), np.zeros_like(own), own, own)

    def _posteriors(self, precision: Array) -> Array:
        """Return the posterior covariances at every eigenvalue, shape (eigenvalues, ..., P, P)."""
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

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.standard_normal(shape) * np.sqrt(feature_variances(self, shape[-1]))

    def power_deviation(self, shape: tuple[Any, ...]) -> float:
        return float(np.sqrt(row_growth(self)) * super().power_deviation(shape))

    def denoise(self, field: Array, precision: Array, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        del memory
        parts, places = self._posteriors(np.asarray(precision)), feature_places(self, field.shape[-1])
        signal = np.einsum("dab,bd->ad", parts[places], field)
        variance = parts[places].mean(axis=0)
        return SignalEstimate(signal, variance, variance)
