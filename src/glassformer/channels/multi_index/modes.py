"""Modes of posteriors of latent normal variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from glassformer.numerics.small_matrices import cholesky, triangular_inverse


@dataclass(frozen=True)
class Sampling:
    """How modes of posteriors are looked for, and what is drawn around them."""

    first_damping: float = 0.1  # of the steps to a mode
    easier: float = 0.2  # factor of that after a step that leads down
    harder: float = 5.0  # and after one that does not
    longest: float = 4.0  # step to a mode, in standard deviations of the prior
    impossible: float = 1e30  # cost of a latent that cannot be
    wider: float = 1.1  # width of the sampling density around a mode over the Laplace one
    degrees: int = 6  # of freedom of the Student densities of the mixture
    defensive: float = 0.15  # share of the prior in that
    tempered: float = 0.5  # power of their Laplace mass that weighs modes: one that is misjudged still gets its points
    unrolled: int = 4  # modes that are treated in one go
    batch: int = 64  # data points that are treated at once, at most
    fewest: int = 8  # the same at least
    at_once: int = 2**14  # sampled latents of all of them, so that temporaries stay in the cache
    blocks: int = 8  # of that many data points that are sent at once
    numbers: int = 2_000_000  # random ones of the pool


POLICY = Sampling()


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
        return pick(cost, POLICY.impossible), pick(precision, identity), pick(gradient, 0.0)

    def step(_: int, state: Any) -> Any:
        x, cost, precision, gradient, damping = state
        inverse = _once(triangular_inverse(cholesky(precision + damping * jnp.diag(jnp.diag(precision)))))
        move = inverse.T @ (inverse @ gradient)
        # Where a likelihood falls like an exponential of an exponential, slopes lead out of all that is possible.
        shorter = POLICY.longest / jnp.maximum(jnp.sqrt(move @ move), POLICY.longest)
        trial = _once(x - shorter * move)
        new_cost, new_precision, new_gradient = expand(trial)
        better = new_cost < cost
        pick = partial(jnp.where, better)
        return (
            pick(trial, x),
            pick(new_cost, cost),
            pick(new_precision, precision),
            pick(new_gradient, gradient),
            pick(POLICY.easier * damping, POLICY.harder * damping),
        )

    # The first step, from nowhere, leads to the start.
    damping = jnp.asarray(POLICY.harder * POLICY.first_damping)
    state = (start, jnp.asarray(jnp.inf), identity, jnp.zeros_like(start), damping)
    mode, cost, precision, _, _ = jax.lax.fori_loop(0, steps + 1, step, state)
    # precision = C C^T, so C^{-T} is a square root of its inverse; a lower one keeps the triangular inverse cheap.
    inverse = triangular_inverse(cholesky(precision))
    return mode, cost, cholesky(POLICY.wider**2 * inverse.T @ inverse)
