"""Channels of several rows: averages over sampled data points, by quasi-Monte Carlo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from glassformer.channels.base import Channel, Inference
from glassformer.channels.control_variates import information as controlled_information
from glassformer.channels.field_averages import Averages, FieldPosterior, Response, Scores, Slopes
from glassformer.channels.fields import Fields
from glassformer.channels.label_errors import sampled_label_errors
from glassformer.channels.sampled_error_bars import REPLICAS, mean_of_replicas
from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import confidence_factor, normal_points
from glassformer.numerics.sequences import remaining_change

# Rule of three: events not seen in n sampled data points have a probability below 3/n (95 %). Near perfect recovery
# only rare points of uncertain sign contribute to the error.
_UNSEEN = 3.0
# The bias of sampled posteriors is estimated on a quarter of the data points, and on 64 a replica at least (chosen by
# trial).
_BIAS_SHARE, _FEWEST_FOR_BIAS = 4, 64
# A smaller log partition is unknown: no label that is drawn is so unlikely.
_UNKNOWN = -600.0


class SampledRowsChannel(Channel):
    """Base of channels whose averages are means over sampled data points."""

    points: int
    """Sampled data points per replica, a power of two."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """``P``, the number of rows of fields, whose overlaps are learned."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """``K``, the number of independent fields of each row."""

    @cached_property
    def fields(self) -> Fields:
        return Fields((self.rows, self.columns))

    refinement_factor = default_property(4, "Ratio of the work of successive :meth:`posteriors`, if there are several.")

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        return self.label_from(fields, rng.standard_normal((len(fields), self.sources)))

    sources = default_property(0, "Number of normal variables of :meth:`label_from`.")

    @abstractmethod
    def label_from(self, fields: Array, source: Array) -> Array:
        """Return labels of fields and of standard normal numbers, shape (n, sources).

        Zeros give labels without noise.
        """

    def clean(self, fields: Array) -> Array:
        """Return labels without noise."""
        return self.label_from(fields, np.zeros((len(fields), self.sources)))

    def observation_from(self, fields: Array, source: Array) -> Array:
        """Return labels, or equivalent observations with less loss of digits. Posteriors accept both."""
        return self.label_from(fields, source)

    @abstractmethod
    def posterior(self, y: Array, omega: Array, variance: Array) -> FieldPosterior:
        """Return the posterior of the fields of n data points, from ``omega`` (n, P, K) and ``variance`` (n, P, P)."""

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        """Return the posterior and, if it is sampled, further estimates with less and less work.

        Each has :attr:`refinement_factor` times less work than the one before; sampled ones are means over all shares
        of that size.
        """
        return (self.posterior(y, omega, variance),)

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        r"""Return two independent estimates of :math:`\partial g_l/\partial\omega_{l'}`, shape (n, P, L, P, L) each.

        Those of shares of the work follow, as in :meth:`posteriors`.
        """
        raise NotImplementedError

    def posteriors_and_slopes(
        self, y: Array, omega: Array, variance: Array
    ) -> tuple[tuple[FieldPosterior, ...], Slopes]:
        """Return :meth:`posteriors` and :meth:`slopes`; a channel that has both from the same work overrides it."""
        return self.posteriors(y, omega, variance), self.slopes(y, omega, variance)

    @property
    def inference(self) -> Inference:
        return SampledInference(self)


@dataclass(frozen=True, eq=False)
class SampledInference(Inference):
    """Inference by averages over sampled data points, by quasi-Monte Carlo."""

    channel: SampledRowsChannel

    sampled: ClassVar[bool] = True
    smallest: ClassVar[float] = 1e-12

    @property
    def points(self) -> int:
        return self.channel.points

    @property
    def refinement_factor(self) -> int:
        return self.channel.refinement_factor

    def with_points(self, points: int) -> Self:
        return replace(self, channel=replace(self.channel, points=points))  # type: ignore[type-var]

    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        return sampled_label_errors(self.channel, variance, last_layer, decisions)

    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        found = self.channel.posterior(y, omega, np.broadcast_to(variance, (len(y), *variance.shape)))
        return Scores(found.first, found.second, found.curvature)

    def log_partitions(self, y: Array, omega: Array, variance: Array) -> Array:
        return self.channel.posterior(y, omega, np.broadcast_to(variance, (len(y), *variance.shape))).log_partition

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        return self.channel.posteriors(y, omega, variance)

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        return self.channel.slopes(y, omega, variance)

    def posteriors_and_slopes(
        self, y: Array, omega: Array, variance: Array
    ) -> tuple[tuple[FieldPosterior, ...], Slopes]:
        return self.channel.posteriors_and_slopes(y, omega, variance)

    @property
    def sources(self) -> int:
        return int(self.channel.sources)

    def labels_from(self, fields: Array, source: Array, rng: np.random.Generator) -> Array:
        del rng
        return self.channel.label_from(fields, source)

    def information(self, variance: Array) -> Estimate:
        return self.averages(variance).information

    def averages(self, variance: Array) -> Averages:
        """Return the information and expected log partition; the same quasi-random points for every covariance."""
        variance = np.asarray(variance, dtype=float)
        omega, deviation, labels = self._data(variance)
        batch, count = omega.shape[:2]
        spread = np.repeat(variance, count, axis=0)
        flat_labels, flat_omega = (part.reshape(batch * count, *part.shape[2:]) for part in (labels, omega))
        return self._averaged(self.channel.posteriors(flat_labels, flat_omega, spread), deviation, variance)

    def _averaged(self, found: Sequence[FieldPosterior], deviation: Array, variance: Array) -> Averages:
        """Return the averages over data points, from their posteriors and true deviations, shape (batch, n, ...)."""
        grid = (len(variance), REPLICAS, self.points)
        for_bias = max(min(_FEWEST_FOR_BIAS, self.points), self.points // _BIAS_SHARE)
        levels = [[part.reshape(*grid, *part.shape[1:]) for part in own[:4]] for own in found]
        prior = [part.reshape(*grid, *part.shape[1:]) for part in found[0].prior_scores or ()]
        deviation = deviation.reshape(*grid, *deviation.shape[2:])
        pairs = []
        for k, v in enumerate(variance):
            scores = [[part[k] for part in level[:3]] for level in levels]
            raw = controlled_information(
                scores,
                deviation[k],
                v,
                for_bias,
                [part[k] for part in prior],
                self.refinement_factor,
                self.channel.fields.shift_square,
            )
            # Projected on the symmetries, which averages satisfy exactly.
            overlap = self.channel.fields.self_overlap - v
            pairs.append([self.channel.labels.row_symmetries.symmetrise(part, overlap) for part in raw])
        replicas, missing = (np.stack(part) for part in zip(*pairs, strict=True))
        partitions = [_mean_log_partitions(level[3]) for level in levels]
        of_states = zip(*(part.mean(axis=1) for part in partitions), strict=True)
        missing_log = np.array([remaining_change(part, self.refinement_factor) for part in of_states])
        log_partition = _with_systematic(mean_of_replicas(partitions[0]), missing_log)
        return self._of_replicas(replicas, missing, log_partition)

    def _of_replicas(self, replicas: Array, missing: Array, log_partition: Estimate) -> Averages:
        """Return averages from the information of each replica, (batch, replicas, P, P).

        ``missing`` is the estimated bias of all replicas.
        """
        unseen = _UNSEEN / (REPLICAS * self.points)
        value, error = mean_of_replicas(replicas)
        whole = Estimate(value, np.hypot(error, unseen * np.abs(value)))
        return Averages(_with_systematic(whole, missing), log_partition, replicas, unseen, missing)

    def response(self, variance: Array, known: int = 0, wider: Array | None = None) -> Response:
        # Squares of slopes grow like the fourth power of the length of deviations in the range of ``wider``: from their
        # own law few data points would carry the average.
        stretch = np.eye(self.channel.fields.rows) if wider is None else self._stretch(variance, wider)
        omega, deviation, labels = (part[0] for part in self._data(variance[None], known, stretch))
        slopes = self.channel.slopes(labels, omega, np.broadcast_to(variance, (len(labels), *variance.shape)))
        found = self._responding(slopes, deviation, variance)
        if wider is None:
            return found
        white = self._white(deviation, variance, known)
        drawn = np.linalg.inv(stretch) @ white
        log_weight = self.channel.fields.columns * np.linalg.slogdet(stretch)[1] - 0.5 * np.sum(
            white**2 - drawn**2, axis=(1, 2)
        )
        weight = np.exp(log_weight)
        return found._replace(weight=weight, fewer=tuple(part._replace(weight=weight) for part in found.fewer))

    def _white(self, deviation: Array, variance: Array, known: int) -> Array:
        """Return the normal part of true deviations, whitened."""
        del known
        return np.asarray(np.linalg.cholesky(variance).T @ deviation)

    def _stretch(self, variance: Array, wider: Array) -> Array:
        """Return the matrix that widens whitened deviations in the range of a projector, shape (P, P).

        The variance is that under the fourth power of the length of so many normal numbers.
        """
        root = np.linalg.cholesky(variance)
        factor = np.sqrt(1 + 4 / (self.channel.fields.columns * np.trace(wider)))
        return np.asarray(np.linalg.solve(root, (np.eye(self.channel.fields.rows) + (factor - 1) * wider) @ root))

    def _responding(self, slopes: Slopes, deviation: Array, variance: Array) -> Response:
        """Return slopes together with their estimates from true deviations, shape (n, P, K)."""
        truth = np.einsum("npl,nqm->nplqm", deviation, deviation)
        inverse = np.linalg.inv(variance)
        for k in range(self.channel.fields.columns):
            truth[:, :, k, :, k] -= inverse
        found, *fewer = (Response(*pair, truth, np.ones(len(truth)), REPLICAS) for pair in slopes)
        return found._replace(fewer=tuple(fewer))

    def averages_and_response(self, variance: Array) -> tuple[Averages, Response]:
        omega, deviation, labels = self._data(variance[None])
        repeated = np.broadcast_to(variance, (omega.shape[1], *variance.shape))
        posteriors, slopes = self.channel.posteriors_and_slopes(labels[0], omega[0], repeated)
        averages = self._averaged(posteriors, deviation, variance[None])
        return averages, self._responding(slopes, deviation[0], variance)

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        r"""Return averages and the derivative of the information, :math:`\sum_{ll'}E[D_{ll'}\otimes D_{ll'}]`.

        Source: the second derivative of an entropy along the heat flow of the mean fields,
        :math:`dE\sum_lg_lg_l^T = \sum_{ll'}E[D_{ll'}\,dQ\,D_{ll'}^T]` with
        :math:`D_{ll'} = \partial g_l/\partial\omega_{l'}`.
        """
        averages, (first, second, *_) = self.averages_and_response(variance)
        full = np.einsum("nalcm,nblem->abce", first, second, optimize=True) / len(first)
        size = self.channel.fields.rows**2
        slope = full.reshape(size, size)
        return averages, np.asarray(0.5 * (slope + slope.T))

    def _data(self, variance: Array, known: int = 0, stretch: Array | None = None) -> tuple[Array, Array, Array]:
        r"""Return means, :math:`V^{-1}(z - \omega)` and labels of sampled data points, shapes (batch, n, ...).

        Whitened deviations are multiplied by ``stretch``, shape (P, P).
        """
        shape = self.channel.fields.shape
        size = self.channel.fields.rows * self.channel.fields.columns
        points = normal_points(2 * size + self.sources, self.points, REPLICAS)[:, known:]
        points = points.reshape(-1, 2 * size + self.sources)
        t, u, source = np.split(points, [size, 2 * size], axis=1)
        t, u = t.reshape(-1, *shape), u.reshape(-1, *shape)
        u = u if stretch is None else stretch @ u
        omega = np.stack([square_root(self.channel.fields.self_overlap - v) @ t for v in variance])
        deviation = np.stack([np.linalg.inv(np.linalg.cholesky(v)).T @ u for v in variance])
        labels = [
            self.channel.observation_from(mean + np.linalg.cholesky(v) @ u, source)
            for mean, v in zip(omega, variance, strict=True)
        ]
        return omega, deviation, np.stack(labels)


def _mean_log_partitions(log_partition: Array) -> Array:
    """Return means over data points, shape (batch, replicas, n) to (batch, replicas).

    Data points whose labels the sampled fields do not explain at all, of unknown partition, are left out.
    """
    known = log_partition > _UNKNOWN
    return np.asarray(np.sum(np.where(known, log_partition, 0.0), axis=2) / np.maximum(known.sum(axis=2), 1))


def _with_systematic(found: Estimate, missing: Array) -> Estimate:
    """Return averages whose standard error includes the bias, scaled so that it enters a 95 % interval once."""
    return Estimate(found.value, found.error + np.abs(missing) / confidence_factor(REPLICAS))
