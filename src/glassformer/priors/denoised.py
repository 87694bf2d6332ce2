"""Laws of a weight that are given by their denoiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points
from glassformer.priors.law import Law

# Derivatives in the field are differences of fourth order: offsets in steps of this size, and their coefficients.
_STEP, _OFFSETS, _COEFFICIENTS = 2e-3, (-2, -1, 1, 2), (1 / 12, -2 / 3, 2 / 3, -1 / 12)
# Number of drawn weights in each replica, and number of replicas (chosen by trial).
_DRAWS, _REPLICAS = 4096, 8
# Nodes of the integral of the mean along the path from no information (chosen by trial).
_PATH_NODES = 32
# Identities are checked at so many fields, with differences of this size in the precision, and may be missed by this
# share; draws may be off by so many standard errors beside.
_CHECKED, _CHANGE, _MISSED, _SIGMAS = 16, 1e-3, 1e-3, 6.0


@dataclass(frozen=True)
class Denoised(Law):
    r"""A law given by its posterior mean :math:`f(b, A)`; the posterior covariance is :math:`\partial f/\partial b`.

    Averages over the law are means over its draws, with a standard error. When a model is made, two conditions are
    checked: ``f`` is the posterior mean of a law of unit variance, and draws come from the same law.

    Args:
        denoiser: from fields ``b``, shape (n, P), and one precision ``A``, shape (P, P), to posterior means, shape
            (n, P). For a single row any formula in numbers will do: ``lambda b, a: np.tanh(b)``. Several rows are
            observed together, and need the posterior of all of them at a full matrix ``A``.
        draw: from a shape and a NumPy generator to independent weights.
        mmse_dimension: weight of the continuous part of the law (1 where every weight is continuous, 0 where all are
            discrete), from which thresholds of perfect recovery are counted; NaN if unknown.
        name: of the law, in messages and tables.

    Example:
        >>> signs = Denoised(lambda b, a: np.tanh(b), lambda shape, rng: rng.choice([-1.0, 1.0], shape))
        >>> mean, covariance = signs.posterior(np.array([[0.5]]), np.eye(1))
        >>> bool(np.isclose(covariance[0, 0, 0], 1 - np.tanh(0.5) ** 2))
        True
    """

    denoiser: Callable[[Array, Array], Array]
    draw: Callable[[tuple[int, ...], np.random.Generator], Array]
    mmse_dimension: float = np.nan
    name: str = "denoised"

    @property
    def label(self) -> str:
        return self.name

    @property
    def mean(self) -> float:
        return float(self._mean(np.zeros((1, 1)), np.zeros((1, 1)))[0, 0])

    @property
    def fourth_moment(self) -> float:
        return float(np.mean(self.sample((_REPLICAS * _DRAWS,), np.random.default_rng(0)) ** 4))

    def validate(self, rows: int) -> None:
        self._check_draws()
        self._check_denoiser(rows)

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        drawn = np.asarray(self.draw(shape, rng), dtype=float)
        if drawn.shape != shape or not np.all(np.isfinite(drawn)):
            raise ParameterError("draw", drawn.shape, f"finite weights of the requested shape {shape}")
        return drawn

    def posterior(self, field: Array, precision: Array) -> tuple[Array, Array]:
        covariance = np.zeros((*field.shape, field.shape[1]))
        for column in range(field.shape[1]):
            for offset, coefficient in zip(_OFFSETS, _COEFFICIENTS, strict=True):
                shifted = field.copy()
                shifted[:, column] += offset * _STEP
                covariance[:, :, column] += coefficient / _STEP * self._mean(shifted, precision)
        return self._mean(field, precision), 0.5 * (covariance + np.swapaxes(covariance, 1, 2))

    def log_partition(self, field: Array, precision: Array) -> Array:
        r"""Integrate :math:`\langle w\rangle\cdot db - \frac12\langle w^T dA\,w\rangle` from :math:`b, A = 0`."""
        x, weight = leggauss(_PATH_NODES)
        # The integrand changes most at the beginning of the path: nodes are denser there.
        s = 0.5 * (1 + x)
        total = np.zeros(len(field))
        for share, step in zip(s**4, 2 * s**3 * weight, strict=True):
            mean, covariance = self.posterior(share * field, share * precision)
            square = covariance + mean[:, :, None] * mean[:, None, :]
            total += step * (np.sum(mean * field, axis=1) - 0.5 * np.einsum("nab,ab->n", square, precision))
        return total

    def estimates(self, precision: Array, function: Callable[[Array], Array]) -> Array:
        size = len(precision)
        weights = self.sample((_REPLICAS, _DRAWS, size), np.random.default_rng(0))
        fields = weights @ precision + normal_points(size, _DRAWS, _REPLICAS) @ square_root(precision)
        return np.stack([np.mean(function(replica), axis=0) for replica in fields])

    def _mean(self, field: Array, precision: Array) -> Array:
        found = np.asarray(self.denoiser(field, precision), dtype=float)
        if found.shape != field.shape or not np.all(np.isfinite(found)):
            raise ParameterError("denoiser", self.name, f"finite posterior means of shape {field.shape} of such fields")
        return found

    def _check_draws(self) -> None:
        nothing = np.zeros((1, 1))
        mean, variance = self._mean(nothing, nothing)[0, 0], self.posterior(nothing, nothing)[1][0, 0, 0]
        if not abs(variance - 1) < _MISSED:
            allowed = f"the posterior mean of a law of unit variance (its slope at b = 0, A = 0 is {variance:.4g})"
            raise ParameterError("denoiser", self.name, allowed, "scale the weights")
        drawn = self.sample((_DRAWS,), np.random.default_rng(1)) - mean
        for power, expected in ((drawn, 0.0), (drawn**2, 1.0)):
            if abs(power.mean() - expected) > _SIGMAS * power.std() / np.sqrt(_DRAWS) + _MISSED:
                allowed = f"draws of the denoiser's law (mean {mean:.4g}, variance 1)"
                theirs = f"theirs are {drawn.mean() + mean:.4g} and {drawn.var():.4g}"
                raise ParameterError("draw", self.name, allowed, theirs)

    def _check_denoiser(self, rows: int) -> None:
        r"""Check that :math:`\partial_A f_i = -\frac12\,\partial_{b_i}\langle ww^T\rangle`, as of posterior means."""
        rng = np.random.default_rng(2)
        mixing = rng.standard_normal((rows, rows)) / np.sqrt(rows)
        precision = 0.5 * np.eye(rows) + 0.3 * mixing @ mixing.T
        noise = rng.standard_normal((_CHECKED, rows)) @ square_root(precision)
        field = self.sample((_CHECKED, rows), rng) @ precision + noise
        change = np.ones((rows, rows))
        ahead, behind = (self._mean(field, precision + sign * _CHANGE * change) for sign in (1, -1))
        slope = (ahead - behind) / (2 * _CHANGE)
        expected = np.stack([self._square_slope(field, precision, column) for column in range(rows)], axis=1)
        if np.max(np.abs(slope + 0.5 * expected)) > _MISSED * max(1.0, float(np.max(np.abs(slope)))):
            rule = "posterior means of weights from the field b = A w + noise and the precision A, all rows together"
            raise ParameterError("denoiser", self.name, rule, "a function of b/A, or row by row, is no posterior mean")

    def _square_slope(self, field: Array, precision: Array, column: int) -> Array:
        """Return the derivative of the mean square of the sum of the rows in one field."""
        step = np.zeros(field.shape[1])
        step[column] = _CHANGE
        squares = []
        for sign in (1, -1):
            mean, covariance = self.posterior(field + sign * step, precision)
            squares.append(np.sum(mean, axis=1) ** 2 + np.sum(covariance, axis=(1, 2)))
        return np.asarray((squares[0] - squares[1]) / (2 * _CHANGE))
