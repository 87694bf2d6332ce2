"""Labels of fields of shape (n, P, K): drawn, or without noise."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from glassformer.channels.base import Channel
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array


def draw_labels(channel: Channel, fields: Array, rng: np.random.Generator) -> Array:
    """Draw one label per data point.

    Example:
        >>> from glassformer.channels.scalar.sign import SignChannel
        >>> draw_labels(SignChannel(), np.array([[[0.3]], [[-2.0]]]), np.random.default_rng(0))
        array([ 1., -1.])
    """
    return channel.sample(fields.reshape(len(fields), *channel.fields.shape), rng)


def is_predictable(channel: Channel) -> bool:
    """Return whether labels without noise are numbers that are determined by the fields."""
    return channel.clean is not None and not channel.labels.classes


def clean_labels(channel: Channel, fields: Array) -> Array:
    """Return labels without noise.

    Raises:
        IncompatibleError: labels without noise do not exist.
    """
    if channel.clean is None:
        raise IncompatibleError(f"channel {channel.label} has no labels without noise")
    return np.asarray(channel.clean(fields.reshape(len(fields), *channel.fields.shape)))


def true_labels(channel: Channel, fields: Array) -> Array:
    """Return discrete labels without noise, shape (n, ...).

    Raises:
        IncompatibleError: labels are not discrete.
    """
    return channel.inference.likeliest_labels(fields, np.zeros((channel.fields.rows,) * 2))


def true_label_mixture(channel: Channel, fields: Array, decisions: bool) -> list[tuple[Array, Array]]:
    """Return the labels without noise that known fields allow: probabilities, shape (n,), and labels, shape (n, ...).

    There is one for each hidden state, with its probability given the fields, and a single one without hidden states.

    Args:
        channel: channel of the labels.
        fields: shape (n, P, K).
        decisions: whether labels are the most probable discrete ones, rather than the means of numbers.

    Raises:
        IncompatibleError: labels without noise do not exist.
    """
    states = channel.fields.states
    if states is None:
        return [(np.ones(len(fields)), (true_labels if decisions else clean_labels)(channel, fields))]
    weights = softmax(states.log_weights(fields), axis=1)
    return [
        (share, channel.inference.noiseless_labels(fields, state, decisions)) for state, share in enumerate(weights.T)
    ]
