"""Denoisers that differ from the Bayes-optimal one. Their error is estimated from the observation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.priors.base import ScalarPrior, SignalEstimate
from glassformer.priors.matrix_denoiser import shrink_rectangular
from glassformer.priors.spectral import SpectralPrior
from glassformer.random_matrices.estimated import EstimatedLaw


class MeasuredPrior(SpectralPrior):
    r"""A denoiser of rectangular matrices whose error is estimated from the observation itself (Stein).

    Equation :eq:`measured-error` of the documentation: of an observation ``Y`` with noise ``R`` and an estimate
    ``f(Y)`` of divergence ``div`` per entry, :math:`\langle(f(Y) - Y)^2\rangle + 2R\,\mathrm{div} - R` is the squared
    error on average over the noise, whatever the signal. Its fluctuations can take it out of the range of
    errors, where it is replaced by the end of that range: 1, or ``R`` over the number of entries.
    """

    @property
    def weak_recovery_onset(self) -> float:
        raise self._unmeasured()

    @property
    def mmse_dimension(self) -> float:
        raise self._unmeasured()

    def mmse(self, q_hat: Array) -> Estimate:
        raise self._unmeasured()

    def _unmeasured(self) -> IncompatibleError:
        return IncompatibleError(f"{type(self).__name__} has no error without data: use the model's own prior")

    @abstractmethod
    def estimate(self, field: Array, precision: float) -> SignalEstimate:
        """Return the estimate and its Onsager coefficient, whatever error it claims."""

    def shrink(self, field: Array, precision: float) -> SignalEstimate:
        found, noise = self.estimate(field, precision), 1 / precision
        error = np.mean((found.signal - field * noise) ** 2) + 2 * found.onsager - noise
        return replace(found, variance=float(np.clip(error, min(noise / field.size, 1.0), 1.0)))


@dataclass(frozen=True)
class AssumedPrior(MeasuredPrior):
    r"""The denoiser of an assumed prior, with its true error on this signal.

    Args:
        assumed: the other prior, of rectangular matrices.

    Example:
        >>> from glassformer.priors.bilinear import BilinearPrior
        >>> rng = np.random.default_rng(0)
        >>> signal = BilinearPrior(1.0, 0.1).sample((100, 100), rng)
        >>> observed = signal + rng.standard_normal(signal.shape)
        >>> found = AssumedPrior(BilinearPrior(1.0, 1.0)).denoise(observed, 1.0)
        >>> bool(abs(found.variance - np.mean((found.signal - signal) ** 2)) < 0.03)
        True
    """

    assumed: ScalarPrior

    def power_deviation(self, shape: tuple[int, ...]) -> float:
        return self.assumed.power_deviation(shape)

    def estimate(self, field: Array, precision: float) -> SignalEstimate:
        return self.assumed.denoise(field, precision)


@dataclass(frozen=True)
class UnknownLawPrior(MeasuredPrior):
    r"""The denoiser that estimates the law of the singular values from the observation itself.

    Args:
        smoothing: see :class:`~glassformer.random_matrices.estimated.SignalEstimatedLaw`.

    Example:
        >>> from glassformer.priors.bilinear import BilinearPrior
        >>> rng, prior = np.random.default_rng(0), BilinearPrior(1.0, 0.2)
        >>> signal = prior.sample((100, 100), rng)
        >>> observed = signal + rng.standard_normal(signal.shape)
        >>> found = [one.denoise(observed, 1.0).signal for one in (UnknownLawPrior(2.0), prior)]
        >>> blind, optimal = (np.mean((one - signal) ** 2) for one in found)
        >>> bool(blind < 1.03 * optimal)
        True
    """

    smoothing: float

    def estimate(self, field: Array, precision: float) -> SignalEstimate:
        law = EstimatedLaw(max(field.shape) / min(field.shape), 1 / precision, self.smoothing)
        signal, onsager = shrink_rectangular(law, field, precision)
        return SignalEstimate(signal, onsager, onsager)
