r"""Gradient descent on the weights of several attention layers, of many starts at once.

.. math:: \hat S^l = W^l(W^l)^T/\sqrt{rd}, \qquad
   \mathcal L = \tfrac14\sum_\mu \|\sigma(B_{L-1}h_\mu^L(\hat S^L)B_{L-1}^T) - y_\mu\|_F^2.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.estimate import Array
from glassformer.designs.quadratic import LayeredQuadraticDesign
from glassformer.models.trainable.attention import indices_of
from glassformer.models.trainable.base import Loss, Parametrisation, Student

# Learning rates of the optimizers, the default one first.
RATES = {"adam": 0.05, "sgd": 1.0}


def layered_student(channel: Any, design: LayeredQuadraticDesign, labels: Array, width: int) -> Student:
    """Return the student whose parameters are the weights ``W`` of every layer.

    Args:
        channel: :class:`~glassformer.channels.attention.deep.DeepAttentionIndexedChannel`.
        design: tokens; their precision is that of the training.
        labels: shape (samples, T, T).
        width: ``r``, the columns of ``W``.
    """
    d, kind = design.signal_shape[0], design.inputs.dtype
    targets, layers = np.asarray(labels), len(channel.skip) + 1
    return Student(
        parameters=((layers, d, width),),
        data=(design.inputs[0], targets.astype(kind)),
        loss=_loss(tuple(channel.skip), channel.last, float(channel.temperature)),
        signals=_signals,
        power=0.25 * float(np.sum(targets**2)),
        samples=design.samples,
        unit=1.0,
        rates=RATES,
        distance=lambda signal, teacher: float(np.sum((signal - teacher) ** 2) / (d * layers)),
    )


def layered_parametrisation(channel: Any) -> Parametrisation:
    """Return how weights are trained on labels of this channel."""
    return Parametrisation(RATES, partial(layered_student, channel))


def _signals(parameters: Any) -> Any:
    (weights,) = parameters
    d, width = weights.shape[2:]
    return jnp.einsum("klir,kljr->klij", weights, weights) / np.sqrt(d * width)


@lru_cache(maxsize=16)
def _loss(skip: tuple[float, ...], last: str, temperature: float) -> Loss:
    """Return the loss of networks with these skip strengths; equal arguments give the same function, compiled once."""

    def attention(mixing: Any, indices: Any) -> Any:
        return mixing @ indices @ jnp.swapaxes(mixing, -1, -2)

    def loss(parameters: Any, data: Any) -> Any:
        (weights,), (tokens, labels) = parameters, data
        mixing = jnp.eye(tokens.shape[1], dtype=tokens.dtype)
        for layer, strength in enumerate(skip):
            scores = attention(mixing, indices_of(weights[:, layer], tokens))
            mixing = strength * mixing + jax.nn.softmax(temperature * scores, axis=-1) @ mixing
        scores = attention(mixing, indices_of(weights[:, -1], tokens))
        found = jax.nn.softmax(temperature * scores, axis=-1) if last == "softmax" else scores
        return 0.25 * jnp.sum((found - labels) ** 2, axis=(1, 2, 3))

    return loss
