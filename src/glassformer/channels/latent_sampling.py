r"""Posterior moments of latent normal variables, one data point each, by importance sampling around the modes.

The latent ``x`` of a data point has the density

.. math:: p(x) \propto \exp\bigl[-\tfrac12|x|^2 - \tfrac12|r(x)|^2 + w(x)\bigr]

with a residual ``r`` and a log-weight ``w``. Levenberg-Marquardt steps from several starts find the modes; a mixture of
Student densities around them, with a share of the prior for what they miss, is the sampling density. Two halves of the
sample, with quasi-random points of their own, give two independent estimates of every mean: their product estimates a
square without the bias of sampling noise, their difference tells that noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2, norm, qmc

from glassformer.channels.compiled import chunks
from glassformer.channels.small_matrices import cholesky, triangular_inverse
from glassformer.integral import Array

# Share of the prior in the mixture, degrees of freedom of the Student densities, and their width over the Laplace one.
_DEFENSIVE, _FREEDOM, _WIDER = 0.15, 6.0, 1.1
# Modes are weighted by this power of their Laplace mass: one that is misjudged still gets its points.
_TEMPERED = 0.5
_FIRST_DAMPING = 0.1
# Data points that are treated at once, so that temporaries stay in the cache; different samples.
_BATCH, _POOL = 64, 256

Target = Callable[[Any, Any], tuple[Any, Any]]
"""``target(x, datum)``: residual, shape (k,), and log-weight of the latent ``x``, shape (m,)."""
Features = Callable[[Any, Any], Any]
"""``features(x, datum)``: what to average, shape (f,)."""


@dataclass(frozen=True)
class Effort:
    """How much work the sampling of one data point is.

    Attributes:
        points: sampled latents per half, a power of two.
        starts: starts of the search for modes.
        steps: steps of that search.
    """

    points: int = 128
    starts: int = 8
    steps: int = 12


class Moments(NamedTuple):
    """Posterior moments of the features of each data point.

    Attributes:
        log_partition: log of the integral of the likelihood against the prior, shape (n,).
        first, second: two independent estimates of the mean, shape (n, f).
        covariance: shape (n, f, f).
        effective: effective number of samples, shape (n,).
    """

    log_partition: Array
    first: Array
    second: Array
    covariance: Array
    effective: Array


def posterior_moments(target: Target, features: Features, dimension: int, data: Any, effort: Effort) -> Moments:
    """Moments of ``features`` under the posterior of every data point.

    Args:
        target: traceable function of one latent and one datum; the same object at every call, or it is compiled again.
        features: what to average, another such function.
        dimension: number ``m`` of latent variables.
        data: a tree of arrays whose first axis runs over data points.
        effort: numbers of points, starts and steps.
    """
    parts = []
    with jax.enable_x64(True):
        sample = _Sample(*(jnp.asarray(part) for part in _sample(dimension, effort)))
        for index, chunk, real in chunks(data):
            found = _moments(target, features, jnp.asarray(index % _POOL), chunk, sample, effort.steps)
            parts.append([np.asarray(part)[:real] for part in found])
    return Moments(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class _Sample(NamedTuple):
    """What is drawn once: a pool of samples, both halves one after the other, which data points take in turn.

    Were it one sample for all, its error would be the same for all and survive the average over data.
    """

    starts: Any
    normals: Any
    choices: Any
    stretches: Any


@lru_cache(maxsize=32)
def _sample(dimension: int, effort: Effort) -> _Sample:
    halves = [qmc.Sobol(dimension + 2, seed=seed).random(effort.points) for seed in range(2 * _POOL)]
    uniform = np.clip(np.reshape(halves, (_POOL, 2 * effort.points, dimension + 2)), 1e-12, 1 - 1e-12)
    starts = np.random.default_rng(0).standard_normal((_POOL, effort.starts, dimension))
    starts[:, 0] = 0.0
    stretches = np.sqrt(_FREEDOM / chi2.ppf(uniform[..., -1], _FREEDOM))
    return _Sample(starts, norm.ppf(uniform[..., :-2]), uniform[..., -2], stretches)


@partial(jax.jit, static_argnames=("target", "features", "steps"))
def _moments(target: Target, features: Features, turns: Any, data: Any, sample: _Sample, steps: int) -> Any:
    def one(item: Any) -> Any:
        turn, datum = item
        x, log_weight = _draw(lambda x: target(x, datum), _Sample(*(part[turn] for part in sample)), steps)
        return _averages(jax.vmap(lambda x: features(x, datum))(x), log_weight)

    return jax.lax.map(one, (turns, data), batch_size=_BATCH)


def _averages(values: Any, log_weight: Any) -> Any:
    top = jnp.max(log_weight)
    weight = jnp.exp(log_weight - top)
    halves = list(zip(jnp.split(weight, 2), jnp.split(values, 2), strict=True))
    (first, one), (second, two) = (_mean_and_covariance(*half) for half in halves)
    # The bias of a covariance falls as one over the sample: twice the whole minus the halves is free of it.
    covariance = 2 * _mean_and_covariance(weight, values)[1] - 0.5 * (one + two)
    effective = jnp.sum(weight) ** 2 / jnp.sum(weight**2)
    return top + jnp.log(jnp.mean(weight)), first, second, covariance, effective


def _mean_and_covariance(weight: Any, values: Any) -> tuple[Any, Any]:
    share = weight / jnp.sum(weight)
    mean = share @ values
    centred = values - mean
    return mean, (share * centred.T) @ centred


def _draw(target: Callable[[Any], tuple[Any, Any]], sample: _Sample, steps: int) -> tuple[Any, Any]:
    """Latents from the mixture around the modes, and the logarithms of their importance weights."""
    mode, cost, root = jax.vmap(lambda start: _mode(target, start, steps))(sample.starts)
    size, dimension = mode.shape
    inverse = jax.vmap(triangular_inverse)(root)
    log_det = jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2)), axis=1)
    share = (1 - _DEFENSIVE) * jax.nn.softmax(_TEMPERED * (log_det - cost))
    index = jnp.minimum(jnp.searchsorted(jnp.cumsum(share), sample.choices), size)
    near = index < size
    centres = jnp.concatenate([mode, jnp.zeros((1, dimension))])[index]
    roots = jnp.concatenate([root, jnp.eye(dimension)[None]])[index]
    stretch = jnp.where(near, sample.stretches, 1.0)
    x = centres + stretch[:, None] * jnp.einsum("nij,nj->ni", roots, sample.normals)
    white = jnp.einsum("sij,nsj->nsi", inverse, x[:, None] - mode)
    log_student = _student_constant(dimension) - 0.5 * (_FREEDOM + dimension) * jnp.log1p(
        jnp.sum(white**2, axis=-1) / _FREEDOM
    )
    log_prior = -0.5 * jnp.sum(x**2, axis=1)
    parts = jnp.concatenate(
        [log_student - log_det + jnp.log(share), (log_prior + jnp.log(_DEFENSIVE))[:, None]], axis=1
    )
    residual, log_likelihood = jax.vmap(target)(x)
    log_weight = log_prior - 0.5 * jnp.sum(residual**2, axis=1) + log_likelihood
    log_weight = log_weight - jax.scipy.special.logsumexp(parts, axis=1)
    return x, jnp.where(jnp.isfinite(log_weight), log_weight, -jnp.inf)


def _student_constant(dimension: int) -> Any:
    """Logarithm of the height of a Student density over that of the normal density of the same shape."""
    lgamma = jax.scipy.special.gammaln
    return lgamma(0.5 * (_FREEDOM + dimension)) - lgamma(0.5 * _FREEDOM) - 0.5 * dimension * jnp.log(0.5 * _FREEDOM)


def _mode(target: Callable[[Any], tuple[Any, Any]], start: Any, steps: int) -> tuple[Any, Any, Any]:
    """A mode, its cost, and a square root of the widened Laplace covariance there."""
    identity = jnp.eye(len(start))

    def expand(x: Any) -> tuple[Any, Any, Any]:
        def both(x: Any) -> Any:
            residual, log_weight = target(x)
            out = jnp.append(residual, log_weight)
            return out, out

        slope, value = jax.jacfwd(both, has_aux=True)(x)
        residual, jacobian = value[:-1], slope[:-1]
        cost = 0.5 * x @ x + 0.5 * residual @ residual - value[-1]
        precision = identity + jacobian.T @ jacobian
        return cost, precision, x + residual @ jacobian - slope[-1]

    def step(_: int, state: Any) -> Any:
        x, cost, precision, gradient, damping = state
        inverse = triangular_inverse(cholesky(precision + damping * jnp.diag(jnp.diag(precision))))
        trial = x - inverse.T @ (inverse @ gradient)
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

    state = (start, *expand(start), jnp.asarray(_FIRST_DAMPING))
    mode, cost, precision, _, _ = jax.lax.fori_loop(0, steps, step, state)
    # precision = C C^T, so C^{-T} is a square root of its inverse; a lower one keeps the triangular inverse cheap.
    inverse = triangular_inverse(cholesky(precision))
    return mode, cost, cholesky(_WIDER**2 * inverse.T @ inverse)
