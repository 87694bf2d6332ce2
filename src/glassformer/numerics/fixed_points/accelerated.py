r"""Accelerated iteration up to the first fixed point.

The state is the posterior variance :math:`V` (one number, or an array per batch element), not the overlap
:math:`q = 1 - V`: near perfect recovery the variance keeps its relative precision where the overlap rounds to one.

Convergence is measured on the undamped residual :math:`F(x) - x` *and* on its amplification: where the map contracts
slowly, by a factor :math:`\lambda` per step, a residual ``r`` means a distance :math:`r/(1-\lambda)` to the fixed
point. Neither damping nor acceleration enters this measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.numerics.fixed_points.solve import FixedPointMap, Flags, Search, StepMethod

# A fixed point whose integration error exceeds this share of it is not resolved (chosen by trial).
_UNRESOLVED = 0.05
# The longest accelerated step is the larger of this share of the distance travelled so far and this many residuals.
# Longer steps skipped the first fixed point in tests close to a fold.
_SHARE_TRAVELLED, _SHORTEST_REACH = 0.3, 2.0
# The longest step, in residuals, grows by this factor from one step to the next; the second number prevents overflow.
_REACH_GROWTH, _FARTHEST_REACH = 4.0, 1e15
# Halvings of a step that leaves the domain: 2^-60 of a step is below rounding.
_HALVINGS = 60


@dataclass(frozen=True)
class Accelerated(StepMethod[FixedPointMap]):
    """Iteration ``x -> function(x)`` with Anderson steps of depth one along the residual.

    An accelerated step is accepted only along the residual and with a length that may grow fourfold per step. The
    iteration thus approaches the *first* fixed point from its start, and it leaves an unstable start instead of
    accepting it as a solution. With ``settings.damping`` steps are damped and not accelerated.

    Args:
        inside: returns which states, shape ``(active, ...)``, belong to the domain, shape ``(active,)``; by default
            all do.
        origin: point from which the distance travelled is measured, ``start`` by default. No other fixed point may lie
            between ``origin`` and ``start``. A distant origin allows longer accelerated steps.
        noise: share of the integration error below which a residual that does not grow carries no information, so that
            the iteration ends.
    """

    inside: Callable[[Array], Flags] | None = None
    origin: Array | None = None
    noise: float = 0.0

    def begin(self, function: FixedPointMap, start: Array, settings: Iteration) -> Search:
        return _AcceleratedSearch(function, start, settings, self)


class _AcceleratedSearch(Search):
    """Flattened states, their last steps, and the longest steps allowed."""

    def __init__(self, function: FixedPointMap, start: Array, settings: Iteration, method: Accelerated) -> None:
        super().__init__(start)
        self.function, self.settings, self.method = function, settings, method
        self.x = self.value.reshape(len(start), -1)
        origin = self.x if method.origin is None else np.asarray(method.origin, dtype=float).reshape(self.x.shape)
        self.origin = origin.copy()
        self.old_x, self.old_residual = np.full((2, *self.x.shape), np.nan)
        self.reach = np.full(len(start), _SHORTEST_REACH)

    def step(self) -> None:
        active, here = self.active, self.x[self.active]
        mapped = self.function(here.reshape(-1, *self.value.shape[1:]), active)
        image, error = (np.asarray(part, dtype=float).reshape(here.shape) for part in mapped)
        residual = image - here
        keep = self._judge(here, image, residual, np.linalg.norm(error, axis=1))
        step = self._next_step(here, residual)
        self.old_x[active], self.old_residual[active] = here, residual
        self.active = active[keep]
        if len(self.history) == self.settings.max_iterations:
            # No step follows the last evaluation, so that the reported residual belongs to the returned value.
            self.active = active[:0]
        elif self.active.size:
            inside = self.method.inside
            moved = here[keep] + step[keep] if inside is None else _shorten_into_domain(here[keep], step[keep], inside)
            self.x[self.active] = moved

    def _judge(self, here: Array, image: Array, residual: Array, integration_error: Array) -> Flags:
        """Record residuals, error estimates and statuses of the active elements; return which of them go on."""
        active, settings = self.active, self.settings
        size, norm = np.linalg.norm(residual, axis=1), np.linalg.norm(here, axis=1)
        last_step = (here, here - self.old_x[active], residual - self.old_residual[active])
        distance = _distance(size, *last_step)
        # Rounding and integration errors of the residual are amplified by slow convergence like the residual itself.
        uncertainty = _distance(np.maximum(size, np.finfo(float).eps * norm) + integration_error, *last_step)
        self.residual[active] = size
        self.iterations[active] += 1
        self.error_estimate[active] = np.where(np.isfinite(uncertainty), uncertainty, distance + integration_error)
        self.history.append(np.full(len(self.x), np.nan))
        self.history[-1][active] = size

        done = (distance <= settings.tolerance * norm + settings.floor) | (
            np.isfinite(distance) & (size < self.method.noise * integration_error)
        )
        # States below four floors count as zero, whatever their relative error.
        unresolved = integration_error > _UNRESOLVED * norm + 4 * settings.floor
        finite = np.isfinite(image).all(axis=1)
        domain = np.ones(len(here), dtype=bool) if self.method.inside is None else self.method.inside(image)
        self.status[active[done]] = Status.CONVERGED
        self.status[active[done & unresolved]] = Status.INTEGRATION_NOT_CONVERGED
        self.status[active[~domain]] = Status.OUTSIDE_CONE
        self.status[active[~finite]] = Status.NON_FINITE
        return np.asarray(finite & domain & ~done)

    def _next_step(self, here: Array, residual: Array) -> Array:
        """Return the next step of the active elements."""
        if self.settings.damping is not None:
            return (1 - self.settings.damping) * residual
        active = self.active
        travelled = np.linalg.norm(here - self.origin[active], axis=1)
        old = self.old_x[active], self.old_residual[active]
        step, self.reach[active] = _anderson_step(here, residual, *old, self.reach[active], travelled)
        return step


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
