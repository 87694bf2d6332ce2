r"""Averages of a channel as curves over the variance: Chebyshev polynomials on panels, built where asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from glassformer.channels.scalar.base import Array

Row = tuple[float, float, float, float]
Rule = Callable[[float], tuple[float, float]]


@dataclass(frozen=True)
class Panels:
    """Where panels begin and end, and when one resolves its curves.

    Attributes:
        smallest, first: the first panel is one in q, from the smallest of its nodes to its end.
        width: of the others, in log(q/V).
        worth: different variances in one panel from which on it is built.
        orders: tried for it.
        checked: nodes at which the error of the rule for all of them is seen.
        worse, slow: how many times the largest of these it is taken for; and where even the largest rules differ.
        enough: share of the largest coefficient up to which the last ones will do at the largest order.
        safety: what these are multiplied by for an error.
        share: of what the averages themselves leave open that need not be resolved.
    """

    smallest: float = 1e-4
    first: float = 0.02
    width: float = 4.0
    worth: int = 8
    orders: tuple[int, ...] = (6, 12, 24)
    checked: tuple[float, ...] = (-1.0, 0.0, 1.0)
    worse: float = 2.0
    slow: float = 5.0
    enough: float = 1e-6
    safety: float = 4.0
    share: float = 0.1

    @cached_property
    def start(self) -> float:
        """Log odds at which the second panel begins."""
        return float(np.log(self.first / (1 - self.first)))


PANELS = Panels()


class _Panel(NamedTuple):
    """Coefficients of the scaled information and of the expected log partition, and the errors of both."""

    information: Array
    information_error: float
    expected: Array
    expected_error: float


@dataclass(eq=False)
class Curve:
    r"""Information and expected log partition at many variances, from few of them.

    Their singularities lie at negative overlaps and variances: near :math:`q = 0` they are power series in ``q``,
    elsewhere smooth functions of the log odds :math:`\log(q/V)` on the scale :math:`\pi`. A panel is worth building
    where it has been asked for several variances; before, and where a panel does not resolve them (then it is not
    used), the averages are computed one by one.

    Args:
        direct: information, its error, expected log partition and its error at one variance.
        rules: information and expected log partition at one variance by each of several rules, coarse ones first.
        enough: relative error of the nodes of a panel at which no finer rule is tried.
        power: of ``q`` with which the information vanishes.
        noiseless: whether it grows as ``1/V``.
        target: share of the largest coefficient below which the last ones end the refinement.
        left_out: share of the averages that no rule sees.
        floor: information per overlap below which changes need not be small against it.
        closed: whether ``direct`` costs so little that no panel is worth building.

    Example:
        >>> exact = lambda v: (1 / (v + 0.1), 0.0, -0.5 * np.log(v + 0.1), 0.0)
        >>> curve = Curve(exact, [lambda v: exact(v)[::2]] * 2, 1e-10, power=0, noiseless=False)
        >>> value = curve(np.geomspace(0.01, 1, 50))
        >>> bool(np.max(np.abs(value[:, 0] * (np.geomspace(0.01, 1, 50) + 0.1) - 1)) < 1e-8)
        True
    """

    direct: Callable[[float], Row]
    rules: Sequence[Rule]
    enough: float
    power: int
    noiseless: bool
    target: float = 1e-10
    left_out: float = 1e-13
    closed: bool = False
    floor: float = 0.0
    panels: dict[int, _Panel | None] = field(default_factory=dict)
    asked: dict[int, set[float]] = field(default_factory=dict)

    def __call__(self, variance: Array) -> Array:
        """Rows of the four numbers of ``direct``, shape (variances, 4)."""
        number = np.where(
            variance > 1 - PANELS.first, 0, 1 + np.floor((_log_odds(variance) - PANELS.start) / PANELS.width)
        ).astype(int)
        rows = np.empty((variance.size, 4))
        for k in np.unique(number).tolist():
            at = np.flatnonzero(number == k)
            if k not in self.panels:
                asked = self.asked.setdefault(k, set())
                asked.update(variance[at].tolist())
                if not self.closed and len(asked) >= PANELS.worth:
                    self.panels[k] = self._built(k)
            panel = self.panels.get(k)
            if panel is None:
                rows[at] = [self.direct(float(v)) for v in variance[at]]
            else:
                rows[at] = self._read(panel, k, variance[at])
        return rows

    def _scale(self, v: Array) -> Array:
        """What the information is a smooth multiple of."""
        vanishing = (1.0 - v) ** self.power
        return vanishing / v if self.noiseless else vanishing

    def _read(self, panel: _Panel, k: int, v: Array) -> Array:
        place, scale = _place(v, k), self._scale(v)
        information, expected = (chebyshev.chebval(place, c) for c in (panel.information, panel.expected))
        # What a polynomial leaves of a mean square below zero is its error.
        information = np.maximum(information, 0.0)
        errors = panel.information_error * scale, np.full_like(v, panel.expected_error)
        return np.stack([scale * information, errors[0], expected, errors[1]], axis=1)

    def _built(self, k: int) -> _Panel | None:
        """The panel of the lowest order that resolves both curves; none if no order does."""
        rule, own = self._rule(k)
        known: dict[float, tuple[float, float]] = {}
        for order in PANELS.orders:
            nodes = np.cos(np.pi * np.arange(order + 1) / order)
            v = _variance(nodes, k)
            for x in v.tolist():
                known[x] = known[x] if x in known else rule(x)
            curves = np.array([known[x] for x in v.tolist()]).T / self._scales(v)
            fitted = [chebyshev.chebfit(nodes, curve, order) for curve in curves]
            left = [float(np.sum(np.abs(c[-3:]))) for c in fitted]
            sizes = np.maximum(np.max(np.abs(curves), axis=1), self._floors(v)).tolist()
            target = PANELS.enough if order == PANELS.orders[-1] else self.target
            if all(x <= max(target * size, PANELS.share * e) for x, size, e in zip(left, sizes, own, strict=True)):
                errors = [PANELS.safety * x + e for x, e in zip(left, own, strict=True)]
                return _Panel(fitted[0], errors[0], fitted[1], errors[1])
        return None

    def _rule(self, k: int) -> tuple[Rule, list[float]]:
        """The coarsest rule whose difference from the next one, at some nodes of a panel, is small; and its errors."""
        v = _variance(np.array(PANELS.checked), k)
        for rule, finer in pairwise(self.rules):
            both = np.array([[part(x) for x in v.tolist()] for part in (rule, finer)]) / self._scales(v).T
            errors = PANELS.worse * np.max(np.abs(both[0] - both[1]), axis=0)
            sizes = np.max(np.abs(both[1]), axis=0)
            if np.all(errors <= self.enough * np.maximum(sizes, self._floors(v))):
                break
        else:
            # A rule that is still changing converges slowly.
            errors = PANELS.slow * errors
        return rule, (errors + self.left_out * sizes).tolist()

    def _floors(self, v: Array) -> Array:
        """Of both curves, shape (2,)."""
        return np.array([self.floor * np.min((1 - v) / self._scale(v)), 0.0])

    def _scales(self, v: Array) -> Array:
        """What both curves are smooth multiples of, shape (2, variances)."""
        return np.stack([self._scale(v), np.ones_like(v)])


def _log_odds(v: Array) -> Array:
    """log(q/V), and 0 where the first panel is in charge."""
    q = np.where(v > 1 - PANELS.first, 0.5, 1 - v)
    return np.asarray(np.log(q / np.where(v > 1 - PANELS.first, 0.5, v)))


def _place(v: Array, k: int) -> Array:
    """From variances to [-1, 1]."""
    if k == 0:
        return np.asarray((1 - v - PANELS.smallest) / (PANELS.first - PANELS.smallest) * 2 - 1)
    return np.asarray(2 * ((_log_odds(v) - PANELS.start) / PANELS.width - (k - 1)) - 1)


def _variance(place: Array, k: int) -> Array:
    """From [-1, 1] to variances."""
    if k == 0:
        return np.asarray(1 - PANELS.smallest - 0.5 * (place + 1) * (PANELS.first - PANELS.smallest))
    return np.asarray(1 / (1 + np.exp(PANELS.start + PANELS.width * (k - 1 + 0.5 * (place + 1)))))
