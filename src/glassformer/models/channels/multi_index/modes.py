"""Modes of posteriors of latent normal variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from glassformer.core.numerics.small_matrices import cholesky, triangular_inverse

# Width of the sampling density around a mode over the Laplace one.
_WIDER = 1.1
_FIRST_DAMPING = 0.1
# Cost of a latent that cannot be.
_IMPOSSIBLE = 1e30

_once: Callable[[Any], Any] = jax.lax.optimization_barrier


def find_mode(target: Callable[[Any], tuple[Any, Any]], start: Any, steps: int) -> tuple[Any, Any, Any]:
    """A mode of one branch from a start, its cost, and a square root of the widened Laplace covariance there."""
    identity = jnp.eye(len(start))

    def expand(x: Any) -> tuple[Any, Any, Any]:
        def both(x: Any) -> Any:
            residual, log_weight = target(x)
            out = jnp.append(residual, log_weight)
            return out, out

        slope, value = _once(jax.jacfwd(both, has_aux=True)(x))
        residual, jacobian = value[:-1], slope[:-1]
        cost = 0.5 * x @ x + 0.5 * residual @ residual - value[-1]
        precision = identity + jacobian.T @ jacobian
        gradient = x + residual @ jacobian - slope[-1]
        # A latent at which the likelihood vanishes or is not defined is no mode, and no step leads away from it.
        cost, precision, gradient = _once((cost, precision, gradient))
        usable = jnp.isfinite(cost) & jnp.all(jnp.isfinite(precision)) & jnp.all(jnp.isfinite(gradient))
        pick = partial(jnp.where, usable)
        return pick(cost, _IMPOSSIBLE), pick(precision, identity), pick(gradient, 0.0)

    def step(_: int, state: Any) -> Any:
        x, cost, precision, gradient, damping = state
        inverse = _once(triangular_inverse(cholesky(precision + damping * jnp.diag(jnp.diag(precision)))))
        trial = _once(x - inverse.T @ (inverse @ gradient))
        new_cost, new_precision, new_gradient = expand(trial)
        better = new_cost < cost
        pick = partial(jnp.where, better)
        return (
            pick(trial, x),
            pick(new_cost, cost),
            pick(new_precision, precision),
            pick(new_gradient, gradient),
            pick(0.2 * damping, 5 * damping),
        )

    # The first step, from nowhere, leads to the start.
    state = (start, jnp.asarray(jnp.inf), identity, jnp.zeros_like(start), jnp.asarray(5 * _FIRST_DAMPING))
    mode, cost, precision, _, _ = jax.lax.fori_loop(0, steps + 1, step, state)
    # precision = C C^T, so C^{-T} is a square root of its inverse; a lower one keeps the triangular inverse cheap.
    inverse = triangular_inverse(cholesky(precision))
    return mode, cost, cholesky(_WIDER**2 * inverse.T @ inverse)
