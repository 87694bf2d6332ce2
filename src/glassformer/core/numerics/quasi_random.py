"""Squared errors on new labels of a function of attention indices, by quasi-Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from glassformer.core.errors import IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.resources import require_resources
from glassformer.models.channels.attention_indexed.pairs import to_matrices

_POINTS, _REPLICAS = 1024, 8
_MOST_TOKENS = 12
# What the tables of directions of Sobol points hold.
_MOST_DIMENSIONS = 21_201


@lru_cache(maxsize=16)
def normal_points(dimensions: int, points: int = _POINTS, replicas: int = _REPLICAS) -> Array:
    """Standard normal quasi-random points, shape (replicas, points, dimensions): each replica scrambled anew.

    The spread of averages over replicas tells their error. Always the same points, so that averages are smooth in
    their parameters.

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
    # Slow to import, and of no use to models without labels of several components.
    from scipy.stats import qmc

    sets = [qmc.Sobol(dimensions, seed=seed).random(points) for seed in range(replicas)]
    # A scrambled point may touch the boundary, where the normal quantile is infinite.
    return np.asarray(ndtri(np.clip(np.stack(sets), 1e-16, 1 - 1e-16)))


def mean_and_error(replicas: Array) -> tuple[Array, Array]:
    """Mean over the first axis and its standard error."""
    return np.mean(replicas, axis=0), np.std(replicas, axis=0, ddof=1) / np.sqrt(len(replicas))


def label_mse(link: Callable[[Array], Array], tokens: int, power: float, variance: Array) -> dict[str, Array]:
    r"""Error per row of the posterior mean of ``y = link(h)``, from two copies of ``h`` with the same :math:`\omega`.

    .. math:: E\|y - E[y\mid\omega]\|^2 = \tfrac12 E\|y(h) - y(h')\|^2, \qquad \omega\sim N(0, Q_0 - V),

    which stays precise where the error is small and needs no average inside an average. Nothing is returned for so many
    tokens that the points would fill the memory.
    """
    if tokens > _MOST_TOKENS or not np.isfinite(power):
        return {}
    size = tokens * (tokens + 1) // 2
    t, u, w = np.split(normal_points(3 * size), 3, axis=-1)
    means, errors = [], []
    for v in np.ravel(variance):
        omega = np.sqrt(max(power - v, 0.0)) * t
        first, second = (link(to_matrices(omega + np.sqrt(v) * x, tokens)) for x in (u, w))
        square = np.reshape((first - second) ** 2, (*t.shape[:2], -1)).sum(axis=-1)
        mean, error = mean_and_error(0.5 * square.mean(axis=1) / tokens)
        means.append(mean)
        errors.append(error)
    shape = np.shape(variance)
    return {"label_mse": np.reshape(means, shape), "label_mse_standard_error": np.reshape(errors, shape)}
