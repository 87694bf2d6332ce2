r"""The best strength of a penalty.

The objective is evaluated on a coarse grid of strengths, then minimised by successive parabolas through three
strengths. At many sample ratios the search starts from optima interpolated between a few ratios. The first search uses
coarse averages over labels, and finer averages correct its optimum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from glassformer.core.estimate import Array
from glassformer.risk.fixed_points import FixedPoints, fixed_points, fixed_points_near, representative_ratios
from glassformer.risk.problem import Flags, RiskProblem

# All lengths are differences of the logarithm of the strength; all numbers were chosen by trial.
# Grid of the first search, relative to lambda_max; if its last point is best, the smallest strength is tried.
_GRID = np.array([-0.2, -0.7, -1.3, -2.0, -3.0, -4.5, -6.5, -9.0])
# Smallest strength of losses whose limit of no penalty exists but cannot be computed.
_SMALLEST = -16.0
# Half-widths: largest one of the first parabola, of the last one, of the last one with coarse averages.
_WIDE, _LAST, _LAST_COARSE = 0.5, 0.02, 0.1
# Half-width of parabolas with finer averages, and change of an optimum below which averages are accurate enough.
_FINER, _UNCHANGED = 0.2, 0.1
# Factor over the smallest strength up to which an optimum is close to it.
_CLOSE = 5.0
# Factors of the half-width if the vertex lies inside the parabola, and outside; largest number of parabolas.
_NARROWER, _WIDER, _PARABOLAS = 0.2, 3.0, 12
# Numerical noise of the objective, and power of an estimate that counts as zero.
_OBJECTIVE_NOISE, _ZERO_POWER = 1e-8, 1e-20

# Kinds of optima: the smallest strength, an optimum changed by finer averages, an optimum confirmed by them.
_AT_SMALLEST, _CORRECTED, _UNCORRECTED = 0, 1, 2


def best_strength(problem: RiskProblem, alpha: Array) -> FixedPoints:
    """Return fixed points at the best strengths, which may be zero.

    The best strength has the least error, or for classification the largest cosine, which without an intercept is
    the least label error. With an intercept it has the least label error. The strength of a pinned trace is NaN.
    """
    if problem.penalty.pinned:
        return fixed_points(problem, alpha, np.full_like(alpha, np.nan))
    recovered = problem.recovers(alpha)
    if recovered.any():
        # If the interpolator recovers the signal, a search would only compare rounding errors.
        exact = fixed_points(problem, alpha[recovered], np.zeros(int(recovered.sum())))
        if recovered.all():
            return exact
        return FixedPoints.merge(recovered, exact, best_strength(problem, alpha[~recovered]))
    few = representative_ratios(alpha)
    optimum, kind = _optimum(problem, few)
    return optimum if len(few) == len(alpha) else _interpolated_optimum(problem, few, optimum, kind, alpha)


def _objective(problem: RiskProblem, points: FixedPoints) -> Array:
    """Return the log of what the best strength minimises; infinite if not converged.

    It is the error, or for classification the squared tangent of the angle to the signal. With an intercept the angle
    does not determine the label error, which is then minimised itself.
    """
    order, labels = points.order, problem.labels
    with np.errstate(divide="ignore", invalid="ignore"):
        if not labels.has_label_error:
            value = np.log(problem.tuned_error(order))
        elif labels.has_intercept:
            value = np.log(np.where(order.power > _ZERO_POWER, labels.label_error(order), np.inf))
        else:
            tangent = order.power * problem.power / order.overlap**2 - 1
            value = np.log(np.where(order.power > _ZERO_POWER, tangent, np.inf))
    value[~points.converged] = np.inf
    return np.asarray(np.nan_to_num(value, nan=np.inf))


def _smallest_strength(problem: RiskProblem, alpha: Array) -> Array:
    """Return the smallest useful strengths.

    Losses of labels +1 and -1 vanish only at infinite fields: without a penalty the estimate of separable labels
    diverges, and there is no limit to compute.
    """
    end = _GRID[-1] if problem.labels.has_label_error else _SMALLEST
    return np.where(problem.loss.quadratic, 0.0, problem.lambda_max(alpha) * np.exp(end))


def _optimum(problem: RiskProblem, alpha: Array) -> tuple[FixedPoints, NDArray[np.int64]]:
    """Return fixed points at best strengths, independently at each sample ratio, and the kinds of these optima."""
    place, start = _grid_search(problem, alpha)
    inside, kind = np.isfinite(place), np.full(len(alpha), _CORRECTED)
    if not inside.any():
        points = _at_smallest(problem, alpha)
    else:
        only = problem.finer is None
        last = _LAST if only else _LAST_COARSE
        first = _minimise(problem, alpha[inside], place[inside], start[inside], _WIDE, last, only)
        points = first
        if not only:
            points = _correct(problem, alpha[inside], np.log(first.strength), first.conjugate.logarithms)
        moved = np.abs(np.log(points.strength / first.strength)) > _LAST
        kind[inside] = np.where(moved, _CORRECTED, _UNCORRECTED)
        if not inside.all():
            points = FixedPoints.merge(inside, points, _at_smallest(problem, alpha[~inside]))
    kind[points.strength <= _smallest_strength(problem, alpha) * np.exp(_LAST)] = _AT_SMALLEST
    return points, kind


def _grid_search(problem: RiskProblem, alpha: Array) -> tuple[Array, Array]:
    """Return logarithms of the best strengths of the grid (NaN if the smallest is best) and of conjugate parameters."""
    rows = np.arange(len(alpha))
    strength = problem.lambda_max(alpha)[:, None] * np.exp(_GRID)
    objective, conjugates = np.full(strength.shape, np.inf), np.zeros((*strength.shape, 3))

    def evaluate(at: NDArray[np.intp], which: slice) -> None:
        some = strength[at, which]
        points = fixed_points(problem, np.repeat(alpha[at], some.shape[1]), some.ravel(), estimated=False)
        objective[at, which] = _objective(problem, points).reshape(some.shape)
        conjugates[at, which] = points.conjugate.logarithms.reshape(*some.shape, -1)

    # The weakest penalty converges most slowly, and is evaluated only if nearly as weak ones are best.
    evaluate(rows, slice(0, -1))
    weak = rows[np.argmin(objective, axis=1) >= len(_GRID) - 3]
    if weak.size:
        evaluate(weak, slice(-1, None))
    # Among equally good strengths, the strongest.
    best = np.argmax(objective <= objective.min(axis=1)[:, None] + _OBJECTIVE_NOISE, axis=1)
    at_end = best == len(_GRID) - 1
    at_end[at_end] = _smallest_is_best(
        problem, alpha[at_end], strength[at_end, -1], conjugates[at_end, -1], objective[at_end, -1]
    )
    return np.where(at_end, np.nan, np.log(strength[rows, best])), conjugates[rows, best]


def _smallest_is_best(problem: RiskProblem, alpha: Array, strength: Array, start: Array, objective: Array) -> Flags:
    """Return where the smallest strength is best: the objective decreases towards small strengths, and to zero."""
    if not alpha.size:
        return np.zeros(0, dtype=bool)
    points = fixed_points_near(problem, alpha, strength * np.exp(_LAST), start, estimated=False)
    stronger = _objective(problem, points)
    if not problem.loss.quadratic:
        return np.asarray(stronger >= objective)
    none = _objective(problem, fixed_points(problem, alpha, np.zeros_like(alpha), estimated=False))
    return np.asarray((stronger >= objective) & (objective >= none))


class _Parabolas:
    """Minimisation over the logarithm of the strength by parabolas, at several sample ratios at once.

    Attributes:
        place, width: centres and half-widths of the parabolas.
        start, slopes: logarithms of conjugate parameters near the centres, and Jacobians of the map.
        turn: shift of the last parabola if its vertex was outside; zero if it was inside.
        best, best_start, lowest: best positions so far, their conjugate parameters, and their objectives.
    """

    def __init__(
        self, problem: RiskProblem, alpha: Array, place: Array, start: Array, slopes: Array | None, width: float
    ) -> None:
        self.problem, self.alpha, self.place, self.start = problem, alpha, place.copy(), start.copy()
        self.slopes = np.full((len(place), 3, 3), np.nan) if slopes is None else slopes.copy()
        self.width, self.turn = np.full(len(place), width), np.zeros(len(place))
        self.best, self.best_start, self.lowest = place.copy(), start.copy(), np.full(len(place), np.inf)

    def step(self, rows: NDArray[np.intp]) -> Flags:
        """Move some centres to the vertices of their parabolas; return whether the vertices lie inside."""
        (middle,), points = self._evaluate(rows, self.place[rows][None])
        # The iterations at both sides start from the fixed point at the centre.
        good = np.isfinite(middle)
        self.start[rows[good]], self.slopes[rows] = points.conjugate.logarithms[good], points.slopes
        (left, right), _ = self._evaluate(rows, self.place[rows] + np.array([[-1.0], [1.0]]) * self.width[rows])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            curvature = left - 2 * middle + right
            shift = np.where(curvature > 0, 0.5 * (left - right) / curvature, 2.0 * np.sign(left - right))
        # All weak penalties of a loss that can vanish may lead to the same estimate: the objective is flat.
        flat = np.maximum(np.abs(left - middle), np.abs(right - middle)) <= _OBJECTIVE_NOISE
        shift = np.where(flat, 0.0, np.nan_to_num(np.clip(shift, -2.0, 2.0)))
        self.place[rows] += shift * self.width[rows]
        close = np.abs(shift) < 1
        # If vertices outside alternate between both sides, continue from the best position with a smaller width.
        alternates = ~close & (shift * self.turn[rows] < 0)
        self.turn[rows] = np.where(close | alternates, 0.0, shift)
        self.restart(rows[alternates])
        self.width[rows[flat]] = 0.0
        return close

    def restart(self, rows: NDArray[np.intp]) -> None:
        """Move some centres to the best positions so far."""
        self.place[rows], self.start[rows], self.slopes[rows] = self.best[rows], self.best_start[rows], np.nan

    def _evaluate(self, rows: NDArray[np.intp], at: Array) -> tuple[Array, FixedPoints]:
        """Return objectives at logarithms of strengths, shape (positions, rows), and store the best."""
        every = np.tile(rows, len(at))
        points = fixed_points_near(
            self.problem, self.alpha[every], np.exp(at.ravel()), self.start[every], False, self.slopes[every]
        )
        values = _objective(self.problem, points).reshape(at.shape)
        conjugates = points.conjugate.logarithms.reshape(*at.shape, 3)
        for value, place, conjugate in zip(values, at, conjugates, strict=True):
            better = value < self.lowest[rows]
            now = rows[better]
            self.lowest[now], self.best[now], self.best_start[now] = value[better], place[better], conjugate[better]
        return values, points


def _minimise(
    problem: RiskProblem, alpha: Array, place: Array, start: Array, width: float, last: float, estimated: bool
) -> FixedPoints:
    """Return fixed points at the optima near given strengths; if parabolas fail, at the best strengths evaluated.

    Args:
        problem: model, loss and penalty.
        alpha: sample ratios.
        place: logarithms of the strengths.
        start: logarithms of conjugate parameters at these strengths.
        width: half-width of the first parabolas.
        last: half-width of the last parabolas.
        estimated: as in :func:`~glassformer.risk.fixed_points.fixed_points_near`.
    """
    search, active = _Parabolas(problem, alpha, place, start, None, width), np.arange(len(place))
    for _ in range(_PARABOLAS):
        if not active.size:
            break
        close, width_before = search.step(active), search.width[active]
        narrower = close | (search.turn[active] == 0)
        wider = np.minimum(_WIDER * width_before, _WIDE)
        search.width[active] = np.where(narrower, _NARROWER * width_before, wider)
        active = active[~(close & (width_before <= last))]
    search.restart(active)
    slopes = None if estimated else search.slopes
    points = fixed_points_near(problem, alpha, np.exp(search.place), search.start, estimated, slopes)
    worse = _objective(problem, points) > search.lowest + _OBJECTIVE_NOISE
    if not worse.any():
        return points
    again = fixed_points_near(problem, alpha[worse], np.exp(search.best[worse]), search.best_start[worse], estimated)
    return FixedPoints.merge(worse, again, points.at(~worse))


def _at_smallest(problem: RiskProblem, alpha: Array) -> FixedPoints:
    """Return fixed points at the smallest strengths, or at larger optima found with finer averages."""
    smallest = _smallest_strength(problem, alpha)
    points = fixed_points(problem, alpha, smallest)
    if (finer := problem.finer) is None:
        return points
    there = fixed_points_near(finer, alpha, smallest, points.conjugate.logarithms, estimated=False)
    objective = _objective(finer, there)
    above = ~_smallest_is_best(finer, alpha, smallest, there.conjugate.logarithms, objective)
    if not above.any():
        return points
    optimum = _correct(problem, alpha[above], np.log(smallest[above]), points.conjugate.logarithms[above])
    return FixedPoints.merge(above, optimum, points.at(~above))


def _correct(problem: RiskProblem, alpha: Array, place: Array, start: Array) -> FixedPoints:
    """Return fixed points at the optima of finer averages, refined until the optima no longer change."""
    place, start, fine = place.copy(), start.copy(), problem
    moving = np.ones(len(place), dtype=bool)
    while moving.any() and (finer := fine.finer) is not None:
        fine = finer
        optimum = _minimise(fine, alpha[moving], place[moving], start[moving], _FINER, _FINER, False)
        before, place[moving] = place[moving], np.log(optimum.strength)
        start[moving] = optimum.conjugate.logarithms
        moving[moving] = np.abs(place[moving] - before) > _UNCHANGED
    return fixed_points_near(problem, alpha, np.exp(place), start)


def _interpolated_optimum(
    problem: RiskProblem, few: Array, optimum: FixedPoints, kind: NDArray[np.int64], alpha: Array
) -> FixedPoints:
    """Return fixed points at the best strengths of many sample ratios from the optima at a few.

    Between two optima the search starts from interpolated ones, and next to a smallest strength as well if the optimum
    on the other side is close to it; if not, every sample ratio has its own search. Between two smallest strengths the
    smallest strength is best.
    """
    gaps = np.searchsorted(few, alpha).clip(1, len(few) - 1)
    inside = kind > _AT_SMALLEST
    known = inside[gaps].astype(int) + inside[gaps - 1]
    rows = known == known[0]
    here, behind, ratios = gaps[rows], gaps[rows] - 1, alpha[rows]
    smallest = _smallest_strength(problem, ratios)
    if known[0] == 2:
        uncorrected = np.minimum(kind[here], kind[behind]) == _UNCORRECTED
        guess = CubicSpline(np.log(few[inside]), _columns(optimum.at(inside)))(np.log(ratios))
        points = _near_guess(problem, ratios, guess, uncorrected)
    elif known[0] == 0:
        points = _at_smallest(problem, ratios)
    elif np.all(np.maximum(optimum.strength[here], optimum.strength[behind]) <= _CLOSE * smallest):
        share = (np.log(ratios / few[behind]) / np.log(few[here] / few[behind]))[:, None]
        columns = _columns(optimum)
        guess = share * columns[here] + (1 - share) * columns[behind]
        points = _near_guess(problem, ratios, guess, np.maximum(kind[here], kind[behind]) == _UNCORRECTED)
        beyond = ~(points.strength > smallest * np.exp(_LAST))
        if beyond.any():
            points = FixedPoints.merge(beyond, _at_smallest(problem, ratios[beyond]), points.at(~beyond))
    else:
        points = _optimum(problem, ratios)[0]
    if rows.all():
        return points
    return FixedPoints.merge(rows, points, _interpolated_optimum(problem, few, optimum, kind, alpha[~rows]))


def _columns(optimum: FixedPoints) -> Array:
    """Return what searches begin with: logarithms of strengths and of conjugate parameters, and slopes."""
    return np.column_stack([np.log(optimum.strength), optimum.conjugate.logarithms, optimum.slopes.reshape(-1, 9)])


def _near_guess(problem: RiskProblem, alpha: Array, guess: Array, uncorrected: Flags) -> FixedPoints:
    """Return fixed points at best strengths near guesses, columns as those above; for most one parabola is enough.

    Finer averages are used only where they changed the neighbouring optima.
    """
    place, start, slopes = guess[:, 0], guess[:, 1:4], guess[:, 4:].reshape(-1, 3, 3)
    if not uncorrected.all():
        points = _correct(problem, alpha[~uncorrected], place[~uncorrected], start[~uncorrected])
        if not uncorrected.any():
            return points
        rest = _near_guess(problem, alpha[uncorrected], guess[uncorrected], uncorrected[uncorrected])
        return FixedPoints.merge(uncorrected, rest, points)
    search = _Parabolas(problem, alpha, place, start, slopes, _LAST)
    search.step(np.arange(len(alpha)))
    near = np.abs(search.place - place) < _LAST
    last = _LAST if problem.finer is None else _LAST_COARSE
    found = []
    if near.any():
        found.append(fixed_points_near(problem, alpha[near], np.exp(search.place[near]), search.start[near]))
    if not near.all():
        found.append(_minimise(problem, alpha[~near], place[~near], start[~near], _FINER, last, True))
    return found[0] if len(found) == 1 else FixedPoints.merge(near, *found)
