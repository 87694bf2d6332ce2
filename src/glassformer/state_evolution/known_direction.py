r"""Thresholds beside one known direction, along the curve of its fixed points.

While nothing is known outside one direction, its variance ``v`` is the only unknown of state evolution, and as in
:mod:`~glassformer.state_evolution.equation_of_state` the sample ratio follows from it: nothing is iterated. One pass
over the data points tells the ratio of the fixed point ``v`` and the growth outside; the threshold is where that growth
is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from glassformer.channels.field_averages import Averages
from glassformer.core.estimate import Array, Estimate
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import confident
from glassformer.state_evolution.evolution_map import EvolutionMap, side_known
from glassformer.state_evolution.instability import Instability


@dataclass(frozen=True)
class March:
    """How the curve is followed, in the logarithm of overlap over variance."""

    first: float = -3.0  # where it begins
    last: float = 9.0  # where it is left to others
    stride: float = 2.0
    located: int = 32  # share of the data points that find the cells of the threshold
    nearer: int = 8  # and that narrow them
    probe: float = 0.25  # distance of the two places that tell the slope there
    near: float = 0.1  # logarithm of the growth with which the last correction begins
    most: int = 4  # passes over all data points
    unsure: float = 0.1  # relative error of the slopes of a correction
    folded: float = 4.0  # standard errors by which the ratio must fall for a fold
    ratios: tuple[float, float] = (-30.0, 30.0)  # logarithms of the ratios of fixed points


_POLICY = March()


class Place(NamedTuple):
    """A fixed point: its place on the curve, logarithms of its ratio and of the growth outside, and what grows.

    ``blur`` holds what each replica of the data would add to the logarithms of ratio and of growth at that ratio,
    ``missing`` what sampled posteriors may leave out of them, and ``unseen`` what rare data may add to the former.
    """

    x: float
    alpha: float
    growth: float
    blur: tuple[Array, Array]
    missing: tuple[float, float]
    unseen: float
    found: Instability


class Crossing(NamedTuple):
    """Where growth is one: sample ratio, its error estimate, and what grows."""

    alpha: float
    error: float
    found: Instability


class KnownDirection:
    """The fixed points at which one direction is known, and what grows outside.

    Args:
        model: prior and channel.
        known: projector on the direction, shape (P, P).
        outside: averages and growth at a covariance from a share of the data points: the whole is divided by a number.
    """

    def __init__(
        self, model: Model, known: Array, outside: Callable[[Array, int], tuple[Averages, Instability]]
    ) -> None:
        self._model, self._known, self._outside = model, known, outside
        self._direction = np.linalg.eigh(known)[1][:, -1]
        self._elsewhere = (1 - side_known(model)) * (np.eye(len(known)) - known)
        self._map = EvolutionMap(model, np.ones(1), model.channel, subspace=known)

    def crossing(self, farthest: float) -> Crossing | None:
        """The first place at which growth is one, up to the ratio ``farthest``; None where the curve does not tell.

        That is where it folds, where growth is more than one from its beginning, or less than one at its end.
        """
        low = high = self._at(_POLICY.first, _POLICY.located)
        while high is not None and high.growth < 0:
            x = high.x + _POLICY.stride
            if x > _POLICY.last or high.alpha > np.log(farthest):
                return None
            low, high = high, self._at(x, _POLICY.located)
            if low is None or high is None or _folded(low, high):
                return None
        if low is None or high is None or low is high:
            return None
        x = low.x - low.growth * (high.x - low.x) / (high.growth - low.growth)
        return self._corrected(x)

    def _corrected(self, x: float) -> Crossing | None:
        """The crossing near ``x``: some data points tell slopes along the curve, all of them where growth is one."""
        ends = [self._at(x + side * _POLICY.probe, _POLICY.nearer) for side in (-1, 1)]
        low, high = ends
        if low is None or high is None or _folded(low, high):
            return None
        width = high.x - low.x
        rise, steepness = (high.growth - low.growth) / width, (high.alpha - low.alpha) / width
        if rise <= 0 or steepness <= 0:
            return None
        x = 0.5 * (low.x + high.x) - 0.5 * (low.growth + high.growth) / rise
        for _ in range(_POLICY.most):
            place = self._at(x, 1)
            if place is None:
                return None
            if abs(place.growth) <= _POLICY.near:
                return _crossed(place, rise, steepness)
            x -= place.growth / rise
        return None

    def _at(self, x: float, share: int) -> Place | None:
        """The fixed point of one overlap; None where no sample ratio leads to it."""
        variance = 1 / (1 + np.exp(x))
        averages, found = self._outside(self._elsewhere + variance * self._known, share)
        ratio = self._ratio(averages.information, variance)
        if ratio is None or found.rate <= 0:
            return None
        per_replica = np.einsum("a,rab,b->r", self._direction, averages.replicas[0], self._direction)
        blur = (1 - per_replica / np.mean(per_replica), found.replicas / found.rate - 1)
        lost = float(self._direction @ averages.missing[0] @ self._direction)
        missing = (-lost / float(np.mean(per_replica)), found.missing / found.rate)
        growth = float(np.log(found.rate / self._model.prior.degrees) + ratio)
        return Place(x, ratio, growth, blur, missing, averages.unseen, found)

    def _ratio(self, information: Estimate, variance: float) -> float | None:
        """Logarithm of the sample ratio at which the direction keeps this variance."""
        direction, degrees, nothing = self._direction, self._model.prior.degrees, np.zeros_like(information.error)

        def beyond(ratio: float) -> float:
            conjugate = Estimate(np.exp(ratio) / degrees * information.value, nothing)
            return float(direction @ self._map.covariance(conjugate, np.zeros(1, dtype=int)).value[0] @ direction)

        low, high = _POLICY.ratios
        if not beyond(low) > variance > beyond(high):
            return None
        return float(brentq(lambda ratio: np.log(beyond(ratio) / variance), low, high, xtol=1e-10))


def _folded(first: Place, second: Place) -> bool:
    """Whether the ratio falls on the way: the uninformed state never comes there."""
    errors = [_standard_error(place.blur[0]) for place in (first, second)]
    return bool(second.alpha < first.alpha - _POLICY.folded * np.linalg.norm(errors))


def _crossed(place: Place, rise: float, steepness: float) -> Crossing:
    """The crossing next to a place, along the slopes of growth and ratio."""
    share = steepness / rise
    moved = (1 - share) * place.blur[0] - share * place.blur[1]
    missed = share * place.growth
    alpha = float(np.exp(place.alpha - missed))
    sampled = confident(len(moved)) * np.hypot(_standard_error(moved), (1 - share) * place.unseen)
    missing = (1 - share) * place.missing[0] - share * place.missing[1]
    return Crossing(alpha, float(alpha * (sampled + abs(missing) + _POLICY.unsure * abs(missed))), place.found)


def _standard_error(replicas: Array) -> float:
    return float(np.std(replicas, ddof=1) / np.sqrt(len(replicas)))
