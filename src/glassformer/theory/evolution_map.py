"""One step of state evolution."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from glassformer.core.integral import Array, Integral
from glassformer.core.numerics.eigenvalues import with_eigenvalues
from glassformer.models.base import Model
from glassformer.models.channels.base import Channel
from glassformer.models.priors.base import Prior
from glassformer.theory.fixed_point import Index


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

    @cached_property
    def prior(self) -> Prior:
        """What is learned, row by row."""
        return self.model.prior.in_rows

    def __call__(self, variance: Array, index: Index, kept: Array | None = None) -> Integral:
        r"""The next covariances of the batch elements ``index``, from theirs of shape (active, P, P).

        ``kept``, of shape (2, batch, P, P), takes :math:`\hat Q` on the way and its error.
        """
        conjugate = self.conjugate(variance, index)
        if kept is not None:
            kept[:, index] = conjugate
        value, error = self.covariance(conjugate, index)
        if variance.shape[-1] == 1:
            # A signal known exactly stays known where labels fix it; the floor of the variance must not show.
            value = np.where((variance == 0) & (self.channel.rank > 0), 0.0, value)
        return Integral(value, error)

    def conjugate(self, variance: Array, index: Index) -> Integral:
        r""":math:`\hat Q` of covariances, and its error."""
        found = self.channel.information(floored(variance, self.channel.smallest))
        rate = self.alpha[index, None, None] / self.prior.degrees
        return Integral(rate * found.value, rate * found.error)

    def covariance(self, q_hat: Integral, index: Index) -> Integral:
        r"""Covariances from :math:`\hat Q`, with what must not be learned left as it is."""
        value, error = self.prior.covariance(q_hat)
        if self.subspace is not None:
            outside = np.eye(len(self.subspace)) - self.subspace
            value = self.subspace @ value @ self.subspace + (1 - side_known(self.model)) * outside
            error = np.abs(self.subspace) @ error @ np.abs(self.subspace)
        if self.clamped is None:
            return Integral(value, error)
        row, values = self.clamped
        return Integral(held(value, row, values[index]), held(error, row, np.zeros(len(index))))


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
    prior = model.prior.in_rows
    nothing = np.zeros((1, prior.rows, prior.rows))
    return float(1 - prior.covariance(Integral(nothing, nothing)).value[0, 0, 0])
