r"""Hardmax attention among three or more tokens, by integration over the indices of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from glassformer.core.errors import DataError, ParameterError
from glassformer.core.numerics.normal import mills
from glassformer.models.channels.attention_indexed.pairs import pair_indices, to_matrices
from glassformer.models.channels.attention_indexed.prediction import largest_entries, row_errors
from glassformer.models.channels.attention_indexed.projected import checked_tokens
from glassformer.models.channels.sampled import Posterior, SampledChannel, parts_of, points_of, require_data
from glassformer.models.channels.scalar import Array

# Numbers in one temporary array.
_BLOCK = 2_000_000
# Smoothing, in units of sqrt(V), of the comparisons of a data point that no sampled field satisfies.
_SMOOTHING = 0.3
# Effective number of fields below which a data point counts as not reached.
_FEW = 4.0


@dataclass(frozen=True)
class HardmaxChannel(SampledChannel):
    r"""Hardmax attention :math:`y_a = \mathrm{argmax}_b\,h_{ab}` of ``T >= 3`` tokens.

    A diagonal index occurs in its own row only. Given those off the diagonal, row ``a`` contributes
    :math:`\Phi(\pm(\omega_{aa} - m_a)/\sqrt{2V})` with :math:`m_a` its largest other index: plus where :math:`y_a = a`,
    else minus, together with the condition that :math:`h_{a y_a} = m_a`. What is left, an integral over the
    :math:`T(T-1)/2` indices off the diagonal, is sampled with quasi-random points. Labels are integers, shape (..., T).

    Args:
        tokens: ``T >= 3``.
        power: :math:`Q_0 = E h_{ab}^2` off the diagonal.
        fields: sampled fields per data point, a power of two.

    Raises:
        ParameterError: an argument is out of range.
        DataError: a label is no index of a token.

    Source: arXiv:2506.01582; the decomposition over diagonal indices is theory.md's.

    Example:
        >>> channel = HardmaxChannel(tokens=3)
        >>> channel.label_from(np.array([[3.0, 0, 0, 3.0, 0, -3.0]]), np.zeros((1, 0)))
        array([[0., 1., 0.]])
    """

    tokens: int
    power: float = 1.0
    fields: int = 128

    def __post_init__(self) -> None:
        checked_tokens(self.tokens, 3)
        if self.fields < 16 or self.fields & (self.fields - 1):
            raise ParameterError("fields", self.fields, "a power of two >= 16")
        require_data(self.tokens, 20 * self.fields * self.tokens**2)

    @property
    def label(self) -> str:
        return "hardmax"

    @property
    def label_shape(self) -> tuple[int, ...]:
        return (self.tokens,)

    @property
    def components(self) -> int:
        return self.tokens * (self.tokens + 1) // 2

    @property
    def source_dimensions(self) -> int:
        return 0

    discrete = True

    def truth(self, h: Array) -> Array:
        return np.argmax(to_matrices(h, self.tokens), axis=-1).astype(float)

    def decided(self, omega: Array, variance: float) -> Array:
        return largest_entries(to_matrices(omega, self.tokens), variance)

    def shares_of(self, labels: Array) -> Array:
        return np.eye(self.tokens)[self._checked(labels)]

    def label_from(self, field: Array, source: Array) -> Array:
        del source
        return self.truth(field)

    def posterior(self, y: Array, omega: Array, variance: Array | float) -> Posterior:
        labels = self._checked(y)
        v = np.broadcast_to(np.asarray(variance, dtype=float), (len(omega),))
        size = max(1, _BLOCK // (2 * self.fields * self.tokens**2))
        parts = parts_of(len(omega), size)
        found = [self._block(labels[part], omega[part], v[part, None], replica) for replica, part in parts]
        return Posterior(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""``label_error``: wrong rows; ``label_brier``: :math:`1 - E\sum_b p_{ab}^2` per row; standard errors."""
        return row_errors(self.tokens, self.power, variance)

    def _checked(self, y: Array) -> NDArray[np.intp]:
        labels = np.asarray(y, dtype=float)
        bad = ~np.isin(labels, np.arange(self.tokens))
        if np.any(bad):
            raise DataError("y", labels[bad].flat[0], f"the index of the largest entry, 0 to {self.tokens - 1}")
        return labels.astype(np.intp)

    def _block(self, y: NDArray[np.intp], omega: Array, v: Array, replica: int) -> tuple[Array, Array, Array, Array]:
        tokens, fields = self.tokens, self.fields
        rows, columns = pair_indices(tokens)
        off = rows != columns
        points = points_of(replica, int(off.sum()), fields)
        shared = omega[:, None, off] + np.sqrt(v)[:, :, None] * points
        own = np.sqrt(2) * omega[:, ~off]
        matrix = np.full((*shared.shape[:2], tokens, tokens), -np.inf)
        matrix[..., rows[off], columns[off]] = matrix[..., columns[off], rows[off]] = shared
        largest = np.max(matrix, axis=-1)
        on_own = y == np.arange(tokens)
        sign = np.where(on_own, 1.0, -1.0)[:, None, :]
        root = np.sqrt(2 * v)[:, :, None]
        a = sign * (own[:, None, :] - largest) / root
        named = np.take_along_axis(matrix, y[:, None, :, None].astype(np.intp), axis=-1)[..., 0]
        short = np.where(on_own[:, None, :], 0.0, largest - np.where(on_own[:, None, :], 0.0, named))
        log_weight = np.sum(log_ndtr(a), axis=-1)
        exact = np.where(np.any(short > 0, axis=-1), -np.inf, log_weight)
        weight, effective, log_z = _weights(exact)
        lost = effective < _FEW
        if np.any(lost):
            soft = log_weight[lost] - 0.5 * np.sum((short[lost] / (_SMOOTHING * np.sqrt(v[lost])[:, :, None])) ** 2, -1)
            weight[lost], _, log_z[lost] = _weights(soft)
        slope = sign * mills(a) / root
        halves = [slice(0, fields), slice(fields, 2 * fields)]
        first, second = (self._score(weight[:, part], points[part], slope[:, part], v, off) for part in halves)
        return (first, second, self._curvature(weight, points, slope, a * sign, root, v), log_z)

    def _score(self, weight: Array, points: Array, slope: Array, v: Array, off: NDArray[np.bool_]) -> Array:
        """Score from some of the fields; the part along the all-ones matrix, to which labels are blind, is noise."""
        total = np.sum(weight, axis=1, keepdims=True)
        share = weight / np.where(total > 0, total, 1.0)
        score = np.empty((len(weight), off.size))
        score[:, off] = share @ points / np.sqrt(v)
        score[:, ~off] = np.sqrt(2) * np.einsum("nf,nft->nt", share, slope)
        ones = np.where(off, 1.0, 1 / np.sqrt(2)) * np.sqrt(2) / self.tokens
        return np.asarray(score - (score @ ones)[:, None] * ones)

    def _curvature(self, weight: Array, points: Array, slope: Array, a: Array, root: Array, v: Array) -> Array:
        # Products of means over independent halves: their squares would carry the sampling noise of each.
        halves = [slice(0, self.fields), slice(self.fields, 2 * self.fields)]
        total = [np.maximum(np.sum(weight[:, part], axis=1, keepdims=True), 1e-300) for part in halves]
        shares = [weight[:, part] / t for part, t in zip(halves, total, strict=True)]
        means = [share @ points[part] for share, part in zip(shares, halves, strict=True)]
        owns = [np.einsum("nf,nft->nt", share, slope[:, part]) for share, part in zip(shares, halves, strict=True)]
        spread = weight @ points**2 - means[0] * means[1]
        bend = owns[0] * owns[1] + np.einsum("nf,nft->nt", weight, slope * a / root)
        return np.asarray(2 * np.sum(bend, axis=1) + np.sum(1 - spread, axis=1) / v[:, 0])


def _weights(log_weight: Array) -> tuple[Array, Array, Array]:
    """Normalised weights over the last axis, their effective number, and the logarithm of their mean."""
    top = np.max(log_weight, axis=1, keepdims=True)
    raw = np.exp(log_weight - np.where(np.isfinite(top), top, 0.0))
    total = np.sum(raw, axis=1, keepdims=True)
    weight = raw / np.where(total > 0, total, 1.0)
    with np.errstate(divide="ignore"):
        effective = np.where(total[:, 0] > 0, 1 / np.maximum(np.sum(weight**2, axis=1), 1e-300), 0.0)
        return weight, effective, top[:, 0] + np.log(total[:, 0] / log_weight.shape[1])
