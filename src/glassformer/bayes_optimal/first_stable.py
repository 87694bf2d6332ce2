r"""The first fixed points of maps with sampled averages, from few data points.

Averages use the same data points at every step, so that the map is a function and has fixed points, but it is rough on
the scale of its sampling error. The iteration with few data points ends at the first fixed point; where this is
unstable, the iteration leaves it along the unstable direction. Among several sample ratios some are solved first, and
the others start from their fixed points (:func:`continuation_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from glassformer.bayes_optimal.evolution_map import EvolutionMap, is_covariance
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.numerics.decompositions import map_eigenvalues
from glassformer.numerics.fixed_points.accelerated import Accelerated
from glassformer.numerics.fixed_points.solve import Flags, Index, Method, solve

# Numbers were chosen by trial on the models of the test suite: relative tolerance, and the share of the sampling error
# below which a residual is noise.
_COARSE_TOLERANCE, _COARSE_NOISE = 5e-4, 0.1
# Eigenvalue of the slope above which a fixed point is unstable: one, and the error of a slope from few data points.
_UNSTABLE = 1.005
# Relative length of a push off an unstable fixed point, largest number of pushes, and number of tolerances within which
# a pushed state counts as returned to the fixed point.
_PUSH, _MOST_PUSHES, _RETURNED = 0.03, 6, 3.0


class ContinuationStage(NamedTuple):
    """Elements of a batch that are solved together, each from the fixed point of an earlier one.

    Attributes:
        members: batch indices of the elements.
        earlier: batch index of an element of an earlier stage for each of them; empty in the first stage.
        side: 1 if starts are above the fixed points, -1 if they are below.
    """

    members: Index
    earlier: Index
    side: float


def continuation_order(alpha: Array, informed: bool = False) -> list[ContinuationStage]:
    """Return stages in which sample ratios are solved: few stages, with most elements in the last ones.

    The map is monotone in ``V`` and in the sample ratio. Fixed points reached from the uninformed start are therefore
    ordered like their ratios: the fixed point of a smaller ratio lies between the start and the fixed point of a larger
    ratio, without another fixed point between them. From the informed start the order is reversed.

    Args:
        alpha: sample ratios, shape (batch,).
        informed: whether the start is the informed one.

    Example:
        >>> stages = continuation_order(np.array([0.3, 0.1, 0.2, 0.4]))
        >>> [(stage.members.tolist(), stage.earlier.tolist()) for stage in stages]
        [([1], []), ([0], [1]), ([2, 3], [1, 0])]
    """
    order = np.argsort(-alpha if informed else alpha, kind="stable")
    side = -1.0 if informed else 1.0
    stages = [ContinuationStage(order[:1], order[:0], side)]
    step = 1 << max(len(order) - 1, 0).bit_length()
    while step > 1:
        step //= 2
        positions = np.arange(step, len(order), 2 * step)
        stages.append(ContinuationStage(order[positions], order[positions - step], side))
    return stages


def warm_start(start: Array, earlier: Array, side: float) -> Array:
    """Return ``start``, shape (n, P, P), with the earlier fixed points in the directions in which these lie ahead.

    Directions that are not learned at the earlier fixed point keep the start, which breaks their symmetry.

    Example:
        >>> warm_start(np.diag([0.9, 0.9])[None], np.diag([1.0, 0.5])[None], 1.0)[0]
        array([[0.9, 0. ],
               [0. , 0.5]])
    """
    return start - side * map_eigenvalues(side * (start - earlier), lambda values: np.maximum(values, 0.0))


@dataclass(frozen=True, eq=False)
class FirstStable(Method[EvolutionMap]):
    """The first stable fixed points from a start, to the accuracy of few data points.

    In the result ``extra["slope"]`` is the slope of ``slope_map`` on flattened covariances, and ``extra["unstable"]``
    marks elements for which every push led to another unstable point.

    Args:
        slope_map: the map whose slopes determine stability.
        order: stages of the batch; by default all elements at once.
        other: solutions from another start; their slopes are reused where both starts lead to one fixed point.
    """

    slope_map: EvolutionMap
    order: Sequence[ContinuationStage] | None = None
    other: Solution | None = None

    def solve(self, function: EvolutionMap, start: Array, settings: Iteration) -> Solution:
        def search(states: Array, index: Index) -> Solution:
            return self._iterate(function, states, index, settings)

        everything = np.arange(len(start))
        first, *later = self.order or [ContinuationStage(everything, everything[:0], 1.0)]
        solution = _leave_unstable_points(search, start[first.members], first.members, settings)
        if later:
            solution = solution.at(np.zeros(len(start), dtype=int))
        for members, earlier, side in later:
            before, states = solution.at(earlier), start[members]
            states = np.where(_ended(before)[:, None, None], warm_start(states, before.value, side), states)
            solution = solution.merge_where(members, _leave_unstable_points(search, states, members, settings))
        return solution

    def _iterate(self, coarse: EvolutionMap, states: Array, index: Index, settings: Iteration) -> Solution:
        """Return where the iteration of elements ``index`` ends, with conjugate overlaps and slopes."""
        conjugates = np.full((2, len(coarse.alpha), *states.shape[1:]), np.nan)
        solution = solve(
            lambda value, active: coarse(value, index[active], conjugates),
            states,
            Accelerated(is_covariance, noise=_COARSE_NOISE),
            replace(settings, tolerance=max(settings.tolerance, _COARSE_TOLERANCE)),
        )
        if self.other is None:
            slope = _slopes(self.slope_map, solution.value, index)
        else:
            known = self.other.at(index)
            slope, new = known.extra["slope"], _differ(solution.value, known.value, settings)
            slope[new] = _slopes(self.slope_map, solution.value[new], index[new])
        q_hat, q_hat_error = conjugates[:, index]
        return replace(solution, extra={"q_hat": q_hat, "q_hat_error": q_hat_error, "slope": slope})


def _leave_unstable_points(
    search: Callable[[Array, Index], Solution], start: Array, index: Index, settings: Iteration
) -> Solution:
    """Return solutions from ``start``; states at unstable fixed points are pushed off, to smaller covariances.

    A state that leaves an unstable point slowly looks like a fixed point, and a symmetric state never leaves it. An
    eigenvalue of the slope above one reveals both.
    """
    solution = search(start, index)
    size = start.shape[-1]
    todo = np.flatnonzero(_ended(solution))
    for _ in range(_MOST_PUSHES):
        values, vectors = np.linalg.eig(solution.extra["slope"][todo])
        leading, unstable = np.argmax(values.real, axis=1), repelling(solution.extra["slope"][todo])
        direction = np.take_along_axis(vectors.real, leading[:, None, None], axis=2)[unstable, :, 0]
        todo = todo[unstable]
        if todo.size == 0:
            break
        pushed = _push(solution.value[todo], direction.reshape(-1, size, size))
        again = search(pushed, index[todo])
        again = replace(again, iterations=again.iterations + solution.iterations[todo])
        # A point is stable if the pushed state returns to it.
        left = _differ(again.value, solution.value[todo], settings)
        solution = solution.merge_where(todo[left], again.at(left))
        todo = todo[left & _ended(again)]
    unstable = np.zeros(len(start), dtype=bool)
    unstable[todo] = repelling(solution.extra["slope"][todo])
    return replace(solution, extra={**solution.extra, "unstable": unstable})


def _slopes(update: EvolutionMap, states: Array, index: Index) -> Array:
    """Return slopes of the map; zero for states that are not covariances."""
    size = states.shape[-1] ** 2
    slope = np.zeros((len(index), size, size))
    usable = np.flatnonzero(is_covariance(states)) if len(states) else index
    if usable.size:
        slope[usable] = update.slope(states[usable], index[usable])
    return np.where(np.isfinite(slope).all(axis=(1, 2), keepdims=True), slope, 0.0)


def _differ(states: Array, others: Array, settings: Iteration) -> Flags:
    """Return where two coarse fixed points are different."""
    tolerance = _RETURNED * max(settings.tolerance, _COARSE_TOLERANCE)
    return np.asarray(
        np.linalg.norm(states - others, axis=(1, 2)) > tolerance * np.linalg.norm(states, axis=(1, 2)), dtype=bool
    )


def repelling(slope: Array) -> Flags:
    """Return where a slope of the map has an eigenvalue above one, so that the fixed point is unstable.

    Example:
        >>> repelling(np.array([[[0.5]], [[1.5]]])).tolist()
        [False, True]
    """
    return np.asarray(np.linalg.eigvals(slope).real.max(axis=1, initial=0.0) > _UNSTABLE)


def _ended(solution: Solution) -> Flags:
    """Return whether the iteration ended at a fixed point, resolved by the few data points or not."""
    return np.array([status in (Status.CONVERGED, Status.INTEGRATION_NOT_CONVERGED) for status in solution.status])


def _push(value: Array, direction: Array) -> Array:
    """Return states after a short step along unit directions, towards smaller covariances."""
    more = np.trace(direction, axis1=1, axis2=2) < 0
    step = _PUSH * np.where(more, 1.0, -1.0)[:, None, None] * 0.5 * (direction + np.swapaxes(direction, 1, 2))
    pushed = value + step
    outside = ~is_covariance(pushed)
    pushed[outside] = (1 - _PUSH) * value[outside]
    return pushed
