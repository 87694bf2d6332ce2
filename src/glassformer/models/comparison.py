"""Comparison of an estimate with the true signal, and test samples for the prediction of labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from glassformer.channels.fields import Fields
from glassformer.channels.label_errors import NewSamples
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.estimate import Array
from glassformer.core.random_streams import random_stream
from glassformer.priors.base import Prior
from glassformer.priors.signals import mean_rows

# Number of test samples: the standard error of a label error is below 0.8 % (a convention).
_NEW_SAMPLES = 4096


@dataclass(frozen=True)
class NewInputs:
    """Inputs of a test set, the same for every estimate.

    Attributes:
        design: design of the model at its size.
        shape: shape of the input of one sample.
        seed: seed of the inputs.
        law: law of the fields along the true rows; normal by default.

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
    law: Fields = field(default_factory=Fields)

    def samples(self, estimate: Array, truth: Array) -> NewSamples:
        """Return the fields of an estimate and of the truth, shape ``(P, *row_shape)``, on the test inputs."""
        rng = random_stream(*self.seed)
        signals = np.stack([estimate, truth])
        estimated, fields = self.design.new_fields(signals, self.shape, _NEW_SAMPLES, rng)
        if self.law.sources:
            own, true = (one @ truth.T / truth.shape[1] for one in (estimate, truth))
            shifts = self.law.shifts(fields, rng.standard_normal((len(fields), self.law.sources)), true)
            estimated, fields = estimated + own @ shifts, fields + true @ shifts
        deviations = rng.standard_normal((len(fields), 2, *fields.shape[1:]))
        return NewSamples(estimated, fields, deviations)


class Inner(NamedTuple):
    """Inner products of rows per degree of freedom, shape (P, P) each; they determine errors on labels in the limit.

    Attributes:
        estimated: inner products of the estimated rows.
        cross: inner products of estimated with true rows.
        true: inner products of the true rows.
        claimed: posterior covariance that the estimate claims.
    """

    estimated: Array
    cross: Array
    true: Array
    claimed: Array


class Comparison(NamedTuple):
    """Comparison of an estimate with the signal, up to the symmetries of the labels.

    Attributes:
        estimate: the estimate as given, shape ``(P, *row_shape)``.
        signal: the true signal, same shape.
        alignment: signs, permutation or rotation that aligns the estimated rows with the signal, shape (P, P).
        inner: inner products of the rows as given.
        errors: ``error`` and ``prior_error``.
        row_columns: ``row_error``, ``overlap`` and ``cosine``.
    """

    estimate: Array
    signal: Array
    alignment: Array
    inner: Inner
    errors: dict[str, Any]
    row_columns: dict[str, Any]


def compare(
    prior: Prior, symmetries: RowSymmetries, estimate: Array, signal: Array, variance: Array | None = None
) -> Comparison:
    """Return the comparison of an estimate with the signal.

    Args:
        prior: the prior of the signal.
        symmetries: the symmetries of the labels.
        estimate: the estimate of the signal.
        signal: the true signal.
        variance: claimed posterior covariance, shape (P, P); zero by default.
    """
    row_shape = signal.shape[bool(prior.overlap_shape) :]
    shape = (prior.rows, *row_shape)
    estimated, true = estimate.reshape(shape), signal.reshape(shape)
    cross = prior.gram(estimated, true)
    alignment = symmetries.alignment(cross, prior.rotational)
    difference, deviation = np.tensordot(alignment, estimated, axes=1) - true, true - mean_rows(prior, row_shape)
    row_error = np.diag(prior.gram(difference, difference))
    prior_error = float(np.mean(np.diag(prior.gram(deviation, deviation))))
    claimed = np.zeros_like(cross) if variance is None else np.reshape(variance, cross.shape)
    inner = Inner(prior.gram(estimated, estimated), cross, prior.gram(true, true), claimed)
    squared_norms = np.diag(alignment @ inner.estimated @ alignment.T) * np.diag(inner.true)
    overlap = alignment @ cross
    cosine = np.diag(overlap) / np.sqrt(np.maximum(squared_norms, 1e-300))
    errors = {"error": float(np.mean(row_error)), "prior_error": prior_error}
    row_columns = {"row_error": row_error, "overlap": overlap, "cosine": cosine}
    return Comparison(estimated, true, alignment, inner, errors, row_columns)
