r"""Fixed points of maps whose averages are sampled: a coarse solution, refined by Newton steps.

Averages use the same data points at every step, so the map is a function and has fixed points, but it is rough on the
scale of its sampling error. Fixed points are found in two stages.

1. :func:`coarse_solve` iterates the map with few data points up to the first fixed point. It leaves a fixed point at
   which a symmetry-breaking direction grows along that direction. Of several sample ratios some are solved first; the
   others start from their fixed points (:func:`continuation_order`).
2. :func:`newton_refine` takes Newton steps of the map with all data points, until the residual is a fraction of the
   sampling error. The spread between replicas of the data gives that error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from glassformer.bayes_optimal.evolution_map import EvolutionMap, SampledStep, is_covariance
from glassformer.bayes_optimal.fixed_point import Flags, Index, fixed_point
from glassformer.channels.field_averages import REPLICAS
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.numerics.decompositions import map_eigenvalues
from glassformer.numerics.quasi_random import confidence_factor

# Numbers without a remark were chosen by trial on the models of the test suite.

# Coarse solution: relative tolerance, and the share of the sampling error below which a residual is noise.
_COARSE_TOLERANCE, _COARSE_NOISE = 5e-4, 0.1
# Eigenvalue of the slope above which a fixed point is unstable: one, and the error of a slope from few data points.
_UNSTABLE = 1.005
# Length of the push off an unstable fixed point, how many pushes there are at most, and within how many tolerances of
# its beginning a pushed state has come back.
_PUSH, _MOST_PUSHES, _RETURNED = 0.03, 6, 3.0

# Newton steps: how many at most, and how many without progress; progress multiplies the step by no more than _GAIN.
_MOST_ROUNDS, _PATIENCE, _GAIN = 24, 4, 0.7
# A step shorter than this share of the sampling error is the last one: in a preliminary refinement, and else.
_LAST_STEP = {True: 0.5, False: 1.0}
# Share of the last step that may be missing after it: half where two fixed points merge.
_MISSING_SHARE = 0.5
# Standard errors of a fixed point that a step needs for Broyden's update: shorter ones see the roughness of the map.
_SIGNIFICANT = 2.0
# A residual that falls by more than so many steps along a step is noise: a monotone map makes it fall by one at most.
_STEEPEST = 2.0
# Standard error, in units of the prior's covariance, from which on a fixed point is not determined.
_UNDETERMINED = 0.2
# Longest step as a share of the covariance, and halvings of a step that leaves the cone.
_LONGEST_STEP, _HALVINGS = 0.5, 20


class ContinuationStage(NamedTuple):
    """Elements of a batch that are solved together, each from the fixed point of an earlier one.

    Attributes:
        members: batch indices of the elements.
        earlier: batch index of an element of an earlier stage for each of them; empty in the first stage.
        side: 1 if starts are above fixed points, -1 if they are below.
    """

    members: Index
    earlier: Index
    side: float


def continuation_order(alpha: Array, informed: bool = False) -> list[ContinuationStage]:
    """Return stages in which sample ratios are solved: few stages, with most elements in the last ones.

    The map is monotone in ``V`` and in the sample ratio. So fixed points reached from the uninformed start are ordered
    like their ratios: those of smaller ratios lie between the start and those of larger ones, and no other fixed point
    does. From the informed start the order is reversed.

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
    """Return the nearer one of ``start``, shape (n, P, P), and earlier fixed points, direction by direction.

    Directions that the earlier fixed point has not learned keep the start, which breaks their symmetry.

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
        slope_map: the map whose slopes decide what is stable.
        order: stages of the batch; by default all elements at once.
        other: coarse solutions from another start; where the same fixed point is found, their slopes are used.

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
    """Return slopes of the map, zero where a state is no covariance."""
    size = states.shape[-1] ** 2
    slope = np.zeros((len(index), size, size))
    usable = np.flatnonzero(is_covariance(states)) if len(states) else index
    if usable.size:
        slope[usable] = update.slope(states[usable], index[usable])
    return np.where(np.isfinite(slope).all(axis=(1, 2), keepdims=True), slope, 0.0)


def _differ(states: Array, others: Array, settings: Iteration) -> Flags:
    """Return which coarse fixed points are two, not one found twice."""
    tolerance = _RETURNED * max(settings.tolerance, _COARSE_TOLERANCE)
    return np.asarray(
        np.linalg.norm(states - others, axis=(1, 2)) > tolerance * np.linalg.norm(states, axis=(1, 2)), dtype=bool
    )


def _leave_unstable_points(
    solve: Callable[[Array, Index], Solution], start: Array, index: Index, settings: Iteration
) -> Solution:
    """Return solutions from ``start``; states at unstable fixed points are pushed off, towards more knowledge.

    A state that moves slowly away from an unstable point looks like a fixed point, and one that keeps a symmetry never
    leaves it. An eigenvalue of the slope above one reveals both.
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
        # A point to which a push returns is stable.
        left = _differ(again.value, solution.value[todo], settings)
        solution = solution.merge_where(todo[left], again.at(left))
        todo = todo[left & _ended(again)]
    unstable = np.zeros(len(start), dtype=bool)
    unstable[todo] = repelling(solution.extra["slope"][todo])
    return replace(solution, extra={**solution.extra, "unstable": unstable})


