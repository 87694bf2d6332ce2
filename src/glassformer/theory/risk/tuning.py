r"""The strength of a penalty at which what is learned is best.

The objective is looked at on a coarse grid of strengths, then followed down parabolas through three of them, which
close in on the optimum. Many sample ratios begin between the optima of a few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from glassformer.core.integral import Array
from glassformer.theory.risk.fixed_points import point_at, solved
from glassformer.theory.risk.points import Point
from glassformer.theory.risk.problem import Flags, Problem
from glassformer.theory.risk.starts import few_of


@dataclass(frozen=True)
class Search:
    """How the best strength is looked for, in logarithms.

    Attributes:
        looks: from the largest useful strength, where it is looked for; beyond, the least is best.
        least: a strength that stands for none, of losses that have a limit and no way to it.
        wide: half-width of the first parabola from looks.
        narrower: factor of the next one, where it closes in.
        wider: factor at most, where it does not.
        last: half-width of the last one, and of that between known optima.
        parabolas: at most.
        near: half-width of parabolas of finer averages.
        same: how far optima may be from those of averages that are less fine.
        noise: differences of objectives that mean nothing.
        nothing: power of estimates that is none.
    """

    looks: tuple[float, ...] = (-0.2, -0.7, -1.3, -2.0, -3.0, -4.5, -6.5, -9.0)
    least: float = -16.0
    wide: float = 0.5
    narrower: float = 0.2
    wider: float = 3.0
    last: float = 0.02
    parabolas: int = 12
    near: float = 0.2
    same: float = 0.1
    noise: float = 1e-8
    nothing: float = 1e-20


_POLICY = Search()


def tuned(problem: Problem, alpha: Array) -> Point:
    """Fixed points at the best strength, or at none at all where the least is best, or where none has an effect.

    Best is the least error; of labels that are right or wrong the least label error, that is the largest cosine.
    """
    if problem.penalty.pinned:
        return solved(problem, alpha, np.full_like(alpha, np.nan))
    recovered = problem.recovered(alpha)
    if recovered.any():
        # Nothing is better than the signal; searches beside it would compare rounding errors.
        exact = solved(problem, alpha[recovered], np.zeros(int(recovered.sum())))
        return exact if recovered.all() else Point.joined(recovered, exact, tuned(problem, alpha[~recovered]))
    few = few_of(alpha)
    place, fields = _looked(problem, few)
    width, inside = _POLICY.wide, np.isfinite(place)
    if inside.any() and len(few) < len(alpha):
        optimum = _followed(
            problem, few[inside], place[inside], fields[inside], _POLICY.wide, _POLICY.narrower * _POLICY.wide
        )
        place, fields = _between(few, inside, optimum, alpha)
        width, inside = _POLICY.last, np.isfinite(place)
    # A loss that only labels told apart by far bring to zero has no optimum without a penalty, but estimates that grow.
    last = _POLICY.looks[-1] if problem.labels.decided else _POLICY.least
    least = np.where(problem.loss.quadratic, 0.0, problem.largest_strength(alpha) * np.exp(last))
    if not inside.any():
        return _ended(problem, alpha, least)
    found = _followed(problem, alpha[inside], place[inside], fields[inside], width)
    found = _sharpened(problem, alpha[inside], found)
    if inside.all():
        return found
    return Point.joined(inside, found, _ended(problem, alpha[~inside], least[~inside]))


def _looked(problem: Problem, alpha: Array) -> tuple[Array, Array]:
    """Logarithms of the best strength looked at, NaN where it is the least one, and of fields there."""
    largest, rows = problem.largest_strength(alpha), np.arange(len(alpha))
    strength = largest[:, None] * np.exp(_POLICY.looks)
    objective, fields = np.full(strength.shape, np.inf), np.zeros((*strength.shape, 3))

    def look(at: NDArray[np.intp], which: slice) -> None:
        some = strength[at, which]
        points = solved(problem, np.repeat(alpha[at], some.shape[1]), some.ravel(), estimated=False)
        objective[at, which] = _objective(problem, points).reshape(some.shape)
        fields[at, which] = points.logarithms.reshape(*some.shape, -1)

    # The weakest penalties converge last: they are left out where much stronger ones are better.
    look(rows, slice(0, -1))
    weak = rows[np.argmin(objective, axis=1) >= len(_POLICY.looks) - 3]
    if weak.size:
        look(weak, slice(-1, None))
    best = np.argmin(objective, axis=1)
    last = best == len(_POLICY.looks) - 1
    last[last] = _least_is_best(problem, alpha[last], strength[last, -1], fields[last, -1], objective[last, -1])
    return np.where(last, np.nan, np.log(strength[rows, best])), fields[rows, best]


def _least_is_best(problem: Problem, alpha: Array, strength: Array, fields: Array, objective: Array) -> Flags:
    """Whether the optimum is weaker than the least strength looked at, and no better than none where none is one."""
    if not alpha.size:
        return np.zeros(0, dtype=bool)
    stronger = _objective(problem, point_at(problem, alpha, strength * np.exp(_POLICY.last), fields, estimated=False))
    if not problem.loss.quadratic:
        return np.asarray(stronger >= objective)
    none = _objective(problem, solved(problem, alpha, np.zeros_like(alpha), estimated=False))
    return np.asarray((stronger >= objective) & (objective >= none))


def _between(few: Array, inside: Flags, optimum: Point, alpha: Array) -> tuple[Array, Array]:
    """Logarithms of strengths and fields near the optima of other sample ratios; NaN beyond those that are known."""
    places = np.column_stack([np.log(optimum.strength), optimum.logarithms])
    if len(places) < 2:
        return np.full(len(alpha), np.nan), np.full((len(alpha), places.shape[1] - 1), np.nan)
    known = CubicSpline(np.log(few[inside]), places, extrapolate=False)
    guess = known(np.log(alpha))
    # Between a few of which one has no optimum, who can tell.
    gaps = np.searchsorted(few, alpha).clip(1, len(few) - 1)
    guess[~(inside[gaps] & inside[gaps - 1])] = np.nan
    return guess[:, 0], guess[:, 1:]


def _followed(
    problem: Problem, alpha: Array, place: Array, fields: Array, width: float, last: float = _POLICY.last
) -> Point:
    """The optimum of the objective near logarithms of strengths, from logarithms of fields there.

    Where parabolas do not close in on one, or lead astray, that is the best place looked at.
    """
    place, fields, reach, before = place.copy(), fields.copy(), np.full(len(place), width), np.zeros(len(place))
    lowest, best, known = np.full(len(place), np.inf), place.copy(), fields.copy()
    active = np.arange(len(place))
    for _ in range(_POLICY.parabolas):
        if not active.size:
            break
        sides = place[active] + np.array([[-1.0], [0.0], [1.0]]) * reach[active]
        ratios, starts = np.tile(alpha[active], 3), np.tile(fields[active], (3, 1))
        points = point_at(problem, ratios, np.exp(sides.ravel()), starts, estimated=False)
        values, there = _objective(problem, points).reshape(sides.shape), points.logarithms.reshape(*sides.shape, -1)
        fields[active] = there[1]
        for value, side, field in zip(values, sides, there, strict=True):
            better = value < lowest[active]
            rows = active[better]
            lowest[rows], best[rows], known[rows] = value[better], side[better], field[better]
        left, middle, right = values
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            bend = left - 2 * middle + right
            shift = np.where(bend > 0, 0.5 * (left - right) / bend, 2.0 * np.sign(left - right))
        shift = np.nan_to_num(np.clip(shift, -2.0, 2.0))
        place[active] += shift * reach[active]
        close = np.abs(shift) < 1
        done = close & (reach[active] <= last)
        # Back and forth between sides that bend away: on from the best place, nearer by.
        turned = ~close & (shift * before[active] < 0)
        rows = active[turned]
        place[rows], fields[rows] = best[rows], known[rows]
        before[active] = np.where(close | turned, 0.0, shift)
        wider = np.minimum(_POLICY.wider * reach[active], _POLICY.wide)
        reach[active] = np.where(close | turned, _POLICY.narrower * reach[active], wider)
        active = active[~done]
    place[active], fields[active] = best[active], known[active]
    found = point_at(problem, alpha, np.exp(place), fields, estimated=last == _POLICY.last)
    astray = _objective(problem, found) > lowest + _POLICY.noise
    if not astray.any():
        return found
    again = point_at(problem, alpha[astray], np.exp(best[astray]), known[astray], estimated=last == _POLICY.last)
    return Point.joined(astray, again, found.at(~astray))


def _ended(problem: Problem, alpha: Array, least: Array) -> Point:
    """Fixed points at the least strengths, or at the optima that finer averages over labels have above them."""
    point = solved(problem, alpha, least)
    if (seen := problem.finer) is None:
        return point
    there = point_at(seen, alpha, least, point.logarithms, estimated=False)
    above = ~_least_is_best(seen, alpha, least, there.logarithms, _objective(seen, there))
    if not above.any():
        return point
    return Point.joined(above, _sharpened(problem, alpha[above], point.at(above)), point.at(~above))


def _sharpened(problem: Problem, alpha: Array, point: Point) -> Point:
    """Fixed points, as rough as they were, at the optima of finer averages over labels, until these hardly move."""
    place, fields, seen = np.log(point.strength), point.logarithms, problem
    moving = np.ones(len(place), dtype=bool)
    while moving.any() and (finer := seen.finer) is not None:
        seen = finer
        found = _followed(seen, alpha[moving], place[moving], fields[moving], _POLICY.near, _POLICY.near)
        before, place[moving], fields[moving] = place[moving], np.log(found.strength), found.logarithms
        moving[moving] = np.abs(place[moving] - before) > _POLICY.same
    return point if seen is problem else point_at(problem, alpha, np.exp(place), fields)


def _objective(problem: Problem, points: Point) -> Array:
    found = points.found
    with np.errstate(divide="ignore", invalid="ignore"):
        # The squared tangent between estimate and signal: relative changes show near both ends.
        tangent = np.where(found.power > _POLICY.nothing, found.power * problem.power / found.overlap**2 - 1, np.inf)
        value = np.log(tangent if problem.labels.decided else found.error)
    value[[not status.ok for status in points.status]] = np.inf
    return np.asarray(np.nan_to_num(value, nan=np.inf))
