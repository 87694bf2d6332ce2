r"""Hardmax attention of three tokens: the posterior by one-dimensional integrals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

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
    nodes = _at_nodes(y, omega, scale)
    outer = {p: nodes.density[:, p] + sum(nodes.row[:, i] for i in _ENDS[p]) for p in range(3)}
    orders = list(itertools.permutations(range(3), 2))
    inner = {(p, q): nodes.density[:, q] + nodes.row[:, _OPPOSITE[p]] + nodes.below[:, 3 - p - q] for p, q in orders}
    tops = [np.max([np.max(part, axis=1) for part in parts.values()], axis=0) for parts in (outer, inner)]
    sums = [np.zeros(len(y)), *(np.zeros((len(y), 3)) for _ in range(4))]
    for p, q in orders:
        (first, second), k = _ENDS[p], _OPPOSITE[p]
        allowed = _compatible(y, first, second) & _compatible(y, second, first)
        allowed &= _compatible(y, k, next(i for i in _ENDS[q] if i != k))
        if np.any(allowed):
            f = nodes.weight * np.exp(outer[p] - tops[0][:, None]) * allowed[:, None]
            moments = _moments_of_ordering(nodes, p, q, f, np.exp(inner[p, q] - tops[1][:, None]))
            sums = [total + part for total, part in zip(sums, moments, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, square, slope, bend = (part / sums[0][:, None] for part in sums[1:])
        log_z = np.log(sums[0]) + tops[0] + tops[1]
        curvature = np.sum(1 - (square - mean**2), axis=1) + np.sum(slope**2 + bend, axis=1)
    score = np.empty_like(omega)
    score[:, _OFF] = mean / scale[:, None]
    # A row's index has variance 2V, its component that of V: both factors of sqrt(2) cancel.
    score[:, _OWN] = slope / scale[:, None]
    return log_z, score, curvature / scale**2


class _Nodes(NamedTuple):
    """Functions of an index off the diagonal at the nodes of the grid of each data point, shape (n, 3, nodes).

    Attributes:
        weight: of the nodes, shape (n, nodes).
        panel: width of the panels, shape (n,).
        t: the index minus its mean, in standard deviations.
        density: logarithm of its density.
        below, mills: logarithm of the probability that the index is smaller, and its derivative in ``t``.
        row: logarithm of the probability of a row's index on the diagonal if this is its largest other index.
        slope, bend: derivative of ``row``, and minus its second derivative minus its square.
    """

    weight: Array
    panel: Array
    t: Array
    density: Array
    below: Array
    mills: Array
    row: Array
    slope: Array
    bend: Array


def _at_nodes(y: NDArray[np.intp], omega: Array, scale: Array) -> _Nodes:
    off, own = omega[:, _OFF], np.sqrt(2) * omega[:, _OWN]
    grid, weight, panel = _grid(np.concatenate([off, own], axis=1), scale)
    sign, sigma = np.where(y == np.arange(3), 1.0, -1.0)[:, :, None], scale[:, None, None]
    a = sign * (own[:, :, None] - grid[:, None]) / (np.sqrt(2) * sigma)
    ratio = inverse_mills_ratio(a)
    t = (grid[:, None] - off[:, :, None]) / sigma
    density = -0.5 * t**2 - 0.5 * np.log(2 * np.pi) - np.log(sigma)
    below, mills = log_ndtr(t), inverse_mills_ratio(t)
    return _Nodes(weight, panel, t, density, below, mills, log_ndtr(a), sign * ratio, a * ratio)


def _moments_of_ordering(nodes: _Nodes, p: int, q: int, f: Array, g: Array) -> tuple[Array, ...]:
    """Return the integral over one ordering, and moments over it of the indices and of the rows, shape (n, 3) each.

    Moments are the first and second of the deviations off the diagonal, and the means of ``slope`` and ``bend``.

    Args:
        nodes: values at the nodes.
        p: the largest index.
        q: the second index; the third is below it.
        f: weighted density of the largest index.
        g: density of the second index, with the probability of the third.
    """
    r, k, t = 3 - p - q, _OPPOSITE[p], nodes.t
    third = nodes.mills[:, r]
    of_second = [g, g * t[:, q], g * t[:, q] ** 2]
    of_third = [-g * third, g * (1 - t[:, r] * third)]
    of_row = [g * nodes.slope[:, k], g * nodes.bend[:, k]]
    below = _cumulative(np.stack([*of_second, *of_third, *of_row], axis=1), nodes.panel)
    integrals, weighted = np.einsum("nm,nkm->nk", f, below), f * below[:, 0]
    mean, square, slope, bend = (np.empty((len(f), 3)) for _ in range(4))
    mean[:, p], square[:, p] = (np.sum(weighted * t[:, p] ** power, axis=1) for power in (1, 2))
    mean[:, [q, r]], square[:, [q, r]] = integrals[:, [1, 3]], integrals[:, [2, 4]]
    slope[:, k], bend[:, k] = integrals[:, 5:].T
    for i in _ENDS[p]:
        slope[:, i], bend[:, i] = (np.sum(weighted * part[:, i], axis=1) for part in (nodes.slope, nodes.bend))
    return integrals[:, 0], mean, square, slope, bend


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
