r"""Deep attention networks whose last layer inverts: tied keys and queries, attention matrices as labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.numerics.batching import mapped
from glassformer.core.numerics.small_matrices import inverse_and_log_det, row_flips
from glassformer.models.channels.attention_indexed.projected import symmetric_logits
from glassformer.models.channels.multi_index.attention_matrices import TiedAttentionChannel
from glassformer.models.channels.multi_index.attention_network import Architecture, attention_link, earlier_mixing
from glassformer.models.channels.multi_index.importance_sampling import Effort, Functions


@dataclass(frozen=True, eq=False)
class DeepAttentionChannel(TiedAttentionChannel):
    r"""Noiseless attention matrices of the last layer.

    .. math:: y = \sigma(v_P v_P^T), \qquad v_l = B_{l-1}z_l, \qquad B_l = (c_l I + \sigma(v_lv_l^T))B_{l-1}.

    The label shows :math:`v_P` up to its sign, so given the earlier rows :math:`z_P = \pm B_{P-1}^{-1}v_P` with weight
    :math:`1/|\det B_{P-1}|`, and the posterior is that of the earlier rows alone: exact sums for one layer, importance
    sampling for more.

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

    @property
    def functions(self) -> Functions:
        return _functions(self.network)

    def log_constant(self, root: Array) -> Array:
        return np.asarray(-0.5 * self.columns * np.log(2 * np.pi * root[:, -1, -1] ** 2))

    def observation_from(self, fields: Array, source: Array) -> Array:
        """The vectors :math:`v_P` themselves: softmax underflows where they are long."""
        del source
        return np.asarray(mapped(_vector(self.network), np.asarray(fields, dtype=float)))

    def observed(self, y: Array) -> Array:
        """The vector :math:`v_P` of each label, up to its sign; vectors are taken as they are.

        Raises:
            DataError: a label is not the attention of one vector with itself.
        """
        y = np.asarray(y, dtype=float)
        if y.ndim == 2:
            return y
        y = self.network.last_matrix(y)
        if self.network.activation == "linear":
            return _rank_one_root(y)
        scores = symmetric_logits(y, 1.0)
        # Softmax hides t 1 1^T: centred, the scores are w w^T with w = v - mean(v), and v.1 is their product with 1.
        centred = scores - scores.mean(axis=1, keepdims=True)
        sides = centred.mean(axis=2)
        deviation = _rank_one_root(centred - centred.mean(axis=2, keepdims=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.sum(deviation * sides, axis=1) / np.sum(deviation**2, axis=1)
        return np.asarray(deviation + np.where(np.isfinite(mean), mean, 0.0)[:, None])


def _rank_one_root(matrices: Array) -> Array:
    """``v`` of symmetric matrices ``v v^T``, shape (n, L, L)."""
    values, vectors = np.linalg.eigh(matrices)
    if np.any(np.abs(values[:, :-1]) > 1e-6 * (1 + np.abs(values[:, -1:]))):
        raise DataError("y", "<labels>", "the attention of one vector with itself", "use a channel with label noise")
    return np.asarray(np.sqrt(np.maximum(values[:, -1:], 0.0)) * vectors[:, :, -1])


@lru_cache(maxsize=32)
def _functions(network: Architecture) -> Functions:
    signs = np.array([1.0, -1.0])

    def target(x: Any, datum: Any) -> tuple[Any, Any]:
        """Whitened deviations of the last row for both signs of its vector, and the log-weight."""
        vector, omega, root = datum
        x = x.reshape(omega[:-1].shape)
        inverse, log_det = inverse_and_log_det(earlier_mixing(network)(omega[:-1] + root[:-1, :-1] @ x))
        last = signs[:, None] * (inverse @ vector) - omega[-1] - root[-1, :-1] @ x
        return last / root[-1, -1], jnp.broadcast_to(-log_det, (2,))

    def features(x: Any, datum: Any) -> Any:
        last = target(x, datum)[0]
        return jnp.concatenate([jnp.broadcast_to(x, (2, len(x))), last], axis=1)

    flips = np.array(list(itertools.product([1.0, -1.0], repeat=network.rows - 1)))

    def images(x: Any, datum: Any) -> Any:
        """The latents of the earlier rows with their signs flipped."""
        _, omega, root = datum
        return row_flips(x, omega[:-1], root[:-1, :-1], flips)

    return Functions(target, features, attention_link(network), images)


@lru_cache(maxsize=32)
def _vector(network: Architecture) -> Callable[[Any], Any]:
    return lambda fields: earlier_mixing(network)(fields[:-1]) @ fields[-1]
