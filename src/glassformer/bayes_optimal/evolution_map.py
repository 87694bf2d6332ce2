r"""The map of state evolution, from posterior covariances to those after one step.

.. math:: \hat Q = \frac{\alpha}{\mathrm{degrees}}\,E\sum_l g_l g_l^T, \qquad V = \mathrm{covariance}(\hat Q).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from glassformer.channels.base import Channel
from glassformer.channels.field_averages import Averages, concatenate_averages
from glassformer.core.cache import memoize
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import advance
from glassformer.models.base import Model, require_theory
from glassformer.numerics.decompositions import map_eigenvalues
from glassformer.numerics.fixed_points.solve import Flags, Index
from glassformer.priors.base import Prior

# Fewest sampled data points per replica: maps of fewer points are too rough for an iteration (chosen by trial).
_FEWEST_POINTS = 64
# Relative step of the finite differences of a prior in the conjugate overlaps: its square is of the order of rounding.
_DIFFERENCE_STEP = 1e-4
# Standard errors within which a negative eigenvalue of an information matrix counts as zero.
_STANDARD_ERRORS = 4.0
# Eigenvalues of sampled covariances may exceed those of the prior by this much (chosen by trial).
_SAMPLED_EXCESS = 0.05


class SampledStep(NamedTuple):
    """The next covariances from sampled averages, and the variants that give their errors.

    Attributes:
        value: covariances from all data, shape (active, P, P).
        leave_one_out: covariances from all replicas of the data but one, shape (active, replicas, P, P).
        without_unseen: covariances if the unseen share of the data carried no information, shape (active, P, P).
        with_bias: covariances shifted by the estimated bias of sampled posteriors and of the prior's approximation,
            shape (active, P, P).
    """

    value: Array
    leave_one_out: Array
    without_unseen: Array
    with_bias: Array


@dataclass(frozen=True)
class EvolutionMap:
    """One step of state evolution on covariances of shape (active, P, P); a scalar model is the case ``P = 1``.

    Args:
        model: prior and channel of ``P`` rows.
        alpha: sample ratios, shape (batch,).
        channel: the model's channel, with the wanted number of sampled data points.
        subspace: projector on the directions that may be learned, shape (P, P); all by default.
        clamped: a row and its fixed variances, shape (batch,); the row has no overlap with the others.
    """

    model: Model
    alpha: Array
    channel: Channel
    subspace: Array | None = field(default=None, kw_only=True)
    clamped: tuple[int, Array] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        require_theory(self.model)

    @cached_property
    def prior(self) -> Prior:
        """The prior of the rows."""
        return self.model.prior

    def with_fewer_points(self, factor: int) -> EvolutionMap:
        """Return the map with the number of sampled data points divided by a factor, at least 64 per replica."""
        points = self.channel.inference.points
        fewer = max(min(_FEWEST_POINTS, points), points // factor)
        return replace(self, channel=self.channel.inference.with_points(fewer).channel)

    def with_more_noise(self) -> EvolutionMap | None:
        """Return the map with four times the regularising noise, or None where there is none."""
        inference = self.channel.inference
        noisier = inference.with_more_noise
        return None if noisier is None else replace(self, channel=noisier.with_points(inference.points).channel)

    def low_accuracy(self) -> EvolutionMap:
        """Return the map with less work on each data point."""
        return replace(self, channel=self.channel.inference.low_accuracy().channel)

    def __call__(self, variance: Array, index: Index, conjugates: Array | None = None) -> Estimate:
        r"""Return the next covariances of the batch elements ``index`` from the present ones, shape (active, P, P).

        ``conjugates``, shape (2, batch, P, P), is filled with :math:`\hat Q` and its error.
        """
        conjugate = self.conjugate(variance, index)
        if conjugates is not None:
            conjugates[:, index] = conjugate
        value, error = self.covariance(conjugate, index)
        if variance.shape[-1] == 1 and np.any(variance == 0) and self.channel.labels.rank > 0:
            # An exactly known signal stays known if noiseless labels determine it; the channel's floor on variances
            # must not change this.
            value = np.where(variance == 0, 0.0, value)
        return Estimate(value, error)

    def conjugate(self, variance: Array, index: Index) -> Estimate:
        r"""Return :math:`\hat Q` at covariances, and its error."""
        information = self.channel.inference.information(floor_eigenvalues(variance, self.channel.inference.smallest))
        advance(len(index) * self.channel.inference.work)
        rate = self._rate(index)
        return Estimate(rate * information.value, rate * information.error)

    def step_with_replicas(self, variance: Array, index: Index, conjugates: Array) -> SampledStep:
        """Return the next covariances with their sampling errors; ``conjugates`` is filled as by a call."""
        averages = self.channel.inference.averages(floor_eigenvalues(variance, self.channel.inference.smallest))
        advance(len(index) * self.channel.inference.work)
        return self._sampled_step(averages, index, conjugates)

    def step_with_slope(self, variance: Array, index: Index, conjugates: Array) -> tuple[SampledStep, Array]:
        """Return the step of :meth:`step_with_replicas` and the slope of the map, from the same data."""
        averages, slope = self._averages_and_slope(variance, index)
        return self._sampled_step(averages, index, conjugates), slope

    def slope(self, variance: Array, index: Index) -> Array:
        """Return the slope of the map on flattened covariances, shape (active, P^2, P^2)."""
        return self._averages_and_slope(variance, index)[1]

    def _rate(self, index: Index) -> Array:
        return np.asarray(self.alpha[index, None, None] / self.prior.degrees)

    def _averages_and_slope(self, variance: Array, index: Index) -> tuple[Averages, Array]:
        states = floor_eigenvalues(variance, self.channel.inference.smallest)
        parts, growth = zip(*map(self._averages_and_growth, states), strict=True)
        averages, rate = concatenate_averages(parts), self._rate(index)
        conjugate = Estimate(rate * averages.information.value, rate * averages.information.error)
        # Covariances decrease when conjugate overlaps increase.
        return averages, -self._prior_slope(conjugate, index) @ (rate * np.stack(growth))

    def _averages_and_growth(self, state: Array) -> tuple[Averages, Array]:
        # Memoized: the refinement starts at covariances at which the coarse solution has already computed slopes.
        averages: tuple[Averages, Array] = memoize(
            lambda: self.channel.inference.averages_and_slope(state), "averages and slope", self.channel, state
        )
        advance(self.channel.inference.work)
        return averages

    def _sampled_step(self, averages: Averages, index: Index, conjugates: Array) -> SampledStep:
        rate = self._rate(index)
        conjugates[:, index] = rate * np.array(averages.information)
        q_hat, q_hat_error = conjugates[:, index]
        # The error of the prior's approximation alone, for exact conjugate overlaps.
        positive = _positive(Estimate(q_hat, q_hat_error)).value
        value, prior_error = self.covariance(Estimate(positive, np.zeros_like(positive)), index)
        replicas = averages.replicas
        leave_one_out = (replicas.sum(axis=1, keepdims=True) - replicas) / max(replicas.shape[1] - 1, 1)

        def mapped(conjugate: Array) -> Array:
            return self.covariance(Estimate(conjugate, q_hat_error), index).value

        with_bias = mapped(q_hat + rate * averages.missing)
        return SampledStep(
            value,
            np.stack([mapped(rate * part) for part in np.moveaxis(leave_one_out, 1, 0)], axis=1),
            mapped((1 - averages.unseen) * q_hat),
            with_bias + np.where(with_bias < value, -prior_error, prior_error),
        )

    def _prior_slope(self, conjugate: Estimate, index: Index) -> Array:
        """Return the derivative of covariances in flattened conjugate overlaps, by finite differences.

        All steps increase the conjugate overlaps by positive semi-definite matrices, so that no state leaves the cone;
        entries off the diagonal follow from steps in two rows at once.
        """
        q_hat = (_positive(conjugate) if self.channel.inference.sampled else conjugate).value
        size = q_hat.shape[-1]
        pairs = list(combinations_with_replacement(range(size), 2))
        scale = np.sqrt(1 + np.diagonal(q_hat, axis1=1, axis2=2))

        def covariance_beyond(direction: Array) -> Array:
            beyond = q_hat + _DIFFERENCE_STEP * direction[:, :, None] * direction[:, None, :]
            return self.covariance(Estimate(beyond, np.zeros_like(beyond)), index).value

        here = covariance_beyond(np.zeros_like(scale))
        unit = scale[:, None, :] * np.eye(size)
        change = {
            (a, b): (covariance_beyond(unit[:, a] + unit[:, b] * (a != b)) - here) / _DIFFERENCE_STEP for a, b in pairs
        }
        slope = np.zeros((len(q_hat), size, size, size, size))
        for a, b in pairs:
            mixed = change[a, b] if a == b else 0.5 * (change[a, b] - change[a, a] - change[b, b])
            slope[..., a, b] = slope[..., b, a] = mixed / (scale[:, a] * scale[:, b])[:, None, None]
        return slope.reshape(len(q_hat), size * size, size * size)

    def respect_symmetries(self, matrices: Array, variance: Array) -> Array:
        """Return the part of matrices, shape (active, P, P), that keeps the row symmetries of the covariances."""
        pairs = zip(matrices, self.channel.fields.self_overlap - variance, strict=True)
        return np.array([self.channel.labels.row_symmetries.symmetrise(matrix, overlap) for matrix, overlap in pairs])

    def covariance(self, q_hat: Estimate, index: Index) -> Estimate:
        r"""Return covariances at :math:`\hat Q`; directions outside the subspace, and clamped rows, are fixed."""
        value, error = self.prior.covariance(_positive(q_hat) if self.channel.inference.sampled else q_hat)
        if self.subspace is not None:
            outside = np.eye(len(self.subspace)) - self.subspace
            unknown = 1 - side_information_overlap(self.model)
            value = self.subspace @ value @ self.subspace + unknown * outside
            error = np.abs(self.subspace) @ error @ np.abs(self.subspace)
        if self.clamped is None:
            return Estimate(value, error)
        row, values = self.clamped
        return Estimate(pin_row(value, row, values[index]), pin_row(error, row, np.zeros(len(index))))


def _positive(q_hat: Estimate) -> Estimate:
    """Return conjugate overlaps with zero in place of eigenvalues that are negative within the sampling error."""
    low = np.linalg.eigvalsh(q_hat.value)[:, 0]
    within = (low < 0) & (low > -_STANDARD_ERRORS * np.linalg.norm(q_hat.error, axis=(1, 2)))
    if not within.any():
        return q_hat
    value = q_hat.value.copy()
    value[within] = map_eigenvalues(value[within], lambda values: np.maximum(values, 0.0))
    return Estimate(value, q_hat.error)


def is_covariance(states: Array, excess: float = _SAMPLED_EXCESS) -> Flags:
    """Return whether states, flattened or not, have eigenvalues from 0 to ``1 + excess``; rows have unit power."""
    flat = states.reshape(len(states), -1)
    finite: Flags = np.all(np.isfinite(flat), axis=1)
    if flat.shape[1] == 1:
        return np.asarray(finite & (flat[:, 0] >= 0) & (flat[:, 0] <= 1 + excess))
    size = int(np.sqrt(flat.shape[1]))
    values = np.linalg.eigvalsh(np.where(finite[:, None], flat, 0.0).reshape(-1, size, size))
    return np.asarray(finite & (values[:, 0] > -1e-12) & (values[:, -1] <= 1 + excess))


def floor_eigenvalues(variance: Array, smallest: float) -> Array:
    """Return covariances with eigenvalues raised to at least ``smallest``; other matrices keep all their digits.

    Example:
        >>> floor_eigenvalues(np.array([[[0.0]], [[0.5]]]), 1e-14).ravel().tolist()
        [1e-14, 0.5]
    """
    if variance.shape[-1] == 1:
        return np.maximum(variance, smallest)
    low = np.linalg.eigvalsh(variance)[:, 0] < smallest
    lifted = variance.copy()
    lifted[low] = map_eigenvalues(variance[low], lambda values: np.maximum(values, smallest))
    return lifted


def pin_row(matrices: Array, row: int, values: Array) -> Array:
    """Return matrices with one row and column set to zero except for a value on the diagonal.

    Example:
        >>> pin_row(np.ones((1, 2, 2)), 0, np.array([3.0])).tolist()
        [[[3.0, 0.0], [0.0, 1.0]]]
    """
    pinned = matrices.copy()
    pinned[:, row, :] = pinned[:, :, row] = 0.0
    pinned[:, row, row] = values
    return pinned


def side_information_overlap(model: Model) -> float:
    """Return the overlap of every direction with the truth by side information alone."""
    prior = model.prior
    nothing = np.zeros((1, prior.rows, prior.rows))
    return float(1 - prior.covariance(Estimate(nothing, nothing)).value[0, 0, 0])
