r"""What a loss makes of labels: averages over teacher and fitted field.

With :math:`\omega\sim N(0, q)`, :math:`\omega_0 = (m/q)\,\omega`, :math:`V_0 = Q_0 - m^2/q`,
:math:`Z_0 = E_{h\sim N(\omega_0, V_0)}P_{out}(y\mid h)` and the score ``g`` of the loss,

.. math:: \hat m = \alpha\,E_\omega\!\int\!dy\,\frac{\partial Z_0}{\partial\omega_0}\,g, \quad
   \hat q = \alpha\,E\!\int\!dy\,Z_0\,g^2, \quad \hat V = -\alpha\,E\!\int\!dy\,Z_0\,\frac{\partial g}{\partial\omega}.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.numerics.quadrature import gauss_panels
from glassformer.models.channels.scalar import LabelNodes
from glassformer.theory.risk.losses import Loss
from glassformer.theory.risk.penalties import Learned

# Where standard normal variables end, and nodes per panel of them.
_TAIL, _NODES = 8.5, 16
# Panels around a step of the label's law, in units of its width.
_AROUND = np.array([-6.0, -3.0, -1.0, 1.0, 3.0, 6.0])
# An overlap or power of less is none.
_NONE = 1e-14


class Answers(NamedTuple):
    r"""Averages per sample, shape (batch,).

    Attributes:
        gain: :math:`\hat m/\alpha`.
        power: :math:`\hat q/\alpha`.
        stiffness: :math:`\hat V/\alpha`.
        training_loss: :math:`E\,\ell(y, p)` on the samples learned from.
        test_loss: :math:`E\,\ell(y, \omega)` on new ones.
    """

    gain: Array
    power: Array
    stiffness: Array
    training_loss: Array
    test_loss: Array


def answers(channel: Any, power: float, loss: Loss, found: Learned) -> Answers:
    """The averages of a loss over the labels of a channel.

    Args:
        channel: of the teacher.
        power: :math:`Q_0`, of the teacher's field.
        loss: of the student.
        found: what the student has learned.

    Raises:
        IncompatibleError: labels that this loss is not for.
    """
    if loss.quadratic:
        return _square(channel, power, found)
    if channel.field_components:
        raise IncompatibleError(f"loss {loss.name} has no theory for labels of several numbers: use square")
    if channel.values:
        return _discrete(channel, power, loss, found)
    if loss.binary:
        raise IncompatibleError(f"loss {loss.name} is for labels +1 and -1, not for those of channel {channel.label}")
    return _continuous(channel.label_nodes(), power, loss, found)


def _square(channel: Any, power: float, found: Learned) -> Answers:
    """The linear part of the link teaches, the rest of it is noise."""
    slope, rest = channel.regression
    residual = rest + found.error + (slope**2 - 1) * power - 2 * (slope - 1) * found.overlap
    share, count = 1 / (1 + found.susceptibility), float(np.prod(channel.field_components, dtype=float))
    return Answers(
        count * slope * share,
        count * residual * share**2,
        count * share,
        0.5 * count * residual * share**2,
        0.5 * count * residual,
    )


def _discrete(channel: Any, power: float, loss: Loss, found: Learned) -> Answers:
    """Sums over the values of the label; the fitted field is cut where score or label change fast."""
    y = np.array(channel.values)[:, None]
    if loss.binary and not np.all(np.abs(y) == 1):
        raise IncompatibleError(f"loss {loss.name} is for labels +1 and -1, not for {y.ravel().tolist()}")
    q, v, m = (np.maximum(part, _NONE)[:, None, None] for part in (found.power, found.susceptibility, found.overlap))
    left = np.maximum(power - m**2 / q, _NONE)
    root = np.sqrt(q)
    steps = _AROUND * np.sqrt(left) * root / m
    cuts = [np.broadcast_to(part / root, (len(q), len(y), 1)) for part in loss.bends(y, v)]
    t, weight = _panels([*cuts, np.broadcast_to(steps, (len(q), len(y), len(_AROUND)))])
    omega, field = root * t, m / root * t
    density = weight * np.exp(channel.log_partition(y, field, left))
    score, curvature = loss.score(y, omega, v)
    values = (
        density * channel.score(y, field, left) * score,
        density * score**2,
        density * curvature,
        density * loss.value(y, omega + v * score),
        density * loss.value(y, omega),
    )
    return Answers(*(np.sum(part, axis=(1, 2)) for part in values))


def _continuous(nodes: LabelNodes, power: float, loss: Loss, found: Learned) -> Answers:
    """At each node of the label the fitted field is normal, and what it tells of the true one is linear."""
    q, v, m = (np.maximum(part, _NONE)[:, None, None] for part in (found.power, found.susceptibility, found.overlap))
    y, mean, spread = (part[:, None] for part in (nodes.y, nodes.mean, nodes.variance))
    slope, left = m / power, np.maximum(power - m**2 / q, _NONE)
    centre, width = slope * mean, np.sqrt(np.maximum(q - m * slope + slope**2 * spread, _NONE**2))
    cuts = [(place - centre) / width for place in loss.bends(y, v)]
    t, weight = _panels([np.broadcast_to(part, (len(q), len(y), 1)) for part in cuts])
    omega, weight = centre + width * t, weight * nodes.weight[:, None]
    field = mean + slope * spread / width * t
    score, curvature = loss.score(y, omega, v)
    values = (
        weight * score * (field - m / q * omega) / left,
        weight * score**2,
        weight * curvature,
        weight * loss.value(y, omega + v * score),
        weight * loss.value(y, omega),
    )
    return Answers(*(np.sum(part, axis=(1, 2)) for part in values))


def _panels(cuts: list[Array]) -> tuple[Array, Array]:
    """Nodes of a standard normal variable with their probability, on panels between cuts of shape (..., count)."""
    shape = cuts[0].shape[:-1]
    fixed = np.broadcast_to([-_TAIL, -3.0, 0.0, 3.0, _TAIL], (*shape, 5))
    edges = np.sort(np.clip(np.concatenate([fixed, *cuts], axis=-1), -_TAIL, _TAIL), axis=-1)
    t, weight = gauss_panels(edges, _NODES)
    return t, weight * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)


def label_error(channel: Any, power: float, found: Learned) -> Array:
    """Share of new labels +1 and -1 that are not the sign of the fitted field, shape (batch,)."""
    q, m = (np.maximum(part, _NONE)[:, None, None] for part in (found.power, found.overlap))
    left, y = np.maximum(power - m**2 / q, _NONE), np.array(channel.values)[:, None]
    steps = np.concatenate([_AROUND * np.sqrt(left) * np.sqrt(q) / m, np.zeros_like(m)], axis=2)
    t, weight = _panels([np.broadcast_to(steps, (len(q), len(y), steps.shape[2]))])
    chance = np.exp(channel.log_partition(y, m / np.sqrt(q) * t, left))
    return np.asarray(np.sum(weight * chance * (y * t < 0), axis=(1, 2)))
