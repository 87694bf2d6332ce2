r"""The bilinear prior at fixed width, with the two factors estimated separately."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import svd
from glassformer.priors.base import SignalEstimate
from glassformer.priors.limits import LowWidthPrior

# Size of the spectral start relative to a factor of unit variance.
_SPECTRAL_SIZE = 0.3


class Factors(NamedTuple):
    """Estimated factors, shapes (L, r) and (d, r), and their posterior covariances, shape (r, r)."""

    left: Array
    right: Array
    left_covariance: Array
    right_covariance: Array


@dataclass(frozen=True)
class FactorPrior(LowWidthPrior):
    r""":math:`S = U V^T/\sqrt r` with ``r`` fixed while ``L`` and ``d`` grow.

    Its theory is that of vanishing width. Its denoiser keeps the two factors and updates one from the other
    (rank-``r`` approximate message passing), so that, unlike a denoiser that sees the observation only, it has a
    memory and an Onsager coefficient of its own.

    Args:
        beta: :math:`L/d`, finite and positive.
        width: ``r``.

    Raises:
        ParameterError: an argument is out of range.

    Source: Erba et al., arXiv:2410.18858 (low-width limit).

    Example:
        >>> FactorPrior(beta=1.0, width=2).sample((30, 30), np.random.default_rng(0)).shape
        (30, 30)
    """

    width: int = 1

    stepwise = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.isinf(self.beta):
            raise ParameterError("beta", self.beta, "finite when width is given")
        if self.width < 1:
            raise ParameterError("width", self.width, "an integer >= 1")

    def factor_width(self, columns: int) -> int:
        del columns
        return self.width

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``S`` of shape ``(L, d)``."""
        length, dimension = shape
        left, right = rng.standard_normal((length, self.width)), rng.standard_normal((dimension, self.width))
        return np.asarray(left @ right.T / np.sqrt(self.width))

    def power_deviation(self, shape: tuple[int, int]) -> float:
        r"""Standard deviation of :math:`\|S\|_F^2/(dL)` around 1 at finite size."""
        return float(np.sqrt(2 * (1 / shape[0] + 1 / shape[1]) / self.width))

    def mix(self, old: SignalEstimate, new: SignalEstimate, weight: float) -> SignalEstimate:
        """Damp the factors, so that signal and memory stay one."""
        if old.memory is None:
            return new
        mixed = Factors(*(weight * a + (1 - weight) * b for a, b in zip(old.memory, new.memory, strict=True)))
        return replace(new, signal=self._product(mixed).reshape(new.signal.shape), memory=mixed)

    def _product(self, factors: Factors) -> Array:
        return factors.left @ factors.right.T / np.sqrt(self.width)

    def denoise(self, field: Array, precision: float, memory: Factors | None = None) -> SignalEstimate:
        r"""One update of both factors from the natural parameters ``field`` :math:`= A Y` and ``precision`` ``A``.

        .. math:: U' = [Y V/\sqrt r - (\kappa d/r)\,U C_V]\,C_U', \quad C_U' = (I + \kappa V^TV/r)^{-1}, \quad
           V' = [Y^T U'/\sqrt r - (\kappa L/r)\,V C_U']\,C_V', \quad C_V' = (I + \kappa U'^TU'/r)^{-1},

        with ``Y`` the field and :math:`\kappa` the precision. Without memory the factors start from the leading
        singular vectors of the field.
        """
        length, dimension = field.shape
        r, kappa = self.width, precision
        if memory is None:
            memory = self._spectral_start(field)
        left, right, _, right_cov = memory
        new_left, new_left_cov = self._rows(
            field @ right / np.sqrt(r) - kappa * dimension / r * left @ right_cov, kappa / r * right.T @ right
        )
        overlap_left = new_left.T @ new_left / length
        new_right, new_right_cov = self._rows(
            field.T @ new_left / np.sqrt(r) - kappa * length / r * right @ new_left_cov,
            kappa * length / r * overlap_left,
        )
        overlap_right = new_right.T @ new_right / dimension
        crossed = np.trace(overlap_left @ new_right_cov)
        onsager = np.trace(right.T @ new_right @ new_left_cov) / dimension + crossed
        variance = crossed + np.trace(overlap_right @ new_left_cov) + np.trace(new_left_cov @ new_right_cov)
        factors = Factors(new_left, new_right, new_left_cov, new_right_cov)
        return SignalEstimate(self._product(factors), float(variance / r), float(onsager / r), factors)

    def _rows(self, field: Array, precision: Array) -> tuple[Array, Array]:
        """Posterior means of the rows of a factor, shape (n, r), and their mean covariance, shape (r, r)."""
        covariance = np.asarray(np.linalg.inv(np.eye(self.width) + precision), dtype=float)
        return field @ covariance, covariance

    def _spectral_start(self, field: Array) -> Factors:
        u, _, v = svd(field)
        left = _SPECTRAL_SIZE * np.sqrt(field.shape[0]) * u[:, : self.width]
        right = _SPECTRAL_SIZE * np.sqrt(field.shape[1]) * v[: self.width].T
        return Factors(left, right, np.eye(self.width), np.eye(self.width))
