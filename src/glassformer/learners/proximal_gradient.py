r"""Proximal gradient: minimisation of an empirical risk to a certified duality gap.

The risk is that of :mod:`~glassformer.learners.empirical_risk`. Accelerated proximal-gradient steps combine a gradient
step of the loss (of its envelope if the loss has kinks) with the proximal map of the penalty. Momentum restarts when it
points uphill. When the gap of an envelope is closed, the next envelope is taken around the slopes just found (an
augmented Lagrangian), with the same width unless the gap fell too little. The minimum is thus reached at a width that
is not small, which allows long steps. For a smooth risk, nonlinear conjugate gradients need fewer products with the
inputs: fields are linear along a line, so that the line search needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
import scipy

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.learners.empirical_risk import Certificate, EmpiricalRisk

# All numbers were chosen by trial on inputs with d from 10 to 100.
# Number of steps of the power method, and margin for its error.
_POWER_STEPS, _POWER_MARGIN = 30, 1.05
# Number of steps between evaluations of the gap.
_GAP_INTERVAL = 10
# Width of the first envelope of a loss with kinks, and factor of the next width if the gap remains above this share.
_FIRST_WIDTH, _NARROWER, _TOO_SLOW = 1.0, 0.2, 0.5
# Share of the gap below which the gap of an envelope counts as closed.
_ENVELOPE_CLOSED = 0.6
# Growth of a step if the curvature of the loss is smaller than its bound.
_STEP_GROWTH = 1.05
# Relative accuracy of the line search, and its largest number of doublings of the initial length.
_LINE_ACCURACY, _LINE_DOUBLINGS = 1e-3, 60
_NO_CERTIFICATE = Certificate(np.inf, np.inf, np.inf)


class InputScale(NamedTuple):
    """Scale of the inputs, which does not depend on loss and penalty.

    Attributes:
        largest: square of the largest singular value of the inputs times the roots of the weights, with a margin.
        unit: unit of the metric.
    """

    largest: float
    unit: float


@dataclass
class _StepSize:
    """Step sizes from the curvature of the loss between successive points.

    The bound on the curvature is that of the least certain samples, and most samples have a smaller curvature.
    Envelopes of kinks have their largest curvature at the solution, so that their steps do not grow.

    Attributes:
        safe: step size that decreases the risk everywhere.
        unit: unit of the metric.
        growth: largest ratio of successive step sizes.
        factor: present step size in units of ``safe``.
        last: the previous point, its fields and its slopes.
    """

    safe: float
    unit: float
    growth: float
    factor: float = 1.0
    last: tuple[Array, Array, Array] | None = None

    def at(self, point: Array, fields: Array, slopes: Array) -> float:
        """Return the step size at this point."""
        if self.last is not None:
            moved = point - self.last[0]
            square = self.unit * float(np.vdot(moved, moved))
            curvature = self.safe * float(np.vdot(fields - self.last[1], slopes - self.last[2]))
            allowed = square / curvature if curvature > 0 else np.inf
            self.factor = max(1.0, min(self.growth * self.factor, allowed))
        self.last = point, fields, slopes
        return self.factor * self.safe


def least_risk(
    risk: EmpiricalRisk, settings: Iteration, start: Array | None = None, scale: InputScale | None = None
) -> Solution:
    r"""Return the minimiser of a regularised risk.

    Equation :eq:`regularised-risk` of the documentation.

    Args:
        risk: the risk.
        settings: iteration limit, and ``tolerance``, the duality gap relative to the risk of an estimate of zero at
            which a solution is accepted.
        start: initial matrix, for instance the minimiser at another strength; zero by default.
        scale: :func:`input_scale` of the inputs, if it is known.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1, L, d); ``residual`` and
        ``error_estimate`` are the certified relative duality gap; ``extra`` contains the ``risk``.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> from glassformer.risk.losses import Logistic
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> labels = np.sign(design.forward(np.outer(rng.standard_normal(10), rng.standard_normal(10)), 0))
        >>> found = least_risk(EmpiricalRisk(design, labels, Logistic(), 0.5, 0.0), Iteration(tolerance=1e-6))
        >>> str(found.status[0]), bool(found.residual[0] <= 1e-6)
        ('converged', True)
    """
    shape = risk.design.signal_shape
    x = np.zeros(shape) if start is None else np.array(start, dtype=float)
    if risk.smooth:
        return _conjugate_gradients(
            risk, settings, x, risk.metric_unit(_direction(risk)) if scale is None else scale.unit
        )
    largest, unit = input_scale(risk) if scale is None else scale
    kinks = bool(np.isinf(risk.loss.sharpness))
    # The square loss has constant curvature, and envelopes have their largest curvature at the solution.
    growth = 1.0 if kinks or risk.loss.constant_curvature else _STEP_GROWTH
    width = _FIRST_WIDTH if kinks else 0.0
    around, last_gap = np.zeros(1), np.inf
    step_size = _StepSize(1 / (_curvature(risk, width) * largest), unit, growth)
    best, certificate, history = x, _NO_CERTIFICATE, []
    y, momentum = x, 1.0
    fields_x = fields_y = risk.design.forward(x, 0)
    risk_of_zero = risk.risk_of_zero(fields_y)
    for count in range(settings.max_iterations):
        slopes = risk.slopes(fields_y, width, around)
        step = step_size.at(y, fields_y, slopes)
        new, values = risk.proximal(y - step * risk.design.adjoint(slopes, 0), step)
        fields = risk.design.forward(new, 0)
        if count % _GAP_INTERVAL == 0 or count == settings.max_iterations - 1:
            here = risk.certificate(new, values, fields, unit, width, risk_of_zero, around)
            history.append(here.gap)
            if here.gap < certificate.gap:
                best, certificate = new, here
            if certificate.gap <= settings.tolerance:
                break
            if width and here.envelope_gap < _ENVELOPE_CLOSED * here.gap:
                around = risk.slopes(fields, width, around)
                width, last_gap = width * (_NARROWER if here.gap > _TOO_SLOW * last_gap else 1.0), here.gap
                step_size, momentum = _StepSize(1 / (_curvature(risk, width) * largest), unit, 1.0), 1.0
        following = (1 + sqrt(1 + 4 * momentum**2)) / 2
        moved = new - x
        if np.vdot(y - new, moved) > 0:
            # Momentum points uphill and is restarted.
            following, momentum = 1.0, 1.0
        extrapolation = (momentum - 1) / following
        y, fields_y = new + extrapolation * moved, fields + extrapolation * (fields - fields_x)
        x, fields_x, momentum = new, fields, following
    return _solution(best, certificate, settings, count + 1, history)


def _conjugate_gradients(risk: EmpiricalRisk, settings: Iteration, x: Array, unit: float) -> Solution:
    r"""Return the minimiser of a smooth risk; a gradient ``g`` bounds the gap by :math:`|g|^2/(2w_2)`."""
    fields = risk.design.forward(x, 0)
    risk_of_zero = risk.risk_of_zero(fields)
    certificate, history = _NO_CERTIFICATE, []
    direction, last_gradient = np.zeros_like(x), np.zeros_like(x)
    for _ in range(settings.max_iterations):
        gradient = risk.design.adjoint(risk.slopes(fields, 0.0), 0) + risk.square * x
        history.append(unit * float(np.sum(gradient**2)) / (2 * risk.square * risk_of_zero))
        if history[-1] <= settings.tolerance:
            # Fields are computed again, without the rounding errors of all steps.
            fields = risk.design.forward(x, 0)
            certificate = risk.certificate(x, np.zeros(0), fields, unit, 0.0, risk_of_zero)
            if certificate.gap <= settings.tolerance:
                break
        direction = _conjugate_weight(gradient, last_gradient, direction) * direction - gradient
        change = risk.design.forward(direction, 0)
        length = _line_minimum(risk, unit, (x, fields), (direction, change))
        if length == 0:
            break
        x, fields, last_gradient = x + length * direction, fields + length * change, gradient
    if certificate.gap > settings.tolerance:
        certificate = risk.certificate(x, np.zeros(0), risk.design.forward(x, 0), unit, 0.0, risk_of_zero)
    return _solution(x, certificate, settings, len(history), history)


def _conjugate_weight(gradient: Array, last: Array, direction: Array) -> float:
    """Return the weight of the last direction in the next one (Hestenes and Stiefel), or 0 if it points uphill."""
    change = gradient - last
    curvature = float(np.vdot(direction, change))
    weight = float(np.vdot(gradient, change)) / curvature if curvature > 0 else 0.0
    return weight if weight > 0 and weight * np.vdot(direction, gradient) < np.vdot(gradient, gradient) else 0.0


def _line_minimum(risk: EmpiricalRisk, unit: float, start: tuple[Array, Array], line: tuple[Array, Array]) -> float:
    """Return the distance of the minimum along a line and its fields, or 0 if the slope is a rounding error."""
    (x, fields), (direction, change) = start, line
    slope = unit * risk.square * float(np.vdot(x, direction))
    curvature = unit * risk.square * float(np.vdot(direction, direction))

    def derivative(length: float) -> float:
        return float(np.vdot(change, risk.slopes(fields + length * change, 0.0))) + slope + length * curvature

    # The bound on the curvature of the loss gives a length that is not too long, the unit of the search.
    largest = risk.loss.sharpness * float(np.vdot(change, risk.loss.weights * change)) + curvature
    safe = -derivative(0.0) / largest
    if not safe > 0:
        return 0.0
    near, far = 0.0, 1.0
    for _ in range(_LINE_DOUBLINGS):
        if derivative(far * safe) >= 0:
            return safe * float(
                scipy.optimize.brentq(lambda times: derivative(times * safe), near, far, rtol=_LINE_ACCURACY)
            )
        near, far = far, 2 * far
    return safe * near


def _curvature(risk: EmpiricalRisk, width: float) -> float:
    """Return the largest curvature of the loss, or of its envelope."""
    return 1 / width if width else risk.loss.sharpness


def _solution(
    matrix: Array, certificate: Certificate, settings: Iteration, steps: int, history: list[float]
) -> Solution:
    status = Status.CONVERGED if certificate.gap <= settings.tolerance else Status.ITERATION_LIMIT
    gap, extra = np.array([certificate.gap]), {"risk": np.array([certificate.risk])}
    return Solution(matrix[None], [status], gap, np.array([steps]), gap, np.array(history)[:, None], extra)


def input_scale(risk: EmpiricalRisk) -> InputScale:
    """Return the scale of the weighted inputs, by the power method."""
    v = _direction(risk)
    unit = risk.metric_unit(v)
    value = 1.0
    for _ in range(_POWER_STEPS):
        v = risk.design.adjoint(risk.loss.weights * risk.design.forward(v, 0), 0)
        value = float(np.linalg.norm(v))
        if value == 0:
            # All inputs vanish, and any step size is valid.
            return InputScale(1.0, unit)
        v /= value
    return InputScale(_POWER_MARGIN * value, unit)


def _direction(risk: EmpiricalRisk) -> Array:
    """Return a random matrix, which almost surely is not orthogonal to the inputs."""
    v = np.random.default_rng(0).standard_normal(risk.design.signal_shape)
    return np.asarray(v + np.swapaxes(v, -1, -2) if risk.positive else v)
