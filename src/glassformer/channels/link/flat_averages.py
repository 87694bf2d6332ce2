"""Averages over the labels that a link takes on whole intervals."""

from __future__ import annotations

import numpy as np

from glassformer.channels.link.field_quadrature import TAIL, normal_density
from glassformer.channels.link.normal_intervals import interval_mass
from glassformer.channels.link.piecewise import Flat
from glassformer.channels.scalar.base import Array

_WINDOW = 9.0  # standard deviations from an edge beyond which an interval is certain


def flat_averages(flats: tuple[Flat, ...], v: float, step: float) -> Array:
    r"""Sums over flat parts of :math:`E_\omega (\partial_\omega p)^2/p` and :math:`E_\omega\,p\log p`.

    ``p`` is the probability that :math:`h = \omega + \sqrt V u` lies on the part. Both integrands are smooth on the
    scale :math:`\sqrt V` and vanish away from the edges, so a lattice in :math:`\omega` of spacing ``step`` in units
    of the smaller deviation is exact to rounding.

    Example:
        >>> from glassformer.channels.link.piecewise import link_shape
        >>> flat_averages(link_shape(np.sign).flats, 1.0, 0.1).round(6) + 0.0  # 2/pi, -log 2
        array([ 0.63662 , -0.693147])
    """
    if not flats:
        return np.zeros(2)
    scale, q = np.sqrt(v), max(1.0 - v, 0.0)
    edges = np.concatenate([flat.intervals for flat in flats])
    owner = np.repeat(np.arange(len(flats)), [len(flat.intervals) for flat in flats])
    spacing = step * np.sqrt(min(v, q)) if q > 0 else 1.0
    reach = int(np.ceil((TAIL + 0.2) * np.sqrt(q) / spacing))
    place, interval = _near_edges(edges, _WINDOW * scale / spacing, spacing, reach)
    omega = spacing * place
    low, high = ((edges[interval, k] - omega) / scale for k in (0, 1))
    mass = interval_mass(low, high)
    slope = (normal_density(low) - normal_density(high)) / scale
    if len(edges) > len(flats):
        keys, where = np.unique(owner[interval] * (2 * reach + 1) + place + reach, return_inverse=True)
        mass, slope = (np.bincount(where, part).astype(float) for part in (mass, slope))
        omega = spacing * (keys % (2 * reach + 1) - reach)
    weight = normal_density(omega / np.sqrt(q)) * spacing / np.sqrt(q) if q > 0 else np.ones_like(omega)
    seen = mass > 0
    mass, slope, weight = mass[seen], slope[seen], weight[seen]
    return np.array([weight @ (slope * (slope / mass)), weight @ (mass * np.log(mass))])


def _near_edges(edges: Array, window: float, spacing: float, reach: int) -> tuple[Array, Array]:
    """Lattice points within ``window`` points of an end of each interval, and the intervals they belong to."""
    centre = np.clip(edges / spacing, -2.0 * reach - 2 * window, 2.0 * reach + 2 * window)
    first = np.clip(np.ceil(centre - window), -reach, reach + 1)
    last = np.clip(np.floor(centre + window), -reach - 1, reach)
    # The window of the upper end begins where that of the lower one is over.
    first[:, 1] = np.maximum(first[:, 1], last[:, 0] + 1)
    count = np.maximum(last - first + 1, 0).astype(int).ravel()
    start = np.repeat(first.ravel() - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
    place = (start + np.arange(count.sum())).astype(int)
    return place, np.repeat(np.arange(len(edges)).repeat(2), count)
