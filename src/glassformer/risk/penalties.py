r"""Penalties on a matrix, and the order parameters of the penalised estimate of a matrix in noise.

Regularised risk minimises :math:`\sum_\mu\ell(y_\mu, h_\mu) + \lambda\,[w_1\|S\|_* + \frac{w_2}2\|S\|_F^2]`, with the
nuclear norm in units of :math:`(dL)^{1/4}` (for positive matrices the trace, in units of ``d``). In the limit of large
sizes the estimate is the proximal map of the penalty, applied to :math:`Y = S + \tau Z`: singular values are lowered by
a threshold :math:`\theta` and multiplied by a gain.

Labels that are not centred, :math:`y = x^TSx/\sqrt d`, determine the trace of ``S`` from very few samples. The trace is
then pinned: weight decay has no effect, and the threshold follows from the trace of the estimate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.random_matrices.atoms import SpectralLaw

# Newton steps for the threshold of a pinned trace: largest number (6 to 10 are usual), and last relative step.
_STEPS, _LAST_STEP = 60, 1e-13
# Largest share of the singular values that a quadrature may miss (chosen by trial).
_MISSED_MASS = 1e-4
_ROUNDING = 4e-16
# Largest useful strength of a ridge, whose estimate is never zero, in units of m_hat (a convention).
STRONG_RIDGE = 30.0


class OrderParameters(NamedTuple):
    r"""Order parameters of an estimate, arrays of shape (batch,).

    Attributes:
        overlap: :math:`m`, inner product of estimate and teacher.
        power: :math:`q`, squared norm of the estimate.
        susceptibility: :math:`V`.
        error: :math:`E = Q_0 - 2m + q`, computed as a sum of positive terms.
        degrees: degrees of freedom of the fit.
        rank: share of singular values that are not zero.
        error_estimate: quadrature error of ``error``.
    """

    overlap: Array
    power: Array
    susceptibility: Array
    error: Array
    degrees: Array
    rank: Array
    error_estimate: Array


class ConjugateParameters(NamedTuple):
    r"""Conjugate parameters, shape (batch,): :math:`\tau^2 = \hat q/\hat m^2`, :math:`\hat m` and :math:`\hat V`."""

    noise: Array
    m_hat: Array
    v_hat: Array

    @classmethod
    def from_logarithms(cls, logarithms: Array) -> ConjugateParameters:
        """Return the parameters whose logarithms, shape (batch, 3), are given."""
        return cls(*np.exp(logarithms).T)

    @property
    def logarithms(self) -> Array:
        """Logarithms of the parameters, shape (batch, 3): the state of the fixed-point iteration."""
        return np.log(np.stack(self, axis=1))


class Penalty(ABC):
    r"""A penalty of two weighted parts: a norm that sets directions to zero, and half the squared norm.

    The estimate is the proximal map of the penalty, applied to the signal in noise.

    Attributes:
        spectral: weight of the norm that sets singular values, or weights, to zero.
        square: weight of half the squared norm.
    """

    spectral: float
    square: float
    positive = default_property(False, "True for penalties on positive matrices.")
    pinned = default_property(False, "True if the trace is known, so that the strength has no effect.")

    @property
    def reaches_zero(self) -> bool:
        """Whether a large strength leaves an estimate of zero."""
        return self.spectral > 0

    @abstractmethod
    def order_parameters(self, prior: Any, strength: Array, conjugate: ConjugateParameters) -> OrderParameters:
        r"""Return the order parameters of the penalised estimate of the teacher's signal in noise.

        Args:
            prior: prior of the teacher.
            strength: :math:`\lambda\ge 0` per degree of freedom, shape (batch,); NaN if it has no effect.
            conjugate: conjugate parameters.
        """

    @abstractmethod
    def largest_strength(self, prior: Any, conjugate: ConjugateParameters) -> Array:
        """Return the smallest strength per degree of freedom with an estimate of zero, or the largest useful one."""

    @abstractmethod
    def exact_dimension(self, prior: Any) -> float | None:
        """Return the number of exact labels per unknown for perfect recovery; None if no closed form is known."""


@dataclass(frozen=True)
class MatrixPenalty(Penalty):
    """A weighted sum of the nuclear norm and half the squared Frobenius norm.

    Attributes:
        spectral: weight of the nuclear norm, or trace.
        square: weight of half the squared Frobenius norm.
        positive: True for penalties on positive matrices.
        pinned: True if the trace is known, so that the strength has no effect.
    """

    spectral: float
    square: float
    positive: bool = False
    pinned: bool = False

    def threshold(self, prior: Any, strength: Array, conjugate: ConjugateParameters) -> Array:
        r"""Return :math:`\theta`, by which singular values of the noisy matrix are lowered, shape (batch,)."""
        if self.pinned:
            return _threshold_of_trace(prior.noisy_law(conjugate.noise), conjugate.m_hat / conjugate.v_hat)
        return self.spectral * strength / conjugate.m_hat

    def largest_strength(self, prior: Any, conjugate: ConjugateParameters) -> Array:
        if self.spectral == 0:
            return np.asarray(STRONG_RIDGE * conjugate.m_hat / self.square)
        largest = np.nanmax(prior.noisy_law(conjugate.noise).support, axis=(1, 2))
        return np.asarray(conjugate.m_hat * largest / self.spectral)

    def exact_dimension(self, prior: Any) -> float | None:
        if self.spectral == 0:
            return 1.0
        return float(prior.convex_dimension) if self.square == 0 else None

    def order_parameters(self, prior: Any, strength: Array, conjugate: ConjugateParameters) -> OrderParameters:
        r"""Return the order parameters of a matrix whose singular values are lowered and multiplied by a gain.

        With :math:`\theta = \lambda w_1/\hat m`, :math:`f = (s-\theta)_+`, the Bayes-optimal denoiser :math:`\hat s`,
        the law :math:`\nu` of the singular values of the noisy matrix and the gain
        :math:`\kappa = \hat m/(\hat V + \lambda w_2)`,

        .. math:: &m = \kappa\int\nu\,f\hat s, \quad q = \kappa^2\int\nu\,f^2, \quad
           E = \mathrm{MMSE}(\tau^2) + \int\nu\,(\kappa f - \hat s)^2, \\
           &\mathrm{df} = \int\nu\,f\,\frac{s - \hat s}{\tau^2}, \quad V = \frac{\mathrm{df}}{\hat V + \lambda w_2} .
        """
        stiffness = conjugate.v_hat + self.square * np.nan_to_num(strength)
        gain = conjugate.m_hat / stiffness
        power = prior.second_moment
        if self.spectral == 0:
            one = np.ones_like(gain)
            error = (1 - gain) ** 2 * power + gain**2 * conjugate.noise
            total = gain**2 * (power + conjugate.noise)
            return OrderParameters(gain * power, total, 1 / stiffness, error, one, one, _ROUNDING * error)
        law = prior.noisy_law(conjugate.noise)
        threshold = self.threshold(prior, strength, conjugate)
        s, weight, denoised = law.nodes(threshold)
        lowered = np.maximum(s - threshold[:, None], 0.0)
        rank, mass = np.sum(weight * (lowered > 0), axis=1), np.sum(weight, axis=1)
        weight = weight * law.unit[:, None]
        mmse = law.mmse()
        overlap, square = np.sum(weight * lowered * denoised, axis=1), np.sum(weight * lowered**2, axis=1)
        error = mmse.value + np.sum(weight * (gain[:, None] * lowered - denoised) ** 2, axis=1)
        degrees = np.sum(weight * lowered * (s - denoised), axis=1) / conjugate.noise
        # The difference of two expressions of the error estimates the quadrature error.
        error_estimate = mmse.error + np.abs(error - (power - 2 * gain * overlap + gain**2 * square))
        error_estimate = np.where(np.abs(mass - 1) > _MISSED_MASS, np.inf, error_estimate)
        return OrderParameters(
            gain * overlap, gain**2 * square, degrees / stiffness, error, degrees, rank, error_estimate
        )


PENALTIES: dict[str, MatrixPenalty] = {
    "nuclear": MatrixPenalty(1.0, 0.0),
    "ridge": MatrixPenalty(0.0, 1.0),
    "elastic": MatrixPenalty(0.5, 0.5),
    "trace": MatrixPenalty(1.0, 0.0, positive=True),
    "pinned": MatrixPenalty(1.0, 0.0, positive=True, pinned=True),
}


def penalty_of(name: object) -> MatrixPenalty:
    """Return the penalty of this name.

    Raises:
        ParameterError: the name is unknown.

    Example:
        >>> penalty_of("ridge")
        MatrixPenalty(spectral=0.0, square=1.0, positive=False, pinned=False)
    """
    if not (isinstance(name, str) and name in PENALTIES):
        raise ParameterError("penalty", name, f"one of {', '.join(PENALTIES)}")
    return PENALTIES[name]


def _threshold_of_trace(law: SpectralLaw, gain: Array) -> Array:
    r"""Return the threshold at which :math:`\kappa\int\nu(s-\theta)_+` is the trace of the signal.

    Noise does not change the trace. The integral is a convex and decreasing function of the threshold, so that Newton
    steps from the left never overshoot.
    """
    theta = np.zeros_like(gain)
    s, weight, _ = law.nodes(theta)
    goal = np.sum(weight * s, axis=1) / gain
    for _ in range(_STEPS):
        s, weight, _ = law.nodes(theta)
        lowered = np.maximum(s - theta[:, None], 0.0)
        step = (np.sum(weight * lowered, axis=1) - goal) / np.sum(weight * (lowered > 0), axis=1)
        theta = theta + step
        if np.all(np.abs(step) <= _LAST_STEP * (1 + np.abs(theta))):
            break
    return theta
