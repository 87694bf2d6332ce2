"""Fixed points of the state evolution of a risk of rows: branches from several starts, with errors from replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.numerics.newton import newton
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.risk.rows.averages import OrderState
from glassformer.risk.rows.problem import RowProblem, RowStep

# Samples of the search that begins far from the fixed point, its steps at most, and the damping of its steps: those of
# the map may overshoot (chosen by trial).
_SEARCH_POINTS, _SEARCH_STEPS, _DAMPING = 512, 200, 0.5
# Change of a step of the search below which the fixed point of all samples is near.
_NEAR = 3e-3
# Accuracy of a fixed point of the samples, far below the sampling error.
_SETTINGS = Iteration(tolerance=1e-7, floor=1e-8, max_iterations=120)


@dataclass(frozen=True)
class RowFixedPoint:
    """A fixed point, what it predicts, and how it was found.

    Attributes:
        start: name of the start.
        state: order parameters.
        step: averages and conjugate parameters there.
        status: of the search.
        residual: largest change of an order parameter by one step of the map.
        iterations: evaluations of the map.
        errors: error estimates of the entries of :func:`pack`, from the spread of the sets.
        stability: the replicon's radius.
        free_energy: minimum of the risk over ``d``.
    """

    start: str
    state: OrderState
    step: RowStep
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
    state, searched = (start, 0) if near else _search(problem, packing, start)
    steps: dict[bytes, RowStep] = {}

    def map_of(vectors: Array, index: NDArray[np.intp]) -> Estimate:
        del index
        found = []
        for vector in vectors:
            own = packing.unpack(vector)
            if not is_inside(own):
                found.append(np.full_like(vector, np.nan))
                continue
            step = problem.step(own)
            found.append(packing.pack(step.state) if is_inside(step.state) else np.full_like(vector, np.nan))
        return Estimate(np.array(found), np.zeros_like(vectors))

    del steps
    solution = newton(map_of, packing.pack(state)[None], _SETTINGS)
    state = packing.unpack(solution.value[0])
    averages = problem.sampler.averages(state, thorough=True)
    step = problem.from_averages(state, averages)
    deviations = _deviations(problem, packing, state, step, solution.extra["slopes"][0])
    status = solution.status[0]
    if status.ok and not np.all(np.isfinite(deviations)):
        status = Status.NON_FINITE
    return RowFixedPoint(
        start=name,
        state=state,
        step=step,
        status=status,
        residual=float(solution.residual[0]),
        iterations=int(solution.iterations[0]) + searched,
        deviations=deviations,
        stability=problem.stability(step),
        free_energy=problem.free_energy(step),
    )


def _search(problem: RowProblem, packing: Packing, start: OrderState) -> tuple[OrderState, int]:
    """Return a state near the fixed point, by damped steps with few samples, and their number."""
    few = problem.coarse(_SEARCH_POINTS)
    vector, damping, last = packing.pack(start), _DAMPING, np.zeros(0)
    for count in range(1, _SEARCH_STEPS + 1):
        new = few.step(packing.unpack(vector)).state
        if not is_inside(new):
            break
        change = packing.pack(new) - vector
        size = np.max(np.abs(change) / (1 + np.abs(vector)))
        # Where the map turns back and forth, steps are damped more.
        if last.size and float(change @ last) < 0:
            damping = max(0.5 * damping, 0.02)
        else:
            damping = min(1.2 * damping, 1.0)
        last = change
        moved = vector + damping * change
        if not is_inside(packing.unpack(moved)):
            damping *= 0.5
            continue
        vector = moved
        if size < _NEAR:
            break
    return packing.unpack(vector), count


def _deviations(problem: RowProblem, packing: Packing, state: OrderState, step: RowStep, slopes: Array) -> Array:
    """Return by how much the fixed point of every set differs from that of all, to first order, shape (sets, size).

    Jumps of the proximal map, which the slopes leave out, add the deviation that they cause.
    """
    vector = packing.pack(state)
    residuals = []
    for chosen in range(problem.sets):
        own = problem.from_averages(state, type(step.averages)(*(part[chosen : chosen + 1] for part in step.averages)))
        residuals.append(packing.pack(own.state) - vector)
    try:
        return np.asarray(-np.linalg.solve(slopes, np.array(residuals).T).T)
    except np.linalg.LinAlgError:
        return np.full((problem.sets, len(vector)), np.nan)


def spread(values: Array) -> Any:
    """Return the 95 % confidence interval's half-width of means over sets, from values of every set."""
    sets = len(values)
    return confidence_factor(sets) * np.std(values, axis=0, ddof=1) / np.sqrt(sets)
