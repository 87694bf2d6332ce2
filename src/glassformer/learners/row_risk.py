r"""Minimise a regularised risk of a student's rows, from one or several starts, along a path of strengths.

Ridge leaves the risk smooth: it is minimised by L-BFGS, whose steps end where the gap of
:meth:`~glassformer.learners.empirical_row_risk.EmpiricalRowRisk.gap` is small enough. For penalties with kinks two
kinds of steps alternate: proximal gradient steps choose which weights vanish and the signs of all others, and L-BFGS
minimises over weights of these signs, where the penalty is smooth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.learners.empirical_row_risk import EmpiricalRowRisk, RiskPoint

# Steps that L-BFGS remembers (by trial: 10 takes a third more steps for attention, 50 gains nothing).
_MEMORY = 20
# Proximal gradient steps between two minimisations over weights of given signs, and steps of these, at most (by trial).
_PROXIMAL_STEPS, _FACE_STEPS = 5, 200
# Growth of the curvature of a proximal step that failed, its decay after one that did not, and its largest value.
_STEEPER, _FLATTER, _STEEPEST = 2.0, 0.8, 1e12
# Relative rounding errors of a sum of losses.
_ROUNDING = 1e-12
# A risk that is not convex is flat around its saddles, too: there steps go on to a gap smaller by this factor, which
# inputs in single precision do not reach (by trial).
_NOT_CONVEX = 1e-4
# Energies of two minima that are equal, relative to the risk of zero.
SAME_ENERGY = 1e-6
# Factor by which weights without a penalty are stretched to see whether the risk has a minimum.
_STRETCH = 2.0


@dataclass(frozen=True)
class RowMinimum:
    """The lowest minimum found.

    Attributes:
        point: weights, intercept, risk and slopes.
        gap: :meth:`~glassformer.learners.empirical_row_risk.EmpiricalRowRisk.gap` there: of a convex risk a bound on
            the excess risk relative to the risk of zero.
        status: converged if the gap is within the tolerance.
        iterations: products with the inputs, of all starts together.
        energies: risk at the end of every start, shape (starts,).
        convex: whether the risk is convex, so that the minimum is the global one.
        risk_of_zero: risk of weights of zero, the unit of gaps and of differences of energies.
    """

    point: RiskPoint
    gap: float
    status: Status
    iterations: int
    energies: Array
    convex: bool
    risk_of_zero: float

    @property
    def notes(self) -> list[str]:
        """What is known of the minimum, for notes of results."""
        count = len(self.energies)
        if self.convex:
            return [f"the risk is convex: its minimum is known to a relative gap of {self.gap:.1g}"]
        same = int(np.sum(np.abs(self.energies - self.point.risk) <= SAME_ENERGY * self.risk_of_zero))
        starts = "one start" if count == 1 else f"{count} starts, {same} of which end there"
        return [f"the risk is not convex: this is the lowest local minimum found from {starts}"]


class _Scaled:
    """The risk as a function of one vector, in units in which its curvature is about the same in all directions."""

    def __init__(self, risk: EmpiricalRowRisk) -> None:
        length = risk.shape[1]
        square = risk.strength * risk.penalty.square
        curvatures = risk.samples / length + square / risk.spectrum
        self.risk, self.size = risk, int(np.prod(risk.shape))
        self.unit = np.broadcast_to(np.sqrt(curvatures), risk.shape).ravel()
        if risk.has_intercept:
            self.unit = np.concatenate([self.unit, np.full(risk.outputs, np.sqrt(risk.samples))])
        self.products = 0

    def pack(self, weights: Array, intercept: Array) -> Array:
        """Return the vector of weights and intercept."""
        parts = [weights.ravel(), intercept] if self.risk.has_intercept else [weights.ravel()]
        return np.asarray(np.concatenate(parts) * self.unit)

    def unpack(self, vector: Array) -> tuple[Array, Array]:
        """Return weights and intercept."""
        own = vector / self.unit
        intercept = own[self.size :] if self.risk.has_intercept else np.zeros(self.risk.outputs)
        return own[: self.size].reshape(self.risk.shape), intercept

    def point(self, vector: Array) -> RiskPoint:
        """Return the risk and its slopes."""
        self.products += 1
        return self.risk.point(*self.unpack(vector))

    def slope(self, point: RiskPoint, penalised: bool) -> Array:
        """Return the slope of the loss, or of the penalised one, as a vector."""
        slope = point.slope + self.risk.penalty_slope(point.weights) if penalised else point.slope
        parts = [slope.ravel(), point.output_slope] if self.risk.has_intercept else [slope.ravel()]
        return np.asarray(np.concatenate(parts) / self.unit)


def minimise_rows(
    risk: EmpiricalRowRisk,
    starts: Sequence[Array] | None = None,
    settings: Iteration | None = None,
    intercept: Array | None = None,
) -> RowMinimum:
    """Return the lowest minimum that is found from several starts.

    Args:
        risk: on data.
        starts: weights to begin at, each of shape (P, d); zero by default. A convex risk uses the first one alone.
        settings: ``tolerance`` is the gap that is accepted; where the risk is not convex, steps go on to a gap ten
            thousand times smaller, to leave saddles. ``max_iterations`` are the products with the inputs allowed from
            each start.
        intercept: to begin at; zero by default.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> from glassformer.designs.projection import ProjectionDesign
        >>> from glassformer.risk.penalties import penalty_of
        >>> from glassformer.risk.rows.student import student_of
        >>> model, rng = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1), np.random.default_rng(0)
        >>> design, teacher = ProjectionDesign.sample(200, (1, 50), rng), rng.standard_normal((1, 50))
        >>> labels = np.sign(design.forward(teacher, 0)).reshape(200, 1)
        >>> student = student_of(model, "logistic")
        >>> risk = EmpiricalRowRisk(student, design, labels, penalty_of("ridge"), 0.1, np.ones(50))
        >>> found = minimise_rows(risk, settings=Iteration(tolerance=1e-9))
        >>> str(found.status), found.gap < 1e-9
        ('converged', True)
    """
    settings = settings or Iteration(tolerance=1e-6, max_iterations=5000)
    begin = [np.zeros(risk.shape)] if not starts else list(starts)
    if risk.student.is_convex:
        begin = begin[:1]
    first = np.zeros(risk.outputs) if intercept is None else np.asarray(intercept, dtype=float)
    found = [_minimise(risk, np.asarray(start, dtype=float), first, settings) for start in begin]
    # Finite points first: a local minimum that is known to the tolerance beats none.
    best = min(found, key=lambda end: end.point.risk if np.isfinite(end.point.risk) else np.inf)
    energies = np.array([one.point.risk for one in found])
    total = sum(one.products for one in found)
    return RowMinimum(best.point, best.gap, best.status, total, energies, risk.student.is_convex, risk.risk_of_zero)


def minimise_along_path(
    risk: EmpiricalRowRisk,
    strengths: Iterable[float],
    starts: Sequence[Array] | None = None,
    settings: Iteration | None = None,
) -> list[RowMinimum]:
    """Return minima at several strengths in the given order, each from the minimum before; the first from the starts.

    Example:
        >>> from glassformer.designs.projection import ProjectionDesign
        >>> from glassformer.risk.penalties import penalty_of
        >>> from glassformer.risk.losses import Square
        >>> from glassformer.risk.rows.student import Student, linear_prediction
        >>> rng = np.random.default_rng(0)
        >>> design, y = ProjectionDesign.sample(60, (1, 20), rng), rng.standard_normal((60, 1))
        >>> student = Student(linear_prediction, 1, 1, Square())
        >>> risk = EmpiricalRowRisk(student, design, y, penalty_of("lasso"), 1.0, np.ones(20))
        >>> path = minimise_along_path(risk, [2.0, 1.0, 0.5])
        >>> [str(one.status) for one in path]
        ['converged', 'converged', 'converged']
    """
    found: list[RowMinimum] = []
    for strength in strengths:
        own = risk.at_strength(float(strength))
        if found:
            last = found[-1].point
            found.append(minimise_rows(own, [last.weights], settings, last.intercept))
        else:
            found.append(minimise_rows(own, starts, settings))
    return found


class _End(NamedTuple):
    """Where the minimisation from one start ended."""

    point: RiskPoint
    gap: float
    status: Status
    products: int


def _minimise(risk: EmpiricalRowRisk, weights: Array, intercept: Array, settings: Iteration) -> _End:
    """Minimise the risk from one start."""
    scaled = _Scaled(risk)
    aim = settings.tolerance * (1.0 if risk.student.is_convex else _NOT_CONVEX)
    most = settings.max_iterations
    if risk.penalty.kink == 0 or risk.strength == 0:
        point = _lbfgs(scaled, scaled.pack(weights, intercept), None, aim, most)
    else:
        point = _alternate(scaled, scaled.pack(weights, intercept), aim, most)
    point = risk.with_best_intercept(point)
    gap = risk.gap(point)
    if not np.isfinite(point.risk):
        status = Status.NON_FINITE
    elif risk.strength == 0 and risk.point(_STRETCH * point.weights, _STRETCH * point.intercept).risk < point.risk:
        # Larger weights in the same direction have a smaller risk, as where labels are separable.
        status = Status.DIVERGING
    else:
        status = Status.CONVERGED if gap <= settings.tolerance else Status.ITERATION_LIMIT
    return _End(point, gap, status, scaled.products)


def _lbfgs(scaled: _Scaled, start: Array, signs: Array | None, tolerance: float, most: int) -> RiskPoint:
    """Minimise by L-BFGS until the gap is small enough; with signs, over weights of these signs alone.

    Args:
        scaled: the risk.
        start: vector.
        signs: +1, -1, and 0 for weights that stay zero, NaN for those without a constraint; None for none at all.
        tolerance: gap that is accepted.
        most: products with the inputs.
    """
    risk, unit = scaled.risk, scaled.risk.risk_of_zero
    free = np.ones(len(start), dtype=bool) if signs is None else signs != 0
    # Comparisons with NaN are false.
    bounds = None if signs is None else [(0 if sign > 0 else None, 0 if sign < 0 else None) for sign in signs[free]]
    latest: list[RiskPoint] = []

    def whole(part: Array) -> Array:
        vector = np.zeros(len(start))
        vector[free] = part
        return vector

    def value_and_slope(part: Array) -> tuple[float, Array]:
        point = scaled.point(whole(part))
        latest[:] = [point]
        return point.risk / unit, scaled.slope(point, penalised=True)[free] / unit

    best: list[RiskPoint] = []

    def watch(part: Array) -> None:
        # The step that was accepted is the point that was looked at last.
        best[:] = latest
        if signs is None and _small(risk, latest[0], tolerance):
            raise StopIteration

    options = {"maxcor": _MEMORY, "maxiter": most, "maxfun": most, "ftol": 0.0, "gtol": 0.0}
    if signs is not None:
        # The gap of the whole problem cannot be small while a weight has to change its sign.
        options |= {"gtol": 0.01 * tolerance}
    found = minimize(
        value_and_slope, start[free], jac=True, method="L-BFGS-B", bounds=bounds, callback=watch, options=options
    )
    if best and np.array_equal(scaled.pack(best[0].weights, best[0].intercept)[free], found.x):
        return best[0]
    return scaled.point(whole(np.asarray(found.x)))


def _small(risk: EmpiricalRowRisk, point: RiskPoint, tolerance: float) -> bool:
    """Return whether a point is accurate enough, the slopes in the intercept included."""
    slopes = float(np.abs(point.output_slope) @ (1 + np.abs(point.intercept))) if risk.has_intercept else 0.0
    return risk.gap(point) + slopes / risk.risk_of_zero <= 0.5 * tolerance


def _alternate(scaled: _Scaled, start: Array, tolerance: float, most: int) -> RiskPoint:
    """Minimise a risk whose penalty has kinks."""
    vector, curvature = start, 1.0
    while True:
        point, curvature = _proximal_steps(scaled, vector, curvature, tolerance)
        vector = scaled.pack(point.weights, point.intercept)
        # Weights of a group do not keep their signs: only vanishing ones are kept.
        signs = np.sign(vector) if scaled.risk.penalty.separable else np.where(vector == 0, 0.0, np.nan)
        signs[scaled.size :] = np.nan
        if _ends(scaled, point, tolerance, most) or np.all(signs == 0):
            return point
        point = _lbfgs(scaled, vector, signs, tolerance, min(_FACE_STEPS, most - scaled.products))
        vector = scaled.pack(point.weights, point.intercept)
        if _ends(scaled, point, tolerance, most):
            return point


def _ends(scaled: _Scaled, point: RiskPoint, tolerance: float, most: int) -> bool:
    """Return whether a point is accurate enough, or nothing more can be done."""
    return not np.isfinite(point.risk) or _small(scaled.risk, point, tolerance) or scaled.products >= most


def _proximal_steps(scaled: _Scaled, vector: Array, curvature: float, tolerance: float) -> tuple[RiskPoint, float]:
    """Take proximal gradient steps, which never raise the risk, and return the point and the curvature at the end.

    The curvature along a step is measured by slopes: differences of risks are rounding errors near the minimum.
    """
    risk, units = scaled.risk, scaled.unit[: scaled.risk.shape[1]] ** 2
    here = scaled.point(vector)
    for _ in range(_PROXIMAL_STEPS):
        if _small(risk, here, tolerance):
            break
        slope = scaled.slope(here, penalised=False)
        while True:
            weights, intercept = scaled.unpack(vector - slope / curvature)
            new = scaled.pack(risk.proximal(weights, 1 / (curvature * units)), intercept)
            change, point = new - vector, scaled.point(new)
            measured = float((scaled.slope(point, penalised=False) - slope) @ change)
            rises = point.risk > here.risk + _ROUNDING * abs(here.risk)
            if (measured <= curvature * float(change @ change) and not rises) or curvature > _STEEPEST:
                break
            curvature *= _STEEPER
        vector, here, curvature = new, point, max(_FLATTER * curvature, 1 / _STEEPEST)
    return here, curvature
