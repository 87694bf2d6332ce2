"""Rows of independent weights of any law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quasi_random import mean_and_error
from glassformer.priors.base import SignalEstimate
from glassformer.priors.law import Law
from glassformer.priors.rows import WeightComponents, WeightRowsPrior

# Relative size of an entry of a precision above which it couples two rows (a convention).
_COUPLED = 1e-10
# Errors of the change that coupling makes, in units of the spread of its estimates: the estimates share a part of their
# error, and where it was measured, errors were up to 2.5 times the spread.
_SHARED = 4.0
# Variance of a weight that is known exactly: channels divide by it.
_KNOWN = 1e-15
# Precisions between which a profile is tabulated, and how many.
_PROFILE, _GRID = (1e-4, 1e6), 60

_Function = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class SeparablePrior(WeightRowsPrior):
    r"""``P`` rows of independent weights of one law, observed together with the precision :math:`\hat Q + sI`.

    .. math:: V(\hat Q) = E_{w^*,\xi}\,\mathrm{Cov}\bigl[w\mid b, A\bigr], \qquad A = \hat Q + sI, \quad
       b = Aw^* + A^{1/2}\xi, \qquad \Psi(\hat Q) = E\log Z(b, A), \quad
       \partial\Psi/\partial\hat Q = \tfrac12\,(E[ww^T] - V).

    Rows that the precision does not couple are averaged one by one, by quadrature. The change that coupling makes is an
    average over lattices for two rows, and over quasi-random points for more, with its standard error. Unlike for
    Gaussian rows, mixtures of rows have another law than rows: knowing one direction gives information on others.

    Args:
        law: of every weight.
        count: ``P >= 1``.
        heads: groups of rows, row ``k`` in group ``k mod heads``, that see disjoint coordinates of the inputs.
        side_information: :math:`\lambda` in [0, 1), as for Gaussian rows; :math:`s = \lambda/(1-\lambda)`.

    Raises:
        ParameterError: an argument is out of range, or the law cannot have so many rows.

    Example:
        >>> from glassformer.priors.laws import Rademacher
        >>> prior = SeparablePrior(Rademacher(), 1)
        >>> round(float(prior.covariance(Estimate(np.ones((1, 1, 1)), np.zeros((1, 1, 1)))).value[0, 0, 0]), 6)
        0.4496
    """

    law: Law
    count: int
    heads: int = 1
    side_information: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.law.validate(-(-self.count // self.heads))

    @property
    def mmse_dimension(self) -> float:
        return self.count * self.law.mmse_dimension

    @property
    def rotational(self) -> bool:
        return self.law.rotational

    @property
    def weight_components(self) -> WeightComponents | None:
        own = self.law.components
        return None if own is None else WeightComponents(*own, np.ones(len(own.weights)))

    @property
    def self_overlap(self) -> Array:
        return self.allowed(np.eye(self.count) + self.law.mean**2)

    def covariance(self, q_hat: Estimate) -> Estimate:
        value, error = np.zeros((2, *q_hat.value.shape))
        errors = np.abs(q_hat.error)
        for k, precision in enumerate(self._precisions(q_hat.value)):
            for rows in _groups(precision):
                inner = np.ix_(rows, rows)
                own = errors[k][inner]
                moments, join = partial(self._moments, own), partial(_independent_moments, own)
                found = self._averaged(precision[inner], moments, join)
                value[k][inner] = 0.5 * (found.value[0] + found.value[0].T)
                error[k][inner] = found.error[0] + np.abs(found.value[1])
        # Discrete weights are known exactly at large precisions, but channels divide by the variance.
        missing = np.maximum(_KNOWN - np.diagonal(value, axis1=1, axis2=2), 0.0)[:, :, None] * np.eye(self.count)
        return Estimate(value + missing, error + missing)

    def _moments(self, precision_error: Array, field: Array, precision: Array) -> Array:
        """Return the posterior covariances, and their change by an error of the precision, shape (n, 2, P, P)."""
        # The derivative of V along dA is -E[C dA C]; |C| |dA| |C| bounds it entry by entry.
        covariance = self.law.posterior(field, precision)[1]
        size, change = np.abs(covariance), precision_error if len(precision) > 1 else np.ones((1, 1))
        return np.stack([covariance, size @ change @ size], axis=1)

    def entropy(self, q_hat: Array, variance: Array) -> Estimate:
        value, error = np.zeros((2, len(q_hat)))
        for k, precision in enumerate(self._precisions(q_hat)):
            for rows in _groups(precision):
                found = self._averaged(precision[np.ix_(rows, rows)], self.law.log_partition, partial(np.sum, axis=0))
                value[k] += found.value
                error[k] += found.error
        value -= 0.5 * np.einsum("nab,nab->n", self.self_overlap - variance, q_hat)
        return Estimate(self.degrees * value, self.degrees * error)

    def _averaged(self, precision: Array, function: _Function, join: Callable[[list[Array]], Array]) -> Estimate:
        """Return average of ``function(b, A)``: that of uncoupled rows, joined, and the change by their coupling."""
        alone = [np.array([[own]]) for own in np.diag(precision)]
        singles = [mean_and_error(self._estimates(own, function)) for own in alone]
        value, error = (join([single[part] for single in singles]) for part in (0, 1))
        if len(alone) == 1:
            return Estimate(value, error)
        difference = self._estimates(precision, function) - self._estimates(np.diag(np.diag(precision)), function)
        change, uncertainty = mean_and_error(difference)
        return Estimate(value + change, error + _SHARED * uncertainty)

    def _estimates(self, precision: Array, function: _Function) -> Array:
        return self.law.estimates(precision, lambda field: function(field, precision))

    def profile(self, points: int) -> tuple[Array, Array]:
        # The variances are those of the profile of Gaussian rows.
        wanted, grid = 1 / (1 + np.exp(np.linspace(-6, 6, points))), np.geomspace(*_PROFILE, _GRID)
        found = self.scalar_variance(grid).value
        falling = np.minimum.accumulate(np.maximum(found, np.finfo(float).tiny))
        precision = np.exp(np.interp(np.log(wanted), np.log(falling[::-1]), np.log(grid[::-1])))
        precision = np.sort(precision)
        return precision - self.side, self.scalar_variance(precision).value

    def scalar_variance(self, precision: Array) -> Estimate:
        """Return the posterior variance of a single weight at precisions of shape (n,)."""
        single = SeparablePrior(self.law, 1)
        found = single.covariance(Estimate(precision[:, None, None], np.zeros((len(precision), 1, 1))))
        return Estimate(found.value[:, 0, 0], found.error[:, 0, 0])

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return self.law.sample(shape, rng)

    def mean(self, shape: tuple[int, ...]) -> Array:
        return np.full(shape, self.law.mean)

    def denoise(self, field: Array, precision: Array, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        """Return posterior means of all weights, and the average of their posterior covariances at this very field."""
        del memory
        signal, variance = np.zeros_like(field), np.zeros((self.count, self.count))
        allowed = self.allowed(precision)
        for rows in _groups(allowed):
            inner = np.ix_(rows, rows)
            mean, covariance = self.law.posterior(np.ascontiguousarray(field[rows].T), allowed[inner])
            signal[rows], variance[inner] = mean.T, covariance.mean(axis=0)
        return SignalEstimate(signal, variance, variance)

    def _precisions(self, q_hat: Array) -> Array:
        """Return precisions with those of the side information, shape (batch, P, P)."""
        return self.allowed(q_hat) + self.side * np.eye(self.count)


def _groups(precision: Array) -> list[NDArray[np.intp]]:
    """Return rows that a precision couples, directly or through others, group by group."""
    scale = np.sqrt(np.abs(np.diag(precision)))
    reach = np.abs(precision) > _COUPLED * np.outer(scale, scale)
    np.fill_diagonal(reach, True)
    for _ in range(len(reach).bit_length()):
        reach = reach @ reach
    return [np.flatnonzero(pattern) for pattern in np.unique(reach, axis=0)]


def _independent_moments(precision_error: Array, singles: list[Array]) -> Array:
    """Return :meth:`SeparablePrior._moments` of independent rows, from those of each."""
    variance, change = (np.array([single[part, 0, 0] for single in singles]) for part in (0, 1))
    spread = np.outer(variance, variance) * precision_error
    np.fill_diagonal(spread, change * np.diag(precision_error))
    return np.stack([np.diag(variance), spread])
