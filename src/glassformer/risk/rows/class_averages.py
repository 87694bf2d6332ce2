r"""Averages of a loss over the classes of a Gaussian mixture, for one linear row, by quadrature.

Given the class ``h``, whose mean is :math:`s_h` times the row of the teacher, the fitted field is normal with mean
:math:`ms_h` and variance ``q``. By parts, :math:`E\,gZ^* - m\,E\,\partial_\omega g = \sum_h\pi_hs_h\,E_hg`.

Source: Mignacco, Krzakala, Lu, Zdeborova, arXiv:2002.11544.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from glassformer.core.estimate import Array
from glassformer.risk.label_averages import SMALLEST, SampleAverages, _normal_panels
from glassformer.risk.order_parameters import ConjugateParameters, OrderParameters
from glassformer.risk.rows.one_row_averages import OneRowAverages


@dataclass(frozen=True)
class ClassAverages(OneRowAverages):
    """Averages over the classes of a mixture."""

    @cached_property
    def binary(self) -> bool:
        """False: labels are no function of the field, and enter as nodes."""
        return False

    @property
    def signs(self) -> bool:
        return set(self.joint.y.tolist()) == {-1.0, 1.0}

    @property
    def mirrored(self) -> bool:
        return False

    @property
    def exact_components(self) -> float:
        return 0.0

    def ridge_conjugates(self, alpha: Array, strength: Array) -> ConjugateParameters:
        r"""Return the closed form of ridge regression, with :math:`a = E\,ys` and :math:`\nu = E\,s^2` of the classes.

        .. math:: m = \frac{\hat Va}{\hat V(1 + \nu) + \lambda}, \qquad \hat m = \hat V(a - m\nu), \qquad
           \hat V = \frac\alpha{1 + V}, \qquad V = \frac1{\hat V + \lambda}.

        With an intercept labels and shifts are less their means.
        """
        joint = self.joint
        label, shift = joint.y, joint.field
        if self.has_intercept:
            label, shift = label - joint.weight @ label, shift - joint.weight @ shift
        slope, square, power = (float(joint.weight @ one) for one in (label * shift, shift**2, label**2))
        # The positive root of V (V_hat + strength) = 1.
        half = 0.5 * (strength + alpha - 1)
        susceptibility = (np.sqrt(half**2 + strength) - half) / strength
        v_hat = alpha / (1 + susceptibility)
        overlap = v_hat * slope / (v_hat * (1 + square) + strength)
        m_hat = v_hat * (slope - overlap * square)
        # The power and the residual are linear in each other.
        share, known = v_hat**2 / alpha / (v_hat + strength) ** 2, power - 2 * overlap * slope + overlap**2 * square
        estimate = ((m_hat / (v_hat + strength)) ** 2 + share * known) / (1 - share)
        q_hat = v_hat**2 / alpha * (known + estimate)
        return ConjugateParameters(q_hat / m_hat**2, m_hat, v_hat)

    def averages(self, order: OrderParameters) -> SampleAverages:
        return SampleAverages(*self._all_averages(order, True)[:-1])

    def without_losses(self, order: OrderParameters) -> SampleAverages:
        return SampleAverages(*self._all_averages(order, False)[:-1])

    def intercept(self, order: OrderParameters) -> Array:
        if not self.has_intercept:
            return np.zeros_like(order.power)
        return self._balance(order)[0]

    def slope_square(self, order: OrderParameters) -> Array:
        return self._all_averages(order, False)[-1]

    def label_error(self, order: OrderParameters) -> Array:
        """Return the share of new labels +1 and -1 that the sign of the fitted field misses; shape (batch,)."""
        joint, shift = self.joint, self.intercept(order)
        mean = joint.y[:, None] * (joint.field[:, None] * order.overlap + shift)
        return np.asarray(joint.weight @ ndtr(-mean / np.sqrt(np.maximum(order.power, SMALLEST))))

    def prediction_error(self, order: OrderParameters) -> Array:
        """Return the mean squared difference of new labels from the fitted field."""
        joint, shift = self.joint, self.intercept(order)
        mean = joint.y[:, None] - joint.field[:, None] * order.overlap - shift
        return np.asarray((joint.weight @ mean**2 + order.power) / float(self.channel.labels.error_unit))

    def margins_and_labels(self) -> tuple[Array, Array, Array]:
        joint = self.joint
        t, weight = _normal_panels([np.zeros((len(joint.y), 1))], self.nodes)
        y = np.broadcast_to(joint.y[:, None], t.shape)
        probability = weight * joint.weight[:, None]
        return (y * (joint.field[:, None] + t)).ravel(), y.ravel(), probability.ravel()
