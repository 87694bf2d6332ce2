"""One step of state evolution."""

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
from glassformer.numerics.eigenvalues import with_eigenvalues
from glassformer.priors.base import Prior
from glassformer.state_evolution.fixed_point import Index


@dataclass(frozen=True)
class Policy:
    """Where state evolution begins, how few points will do, and what is rounding or sampling error.

    Attributes:
        informed: what the informed start leaves unknown: averages that are exact, and sampled ones.
        breaking: overlap that breaks the symmetry of even labels at the uninformed start, likewise.
        coarse: factor of sampled data points that locating fixed points can do without.
        fewest: sampled data points per replica below which a map tells little.
        at_first: sampled data points per replica of a first look.
        step: relative one of conjugate overlaps, for the slope of a prior.
        errors: standard errors within which an eigenvalue that cannot be negative is zero.
        rounding: by which eigenvalues of a covariance may exceed one.
        largest_ratio: sample ratio beyond which its products with information overflow.
    """

    informed: tuple[float, float] = (1e-8, 1e-4)
    breaking: tuple[float, float] = (1e-6, 1e-3)
    coarse: int = 16
    fewest: int = 64
    at_first: int = 64
    step: float = 1e-4
    errors: float = 4.0
    rounding: float = 1e-12
    largest_ratio: float = 1e100


POLICY = Policy()


class Sampled(NamedTuple):
    """The next covariances, shape (active, P, P).

    Attributes:
        value: of all data.
        rest: of the data less one replica after the other, shape (active, replicas, P, P).
        less: of data with what the sample may have none of.
        more: with what sampled posteriors and the covariance of the prior may leave out.
    """

    value: Array
    rest: Array
    less: Array
    more: Array


