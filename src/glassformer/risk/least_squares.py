r"""Least squares, and its solution of least norm, in closed form.

With ``s`` the slope of the label on its field and :math:`\Delta_0` what is left of it, ``c`` components of labels per
unknown and :math:`k = \min(c, 1)` the estimate is :math:`s\,k\,(S + \tau Z)` with

.. math:: \tau^2 = \frac{\Delta_0/s^2 + (1-k)^2 Q_0}{c - k^2}, \quad E = (1-sk)^2 Q_0 + s^2k^2\tau^2.

With more labels than unknowns there is one solution, whatever the penalty that no strength is left of.
"""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.solution import Status
from glassformer.risk.labels import Answers
from glassformer.risk.penalties import Fields, Learned
from glassformer.risk.points import Point
from glassformer.risk.problem import LEAST, Problem

# Rounding of the sums.
_ROUNDING = 4e-16


def least_squares(problem: Problem, alpha: Array) -> Point:
    """Fixed points of square loss without a penalty, or in the limit of little ridge; shape (batch,).

    As many labels as unknowns, some of them noise, make power and error infinite, and are fitted all the same.
    """
    slope, rest = problem.labels.regression
    count, power, one = problem.count(alpha), problem.power, np.ones_like(alpha)
    kept, spare = np.minimum(count, 1.0), count - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        # c - k^2 without a difference of nearly equal numbers.
        room = np.where(spare < 0, -count * spare, spare)
        noise = np.nan_to_num((rest / slope**2 + (1 - kept) ** 2 * power) / room, nan=0.0, posinf=np.inf)
        residual = rest + slope**2 * ((1 - kept) ** 2 * power + kept**2 * noise)
        susceptibility = np.where(spare > 0, 1 / spare, np.inf)
    error = (1 - slope * kept) ** 2 * power + (slope * kept) ** 2 * noise
    blur = np.where(np.isfinite(error), _ROUNDING * error, 0.0)
    found = Learned(slope * kept * power, (slope * kept) ** 2 * (power + noise), susceptibility, error, one, one, blur)
    share = np.maximum(spare, 0.0) / count
    # Of the least strength, where labels leave room for one.
    stiffness = np.where(spare > 0, spare, LEAST * count / np.maximum(-spare, LEAST))
    components = problem.labels.components
    training = 0.5 * components * rest * share
    answer = Answers(
        components * slope * share,
        2 * training,
        components * share,
        training,
        0.5 * components * residual,
    )
    status: list[Status] = [Status.CONVERGED] * len(alpha)
    steps = np.zeros(len(alpha), dtype=np.int64)
    fields = Fields(noise, slope * stiffness, stiffness)
    return Point(
        np.zeros_like(alpha),
        fields,
        found,
        answer,
        status,
        np.zeros_like(alpha),
        steps,
        blur,
        np.full((len(alpha), 3, 3), np.nan),
    )
