r"""Laws of a single weight: the interface, and mixtures of Gaussians and points.

A vector of ``P`` independent weights has, given natural parameters ``b`` and ``A``, the posterior

.. math:: p(w\mid b, A) = \frac{1}{Z(b, A)} \prod_{a=1}^P p(w_a)\; e^{b\cdot w - \frac12 w^TAw},
   \qquad b = Aw^* + A^{1/2}\xi,

from which follows all that rows of weights and factors of matrices need. Laws have unit variance: before any data the
posterior covariance is the identity.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quadrature import gauss_panels
from glassformer.numerics.quasi_random import normal_points

# Averages over one row: nodes of two Gauss rules, whose difference is the error, panels per standard deviation, and
# range in standard deviations (beyond it the normal law is below rounding).
_NODES, _PANELS, _REACH = (10, 9), 2, 8.5
# Over two rows: so many randomly shifted lattices of this spacing and radius, in standard deviations (chosen by trial).
_LATTICES, _SPACING, _RADIUS = 4, 0.35, 6.5
# Over more: so many quasi-random points in each of so many replicas (chosen by trial).
_POINTS, _REPLICAS = 1024, 8
# Posteriors are sums over the states of all rows together, at most so many (a bound on time), and so many numbers are
# held at once (a bound on memory).
_MOST_STATES, _AT_ONCE = 1024, 1 << 22


class Components(NamedTuple):
    """Weights, means and variances of the Gaussians that a law is a mixture of; points have no variance."""

    weights: Array
    means: Array
    variances: Array


class Law(ABC):
    """The law of one weight; ``P`` of them are independent."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name in messages and tables."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Mean of a weight; its variance is one."""

    @property
    @abstractmethod
    def mmse_dimension(self) -> float:
        r""":math:`\lim_{a\to\infty} a\,\mathrm{MMSE}(a)`: the weight of the continuous part, zero if there is none."""

    @property
    @abstractmethod
    def fourth_moment(self) -> float:
        """Fourth moment around zero: 3 for Gaussian weights, 1 for signs."""

    @property
    def rotational(self) -> bool:
        """True when the law of several independent weights is invariant under rotations."""
        return False

    @property
    def components(self) -> Components | None:
        """Gaussians and points that the law is a mixture of; None for laws that are no mixture."""
        return None

    def validate(self, rows: int) -> None:
        """Check that so many rows can be averaged over, and that the law is consistent.

        Raises:
            ParameterError: there are too many rows, or the law is inconsistent. The message names the remedy.
        """
        del rows

    @abstractmethod
    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw independent weights."""

    @abstractmethod
    def posterior(self, field: Array, precision: Array) -> tuple[Array, Array]:
        """Return posterior means, shape (n, P), and covariances, (n, P, P), for fields ``b``, (n, P), at one ``A``."""

    @abstractmethod
    def log_partition(self, field: Array, precision: Array) -> Array:
        r"""Return :math:`\log Z(b, A)`, shape (n,)."""

    @abstractmethod
    def estimates(self, precision: Array, function: Callable[[Array], Array]) -> Array:
        """Return independent estimates, along the first axis, of the mean of ``function`` over fields ``b``.

        Args:
            precision: shape (P, P), positive semi-definite.
            function: from fields, shape (n, P), to numbers or arrays, shape (n, ...).
        """


