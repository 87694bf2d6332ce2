r"""The fixed-point loop of state evolution, for a batch of independent problems.

The state is the posterior variance :math:`V` (one number, or an array per batch element), not the overlap
:math:`q = 1 - V`: near perfect recovery the variance keeps its relative precision where the overlap rounds to one.

Convergence is measured on the undamped residual :math:`F(x) - x` *and* on its amplification: where the map contracts
slowly, by a factor :math:`\lambda` per step, a residual ``r`` means a distance :math:`r/(1-\lambda)` to the fixed
point. Neither damping nor acceleration enters this measure.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import note
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status

Flags = NDArray[np.bool_]
Index = NDArray[np.intp]

# A fixed point whose integration error exceeds this share of it is not resolved (chosen by trial).
_UNRESOLVED = 0.05
# The longest accelerated step is the larger of this share of the distance travelled so far and this many residuals.
# Longer steps skipped the first fixed point in tests close to a fold.
_SHARE_TRAVELLED, _SHORTEST_REACH = 0.3, 2.0
# The longest step, in residuals, grows by this factor from one step to the next; the second number prevents overflow.
_REACH_GROWTH, _FARTHEST_REACH = 4.0, 1e15
# Halvings of a step that leaves the domain: 2^-60 of a step is below rounding.
_HALVINGS = 60


def fixed_point(
    function: Callable[[Array, Index], Estimate],
    start: Array,
    settings: Iteration | None = None,
    inside: Callable[[Array], Flags] | None = None,
    origin: Array | None = None,
    noise: float = 0.0,
) -> Solution:
    """Iterate ``x -> function(x)`` from ``start`` until convergence, independently for each batch element.

    The accelerated step is an Anderson step of depth one, accepted only along the residual and with a length that may
    grow fourfold per step. The iteration thus approaches the *first* fixed point from its start, and it leaves an
    unstable start instead of accepting it as a solution.

    Args:
        function: called with the states still active, shape ``(active, ...)``, and their batch indices; returns the
            map's value and its integration error, of the same shape.
        start: shape ``(batch, ...)``.
        settings: tolerances, iteration limit, damping.
        inside: returns which states, shape ``(active, ...)``, belong to the domain, shape ``(active,)``; by default
            all do.
        origin: point from which the distance travelled is measured, ``start`` by default. No other fixed point may lie
            between ``origin`` and ``start``. A distant origin allows longer accelerated steps.
        noise: share of the integration error below which a residual that does not grow carries no information, so that
            the iteration ends.

    Returns:
        A :class:`Solution`. Elements that do not converge have a status that says why; nothing is raised.

    Example:
        >>> solution = fixed_point(lambda x, index: Estimate(np.cos(x), 0 * x), np.array([1.0]))
        >>> print(solution.status[0], round(float(solution.value[0]), 9))
        converged 0.739085133
    """
    settings, inside = settings or Iteration(), inside or (lambda states: np.ones(len(states), dtype=bool))
    x = np.array(start, dtype=float)
    batch, shape = len(x), x.shape[1:]
    x = x.reshape(batch, -1)
    origin = x.copy() if origin is None else np.array(origin, dtype=float).reshape(x.shape)
    residual, estimate, reach = np.full(batch, np.nan), np.full(batch, np.inf), np.full(batch, _SHORTEST_REACH)
    iterations, status = np.zeros(batch, dtype=np.int64), np.full(batch, Status.ITERATION_LIMIT, dtype=object)
    old_x, old_r = np.full_like(x, np.nan), np.full_like(x, np.nan)
    active, history = np.arange(batch), []
    for remaining in reversed(range(settings.max_iterations)):
        here = x[active]
        mapped = function(here.reshape(-1, *shape), active)
        value, error = (np.asarray(part, dtype=float).reshape(here.shape) for part in mapped)
        r = value - here
        size, norm, integration_error = (np.linalg.norm(part, axis=1) for part in (r, here, error))
        last_step = (here, here - old_x[active], r - old_r[active])
        distance = _distance(size, *last_step)
        # Rounding and integration errors of the residual are amplified by slow convergence like the residual itself.
        uncertainty = _distance(np.maximum(size, np.finfo(float).eps * norm) + integration_error, *last_step)
        residual[active], iterations[active] = size, iterations[active] + 1
        estimate[active] = np.where(np.isfinite(uncertainty), uncertainty, distance + integration_error)
        history.append(np.full(batch, np.nan))
        history[-1][active] = size

        finite, domain = np.isfinite(value).all(axis=1), inside(value)
        done = (distance <= settings.tolerance * norm + settings.floor) | (
            np.isfinite(distance) & (size < noise * integration_error)
        )
        # States below four floors count as zero, whatever their relative error.
        unresolved = integration_error > _UNRESOLVED * norm + 4 * settings.floor
        status[active[done]] = Status.CONVERGED
        status[active[done & unresolved]] = Status.INTEGRATION_NOT_CONVERGED
        status[active[~domain]] = Status.OUTSIDE_CONE
        status[active[~finite]] = Status.NON_FINITE
        keep = finite & domain & ~done
        if settings.damping is None:
            travelled = np.linalg.norm(here - origin[active], axis=1)
            step, reach[active] = _anderson_step(here, r, old_x[active], old_r[active], reach[active], travelled)
        else:
            step = (1 - settings.damping) * r
        old_x[active], old_r[active] = here, r
        active = active[keep]
        # No step follows the last evaluation, so that the reported residual belongs to the returned value.
        if active.size == 0 or remaining == 0:
            break
        note(f"iteration {len(history)}, {active.size} of {batch} not converged")
        x[active] = _shorten_into_domain(here[keep], step[keep], inside)
    return Solution(
        value=x.reshape(np.shape(start)),
        status=list(status),
        residual=residual,
        iterations=iterations,
        error_estimate=estimate,
        history=np.array(history),
    )


def _distance(size: Array, x: Array, dx: Array, dr: Array) -> Array:
    """Return the distance to the fixed point for residuals of norm ``size``, from the slope over the last step.

    The distance is infinite without a last step, and where the residual grew along it: a small residual is then no
    evidence of a fixed point.
    """
    length = np.sum(dx * dx, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.sum(dx * dr, axis=1) / length
        distance = np.where(slope < 0, size * np.maximum(1.0, -1 / slope), np.inf)
    at_rounding = length <= 1e-30 * np.sum(x * x, axis=1)
    return np.where(size == 0, 0.0, np.where(np.isnan(length), np.inf, np.where(at_rounding, size, distance)))


def _anderson_step(
    x: Array, r: Array, old_x: Array, old_r: Array, reach: Array, travelled: Array
) -> tuple[Array, Array]:
    """Return one Anderson step along the residual, of limited length, and the next limit on its length.

    The step is at most ``reach`` residuals long and, if longer than two residuals, at most a share of the distance
    ``travelled``, so that it cannot skip a pair of a stable and an unstable fixed point. Where the residual grows (the
    state is leaving an unstable point) the step is the longest one allowed along the residual.
    """
    dr, size = r - old_r, np.linalg.norm(r, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.sum(r * dr, axis=1) / np.sum(dr * dr, axis=1)
        step = r - theta[:, None] * (x - old_x + dr)
        ratio = np.linalg.norm(step, axis=1) / size
        usable = np.isfinite(ratio) & (np.sum(step * r, axis=1) > 0)
        overshot = np.sum(r * old_r, axis=1) < 0
        share_travelled = np.where(size > 0, _SHARE_TRAVELLED * travelled / size, 0.0)
        longest = np.minimum(reach, np.maximum(_SHORTEST_REACH, share_travelled))
        shortened = step * np.minimum(1.0, longest / ratio)[:, None]
    first = np.isnan(old_r).any(axis=1)
    along_residual = np.where(first, 1.0, longest)[:, None] * r
    reach = np.where(overshot, 1.0, np.minimum(_REACH_GROWTH * reach, _FARTHEST_REACH))
    return np.where(usable[:, None], shortened, along_residual), reach


def _shorten_into_domain(x: Array, step: Array, inside: Callable[[Array], Flags]) -> Array:
    """Return ``x + step``, the step halved until the state belongs to the domain."""
    share = np.ones(len(x))
    for _ in range(_HALVINGS):
        outside = ~inside(x + share[:, None] * step)
        if not outside.any():
            break
        share[outside] *= 0.5
    return x + share[:, None] * step
