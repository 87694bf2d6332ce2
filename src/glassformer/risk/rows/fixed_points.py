"""Fixed points of the state evolution of a risk of rows: branches from several starts, with errors from replicas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.numerics.fixed_points.damped import Damped
from glassformer.numerics.fixed_points.newton import Newton
from glassformer.numerics.fixed_points.solve import FixedPointMap, Flags, Index, solve
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error
from glassformer.risk.rows.averages import NearbyMinima, OrderState, RowAverages
from glassformer.risk.rows.problem import RowProblem, RowStep

# The search that begins far from the fixed point, with one set of samples: steps at most, and the change of a step
# below which the fixed point of all samples is near (chosen by trial).
_SEARCH = Iteration(tolerance=3e-3, floor=3e-3, max_iterations=120)
# Share of its first step, since those of the map may overshoot; with positional encodings, whose means have a slope far
# below -1, it is smaller.
_SHARE, _POSITIONAL_SHARE = 0.5, 0.05
# Accuracy of a fixed point of few samples, whose own sampling error is larger. Limits of steps grow with the number of
# order parameters, since slopes take one evaluation of the map for each: three measurements of slopes.
_SLOPES = 3
_ROUGH = Iteration(tolerance=1e-3, floor=1e-3, max_iterations=40)
# The last search runs in units of so many standard errors of the map, and ends at this share of such a unit. Where the
# proximal map jumps, averages over samples jump as well, by less than that.
_UNIT, _SMALLEST_ERROR = 30.0, 1e-6
_SETTINGS = Iteration(tolerance=1e-12, floor=5e-3, max_iterations=60)
# Share of samples without a minimum beyond which the loss counts as unbounded below (a convention).
_UNSOLVED = 0.01
# Standard errors beyond which jumps of the proximal map are significant (a convention).
_SIGNIFICANT = 3.0


@dataclass(frozen=True)
class RowFixedPoint:
    """A fixed point, what it predicts, and how it was found.

    Attributes:
        start: name of the start.
        state: order parameters.
        step: averages and conjugate parameters there.
        minima: where the minimisations of all samples ended there.
        status: of the search.
        residual: largest change of an order parameter by one step of the map; NaN, as stability and free energy, where
            the search left the domain of the map or the loss has no minimum, so that the state means nothing.
        iterations: evaluations of the map, those of a search with few samples by their share of the work.
        deviations: of the fixed point of every set from that of all, in the order of :meth:`Packing.pack`.
        stability: the replicon's radius.
        free_energy: minimum of the risk over ``d``.
    """

    start: str
    state: OrderState
    step: RowStep
    minima: NearbyMinima
    status: Status
    residual: float
    iterations: int
    deviations: Array
    stability: float
    free_energy: float


class Packing:
    """Order parameters as a vector of independent numbers, and back."""

    def __init__(self, problem: RowProblem, like: OrderState) -> None:
        rows = problem.student.rows
        self.lower = np.tril_indices(rows)
        self.shapes = like.overlap.shape, like.means.shape, like.intercept.shape
        self.parts = bool(np.any(problem.gram)), problem.has_intercept
        self.like = like

    def pack(self, state: OrderState) -> Array:
        """Return a vector."""
        own = [state.power[self.lower], state.overlap.ravel(), state.susceptibility[self.lower]]
        optional = zip((state.means.ravel(), state.intercept), self.parts, strict=True)
        return np.concatenate([*own, *(part for part, used in optional if used)])

    def unpack(self, vector: Array) -> OrderState:
        """Return order parameters."""
        rows, size = int(self.lower[0][-1]) + 1, len(self.lower[0])
        overlap = int(np.prod(self.shapes[0]))
        cuts = np.cumsum([size, overlap, size])
        lower, cross, other, rest = np.split(vector, cuts)
        means, intercept = self.like.means, self.like.intercept
        if self.parts[0]:
            count = int(np.prod(self.shapes[1]))
            means, rest = rest[:count].reshape(self.shapes[1]), rest[count:]
        if self.parts[1]:
            intercept = rest
        return OrderState(
            _from_lower(lower, self.lower, rows),
            cross.reshape(self.shapes[0]),
            _from_lower(other, self.lower, rows),
            means,
            intercept,
        )


def _from_lower(values: Array, places: Any, rows: int) -> Array:
    matrix = np.zeros((rows, rows))
    matrix[places] = values
    return np.asarray(matrix + np.tril(matrix, -1).T)


def is_inside(state: OrderState) -> bool:
    """Return whether powers leave room for the overlaps, and susceptibilities are positive."""
    parts = state.susceptibility, state.power - state.overlap @ state.overlap.T
    if not all(np.all(np.isfinite(part)) for part in (*state,)):
        return False
    small = 1e-9 * np.trace(state.power)
    return bool(np.linalg.eigvalsh(parts[0])[0] > 0 and np.linalg.eigvalsh(parts[1])[0] >= -small)


def fixed_point_from(problem: RowProblem, name: str, start: OrderState, near: bool = False) -> RowFixedPoint:
    """Return the fixed point that is reached from a start.

    Damped steps of the map with few samples lead into its neighbourhood, Newton's method with all samples to it.

    Args:
        problem: teacher, student, penalty, ratio and strength.
        name: of the start.
        start: order parameters to begin with.
        near: whether the start is close to the fixed point already, so that the first search is left out.
    """
    packing = Packing(problem, start)
    vector, slopes, count = packing.pack(start), None, 0
    if not near:
        few = _map_of(problem.with_sets(1), packing, NearbyMinima())
        searched = solve(few, vector[None], _damped(problem, packing), _SEARCH)
        rough = solve(few, searched.value, Newton(), _with_slopes(_ROUGH, vector))
        vector, count = searched.value[0], -(-int(searched.iterations[0] + rough.iterations[0]) // problem.sets)
        if rough.converged:
            vector, slopes = rough.value[0], rough.extra["slopes"]
    solution, unit, step, minima = _with_all_samples(problem, packing, vector, slopes)
    if not (solution.converged or near):
        # Few samples may lead into another neighbourhood, from which Newton's method does not find back.
        again = solve(
            _map_of(problem, packing, NearbyMinima()), packing.pack(start)[None], _damped(problem, packing), _SEARCH
        )
        count += int(solution.iterations[0] + again.iterations[0])
        solution, unit, step, minima = _with_all_samples(problem, packing, again.value[0], None)
    state = packing.unpack(solution.value[0] * unit)
    vector, slopes = solution.value[0] * unit, solution.extra["slopes"][0] * unit[:, None] / unit
    deviations = _deviations(problem, packing, state, step, slopes)
    status = solution.status[0]
    lost = status is Status.NON_FINITE
    if status.ok and not np.all(np.isfinite(deviations)):
        status = Status.NON_FINITE
    return RowFixedPoint(
        start=name,
        state=state,
        step=step,
        minima=minima,
        status=status,
        residual=np.nan if lost else float(np.max(np.abs(packing.pack(step.state) - vector))),
        iterations=int(solution.iterations[0]) + count,
        deviations=deviations,
        stability=np.nan if lost else problem.stability(step),
        free_energy=np.nan if lost else problem.free_energy(step),
    )


def _with_all_samples(
    problem: RowProblem, packing: Packing, vector: Array, slopes: Array | None
) -> tuple[Solution, Array, RowStep, NearbyMinima]:
    """Return the fixed point near a vector with all samples, the units of coordinates, a step there, and its minima.

    Args:
        problem: teacher, student, penalty, ratio and strength.
        packing: of the order parameters.
        vector: where the search begins.
        slopes: of the residual there, if they are known, shape (1, size, size).
    """
    minima = NearbyMinima()
    unit, settings = _units(problem, packing, vector, minima), _with_slopes(_SETTINGS, vector)
    if slopes is not None:
        slopes = slopes / unit[:, None] * unit
    solution = solve(_map_of(problem, packing, minima, unit), (vector / unit)[None], Newton(slopes), settings)
    step, minima = _usual_step(problem, packing.unpack(solution.value[0] * unit))
    missed = np.linalg.norm(packing.pack(step.state) / unit - solution.value[0]) - solution.residual[0]
    if missed > _SETTINGS.floor:
        # Minima have appeared since the last usual starts of the minimisations.
        method = Newton(solution.extra["slopes"])
        again = solve(_map_of(problem, packing, None, unit), solution.value, method, settings)
        solution = replace(again, iterations=solution.iterations + again.iterations)
        step, minima = _usual_step(problem, packing.unpack(solution.value[0] * unit))
    return solution, unit, step, minima


def _usual_step(problem: RowProblem, state: OrderState) -> tuple[RowStep, NearbyMinima]:
    """Return the step from a state with the usual starts of all minimisations, and where these end."""
    minima = NearbyMinima()
    return problem.step(state, minima), minima


def _with_slopes(settings: Iteration, vector: Array) -> Iteration:
    """Return settings whose limit of steps suffices to measure the slopes of as many order parameters."""
    return replace(settings, max_iterations=settings.max_iterations + _SLOPES * len(vector))


def _damped(problem: RowProblem, packing: Packing) -> Damped:
    """Return the steps of the search that begins far from the fixed point."""

    def inside(vectors: Array) -> Flags:
        return np.array([is_inside(packing.unpack(vector)) for vector in vectors], dtype=bool)

    return Damped(inside, _POSITIONAL_SHARE if np.any(problem.gram) else _SHARE)


def _map_of(
    problem: RowProblem, packing: Packing, minima: NearbyMinima | None, unit: Array | float = 1.0
) -> FixedPointMap:
    """Return the map of vectors of order parameters in these units.

    It is not a number where they leave their domain, or the loss of many samples has no minimum.
    """

    def one(vector: Array) -> Array:
        own = packing.unpack(vector * unit)
        if not is_inside(own):
            return np.full_like(vector, np.nan)
        step = problem.step(own, minima)
        known = is_inside(step.state) and float(step.averages.mean.unsolved) <= _UNSOLVED
        return packing.pack(step.state) / unit if known else np.full_like(vector, np.nan)

    def every(vectors: Array, index: Index) -> Estimate:
        del index
        return Estimate(np.array([one(vector) for vector in vectors]), np.zeros_like(vectors))

    return every


def _units(problem: RowProblem, packing: Packing, vector: Array, minima: NearbyMinima) -> Array:
    """Return the units in which the last search runs, from the spread of the map over sets."""
    state = packing.unpack(vector)
    images = _images(problem, packing, state, problem.sampler.averages(state, near=minima))
    _, error = mean_and_error(images)
    return np.asarray(_UNIT * np.maximum(np.nan_to_num(error), _SMALLEST_ERROR * (1 + np.abs(vector))))


def _images(problem: RowProblem, packing: Packing, state: OrderState, averages: RowAverages) -> Array:
    """Return where the map of every set leads to, shape (sets, size)."""
    sets = range(len(averages.training_loss))
    parts = [RowAverages(*(part[one : one + 1] for part in averages)) for one in sets]
    return np.array([packing.pack(problem.from_averages(state, part, one).state) for one, part in enumerate(parts)])


def _deviations(problem: RowProblem, packing: Packing, state: OrderState, step: RowStep, slopes: Array) -> Array:
    """Return by how much the fixed point of every set differs from that of all, to first order, shape (sets + 1, size).

    The last one is the deviation that jumps of the proximal map cause, which the slopes of the averages leave out; zero
    where there are none beyond the sampling error.
    """
    vector, averages = packing.pack(state), step.averages
    images = _images(problem, packing, state, averages)
    jumps = averages.mean.jumps
    _, error = mean_and_error(averages.jumps)
    image = packing.pack(step.state)
    if np.any(np.abs(jumps) > _SIGNIFICANT * error + _SMALLEST_ERROR):
        with_jumps = averages._replace(slope=averages.slope + averages.jumps)
        image = packing.pack(problem.from_averages(state, with_jumps).state)
    shifts = np.concatenate([images - vector, (image - packing.pack(step.state))[None]])
    try:
        return np.asarray(-np.linalg.solve(slopes, shifts.T).T)
    except np.linalg.LinAlgError:
        return np.full(shifts.shape, np.nan)


def error_of(values: Array, value: Array | float) -> Array:
    """Return the error estimate of a quantity from its values at every deviation, the sets' and that of the jumps.

    It is the half-width of the 95 % confidence interval of the mean over sets, and the effect of the jumps.
    """
    sets, jump = values[:-1], np.abs(values[-1] - value)
    return np.asarray(confidence_factor(len(sets)) * mean_and_error(sets)[1] + jump)
