"""Comparison of an estimate with the true signal, and new samples on which labels are predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.channels.label_errors import NewSamples
from glassformer.core.estimate import Array

# New samples on which an estimate is judged: the standard error of a label error is below 0.8 % (a convention).
_NEW_SAMPLES = 4096


@dataclass(frozen=True)
class NewInputs:
    """Inputs of a test set, the same for every estimate.

    Attributes:
        design: of the model, at its size.
        shape: of the input of one sample.
        seed: of the inputs.

    Example:
        >>> from glassformer import AttentionIndexed
        >>> size = AttentionIndexed(rho=0.5, tokens=2, channel="linear").at_size(10)
        >>> teacher = size.model.prior.sample((10, 10), np.random.default_rng(0))
        >>> found = NewInputs(size.design, size.input_shape, (0, 1)).samples(teacher[None], teacher[None])
        >>> found.fields.shape, bool(np.all(found.fields == found.estimated))
        ((4096, 1, 3), True)
    """

    design: Any
    shape: tuple[int, int]
    seed: tuple[int, ...]

    def samples(self, estimate: Array, truth: Array) -> NewSamples:
        """Fields of an estimate and of the truth, shape ``(P, *row_shape)``, on the new inputs."""
        rng = np.random.default_rng(self.seed)
        signals = np.stack([estimate, truth])
        estimated, fields = self.design.new_fields(signals, self.shape, _NEW_SAMPLES, rng)
        deviations = rng.standard_normal((len(fields), 2, *fields.shape[1:]))
        return NewSamples(estimated, fields, deviations)


class Inner(NamedTuple):
    """Inner products of rows per degree of freedom, shape (P, P) each. In the limit labels depend on nothing else.

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
    """Comparison of an estimate with the signal, up to the symmetries of the labels.

    Attributes:
        estimate: the estimate as given, shape ``(P, *row_shape)``.
        signal: the true signal, same shape.
        turn: signs, permutation or rotation that aligns the estimated rows with the signal, shape (P, P).
        inner: inner products of the rows as given.
        errors: ``error`` and ``prior_error``.
        of_rows: ``row_error``, ``overlap`` and ``cosine``.
    """

    estimate: Array
    signal: Array
    turn: Array
    inner: Inner
    errors: dict[str, Any]
    of_rows: dict[str, Any]


def compare(model: Any, estimate: Array, signal: Array, variance: Array | None = None) -> Comparison:
    """Compare an estimate with the signal.

    Args:
        model: the model of both.
        estimate: the estimate of the signal.
        signal: the true signal.
        variance: claimed posterior covariance, shape (P, P); zero by default.
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
