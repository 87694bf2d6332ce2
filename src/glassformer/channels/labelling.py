"""Labels of fields of shape (n, P, K): drawn, or without noise."""

from __future__ import annotations

import numpy as np

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
