r"""What a channel of several indices must provide, and its averages by quasi-Monte Carlo.

A data point has fields :math:`z_{kl}`, ``k`` over the ``P`` rows whose overlaps are learned and ``l`` over ``K``
columns that share them: :math:`z = \omega + V^{1/2}u` with :math:`\omega` of covariance ``Q`` over the rows. Scores are
:math:`g = V^{-1}(E[z\mid y,\omega,V]-\omega)`, and the information is the matrix :math:`E\sum_l g_l g_l^T`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from glassformer.core.checks import is_number
from glassformer.core.declarations import declared
from glassformer.core.deprecated import former
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.integral import Array, Integral
from glassformer.core.numerics.eigenvalues import square_root
from glassformer.core.numerics.extrapolation import remainder
from glassformer.core.numerics.quasi_random import confident, normal_points
from glassformer.core.resources import require_resources
from glassformer.models.channels.control_variates import information
from glassformer.models.channels.decisions import Decisions
from glassformer.models.channels.exponents import Exponents
from glassformer.models.channels.row_symmetries import RowSymmetries

# Data points of the averages: replicas, whose spread tells the error, times points of each.
_REPLICAS = 8
# So many data points that say nothing, where all others say much, a sample may have none of: up to three with a
# confidence of 95 %. Near perfect recovery these, whose signs are in doubt, are all that is left of the error.
_UNSEEN = 3.0
# Share of the data points, and the fewest per replica, that tell the bias of sampled posteriors.
_SHOWN, _FEWEST = 4, 64
# Label noise in which posteriors are no thin shells, and scores do not drown.
_FAINTEST, _LOUDEST = 1e-8, 1e9
# Evaluations of the averages in a fixed point; sampled latents of a data point, and of all those treated at once.
_EVALUATIONS, _DRAWN, _AT_ONCE = 50, 512, 64 * 512
# New samples that tell the errors of one estimate, and posterior copies of each in either half.
_NEW_SAMPLES, _COPIES = 512, 2
# And per replica, of which decisions on discrete labels are counted.
_DECIDED = 512


class FieldPosterior(NamedTuple):
    """Sampled posterior of the fields of each data point.

    Attributes:
        first, second: two independent estimates of the score, shape (n, P, K): their product estimates its square
            without the bias of sampling noise.
        curvature: minus the derivative of the score, summed over columns, shape (n, P, P).
        log_partition: shape (n,), up to what depends on the label alone.
    """

    first: Array
    second: Array
    curvature: Array
    log_partition: Array

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
        fewer: the same with a fourth, then a sixteenth of the work on each data point; none without sampling.
    """

    first: Array
    second: Array
    truth: Array
    weight: Array
    replicas: int
    fewer: tuple[Response, ...] = ()


class PredictionErrors(NamedTuple):
    r"""Squared errors on the label of a new sample at posterior covariances of shape (batch, P, P), each (batch,).

    Attributes:
        bayes: of the posterior mean, :math:`E\|y - E[y\mid\omega]\|^2`, the label's own noise left out.
        plugin: of the label that the mean fields would have, :math:`E\|y - g(\omega)\|^2`.
    """

    bayes: Integral
    plugin: Integral


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

    information: Integral
    log_partition: Integral
    replicas: Array
    unseen: float
    missing: Array


def joined(parts: Sequence[Averages]) -> Averages:
    """Averages of one channel at the covariances of all parts."""
    information, log_partition = (
        Integral(*(np.concatenate(column) for column in zip(*integrals, strict=True)))
        for integrals in list(zip(*parts, strict=True))[:2]
    )
    replicas = np.concatenate([part.replicas for part in parts])
    missing = np.concatenate([part.missing for part in parts])
    return Averages(information, log_partition, replicas, parts[0].unseen, missing)


def require_noise(noise: object) -> None:
    """Raise unless labels with this noise, or none, can be averaged over.

    Example:
        >>> require_noise(0.1)
    """
    if not (is_number(noise) and (noise == 0 or _FAINTEST <= noise <= _LOUDEST)):  # type: ignore[operator]
        raise ParameterError("noise", noise, f"0, or from {_FAINTEST:g} to {_LOUDEST:g}: finite and >= 0")


