"""Damped steps of a map that may overshoot or turn back and forth, into the neighbourhood of a fixed point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.numerics.fixed_points.solve import FixedPointMap, Flags, Search, StepMethod


@dataclass(frozen=True)
class Damped(StepMethod[FixedPointMap]):
    """Steps of a share of the map's change: the share grows, and is halved where the map turns back.

    States have shape (batch, size). A search ends where no coordinate changes by more than
    ``settings.tolerance * abs(x) + settings.floor``.

    Args:
        inside: returns which states belong to the domain, shape (active,). A step that leaves it is halved.
        share: of the first step.
        least: smallest share where the map turns back.
        growth: factor of the share from one step to the next.
    """

    inside: Callable[[Array], Flags]
    share: float = 0.5
    least: float = 0.02
    growth: float = 1.2

    def begin(self, function: FixedPointMap, start: Array, settings: Iteration) -> Search:
        return _DampedSearch(function, start, settings, self)


class _DampedSearch(Search):
    """States, their last changes, and the shares of the next steps."""

    def __init__(self, function: FixedPointMap, start: Array, settings: Iteration, method: Damped) -> None:
        super().__init__(start)
        self.function, self.settings, self.method = function, settings, method
        self.share, self.last = np.full(len(start), method.share), np.full(start.shape, np.nan)

    def step(self) -> None:
        active, here, settings, method = self.active, self.value[self.active], self.settings, self.method
        change = np.asarray(self.function(here, active).value) - here
        finite: Flags = np.all(np.isfinite(change), axis=1)
        near = np.all(np.abs(change) < settings.tolerance * np.abs(here) + settings.floor, axis=1)
        turned = np.sum(change * self.last[active], axis=1) < 0
        shorter, longer = 0.5 * self.share[active], method.growth * self.share[active]
        share = np.where(turned, np.maximum(shorter, method.least), np.minimum(longer, 1.0))
        moved = here + share[:, None] * change
        inside = finite.copy()
        inside[finite] = method.inside(moved[finite])
        self.share[active] = np.where(inside, share, 0.5 * share)
        self.last[active], self.residual[active] = change, np.linalg.norm(change, axis=1)
        self.value[active[inside]] = moved[inside]
        self.iterations[active] += 1
        self.history.append(self.residual.copy())
        self.status[active[~finite]] = Status.NON_FINITE
        self.status[active[inside & near]] = Status.CONVERGED
        self.active = active[finite & ~(inside & near) & (self.iterations[active] < settings.max_iterations)]
