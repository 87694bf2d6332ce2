"""The Wishart-type prior S = W W^T / sqrt(r d) of extensive width, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import positive
from glassformer.priors.base import ScalarPrior, SignalEstimate
from glassformer.priors.bilinear import GaussianMatrixPrior, exact
from glassformer.priors.spectral import SpectralPrior
from glassformer.random_matrices.nuclear_norm import trace_dimension
from glassformer.random_matrices.symmetric import SymmetricLaw


class SymmetricPrior(ScalarPrior):
    """Priors of symmetric signals, which have half as many free entries as the sample sizes d^2, or d r, count."""

    degrees = 0.5
    symmetric = True


@dataclass(frozen=True)
class WishartPrior(SymmetricPrior, SpectralPrior):
    r""":math:`S = W W^T/\sqrt{rd}`, ``W`` of shape (d, r) with independent standard normal entries.

    Eigenvalues are of order one and :math:`\mathrm{Tr}\,S^2/d \to 1 + \rho`. Before any data the mean
    :math:`\sqrt\rho\,I` is known, so errors :math:`\|\hat S - S\|_F^2/d` start from 1. The denoising problem is
    :math:`S + \hat q^{-1/2} Z` with ``Z`` from the Gaussian orthogonal ensemble, off-diagonal variance ``1/d``; its
    Bayes-optimal estimator keeps the eigenvectors and shrinks the eigenvalues
    (:class:`~glassformer.random_matrices.symmetric.SymmetricLaw`, at :math:`\Delta = 1/\hat q`).

    Args:
        rho: :math:`r/d`, finite and positive.

    Raises:
        ParameterError: ``rho`` is out of range.

    Source: arXiv:2408.03733 and arXiv:2506.01582 (Bayes-optimal error and AMP).

    Example:
        >>> prior = WishartPrior(rho=0.5)
        >>> round(float(prior.mmse(np.array([10.0])).value[0]), 6)
        0.066541
        >>> prior.mmse_dimension  # rho (2 - rho)
        0.75
    """

    rho: float

    least_precision = 1e-13  # below, rounding leaves nothing but the bulk of noise
    beyond = 1e-9  # the law agrees with its limit to 2e-10 there, at rho = 1; elsewhere far better

    def __post_init__(self) -> None:
        positive("rho", self.rho)

    @property
    def mmse_dimension(self) -> float:
        return self.rho * (2 - self.rho) if self.rho < 1 else 1.0

    @property
    def second_moment(self) -> float:
        return 1 + self.rho

    @property
    def convex_dimension(self) -> float:
        return trace_dimension(self.rho)

    @property
    def rank(self) -> float:
        return min(1.0, self.rho)

    def noisy_law(self, noise: Array) -> SymmetricLaw:
        return SymmetricLaw(self.rho, noise)

    def factor_width(self, columns: int) -> int:
        return max(1, round(self.rho * columns))

    def mean(self, shape: tuple[int, int]) -> Array:
        return np.sqrt(self.rho) * np.eye(shape[0])

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``S`` of shape ``(d, d)`` with width ``round(rho * d)``, at least one."""
        d = shape[0]
        width = self.factor_width(d)
        factor = rng.standard_normal((d, width))
        return factor @ factor.T / np.sqrt(width * d)

    def power_deviation(self, shape: tuple[int, int]) -> float:
        # Var Tr S^2/d to leading order: the trace of W W^T alone moves it by 2 (1 + rho) sqrt(2/(d r)) and more.
        d = shape[0]
        return float(2 * (1 + self.rho) * np.sqrt(2 / (d * self.factor_width(d))) + 2 / d)


@dataclass(frozen=True)
class SymmetricGaussianPrior(SymmetricPrior, GaussianMatrixPrior):
    r"""Width :math:`\rho\to\infty`: around its mean the signal is a Gaussian orthogonal matrix, MMSE = 1/(1 + q_hat).

    The mean's own power :math:`\rho` is left out of the overlap.

    Example:
        >>> SymmetricGaussianPrior().degrees
        0.5
    """


@dataclass(frozen=True)
class NarrowWishartPrior(SymmetricPrior):
    r"""Width small against the dimension, :math:`\rho\to 0`; sample sizes counted by :math:`\bar\alpha = n/(rd)`.

    With :math:`\hat q` in units of :math:`\rho`, the overlap is :math:`q = \max(1 - 1/\hat q, 0)^2`.

    Example:
        >>> NarrowWishartPrior().mmse(np.array([1.0, 2.0])).value
        array([1.  , 0.75])
    """

    extensive = False
    weak_recovery_onset = 1.0
    mmse_dimension = 2.0

    def mmse(self, q_hat: Array) -> Estimate:
        t = 1 / np.maximum(np.asarray(q_hat, dtype=float), 1.0)
        return exact(t * (2 - t))

    def mutual_information(self, q_hat: Array) -> Estimate:
        q_hat = np.asarray(q_hat, dtype=float)
        x = np.maximum(q_hat, 1.0)
        return exact(np.where(q_hat < 1, 0.5 * q_hat, np.log(x) + 0.5 / x))


@dataclass(frozen=True)
class FixedWidthWishartPrior(NarrowWishartPrior):
    r""":math:`S = W W^T/\sqrt{rd}` with ``r`` fixed, for :math:`1\ll r\ll d`.

    Its theory is that of vanishing width; on data it is the prior of the width :math:`r/d` that they have.

    Args:
        width: ``r``.

    Example:
        >>> FixedWidthWishartPrior(width=2).sample((30, 30), np.random.default_rng(0)).shape
        (30, 30)
    """

    width: int = 1

    def _at(self, dimension: int) -> WishartPrior:
        return WishartPrior(self.width / dimension)

    def factor_width(self, columns: int) -> int:
        del columns
        return self.width

    def mean(self, shape: tuple[int, int]) -> Array:
        return self._at(shape[0]).mean(shape)

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        return self._at(shape[0]).sample(shape, rng)

    def power_deviation(self, shape: tuple[int, int]) -> float:
        return self._at(shape[0]).power_deviation(shape)

    def denoise(self, field: Array, precision: float, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        return self._at(len(field)).denoise(field, precision, memory)
