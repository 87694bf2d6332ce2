"""Error bars of sampled integrals: every average is taken over independent replicas, whose spread is its error."""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array, Estimate

REPLICAS = 8  # independent samples of the data, whose spread gives the error of averages


def mean_of_replicas(replicas: Array) -> Estimate:
    """Return the means over the second axis, and their standard errors."""
    error = np.std(replicas, axis=1, ddof=1) / np.sqrt(replicas.shape[1])
    return Estimate(np.mean(replicas, axis=1), np.asarray(error))
