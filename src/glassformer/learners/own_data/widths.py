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

from glassformer.core.integral import Array


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
        finest: differences of moments, which are logarithms, that tell anything: without noise those of widths of a few
            hardly fluctuate.
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
    finest: float = 1e-4
    misfit: float = 8.0


SEARCH = Search()


class Width(NamedTuple):
    """What singular values say of the width.

    Attributes:
        value: median of its posterior.
        interval: of 95 per cent.
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
    means, spreads = [], []
    for width in widths:
        sample = np.array([drawn(int(width)) for _ in range(SEARCH.draws)])
        means.append(sample.mean(axis=0))
        spreads.append(np.cov(sample.T) + SEARCH.finest**2 * np.eye(sample.shape[1]))
    fine = np.geomspace(widths[0], widths[-1], SEARCH.fine)
    place = np.log(widths)
    mean = CubicSpline(place, np.array(means))(np.log(fine))
    flat = np.array(spreads).reshape(len(widths), -1)
    spread = np.array([np.interp(np.log(fine), place, column) for column in flat.T]).T.reshape(
        SEARCH.fine, *spreads[0].shape
    )
    away = found - mean
    distance = np.einsum("ki,ki->k", away, np.linalg.solve(spread, away[..., None])[..., 0])
    chance = -0.5 * distance - 0.5 * np.linalg.slogdet(spread)[1]
    posterior = np.exp(chance - chance.max())
    total = np.cumsum(posterior) / posterior.sum()
    low, middle, high = np.interp([0.025, 0.5, 0.975], total, fine)
    # Widths are whole numbers: what lies within half of one cannot be told apart.
    interval = (float(min(low, middle - 0.5)), float(max(high, middle + 0.5)))
    return Width(float(middle), interval, float(distance[np.argmax(chance)]) / len(found))


def even_moments(values: Array, orders: tuple[int, ...]) -> Array:
    """Logarithms of moments of even order in units of the second one.

    Example:
        >>> even_moments(np.array([1.0, -1.0]), (4, 6))
        array([0., 0.])
    """
    square = np.mean(values**2)
    return np.log([np.mean(values**k) / square ** (k / 2) for k in orders])
