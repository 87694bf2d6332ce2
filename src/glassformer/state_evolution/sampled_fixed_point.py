r"""Fixed points of maps whose averages are sampled.

Averages use the same points at every step, so the map is a function and has fixed points, though one that is rough on
the scale of its sampling error. They are :mod:`~glassformer.state_evolution.coarse_solve` with few points; from there
Newton steps of the map with all points lead to a residual that is a fraction of the sampling error. What the replicas
of the data say apart tells that error.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glassformer.channels.field_averages import REPLICAS
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.numerics.quasi_random import confident
from glassformer.state_evolution.coarse_solve import repelling
from glassformer.state_evolution.evolution_map import EvolutionMap
from glassformer.state_evolution.sampled_search import POLICY, is_covariance


def refined(fine: EvolutionMap, place: Solution, settings: Iteration, leading: bool = False) -> Solution:
    r"""Fixed points of the map with all points, next to those that few have located.

    Args:
        fine: the map with all points.
        place: where, with the slopes there.
        settings: tolerance of the residual relative to ``V``.
        leading: to where more points are to follow: with slopes anew at every step, and less closely.

    Returns:
        :class:`Solution`; ``extra["q_hat"]`` is :math:`\hat Q` there, ``extra["q_hat_error"]`` its standard error,
        ``extra["moved"]``, shape (batch, parts, P, P), what independent parts of the error move the point by at one
        standard error, and with ``leading`` ``extra["slope"]`` is the slope of the map and ``extra["unstable"]`` as in
        ``place``. The error estimate is what residual and sampling amount to at the fixed point, with a confidence of
        95 %. Points that no push has left for a stable one are not converged, unless slopes of more points say that
        they attract.
    """
    start, (batch, size) = place.value, place.value.shape[:2]
    unstable = place.extra["unstable"].copy()
    gain = _attracting(place.extra["slope"])
    gain_there = gain.copy()
    best = replace(
        place,
        value=start.copy(),
        residual=place.residual.copy(),
        error_estimate=np.full(batch, np.inf),
        extra={
            **{name: place.extra[name].copy() for name in ("q_hat", "q_hat_error")},
            "moved": np.zeros((batch, REPLICAS + 3, size, size)),
        },
    )
    status = np.array(place.status, dtype=object)
    state, spent, waited = start.copy(), place.iterations.copy(), np.zeros(batch, dtype=int)
    last = np.full((2, batch, size * size), np.nan)
    merit, least = np.full(batch, np.inf), np.full(batch, np.inf)
    where = np.flatnonzero(is_covariance(start))
    status[where] = Status.ITERATION_LIMIT
    kept = np.full((2, len(fine.alpha), size, size), np.nan)
    for _ in range(POLICY.rounds):
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
            blur = _size(_apart(gain[where], rest, less - mapped))
            # A residual that has turned is known to vanish on the way, however short that was.
            turned = np.sum(gap * last[1, where], axis=1) < 0
            rough = np.where(turned, 0.0, POLICY.seen * blur)
            before = last[0, where].reshape(here.shape)
            gain[where] = _corrected(gain[where], before, here, gap - last[1, where], rough)
        else:
            gain[where] = _attracting(slopes)
            unstable[where] &= repelling(slopes)
        last[:, where] = flat, gap
        step = fine.respected(np.einsum("nij,nj->ni", gain[where], gap).reshape(here.shape), here)
        apart = _apart(gain[where], rest, less - mapped)
        length, off, blur = np.linalg.norm(step, axis=(1, 2)), np.linalg.norm(gap, axis=1), _size(apart)
        if not leading:
            # A monotone map is no nearer to its fixed point than its residual is long, whatever the gain says.
            length = np.maximum(length, off)
        # What sampled posteriors leave out is no matter of confidence.
        left_out = _amplified(gain[where], (more - mapped).reshape(len(where), 1, -1))
        missing = _size(left_out)
        confidence = confident(rest.shape[1], POLICY.confidence)
        sure = np.concatenate([left_out, POLICY.left * step.reshape(left_out.shape)], axis=1) / confidence
        spent[where] += 1
        # The best so far is what a search that gets no further ends with.
        waited[where] = np.where(length < POLICY.gain * least[where], 0, waited[where] + 1)
        better = usable & (length < least[where])
        improved = where[better]
        least[improved], merit[improved] = length[better], (blur + missing)[better]
        best.value[improved], best.residual[improved] = here[better], off[better]
        gain_there[improved] = gain[improved]
        total = np.maximum(POLICY.left * length + confidence * blur + missing, off)
        best.error_estimate[improved] = total[better]
        parts = np.concatenate([apart, sure], axis=1)[better]
        # Averages that are exact have one replica, and no more parts than that.
        best.extra["moved"][improved, : parts.shape[1]] = parts.reshape(*parts.shape[:2], size, size)
        for name, part in zip(("q_hat", "q_hat_error"), kept, strict=True):
            best.extra[name][improved] = part[improved]
        norm = np.linalg.norm(flat, axis=1)
        enough = np.maximum(
            settings.tolerance * norm + settings.floor, (POLICY.leading if leading else POLICY.noise) * blur
        )
        done = usable & (length <= enough)
        status[where[done]] = Status.CONVERGED
        state[where] = moved = _within(here, step, POLICY.longest * norm / np.maximum(length, 1e-300))
        # The last step costs nothing and leaves less than its square.
        best.value[where[done]] = moved[done]
        # Fewer points may lead far away, to where all of them would not: what was shortened is left to those.
        shortened = np.linalg.norm(moved - here - step, axis=(1, 2)) > 1e-9 * length
        # A way that is longer than its steps takes more of them.
        waited[where[shortened]] = 0
        ended = shortened if leading else waited[where] >= POLICY.patience
        where = where[usable & ~done & ~ended]
    status[where[least[where] <= POLICY.least * merit[where]]] = Status.CONVERGED
    status[unstable & (status == Status.CONVERGED)] = Status.INTEGRATION_NOT_CONVERGED
    status[(merit > POLICY.meaningless) & np.isfinite(merit)] = Status.INTEGRATION_NOT_CONVERGED
    if leading:
        best.extra.update(slope=np.eye(size * size) - np.linalg.inv(gain_there), unstable=unstable)
    return replace(best, status=status.tolist(), iterations=spent)


def sloped(fine: EvolutionMap) -> EvolutionMap:
    """The map for slopes, which only lead to fixed points of that with all points."""
    return fine.with_fewer(POLICY.sloped)


def nearer(fine: EvolutionMap, place: Solution, settings: Iteration) -> Solution:
    """Next to the fixed points of the map with all points, by those that tell slopes."""
    return refined(sloped(fine), place, settings, leading=True)


def _attracting(slope: Array) -> Array:
    """``(1 - F')^-1`` of points that attract: eigenvalues of the slope above one, within its error, are mirrored."""
    away = np.eye(slope.shape[-1]) - slope
    values, vectors = np.linalg.eig(away)
    mirrored = (vectors @ (np.where(values.real < 0, -values, values)[:, :, None] * np.linalg.pinv(vectors))).real
    repelled = np.any(values.real < 0, axis=1, keepdims=True)
    inverses = [_inverse(matrix) for matrix in np.where(repelled[:, :, None], mirrored, away)]
    return np.reshape(inverses, away.shape)


def _inverse(matrix: Array) -> Array:
    """The inverse; slopes next to a signal known exactly may be of any size, and singular by rounding."""
    try:
        return np.asarray(np.linalg.inv(matrix), dtype=float)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix), dtype=float)


