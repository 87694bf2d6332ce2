"""Where a curve against the sample ratio falls to a target, and where it rises above it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.solution import Status

# Statuses of rows that have a number to be believed.
_SETTLED = (Status.CONVERGED, Status.BISTABLE)


@dataclass(frozen=True)
class Search:
    """How a bracket is narrowed down.

    Attributes:
        exact, sampled: relative width that is narrow enough, of exact and of sampled curves.
        rounds: of narrowing.
        near: what is looked at in each: distances from the interpolated place, in widths of the bracket.
        even: and where that has left more than this share of the width, so many shares of it.
        narrowing: see ``even``.
        beside: how near to places at which a curve may leap, relative: iterations tell fixed points apart no closer.
        step: relative distance over which slopes are measured.
        leap: relative fall over a narrow bracket that may be a leap,
        around, most: and is one if it is more than such a share of the fall over so many widths more on either side.
    """

    exact: float = 1e-7
    sampled: float = 1e-4
    rounds: int = 12
    near: tuple[float, ...] = (-3e-2, -3e-3, -1e-4, 0.0, 1e-4, 3e-3, 3e-2)
    even: int = 16
    narrowing: float = 0.1
    beside: float = 1e-6
    step: float = 1e-3
    leap: float = 1e-2
    around: float = 10.0
    most: float = 0.5


SEARCH = Search()


class Looked(NamedTuple):
    """A curve at some sample ratios, all of shape (points,).

    Attributes:
        value: of the quantity.
        error: of the estimate, on which the quantity depends.
        error_estimate: absolute, of ``error``.
        blur: standard error that ``value`` has beside.
        status: of each row.
    """

    value: Array
    error: Array
    error_estimate: Array
    blur: Array
    status: Sequence[Status]


@dataclass(frozen=True)
class Crossing:
    """A sample ratio at which a curve passes a target.

    Attributes:
        alpha: where.
        error_estimate: absolute.
        falls: whether it is below the target from there on.
        sides: values just before and just after.
        jumps: whether it leaps from one to the other.
        status: the first of the rows it rests on that is not good.
    """

    alpha: float
    error_estimate: float
    falls: bool
    sides: tuple[float, float]
    jumps: bool
    status: Status


def unsettled(status: Sequence[Status]) -> list[Status]:
    """The statuses of rows whose numbers are not to be believed."""
    return [one for one in status if one not in _SETTLED]


def settled(looked: Looked) -> Array:
    """Which rows have a number to be believed, shape (points,)."""
    good = np.array([one in _SETTLED for one in looked.status], dtype=bool)
    return np.asarray(good & ~np.isnan(looked.value))


def crossings(
    curve: Callable[[Array], Looked],
    alpha: Array,
    looked: Looked,
    target: float,
    likely: Sequence[float] = (),
    sampled: bool = False,
) -> list[Crossing]:
    """Where a curve passes a target, in the order of the sample ratio.

    Every cell between two ratios on whose ends the curve is on different sides of the target is narrowed down. Two
    passages within one cell are not seen.

    Args:
        curve: its values at sample ratios, in one call.
        alpha: ratios looked at, > 0 and rising.
        looked: the curve there.
        target: of its value.
        likely: ratios at which it may leap.
        sampled: whether it is known with noise only.

    Example:
        >>> def square(alpha):
        ...     nothing = np.zeros_like(alpha)
        ...     return Looked(1 / alpha**2, 1 / alpha**2, nothing, nothing, [Status.CONVERGED] * len(alpha))
        >>> alpha = np.array([1.0, 2.0, 4.0])
        >>> found = crossings(square, alpha, square(alpha), 0.1)
        >>> [(round(one.alpha, 6), one.falls) for one in found]
        [(3.162278, True)]
    """
    good = settled(looked)
    places, below = alpha[good], looked.value[good] <= target
    cells = np.flatnonzero(below[1:] != below[:-1])
    brackets = [_Bracket(places[[k, k + 1]], looked.value[good][[k, k + 1]]) for k in cells]
    return [_narrowed(curve, bracket, target, np.asarray(likely, dtype=float), sampled) for bracket in brackets]


class _Bracket(NamedTuple):
    """Two sample ratios between which a target is passed, and the values there."""

    alpha: Array
    value: Array

    @property
    def width(self) -> float:
        return float(np.log(self.alpha[1] / self.alpha[0]))

    def near(self, target: float) -> Array:
        """Sample ratios between the two, around the interpolated place."""
        share = np.unique(np.clip(_interpolated(self.value, target) + np.array(SEARCH.near), 1e-3, 1 - 1e-3))
        return np.asarray(self.alpha[0] * np.exp(self.width * share))

    def even(self, likely: Array) -> Array:
        """Sample ratios all over it, and beside those at which a curve may leap."""
        shares = np.linspace(0, 1, SEARCH.even + 1)[1:-1]
        beside = np.outer(likely, [1 - SEARCH.beside, 1 + SEARCH.beside]).ravel()
        inside = beside[(self.alpha[0] < beside) & (beside < self.alpha[1])]
        return np.unique(np.concatenate([self.alpha[0] * np.exp(self.width * shares), inside]))

    def around(self, alpha: Array, value: Array, target: float) -> _Bracket:
        """The narrower one that further values make: the first passage among them."""
        places = np.concatenate([self.alpha[:1], alpha, self.alpha[1:]])
        values = np.concatenate([self.value[:1], value, self.value[1:]])
        below = values <= target
        first = int(np.flatnonzero(below[1:] != below[:-1])[0])
        return _Bracket(places[[first, first + 1]], values[[first, first + 1]])


def _interpolated(value: Array, target: float) -> float:
    """The share of the way between two values at which the target lies, on a logarithmic scale."""
    if not np.all(np.isfinite(value)) or min(target, *value) <= 0:
        return 0.5
    first, last, wanted = np.log([*value, target])
    return float((wanted - first) / (last - first))


def _narrowed(
    curve: Callable[[Array], Looked], bracket: _Bracket, target: float, likely: Array, sampled: bool
) -> Crossing:
    narrow = SEARCH.sampled if sampled else SEARCH.exact
    falls = bool(bracket.value[1] <= target)
    lost: list[Status] = []
    evenly = False
    for _ in range(SEARCH.rounds):
        if bracket.width <= narrow:
            break
        alpha = bracket.even(likely) if evenly else bracket.near(target)
        looked = curve(alpha)
        good = settled(looked)
        before = bracket.width
        bracket = bracket.around(alpha[good], looked.value[good], target)
        evenly = bracket.width > SEARCH.narrowing * before
        lost = unsettled(looked.status) if evenly else []
    place = float(
        np.exp(np.log(bracket.alpha[0]) + bracket.width * np.clip(_interpolated(bracket.value, target), 0, 1))
    )
    jumps = bracket.width <= 10 * narrow and _leaps(curve, bracket, target)
    # A leap is moved by what moves the side from which it begins, if averages are sampled; else by rounding.
    sides = (
        bracket.alpha[0] * np.array([1 - SEARCH.step, 1.0])
        if jumps
        else place * np.array([1 - SEARCH.step, 1 + SEARCH.step])
    )
    beside = curve(sides)
    error = float(bracket.alpha[1] - bracket.alpha[0]) + (SEARCH.beside * place if jumps else 0.0)
    error += 0.0 if jumps and not sampled else _moved(sides, beside)
    status = next(iter([*unsettled(beside.status), *lost]), Status.CONVERGED)
    return Crossing(place, error, falls, (float(bracket.value[0]), float(bracket.value[1])), jumps, status)


def _leaps(curve: Callable[[Array], Looked], bracket: _Bracket, target: float) -> bool:
    """Whether a curve falls over a narrow bracket by what no slope explains."""
    fall = abs(float(bracket.value[0] - bracket.value[1]))
    if fall <= SEARCH.leap * max(float(np.max(np.abs(bracket.value))), target):
        return False
    away = SEARCH.around * float(bracket.alpha[1] - bracket.alpha[0])
    beside = curve(bracket.alpha + np.array([-away, away])).value
    return not fall <= SEARCH.most * abs(float(beside[0] - beside[1]))


def _moved(alpha: Array, beside: Looked) -> float:
    """How far errors of the values move the ratio, by the slopes between two ratios."""
    away = float(alpha[1] - alpha[0])
    parts = ((beside.error_estimate, beside.error), (beside.blur, beside.value))
    return sum(
        float(np.max(blur)) * away / max(abs(float(v[1] - v[0])), 1e-300) for blur, v in parts if np.max(blur) > 0
    )
