r"""Averages of a loss over the labels of one row, by quadrature.

The label averages of matrices (:mod:`glassformer.risk.label_averages`) hold for one row of power one: true and fitted
field have the same joint law. Labels +1 and -1 have a probability that is a function of the true field, from which
:math:`Z_0` follows without the posterior of the channel; other labels are nodes of a joint quadrature with the true
field. An intercept ``b``, a number added to the fitted field, is the one with :math:`E\,g = 0`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.special import ndtr

from glassformer.core.cache import memoize
from glassformer.core.estimate import Array
from glassformer.risk.label_averages import (
    _AROUND_STEP,
    _BATCH_NUMBERS,
    _PANELS,
    EMPTY,
    SMALLEST,
    LabelAverages,
    SampleAverages,
    _column,
    _normal_panels,
)
from glassformer.risk.loss_base import Loss, ResidualAverages
from glassformer.risk.order_parameters import OrderParameters
from glassformer.risk.rows.one_row_labels import BinaryLaw, JointNodes

# Newton steps for the intercept, and the relative one that ends them, as the root of the product of the last two:
# averages are extrapolated along the last step, with an error of about that product, and the next is of its square.
_STEPS, _LAST_STEP = 60, 1e-6
# Averages at an intercept: score, field and score, square, slope, two losses, square of the slope.
_SUMS = 7
# Latest intercepts from which the next ones start, in sets (chosen by trial).
_LATEST = 16
# Place of infinite order parameters.
_FAR = 1e3
# Rounding error of a mean score and of its slope.
_ROUNDING = 1e-15
# Weight of a margin from which on labels count as separable at any number.
_LARGEST_WEIGHT = 60.0
# Gauss nodes per panel of the first averages, which double until two accuracies agree (chosen by trial).
_NODES = 10
# Gauss nodes per panel of noise on labels, for losses that are not of the residual, of the first averages.
_NOISE_NODES = 6


@dataclass(frozen=True)
class OneRowAverages(LabelAverages):
    """Averages over the labels of a channel of one field, for a linear student of one row.

    Attributes:
        model: of the teacher, of one index and one token.
        has_intercept: whether a number is fitted that is added to the field.
        last_intercepts: those found last with the places of their order parameters, near which the next ones are.
    """

    model: Any = field(kw_only=True)
    has_intercept: bool = field(default=False, kw_only=True)
    last_intercepts: deque[tuple[Array, Array]] = field(
        default_factory=lambda: deque(maxlen=_LATEST), compare=False, repr=False, kw_only=True
    )

    @classmethod
    def of(cls, model: Any, loss: Loss, has_intercept: bool = False) -> OneRowAverages:
        """Return the averages over the labels of a model."""
        return cls(model.channel, 1.0, loss, nodes=_NODES, model=model, has_intercept=has_intercept)

    @property
    def components(self) -> float:
        return 1.0

    @cached_property
    def binary(self) -> bool:
        return self.joint.noise == 0 and set(np.unique(self.joint.y)) == {-1.0, 1.0}

    @property
    def signs(self) -> bool:
        """Whether all labels are +1 or -1."""
        return self.binary

    @property
    def has_label_error(self) -> bool:
        return self.signs

    @property
    def finer(self) -> OneRowAverages | None:
        # Closed averages over residuals depend on the nodes of the labels alone.
        if not self.binary and self.loss.residual_averages(np.zeros(1), np.ones(1), np.ones(1)) is not None:
            return None
        found: Any = super().finer
        return found

    @property
    def exact_components(self) -> float:
        slope, rest = self.regression
        return 1.0 if rest <= EMPTY * slope**2 else 0.0

    @cached_property
    def joint(self) -> JointNodes:
        """Labels and true fields."""
        joint: JointNodes = memoize(lambda: JointNodes.of(self.model), "labels of one row", self.model)
        return joint

    @cached_property
    def regression(self) -> tuple[float, float]:
        slope, rest = self.joint.regression
        return slope, rest - (self.joint.mean**2 if self.has_intercept else 0.0)

    @cached_property
    def law(self) -> BinaryLaw:
        """Probability of the label +1."""
        law: BinaryLaw = memoize(lambda: BinaryLaw.of(self.model), "law of binary labels", self.model)
        return law

    @property
    def mirrored(self) -> bool:
        """Whether both labels have the same averages."""
        return self.loss.binary and not self.has_intercept and self.law.odd

    def averages(self, order: OrderParameters) -> SampleAverages:
        """Return the averages at these order parameters."""
        if self.loss.quadratic:
            return self._square(order)
        return SampleAverages(*self._all_averages(order, True)[:-1])

    def without_losses(self, order: OrderParameters) -> SampleAverages:
        """Return the averages that the next conjugate parameters need; losses are NaN."""
        if self.loss.quadratic:
            return self._square(order)
        return SampleAverages(*self._all_averages(order, False)[:-1])

    def intercept(self, order: OrderParameters) -> Array:
        r"""Return the intercept, with :math:`E\,g = 0`, at these order parameters; zero without one."""
        if not self.has_intercept or self.loss.quadratic:
            return np.full_like(order.power, self.joint.mean if self.has_intercept else 0.0)
        return self._balance(order)[0]

    def slope_square(self, order: OrderParameters) -> Array:
        r"""Return :math:`E(\partial_\omega g)^2`."""
        if self.loss.quadratic:
            return self._square(order).v_hat ** 2
        return self._all_averages(order, False)[-1]

    def _all_averages(self, order: OrderParameters, with_losses: bool) -> tuple[Array, ...]:
        """Return the averages, and that of the squared slope of the score."""
        shift = np.zeros_like(order.power)
        if self.has_intercept:
            shift, found = self._balance(order)
            if not with_losses:
                return tuple(found[1:])
        parts = [self._at_intercept(*part, with_losses)[1:] for part in self._batches(order, shift)]
        return tuple(np.concatenate(every) for every in zip(*parts, strict=True))

    def _balance(self, order: OrderParameters) -> tuple[Array, Array]:
        """Return the intercept at which the mean score vanishes, and the averages there."""
        parts = [self._balanced(*part) for part in self._batches(order, self._near_intercepts(order))]
        shift, found = (np.concatenate(every, axis=-1) for every in zip(*parts, strict=True))
        if np.all(np.isfinite(shift)):
            self.last_intercepts.append((_places(order), shift))
        return shift, found

    def _batches(self, order: OrderParameters, shift: Array) -> Iterator[tuple[OrderParameters, Array]]:
        """Split order parameters and intercepts such that arrays over all nodes stay small."""
        labels = 2 if self.binary else len(self._joint_of_loss.y)
        rows = max(1, _BATCH_NUMBERS // (labels * _PANELS * self.nodes))
        for begin in range(0, len(shift), rows):
            part = slice(begin, begin + rows)
            yield OrderParameters(*(own[part] for own in order)), shift[part]

    def _balanced(self, order: OrderParameters, shift: Array) -> tuple[Array, Array]:
        """Return the balance of one batch, by Newton's method from an intercept nearby."""
        size = len(order.power)
        # The score changes over the width of the field, and within its longest step.
        longest = 1 + np.sqrt(np.minimum(order.power, 1 / EMPTY)) + np.minimum(order.susceptibility, 1 / EMPTY)
        low, high = np.full(size, -np.inf), np.full(size, np.inf)
        found, last = np.zeros((_SUMS, size)), np.full(size, np.inf)
        for _ in range(_STEPS):
            before, found = found, np.array(self._at_intercept(order, shift, False))
            score, curvature = found[0].copy(), found[3]
            # Weights close to zero leave a range of intercepts of equal loss, of which Newton's method keeps the first.
            score[np.maximum(np.abs(score), curvature) <= _ROUNDING] = 0.0
            low, high = np.where(score > 0, shift, low), np.where(score < 0, shift, high)
            step = np.clip(score / np.maximum(curvature, EMPTY), -longest, longest)
            # Where the score is nearly a step function Newton's method may go back and forth: the bracket is halved.
            outside = np.where(score > 0, shift + step >= high, (score < 0) & (shift + step <= low))
            step[outside] = 0.5 * (low[outside] + high[outside]) - shift[outside]
            shift = shift + step
            if np.all(np.abs(step) * np.minimum(np.abs(last), 1.0) <= (_LAST_STEP * (1 + np.abs(shift))) ** 2):
                found = found + step / np.where(last == 0, np.inf, last) * (found - before)
                break
            last = step
        return shift, found

    def _near_intercepts(self, order: OrderParameters) -> Array:
        """Return the intercepts of the nearest order parameters among the latest; zero if there are none."""
        places = _places(order)
        if not self.last_intercepts:
            return np.zeros(len(places))
        known, intercepts = (np.concatenate(parts) for parts in zip(*self.last_intercepts, strict=True))
        return np.asarray(intercepts[cKDTree(known).query(places)[1]])

    def _at_intercept(self, order: OrderParameters, shift: Array, with_losses: bool) -> tuple[Array, ...]:
        """Return the mean score, the averages, and that of the squared slope of the score."""
        residual = None if self.binary else self._residual_averages(order, shift)
        if residual is not None:
            score, square, curvature, curvature_square, training, test = (self.joint.weight @ part for part in residual)
            # By parts, the average with the true field given the fitted one is that of field and score.
            m_hat = (self.joint.weight * self.joint.field) @ residual.score + self._by_parts(order, curvature)
            return score, m_hat, square, curvature, training, test, curvature_square
        y, omega, weight, truth = self._label_nodes(order, shift)
        v = _column(order.susceptibility)
        score, slope = self.loss.score(y, omega, v)
        fitted = (omega + v * score, omega)
        losses = [self.loss.value(y, one) for one in fitted] if with_losses else [np.full((1, 1, 1), np.nan)] * 2
        # Losses of new labels may be infinite.
        with np.errstate(invalid="ignore"):
            values = (truth * score, *(weight * part for part in (score, score**2, slope, *losses, slope**2)))
            m_hat, mean, square, curvature, *rest = (_total(part) for part in values)
        # By parts, the average with the true field given the fitted one is that of field and score.
        m_hat = m_hat if self.binary else m_hat + self._by_parts(order, curvature)
        return mean, m_hat, square, curvature, *rest

    def _by_parts(self, order: OrderParameters, curvature: Array) -> Array:
        """Return the average of field and score that the variance of the true field at its nodes leaves out."""
        return (1 - self.joint.field_variance) * order.overlap * curvature

    def _field_variance(self, order: OrderParameters, joint: JointNodes) -> Array:
        """Return the variance of the fitted field around its mean at a node, and of noise on the label."""
        known = (1 - joint.field_variance) * order.overlap**2
        return np.asarray(np.maximum(order.power - known, EMPTY) + joint.noise)

    def _residual_averages(self, order: OrderParameters, shift: Array) -> ResidualAverages | None:
        """Return closed averages over the fitted field at every label, shape (nodes, batch), where they are known."""
        joint = self.joint
        mean = joint.y[:, None] - shift - joint.field[:, None] * order.overlap
        variance = self._field_variance(order, joint)
        return self.loss.residual_averages(mean, np.broadcast_to(variance, mean.shape), order.susceptibility)

    def _label_nodes(self, order: OrderParameters, shift: Array) -> _Nodes:
        return self._binary_nodes(order, shift) if self.binary else self._continuous_nodes(order, shift)

    def _binary_nodes(self, order: OrderParameters, shift: Array) -> _Nodes:
        y = np.array([[1.0]]) if self.mirrored else np.array([[-1.0], [1.0]])
        root, m, b = np.sqrt(_column(order.power)), _column(order.overlap), shift[:, None, None]
        variance = np.maximum(self.power - (m / root) ** 2, EMPTY)
        cuts = [(part - b) / root for part in self.loss.breakpoints(y, _column(order.susceptibility))]
        cuts += [(step + _AROUND_STEP * np.sqrt(variance)) * root / m for step in self.law.steps]
        edges = [np.broadcast_to(part, (len(root), len(y), part.shape[-1])) for part in cuts]
        t, weight = _normal_panels(edges, self.nodes)
        chance, slope = self.law.chance(m / root * t, variance, self.nodes)
        truth = weight * y * slope
        chance = np.where(y > 0, chance, 1 - chance) * weight
        factor = 2.0 if self.mirrored else 1.0
        return _Nodes(y, root * t + b, factor * chance, factor * truth)

    def _continuous_nodes(self, order: OrderParameters, shift: Array) -> _Nodes:
        """Return nodes of labels, and of the fitted field given the true one.

        Noise on the label counts as noise on the field, for losses of their difference.
        """
        m, b, joint = _column(order.overlap), shift[:, None, None], self._joint_of_loss
        y, field, probability = (part[:, None] for part in (joint.y, joint.field, joint.weight))
        centre, width = m * field + b, np.sqrt(self._field_variance(order, joint))[:, None, None]
        cuts = [(place - centre) / width for place in self.loss.breakpoints(y, _column(order.susceptibility))]
        edges = [np.broadcast_to(part, (len(m), len(y), part.shape[-1])) for part in (np.zeros((1, 1, 1)), *cuts)]
        t, weight = _normal_panels(edges, self.nodes)
        weight = weight * probability
        return _Nodes(y, centre + width * t, weight, weight * field)

    @cached_property
    def _joint_of_loss(self) -> JointNodes:
        if self.loss.of_residual:
            return self.joint
        return self.joint.with_noise(round(_NOISE_NODES * self.nodes / _NODES))

    def label_error(self, order: OrderParameters) -> Array:
        """Return the share of new labels +1 and -1 that the sign of the fitted field misses; shape (batch,).

        Labels are without their own noise where they have any without it.
        """
        clean = self.channel.without_noise
        law = self.law if clean is self.channel else BinaryLaw.of_channel(clean)
        shift = self.intercept(order)
        root = np.sqrt(np.minimum(_column(order.power, SMALLEST), 1 / EMPTY))
        m = np.minimum(_column(order.overlap, SMALLEST), root)
        variance = np.maximum(self.power - (m / root) ** 2, EMPTY)
        cuts = [-shift[:, None, None] / root]
        cuts += [(step + _AROUND_STEP * np.sqrt(variance)) * root / m for step in law.steps]
        t, weight = _normal_panels([np.broadcast_to(part, (len(root), 1, part.shape[-1])) for part in cuts], self.nodes)
        chance, _ = law.chance(m / root * t, variance, self.nodes)
        positive = root * t + shift[:, None, None] > 0
        return _total(weight * np.where(positive, 1 - chance, chance))

    def prediction_error(self, order: OrderParameters) -> Array:
        """Return the mean squared difference of new labels, without their noise, from the fitted field."""
        slope, rest = self.regression
        square = rest - self.joint.own_noise + slope**2 * self.power - 2 * slope * order.overlap + order.power
        mean = self.joint.mean if self.has_intercept else 0.0
        return np.asarray(square + (self.intercept(order) - mean) ** 2) / float(self.channel.labels.error_unit)

    @property
    def at_exact_fit(self) -> OneRowAverages:
        """The averages of an estimate that fits all labels."""
        loss = self.loss.exact_fit
        return replace(self, loss=loss, interpolating=loss.quadratic)

    @cached_property
    def separability(self) -> float:
        r"""Sample ratio below which some weights separate the labels +1 and -1.

        :math:`1/\alpha = \min_{c,b}E(Z + c\,yh + b\,y)_+^2`, without an intercept :math:`b = 0`.
        """
        margin, label, probability = self.margins_and_labels()

        def mean_square(weights: Array) -> tuple[float, Array]:
            t = weights[0] * margin + (weights[1] * label if self.has_intercept else 0.0)
            chance, density = ndtr(t), np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
            square, first = (1 + t**2) * chance + t * density, 2 * (t * chance + density)
            slopes = np.array([probability @ (first * margin), probability @ (first * label)])
            return float(probability @ square), slopes * [1.0, float(self.has_intercept)]

        bounds = [(-_LARGEST_WEIGHT, 0.0), (-_LARGEST_WEIGHT, _LARGEST_WEIGHT)]
        options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 1000}
        found = minimize(mean_square, [-0.5, 0.0], jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        return np.inf if np.max(np.abs(found.x)) > 0.9 * _LARGEST_WEIGHT else float(1 / found.fun)

    def margins(self) -> tuple[Array, Array]:
        margin, _, probability = self.margins_and_labels()
        return margin, probability

    def margins_and_labels(self) -> tuple[Array, Array, Array]:
        """Return products of labels +1 and -1 with their fields, the labels, and the probability of each."""
        y = np.array([[1.0], [-1.0]])
        steps = [np.broadcast_to(step, (2, 1)) for step in [*self.law.steps, -1.0, 1.0]]
        t, weight = _normal_panels(steps, self.nodes)
        chance, _ = self.law.chance(t, np.full_like(t, EMPTY), self.nodes)
        probability = weight * np.where(y > 0, chance, 1 - chance)
        return (y * t).ravel(), np.broadcast_to(y, t.shape).ravel(), probability.ravel()


class _Nodes(NamedTuple):
    r"""Nodes of labels and fitted fields.

    Attributes:
        y: labels.
        omega: fitted fields, intercept included.
        weight: probabilities.
        truth: probabilities times :math:`\partial_{\omega_0}\log Z_0` for labels +1 and -1, times the true field for
            others.
    """

    y: Array
    omega: Array
    weight: Array
    truth: Array


def _places(order: OrderParameters) -> Array:
    """Return points in space, one for each set of order parameters, near each other where intercepts are."""
    power, susceptibility = (np.maximum(part, EMPTY) for part in (order.power, order.susceptibility))
    places = [0.5 * np.log(power), order.overlap / np.sqrt(power), np.log(susceptibility)]
    return np.nan_to_num(np.stack(places, axis=1), posinf=_FAR, neginf=-_FAR)


def _total(values: Array) -> Array:
    return np.asarray(np.sum(values, axis=(1, 2)))
