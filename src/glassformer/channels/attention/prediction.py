"""Errors on new labels of functions of attention indices, and of their argmax, by quasi-Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels
from glassformer.numerics.quasi_random import mean_and_error, normal_points


@dataclass(frozen=True)
class Quadrature:
    """How chances of largest entries are integrated, for how many tokens."""

    tokens: int = 12  # at most
    reach: float = 8.0  # where the largest entry of a row may be, in standard deviations about the largest means
    grid: int = 161  # points in between
    at_once: int = 200_000  # numbers that are treated in one go, over those points
    closed: int = 3  # tokens up to which there are no more than the entries of a row and of one other
    angles: int = 40  # nodes in the angle of the correlation


_POLICY = Quadrature()


# Differences of the three entries of a row from its own one, and from one of the others.
_OWN, _OTHER = np.array([[3.0, 2.0], [2.0, 3.0]]), np.array([[3.0, 1.0], [1.0, 2.0]])


def prediction_errors(
    link: Callable[[Array], Array], size: int, tokens: int, power: float, variance: Array, noise: float
) -> dict[str, Array]:
    r"""Errors per token on ``y = link(h)``, from two copies of ``h`` with the same :math:`\omega`.

    .. math:: E\|y - E[y\mid\omega]\|^2 = \tfrac12 E\|y(h) - y(h')\|^2, \qquad \omega\sim N(0, Q_0 - V),

    of the posterior mean, which stays precise where the error is small and needs no average inside an average; that of
    :math:`y(\omega)` is larger by :math:`E\,(y(h) - y(\omega))\cdot(y(h') - y(\omega))`. Nothing is returned for so
    many tokens that the points would fill the memory. ``size`` is the number of components of ``h``.
    """
    if tokens > _POLICY.tokens or not np.isfinite(power):
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
        # What is known to be positive is, within its error.
        found.append([mean, error, mean + np.maximum(beyond, 0.0), both])
    mean, error, plugin, both = np.array(found).T.reshape(4, *shape)
    named = {"prediction_error": mean, "prediction_standard_error": error, "label_noise": np.full(shape, noise)}
    beside = {"plugin_error": plugin, "plugin_standard_error": both}
    return {**named, **beside, "label_mse": mean, "label_mse_standard_error": error}


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


def row_disagreement(tokens: int, cosine: Array) -> Array:
    r"""Share of rows whose largest index is another one for a student whose indices have this correlation.

    With differences ``u`` of a row's entries from its largest one, of covariance ``C`` for teacher and student and
    ``c C`` between them, rows agree with :math:`P(u > 0, u' > 0)`, whose slope in ``c`` has a closed form for up to
    three tokens: two of the four differences are zero, and two are left. For more the chance of the student's choice is
    averaged over quasi-random rows.

    Example:
        >>> row_disagreement(2, np.array([0.5])).round(6), row_disagreement(3, np.array([0.0, 1.0])).round(6)
        (array([0.333333]), array([0.665052, 0.      ]))
    """
    angle = np.arcsin(np.clip(np.asarray(cosine, dtype=float), 0.0, 1.0))
    if tokens == 2:
        return np.asarray((0.5 * np.pi - angle) / np.pi)
    if tokens > _POLICY.closed:
        return _sampled_disagreement(tokens, np.sin(angle))
    t, weight = gauss_panels(np.stack([angle, np.full_like(angle, 0.5 * np.pi)], axis=-1), _POLICY.angles)
    within = np.minimum(np.sin(t), 1 - 1e-14)
    slope = _agreement_slope(within, _OWN) + (tokens - 1) * _agreement_slope(within, _OTHER)
    return np.asarray(np.sum(weight * np.cos(t) * slope, axis=-1))


def _agreement_slope(cosine: Array, covariance: Array) -> Array:
    """Derivative in the correlation of the chance that two pairs of this covariance are all positive."""
    total = np.zeros_like(cosine)
    for i, j in np.ndindex(2, 2):
        k, m = 1 - i, 1 - j
        across, square = cosine * covariance[i, j], covariance[i, i] * covariance[j, j]
        det = square - across**2
        # What is left of the other two given that these are zero.
        first = np.array([covariance[k, i] * np.ones_like(cosine), cosine * covariance[k, j]])
        second = np.array([cosine * covariance[m, i], covariance[m, j] * np.ones_like(cosine)])

        def given(x: Array, y: Array, i: int = i, j: int = j, across: Array = across, det: Array = det) -> Array:
            straight = x[0] * y[0] * covariance[j, j] + x[1] * y[1] * covariance[i, i]
            return np.asarray((straight - across * (x[0] * y[1] + x[1] * y[0])) / det)

        left = [covariance[k, k] - given(first, first), covariance[m, m] - given(second, second)]
        between = cosine * covariance[k, m] - given(first, second)
        chance = 0.25 + np.arcsin(np.clip(between / np.sqrt(left[0] * left[1]), -1, 1)) / (2 * np.pi)
        total += covariance[i, j] * chance / (2 * np.pi * np.sqrt(det))
    return total


def _sampled_disagreement(tokens: int, cosine: Array) -> Array:
    spread = np.where(np.arange(tokens) == 0, np.sqrt(2.0), 1.0)
    omega = (spread * normal_points(tokens, 512)).reshape(-1, tokens)
    chosen, found = np.argmax(omega, axis=-1)[:, None], []
    for c in np.ravel(cosine):
        chance = _argmax_probabilities(c * omega, np.sqrt(max(1 - c**2, 1e-12)) * spread)
        found.append(1 - np.mean(np.take_along_axis(chance, chosen, axis=-1)))
    return np.reshape(found, np.shape(cosine))


def largest_entries(mean: Array, variance: float) -> Array:
    """Of every row of indices with these means, shape (n, T, T), the entry that is the most probably the largest.

    Example:
        >>> largest_entries(np.array([[[0.0, 1.0], [1.0, 2.0]]]), 0.5)
        array([[1., 1.]])
    """
    if mean.shape[-1] == 2:
        # Of two normal numbers, the one of larger mean, whatever their spread.
        return np.argmax(mean, axis=-1).astype(float)
    spread = np.sqrt(np.maximum(variance, 1e-12) * (1 + np.eye(mean.shape[-1])))
    size = max(1, _POLICY.at_once // mean[0].size ** 2)
    parts = [mean[start : start + size] for start in range(0, len(mean), size)]
    chances = [_argmax_probabilities(part, spread) for part in parts]
    return np.argmax(np.concatenate(chances), axis=-1).astype(float)


def _argmax_probabilities(mean: Array, deviation: Array) -> Array:
    """Probabilities that each of independent normal numbers, along the last axis, is the largest."""
    # The largest is hardly below the largest of the means, less what is left of any of them to go by.
    low = np.max(mean - _POLICY.reach * deviation, axis=-1, keepdims=True)
    high = np.max(mean + _POLICY.reach * deviation, axis=-1, keepdims=True)
    grid = low + (high - low) * np.linspace(0, 1, _POLICY.grid)
    t = (grid[..., None, :] - mean[..., None]) / deviation[..., None]
    below = log_ndtr(t)
    chance = np.exp(below.sum(axis=-2, keepdims=True) - below - 0.5 * t**2) / deviation[..., None]
    mass = chance.sum(axis=-1)
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))
