r"""Deep attention networks as functions of the projections of their tokens on the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.quasi_random import normal_points

# Sampled vectors, per replica, of the mean attention along the flow of infinitely many layers.
_FLOW_POINTS = 4096
# Longest time of the flow. Vectors grow exponentially with time, and later all attention weights coincide.
_LONGEST_FLOW = 100.0
# Limits in which the earlier layers form a committee.
_COMMITTEES = ("large-skip", "linear-committee")


Layers = Sequence[jax.Array] | jax.Array
"""Keys or queries of some layers, shape (directions, H, L) each."""


@dataclass(frozen=True)
class Architecture:
    r"""Parameters of a deep attention network.

    Attributes:
        depth: layers ``P >= 1``.
        tokens: ``L``.
        skip: skip strength of every layer; that of the last layer matters for sequence outputs only.
        activation: ``"softmax"`` (of rows) or ``"linear"``.
        tied: whether keys and queries share their weights.
        heads: ``H``, each on its own coordinates of the tokens.
        output: ``"attention"`` (the last attention matrix) or ``"sequence"`` (the mixing of the input tokens).
        head_weights: weight of every head, shape (P, H) as nested tuples.
        limit: ``""``; ``"large-skip"``, where the earlier layers act as a committee; ``"linear-committee"``, where
            moreover the last layer is linear; or ``"large-depth"``, where the earlier layers mix the tokens by the
            constant matrix of the flow at the time ``P/c``.
        root: square root of the correlation of the tokens, shape (L, L) as nested tuples; empty for independent tokens.
        ranks: directions of the key and of the query weights of every layer; empty if all have one.
    """

    depth: int
    tokens: int
    skip: tuple[float, ...]
    activation: str
    tied: bool
    heads: int
    output: str
    head_weights: tuple[tuple[float, ...], ...]
    limit: str = ""
    root: tuple[tuple[float, ...], ...] = ()
    ranks: tuple[int, ...] = ()

    @property
    def directions(self) -> tuple[int, ...]:
        """Numbers of directions of the layers whose rows are learned."""
        layers = 1 if self.limit == "large-depth" else self.depth
        return self.ranks or (1,) * layers

    @property
    def last_activation(self) -> str:
        """Activation of the last layer."""
        return "linear" if self.limit == "linear-committee" else self.activation

    @property
    def exchangeable(self) -> tuple[tuple[int, ...], ...]:
        """Groups of rows whose exchange leaves labels unchanged: members of a committee with the same weight."""
        if self.limit not in _COMMITTEES:
            return ()
        weights = [self.head_weights[k][0] / self.skip[k] for k in range(self.depth - 1)]
        groups = [tuple(k for k, weight in enumerate(weights) if weight == own) for own in dict.fromkeys(weights)]
        return tuple(group for group in groups if len(group) > 1)

    @property
    def start(self) -> Array:
        """Mixing of independent tokens before any layer: the root of their correlation."""
        return np.array(self.root) if self.root else np.eye(self.tokens)

    @property
    def rows(self) -> int:
        """Number of projections per token: directions of all layers times heads, twice that for untied weights."""
        return sum(self.directions) * self.heads * (1 if self.tied else 2)

    @property
    def groups(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Rows of every layer and head, by family (keys, queries): one rotation of all families keeps the labels."""
        families = range(0, self.rows, sum(self.directions) * self.heads)
        first = np.cumsum((0, *self.directions))[:-1] * self.heads
        return tuple(
            tuple(tuple(int(family + begin + head + k * self.heads) for k in range(rank)) for family in families)
            for begin, rank in zip(first, self.directions, strict=True)
            for head in range(self.heads)
        )

    def by_layer(self, rows: jax.Array) -> list[jax.Array]:
        """Split the rows of one family, shape (rows, L), into layers, shape (directions, H, L) each."""
        ends = np.cumsum(self.directions) * self.heads
        count = int(np.searchsorted(ends, len(rows), side="right"))
        parts = zip((0, *ends), ends[:count], strict=False)
        return [rows[begin:end].reshape(-1, self.heads, self.tokens) for begin, end in parts]

    @property
    def typical_length(self) -> float:
        """Approximate factor by which the earlier layers increase the length of a vector."""
        return math.prod((abs(strength) + 1.0 for strength in self.skip[:-1]), start=1.0)

    @property
    def shows_last_matrix(self) -> bool:
        """Whether labels determine the attention matrix of the last layer and the network has one head."""
        return self.heads == 1 and (self.output == "attention" or self.depth == 1)

    def last_matrix(self, label: Array) -> Array:
        """Return the attention matrix of the only head of the last layer from labels, shape (n, L, L)."""
        if self.output == "sequence":
            label = label @ np.linalg.inv(self.start) - self.skip[-1] * np.eye(self.tokens)
        return label / self.head_weights[-1][0]


