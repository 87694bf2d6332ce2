"""Where the directions outside a known subspace become unstable, at the fixed points inside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.channels.field_averages import Averages
from glassformer.core.equality import content_hash, same_content
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.models.base import Model
from glassformer.state_evolution.instability import GROWTH, Instability, growth_of, instability
from glassformer.state_evolution.known_direction import Crossing, KnownDirection
from glassformer.state_evolution.solve import solve_state_evolution
from glassformer.state_evolution.subspaces import symmetric_basis


@dataclass(frozen=True)
class Search:
    """How a later threshold is looked for."""

    accuracy: float = 2e-3  # of the threshold
    eigenvalue: float = 5e-3  # accuracy asked of the eigenvalue there
    located: float = 5e-3  # with which few data points locate it
    steps: int = 12  # of the search with these
    corrections: int = 4  # evaluations with all data points
    longest: float = 0.1  # logarithm of the ratio by which one of them may correct the threshold
    beyond: int = 4  # data points of the operator over those of state evolution
    roughly: float = 0.25  # while the threshold is located
    no_growth: float = 1e-6  # growth per step that counts as none: its logarithm must exist
    rounding: float = 1e-12  # distance of a trace from a whole number


SEARCH = Search()


class Step(NamedTuple):
    """One threshold of the staircase.

    Attributes:
        alpha: where the subspace is found.
        error_estimate: absolute.
        matrix: positive semi-definite of unit trace, its range is the subspace.
        degenerate: whether several subspaces become unstable at once.
        silent: up to where, within the error, nothing is found, of one that is at no ratio.
    """

    alpha: float
    error_estimate: float
    matrix: Array
    degenerate: bool
    silent: float = np.inf

    def __eq__(self, other: object) -> bool:
        return same_content(self, other)

    def __hash__(self) -> int:
        return content_hash(self)


def next_step(
    model: Model,
    known: Array,
    start: float,
    farthest: float,
    outside: Array | None = None,
    accuracy: float = SEARCH.eigenvalue,
) -> Step | None:
    """Where the directions outside ``known`` become unstable; None if nowhere up to ``farthest``.

    Beside one direction along the curve of its fixed points; else few data points locate it, and all of them correct
    what they say.
    """
    search = _Outside(model, known, np.eye(len(known)) - known if outside is None else outside, accuracy)
    along = search.along(farthest)
    if along is not None and along.alpha > start:
        return Step(along.alpha, along.error, along.found.matrix, along.found.degenerate)
    low = high = (start, search.growth(start * 1.02, start))
    if high[1] >= 1:
        beyond = search.at(start * 1.02)
        return Step(start, start * 0.02, beyond.matrix, beyond.degenerate)
    while high[1] < 1:
        if high[0] >= farthest:
            return None
        alpha = min(high[0] * 1.6, farthest)
        low, high = high, (alpha, search.growth(alpha, alpha))
    slope = 1.0
    for _ in range(SEARCH.steps):
        # Growth is nearly a power of alpha between the ends.
        (width, rise), (_, below) = np.log(np.divide(high, low)), np.log(low)
        slope = max(rise / width, 1e-3)
        middle = float(low[0] * np.exp(width * np.clip(-below / rise, 0.05, 0.95)))
        missed = np.log(search.growth(middle, middle))
        if abs(missed) <= SEARCH.located * slope:
            break
        low, high = ((middle, np.exp(missed)), high) if missed < 0 else (low, (middle, np.exp(missed)))
    return search.corrected(middle * float(np.exp(-missed / slope)), slope)


class _Outside:
    """The directions outside a known subspace, along sample ratios."""

    def __init__(self, model: Model, known: Array, outside: Array, accuracy: float) -> None:
        self._model, self._known, self._outside, self._accuracy = model, known, outside, accuracy
        self._degrees = model.prior.degrees

    def along(self, farthest: float) -> Crossing | None:
        """The threshold along the fixed points of a single known direction; None where these do not tell."""
        channel = self._model.channel
        if (
            not channel.sampled
            or channel.with_more_noise is not None
            or abs(np.trace(self._known) - 1) > SEARCH.rounding
        ):
            return None
        basis, most = symmetric_basis(self._outside, self._model), SEARCH.beyond * channel.points
        fewest = min(GROWTH.fewest, channel.points)

        def outside(variance: Array, share: int) -> tuple[Averages, Instability]:
            points = max(fewest, int(most / share))
            averages, response = channel.with_points(points).averages_and_response(variance)
            return averages, growth_of(self._model, basis, response)

        return KnownDirection(self._model, self._known, outside).crossing(farthest)

    def at(self, alpha: float, roughly: bool = False) -> Instability:
        """The fastest growing overlap; ``roughly`` with few data points."""
        note(f"threshold looked for at alpha = {alpha:.3g}")
        place = solve_state_evolution(self._model, np.array([alpha]), subspace=self._known, coarse=True)
        if roughly:
            return instability(self._model, place.value[0], self._outside, np.inf, SEARCH.roughly)
        variance = solve_state_evolution(self._model, np.array([alpha]), subspace=self._known, place=place).value
        return instability(self._model, variance[0], self._outside, self._accuracy, SEARCH.beyond)

    def growth(self, place: float, alpha: float) -> float:
        """Growth per step at ``alpha``, roughly, from the fixed point at ``place``."""
        return self._growth(self.at(place, roughly=True), alpha)

    def _growth(self, found: Instability, alpha: float) -> float:
        return max(SEARCH.no_growth, found.rate * alpha / self._degrees)

    def corrected(self, alpha: float, slope: float) -> Step:
        """The threshold next to ``alpha``, where growth is a power of alpha with this exponent, roughly."""
        for remaining in reversed(range(SEARCH.corrections)):
            found = self.at(alpha)
            missed = np.log(self._growth(found, alpha))
            if abs(missed) <= SEARCH.accuracy * slope or not remaining:
                break
            alpha *= float(np.exp(np.clip(-missed / slope, -SEARCH.longest, SEARCH.longest)))
        error = alpha * (found.blur + abs(missed)) / slope
        return Step(alpha, float(error), found.matrix, found.degenerate)
