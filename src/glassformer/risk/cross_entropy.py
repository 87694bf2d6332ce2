r"""Cross-entropy of attention: a loss that sees all indices of a sample at once.

A sample has the :math:`K = T(T+1)/2` components ``x`` of a symmetric matrix ``h`` of indices
(:mod:`~glassformer.designs.token_pairs`), labels are rows of probabilities :math:`Y_{ab}`. With
:math:`P_{ab} = e^{\beta h_{ab}}/\sum_ce^{\beta h_{ac}}` the slope in ``x`` is that of :math:`\beta(P - Y)`, and the
matrix of second derivatives is diagonal less one square per row, so that Newton's steps cost ``T x T`` systems. Numbers
of one sample are along the first axes inside, along the last ones outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from glassformer.core.checks import is_number
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.designs.token_pairs import pair_indices
from glassformer.risk import two_tokens
from glassformer.risk.loss import Loss


@dataclass(frozen=True)
class Newton(two_tokens.Newton):
    """How minimisers of any number of tokens are looked for."""

    steps: int = 200  # at most
    last: float = 1e-9  # relative step that ends the search
    rough: float = 1e-6  # relative step that may be rounding: it ends the search where steps no longer shrink
    shrinking: float = 0.3  # share of the step before, below which one shrinks
    rounding: float = 1e-13  # of the objective, which hides it
    at_once: int = 16384  # samples that are treated in one go


_POLICY = Newton()


class _Shape(NamedTuple):
    """Constants of so many tokens.

    Attributes:
        spread: indices from components, shape (T T, K).
        partner: the other token of each component, shape (T, K).
        weight: of that component in the row, zero for pairs without the row's token, shape (T, K).
    """

    spread: Array
    partner: NDArray[np.intp]
    weight: Array


@lru_cache(maxsize=16)
def _shape(tokens: int) -> _Shape:
    rows, columns = pair_indices(tokens)
    count = np.arange(len(rows))
    own = np.where(rows == columns, np.sqrt(2), 1.0)
    spread = np.zeros((tokens, tokens, len(rows)))
    spread[rows, columns, count] = spread[columns, rows, count] = own
    partner = np.zeros((tokens, len(rows)), dtype=np.intp)
    partner[rows, count], partner[columns, count] = columns, rows
    weight = np.zeros((tokens, len(rows)))
    weight[rows, count] = weight[columns, count] = own
    return _Shape(spread.reshape(tokens**2, -1), partner, weight)


@dataclass(frozen=True)
class CrossEntropy(Loss):
    r"""Cross-entropy of softmax attention, :math:`-\sum_{ab}Y_{ab}\log\mathrm{softmax}_b(\beta h_{a\cdot})`.

    Equation :eq:`risk-attention` of the documentation.

    Labels are rows of probabilities, shape (..., T, T), those of hardmax attention with a single one per row; fields
    are the components of ``h``, shape (..., K). Values have shape (...), scores that of the fields, and their slopes
    are traces.

    Args:
        temperature: inverse, :math:`\beta > 0`; None for that of the labels, one for hardmax.

    Raises:
        ParameterError: ``temperature`` is out of range.

    Example:
        >>> loss, y, omega = CrossEntropy(), np.eye(2), np.array([0.3, 0.1, -0.4])
        >>> p, (g, _) = loss.proximal(y, omega, 2.0), loss.score(y, omega, 2.0)
        >>> bool(np.allclose(p, omega - 2 * loss.slope(y, p))), bool(np.allclose(g, -loss.slope(y, p)))
        (True, True)
    """

    temperature: float | None = None

    name = "cross-entropy"

    def __post_init__(self) -> None:
        if self.temperature is not None and not (is_number(self.temperature) and 0 < self.temperature < np.inf):
            raise ParameterError("temperature", self.temperature, "an inverse temperature, finite and > 0")

    @property
    def _scale(self) -> float:
        return 1.0 if self.temperature is None else float(self.temperature)

    @property
    def sharpness(self) -> float:
        """Rows bend by at most one half, and every component is in two entries, or twice in one."""
        return self._scale**2

    def adapted(self, channel: Any) -> Loss:
        if self.temperature is not None:
            return self
        return replace(self, temperature=float(getattr(channel, "temperature", 1.0)))

    def labels_of(self, channel: Any, power: float) -> Any:
        from glassformer.risk.attention_labels import attention_labels

        return attention_labels(channel, power, self)

    def value(self, y: Array, h: Array) -> Array:
        y, h, shape = _flat(y, h)
        return _value(y, _logits(h, self._scale)).reshape(shape[:-1])

    def slope(self, y: Array, h: Array) -> Array:
        y, h, shape = _flat(y, h)
        return _slope(y, _probabilities(_logits(h, self._scale)), self._scale).T.reshape(shape)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._minimised(y, omega, variance)[0]

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        return self._minimised(y, omega, variance)[1:]

    def _minimised(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array, Array]:
        """Minimisers, scores, and minus the trace of the score's derivatives."""
        y, omega, shape = _flat(y, omega)
        v = np.broadcast_to(np.asarray(variance, dtype=float), shape[:-1]).ravel()
        found, score, curvature = np.empty(omega.shape), np.empty(omega.shape), np.empty(v.shape)
        search = two_tokens.minimised if len(y) == 2 else minimised
        for start in range(0, len(v), _POLICY.at_once):
            part = slice(start, start + _POLICY.at_once)
            parts = search(y[:, :, part], omega[:, part], v[part], self._scale)
            found[:, part], score[:, part], curvature[part] = parts
        return found.T.reshape(shape), score.T.reshape(shape), curvature.reshape(shape[:-1])

    def conjugate_at(self, y: Array, h: Array, slopes: Array, share: float) -> Array:
        """An upper bound, exact for all of the slopes: the entropy of probabilities between labels and fits."""
        del slopes
        y, h, shape = _flat(y, h)
        between = y + share * (_probabilities(_logits(h, self._scale)) - y)
        return np.sum(xlogy(between, between), axis=(0, 1)).reshape(shape[:-1])


