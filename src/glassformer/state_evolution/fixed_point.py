r"""The one loop of the theory: fixed points of a map, a batch at a time.

The state is the posterior variance (one number, or an array per batch element), not the overlap: near perfect
recovery the variance keeps its relative precision where the overlap rounds to one.

Convergence is measured on the undamped residual :math:`F(x) - x` *and* on its amplification: where the map contracts
slowly, by a factor :math:`\lambda` per step, a residual ``r`` means a distance :math:`r/(1-\lambda)`. Neither damping
nor acceleration enters that measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import note
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status

Flags = NDArray[np.bool_]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Acceleration:
    """How far accelerated steps may lead, and which fixed points are rough."""

    rough: float = 0.05  # share of a fixed point from which on its integration error is no longer a detail
    share: float = 0.3  # longest step, as a share of the way travelled so far
    least: float = 2.0  # longest step, in units of the residual, however short that way
    growth: float = 4.0  # of the longest step from one to the next
    farthest: float = 1e15  # where that growth ends, in the same units
    halvings: int = 60  # of steps that lead out of the domain


_POLICY = Acceleration()


def fixed_point(
    function: Callable[[Array, Index], Estimate],
    start: Array,
    settings: Iteration | None = None,
    inside: Callable[[Array], Flags] | None = None,
    origin: Array | None = None,
    noise: float = 0.0,
) -> Solution:
    """Iterate ``x -> function(x)`` from ``start`` until it stops moving, each batch element on its own.

    The accelerated step is Anderson's with one remembered pair, held to the direction of the residual and to a length
    that may grow fourfold per step, so that from below it approaches the *first* fixed point, and a start that is
    unstable is left rather than mistaken for a solution.

    Args:
        function: called with the states still moving, shape ``(active, ...)``, and their batch indices; returns the
            map's value and its integration error, of the same shape.
        start: shape ``(batch, ...)``.
        settings: tolerances, iteration limit, damping.
        inside: tells which states, shape ``(active, ...)``, belong to the domain, shape ``(active,)``; all by default.
        origin: where the way to the fixed point began, if not at ``start``: between the two there is known to be no
            other fixed point, and accelerated steps may be as long as a part of the way from there.
        noise: share of the integration error below which a residual that does not grow tells nothing: the end.

    Returns:
        A :class:`Solution`; never raises for lack of convergence.

    Example:
        >>> solution = fixed_point(lambda x, index: Estimate(np.cos(x), 0 * x), np.array([1.0]))
        >>> print(solution.status[0], round(float(solution.value[0]), 9))
        converged 0.739085133
    """
    settings, inside = settings or Iteration(), inside or _everywhere
    x = np.array(start, dtype=float)
    batch, shape = len(x), x.shape[1:]
    x = x.reshape(batch, -1)
    origin = x.copy() if origin is None else np.array(origin, dtype=float).reshape(x.shape)
    residual, estimate, reach = np.full(batch, np.nan), np.full(batch, np.inf), np.full(batch, _POLICY.least)
    iterations, status = np.zeros(batch, dtype=np.int64), np.full(batch, Status.ITERATION_LIMIT, dtype=object)
    old_x, old_r = np.full_like(x, np.nan), np.full_like(x, np.nan)
    active, history = np.arange(batch), []
    for remaining in reversed(range(settings.max_iterations)):
        here = x[active]
        found = function(here.reshape(-1, *shape), active)
        value, error = (np.asarray(part, dtype=float).reshape(here.shape) for part in found)
        r = value - here
        size, norm, blur = (np.linalg.norm(part, axis=1) for part in (r, here, error))
        moved = (here, here - old_x[active], r - old_r[active])
        distance = _distance(size, *moved)
        # A residual is known to rounding and integration error only, which slow convergence amplifies like itself.
        rounded = _distance(np.maximum(size, np.finfo(float).eps * norm) + blur, *moved)
        residual[active], iterations[active] = size, iterations[active] + 1
        estimate[active] = np.where(np.isfinite(rounded), rounded, distance + blur)
        history.append(np.full(batch, np.nan))
        history[-1][active] = size

        finite, domain = np.isfinite(value).all(axis=1), inside(value)
        done = (distance <= settings.tolerance * norm + settings.floor) | (
            np.isfinite(distance) & (size < noise * blur)
        )
        # States of a few floors are zero, whatever share of them is not known.
        rough = blur > _POLICY.rough * norm + 4 * settings.floor
        status[active[done]] = Status.CONVERGED
        status[active[done & rough]] = Status.INTEGRATION_NOT_CONVERGED
        status[active[~domain]] = Status.OUTSIDE_CONE
        status[active[~finite]] = Status.NON_FINITE
        keep = finite & domain & ~done
        if settings.damping is None:
            travelled = np.linalg.norm(here - origin[active], axis=1)
            step, reach[active] = _accelerated(here, r, old_x[active], old_r[active], reach[active], travelled)
        else:
            step = (1 - settings.damping) * r
        old_x[active], old_r[active] = here, r
        active = active[keep]
        # After the last evaluation nothing moves: the residual reported is that of the value returned.
        if active.size == 0 or remaining == 0:
            break
        note(f"iteration {len(history)}, {active.size} of {batch} not converged")
        x[active] = _stay_inside(here[keep], step[keep], inside)
    return Solution(
        value=x.reshape(np.shape(start)),
        status=list(status),
        residual=residual,
        iterations=iterations,
        error_estimate=estimate,
        history=np.array(history),
    )


def _everywhere(states: Array) -> Flags:
    return np.ones(len(states), dtype=bool)


def _distance(size: Array, x: Array, dx: Array, dr: Array) -> Array:
    """Distance to the fixed point for residuals of the given size, from the slope between the last two states.

    Infinite while there is no slope to judge by, and where the residual grows along the way: that is no sign of a
    fixed point nearby, however small the residual.
    """
    length = np.sum(dx * dx, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.sum(dx * dr, axis=1) / length
        known = np.where(slope < 0, size * np.maximum(1.0, -1 / slope), np.inf)
    at_rounding = length <= 1e-30 * np.sum(x * x, axis=1)
    return np.where(size == 0, 0.0, np.where(np.isnan(length), np.inf, np.where(at_rounding, size, known)))


def _accelerated(x: Array, r: Array, old_x: Array, old_r: Array, reach: Array, travelled: Array) -> tuple[Array, Array]:
    """One Anderson step, aligned with the residual and of limited length.

    It is at most ``reach`` times as long as the residual and, beyond twice, no longer than a part of the way already
    ``travelled``, so that no stable point is leapt over together with the unstable one behind it. Where the residual
    grows (the state is leaving an unstable point) its direction is followed that far.
    """
    dr, size = r - old_r, np.linalg.norm(r, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.sum(r * dr, axis=1) / np.sum(dr * dr, axis=1)
        step = r - theta[:, None] * (x - old_x + dr)
        ratio = np.linalg.norm(step, axis=1) / size
        usable = np.isfinite(ratio) & (np.sum(step * r, axis=1) > 0)
        overshot = np.sum(r * old_r, axis=1) < 0
        beyond = np.where(size > 0, _POLICY.share * travelled / size, 0.0)
        longest = np.minimum(reach, np.maximum(_POLICY.least, beyond))
        shortened = step * np.minimum(1.0, longest / ratio)[:, None]
    fresh = np.isnan(old_r).any(axis=1)
    blind = np.where(fresh, 1.0, longest)[:, None] * r
    reach = np.where(overshot, 1.0, np.minimum(_POLICY.growth * reach, _POLICY.farthest))
    return np.where(usable[:, None], shortened, blind), reach


def _stay_inside(x: Array, step: Array, inside: Callable[[Array], Flags]) -> Array:
    """``x + step``, the step halved until the state belongs to the domain."""
    share = np.ones(len(x))
    for _ in range(_POLICY.halvings):
        outside = ~inside(x + share[:, None] * step)
        if not outside.any():
            break
        share[outside] *= 0.5
    return x + share[:, None] * step
