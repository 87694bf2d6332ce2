"""Error bars of sampled integrals: every average is taken over independent replicas, whose spread is its error."""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quasi_random import mean_and_error

REPLICAS = 8  # independent samples of the data, whose spread gives the error of averages


def mean_of_replicas(replicas: Array) -> Estimate:
    """Return the means over the second axis, and their standard errors."""
    return Estimate(*mean_and_error(np.moveaxis(replicas, 1, 0)))
