r"""Errors on the labels of new samples with hidden states, and on the states.

A new sample has mean fields :math:`\omega = Qs_h + Q^{1/2}t` and true fields
:math:`\omega + Vs_h + V^{1/2}u`. The posterior mean of a label is a mixture over the states that the mean fields allow,

.. math:: \hat y(\omega) = \sum_hw_h(\omega)\,E_u\,g_h(\omega + Vs_h + V^{1/2}u).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from glassformer.channels.base import Channel
from glassformer.channels.confusion import label_tolerance
from glassformer.channels.sampled_error_bars import REPLICAS, mean_of_replicas
from glassformer.core.estimate import Array
from glassformer.inputs.hidden_states import HiddenStates, Indices
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points

# Points per replica on which wrong labels and states given labels are counted, each of which needs posteriors.
_DECISIONS = 512

StateWeights = Callable[[Array, Array, Array], Array]
"""Function from labels, mean fields and covariances to logarithms of the weights of the states, shape (n, H)."""


def tilted_label_errors(
    channel: Channel, states: HiddenStates, variance: Array, weights: StateWeights | None
) -> dict[str, Array]:
    """Return errors on labels and states at posterior covariances, (batch, P, P), by name, with standard errors.

    ``state_error`` is the share of new samples whose hidden state is not the most probable one given their inputs, and
    ``state_with_label_error`` the same given inputs and label.

    Args:
        channel: channel of the labels.
        states: hidden states.
        variance: posterior covariances.
        weights: weights of the states given labels, to count wrong labels and states; None not to count.
    """
    found: dict[str, list[Array]] = {}
    for v in variance:
        for name, replicas in _at(channel, states, np.asarray(v, dtype=float), weights).items():
            found.setdefault(name, []).append(replicas)
    errors: dict[str, Array] = {}
    for name, rows in found.items():
        errors[name], errors[name.replace("error", "standard_error")] = mean_of_replicas(np.array(rows))
    return {**errors, "label_noise": np.full(len(variance), channel.labels.noise)}


def _at(channel: Channel, states: HiddenStates, v: Array, weights: StateWeights | None) -> dict[str, Array]:
    """Return the means of each replica at one covariance, by name."""
    shape = channel.fields.rows, channel.fields.columns
    size, count = shape[0] * shape[1], channel.inference.points
    points = normal_points(1 + 4 * size, count, REPLICAS).reshape(-1, 1 + 4 * size)
    hidden = states.draw(ndtr(points[:, 0]))
    t, *u = (part.reshape(-1, *shape) for part in np.split(points[:, 1:], 4, axis=1))
    shift, root, overlap = states.shifts[hidden], square_root(v), np.eye(len(v)) - v
    mean = overlap @ shift + square_root(overlap) @ t
    fields = mean + v @ shift + root @ u[0]
    likeliest = np.argmax(states.log_weights(mean, v), axis=1)
    true = _true_labels(channel, states, fields, hidden)
    first, second = (channel.inference.mean_labels(mean, root @ own, v) for own in u[1:])
    squares = {
        "prediction_error": (true - first) * (true - second),
        "plugin_error": (true - channel.inference.plugin_labels(mean, v)) ** 2,
    }
    found = {
        name: part.reshape(REPLICAS, count, -1).sum(axis=2).mean(axis=1) / channel.labels.error_unit
        for name, part in squares.items()
    }
    found["state_error"] = np.mean((likeliest != hidden).reshape(REPLICAS, -1), axis=1)
    if weights is None:
        return found
    few = np.concatenate([np.arange(min(count, _DECISIONS)) + k * count for k in range(REPLICAS)])
    mean, fields, hidden = mean[few], fields[few], hidden[few]
    labels = channel.inference.sample_given(fields, hidden, np.random.default_rng(0))
    guess = np.argmax(weights(labels, mean, np.broadcast_to(v, (len(mean), *v.shape))), axis=1)
    found["state_with_label_error"] = np.mean((guess != hidden).reshape(REPLICAS, -1), axis=1)
    if channel.labels.discrete:
        decisions = _true_labels(channel, states, fields, hidden, decisions=True)
        wrong = np.abs(channel.inference.likeliest_labels(mean, v) - decisions) > label_tolerance(decisions)
        found["label_error"] = np.mean(wrong.reshape(REPLICAS, -1), axis=1)
    return found


def _true_labels(
    channel: Channel, states: HiddenStates, fields: Array, hidden: Indices, decisions: bool = False
) -> Array:
    """Return the labels without noise of fields and states, numbers or decisions."""
    true = np.zeros((len(fields), *channel.labels.shape))
    for state in range(states.count):
        where = np.flatnonzero(hidden == state)
        if len(where):
            labels = channel.inference.noiseless_labels(fields[where], state, decisions)
            true[where] = labels.reshape(len(where), *true.shape[1:])
    return true
