"""Denoiser of singular values from their empirical law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import dawsn

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array


@dataclass(frozen=True)
class EstimatedLaw:
    r"""Denoiser of singular values whose law is estimated from the singular values of one noisy matrix.

    Equation :eq:`estimated-law` of the documentation.

    The Bayes-optimal denoiser of :class:`~glassformer.random_matrices.rectangular.RectangularLaw`, :math:`\hat s = s -
    (2R/\sqrt\beta)[(\beta-1)/(2s) + h(s)]`, depends on the law of the signal through ``h`` alone. Here ``h`` is the
    Hilbert transform of the ``p`` singular values and their mirror images, each smeared out to a Gaussian:

    .. math:: h(s) = \frac1{2p}\sum_j\bigl[k(s-s_j) + k(s+s_j)\bigr], \qquad
       k(x) = \frac{\sqrt2}w\,D\Bigl(\frac x{\sqrt2\,w}\Bigr), \qquad w = c\,\sqrt{R/(p\sqrt\beta)},

    with Dawson's function ``D``. The width ``w`` is ``c`` times the standard deviation of one entry of the noise: it
    contains many singular values, but a vanishing part of the law. Results are limited to the interval from 0 to ``s``.

    Args:
        beta: ratio of the longer side to the shorter one, at least 1.
        noise: noise level :math:`R > 0`.
        smoothing: ``c > 0``.

    Raises:
        ParameterError: an argument is out of range.

    Source: derived here, by the kernel of :math:`h` from the denoiser of arXiv:2410.18858.

    Example:
        >>> signal = np.random.default_rng(0).standard_normal((60, 60))  # noise alone: nothing is left
        >>> s = np.linalg.svd(signal / np.sqrt(60), compute_uv=False)
        >>> denoised, _ = EstimatedLaw(beta=1.0, noise=1.0).shrinkage(s)
        >>> bool(np.sum(denoised**2) < 0.02 * np.sum(s**2))
        True
    """

    beta: float
    noise: float
    smoothing: float = 2.0

    def __post_init__(self) -> None:
        for name, least in (("beta", 1.0), ("noise", 0.0), ("smoothing", 0.0)):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= least and value > 0):
                raise ParameterError(name, value, "finite and >= 1" if least else "finite and > 0")

    def shrinkage(self, s: ArrayLike) -> tuple[Array, Array]:
        """Return the denoised singular values and the derivative of each in itself, including its share in the law.

        Args:
            s: all singular values of the matrix, positive, shape (p,).
        """
        s = np.asarray(s, dtype=float)
        width = self.smoothing * np.sqrt(self.noise / (len(s) * np.sqrt(self.beta)))
        (direct, slope_direct), (mirrored, slope_mirrored) = (
            _kernel(x, width) for x in (s[:, None] - s, s[:, None] + s)
        )
        # A value moves its own atom of the law, and its mirror image in the opposite direction.
        np.fill_diagonal(slope_direct, 0.0)
        h = (direct + mirrored).sum(axis=1) / (2 * len(s))
        h_slope = ((slope_direct + slope_mirrored).sum(axis=1) + np.diag(slope_mirrored)) / (2 * len(s))
        strength, wall = 2 * self.noise / np.sqrt(self.beta), (self.beta - 1) / 2
        denoised = s - strength * (wall / s + h)
        slope = 1 - strength * (h_slope - wall / s**2)
        return np.clip(denoised, 0.0, s), np.where(denoised < 0, 0.0, np.where(denoised > s, 1.0, slope))


def _kernel(x: Array, width: float) -> tuple[Array, Array]:
    """Return the Hilbert transform of a normal density of standard deviation ``width``, and its derivative."""
    t = x / (np.sqrt(2) * width)
    found = dawsn(t)
    return np.sqrt(2) / width * found, (1 - 2 * t * found) / width**2
