r"""Attention networks with keys and queries of their own, whose last layer inverts up to one scale."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.multi_index.attention_network import Architecture, attention_link, earlier_mixing
from glassformer.channels.multi_index.deep_attention_channel import AttentionChannel
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.latent_posterior import Datum, LatentPosterior
from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.small_matrices import cholesky, flip_first_rows, inverse_and_log_det, triangular_inverse

# A label whose second singular value exceeds this share of the first is not the attention of one pair of vectors.
_RANK_ONE = 1e-6


@dataclass(frozen=True, eq=False)
class UntiedAttentionChannel(AttentionChannel):
    r"""Noiseless attention matrices of the last layer, keys and queries of their own.

    .. math:: y = \sigma(ab^T), \qquad a = B_{P-1}k_P, \quad b = B_{P-1}q_P.

    A label shows ``a`` and ``b`` up to a scale and a common sign, :math:`\pm(e^\tau a, e^{-\tau}b)`, and softmax hides
    the mean :math:`\beta` of ``b``. Given the earlier rows the posterior is a density over these, with the weight
    :math:`|\det B|^{-2}` (and :math:`e^{\tau}` for softmax): :math:`\tau` and :math:`\beta` join the latent variables.

    Args:
        network: untied, one head, attention output.
        effort: work of the sampling per data point.
        points: data points per replica of the averages.

    Raises:
        IncompatibleError: the last layer does not invert.

    Source: arXiv:2502.00901; the density is derived in docs/theory.md.

    Example:
        >>> one = Architecture(1, 2, (1.0,), "softmax", False, 1, "attention", ((1.0,),))
        >>> channel = UntiedAttentionChannel(one)
        >>> channel.fields.shape, channel.latents, channel.labels.rank
        ((2, 2), 2, 2.0)
    """

    effort: Effort = field(default=Effort(points=64, starts=8, steps=10), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    def __post_init__(self) -> None:
        network = self.network
        if network.tied or not network.shows_last_matrix or network.limit or max(network.directions) > 1:
            raise IncompatibleError("only untied networks of one head and direction, with attention output")
        if network.activation == "softmax" and network.tokens < 2:
            raise IncompatibleError("the softmax of a single token is one: give tokens >= 2")

    @property
    def _free(self) -> int:
        """Free numbers of the last layer: the scale, and the mean that softmax hides."""
        return 2 if self.network.activation == "softmax" else 1

    @property
    def rank(self) -> float:
        return float(2 * self.columns - self._free)

    @staticmethod
    def make(network: Architecture) -> LatentPosterior:
        return _functions(network)

    @property
    def latents(self) -> int:
        return (self.rows - 2) * self.columns + self._free

    def log_constant(self, root: Array) -> Array:
        order = _order(self.network.depth)
        permuted = np.linalg.cholesky((root @ np.swapaxes(root, 1, 2))[:, order][:, :, order])
        spread = np.log(permuted[:, -1, -1] * permuted[:, -2, -2])
        # The free numbers have a flat measure instead of a normal one.
        return np.asarray(-self.columns * (spread + np.log(2 * np.pi)) + 0.5 * self._free * np.log(2 * np.pi))

    def observation_from(self, fields: Array, source: Array) -> Array:
        """Return ``a`` and ``b``, the first of a typical length as the scale is free: softmax of long ones underflows.

        If softmax hides the mean of ``b``, it is zero.
        """
        del source
        return self._normalised(self.of_network(_last_vectors).evaluate(fields))

    def observation(self, y: Array) -> Array:
        """Return the two vectors of each label, shape (n, 2 L), one after the other. Vectors stay as they are.

        Raises:
            DataError: a label is not the attention of one pair of vectors.
        """
        y = np.asarray(y, dtype=float)
        if y.ndim == 2:
            return y
        y = self.network.last_matrix(y)
        if self.network.activation == "softmax":
            with np.errstate(divide="ignore"):
                y = np.log(y)
            y = y - y.mean(axis=2, keepdims=True)
        if not np.all(np.isfinite(y)):
            raise DataError("y", "<labels>", "attention above zero", "these scores underflow: use a smaller skip")
        left, values, right = np.linalg.svd(y)
        if np.any(values[:, 1:] > _RANK_ONE * (1 + values[:, :1])):
            raise DataError("y", "<labels>", "the attention of one pair of vectors", "use a channel with label noise")
        return self._normalised(np.stack([values[:, :1] * left[:, :, 0], right[:, 0]], axis=1))

    def _normalised(self, vectors: Array) -> Array:
        """Return pairs of shape (n, 2, L) with the first of a typical length, shape (n, 2 L)."""
        length = np.linalg.norm(vectors[:, 0], axis=1) / (self.network.typical_length * np.sqrt(self.columns))
        share = np.where(length > 0, length, 1.0)[:, None]
        return np.asarray(np.concatenate([vectors[:, 0] / share, vectors[:, 1] * share], axis=1))


@lru_cache(maxsize=32)
def _order(depth: int) -> Array:
    """Return rows with those of the last layer at the end; keys before queries in both parts."""
    layers = np.arange(depth - 1)
    return np.concatenate([layers, depth + layers, [depth - 1, 2 * depth - 1]]).astype(int)


def _functions(network: Architecture) -> LatentPosterior:
    order, before, tokens = _order(network.depth), 2 * (network.depth - 1), network.tokens
    softmax, scale, back = network.activation == "softmax", network.typical_length, np.argsort(order)
    signs = np.array([1.0, -1.0])
    flips = np.array([2 * flip for flip in itertools.product([1.0, -1.0], repeat=network.depth - 1)])
    mixing = earlier_mixing(network)

    def ordered(omega: jax.Array, root: jax.Array) -> tuple[jax.Array, jax.Array]:
        return omega[order], cholesky((root @ root.T)[order][:, order])

    def target_and_deviations(x: jax.Array, datum: Datum) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return residuals of the last layer for both signs, log-weights.

        The deviations of all rows are returned as well, in the order of the network.
        """
        vectors, omega, root = datum
        omega, root = ordered(omega, root)
        earlier, free = x[: before * tokens].reshape(before, tokens), x[before * tokens :]
        deviation = root[:before, :before] @ earlier
        inverse, log_det = inverse_and_log_det(mixing(omega[:before] + deviation))
        tau = free[0]
        key, query = jnp.exp(tau) * vectors[:tokens], jnp.exp(-tau) * vectors[tokens:]
        query = query + scale * free[1] if softmax else query
        last = signs[:, None, None] * (jnp.stack([key, query]) @ inverse.T) - omega[before:]
        beyond = last - root[before:, :before] @ earlier
        residual = (triangular_inverse(root[before:, before:]) @ beyond).reshape(2, -1)
        # The measure of the free numbers is flat, the prior of the latents normal.
        log_weight = -2 * log_det + 0.5 * jnp.sum(free**2) + (tau if softmax else 0.0)
        both = jnp.concatenate([jnp.broadcast_to(deviation, (2, before, tokens)), last], axis=1)
        return residual, jnp.broadcast_to(log_weight, (2,)), both[:, back]

    def target(x: jax.Array, datum: Datum) -> tuple[jax.Array, jax.Array]:
        return target_and_deviations(x, datum)[:2]

    def features(x: jax.Array, datum: Datum) -> jax.Array:
        deviations = target_and_deviations(x, datum)[2]
        return jnp.einsum("ab,sbl->sal", triangular_inverse(datum[2]), deviations).reshape(2, -1)

    def images(x: jax.Array, datum: Datum) -> jax.Array:
        _, omega, root = datum
        return flip_first_rows(x, *ordered(omega, root), flips)

    return LatentPosterior(target, features, attention_link(network), images)


def _last_vectors(network: Architecture) -> Callable[[jax.Array], jax.Array]:
    """Return key and query vectors of the last layer, without the mean of the query if softmax hides it."""
    last = [network.depth - 1, 2 * network.depth - 1]
    earlier = _order(network.depth)[:-2]

    def pair(fields: jax.Array) -> jax.Array:
        key, query = fields[np.array(last)] @ earlier_mixing(network)(fields[earlier]).T
        query = query - jnp.mean(query) if network.activation == "softmax" else query
        return jnp.stack([key, query])

    return pair
