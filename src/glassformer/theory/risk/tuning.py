r"""The strength of a penalty at which what is learned is best.

With fixed points :math:`x = F(x, \lambda)`, an objective ``f`` of them changes with the strength by

.. math:: \partial_\lambda f + \nabla f\cdot(1 - \partial_xF)^{-1}\,\partial_\lambda F ,

whose zero is found together with the fixed point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from glassformer.core.integral import Array, Integral
from glassformer.core.settings import Iteration
from glassformer.theory.newton import newton
from glassformer.theory.risk.fixed_points import Point, Problem, few_of, largest_strength, point_at, solved
from glassformer.theory.risk.penalties import Fields, Learned

# Logarithms of strengths, from the largest useful one, at which the best is looked for; beyond, the least is best.
_LOOKS = np.array([-0.2, -0.7, -1.3, -2.0, -3.0, -4.5, -6.5, -9.0])
# Step of differences, and accuracy of the logarithm of the strength: the objective is flat there.
_STEP, _ENOUGH = 1e-6, Iteration(tolerance=1e-13, floor=1e-6, max_iterations=100)


def tuned(problem: Problem, alpha: Array) -> Point:
    """Fixed points at the best strength, or at none at all where the least is best.

    Best is the least error; of binary labels the least label error, that is the largest cosine.
    """
    few = few_of(alpha)
    start = _looked(problem, few)
    start, inside = _optimum(problem, few, start)
    if len(few) < len(alpha):
        guess = np.full((len(alpha), start.shape[1]), np.nan)
        if np.sum(inside) > 1:
            known = PchipInterpolator(np.log(few[inside]), start[inside], extrapolate=False)
            guess = known(np.log(alpha))
        start, inside = _optimum(problem, alpha, guess)
    # A loss that only labels fitted exactly bring to zero has no optimum without a penalty, but estimates that grow.
    least = np.zeros_like(alpha) if problem.loss.quadratic else largest_strength(problem, alpha) * np.exp(_LOOKS[-1])
    if not inside.any():
        return solved(problem, alpha, least)
    found = point_at(problem, alpha[inside], np.exp(start[inside, -1]), start[inside, :-1])
    if inside.all():
        return found
    return Point.joined(inside, found, solved(problem, alpha[~inside], least[~inside]))


def _looked(problem: Problem, alpha: Array) -> Array:
    """Logarithms of fields and strength near the optimum; NaN where the least strength looked at is best."""
    size = len(_LOOKS)
    strength = largest_strength(problem, alpha)[:, None] * np.exp(_LOOKS)
    points = solved(problem, np.repeat(alpha, size), strength.ravel())
    objective = _objective(problem, points.found).reshape(strength.shape)
    objective[~np.array([status.ok for status in points.status]).reshape(strength.shape)] = np.inf
    best, rows = np.argmin(objective, axis=1), np.arange(len(alpha))
    found = np.column_stack([points.logarithms, np.log(strength).ravel()]).reshape(len(alpha), size, -1)
    near = found[rows, best]
    near[best == size - 1] = np.nan
    return near


def _optimum(problem: Problem, alpha: Array, start: Array) -> tuple[Array, Any]:
    """Logarithms of fields and of the strength at the optimum, and where there is one."""
    inside = np.array(np.isfinite(start).all(axis=1))
    found = start.copy()
    if inside.any():
        at = np.flatnonzero(inside)

        def step(state: Array, index: Any) -> Integral:
            images, slope = _response(problem, alpha[at[index]], state)
            # Away from the optimum the objective is far from a parabola: no step is longer than one.
            return Integral(np.column_stack([images, state[:, -1] - np.tanh(slope)]), np.zeros_like(state))

        solution = newton(step, start[at], _ENOUGH)
        found[at] = solution.value
        inside[at] = [status.ok for status in solution.status]
    return found, inside


def _objective(problem: Problem, found: Learned) -> Array:
    if problem.binary:
        return np.asarray(np.log(found.power) - 2 * np.log(found.overlap))
    return np.asarray(np.log(found.error))


def _response(problem: Problem, alpha: Array, state: Array) -> tuple[Array, Array]:
    """The map's image of logarithms of fields, and the slope of the objective in that of the strength."""
    batch, size = state.shape
    moved = np.concatenate([state[None], state[None] + _STEP * np.eye(size)[:, None, :]])
    flat = moved.reshape(-1, size)
    found = problem.learned(np.exp(flat[:, -1]), Fields(*np.exp(flat[:, :-1]).T))
    fields = problem.fields(np.tile(alpha, size + 1), problem.answers(found))
    images = np.log(np.stack(fields, axis=1)).reshape(size + 1, batch, size - 1)
    objective = _objective(problem, found).reshape(size + 1, batch)
    response, gradient = (images[1:] - images[0]) / _STEP, (objective[1:] - objective[0]) / _STEP
    jacobian = np.moveaxis(response[:-1], 0, 2)
    shift = np.linalg.solve(np.eye(size - 1) - jacobian, response[-1][:, :, None])[:, :, 0]
    return images[0], np.asarray(gradient[-1] + np.sum(gradient[:-1].T * shift, axis=1))
