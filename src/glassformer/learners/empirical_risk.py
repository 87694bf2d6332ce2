r"""Empirical risk: a regularised risk on given inputs, with a certified bound on the distance from its minimum.

The risk is :math:`F(S) = \sum_\mu\ell(y_\mu, h_\mu(S)) + p(S)` with a penalty on the singular values, for instance
:math:`p = w_1\|S\|_* + \frac{w_2}2\|S\|^2`. Any slopes ``u`` of the loss give a value of the dual problem,
:math:`-\sum_\mu\ell^*(y_\mu, u_\mu) - p^*(-A^Tu)`, and the duality gap bounds the distance from the minimum. A loss
with kinks is smoothed by its envelope around slopes :math:`v`, initially zero,

.. math:: \ell_{\epsilon, v}(y, h) = \min_p\,\ell(y, p) + v\,(h-p) + \frac{(p-h)^2}{2\epsilon},

which has the minimiser of the loss if ``v`` is the slope of the loss there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import eigh, singular_values, svd
from glassformer.risk.loss_base import Loss
from glassformer.risk.penalty_base import Penalty

# Share of the penalty in the risk of an estimate of zero below which gaps are relative to the penalty, and gaps of the
# size of rounding errors, relative to the risk of an estimate of zero.
_SMALL_PENALTY, _ROUNDING = 1e-2, 1e-13


class Certificate(NamedTuple):
    """Bound on the distance of an estimate from the minimum.

    A small penalty is a small part of the risk: a gap that is small beside the risk would not determine the estimate.

    Attributes:
        gap: duality gap, relative to the risk of an estimate of zero, or to a hundred times the penalty of the estimate
            if that is less; gaps of the size of rounding errors are relative to the risk of zero.
        envelope_gap: duality gap of the smoothed risk, in the same units.
        risk: risk of the estimate.
    """

    gap: float
    envelope_gap: float
    risk: float


class EmpiricalRisk(NamedTuple):
    """A regularised risk on the first instance of a design.

    Attributes:
        design: inputs, for signals of one matrix or of several matrices, each with its own penalty.
        labels: labels of the samples, in the form that the loss expects.
        loss: loss of labels and fields.
        penalty: of the singular values, or eigenvalues, in the metric of the design's signals, with its strength.
        positive: whether estimates are positive symmetric matrices.
        trace: known trace of the estimates, for positive matrices without another penalty; None if unknown.
    """

    design: Any
    labels: Array
    loss: Loss
    penalty: Penalty
    positive: bool = False
    trace: float | None = None

    @property
    def smooth(self) -> bool:
        """Whether loss and penalty are differentiable, and the penalty is strictly convex."""
        unconstrained = self.penalty.quadratic and not self.positive and self.trace is None
        return unconstrained and self.penalty.square > 0 and bool(np.isfinite(self.loss.sharpness))

    def with_strength_times(self, times: float) -> EmpiricalRisk:
        """Return the risk with another strength of the penalty."""
        return self._replace(penalty=self.penalty.times(times))

    def proximal(self, matrix: Array, step: float) -> tuple[Array, Array]:
        """Return the penalty's proximal map, and its singular values or eigenvalues (empty without spectral part)."""
        if self.positive:
            values, vectors = eigh(matrix)
            shrunk = self.shrink(values, step)
            return (vectors * shrunk[..., None, :]) @ np.swapaxes(vectors, -1, -2), shrunk
        if self.penalty.quadratic:
            return self.penalty.proximal(matrix, step), np.zeros(0)
        left, values, right = svd(matrix)
        shrunk = self.shrink(values, step)
        return (left * shrunk[..., None, :]) @ right, shrunk

    def shrink(self, values: Array, step: float) -> Array:
        """Return the proximal map of singular values, or eigenvalues."""
        if self.trace is not None:
            return project_on_simplex(values, self.trace)
        return np.maximum(self.penalty.proximal(values, step), 0.0)

    def slopes(self, fields: Array, width: float, around: Array | float = 0.0) -> Array:
        """Return slopes of the loss, or for a positive width those of its envelope around given slopes."""
        if width == 0:
            return self.loss.slope(self.labels, fields)
        widths = self.widths(width)
        return -self.loss.score(self.labels, fields + widths * around, widths)[0]

    def widths(self, width: float) -> Array:
        """Return the envelope widths of the samples, inversely proportional to their weights."""
        return width / np.asarray(self.loss.weights)

    def metric_unit(self, matrix: Array) -> float:
        """Return the design's inner product in units of the sum over entries, measured along a matrix."""
        fields = self.design.forward(matrix, 0)
        total = float(np.sum(matrix * self.design.adjoint(fields, 0)))
        return float(np.sum(fields**2)) / total if total != 0 else 1.0

    def risk_of_zero(self, fields: Array) -> float:
        """Return the risk of an estimate of zero, the unit of gaps; ``fields`` give the shape only."""
        return max(float(np.sum(self.loss.value(self.labels, np.zeros_like(fields)))), 1e-300)

    def certificate(
        self,
        matrix: Array,
        values: Array,
        fields: Array,
        unit: float,
        width: float,
        risk_of_zero: float,
        around: Array | float = 0.0,
    ) -> Certificate:
        """Return the duality gap of a matrix.

        Args:
            matrix: the estimate.
            values: its singular values, or eigenvalues, if the penalty has a spectral part.
            fields: fields of the matrix.
            unit: result of :meth:`metric_unit`.
            width: width of the envelope, zero for none.
            risk_of_zero: result of :meth:`risk_of_zero`.
            around: slopes around which the envelope is taken.
        """
        slopes, widths = self.slopes(fields, width, around), self.widths(width)
        shifted = fields + widths * around
        loss = float(np.sum(self.loss.value(self.labels, fields)))
        penalty = unit * float(np.sum(self.penalty.value(matrix if self.penalty.quadratic else values)))
        pull = -self.design.adjoint(slopes, 0)
        penalty_conjugate, share = 0.0, 1.0
        if self.trace is not None:
            penalty_conjugate = unit * self.trace * float(np.max(self._dual_values(pull)))
        elif self.penalty.is_norm:
            # Slopes scaled into the ball of the dual norm.
            share = min(1.0, self.penalty.kink / max(float(np.max(self._dual_values(pull))), 1e-300))
        else:
            # Negative eigenvalues never meet a positive matrix, and no minimiser has a penalty above this risk.
            pulls, reach = np.maximum(self._dual_values(pull), 0.0), (loss + penalty) / unit
            penalty_conjugate = unit * self.penalty.conjugate_bound(pulls, 1.0, reach)
        dual = -float(np.sum(self.loss.conjugate_at(self.labels, shifted, slopes, share))) - penalty_conjugate
        # Negative values are rounding errors; the absolute value gives their size.
        gap, scale = abs(loss + penalty - dual), risk_of_zero
        # An estimate of zero is the minimiser if its slopes are in the ball of the dual norm.
        zero = penalty == 0 and penalty_conjugate == 0 and share == 1
        if self.trace is None and not zero:
            scale = gap_scale(gap, penalty, risk_of_zero)
        certificate = Certificate(gap / scale, gap / scale, loss + penalty)
        if width == 0:
            return certificate
        envelope = self.loss.envelope(self.labels, shifted, widths) - 0.5 * widths * np.square(around)
        quadratic = 0.5 * float(np.sum(widths * (share * slopes - around) ** 2))
        return certificate._replace(envelope_gap=(float(np.sum(envelope)) + penalty - dual + quadratic) / scale)

    def _dual_values(self, pull: Array) -> Array:
        """Return the arguments of the penalty's conjugate: eigenvalues, singular values, or the norm."""
        if self.positive:
            return eigh(pull)[0]
        if self.penalty.quadratic:
            return np.array([np.sqrt(np.sum(pull**2))])
        return singular_values(pull)


