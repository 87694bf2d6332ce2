r"""Hardmax attention among three or more tokens, by integration over the indices of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from glassformer.channels.attention.prediction import largest_entries, row_errors
from glassformer.channels.attention.shares import positions
from glassformer.channels.labels import Labels
from glassformer.channels.sampled import (
    SampledChannel,
    SampledPosterior,
    batched_posterior,
    require_average_resources,
    weighted_posterior,
)
from glassformer.channels.scalar.base import Array
from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError, ParameterError
from glassformer.designs.token_pairs import pair_indices, to_matrices
from glassformer.numerics.normal import inverse_mills_ratio

# Numbers in one temporary array, so that it stays in the cache.
_NUMBERS_AT_ONCE = 500_000


@dataclass(frozen=True)
class HardmaxChannel(SampledChannel):
    r"""Hardmax attention :math:`y_a = \mathrm{argmax}_b\,h_{ab}` of ``T >= 3`` tokens.

    A diagonal index occurs in its own row only. Given those off the diagonal, row ``a`` contributes
    :math:`\Phi(\pm(\omega_{aa} - m_a)/\sqrt{2V})` with :math:`m_a` its largest other index: plus where :math:`y_a = a`,
    else minus, together with the condition that :math:`h_{a y_a} = m_a`. The remaining integral over the
    :math:`T(T-1)/2` indices off the diagonal is sampled with quasi-random points. Indices are drawn in descending
    order, each from its normal law truncated at its upper bounds, so that all agree with the label. Labels are
    integers, shape (..., T).

    Args:
        tokens: ``T >= 3``.
        power: :math:`Q_0 = E h_{ab}^2` off the diagonal.
        draws: sampled fields per data point, a power of two.

    Raises:
        ParameterError: an argument is out of range.
        DataError: a label is not an index of a token, or no symmetric matrix has these labels.

    Source: arXiv:2506.01582; the decomposition over diagonal indices is derived in docs/theory.md.

    Example:
        >>> channel = HardmaxChannel(tokens=3)
        >>> channel.label_from(np.array([[3.0, 0, 0, 3.0, 0, -3.0]]), np.zeros((1, 0)))
        array([[0., 1., 0.]])
    """

    tokens: int
    power: float = 1.0
    draws: int = 128

    def __post_init__(self) -> None:
        require_integer("tokens", self.tokens, 3)
        if self.draws < 32 or self.draws & (self.draws - 1):
            raise ParameterError("draws", self.draws, "a power of two >= 32")
        require_average_resources(self.tokens, 20 * self.draws * self.tokens**2)

    label = "hardmax"
    source_dimensions = 0

    @cached_property
    def labels(self) -> Labels:
        return Labels(shape=(self.tokens,), discrete=True, probabilities=True)

    @property
    def components(self) -> int:
        return self.tokens * (self.tokens + 1) // 2

    def likeliest_label(self, omega: Array, variance: Array | float) -> Array:
        return largest_entries(to_matrices(omega, self.tokens), float(variance))

    def label_from(self, field: Array, source: Array) -> Array:
        del source
        return self.likeliest_label(field, 0.0)

    def posterior(self, y: Array, omega: Array, variance: Array | float) -> SampledPosterior:
        labels = positions(y, self.tokens)
        v = np.broadcast_to(np.asarray(variance, dtype=float), (len(omega),))
        size = max(1, _NUMBERS_AT_ONCE // (2 * self.draws * self.tokens**2))

        def block(part: slice, uniform: Array) -> SampledPosterior:
            return self._block(labels[part], omega[part], v[part, None], uniform)

        return batched_posterior(len(omega), size, self.tokens * (self.tokens - 1) // 2, self.draws, block)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``label_error``, the share of wrong rows, and ``label_brier``, :math:`1 - E\sum_b p_{ab}^2`."""
        return row_errors(self.tokens, self.power, variance)

    def _block(self, y: NDArray[np.intp], omega: Array, v: Array, uniform: Array) -> SampledPosterior:
        rows, columns = pair_indices(self.tokens)
        off, scale = rows != columns, np.sqrt(v)
        shared, deviation, log_weight = _draw_pairs(label_order(y), omega[:, off], scale, uniform)
        matrix = np.full((len(y), self.tokens, self.tokens, 2 * self.draws), -np.inf)
        matrix[:, rows[off], columns[off]] = matrix[:, columns[off], rows[off]] = shared
        sign = np.where(y == np.arange(self.tokens), 1.0, -1.0)[:, :, None]
        root = np.sqrt(2) * scale[:, :, None]
        a = sign * (np.sqrt(2) * omega[:, ~off, None] - np.max(matrix, axis=2)) / root
        log_weight += np.sum(log_ndtr(a), axis=1)
        ratio, scores = inverse_mills_ratio(a), np.empty((len(y), off.size, 2 * self.draws))
        scores[:, off], scores[:, ~off] = deviation / scale[:, :, None], np.sqrt(2) * sign * ratio / root
        bend = (np.sum(1 - deviation**2, axis=1) + np.sum(a * ratio, axis=1)) / v
        # Labels do not depend on the common part of all indices.
        return weighted_posterior(log_weight, scores, bend, np.where(off, np.sqrt(2), 1.0) / self.tokens)


