r"""Accelerated proximal descent on a regularised risk, with a certificate of how close to the minimum one has come.

The risk is :math:`F(S) = \sum_\mu\ell(y_\mu, h_\mu(S)) + p(S)` with a penalty
:math:`p = w_1\|S\|_* + \frac{w_2}2\|S\|^2`. Steps follow the slope of the loss, or of its envelope

.. math:: \ell_\epsilon(y, h) = \min_p\,\ell(y, p) + \frac{(p-h)^2}{2\epsilon}

where the loss has kinks, then the proximal map of the penalty, with momentum that restarts where it leads uphill. Any
slopes ``u`` give a point of the dual problem, :math:`-\sum_\mu\ell^*(y_\mu, u_\mu) - p^*(-A^Tu)`, and the gap between
the two values bounds what is missing. An envelope whose own gap is closed is followed by a narrower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.integral import Array
from glassformer.core.numerics.decompositions import eigh, singular_values, svd
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.theory.risk.losses import Loss

# Steps of the power method, its margin, and steps between looks at the gap.
_POWER, _MARGIN, _LOOK = 30, 1.05, 10
# Envelopes: the first, by how much the next is narrower, and the share of the gap at which theirs counts as closed.
_WIDE, _NARROWER, _SOLVED = 1.0, 0.3, 0.1
# By how much steps grow where a loss without kinks lets them.
_LONGER = 1.05


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

    def shrunk(self, matrix: Array, step: float) -> tuple[Array, Array]:
        """The penalty's proximal map, and the singular values, or eigenvalues, that it leaves."""
        if self.trace is not None:
            values, vectors = eigh(matrix)
            left = with_sum(values, self.trace)
            return (vectors * left) @ vectors.T, left
        if self.positive:
            values, vectors = eigh(matrix)
            left = np.maximum(values - step * self.spectral, 0.0) / (1 + step * self.square)
            return (vectors * left[..., None, :]) @ np.swapaxes(vectors, -1, -2), left
        if self.spectral == 0:
            return matrix / (1 + step * self.square), np.zeros(0)
        left, values, right = svd(matrix)
        kept = np.maximum(values - step * self.spectral, 0.0) / (1 + step * self.square)
        return (left * kept[..., None, :]) @ right, kept

    def slopes(self, fields: Array, width: float) -> Array:
        """Slopes of the loss, or of its envelope."""
        if width == 0:
            return self.loss.slope(self.labels, fields)
        return -self.loss.score(self.labels, fields, self.widths(width))[0]

    def widths(self, width: float) -> Array:
        """Of the envelopes of single samples, which bend in proportion to their weights."""
        return width / np.asarray(self.loss.weights)

    def unit(self, matrix: Array) -> float:
        """Of the metric: what the design's inner product is of the sum over entries."""
        fields = self.design.forward(matrix, 0)
        back = self.design.adjoint(fields, 0)
        return float(np.sum(fields**2) / np.sum(matrix * back))

    def gaps(self, matrix: Array, kept: Array, fields: Array, unit: float, width: float) -> tuple[float, float]:
        """How far at most the risk is from the least, and that of envelopes from theirs, relative to that of zero."""
        slopes = self.slopes(fields, width)
        penalty = unit * (self.spectral * float(np.sum(kept)) + 0.5 * self.square * float(np.sum(matrix**2)))
        pull = -self.design.adjoint(slopes, 0)
        against, share = 0.0, 1.0
        if self.trace is not None:
            against = unit * self.trace * float(np.max(self._values(pull)))
        elif self.square > 0:
            against = unit * float(np.sum(np.maximum(self._values(pull) - self.spectral, 0.0) ** 2)) / (2 * self.square)
        else:
            share = min(1.0, self.spectral / max(float(np.max(self._values(pull))), 1e-300))
        dual = -float(np.sum(self.loss.conjugate_at(self.labels, fields, slopes, share))) - against
        widths = self.widths(width)
        rounded = self.loss.proximal(self.labels, fields, widths) if width else fields
        closer = float(np.sum(self.loss.value(self.labels, rounded)))
        if width:
            closer += float(np.sum((rounded - fields) ** 2 / (2 * widths)))
        scale = max(float(np.sum(self.loss.value(self.labels, np.zeros_like(fields)))), 1e-300)
        loss = float(np.sum(self.loss.value(self.labels, fields)))
        bend = 0.5 * share**2 * float(np.sum(widths * slopes**2))
        return (loss + penalty - dual) / scale, (closer + penalty - dual + bend) / scale

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
    return risk.gaps(matrix, kept, risk.design.forward(matrix, 0), risk.unit(matrix), 0.0)[0]


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


@dataclass
class _Best:
    matrix: Array
    gap: float = np.inf


