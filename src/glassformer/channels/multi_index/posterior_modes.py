"""Modes of posteriors of latent normal variables by Levenberg-Marquardt steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from glassformer.numerics.small_matrices import cholesky, triangular_inverse

# Damping of the first step, and its factors after a step that lowers the cost and after one that does not. Chosen by
# trial.
_FIRST_DAMPING, _DECREASE, _INCREASE = 0.1, 0.2, 5.0
# Longest step in standard deviations of the prior: where a likelihood falls like an exponential of an exponential,
# Newton steps lead beyond all possible latents.
_LONGEST_STEP = 4.0
# Cost of impossible latents.
_IMPOSSIBLE = 1e30
# Width of the sampling density over that of the Laplace approximation. Chosen by trial.
_WIDENING = 1.1

# Stops XLA from computing the same quantity twice.
_once: Callable[[Any], Any] = jax.lax.optimization_barrier


def find_mode(
    target: Callable[[jax.Array], tuple[jax.Array, jax.Array]], start: jax.Array, steps: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Return a mode of :math:`\exp[-|x|^2/2 - |r(x)|^2/2 + w(x)]`, its cost and the root of a sampling covariance.

    Args:
        target: residual ``r``, shape (k,), and log-weight ``w`` at a latent.
        start: shape (m,).
        steps: Levenberg-Marquardt steps.

    Returns:
        The mode, minus the log-density there, and a lower triangular square root of the widened Laplace covariance.
    """
    identity = jnp.eye(len(start))

    def expand(x: jax.Array) -> tuple[jax.Array, ...]:
        """Return cost, Gauss-Newton precision and gradient."""

        def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            residual, log_weight = target(x)
            out = jnp.append(residual, log_weight)
            return out, out

        slope, value = _once(jax.jacfwd(both, has_aux=True)(x))
        residual, jacobian = value[:-1], slope[:-1]
        cost = 0.5 * x @ x + 0.5 * residual @ residual - value[-1]
        precision = identity + jacobian.T @ jacobian
        gradient = x + residual @ jacobian - slope[-1]
        # No step leads away from a latent at which the likelihood vanishes or is not defined.
        cost, precision, gradient = _once((cost, precision, gradient))
        usable = jnp.isfinite(_once(cost + jnp.sum(precision) + jnp.sum(gradient)))
        pairs = ((cost, _IMPOSSIBLE), (precision, identity), (gradient, 0.0))
        return tuple(jnp.where(usable, found, instead) for found, instead in pairs)

    def step(_: int, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        x, cost, precision, gradient, damping = state
        inverse = _once(triangular_inverse(cholesky(precision + damping * jnp.diag(jnp.diag(precision)))))
        newton = _once(inverse.T @ _once(inverse @ gradient))
        shorter = _LONGEST_STEP / jnp.maximum(jnp.sqrt(newton @ newton), _LONGEST_STEP)
        trial = _once(x - shorter * newton)
        found = expand(trial)
        after, before = (trial, *found, _DECREASE * damping), (x, cost, precision, gradient, _INCREASE * damping)
        return tuple(jnp.where(found[0] < cost, *pair) for pair in zip(after, before, strict=True))

    # The first step has zero gradient and infinite cost: it evaluates the start.
    damping = jnp.asarray(_INCREASE * _FIRST_DAMPING)
    state = (start, jnp.asarray(jnp.inf), identity, jnp.zeros_like(start), damping)
    mode, cost, precision, _, _ = jax.lax.fori_loop(0, steps + 1, step, state)
    # precision = C C^T, so C^{-T} is a square root of its inverse; a lower triangular one is cheap to invert.
    inverse = triangular_inverse(cholesky(precision))
    return mode, cost, cholesky(_WIDENING**2 * inverse.T @ inverse)
