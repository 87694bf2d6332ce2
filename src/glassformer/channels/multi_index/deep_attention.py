r"""Deep attention networks whose last layer inverts: tied keys and queries, attention matrices as labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.channels.attention.projected import symmetric_logits
from glassformer.channels.multi_index.attention_matrices import TiedAttentionChannel
from glassformer.channels.multi_index.attention_network import Architecture, attention_link, earlier_mixing
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.latent_functions import Functions
from glassformer.channels.multi_index.orthogonal_fibre import (
    angles,
    fixed,
    from_scores,
    rotations,
    shown,
    standing_for,
)
from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.small_matrices import inverse_and_log_det, row_flips, triangular_inverse

# Eigenvalues beside those of so many directions, relative to the largest, that are rounding.
_NOT_SHOWN = 1e-6


@dataclass(frozen=True, eq=False)
class DeepAttentionChannel(TiedAttentionChannel):
    r"""Noiseless attention matrices of the last layer.

    .. math:: y = \sigma(v_P^Tv_P), \qquad v_l = z_lB_{l-1}^T, \qquad B_l = (c_l I + \sigma(v_l^Tv_l))B_{l-1}

    with one row of :math:`v_l` for each of the ``r`` directions of a layer. The label shows :math:`v_P` up to its sign,
    or up to a rotation and what softmax hides (:mod:`~glassformer.channels.multi_index.orthogonal_fibre`), so
    given the earlier rows :math:`z_P = Ov_PB_{P-1}^{-T}` with weight :math:`|\det B_{P-1}|^{-r}`, and the posterior is
    that of the earlier rows and of the rotation alone: exact sums for one layer of one direction, importance sampling
    for more.

    Args:
        network: tied, one head, attention output.
        effort: work of the sampling per data point.
        points: data points per replica of the averages.

    Raises:
        IncompatibleError: the last layer does not invert.

    Source: arXiv:2502.00901.

    Example:
        >>> one = Architecture(1, 2, (1.0,), "softmax", True, 1, "attention", ((1.0,),))
        >>> DeepAttentionChannel(one).field_components
        (1, 2)
    """

    effort: Effort = field(default=Effort(points=64, starts=8, steps=10), kw_only=True)
    points: int = field(default=256, kw_only=True)

    def __post_init__(self) -> None:
        network = self.network
        if not network.tied or not network.shows_last_matrix:
            raise IncompatibleError("only tied networks of one head with attention output invert: use a link channel")
        if network.activation == "softmax" and network.tokens < 2:
            raise IncompatibleError("the softmax of a single token is one: give tokens >= 2")

    @staticmethod
    def make(network: Architecture) -> Functions:
        return _functions(network)

    @property
    def rank(self) -> float:
        return float(fixed(_rank(self.network), self.columns, _hidden(self.network)))

    @property
    def latents(self) -> int:
        rank = _rank(self.network)
        return (self.rows - rank) * self.columns + angles(rank) + _unseen(self.network)

    def log_constant(self, root: Array) -> Array:
        rank = _rank(self.network)
        spread = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)[:, -rank:]), axis=1)
        # The latents of the fibre have a flat measure in place of a normal one.
        flat = rank * self.columns - angles(rank) - _unseen(self.network)
        return np.asarray(-self.columns * spread - 0.5 * flat * np.log(2 * np.pi))

    def observation_from(self, fields: Array, source: Array) -> Array:
        """The vectors :math:`v_P` themselves, or others of the same label: softmax underflows where they are long."""
        del source
        vectors = self.of_network(_vectors).mapped(fields)
        if _rank(self.network) > 1:
            vectors = standing_for(vectors, _hidden(self.network))
        return np.asarray(vectors.reshape(len(vectors), -1))

    def observed(self, y: Array) -> Array:
        """Vectors of each label, flattened: one choice of all that have it; vectors are taken as they are.

        Raises:
            DataError: a label is not the attention of so many directions.
        """
        y = np.asarray(y, dtype=float)
        if y.ndim == 2:
            return y
        rank, scores = _rank(self.network), self.network.last_matrix(y)
        if self.network.last_activation == "softmax":
            scores = symmetric_logits(scores, 1.0)
        vectors, beside = from_scores(scores, rank, _hidden(self.network))
        if np.any(beside > _NOT_SHOWN):
            raise DataError("y", "<labels>", f"the attention of rank {rank}", "use a channel with label noise")
        return np.asarray(vectors.reshape(len(y), -1))


def _rank(network: Architecture) -> int:
    """Directions of the last layer."""
    return network.directions[-1]


def _hidden(network: Architecture) -> int:
    """Whether labels hide the mean over tokens."""
    return int(network.last_activation == "softmax")


def _unseen(network: Architecture) -> int:
    """Components of the mean over tokens that labels do not show."""
    rank = _rank(network)
    return _hidden(network) * (rank - shown(rank, network.tokens, 1))


def _functions(network: Architecture) -> Functions:
    rank, tokens, unseen = _rank(network), network.tokens, _unseen(network)
    before, turning, scale = network.rows - rank, angles(rank), network.typical_length
    mixing = earlier_mixing(network)

    def target(x: Any, datum: Any) -> tuple[Any, Any]:
        """Whitened deviations of the last rows for all signs of their vectors, and the log-weight."""
        vectors, omega, root = datum
        earlier, skew, hidden = jnp.split(x, [before * tokens, before * tokens + turning])
        earlier = earlier.reshape(before, tokens)
        inverse, log_det = inverse_and_log_det(mixing(omega[:before] + root[:before, :before] @ earlier))
        turns, log_weight = rotations(skew, rank)
        means = jnp.concatenate([jnp.zeros(rank - unseen), scale * hidden])
        last = turns @ ((vectors.reshape(rank, tokens) + means[:, None]) @ inverse.T)
        beyond = last - omega[before:] - root[before:, :before] @ earlier
        residual = triangular_inverse(root[before:, before:]) @ beyond
        # The prior of the latents is normal, the measure of the fibre flat.
        log_weight = log_weight - rank * log_det + 0.5 * (jnp.sum(skew**2) + jnp.sum(hidden**2))
        return residual.reshape(len(turns), -1), jnp.broadcast_to(log_weight, len(turns))

    def features(x: Any, datum: Any) -> Any:
        last = target(x, datum)[0]
        return jnp.concatenate([jnp.broadcast_to(x[: before * tokens], (len(last), before * tokens)), last], axis=1)

    flips = np.array(list(itertools.product([1.0, -1.0], repeat=before)))

    def images(x: Any, datum: Any) -> Any:
        """The latents of the earlier rows with their signs flipped."""
        if before == 0:
            return x[None]
        _, omega, root = datum
        rows = row_flips(x[: before * tokens], omega[:before], root[:before, :before], flips)
        rest = jnp.broadcast_to(x[before * tokens :], (len(rows), turning + unseen))
        return jnp.concatenate([rows, rest], axis=1)

    return Functions(target, features, attention_link(network), images)


def _vectors(network: Architecture) -> Callable[[Any], Any]:
    before = network.rows - _rank(network)
    return lambda fields: fields[before:] @ earlier_mixing(network)(fields[:before]).T