def _flat(y: Array, h: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """Labels of shape (T, T, n) and fields of shape (K, n); the shape that fields have to have again."""
    y, h = np.asarray(y, dtype=float), np.asarray(h, dtype=float)
    tokens, batch = y.shape[-1], np.broadcast_shapes(y.shape[:-2], h.shape[:-1])
    flat = np.broadcast_to(y, (*batch, tokens, tokens)).reshape(-1, tokens, tokens)
    fields = np.broadcast_to(h, (*batch, h.shape[-1])).reshape(-1, h.shape[-1])
    return np.moveaxis(flat, 0, -1), np.ascontiguousarray(fields.T), (*batch, h.shape[-1])


def _logits(h: Array, scale: float) -> Array:
    """Shape (T, T, n)."""
    tokens = round((np.sqrt(8 * len(h) + 1) - 1) / 2)
    return np.asarray((scale * _shape(tokens).spread @ h).reshape(tokens, tokens, -1))


def _probabilities(logits: Array) -> Array:
    part = np.exp(logits - np.max(logits, axis=1, keepdims=True))
    return np.asarray(part / np.sum(part, axis=1, keepdims=True))


def _value(y: Array, logits: Array) -> Array:
    """Of each sample; logits relative to the largest of their row, so that small losses keep their digits."""
    apart = logits - np.max(logits, axis=1, keepdims=True)
    return np.asarray(np.sum(np.log(np.sum(np.exp(apart), axis=1)), axis=0) - np.sum(y * apart, axis=(0, 1)))


class _Bends(NamedTuple):
    r"""The matrix :math:`1 + V\ell''`, inverted as one that is diagonal less ``T`` squares.

    Attributes:
        own: second derivatives' diagonal part, shape (K, n).
        across: square roots of what is subtracted, shape (T, K, n).
        variance: ``V``, shape (n,).
        diagonal: ``1 + V own``.
        inverse: of the ``T x T`` system, shape (T, T, n).
    """

    own: Array
    across: Array
    variance: Array
    diagonal: Array
    inverse: Array

    @classmethod
    def at(cls, probabilities: Array, variance: Array, scale: float) -> _Bends:
        tokens, shape = len(probabilities), _shape(len(probabilities))
        own = scale**2 * (shape.spread**2).T @ probabilities.reshape(tokens**2, -1)
        across = scale * shape.weight[:, :, None] * probabilities[np.arange(tokens)[:, None], shape.partner]
        diagonal = 1 + variance * own
        lowered = across / diagonal
        small = np.eye(tokens)[:, :, None] - variance * np.einsum("akn,bkn->abn", across, lowered)
        return cls(own, across, variance, diagonal, _inverse(small))

    def solved(self, right: Array) -> Array:
        """Of the matrix, for right-hand sides of shape (K, n)."""
        lowered = right / self.diagonal
        inside = np.einsum("abn,bn->an", self.inverse, np.einsum("akn,kn->an", self.across, lowered))
        return np.asarray(lowered + self.variance * np.einsum("akn,an->kn", self.across, inside) / self.diagonal)

    def trace(self) -> Array:
        r"""Of :math:`\ell''(1 + V\ell'')^{-1}`."""
        twice = np.einsum("akn,bkn->abn", self.across / self.diagonal, self.across / self.diagonal)
        return np.asarray(np.sum(self.own / self.diagonal, axis=0) - np.einsum("abn,abn->n", self.inverse, twice))


def _inverse(matrices: Array) -> Array:
    """Of positive matrices, shape (T, T, n), by elimination: a library's calls cost more than their arithmetic."""
    size = len(matrices)
    left, inverse = matrices.copy(), np.broadcast_to(np.eye(size)[:, :, None], matrices.shape).copy()
    for i in range(size):
        pivot = 1 / left[i, i]
        left[i] *= pivot
        inverse[i] *= pivot
        for j in range(size):
            if j != i:
                factor = left[j, i].copy()
                left[j] -= factor * left[i]
                inverse[j] -= factor * inverse[i]
    return inverse


def minimised(y: Array, omega: Array, variance: Array, scale: float) -> tuple[Array, Array, Array]:
    """Minimisers and scores, shape (K, n), and minus the traces of the scores' derivatives, shape (n,)."""
    p = _minimiser(y, omega, variance, scale)
    probabilities = _probabilities(_logits(p, scale))
    trace = _Bends.at(probabilities, variance, scale).trace()
    return p, -_slope(y, probabilities, scale), trace


def _slope(y: Array, probabilities: Array, scale: float) -> Array:
    """Of the loss in the components."""
    apart = (probabilities - y).reshape(len(y) ** 2, -1)
    return np.asarray(scale * _shape(len(y)).spread.T @ apart)


def _minimiser(y: Array, omega: Array, variance: Array, scale: float) -> Array:
    r"""Of :math:`V\ell(y, p) + |p-\omega|^2/2`, by Newton's method with shortened steps; shape (K, n)."""
    # Where labels are missed by far, the loss is straight and Newton's step too long: zero is the better start.
    missed = variance * (_value(y, _logits(omega, scale)) - _value(y, 0 * _logits(omega, scale)))
    p = np.where(missed > 0.5 * np.sum(omega**2, axis=0), 0.0, omega)
    active, before = np.arange(len(variance)), np.full(len(variance), np.inf)
    for _ in range(_POLICY.steps):
        labels, centre, v, here = y[:, :, active], omega[:, active], variance[active], p[:, active]
        logits = _logits(here, scale)
        probabilities = _probabilities(logits)
        slope = v * _slope(labels, probabilities, scale) + here - centre
        step = -_Bends.at(probabilities, v, scale).solved(slope)
        objective = v * _value(labels, logits) + 0.5 * np.sum((here - centre) ** 2, axis=0)
        p[:, active] = _shortened(labels, centre, v, here, step, objective, np.sum(slope * step, axis=0), scale)
        size = np.max(np.abs(step), axis=0) / (1 + np.max(np.abs(here), axis=0))
        # Steps that do not shrink any more are rounding.
        moving = (size > _POLICY.last) & ((size > _POLICY.rough) | (size < _POLICY.shrinking * before))
        active, before = active[moving], size[moving]
        if not active.size:
            break
    return p


def _shortened(
    y: Array, centre: Array, v: Array, here: Array, step: Array, objective: Array, slope: Array, scale: float
) -> Array:
    """Where steps lead, halved until the objective is low enough."""
    share, waiting, moved = np.ones(len(v)), np.arange(len(v)), here + step
    for _ in range(_POLICY.halvings):
        there = moved[:, waiting]
        found = v[waiting] * _value(y[:, :, waiting], _logits(there, scale))
        found += 0.5 * np.sum((there - centre[:, waiting]) ** 2, axis=0)
        allowed = objective[waiting] + _POLICY.decrease * share[waiting] * slope[waiting]
        waiting = waiting[found > allowed + _POLICY.rounding * (1 + np.abs(objective[waiting]))]
        if not waiting.size:
            break
        share[waiting] *= 0.5
        moved[:, waiting] = here[:, waiting] + share[waiting] * step[:, waiting]
    return moved
