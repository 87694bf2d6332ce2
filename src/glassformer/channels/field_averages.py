"""What labels say of the fields of data points, one by one and on average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array, Estimate

# Data points of the averages: replicas, whose spread tells the error, times points of each.
REPLICAS = 8


class FieldPosterior(NamedTuple):
    """Sampled posterior of the fields of each data point.

    Attributes:
        first, second: two independent estimates of the score, shape (n, P, K): their product estimates its square
            without the bias of sampling noise.
        curvature: minus the derivative of the score, summed over columns, shape (n, P, P).
        log_partition: shape (n,), up to what depends on the label alone.
        silent: scores, twice, and slopes of the same sample for labels that say nothing, where that is known: their
            means vanish.
    """

    first: Array
    second: Array
    curvature: Array
    log_partition: Array
    silent: tuple[Array, Array, Array] | None = None

    @property
    def score(self) -> Array:
        """The better of the estimates: their mean."""
        return 0.5 * (self.first + self.second)


class Scores(NamedTuple):
    """Scores of data points, and their slopes, as in :class:`FieldPosterior`."""

    first: Array
    second: Array
    curvature: Array


Slopes = Sequence[tuple[Array, Array]]
"""Pairs of estimates of the slopes of scores, with most work first."""


class Response(NamedTuple):
    r"""Slopes :math:`\partial g_l/\partial\omega_{l'}` of data points, shape (n, P, L, P, L).

    Attributes:
        first, second: two estimates whose product has no bias from their noise.
        truth: what true deviations make of them.
        weight: of each data point, shape (n,); one on average.
        replicas: of the data, one after the other.
        fewer: the same with shares of the work on each data point, less and less; none where it is exact.
    """

    first: Array
    second: Array
    truth: Array
    weight: Array
    replicas: int
    fewer: tuple[Response, ...] = ()


class Averages(NamedTuple):
    """Averages over data at posterior covariances of shape (batch, P, P).

    Attributes:
        information: of each entry; its error counts what is systematic as the share of its confidence.
        log_partition: its expectation.
        replicas: information of each replica of the data, (batch, replicas, P, P); one where nothing is sampled.
        unseen: standard error that replicas do not tell, relative to the information: of what the sample has none of.
            Zero where nothing is sampled.
        missing: what sampled posteriors leave out of the information at most, about, shape (batch, P, P): all data
            points alike, so that replicas do not tell. Zero where posteriors are not sampled.
    """

    information: Estimate
    log_partition: Estimate
    replicas: Array
    unseen: float
    missing: Array


def joined(parts: Sequence[Averages]) -> Averages:
    """Averages of one channel at the covariances of all parts."""
    information, log_partition = (
        Estimate(*(np.concatenate(column) for column in zip(*integrals, strict=True)))
        for integrals in list(zip(*parts, strict=True))[:2]
    )
    replicas = np.concatenate([part.replicas for part in parts])
    missing = np.concatenate([part.missing for part in parts])
    return Averages(information, log_partition, replicas, parts[0].unseen, missing)


def mean_of_replicas(replicas: Array) -> Estimate:
    """Means over the second axis, and their standard errors."""
    error = np.std(replicas, axis=1, ddof=1) / np.sqrt(replicas.shape[1])
    return Estimate(np.mean(replicas, axis=1), np.asarray(error))
