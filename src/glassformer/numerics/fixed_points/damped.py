"""Damped steps of a map that may overshoot or turn back and forth, into the neighbourhood of a fixed point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.numerics.fixed_points.solve import FixedPointMap, Flags, Search, StepMethod

# Share of the first step below which a search gives up where the map is not finite: ten times halved (a convention).
_GIVEN_UP = 2.0**-10


@dataclass(frozen=True)
class Damped(StepMethod[FixedPointMap]):
    """Steps of a share of the map's change: the share grows, and is halved where the map turns back.

    States have shape (batch, size). A search ends where no coordinate changes by more than
    ``settings.tolerance * abs(x) + settings.floor``. A step to a state where the map is not finite, or changes by much
    more than before, is taken back and halved: its change would lead further away.

    Args:
        inside: returns which states belong to the domain, shape (active,). A step that leaves it is halved.
        share: of the first step.
        least: smallest share where the map turns back.
        growth: factor of the share from one step to the next.
        most: factor by which the length of a change may grow in one step.
    """

    inside: Callable[[Array], Flags]
    share: float = 0.5
    least: float = 0.02
    growth: float = 1.2
    most: float = 3.0

    def begin(self, function: FixedPointMap, start: Array, settings: Iteration) -> Search:
        return _DampedSearch(function, start, settings, self)


class _DampedSearch(Search):
    """States, the origins and changes of their last steps, and the shares of the next ones."""

    def __init__(self, function: FixedPointMap, start: Array, settings: Iteration, method: Damped) -> None:
        super().__init__(start)
        self.function, self.settings, self.method = function, settings, method
        self.share, self.last = np.full(len(start), method.share), np.full(start.shape, np.nan)
        self.origin = start.copy()

    def step(self) -> None:
        active, here, settings, method = self.active, self.value[self.active], self.settings, self.method
        change = np.asarray(self.function(here, active).value) - here
        size, before = np.linalg.norm(change, axis=1), np.linalg.norm(self.last[active], axis=1)
        back: Flags = np.isfinite(before) & ~(size <= method.most * before)
        finite: Flags = np.isfinite(size) | (back & (self.share[active] > _GIVEN_UP * method.share))
        origin = np.where(back[:, None], self.origin[active], here)
        change = np.where(back[:, None], self.last[active], change)
        near = ~back & np.all(np.abs(change) < settings.tolerance * np.abs(here) + settings.floor, axis=1)
        turned = ~back & (np.sum(change * self.last[active], axis=1) < 0)
        shorter, longer = 0.5 * self.share[active], method.growth * self.share[active]
        share = np.where(turned, np.maximum(shorter, method.least), np.minimum(longer, 1.0))
        share = np.where(back, shorter, share)
        moved = origin + share[:, None] * change
        inside = finite.copy()
        inside[finite] = method.inside(moved[finite])
        self.share[active] = np.where(inside, share, 0.5 * share)
        self.origin[active], self.last[active] = origin, change
        self.residual[active] = np.linalg.norm(change, axis=1)
        self.value[active[inside]] = moved[inside]
        self.iterations[active] += 1
        self.history.append(self.residual.copy())
        self.status[active[~finite]] = Status.NON_FINITE
        self.status[active[inside & near]] = Status.CONVERGED
        self.active = active[finite & ~(inside & near) & (self.iterations[active] < settings.max_iterations)]
