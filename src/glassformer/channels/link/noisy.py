"""Labels with Gaussian noise: the posterior of one label, and the choice of the averages over labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from glassformer.channels.link.noisy_fields import FieldIntegrals
from glassformer.channels.link.noisy_labels import LabelIntegrals, StepIntegrals
from glassformer.channels.link.posterior import LinkPosterior
from glassformer.channels.link.posterior_panels import equidistribute, initial_panels
from glassformer.channels.link.quadrature import RULES, Rule
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels

_ROWS = 256  # number of data points of one block
_PANELS, _REFINEMENTS = 1024, 12  # largest number of panels per data point, and number of refinements
_STEEPEST = 20.0  # upper limit of the width of one panel in standard deviations
_LOG_NEGLIGIBLE = 45.0  # posterior densities below exp(-this) count as zero
# Solutions of a label on neighbouring branches overlap above this standard deviation of the field, in units of the
# shortest branch, and above this variance. Chosen by timing both averages.
_OVERLAP, _LEAST_VARIANCE = 0.05, 3e-4

_Averages = Callable[[float, Rule], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class NoisyPosterior(LinkPosterior):
    r"""The posterior :math:`N(u; 0, 1)\, N(y; \varphi(\omega + \sqrt V u), \Delta)/Z_{out}` of ``u``.

    The posterior of one label may be far narrower than its prior, so each data point has its own panels.
    """

    noise: float

    # Outside the range of the lattices squared scores are up to twice the contribution of the tails of noise and mean.
    truncation: ClassVar[float] = 4e-11

    def averages(self, v: float, level: int) -> tuple[float, float]:
        wide, narrow = self._averages
        return (wide if v > self._overlap_variance else narrow)(v, RULES[level])

    @cached_property
    def _averages(self) -> tuple[_Averages, _Averages]:
        """Averages for posteriors that extend over several branches, and for posteriors on one branch."""
        if not self.pieces.branches:
            steps = StepIntegrals(self.pieces, self.noise)
            return steps, steps
        parts = self.pieces, self.noise, self.nodes
        return LabelIntegrals(*parts), FieldIntegrals(*parts)

    @cached_property
    def _overlap_variance(self) -> float:
        """Variance of the field above which solutions of a label on neighbouring branches overlap."""
        if len(self.pieces.branches) + len(self.pieces.flats) == 1:
            return 1.0
        gaps = np.diff(self.pieces.breaks)
        return max((_OVERLAP * float(np.min(gaps, initial=1.0))) ** 2, _LEAST_VARIANCE)

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        log_z, mean, _ = self._moments(y, omega, v)
        return log_z, mean / np.sqrt(v)

    def score_and_curvature(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        # Minus the slope of the score is (1 - Var u)/V, of the integrals that give the score.
        _, mean, variance = self._moments(y, omega, v)
        return mean / np.sqrt(v), (1 - variance) / v

    def _moments(self, y: Array, omega: Array, v: Array) -> Array:
        """Return log partition, mean and variance of ``u`` of each data point, shape (3, n)."""
        moments = np.empty((3, y.size))
        for start in range(0, y.size, _ROWS):
            part = slice(start, start + _ROWS)
            moments[:, part] = self._moments_of_rows(y[part, None], omega[part, None], v[part, None])
        return moments

    def _moments_of_rows(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return log partition, mean and variance of ``u``, shape (rows,), from columns of shape (rows, 1)."""
        scale = np.sqrt(v)
        x, w = gauss_panels(self._panels(y, omega, scale), self.nodes)
        with np.errstate(over="ignore", under="ignore"):
            exponent = self._exponent(x, y - self.pieces.link(omega + scale * x))
            top = np.max(exponent, axis=1, keepdims=True)
            weight = w * np.exp(exponent - top)
        total = np.sum(weight, axis=1, keepdims=True)
        weight /= total
        mean = np.sum(weight * x, axis=1, keepdims=True)
        log_z = top + np.log(total) - np.log(2 * np.pi) - 0.5 * np.log(self.noise)
        return log_z[:, 0], mean[:, 0], np.sum(weight * (x - mean) ** 2, axis=1)

    def _exponent(self, u: Array, gap: Array) -> Array:
        """Return the logarithm of the posterior of ``u`` up to a constant; ``gap`` is label minus link."""
        return np.asarray(-0.5 * u**2 - gap**2 / (2 * self.noise))

    def _panels(self, y: Array, omega: Array, scale: Array) -> Array:
        """Return edges in u, shape (rows, panels + 1), refined where the posterior has mass until it is resolved.

        The breaks of the link are among the edges. So the link is monotone on every panel and bounded by its end
        values.
        """
        start, cuts = initial_panels(self.pieces.breaks, omega, scale)
        edges = np.sort(np.concatenate([start, cuts], axis=1), axis=1)
        for _ in range(_REFINEMENTS):
            change = self._widths(edges, y, self.pieces.link(omega + scale * edges))
            panels = int(np.clip(0.5 * np.max(np.sum(change + 1e-9, axis=1)), 32, _PANELS))
            edges = np.sort(np.concatenate([equidistribute(edges, change, panels), cuts], axis=1), axis=1)
            if np.max(change) <= 4:
                break
        return edges

    def _widths(self, u: Array, y: Array, values: Array) -> Array:
        """Return the width of each panel in standard deviations of the posterior; 0 where the posterior has no mass."""
        left, right = values[:, :-1], values[:, 1:]
        gap = np.maximum(np.minimum(left, right) - y, y - np.maximum(left, right))
        nearest = np.where(u[:, 1:] * u[:, :-1] <= 0, 0.0, np.minimum(np.abs(u[:, 1:]), np.abs(u[:, :-1])))
        with np.errstate(over="ignore"):
            ceiling = self._exponent(nearest, np.maximum(gap, 0.0))
            floor = np.max(self._exponent(u, y - values), axis=1, keepdims=True)
        width = np.diff(u, axis=1) + np.minimum(np.abs(right - left) / np.sqrt(self.noise), _STEEPEST)
        return np.where(ceiling > floor - _LOG_NEGLIGIBLE, np.minimum(width, _STEEPEST), 0.0)