def gap_scale(gap: float, penalty: float, risk_of_zero: float) -> float:
    """Return the unit of a gap: the risk of an estimate of zero, or a hundred times the penalty if that is less.

    A gap of the size of rounding errors of the risk is relative to the risk of zero.
    """
    if gap <= _ROUNDING * risk_of_zero:
        return risk_of_zero
    return max(min(risk_of_zero, penalty / _SMALL_PENALTY), 1e-300)


def certified_gap(risk: EmpiricalRisk, matrix: Array) -> float:
    """Return the duality gap of any matrix, in the units of :class:`Certificate`.

    Args:
        risk: a risk with a differentiable loss.
        matrix: matrix of the design's signal shape; positive if the risk requires it.
    """
    values = np.maximum(eigh(matrix)[0], 0.0) if risk.positive else singular_values(matrix)
    fields = risk.design.forward(matrix, 0)
    return risk.certificate(matrix, values, fields, risk.metric_unit(matrix), 0.0, risk.risk_of_zero(fields)).gap


def project_on_simplex(values: Array, total: float) -> Array:
    """Return the Euclidean projection on the numbers >= 0 with this sum.

    Example:
        >>> project_on_simplex(np.array([3.0, 1.0, -1.0]), 3.0)
        array([2.5, 0.5, 0. ])
    """
    ordered = np.sort(values)[::-1]
    lowered = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    count = int(np.sum(ordered > lowered))
    return np.maximum(values - lowered[count - 1], 0.0)
