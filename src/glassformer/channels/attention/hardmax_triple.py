r"""Hardmax attention of three tokens: the posterior by one-dimensional integrals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from glassformer.channels.attention.hardmax_sampled import HardmaxChannel
from glassformer.channels.sampled import SampledPosterior
from glassformer.channels.scalar.base import Array
from glassformer.numerics.normal import inverse_mills_ratio

# Components of the indices off and on the diagonal. For each index off the diagonal: its two rows, and the third row.
_OFF, _OWN = (1, 2, 4), (0, 3, 5)
_ENDS, _OPPOSITE = ((0, 1), (0, 2), (1, 2)), (2, 1, 0)


# Gauss nodes of a panel, standard deviations that panels cover, their largest width in units of sqrt(V), and the fewest
# and most panels (by trial: the probabilities of all labels add up to one within 1e-6).
_NODES, _REACH, _WIDEST, _PANELS = 8, 7.0, 1.2, (12, 48)


@dataclass(frozen=True)
class HardmaxTripleChannel(HardmaxChannel):
    r"""Hardmax attention :math:`y_a = \mathrm{argmax}_b\,h_{ab}` of ``T = 3`` tokens.

    Order the indices off the diagonal, :math:`x_1 > x_2 > x_3`. The two rows that contain :math:`x_1` have it as their
    largest other index, the third row has :math:`x_2`, and :math:`x_3` enters through
    :math:`\Phi((x_2 - \omega_3)/\sqrt V)` only. Each ordering compatible with the label is
    :math:`\int f(x_1) \int^{x_1} k(x_2)`: one grid of Gauss panels with cumulative sums. Averages over labels and
    fields are sampled as for more tokens. So are posteriors of labels that are so unlikely that all orderings
    underflow.

    Raises:
        DataError: no symmetric matrix has these labels.

    Example:
        >>> channel = HardmaxTripleChannel(tokens=3)
        >>> log_z = channel.log_partition(np.array([[0.0, 1.0, 2.0]]), np.zeros((1, 6)), 1.0)
        >>> bool(0.06 < np.exp(log_z[0]) < 0.07)  # all three rows attend to themselves
        True
    """

    def _block(self, y: NDArray[np.intp], omega: Array, v: Array, uniform: Array) -> SampledPosterior:
        log_z, score, curvature = _integrals(y, omega, np.sqrt(v[:, 0]))
        lost = ~np.isfinite(log_z)
        if not np.any(lost):
            return SampledPosterior(score, score, curvature, log_z)
        sampled = super()._block(y[lost], omega[lost], v[lost], uniform[lost])
        for part, value in zip((score, curvature, log_z), (sampled.score, *sampled[2:4]), strict=True):
            part[lost] = value
        return SampledPosterior(score, score, curvature, log_z)


def _integrals(y: NDArray[np.intp], omega: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Return log partition, score and minus its divergence. The log partition is -inf if every ordering underflows."""
    off, own = omega[:, _OFF], np.sqrt(2) * omega[:, _OWN]
    grid, weight, panel = _grid(np.concatenate([off, own], axis=1), scale)
    sign = np.where(y == np.arange(3), 1.0, -1.0)
    sigma = scale[:, None, None]
    a = sign[:, :, None] * (own[:, :, None] - grid[:, None]) / (np.sqrt(2) * sigma)
    ratio = inverse_mills_ratio(a)
    row, row_slope, row_bend = log_ndtr(a), sign[:, :, None] * ratio, a * ratio
    t = (grid[:, None] - off[:, :, None]) / sigma
    density, below = -0.5 * t**2 - 0.5 * np.log(2 * np.pi) - np.log(sigma), log_ndtr(t)
    below_mills = inverse_mills_ratio(t)
    outer = {p: density[:, p] + sum(row[:, i] for i in _ENDS[p]) for p in range(3)}
    orders = list(itertools.permutations(range(3), 2))
    inner = {(p, q): density[:, q] + row[:, _OPPOSITE[p]] + below[:, 3 - p - q] for p, q in orders}
    tops = [np.max([np.max(part, axis=1) for part in parts.values()], axis=0) for parts in (outer, inner)]
    total = np.zeros(len(y))
    # First and second moments of the deviations off the diagonal, first and second derivatives of the rows.
    mean, square, slope, bend = (np.zeros((len(y), 3)) for _ in range(4))
    for p, q in orders:
        r, k, ends = 3 - p - q, _OPPOSITE[p], _ENDS[p]
        allowed = _compatible(y, ends[0], ends[1]) & _compatible(y, ends[1], ends[0])
        allowed &= _compatible(y, k, next(i for i in _ENDS[q] if i != k))
        if not np.any(allowed):
            continue
        f = weight * np.exp(outer[p] - tops[0][:, None]) * allowed[:, None]
        g = np.exp(inner[p, q] - tops[1][:, None])
        third = below_mills[:, r]
        parts = np.stack(
            [
                g,
                g * t[:, q],
                g * t[:, q] ** 2,
                -g * third,
                g * (1 - t[:, r] * third),
                g * row_slope[:, k],
                g * row_bend[:, k],
            ],
            axis=1,
        )
        inner_integrals = _cumulative(parts, panel)
        integrals = np.einsum("nm,nkm->nk", f, inner_integrals)
        weighted = f * inner_integrals[:, 0]
        total += integrals[:, 0]
        mean[:, p] += np.sum(weighted * t[:, p], axis=1)
        square[:, p] += np.sum(weighted * t[:, p] ** 2, axis=1)
        mean[:, q] += integrals[:, 1]
        square[:, q] += integrals[:, 2]
        mean[:, r] += integrals[:, 3]
        square[:, r] += integrals[:, 4]
        slope[:, k] += integrals[:, 5]
        bend[:, k] += integrals[:, 6]
        for i in ends:
            slope[:, i] += np.sum(weighted * row_slope[:, i], axis=1)
            bend[:, i] += np.sum(weighted * row_bend[:, i], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, square, slope, bend = (x / total[:, None] for x in (mean, square, slope, bend))
        log_z = np.log(total) + tops[0] + tops[1]
        curvature = np.sum(1 - (square - mean**2), axis=1) + np.sum(slope**2 + bend, axis=1)
    score = np.empty_like(omega)
    score[:, _OFF] = mean / scale[:, None]
    # A row's index has variance 2V, its component that of V: both factors of sqrt(2) cancel.
    score[:, _OWN] = slope / scale[:, None]
    return log_z, score, curvature / scale**2


def _compatible(y: NDArray[np.intp], row: int, other: int) -> NDArray[np.bool_]:
    """Return whether a label is ``other``, the position of the largest index off the diagonal, or the row itself."""
    return np.asarray((y[:, row] == row) | (y[:, row] == other))


def _grid(centres: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Return Gauss nodes from seven standard deviations below all centres to seven above, weights, and panel widths."""
    low, high = np.min(centres, axis=1) - _REACH * scale, np.max(centres, axis=1) + _REACH * scale
    count = int(np.clip(np.ceil(np.max((high - low) / scale) / _WIDEST), *_PANELS))
    x, w, _ = _rule()
    width = (high - low) / count
    starts = low[:, None] + width[:, None] * np.arange(count)
    grid = (starts[:, :, None] + width[:, None, None] * x).reshape(len(centres), -1)
    return grid, width[:, None] * np.tile(w, count), width


@lru_cache(maxsize=1)
def _rule() -> tuple[Array, Array, Array]:
    """Return nodes and weights on (0, 1), and the matrix that integrates an interpolant from 0 to each node."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    x, w = 0.5 * (x + 1), 0.5 * w
    powers = np.arange(_NODES)
    upto = x[:, None] ** (powers + 1) / (powers + 1)
    return x, w, upto @ np.linalg.inv(x[:, None] ** powers)


def _cumulative(values: Array, width: Array) -> Array:
    """Return the integrals from the left end to every node, over the last axis of panels of nodes."""
    _, w, inside = _rule()
    panels = values.reshape(*values.shape[:-1], -1, _NODES)
    whole = panels @ w
    before = np.cumsum(whole, axis=-1) - whole
    return np.asarray((before[..., None] + panels @ inside.T).reshape(values.shape) * width[:, None, None])
