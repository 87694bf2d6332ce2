"""Information from scores of sampled data points, with all that is known of them as control variates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.extrapolation import remainder

# Spread of a control, relative to its target's, that is rounding.
_ROUNDING = 1e-10

# Standard errors by which the information and what scores say of true deviations may differ by chance, of eight
# replicas and many entries, and how much larger than what they differ by the error may be.
_CHANCE, _LARGER = 5.0, 1.5


def information(
    levels: Sequence[Sequence[Array]],
    true: Array,
    v: Array,
    shown: int,
    silent: Sequence[Array] = (),
    refinement_factor: float = 4,
) -> tuple[Array, Array]:
    """Information of each replica, shape (replicas, P, P), and what less work per data point says is missing from it.

    The square of the score has three estimates of one mean (the product of independent scores, minus the slope,
    score times true deviation) and the deviation a known square: their differences are control variates. So is what the
    same sample says of labels that say nothing: where they say little, it is most of the noise.

    Where sampled posteriors are wrong (modes that were not found, sheets that few points cover badly) all of a sample
    is wrong alike. What scores say of true deviations then says so: it is far from what their squares say.

    Entries are those between the eigenvectors of the covariance. What is known little is a difference of entries that
    are large where it is no entry itself, and weights that are fitted to each of them leave their noise in it.

    Args:
        levels: scores, twice, and minus their slopes, shape (replicas, points, ...), with most work first.
        true: whitened deviations that labels were made of.
        v: covariance, shape (P, P).
        shown: data points of each replica that tell the bias.
        silent: scores, twice, and minus their slopes for labels that say nothing; empty where unknown.
        refinement_factor: how many times less work is behind each level than behind the last.
    """
    values, axes = np.linalg.eigh(v)
    turned = [_seen_along(axes, *level) for level in levels]
    still = _seen_along(axes, *silent) if silent else ()
    found, missing = _along(turned, axes.T @ true, np.diag(values), shown, still, refinement_factor)
    return axes @ found @ axes.T, axes @ missing @ axes.T


def _seen_along(axes: Array, first: Array, second: Array, slope: Array) -> tuple[Array, Array, Array]:
    """Scores, twice, and minus their slopes in an orthonormal basis, the columns of ``axes``."""
    return axes.T @ first, axes.T @ second, axes.T @ slope @ axes


def _along(
    levels: Sequence[Sequence[Array]],
    true: Array,
    v: Array,
    shown: int,
    silent: Sequence[Array],
    refinement_factor: float,
) -> tuple[Array, Array]:
    """The same, entry by entry."""
    square, controls = _estimates(levels[0], true, v, silent)
    size = len(v)
    found, weights = np.empty((len(square), size, size)), np.empty((size, size, controls.shape[-1]))
    for place in np.ndindex(size, size):
        own, fitted = _fitted(square[(..., *place)], controls[(..., *place, slice(None))])
        found[(slice(None), *place)], weights[place] = own, fitted.mean(axis=0)
    wrong = _contradicted(square, controls, weights)
    if len(levels) == 1:
        return found, wrong
    few = [
        _estimates([part[:, :shown] for part in level], true[:, :shown], v, [part[:, :shown] for part in silent])
        for level in levels
    ]
    # The same weights for all: what controls vary by has no part in what levels differ by.
    means = [np.mean(square - np.einsum("rpabc,abc->rpab", known, weights), axis=(0, 1)) for square, known in few]
    missing = remainder(means, refinement_factor)
    return found, np.where(np.abs(wrong) > np.abs(missing), wrong, missing)


def _contradicted(square: Array, controls: Array, weights: Array) -> Array:
    """How far the information is from what scores say of true deviations, shape (P, P); zero if it may be by chance."""
    # What is left of the controls has mean zero whatever was sampled.
    gaps = np.einsum("rpabc,abc->rpab", controls, weights) - controls[..., _TOLD]
    sure = np.delete(controls, [_SLOPES, _TOLD], axis=-1)
    gap, error = np.empty((2, *weights.shape[:2]))
    for a, b in zip(*np.tril_indices(len(gap)), strict=True):
        replicas = controlled(gaps[..., a, b], sure[..., a, b, :])
        gap[a, b] = gap[b, a] = replicas.mean()
        error[a, b] = error[b, a] = replicas.std(ddof=1) / np.sqrt(len(replicas))
    return beyond_chance(gap, error)


def beyond_chance(gap: Array, error: Array) -> Array:
    """How wrong averages may be that differ so from what true deviations say; zero where that may be by chance.

    Args:
        gap: differences, of any shape.
        error: their standard errors.

    Example:
        >>> (
        ...     beyond_chance(np.array([0.1, 6.0]), np.ones(2)).tolist(),
        ...     beyond_chance(np.array([0.1]), np.ones(1)).tolist(),
        ... )
        ([3.1500000000000004, 12.0], [0.0])
    """
    # Posteriors that are wrong anywhere are right nowhere.
    wrong = np.any(np.abs(gap) > _CHANCE * error)
    return np.asarray(_LARGER * (gap + 2 * np.copysign(error, gap)) if wrong else np.zeros_like(gap))


# Controls that vanish if posteriors are right: squares less slopes, and less scores times true deviations.
_SLOPES, _TOLD = 0, 1


def _estimates(level: Sequence[Array], u: Array, v: Array, silent: Sequence[Array]) -> tuple[Array, Array]:
    """Squares of scores, shape (replicas, points, P, P), and variables of mean zero, one axis more."""
    g, h, c = level
    # In the order of _SLOPES and _TOLD.
    square = _product(g, h)
    known = _product(u, u) - u.shape[-1] * np.linalg.inv(v)
    controls = [square - c, square - _product(0.5 * (g + h), u), known]
    if silent:
        one, two, slope = silent
        # Products of different halves: those of one with itself do not vanish.
        controls += [_product(one, h) + _product(g, two), _product(one, two), slope, _product(0.5 * (one + two), u)]
    return square, np.stack(controls, axis=-1)


def _product(a: Array, b: Array) -> Array:
    """Symmetrised product over rows, summed over columns; shapes (..., P, K) to (..., P, P)."""
    full = a @ np.swapaxes(b, -1, -2)
    return np.asarray(0.5 * (full + np.swapaxes(full, -1, -2)))


def controlled(target: Array, controls: Array) -> Array:
    """Means over points of ``target``, shape (replicas, points), with zero-mean controls (replicas, points, c).

    What each replica makes of the controls is fitted to the others: were it fitted to all, rare data points that are
    fewer than the controls can tell apart would cancel, and replicas would not tell their error.
    """
    return _fitted(target, controls)[0]


def _fitted(target: Array, controls: Array) -> tuple[Array, Array]:
    """Those means, and weights of the controls, shape (replicas, c)."""
    scale = np.std(controls, axis=(0, 1))
    # What vanishes but for rounding would be so many random numbers.
    kept = scale > _ROUNDING * np.std(target)
    used = controls[..., kept] / scale[kept]
    columns = np.concatenate([np.ones_like(target)[..., None], used, target[..., None]], axis=-1)
    # Triangular factors know all products of the columns, and lose no digits to their squares.
    factors = np.linalg.qr(columns, mode="r")
    others = np.stack([np.delete(factors, k, axis=0).reshape(-1, columns.shape[-1]) for k in range(len(factors))])
    found = (np.linalg.pinv(others[..., :-1], rcond=1e-10) @ others[..., -1:])[:, 1:]
    weights = np.zeros((len(target), len(scale)))
    weights[:, kept] = found[..., 0] / scale[kept]
    return np.asarray((target - (used @ found)[..., 0]).mean(axis=1)), weights
