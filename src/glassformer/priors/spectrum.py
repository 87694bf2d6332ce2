"""Matrices of a given spectrum, with eigenvectors or singular vectors of uniform direction."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import positive
from glassformer.priors.bilinear import BilinearPrior
from glassformer.priors.spectral import SpectralPrior
from glassformer.priors.wishart import SymmetricPrior
from glassformer.random_matrices.atoms import AtomsLaw
from glassformer.random_matrices.given import Spectrum
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold, trace_dimension
from glassformer.random_matrices.rectangular_atoms import RectangularAtomsLaw
from glassformer.random_matrices.symmetric_atoms import SymmetricAtomsLaw


class SpectrumPrior(SpectralPrior):
    """A matrix of a given spectrum, scaled such that the signal has power one around its known mean."""

    spectrum: Spectrum

    least_precision = 1e-14
    # Atoms stand alone or digits end at this precision; beyond it the MMSE is taken to fall as its inverse.
    known_precision = resolved_precision = 1e10
    beyond = 1e-4

    @cached_property
    def atoms(self) -> tuple[Array, Array]:
        """Values in units in which the signal has power one, distinct and ascending, and their weights."""
        values, weights = self.spectrum.atoms()
        return values / self.scale, weights

    @property
    @abstractmethod
    def scale(self) -> float:
        """What the given values are divided by."""

    @abstractmethod
    def noisy_law(self, noise: Array) -> AtomsLaw:
        """Return the law of the values of the signal seen through noise of variances, shape (batch,)."""

    @property
    def zeros(self) -> float:
        """Weight of the values that are zero."""
        values, weights = self.atoms
        return float(np.sum(weights[values == 0]))

    @property
    def rank(self) -> float:
        return 1 - self.zeros

    def _law_mmse(self, noise: Array) -> Estimate:
        # One noise level at a time: nodes of all of them together would take memory.
        levels, index = np.unique(noise, return_inverse=True)
        laws = [self.noisy_law(np.array([level])).mmse() for level in levels]
        return Estimate(*(np.concatenate(part)[index] for part in zip(*laws, strict=True)))

    def power_deviation(self, shape: tuple[int, ...]) -> float:
        # The spectrum is the same at every size.
        del shape
        return 1e-9


@dataclass(frozen=True)
class SymmetricSpectrumPrior(SymmetricPrior, SpectrumPrior):
    r"""Symmetric matrices with given eigenvalues, scaled to variance one; their mean is known before any data.

    Args:
        spectrum: the eigenvalues; some of them differ.

    Raises:
        ParameterError: all eigenvalues are the same.

    Source: arXiv:1502.06736 (denoiser); its error in closed form along the curve is derived here.

    Example:
        >>> from glassformer.random_matrices.given import power_law
        >>> prior = SymmetricSpectrumPrior(power_law(1.25, 400))
        >>> round(float(prior.mmse(np.array([10.0])).value[0]), 6), round(prior.mmse_dimension, 6)
        (0.011906, 0.9975)
    """

    spectrum: Spectrum

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise ParameterError("spectrum", self.spectrum, "eigenvalues of which some differ: the mean is known")

    @cached_property
    def scale(self) -> float:
        values, weights = self.spectrum.atoms()
        return float(np.sqrt(weights @ (values - weights @ values) ** 2))

    @cached_property
    def centre(self) -> float:
        """Mean of the eigenvalues."""
        values, weights = self.atoms
        return float(weights @ values)

    @property
    def second_moment(self) -> float:
        return 1 + self.centre**2

    @property
    def mmse_dimension(self) -> float:
        return float(1 - np.sum(self.atoms[1] ** 2))

    @property
    def convex_dimension(self) -> float:
        # Of the positive matrices the signal must be one.
        return trace_dimension(1 - self.zeros) if self.atoms[0][0] >= 0 else np.nan

    def noisy_law(self, noise: Array) -> SymmetricAtomsLaw:
        values, weights = self.atoms
        return SymmetricAtomsLaw(tuple(values), tuple(weights), noise)

    def factor_width(self, columns: int) -> int:
        return max(1, round((1 - self.zeros) * columns))

    def mean(self, shape: tuple[int, int]) -> Array:
        return self.centre * np.eye(shape[0])

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        values = self.spectrum.sized(shape[0]) / self.scale
        vectors = orthogonal(shape[0], shape[0], rng)
        return (vectors * values) @ vectors.T


@dataclass(frozen=True)
class RectangularSpectrumPrior(SpectrumPrior):
    r"""Matrices of shape (L, d) with given singular values, as many as the shorter side has entries.

    Args:
        beta: :math:`L/d`, finite and positive.
        spectrum: the singular values, not negative and not all zero.

    Raises:
        ParameterError: an argument is out of range.

    Source: denoiser and error are derived here.

    Example:
        >>> prior = RectangularSpectrumPrior(2.0, Spectrum([0, 0, 1, 2]))
        >>> transposed = RectangularSpectrumPrior(0.5, Spectrum([0, 0, 1, 2]))
        >>> bool(np.allclose(prior.mmse(np.array([3.0])).value, transposed.mmse(np.array([3.0])).value))
        True
        >>> prior.mmse_dimension  # rank (1 + beta - rank)/beta is 0.625, and equal values are known to be so
        0.59375
    """

    beta: float
    spectrum: Spectrum

    def __post_init__(self) -> None:
        positive("beta", self.beta)
        values = self.spectrum.values
        if values[0] < 0 or values[-1] == 0:
            raise ParameterError("spectrum", self.spectrum, "singular values, not negative and not all zero")

    @property
    def shape_ratio(self) -> float:
        return self.beta

    @property
    def ratio(self) -> float:
        """Of the longer side to the shorter one."""
        return max(float(self.beta), 1 / float(self.beta))

    @cached_property
    def scale(self) -> float:
        values, weights = self.spectrum.atoms()
        return float(np.sqrt(weights @ values**2 / np.sqrt(self.ratio)))

    @property
    def mmse_dimension(self) -> float:
        b, zeros, weights = self.ratio, self.zeros, self.atoms[1]
        alike = np.sum(weights**2) - zeros**2
        return float((1 + b**2 - alike - zeros**2 - (b - 1 + zeros) ** 2) / (2 * b))

    @property
    def convex_dimension(self) -> float:
        return nuclear_norm_threshold(self.ratio, 1 - self.zeros)

    def noisy_law(self, noise: Array) -> RectangularAtomsLaw:
        values, weights = self.atoms
        return RectangularAtomsLaw(tuple(values), tuple(weights), noise, self.ratio)

    def of_width(self, rho: float) -> BilinearPrior:
        return BilinearPrior(float(self.beta), rho)

    def factor_width(self, columns: int) -> int:
        return max(1, round((1 - self.zeros) * min(1.0, self.beta) * columns))

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        short = min(shape)
        values = self.spectrum.sized(short) / self.scale * float(shape[0] * shape[1]) ** 0.25
        left, right = (orthogonal(side, short, rng) for side in shape)
        return (left * values) @ right.T


def orthogonal(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Return orthonormal columns of uniform direction.

    Example:
        >>> basis = orthogonal(5, 2, np.random.default_rng(0))
        >>> bool(np.allclose(basis.T @ basis, np.eye(2)))
        True
    """
    basis, triangle = np.linalg.qr(rng.standard_normal((rows, columns)))
    return np.asarray(basis * np.sign(np.diag(triangle)))
