r"""Posterior moments of latent normal variables, one data point each, by importance sampling around the modes.

The latent ``x`` of a data point has the density

.. math:: p(x) \propto \exp\bigl[-\tfrac12|x|^2 - \tfrac12|r(x)|^2 + w(x)\bigr]

with a residual ``r`` and a log-weight ``w``, or is a sum of such terms (branches). Levenberg-Marquardt steps from
several starts find the modes; a mixture of Student densities around them, with a share of the prior for what they miss,
is the sampling density. Where one set of latents covers the posterior badly there may be several, charts: every density
is then that of its own chart, and weights that add up to one share the posterior out among them. Two halves of the
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
from scipy.special import ndtri
from scipy.stats import chi2, qmc

from glassformer.core.integral import Array
from glassformer.core.numerics.batching import in_chunks
from glassformer.core.numerics.compiled import Specialised
from glassformer.core.numerics.small_matrices import cholesky, triangular_inverse

# Share of the prior in the mixture, degrees of freedom of the Student densities, and their width over the Laplace one.
_DEFENSIVE, _FREEDOM, _WIDER = 0.15, 6, 1.1
# Modes are weighted by this power of their Laplace mass: one that is misjudged still gets its points.
_TEMPERED = 0.5
_FIRST_DAMPING = 0.1
# Cost of a latent that cannot be.
_IMPOSSIBLE = 1e30
# Data points that are treated at once, so that temporaries stay in the cache, and numbers in the largest of them, which
# bounds the memory where a data point is much work; random numbers of the pool.
_BATCH, _AT_ONCE, _NUMBERS = 64, 2**20, 2_000_000
# Latents up to which distances are written out entry by entry.
_UNROLLED = 4

Target = Callable[[Any, Any], tuple[Any, Any]]
"""``target(x, datum)``: residuals of the branches, (s, k), and their log-weights, (s,), at a latent of shape (m,)."""
Images = Callable[[Any, Any], Any]
"""``images(x, datum)``: a latent and its images under symmetries of the likelihood, involutions, shape (i, m)."""
Features = Callable[[Any, Any], Any]
"""``features(x, datum)``: what to average on each branch, shape (s, f)."""


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
        first_square, second_square: independent estimates of the second moments, shape (n, f, f).
        effective: effective number of samples, shape (n,).
    """

    log_partition: Array
    first: Array
    second: Array
    covariance: Array
    first_square: Array
    second_square: Array
    effective: Array


def itself(x: Any, datum: Any) -> Any:
    """The images of a latent where no symmetry is known: itself.

    Example:
        >>> itself(jnp.zeros(2), None).shape
        (1, 2)
    """
    del datum
    return x[None]


def anywhere(x: Any, datum: Any) -> Any:
    """Where the search for modes begins if every latent is possible: where the prior says."""
    del datum
    return x


class Functions(NamedTuple):
    r"""What is compiled: the same objects for all channels that are alike.

    Attributes:
        target: residuals and log-weights of the branches at a latent; a datum is what is observed, the mean fields,
            shape (P, K), and the root of their posterior covariance, shape (P, P).
        features: whitened deviations :math:`x = R^{-1}(z - \omega)` of all fields on each branch, shape (s, P K).
        label: the label of fields of shape (P, K), without noise.
        images: a latent and its images under symmetries of the likelihood: every mode stands for its images as well.
        entrance: a latent that is possible, from one drawn from the prior.
        charts: number of charts; if there are several, their index is the last entry of the datum of all functions.
    """

    target: Target
    features: Features
    label: Any
    images: Images = itself
    entrance: Callable[[Any, Any], Any] = anywhere
    charts: int = 1