def repelling(slope: Array) -> Flags:
    """Return where a slope of the map has an eigenvalue that leads away from its fixed point.

    Example:
        >>> repelling(np.array([[[0.5]], [[1.5]]])).tolist()
        [False, True]
    """
    return np.asarray(np.linalg.eigvals(slope).real.max(axis=1, initial=0.0) > _UNSTABLE)


def _ended(solution: Solution) -> Flags:
    """Return whether there is a fixed point, be it one that few data points do not resolve."""
    return np.array([status in (Status.CONVERGED, Status.INTEGRATION_NOT_CONVERGED) for status in solution.status])


def _push(value: Array, direction: Array) -> Array:
    """Move states a little along unit directions, towards more knowledge."""
    more = np.trace(direction, axis1=1, axis2=2) < 0
    step = _PUSH * np.where(more, 1.0, -1.0)[:, None, None] * 0.5 * (direction + np.swapaxes(direction, 1, 2))
    pushed = value + step
    outside = ~is_covariance(pushed)
    pushed[outside] = (1 - _PUSH) * value[outside]
    return pushed


# --- refinement by Newton steps ---------------------------------------------------------------------------------------


def newton_refine(update: EvolutionMap, coarse: Solution, settings: Iteration, preliminary: bool = False) -> Solution:
    r"""Return fixed points of a sampled map, next to coarse ones, by Newton steps with Broyden's update.

    Args:
        update: the map.
        coarse: coarse solution, with slopes and instabilities, as of :func:`coarse_solve`.
        settings: tolerance of the residual relative to ``V``.
        preliminary: whether a map with more data points is to follow: slopes are computed anew at every step, and the
            last step may be longer.

    Returns:
        :class:`Solution`; ``extra["q_hat"]`` is :math:`\hat Q` there, ``extra["q_hat_error"]`` its standard error, and
        ``extra["error_components"]``, shape (batch, parts, P, P), holds independent errors of the fixed point, each of
        one standard error. With ``preliminary``, ``extra["slope"]`` is the slope of the map and ``extra["unstable"]``
        as in ``coarse``. The error estimate is made of residual and sampling error, amplified by the slope, with a
        confidence of 95 %. Points that no push has left for a stable one are not converged, unless slopes from more
        data points say that they attract.
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
        note(f"refining {active.size} of {batch} fixed points with all data points")
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
            # A residual that has changed its sign vanishes on the way, however short that was.
            turned = np.sum(residual * previous[1, active], axis=1) < 0
            rough = np.where(turned, 0.0, _SIGNIFICANT * _norm(_sampling_errors(gain[active], sampled)))
            before = previous[0, active].reshape(here.shape)
            gain[active] = _broyden_update(gain[active], before, here, residual - previous[1, active], rough)
        else:
            gain[active] = _newton_gain(slope)
            unstable[active] &= repelling(slope)
        previous[:, active] = flat, residual
        step = update.respect_symmetries(np.einsum("nij,nj->ni", gain[active], residual).reshape(here.shape), here)
        length, residual_norm = np.linalg.norm(step, axis=(1, 2)), np.linalg.norm(residual, axis=1)
        if not preliminary:
            # A monotone map is no nearer to its fixed point than its residual is long, whatever the gain says.
            length = np.maximum(length, residual_norm)

        # Errors of the fixed point: sampling, bias of sampled posteriors (not a matter of confidence), and the step.
        sampling = _sampling_errors(gain[active], sampled)
        bias = _amplify(gain[active], (sampled.with_bias - sampled.value).reshape(len(active), 1, -1))
        sampling_norm, bias_norm = _norm(sampling), _norm(bias)
        confidence = confidence_factor(sampled.leave_one_out.shape[1])
        certain = np.concatenate([bias, _MISSING_SHARE * step.reshape(bias.shape)], axis=1) / confidence

        # The solution is the state with the shortest step.
        iterations[active] += 1
        waited[active] = np.where(length < _GAIN * shortest_step[active], 0, waited[active] + 1)
        better = usable & (length < shortest_step[active])
        improved = active[better]
        shortest_step[improved], best_uncertainty[improved] = length[better], (sampling_norm + bias_norm)[better]
        best.value[improved], best.residual[improved] = here[better], residual_norm[better]
        best_gain[improved] = gain[improved]
        total = np.maximum(_MISSING_SHARE * length + confidence * sampling_norm + bias_norm, residual_norm)
        best.error_estimate[improved] = total[better]
        components = np.concatenate([sampling, certain], axis=1)[better]
        # Averages that are exact have one replica, and fewer components.
        best.extra["error_components"][improved, : components.shape[1]] = components.reshape(
            *components.shape[:2], size, size
        )
        for name, part in zip(("q_hat", "q_hat_error"), conjugates, strict=True):
            best.extra[name][improved] = part[improved]

        norm = np.linalg.norm(flat, axis=1)
        last = np.maximum(settings.tolerance * norm + settings.floor, _LAST_STEP[preliminary] * sampling_norm)
        done = usable & (length <= last)
        status[active[done]] = Status.CONVERGED
        state[active] = moved = _step_in_cone(here, step, _LONGEST_STEP * norm / np.maximum(length, 1e-300))
        # The last step costs no evaluation and leaves less than its square.
        best.value[active[done]] = moved[done]
        shortened = np.linalg.norm(moved - here - step, axis=(1, 2)) > 1e-9 * length
        # A shortened step says nothing of progress. Few data points may lead where all of them would not: a
        # preliminary refinement ends there.
        waited[active[shortened]] = 0
        ended = shortened if preliminary else waited[active] >= _PATIENCE
        active = active[usable & ~done & ~ended]
    # After the last round a fixed point has converged if its step is below the uncertainty.
    status[active[shortest_step[active] <= best_uncertainty[active]]] = Status.CONVERGED
    status[unstable & (status == Status.CONVERGED)] = Status.INTEGRATION_NOT_CONVERGED
    status[(best_uncertainty > _UNDETERMINED) & np.isfinite(best_uncertainty)] = Status.INTEGRATION_NOT_CONVERGED
    if preliminary:
        best.extra.update(slope=np.eye(size * size) - np.linalg.inv(best_gain), unstable=unstable)
    return replace(best, status=status.tolist(), iterations=iterations)


def _newton_gain(slope: Array) -> Array:
    """Return ``(1 - F')^-1`` of attracting points: eigenvalues of the slope above one, within its error, are mirrored.

    Slopes next to a signal known exactly may be of any size, and ``1 - F'`` singular by rounding.
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
    """Return independent errors of fixed points, shape (n, parts, P^2), whose squares add up to the variance.

    They come from the jackknife over replicas, and from data points that the sample may lack.
    """
    rest = sampled.leave_one_out
    jackknife = np.sqrt((rest.shape[1] - 1) / rest.shape[1]) * (rest - rest.mean(axis=1, keepdims=True))
    parts = np.concatenate([jackknife, (sampled.without_unseen - sampled.value)[:, None]], axis=1)
    return _amplify(gain, parts.reshape(*parts.shape[:2], -1))


def _amplify(gain: Array, parts: Array) -> Array:
    """Return changes of fixed points under changes of the map, shape (n, parts, P^2): no smaller, it is monotone."""
    changes = np.einsum("nij,nrj->nri", gain, parts)
    return np.asarray(changes * np.maximum(1.0, _norm(parts) / np.maximum(_norm(changes), 1e-300))[:, None, None])


def _norm(parts: Array) -> Array:
    """Return the standard error made of independent parts, shape (n,)."""
    return np.asarray(np.sqrt(np.sum(parts**2, axis=(1, 2))))


def _step_in_cone(here: Array, step: Array, share: Array) -> Array:
    """Return states after a share of the step, at most all of it, halved until the state is a covariance."""
    share = np.minimum(share, 1.0)
    for _ in range(_HALVINGS):
        inside = is_covariance(here + share[:, None, None] * step)
        share = np.where(inside, share, 0.5 * share)
    moved = here + share[:, None, None] * step
    values, vectors = np.linalg.eigh(moved)
    # Variances never exceed those of the prior, and a step removes at most half of the overlap of a direction.
    own = np.minimum(np.einsum("npa,npq,nqa->na", vectors, here, vectors), 1.0)
    capped = np.where(values > 1, 0.5 * (1 + own), values)
    beyond = values[:, -1] > 1
    moved[beyond] = ((vectors * capped[:, None, :]) @ np.swapaxes(vectors, 1, 2))[beyond]
    return moved


def _broyden_update(gain: Array, before: Array, here: Array, change: Array, rough: Array) -> Array:
    """Return Broyden's update of ``(1 - F')^-1`` from the change of the residual along the last step.

    Steps are measured in units of the covariance, so that the small variance of one direction is not taken for the
    slope of another. The gain stays as it is after the first step, after a step shorter than ``rough``, which sees the
    roughness of the map, and where the residual falls by far more than the step: the map is monotone.
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
