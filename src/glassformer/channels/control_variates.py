"""Information from the scores of sampled data points, with control variates that reduce its variance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.sequences import remaining_change

_ROUNDING = 1e-10  # standard deviation of a control, relative to its target, that counts as rounding

# Number of standard errors beyond which two estimates of one mean, from eight replicas and many entries, differ
# significantly. The error estimate is then this multiple of the difference. Chosen by trial.
_SIGNIFICANT, _SAFETY = 5.0, 1.5

# Places of the controls that vanish if posteriors are right: square minus slope, square minus score times deviation.
_SLOPE, _DEVIATION = 0, 1


def information(
    levels: Sequence[Sequence[Array]],
    deviation: Array,
    v: Array,
    bias_points: int,
    prior_scores: Sequence[Array] = (),
    refinement_factor: float = 4,
    shift_square: Array | float = 0.0,
) -> tuple[Array, Array]:
    """Return the information of each replica, shape (replicas, P, P), and its bias extrapolated from less work.

    The information has three estimators with one mean: the product of two independent scores, minus the slope of the
    score, and the score times the true deviation. Their differences are control variates, as are the square of the
    deviation, whose mean is known, and the scores of the same sample under its prior, that is for labels without
    information: where labels carry little information these are most of the noise.

    If sampled posteriors are wrong (a mode was missed, or few points cover a surface badly), all replicas have the same
    error. Then the score times the true deviation differs from the square of the score, and the difference is returned
    as the bias.

    Weights are fitted to entries in the eigenbasis of the covariance. In another basis a small eigenvalue is a
    difference of large entries, with the noise of the weights of each.

    Args:
        levels: two independent scores and minus their slopes, shape (replicas, points, ...), with most work first.
        deviation: true whitened deviations of the fields behind the labels.
        v: covariance, shape (P, P).
        bias_points: data points of each replica from which the bias is extrapolated.
        prior_scores: two scores and minus their slopes under the prior; empty if unknown.
        refinement_factor: ratio of the work of successive levels.
        shift_square: mean square of shifts of the fields by hidden states, shape (P, P).
    """
    values, axes = np.linalg.eigh(v)
    rotated = [_rotate(axes, *level) for level in levels]
    rotated_prior = _rotate(axes, *prior_scores) if prior_scores else ()
    value, bias = _entrywise(
        rotated,
        axes.T @ deviation,
        np.diag(values),
        bias_points,
        rotated_prior,
        refinement_factor,
        axes.T @ (shift_square * np.ones_like(v)) @ axes,
    )
    return axes @ value @ axes.T, axes @ bias @ axes.T


def _rotate(axes: Array, first: Array, second: Array, slope: Array) -> tuple[Array, Array, Array]:
    """Return two scores and minus their slopes in an orthonormal basis, the columns of ``axes``."""
    return axes.T @ first, axes.T @ second, axes.T @ slope @ axes


def _entrywise(
    levels: Sequence[Sequence[Array]],
    deviation: Array,
    v: Array,
    bias_points: int,
    prior_scores: Sequence[Array],
    refinement_factor: float,
    shift_square: Array,
) -> tuple[Array, Array]:
    """Return information and bias, with weights of the controls fitted to every entry."""
    deviation_square = deviation.shape[-1] * np.linalg.inv(v) + shift_square
    square, controls = _estimators(levels[0], deviation, deviation_square, prior_scores)
    size = len(v)
    value, weights = np.empty((len(square), size, size)), np.empty((size, size, controls.shape[-1]))
    for place in np.ndindex(size, size):
        mean, fitted = _regress(square[(..., *place)], controls[(..., *place, slice(None))])
        value[(slice(None), *place)], weights[place] = mean, fitted.mean(axis=0)
    contradiction = _contradiction(square, controls, weights)
    if len(levels) == 1:
        return value, contradiction
    few = [
        _estimators(
            [part[:, :bias_points] for part in level],
            deviation[:, :bias_points],
            deviation_square,
            [part[:, :bias_points] for part in prior_scores],
        )
        for level in levels
    ]
    # The same weights at every level, so that only the bias differs.
    means = [np.mean(square - np.einsum("rpabc,abc->rpab", known, weights), axis=(0, 1)) for square, known in few]
    bias = remaining_change(means, refinement_factor)
    return value, np.where(np.abs(contradiction) > np.abs(bias), contradiction, bias)


def _contradiction(square: Array, controls: Array, weights: Array) -> Array:
    """Return the information minus the mean of score times true deviation, or zero if it is insignificant."""
    gaps = np.einsum("rpabc,abc->rpab", controls, weights) - controls[..., _DEVIATION]
    # The other controls have mean zero even if posteriors are wrong.
    unbiased = np.delete(controls, [_SLOPE, _DEVIATION], axis=-1)
    gap, error = np.empty((2, *weights.shape[:2]))
    for a, b in zip(*np.tril_indices(len(gap)), strict=True):
        replicas = controlled_mean(gaps[..., a, b], unbiased[..., a, b, :])
        gap[a, b] = gap[b, a] = replicas.mean()
        error[a, b] = error[b, a] = replicas.std(ddof=1) / np.sqrt(len(replicas))
    return significant_gap(gap, error)


def significant_gap(gap: Array, error: Array) -> Array:
    """Return bounds on differences of two estimates of the same mean; zero if no difference is significant.

    Args:
        gap: differences, of any shape.
        error: their standard errors.

    Example:
        >>> (
        ...     significant_gap(np.array([0.1, 6.0]), np.ones(2)).tolist(),
        ...     significant_gap(np.array([0.1]), np.ones(1)).tolist(),
        ... )
        ([3.1500000000000004, 12.0], [0.0])
    """
    # One significant difference shows that all estimates are unreliable.
    significant = np.any(np.abs(gap) > _SIGNIFICANT * error)
    return np.asarray(_SAFETY * (gap + 2 * np.copysign(error, gap)) if significant else np.zeros_like(gap))


def _estimators(
    level: Sequence[Array], u: Array, deviation_square: Array, prior_scores: Sequence[Array]
) -> tuple[Array, Array]:
    """Return the squares of scores, shape (replicas, points, P, P), and controls of mean zero, one axis more."""
    g, h, c = level
    # In the order of _SLOPE and _DEVIATION.
    square = _product(g, h)
    known = _product(u, u) - deviation_square
    controls = [square - c, square - _product(0.5 * (g + h), u), known]
    if prior_scores:
        one, two, slope = prior_scores
        # Products of different halves have mean zero; the product of a half with itself does not.
        controls += [_product(one, h) + _product(g, two), _product(one, two), slope, _product(0.5 * (one + two), u)]
    return square, np.stack(controls, axis=-1)


def _product(a: Array, b: Array) -> Array:
    """Return the symmetrised product over rows, summed over columns; shapes (..., P, K) to (..., P, P)."""
    full = a @ np.swapaxes(b, -1, -2)
    return np.asarray(0.5 * (full + np.swapaxes(full, -1, -2)))


def controlled_mean(target: Array, controls: Array) -> Array:
    """Return the mean of each replica over its points, with control variates.

    The weights of a replica are fitted to the other replicas. If they were fitted to all replicas, they could cancel a
    few rare data points, and the spread of replicas would underestimate the error.

    Args:
        target: shape (replicas, points).
        controls: variables of mean zero, shape (replicas, points, controls).
    """
    return _regress(target, controls)[0]


def _regress(target: Array, controls: Array) -> tuple[Array, Array]:
    """Return the controlled means and the weights, shape (replicas, controls)."""
    replicas, points, number = controls.shape
    columns = np.empty((replicas, number + 2, points))
    columns[:, 0], columns[:, 1:-1], columns[:, -1] = 1.0, np.swapaxes(controls, 1, 2), target
    # Triangular factors contain all products of the columns without loss of digits by squaring: the means in the first
    # row, deviations from them in the others.
    factors: Array = np.asarray(np.linalg.qr(np.swapaxes(columns, 1, 2), mode="r"))
    means = factors[:, 0] / factors[:, :1, 0]
    scale = np.sqrt(np.mean(np.sum(factors[:, 1:] ** 2, axis=1), axis=0) / points)[1:]
    used = np.flatnonzero(scale[:-1] > _ROUNDING * scale[-1])
    scaled = factors[..., [0, *(used + 1)]] / np.append(1.0, scale[used])
    others = [np.delete(np.arange(replicas), k) for k in range(replicas)]
    known = np.stack([np.concatenate(scaled[rest]) for rest in others])
    wanted = np.stack([factors[rest, :, -1].reshape(-1, 1) for rest in others])
    solution = np.linalg.pinv(known, rcond=1e-10) @ wanted
    weights = np.zeros((replicas, number))
    weights[:, used] = solution[:, 1:, 0] / scale[used]
    return means[:, -1] - np.sum(weights * means[:, 1:-1], axis=1), weights