def posterior_moments(functions: Functions, dimension: int, data: Any, effort: Effort) -> Moments:
    """Moments of the features under the posterior of every data point.

    Args:
        functions: of the posterior.
        dimension: number ``m`` of latent variables.
        data: a tree of arrays whose first axis runs over data points.
        effort: numbers of points, starts and steps.
    """
    sample, batch = _sample(dimension, effort), _batch(dimension, effort)
    moments = Specialised(_moments, functions=functions, steps=effort.steps)

    def work(index: Any, chunk: Any) -> Any:
        return moments(jnp.asarray(index % len(sample.starts)), chunk, sample)

    # One length: compiling takes longer than all but the largest computations.
    return Moments(*in_chunks(work, data, most=batch, rest=batch))


def _batch(dimension: int, effort: Effort) -> int:
    """Data points that are treated at once."""
    numbers = 2 * effort.points * effort.starts * max(dimension, 1)
    return min(_BATCH, 1 << max(0, (_AT_ONCE // numbers).bit_length() - 1))


class _Sample(NamedTuple):
    """What is drawn once: a pool of samples, both halves one after the other, which data points take in turn.

    Were it one sample for all, its error would be the same for all and survive the average over data.
    """

    starts: Any
    normals: Any
    choices: Any
    stretches: Any


@lru_cache(maxsize=4)
def _sample(dimension: int, effort: Effort) -> _Sample:
    """One quasi-random sample, shifted at random for every place in the pool and each half."""
    rng, points = np.random.default_rng(0), qmc.Sobol(dimension + 2, seed=0).random(effort.points)
    pool = int(np.clip(_NUMBERS // (2 * points.size), 64, 8192))
    shifted = points + rng.random((pool, 2, 1, dimension + 2))
    uniform = np.clip(shifted % 1, 1e-12, 1 - 1e-12).reshape(pool, 2 * effort.points, dimension + 2)
    starts = rng.standard_normal((pool, effort.starts, dimension))
    starts[:, 0] = 0.0
    stretches = np.sqrt(_FREEDOM / chi2.ppf(uniform[..., -1], _FREEDOM))
    with jax.enable_x64(True):
        return _Sample(*map(jnp.asarray, (starts, ndtri(uniform[..., :-2]), uniform[..., -2], stretches)))


def _moments(turns: Any, data: Any, sample: _Sample, functions: Functions, steps: int) -> Any:
    def one(item: Any) -> Any:
        turn, datum = item
        own = _Sample(*(part[turn] for part in sample))

        def of_datum(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
            return lambda x, chart: function(x, datum if functions.charts == 1 else (*datum, chart))

        target, images, entrance = map(of_datum, (functions.target, functions.images, functions.entrance))
        x, chart, log_weight = _draw(target, images, entrance, own, steps, functions.charts)
        values = jax.vmap(of_datum(functions.features))(x, chart)
        # Where the likelihood vanishes features may be infinite: they have no weight.
        values = jnp.where(jnp.isfinite(values), values, 0.0)
        return _averages(values.reshape(-1, values.shape[-1]), log_weight)

    return jax.vmap(one)((turns, data))


def _averages(values: Any, log_weight: Any) -> Any:
    """Moments from weights of shape (2 n, s), the halves one after the other, and values, branches flattened.

    Where no sampled latent has a likelihood that double precision can tell from zero (a mixing without skip may be
    singular to rounding), the data point counts as saying nothing: its moments are those of the prior.
    """
    top = jnp.max(log_weight)
    known = jnp.isfinite(top)
    weight = jnp.exp(log_weight - jnp.where(known, top, 0.0))
    halves = list(zip(jnp.split(log_weight, 2), jnp.split(values, 2), strict=True))
    # Each half in its own scale; one without any weight is replaced by the other.
    usable = [jnp.any(jnp.isfinite(part)) for part, _ in halves]
    found = [_mean_and_covariance(_scaled(part).ravel(), own) for part, own in halves]
    (first, one), (second, two) = (
        tuple(jnp.where(usable[k], mine, other) for mine, other in zip(found[k], found[1 - k], strict=True))
        for k in (0, 1)
    )
    # The bias of ratios falls as one over the sample: twice the whole minus the halves is free of it, and what halves
    # differ by keeps two estimates of it apart, whose product has no bias from their noise.
    part = jnp.sum(weight[: len(weight) // 2]) / jnp.sum(weight)
    between = jnp.outer(first - second, first - second)
    covariance = (2 * part - 0.5) * one + (1.5 - 2 * part) * two + 2 * part * (1 - part) * between
    mean, gap = (2 * part - 0.5) * first + (1.5 - 2 * part) * second, 0.5 * (first - second)
    first, second = mean + gap, mean - gap
    product = jnp.outer(mean, mean) - jnp.outer(gap, gap)
    squares = (covariance + 0.5 * (one - two) + product, covariance - 0.5 * (one - two) + product)
    whole = jnp.sum(weight, axis=1)
    effective = jnp.sum(whole) ** 2 / jnp.sum(whole**2)
    log_partition = jnp.where(known, top + jnp.log(jnp.mean(whole)), 0.0)
    prior = jnp.eye(values.shape[-1])
    moments = (first, second, covariance, *squares)
    nothing = (jnp.zeros_like(first), jnp.zeros_like(second), prior, prior, prior)
    chosen = [jnp.where(known, mine, other) for mine, other in zip(moments, nothing, strict=True)]
    return log_partition, *chosen, effective


def _scaled(log_weight: Any) -> Any:
    """Weights whose largest is one."""
    top = jnp.max(log_weight)
    return jnp.exp(log_weight - jnp.where(jnp.isfinite(top), top, 0.0))


def _mean_and_covariance(weight: Any, values: Any) -> tuple[Any, Any]:
    share = weight / jnp.sum(weight)
    mean = share @ values
    centred = values - mean
    return mean, (share * centred.T) @ centred


def _draw(
    target: Callable[[Any, Any], tuple[Any, Any]],
    images: Callable[[Any, Any], Any],
    entrance: Callable[[Any, Any], Any],
    sample: _Sample,
    steps: int,
    charts: int,
) -> tuple[Any, Any, Any]:
    """Latents and charts from the mixture around the modes, and the logarithms of their weights, branch by branch."""
    if sample.starts.shape[-1] == 0:
        x, chart = jnp.zeros((2, 0)), jnp.zeros(2, dtype=int)
        return x, chart, _log_likelihood(target, x, chart)
    mode, chart, cost, root = _modes(target, entrance, sample.starts, steps, charts)
    size, dimension = mode.shape
    inverse = jax.vmap(triangular_inverse)(root)
    log_det = jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2)), axis=1)
    # A mode that any of its images makes likely counts: they share the likelihood, not the prior.
    twins = jax.vmap(images)(mode, chart)
    gains = jax.scipy.special.logsumexp(-0.5 * jnp.sum(twins**2, axis=-1), axis=1) + 0.5 * jnp.sum(mode**2, axis=-1)
    share = (1 - _DEFENSIVE) * jax.nn.softmax(_TEMPERED * (log_det - cost + gains))
    index = jnp.searchsorted(jnp.cumsum(share), sample.choices)
    own = jnp.minimum(index, size - 1)
    near = mode[own] + sample.stretches[:, None] * jnp.einsum("nij,nj->ni", root[own], sample.normals)
    near_a_mode = index < size
    drawn = jnp.where(near_a_mode[:, None], near, sample.normals)
    # What is left of the number that chose the prior chooses the chart, independently of the latent.
    left = (sample.choices - (1 - _DEFENSIVE)) / _DEFENSIVE
    drawn_chart = jnp.where(near_a_mode, chart[own], jnp.clip(left * charts, 0, charts - 1).astype(int))
    # Every point is used with all its images: symmetries of the posterior hold exactly, and the sampling density is
    # the mean over images of what was drawn from.
    x = jax.vmap(images)(drawn, drawn_chart)
    heights = share * jnp.exp(_student_constant(dimension) - log_det)
    peaks = _inverse_power(1 + _square_distances(inverse, x[:, :, None] - mode) / _FREEDOM, dimension)
    if charts == 1:
        students = peaks @ heights
    else:
        students = jnp.einsum("ncs,ns->nc", peaks, heights * (drawn_chart[:, None] == chart))
    log_prior = -0.5 * jnp.sum(x**2, axis=-1)
    log_density = jnp.log(jnp.mean(students + _DEFENSIVE / charts * jnp.exp(log_prior), axis=1))
    flat, chart_of = x.reshape(-1, dimension), jnp.repeat(drawn_chart, x.shape[1])
    base = (log_prior - log_density[:, None]).reshape(-1)
    return flat, chart_of, base[:, None] + _log_likelihood(target, flat, chart_of)


def _square_distances(inverse: Any, away: Any) -> Any:
    """``|inverse away|^2`` with lower triangular (s, m, m) and (n, c, s, m): shape (n, c, s)."""
    size = away.shape[-1]
    if size > _UNROLLED:
        return jnp.sum(jnp.einsum("sij,ncsj->ncsi", inverse, away) ** 2, axis=-1)
    # Entry by entry, so that one loop over the points does all.
    white = [
        sum((inverse[:, i, j] * away[..., j] for j in range(i)), inverse[:, i, i] * away[..., i]) for i in range(size)
    ]
    return sum((entry**2 for entry in white[1:]), white[0] ** 2)


def _inverse_power(base: Any, dimension: int) -> Any:
    """``base`` to the power of minus half of freedom and dimension, by products and at most one root."""
    whole, half = divmod(_FREEDOM + dimension, 2)
    power = base**-whole
    return power / jnp.sqrt(base) if half else power


def _log_likelihood(target: Callable[[Any, Any], tuple[Any, Any]], x: Any, chart: Any) -> Any:
    residual, log_weight = jax.vmap(target)(x, chart)
    value = log_weight - 0.5 * jnp.sum(residual**2, axis=-1)
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def _modes(
    target: Callable[[Any, Any], tuple[Any, Any]],
    entrance: Callable[[Any, Any], Any],
    starts: Any,
    steps: int,
    charts: int,
) -> tuple[Any, Any, Any, Any]:
    """Modes from each start, which take the branches of every chart in turn: latent, chart, cost and root."""
    branches = len(jax.eval_shape(target, starts[0], 0)[1])

    def from_start(start: Any, turn: Any) -> tuple[Any, Any, Any, Any]:
        branch, chart = turn % branches, turn // branches % charts

        def one_branch(x: Any) -> tuple[Any, Any]:
            residual, log_weight = target(x, chart)
            return residual[branch], log_weight[branch]

        mode, cost, root = find_mode(one_branch, entrance(start, chart), steps)
        return mode, chart, cost, root

    return jax.vmap(from_start)(starts, jnp.arange(len(starts)))


def _student_constant(dimension: int) -> Any:
    """Logarithm of the height of a Student density over that of the normal density of the same shape."""
    lgamma = jax.scipy.special.gammaln
    return lgamma(0.5 * (_FREEDOM + dimension)) - lgamma(0.5 * _FREEDOM) - 0.5 * dimension * jnp.log(0.5 * _FREEDOM)


def find_mode(target: Callable[[Any], tuple[Any, Any]], start: Any, steps: int) -> tuple[Any, Any, Any]:
    """A mode of one branch from a start, its cost, and a square root of the widened Laplace covariance there."""
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
        gradient = x + residual @ jacobian - slope[-1]
        # A latent at which the likelihood vanishes or is not defined is no mode, and no step leads away from it.
        usable = jnp.isfinite(cost) & jnp.all(jnp.isfinite(precision)) & jnp.all(jnp.isfinite(gradient))
        pick = partial(jnp.where, usable)
        return pick(cost, _IMPOSSIBLE), pick(precision, identity), pick(gradient, 0.0)

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
