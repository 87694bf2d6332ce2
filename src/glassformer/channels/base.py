r"""What a channel of several indices must provide, and its averages by quasi-Monte Carlo.

A data point has fields :math:`z_{kl}`, ``k`` over the ``P`` rows whose overlaps are learned and ``l`` over ``K``
columns that share them: :math:`z = \omega + V^{1/2}u` with :math:`\omega` of covariance ``Q`` over the rows. Scores are
:math:`g = V^{-1}(E[z\mid y,\omega,V]-\omega)`, and the information is the matrix :math:`E\sum_l g_l g_l^T`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from glassformer.channels.control_variates import information
from glassformer.channels.field_averages import (
    REPLICAS,
    Averages,
    FieldPosterior,
    Response,
    Scores,
    Slopes,
    mean_of_replicas,
)
from glassformer.channels.label_errors import LabelErrors
from glassformer.channels.scalar.exponents import Exponents
from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.eigenvalues import square_root
from glassformer.numerics.extrapolation import remainder
from glassformer.numerics.quasi_random import confident, normal_points


@dataclass(frozen=True)
class Unseen:
    """What sampled data points may leave out of averages.

    Attributes:
        points: that say nothing where all others say much: a sample may have none of three, with a confidence of 95 %.
            Near perfect recovery these, whose signs are in doubt, are all that is left of the error.
        shown: factor of data points fewer that tell the bias of sampled posteriors.
        fewest: the same per replica at least.
    """

    points: float = 3.0
    shown: int = 4
    fewest: int = 64


_POLICY = Unseen()


class Channel(LabelErrors):
    """A channel of ``P`` rows and ``K`` columns of fields."""

    @property
    def exponents(self) -> Exponents | None:
        """Information and generative exponent of a single index; None where they are not known."""
        return None

    @property
    def in_rows(self) -> Self:
        """Itself: it has rows already."""
        return self

    sampled = default_property(
        True, "True when averages are sampled anew at every state, and scores carry a sampling error."
    )
    refinement_factor = default_property(
        4, "How many times less work is behind each further posterior, where there are several."
    )
    smallest = default_property(1e-12, "Smallest variance at which averages can be had.")

    law_gap = default_property(
        0.0, "By how much drawn labels and a given density disagree, a share of the probability."
    )
    with_more_noise: Any = default_property(
        None, "Itself with more of the noise that stands for none; None without such noise."
    )

    @property
    def work(self) -> float:
        """Evaluations that one average over the data takes, from which the time that is left is estimated."""
        return float(self.points)

    def with_points(self, points: int) -> Self:
        """The same channel with another number of sampled data points per replica, a power of two."""
        return replace(self, points=points)  # type: ignore[type-var]

    def high_accuracy(self) -> Self:
        """The same channel with several times the work per data point, where posteriors are sampled."""
        return self

    def low_accuracy(self) -> Self:
        """The same channel with a share of the work per data point, where that leads to where more is to be spent."""
        return self

    @abstractmethod
    def posterior(self, y: Array, omega: Array, variance: Array) -> FieldPosterior:
        """Posterior of the fields of n data points; ``omega`` has shape (n, P, K), ``variance`` (n, P, P)."""

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        """The posterior; where it is sampled, or searched for, what shares of the work make of it as well.

        Of each :attr:`refinement_factor` times less than of the last; where it is sampled, means over all such shares.
        """
        return (self.posterior(y, omega, variance),)

    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        """Scores of n data points that share one posterior covariance, shape (P, P)."""
        found = self.posterior(y, omega, np.broadcast_to(variance, (len(y), *variance.shape)))
        return Scores(found.first, found.second, found.curvature)

    def log_partition(self, y: Array, omega: Array, variance: Array) -> Array:
        """Log partitions of n data points that share one posterior covariance, shape (P, P)."""
        return self.posterior(y, omega, np.broadcast_to(variance, (len(y), *variance.shape))).log_partition

    def information(self, variance: Array) -> Estimate:
        r""":math:`E\sum_l g_l g_l^T` at posterior covariances of shape (batch, P, P), and its standard error."""
        return self.averages(variance).information

    def averages(self, variance: Array) -> Averages:
        """Information and expected log partition; the same quasi-random points for every covariance."""
        variance = np.asarray(variance, dtype=float)
        omega, deviation, labels = self._data(variance)
        batch, count = omega.shape[:2]
        spread = np.repeat(variance, count, axis=0)
        flat_labels, flat_omega = (part.reshape(batch * count, *part.shape[2:]) for part in (labels, omega))
        return self._averaged(self.posteriors(flat_labels, flat_omega, spread), deviation, variance)

    def _averaged(self, found: Sequence[FieldPosterior], deviation: Array, variance: Array) -> Averages:
        """Averages over data points, from their posteriors and true deviations, shape (batch, n, ...)."""
        grid = (len(variance), REPLICAS, self.points)
        shown = max(min(_POLICY.fewest, self.points), self.points // _POLICY.shown)
        levels = [[part.reshape(*grid, *part.shape[1:]) for part in own[:4]] for own in found]
        silent = [part.reshape(*grid, *part.shape[1:]) for part in found[0].silent or ()]
        deviation = deviation.reshape(*grid, *deviation.shape[2:])
        pairs = []
        for k, v in enumerate(variance):
            scores = [[part[k] for part in level[:3]] for level in levels]
            raw = information(scores, deviation[k], v, shown, [part[k] for part in silent], self.refinement_factor)
            pairs.append(self._respected(raw, v))
        replicas, missing = (np.stack(part) for part in zip(*pairs, strict=True))
        partitions = ([level[3][k].mean() for level in levels] for k in range(len(variance)))
        missing_log = np.array([remainder(part, self.refinement_factor) for part in partitions])
        log_partition = _with_systematic(mean_of_replicas(levels[0][3].mean(axis=2)), missing_log)
        return self._of_replicas(replicas, missing, log_partition)

    def _respected(self, parts: Sequence[Array], v: Array) -> list[Array]:
        """Information as symmetries have it, at one covariance."""
        return [self.row_symmetries.symmetrise(part, self.self_overlap - v) for part in parts]

    def _of_replicas(self, replicas: Array, missing: Array, log_partition: Estimate) -> Averages:
        """Averages from the information of each replica, (batch, replicas, P, P), and what is missing from all."""
        unseen = _POLICY.points / (REPLICAS * self.points)
        value, error = mean_of_replicas(replicas)
        whole = Estimate(value, np.hypot(error, unseen * np.abs(value)))
        return Averages(_with_systematic(whole, missing), log_partition, replicas, unseen, missing)

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        r"""Two independent estimates of :math:`\partial g_l/\partial\omega_{l'}`, shape (n, P, L, P, L) each.

        Those of shares of the work follow, as in :meth:`posteriors`.
        """
        raise NotImplementedError

    def slopes_at(self, y: Array, omega: Array, variance: Array) -> Slopes:
        """Slopes of n data points that share one posterior covariance, shape (P, P), those of a replica together."""
        return self.slopes(y, omega, np.broadcast_to(variance, (len(y), *variance.shape)))

    def response(self, variance: Array, known: int = 0, wider: Array | None = None) -> Response:
        """Slopes of the score on sampled data at one covariance; the first ``known`` points of each replica left out.

        Deviations in the range of the projector ``wider``, shape (P, P), are drawn from a wider normal law, weighted:
        squares of slopes grow like the fourth power of their length there, few data points would carry the average.
        """
        stretch = np.eye(self.rows) if wider is None else self._stretch(variance, wider)
        omega, deviation, labels = (part[0] for part in self._data(variance[None], known, stretch))
        found = self._responding(self.slopes_at(labels, omega, variance), deviation, variance)
        if wider is None:
            return found
        white = np.linalg.cholesky(variance).T @ deviation
        drawn = np.linalg.inv(stretch) @ white
        log_weight = self.columns * np.linalg.slogdet(stretch)[1] - 0.5 * np.sum(white**2 - drawn**2, axis=(1, 2))
        weight = np.exp(log_weight)
        return found._replace(weight=weight, fewer=tuple(part._replace(weight=weight) for part in found.fewer))

    def _stretch(self, variance: Array, wider: Array) -> Array:
        """What makes whitened deviations wider in the range of a projector, shape (P, P).

        The variance is that under the fourth power of the length of so many normal numbers.
        """
        root = np.linalg.cholesky(variance)
        factor = np.sqrt(1 + 4 / (self.columns * np.trace(wider)))
        return np.asarray(np.linalg.solve(root, (np.eye(self.rows) + (factor - 1) * wider) @ root))

    def averages_and_response(self, variance: Array) -> tuple[Averages, Response]:
        """Both at one covariance, shape (P, P); from the same posteriors where those are sampled."""
        return self.averages(variance[None]), self.response(variance)

    def _responding(self, slopes: Slopes, deviation: Array, variance: Array) -> Response:
        """Slopes beside what true deviations, shape (n, P, K), make of them."""
        truth = np.einsum("npl,nqm->nplqm", deviation, deviation)
        inverse = np.linalg.inv(variance)
        for k in range(self.columns):
            truth[:, :, k, :, k] -= inverse
        found, *fewer = (Response(*pair, truth, np.ones(len(truth)), REPLICAS) for pair in slopes)
        return found._replace(fewer=tuple(fewer))

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        r"""Averages at one covariance, and the growth of the information with flattened overlaps, shape (P^2, P^2).

        From the same posteriors where those are sampled. The growth is :math:`\sum_{ll'}E[D_{ll'}\otimes D_{ll'}]`.

        Source: the second derivative of an entropy along the heat flow of the mean fields,
        :math:`dE\sum_lg_lg_l^T = \sum_{ll'}E[D_{ll'}\,dQ\,D_{ll'}^T]` with
        :math:`D_{ll'} = \partial g_l/\partial\omega_{l'}`.
        """
        averages, (first, second, *_) = self.averages_and_response(variance)
        full = np.einsum("nalcm,nblem->abce", first, second, optimize=True) / len(first)
        size = self.rows**2
        slope = full.reshape(size, size)
        return averages, np.asarray(0.5 * (slope + slope.T))

    def _data(self, variance: Array, known: int = 0, stretch: Array | None = None) -> tuple[Array, Array, Array]:
        r"""Means, :math:`V^{-1}(z - \omega)` and labels of sampled data points, shapes (batch, n, ...).

        Whitened deviations are multiplied by ``stretch``, shape (P, P).
        """
        shape = self.field_components
        size = self.rows * self.columns
        points = normal_points(2 * size + self.sources, self.points, REPLICAS)[:, known:]
        points = points.reshape(-1, 2 * size + self.sources)
        t, u, source = np.split(points, [size, 2 * size], axis=1)
        t, u = t.reshape(-1, *shape), u.reshape(-1, *shape)
        u = u if stretch is None else stretch @ u
        omega = np.stack([square_root(self.self_overlap - v) @ t for v in variance])
        deviation = np.stack([np.linalg.inv(np.linalg.cholesky(v)).T @ u for v in variance])
        labels = [
            self.observation_from(mean + np.linalg.cholesky(v) @ u, source)
            for mean, v in zip(omega, variance, strict=True)
        ]
        return omega, deviation, np.stack(labels)


def _with_systematic(found: Estimate, missing: Array) -> Estimate:
    """With what is missing as a share of the standard error, such that it is once in an error of 95 % confidence."""
    return Estimate(found.value, found.error + np.abs(missing) / confident(REPLICAS))
