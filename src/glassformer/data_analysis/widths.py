r"""The width that a signal seen through noise speaks for, by a few moments of its singular values or eigenvalues.

Moments of drawn matrices of every width are Gaussian, of a mean and a covariance that are measured; the likelihood of
those that were found is the posterior of the width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from glassformer.core.estimate import Array


@dataclass(frozen=True)
class Search:
    """How the width is looked for.

    Attributes:
        rounds: of denoising and estimating.
        failures: rounds in a row whose message passing never stopped, after which there are no more.
        per_octave: widths per factor of two that are looked at.
        draws: drawn matrices per width.
        fine: points of the posterior of the width.
        narrowest: singular values that tell anything.
        widest: widths above this many dimensions are as good as infinite.
        faintest: powers below this share of the labels' are none.
        confidence: standard deviations of an interval of 95 per cent.
        held: how often the interval of the width is to hold it.
        finest: differences of moments, which are logarithms, that tell anything: without noise those of widths of a few
            hardly fluctuate.
        noises: drawn matrices of noise alone, whose largest singular value a direction of the signal has to exceed.
        misfit: mean squared distance of moments, in standard deviations, from those of the best width, above which no
            width has them.
    """

    rounds: int = 4
    failures: int = 2
    per_octave: int = 2
    draws: int = 48
    fine: int = 400
    narrowest: int = 4
    widest: float = 4.0
    faintest: float = 1e-3
    confidence: float = 2.0
    held: float = 0.95
    finest: float = 1e-4
    noises: int = 20
    misfit: float = 8.0


SEARCH = Search()


class Width(NamedTuple):
    """What singular values say of the width.

    Attributes:
        value: median of its posterior; NaN of moments that are no numbers.
        interval: of 95 per cent, that of the posterior, and all widths that are no less likely, against the best one,
            than those of drawn matrices are: a posterior of widths above one alone leaves that end out where the signal
            is faint (Feldman and Cousins, Phys. Rev. D 57, 3873).
        misfit: mean squared distance of the moments from those of the best width, in standard deviations.
    """

    value: float
    interval: tuple[float, float]
    misfit: float


def width_of(found: Array, largest: float, drawn: Callable[[int], Array]) -> Width:
    """The posterior of the width.

    Args:
        found: moments of the matrix.
        largest: width that is looked at.
        drawn: moments of a matrix of a width, drawn anew at every call.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> def drawn(width):
        ...     product = rng.standard_normal((20, width)) @ rng.standard_normal((width, 20))
        ...     return even_moments(np.linalg.svd(product, compute_uv=False), (4, 6))
        >>> found = width_of(drawn(5), 80, drawn)
        >>> bool(found.interval[0] < 5 < found.interval[1])
        True
    """
    widths = np.unique(np.rint(2 ** np.arange(0, np.log2(largest) + 0.5, 1 / SEARCH.per_octave)).astype(int))
    samples = np.array([[drawn(int(width)) for _ in range(SEARCH.draws)] for width in widths])
    if not (np.isfinite(found).all() and np.isfinite(samples).all()):
        return Width(np.nan, (np.nan, np.nan), np.inf)
    fine = np.geomspace(widths[0], widths[-1], SEARCH.fine)
    law = _Moments.of(samples, np.log(widths), np.log(fine))
    distance, chance = law.told(found)
    posterior = np.exp(chance - chance.max())
    rest = 0.5 * (1 - SEARCH.held)
    low, middle, high = np.interp([rest, 0.5, 1 - rest], np.cumsum(posterior) / posterior.sum(), fine)
    allowed = fine[chance - chance.max() >= law.usual(samples)]
    # Widths are whole numbers: what lies within half of one cannot be told apart.
    ends = np.min(allowed, initial=min(low, middle - 0.5)), np.max(allowed, initial=max(high, middle + 0.5))
    interval = (float(ends[0]), float(ends[1]))
    return Width(float(middle), interval, float(distance[np.argmax(chance)]) / len(found))


class _Moments(NamedTuple):
    """The Gaussian law of the moments at every width.

    Attributes:
        drawn: logarithms of the widths that were drawn, shape (W,).
        fine: logarithms of all widths, shape (F,).
        mean: shape (F, k).
        spread: covariances, shape (F, k, k).
    """

    drawn: Array
    fine: Array
    mean: Array
    spread: Array

    @classmethod
    def of(cls, samples: Array, drawn: Array, fine: Array) -> _Moments:
        """From moments of drawn matrices, shape (W, draws, k)."""
        count = samples.shape[2]
        spreads = np.array([np.cov(sample.T) for sample in samples]) + SEARCH.finest**2 * np.eye(count)
        columns = [np.interp(fine, drawn, column) for column in spreads.reshape(len(drawn), -1).T]
        mean = CubicSpline(drawn, samples.mean(axis=1))(fine)
        return cls(drawn, fine, mean, np.array(columns).T.reshape(len(fine), count, count))

    def told(self, found: Array) -> tuple[Array, Array]:
        """Squared distances, and log-likelihoods up to a constant, of moments of shape (..., k): (..., F)."""
        away = found[..., None, :] - self.mean
        distance = np.einsum("...fi,fij,...fj->...f", away, np.linalg.inv(self.spread), away)
        return distance, -0.5 * distance - 0.5 * np.linalg.slogdet(self.spread)[1]

    def usual(self, samples: Array) -> Array:
        """By how much less likely than the best width the true one is, in all but one of twenty draws of each width.

        An interval of widths below this holds the true one as often, also at the ends of the range.
        """
        chance = self.told(samples)[1]
        own = np.argmin(np.abs(self.fine - self.drawn[:, None]), axis=1)
        behind = chance[np.arange(len(own)), :, own] - chance.max(axis=2)
        return np.interp(self.fine, self.drawn, np.quantile(behind, 1 - SEARCH.held, axis=1))


def even_moments(values: Array, orders: tuple[int, ...]) -> Array:
    """Logarithms of moments of even order in units of the second one.

    Example:
        >>> even_moments(np.array([1.0, -1.0]), (4, 6))
        array([0., 0.])
    """
    # In units of the largest, whose powers are numbers.
    values = values / max(float(np.abs(values).max()), np.finfo(float).tiny)
    square = np.mean(values**2)
    return np.log([np.mean(values**k) / square ** (k / 2) for k in orders])
