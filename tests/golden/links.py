"""Link functions of the golden numbers."""

import jax.numpy as jnp


def relu(h):
    return jnp.maximum(h, 0)


def cubic(h):
    return h**3 - h


def sign(z):
    return jnp.sign(z[0, 0])


def linear(z):
    return z[0, 0]


def square(z):
    return z[0, 0] ** 2


def gated(z):
    return z[0, 0] * jnp.tanh(z[1, 0])


def parity(z):
    return jnp.sign(z[0, 0] * z[1, 0])


def largest(z):
    return jnp.argmax(z[:, 0])


def rate(z):
    return jnp.exp(z[0, 0] / 2)


def pair(z):
    return jnp.stack([z[0, 0] + z[1, 0], z[0, 0] * z[1, 0]])


def own_softmax(h):
    return jnp.exp(2 * h) / jnp.exp(2 * h).sum(axis=-1, keepdims=True)
