"""Labels with Gaussian noise: everything is a smooth integral over the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from glassformer.channels.link.field_quadrature import RULES, Rule
from glassformer.channels.link.label_averages import LabelAverages
from glassformer.channels.link.noisy_averages import NoisyAverages
from glassformer.channels.link.noisy_steps import NoisySteps
from glassformer.channels.link.posterior import LinkPosterior
from glassformer.channels.scalar.base import Array
from glassformer.numerics.quadrature import gauss_panels


@dataclass(frozen=True)
class Panels:
    """How finely the fields behind a label with noise are divided."""

    steep: float = 20.0  # most standard deviations that one cell counts for, however much the link changes across it
    rows: int = 256  # data points treated at once
    panels: int = 1024  # most per data point
    zooms: int = 12  # most refinements of them
    farthest: float = 60.0  # deviation of the field, in units of sqrt(V), that a label may enforce
    sight: float = 0.05  # least deviation of the field that tells branches, in units of the shortest one
    narrow: float = 3e-4  # least variance of the field


_POLICY = Panels()

_Averages = Callable[[float, Rule], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class NoisyLink(LinkPosterior):
    r"""The posterior :math:`N(u; 0, 1)\, N(y; \varphi(\omega + \sqrt V u), \Delta)/Z_{out}` of ``u``.

    The posterior of one label may be far narrower than its prior, so each data point has panels of its own.
    """

    noise: float

    # Beyond the reach of the lattices squared scores are up to twice what the normal tails of noise and mean make them.
    left_out: ClassVar[float] = 4e-11

    def averages(self, v: float, level: int) -> tuple[float, float]:
        wide, narrow = self._averages
        return (wide if v > self._sights else narrow)(v, RULES[level])

    @cached_property
    def _averages(self) -> tuple[_Averages, _Averages]:
        """Where solutions of a label see each other, and where few of them do."""
        if not self.shape.branches:
            steps = NoisySteps(self.shape, self.noise)
            return steps, steps
        return LabelAverages(self.shape, self.noise, self.nodes), NoisyAverages(self.shape, self.noise, self.nodes)

    @cached_property
    def _sights(self) -> float:
        """Variance of the field from which on solutions of a label on neighbouring branches see each other."""
        if len(self.shape.branches) + len(self.shape.flats) == 1:
            return 1.0
        gaps = np.diff(self.shape.breaks)
        return max((_POLICY.sight * float(np.min(gaps, initial=1.0))) ** 2, _POLICY.narrow)

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        log_z, g = np.empty(y.size), np.empty(y.size)
        for start in range(0, y.size, _POLICY.rows):
            part = slice(start, start + _POLICY.rows)
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
        start, cuts = wide_panels(self.shape.breaks, omega, scale)
        edges = np.sort(np.concatenate([start, cuts], axis=1), axis=1)
        for _ in range(_POLICY.zooms):
            change = self._changes(edges, y, self.shape.link(omega + scale * edges))
            panels = int(np.clip(0.5 * np.max(np.sum(change + 1e-9, axis=1)), 32, _POLICY.panels))
            edges = np.sort(np.concatenate([levelled(edges, change, panels), cuts], axis=1), axis=1)
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
        change = np.diff(u, axis=1) + np.minimum(np.abs(right - left) / np.sqrt(self.noise), _POLICY.steep)
        return np.where(ceiling > floor - 45, np.minimum(change, _POLICY.steep), 0.0)


def wide_panels(breaks: Array, omega: Array, scale: Array) -> tuple[Array, Array]:
    """Return edges in u as far away as a label may enforce, and the breaks of the link, each of shape (rows, edges)."""
    wide = np.sinh(np.linspace(-1, 1, 161) * np.arcsinh(_POLICY.farthest))
    cuts = np.clip((breaks - omega) / scale, wide[0], wide[-1])
    return np.broadcast_to(wide, (len(omega), wide.size)), cuts


def levelled(edges: Array, change: Array, panels: int) -> Array:
    """Return new edges between which every row changes by the same amount; change has shape (rows, panels before)."""
    measure = np.cumsum(change + 1e-9, axis=1)
    measure = np.concatenate([np.zeros((len(edges), 1)), measure / measure[:, -1:]], axis=1)
    # One interpolation for all rows: row i of the measure is moved to [2 i, 2 i + 1].
    rows = 2.0 * np.arange(len(edges))[:, None]
    wanted = rows + np.linspace(0, 1, panels + 1)
    return np.interp(wanted.ravel(), (rows + measure).ravel(), edges.ravel()).reshape(len(edges), -1)
