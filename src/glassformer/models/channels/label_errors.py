r"""Errors on the labels of new samples, of what is known of their fields.

What is known of a new sample are its mean fields :math:`\omega`, whose distance from the true ones has the covariance
of the posterior. Averages are over quasi-random points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.core.declarations import declared
from glassformer.core.integral import Array, Integral
from glassformer.core.numerics.eigenvalues import square_root
from glassformer.core.numerics.quasi_random import normal_points
from glassformer.models.channels.field_averages import REPLICAS, mean_of_replicas
from glassformer.models.channels.field_labels import FieldLabels


@dataclass(frozen=True)
class Draws:
    """How many draws tell the errors of labels."""

    samples: int = 512  # new ones of one estimate
    copies: int = 2  # of each from its posterior, in either half
    decided: int = 512  # points per replica on which decisions on discrete labels are counted


_POLICY = Draws()


class PredictionErrors(NamedTuple):
    r"""Squared errors on the label of a new sample at posterior covariances of shape (batch, P, P), each (batch,).

    Attributes:
        bayes: of the posterior mean, :math:`E\|y - E[y\mid\omega]\|^2`, the label's own noise left out.
        plugin: of the label that the mean fields would have, :math:`E\|y - g(\omega)\|^2`.
    """

    bayes: Integral
    plugin: Integral


class LabelErrors(FieldLabels):
    """Of a channel of several rows."""

    predictable = declared(True, "True where labels without their own noise are numbers that fields tell.")

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
        points = normal_points(3 * size, self.points, REPLICAS).reshape(-1, 3, *self.field_components)
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
        bayes, gap, both = (mean_of_replicas(part) for part in (found[:, 0], found[:, 1], found.sum(axis=1)))
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
        points = normal_points(2 * self.rows * self.columns, _POLICY.decided, REPLICAS)
        points = points.reshape(-1, 2, *self.field_components)
        rows = []
        for v in variance:
            mean = square_root(self.self_overlap - v) @ points[:, 0]
            wrong = self.decided(mean, v) != self.truth(mean + square_root(v) @ points[:, 1])
            rows.append(wrong.reshape(REPLICAS, -1).mean(axis=1))
        return mean_of_replicas(np.array(rows))

    def wrong_of(self, own: Array, cross: Array, true: Array, variance: Array) -> float:
        """That share for one estimate that was measured; arguments as of :meth:`errors_of`."""
        joint = square_root(np.block([[own, cross], [cross.T, true]]))
        points = normal_points(2 * self.rows * self.columns, _POLICY.decided, REPLICAS)
        points = points.reshape(-1, len(joint), self.columns)
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
        points = normal_points((2 + 2 * _POLICY.copies) * size, _POLICY.samples, 1).reshape(
            _POLICY.samples, -1, self.columns
        )
        both, deviations = np.split(points, [2 * self.rows], axis=1)
        estimated, fields = np.split(joint @ both, 2, axis=1)
        copies = deviations.reshape(_POLICY.samples, 2 * _POLICY.copies, self.rows, self.columns)
        silent = np.zeros((_POLICY.samples, self.sources))
        label, plugin = (self.label_from(part, silent) for part in (fields, estimated))
        likely = estimated[:, None] + square_root(variance) @ copies
        drawn = self.label_from(
            likely.reshape(-1, *self.field_components), np.repeat(silent, 2 * _POLICY.copies, axis=0)
        )
        # Two halves of the copies are two independent means, whose product has no bias from their noise.
        halves = drawn.reshape(_POLICY.samples, 2, _POLICY.copies, -1).mean(axis=2)
        gaps = label.reshape(_POLICY.samples, 1, -1) - halves
        bayes = np.sum(gaps[:, 0] * gaps[:, 1], axis=1)
        return float(np.mean(bayes)), float(np.mean(np.sum((label - plugin).reshape(_POLICY.samples, -1) ** 2, axis=1)))


def _replica_means(squares: Array, points: int) -> Array:
    """Sums over the entries of labels, averaged over the points of each replica."""
    return np.asarray(squares.reshape(REPLICAS, points, -1).sum(axis=2).mean(axis=1))