class LabelOrder(NamedTuple):
    """The pairs of tokens ``a < b``, numbered row by row, as labels order their indices.

    Attributes:
        order: pairs of every data point, each after the pairs that bound its index, shape (n, pairs).
        bounds: the two pairs whose indices are upper bounds of a pair's index, shape (n, pairs, 2). The number of pairs
            stands for no bound.
    """

    order: NDArray[np.intp]
    bounds: NDArray[np.intp]


def label_order(labels: NDArray[np.intp]) -> LabelOrder:
    r"""Return the order of labels :math:`y_a = \mathrm{argmax}_b\,h_{ab}`, shape (n, T).

    Row ``a`` implies :math:`h_{ab} \le h_{a y_a}`, which is an index off the diagonal unless :math:`y_a = a`.

    Raises:
        DataError: the largest entries form a cycle, which is impossible for a symmetric matrix.

    Example:
        >>> found = label_order(np.array([[1, 1, 1]]))  # the largest of row 0 is h_01, of row 2 h_12
        >>> found.order.tolist(), found.bounds.tolist()
        ([[0, 2, 1]], [[[3, 3], [0, 2], [3, 3]]])
    """
    tokens = labels.shape[1]
    rows, columns = np.triu_indices(tokens, 1)
    pairs = len(rows)
    number = np.full((tokens, tokens), pairs)
    number[rows, columns] = number[columns, rows] = np.arange(pairs)
    named = number[np.arange(tokens), labels]
    bounds = np.stack([named[:, rows], named[:, columns]], axis=-1)
    bounds[bounds == np.arange(pairs)[:, None]] = pairs
    # Pairs without a bound come first; every other pair comes after the pairs that bound it.
    depth = np.full((len(labels), pairs + 1), -1)
    places = np.arange(len(labels))[:, None, None]
    for _ in range(pairs + 1):
        deeper = 1 + np.max(depth[places, bounds], axis=-1)
        if np.array_equal(deeper, depth[:, :-1]):
            return LabelOrder(np.argsort(depth[:, :-1], axis=1, kind="stable"), bounds)
        depth[:, :-1] = deeper
    circle = labels[np.max(depth, axis=1) >= pairs][0]
    raise DataError("y", circle.tolist(), "labels of a symmetric matrix, whose largest entries form no cycle")


def _draw_pairs(ordered: LabelOrder, mean: Array, scale: Array, uniform: Array) -> tuple[Array, Array, Array]:
    """Draw indices off the diagonal that agree with the labels, shape (n, pairs, fields).

    Returns the indices, their deviations and log-weights.

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
