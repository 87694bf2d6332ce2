"""Standard normal quasi-random points, and averages over their replicas."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.resources import require_resources

_POINTS, _REPLICAS = 1024, 8
# Dimensions in SciPy's table of direction numbers of Sobol points.
_MOST_DIMENSIONS = 21_201


@lru_cache(maxsize=16)
def normal_points(dimensions: int, points: int = _POINTS, replicas: int = _REPLICAS) -> Array:
    """Return standard normal quasi-random points, shape (replicas, points, dimensions), scrambled for each replica.

    The spread of averages over replicas estimates their error. The points are always the same, so that averages are
    smooth in their parameters.

    Example:
        >>> points = normal_points(2)
        >>> bool(np.all(np.abs(points.mean(axis=1)) < 1e-2))
        True
    """
    if dimensions > _MOST_DIMENSIONS:
        raise IncompatibleError(
            f"averages over {dimensions} dimensions are not available, quasi-random points have at most "
            f"{_MOST_DIMENSIONS}: use fewer tokens, layers or indices"
        )
    memory = 3 * 8.0 * replicas * points * dimensions
    require_resources("points", points, memory, "use fewer points, tokens or layers")
    sets = [sobol_points(dimensions, points, seed) for seed in range(replicas)]
    # A scrambled point may touch the boundary, where the normal quantile is infinite.
    return np.asarray(scipy.special.ndtri(np.clip(np.stack(sets), 1e-16, 1 - 1e-16)))


def sobol_points(dimensions: int, points: int, seed: int = 0) -> Array:
    """Return scrambled Sobol points of the unit cube, shape (points, dimensions).

    Example:
        >>> sobol_points(2, 4).shape
        (4, 2)
    """
    # Slow to import, and needed for sampled averages only.
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(dimensions, seed=seed).random(points))


def pool_indices(
    index: NDArray[np.intp], data: int, points: int, pool: int, replicas: int = _REPLICAS
) -> NDArray[np.intp]:
    """Return places in a pool of random numbers for data points, with separate parts of the pool for the replicas.

    The error of a finite pool is the same for all data that share it. Replicas with parts of their own differ by this
    error, so that their spread includes it.

    Args:
        index: indices of data points.
        data: number of data points.
        points: data points of each replica, if the data are whole sets of replicas; otherwise each has an equal part.
        pool: size of the pool.
        replicas: number of replicas.

    Example:
        >>> pool_indices(np.arange(8), 8, 2, 6, replicas=2).tolist()
        [0, 1, 3, 4, 0, 1, 3, 4]
    """
    each = points if data % (replicas * points) == 0 else -(-data // replicas)
    share = max(pool // replicas, 1)
    return (index // each % replicas * share + index % each % share) % pool


@lru_cache(maxsize=8)
def confidence_factor(replicas: int, confidence: float = 0.95) -> float:
    """Return the factor from standard errors to 95 % intervals: the quantile of Student's t distribution.

    Example:
        >>> round(confidence_factor(8), 4)
        2.3646
    """
    # The distributions of scipy.stats take a third of a second to import.
    return float(scipy.special.stdtrit(max(replicas - 1, 1), 0.5 * (1 + confidence)))


def normal_score(distance: float, replicas: int) -> float:
    """Return the deviation of a normal variable that is as unlikely as this one in Student's t distribution.

    Args:
        distance: of a mean from its expected value, in standard errors.
        replicas: number of independent values that mean and standard error are from.

    Example:
        >>> round(normal_score(5.3, 5), 1), round(normal_score(382.0, 2), 1)
        (2.7, 3.1)
    """
    size = -float(scipy.special.ndtri(scipy.special.stdtr(max(replicas - 1, 1), -abs(distance))))
    # Probabilities below the smallest number belong to many replicas, for which both distributions agree.
    return float(np.copysign(min(size, abs(distance)), distance))


def mean_and_error(replicas: Array) -> tuple[Array, Array]:
    """Return the mean over the first axis and its standard error."""
    return np.mean(replicas, axis=0), np.std(replicas, axis=0, ddof=1) / np.sqrt(len(replicas))