@dataclass(frozen=True)
class EvolutionMap:
    r"""From posterior covariances to the next ones, shape (active, P, P); a scalar model is the case ``P = 1``.

    .. math:: \hat Q = \frac{\alpha}{\mathrm{degrees}}\,E\sum_l g_l g_l^T, \qquad V = \mathrm{covariance}(\hat Q).

    Args:
        model: prior and channel of ``P`` rows.
        alpha: sample ratios, shape (batch,).
        channel: the model's, with as many sampled data points as are wanted; its own by default.
        subspace: projector on the directions that may be learned, shape (P, P); all by default.
        clamped: a row and the variances, shape (batch,), that it is held at, apart from the others.
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
        """What is learned, row by row."""
        return self.model.prior

    def with_fewer(self, factor: int) -> EvolutionMap:
        """The map with fewer sampled data points, by a factor, unless they are few already."""
        fewer = max(min(POLICY.fewest, self.channel.points), self.channel.points // factor)
        return replace(self, channel=self.channel.with_points(fewer))

    def low_accuracy(self) -> EvolutionMap:
        """The map with less work on each data point, that leads to where more is to be spent."""
        return replace(self, channel=self.channel.low_accuracy())

    def __call__(self, variance: Array, index: Index, kept: Array | None = None) -> Estimate:
        r"""The next covariances of the batch elements ``index``, from theirs of shape (active, P, P).

        ``kept``, of shape (2, batch, P, P), takes :math:`\hat Q` on the way and its error.
        """
        conjugate = self.conjugate(variance, index)
        if kept is not None:
            kept[:, index] = conjugate
        value, error = self.covariance(conjugate, index)
        if variance.shape[-1] == 1 and np.any(variance == 0) and self.channel.rank > 0:
            # A signal known exactly stays known where labels fix it; the floor of the variance must not show.
            value = np.where(variance == 0, 0.0, value)
        return Estimate(value, error)

    def conjugate(self, variance: Array, index: Index) -> Estimate:
        r""":math:`\hat Q` of covariances, and its error."""
        found = self.channel.information_matrix(floored(variance, self.channel.smallest))
        advance(len(index) * self.channel.work)
        rate = self.alpha[index, None, None] / self.prior.degrees
        return Estimate(rate * found.value, rate * found.error)

    def with_replicas(self, variance: Array, index: Index, kept: Array) -> Sampled:
        """The next covariances with what replicas of the data say apart; ``kept`` is filled as above."""
        found = self.channel.averages(floored(variance, self.channel.smallest))
        advance(len(index) * self.channel.work)
        return self._sampled(found, index, kept)

    def with_slopes(self, variance: Array, index: Index, kept: Array) -> tuple[Sampled, Array]:
        """The same and the slopes of the map there, from the same posteriors, on flattened covariances."""
        states = floored(variance, self.channel.smallest)
        found, growth = zip(*map(self._averages_and_slope, states), strict=True)
        sampled = self._sampled(concatenate_averages(found), index, kept)
        rate = self.alpha[index, None, None] / self.prior.degrees
        return sampled, -self._prior_slope(Estimate(*kept[:, index]), index) @ (rate * np.stack(growth))

    def _averages_and_slope(self, state: Array) -> tuple[Averages, Array]:
        """Where a fixed point is located, its refinement begins: the same data are not asked twice."""
        found: tuple[Averages, Array] = memoize(
            lambda: self.channel.averages_and_slope(state), "averages and slope", self.channel, state
        )
        advance(self.channel.work)
        return found

    def _sampled(self, found: Averages, index: Index, kept: Array) -> Sampled:
        rate = self.alpha[index, None, None] / self.prior.degrees
        kept[:, index] = rate * np.array(found.information)
        conjugate = _positive(Estimate(*kept[:, index]))
        # The error of the prior's own approximation: none of it is that of the conjugate overlaps.
        value, own = self.covariance(Estimate(conjugate.value, np.zeros_like(conjugate.value)), index)
        count = found.replicas.shape[1]
        rest = (found.replicas.sum(axis=1, keepdims=True) - found.replicas) / max(count - 1, 1)
        parts = [Estimate(rate * own, kept[1, index]) for own in np.moveaxis(rest, 1, 0)]
        less, more = (
            self.covariance(Estimate(own, kept[1, index]), index).value
            for own in ((1 - found.unseen) * kept[0, index], kept[0, index] + rate * found.missing)
        )
        more = more + np.where(more < value, -own, own)
        return Sampled(value, np.stack([self.covariance(part, index).value for part in parts], axis=1), less, more)

    def slope(self, variance: Array, index: Index) -> Array:
        """Slope of the map on flattened covariances, shape (active, P^2, P^2)."""
        states = floored(variance, self.channel.smallest)
        rate = self.alpha[index, None, None] / self.prior.degrees
        found, growth = zip(*map(self._averages_and_slope, states), strict=True)
        information = concatenate_averages(found).information
        conjugate, growth = Estimate(rate * information.value, rate * information.error), rate * np.stack(growth)
        # More overlap is less covariance.
        return -self._prior_slope(conjugate, index) @ growth

    def _prior_slope(self, conjugate: Estimate, index: Index) -> Array:
        """Change of covariances with flattened conjugate overlaps, by differences towards more knowledge.

        Entries off the diagonal are reached by moving two rows together, so that no state leaves the cone.
        """
        q_hat = (_positive(conjugate) if self.channel.sampled else conjugate).value
        size = q_hat.shape[-1]
        pairs = list(combinations_with_replacement(range(size), 2))
        scale = np.sqrt(1 + np.diagonal(q_hat, axis1=1, axis2=2))

        def moved(direction: Array) -> Array:
            far = q_hat + POLICY.step * direction[:, :, None] * direction[:, None, :]
            return self.covariance(Estimate(far, np.zeros_like(far)), index).value

        here = moved(np.zeros_like(scale))
        unit = scale[:, None, :] * np.eye(size)
        change = {(a, b): (moved(unit[:, a] + unit[:, b] * (a != b)) - here) / POLICY.step for a, b in pairs}
        slope = np.zeros((len(q_hat), size, size, size, size))
        for a, b in pairs:
            mixed = change[a, b] if a == b else 0.5 * (change[a, b] - change[a, a] - change[b, b])
            slope[..., a, b] = slope[..., b, a] = mixed / (scale[:, a] * scale[:, b])[:, None, None]
        return slope.reshape(len(q_hat), size * size, size * size)

    def respected(self, matrices: Array, variance: Array) -> Array:
        """The part of matrices, shape (active, P, P), that keeps the symmetries of covariances of that shape."""
        channel = self.channel
        pairs = zip(matrices, channel.self_overlap - variance, strict=True)
        return np.array([channel.row_symmetries.symmetrise(matrix, overlap) for matrix, overlap in pairs])

    def covariance(self, q_hat: Estimate, index: Index) -> Estimate:
        r"""Covariances from :math:`\hat Q`, with what must not be learned left as it is."""
        value, error = self.prior.covariance(_positive(q_hat) if self.channel.sampled else q_hat)
        if self.subspace is not None:
            outside = np.eye(len(self.subspace)) - self.subspace
            value = self.subspace @ value @ self.subspace + (1 - side_known(self.model)) * outside
            error = np.abs(self.subspace) @ error @ np.abs(self.subspace)
        if self.clamped is None:
            return Estimate(value, error)
        row, values = self.clamped
        return Estimate(held(value, row, values[index]), held(error, row, np.zeros(len(index))))


def _positive(q_hat: Estimate) -> Estimate:
    """Conjugate overlaps whose eigenvalues, where they are negative within the sampling error, are zero."""
    low = np.linalg.eigvalsh(q_hat.value)[:, 0]
    within = (low < 0) & (low > -POLICY.errors * np.linalg.norm(q_hat.error, axis=(1, 2)))
    if not within.any():
        return q_hat
    value = q_hat.value.copy()
    value[within] = with_eigenvalues(value[within], lambda values: np.maximum(values, 0.0))
    return Estimate(value, q_hat.error)


def floored(variance: Array, smallest: float) -> Array:
    """Covariances with no eigenvalue below ``smallest``; the others, and those of one row, keep all their digits.

    Example:
        >>> floored(np.array([[[0.0]], [[0.5]]]), 1e-14).ravel().tolist()
        [1e-14, 0.5]
    """
    if variance.shape[-1] == 1:
        return np.maximum(variance, smallest)
    low = np.linalg.eigvalsh(variance)[:, 0] < smallest
    lifted = variance.copy()
    lifted[low] = with_eigenvalues(variance[low], lambda values: np.maximum(values, smallest))
    return lifted


def held(matrices: Array, row: int, values: Array) -> Array:
    """Matrices with one row and column replaced by a value on the diagonal.

    Example:
        >>> held(np.ones((1, 2, 2)), 0, np.array([3.0])).tolist()
        [[[3.0, 0.0], [0.0, 1.0]]]
    """
    found = matrices.copy()
    found[:, row, :] = found[:, :, row] = 0.0
    found[:, row, row] = values
    return found


def side_known(model: Model) -> float:
    """What side information alone tells of a direction."""
    prior = model.prior
    nothing = np.zeros((1, prior.rows, prior.rows))
    return float(1 - prior.covariance(Estimate(nothing, nothing)).value[0, 0, 0])