class MixtureLaw(Law):
    """A mixture of Gaussians and points: posteriors are sums over one component for each row."""

    @property
    @abstractmethod
    def components(self) -> Components:
        """The components of the mixture."""

    @property
    def mean(self) -> float:
        return float(self.components.weights @ self.components.means)

    @property
    def fourth_moment(self) -> float:
        weights, means, variances = self.components
        return float(weights @ (means**4 + 6 * means**2 * variances + 3 * variances**2))

    @property
    def mmse_dimension(self) -> float:
        return float(np.sum(self.components.weights[self.components.variances > 0]))

    def validate(self, rows: int) -> None:
        count = len(self.components.weights)
        if count**rows > _MOST_STATES:
            allowed = f"few enough rows that {count}^rows is at most {_MOST_STATES} for weights of {count} kinds"
            raise ParameterError("rows", rows, allowed, f"fewer rows, or a simpler prior than {self.label}")

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        weights, means, variances = self.components
        kind = rng.choice(len(weights), size=shape, p=weights)
        return np.asarray(means[kind] + np.sqrt(variances[kind]) * rng.standard_normal(shape))

    def posterior(self, field: Array, precision: Array) -> tuple[Array, Array]:
        states = self._states(precision)
        mean, covariance = np.empty_like(field), np.empty((*field.shape, field.shape[1]))
        share = max(1, _AT_ONCE // len(states))
        for part in (slice(start, start + share) for start in range(0, len(field), share)):
            mean[part], covariance[part] = _moments(states, field[part])
        return mean, covariance

    def log_partition(self, field: Array, precision: Array) -> Array:
        return np.asarray(
            scipy.special.logsumexp([state.log_weight(field) for state in self._states(precision)], axis=0)
        )

    def _states(self, precision: Array) -> list[_State]:
        choices = itertools.product(zip(*self.components, strict=True), repeat=len(precision))
        return [_State.of(np.array(choice), precision) for choice in choices]

    def estimates(self, precision: Array, function: Callable[[Array], Array]) -> Array:
        size = len(precision)
        if size == 1:
            nodes = self._on_panels(float(precision[0, 0]))
        elif size == 2:
            nodes = self._on_lattices(precision)
        else:
            fields = self._quasi_random(precision)
            nodes = [(replica, np.full(len(replica), 1 / len(replica))) for replica in fields]
        return np.stack([np.tensordot(weight, function(fields), axes=1) for fields, weight in nodes])

    def _on_panels(self, precision: float) -> list[tuple[Array, Array]]:
        r"""Return fields of one row: two Gauss rules on panels as fine as the finest component of :math:`b/\sqrt a`."""
        weights, means, variances = self.components
        centre, spread = np.sqrt(precision) * means[:, None], np.sqrt(1 + precision * variances)[:, None]
        edges = np.unique(centre + spread * np.linspace(-_REACH, _REACH, round(2 * _REACH * _PANELS) + 1))
        nodes = []
        for count in _NODES:
            x, width = gauss_panels(edges, count)
            density = np.exp(-0.5 * ((x - centre) / spread) ** 2) / (np.sqrt(2 * np.pi) * spread)
            nodes.append((np.sqrt(precision) * x[:, None], width * (weights @ density)))
        return nodes

    def _on_lattices(self, precision: Array) -> list[tuple[Array, Array]]:
        """Return fields of two rows: the trapezoid rule for every pair of components, on randomly shifted lattices."""
        choices = [np.array(choice).T for choice in itertools.product(zip(*self.components, strict=True), repeat=2)]
        spreads = [square_root(precision + precision @ (own[2][:, None] * precision)) for own in choices]
        nodes = []
        for points, weight in _lattices():
            fields = [precision @ own[1] + points @ spread for own, spread in zip(choices, spreads, strict=True)]
            nodes.append((np.concatenate(fields), np.concatenate([np.prod(own[0]) * weight for own in choices])))
        return nodes

    def _quasi_random(self, precision: Array) -> Array:
        """Return the fields of several rows, shape (replicas, points, P): weights by their quantiles, and noise."""
        choice, noise = np.split(normal_points(2 * len(precision), _POINTS, _REPLICAS), 2, axis=-1)
        uniform = scipy.special.ndtr(choice)
        # The component, and the quantile within it.
        weights, means, variances = self.components
        ends = np.cumsum(weights)
        kind = np.minimum(np.searchsorted(ends, uniform, side="right"), len(weights) - 1)
        inner = np.clip((uniform - (ends - weights)[kind]) / weights[kind], 1e-16, 1 - 1e-16)
        drawn = means[kind] + np.sqrt(variances[kind]) * scipy.special.ndtri(inner)
        return np.asarray(drawn @ precision + noise @ square_root(precision))


@lru_cache(maxsize=1)
def _lattices() -> list[tuple[Array, Array]]:
    """Return points of the plane with their weights under two standard normal numbers.

    Functions that vary faster than a lattice are missed by any fixed part of it alike; the results of randomly shifted
    lattices differ by their error.
    """
    steps = np.arange(-np.ceil(_RADIUS / _SPACING), np.ceil(_RADIUS / _SPACING) + 1)
    square = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    lattices = []
    for shift in np.random.default_rng(0).random((_LATTICES, 2)):
        points = _SPACING * (square + shift)
        points = points[np.sum(points**2, axis=1) <= _RADIUS**2]
        lattices.append((points, _SPACING**2 * np.exp(-0.5 * np.sum(points**2, axis=1)) / (2 * np.pi)))
    return lattices


class _State(NamedTuple):
    r"""One choice of components for all rows: its weight is Gaussian in the field, its posterior mean linear.

    With means ``m``, variances ``S`` and :math:`G = I + S^{1/2}AS^{1/2}` nothing is divided by a variance.
    """

    constant: float
    mean: Array
    covariance: Array

    @classmethod
    def of(cls, choice: Array, precision: Array) -> _State:
        weights, means, variances = choice.T
        deviation = np.sqrt(variances)
        inner = np.eye(len(means)) + deviation[:, None] * precision * deviation
        covariance = deviation[:, None] * np.linalg.inv(inner) * deviation
        pull = precision @ means
        constant = np.sum(np.log(weights)) - 0.5 * np.linalg.slogdet(inner)[1]
        constant += 0.5 * pull @ covariance @ pull - 0.5 * means @ pull
        return cls(float(constant), means - covariance @ pull, 0.5 * (covariance + covariance.T))

    def log_weight(self, field: Array) -> Array:
        return np.asarray(self.constant + field @ self.mean + 0.5 * np.sum((field @ self.covariance) * field, axis=1))

    def posterior_mean(self, field: Array) -> Array:
        return self.mean + field @ self.covariance


def _moments(states: list[_State], field: Array) -> tuple[Array, Array]:
    """Return the mean and covariance of the posterior."""
    log_weights = np.stack([state.log_weight(field) for state in states])
    shares = np.exp(log_weights - np.max(log_weights, axis=0))
    shares /= np.sum(shares, axis=0)
    means = [state.posterior_mean(field) for state in states]
    mean = np.asarray(sum(share[:, None] * own for share, own in zip(shares, means, strict=True)))
    covariance = np.zeros((*field.shape, field.shape[1]))
    for share, own, state in zip(shares, means, states, strict=True):
        # Computed around the mean, because a difference of squares would lose the digits of a small covariance.
        gap = own - mean
        covariance += share[:, None, None] * (state.covariance + gap[:, :, None] * gap[:, None, :])
    return mean, covariance