def require_sampling(name: str, value: object, fields: int, images: float, points: int, effort: float = 400.0) -> None:
    """Raise if posteriors of so many fields cannot be sampled, before anything is compiled for them.

    Args:
        name: the parameter to blame.
        value: its value.
        fields: ``P K``.
        images: of a latent under symmetries.
        points: data points per replica.
        effort: steps of the search for modes of one data point.

    Example:
        >>> require_sampling("tokens", 4, fields=8, images=2, points=2048)
    """
    data, size = float(_REPLICAS * points), float(fields)
    memory = 8 * (data * (6 * size**2 + 10 * size) + 3.0 * _AT_ONCE * images * size)
    work = _EVALUATIONS * data * (effort * size**3 + _DRAWN * images * size**2)
    remedy = "use fewer tokens, layers, heads, indices or data points"
    require_resources(name, value, memory, remedy, work, "moments")


class Channel(Decisions, ABC):
    """A channel of ``P`` rows and ``K`` columns of fields."""

    moment = former("moment", "self_overlap")

    points: int
    """Sampled data points per replica, a power of two."""

    @property
    def label(self) -> str:
        """Name of the channel in files and on the command line."""
        return type(self).__name__.removesuffix("Channel").lower()

    @property
    @abstractmethod
    def rows(self) -> int:
        """``P``, the rows of fields, whose overlaps are learned."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """``K``, the independent fields of each row."""

    @property
    @abstractmethod
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the label of one sample."""

    @property
    @abstractmethod
    def rank(self) -> float:
        """Fields of a data point that a noiseless label fixes; zero with noise."""

    @property
    def exponents(self) -> Exponents | None:
        """Information and generative exponent of a single index; None where they are not known."""
        return None

    @property
    def field_components(self) -> tuple[int, ...]:
        """``(P, K)``, the shape of the fields of one data point."""
        return self.rows, self.columns

    @property
    def in_rows(self) -> Self:
        """Itself: it has rows already."""
        return self

    sampled = declared(True, "True when averages are sampled anew at every state, and scores carry a sampling error.")
    smallest = declared(1e-12, "Smallest variance at which averages can be had.")

    louder: Any = declared(None, "Itself with more of the noise that stands for none; None without such noise.")

    @property
    def noiseless(self) -> bool:
        """True when labels fix some of the fields."""
        return self.rank > 0

    linear = declared(False, "True when the label is one field itself, with Gaussian noise or none.")
    label_noise = declared(0.0, "Mean square of the label's own noise, counted as prediction errors are.")

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        """The label as a traceable and smooth function of the fields, without noise.

        Raises:
            IncompatibleError: it is none; the text completes the sentence "algorithm NAME".
        """
        raise IncompatibleError("needs labels of several projections, not of a single one")

    @property
    def symmetries(self) -> Array:
        """Signs of the rows that leave labels as they are, shape (count, P); the identity comes first."""
        return np.ones((1, self.rows))

    @property
    def row_symmetries(self) -> RowSymmetries:
        """All symmetries of the labels that averages respect."""
        return RowSymmetries.of_signs(self.symmetries)

    @property
    def even(self) -> bool:
        """True when symmetries move every row: no row is known at zero overlap, which then is a fixed point."""
        return bool(np.all(np.any(self.symmetries < 0, axis=0)))

    def with_points(self, points: int) -> Self:
        """The same channel with another number of sampled data points per replica, a power of two."""
        return replace(self, points=points)  # type: ignore[type-var]

    def careful(self) -> Self:
        """The same channel with several times the work per data point, where posteriors are sampled."""
        return self

    @property
    def self_overlap(self) -> Array:
        """Overlap of a signal known exactly, shape (P, P): fields have covariance ``moment`` over the rows."""
        return np.eye(self.rows)

    sources = declared(0, "Normal numbers that a label consumes beside its fields.")

    @abstractmethod
    def label_from(self, fields: Array, source: Array) -> Array:
        """Labels of fields, shape (n, P, K), and of standard normal numbers, shape (n, sources)."""

    def observation_from(self, fields: Array, source: Array) -> Array:
        """Labels, or what they show in a form that loses fewer digits; :meth:`posterior` takes either."""
        return self.label_from(fields, source)

    @abstractmethod
    def posterior(self, y: Array, omega: Array, variance: Array) -> FieldPosterior:
        """Posterior of the fields of n data points; ``omega`` has shape (n, P, K), ``variance`` (n, P, P)."""

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        """The posterior; where it is sampled, means of what fourths, then sixteenths of the work make of it as well."""
        return (self.posterior(y, omega, variance),)

    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        """Scores of n data points that share one posterior covariance, shape (P, P)."""
        found = self.posterior(y, omega, np.broadcast_to(variance, (len(y), *variance.shape)))
        return Scores(found.first, found.second, found.curvature)

    def log_partition(self, y: Array, omega: Array, variance: Array) -> Array:
        """Log partitions of n data points that share one posterior covariance, shape (P, P)."""
        return self.posterior(y, omega, np.broadcast_to(variance, (len(y), *variance.shape))).log_partition

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        """Draw one label per data point."""
        return self.label_from(fields, rng.standard_normal((len(fields), self.sources)))

    def information(self, variance: Array) -> Integral:
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
        grid, shown = (len(variance), _REPLICAS, self.points), max(min(_FEWEST, self.points), self.points // _SHOWN)
        levels = [[part.reshape(*grid, *part.shape[1:]) for part in own] for own in found]
        deviation = deviation.reshape(*grid, *deviation.shape[2:])
        pairs = []
        for k, v in enumerate(variance):
            raw = information([[part[k] for part in level[:3]] for level in levels], deviation[k], v, shown)
            pairs.append([self.row_symmetries.respected(part, self.self_overlap - v) for part in raw])
        replicas, missing = (np.stack(part) for part in zip(*pairs, strict=True))
        missing_log = np.array([remainder([level[3][k].mean() for level in levels]) for k in range(len(variance))])
        found_information, log_partition = (_mean_and_error(part) for part in (replicas, levels[0][3].mean(axis=2)))
        unseen = _UNSEEN / (_REPLICAS * self.points)
        value, error = found_information
        whole = Integral(value, np.hypot(error, unseen * np.abs(value)))
        parts = (_with_systematic(whole, missing), _with_systematic(log_partition, missing_log))
        return Averages(*parts, replicas, unseen, missing)

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        r"""Two independent estimates of :math:`\partial g_l/\partial\omega_{l'}`, shape (n, P, L, P, L) each.

        Where posteriors are sampled, those of a fourth and a sixteenth of the work follow.
        """
        raise NotImplementedError

    def response(self, variance: Array, known: int = 0, wider: Array | None = None) -> Response:
        """Slopes of the score on sampled data at one covariance; the first ``known`` points of each replica left out.

        Deviations in the range of the projector ``wider``, shape (P, P), are drawn from a wider normal law, weighted:
        squares of slopes grow like the fourth power of their length there, few data points would carry the average.
        """
        stretch = np.eye(self.rows) if wider is None else self._stretch(variance, wider)
        omega, deviation, labels = (part[0] for part in self._data(variance[None], known, stretch))
        spread = np.broadcast_to(variance, (len(omega), *variance.shape))
        found = self._responding(self.slopes(labels, omega, spread), deviation, variance)
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
        found, *fewer = (Response(*pair, truth, np.ones(len(truth)), _REPLICAS) for pair in slopes)
        return found._replace(fewer=tuple(fewer))

    def information_and_slope(self, variance: Array) -> tuple[Array, Array]:
        r"""Information at one covariance, and its growth with flattened overlaps, shapes (P, P) and (P^2, P^2).

        The growth is :math:`\sum_{ll'}E[D_{ll'}\otimes D_{ll'}]`.

        Source: the second derivative of an entropy along the heat flow of the mean fields,
        :math:`dE\sum_lg_lg_l^T = \sum_{ll'}E[D_{ll'}\,dQ\,D_{ll'}^T]` with
        :math:`D_{ll'} = \partial g_l/\partial\omega_{l'}`.
        """
        averages, slope = self.averages_and_slope(variance)
        return averages.information.value[0], slope

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        """Averages at one covariance, and that slope, from the same posteriors where those are sampled."""
        averages, (first, second, *_) = self.averages_and_response(variance)
        full = np.einsum("nalcm,nblem->abce", first, second, optimize=True) / len(first)
        size = self.rows**2
        slope = full.reshape(size, size)
        return averages, np.asarray(0.5 * (slope + slope.T))

    def prediction_errors(self, variance: Array, learned: Array | None = None) -> PredictionErrors:
        r"""Errors on the labels of new samples, from fields with the same mean, in pairs on either side of it.

        The plug-in predictor's exceeds Bayes' by :math:`E\|E[y|\omega]-g(\omega)\|^2`, which is estimated itself: in
        the mean of a pair what is odd in the deviation cancels.

        Args:
            variance: posterior covariances, shape (batch, P, P).
            learned: one for the rows that the plug-in predictor uses, zero for others, shape (P,); all by default.
        """
        variance = np.asarray(variance, dtype=float)
        size = self.rows * self.columns
        points = normal_points(3 * size, self.points, _REPLICAS).reshape(-1, 3, *self.field_components)
        silent = np.zeros((len(points), self.sources))
        used = np.ones(self.rows) if learned is None else learned
        rows = []
        for v in variance:
            mean, root = square_root(self.self_overlap - v) @ points[:, 0], square_root(v)
            pairs = [[self.label_from(mean + sign * root @ points[:, k], silent) for sign in (1, -1)] for k in (1, 2)]
            plugin = self.label_from(used[:, None] * mean, silent)
            apart = np.mean([(first - second) ** 2 for first in pairs[0] for second in pairs[1]], axis=0)
            first, second = (0.5 * (above + below) - plugin for above, below in pairs)
            rows.append([_replica_means(part, self.points) for part in (0.5 * apart, first * second)])
        found = np.array(rows)
        bayes, gap, both = (_mean_and_error(part) for part in (found[:, 0], found[:, 1], found.sum(axis=1)))
        # What is known to be positive is, within its error.
        return PredictionErrors(bayes, Integral(bayes.value + np.maximum(gap.value, 0.0), both.error))

    def label_errors(self, variance: Array, last_layer: Array | None = None) -> dict[str, Array]:
        """Errors on new labels at posterior covariances of shape (batch, P, P), by name, with standard errors.

        Args:
            variance: posterior covariances.
            last_layer: one for the rows of the last layer, where there are others, for the error of a predictor that
                has learned nothing else.
        """
        found = self.prediction_errors(variance)
        alone = {} if last_layer is None else {"plugin_error_last_layer": last_layer}
        return {
            "prediction_error": found.bayes.value,
            "prediction_standard_error": found.bayes.error,
            "plugin_error": found.plugin.value,
            "plugin_standard_error": found.plugin.error,
            "label_noise": np.full(len(variance), self.label_noise),
            **(self._wrong(variance) if self.discrete else {}),
            **{name: self.prediction_errors(variance, rows).plugin.value for name, rows in alone.items()},
        }

    def _wrong(self, variance: Array) -> dict[str, Array]:
        found = self.wrong_labels(variance)
        return {"label_error": found.value, "label_standard_error": found.error}

    def wrong_labels(self, variance: Array) -> Integral:
        """Share of new labels that the most probable one misses, of labels of several entries the share of entries."""
        points = normal_points(2 * self.rows * self.columns, _DECIDED, _REPLICAS).reshape(-1, 2, *self.field_components)
        rows = []
        for v in variance:
            mean = square_root(self.self_overlap - v) @ points[:, 0]
            wrong = self.decided(mean, v) != self.truth(mean + square_root(v) @ points[:, 1])
            rows.append(wrong.reshape(_REPLICAS, -1).mean(axis=1))
        return _mean_and_error(np.array(rows))

    def wrong_of(self, own: Array, cross: Array, true: Array, variance: Array) -> float:
        """That share for one estimate that was measured; arguments as of :meth:`errors_of`."""
        joint = square_root(np.block([[own, cross], [cross.T, true]]))
        points = normal_points(2 * self.rows * self.columns, _DECIDED, _REPLICAS).reshape(-1, len(joint), self.columns)
        estimated, fields = np.split(joint @ points, 2, axis=1)
        return float(np.mean(self.decided(estimated, variance) != self.truth(fields)))

    def errors_of(self, own: Array, cross: Array, true: Array, variance: Array) -> tuple[float, float]:
        """Squared errors on labels of new samples, as :meth:`prediction_errors`, of one estimate that was measured.

        Args:
            own: inner products of the estimated rows, shape (P, P).
            cross: of estimated with true rows.
            true: of true rows.
            variance: the covariance that the estimate claims, over which the Bayes predictor averages.

        Returns:
            Error of the average label over the claimed posterior, and of the label of the estimated rows.
        """
        joint = square_root(np.block([[own, cross], [cross.T, true]]))
        size = self.rows * self.columns
        points = normal_points((2 + 2 * _COPIES) * size, _NEW_SAMPLES, 1).reshape(_NEW_SAMPLES, -1, self.columns)
        both, deviations = np.split(points, [2 * self.rows], axis=1)
        estimated, fields = np.split(joint @ both, 2, axis=1)
        copies = deviations.reshape(_NEW_SAMPLES, 2 * _COPIES, self.rows, self.columns)
        silent = np.zeros((_NEW_SAMPLES, self.sources))
        label, plugin = (self.label_from(part, silent) for part in (fields, estimated))
        likely = estimated[:, None] + square_root(variance) @ copies
        drawn = self.label_from(likely.reshape(-1, *self.field_components), np.repeat(silent, 2 * _COPIES, axis=0))
        # Two halves of the copies are two independent means, whose product has no bias from their noise.
        halves = drawn.reshape(_NEW_SAMPLES, 2, _COPIES, -1).mean(axis=2)
        gaps = label.reshape(_NEW_SAMPLES, 1, -1) - halves
        bayes = np.sum(gaps[:, 0] * gaps[:, 1], axis=1)
        return float(np.mean(bayes)), float(np.mean(np.sum((label - plugin).reshape(_NEW_SAMPLES, -1) ** 2, axis=1)))

    def _data(self, variance: Array, known: int = 0, stretch: Array | None = None) -> tuple[Array, Array, Array]:
        r"""Means, :math:`V^{-1}(z - \omega)` and labels of sampled data points, shapes (batch, n, ...).

        Whitened deviations are multiplied by ``stretch``, shape (P, P).
        """
        shape = self.field_components
        size = self.rows * self.columns
        points = normal_points(2 * size + self.sources, self.points, _REPLICAS)[:, known:]
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


def _replica_means(squares: Array, points: int) -> Array:
    """Sums over the entries of labels, averaged over the points of each replica."""
    return np.asarray(squares.reshape(_REPLICAS, points, -1).sum(axis=2).mean(axis=1))


def _mean_and_error(replicas: Array) -> Integral:
    """Means over the second axis, and their standard errors."""
    return Integral(np.mean(replicas, axis=1), _standard_error(replicas, axis=1))


def _with_systematic(found: Integral, missing: Array) -> Integral:
    """With what is missing as a share of the standard error, such that it is once in an error of 95 % confidence."""
    return Integral(found.value, found.error + np.abs(missing) / confident(_REPLICAS))


def _standard_error(replicas: Array, axis: int) -> Array:
    return np.asarray(np.std(replicas, axis=axis, ddof=1) / np.sqrt(replicas.shape[axis]))
