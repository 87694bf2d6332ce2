"""Rows of standard normal weights, with or without side information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.estimate import Array, Estimate
from glassformer.priors.base import SignalEstimate
from glassformer.priors.weight_rows import WeightRowsPrior


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

    def denoise(self, field: Array, precision: Array, memory: Any = None) -> SignalEstimate:
        del memory
        variance = np.asarray(np.linalg.inv(np.eye(self.count) + precision * self.block), dtype=float)
        return SignalEstimate(np.tensordot(variance, field, axes=1), variance, variance)
