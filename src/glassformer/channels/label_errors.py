r"""Errors on the labels of new samples, of what is known of their fields.

What is known of a new sample are its mean fields :math:`\omega`, whose distance from the true ones has the covariance
of the posterior. Averages are over quasi-random points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.channels.field_averages import REPLICAS, mean_of_replicas
from glassformer.channels.field_labels import FieldLabels
from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.eigenvalues import square_root
from glassformer.numerics.quasi_random import normal_points


@dataclass(frozen=True)
class Draws:
    """How many draws tell the errors of labels."""

    samples: int = 512  # new ones of one estimate, from the law of their fields
    decided: int = 512  # points per replica on which decisions on discrete labels are counted


_POLICY = Draws()


class PredictionErrors(NamedTuple):
    r"""Squared errors on the label of a new sample at posterior covariances of shape (batch, P, P), each (batch,).

    Attributes:
        bayes: of the posterior mean, :math:`E\|y - E[y\mid\omega]\|^2`, the label's own noise left out.
        plugin: of the label that the mean fields would have, :math:`E\|y - g(\omega)\|^2`.
    """

    bayes: Estimate
    plugin: Estimate


class NewSamples(NamedTuple):
    """New samples, and what one estimate knows of them.

    Attributes:
        estimated: fields that the estimate has on them, shape (n, P, K), or (..., n, P, K) for several estimates.
        fields: true ones.
        deviations: two standard normal ones of each, shape (n, 2, P, K), for draws from a posterior.
    """

    estimated: Array
    fields: Array
    deviations: Array


class LabelErrors(FieldLabels):
    """Of a channel of several rows."""

    predictable = default_property(
        True, "True where labels without their own noise are numbers that fields tell, not classes."
    )

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
            squares = [_replica_means(part, self.points) for part in (0.5 * apart, first * second)]
            rows.append(np.array(squares) / self.error_unit)
        found = np.array(rows)
        bayes, gap, both = (mean_of_replicas(part) for part in (found[:, 0], found[:, 1], found.sum(axis=1)))
        # What is known to be positive is, within its error.
        return PredictionErrors(bayes, Estimate(bayes.value + np.maximum(gap.value, 0.0), both.error))

    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        """Errors on new labels at posterior covariances of shape (batch, P, P), by name, with standard errors.

        Args:
            variance: posterior covariances.
            last_layer: one for the rows of the last layer, where there are others, for the error of a predictor that
                has learned nothing else.
            decisions: whether to count wrong labels as well, where labels are discrete: that asks for posteriors.
        """
        found = self.prediction_errors(variance)
        alone = {} if last_layer is None else {"plugin_error_last_layer": last_layer}
        return {
            "prediction_error": found.bayes.value,
            "prediction_standard_error": found.bayes.error,
            "plugin_error": found.plugin.value,
            "plugin_standard_error": found.plugin.error,
            "label_noise": np.full(len(variance), self.label_noise),
            **(self._wrong(variance) if self.discrete and decisions else {}),
            **{name: self.prediction_errors(variance, rows).plugin.value for name, rows in alone.items()},
        }

    def _wrong(self, variance: Array) -> dict[str, Array]:
        found = self.wrong_labels(variance)
        return {"label_error": found.value, "label_standard_error": found.error}

    def wrong_labels(self, variance: Array) -> Estimate:
        """Share of new labels that the most probable one misses, of labels of several entries the share of entries."""
        points = normal_points(2 * self.rows * self.columns, _POLICY.decided, REPLICAS)
        points = points.reshape(-1, 2, *self.field_components)
        rows = []
        for v in variance:
            mean = square_root(self.self_overlap - v) @ points[:, 0]
            wrong = self.decided(mean, v) != self.truth(mean + square_root(v) @ points[:, 1])
            rows.append(wrong.reshape(REPLICAS, -1).mean(axis=1))
        return mean_of_replicas(np.array(rows))

    def samples_of(self, own: Array, cross: Array, true: Array, points: int = _POLICY.samples) -> NewSamples:
        """New samples of one estimate that was measured, from the normal law of fields with these inner products.

        Args:
            own: inner products of the estimated rows, shape (..., P, P): with axes in front for several estimates.
            cross: of estimated with true rows.
            true: of true rows.
            points: how many, a power of two.
        """
        joint = np.concatenate(
            [np.concatenate([own, cross], axis=-1), np.concatenate([np.swapaxes(cross, -1, -2), true], axis=-1)],
            axis=-2,
        )
        drawn = normal_points(4 * self.rows * self.columns, points, 1).reshape(points, -1, self.columns)
        both, deviations = np.split(drawn, 2, axis=1)
        estimated, fields = np.split(square_root(joint)[..., None, :, :] @ both, 2, axis=-2)
        return NewSamples(estimated, fields, deviations.reshape(points, 2, self.rows, self.columns))

    def wrong_on(self, samples: NewSamples, variance: Array) -> float:
        """Share of their labels, as :meth:`wrong_labels`, that the most probable one under this covariance misses."""
        return float(np.mean(self.decided(samples.estimated, variance) != self.truth(samples.fields)))

    def errors_on(self, samples: NewSamples, variance: Array) -> tuple[Array, Array]:
        """Squared errors on their labels, counted as :meth:`prediction_errors`.

        Args:
            samples: of one estimate, or with axes in front of several.
            variance: the covariance that each claims, shape (..., P, P), over which the Bayes predictor averages.

        Returns:
            Error of the average label over the claimed posterior, and of the label of the estimated rows.
        """
        label, plugin = (self._silent(part) for part in (samples.fields, samples.estimated))
        spread = np.moveaxis(square_root(variance)[..., None, None, :, :] @ samples.deviations, -3, 0)
        # Two independent means, of fields on either side: their product has no bias from the noise of either.
        first, second = (
            label - 0.5 * (self._silent(samples.estimated + part) + self._silent(samples.estimated - part))
            for part in spread
        )
        bayes, squares = (np.sum(part, axis=-1).mean(axis=-1) for part in (first * second, (label - plugin) ** 2))
        return bayes / self.error_unit, squares / self.error_unit

    def _silent(self, fields: Array) -> Array:
        """Labels of fields without their own noise, their entries on one axis."""
        flat = fields.reshape(-1, *fields.shape[-2:])
        labels = self.label_from(flat, np.zeros((len(flat), self.sources)))
        return labels.reshape(*fields.shape[:-2], -1)


def _replica_means(squares: Array, points: int) -> Array:
    """Sums over the entries of labels, averaged over the points of each replica."""
    return np.asarray(squares.reshape(REPLICAS, points, -1).sum(axis=2).mean(axis=1))
