r"""A regularised risk over given inputs, and how far from its minimum a matrix is at most.

The risk is :math:`F(S) = \sum_\mu\ell(y_\mu, h_\mu(S)) + p(S)` with a penalty
:math:`p = w_1\|S\|_* + \frac{w_2}2\|S\|^2`. Any slopes ``u`` of the loss give a point of the dual problem,
:math:`-\sum_\mu\ell^*(y_\mu, u_\mu) - p^*(-A^Tu)`, and the gap between the two values bounds what is missing. A loss
with kinks is approached through its envelope around slopes :math:`v`, that of zero at first,

.. math:: \ell_{\epsilon, v}(y, h) = \min_p\,\ell(y, p) + v\,(h-p) + \frac{(p-h)^2}{2\epsilon},

whose slope at the minimum is that of the loss where ``v`` is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import eigh, singular_values, svd
from glassformer.risk.loss_base import Loss


class Certificate(NamedTuple):
    """What a dual value says of an estimate.

    Attributes:
        gap: how far at most its risk is from the least, relative to the risk of zero.
        closer: the same of envelopes.
        risk: of the estimate.
    """

    gap: float
    closer: float
    risk: float


class Risk(NamedTuple):
    """What is minimised, over the first instance of a design.

    Attributes:
        design: inputs. Its signals are matrices, or several, each of which is penalised by itself.
        labels: of its samples, as the loss takes them.
        loss: of labels and fields.
        spectral: :math:`w_1`, in the metric of the design's signals.
        square: :math:`w_2`, in that metric.
        positive: whether estimates are positive symmetric matrices.
        trace: of estimates, where it is known; positive matrices alone, and no other penalty.
    """

    design: Any
    labels: Array
    loss: Loss
    spectral: float
    square: float
    positive: bool = False
    trace: float | None = None

    @property
    def smooth(self) -> bool:
        """Whether slopes of the loss and of the penalty are continuous, and the penalty bends everywhere."""
        plain = self.spectral == 0 and not self.positive and self.trace is None
        return plain and self.square > 0 and bool(np.isfinite(self.loss.sharpness))

    def shrunk(self, matrix: Array, step: float) -> tuple[Array, Array]:
        """The penalty's proximal map, and the singular values, or eigenvalues, that it leaves."""
        if self.positive:
            values, vectors = eigh(matrix)
            kept = self.left_of(values, step)
            return (vectors * kept[..., None, :]) @ np.swapaxes(vectors, -1, -2), kept
        if self.spectral == 0:
            return matrix / (1 + step * self.square), np.zeros(0)
        left, values, right = svd(matrix)
        kept = self.left_of(values, step)
        return (left * kept[..., None, :]) @ right, kept

    def left_of(self, values: Array, step: float) -> Array:
        """What the proximal map leaves of singular values, or eigenvalues."""
        if self.trace is not None:
            return with_sum(values, self.trace)
        return np.asarray(np.maximum(values - step * self.spectral, 0.0) / (1 + step * self.square))

    def slopes(self, fields: Array, width: float, around: Array | float = 0.0) -> Array:
        """Slopes of the loss, or of its envelope around some slopes."""
        if width == 0:
            return self.loss.slope(self.labels, fields)
        widths = self.widths(width)
        return -self.loss.score(self.labels, fields + widths * around, widths)[0]

    def widths(self, width: float) -> Array:
        """Of the envelopes of single samples, which bend in proportion to their weights."""
        return width / np.asarray(self.loss.weights)

    def unit(self, matrix: Array) -> float:
        """Of the metric: what the design's inner product is of the sum over entries."""
        fields = self.design.forward(matrix, 0)
        back = self.design.adjoint(fields, 0)
        total = float(np.sum(matrix * back))
        return float(np.sum(fields**2)) / total if total != 0 else 1.0

    def of_zero(self, fields: Array) -> float:
        """Risk of an estimate of zero, which gaps are relative to; any fields tell their shape."""
        return max(float(np.sum(self.loss.value(self.labels, np.zeros_like(fields)))), 1e-300)

    def gaps(
        self,
        matrix: Array,
        kept: Array,
        fields: Array,
        unit: float,
        width: float,
        of_zero: float,
        around: Array | float = 0.0,
    ) -> Certificate:
        """How far at most the risk is from the least; ``around`` are the slopes of the envelope."""
        slopes, widths = self.slopes(fields, width, around), self.widths(width)
        seen = fields + widths * around
        penalty = unit * (self.spectral * float(np.sum(kept)) + 0.5 * self.square * float(np.sum(matrix**2)))
        pull = -self.design.adjoint(slopes, 0)
        against, share = 0.0, 1.0
        if self.trace is not None:
            against = unit * self.trace * float(np.max(self._values(pull)))
        elif self.square > 0:
            against = unit * float(np.sum(np.maximum(self._values(pull) - self.spectral, 0.0) ** 2)) / (2 * self.square)
        else:
            share = min(1.0, self.spectral / max(float(np.max(self._values(pull))), 1e-300))
        dual = -float(np.sum(self.loss.conjugate_at(self.labels, seen, slopes, share))) - against
        loss = float(np.sum(self.loss.value(self.labels, fields)))
        # Below zero it is rounding, and tells how much there is of it.
        gap = abs(loss + penalty - dual) / of_zero
        whole = Certificate(gap, gap, loss + penalty)
        if width == 0:
            return whole
        closer = float(np.sum(self.loss.envelope(self.labels, seen, widths) - 0.5 * widths * np.square(around)))
        bend = 0.5 * float(np.sum(widths * (share * slopes - around) ** 2))
        return whole._replace(closer=(closer + penalty - dual + bend) / of_zero)

    def _values(self, pull: Array) -> Array:
        """What the penalty's conjugate sees of a matrix."""
        if self.positive:
            return eigh(pull)[0]
        if self.spectral > 0:
            return singular_values(pull)
        return np.array([np.sqrt(np.sum(pull**2))])


def certified_gap(risk: Risk, matrix: Array) -> float:
    """How far at most the risk of any matrix is from the least, relative to the risk of zero.

    Args:
        risk: of square loss, or another without kinks.
        matrix: of the design's shape; positive where the risk is for such.
    """
    kept = np.maximum(eigh(matrix)[0], 0.0) if risk.positive else singular_values(matrix)
    fields = risk.design.forward(matrix, 0)
    return risk.gaps(matrix, kept, fields, risk.unit(matrix), 0.0, risk.of_zero(fields)).gap


def with_sum(values: Array, total: float) -> Array:
    """The nearest numbers that are not negative and have this sum.

    Example:
        >>> with_sum(np.array([3.0, 1.0, -1.0]), 3.0)
        array([2.5, 0.5, 0. ])
    """
    ordered = np.sort(values)[::-1]
    lowered = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    count = int(np.sum(ordered > lowered))
    return np.maximum(values - lowered[count - 1], 0.0)
