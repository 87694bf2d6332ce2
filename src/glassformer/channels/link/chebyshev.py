r"""Chebyshev interpolation of the averages of a channel over the posterior variance.

The singularities of information and expected log partition lie at negative overlaps and variances: near :math:`q = 0`
both are power series in ``q``, elsewhere smooth functions of the log odds :math:`\log(q/V)` on the scale :math:`\pi`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from glassformer.channels.labels import Exponents
from glassformer.core.estimate import Array

Row = tuple[float, float, float, float]
"""Information, its error, expected log partition, its error."""
AverageRule = Callable[[float], tuple[float, float]]

# The first panel is in q: its smallest node and its end. The others have this width in log(q/V).
_FIRST_NODE, _FIRST_END, _WIDTH = 1e-4, 0.02, 4.0
_START = float(np.log(_FIRST_END / (1 - _FIRST_END)))  # log odds at which the second panel begins
FLOOR = 1e-3  # information per overlap below which changes of the information are measured absolutely
_REQUESTS = 8  # a panel is built after this number of different variances on it
_ORDERS = (6, 12, 24)  # orders of the polynomial, tried in this sequence
_LOOSE = 1e-6  # allowed size of the last coefficients at the largest order, relative to the largest coefficient
_SHARE = 0.1  # share of the error of the averages that the polynomial may always add
# Safety factors, chosen by trial. The error of the nodes is the first (the second at the finest rules) times the
# largest difference of two rules at three nodes. The error of the polynomial is the last times its last coefficients.
_TEST_NODES, _RULE_SAFETY, _FINEST_SAFETY, _FIT_SAFETY = np.array([-1.0, 0.0, 1.0]), 2.0, 5.0, 4.0


class _Panel(NamedTuple):
    """Coefficients of the scaled information and of the expected log partition, and the errors of both."""

    information: Array
    information_error: float
    expected: Array
    expected_error: float


def small_overlap_behaviour(even: bool, exponents: Exponents) -> tuple[int, float]:
    """Return the power of ``q`` with which the information vanishes, and the floor of relative changes of information.

    At generative exponent ``k`` the information of an even link is proportional to the overlap to the power ``k - 1``.
    Without an exponent it is zero to rounding at small overlaps, so that changes there are measured absolutely.
    """
    if exponents.generative < np.inf:
        return int(exponents.generative) - 1 if even else 0, 0.0
    return int(even), FLOOR


@dataclass(eq=False)
class ChebyshevAverages:
    r"""Interpolation of information and expected log partition over the variance.

    The averages are computed directly until several variances of one panel have been requested, and wherever no
    polynomial resolves them.

    Args:
        direct: returns the four numbers at one variance.
        rules: return information and expected log partition at one variance, from the coarsest rule to the finest.
        rule_tolerance: relative error of the nodes of a panel at which no finer rule is tried.
        power: the power of ``q`` with which the information vanishes.
        noiseless: whether the information grows as ``1/V``.
        fit_tolerance: size of the last coefficients, relative to the largest, that ends the refinement.
        truncation: share of the averages that every rule leaves out.
        closed_form: whether ``direct`` is cheap, so that no panel is built.
        floor: information per overlap below which changes are measured absolutely.

    Example:
        >>> exact = lambda v: (1 / (v + 0.1), 0.0, -0.5 * np.log(v + 0.1), 0.0)
        >>> averages = ChebyshevAverages(exact, [lambda v: exact(v)[::2]] * 2, 1e-10, power=0, noiseless=False)
        >>> rows = averages(np.geomspace(0.01, 1, 50))
        >>> bool(np.max(np.abs(rows[:, 0] * (np.geomspace(0.01, 1, 50) + 0.1) - 1)) < 1e-8)
        True
    """

    direct: Callable[[float], Row]
    rules: Sequence[AverageRule]
    rule_tolerance: float
    power: int
    noiseless: bool
    fit_tolerance: float = 1e-10
    truncation: float = 1e-13
    closed_form: bool = False
    floor: float = 0.0
    panels: dict[int, _Panel | None] = field(default_factory=dict)
    requested: dict[int, set[float]] = field(default_factory=dict)

    def __call__(self, variance: Array) -> Array:
        """Return the four numbers of ``direct`` at each variance, shape (variances, 4)."""
        in_first = variance > 1 - _FIRST_END
        number = np.where(in_first, 0, 1 + np.floor((_log_odds(variance) - _START) / _WIDTH)).astype(int)
        rows = np.empty((variance.size, 4))
        for k in np.unique(number).tolist():
            at = np.flatnonzero(number == k)
            if k not in self.panels:
                requested = self.requested.setdefault(k, set())
                requested.update(variance[at].tolist())
                if not self.closed_form and len(requested) >= _REQUESTS:
                    self.panels[k] = self._build(k)
            panel = self.panels.get(k)
            if panel is None:
                rows[at] = [self.direct(float(v)) for v in variance[at]]
            else:
                rows[at] = self._evaluate(panel, k, variance[at])
        return rows

    def _evaluate(self, panel: _Panel, k: int, v: Array) -> Array:
        place, scale = _place(v, k), self._scale(v)
        information, expected = (chebyshev.chebval(place, c) for c in (panel.information, panel.expected))
        # A mean square below zero is an error of the polynomial.
        information = np.maximum(information, 0.0)
        errors = panel.information_error * scale, np.full_like(v, panel.expected_error)
        return np.stack([scale * information, errors[0], expected, errors[1]], axis=1)

    def _build(self, k: int) -> _Panel | None:
        """Return the panel of the lowest order that resolves both averages. Return None if no order does."""
        rule, rule_errors = self._select_rule(k)
        known: dict[float, tuple[float, float]] = {}
        for order in _ORDERS:
            nodes = np.cos(np.pi * np.arange(order + 1) / order)
            v = _variance(nodes, k)
            for x in v.tolist():
                known[x] = known[x] if x in known else rule(x)
            scaled = np.array([known[x] for x in v.tolist()]).T / self._scales(v)
            fits = [chebyshev.chebfit(nodes, values, order) for values in scaled]
            last = [float(np.sum(np.abs(c[-3:]))) for c in fits]
            sizes = np.maximum(np.max(np.abs(scaled), axis=1), self._floors(v)).tolist()
            target = _LOOSE if order == _ORDERS[-1] else self.fit_tolerance
            if all(x <= max(target * size, _SHARE * e) for x, size, e in zip(last, sizes, rule_errors, strict=True)):
                errors = [_FIT_SAFETY * x + e for x, e in zip(last, rule_errors, strict=True)]
                return _Panel(fits[0], errors[0], fits[1], errors[1])
        return None

    def _select_rule(self, k: int) -> tuple[AverageRule, list[float]]:
        """Return the coarsest rule that agrees with the next one at some nodes of a panel, and its errors."""
        v = _variance(_TEST_NODES, k)
        for rule, finer in pairwise(self.rules):
            both = np.array([[part(x) for x in v.tolist()] for part in (rule, finer)]) / self._scales(v).T
            errors = _RULE_SAFETY * np.max(np.abs(both[0] - both[1]), axis=0)
            sizes = np.max(np.abs(both[1]), axis=0)
            if np.all(errors <= self.rule_tolerance * np.maximum(sizes, self._floors(v))):
                break
        else:
            # A rule that has not converged converges slowly, so the last change underestimates the error.
            errors = _FINEST_SAFETY * errors
        return rule, (errors + self.truncation * sizes).tolist()

    def _scale(self, v: Array) -> Array:
        """Return the singular factor of the information."""
        vanishing = (1.0 - v) ** self.power
        return vanishing / v if self.noiseless else vanishing

    def _scales(self, v: Array) -> Array:
        """Return the singular factors of both averages, shape (2, variances)."""
        return np.stack([self._scale(v), np.ones_like(v)])

    def _floors(self, v: Array) -> Array:
        """Return the sizes of both scaled averages below which changes are measured absolutely, shape (2,)."""
        return np.array([self.floor * np.min((1 - v) / self._scale(v)), 0.0])


def _log_odds(v: Array) -> Array:
    """Return log(q/V), and 0 on the first panel."""
    q = np.where(v > 1 - _FIRST_END, 0.5, 1 - v)
    return np.asarray(np.log(q / np.where(v > 1 - _FIRST_END, 0.5, v)))


def _place(v: Array, k: int) -> Array:
    """Map the variances of a panel to [-1, 1]."""
    if k == 0:
        return np.asarray((1 - v - _FIRST_NODE) / (_FIRST_END - _FIRST_NODE) * 2 - 1)
    return np.asarray(2 * ((_log_odds(v) - _START) / _WIDTH - (k - 1)) - 1)


def _variance(place: Array, k: int) -> Array:
    """Map [-1, 1] to the variances of a panel."""
    if k == 0:
        return np.asarray(1 - _FIRST_NODE - 0.5 * (place + 1) * (_FIRST_END - _FIRST_NODE))
    return np.asarray(1 / (1 + np.exp(_START + _WIDTH * (k - 1 + 0.5 * (place + 1)))))
