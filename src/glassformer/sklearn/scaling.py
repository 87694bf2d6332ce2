"""Tokens around their mean and in units of their spread, learned from the data that are learned from."""

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
# Directions with less than this share of the largest variance are left out by whitening.
_FLAT = 1e-8
# Deviations, in units of the largest value, that are rounding.
_DUST = 1e-13
# Numbers that are centred at once.
_NUMBERS = 2**20


@dataclass(frozen=True)
class Scaling:
    r"""The map :math:`X' = A\,(X - M)\,B` of the tokens of a sample: it keeps the rank of what sees them.

    Attributes:
        mean: ``M``, shape (L, d), or (1, d) for one of all tokens.
        rows: ``A``, shape (L, L), or its diagonal, of shape (1,) for one number of all tokens.
        columns: ``B``, shape (d, d), or its diagonal.
    """

    mean: Array
    rows: Array
    columns: Array

    def apply(self, given: Sequences) -> Array:
        """Scaled tokens, shape (n, L, d), zero where there is none, in the precision that was given."""
        x = np.empty_like(given.values)
        # Differences in double precision, one copy: inputs may be large, and their mean far from zero.
        np.subtract(given.values, self.mean, out=x, casting="same_kind")
        rows, columns, there = (part.astype(x.dtype) for part in (self.rows, self.columns, given.there))
        x *= there[:, :, None]
        if rows.ndim == 1 and columns.ndim == 1:
            x *= rows[:, None] * columns
            return x
        x = np.einsum("ab,nbd->nad", rows, x) if rows.ndim == 2 else x * rows[:, None]
        return np.asarray(x @ columns if columns.ndim == 2 else x * columns)

    def back(self, signal: Array) -> Array:
        """What sees tokens as this signal, shape (L, d), sees scaled ones."""
        left = self.rows.T @ signal if self.rows.ndim == 2 else self.rows[:, None] * signal
        return np.asarray(left @ self.columns.T if self.columns.ndim == 2 else left * self.columns)


def learned(given: Sequences, weights: Array, scale: str, by_position: bool) -> Scaling:
    """The scaling of these data.

    Args:
        given: data to learn from.
        weights: of the samples, shape (n,).
        scale: ``"features"`` for units of the standard deviations of features and of tokens, ``"whiten"`` for
            uncorrelated features and tokens, ``"none"`` for one unit of all entries.
        by_position: whether tokens have means and scales of their own.

    Raises:
        ParameterError: there is no such scale.
    """
    if scale not in SCALES:
        raise ParameterError("scale", scale, f"one of {', '.join(SCALES)}")
    share = (weights[:, None] * given.there)[:, :, None]
    share = np.broadcast_to(share, (*given.values.shape[:2], 1))
    axes: tuple[int, ...] = (0,) if by_position else (0, 1)
    total = np.maximum(share.sum(axis=axes, keepdims=True), 1e-300)
    add = "nlk,nld->ld" if by_position else "nlk,nld->d"
    mean = np.einsum(add, share, given.values).reshape(-1, given.values.shape[2]) / total[0]
    length, d = given.values.shape[1:]
    counted = float(share.sum())
    features: Any = sum(np.einsum("nld,nle->de", part, part, optimize=True) for part in _centred(given, share, mean))
    # Features that do not vary but for the rounding of their mean are left out.
    flat = np.diag(features) <= counted * (_DUST * np.max(np.abs(given.values), axis=(0, 1))) ** 2
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
    """Tokens around their mean, times the roots of their shares, of a few samples at a time: inputs may be large."""
    count = max(1, _NUMBERS // int(np.prod(given.values.shape[1:])))
    for start in range(0, len(given.values), count):
        where = slice(start, start + count)
        yield (given.values[where] - mean) * np.sqrt(share[where])


def _inverse_root(covariance: Array, scale: str) -> Array:
    """Of a covariance, or of its diagonal; what does not vary stays as it is."""
    if scale == "features":
        spread = np.sqrt(np.diag(covariance))
        return 1 / np.where(spread > np.sqrt(_FLAT) * max(float(spread.max()), 1e-300), spread, 1.0)
    values, vectors = eigh(covariance)
    seen = values > _FLAT * max(float(values[-1]), 1e-300)
    return np.asarray((vectors[:, seen] / np.sqrt(values[seen])) @ vectors[:, seen].T)
