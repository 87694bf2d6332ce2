"""What a learner of regularised risk minimises, on labels of which model, and one step of its state evolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.cache import memoize
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.risk.labels import Answers, Labels
from glassformer.risk.loss import Loss
from glassformer.risk.penalties import Fields, Learned, Penalty, learned
from glassformer.risk.recovery import Dimension, descent_dimension

# Stands for the limit of no regularisation, which is approached in proportion to it.
LEAST = 1e-11
# Residuals of labels, and errors, below which everything is fitted and recovered.
NOTHING = 1e-20
# A strength that leaves next to nothing, in units of the gain.
_STRONG = 30.0

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Problem:
    """What is minimised, on labels of which model, in the limit of large sizes."""

    model: Any
    loss: Loss
    penalty: Penalty
    seen: Labels | None = None

    def __post_init__(self) -> None:
        slope, _ = self.labels.regression
        if not slope > 0:
            text = "do not rise with their fields on average, and no convex loss of a linear fit learns from them"
            raise IncompatibleError(f"labels of channel {self.model.channel.label} {text}: E[h y] = {slope:.3g}")

    @property
    def power(self) -> float:
        """Of the teacher."""
        return float(self.model.prior.second_moment)

    @cached_property
    def labels(self) -> Labels:
        """Of the teacher, as the loss sees them: those given, or as accurate as a first look needs."""
        return self.seen or self.loss.labels_of(self.model.channel, self.power)

    @property
    def finer(self) -> Problem | None:
        """The same with the next finer averages over labels, if there are any."""
        labels = self.labels.finer
        return None if labels is None else replace(self, seen=labels)

    def known_error(self, alpha: Array, strength: Array) -> Array:
        """Errors that are known without a search, NaN elsewhere.

        Penalties beyond the largest useful one leave nothing. The interpolator of least norm is the signal from its
        threshold on, where labels are exact.
        """
        known = np.full(len(alpha), np.nan)
        if self.penalty.spectral > 0 and self.penalty.square == 0:
            known[strength >= self.largest_strength(alpha)] = self.power
        known[(strength == 0) & self.recovered(alpha)] = 0.0
        return known

    def count(self, alpha: Array) -> Array:
        """Components of the fields of all samples, per unknown."""
        return np.asarray(alpha / self.model.prior.degrees * self.labels.components)

    def least_squares(self, alpha: Array, strength: Array) -> Flags:
        """Where no penalty has a say, or ridge alone, without a strength: fixed points have a closed form."""
        if self.penalty.positive or not self.loss.quadratic:
            return np.zeros(alpha.shape, dtype=bool)
        return np.asarray((strength == 0) & ((self.count(alpha) >= 1) | (self.penalty.spectral == 0)))

    def recovered(self, alpha: Array) -> Flags:
        """Where the estimate of least norm among those that fit the labels is the signal."""
        if not self.labels.exact > 0:
            return np.zeros(alpha.shape, dtype=bool)
        return np.asarray(alpha / self.model.prior.degrees * self.labels.exact >= self.dimension.value)

    @property
    def dimension(self) -> Dimension:
        """Exact labels per unknown that the signal takes."""
        if self.penalty.spectral == 0:
            return Dimension(1.0, 0.0)
        if self.penalty.square == 0:
            return Dimension(float(self.model.prior.convex_dimension), 0.0)
        found: Dimension = memoize(self.extrapolated_dimension, "dimension", self.model.prior, self.penalty)
        return found

    def extrapolated_dimension(self) -> Dimension:
        """The same from errors at little noise."""

        def error_at(noise: Array, level: Array) -> Array:
            one = np.ones_like(noise)
            strength = level * self.model.prior.degrees / self.penalty.spectral
            return self.learned(strength, Fields(noise**2, one, one)).error

        return descent_dimension(error_at)

    def learned(self, strength: Array, fields: Fields) -> Learned:
        """From fields."""
        return learned(self.model.prior, self.penalty, strength / self.model.prior.degrees, fields)

    @staticmethod
    def noise(fields: Fields) -> Array:
        """Through which the signal is seen, the least that is told from none left out."""
        return np.where(fields.noise > NOTHING, fields.noise, 0.0)

    def threshold(self, alpha: Array, strength: Array, fields: Fields) -> Array:
        """By which singular values are lowered."""
        small = (strength == 0) & (fields.noise > NOTHING) & ~self.least_squares(alpha, strength)
        least = np.where(small, LEAST, strength)
        return self.penalty.threshold(self.model.prior, least / self.model.prior.degrees, fields)

    def fields(self, alpha: Array, answer: Answers) -> Fields:
        """From the averages over labels, at sample ratios."""
        count = alpha / self.model.prior.degrees
        noise = np.maximum(answer.power / count / answer.gain**2, NOTHING)
        # The proximal map of a loss with kinks may stand still where nothing is learned yet.
        stiffness = np.maximum(answer.stiffness, LEAST * answer.gain)
        return Fields(noise, count * answer.gain, count * stiffness)

    def after(self, alpha: Array, found: Learned) -> Fields:
        """Fields that labels make of what is learned: one step of state evolution."""
        return self.fields(alpha, self.labels.answers(found))

    def unlearned(self, alpha: Array) -> Fields:
        """Fields before anything is learned."""
        nothing = Learned(*(np.zeros_like(alpha) for _ in Learned._fields))
        return self.after(alpha, nothing._replace(error=np.full_like(alpha, self.power)))

    def largest_strength(self, alpha: Array) -> Array:
        """Strength from which on the estimate is zero; for a penalty that never does that, one that is as large."""
        return self.lambda_max(self.unlearned(alpha))

    def lambda_max(self, fields: Fields) -> Array:
        """The strength that leaves nothing, or next to nothing, at fields."""
        degrees = self.model.prior.degrees
        if self.penalty.spectral == 0:
            return np.asarray(_STRONG * degrees * fields.gain / self.penalty.square)
        largest = np.nanmax(self.model.prior.noisy_law(fields.noise).support, axis=(1, 2))
        return np.asarray(degrees * fields.gain * largest / self.penalty.spectral)
