r"""Hardmax attention among three or more tokens, by integration over the indices of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from glassformer.channels.attention.label_order import LabelOrder, label_order
from glassformer.channels.attention.prediction import largest_entries, row_errors
from glassformer.channels.attention.projected import checked_tokens
from glassformer.channels.sampled import (
    SampledChannel,
    SampledPosterior,
    batched_posterior,
    require_average_resources,
    weighted_posterior,
)
from glassformer.channels.scalar.base import Array
from glassformer.core.errors import DataError, ParameterError
from glassformer.designs.token_pairs import pair_indices, to_matrices
from glassformer.numerics.normal import inverse_mills_ratio

# Numbers in one temporary array.
_BLOCK = 500_000


@dataclass(frozen=True)
class HardmaxChannel(SampledChannel):
    r"""Hardmax attention :math:`y_a = \mathrm{argmax}_b\,h_{ab}` of ``T >= 3`` tokens.

    A diagonal index occurs in its own row only. Given those off the diagonal, row ``a`` contributes
    :math:`\Phi(\pm(\omega_{aa} - m_a)/\sqrt{2V})` with :math:`m_a` its largest other index: plus where :math:`y_a = a`,
    else minus, together with the condition that :math:`h_{a y_a} = m_a`. What is left, an integral over the
    :math:`T(T-1)/2` indices off the diagonal, is sampled with quasi-random points: each from its normal law below those
    that bound it, the largest first, so that all agree with the label. Labels are integers, shape (..., T).

    Args:
        tokens: ``T >= 3``.
        power: :math:`Q_0 = E h_{ab}^2` off the diagonal.
        fields: sampled fields per data point, a power of two.

    Raises:
        ParameterError: an argument is out of range.
        DataError: a label is no index of a token, or labels are those of no symmetric matrix.

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
        if self.fields < 32 or self.fields & (self.fields - 1):
            raise ParameterError("fields", self.fields, "a power of two >= 32")
        require_average_resources(self.tokens, 20 * self.fields * self.tokens**2)

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

    def true_label(self, h: Array) -> Array:
        return np.argmax(to_matrices(h, self.tokens), axis=-1).astype(float)

    def likeliest_label(self, omega: Array, variance: float) -> Array:
        return largest_entries(to_matrices(omega, self.tokens), variance)

    def shares_of(self, labels: Array) -> Array:
        return np.eye(self.tokens)[self._checked(labels)]

    def label_from(self, field: Array, source: Array) -> Array:
        del source
        return self.true_label(field)

    def posterior(self, y: Array, omega: Array, variance: Array | float) -> SampledPosterior:
        labels = self._checked(y)
        v = np.broadcast_to(np.asarray(variance, dtype=float), (len(omega),))
        size = max(1, _BLOCK // (2 * self.fields * self.tokens**2))

        def block(part: slice, uniform: Array) -> SampledPosterior:
            return self._block(labels[part], omega[part], v[part, None], uniform)

        return batched_posterior(len(omega), size, self.tokens * (self.tokens - 1) // 2, self.fields, block)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""``label_error``: wrong rows; ``label_brier``: :math:`1 - E\sum_b p_{ab}^2` per row; standard errors."""
        return row_errors(self.tokens, self.power, variance)

    def _checked(self, y: Array) -> NDArray[np.intp]:
        labels = np.asarray(y, dtype=float)
        bad = ~np.isin(labels, np.arange(self.tokens))
        if np.any(bad):
            raise DataError("y", labels[bad].flat[0], f"the index of the largest entry, 0 to {self.tokens - 1}")
        return labels.astype(np.intp)

    def _block(self, y: NDArray[np.intp], omega: Array, v: Array, uniform: Array) -> SampledPosterior:
        rows, columns = pair_indices(self.tokens)
        off, scale = rows != columns, np.sqrt(v)
        shared, deviation, log_weight = _drawn(label_order(y), omega[:, off], scale, uniform)
        matrix = np.full((len(y), self.tokens, self.tokens, 2 * self.fields), -np.inf)
        matrix[:, rows[off], columns[off]] = matrix[:, columns[off], rows[off]] = shared
        sign = np.where(y == np.arange(self.tokens), 1.0, -1.0)[:, :, None]
        root = np.sqrt(2) * scale[:, :, None]
        a = sign * (np.sqrt(2) * omega[:, ~off, None] - np.max(matrix, axis=2)) / root
        log_weight += np.sum(log_ndtr(a), axis=1)
        ratio, scores = inverse_mills_ratio(a), np.empty((len(y), off.size, 2 * self.fields))
        scores[:, off], scores[:, ~off] = deviation / scale[:, :, None], np.sqrt(2) * sign * ratio / root
        bend = (np.sum(1 - deviation**2, axis=1) + np.sum(a * ratio, axis=1)) / v
        # Labels are blind to what all indices have in common.
        return weighted_posterior(log_weight, scores, bend, np.where(off, np.sqrt(2), 1.0) / self.tokens)


def _drawn(ordered: LabelOrder, mean: Array, scale: Array, uniform: Array) -> tuple[Array, Array, Array]:
    """Indices off the diagonal that agree with the labels, shape (n, pairs, fields), their deviations and log-weights.

    An index below a bound ``b`` is drawn from its normal law there, by inversion; the weight is the mass of that law.
    """
    count, pairs = mean.shape
    fields, places = uniform.shape[1], np.arange(count)
    value = np.full((count, pairs + 1, fields), np.inf)
    deviation, log_weight = np.empty((count, pairs, fields)), np.zeros((count, fields))
    for turn, pair in enumerate(ordered.order.T):
        one, two = ordered.bounds[places, pair].T
        centre = mean[places, pair][:, None]
        bound = np.minimum(value[places, one], value[places, two])
        log_mass = log_ndtr((bound - centre) / scale)
        deviation[places, pair] = ndtri_exp(log_mass + np.log(uniform[..., turn]))
        value[places, pair] = centre + scale * deviation[places, pair]
        log_weight += log_mass
    return value[:, :-1], deviation, log_weight
