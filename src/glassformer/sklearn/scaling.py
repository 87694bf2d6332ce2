"""Centring and scaling of tokens, fitted to the training data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import eigh
from glassformer.sklearn.sequences import Sequences

SCALES = ("features", "whiten", "none")
# Directions with less than this share of the largest variance are dropped by whitening (double precision, squared).
_FLAT = 1e-8
# Deviations, in units of the largest value, that are rounding errors.
_ROUNDING = 1e-13
# Numbers that are centred together, to bound memory.
_BATCH_NUMBERS = 2**20


@dataclass(frozen=True)
class Scaling:
    r"""The map :math:`X' = A\,(X - M)\,B` of the tokens of a sample, which preserves the rank of coefficients.

    Attributes:
        mean: ``M``, shape (L, d), or (1, d) for one mean of all tokens.
        rows: ``A``, shape (L, L), or its diagonal, of shape (1,) for one number of all tokens.
        columns: ``B``, shape (d, d), or its diagonal.
    """

    mean: Array
    rows: Array
    columns: Array

    def apply(self, given: Sequences) -> Array:
        """Return scaled tokens, shape (n, L, d), zero where there is no token, in the given precision."""
        x = np.empty_like(given.values)
        # Differences are in double precision, since the mean may be large, with one copy, since inputs may be large.
        np.subtract(given.values, self.mean, out=x, casting="same_kind")
        rows, columns, mask = (part.astype(x.dtype) for part in (self.rows, self.columns, given.mask))
        x *= mask[:, :, None]
        if rows.ndim == 1 and columns.ndim == 1:
            x *= rows[:, None] * columns
            return x
        x = np.einsum("ab,nbd->nad", rows, x) if rows.ndim == 2 else x * rows[:, None]
        return np.asarray(x @ columns if columns.ndim == 2 else x * columns)

    def coefficients(self, signal: Array) -> Array:
        """Return the coefficients of unscaled tokens, from a signal of shape (L, d) that acts on scaled tokens."""
        left = self.rows.T @ signal if self.rows.ndim == 2 else self.rows[:, None] * signal
        return np.asarray(left @ self.columns.T if self.columns.ndim == 2 else left * self.columns)

    def patterns(self, scaled: Array) -> Array:
        """Return covariances of the tokens as given, of shape (L, d), from those of scaled tokens."""
        return np.asarray(_pseudo_inverse(self.rows) @ scaled @ _pseudo_inverse(self.columns))


def _pseudo_inverse(scale: Array) -> Array:
    if scale.ndim == 2:
        return np.asarray(np.linalg.pinv(scale))
    return np.diag(np.where(scale != 0, 1 / np.where(scale != 0, scale, 1.0), 0.0))


def fit_scaling(given: Sequences, weights: Array, scale: str, by_position: bool) -> Scaling:
    """Return the scaling of these data.

    Args:
        given: training data.
        weights: of the samples, shape (n,).
        scale: ``"features"`` for units of the standard deviations of features and of tokens, ``"whiten"`` for
            uncorrelated features and tokens, ``"none"`` for one unit of all entries.
        by_position: True for means and scales of each position.

    Raises:
        ParameterError: the scale is unknown.
    """
    if scale not in SCALES:
        raise ParameterError("scale", scale, f"one of {', '.join(SCALES)}")
    share = (weights[:, None] * given.mask)[:, :, None]
    share = np.broadcast_to(share, (*given.values.shape[:2], 1))
    axes: tuple[int, ...] = (0,) if by_position else (0, 1)
    total = np.maximum(share.sum(axis=axes, keepdims=True), 1e-300)
    add = "nlk,nld->ld" if by_position else "nlk,nld->d"
    mean = np.einsum(add, share, given.values).reshape(-1, given.values.shape[2]) / total[0]
    length, d = given.values.shape[1:]
    counted = float(share.sum())
    features: Any = sum(np.einsum("nld,nle->de", part, part, optimize=True) for part in _centred(given, share, mean))
    # Features that vary only by the rounding of their mean are dropped.
    flat = np.diag(features) <= counted * (_ROUNDING * np.max(np.abs(given.values), axis=(0, 1))) ** 2
    features[flat], features[:, flat] = 0.0, 0.0
    power = float(np.trace(features)) / max(counted * d, 1e-300)
    rows, columns = np.ones(length if by_position else 1), np.full(d, 1 / np.sqrt(power) if power > 0 else 1.0)
    if scale != "none":
        columns = _inverse_root(features / counted, scale)
    columns[flat] = 0.0
    if scale != "none" and by_position and length > 1:
        scaled = (part @ columns if columns.ndim == 2 else part * columns for part in _centred(given, share, mean))
        tokens: Any = sum(np.einsum("nld,nmd->lm", part, part, optimize=True) for part in scaled)
        rows = _inverse_root(tokens / (d * max(float(share.sum(axis=0).mean()), 1e-300)), scale)
    return Scaling(mean, rows, columns)


def _centred(given: Sequences, share: Array, mean: Array) -> Iterator[Array]:
    """Yield centred tokens times the roots of their shares, of a few samples at a time: inputs may be large."""
    count = max(1, _BATCH_NUMBERS // int(np.prod(given.values.shape[1:])))
    for start in range(0, len(given.values), count):
        where = slice(start, start + count)
        yield (given.values[where] - mean) * np.sqrt(share[where])


def _inverse_root(covariance: Array, scale: str) -> Array:
    """Return the inverse root of a covariance, or of its diagonal; directions that do not vary stay unscaled."""
    if scale == "features":
        spread = np.sqrt(np.diag(covariance))
        return 1 / np.where(spread > np.sqrt(_FLAT) * max(float(spread.max()), 1e-300), spread, 1.0)
    values, vectors = eigh(covariance)
    positive = values > _FLAT * max(float(values[-1]), 1e-300)
    return np.asarray((vectors[:, positive] / np.sqrt(values[positive])) @ vectors[:, positive].T)
