"""The denoiser of a noisy matrix: it keeps singular vectors, or eigenvectors, and shrinks the values.

With the Onsager coefficients of both kinds, the mean derivative of the denoiser at this very matrix.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import eigh, svd_by_squares


class Shrinker(Protocol):
    """The law of the values of a noisy matrix, as a denoiser uses it."""

    def shrinkage(self, s: Array) -> tuple[Array, Array]:
        """Return the denoised values, and their derivative."""


def shrink_rectangular(law: Shrinker, field: Array, precision: float) -> tuple[Array, float]:
    """Return :math:`Y` from :math:`A Y` with shrunk singular values, and the Onsager coefficient: divergence over A."""
    left, s, right = svd_by_squares(field / precision)
    scale = np.sqrt(np.sqrt(field.size))
    positive = np.maximum(s / scale, np.finfo(float).tiny)
    shrunk, slope = law.shrinkage(positive)
    signal = (left * (shrunk * scale)) @ right
    excess = abs(field.shape[0] - field.shape[1])
    return signal, rectangular_divergence(positive, shrunk, slope, excess) / precision


def shrink_symmetric(law: Shrinker, field: Array, precision: float) -> tuple[Array, float]:
    """Return symmetric :math:`Y` from :math:`A Y` with shrunk eigenvalues, and the Onsager coefficient."""
    values, vectors = eigh(field / precision)
    shrunk, slope = law.shrinkage(values)
    return (vectors * shrunk) @ vectors.T, symmetric_divergence(values, shrunk, slope) / precision


def rectangular_divergence(s: Array, shrunk: Array, slope: Array, excess: int) -> float:
    r"""Return the mean derivative of a matrix shrinkage in its argument, at this very matrix.

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
    r"""Return the mean derivative of a spectral function of a symmetric matrix in its argument, at this very matrix.

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
