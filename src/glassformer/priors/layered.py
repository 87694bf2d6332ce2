"""Independent layers of one prior, coupled by the off-diagonal conjugate overlaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import positive_integer
from glassformer.priors.base import Prior, ScalarPrior, SignalEstimate, carried_error, signal_power

# Relative step of differences of the MMSE of a layer in its precision (chosen by trial).
_STEP = 1e-3


@dataclass(frozen=True)
class LayeredPrior(Prior):
    r""":math:`L` independent signals of the same prior, such as the layers of an attention-indexed model.

    With the off-diagonal part :math:`O` of :math:`\hat Q`, and :math:`V_a` and :math:`I_a` the error and the mutual
    information of layer ``a`` at :math:`\hat Q_{aa}`,

    .. math:: I(\hat Q) = \sum_a I_a + \tfrac12\log\det(1 + D^{1/2}OD^{1/2}), \quad D = \mathrm{diag}(V_a),
       \qquad V = 2\,\partial I/\partial\hat Q.

    This is exact for Gaussian layers, and to second order in ``O`` for matrices of extensive width: the posterior
    covariances of two layers are free of each other. The error estimate contains the second-order change of every
    error times the largest :math:`|O_{ab}|\sqrt{V_aV_b}`, the size of the next order. Layers of negligible width
    (``onset > 0``) are not coupled.

    Message passing denoises layer by layer.

    Args:
        layer: prior of one layer.
        layers: number of layers, at least 1.

    Raises:
        ParameterError: ``layers`` is out of range.

    Example:
        >>> from glassformer.priors.wishart import NarrowWishartPrior
        >>> LayeredPrior(NarrowWishartPrior(), 2).self_overlap
        array([[1., 0.],
               [0., 1.]])
    """

    layer: ScalarPrior
    layers: int

    diagonal = True

    def __post_init__(self) -> None:
        positive_integer("layers", self.layers)

    @property
    def rows(self) -> int:
        return self.layers

    @property
    def degrees(self) -> float:
        return self.layer.degrees

    @property
    def symmetric(self) -> bool:
        return self.layer.symmetric

    @property
    def stepwise(self) -> bool:
        return self.layer.stepwise

    @property
    def weak_recovery_onset(self) -> float:
        return self.layer.weak_recovery_onset

    @property
    def mmse_dimension(self) -> float:
        return self.layers * self.layer.mmse_dimension

    @property
    def self_overlap(self) -> Array:
        # All layers have the same prior mean, so their overlap before any data is the power of this mean.
        return np.asarray(np.eye(self.layers) + (self.layer.second_moment - 1))

    def factor_width(self, columns: int) -> int:
        """Return the width of the factors of every layer."""
        return self.layer.factor_width(columns)

    def covariance(self, q_hat: Estimate) -> Estimate:
        precision, precision_error = np.maximum(_diagonal(q_hat.value), 0.0), np.abs(_diagonal(q_hat.error))
        found = carried_error(self.layer, precision.ravel(), precision_error.ravel())
        alone = Estimate(*(_from_diagonal(part.reshape(precision.shape)) for part in found))
        return self._coupled(alone, q_hat) if self._couples(q_hat.value) else alone

    def _couples(self, q_hat: Array) -> bool:
        return couples_to_second_order(self) and bool(np.any(_off_diagonal(q_hat)))

    def _coupled(self, alone: Estimate, q_hat: Estimate) -> Estimate:
        """Return the posterior covariance with the off-diagonal conjugate overlaps, from that without them."""
        value, precision = _diagonal(alone.value), _diagonal(q_hat.value)
        root, coupling = self._coupling(q_hat.value, value)
        mixed = root[..., :, None] * np.linalg.inv(np.eye(self.layers) + coupling) * root[..., None, :]
        # V_aa = V_a + (mixed_aa - V_a) (-V_a'/V_a^2); of a Gaussian layer the last factor is one.
        step = _STEP * (1 + precision)
        less, more = np.maximum(precision - step, 0.0), precision + step
        slope = (self._mmse(less).value - self._mmse(more).value) / (more - less)
        second = _diagonal(mixed) - value
        change = second * np.divide(slope, value**2, out=np.ones_like(value), where=value > 0)
        found = mixed + _from_diagonal(change - second)
        next_order = np.max(np.abs(coupling), axis=(-2, -1))[..., None, None]
        size = root[..., :, None] * root[..., None, :]
        coupling_error = _off_diagonal(q_hat.error) * size**2
        return Estimate(
            found, alone.error + coupling_error + next_order * np.abs(_off_diagonal(found) + _from_diagonal(change))
        )

    def _coupling(self, q_hat: Array, value: Array) -> tuple[Array, Array]:
        """Return the roots of the errors, and the off-diagonal conjugate overlaps in their units."""
        root = np.sqrt(np.maximum(value, 0.0))
        return root, root[..., :, None] * _off_diagonal(q_hat) * root[..., None, :]

    def _mmse(self, precision: Array) -> Estimate:
        found = self.layer.mmse(precision.ravel())
        return Estimate(found.value.reshape(precision.shape), found.error.reshape(precision.shape))

    def profile(self, points: int) -> tuple[Array, Array]:
        q_hat = self.layer.weak_recovery_onset + self.layer.mmse_dimension * np.geomspace(1e-2, 1e4, points)
        return q_hat, self.layer.mmse(q_hat).value

    def entropy(self, q_hat: Array, variance: Array) -> Estimate:
        precision = np.maximum(_diagonal(q_hat), 0.0)
        information = self.layer.mutual_information(precision.ravel())
        value = 0.5 * precision * _diagonal(variance) - information.value.reshape(precision.shape)
        total = value.sum(axis=1)
        if self._couples(q_hat):
            _, coupling = self._coupling(q_hat, self._mmse(precision).value)
            shared = 0.5 * np.linalg.slogdet(np.eye(self.layers) + coupling)[1]
            total = total + 0.5 * np.sum(_off_diagonal(q_hat) * variance, axis=(1, 2)) - shared
        return Estimate(self.degrees * total, self.degrees * information.error.reshape(precision.shape).sum(axis=1))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return np.stack([self.layer.sample((shape[1], shape[2]), rng) for _ in range(self.layers)])

    def mean(self, shape: tuple[int, ...]) -> Array:
        return np.stack([self.layer.mean((shape[1], shape[2]))] * self.layers)

    def denoise(self, field: Array, precision: Array, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        before = memory or (None,) * self.layers
        arguments = zip(field, np.diag(precision), before, strict=True)
        return _stacked([self.layer.denoise(b, float(a), kept) for b, a, kept in arguments])

    def mix(self, old: SignalEstimate, new: SignalEstimate, weight: float) -> SignalEstimate:
        pairs = zip(_layers(old), _layers(new), strict=True)
        return _stacked([self.layer.mix(before, after, weight) for before, after in pairs])

    def power_deviation(self, shape: tuple[int, ...]) -> float:
        return self.layer.power_deviation((shape[1], shape[2]))

    def gram(self, first: Array, second: Array) -> Array:
        # Every prior counts the power of a matrix as a multiple of its squared norm.
        unit = signal_power(self.layer, np.ones(first.shape[1:])) / np.prod(first.shape[1:])
        return np.asarray(unit * np.einsum("aij,bij->ab", first, second))


def couples_to_second_order(prior: Prior) -> bool:
    r"""Return whether the off-diagonal part of :math:`\hat Q` counts, to second order alone."""
    return prior.diagonal and prior.rows > 1 and prior.weak_recovery_onset == 0


def _stacked(found: list[SignalEstimate]) -> SignalEstimate:
    """Return the estimates of all layers as one."""
    return SignalEstimate(
        np.stack([estimate.signal for estimate in found]),
        np.diag([estimate.variance for estimate in found]),
        np.diag([estimate.onsager for estimate in found]),
        tuple(estimate.memory for estimate in found),
    )


def _layers(estimate: SignalEstimate) -> list[SignalEstimate]:
    memory = estimate.memory or (None,) * len(estimate.signal)
    parts = zip(estimate.signal, np.diag(estimate.variance), np.diag(estimate.onsager), memory, strict=True)
    return [SignalEstimate(signal, variance, onsager, kept) for signal, variance, onsager, kept in parts]


def _diagonal(matrices: Array) -> Array:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _from_diagonal(values: Array) -> Array:
    return values[..., None] * np.eye(values.shape[-1])


def _off_diagonal(matrices: Array) -> Array:
    return np.asarray(matrices - _from_diagonal(_diagonal(matrices)))
