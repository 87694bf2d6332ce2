r"""What labels are made of beside the signal, as far as message passing can tell: power, offset, noise.

Message passing leaves every label a field :math:`\omega_\mu` that has not seen it, with the variance ``V``. How labels
fall around these fields tells the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtri

from glassformer.channels.scalar.base import ScalarChannel
from glassformer.channels.scalar.gaussian import GaussianChannel
from glassformer.channels.scalar.noisy_sign import NoisySignChannel
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.core.solution import Solution
from glassformer.data_analysis.widths import SEARCH
from glassformer.learners.algorithms.gamp_state import Sight


@dataclass(frozen=True)
class NoiseOfClasses:
    """What is assumed of the noise of classes before any data, so that some is left where none is mistaken."""

    usual: float = 0.3  # its logarithm is normal around that of this one
    deviation: float = 1.5  # of the logarithm
    least: float = 1e-6  # noise that an interval reaches
    step: float = 0.05  # of the parameters that the curvature of the likelihood is measured with


_POLICY = NoiseOfClasses()


class Seen(NamedTuple):
    """What message passing says of the signal, and of its own estimate of it.

    Attributes:
        sight: the signal seen through noise, and fields of samples without their own labels.
        error: claimed, of the estimate.
        solution: of message passing.
    """

    sight: Sight
    error: float
    solution: Solution


class Targets(Protocol):
    """Labels, and what is known of how they are made."""

    @property
    def quantity(self) -> str:
        """By what new labels are missed."""

    @property
    def channel(self) -> ScalarChannel:
        """That of a signal of unit power."""

    @property
    def scaled(self) -> Array:
        """Labels as that channel has them."""

    @property
    def noise(self) -> float:
        """In units of the signal's power."""

    @property
    def offset(self) -> float:
        """What is added to labels, or inside of their sign."""

    @property
    def power(self) -> float:
        """Of the signal, in the units of the labels."""

    def after(self, seen: Seen, share: float) -> Targets:
        """What is known once the signal was seen with this power."""

    def fitted(self, seen: Seen) -> Targets:
        """What is known at the end, the power of the signal as it is claimed."""

    def error(self, seen: Seen) -> float:
        """Of the noise, of 95 per cent, for the signal that was seen."""

    def noises(self, noise: float, error: float) -> tuple[float, float]:
        """Ends of the interval of a noise with this error."""

    def with_noise(self, noise: float, times: float) -> Targets:
        """The same labels, were the noise this one and the variance of field and noise so many times as large."""

    @property
    def unit_error(self) -> float:
        """Standard error of the unit of what new labels are missed by, relative."""

    def missed(self, channel: Any, error: Array, left: Array) -> tuple[Array, Array]:
        """By how much new labels are missed, shape (batch,) each: what better estimates would mend, and the rest.

        Args:
            channel: that of these labels, for fields of their variance.
            error: mean square of what predicted fields miss, shape (batch,).
            left: the same for the best multiple of the predictions.
        """


