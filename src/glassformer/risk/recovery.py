r"""How many exact labels make the least penalised matrix that fits them the signal.

A matrix seen through little noise :math:`\tau`, its singular values lowered by :math:`\theta = c\,\tau`, is estimated
with an error :math:`D(c)\,\tau^2`; the noise of exact linear labels is their error, :math:`\tau^2 = E/\alpha` per
unknown, and shrinks where :math:`\alpha > \min_c D(c)`: the statistical dimension of the penalty's descent cone. Of the
nuclear norm it is known in closed form; where a square is penalised as well, large singular values are pulled harder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from glassformer.core.estimate import Array

# Noises at which the dimension is taken, each half of the one before, and logarithms of c between which it is least.
_NOISES, _LEVELS = 0.02 * 0.5 ** np.arange(4), (-6.0, 2.0)


class Dimension(NamedTuple):
    """Exact labels per unknown that the signal takes, and how far that may be off."""

    value: float
    error: float


def descent_dimension(error_at: Callable[[Array, Array], Array]) -> Dimension:
    """The least error in units of a noise that goes to zero, by Richardson's extrapolation.

    Args:
        error_at: of a matrix seen through noise of this standard deviation with this threshold.

    Example:
        >>> found = descent_dimension(lambda noise, level: noise**2 * (0.3 + noise) + (level - noise) ** 2)
        >>> round(found.value, 6)
        0.3
    """
    sums = np.array([_least(error_at, noise) for noise in _NOISES])
    once = 2 * sums[1:] - sums[:-1]
    twice = (4 * once[1:] - once[:-1]) / 3
    return Dimension(float(twice[-1]), float(abs(twice[-1] - twice[-2])) + 1e-9)


def _least(error_at: Callable[[Array, Array], Array], noise: float) -> float:
    def dimension(level: float) -> float:
        return float(error_at(np.array([noise]), np.array([noise * np.exp(level)]))[0]) / noise**2

    return float(minimize_scalar(dimension, bounds=_LEVELS, method="bounded", options={"xatol": 1e-7}).fun)