@dataclass
class _Pace:
    """Steps as long as the loss bends little between the points where its slopes were taken.

    The curvature that is safe everywhere is that of the sharpest samples; most are told apart by far and bend less.
    Envelopes of kinks bend most where they are: their steps stay as they are.

    Attributes:
        safe: step that leads downhill anywhere.
        unit: of the metric.
        longer: by how much a step may be longer than the one before.
        times: of the safe step, that is taken.
        last: the point before, its fields and its slopes.
    """

    safe: float
    unit: float
    longer: float
    times: float = 1.0
    last: tuple[Array, Array, Array] | None = None

    def at(self, point: Array, fields: Array, slopes: Array) -> float:
        """The step to take from this point."""
        if self.last is not None:
            away = self.unit * float(np.sum((point - self.last[0]) ** 2))
            bend = self.safe * float(np.sum((fields - self.last[1]) * (slopes - self.last[2])))
            allowed = away / bend if bend > 0 else np.inf
            self.times = max(1.0, min(self.longer * self.times, allowed))
        self.last = point, fields, slopes
        return self.times * self.safe


class Scale(NamedTuple):
    """What all risks over the same inputs share.

    Attributes:
        largest: square of the largest singular value of the inputs, times the roots of the weights, with a margin.
        unit: of the metric.
    """

    largest: float
    unit: float


def least_risk(risk: Risk, settings: Iteration, start: Array | None = None, scale: Scale | None = None) -> Solution:
    r"""The minimiser of a regularised risk.

    Equation :eq:`regularised-risk` of the documentation.

    Args:
        risk: what is minimised.
        settings: ``tolerance`` is the duality gap, relative to the risk of an estimate of zero, at which a solution is
            accepted; iteration limit.
        start: where to begin, for instance the minimiser at another strength; zero by default.
        scale: :func:`scale_of` the inputs, where many risks share it.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1, L, d); ``residual`` and
        ``error_estimate`` are the certified relative duality gap.

    Example:
        >>> from glassformer.models.designs.dense import DenseDesign
        >>> from glassformer.theory.risk.losses import Logistic
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> labels = np.sign(design.forward(np.outer(rng.standard_normal(10), rng.standard_normal(10)), 0))
        >>> found = least_risk(Risk(design, labels, Logistic(), 0.5, 0.0), Iteration(tolerance=1e-6))
        >>> str(found.status[0]), bool(found.residual[0] <= 1e-6)
        ('converged', True)
    """
    shape = risk.design.signal_shape
    x = np.zeros(shape) if start is None else np.array(start, dtype=float)
    size, unit = scale_of(risk) if scale is None else scale
    width = _WIDE if np.isinf(risk.loss.sharpness) else 0.0
    best, history = _Best(x), []
    pace, y, momentum = _Pace(1 / (_bend(risk, width) * size), unit, 1.0 if width else _LONGER), x, 1.0
    before = seen = risk.design.forward(x, 0)
    for count in range(settings.max_iterations):
        slopes = risk.slopes(seen, width)
        step = pace.at(y, seen, slopes)
        new, kept = risk.shrunk(y - step * risk.design.adjoint(slopes, 0), step)
        fields = risk.design.forward(new, 0)
        if count % _LOOK == 0 or count == settings.max_iterations - 1:
            gap, closer = risk.gaps(new, kept, fields, unit, width)
            history.append(gap)
            if gap < best.gap:
                best = _Best(new, gap)
            if best.gap <= settings.tolerance:
                break
            if width and closer < _SOLVED * gap:
                width *= _NARROWER
                pace, momentum = _Pace(1 / (_bend(risk, width) * size), unit, 1.0), 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        if np.sum((y - new) * (new - x)) > 0:
            # Momentum leads uphill: it begins anew.
            following, momentum = 1.0, 1.0
        ahead = (momentum - 1) / following
        y, seen = new + ahead * (new - x), fields + ahead * (fields - before)
        x, before, momentum = new, fields, following
    status = Status.CONVERGED if best.gap <= settings.tolerance else Status.ITERATION_LIMIT
    left = np.array([best.gap])
    return Solution(best.matrix[None], [status], left, np.array([count + 1]), left, np.array(history)[:, None])


def _bend(risk: Risk, width: float) -> float:
    """Largest curvature of the loss, or of its envelope."""
    return 1 / width if width else risk.loss.sharpness


def scale_of(risk: Risk) -> Scale:
    """Square of the largest singular value of the weighted inputs, by the power method, and the unit of the metric."""
    rng = np.random.default_rng(0)
    v = rng.standard_normal(risk.design.signal_shape)
    v = v + np.swapaxes(v, -1, -2) if risk.positive else v
    unit = risk.unit(v)
    value = 1.0
    for _ in range(_POWER):
        v = risk.design.adjoint(risk.loss.weights * risk.design.forward(v, 0), 0)
        value = float(np.linalg.norm(v))
        v /= value
    return Scale(_MARGIN * value, unit)
