r"""Fixed points of maps whose averages are sampled.

Averages use the same points at every step, so the map is a function and has fixed points, though one that is rough on
the scale of its sampling error. They are located with few points, by an iteration that stops at the first one
(:func:`~glassformer.theory.fixed_point.fixed_point`); from there Newton steps of the map with all points lead to a
residual that is a fraction of the sampling error. What the replicas of the data say apart tells that error. A fixed
point at which a direction of symmetry breaking grows is left along it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from glassformer.core.integral import Array
from glassformer.core.numerics.quasi_random import confident
from glassformer.core.progress import note
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.theory.evolution_map import EvolutionMap
from glassformer.theory.fixed_point import Flags, Index, fixed_point


@dataclass(frozen=True)
class Search:
    """How fixed points of sampled maps are looked for, and when they are believed."""

    roughly: float = 5e-4  # how well fixed points are located with few points
    settled: float = 0.1  # share of the sampling error below which a residual tells nothing
    noise: float = 1.0  # share of the sampling error up to which a Newton step is the last one
    left: float = 0.5  # share of that step that may be missing: half of it where two fixed points merge
    leading: float = 0.5  # the same as of noise, where more points are to follow
    least: float = 1.0  # share of it with which a search that gets no further ends
    rounds: int = 24  # corrections by all points
    sloped: int = 4  # factor of points that slopes, which only lead there, can do without
    seen: float = 2.0  # standard errors of a fixed point that a step needs for its ends to tell slopes
    gain: float = 0.7  # share of the step that a round has to leave behind
    patience: int = 2  # rounds without that gain, after which the best will do
    unstable: float = 1.005  # eigenvalue of the slope above which a point is left
    push: float = 0.03  # length of the push that leaves it
    pushes: int = 6  # how often at most
    back: float = 3.0  # tolerances within which a push has led back to where it began
    confidence: float = 0.95  # with which errors stay below their estimate
    meaningless: float = 0.2  # standard error, in units of the prior's covariance, from which on it says nothing
    halvings: int = 20  # of steps that lead out of the cone
    longest: float = 0.5  # Newton steps longer than this share of the covariance are shortened
    above: float = 0.05  # eigenvalues of covariances may exceed those of the prior by this much


_POLICY = Search()


def located(rough: EvolutionMap, start: Array, settings: Iteration, sloped: EvolutionMap | None = None) -> Solution:
    """The first stable fixed points from ``start``, of shape (batch, P, P), to the accuracy that few points have.

    Args:
        rough: the map with few points.
        start: covariances.
        settings: tolerance of the residual relative to ``V``, and iteration limit.
        sloped: the map whose slopes tell what is stable; the same by default.

    Returns:
        :class:`Solution`; ``extra["slope"]`` is the slope of that map there, on flattened covariances.
    """

    def solve(state: Array, index: Index) -> Solution:
        found = _iterated(rough, state, index, settings)
        return replace(found, extra={**found.extra, "slope": _slope(sloped or rough, found, index)})

    return _stable(solve, start, settings)


def sloped(fine: EvolutionMap) -> EvolutionMap:
    """The map for slopes, which only lead to fixed points of that with all points."""
    return fine.with_fewer(_POLICY.sloped)


def _iterated(update: EvolutionMap, start: Array, index: Index, settings: Iteration) -> Solution:
    """The first fixed points, by plain iteration."""
    settings = replace(settings, tolerance=max(settings.tolerance, _POLICY.roughly))
    kept = np.full((2, len(update.alpha), *start.shape[1:]), np.nan)
    found = fixed_point(
        lambda value, active: update(value, index[active], kept), start, settings, is_covariance, noise=_POLICY.settled
    )
    return replace(found, extra={"q_hat": kept[0, index], "q_hat_error": kept[1, index]})


def _slope(update: EvolutionMap, found: Solution, index: Index) -> Array:
    """Slopes of the map, zero where nothing was found."""
    size = found.value.shape[-1] ** 2
    slope = np.zeros((len(index), size, size))
    usable = np.flatnonzero(is_covariance(found.value))
    if usable.size:
        slope[usable] = update.slope(found.value[usable], index[usable])
    return np.where(np.isfinite(slope).all(axis=(1, 2), keepdims=True), slope, 0.0)


def _stable(solve: Callable[[Array, Index], Solution], start: Array, settings: Iteration) -> Solution:
    """Solutions from ``start``; those at unstable points are pushed off them, towards more knowledge.

    A state that moves slowly away from an unstable point looks like a fixed point, and one that keeps a symmetry never
    leaves it: a slope with an eigenvalue above one gives both away.
    """
    solution = solve(start, np.arange(len(start)))
    size = start.shape[-1]
    todo = np.flatnonzero(_stopped(solution))
    for _ in range(_POLICY.pushes):
        values, vectors = np.linalg.eig(solution.extra["slope"][todo])
        leading = np.argmax(values.real, axis=1)
        unstable = np.take_along_axis(values.real, leading[:, None], axis=1)[:, 0] > _POLICY.unstable
        direction = np.take_along_axis(vectors.real, leading[:, None, None], axis=2)[unstable, :, 0]
        todo = todo[unstable]
        if todo.size == 0:
            break
        pushed = _pushed(solution.value[todo], direction.reshape(-1, size, size))
        again = solve(pushed, todo)
        again = replace(again, iterations=again.iterations + solution.iterations[todo])
        # A point that a push leads back to is stable.
        tolerance = max(settings.tolerance, _POLICY.roughly) * np.linalg.norm(pushed, axis=(1, 2))
        back = np.linalg.norm(again.value - solution.value[todo], axis=(1, 2)) <= _POLICY.back * tolerance
        moved = ~back
        solution = solution.overlaid(todo[moved], again.at(moved))
        todo = todo[moved & _stopped(again)]
    return solution


def _stopped(solution: Solution) -> Flags:
    """Whether there is a fixed point, be it one that so few points blur."""
    return np.array([status in (Status.CONVERGED, Status.INTEGRATION_NOT_CONVERGED) for status in solution.status])


def refined(fine: EvolutionMap, place: Solution, settings: Iteration, leading: bool = False) -> Solution:
    r"""Fixed points of the map with all points, next to those that few have :func:`located`.

    Args:
        fine: the map with all points.
        place: where, with the slopes there.
        settings: tolerance of the residual relative to ``V``.
        leading: to where more points are to follow: with slopes anew at every step, and less closely.

    Returns:
        :class:`Solution`; ``extra["q_hat"]`` is :math:`\hat Q` there, ``extra["q_hat_error"]`` its standard error, and
        with ``leading`` ``extra["slope"]`` the slope of the map. The error estimate is what residual and sampling
        amount to at the fixed point, with a confidence of 95 %.
    """
    start, (batch, size) = place.value, place.value.shape[:2]
    gain = _attracting(place.extra["slope"])
    best = replace(
        place,
        value=start.copy(),
        residual=place.residual.copy(),
        error_estimate=np.full(batch, np.inf),
        extra={name: place.extra[name].copy() for name in ("q_hat", "q_hat_error")},
    )
    status = np.array(place.status, dtype=object)
    state, spent, waited = start.copy(), place.iterations.copy(), np.zeros(batch, dtype=int)
    last = np.full((2, batch, size * size), np.nan)
    merit, least = np.full(batch, np.inf), np.full(batch, np.inf)
    where = np.flatnonzero(is_covariance(start))
    status[where] = Status.ITERATION_LIMIT
    kept = np.full((2, len(fine.alpha), size, size), np.nan)
    for _ in range(_POLICY.rounds):
        if where.size == 0:
            break
        note(f"refining {where.size} of {batch} fixed points with all data points")
        here = state[where]
        sampled, slopes = (
            fine.with_slopes(here, where, kept) if leading else (fine.with_replicas(here, where, kept), None)
        )
        mapped, rest, less, more = sampled
        usable = is_covariance(mapped)
        finite = np.isfinite(mapped).all(axis=(1, 2))
        status[where[~usable & finite]] = Status.OUTSIDE_CONE
        status[where[~finite]] = Status.NON_FINITE
        flat, gap = here.reshape(len(where), -1), (mapped - here).reshape(len(where), -1)
        if slopes is None:
            blur = _blur(gain[where], rest, less - mapped)
            # A residual that has turned is known to vanish on the way, however short that was.
            turned = np.sum(gap * last[1, where], axis=1) < 0
            rough = np.where(turned, 0.0, _POLICY.seen * blur)
            gain[where] = _corrected(gain[where], flat - last[0, where], gap - last[1, where], rough)
        else:
            gain[where] = _attracting(slopes)
        last[:, where] = flat, gap
        step = fine.respected(np.einsum("nij,nj->ni", gain[where], gap).reshape(here.shape), here)
        length, blur = np.linalg.norm(step, axis=(1, 2)), _blur(gain[where], rest, less - mapped)
        # What sampled posteriors leave out is no matter of confidence.
        missing = np.linalg.norm(np.einsum("nij,nj->ni", gain[where], (more - mapped).reshape(len(where), -1)), axis=1)
        spent[where] += 1
        # The best so far is what a search that gets no further ends with.
        waited[where] = np.where(length < _POLICY.gain * least[where], 0, waited[where] + 1)
        better = usable & (length < least[where])
        improved = where[better]
        least[improved], merit[improved] = length[better], (blur + missing)[better]
        best.value[improved], best.residual[improved] = here[better], np.linalg.norm(gap[better], axis=1)
        total = _POLICY.left * length + confident(rest.shape[1], _POLICY.confidence) * blur + missing
        best.error_estimate[improved] = total[better]
        for name, part in zip(("q_hat", "q_hat_error"), kept, strict=True):
            best.extra[name][improved] = part[improved]
        norm = np.linalg.norm(flat, axis=1)
        enough = np.maximum(
            settings.tolerance * norm + settings.floor, (_POLICY.leading if leading else _POLICY.noise) * blur
        )
        done = usable & (length <= enough)
        status[where[done]] = Status.CONVERGED
        state[where] = moved = _within(here, step, _POLICY.longest * norm / np.maximum(length, 1e-300))
        # The last step costs nothing and leaves less than its square.
        best.value[where[done]] = moved[done]
        # Fewer points may lead far away, to where all of them would not: what was shortened is left to those.
        shortened = np.linalg.norm(moved - here - step, axis=(1, 2)) > 1e-9 * length
        # A way that is longer than its steps takes more of them.
        waited[where[shortened]] = 0
        ended = shortened if leading else waited[where] >= _POLICY.patience
        where = where[usable & ~done & ~ended]
    status[where[least[where] <= _POLICY.least * merit[where]]] = Status.CONVERGED
    status[(merit > _POLICY.meaningless) & np.isfinite(merit)] = Status.INTEGRATION_NOT_CONVERGED
    if leading:
        best.extra["slope"] = np.eye(size * size) - np.linalg.inv(gain)
    return replace(best, status=status.tolist(), iterations=spent)


def nearer(fine: EvolutionMap, place: Solution, settings: Iteration) -> Solution:
    """Next to the fixed points of the map with all points, by those that tell slopes."""
    return refined(sloped(fine), place, settings, leading=True)


def _attracting(slope: Array) -> Array:
    """``(1 - F')^-1`` of points that attract: eigenvalues of the slope above one, within its error, are mirrored."""
    away = np.eye(slope.shape[-1]) - slope
    values, vectors = np.linalg.eig(away)
    mirrored = (vectors @ (np.where(values.real < 0, -values, values)[:, :, None] * np.linalg.pinv(vectors))).real
    repelled = np.any(values.real < 0, axis=1, keepdims=True)
    return np.asarray(np.linalg.inv(np.where(repelled[:, :, None], mirrored, away)), dtype=float)


def _blur(gain: Array, rest: Array, unseen: Array) -> Array:
    """Standard error of fixed points from maps of all but one replica, shape (n, replicas, P, P), by the jackknife.

    Beside it what ``unseen`` data, of which the sample has none, change the map by, shape (n, P, P).
    """
    count = rest.shape[1]
    apart = np.sqrt((count - 1) / count) * (rest - rest.mean(axis=1, keepdims=True))
    parts = np.concatenate([apart, unseen[:, None]], axis=1)
    moved = np.einsum("nij,nrj->nri", gain, parts.reshape(*parts.shape[:2], -1))
    return np.asarray(np.sqrt(np.sum(moved**2, axis=(1, 2))))


def _within(here: Array, step: Array, share: Array) -> Array:
    """States a step farther, of which a share is taken where that is less, and half as long until it is in the cone."""
    share = np.minimum(share, 1.0)
    for _ in range(_POLICY.halvings):
        moved = here + share[:, None, None] * step
        share = np.where(is_covariance(moved), share, 0.5 * share)
    moved = here + share[:, None, None] * step
    values, vectors = np.linalg.eigh(moved)
    # Nothing is less known than by the prior alone: at most half of what is known of a direction is given up.
    own = np.minimum(np.einsum("npa,npq,nqa->na", vectors, here, vectors), 1.0)
    capped = np.where(values > 1, 0.5 * (1 + own), values)
    beyond = values[:, -1] > 1
    moved[beyond] = ((vectors * capped[:, None, :]) @ np.swapaxes(vectors, 1, 2))[beyond]
    return moved


def _pushed(value: Array, direction: Array) -> Array:
    """States moved by a little along unit directions, towards more knowledge."""
    more = np.trace(direction, axis1=1, axis2=2) < 0
    step = _POLICY.push * np.where(more, 1.0, -1.0)[:, None, None] * 0.5 * (direction + np.swapaxes(direction, 1, 2))
    moved = value + step
    bad = ~is_covariance(moved)
    moved[bad] = (1 - _POLICY.push) * value[bad]
    return moved


def _corrected(gain: Array, moved: Array, changed: Array, rough: Array) -> Array:
    """Broyden's update of ``(1 - F')^-1`` by what the residual did along the last step; kept where there was none.

    It is kept as well where that step is shorter than ``rough``: a sampled map is rough, and that is no slope.
    """
    predicted = np.einsum("nij,nj->ni", gain, changed)
    left = np.einsum("ni,nij->nj", moved, gain)
    scale = np.sum(left * changed, axis=1)
    length = np.linalg.norm(moved, axis=1)
    usable = np.isfinite(scale) & (np.abs(scale) > 1e-12 * length**2) & (scale != 0) & (length >= rough)
    with np.errstate(divide="ignore", invalid="ignore"):
        update = (moved + predicted)[:, :, None] * left[:, None, :] / scale[:, None, None]
    return np.asarray(np.where(usable[:, None, None], gain - update, gain))


def is_covariance(states: Array, above: float = _POLICY.above) -> Flags:
    """Which states, flattened or not, are covariances of what has unit power: eigenvalues from 0 to ``1 + above``."""
    flat = states.reshape(len(states), -1)
    finite: Flags = np.all(np.isfinite(flat), axis=1)
    if flat.shape[1] == 1:
        return np.asarray(finite & (flat[:, 0] >= 0) & (flat[:, 0] <= 1 + above))
    size = int(np.sqrt(flat.shape[1]))
    values = np.linalg.eigvalsh(np.where(finite[:, None], flat, 0.0).reshape(-1, size, size))
    return np.asarray(finite & (values[:, 0] > -1e-12) & (values[:, -1] <= 1 + above))
