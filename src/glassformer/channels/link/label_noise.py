"""Discrete labels of one field with label noise: labels are replaced by others with given probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from glassformer.channels.confusion import ConfusionLaw, NoisyAlphabet
from glassformer.channels.labels import Labels
from glassformer.channels.link.channel import LinkChannel, most_probable_value
from glassformer.channels.link.contract import array_link
from glassformer.channels.link.integrated import IntegratedChannel
from glassformer.channels.link.level_set import flat_posteriors
from glassformer.channels.link.piecewise import PiecewiseLink, find_pieces
from glassformer.channels.link.quadrature import (
    NO_INFORMATION,
    RULES,
    SETTLED,
    omega_nodes,
    refine,
    stack_estimates,
)
from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.core.errors import IncompatibleError

_NODES = 12  # Gauss nodes per panel
_CACHED = 4096  # number of variances whose averages are cached


@dataclass(frozen=True)
class LabelNoiseChannel(IntegratedChannel):
    r"""Labels :math:`\varphi(h)` with few values and label noise given by a confusion matrix.

    :math:`Z_{out}(y) = \sum_k C_{ky}Z_k` with the probabilities :math:`Z_k` of the labels without noise. Averages are
    sums over labels and one quadrature over the mean of the field, whose last change is the error.

    Args:
        function: link of one field, as for :class:`~glassformer.channels.link.channel.LinkChannel`.
        law: law of the observed label given the label of the link.
        name: for printing.

    Raises:
        IncompatibleError: the link takes more than a few values.
        ParameterError: the confusion matrix has another number of labels.

    Example:
        >>> from glassformer.channels.confusion import Flip
        >>> channel = LabelNoiseChannel(np.sign, Flip(0.1))
        >>> bool(np.isclose(channel.information(np.ones(1)).value[0], 0.8**2 * 2 / np.pi))
        True
    """

    function: Callable[..., object]
    law: ConfusionLaw
    name: str = "link"

    def __post_init__(self) -> None:
        if not self._pieces.is_step_function:
            raise IncompatibleError(
                f"noise_law = {self.law.label} is for labels that take a few values: quantise the link, or give noise"
            )
        _ = self._alphabet

    @property
    def label(self) -> str:
        return f"{self.name}, {self.law.label}"

    @cached_property
    def labels(self) -> Labels:
        intervals = [flat.intervals for flat in self._pieces.flats]
        probabilities = np.array([np.sum(ndtr(part[:, 1]) - ndtr(part[:, 0])) for part in intervals])
        return Labels(
            even=bool(self._averages(1.0).value[0] < NO_INFORMATION),
            noise=float(probabilities @ self._alphabet.variances),
            noise_law=self.law.label,
            discrete=True,
            values=tuple(self._alphabet.values.tolist()),
            steps=tuple(self._pieces.breaks.tolist()),
        )

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        index = self._alphabet.index(self.likeliest_label(h, 0.0))
        return self._alphabet.observe(index, rng.random(index.size)).reshape(np.shape(h))

    def clean(self, h: Array) -> Array:
        """Return the mean observed label of each field."""
        return np.asarray(self._alphabet.means[self._alphabet.index(self.likeliest_label(h, 0.0))].reshape(np.shape(h)))

    @cached_property
    def without_noise(self) -> ScalarChannel:
        return LinkChannel(self.function, name=self.name)

    def likeliest_label(self, omega: Array, variance: Array | float) -> Array:
        if variance == 0:
            return self._pieces.link(np.asarray(omega, dtype=float))
        return most_probable_value(self._pieces, omega, float(variance))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[1]

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[0]

    def information(self, variance: Array) -> Estimate:
        return self._stacked_averages(variance)[0]

    def expected_log_partition(self, variance: Array) -> Estimate:
        return self._stacked_averages(variance)[1]

    def label_integrals(self, variance: Array) -> dict[str, Estimate]:
        """Return the errors of three predictions.

        ``label_error`` is the probability that the most probable label is not the noiseless one, ``prediction_error``
        and ``plugin_error`` are squared errors of predictions of the mean observed label.
        """
        names = ("label_error", "prediction_error", "plugin_error")
        return dict(zip(names, self._stacked_averages(variance)[2:], strict=True))

    @cached_property
    def _pieces(self) -> PiecewiseLink:
        return find_pieces(array_link(self.function))

    @cached_property
    def _alphabet(self) -> NoisyAlphabet:
        return NoisyAlphabet.of(np.array([flat.value for flat in self._pieces.flats]), self.law)

    def _posterior(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        """Return log partition and score of the mixture of the posteriors of all labels of the link."""
        y, omega, v = np.broadcast_arrays(*(np.asarray(part, dtype=float) for part in (y, omega, variance)))
        log_z, score = flat_posteriors(self._pieces, omega.ravel(), v.ravel())
        joint = self._alphabet.log_likelihood(y) + log_z
        top = joint.max(axis=0)
        weight = np.exp(joint - top)
        total = weight.sum(axis=0)
        log_partition, mean_score = np.log(total) + top, np.sum(weight * score, axis=0) / total
        return log_partition.reshape(omega.shape), mean_score.reshape(omega.shape)

    def _stacked_averages(self, variance: Array) -> list[Estimate]:
        v = np.asarray(variance, dtype=float)
        stacked = stack_estimates([self._averages(x) for x in v.ravel().tolist()], v.shape)
        return [Estimate(*parts) for parts in zip(*stacked, strict=True)]

    @cached_property
    def _cache(self) -> dict[float, Estimate]:
        return {}

    def _averages(self, v: float) -> Estimate:
        """Return information, E log Z, share of wrong labels, and both squared prediction errors."""
        # Not a cached method: a reference to this object would keep both alive until garbage is collected.
        if v not in self._cache:
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            self._cache[v] = refine((self._sums(v, level) for level in range(len(RULES))), SETTLED, NO_INFORMATION)
        return self._cache[v]

    def _sums(self, v: float, level: int) -> Array:
        omega, weight = omega_nodes(v, self._pieces.breaks, RULES[level], _NODES)
        log_z, score = flat_posteriors(self._pieces, omega, v)
        z, confusion, means = np.exp(log_z), self._alphabet.confusion.T, self._alphabet.means
        probability, slope = confusion @ z, confusion @ (z * score)
        safe = np.where(probability > 0, probability, 1.0)
        square = np.sum(slope**2 / safe, axis=0)
        log_partition = np.sum(probability * np.log(safe), axis=0)
        # At a jump the link may have a third value. The mean field gets the label of one of the two sides.
        inside = [
            np.any((flat.intervals[:, 0] <= omega[:, None]) & (omega[:, None] <= flat.intervals[:, 1]), axis=1)
            for flat in self._pieces.flats
        ]
        predictions = means @ z, means[np.argmax(inside, axis=0)]
        bayes, plugin = (np.sum(z * (means[:, None] - prediction) ** 2, axis=0) for prediction in predictions)
        return np.array([weight @ part for part in (square, log_partition, 1 - z.max(axis=0), bayes, plugin)])
