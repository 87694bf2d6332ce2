r"""Averages of a loss over labels and fitted fields, which give conjugate parameters from order parameters.

With :math:`\omega\sim N(0, q)`, :math:`\omega_0 = (m/q)\,\omega`, :math:`V_0 = Q_0 - m^2/q`,
:math:`Z_0 = E_{h\sim N(\omega_0, V_0)}P_{out}(y\mid h)` and the score ``g`` of the loss,

.. math:: \hat m = \alpha\,E_\omega\!\int\!dy\,\frac{\partial Z_0}{\partial\omega_0}\,g, \quad
   \hat q = \alpha\,E\!\int\!dy\,Z_0\,g^2, \quad \hat V = -\alpha\,E\!\int\!dy\,Z_0\,\frac{\partial g}{\partial\omega}.

This module computes the averages of losses of one field, and :mod:`~glassformer.risk.attention_averages` those of
cross-entropy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from glassformer.channels.labels import LabelNodes
from glassformer.channels.regression import components_of, label_nodes, regression
from glassformer.channels.scalar.gaussian import GaussianChannel
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels
from glassformer.risk.loss_base import Loss
from glassformer.risk.order_parameters import ConjugateParameters, OrderParameters

# Integrals over standard normal variables end here: the probability beyond is 2e-17.
TAIL = 8.5
# Overlaps, powers and conditional variances below this count as zero, so that quotients stay finite.
EMPTY = 1e-14
# Floor of powers and overlaps in errors of labels, which depend on their ratio.
SMALLEST = 1e-300
# Gauss nodes per panel at the first accuracy, doubled from one accuracy to the next up to the largest number.
NODES, _MOST_NODES = 16, 64
# Ends of panels around a step of the label's law, in units of its width (chosen by trial).
_AROUND_STEP = np.array([-6.0, -3.0, -1.0, 1.0, 3.0, 6.0])
# Size of the arrays of one batch, in numbers, and the approximate number of panels. Smaller ones stay in the cache, but
# the C library then returns their memory to the system after every operation (measured).
_BATCH_NUMBERS, _PANELS = 4_000_000, 12
# Weights of a margin, among which the best one is.
_MARGIN_WEIGHTS = (-60.0, 0.0)


class SampleAverages(NamedTuple):
    r"""Averages per sample, shape (batch,).

    Attributes:
        m_hat: :math:`\hat m/\alpha`.
        q_hat: :math:`\hat q/\alpha`.
        v_hat: :math:`\hat V/\alpha`.
        training_loss: :math:`E\,\ell(y, p)` on training samples.
        test_loss: :math:`E\,\ell(y, \omega)` on new samples.
    """

    m_hat: Array
    q_hat: Array
    v_hat: Array
    training_loss: Array
    test_loss: Array


@dataclass(frozen=True)
class LabelAverages:
    """Averages over the labels of a channel and the fitted fields, for the loss of the student.

    Attributes:
        channel: channel of the teacher.
        power: :math:`Q_0`, variance of the teacher's field.
        loss: loss of the student.
        nodes: Gauss nodes per panel.
        interpolating: True for the square loss with an infinite factor, which fits all labels.
    """

    channel: Any
    power: float
    loss: Loss
    nodes: int = field(default=NODES, kw_only=True)
    interpolating: bool = field(default=False, kw_only=True)

    @property
    def components(self) -> float:
        """Number of components of the field of one sample."""
        return float(np.prod(self.channel.fields.shape))

    @property
    def exact_components(self) -> float:
        """Number of components of the field that the labels of one sample determine exactly."""
        return self.components if self.channel.labels.linear and self.regression[1] == 0 else 0.0

    @property
    def binary(self) -> bool:
        """True when labels are +1 and -1."""
        return set(self.channel.labels.values) == {-1.0, 1.0}

    @property
    def has_label_error(self) -> bool:
        """True for classification: the best student is then that of least label error."""
        return self.binary

    has_intercept = default_property(False, "Whether a number is fitted that is added to the field.")

    @property
    def finer(self) -> LabelAverages | None:
        """The averages at the next accuracy; None if they are exact, or at the highest accuracy."""
        exact = self.loss.quadratic or self.nodes >= _MOST_NODES
        return None if exact else replace(self, nodes=2 * self.nodes)

    def ridge_conjugates(self, alpha: Array, strength: Array) -> ConjugateParameters | None:
        """Return the conjugate parameters of ridge regression, where these labels have a closed form of their own.

        Args:
            alpha: sample ratios, shape (batch,).
            strength: of half the squared norm, shape (batch,).
        """
        del alpha, strength
        return None

    @property
    def replicas(self) -> Iterator[LabelAverages]:
        """For sampled averages, the averages over each of the disjoint sets of points."""
        return iter(())

    def targets(self, labels: Array) -> Array:
        """Return labels of data in the form that the loss expects."""
        return np.asarray(components_of(self.channel, labels))

    @cached_property
    def regression(self) -> tuple[float, float]:
        """Slope of the linear regression of a label on its field, and the variance of the residual."""
        return (0.0, 0.0) if self.channel.labels.even else regression(self.channel)

    def averages(self, order: OrderParameters) -> SampleAverages:
        """Return the averages at these order parameters.

        Raises:
            IncompatibleError: labels have several components, and the loss is not the square.
        """
        if self.loss.quadratic:
            return self._square(order)
        if self.channel.fields.shape and not self.channel.labels.linear:
            raise IncompatibleError(f"loss {self.loss.name} has no theory for labels of several numbers: use square")
        averages = self._discrete if self.channel.labels.values else self._continuous
        labels = len(self.channel.labels.values) or len(self._nodes.y)
        rows = max(1, _BATCH_NUMBERS // (labels * _PANELS * self.nodes))
        parts = [
            averages(OrderParameters(*(part[begin : begin + rows] for part in order)))
            for begin in range(0, len(order.power), rows)
        ]
        return SampleAverages(*(self.components * np.concatenate(every) for every in zip(*parts, strict=True)))

    def label_error(self, order: OrderParameters) -> Array:
        """Return the share of new noiseless labels that the fitted field predicts wrongly, shape (batch,)."""
        clean = replace(self, channel=self.channel.without_noise)
        # Interpolators of equally many samples and unknowns have infinite power.
        root = np.sqrt(np.minimum(_column(order.power, SMALLEST), 1 / EMPTY))
        y, t, density, _ = clean._label_law(order, [np.array(clean.channel.labels.steps) / root], SMALLEST)
        return np.asarray(np.sum(density * (y != clean.channel.likeliest_label(root * t, 0.0)), axis=(1, 2)))

    def margins(self) -> tuple[Array, Array]:
        """Return products of labels +1 and -1 with their fields, and the probability of each."""
        y = np.array(self.channel.labels.values)[:, None]
        steps = [np.broadcast_to(step / np.sqrt(self.power), (len(y), 1)) for step in self.channel.labels.steps]
        t, weight = _normal_panels(steps, self.nodes)
        field = np.sqrt(self.power) * t
        probability = weight * np.exp(self.channel.log_partition(y, field, np.full_like(field, EMPTY)))
        return (y * field).ravel(), probability.ravel()

    @property
    def separability(self) -> float:
        r"""Samples per degree of freedom below which some signal separates labels +1 and -1.

        :math:`1/\alpha = \min_{c\le 0}E\,(Z + c\,y h)_+^2` with ``Z`` standard normal.
        """
        margin, probability = self.margins()

        def mean_square(weight: float) -> float:
            t = weight * margin
            square = (1 + t**2) * ndtr(t) + t * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
            return float(np.sum(probability * square))

        best = minimize_scalar(mean_square, bounds=_MARGIN_WEIGHTS, method="bounded", options={"xatol": 1e-10})
        return np.inf if best.x < 0.9 * _MARGIN_WEIGHTS[0] else float(1 / best.fun)

    def _square(self, order: OrderParameters) -> SampleAverages:
        """Return the averages of the square loss: the student learns the linear part of the link, the rest is noise."""
        slope, rest = self.regression
        residual = rest + order.error + (slope**2 - 1) * self.power - 2 * (slope - 1) * order.overlap
        share, count = 1 / ((0.0 if self.interpolating else 1.0) + order.susceptibility), self.components
        loss = 0.5 * count * residual
        return SampleAverages(count * slope * share, 2 * loss * share**2, count * share, loss * share**2, loss)

    def _discrete(self, order: OrderParameters) -> SampleAverages:
        """Return sums over the values of the label; panels of the fitted field end at fast changes of the integrand."""
        y, root = np.array(self.channel.labels.values)[:, None], np.sqrt(_column(order.power))
        breakpoints = self.loss.breakpoints(y, _column(order.susceptibility))
        y, t, density, label_score = self._label_law(order, [part / root for part in breakpoints])
        return self._sum(order, y, root * t, density, label_score)

    def _label_law(
        self, order: OrderParameters, cuts: list[Array], least: float = EMPTY
    ) -> tuple[Array, Array, Array, Array]:
        r"""Return labels, standardised fitted fields, their probabilities, and :math:`\partial\log Z_0`."""
        y, shape = np.array(self.channel.labels.values)[:, None], (len(order.power), len(self.channel.labels.values))
        root, m = np.sqrt(_column(order.power, least)), _column(order.overlap, least)
        variance = np.maximum(self.power - (m / root) ** 2, EMPTY)
        steps = ((step + _AROUND_STEP * np.sqrt(variance)) * root / m for step in self.channel.labels.steps)
        edges = [np.broadcast_to(part, (*shape, part.shape[-1])) for part in (*cuts, *steps)]
        t, weight = _normal_panels(edges, self.nodes)
        field = m / root * t
        probability = weight * np.exp(self.channel.log_partition(y, field, variance))
        return y, t, probability, self.channel.score(y, field, variance)

    def _continuous(self, order: OrderParameters) -> SampleAverages:
        """Return integrals over nodes of the label, given which true and fitted field are jointly normal."""
        q, m = _column(order.power), _column(order.overlap)
        y, probability, mean, spread = (part[:, None] for part in self._nodes)
        slope, variance = m / self.power, np.maximum(self.power - m**2 / q, EMPTY)
        centre, width = slope * mean, np.sqrt(np.maximum(q - m * slope + slope**2 * spread, EMPTY**2))
        cuts = [(point - centre) / width for point in self.loss.breakpoints(y, _column(order.susceptibility))]
        edges = [np.broadcast_to(part, (len(q), len(y), part.shape[-1])) for part in cuts]
        t, weight = _normal_panels(edges, self.nodes)
        omega, field = centre + width * t, mean + slope * spread / width * t
        return self._sum(order, y, omega, weight * probability, (field - m / q * omega) / variance)

    @cached_property
    def _nodes(self) -> LabelNodes:
        """Nodes of one label; for linear labels, of one component, as the loss is a sum over equal components."""
        finer = self.nodes / NODES
        if not self.channel.labels.linear:
            return label_nodes(self.channel, finer)
        unit = np.sqrt(self.power)
        y, weight, mean, variance = label_nodes(GaussianChannel(self.regression[1] / self.power), finer)
        return LabelNodes(unit * y, weight, unit * mean, self.power * variance)

    def _sum(self, order: OrderParameters, y: Array, omega: Array, weight: Array, label_score: Array) -> SampleAverages:
        v = _column(order.susceptibility)
        score, curvature = self.loss.score(y, omega, v)
        losses = (self.loss.value(y, fitted) for fitted in (omega + v * score, omega))
        values = (label_score * score, score**2, curvature, *losses)
        return SampleAverages(*(np.sum(weight * part, axis=(1, 2)) for part in values))


def _column(values: Array, least: float = EMPTY) -> Array:
    """Return positive numbers of shape (batch, 1, 1)."""
    return np.maximum(values, least)[:, None, None]


def _normal_panels(cuts: list[Array], nodes: int) -> tuple[Array, Array]:
    """Return nodes of a standard normal variable and weights, on panels between cuts of shape (..., count)."""
    shape = cuts[0].shape[:-1] if cuts else ()
    fixed = np.broadcast_to([-TAIL, -3.0, 0.0, 3.0, TAIL], (*shape, 5))
    edges = np.sort(np.clip(np.concatenate([fixed, *cuts], axis=-1), -TAIL, TAIL), axis=-1)
    t, weight = gauss_panels(edges, nodes)
    return t, weight * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