@dataclass(frozen=True)
class NumberTargets:
    r"""Numbers :math:`y = m + \sqrt P\,(h + \sqrt\Delta\,z)`.

    Attributes:
        labels: shape (n,).
        power: ``P``.
        offset: ``m``.
        noise: :math:`\Delta`.
    """

    labels: Array
    power: float
    offset: float
    noise: float = 0.5
    quantity = "mean squared error"

    @classmethod
    def of(cls, labels: Array) -> NumberTargets:
        """Before anything is known: two thirds of the variance are the signal's.

        Raises:
            DataError: labels do not vary.
        """
        total = float(labels.var())
        if total == 0:
            raise DataError("y", f"<{len(labels)} times {labels[0]}>", "labels that vary")
        return cls(labels, total / 1.5, float(labels.mean()))

    @property
    def channel(self) -> ScalarChannel:
        return GaussianChannel(self.noise)

    @property
    def scaled(self) -> Array:
        return np.asarray((self.labels - self.offset) / np.sqrt(self.power))

    def after(self, seen: Seen, share: float) -> NumberTargets:
        # An estimate is off by no more than all there is.
        rest = max(seen.sight.rest + seen.error - min(seen.error, share), 0.0)
        return replace(self, power=self.power * share, noise=rest / share, offset=self._centre(seen))

    def fitted(self, seen: Seen) -> NumberTargets:
        return replace(self, noise=seen.sight.rest, offset=self._centre(seen))

    def _centre(self, seen: Seen) -> float:
        """The signal of these inputs has a mean of its own, which is no part of the offset."""
        return self.offset + float(np.sqrt(self.power) * np.mean(self.scaled - seen.sight.fields))

    def error(self, seen: Seen) -> float:
        return SEARCH.confidence * (seen.sight.rest + seen.error) * float(np.sqrt(2 / len(self.labels)))

    def noises(self, noise: float, error: float) -> tuple[float, float]:
        # Downwards in shares of the variance of labels: of a faint signal the power is what is hardly known.
        least = max(noise - error / (1 + noise), 0.0) / (1 + noise)
        return max(least / (1 - least), _POLICY.least), noise + error

    def with_noise(self, noise: float, times: float) -> NumberTargets:
        return replace(self, noise=noise, power=self.power / times)

    @property
    def unit_error(self) -> float:
        """That of the variance of labels, of any law."""
        square = (self.labels - self.labels.mean()) ** 2
        return float(square.std() / square.mean() / np.sqrt(len(square)))

    def missed(self, channel: Any, error: Array, left: Array) -> tuple[Array, Array]:
        del left
        return self.power * error, np.full_like(error, self.power * channel.label_noise)


@dataclass(frozen=True)
class ClassTargets:
    r"""Signs :math:`y = \mathrm{sign}(h + b + \sqrt\Delta\,z)`.

    ``b`` and :math:`\Delta` are those of the largest likelihood of the labels given fields that have not seen them,
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
        """Before anything is known but how often each label occurs.

        Raises:
            DataError: there is one label only.
        """
        share = float(np.mean(labels > 0))
        if not 0 < share < 1:
            raise DataError("y", f"<{len(labels)} times {labels[0]}>", "labels that vary")
        return cls(labels, float(ndtri(share)) * np.sqrt(1.5))

    @property
    def channel(self) -> ScalarChannel:
        return NoisySignChannel(self.noise, self.offset)

    def after(self, seen: Seen, share: float) -> ClassTargets:
        """Half a step, in logarithms of the noise: field and noise are measured by the same labels."""
        found = self.fitted(seen)
        noise = float(np.sqrt(found.noise / share * self.noise))
        return replace(self, noise=noise, offset=0.5 * (found.offset / np.sqrt(share) + self.offset))

    def fitted(self, seen: Seen) -> ClassTargets:
        """With the offset and the noise that these fields speak for."""
        start = np.array([self.offset, np.log(max(self.noise, SEARCH.faintest))])
        found = minimize(self._misfit, start, args=(seen,), method="Nelder-Mead").x
        return replace(self, offset=float(found[0]), noise=float(np.exp(found[1])))

    def error(self, seen: Seen) -> float:
        """By the curvature of the likelihood."""
        place = np.array([self.offset, np.log(self.noise)])
        step = np.array([0.0, _POLICY.step])
        ahead, here, behind = (self._misfit(place + k * step, seen) for k in (1, 0, -1))
        bend = max((ahead - 2 * here + behind) / _POLICY.step**2, 1 / _POLICY.deviation**2)
        return SEARCH.confidence * self.noise / float(np.sqrt(bend))

    def noises(self, noise: float, error: float) -> tuple[float, float]:
        """In logarithms, as the curvature of the likelihood is."""
        times = float(np.exp(error / noise))
        return noise / times, noise * times

    def with_noise(self, noise: float, times: float) -> ClassTargets:
        return replace(self, noise=noise, offset=self.offset * float(np.sqrt(times)))

    def missed(self, channel: Any, error: Array, left: Array) -> tuple[Array, Array]:
        """Of predictions whose threshold is the best one."""
        all_of_it, least = channel.missed(left), channel.missed(np.zeros(1))
        return all_of_it - least, np.full_like(error, least[0])

    def _misfit(self, place: Array, seen: Seen) -> float:
        width = np.sqrt(np.exp(place[1]) + seen.error)
        told = float(np.sum(log_ndtr(self.scaled * (seen.sight.fields + place[0]) / width)))
        return 0.5 * float((place[1] - np.log(_POLICY.usual)) / _POLICY.deviation) ** 2 - told
