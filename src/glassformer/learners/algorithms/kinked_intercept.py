r"""The intercept of a loss with kinks, certified: estimate and intercept in turn would stop at any kink.

The least risk :math:`F(b)` of all estimates at an intercept ``b`` is convex. What certifies one of them certifies all
others as well: the dual value is linear in ``b``, with the sum of the dual slopes as its slope,

.. math:: F(b') \ge D_k + (b' - b_k)\sum_\mu u_\mu^k.

Two such lines of opposite slopes bound the least risk of all from below where they cross; there is the next intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.integral import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.learners.algorithms.proximal_gradient import Scale, least_risk
from glassformer.learners.algorithms.risk import Risk

# Rounds at most, and in units of the iterations that one estimate may take; the share of the tolerance that single
# estimates take, and that of the bracket that every round takes from it at least.
_ROUNDS, _PATIENCE, _SHARE, _MARGIN = 60, 10, 0.3, 0.05


class _Line(NamedTuple):
    """A lower bound of the least risk, linear in the intercept."""

    shift: float
    value: float
    slope: float

    def at(self, shift: float) -> float:
        return self.value + self.slope * (shift - self.shift)


class _Best(NamedTuple):
    """The estimate of least risk so far, its intercept, its risk, and that of an estimate of zero there."""

    found: Solution
    shift: float
    risk: float
    of_zero: float


def least_risk_of_kinks(
    at: Callable[[float], Risk], start: Array, shift: float, reach: float, settings: Iteration, scale: Scale | None
) -> tuple[Solution, float]:
    """Estimate and intercept of a loss with kinks.

    Args:
        at: the risk at an intercept.
        start: where the first estimate begins.
        shift: the first intercept.
        reach: how far the second one may be.
        settings: as for :func:`~glassformer.learners.algorithms.proximal_gradient.least_risk`.
        scale: of the inputs.

    Returns:
        The solution, whose gap is that of both together, and the intercept.
    """
    inner, below, above = replace(settings, tolerance=_SHARE * settings.tolerance), None, None
    best, gap, count = None, np.inf, 0
    for _ in range(_ROUNDS):
        if count > _PATIENCE * settings.max_iterations:
            break
        risk = at(shift)
        found = least_risk(risk, inner, start, scale)
        start, count = found.value[0], count + int(found.iterations[0])
        value, tilt = (float(found.extra[name][0]) for name in ("risk", "tilt"))
        of_zero = risk.of_zero(risk.labels)
        line = _Line(shift, value - float(found.residual[0]) * of_zero, tilt)
        best = _Best(found, shift, value, of_zero) if best is None or value < best.risk else best
        below, above = (line if tilt <= 0 else below), (line if tilt >= 0 else above)
        if below is None or above is None:
            shift, reach = shift - np.sign(tilt) * reach, 2 * reach
            continue
        crossing = _crossing(below, above)
        gap = (best.risk - max(below.at(crossing), above.at(crossing))) / best.of_zero
        if gap <= settings.tolerance:
            break
        low, high = sorted((below.shift, above.shift))
        margin = _MARGIN * (high - low)
        shift = float(np.clip(crossing, low + margin, high - margin))
    assert best is not None
    status, left = Status.CONVERGED if gap <= settings.tolerance else Status.ITERATION_LIMIT, np.array([abs(gap)])
    changed: dict[str, Any] = {"residual": left, "error_estimate": left, "iterations": np.array([count])}
    return replace(best.found, status=[status], **changed), best.shift


def _crossing(below: _Line, above: _Line) -> float:
    """Where a falling and a rising line cross; of two level ones, the place of one."""
    apart = above.slope - below.slope
    if apart <= 0:
        return below.shift
    return float((below.at(0.0) - above.at(0.0)) / apart)
