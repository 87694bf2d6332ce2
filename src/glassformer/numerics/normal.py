"""The standard normal distribution, in the forms that score functions need."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx

from glassformer.core.estimate import Array


def inverse_mills_ratio(a: Array) -> Array:
    """phi(a) / Phi(a); erfcx keeps full relative precision where both vanish and overflows harmlessly to 0.

    Example:
        >>> float(inverse_mills_ratio(np.array(0.0)).round(6))
        0.797885
    """
    return np.asarray(np.sqrt(2 / np.pi) / erfcx(-a / np.sqrt(2)))
