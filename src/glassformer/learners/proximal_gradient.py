r"""Proximal gradient: minimisation of an empirical risk to a certified duality gap.

The risk is that of :mod:`~glassformer.learners.empirical_risk`. Accelerated proximal-gradient steps combine a gradient
step of the loss (of its envelope if the loss has kinks) with the proximal map of the penalty. Momentum restarts when it
points uphill. When the gap of an envelope is closed, the next envelope is taken around the slopes just found (an
augmented Lagrangian), with the same width unless the gap fell too little. The minimum is thus reached at a width that
is not small, which allows long steps. For a smooth risk, nonlinear conjugate gradients need fewer products with the
inputs: fields are linear along a line, so that the line search needs none. On paths of a smooth loss with few unknowns,
Newton steps for the fixed point of the proximal-gradient map replace almost all of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

import numpy as np
import scipy

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.learners.base import certified_solution
from glassformer.learners.empirical_risk import Certificate, EmpiricalRisk
from glassformer.numerics.decompositions import singular_values

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
# Largest number of unknowns of Newton steps, share to which one must reduce the gap, and width of the envelope that
# gives the curvature of a loss if it is not a function of the slope.
_NEWTON_SIZE, _NEWTON_GAIN, _NEWTON_WIDTH = 256, 0.5, 1e-6
# Step of the proximal map in Newton steps, in units of the inverse mean curvature, and the longest change.
_NEWTON_STEP, _NEWTON_FAR = 1.0, 1e3
# Difference of singular values, relative to the largest, below which they are equal.
_EQUAL = 1e-12
# Largest ratio of successive strengths on the way to a small one, tolerance at these, and largest total ratio.
_STRENGTH_STEP, _TOLERANCE_BETWEEN, _LARGEST_RATIO = 10.0, 1e-4, 1e300
# Width of the envelope whose slopes and curvature are used for a loss with kinks.
NARROW = 1e-6
_NO_CERTIFICATE = Certificate(np.inf, np.inf, np.inf)


class InputScale(NamedTuple):
    """Scale of the inputs, and what else minimisations at all strengths share.

    Attributes:
        largest: square of the largest singular value of the inputs times the roots of the weights, with a margin.
        unit: unit of the metric.
        risk_of_zero: risk of an estimate of zero.
        entries: fields of the matrices with a single entry of one, shape (n, L d), for direct solutions; None without.
    """

    largest: float
    unit: float
    risk_of_zero: float
    entries: Array | None = None


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
    risk: EmpiricalRisk,
    settings: Iteration,
    start: Array | None = None,
    scale: InputScale | None = None,
    ratio: float | None = None,
) -> Solution:
    r"""Return the minimiser of a regularised risk.

    Equation :eq:`regularised-risk` of the documentation. A small strength is reached by a sequence of decreasing ones:
    steps are of the size of the strength.

    Args:
        risk: the risk.
        settings: iteration limit, and ``tolerance``, the duality gap in the units of
            :class:`~glassformer.learners.empirical_risk.Certificate` at which a solution is accepted.
        start: initial matrix, for instance the minimiser at another strength; zero by default.
        scale: :func:`input_scale` of the inputs, if it is known.
        ratio: strength whose minimiser is the start, in units of the strength; by default the smallest one at which
            the minimiser is zero.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1, L, d); ``residual`` and
        ``error_estimate`` are the certified relative duality gap; ``extra`` contains the ``risk``.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> from glassformer.risk.losses import Logistic
        >>> from glassformer.risk.penalties import ElasticNet
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> labels = np.sign(design.forward(np.outer(rng.standard_normal(10), rng.standard_normal(10)), 0))
        >>> found = least_risk(EmpiricalRisk(design, labels, Logistic(), ElasticNet(0.5)), Iteration(tolerance=1e-6))
        >>> str(found.status[0]), bool(found.residual[0] <= 1e-6)
        ('converged', True)
    """
    x = np.zeros(risk.design.signal_shape) if start is None else np.array(start, dtype=float)
    scale = input_scale(risk) if scale is None else scale
    ratio = min(largest_ratio(risk, scale) if ratio is None else ratio, _LARGEST_RATIO)
    count = int(np.ceil(np.log(ratio) / np.log(_STRENGTH_STEP))) if ratio > 1 else 1
    minimise, steps = _conjugate_gradients if risk.smooth else _proximal_gradient, 0
    for times in ratio ** (np.arange(count - 1, 0, -1) / count):
        left = Iteration(tolerance=_TOLERANCE_BETWEEN, max_iterations=settings.max_iterations - steps)
        found = minimise(risk.with_strength_times(times), left, x, scale)
        x, steps = found.value[0], steps + int(found.iterations[0])
        if not found.status[0].ok or steps >= settings.max_iterations:
            break
    found = minimise(risk, replace(settings, max_iterations=max(settings.max_iterations - steps, 1)), x, scale)
    return replace(found, iterations=found.iterations + steps)


def largest_ratio(risk: EmpiricalRisk, scale: InputScale) -> float:
    """Return the smallest strength at which the minimiser is zero, in units of the strength.

    For a quadratic penalty, which has no such strength, it is the one that halves the strongest direction.
    """
    if risk.trace is not None:
        return 1.0
    if risk.penalty.kink == 0:
        slope = float(risk.penalty.slope(np.ones(1))[0])
        return scale.largest * (risk.loss.sharpness if np.isfinite(risk.loss.sharpness) else 1.0) / slope
    fields = risk.design.forward(np.zeros(risk.design.signal_shape), 0)
    slopes = risk.slopes(fields, 0.0 if np.isfinite(risk.loss.sharpness) else NARROW)
    return (float(np.max(singular_values(risk.design.adjoint(slopes, 0)))) or 1.0) / risk.penalty.kink


def _proximal_gradient(risk: EmpiricalRisk, settings: Iteration, x: Array, scale: InputScale) -> Solution:
    """Return the minimiser by accelerated proximal-gradient and Newton steps."""
    largest, unit = scale.largest, scale.unit
    kinks = bool(np.isinf(risk.loss.sharpness))
    # The square loss has constant curvature, and envelopes have their largest curvature at the solution.
    growth = 1.0 if kinks or risk.loss.quadratic else _STEP_GROWTH
    width = _FIRST_WIDTH if kinks else 0.0
    around, last_gap = np.zeros(1), np.inf
    step_size = _StepSize(1 / (_curvature(risk, width) * largest), unit, growth)
    best, certificate, history = x, _NO_CERTIFICATE, []
    y, momentum = x, 1.0
    fields_x = fields_y = risk.design.forward(x, 0)
    risk_of_zero = scale.risk_of_zero
    newton, last = 0, settings.max_iterations - 1
    for count in range(settings.max_iterations):
        slopes = risk.slopes(fields_y, width, around)
        step = step_size.at(y, fields_y, slopes)
        new, values = risk.proximal(y - step * risk.design.adjoint(slopes, 0), step)
        fields = risk.design.forward(new, 0)
        if count % _GAP_INTERVAL == 0 or count + newton >= last:
            here = risk.certificate(new, values, fields, unit, width, risk_of_zero, around)
            while scale.entries is not None and here.gap > settings.tolerance and count + newton < last:
                trial, trial_values = _newton_step(risk, new, fields, step_size.safe, scale)
                trial_fields = risk.design.forward(trial, 0)
                there = risk.certificate(trial, trial_values, trial_fields, unit, width, risk_of_zero)
                if not there.gap <= _NEWTON_GAIN * min(here.gap, certificate.gap):
                    break
                new, fields, here, newton = trial, trial_fields, there, newton + 1
            history.append(here.gap)
            if here.gap < certificate.gap:
                best, certificate = new, here
            if certificate.gap <= settings.tolerance or count + newton >= last:
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
    return certified_solution(
        best, certificate.gap, settings.tolerance, count + newton + 1, history, risk=certificate.risk
    )


def _newton_step(risk: EmpiricalRisk, x: Array, fields: Array, step: float, scale: InputScale) -> tuple[Array, Array]:
    r"""Return a semismooth Newton step for the fixed point of the proximal-gradient map, and its singular values.

    With the map :math:`M = S - t\nabla f`, the derivative ``J`` of the proximal map at ``M`` and the Hessian ``H`` of
    the loss, the change ``D`` solves :math:`(1 - J(1 - tH))D = \mathrm{prox}(M) - S`. In the basis of the singular
    vectors of ``M``, ``J`` mixes an entry (i, j) with (j, i) only, by divided differences of the shrunk singular
    values. The result passes through the proximal map, so that its rank is low.
    """
    assert scale.entries is not None
    slopes = risk.slopes(fields, 0.0)
    curvature = risk.loss.curvature(slopes)
    curvature = risk.loss.score(risk.labels, fields, _NEWTON_WIDTH)[1] if curvature is None else curvature
    weighted = np.sqrt(curvature)[:, None] * scale.entries
    hessian = weighted.T @ weighted / scale.unit
    if risk.loss.best_intercept:
        constant = curvature @ scale.entries
        hessian -= np.outer(constant, constant) / max(scale.unit * float(curvature.sum()), 1e-300)
    # The mean curvature, instead of the largest one of short steps, tells better which singular values are zero.
    long = _NEWTON_STEP * len(hessian) / max(float(np.trace(hessian)), 1e-300)

    left, values, right = np.linalg.svd(x - long * risk.design.adjoint(slopes, 0))
    rows, columns, count = len(left), len(right), len(values)
    sigma, shrunk = np.zeros((2, max(rows, columns), 1))
    sigma[:count, 0], shrunk[:count, 0] = values, risk.shrink(values, long)
    differences = _ratio(shrunk - shrunk.T, sigma - sigma.T, (shrunk > 0) / (1 + long * risk.penalty.square))
    sums = _ratio(shrunk + shrunk.T, sigma + sigma.T, 0.0)
    same, swapped = (part[:rows, :columns].reshape(-1, 1) / 2 for part in (sums + differences, differences - sums))
    partner = np.arange(rows * columns).reshape(rows, columns)
    partner[:count, :count] = partner[:count, :count].T
    for _ in range(2):
        # Both sides are rotated, one after the other.
        half = (left.T @ hessian.reshape(rows, -1)).reshape(rows, columns, -1)
        hessian = (right @ half).reshape(rows * columns, -1).T
    diagonal = np.diag_indices(len(hessian))
    hessian *= long
    hessian[diagonal] -= 1
    system = same * hessian + swapped * hessian[partner.ravel()]
    system[diagonal] += 1
    residual = -(left.T @ x @ right.T)
    residual[range(count), range(count)] += shrunk[:count, 0]
    try:
        change = np.linalg.solve(system, residual.ravel()).reshape(rows, columns)
    except np.linalg.LinAlgError:
        change = np.full_like(x, np.inf)
    # Steps are infinite along directions that neither the loss nor the penalty determines.
    new = x + left @ change @ right if np.max(np.abs(change)) <= _NEWTON_FAR * values[0] else x
    slopes = risk.slopes(risk.design.forward(new, 0), 0.0)
    return risk.proximal(new - step * risk.design.adjoint(slopes, 0), step)


def _ratio(above: Array, below: Array, otherwise: Array | float) -> Array:
    """Return a divided difference, or its limit for equal arguments."""
    distinct = np.abs(below) > _EQUAL * np.max(np.abs(below))
    return np.where(distinct, above / np.where(distinct, below, 1.0), otherwise)


def _conjugate_gradients(risk: EmpiricalRisk, settings: Iteration, x: Array, scale: InputScale) -> Solution:
    r"""Return the minimiser of a smooth risk; a gradient ``g`` bounds the gap by :math:`|g|^2/(2w_2)`."""
    fields = risk.design.forward(x, 0)
    unit, risk_of_zero = scale.unit, scale.risk_of_zero
    certificate, history, square = _NO_CERTIFICATE, [], risk.penalty.square
    direction, last_gradient = np.zeros_like(x), np.zeros_like(x)
    for _ in range(settings.max_iterations):
        gradient = risk.design.adjoint(risk.slopes(fields, 0.0), 0) + square * x
        history.append(unit * float(np.sum(gradient**2)) / (2 * square * risk_of_zero))
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
    return certified_solution(x, certificate.gap, settings.tolerance, len(history), history, risk=certificate.risk)


def _conjugate_weight(gradient: Array, last: Array, direction: Array) -> float:
    """Return the weight of the last direction in the next one (Hestenes and Stiefel), or 0 if it points uphill."""
    change = gradient - last
    curvature = float(np.vdot(direction, change))
    weight = float(np.vdot(gradient, change)) / curvature if curvature > 0 else 0.0
    return weight if weight > 0 and weight * np.vdot(direction, gradient) < np.vdot(gradient, gradient) else 0.0


def _line_minimum(risk: EmpiricalRisk, unit: float, start: tuple[Array, Array], line: tuple[Array, Array]) -> float:
    """Return the distance of the minimum along a line and its fields, or 0 if the slope is a rounding error."""
    (x, fields), (direction, change) = start, line
    slope = unit * risk.penalty.square * float(np.vdot(x, direction))
    curvature = unit * risk.penalty.square * float(np.vdot(direction, direction))

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


def input_scale(risk: EmpiricalRisk, with_entries: bool = False) -> InputScale:
    """Return the scale of the weighted inputs, by the power method, with fields of the entries unless too many."""
    # A random matrix almost surely is not orthogonal to the inputs.
    v, entries = np.random.default_rng(0).standard_normal(risk.design.signal_shape), None
    v = v + np.swapaxes(v, -1, -2) if risk.positive else v
    unit = risk.metric_unit(v)
    if with_entries and v.size <= _NEWTON_SIZE:
        entries = risk.design.entry_fields()
    value, zero = 1.0, risk.risk_of_zero(risk.design.forward(v, 0))
    for _ in range(_POWER_STEPS):
        v = risk.design.adjoint(risk.loss.weights * risk.design.forward(v, 0), 0)
        value = float(np.linalg.norm(v))
        if value == 0:
            # All inputs vanish, and any step size is valid.
            return InputScale(1.0, unit, zero, entries)
        v /= value
    return InputScale(_POWER_MARGIN * value, unit, zero, entries)
