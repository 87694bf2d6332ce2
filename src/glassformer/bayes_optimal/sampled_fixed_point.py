r"""Fixed points of maps with sampled averages: a coarse solution, refined by Newton steps.

Averages use the same data points at every step, so that the map is a function and has fixed points, but it is rough on
the scale of its sampling error. Fixed points are found in two stages.

1. :func:`coarse_solve` iterates the map with few data points up to the first fixed point. If the point is unstable, the
   iteration leaves it along the unstable direction. Among several sample ratios some are solved first, and the others
   start from their fixed points (:func:`continuation_order`).
2. :func:`newton_refine` takes Newton steps of the map with all data points until the residual is a fraction of the
   sampling error, which is estimated from the spread between replicas of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from glassformer.bayes_optimal.evolution_map import EvolutionMap, SampledStep, is_covariance
from glassformer.bayes_optimal.fixed_point import Flags, Index, fixed_point
from glassformer.channels.replicas import REPLICAS
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.numerics.decompositions import map_eigenvalues
from glassformer.numerics.quasi_random import confidence_factor

# Numbers without another origin were chosen by trial on the models of the test suite.

# Coarse solution: relative tolerance, and the share of the sampling error below which a residual is noise.
_COARSE_TOLERANCE, _COARSE_NOISE = 5e-4, 0.1
# Eigenvalue of the slope above which a fixed point is unstable: one, and the error of a slope from few data points.
_UNSTABLE = 1.005
# Relative length of a push off an unstable fixed point, largest number of pushes, and number of tolerances within which
# a pushed state counts as returned to the fixed point.
_PUSH, _MOST_PUSHES, _RETURNED = 0.03, 6, 3.0

# Newton steps: largest number, largest number without progress, and the factor by which progress shortens the step.
_MOST_ROUNDS, _PATIENCE, _GAIN = 24, 4, 0.7
# The last step is shorter than this share of the sampling error, in a preliminary (True) and in the final refinement.
_LAST_STEP = {True: 0.5, False: 1.0}
# Share of the last step that may remain after it: half of the step where two fixed points merge.
_MISSING_SHARE = 0.5
# Broyden's update needs steps of this many standard errors: shorter ones measure the roughness of the map.
_SIGNIFICANT = 2.0
# A residual that falls by more than this multiple of a step is noise: a monotone map reduces it by at most the step.
_STEEPEST = 2.0
# Standard error, in units of the prior's covariance, above which a fixed point counts as undetermined.
_UNDETERMINED = 0.2
# Longest step as a share of the covariance, and halvings of a step that leaves the cone.
_LONGEST_STEP, _HALVINGS = 0.5, 20


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


# --- the coarse solution ----------------------------------------------------------------------------------------------


def coarse_solve(
    coarse: EvolutionMap,
    start: Array,
    settings: Iteration,
    slope_map: EvolutionMap,
    order: Sequence[ContinuationStage] | None = None,
    other: Solution | None = None,
) -> Solution:
    """Return the first stable fixed points from ``start``, to the accuracy of few data points.

    Args:
        coarse: the map with few data points.
        start: covariances, shape (batch, P, P).
        settings: tolerance of the residual relative to ``V``, and iteration limit.
        slope_map: the map whose slopes determine stability.
        order: stages of the batch; by default all elements at once.
        other: coarse solutions from another start; their slopes are reused where both starts lead to one fixed point.

    Returns:
        :class:`Solution`; ``extra["slope"]`` is the slope of ``slope_map`` on flattened covariances, and
        ``extra["unstable"]`` marks elements for which every push led to another unstable point.
    """
    everything = np.arange(len(start))
    coarse_settings = replace(settings, tolerance=max(settings.tolerance, _COARSE_TOLERANCE))

    def solve(states: Array, index: Index) -> Solution:
        conjugates = np.full((2, len(coarse.alpha), *states.shape[1:]), np.nan)
        solution = fixed_point(
            lambda value, active: coarse(value, index[active], conjugates),
            states,
            coarse_settings,
            is_covariance,
            noise=_COARSE_NOISE,
        )
        if other is None:
            slope = _slopes(slope_map, solution.value, index)
        else:
            known = other.at(index)
            slope, new = known.extra["slope"], _differ(solution.value, known.value, settings)
            slope[new] = _slopes(slope_map, solution.value[new], index[new])
        q_hat, q_hat_error = conjugates[:, index]
        return replace(solution, extra={"q_hat": q_hat, "q_hat_error": q_hat_error, "slope": slope})

    first, *later = order or [ContinuationStage(everything, everything[:0], 1.0)]
    solution = _leave_unstable_points(solve, start[first.members], first.members, settings)
    if later:
        solution = solution.at(np.zeros(len(start), dtype=int))
    for members, earlier, side in later:
        before = solution.at(earlier)
        states = np.where(_ended(before)[:, None, None], warm_start(start[members], before.value, side), start[members])
        solution = solution.merge_where(members, _leave_unstable_points(solve, states, members, settings))
    return solution


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


def _leave_unstable_points(
    solve: Callable[[Array, Index], Solution], start: Array, index: Index, settings: Iteration
) -> Solution:
    """Return solutions from ``start``; states at unstable fixed points are pushed off, towards smaller covariances.

    A state that leaves an unstable point slowly looks like a fixed point, and a symmetric state never leaves it. An
    eigenvalue of the slope above one reveals both.
    """
    solution = solve(start, index)
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
        again = solve(pushed, index[todo])
        again = replace(again, iterations=again.iterations + solution.iterations[todo])
        # A point is stable if the pushed state returns to it.
        left = _differ(again.value, solution.value[todo], settings)
        solution = solution.merge_where(todo[left], again.at(left))
        todo = todo[left & _ended(again)]
    unstable = np.zeros(len(start), dtype=bool)
    unstable[todo] = repelling(solution.extra["slope"][todo])
    return replace(solution, extra={**solution.extra, "unstable": unstable})


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


# --- refinement by Newton steps ---------------------------------------------------------------------------------------


def newton_refine(update: EvolutionMap, coarse: Solution, settings: Iteration, preliminary: bool = False) -> Solution:
    r"""Return fixed points of a sampled map, close to coarse ones, by Newton steps with Broyden's update.

    A point has converged if its Newton step is below the sampling error, or, once the steps end or no longer become
    shorter, below the sum of sampling error and bias.

    Args:
        update: the map.
        coarse: coarse solution, with slopes and instabilities, from :func:`coarse_solve`.
        settings: tolerance of the residual relative to ``V``.
        preliminary: whether a refinement with more data points follows: slopes are then computed at every step, and
            the refinement ends when steps become too long.

    Returns:
        :class:`Solution`; ``extra["q_hat"]`` is :math:`\hat Q` at the fixed point, ``extra["q_hat_error"]`` its
        standard error, and ``extra["error_components"]``, shape (batch, parts, P, P), contains independent errors of
        the fixed point, each of one standard error. With ``preliminary``, ``extra["slope"]`` is the slope of the map
        and ``extra["unstable"]`` is as in ``coarse``. The error estimate combines residual and sampling error,
        amplified by the slope, with a confidence of 95 %. Points marked as unstable do not converge, unless slopes from
        more data points show that they are stable.
    """
    start, (batch, size) = coarse.value, coarse.value.shape[:2]
    unstable = coarse.extra["unstable"].copy()
    gain = _newton_gain(coarse.extra["slope"])
    best_gain = gain.copy()
    best = replace(
        coarse,
        value=start.copy(),
        residual=coarse.residual.copy(),
        error_estimate=np.full(batch, np.inf),
        extra={
            **{name: coarse.extra[name].copy() for name in ("q_hat", "q_hat_error")},
            "error_components": np.zeros((batch, REPLICAS + 3, size, size)),
        },
    )
    status = np.array(coarse.status, dtype=object)
    state, iterations, waited = start.copy(), coarse.iterations.copy(), np.zeros(batch, dtype=int)
    previous = np.full((2, batch, size * size), np.nan)  # flattened state and residual of the step before
    shortest_step, best_uncertainty = np.full(batch, np.inf), np.full(batch, np.inf)
    active = np.flatnonzero(is_covariance(start))
    status[active] = Status.ITERATION_LIMIT
    conjugates = np.full((2, len(update.alpha), size, size), np.nan)
    for _ in range(_MOST_ROUNDS):
        if active.size == 0:
            break
        note(f"refining {active.size} of {batch} fixed points")
        here = state[active]
        slope = None
        if preliminary:
            sampled, slope = update.step_with_slope(here, active, conjugates)
        else:
            sampled = update.step_with_replicas(here, active, conjugates)
        usable, finite = is_covariance(sampled.value), np.isfinite(sampled.value).all(axis=(1, 2))
        status[active[~usable & finite]] = Status.OUTSIDE_CONE
        status[active[~finite]] = Status.NON_FINITE

        # The Newton step, (1 - F')^-1 times the residual.
        flat, residual = here.reshape(len(active), -1), (sampled.value - here).reshape(len(active), -1)
        if slope is None:
            # A change of sign of the residual is significant even along a short step: the residual vanishes on it.
            reversed_sign = np.sum(residual * previous[1, active], axis=1) < 0
            rough = np.where(reversed_sign, 0.0, _SIGNIFICANT * _norm(_sampling_errors(gain[active], sampled)))
            before = previous[0, active].reshape(here.shape)
            gain[active] = _broyden_update(gain[active], before, here, residual - previous[1, active], rough)
        else:
            gain[active] = _newton_gain(slope)
            unstable[active] &= repelling(slope)
        previous[:, active] = flat, residual
        step = update.respect_symmetries(np.einsum("nij,nj->ni", gain[active], residual).reshape(here.shape), here)
        length, residual_norm = np.linalg.norm(step, axis=(1, 2)), np.linalg.norm(residual, axis=1)
        if not preliminary:
            # For a monotone map the distance to the fixed point is at least the length of the residual.
            length = np.maximum(length, residual_norm)

        # Errors of the fixed point: sampling error, bias of sampled posteriors (a systematic error), and the step.
        sampling = _sampling_errors(gain[active], sampled)
        bias = _amplify(gain[active], (sampled.with_bias - sampled.value).reshape(len(active), 1, -1))
        sampling_norm, bias_norm = _norm(sampling), _norm(bias)
        confidence = confidence_factor(sampled.leave_one_out.shape[1])
        certain = np.concatenate([bias, _MISSING_SHARE * step.reshape(bias.shape)], axis=1) / confidence

        norm = np.linalg.norm(flat, axis=1)
        last = np.maximum(settings.tolerance * norm + settings.floor, _LAST_STEP[preliminary] * sampling_norm)
        done = usable & (length <= last)
        status[active[done]] = Status.CONVERGED

        # The solution is the state that has converged, or else the state with the shortest step.
        iterations[active] += 1
        waited[active] = np.where(length < _GAIN * shortest_step[active], 0, waited[active] + 1)
        better = usable & (done | (length < shortest_step[active]))
        improved = active[better]
        shortest_step[improved], best_uncertainty[improved] = length[better], (sampling_norm + bias_norm)[better]
        best.value[improved], best.residual[improved] = here[better], residual_norm[better]
        best_gain[improved] = gain[improved]
        total = np.maximum(_MISSING_SHARE * length + confidence * sampling_norm + bias_norm, residual_norm)
        best.error_estimate[improved] = total[better]
        components = np.concatenate([sampling, certain], axis=1)[better]
        # Exact averages have one replica, and thus fewer components.
        best.extra["error_components"][improved, : components.shape[1]] = components.reshape(
            *components.shape[:2], size, size
        )
        for name, part in zip(("q_hat", "q_hat_error"), conjugates, strict=True):
            best.extra[name][improved] = part[improved]

        state[active] = moved = _step_in_cone(here, step, _LONGEST_STEP * norm / np.maximum(length, 1e-300))
        # The last step needs no further evaluation: what remains is of the order of its square.
        best.value[active[done]] = moved[done]
        shortened = np.linalg.norm(moved - here - step, axis=(1, 2)) > 1e-9 * length
        # A shortened step does not measure progress. In a preliminary refinement it ends the steps, because few data
        # points may lead to a point to which all data points would not.
        waited[active[shortened]] = 0
        ended = shortened if preliminary else waited[active] >= _PATIENCE
        active = active[usable & ~done & ~ended]
    # Points whose steps ended, or did not become shorter, have converged if their shortest step is below sampling error
    # and bias together.
    stalled = np.array([one is Status.ITERATION_LIMIT for one in status], dtype=bool)
    status[stalled & np.isfinite(shortest_step) & (shortest_step <= best_uncertainty)] = Status.CONVERGED
    status[unstable & (status == Status.CONVERGED)] = Status.INTEGRATION_NOT_CONVERGED
    status[(best_uncertainty > _UNDETERMINED) & np.isfinite(best_uncertainty)] = Status.INTEGRATION_NOT_CONVERGED
    if preliminary:
        best.extra.update(slope=np.eye(size * size) - np.linalg.inv(best_gain), unstable=unstable)
    return replace(best, status=status.tolist(), iterations=iterations)


def _newton_gain(slope: Array) -> Array:
    """Return ``(1 - F')^-1`` of stable points: negative eigenvalues of ``1 - F'``, caused by sampling, change sign.

    Close to an exactly known signal slopes may have any size, and ``1 - F'`` may be singular up to rounding.
    """
    matrices = np.eye(slope.shape[-1]) - slope
    values, vectors = np.linalg.eig(matrices)
    mirrored = (vectors @ (np.where(values.real < 0, -values, values)[:, :, None] * np.linalg.pinv(vectors))).real
    repelled = np.any(values.real < 0, axis=1)
    gains = []
    for matrix in np.where(repelled[:, None, None], mirrored, matrices):
        try:
            gains.append(np.linalg.inv(matrix))
        except np.linalg.LinAlgError:
            gains.append(np.linalg.pinv(matrix))
    return np.reshape(gains, slope.shape)


def _sampling_errors(gain: Array, sampled: SampledStep) -> Array:
    """Return independent errors of fixed points, shape (n, parts, P^2), whose squares sum to the variance.

    The errors are those of the jackknife over replicas, and of the unseen share of the data.
    """
    rest = sampled.leave_one_out
    jackknife = np.sqrt((rest.shape[1] - 1) / rest.shape[1]) * (rest - rest.mean(axis=1, keepdims=True))
    parts = np.concatenate([jackknife, (sampled.without_unseen - sampled.value)[:, None]], axis=1)
    return _amplify(gain, parts.reshape(*parts.shape[:2], -1))


def _amplify(gain: Array, parts: Array) -> Array:
    """Return changes of fixed points under changes of a monotone map, shape (n, parts, P^2), at least as large."""
    changes = np.einsum("nij,nrj->nri", gain, parts)
    return np.asarray(changes * np.maximum(1.0, _norm(parts) / np.maximum(_norm(changes), 1e-300))[:, None, None])


def _norm(parts: Array) -> Array:
    """Return the standard error of the sum of independent parts, shape (n,)."""
    return np.asarray(np.sqrt(np.sum(parts**2, axis=(1, 2))))


def _step_in_cone(here: Array, step: Array, share: Array) -> Array:
    """Return states after a share, at most one, of the step, halved until the state is a covariance."""
    share = np.minimum(share, 1.0)
    for _ in range(_HALVINGS):
        inside = is_covariance(here + share[:, None, None] * step)
        share = np.where(inside, share, 0.5 * share)
    moved = here + share[:, None, None] * step
    values, vectors = np.linalg.eigh(moved)
    # Variances never exceed those of the prior, and a step removes at most half of the overlap of a direction.
    before = np.minimum(np.einsum("npa,npq,nqa->na", vectors, here, vectors), 1.0)
    capped = np.where(values > 1, 0.5 * (1 + before), values)
    beyond = values[:, -1] > 1
    moved[beyond] = ((vectors * capped[:, None, :]) @ np.swapaxes(vectors, 1, 2))[beyond]
    return moved


def _broyden_update(gain: Array, before: Array, here: Array, change: Array, rough: Array) -> Array:
    """Return Broyden's update of ``(1 - F')^-1`` from the change of the residual along the last step.

    Steps are measured in units of the covariance, so that a direction of large variance does not change the slope of a
    direction of small variance. The gain does not change after the first step, after a step shorter than ``rough``,
    which measures the roughness of the map, and if the residual falls by far more than the step, which a monotone map
    excludes.
    """
    step = here - before
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (before + here)))
    # Inverse of the mean covariance of both ends, whose eigenvalues may round to zero.
    inverse = (vectors / np.maximum(values, 1e-12)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    flat, weighted = (part.reshape(len(here), -1) for part in (step, inverse @ step @ inverse))
    predicted = np.einsum("nij,nj->ni", gain, change)
    left = np.einsum("ni,nij->nj", weighted, gain)
    scale, square = np.sum(left * change, axis=1), np.sum(weighted * flat, axis=1)
    usable = np.isfinite(scale) & (np.abs(scale) > 1e-12 * square) & (scale != 0)
    usable &= (np.linalg.norm(flat, axis=1) >= rough) & (np.sum(weighted * change, axis=1) >= -_STEEPEST * square)
    with np.errstate(divide="ignore", invalid="ignore"):
        update = (flat + predicted)[:, :, None] * left[:, None, :] / scale[:, None, None]
    return np.asarray(np.where(usable[:, None, None], gain - update, gain))