def attention_link(network: Architecture) -> Callable[[jax.Array], jax.Array]:
    r"""Return the output of the network as a function of ``Z``, shape (rows, L).

    Rows are ordered by family (keys, then queries), layer, direction and head; :math:`B_l = (c_l I + \sum_h r_{lh}
    \sigma(\sum_k a_{lkh}b_{lkh}^T))B_{l-1}` with :math:`a = B_{l-1}k`, :math:`b = B_{l-1}q` and :math:`B_0 = I`, or the
    root of the correlation of the tokens.

    Example:
        >>> network = Architecture(1, 2, (1.0,), "linear", True, 1, "attention", ((1.0,),))
        >>> attention_link(network)(jnp.array([[1.0, 2.0]])).tolist()
        [[1.0, 2.0], [2.0, 4.0]]
    """
    if network.limit:
        weight, last = network.head_weights[-1][0], network.last_activation
        return lambda fields: weight * _tied_attention(earlier_mixing(network)(fields[:-1]) @ fields[-1], last)

    def link(fields: jax.Array) -> jax.Array:
        half = network.rows if network.tied else network.rows // 2
        keys, queries = network.by_layer(fields[:half]), network.by_layer(fields[-half:])
        mixing = layers_mixing(network, keys[:-1], queries[:-1])
        attention = attention_layer(mixing, keys[-1], queries[-1], network.head_weights[-1], network.activation)
        return network.skip[-1] * mixing + attention @ mixing if network.output == "sequence" else attention

    return link


def earlier_mixing(network: Architecture) -> Callable[[jax.Array], jax.Array]:
    r"""Return the mixing of the tokens by all layers but the last, as a function of their rows of fields.

    In the limits of a committee, with layers normalised by the skip, it is :math:`I + \sum_l r_l\sigma(z_lz_l^T)/c_l`;
    for depth and skip large together, a constant.
    """
    if network.limit == "large-depth":
        constant = flow(network.tokens, network.depth / network.skip[0], network.activation)
        return lambda rows: jnp.asarray(constant)
    before = network.depth - 1

    def mixing(rows: jax.Array) -> jax.Array:
        if network.limit in _COMMITTEES:
            committee = [
                network.head_weights[k][0] * _tied_attention(rows[k], network.activation) / network.skip[k]
                for k in range(before)
            ]
            return sum(committee, jnp.eye(network.tokens))
        half = len(rows) if network.tied else len(rows) // 2
        return layers_mixing(network, network.by_layer(rows[:half]), network.by_layer(rows[len(rows) - half :]))

    return mixing


def layers_mixing(network: Architecture, keys: Layers, queries: Layers) -> jax.Array:
    """Return the mixing of the tokens by the first layers, from their keys and queries."""
    mixing = jnp.asarray(network.start)
    for k in range(len(keys)):
        attention = attention_layer(mixing, keys[k], queries[k], network.head_weights[k], network.activation)
        mixing = network.skip[k] * mixing + attention @ mixing
    return mixing


def attention_layer(
    mixing: jax.Array, keys: jax.Array, queries: jax.Array, weights: tuple[float, ...], name: str
) -> jax.Array:
    """Return the weighted sum over heads of one layer's attention; keys and queries have shape (directions, H, L)."""
    heads = []
    for h, weight in enumerate(weights):
        pairs = zip(keys[:, h], queries[:, h], strict=True)
        products = [jnp.outer(mixing @ key, mixing @ query) for key, query in pairs]
        heads.append(weight * _activation(sum(products[1:], products[0]), name))
    return sum(heads[1:], heads[0])


def _activation(scores: jax.Array, name: str) -> jax.Array:
    if name != "softmax":
        return scores
    if scores.shape[1] != 2:
        return jax.nn.softmax(scores, axis=-1)
    # Of two entries it takes a tenth less time as logistic functions of their difference (measured).
    difference = scores[:, 0] - scores[:, 1]
    return jax.nn.sigmoid(jnp.stack([difference, -difference], axis=1))


def _tied_attention(vector: jax.Array, name: str) -> jax.Array:
    return _activation(jnp.outer(vector, vector), name)


@lru_cache(maxsize=64)
def flow(tokens: int, time: float, name: str) -> Array:
    r"""Return :math:`B(\tau)` of :math:`dB/dt = E_z[\sigma(Bzz^TB^T)]B`, :math:`B(0) = I`, with normal ``z``.

    Raises:
        ParameterError: the flow diverges before that time, as linear attention does.

    Example:
        >>> flow(2, 1.0, "softmax").sum(axis=1).round(4).tolist()  # rows sum to e
        [2.7183, 2.7183]
    """
    if time > _LONGEST_FLOW:
        raise ParameterError("depth", time, f"a ratio depth/skip of at most {_LONGEST_FLOW:g}", "use a larger skip")
    points = normal_points(tokens, _FLOW_POINTS, 8).reshape(-1, tokens)

    def slope(_: float, flat: jax.Array) -> jax.Array:
        matrix = flat.reshape(tokens, tokens)
        vectors = points @ matrix.T
        scores = vectors[:, :, None] * vectors[:, None, :]
        mean = np.mean(softmax(scores, axis=-1) if name == "softmax" else scores, axis=0)
        return (mean @ matrix).ravel()

    # Slow to import.
    from scipy.integrate import solve_ivp

    solution = solve_ivp(slope, (0.0, time), np.eye(tokens).ravel(), rtol=1e-8, atol=1e-10)
    if not solution.success or not np.all(np.isfinite(solution.y)):
        raise ParameterError("depth", time, "a ratio depth/skip that the flow reaches", "use softmax, or a larger skip")
    matrix = solution.y[:, -1].reshape(tokens, tokens)
    # Averages over finitely many points slightly break the symmetry between tokens, which is restored here.
    off = (matrix.sum() - np.trace(matrix)) / max(tokens * (tokens - 1), 1)
    return np.where(np.eye(tokens, dtype=bool), np.trace(matrix) / tokens, off)
