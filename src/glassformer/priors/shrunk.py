"""Matrices seen through noise, with known singular vectors or eigenvectors: their values shrunk by a law."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.decompositions import eigh, svd
from glassformer.priors.base import SignalEstimate


class Shrinker(Protocol):
    """What a denoiser needs of the law of the values of a noisy matrix."""

    def shrinkage(self, s: Array) -> tuple[Array, Array]:
        """What is made of values, and its derivative."""


class Shrinkage(Shrinker, Protocol):
    """What is needed of one that knows what error it leaves."""

    def mmse(self) -> Estimate:
        """The error that is left, shape (1,)."""


def shrunk_rectangular(law: Shrinkage, field: Array, precision: float) -> SignalEstimate:
    r"""Posterior mean of ``S`` from :math:`A Y`, of shape (L, d), at precision :math:`A > 0`."""
    signal, onsager = spectral_rectangular(law, field, precision)
    return SignalEstimate(signal, float(law.mmse().value[0]), onsager)


def spectral_rectangular(law: Shrinker, field: Array, precision: float) -> tuple[Array, float]:
    """The matrix :math:`Y` with its singular values shrunk, and the Onsager coefficient: divergence over precision."""
    left, s, right = svd(field / precision)
    scale = np.sqrt(np.sqrt(field.size))
    positive = np.maximum(s / scale, np.finfo(float).tiny)
    shrunk, slope = law.shrinkage(positive)
    signal = (left * (shrunk * scale)) @ right
    excess = abs(field.shape[0] - field.shape[1])
    return signal, rectangular_divergence(positive, shrunk, slope, excess) / precision


def shrunk_symmetric(law: Shrinkage, field: Array, precision: float) -> SignalEstimate:
    r"""Posterior mean of a symmetric ``S`` from :math:`A Y`, of shape (d, d), at precision :math:`A > 0`."""
    values, vectors = eigh(field / precision)
    shrunk, slope = law.shrinkage(values)
    onsager = symmetric_divergence(values, shrunk, slope) / precision
    return SignalEstimate((vectors * shrunk) @ vectors.T, float(law.mmse().value[0]), onsager)


def rectangular_divergence(s: Array, shrunk: Array, slope: Array, excess: int) -> float:
    r"""Mean derivative of a matrix shrinkage in its argument, at this very matrix.

    For singular values :math:`s_i \to f_i` of a matrix with ``excess`` more columns than rows (or rows than columns),

    .. math:: \mathrm{div} = \sum_i \Bigl[f'_i + \mathrm{excess}\,\frac{f_i}{s_i}\Bigr]
       + \sum_{i\ne j} \frac{s_i f_i - s_j f_j}{s_i^2 - s_j^2},

    per matrix entry; it tends to :math:`\hat q\,\mathrm{MMSE}`. At sizes below a hundred the difference decides
    whether message passing is stable, since the coefficient of the Onsager term must be that of the denoiser applied.
    """
    squares = s**2
    gaps = squares[:, None] - squares
    np.fill_diagonal(gaps, 1.0)
    products = s * shrunk
    # Singular values that coincide to rounding repel in a random matrix; where they do not, the slope stands in.
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = (products[:, None] - products) / gaps
    pairs = np.where(gaps == 0, (slope + shrunk / s) / 2, pairs)
    np.fill_diagonal(pairs, 0.0)
    total = np.sum(slope) + excess * np.sum(shrunk / s) + np.sum(pairs)
    return float(total / (len(s) * (len(s) + excess)))


def symmetric_divergence(values: Array, shrunk: Array, slope: Array) -> float:
    r"""Mean derivative of a spectral function of a symmetric matrix in its argument, at this very matrix.

    .. math:: \frac2{d^2}\Bigl[\sum_i f'_i + \sum_{i<j} \frac{f_i - f_j}{\lambda_i - \lambda_j}\Bigr]

    tends to :math:`\hat q\,\mathrm{MMSE}`; at small sizes the difference decides whether message passing is stable.
    """
    gaps = values[:, None] - values
    np.fill_diagonal(gaps, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = (shrunk[:, None] - shrunk) / gaps
    pairs = np.where(gaps == 0, slope, pairs)
    np.fill_diagonal(pairs, 0.0)
    return float((2 * np.sum(slope) + np.sum(pairs)) / len(values) ** 2)
