"""An estimate beside the true signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glassformer.core.estimate import Array

if TYPE_CHECKING:
    from glassformer.models.base import Model


class Inner(NamedTuple):
    """Inner products of rows, per degree of freedom, shape (P, P) each: all that labels of large sizes depend on.

    Attributes:
        own: of the estimated rows.
        cross: of estimated with true rows.
        true: of true rows.
        claimed: posterior covariance that the estimate claims.
    """

    own: Array
    cross: Array
    true: Array
    claimed: Array


class Comparison(NamedTuple):
    """What an estimate and the signal have in common, after what labels do not see has been undone.

    Attributes:
        estimate: of shape ``(P, *row_shape)``, as it was given.
        signal: the true one, likewise.
        turn: signs, exchanges or rotations of the estimated rows that suit the signal best, shape (P, P).
        inner: products of the rows as they were given.
        errors: ``error`` and ``prior_error``.
        of_rows: ``row_error``, ``overlap`` and ``cosine``.
    """

    estimate: Array
    signal: Array
    turn: Array
    inner: Inner
    errors: dict[str, Any]
    of_rows: dict[str, Any]


def compared(model: Model, estimate: Array, signal: Array, variance: Array | None = None) -> Comparison:
    """Compare an estimate with the signal.

    Args:
        model: of both.
        estimate: of the signal.
        signal: the true one.
        variance: posterior covariance that the estimate claims, shape (P, P); none by default.
    """
    prior = model.prior
    row_shape = signal.shape[bool(model.overlap_shape) :]
    shape = (prior.rows, *row_shape)
    found, true = estimate.reshape(shape), signal.reshape(shape)
    cross = prior.gram(found, true)
    turn = model.channel.row_symmetries.alignment(cross)
    gap, known = np.tensordot(turn, found, axes=1) - true, true - prior.mean_rows(row_shape)
    rows = np.diag(prior.gram(gap, gap))
    errors = {"error": float(np.mean(rows)), "prior_error": float(np.mean(np.diag(prior.gram(known, known))))}
    claimed = np.zeros_like(cross) if variance is None else np.reshape(variance, cross.shape)
    inner = Inner(prior.gram(found, found), cross, prior.gram(true, true), claimed)
    scale = np.diag(turn @ inner.own @ turn.T) * np.diag(inner.true)
    cosine = np.diag(turn @ cross) / np.sqrt(np.maximum(scale, 1e-300))
    of_rows = {"row_error": rows, "overlap": turn @ cross, "cosine": cosine}
    return Comparison(found, true, turn, inner, errors, of_rows)
