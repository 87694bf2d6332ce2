r"""The strength of a penalty at which what is learned is best.

The objective is looked at on a coarse grid of strengths, then followed down parabolas through three of them, which
close in on the optimum. Many sample ratios begin between the optima of a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from glassformer.core.estimate import Array
from glassformer.risk.fixed_points import point_at, solved
from glassformer.risk.points import Point
from glassformer.risk.problem import Flags, Problem
from glassformer.risk.starts import few_of


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
        rough: half-width of the last one of averages that finer ones follow.
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
    rough: float = 0.1
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
    optimum, kind = _optimum(problem, few)
    return optimum if len(few) == len(alpha) else _between(problem, few, optimum, kind, alpha)


class _Kind(IntEnum):
    """What the best strength is: the least one, or an optimum that finer averages have moved, or have left in place."""

    LEAST = 0
    FINER = 1
    PLAIN = 2


def _optimum(problem: Problem, alpha: Array) -> tuple[Point, NDArray[np.int64]]:
    """Fixed points at best strengths, each ratio on its own, and their kinds."""
    place, fields = _looked(problem, alpha)
    inside, kind = np.isfinite(place), np.full(len(alpha), _Kind.PLAIN)
    if not inside.any():
        point = _ended(problem, alpha)
    else:
        final = problem.finer is None
        last = _POLICY.last if final else _POLICY.rough
        found = _followed(problem, alpha[inside], place[inside], fields[inside], _POLICY.wide, last, final)
        point = found if final else _sharpened(problem, alpha[inside], np.log(found.strength), found.logarithms)
        moved = np.abs(np.log(point.strength / found.strength)) > _POLICY.last
        kind[inside] = np.where(moved, _Kind.FINER, _Kind.PLAIN)
        if not inside.all():
            point = Point.joined(inside, point, _ended(problem, alpha[~inside]))
    least = point.strength <= _least(problem, alpha) * np.exp(_POLICY.last)
    return point, np.where(least, _Kind.LEAST, np.where(inside, kind, _Kind.FINER))


def _least(problem: Problem, alpha: Array) -> Array:
    """The least strengths that are useful.

    A loss that only labels told apart by far bring to zero has no optimum without a penalty, but estimates that grow.
    """
    last = _POLICY.looks[-1] if problem.labels.decided else _POLICY.least
    return np.where(problem.loss.quadratic, 0.0, problem.largest_strength(alpha) * np.exp(last))


def _between(problem: Problem, few: Array, optimum: Point, kind: NDArray[np.int64], alpha: Array) -> Point:
    """Fixed points at best strengths of many sample ratios, told what a few have.

    Between two with optima, others are near these; between two without they have none; beside one with an optimum and
    one without, each is looked at.
    """
    gaps = np.searchsorted(few, alpha).clip(1, len(few) - 1)
    inside = kind > _Kind.LEAST
    known = inside[gaps].astype(int) + inside[gaps - 1]
    rows = known == known[0]
    if known[0] == 2:
        plain = np.minimum(kind[gaps], kind[gaps - 1])[rows] == _Kind.PLAIN
        point = _near(problem, few[inside], optimum.at(inside), alpha[rows], plain)
    else:
        point = _optimum(problem, alpha[rows])[0] if known[0] == 1 else _ended(problem, alpha[rows])
    if rows.all():
        return point
    return Point.joined(rows, point, _between(problem, few, optimum, kind, alpha[~rows]))


def _near(problem: Problem, few: Array, optimum: Point, alpha: Array, plain: Flags) -> Point:
    """Fixed points at best strengths near those of a few ratios: most are told by one parabola.

    Where finer averages have left the optima of the few where they were, they are not asked again.
    """
    columns = np.column_stack([np.log(optimum.strength), optimum.logarithms, optimum.slopes.reshape(-1, 9)])
    guess = CubicSpline(np.log(few), columns)(np.log(alpha))
    place, fields, slopes = guess[:, 0], guess[:, 1:4], guess[:, 4:].reshape(-1, 3, 3)
    if not plain.all():
        point = _sharpened(problem, alpha[~plain], place[~plain], fields[~plain])
        if not plain.any():
            return point
        return Point.joined(plain, _near(problem, few, optimum, alpha[plain], plain[plain]), point)
    path = _Path(problem, alpha, place, fields, slopes, _POLICY.last)
    path.step(np.arange(len(alpha)))
    near = np.abs(path.place - place) < _POLICY.last
    point = point_at(problem, alpha[near], np.exp(path.place[near]), path.fields[near])
    if near.all():
        return point
    last = _POLICY.last if problem.finer is None else _POLICY.rough
    others = _followed(problem, alpha[~near], place[~near], fields[~near], _POLICY.near, last, True)
    return Point.joined(near, point, others)


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
    # Of those that are equally good the strongest.
    best = np.argmax(objective <= objective.min(axis=1)[:, None] + _POLICY.noise, axis=1)
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


class _Path:
    """Logarithms of strengths on their way to optima by parabolas, and what is known there.

    Attributes:
        place, reach: centres and half-widths of the parabolas.
        fields, slopes: logarithms of fields near the centres, and slopes of the map.
        best, known, lowest: the best places looked at, the fields there, and their objectives.
    """

    def __init__(
        self, problem: Problem, alpha: Array, place: Array, fields: Array, slopes: Array | None, width: float
    ) -> None:
        self.problem, self.alpha, self.place, self.fields = problem, alpha, place.copy(), fields.copy()
        self.slopes = np.full((len(place), 3, 3), np.nan) if slopes is None else slopes.copy()
        self.reach, self.turn = np.full(len(place), width), np.zeros(len(place))
        self.best, self.known, self.lowest = place.copy(), fields.copy(), np.full(len(place), np.inf)

    def step(self, rows: NDArray[np.intp]) -> Flags:
        """Move some of them to the vertices of parabolas; whether these lie within."""
        (middle,), points = self._look(rows, self.place[rows][None])
        # The sides begin where the middle has ended, with its slopes.
        good = np.isfinite(middle)
        self.fields[rows[good]], self.slopes[rows] = points.logarithms[good], points.slopes
        (left, right), _ = self._look(rows, self.place[rows] + np.array([[-1.0], [1.0]]) * self.reach[rows])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            bend = left - 2 * middle + right
            shift = np.where(bend > 0, 0.5 * (left - right) / bend, 2.0 * np.sign(left - right))
        # Weak penalties of a loss that can be zero may all leave the same estimate: none of them is better.
        flat = np.maximum(np.abs(left - middle), np.abs(right - middle)) <= _POLICY.noise
        shift = np.where(flat, 0.0, np.nan_to_num(np.clip(shift, -2.0, 2.0)))
        self.place[rows] += shift * self.reach[rows]
        close = np.abs(shift) < 1
        # Back and forth between sides that bend away: on from the best place, nearer by.
        turned = ~close & (shift * self.turn[rows] < 0)
        self.turn[rows] = np.where(close | turned, 0.0, shift)
        self.begin(rows[turned])
        self.reach[rows[flat]] = 0.0
        return close

    def begin(self, rows: NDArray[np.intp]) -> None:
        """Go on from the best places."""
        self.place[rows], self.fields[rows], self.slopes[rows] = self.best[rows], self.known[rows], np.nan

    def _look(self, rows: NDArray[np.intp], at: Array) -> tuple[Array, Point]:
        """Objectives at logarithms of strengths, shape (looks, rows)."""
        every = np.tile(rows, len(at))
        points = point_at(
            self.problem, self.alpha[every], np.exp(at.ravel()), self.fields[every], False, self.slopes[every]
        )
        values, there = _objective(self.problem, points).reshape(at.shape), points.logarithms.reshape(*at.shape, 3)
        for value, one, field in zip(values, at, there, strict=True):
            better = value < self.lowest[rows]
            now = rows[better]
            self.lowest[now], self.best[now], self.known[now] = value[better], one[better], field[better]
        return values, points


def _followed(
    problem: Problem, alpha: Array, place: Array, fields: Array, width: float, last: float, estimated: bool
) -> Point:
    """The optimum of the objective near logarithms of strengths, from logarithms of fields there.

    Where parabolas do not close in on one, or lead astray, that is the best place looked at.
    """
    path, active = _Path(problem, alpha, place, fields, None, width), np.arange(len(place))
    for _ in range(_POLICY.parabolas):
        if not active.size:
            break
        close, reach = path.step(active), path.reach[active]
        nearer = close | (path.turn[active] == 0)
        wider = np.minimum(_POLICY.wider * reach, _POLICY.wide)
        path.reach[active] = np.where(nearer, _POLICY.narrower * reach, wider)
        active = active[~(close & (reach <= last))]
    path.begin(active)
    found = point_at(problem, alpha, np.exp(path.place), path.fields, estimated, None if estimated else path.slopes)
    astray = _objective(problem, found) > path.lowest + _POLICY.noise
    if not astray.any():
        return found
    again = point_at(problem, alpha[astray], np.exp(path.best[astray]), path.known[astray], estimated)
    return Point.joined(astray, again, found.at(~astray))


def _ended(problem: Problem, alpha: Array) -> Point:
    """Fixed points at the least strengths, or at the optima that finer averages over labels have above them."""
    least = _least(problem, alpha)
    point = solved(problem, alpha, least)
    if (seen := problem.finer) is None:
        return point
    there = point_at(seen, alpha, least, point.logarithms, estimated=False)
    above = ~_least_is_best(seen, alpha, least, there.logarithms, _objective(seen, there))
    if not above.any():
        return point
    found = _sharpened(problem, alpha[above], np.log(least[above]), point.logarithms[above])
    return Point.joined(above, found, point.at(~above))


def _sharpened(problem: Problem, alpha: Array, place: Array, fields: Array) -> Point:
    """Fixed points, of the problem, at the optima of finer averages over labels, until these hardly move."""
    place, fields, seen = place.copy(), fields.copy(), problem
    moving = np.ones(len(place), dtype=bool)
    while moving.any() and (finer := seen.finer) is not None:
        seen = finer
        found = _followed(seen, alpha[moving], place[moving], fields[moving], _POLICY.near, _POLICY.near, False)
        before, place[moving], fields[moving] = place[moving], np.log(found.strength), found.logarithms
        moving[moving] = np.abs(place[moving] - before) > _POLICY.same
    return point_at(problem, alpha, np.exp(place), fields)


def _objective(problem: Problem, points: Point) -> Array:
    found = points.found
    with np.errstate(divide="ignore", invalid="ignore"):
        # The squared tangent between estimate and signal: relative changes show near both ends.
        tangent = np.where(found.power > _POLICY.nothing, found.power * problem.power / found.overlap**2 - 1, np.inf)
        value = np.log(tangent if problem.labels.decided else found.error)
    value[[not status.ok for status in points.status]] = np.inf
    return np.asarray(np.nan_to_num(value, nan=np.inf))
