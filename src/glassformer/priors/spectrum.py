"""Matrices of any spectrum, with eigenvectors or singular vectors of no preferred direction."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.priors.base import ScalarPrior, SignalEstimate
from glassformer.priors.bilinear import BilinearPrior
from glassformer.priors.shrunk import shrunk_rectangular, shrunk_symmetric
from glassformer.priors.wishart import SymmetricPrior
from glassformer.random_matrices.atoms import AtomsLaw
from glassformer.random_matrices.given import Spectrum
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold, trace_dimension
from glassformer.random_matrices.rectangular_atoms import RectangularAtomsLaw
from glassformer.random_matrices.symmetric_atoms import SymmetricAtomsLaw


@dataclass(frozen=True)
class Noise:
    """Between which noises a spectrum is resolved."""

    largest: float = 1e14  # above it nothing is known to rounding
    smallest: float = 1e-10  # below it atoms stand alone or digits end, and the error is proportional to the noise
    beyond: float = 1e-4  # to this part, by its own estimate


_POLICY = Noise()


class SpectrumPrior(ScalarPrior):
    """What symmetric and rectangular matrices of any spectrum share.

    Values are scaled: around their mean, where that is known, the signal has power one.
    """

    spectrum: Spectrum

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
        """Law of the values of the signal seen through noise of variances, shape (batch,)."""

    @property
    def zeros(self) -> float:
        """Weight of the values that are zero."""
        values, weights = self.atoms
        return float(np.sum(weights[values == 0]))

    @property
    def rank(self) -> float:
        return 1 - self.zeros

    def mmse(self, q_hat: Array) -> Estimate:
        q_hat = np.asarray(q_hat, dtype=float)
        noise = 1 / np.maximum(q_hat, 1e-300)
        value, error = np.where(noise > _POLICY.largest, 1.0, 0.0), np.zeros(q_hat.shape)
        proper = (noise <= _POLICY.largest) & (noise > 0)
        if np.any(proper):
            seen = np.maximum(noise[proper], _POLICY.smallest)
            found, share = self._mmse_at(seen), noise[proper] / seen
            value[proper] = found.value * share
            error[proper] = found.error * share + np.where(share < 1, _POLICY.beyond, 0.0) * value[proper]
        return Estimate(value, error)

    def _mmse_at(self, noise: Array) -> Estimate:
        """One noise level at a time: nodes of all of them together would take memory."""
        distinct, back = np.unique(noise, return_inverse=True)
        found = [self.noisy_law(np.array([level])).mmse() for level in distinct]
        return Estimate(*(np.concatenate(part)[back] for part in zip(*found, strict=True)))

    def power_deviation(self, shape: tuple[int, ...]) -> float:
        # The spectrum is what it is at every size.
        del shape
        return 1e-9

    def known(self, precision: float) -> bool:
        """Whether a precision is large enough for the observation to be the signal, to rounding."""
        return precision >= 1 / _POLICY.smallest


@dataclass(frozen=True)
class SymmetricSpectrumPrior(SpectrumPrior, SymmetricPrior):
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

    def power(self, signal: Array) -> float:
        return float(np.sum(signal**2) / len(signal))

    def mean(self, shape: tuple[int, int]) -> Array:
        return self.centre * np.eye(shape[0])

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        values = self.spectrum.sized(shape[0]) / self.scale
        vectors = orthogonal(shape[0], shape[0], rng)
        return (vectors * values) @ vectors.T

    def denoise(self, field: Array, precision: float, memory: Any = None) -> SignalEstimate:
        r"""Posterior mean of ``S`` from natural parameters :math:`A Y` and :math:`A = \hat q`."""
        del memory
        if precision <= 1 / _POLICY.largest:
            return SignalEstimate(self.mean((len(field), len(field))), 1.0, 1.0)
        if self.known(precision):
            return SignalEstimate(field / precision, 1 / precision, 1 / precision)
        return shrunk_symmetric(self.noisy_law(np.array([1 / precision])), field, precision)


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
        if not (np.isfinite(self.beta) and self.beta > 0):
            raise ParameterError("beta", self.beta, "finite and > 0")
        values = self.spectrum.values
        if values[0] < 0 or values[-1] == 0:
            raise ParameterError("spectrum", self.spectrum, "singular values, not negative and not all zero")

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

    def denoise(self, field: Array, precision: float, memory: Any = None) -> SignalEstimate:
        r"""Posterior mean of ``S`` from natural parameters :math:`A Y` and :math:`A = \hat q`."""
        del memory
        if precision <= 1 / _POLICY.largest:
            return SignalEstimate(np.zeros_like(field), 1.0, 1.0)
        if self.known(precision):
            return SignalEstimate(field / precision, 1 / precision, 1 / precision)
        return shrunk_rectangular(self.noisy_law(np.array([1 / precision])), field, precision)


def orthogonal(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Orthonormal columns of uniform direction.

    Example:
        >>> basis = orthogonal(5, 2, np.random.default_rng(0))
        >>> bool(np.allclose(basis.T @ basis, np.eye(2)))
        True
    """
    basis, triangle = np.linalg.qr(rng.standard_normal((rows, columns)))
    return np.asarray(basis * np.sign(np.diag(triangle)))
