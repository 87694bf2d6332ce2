r"""Discrete labels of several projections with label noise given by a confusion matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

from glassformer.channels.confusion import NoisyAlphabet
from glassformer.channels.labels import Labels
from glassformer.channels.multi_index.importance_sampling import PosteriorMoments
from glassformer.channels.multi_index.line_channel import LineChannel
from glassformer.core.estimate import Array
from glassformer.numerics.quasi_random import normal_points


@dataclass(frozen=True, eq=False)
class MislabelledRowsChannel(LineChannel):
    r"""Labels :math:`g(Z)` of few values with label noise given by a confusion matrix.

    The posterior is a mixture of the posteriors of the noiseless labels, each integrated along lines.

    Args:
        alphabet: values of the link, and the law of the observed label given each of them.
    """

    alphabet: NoisyAlphabet = field(kw_only=True)

    @cached_property
    def labels(self) -> Labels:
        points = normal_points(self.rows * self.columns).reshape(-1, *self.fields.shape)
        clean = super().label_from(points, np.zeros((len(points), 1)))
        noise = float(np.mean(self.alphabet.variances[self.alphabet.index(clean)]))
        return replace(super().labels, rank=0.0, noise=noise)

    @property
    def sources(self) -> int:
        return 1

    def label_from(self, fields: Array, source: Array) -> Array:
        """Return labels; sources that are exactly zero give the mean label, without noise."""
        place = self.alphabet.index(super().label_from(fields, source))
        silent = (source[:, 0] == 0).reshape(-1, *(1,) * len(self.shape))
        drawn, means = self.alphabet.observe(place, ndtr(source[:, 0])), self.alphabet.means[place]
        return np.where(silent, means.reshape(drawn.shape), drawn)

    def _shares(self, fields: Array) -> Array:
        """Return the probabilities of the values given pairs of fields, shape (n, values)."""
        return np.asarray(super()._shares(fields) @ np.exp(self.alphabet.log_likelihood(self.alphabet.values)))

    def moments(self, y: Array, omega: Array, root: Array) -> PosteriorMoments:
        flat = self.alphabet.values.reshape(len(self.alphabet.values), -1)
        parts = [super(MislabelledRowsChannel, self).moments(np.tile(one, (len(y), 1)), omega, root) for one in flat]
        log_z = np.array([part.log_partition for part in parts])
        joint = self.alphabet.log_likelihood(y) + log_z - logsumexp(log_z, axis=0)
        log_partition = logsumexp(joint, axis=0)
        weight = np.exp(joint - log_partition)

        def mean(values: list[Array]) -> Any:
            return np.einsum("kn,kn...->n...", weight, np.array(values))

        first, second = mean([part.first for part in parts]), mean([part.second for part in parts])
        # Products of independent means have no bias.
        square = mean([part.covariance + _symmetric_product(part.first, part.second) for part in parts])
        return PosteriorMoments(
            log_partition=log_partition,
            first=first,
            second=second,
            covariance=square - _symmetric_product(first, second),
            first_square=mean([part.first_square for part in parts]),
            second_square=mean([part.second_square for part in parts]),
        )


def _symmetric_product(first: Array, second: Array) -> Array:
    both = first[:, :, None] * second[:, None, :]
    return np.asarray(0.5 * (both + np.swapaxes(both, 1, 2)))
