"""Numbers with error estimates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Estimate(NamedTuple):
    """A numerically integrated quantity and an estimate of its absolute error, elementwise."""

    value: Array
    error: Array
