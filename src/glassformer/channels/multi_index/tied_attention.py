r"""Attention networks of tied keys and queries with the attention matrix of one head as label, inverted exactly.

The directions ``v`` of the last layer, shape (r, L), enter the label :math:`\sigma(v^Tv)` by their Gram matrix, so the
label shows them up to an orthogonal matrix. Softmax shows the Gram matrix of their deviations from the mean over
tokens, and the products of these deviations with the mean only: for ``r >= L`` the mean has hidden components.

Rotations have one chart for each choice ``D`` of signs, :math:`O = D(I - A)(I + A)^{-1}` with a skew matrix ``A``. The
invariant measure is :math:`\det(I + A)^{1-r}dA` in each, and since :math:`\sum_D\det(I + DO) = 2^r` the weights
:math:`\det(I + DO)/2^r` divide every rotation among the charts: :math:`\det(I + A)^{-r}` in each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.attention.softmax import symmetric_logits
from glassformer.channels.multi_index.attention_network import Architecture, attention_link, earlier_mixing
from glassformer.channels.multi_index.deep_attention_channel import AttentionChannel
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.latent_posterior import Datum, LatentPosterior
from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.small_matrices import flip_first_rows, inverse_and_log_det, triangular_inverse

# Eigenvalues beyond the rank, relative to the largest, that are rounding.
_ROUNDING = 1e-6
# Latents that low accuracy does not halve (by trial).
_FEW_LATENTS = 64


@dataclass(frozen=True, eq=False)
class TiedAttentionChannel(AttentionChannel):
    r"""Noiseless attention matrices of the last layer.

    .. math:: y = \sigma(v_P^Tv_P), \qquad v_l = z_lB_{l-1}^T, \qquad B_l = (c_l I + \sigma(v_l^Tv_l))B_{l-1}

    with one row of :math:`v_l` for each of the ``r`` directions of a layer. Given the earlier rows
    :math:`z_P = Ov_PB_{P-1}^{-T}` with weight :math:`|\det B_{P-1}|^{-r}`, so the latent variables are the earlier
    rows, the rotation ``O`` and hidden components of the mean: exact sums for one layer of one direction, importance
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
        >>> TiedAttentionChannel(one).fields.shape
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
    def make(network: Architecture) -> LatentPosterior:
        return _functions(network)

    @property
    def rank(self) -> float:
        return float(label_dimension(_rank(self.network), self.columns, _hides_mean(self.network)))

    @property
    def latents(self) -> int:
        rank = _rank(self.network)
        return (self.rows - rank) * self.columns + _angles(rank) + _hidden_means(self.network)

    @property
    def low_effort(self) -> Effort:
        # For few latents compiling again takes longer than they do.
        few = self.effort.points <= _FEW_LATENTS
        return self.effort if few else replace(self.effort, points=self.effort.points // 2, parts=())

    def log_constant(self, root: Array) -> Array:
        rank = _rank(self.network)
        spread = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)[:, -rank:]), axis=1)
        # Rotations and hidden means have a flat measure instead of a normal one.
        normal = rank * self.columns - _angles(rank) - _hidden_means(self.network)
        return np.asarray(-self.columns * spread - 0.5 * normal * np.log(2 * np.pi))

    def observation_from(self, fields: Array, source: Array) -> Array:
        """Return :math:`v_P`, or other directions with the same label: softmax underflows where they are long."""
        del source
        directions = self.of_network(_last_directions).evaluate(fields)
        rank, hidden = _rank(self.network), _hides_mean(self.network)
        if rank > 1:
            # Directions that depend on the label only, not on the draw.
            mean = hidden * directions.mean(axis=2, keepdims=True)
            directions = np.swapaxes(np.linalg.svd(directions - mean)[0], 1, 2) @ directions
            directions[:, _visible_rank(rank, self.columns, hidden) :] = 0.0
        return np.asarray(directions.reshape(len(directions), -1))

    def observation(self, y: Array) -> Array:
        """Return directions of each label, flattened: one choice of all that have it. Directions stay as they are.

        Raises:
            DataError: a label is not the attention of so many directions.
        """
        y = np.asarray(y, dtype=float)
        if y.ndim == 2:
            return y
        rank, scores = _rank(self.network), self.network.last_matrix(y)
        if self.network.last_activation == "softmax":
            scores = symmetric_logits(scores, 1.0)
        directions, beyond = _directions_from_scores(scores, rank, _hides_mean(self.network))
        if np.any(beyond > _ROUNDING):
            raise DataError("y", "<labels>", f"the attention of rank {rank}", "use a channel with label noise")
        return np.asarray(directions.reshape(len(y), -1))


def _rank(network: Architecture) -> int:
    """Return directions ``r`` of the last layer."""
    return network.directions[-1]


def _hides_mean(network: Architecture) -> int:
    """Return one if labels hide the mean over tokens, as softmax does, else zero."""
    return int(network.last_activation == "softmax")


def _hidden_means(network: Architecture) -> int:
    """Return the components of the mean over tokens that labels do not show."""
    rank, hidden = _rank(network), _hides_mean(network)
    return hidden * (rank - _visible_rank(rank, network.tokens, hidden))


