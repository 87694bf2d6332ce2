"""Linear regression of a label on its field."""

from __future__ import annotations

import numpy as np

from glassformer.channels.labels import LabelNodes
from glassformer.channels.scalar.base import ScalarChannel
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array


def regression(channel: ScalarChannel) -> tuple[float, float]:
    r"""Return slope :math:`c_1 = E[hy]` and residual :math:`E[y^2] - c_1^2` of the regression of a label on its field.

    Raises:
        IncompatibleError: the moments are not known.

    Example:
        >>> from glassformer.channels.scalar.sign import SignChannel
        >>> slope, residual = regression(SignChannel())
        >>> bool(np.isclose(slope**2, 2 / np.pi) and np.isclose(residual, 1 - 2 / np.pi))
        True
    """
    labels = channel.labels
    if labels.regression is not None:
        return labels.regression
    if not labels.values:
        nodes = label_nodes(channel)
        slope = float(nodes.weight @ (nodes.y * nodes.mean))
        return slope, float(nodes.weight @ nodes.y**2) - slope**2
    y, nothing = np.array(labels.values), np.zeros(len(labels.values))
    chance = np.exp(channel.log_partition(y, nothing, 1.0))
    slope = float(np.sum(chance * channel.score(y, nothing, 1.0) * y))
    return slope, float(np.sum(chance * y**2)) - slope**2


def label_nodes(channel: ScalarChannel, finer: float = 1.0) -> LabelNodes:
    """Return a quadrature over continuous labels.

    Args:
        channel: channel of the labels.
        finer: factor of the usual number of nodes.

    Raises:
        IncompatibleError: the channel has no such quadrature.
    """
    if channel.labels.nodes is None:
        raise IncompatibleError(f"channel {channel.label} has no quadrature over its labels, which this loss needs")
    return channel.labels.nodes(finer)


def components_of(channel: ScalarChannel, labels: Array) -> Array:
    """Return linear labels of several entries as components in the order of the fields, other labels as they are."""
    if not (channel.labels.linear and channel.fields.shape):
        return labels
    # The score of a linear label is its difference from the field over the sum of both variances.
    nothing = np.zeros((len(labels), *channel.fields.shape))
    return channel.score(labels, nothing, 1.0) * (1.0 + channel.labels.noise)
