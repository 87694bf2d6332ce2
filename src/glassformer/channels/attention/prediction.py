"""Prediction errors for functions of attention indices and for the argmax of their rows, by quasi-Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels
from glassformer.numerics.quasi_random import mean_and_error, normal_points

# Largest number of tokens for which errors on labels are averaged: more would need too much memory.
_MOST_TOKENS = 12
# Range of the largest entry of a row in standard deviations around the largest means, and number of grid points.
_REACH, _GRID = 8.0, 161
# Numbers in one temporary array over that grid, so that it stays in the cache.
_NUMBERS_AT_ONCE = 200_000
# Smaller variances of indices count as this one, at which labels are certain.
_LEAST_VARIANCE = 1e-14
# Largest number of tokens for which the disagreement has a closed form, and Gauss nodes in the angle of the
# correlation.
_CLOSED_FORM_TOKENS, _ANGLE_NODES = 3, 40
# Covariances of the differences between the entries of a row and its diagonal entry, and another entry.
_FROM_DIAGONAL, _FROM_OTHER = np.array([[3.0, 2.0], [2.0, 3.0]]), np.array([[3.0, 1.0], [1.0, 2.0]])


def prediction_errors(
    link: Callable[[Array], Array], size: int, tokens: int, power: float, variance: Array, noise: float
) -> dict[str, Array]:
    r"""Return errors per token on ``y = link(h)``, from two copies of ``h`` with the same :math:`\omega`.

    .. math:: E\|y - E[y\mid\omega]\|^2 = \tfrac12 E\|y(h) - y(h')\|^2, \qquad \omega\sim N(0, Q_0 - V),

    This form of the error of the posterior mean is precise for small errors and needs no nested average. The error of
    :math:`y(\omega)` is larger by :math:`E\,(y(h) - y(\omega))\cdot(y(h') - y(\omega))`. The result is empty for more
    than 12 tokens, which would need too much memory.

    Args:
        link: maps components of the indices to labels.
        size: number of components of ``h``.
        tokens: ``T``.
        power: :math:`Q_0`.
        variance: ``V``, any shape.
        noise: variance of the label noise.
    """
    if tokens > _MOST_TOKENS or not np.isfinite(power):
        return {}
    t, u, w = np.split(normal_points(3 * size), 3, axis=-1)
    shape, found = np.shape(variance), []
    for v in np.ravel(variance):
        omega = np.sqrt(max(power - v, 0.0)) * t
        first, second = (link(omega + np.sqrt(v) * x) for x in (u, w))
        plugin = link(omega)
        bayes, gap = 0.5 * (first - second) ** 2, (first - plugin) * (second - plugin)
        parts = [np.reshape(part, (*t.shape[:2], -1)).sum(axis=-1).mean(axis=1) / tokens for part in (bayes, gap)]
        (mean, error), (beyond, _), (_, both) = (mean_and_error(part) for part in (*parts, parts[0] + parts[1]))
        # The excess is positive: a negative estimate is sampling error.
        found.append([mean, error, mean + np.maximum(beyond, 0.0), both])
    mean, error, plugin, both = np.array(found).T.reshape(4, *shape)
    named = {"prediction_error": mean, "prediction_standard_error": error, "label_noise": np.full(shape, noise)}
    beside = {"plugin_error": plugin, "plugin_standard_error": both}
    return {**named, **beside, "label_mse": mean, "label_mse_standard_error": error}


def row_errors(tokens: int, power: float, variance: Array) -> dict[str, Array]:
    r"""Return Bayes-optimal errors on the argmax of a row of the indices, per row.

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
        probability = _argmax_probabilities(omega, np.sqrt(max(v, _LEAST_VARIANCE)) * spread)
        both = (1 - probability.max(axis=-1), 1 - np.sum(probability**2, axis=-1))
        found.append([part for error in both for part in mean_and_error(error.mean(axis=1))])
    columns = np.array(found).T.reshape(4, *np.shape(variance))
    names = ("label_error", "label_standard_error", "label_brier", "label_brier_standard_error")
    return dict(zip(names, columns, strict=True))


def row_disagreement(tokens: int, cosine: Array) -> Array:
    r"""Return the share of rows whose argmax differs between teacher and student, for a given correlation of indices.

    With differences ``u`` of a row's entries from its largest one, of covariance ``C`` for teacher and student and
    ``c C`` between them, rows agree with probability :math:`P(u > 0, u' > 0)`. Its derivative in ``c`` has a closed
    form for up to three tokens: two of the four differences vanish, and a two-dimensional probability remains. For more
    tokens the probability of the student's choice is averaged over quasi-random rows.

    Example:
        >>> row_disagreement(2, np.array([0.5])).round(6), row_disagreement(3, np.array([0.0, 1.0])).round(6)
        (array([0.333333]), array([0.665052, 0.      ]))
    """
    angle = np.arcsin(np.clip(np.asarray(cosine, dtype=float), 0.0, 1.0))
    if tokens == 2:
        return np.asarray((0.5 * np.pi - angle) / np.pi)
    if tokens > _CLOSED_FORM_TOKENS:
        return _sampled_disagreement(tokens, np.sin(angle))
    t, weight = gauss_panels(np.stack([angle, np.full_like(angle, 0.5 * np.pi)], axis=-1), _ANGLE_NODES)
    within = np.minimum(np.sin(t), 1 - 1e-14)
    slope = _agreement_slope(within, _FROM_DIAGONAL) + (tokens - 1) * _agreement_slope(within, _FROM_OTHER)
    return np.asarray(np.sum(weight * np.cos(t) * slope, axis=-1))


def _agreement_slope(cosine: Array, covariance: Array) -> Array:
    """Return the derivative in the correlation of the probability that all four numbers of two pairs are positive."""
    total = np.zeros_like(cosine)
    for i, j in np.ndindex(2, 2):
        k, m = 1 - i, 1 - j
        across, square = cosine * covariance[i, j], covariance[i, i] * covariance[j, j]
        det = square - across**2
        # Covariances of the other two given that these are zero.
        first = np.array([covariance[k, i] * np.ones_like(cosine), cosine * covariance[k, j]])
        second = np.array([cosine * covariance[m, i], covariance[m, j] * np.ones_like(cosine)])

        def given(x: Array, y: Array, i: int = i, j: int = j, across: Array = across, det: Array = det) -> Array:
            straight = x[0] * y[0] * covariance[j, j] + x[1] * y[1] * covariance[i, i]
            return np.asarray((straight - across * (x[0] * y[1] + x[1] * y[0])) / det)

        left = [covariance[k, k] - given(first, first), covariance[m, m] - given(second, second)]
        between = cosine * covariance[k, m] - given(first, second)
        positive = 0.25 + np.arcsin(np.clip(between / np.sqrt(left[0] * left[1]), -1, 1)) / (2 * np.pi)
        total += covariance[i, j] * positive / (2 * np.pi * np.sqrt(det))
    return total


def _sampled_disagreement(tokens: int, cosine: Array) -> Array:
    spread = np.where(np.arange(tokens) == 0, np.sqrt(2.0), 1.0)
    omega = (spread * normal_points(tokens, 512)).reshape(-1, tokens)
    chosen, found = np.argmax(omega, axis=-1)[:, None], []
    for c in np.ravel(cosine):
        probability = _argmax_probabilities(c * omega, np.sqrt(max(1 - c**2, 1e-12)) * spread)
        found.append(1 - np.mean(np.take_along_axis(probability, chosen, axis=-1)))
    return np.reshape(found, np.shape(cosine))


def largest_entries(mean: Array, variance: float) -> Array:
    """Return the most probable argmax of every row of indices with these means, shape (n, T, T).

    Example:
        >>> largest_entries(np.array([[[0.0, 1.0], [1.0, 2.0]]]), 0.5)
        array([[1., 1.]])
    """
    if variance == 0 or mean.shape[-1] == 2:
        # Of two normal numbers, the one of larger mean is more likely to be the larger, for any variances.
        return np.argmax(mean, axis=-1).astype(float)
    spread = np.sqrt(np.maximum(variance, 1e-12) * (1 + np.eye(mean.shape[-1])))
    size = max(1, _NUMBERS_AT_ONCE // mean[0].size ** 2)
    parts = [mean[start : start + size] for start in range(0, len(mean), size)]
    probabilities = [_argmax_probabilities(part, spread) for part in parts]
    return np.argmax(np.concatenate(probabilities), axis=-1).astype(float)


def _argmax_probabilities(mean: Array, deviation: Array) -> Array:
    """Return the probability of each of independent normal numbers, along the last axis, to be the largest."""
    # Range of the largest entry.
    low = np.max(mean - _REACH * deviation, axis=-1, keepdims=True)
    high = np.max(mean + _REACH * deviation, axis=-1, keepdims=True)
    grid = low + (high - low) * np.linspace(0, 1, _GRID)
    t = (grid[..., None, :] - mean[..., None]) / deviation[..., None]
    below = log_ndtr(t)
    density = np.exp(below.sum(axis=-2, keepdims=True) - below - 0.5 * t**2) / deviation[..., None]
    mass = density.sum(axis=-1)
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))
