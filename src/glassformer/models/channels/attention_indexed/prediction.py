"""Errors on new labels of functions of attention indices, and of their argmax, by quasi-Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from glassformer.core.integral import Array
from glassformer.core.numerics.quasi_random import mean_and_error, normal_points

_MOST_TOKENS = 12
# Where the largest entry of a row may be, in standard deviations about the largest means, and points in between.
_REACH, _GRID = 8.0, 161
# Numbers that are treated at once, over the points of that grid.
_BLOCK = 200_000


def prediction_error(
    link: Callable[[Array], Array], size: int, tokens: int, power: float, variance: Array, noise: float
) -> dict[str, Array]:
    r"""Error per row of the posterior mean of ``y = link(h)``, from two copies of ``h`` with the same :math:`\omega`.

    .. math:: E\|y - E[y\mid\omega]\|^2 = \tfrac12 E\|y(h) - y(h')\|^2, \qquad \omega\sim N(0, Q_0 - V),

    which stays precise where the error is small and needs no average inside an average. Nothing is returned for so many
    tokens that the points would fill the memory. ``size`` is the number of components of ``h``.
    """
    if tokens > _MOST_TOKENS or not np.isfinite(power):
        return {}
    t, u, w = np.split(normal_points(3 * size), 3, axis=-1)
    means, errors = [], []
    for v in np.ravel(variance):
        omega = np.sqrt(max(power - v, 0.0)) * t
        first, second = (link(omega + np.sqrt(v) * x) for x in (u, w))
        square = np.reshape((first - second) ** 2, (*t.shape[:2], -1)).sum(axis=-1)
        mean, error = mean_and_error(0.5 * square.mean(axis=1) / tokens)
        means.append(mean)
        errors.append(error)
    shape = np.shape(variance)
    mean, error = np.reshape(means, shape), np.reshape(errors, shape)
    named = {"prediction_error": mean, "prediction_standard_error": error, "label_noise": np.full(shape, noise)}
    return {**named, "label_mse": mean, "label_mse_standard_error": error}


def row_errors(tokens: int, power: float, variance: Array) -> dict[str, Array]:
    r"""Bayes-optimal errors on the argmax of a row of the indices, per row.

    Given :math:`\omega` the entries of a row are independent, :math:`h_{ab}\sim N(\omega_{ab}, V(1+\delta_{ab}))`, so
    :math:`p_b = P(\mathrm{argmax} = b\mid\omega)` is an integral over one number. ``label_error`` is
    :math:`1 - E\max_bp_b`, ``label_brier`` :math:`1 - E\sum_bp_b^2`, each with a standard error.

    Example:
        >>> found = row_errors(3, 1.5, np.array([1e-4, 1.5]))
        >>> bool(found["label_error"][0] < 0.02), bool(found["label_error"][1] > 0.58)
        (True, True)
    """
    points = normal_points(tokens, 512)
    spread = np.where(np.arange(tokens) == 0, np.sqrt(2.0), 1.0)
    found = []
    for v in np.ravel(variance):
        omega = np.sqrt(max(power - v, 0.0)) * spread * points
        chance = _argmax_probabilities(omega, np.sqrt(v) * spread)
        both = (1 - chance.max(axis=-1), 1 - np.sum(chance**2, axis=-1))
        found.append([part for error in both for part in mean_and_error(error.mean(axis=1))])
    columns = np.array(found).T.reshape(4, *np.shape(variance))
    names = ("label_error", "label_standard_error", "label_brier", "label_brier_standard_error")
    return dict(zip(names, columns, strict=True))


def largest_entries(mean: Array, variance: float) -> Array:
    """Of every row of indices with these means, shape (n, T, T), the entry that is the most probably the largest.

    Example:
        >>> largest_entries(np.array([[[0.0, 1.0], [1.0, 2.0]]]), 0.5)
        array([[1., 1.]])
    """
    spread = np.sqrt(np.maximum(variance, 1e-12) * (1 + np.eye(mean.shape[-1])))
    size = max(1, _BLOCK // mean[0].size ** 2)
    parts = [mean[start : start + size] for start in range(0, len(mean), size)]
    chances = [_argmax_probabilities(part, spread) for part in parts]
    return np.argmax(np.concatenate(chances), axis=-1).astype(float)


def _argmax_probabilities(mean: Array, deviation: Array) -> Array:
    """Probabilities that each of independent normal numbers, along the last axis, is the largest."""
    # The largest is hardly below the largest of the means, less what is left of any of them to go by.
    low = np.max(mean - _REACH * deviation, axis=-1, keepdims=True)
    high = np.max(mean + _REACH * deviation, axis=-1, keepdims=True)
    grid = low + (high - low) * np.linspace(0, 1, _GRID)
    t = (grid[..., None, :] - mean[..., None]) / deviation[..., None]
    below = log_ndtr(t)
    chance = np.exp(below.sum(axis=-2, keepdims=True) - below - 0.5 * t**2) / deviation[..., None]
    mass = chance.sum(axis=-1)
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))
