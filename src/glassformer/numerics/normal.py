"""Ratios of the standard normal density and distribution function, for score functions."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx

from glassformer.core.estimate import Array


def inverse_mills_ratio(a: Array) -> Array:
    """Return phi(a) / Phi(a); erfcx keeps full relative precision where both vanish, and overflows to the limit 0.

    Example:
        >>> float(inverse_mills_ratio(np.array(0.0)).round(6))
        0.797885
    """
    return np.asarray(np.sqrt(2 / np.pi) / erfcx(-a / np.sqrt(2)))
