"""Labels with Gaussian noise: everything is a smooth integral over the field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.core.numerics.quadrature import gauss_panels
from glassformer.models.channels.link.field_quadrature import RULES, TAIL, Rule, lattice, normal_density, omega_nodes
from glassformer.models.channels.link.posterior import LinkPosterior
from glassformer.models.channels.scalar import Array

_REACH = TAIL + 0.2  # of the integrals over field and label, in standard deviations
_LABELS_FROM = 7.4  # labels of larger fields have probability 1e-13
_BLOCK = 20.0  # widest run of omega that shares its fields, in units of sqrt(V)
_COLUMNS = 256  # labels per matrix product
_WORK = 2e9  # multiplications after which one matrix product is no longer refined
_CALM = 12.0  # deviations of the noise by which a link may change where lattices do
_ENTRIES = 40_000  # of one array of likelihoods there, which stays in the cache
_STEEP = 20.0  # most standard deviations that one cell counts for, however much the link changes across it
_ROWS = 256  # data points treated at once
_PANELS = 1024  # most panels per data point
_ZOOMS = 12  # most refinements of them
_FARTHEST = 60.0  # deviation of the field, in units of sqrt(V), that a label may enforce


@dataclass(frozen=True, eq=False)
class NoisyLink(LinkPosterior):
    r"""The posterior :math:`N(u; 0, 1)\, N(y; \varphi(\omega + \sqrt V u), \Delta)/Z_{out}` of ``u``.

    Averages over labels are matrix products over fields and labels shared by neighbouring ``omega``. The posterior of
    one label may be far narrower than its prior, so there each data point has panels of its own.
    """

    noise: float

    def averages(self, v: float, level: int) -> tuple[float, float]:
        rule = RULES[level]
        omega, weight = omega_nodes(v, self.shape.breaks, rule, self.nodes)
        calm, spread = self._calm(omega, v)
        information, expected = self._at_calm(omega[calm], weight[calm], spread[calm], v, rule)
        rest = np.flatnonzero(~calm)
        rest = rest[np.argsort(omega[rest])]
        omega, weight = omega[rest], weight[rest]
        for block in _blocks(omega, _BLOCK * np.sqrt(v)):
            g2, log_z = self._given_omega(omega[block], v, rule)
            information += float(weight[block] @ g2)
            expected += float(weight[block] @ log_z)
        return information, expected

    def _calm(self, omega: Array, v: float) -> tuple[NDArray[np.bool_], Array]:
        """Where the link is smooth and changes by few deviations of the noise as far as fields reach; by how many."""
        window = _REACH * np.sqrt(v)
        fields = omega[:, None] + window * np.linspace(-1, 1, 17)
        change = np.abs(self.shape.link(fields) - self.shape.link(omega)[:, None]) / np.sqrt(self.noise)
        spread = np.max(change, axis=1, initial=0.0)
        breaks = self.shape.breaks
        first = np.searchsorted(breaks, omega - window)
        smooth = first == np.searchsorted(breaks, omega + window)
        return smooth & (spread < _CALM), spread

    def _at_calm(self, omega: Array, weight: Array, spread: Array, v: float, rule: Rule) -> tuple[float, float]:
        """Both averages over these ``omega``: lattices in field and label, many of them at once."""
        if omega.size == 0:
            return 0.0, 0.0
        u = lattice(_REACH, 4 * rule.lattice)
        prior = 4 * rule.lattice * normal_density(u) / np.sqrt(2 * np.pi)
        step, sigma = 3 * rule.lattice, np.sqrt(self.noise)
        centre = omega[:, None]
        moved = (self.shape.link(centre + np.sqrt(v) * u) - self.shape.link(centre)) / sigma
        order = np.argsort(spread)
        information = expected = 0.0
        start = 0
        while start < omega.size:
            # Those that change little need few labels: the order puts them together.
            most = max(2 * spread[order[start]], 1.0)
            x = lattice(_REACH + most, step)
            rows = max(1, _ENTRIES // (u.size * x.size))
            stop = min(start + rows, int(np.searchsorted(spread[order], most, side="right")))
            part = order[start : max(stop, start + 1)]
            likelihood = x - moved[part, :, None]
            likelihood *= likelihood
            likelihood *= -0.5
            np.exp(likelihood, out=likelihood)
            z = np.maximum(prior @ likelihood, 1e-290)
            slope = (prior * u) @ likelihood
            g2 = step * np.sum(slope * (slope / z), axis=1) / v
            log_z = step * np.sum(z * np.log(z), axis=1) - np.log(sigma) * step * np.sum(z, axis=1)
            information += float(weight[part] @ g2)
            expected += float(weight[part] @ log_z)
            start += len(part)
        return information, expected

    def _given_omega(self, omega: Array, v: float, rule: Rule) -> tuple[Array, Array]:
        r"""Integrals over y of :math:`(\partial_\omega Z)^2/Z` and :math:`Z \log Z`, shape (omega,) each."""
        h, w = self._field_nodes(omega, v, rule)
        values = self.shape.link(h)
        deviation = (h - omega[:, None]) / np.sqrt(v)
        prior = w * normal_density(deviation) / np.sqrt(v)
        moment = prior * deviation
        y, step = self._labels(h, values, omega.size, rule)
        sigma = np.sqrt(self.noise)
        g2, log_z = np.zeros(omega.size), np.zeros(omega.size)
        for start in range(0, y.size, _COLUMNS):
            part = y[start : start + _COLUMNS]
            near = (values > part[0] - 9 * sigma) & (values < part[-1] + 9 * sigma)
            with np.errstate(under="ignore"):
                likelihood = normal_density((part - values[near, None]) / sigma) / sigma
                z, slope = prior[:, near] @ likelihood, moment[:, near] @ likelihood
                z = np.maximum(z, 1e-290)
                g2 += step * np.sum(slope * (slope / z), axis=1) / v
                log_z += step * np.sum(z * np.log(z), axis=1)
        return g2, log_z

    def _field_nodes(self, omega: Array, v: float, rule: Rule) -> tuple[Array, Array]:
        """Panels in h that are short both against sqrt(V) and against the change of the link over sqrt(noise)."""
        low, high = omega[0] - _REACH * np.sqrt(v), omega[-1] + _REACH * np.sqrt(v)
        inside = self.shape.breaks[(self.shape.breaks > low) & (self.shape.breaks < high)]
        grid = np.sort(np.concatenate([np.linspace(low, high, 1025 if omega.size > 1 else 129), inside]))
        rise = np.abs(np.diff(self.shape.link(grid))) / np.sqrt(self.noise)
        # A jump is a panel edge: it takes no nodes to cross it.
        rise = np.where(np.isin(grid[1:], inside) | np.isin(grid[:-1], inside), 0.0, rise)
        local = np.minimum(np.diff(grid) / np.sqrt(v) + rise, _STEEP)
        measure = np.concatenate([[0.0], np.cumsum(local)])
        panels = rule.parts * int(np.ceil(measure[-1] / 4))
        edges = np.interp(np.linspace(0, measure[-1], panels + 1), measure, grid)
        return gauss_panels(np.sort(np.concatenate([edges, inside])), rule.of(self.nodes))

    def _labels(self, h: Array, values: Array, omegas: int, rule: Rule) -> tuple[Array, float]:
        """Nodes of the trapezoid rule in y and their spacing: a few per sqrt(noise), fewer where work would explode."""
        sigma = np.sqrt(self.noise)
        relevant = values[np.abs(h) <= _LABELS_FROM]
        relevant = relevant if relevant.size else values
        low, high = np.min(relevant) - _REACH * sigma, np.max(relevant) + _REACH * sigma
        density = 0.4 / rule.lattice
        band = min(1.0, (_COLUMNS / density + 17) * sigma / (high - low))
        # Scaled with the rule even at the cap: two rules never share their nodes, and their difference stays honest.
        cap = max(0.06 * density * _WORK / (omegas * h.size * band), 4 * density)
        count = int(min(density * np.ceil((high - low) / sigma), cap)) + 1
        y, step = np.linspace(low, high, count, retstep=True)
        return y, float(step)

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        log_z, g = np.empty(y.size), np.empty(y.size)
        for start in range(0, y.size, _ROWS):
            part = slice(start, start + _ROWS)
            log_z[part], g[part] = self._posterior_rows(y[part, None], omega[part, None], v[part, None])
        return log_z, g

    def _posterior_rows(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        """(log partition, score), shape (rows,), from columns of shape (rows, 1)."""
        scale = np.sqrt(v)
        x, w = gauss_panels(self._posterior_panels(y, omega, scale), self.nodes)
        with np.errstate(over="ignore", under="ignore"):
            exponent = self._exponent(x, y, self.shape.link(omega + scale * x))
            top = np.max(exponent, axis=1, keepdims=True)
            weight = w * np.exp(exponent - top)
        total = np.sum(weight, axis=1)
        log_z = top[:, 0] + np.log(total) - np.log(2 * np.pi) - 0.5 * np.log(self.noise)
        return log_z, np.sum(weight * x, axis=1) / total / scale[:, 0]

    def _exponent(self, u: Array, y: Array, values: Array) -> Array:
        """Logarithm of the posterior of ``u`` up to a constant."""
        return np.asarray(-0.5 * u**2 - (y - values) ** 2 / (2 * self.noise))

    def _posterior_panels(self, y: Array, omega: Array, scale: Array) -> Array:
        """Edges in u, shape (rows, panels + 1): from a wide grid, refined where the posterior is until it is resolved.

        The breaks of the link are always among them, so that it is monotone on every panel and its ends bound it.
        """
        start = np.broadcast_to(np.sinh(np.linspace(-1, 1, 161) * np.arcsinh(_FARTHEST)), (y.size, 161))
        cuts = np.clip((self.shape.breaks - omega) / scale, start[:, :1], start[:, -1:])
        edges = np.sort(np.concatenate([start, cuts], axis=1), axis=1)
        for _ in range(_ZOOMS):
            change = self._changes(edges, y, self.shape.link(omega + scale * edges))
            edges = np.sort(np.concatenate([_levelled(edges, change), cuts], axis=1), axis=1)
            if np.max(change) <= 4:
                break
        return edges

    def _changes(self, u: Array, y: Array, values: Array) -> Array:
        """Width of each panel in standard deviations of the posterior; 0 where the posterior has no mass."""
        left, right = values[:, :-1], values[:, 1:]
        gap = np.maximum(np.minimum(left, right) - y, y - np.maximum(left, right))
        nearest = np.where(u[:, 1:] * u[:, :-1] <= 0, 0.0, np.minimum(np.abs(u[:, 1:]), np.abs(u[:, :-1])))
        with np.errstate(over="ignore"):
            ceiling = self._exponent(nearest, np.maximum(gap, 0.0), np.zeros(1))
            floor = np.max(self._exponent(u, y, values), axis=1, keepdims=True)
        change = np.diff(u, axis=1) + np.minimum(np.abs(right - left) / np.sqrt(self.noise), _STEEP)
        return np.where(ceiling > floor - 45, np.minimum(change, _STEEP), 0.0)


def _levelled(edges: Array, change: Array) -> Array:
    """New edges between which every row changes by the same amount, about 2; change shape (rows, panels)."""
    measure = np.cumsum(change + 1e-9, axis=1)
    panels = int(np.clip(0.5 * np.max(measure[:, -1]), 32, _PANELS))
    measure = np.concatenate([np.zeros((len(edges), 1)), measure / measure[:, -1:]], axis=1)
    # One interpolation for all rows: row i of the measure is moved to [2 i, 2 i + 1].
    rows = 2.0 * np.arange(len(edges))[:, None]
    wanted = rows + np.linspace(0, 1, panels + 1)
    return np.interp(wanted.ravel(), (rows + measure).ravel(), edges.ravel()).reshape(len(edges), -1)


def _blocks(omega: Array, width: float) -> Iterator[slice]:
    """Consecutive runs of ``omega`` no wider than ``width``."""
    start = 0
    while start < omega.size:
        stop = max(start + 1, int(np.searchsorted(omega, omega[start] + width)))
        yield slice(start, stop)
        start = stop
