r"""Labels as a noisy function of a signal: estimates of the signal's power, the offset and the noise.

Message passing leaves every label a field :math:`\omega_\mu` that does not depend on it, with variance ``V``. The
deviations of the labels from these fields determine the noise. Numbers and classes have the same attributes and
methods, which :class:`NumberTargets` documents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtri

from glassformer.channels.scalar.base import ScalarChannel
from glassformer.channels.scalar.gaussian import GaussianChannel
from glassformer.channels.scalar.sign import NoisySignChannel
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.core.solution import Solution
from glassformer.learners.gamp_state import PseudoData

# Standard deviations of a 95 % interval.
CONFIDENCE = 2.0
# Powers below this share of the labels' power are indistinguishable from zero (chosen by trial).
FAINTEST = 1e-3
# The logarithm of the noise of classes has a normal prior of this median and deviation, so that noise stays positive
# where no label contradicts its field (chosen by trial).
_PRIOR_NOISE, _PRIOR_DEVIATION = 0.3, 1.5
# Step in the logarithm of the noise for the curvature of the likelihood; smallest noise at the end of an interval.
_STEP, _LEAST_NOISE = 0.05, 1e-6


class Observation(NamedTuple):
    """State of message passing as an observation of the signal.

    Attributes:
        pseudo_data: the signal seen through noise, and fields of samples that do not depend on their own labels.
        error: claimed error of the estimate.
        solution: of message passing.
    """

    pseudo_data: PseudoData
    error: float
    solution: Solution


@dataclass(frozen=True)
class NumberTargets:
    r"""Numbers :math:`y = m + \sqrt P\,(h + \sqrt\Delta\,z)`.

    Attributes:
        labels: shape (n,).
        power: ``P``, of the signal, in the units of the labels.
        offset: ``m``, added to labels, or for classes inside their sign.
        noise: :math:`\Delta`, in units of the signal's power.
        quantity: measure of the error of predicted labels.
    """

    labels: Array
    power: float
    offset: float
    noise: float = 0.5
    quantity = "mean squared error"

    @classmethod
    def of(cls, labels: Array) -> NumberTargets:
        """Return the initial guess: the signal has two thirds of the variance.

        Raises:
            DataError: labels do not vary.
        """
        total = float(labels.var())
        if total == 0:
            raise DataError("y", f"<{len(labels)} times {labels[0]}>", "labels that vary")
        return cls(labels, total / 1.5, float(labels.mean()))

    @property
    def channel(self) -> ScalarChannel:
        """Channel for a signal of unit power."""
        return GaussianChannel(self.noise)

    @property
    def scaled(self) -> Array:
        """Labels in the units of that channel."""
        return np.asarray((self.labels - self.offset) / np.sqrt(self.power))

    @property
    def unit_error(self) -> float:
        """Relative standard error of the variance of labels, for any law."""
        square = (self.labels - self.labels.mean()) ** 2
        return float(square.std() / square.mean() / np.sqrt(len(square)))

    def updated(self, observed: Observation, share: float) -> NumberTargets:
        """Return targets with parameters updated for a signal of ``share`` times the power assumed so far."""
        # The error of the estimate is at most the power of the signal.
        rest = max(observed.pseudo_data.label_noise + observed.error - min(observed.error, share), 0.0)
        return replace(self, power=self.power * share, noise=rest / share, offset=self._offset(observed))

    def calibrated(self, observed: Observation) -> NumberTargets:
        """Return targets with noise and offset fitted to the final fields, at the claimed power of the signal."""
        return replace(self, noise=observed.pseudo_data.label_noise, offset=self._offset(observed))

    def _offset(self, observed: Observation) -> float:
        """Return the offset without the mean of the fields of these inputs."""
        return self.offset + float(np.sqrt(self.power) * np.mean(self.scaled - observed.pseudo_data.fields))

    def noise_error(self, observed: Observation) -> float:
        """Return the 95 % error of the noise."""
        return CONFIDENCE * (observed.pseudo_data.label_noise + observed.error) * float(np.sqrt(2 / len(self.labels)))

    def noise_interval(self, noise: float, error: float) -> tuple[float, float]:
        """Return the ends of the interval of a noise with this error."""
        # The lower end is a share of the variance of labels, since the power of a weak signal has a large error.
        least = max(noise - error / (1 + noise), 0.0) / (1 + noise)
        return max(least / (1 - least), _LEAST_NOISE), noise + error

    def with_noise(self, noise: float, factor: float) -> NumberTargets:
        """Return the same labels for another noise, with ``factor`` times the variance of field and noise."""
        return replace(self, noise=noise, power=self.power / factor)

    def label_errors(self, channel: ScalarChannel, error: Array, rescaled: Array) -> tuple[Array, Array]:
        """Return the reducible and the irreducible part of the error of new labels, shape (batch,) each.

        Args:
            channel: of these labels, for fields of their variance.
            error: mean squared error of predicted fields, shape (batch,).
            rescaled: the same for the best multiple of the predictions.
        """
        return self.power * error, np.full_like(error, self.power * channel.labels.noise)


@dataclass(frozen=True)
class ClassTargets:
    r"""Signs :math:`y = \mathrm{sign}(h + b + \sqrt\Delta\,z)`.

    ``b`` and :math:`\Delta` maximise the likelihood of the labels given fields that do not depend on them,
    :math:`\prod_\mu\Phi\bigl(y_\mu(\omega_\mu + b)/\sqrt{\Delta + V}\bigr)`, times a wide prior of the noise.

    Attributes:
        scaled: labels +1 and -1, shape (n,).
        offset: ``b``.
        noise: :math:`\Delta`.
    """

    scaled: Array
    offset: float
    noise: float = 0.5
    power = 1.0
    unit_error = 0.0
    quantity = "share of wrong classes"

    @classmethod
    def of(cls, labels: Array) -> ClassTargets:
        """Return the initial guess, from the frequency of each label.

        Raises:
            DataError: all labels are equal.
        """
        share = float(np.mean(labels > 0))
        if not 0 < share < 1:
            raise DataError("y", f"<{len(labels)} times {labels[0]}>", "labels that vary")
        return cls(labels, float(ndtri(share)) * np.sqrt(1.5))

    @property
    def channel(self) -> ScalarChannel:
        return NoisySignChannel(self.noise, self.offset)

    def updated(self, observed: Observation, share: float) -> ClassTargets:
        """Take half a step, in logarithms of the noise, since the same labels determine field and noise."""
        fitted = self.calibrated(observed)
        noise = float(np.sqrt(fitted.noise / share * self.noise))
        return replace(self, noise=noise, offset=0.5 * (fitted.offset / np.sqrt(share) + self.offset))

    def calibrated(self, observed: Observation) -> ClassTargets:
        start = np.array([self.offset, np.log(max(self.noise, FAINTEST))])
        offset, log_noise = minimize(self._cost, start, args=(observed,), method="Nelder-Mead").x
        return replace(self, offset=float(offset), noise=float(np.exp(log_noise)))

    def noise_error(self, observed: Observation) -> float:
        """Return the 95 % error of the noise, from the curvature of the likelihood."""
        place = np.array([self.offset, np.log(self.noise)])
        step = np.array([0.0, _STEP])
        above, here, below = (self._cost(place + k * step, observed) for k in (1, 0, -1))
        curvature = max((above - 2 * here + below) / _STEP**2, 1 / _PRIOR_DEVIATION**2)
        return CONFIDENCE * self.noise / float(np.sqrt(curvature))

    def noise_interval(self, noise: float, error: float) -> tuple[float, float]:
        # In logarithms, like the curvature of the likelihood.
        factor = float(np.exp(error / noise))
        return noise / factor, noise * factor

    def with_noise(self, noise: float, factor: float) -> ClassTargets:
        return replace(self, noise=noise, offset=self.offset * float(np.sqrt(factor)))

    def label_errors(self, channel: NoisySignChannel, error: Array, rescaled: Array) -> tuple[Array, Array]:
        """Return both parts of the error, for predictions with the best threshold."""
        total, least = channel.missed(rescaled), channel.missed(np.zeros(1))
        return total - least, np.full_like(error, least[0])

    def _cost(self, place: Array, observed: Observation) -> float:
        """Return minus the logarithm of likelihood and prior, at an offset and the logarithm of a noise."""
        deviation = np.sqrt(np.exp(place[1]) + observed.error)
        log_likelihood = float(np.sum(log_ndtr(self.scaled * (observed.pseudo_data.fields + place[0]) / deviation)))
        return 0.5 * float((place[1] - np.log(_PRIOR_NOISE)) / _PRIOR_DEVIATION) ** 2 - log_likelihood


Targets = NumberTargets | ClassTargets
