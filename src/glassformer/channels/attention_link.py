r"""Deep attention networks as functions of the projections of their tokens on the weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Architecture:
    r"""Which deep attention network.

    Attributes:
        depth: layers ``P >= 1``.
        tokens: ``L``.
        skip: skip strength of every layer; that of the last matters for sequence outputs only.
        activation: ``"softmax"`` (of rows) or ``"linear"``.
        tied: whether keys and queries share their weights.
        heads: ``H``, each on its own coordinates of the tokens.
        output: ``"attention"`` (the last attention matrix) or ``"sequence"`` (the mixing of the input tokens).
        head_weights: weight of every head, shape (P, H) as nested tuples.
    """

    depth: int
    tokens: int
    skip: tuple[float, ...]
    activation: str
    tied: bool
    heads: int
    output: str
    head_weights: tuple[tuple[float, ...], ...]

    @property
    def rows(self) -> int:
        """Projections per token: layers times heads, twice that if keys and queries differ."""
        return self.depth * self.heads * (1 if self.tied else 2)


def activation(scores: Any, name: str) -> Any:
    """Attention matrices from scores, shape (..., L, L)."""
    return jax.nn.softmax(scores, axis=-1) if name == "softmax" else scores


def layer(mixing: Any, keys: Any, queries: Any, weights: tuple[float, ...], name: str) -> Any:
    """Weighted sum over heads of the attention of one layer; keys and queries of shape (H, L)."""
    heads = [
        weight * activation(jnp.outer(mixing @ keys[h], mixing @ queries[h]), name) for h, weight in enumerate(weights)
    ]
    return sum(heads[1:], heads[0])


@lru_cache(maxsize=64)
def attention_link(network: Architecture) -> Callable[[Any], Any]:
    r"""The output of the network as a function of ``Z``, shape (rows, L).

    Rows are ordered by family (keys, then queries), layer and head; :math:`B_l = (c_l I + \sum_h r_{lh}
    \sigma(a_{lh}b_{lh}^T))B_{l-1}` with :math:`a = B_{l-1}k`, :math:`b = B_{l-1}q` and :math:`B_0 = I`.

    Example:
        >>> network = Architecture(1, 2, (1.0,), "linear", True, 1, "attention", ((1.0,),))
        >>> attention_link(network)(jnp.array([[1.0, 2.0]])).tolist()
        [[1.0, 2.0], [2.0, 4.0]]
    """

    def link(fields: Any) -> Any:
        shape = (network.depth, network.heads, network.tokens)
        keys, queries = (fields, fields) if network.tied else (fields[: network.rows // 2], fields[network.rows // 2 :])
        keys, queries = keys.reshape(shape), queries.reshape(shape)
        mixing, attention = jnp.eye(network.tokens), jnp.eye(network.tokens)
        last = network.depth - 1
        for k in range(network.depth):
            attention = layer(mixing, keys[k], queries[k], network.head_weights[k], network.activation)
            if k < last or network.output == "sequence":
                mixing = network.skip[k] * mixing + attention @ mixing
        return mixing if network.output == "sequence" else attention

    return link
