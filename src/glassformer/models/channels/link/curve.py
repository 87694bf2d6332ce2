"""Averages of a channel as curves over the variance: Chebyshev polynomials on panels, built where asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from glassformer.models.channels.scalar import Array

# Width of a panel in log V, where V is below one half; above, one panel in q = 1 - V from the smallest of its nodes on.
_WIDTH, _HALF, _SMALLEST = 2.0, 0.5, 1e-3
# Different variances in one panel from which on it is built, and the orders tried for it.
_WORTH, _ORDERS = 12, (8, 16, 32)
# Share of the largest coefficient below which the last ones end the refinement, and what they are multiplied by.
_TARGET, _SAFETY = 1e-11, 4.0

Row = tuple[float, float, float, float]


class _Panel(NamedTuple):
    """Coefficients of the scaled information and of the expected log partition, and the errors of both."""

    information: Array
    information_error: float
    expected: Array
    expected_error: float


@dataclass(eq=False)
class Curve:
    """Information and expected log partition at many variances, from few of them.

    In ``q = 1 - V`` the information is a power series, whose first term an even channel lacks; in ``log V`` it is
    smooth on the scale one. A panel is worth building where many variances are asked for at once; for few, and where
    a panel does not resolve them to rounding (then it is not used), the averages are computed one by one.

    Args:
        direct: information, its error, expected log partition and its error at one variance.
        even: whether the information vanishes with ``q``.
        noiseless: whether it grows as ``1/V``.

    Example:
        >>> curve = Curve(lambda v: (1 / (v + 0.1), 0.0, -0.5 * np.log(v + 0.1), 0.0), even=False, noiseless=False)
        >>> value = curve(np.geomspace(0.01, 1, 50))
        >>> bool(np.max(np.abs(value[:, 0] * (np.geomspace(0.01, 1, 50) + 0.1) - 1)) < 1e-11)
        True
    """

    direct: Callable[[float], Row]
    even: bool
    noiseless: bool
    panels: dict[int, _Panel | None] = field(default_factory=dict)

    def __call__(self, variance: Array) -> Array:
        """Rows of the four numbers of ``direct``, shape (variances, 4)."""
        number = np.where(variance > _HALF, 0, 1 + np.floor(np.log(_HALF / variance) / _WIDTH)).astype(int)
        rows = np.empty((variance.size, 4))
        for k in np.unique(number).tolist():
            at = np.flatnonzero(number == k)
            if k not in self.panels and np.unique(variance[at]).size >= _WORTH:
                self.panels[k] = self._built(k)
            panel = self.panels.get(k)
            if panel is None:
                rows[at] = [self.direct(float(v)) for v in variance[at]]
            else:
                rows[at] = self._read(panel, k, variance[at])
        return rows

    def _scale(self, v: Array, k: int) -> Array:
        """What the information is a smooth multiple of."""
        if k == 0:
            return 1.0 - v if self.even else np.ones_like(v)
        return 1 / v if self.noiseless else np.ones_like(v)

    def _read(self, panel: _Panel, k: int, v: Array) -> Array:
        place, scale = _place(v, k), self._scale(v, k)
        information, expected = (chebyshev.chebval(place, c) for c in (panel.information, panel.expected))
        errors = panel.information_error * scale, np.full_like(v, panel.expected_error)
        return np.stack([scale * information, errors[0], expected, errors[1]], axis=1)

    def _built(self, k: int) -> _Panel | None:
        """The panel of the lowest order that resolves both curves; none if no order does."""
        known: dict[float, Row] = {}
        for order in _ORDERS:
            nodes = np.cos(np.pi * np.arange(order + 1) / order)
            v = _variance(nodes, k)
            for x in v.tolist():
                known[x] = known[x] if x in known else self.direct(x)
            rows = np.array([known[x] for x in v.tolist()])
            scale = self._scale(v, k)
            curves = (rows[:, 0] / scale, rows[:, 2])
            fitted = [chebyshev.chebfit(nodes, curve, order) for curve in curves]
            left = [float(np.sum(np.abs(c[-2:]))) for c in fitted]
            sizes = [float(np.max(np.abs(curve))) for curve in curves]
            own = (float(np.max(rows[:, 1] / scale)), float(np.max(rows[:, 3])))
            # What the averages themselves leave open no order resolves.
            if all(x <= max(_TARGET * size, e) for x, size, e in zip(left, sizes, own, strict=True)):
                errors = [_SAFETY * x + e for x, e in zip(left, own, strict=True)]
                return _Panel(fitted[0], errors[0], fitted[1], errors[1])
        return None


def _place(v: Array, k: int) -> Array:
    """From variances to [-1, 1]."""
    if k == 0:
        return np.asarray((1 - v - _SMALLEST) / (_HALF - _SMALLEST) * 2 - 1)
    return np.asarray(2 * (np.log(_HALF / v) / _WIDTH - (k - 1)) - 1)


def _variance(place: Array, k: int) -> Array:
    """From [-1, 1] to variances."""
    if k == 0:
        return np.asarray(1 - _SMALLEST - 0.5 * (place + 1) * (_HALF - _SMALLEST))
    return np.asarray(_HALF * np.exp(-_WIDTH * (k - 1 + 0.5 * (place + 1))))
