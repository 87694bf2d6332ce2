r"""What a loss makes of labels: averages over teacher and fitted field.

With :math:`\omega\sim N(0, q)`, :math:`\omega_0 = (m/q)\,\omega`, :math:`V_0 = Q_0 - m^2/q`,
:math:`Z_0 = E_{h\sim N(\omega_0, V_0)}P_{out}(y\mid h)` and the score ``g`` of the loss,

.. math:: \hat m = \alpha\,E_\omega\!\int\!dy\,\frac{\partial Z_0}{\partial\omega_0}\,g, \quad
   \hat q = \alpha\,E\!\int\!dy\,Z_0\,g^2, \quad \hat V = -\alpha\,E\!\int\!dy\,Z_0\,\frac{\partial g}{\partial\omega}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from glassformer.channels.scalar.base import LabelNodes
from glassformer.channels.scalar.gaussian import GaussianChannel
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels
from glassformer.risk.loss import Loss
from glassformer.risk.penalties import Learned


@dataclass(frozen=True)
class Quadrature:
    """How far and how finely averages over labels and fields go.

    Attributes:
        tail: where standard normal variables end.
        nodes: per panel of them.
        finest: the same at most.
        around: panels around a step of the label's law, in units of its width.
        panels: that there are, about.
        batch: numbers that averages treated at once may take.
        none: an overlap or power of less is none.
    """

    tail: float = 8.5
    nodes: int = 16
    finest: int = 64
    around: tuple[float, ...] = (-6.0, -3.0, -1.0, 1.0, 3.0, 6.0)
    panels: int = 12
    batch: int = 4_000_000
    none: float = 1e-14


POLICY = Quadrature()


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


@dataclass(frozen=True)
class Labels:
    """Labels of a channel, and the loss that a student has of them.

    Attributes:
        channel: of the teacher.
        power: :math:`Q_0`, of the teacher's field.
        loss: of the student.
        nodes: per panel of a quadrature.
        fitted: whether a quadratic loss is so large that all labels are fitted.
    """

    channel: Any
    power: float
    loss: Loss
    nodes: int = field(default=POLICY.nodes, kw_only=True)
    fitted: bool = field(default=False, kw_only=True)

    @property
    def components(self) -> float:
        """Of the field of one sample."""
        return float(np.prod(self.channel.field_components))

    @property
    def exact(self) -> float:
        """Components of the field of a sample that labels show without noise."""
        return self.components if self.channel.linear and self.regression[1] == 0 else 0.0

    @property
    def binary(self) -> bool:
        """Whether labels are +1 and -1."""
        return set(self.channel.values) == {-1.0, 1.0}

    @property
    def decided(self) -> bool:
        """Whether labels are right or wrong, so that the best student is the one that is wrong least often."""
        return self.binary

    @property
    def finer(self) -> Labels | None:
        """The same with more accurate averages; None where none are."""
        return None if self.loss.quadratic or self.nodes >= POLICY.finest else replace(self, nodes=2 * self.nodes)

    @property
    def replicas(self) -> Iterator[Labels]:
        """The same with averages over one part of the points each, where these are sampled."""
        return iter(())

    def targets(self, labels: Array) -> Array:
        """Labels of data as the loss takes them."""
        return np.asarray(self.channel.components_of(labels))

    @cached_property
    def regression(self) -> tuple[float, float]:
        """Of a label on its field: the slope, zero where labels are blind to signs, and what is left."""
        return (0.0, 0.0) if self.channel.even else self.channel.regression

    def answers(self, found: Learned) -> Answers:
        """The averages at what the student has learned.

        Raises:
            IncompatibleError: labels that this loss is not for.
        """
        if self.loss.quadratic:
            return self._square(found)
        if self.channel.field_components and not self.channel.linear:
            raise IncompatibleError(f"loss {self.loss.name} has no theory for labels of several numbers: use square")
        if self.loss.binary and not self.binary:
            told = f"channel {self.channel.label}"
            raise IncompatibleError(f"loss {self.loss.name} is for labels +1 and -1, not for those of {told}")
        averages = self._discrete if self.channel.values else self._continuous
        labels = len(self.channel.values) or len(self._nodes.y)
        rows = max(1, POLICY.batch // (labels * POLICY.panels * self.nodes))
        parts = [
            averages(Learned(*(part[begin : begin + rows] for part in found)))
            for begin in range(0, len(found.power), rows)
        ]
        return Answers(*(self.components * np.concatenate(every) for every in zip(*parts, strict=True)))

    def wrong(self, found: Learned) -> Array:
        """Share of new labels without their own noise that differ from those of the fitted field, shape (batch,)."""
        clean = replace(self, channel=self.channel.without_noise)
        # Interpolators of as many samples as unknowns have no finite power.
        root = np.sqrt(np.minimum(_column(found.power), 1 / POLICY.none))
        y, t, density, _ = clean._steps(found, [np.array(clean.channel.steps) / root])
        return np.asarray(np.sum(density * (y != clean.channel.truth(root * t)), axis=(1, 2)))

    def margins(self) -> tuple[Array, Array]:
        """Products of labels +1 and -1 with their fields, and their chances."""
        y = np.array(self.channel.values)[:, None]
        steps = [np.broadcast_to(step / np.sqrt(self.power), (len(y), 1)) for step in self.channel.steps]
        t, weight = _panels(steps, self.nodes)
        field = np.sqrt(self.power) * t
        chance = weight * np.exp(self.channel.log_partition(y, field, np.full_like(field, POLICY.none)))
        return (y * field).ravel(), chance.ravel()

    def _square(self, found: Learned) -> Answers:
        """The linear part of the link teaches, the rest of it is noise."""
        slope, rest = self.regression
        residual = rest + found.error + (slope**2 - 1) * self.power - 2 * (slope - 1) * found.overlap
        share, count = 1 / ((0.0 if self.fitted else 1.0) + found.susceptibility), self.components
        loss = 0.5 * count * residual
        return Answers(count * slope * share, 2 * loss * share**2, count * share, loss * share**2, loss)

    def _discrete(self, found: Learned) -> Answers:
        """Sums over the values of the label; the fitted field is cut where score or label change fast."""
        y, root = np.array(self.channel.values)[:, None], np.sqrt(_column(found.power))
        bends = self.loss.bends(y, _column(found.susceptibility))
        y, t, density, pull = self._steps(found, [part / root for part in bends])
        return self._averaged(found, y, root * t, density, pull)

    def _steps(self, found: Learned, cuts: list[Array]) -> tuple[Array, Array, Array, Array]:
        """Values of the label, nodes of the fitted field over its deviation, their chances, and scores of the truth."""
        y, shape = np.array(self.channel.values)[:, None], (len(found.power), len(self.channel.values))
        root, m = np.sqrt(_column(found.power)), _column(found.overlap)
        left = np.maximum(self.power - (m / root) ** 2, POLICY.none)
        every = [*cuts, *((step + np.array(POLICY.around) * np.sqrt(left)) * root / m for step in self.channel.steps)]
        t, weight = _panels([np.broadcast_to(part, (*shape, part.shape[-1])) for part in every], self.nodes)
        field = m / root * t
        chance = weight * np.exp(self.channel.log_partition(y, field, left))
        return y, t, chance, self.channel.score(y, field, left)

    def _continuous(self, found: Learned) -> Answers:
        """At each node of the label the fitted field is normal, and what it tells of the true one is linear."""
        q, m = _column(found.power), _column(found.overlap)
        y, probability, mean, spread = (part[:, None] for part in self._nodes)
        slope, left = m / self.power, np.maximum(self.power - m**2 / q, POLICY.none)
        centre, width = slope * mean, np.sqrt(np.maximum(q - m * slope + slope**2 * spread, POLICY.none**2))
        cuts = [(place - centre) / width for place in self.loss.bends(y, _column(found.susceptibility))]
        t, weight = _panels([np.broadcast_to(part, (len(q), len(y), part.shape[-1])) for part in cuts], self.nodes)
        omega, field = centre + width * t, mean + slope * spread / width * t
        return self._averaged(found, y, omega, weight * probability, (field - m / q * omega) / left)

    @cached_property
    def _nodes(self) -> LabelNodes:
        """Of one component: those of linear labels are alike, and losses act on each of them."""
        finer = self.nodes / POLICY.nodes
        if not self.channel.linear:
            return self.channel.label_nodes(finer)
        unit = np.sqrt(self.power)
        y, weight, mean, variance = GaussianChannel(self.regression[1] / self.power).label_nodes(finer)
        return LabelNodes(unit * y, weight, unit * mean, self.power * variance)

    def _averaged(self, found: Learned, y: Array, omega: Array, weight: Array, pull: Array) -> Answers:
        """Sums over labels and fitted fields; ``pull`` is the score of the true field there."""
        v = _column(found.susceptibility)
        score, curvature = self.loss.score(y, omega, v)
        losses = (self.loss.value(y, fitted) for fitted in (omega + v * score, omega))
        values = (pull * score, score**2, curvature, *losses)
        return Answers(*(np.sum(weight * part, axis=(1, 2)) for part in values))


def _column(values: Array) -> Array:
    """Numbers of shape (batch, 1, 1), none of them zero."""
    return np.maximum(values, POLICY.none)[:, None, None]


def _panels(cuts: list[Array], nodes: int) -> tuple[Array, Array]:
    """Nodes of a standard normal variable with their probability, on panels between cuts of shape (..., count)."""
    shape = cuts[0].shape[:-1]
    fixed = np.broadcast_to([-POLICY.tail, -3.0, 0.0, 3.0, POLICY.tail], (*shape, 5))
    edges = np.sort(np.clip(np.concatenate([fixed, *cuts], axis=-1), -POLICY.tail, POLICY.tail), axis=-1)
    t, weight = gauss_panels(edges, nodes)
    return t, weight * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
