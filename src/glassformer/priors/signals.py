"""Signals of a prior in rows, shape (P, ...), as message passing has them, and side information on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.core.estimate import Array
from glassformer.priors.base import Prior, Side, SignalEstimate

# Size of the random start of message passing, for labels that do not depend on signs: of matrices, and of vectors.
_MATRIX_START, _VECTOR_START = 0.1, 1e-3


def signal_shape(prior: Prior, row_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a signal of rows of this shape, as designs take it: rows first, where there are several.

    Example:
        >>> from glassformer.priors.bilinear import GaussianMatrixPrior
        >>> from glassformer.priors.rows import GaussianRowsPrior
        >>> signal_shape(GaussianMatrixPrior(), (3, 4)), signal_shape(GaussianRowsPrior(1), (4,))
        ((3, 4), (1, 4))
    """
    return (*prior.overlap_shape[:1], *row_shape)


def mean_rows(prior: Prior, row_shape: tuple[int, ...]) -> Array:
    """Return the mean of the prior, shape (P, ...), for rows of this shape."""
    return prior.mean(signal_shape(prior, row_shape)).reshape(prior.rows, *row_shape)


def denoise_rows(prior: Prior, field: Array, precision: Array, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
    """Denoise as the prior does, for signals of shape (P, ...) and a precision of shape (P, P)."""
    if prior.overlap_shape:
        return prior.denoise(field, precision, memory)
    found = prior.denoise(field[0], float(precision[0, 0]), memory)
    variance, onsager = np.array([[found.variance]]), np.array([[found.onsager]])
    return SignalEstimate(found.signal[None], variance, onsager, found.memory)


def random_start(prior: Prior) -> float:
    """Return the size of the random start of message passing, for labels that do not depend on signs."""
    return _MATRIX_START if prior.diagonal else _VECTOR_START


def side_observation(prior: Prior, signal: Array, rng: np.random.Generator) -> Side | None:
    """Return side information on a signal; None if there is none."""
    if prior.side == 0:
        return None
    return Side(prior.side, np.sqrt(prior.side) * signal + rng.standard_normal(signal.shape))
