"""Probabilities of intervals under a standard normal law."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from glassformer.channels.scalar.base import Array

WINDOW = 9.0  # standard deviations from a mean beyond which an interval has no mass


def interval_mass(low: Array, high: Array) -> Array:
    """Probability between two ends; differences are taken in the lower tail, where they keep their digits.

    Example:
        >>> float(round(interval_mass(np.array(9.0), np.array(np.inf)) * 1e19, 6))
        1.128588
    """
    flip = low + high > 0
    return np.asarray(ndtr(np.where(flip, -low, high)) - ndtr(np.where(flip, -high, low)))
