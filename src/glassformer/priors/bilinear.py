"""The bilinear prior S = U V^T / sqrt(r) of extensive width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.priors.base import ScalarPrior, SignalEstimate
from glassformer.priors.shrunk import shrunk_rectangular
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold
from glassformer.random_matrices.rectangular import RectangularLaw

# Beyond these ratios to one the MMSE equals its limit to rounding error, and a law would only lose digits.
_TINY, _HUGE = 1e-15, 1e15


@dataclass(frozen=True)
class BilinearPrior(ScalarPrior):
    r""":math:`S = U V^T/\sqrt r`, ``U`` of shape (L, r), ``V`` of shape (d, r), independent standard normal entries.

    The denoising problem is :math:`S + \hat q^{-1/2} Z`; its Bayes-optimal estimator keeps the singular vectors and
    shrinks the singular values (:class:`~glassformer.random_matrices.rectangular.RectangularLaw`, at
    :math:`R = 1/\hat q`).

    Args:
        beta: :math:`L/d`, finite and positive.
        rho: :math:`r/d`, finite and positive.

    Raises:
        ParameterError: an argument is out of range.

    Source: Erba et al., arXiv:2410.18858 (Bayes-optimal error and GAMP-RIE).

    Example:
        >>> prior = BilinearPrior(beta=2.0, rho=0.5)
        >>> transposed = BilinearPrior(beta=0.5, rho=0.25)
        >>> bool(np.allclose(prior.mmse(np.array([3.0])).value, transposed.mmse(np.array([3.0])).value))
        True
        >>> round(prior.mmse_dimension, 3)  # rho (1 + beta - rho) / beta
        0.625
    """

    beta: float
    rho: float

    def __post_init__(self) -> None:
        for name in ("beta", "rho"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ParameterError(name, value, "finite and > 0")

    @property
    def mmse_dimension(self) -> float:
        return self.rho * (1 + self.beta - self.rho) / self.beta if self.rho < min(1.0, self.beta) else 1.0

    @property
    def ratios(self) -> tuple[float, float]:
        return self.beta, self.rho

    @property
    def convex_dimension(self) -> float:
        return nuclear_norm_threshold(self.beta, self.rho)

    @property
    def rank(self) -> float:
        return min(1.0, self.rho / min(1.0, self.beta))

    def noisy_law(self, noise: Array) -> RectangularLaw:
        return RectangularLaw(self.beta, self.rho, noise)

    def of_width(self, rho: float) -> BilinearPrior:
        return BilinearPrior(self.beta, rho)

    def factor_width(self, columns: int) -> int:
        return max(1, round(self.rho * columns))

    def mmse(self, q_hat: Array) -> Estimate:
        q_hat = np.asarray(q_hat, dtype=float)
        value = np.where(q_hat <= _TINY, 1.0, 0.0)
        error = np.zeros_like(value)
        proper = (q_hat > _TINY) & (q_hat < _HUGE)
        if np.any(proper):
            value[proper], error[proper] = RectangularLaw(self.beta, self.rho, 1 / q_hat[proper]).mmse()
        return Estimate(value, error)

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``S`` of shape ``(L, d)`` with width ``round(rho * d)``, at least one."""
        length, dimension = shape
        width = self.factor_width(dimension)
        left, right = rng.standard_normal((length, width)), rng.standard_normal((dimension, width))
        return left @ right.T / np.sqrt(width)

    def power_deviation(self, shape: tuple[int, int]) -> float:
        return float(np.sqrt(2 * (1 / shape[0] + 1 / shape[1]) / self.factor_width(shape[1])))

    def denoise(self, field: Array, precision: float, memory: Any = None) -> SignalEstimate:
        r"""Posterior mean of ``S`` from natural parameters ``field`` :math:`A Y` and ``precision`` :math:`A = \hat q`.

        Args:
            field: shape ``(L, d)``.
            precision: :math:`A \ge 0`; at zero the prior mean is returned.
            memory: ignored, this prior needs none.
        """
        del memory
        if precision <= _TINY:
            return SignalEstimate(np.zeros_like(field), 1.0, 1.0)
        if precision >= _HUGE:
            return SignalEstimate(field / precision, 1 / precision, 1 / precision)
        return shrunk_rectangular(RectangularLaw(self.beta, self.rho, 1 / precision), field, precision)
