r"""Prediction errors on the labels of new samples.

A new sample has mean fields :math:`\omega`, and true fields that differ from them by a normal deviation with the
covariance of the posterior. Averages are over quasi-random points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.base import Channel
from glassformer.channels.confusion import label_tolerance
from glassformer.channels.labelling import clean_labels, true_label_mixture, true_labels
from glassformer.channels.sampled_error_bars import REPLICAS, mean_of_replicas
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points

_SAMPLES = 512  # number of new samples on which the error of one estimate is measured; chosen by trial
# The same for fields of a sampler: averages over them have the error of independent samples, 1 to 2 %.
_DRAWN_SAMPLES = 8192
_POSTERIOR_POINTS = 64  # antithetic pairs of a predicted mean; the posterior of a fit claims no more digits
_DECISIONS = 512  # points per replica on which wrong labels are counted, each of which needs a posterior; by trial


class PredictionErrors(NamedTuple):
    r"""Squared prediction errors at posterior covariances of shape (batch, P, P), each of shape (batch,).

    Attributes:
        bayes: error of the posterior mean, :math:`E\|y - E[y\mid\omega]\|^2`, without label noise.
        plugin: error of the label of the mean fields, :math:`E\|y - g(\omega)\|^2`.
        last_layer: the same with the mean fields of the last layer only; None if no last layer is given.
    """

    bayes: Estimate
    plugin: Estimate
    last_layer: Estimate | None = None


class NewSamples(NamedTuple):
    """New samples: fields of one or several estimates, and true fields.

    Attributes:
        estimated: fields of the estimate, shape (n, P, K), or (..., n, P, K) for several estimates.
        fields: true fields.
        deviations: two standard normal deviations for each sample, shape (n, 2, P, K), to draw fields from a posterior.
    """

    estimated: Array
    fields: Array
    deviations: Array


def prediction_errors(channel: Channel, variance: Array, last_layer: Array | None = None) -> PredictionErrors:
    r"""Return the errors on the labels of new samples, from antithetic pairs of fields around their mean.

    The error of the plug-in predictor exceeds that of the posterior mean by :math:`E\|E[y|\omega]-g(\omega)\|^2`.
    This difference is estimated directly: in the mean of a pair, odd terms in the deviation cancel.

    Args:
        channel: channel of the labels.
        variance: posterior covariances, shape (batch, P, P).
        last_layer: 1 for the rows of the last layer, 0 for the others, shape (P,).
    """
    variance = np.asarray(variance, dtype=float)
    shape = channel.fields.rows, channel.fields.columns
    count = channel.inference.points
    points = normal_points(3 * shape[0] * shape[1], count, REPLICAS).reshape(-1, 3, *shape)
    used = [np.ones(channel.fields.rows), *([] if last_layer is None else [last_layer])]
    rows = []
    for v in variance:
        mean, root = square_root(channel.fields.self_overlap - v) @ points[:, 0], square_root(v)
        pairs = [[clean_labels(channel, mean + sign * root @ points[:, k]) for sign in (1, -1)] for k in (1, 2)]
        differences = np.mean([(first - second) ** 2 for first in pairs[0] for second in pairs[1]], axis=0)
        first, second = (0.5 * (above + below) for above, below in pairs)
        plugin = [clean_labels(channel, rows_used[:, None] * mean) for rows_used in used]
        squares = [0.5 * differences, *((first - own) * (second - own) for own in plugin)]
        rows.append(np.array([_replica_means(part, count) for part in squares]) / channel.labels.error_unit)
    bayes, *gaps = np.moveaxis(np.array(rows), 1, 0)
    exact = mean_of_replicas(bayes)
    # The difference is a mean square: a negative estimate is zero within its error.
    plugin_errors = [
        Estimate(exact.value + np.maximum(gap.mean(axis=1), 0.0), mean_of_replicas(bayes + gap).error) for gap in gaps
    ]
    return PredictionErrors(exact, *plugin_errors)


def sampled_label_errors(
    channel: Channel, variance: Array, last_layer: Array | None = None, decisions: bool = True
) -> dict[str, Array]:
    """Return the errors of :meth:`~glassformer.channels.base.Channel.label_errors` by sampling."""
    squared = prediction_errors(channel, variance, last_layer)
    errors = {
        "prediction_error": squared.bayes.value,
        "prediction_standard_error": squared.bayes.error,
        "plugin_error": squared.plugin.value,
        "plugin_standard_error": squared.plugin.error,
        "label_noise": np.full(len(variance), channel.labels.noise),
    }
    if channel.labels.discrete and decisions:
        errors["label_error"], errors["label_standard_error"] = wrong_labels(channel, variance)
    if squared.last_layer is not None:
        errors["plugin_error_last_layer"] = squared.last_layer.value
    return errors


def wrong_labels(channel: Channel, variance: Array) -> Estimate:
    """Return the share of new labels that differ from the most probable one, entry by entry."""
    shape = channel.fields.rows, channel.fields.columns
    points = normal_points(2 * shape[0] * shape[1], _DECISIONS, REPLICAS).reshape(-1, 2, *shape)
    rows = []
    for v in variance:
        mean = square_root(channel.fields.self_overlap - v) @ points[:, 0]
        true = true_labels(channel, mean + square_root(v) @ points[:, 1])
        wrong = _differ(channel.inference.likeliest_labels(mean, v), true)
        rows.append(wrong.reshape(REPLICAS, -1).mean(axis=1))
    return mean_of_replicas(np.array(rows))


def new_samples(channel: Channel, own: Array, cross: Array, true: Array, points: int | None = None) -> NewSamples:
    """Draw new samples for a measured estimate: fields are normal with these inner products as covariances.

    Shifts of the tokens along the true rows move them by the products of the shifts with the inner products.

    Args:
        channel: channel of the labels.
        own: inner products of the estimated rows, shape (..., P, P), with leading axes for several estimates.
        cross: inner products of estimated with true rows.
        true: inner products of true rows.
        points: number of samples, a power of two; 512 by default, and 8192 for fields of a sampler.
    """
    points = points or (_DRAWN_SAMPLES if channel.fields.drawn else _SAMPLES)
    joint = np.concatenate(
        [np.concatenate([own, cross], axis=-1), np.concatenate([np.swapaxes(cross, -1, -2), true], axis=-1)], axis=-2
    )
    rows, columns = channel.fields.rows, channel.fields.columns
    sources = channel.fields.sources
    drawn = normal_points(4 * rows * columns + sources, points, 1)[0]
    source, normal = np.split(drawn, [sources], axis=1)
    both, deviations = np.split(normal.reshape(points, -1, columns), 2, axis=1)
    estimated, fields = np.split(square_root(joint)[..., None, :, :] @ both, 2, axis=-2)
    if sources:
        shift = channel.fields.shifts(fields, source, true)
        estimated, fields = estimated + cross[..., None, :, :] @ shift, fields + true[..., None, :, :] @ shift
    return NewSamples(estimated, fields, deviations.reshape(points, 2, rows, columns))


def predicted_labels(channel: Channel, fields: Array, variance: Array) -> Array:
    """Return predictions of labels: the most probable ones of discrete labels, else the means over the posterior.

    Args:
        channel: channel of the labels.
        fields: fields of equally good estimates, shape (estimates, samples, P, K).
        variance: posterior covariance that they claim, shape (P, P).

    Returns:
        Shape (samples, ...): for discrete labels the most frequent prediction of the estimates, else their mean.
    """
    if channel.labels.discrete:
        # Imported here: slow to import, and not needed for anything else.
        from scipy.stats import mode

        labels = np.array([channel.inference.likeliest_labels(one, variance) for one in fields])
        return np.asarray(mode(labels, axis=0).mode)
    points = normal_points(fields.shape[-2] * fields.shape[-1], _POSTERIOR_POINTS, 1)[0]
    deviations = square_root(variance) @ points.reshape(-1, *fields.shape[-2:])
    used = deviations if np.any(variance) else np.zeros((1, *fields.shape[-2:]))
    repeated = np.broadcast_to(variance, (fields.shape[1], *variance.shape))
    means = [
        channel.inference.mean_labels(one, np.broadcast_to(own, one.shape), repeated) for one in fields for own in used
    ]
    return np.asarray(np.mean(means, axis=0))


def wrong_labels_on(channel: Channel, samples: NewSamples, variance: Array) -> float:
    """Return the share of labels of samples that differ from the most probable one under this covariance."""
    likeliest = channel.inference.likeliest_labels(samples.estimated, variance)
    true = true_label_mixture(channel, samples.fields, True)
    return float(sum(np.mean(_weighted(share, _differ(likeliest, labels))) for share, labels in true))


def squared_errors_on(channel: Channel, samples: NewSamples, variance: Array) -> tuple[Array, Array]:
    """Return squared errors on the labels of samples, in the units of :func:`prediction_errors`.

    Args:
        channel: channel of the labels.
        samples: new samples of one estimate, or of several with leading axes.
        variance: posterior covariance that each estimate claims, shape (..., P, P).

    Returns:
        Error of the mean label over the claimed posterior, and error of the label of the estimated fields.
    """
    lead, shape = samples.estimated.shape[:-2], samples.estimated.shape[-2:]
    repeated = np.broadcast_to(variance[..., None, :, :], (*lead, *variance.shape[-2:])).reshape(
        -1, *variance.shape[-2:]
    )
    mean = samples.estimated.reshape(-1, *shape)
    plugin = channel.inference.plugin_labels(mean, repeated).reshape(*lead, -1)
    spread = np.moveaxis(square_root(variance)[..., None, None, :, :] @ samples.deviations, -3, 0)
    # Two independent means over antithetic pairs: their product has no bias from the noise of either.
    first, second = (
        channel.inference.mean_labels(mean, part.reshape(-1, *shape), repeated).reshape(*lead, -1) for part in spread
    )
    found = np.zeros((2, *lead[:-1]))
    for share, labels in true_label_mixture(channel, samples.fields.reshape(-1, *shape), False):
        label, weight = labels.reshape(*lead, -1), share.reshape(lead)
        squares = (label - first) * (label - second), (label - plugin) ** 2
        found += [(weight * np.sum(part, axis=-1)).mean(axis=-1) for part in squares]
    return found[0] / channel.labels.error_unit, found[1] / channel.labels.error_unit


def _weighted(share: Array, values: NDArray[np.bool_]) -> Array:
    """Return values of data points, shape (n, ...), times weights of shape (n,)."""
    return np.asarray(share.reshape(-1, *(1,) * (values.ndim - 1)) * values)


def _differ(first: Array, second: Array) -> NDArray[np.bool_]:
    """Return which entries of discrete labels, shape (n, ...), differ by more than rounding."""
    return np.asarray(np.abs(first - second) > label_tolerance(second))


def _replica_means(squares: Array, points: int) -> Array:
    """Return sums over the entries of labels, averaged over the points of each replica."""
    return np.asarray(squares.reshape(REPLICAS, points, -1).sum(axis=2).mean(axis=1))
