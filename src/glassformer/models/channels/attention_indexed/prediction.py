"""Squared errors on new labels of a function of attention indices, by quasi-Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glassformer.core.integral import Array
from glassformer.core.numerics.quasi_random import mean_and_error, normal_points
from glassformer.models.channels.attention_indexed.pairs import to_matrices

_MOST_TOKENS = 12


def prediction_error(
    link: Callable[[Array], Array], tokens: int, power: float, variance: Array, noise: float
) -> dict[str, Array]:
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
    mean, error = np.reshape(means, shape), np.reshape(errors, shape)
    named = {"prediction_error": mean, "prediction_standard_error": error, "label_noise": np.full(shape, noise)}
    return {**named, "label_mse": mean, "label_mse_standard_error": error}
