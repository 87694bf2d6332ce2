"""Priors whose denoisers keep singular vectors, or eigenvectors, and shrink the values."""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array, Estimate
from glassformer.priors.base import ScalarPrior, SignalEstimate
from glassformer.priors.matrix_denoiser import shrink_rectangular, shrink_symmetric


class SpectralPrior(ScalarPrior):
    """Base of priors that are given by the law of their noisy values, :meth:`noisy_law`."""

    least_precision = default_property(1e-15, "Precision below which the overlap is below rounding.")
    known_precision = default_property(1e15, "Precision above which the observation equals the signal up to rounding.")
    resolved_precision = default_property(
        1e15, "Precision above which the MMSE is taken as proportional to 1/precision."
    )
    beyond = default_property(0.0, "Relative error of the MMSE from there on.")

    def mmse(self, q_hat: Array) -> Estimate:
        q_hat = np.asarray(q_hat, dtype=float)
        value, error = np.where(q_hat <= self.least_precision, 1.0, 0.0), np.zeros(q_hat.shape)
        proper = (q_hat > self.least_precision) & (q_hat < np.inf)
        if np.any(proper):
            resolved = np.minimum(q_hat[proper], self.resolved_precision)
            law, share = self._law_mmse(1 / resolved), resolved / q_hat[proper]
            value[proper] = law.value * share
            error[proper] = law.error * share + np.where(share < 1, self.beyond, 0.0) * value[proper]
        return Estimate(value, error)

    def _law_mmse(self, noise: Array) -> Estimate:
        return self.noisy_law(noise).mmse()

    def denoise(self, field: Array, precision: float, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        r"""Return the posterior mean of ``S`` from ``field`` :math:`A Y` and ``precision`` :math:`A = \hat q`.

        Args:
            field: shape (L, d), or symmetric of shape (d, d).
            precision: :math:`A \ge 0`; at zero the prior mean is returned.
            memory: ignored, these priors need none.
        """
        del memory
        if precision <= self.least_precision:
            return SignalEstimate(self.mean(field.shape), 1.0, 1.0)
        if precision >= self.known_precision:
            return SignalEstimate(field / precision, 1 / precision, 1 / precision)
        return self.shrink(field, precision)

    def shrink(self, field: Array, precision: float) -> SignalEstimate:
        """Denoise as :meth:`denoise` does, at precisions between the two extremes."""
        law = self.noisy_law(np.array([1 / precision]))
        signal, onsager = (shrink_symmetric if self.symmetric else shrink_rectangular)(law, field, precision)
        return SignalEstimate(signal, float(law.mmse().value[0]), onsager)