def _angles(rank: int) -> int:
    """Return the dimension of the rotations of so many directions."""
    return rank * (rank - 1) // 2


def _visible_rank(rank: int, tokens: int, hidden: int) -> int:
    """Return the rank of the Gram matrix that labels show; softmax (``hidden = 1``) takes the mean over tokens away."""
    return min(rank, tokens - hidden)


def label_dimension(rank: int, tokens: int, hidden: int) -> int:
    """Return the number of fields of a data point that its label fixes.

    Args:
        rank: directions ``r``.
        tokens: ``L``.
        hidden: one for softmax, zero for linear attention.

    Example:
        >>> [label_dimension(*given) for given in ((1, 2, 1), (2, 2, 1), (2, 2, 0), (2, 3, 1))]
        [2, 2, 3, 5]
    """
    visible = _visible_rank(rank, tokens, hidden)
    return visible * tokens - _angles(visible)


def rotations(skew: jax.Array, rank: int) -> tuple[jax.Array, jax.Array]:
    """Return the orthogonal matrices of all charts, shape (2^r, r, r), and the log-density of each chart.

    Args:
        skew: entries of ``A`` above the diagonal.
        rank: ``r``.

    Example:
        >>> matrices, log_density = rotations(jnp.zeros(1), 2)
        >>> matrices.shape, float(log_density)
        ((4, 2, 2), -0.0)
    """
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=rank)))
    above = jnp.zeros((rank, rank)).at[np.triu_indices(rank, 1)].set(skew)
    matrix, identity = above - above.T, jnp.eye(rank)
    inverse, log_det = inverse_and_log_det(identity + matrix)
    return ((identity - matrix) @ inverse) * signs[:, :, None], -rank * log_det


def _directions_from_scores(scores: Array, rank: int, hidden: int) -> tuple[Array, Array]:
    """Return one choice of directions from symmetric scores (n, L, L), known up to a constant for softmax.

    Returns:
        Directions, shape (n, r, L), and the eigenvalues that should vanish, relative to the largest, shape (n, ...).
    """
    tokens = scores.shape[1]
    sides = scores - hidden * scores.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(sides - hidden * sides.mean(axis=2, keepdims=True))
    visible = _visible_rank(rank, tokens, hidden)
    squares = np.maximum(values[:, tokens - visible :], 0.0)
    along = np.swapaxes(vectors[:, :, tokens - visible :], 1, 2)
    # The product of a direction with the mean, over its length twice, is the component of the mean along it.
    products = np.einsum("nkl,nlm->nk", along, sides) / tokens
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = hidden * np.nan_to_num(products / np.sqrt(squares), posinf=0.0, neginf=0.0)
    directions = np.zeros((len(scores), rank, tokens))
    directions[:, :visible] = np.sqrt(squares)[:, :, None] * along + mean[:, :, None]
    beyond = np.concatenate([values[:, : tokens - visible], np.minimum(values[:, tokens - visible :], 0.0)], axis=1)
    return directions, np.abs(beyond) / (1 + np.abs(values[:, -1:]))


def _functions(network: Architecture) -> LatentPosterior:
    rank, tokens, means = _rank(network), network.tokens, _hidden_means(network)
    before, angles, scale = network.rows - rank, _angles(rank), network.typical_length
    mixing = earlier_mixing(network)

    def target(x: jax.Array, datum: Datum) -> tuple[jax.Array, jax.Array]:
        """Return the whitened deviations of the last rows on all charts of the rotation, and the log-weight."""
        vectors, omega, root = datum
        earlier, skew, hidden = jnp.split(x, [before * tokens, before * tokens + angles])
        earlier = earlier.reshape(before, tokens)
        inverse, log_det = inverse_and_log_det(mixing(omega[:before] + root[:before, :before] @ earlier))
        turns, log_weight = rotations(skew, rank)
        mean = jnp.concatenate([jnp.zeros(rank - means), scale * hidden])
        last = turns @ ((vectors.reshape(rank, tokens) + mean[:, None]) @ inverse.T)
        beyond = last - omega[before:] - root[before:, :before] @ earlier
        residual = triangular_inverse(root[before:, before:]) @ beyond
        # The measure of rotations and means is flat, the prior of the latents normal.
        log_weight = log_weight - rank * log_det + 0.5 * (jnp.sum(skew**2) + jnp.sum(hidden**2))
        return residual.reshape(len(turns), -1), jnp.broadcast_to(log_weight, len(turns))

    def features(x: jax.Array, datum: Datum) -> jax.Array:
        last = target(x, datum)[0]
        return jnp.concatenate([jnp.broadcast_to(x[: before * tokens], (len(last), before * tokens)), last], axis=1)

    flips = np.array(list(itertools.product([1.0, -1.0], repeat=before)))

    def images(x: jax.Array, datum: Datum) -> jax.Array:
        _, omega, root = datum
        return flip_first_rows(x, omega, root, flips)

    return LatentPosterior(target, features, attention_link(network), images)


def _last_directions(network: Architecture) -> Callable[[jax.Array], jax.Array]:
    before = network.rows - _rank(network)
    return lambda fields: fields[before:] @ earlier_mixing(network)(fields[:before]).T
