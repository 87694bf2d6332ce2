r"""Labels without noise on a scale of their own: every entry mapped to one that is nearly normal.

What posteriors are without noise does not depend on the units of labels, nor on any increasing function of an entry. A
noise that stands for none does: next to one entry that is large another would drown in it, and where a label saturates
it would hide what its last digits tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from glassformer.core.estimate import Array


@dataclass(frozen=True)
class Policy:
    """Where labels are mapped exactly, linearly in between and beyond."""

    widest: float = 3.0  # score of the last knot
    step: float = 0.25  # between knots


_POLICY = Policy()


class NormalScores(NamedTuple):
    r"""An increasing, piecewise linear function of each of k entries.

    A sum of one term for each piece, none of which is negative: slopes may differ by any factor.

    Attributes:
        start: value at the first knot, shape (k,).
        knots: lower ends of the pieces, shape (k, pieces).
        low, high: by how much of an entry pieces grow, from a knot, shape (k, pieces): the first one has no lower end,
            the last one no upper end.
        slopes: shape (k, pieces).

    Example:
        >>> labels = np.exp(6 * ndtri((np.arange(999) + 0.5) / 999))[:, None]
        >>> NormalScores.of(labels)(np.exp([6.0])).round(1).tolist()
        [1.0]
    """

    start: Array
    knots: Array
    low: Array
    high: Array
    slopes: Array

    @classmethod
    def of(cls, labels: Array) -> Self:
        """From labels of random fields, shape (n, k)."""
        return cls(*(np.stack(parts) for parts in zip(*map(_pieces, labels.T), strict=True)))

    def __call__(self, labels: Any) -> Any:
        """Scores of one label, shape (k,)."""
        grown = jnp.clip(labels[:, None] - self.knots, self.low, self.high)
        return self.start + jnp.sum(self.slopes * grown, axis=1)

    def log_slope(self, labels: Any) -> Any:
        """Logarithm of the volume that scores have for one of labels, at one label, shape (k,)."""
        past = labels[:, None] - self.knots
        return jnp.sum(jnp.log(jnp.where((past > self.low) & (past <= self.high), self.slopes, 1.0)))


def _pieces(entry: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Those of one entry."""
    scores = np.arange(-_POLICY.widest, _POLICY.widest + _POLICY.step / 2, _POLICY.step)
    ranks = ndtri((np.arange(len(entry)) + 0.5) / len(entry))
    knots, own = np.unique(np.sort(entry)[np.searchsorted(ranks, scores).clip(max=len(entry) - 1)], return_inverse=True)
    # What several scores share, labels of positive probability, has their mean.
    values = np.bincount(own, scores) / np.bincount(own)
    if len(knots) == 1:
        # Nothing tells the scale of what is constant.
        knots, values = np.append(knots, knots + 1), np.append(values, values + 1)
    pieces, missing = len(knots) - 1, max(len(scores) - len(knots), 0)
    width = np.diff(knots)
    low, high = np.zeros(pieces), width.copy()
    low[0], high[-1] = -np.inf, np.inf
    # Pieces that are not there have neither length nor slope.
    first, low, high, slopes = (np.pad(part, (0, missing)) for part in (knots[:-1], low, high, np.diff(values) / width))
    return np.asarray(values[0]), first, low, high, slopes
