r"""Posterior of the width of a signal seen through noise, from moments of its singular values or eigenvalues.

The moments of random matrices of every width are approximately Gaussian, with a mean and a covariance that are
estimated by sampling; their likelihood gives the posterior of the width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from glassformer.core.estimate import Array

# Sampled widths per factor of two, random matrices per width, and points of the posterior (chosen by trial).
_PER_OCTAVE, _SAMPLES, _POINTS = 2, 48, 400
# Probability of the interval (a convention).
_COVERAGE = 0.95
# Standard deviation that is added to the logarithms of moments, which hardly fluctuate for small widths without noise
# (chosen by trial).
_RESOLUTION = 1e-4


class Width(NamedTuple):
    """Estimated width.

    Attributes:
        value: median of the posterior; NaN where moments are not finite.
        interval: of 95 %: the interval of the posterior, together with all widths whose likelihood relative to the best
            width is not below that of random matrices of this width (Feldman and Cousins, Phys. Rev. D 57, 3873). For
            weak signals the posterior interval alone would not contain the end of the range.
        misfit: mean squared distance of the moments from those of the best width, in standard deviations.
    """

    value: float
    interval: tuple[float, float]
    misfit: float


def estimate_width(moments: Array, largest: float, sample: Callable[[int], Array]) -> Width:
    """Return the estimated width.

    Args:
        moments: of the observed matrix.
        largest: largest width that is considered.
        sample: returns the moments of a new random matrix of a width.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> def sample(width):
        ...     product = rng.standard_normal((20, width)) @ rng.standard_normal((width, 20))
        ...     return even_moments(np.linalg.svd(product, compute_uv=False), (4, 6))
        >>> width = estimate_width(sample(5), 80, sample)
        >>> bool(width.interval[0] < 5 < width.interval[1])
        True
    """
    widths = np.unique(np.rint(2 ** np.arange(0, np.log2(largest) + 0.5, 1 / _PER_OCTAVE)).astype(int))
    samples = np.array([[sample(int(width)) for _ in range(_SAMPLES)] for width in widths])
    if not (np.isfinite(moments).all() and np.isfinite(samples).all()):
        return Width(np.nan, (np.nan, np.nan), np.inf)
    fine = np.geomspace(widths[0], widths[-1], _POINTS)
    law = _MomentLaw.of(samples, np.log(widths), np.log(fine))
    distance, log_likelihood = law.log_likelihood(moments)
    relative = log_likelihood - log_likelihood.max()
    posterior = np.exp(relative)
    rest = 0.5 * (1 - _COVERAGE)
    low, median, high = np.interp([rest, 0.5, 1 - rest], np.cumsum(posterior) / posterior.sum(), fine)
    allowed = fine[relative >= law.critical_ratio(samples)]
    # Widths are integers: differences below one half cannot be resolved.
    ends = np.min(allowed, initial=min(low, median - 0.5)), np.max(allowed, initial=max(high, median + 0.5))
    misfit = float(distance[np.argmax(log_likelihood)]) / len(moments)
    return Width(float(median), (float(ends[0]), float(ends[1])), misfit)


class _MomentLaw(NamedTuple):
    """Gaussian law of the moments at every width.

    Attributes:
        sampled: logarithms of the sampled widths, shape (W,).
        fine: logarithms of all widths, shape (F,).
        mean: shape (F, k).
        covariance: shape (F, k, k).
    """

    sampled: Array
    fine: Array
    mean: Array
    covariance: Array

    @classmethod
    def of(cls, samples: Array, sampled: Array, fine: Array) -> _MomentLaw:
        """Return the law from moments of random matrices, shape (W, samples, k)."""
        count = samples.shape[2]
        covariances = np.array([np.cov(sample.T) for sample in samples]) + _RESOLUTION**2 * np.eye(count)
        columns = [np.interp(fine, sampled, column) for column in covariances.reshape(len(sampled), -1).T]
        mean = CubicSpline(sampled, samples.mean(axis=1))(fine)
        return cls(sampled, fine, mean, np.array(columns).T.reshape(len(fine), count, count))

    def log_likelihood(self, moments: Array) -> tuple[Array, Array]:
        """Return squared distances, and log-likelihoods up to a constant, of moments of shape (..., k): (..., F)."""
        difference = moments[..., None, :] - self.mean
        distance = np.einsum("...fi,fij,...fj->...f", difference, np.linalg.inv(self.covariance), difference)
        return distance, -0.5 * distance - 0.5 * np.linalg.slogdet(self.covariance)[1]

    def critical_ratio(self, samples: Array) -> Array:
        """Return the log-likelihood ratio of the true to the best width that 95 % of the samples of a width exceed.

        Intervals of the widths above this ratio contain the true width with the same probability, also at the ends of
        the range.
        """
        log_likelihood = self.log_likelihood(samples)[1]
        own = np.argmin(np.abs(self.fine - self.sampled[:, None]), axis=1)
        ratio = log_likelihood[np.arange(len(own)), :, own] - log_likelihood.max(axis=2)
        return np.interp(self.fine, self.sampled, np.quantile(ratio, 1 - _COVERAGE, axis=1))


def even_moments(values: Array, orders: tuple[int, ...]) -> Array:
    """Return logarithms of moments of even order in units of the second moment.

    Example:
        >>> even_moments(np.array([1.0, -1.0]), (4, 6))
        array([0., 0.])
    """
    # In units of the largest value, so that powers do not overflow.
    values = values / max(float(np.abs(values).max()), np.finfo(float).tiny)
    square = np.mean(values**2)
    return np.log([np.mean(values**k) / square ** (k / 2) for k in orders])
