r"""Errors on the labels of new samples with hidden states, and on the states.

A new sample has mean fields :math:`\omega = Qs_h + Q^{1/2}t` and true fields
:math:`\omega + Vs_h + V^{1/2}u`. The posterior mean of a label is a mixture over the states that the mean fields allow,

.. math:: \hat y(\omega) = \sum_hw_h(\omega)\,E_u\,g_h(\omega + Vs_h + V^{1/2}u).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from glassformer.channels.confusion import label_tolerance
from glassformer.channels.sampled_error_bars import REPLICAS, mean_of_replicas
from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points

if TYPE_CHECKING:
    from glassformer.channels.tilted import TiltedChannel

# Points per replica on which wrong labels and states given labels are counted, each of which needs posteriors.
_DECISIONS = 512


def tilted_label_errors(channel: TiltedChannel, variance: Array, decisions: bool) -> dict[str, Array]:
    """Return errors on labels and states at posterior covariances, (batch, P, P), by name, with standard errors.

    ``state_error`` is the share of new samples whose hidden state is not the most probable one given their inputs, and
    ``state_with_label_error`` the same given inputs and label.
    """
    found: dict[str, list[Array]] = {}
    for v in variance:
        for name, replicas in _at(channel, np.asarray(v, dtype=float), decisions).items():
            found.setdefault(name, []).append(replicas)
    errors: dict[str, Array] = {}
    for name, rows in found.items():
        errors[name], errors[name.replace("error", "standard_error")] = mean_of_replicas(np.array(rows))
    return {**errors, "label_noise": np.full(len(variance), channel.labels.noise)}


def _at(channel: TiltedChannel, v: Array, decisions: bool) -> dict[str, Array]:
    """Return the means of each replica at one covariance, by name."""
    states, shape = channel.states, channel.fields.shape
    size, count = channel.rows * channel.columns, channel.points
    points = normal_points(1 + 4 * size, count, REPLICAS).reshape(-1, 1 + 4 * size)
    hidden = states.draw(ndtr(points[:, 0]))
    t, *u = (part.reshape(-1, *shape) for part in np.split(points[:, 1:], 4, axis=1))
    shift, root, overlap = states.shifts[hidden], square_root(v), np.eye(len(v)) - v
    mean = overlap @ shift + square_root(overlap) @ t
    likeliest = np.argmax(states.log_weights(mean, v), axis=1)
    true = channel.clean_given(mean + v @ shift + root @ u[0], hidden)
    predicted = [channel.mean_labels(mean, root @ own, v) for own in u[1:]]
    plugin = channel.plugin_labels(mean, v)
    squares = {
        "prediction_error": (true - predicted[0]) * (true - predicted[1]),
        "plugin_error": (true - plugin) ** 2,
    }
    found = {
        name: part.reshape(REPLICAS, count, -1).sum(axis=2).mean(axis=1) / channel.labels.error_unit
        for name, part in squares.items()
    }
    found["state_error"] = np.mean((likeliest != hidden).reshape(REPLICAS, -1), axis=1)
    if decisions:
        few = np.concatenate([np.arange(min(count, _DECISIONS)) + k * count for k in range(REPLICAS)])
        found |= _counted(channel, v, mean[few], hidden[few], (true[few], (mean + v @ shift + root @ u[0])[few]))
    return found


def _counted(
    channel: TiltedChannel, v: Array, mean: Array, hidden: Array, truth: tuple[Array, Array]
) -> dict[str, Array]:
    """Return the shares of wrong labels, if these are discrete, and of wrong states given the labels."""
    true, fields = truth
    repeated = np.broadcast_to(v, (len(mean), *v.shape))
    labels = channel.sample_given(fields, hidden, np.random.default_rng(0))
    guess = np.argmax(channel.state_log_weights(labels, mean, repeated), axis=1)
    found = {"state_with_label_error": np.mean((guess != hidden).reshape(REPLICAS, -1), axis=1)}
    if channel.labels.discrete:
        wrong = np.abs(channel.likeliest_label(mean, v) - true) > label_tolerance(true)
        found["label_error"] = np.mean(wrong.reshape(REPLICAS, -1), axis=1)
    return found