def _apart(gain: Array, rest: Array, unseen: Array) -> Array:
    """What fixed points move by, shape (n, parts, P^2), from maps of all but one replica, shape (n, replicas, P, P).

    Squares of the parts add up to the variance: those of the jackknife, and beside them what ``unseen`` data, of which
    the sample has none, change the map by, shape (n, P, P).
    """
    count = rest.shape[1]
    apart = np.sqrt((count - 1) / count) * (rest - rest.mean(axis=1, keepdims=True))
    parts = np.concatenate([apart, unseen[:, None]], axis=1)
    return _amplified(gain, parts.reshape(*parts.shape[:2], -1))


def _amplified(gain: Array, parts: Array) -> Array:
    """What fixed points move by where the map moves by these parts, shape (n, parts, P^2): no less, it is monotone."""
    moved = np.einsum("nij,nrj->nri", gain, parts)
    return np.asarray(moved * np.maximum(1.0, _size(parts) / np.maximum(_size(moved), 1e-300))[:, None, None])


def _size(apart: Array) -> Array:
    """Standard error that these parts amount to, shape (n,)."""
    return np.asarray(np.sqrt(np.sum(apart**2, axis=(1, 2))))


def _within(here: Array, step: Array, share: Array) -> Array:
    """States a step farther, of which a share is taken where that is less, and half as long until it is in the cone."""
    share = np.minimum(share, 1.0)
    for _ in range(POLICY.halvings):
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


def _corrected(gain: Array, before: Array, here: Array, changed: Array, rough: Array) -> Array:
    """Broyden's update of ``(1 - F')^-1`` by what the residual did along the last step; kept where there was none.

    Steps are measured in units of the covariance: what little is unknown of one direction must not be taken for the
    slope of another. The gain is kept as well where the step is shorter than ``rough``: a sampled map is rough, and
    that is no slope. Nor is a residual that falls by far more than the step: the map is monotone.
    """
    step = here - before
    moved, weighed = (part.reshape(len(here), -1) for part in (step, _weighed(step, before, here)))
    predicted = np.einsum("nij,nj->ni", gain, changed)
    left = np.einsum("ni,nij->nj", weighed, gain)
    scale, square = np.sum(left * changed, axis=1), np.sum(weighed * moved, axis=1)
    usable = np.isfinite(scale) & (np.abs(scale) > 1e-12 * square) & (scale != 0)
    usable &= (np.linalg.norm(moved, axis=1) >= rough) & (np.sum(weighed * changed, axis=1) >= -POLICY.fall * square)
    with np.errstate(divide="ignore", invalid="ignore"):
        update = (moved + predicted)[:, :, None] * left[:, None, :] / scale[:, None, None]
    return np.asarray(np.where(usable[:, None, None], gain - update, gain))


def _weighed(step: Array, before: Array, here: Array) -> Array:
    """``C^-1 step C^-1`` with the mean covariance ``C`` of both ends, whose eigenvalues may round to zero."""
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (before + here)))
    inverse = (vectors / np.maximum(values, 1e-12)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return np.asarray(inverse @ step @ inverse)
