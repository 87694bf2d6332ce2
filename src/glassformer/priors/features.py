"""Features of given variances: inputs are drawn as features divided by the root of their covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.priors.base import Prior


def whitens(prior: Prior) -> bool:
    """Return whether the features have several variances, so that inputs are whitened features."""
    return len(prior.feature_spectrum) > 1


def feature_places(prior: Prior, dimension: int) -> NDArray[np.intp]:
    """Return the number of the eigenvalue of every feature; all have the same multiplicity."""
    return np.arange(dimension) * len(prior.feature_spectrum) // dimension


def feature_variances(prior: Prior, dimension: int) -> Array:
    """Return the variance of every feature of the inputs, in whose units penalties count weights.

    Example:
        >>> from glassformer.priors.rows import SpectrumRowsPrior
        >>> feature_variances(SpectrumRowsPrior((0.5, 1.5), 1), 4)
        array([0.5, 0.5, 1.5, 1.5])
    """
    return np.array(prior.feature_spectrum)[feature_places(prior, dimension)]


def row_growth(prior: Prior) -> float:
    r"""Return the overlap of an unknown row per unit of a small :math:`\hat Q`: the mean square of the eigenvalues."""
    return float(np.mean(np.square(prior.feature_spectrum)))
