"""Labels without noise: the posterior lives on the level set link(h) = y."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfcx, logsumexp, ndtr

from glassformer.core.errors import DataError
from glassformer.core.numerics.quadrature import gauss_panels
from glassformer.models.channels.base import Array
from glassformer.models.channels.link.field_quadrature import TAIL, normal_density, omega_nodes, unit_nodes
from glassformer.models.channels.link.inverse_branches import Preimages, preimages
from glassformer.models.channels.link.piecewise import SAME, Flat, distinct
from glassformer.models.channels.link.posterior import LinkPosterior

_CHUNK = 2_000_000  # largest number of doubles in one temporary array
_NEGLIGIBLE = 1e-25  # probability below which a node is left out


@dataclass(frozen=True, eq=False)
class LevelSet(LinkPosterior):
    r"""A sum over the solutions of :math:`\varphi(h) = y`, or a truncated normal where that is a flat part.

    :math:`Z_{out} = \sum_b N(h_b; \omega, V)/|\varphi'(h_b)|` is a density of labels, and the probability of the label
    on a flat part. The score is :math:`(E[h \mid y] - \omega)/V` with the terms of that sum as weights.
    """

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        log_z, g = _on_solutions(preimages(self.shape, y), omega, v)
        for flat in self.shape.flats:
            at = np.flatnonzero(flat.takes(y))
            log_z[at], g[at] = _on_intervals(flat, omega[at], v[at])
        impossible = ~np.isfinite(log_z)
        if np.any(impossible):
            raise DataError("y", y[impossible][0], "labels in the range of the link function", "add label noise")
        return log_z, g

    def averages(self, v: float, level: int) -> tuple[float, float]:
        omega, weight = omega_nodes(v, self._breaks, level, self.nodes)
        information = expected = 0.0
        per_row = (8 * level + self._breaks.size) * self.nodes * max(1, len(self.shape.branches))
        rows = max(1, _CHUNK // per_row)
        for start in range(0, omega.size, rows):
            part = slice(start, start + rows)
            g2, log_ratio = self._given_omega(omega[part], v, level)
            information += float(weight[part] @ g2)
            expected += float(weight[part] @ log_ratio)
        return information, expected + self._prior_log_partition

    def _given_omega(self, omega: Array, v: float, level: int) -> tuple[Array, Array]:
        """E[g^2 | omega] and E[log Z(y, omega, V) / Z(y, 0, 1) | omega]: the ratio has no singular slopes."""
        g2, log_ratio = self._branch_averages(omega, v, level)
        for flat in self.shape.flats:
            log_p, g = _on_intervals(flat, omega, v)
            g2 += np.exp(log_p) * g**2
            log_ratio += np.exp(log_p) * (log_p - _prior_log_mass(flat))
        return g2, log_ratio

    def _branch_averages(self, omega: Array, v: float, level: int) -> tuple[Array, Array]:
        """The part of both averages from labels outside the flat parts, shape (omega,) each."""
        if not self.shape.branches:
            return np.zeros(omega.size), np.zeros(omega.size)
        u, w = unit_nodes(omega, v, self._breaks, level, self.nodes)
        centre = np.broadcast_to(omega[:, None], u.shape).ravel()
        field = centre + np.sqrt(v) * u.ravel()
        kept = np.flatnonzero((w.ravel() > _NEGLIGIBLE) & ~self.shape.is_flat(field))
        row, mass = kept // u.shape[1], w.ravel()[kept]
        solutions = preimages(self.shape, self.shape.link(field[kept]), field[kept])
        log_z, g = _on_solutions(solutions, centre[kept], v)
        log_prior, _ = _on_solutions(solutions, 0.0, 1.0)
        # Beyond the table of the link there are no solutions and nothing to add.
        reached = np.isfinite(log_z) & np.isfinite(log_prior)
        ratio = np.where(reached, log_z, 0.0) - np.where(reached, log_prior, 0.0)
        g2, log_ratio = (np.bincount(row, mass * x, omega.size).astype(float) for x in (g**2, ratio))
        return g2, log_ratio

    @cached_property
    def _breaks(self) -> Array:
        """Breaks of the link and the other fields that share a label with one of them."""
        ends = [value for branch in self.shape.branches for value in (branch.values[0], branch.values[-1])]
        values = np.array([*ends, *(flat.value for flat in self.shape.flats)])
        shared = preimages(self.shape, values).h.ravel()
        return distinct(np.concatenate([self.shape.breaks, shared[np.abs(shared) < TAIL]]), SAME)

    @cached_property
    def _prior_log_partition(self) -> float:
        """E log Z(y, 0, 1): computed once, on panels that shrink geometrically towards each singular slope."""
        flats = [_prior_log_mass(flat) for flat in self.shape.flats]
        total = float(sum(np.exp(p) * p for p in flats))
        if not self.shape.branches:
            return total
        offsets = 0.5 ** np.arange(0, 40)
        near = (self._breaks[:, None] + np.concatenate([-offsets, [0.0], offsets])).ravel()
        edges = distinct(np.concatenate([np.linspace(-TAIL, TAIL, 33), near[np.abs(near) < TAIL]]), 1e-13)
        h, w = gauss_panels(edges, self.nodes, True)
        kept = ~self.shape.is_flat(h)
        log_z, _ = _on_solutions(preimages(self.shape, self.shape.link(h[kept])), 0.0, 1.0)
        return total + float((w * normal_density(h))[kept] @ np.where(np.isfinite(log_z), log_z, 0.0))


def _on_solutions(solutions: Preimages, omega: Array | float, v: Array | float) -> tuple[Array, Array]:
    """(log partition, score) as sums over the solutions, shape (labels,); -inf and 0 where there is none."""
    h, log_slope = solutions
    if h.shape[0] == 0:
        return np.full(h.shape[1], -np.inf), np.zeros(h.shape[1])
    logit = -((h - omega) ** 2) / (2 * v) - 0.5 * np.log(2 * np.pi * v) - log_slope
    logit = np.where(np.isnan(h), -np.inf, logit)
    top = np.max(logit, axis=0)
    weight = np.exp(logit - np.where(np.isfinite(top), top, 0.0))
    total = np.sum(weight, axis=0)
    deviation = np.sum(weight * np.where(np.isnan(h), 0.0, h - omega), axis=0)
    reached = total > 0
    safe = np.where(reached, total, 1.0)
    return np.where(reached, top + np.log(safe), -np.inf), deviation / safe / v


def _on_intervals(flat: Flat, omega: Array, v: Array | float) -> tuple[Array, Array]:
    """(log partition, score) of a flat part: log probability of h ~ N(omega, V) in its intervals, and its slope."""
    edges = (flat.intervals.T[:, :, None] - omega) / np.sqrt(v)
    flip = edges[0] + edges[1] < 0
    low, high = np.where(flip, -edges[1], edges[0]), np.where(flip, -edges[0], edges[1])
    # The nearer edge's exponential is taken out, so that nothing underflows however far the interval.
    shift = np.where(low > 0, low**2 / 2, 0.0)
    drop = np.exp(-(high - low) * np.where(np.isinf(high), 1.0, high + low) / 2)
    r = np.sqrt(2)
    outside = 0.5 * (erfcx(np.maximum(low, 0) / r) - drop * erfcx(np.maximum(high, 0) / r))
    mass = np.where(low > 0, outside, ndtr(high) - ndtr(low))
    slope = np.where(low > 0, 1 - drop, np.exp(-(np.minimum(low, 0) ** 2) / 2) * (1 - drop)) / np.sqrt(2 * np.pi)
    log_p = logsumexp(np.log(np.maximum(mass, 1e-300)) - shift, axis=0)
    mean = np.sum(np.where(flip, -1, 1) * slope * np.exp(-shift - log_p), axis=0)
    return log_p, mean / np.sqrt(v)


def _prior_log_mass(flat: Flat) -> float:
    return float(_on_intervals(flat, np.zeros(1), 1.0)[0][0])
