"""One step of the state evolution of models of several rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glassformer.core.integral import Array, Integral
from glassformer.models.channels.multi_index.base import MultiIndexChannel
from glassformer.models.matrix import MatrixModel
from glassformer.theory.state_evolution import Index


@dataclass(frozen=True)
class OverlapMap:
    r"""From posterior covariances to the next ones.

    .. math:: \hat Q = \frac{\alpha}{\mathrm{degrees}}\,E\sum_l g_l g_l^T, \qquad V = \mathrm{covariance}(\hat Q).

    Args:
        model: prior and channel of ``P`` rows.
        alpha: sample ratios, shape (batch,).
        channel: the model's, with as many sampled data points as are wanted.
        subspace: projector on the directions that may be learned, shape (P, P); all by default.
        pinned: a row and the variances, shape (batch,), that it is held at, apart from the others.
    """

    model: MatrixModel
    alpha: Array
    channel: MultiIndexChannel
    subspace: Array | None = field(default=None, kw_only=True)
    pinned: tuple[int, Array] | None = field(default=None, kw_only=True)

    def __call__(self, variance: Array, index: Index) -> Integral:
        """The next covariances of the batch elements ``index``, from theirs of shape (active, P, P)."""
        return self.covariance(self.conjugate(variance, index), index)

    def conjugate(self, variance: Array, index: Index) -> Integral:
        r""":math:`\hat Q` of covariances, and its standard error."""
        # A posterior can be sampled at positive eigenvalues only.
        found = self.channel.information(variance + 1e-12 * np.eye(variance.shape[-1]))
        rate = self.alpha[index, None, None] / self.model.prior.degrees
        return Integral(rate * found.value, rate * found.error)

    def covariance(self, q_hat: Integral, index: Index) -> Integral:
        r"""Covariances from :math:`\hat Q`, with what must not be learned left as it is."""
        value, error = self.model.prior.covariance(q_hat)
        if self.subspace is not None:
            outside = np.eye(len(self.subspace)) - self.subspace
            value = self.subspace @ value @ self.subspace + (1 - side_known(self.model)) * outside
            error = np.abs(self.subspace) @ error @ np.abs(self.subspace)
        if self.pinned is None:
            return Integral(value, error)
        row, values = self.pinned
        return Integral(held(value, row, values[index]), held(error, row, np.zeros(len(index))))


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


def side_known(model: MatrixModel) -> float:
    """What side information alone tells of a direction."""
    nothing = np.zeros((1, model.prior.rows, model.prior.rows))
    return float(1 - model.prior.covariance(Integral(nothing, nothing)).value[0, 0, 0])
