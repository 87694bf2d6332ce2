"""Laws that are mixtures of Gaussians and points."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quadrature import gauss_panels
from glassformer.numerics.quasi_random import normal_points
from glassformer.priors.law import Law


@dataclass(frozen=True)
class Quadrature:
    """How mixtures are averaged over: one row by panels, two by lattices, more by points."""

    reach: float = 8.5  # standard deviations that panels cover
    panels: int = 2  # per standard deviation
    nodes: tuple[int, int] = (10, 9)  # of the two rules compared
    lattices: int = 4  # that average over two rows
    spacing: float = 0.35  # of them
    radius: float = 6.5  # of them
    points: int = 1024  # quasi-random ones per replica
    replicas: int = 8  # of those
    states: int = 1024  # of all rows together that are summed over, at most
    at_once: int = 1 << 22  # numbers held in one go


_POLICY = Quadrature()


class Components(NamedTuple):
    """Weights, means and variances of the Gaussians that a law is a mixture of; points have no variance."""

    weights: Array
    means: Array
    variances: Array


class MixtureLaw(Law):
    """A law that is a mixture of Gaussians and points: posteriors are sums over its components, one for each row."""

    @property
    @abstractmethod
    def components(self) -> Components:
        """What it is a mixture of."""

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
        if count**rows > _POLICY.states:
            allowed = f"few enough rows that {count}^rows is at most {_POLICY.states} for weights of {count} kinds"
            raise ParameterError("rows", rows, allowed, f"fewer rows, or a simpler prior than {self.label}")

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        weights, means, variances = self.components
        kind = rng.choice(len(weights), size=shape, p=weights)
        return np.asarray(means[kind] + np.sqrt(variances[kind]) * rng.standard_normal(shape))

    def posterior(self, field: Array, precision: Array) -> tuple[Array, Array]:
        states = self._states(precision)
        mean, covariance = np.empty_like(field), np.empty((*field.shape, field.shape[1]))
        share = max(1, _POLICY.at_once // len(states))
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
        r"""Fields of one row: two Gauss rules on panels as fine as the finest component of :math:`b/\sqrt a`."""
        weights, means, variances = self.components
        centre, spread = np.sqrt(precision) * means[:, None], np.sqrt(1 + precision * variances)[:, None]
        edges = np.unique(
            centre + spread * np.linspace(-_POLICY.reach, _POLICY.reach, round(2 * _POLICY.reach * _POLICY.panels) + 1)
        )
        nodes = []
        for count in _POLICY.nodes:
            x, width = gauss_panels(edges, count)
            density = np.exp(-0.5 * ((x - centre) / spread) ** 2) / (np.sqrt(2 * np.pi) * spread)
            nodes.append((np.sqrt(precision) * x[:, None], width * (weights @ density)))
        return nodes

    def _on_lattices(self, precision: Array) -> list[tuple[Array, Array]]:
        """Fields of two rows: the trapezoid rule for every pair of components, on lattices moved at random."""
        choices = [np.array(choice).T for choice in itertools.product(zip(*self.components, strict=True), repeat=2)]
        spreads = [square_root(precision + precision @ (own[2][:, None] * precision)) for own in choices]
        nodes = []
        for points, weight in _lattices():
            fields = [precision @ own[1] + points @ spread for own, spread in zip(choices, spreads, strict=True)]
            nodes.append((np.concatenate(fields), np.concatenate([np.prod(own[0]) * weight for own in choices])))
        return nodes

    def _quasi_random(self, precision: Array) -> Array:
        """Fields of several rows, shape (replicas, points, P): weights by their quantiles, and noise."""
        size = len(precision)
        kind, noise = np.split(normal_points(2 * size, _POLICY.points, _POLICY.replicas), 2, axis=-1)
        return self._quantile(scipy.special.ndtr(kind)) @ precision + noise @ square_root(precision)

    def _quantile(self, uniform: Array) -> Array:
        """Weights from uniform numbers: which component, then where in it."""
        weights, means, variances = self.components
        ends = np.cumsum(weights)
        kind = np.minimum(np.searchsorted(ends, uniform, side="right"), len(weights) - 1)
        inner = np.clip((uniform - (ends - weights)[kind]) / weights[kind], 1e-16, 1 - 1e-16)
        return np.asarray(means[kind] + np.sqrt(variances[kind]) * scipy.special.ndtri(inner))


@lru_cache(maxsize=1)
def _lattices() -> list[tuple[Array, Array]]:
    """Points of the plane with their weights under two standard normal numbers.

    What varies faster than a lattice is missed by all of its parts alike: only moved at random do their results differ
    by as much as they are off.
    """
    steps = np.arange(-np.ceil(_POLICY.radius / _POLICY.spacing), np.ceil(_POLICY.radius / _POLICY.spacing) + 1)
    square = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    lattices = []
    for shift in np.random.default_rng(0).random((_POLICY.lattices, 2)):
        points = _POLICY.spacing * (square + shift)
        points = points[np.sum(points**2, axis=1) <= _POLICY.radius**2]
        lattices.append((points, _POLICY.spacing**2 * np.exp(-0.5 * np.sum(points**2, axis=1)) / (2 * np.pi)))
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
    """Mean and covariance of the posterior."""
    log_weights = np.stack([state.log_weight(field) for state in states])
    shares = np.exp(log_weights - np.max(log_weights, axis=0))
    shares /= np.sum(shares, axis=0)
    means = [state.posterior_mean(field) for state in states]
    mean = np.asarray(sum(share[:, None] * own for share, own in zip(shares, means, strict=True)))
    covariance = np.zeros((*field.shape, field.shape[1]))
    for share, own, state in zip(shares, means, states, strict=True):
        # Around the mean: a difference of squares would lose the digits of a small covariance.
        gap = own - mean
        covariance += share[:, None, None] * (state.covariance + gap[:, :, None] * gap[:, None, :])
    return mean, covariance
