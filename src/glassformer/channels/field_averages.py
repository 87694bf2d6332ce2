"""Result classes of channels: posteriors of the fields of data points, and averages over data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array, Estimate


class FieldPosterior(NamedTuple):
    """Sampled posterior of the fields of each data point.

    Attributes:
        first, second: two independent estimates of the score, shape (n, P, K): their product estimates its square
            without the bias of sampling noise.
        curvature: minus the derivative of the score, summed over columns, shape (n, P, P).
        log_partition: shape (n,), up to a function of the label alone.
        prior_scores: two scores and slopes of the same sample under the prior, as if labels carried no information.
            Their means vanish. None if unknown.
    """

    first: Array
    second: Array
    curvature: Array
    log_partition: Array
    prior_scores: tuple[Array, Array, Array] | None = None

    @property
    def score(self) -> Array:
        """The score: the mean of the two estimates."""
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
        truth: the slopes computed from the true deviations.
        weight: weight of each data point, shape (n,), one on average.
        replicas: number of replicas of the data, one after the other.
        fewer: estimates with less and less work on each data point. Empty if slopes are exact.
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
        information: the information matrix. Its error includes the systematic error, scaled to standard errors.
        log_partition: the expected log partition.
        replicas: information of each replica of the data, (batch, replicas, P, P); one if nothing is sampled.
        unseen: relative standard error of the information from rare data points that the sample does not contain, which
            replicas do not show. Zero if nothing is sampled.
        missing: estimated bias of the information, shape (batch, P, P), from sampled posteriors. It is the same in all
            replicas, so that they do not show it. Zero if posteriors are not sampled.
    """

    information: Estimate
    log_partition: Estimate
    replicas: Array
    unseen: float
    missing: Array


def concatenate_averages(parts: Sequence[Averages]) -> Averages:
    """Return the averages of one channel at the covariances of all parts."""
    information, log_partition = (
        Estimate(*(np.concatenate(column) for column in zip(*integrals, strict=True)))
        for integrals in list(zip(*parts, strict=True))[:2]
    )
    replicas = np.concatenate([part.replicas for part in parts])
    missing = np.concatenate([part.missing for part in parts])
    return Averages(information, log_partition, replicas, parts[0].unseen, missing)
