r"""State evolution of regularised risk: fixed points of fields and of what is learned from them.

The state is the logarithm of :math:`(\tau^2, \hat m, \hat V)`; the map learns from them
(:mod:`glassformer.risk.penalties`) and asks the labels (:mod:`glassformer.risk.labels`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.numerics.quasi_random import confident, mean_and_error
from glassformer.risk.labels import Labels
from glassformer.risk.least_squares import least_squares
from glassformer.risk.penalties import Fields, Learned
from glassformer.risk.points import Point
from glassformer.risk.problem import LEAST, Problem
from glassformer.risk.starts import FEW, few_of, start_of
from glassformer.state_evolution.newton import newton

_SETTINGS = Iteration(tolerance=1e-13, floor=1e-10, max_iterations=500)
# Of points that only a search looks at: those that converge later are left out of it.
_LOOK = Iteration(tolerance=1e-13, floor=1e-10, max_iterations=100)
# Logarithms of fields beyond are none.
_FAR = 60.0
# Integrals over laws are right to this part, which as many samples as unknowns amplify without bound; so near to them
# points that were not found are not known at all.
_INTEGRALS, _NEAR = 1e-10, 1e-4
# Finer averages that move the error by a smaller share of it are as good as exact.
AGREED = 1e-7


def solved(problem: Problem, alpha: Array, strength: Array, estimated: bool = True) -> Point:
    """Fixed points at sample ratios and strengths, shape (batch,); ``estimated`` as in :func:`point_at`.

    Where the error is foretold (:meth:`Problem.known_error`), or has a closed form, nothing is searched for.
    """
    known = problem.known_error(alpha, strength)
    told = ~np.isnan(known)
    closed = ~told & problem.least_squares(alpha, strength)
    if told.any():
        some, point = told, Point.known(problem, alpha[told], strength[told], known[told])
    elif closed.any():
        some, point = closed, least_squares(problem, alpha[closed])
    else:
        return _searched(problem, alpha, strength, estimated)
    if some.all():
        return point
    return Point.joined(some, point, solved(problem, alpha[~some], strength[~some], estimated))


def _searched(problem: Problem, alpha: Array, strength: Array, estimated: bool) -> Point:
    least = np.where(strength == 0, LEAST, strength)
    point = point_at(problem, alpha, least, _interpolated(problem, alpha, least), estimated)
    none = strength == 0
    if none.any():
        limit = _limit(problem, alpha[none], point.at(none), estimated)
        point = Point.joined(none, limit._replace(strength=np.zeros_like(limit.strength)), point.at(~none))
    return point


def _limit(problem: Problem, alpha: Array, point: Point, estimated: bool) -> Point:
    """The limit of no penalty from points at the strength that stands for none.

    Of matrices that are not positive that is the one of least penalty among those that fit the labels, a problem of
    its own in which no strength is small: next to as many samples as unknowns none is small enough. Errors of
    positive ones, which do not diverge, move with the strength or its root: four times as much tells how far.
    """
    if problem.penalty.positive:
        if not estimated:
            return point
        with_more_noise = point_at(problem, alpha, 4 * point.strength, point.logarithms).found.error
        return point._replace(error_estimate=point.error_estimate + 2 * np.abs(with_more_noise - point.found.error))
    fitting = replace(problem, seen=replace(problem.labels, fitted=True))
    unit = np.array([1.0, LEAST, LEAST])
    found = point_at(fitting, alpha, np.ones_like(alpha), point.logarithms - np.log(unit), estimated)
    fields = Fields(*(part * size for part, size in zip(found.fields, unit, strict=True)))
    spare = 1 - problem.count(alpha)
    lost = (spare < _NEAR) & ~np.array([status.ok for status in found.status])
    amplified = np.where(lost, np.inf, _INTEGRALS * found.found.error / spare)
    return found._replace(
        fields=fields,
        error_estimate=found.error_estimate + amplified,
        found=found.found._replace(susceptibility=np.full_like(alpha, np.inf)),
        answer=found.answer._replace(training_loss=np.zeros_like(alpha)),
        iterations=found.iterations + point.iterations,
    )


def point_at(
    problem: Problem,
    alpha: Array,
    strength: Array,
    start: Array,
    estimated: bool = True,
    slopes: Array | None = None,
) -> Point:
    """Fixed points near logarithms of fields, shape (batch, 3).

    Points that are not to be ``estimated``, which a search looks at, have error estimates of NaN, and are given up
    earlier. ``slopes`` of the map near the start, which a search knows from the point before, need not be measured.
    """

    def step(x: Array, index: Any) -> Estimate:
        good = np.all(np.abs(x) < _FAR, axis=1)
        found = problem.learned(strength[index], Fields(*np.exp(np.where(good[:, None], x, 0.0)).T))
        with np.errstate(invalid="ignore", divide="ignore"):
            new = np.log(np.stack(problem.after(alpha[index], found), axis=1))
        new[~good] = np.nan
        return Estimate(new, np.broadcast_to(found.blur[:, None], new.shape) / np.maximum(found.error, 1e-3)[:, None])

    solution = newton(step, start, _SETTINGS if estimated else _LOOK, slopes=slopes)
    # Next to a threshold the map hardly contracts: slopes have to be those of the map to the last digits.
    late = np.array([status is Status.ITERATION_LIMIT for status in solution.status])
    if late.any() and estimated:
        rows = np.flatnonzero(late)
        again = newton(lambda x, index: step(x, rows[index]), solution.value[late], _SETTINGS, both=True)
        solution = solution.merge_where(late, replace(again, iterations=again.iterations + solution.iterations[late]))
    fields = Fields(*np.exp(solution.value).T)
    found = problem.learned(strength, fields)
    blur = _blur(problem, strength, solution, found) if estimated else np.full_like(strength, np.nan)
    return Point(
        strength,
        fields,
        found,
        problem.labels.answers(found),
        list(solution.status),
        solution.residual,
        solution.iterations,
        blur,
        solution.extra["slopes"],
    )


def refined(problem: Problem, alpha: Array, point: Point) -> Point:
    """Fixed points of finer averages over labels, until two of them agree; error estimates say how far they do not."""
    rough = point.iterations > 0
    if not rough.all() and problem.labels.finer is not None:
        known = point.at(~rough)
        known = known._replace(answer=_finest(problem.labels).answers(known.found))
        point = Point.joined(rough, point.at(rough), known)
    while rough.any() and (finer := problem.finer) is not None:
        problem = finer
        again = point_at(problem, alpha[rough], point.strength[rough], point.logarithms[rough])
        apart = again.error_estimate + np.abs(again.found.error - point.found.error[rough])
        again = again._replace(error_estimate=apart, iterations=again.iterations + point.iterations[rough])
        point = Point.joined(rough, again, point.at(~rough))
        rough[rough] = ~(apart <= AGREED * again.found.error)
    replicas = list(problem.labels.replicas)
    if not (replicas and rough.any()):
        return point
    found = point.at(rough)
    errors = [
        point_at(replace(problem, seen=labels), alpha[rough], found.strength, found.logarithms).found.error
        for labels in replicas
    ]
    spread = confident(len(replicas)) * mean_and_error(np.array(errors))[1]
    return Point.joined(rough, found._replace(error_estimate=spread), point.at(~rough))


def _finest(labels: Labels) -> Labels:
    while (finer := labels.finer) is not None:
        labels = finer
    return labels


def _interpolated(problem: Problem, alpha: Array, strength: Array) -> Array:
    """Starts of many sample ratios at one strength lie between the fixed points of a few."""
    few = few_of(alpha)
    if len(few) == len(alpha) or np.any(strength != strength[0]):
        return start_of(problem, alpha, strength)
    known = solved(problem, few, np.full(len(few), strength[0]), estimated=False)
    ok = np.array([status.ok for status in known.status])
    if np.sum(ok) < FEW // 2:
        return start_of(problem, alpha, strength)
    return np.asarray(PchipInterpolator(np.log(few[ok]), known.logarithms[ok])(np.log(alpha)))


def _blur(problem: Problem, strength: Array, solution: Solution, found: Learned) -> Array:
    """Error of the error: that of its integrals, and what a state off by its own estimate changes."""
    total = found.blur.copy()
    off = np.minimum(solution.error_estimate, 1.0)
    for axis in range(3):
        moved = solution.value.copy()
        moved[:, axis] += 1e-4
        total += off * np.abs(problem.learned(strength, Fields(*np.exp(moved).T)).error - found.error) / 1e-4
    return np.where(np.array([status is Status.NON_FINITE for status in solution.status]), np.nan, total)
