"""Posterior moments from weighted samples, without the bias of ratios of noisy sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.numerics.scalarize import no_recompute

# Sums of weights, relative to the largest weight, that count as zero: the inverses of smaller ones may overflow.
_NO_WEIGHT = 1e-290


def weighted_moments(
    log_weight: Sequence[jax.Array], values: Sequence[Sequence[jax.Array]], shares: Sequence[int] = (1,)
) -> tuple[jax.Array, ...]:
    """Return the moments that :class:`~.importance_sampling.PosteriorMoments` lists, for one share after the other.

    The moments of a share are means over so many equal parts of the sample, each with as many latents of both halves.
    Sampling noise to first order is the same for all shares: they differ by the bias of fewer latents.

    A data point whose sampled latents all have a likelihood of zero in double precision (without skip, a mixing may be
    singular to rounding) gets the moments of the prior, as if its label carried no information.

    Args:
        log_weight: arrays of shape (2 n, data points), one a branch, the halves one after the other.
        values: lists of arrays of that shape, one a branch.
        shares: numbers of parts, powers of two.
    """
    finest, samples, size = max(shares), len(log_weight[0]), len(values[0])
    # Sets are halves, their parts, and halves of the parts unless a part has a single latent.
    ends = 2 if samples >= 4 * finest else 1
    top, sums = _sums_of_sets(log_weight, values, 2 * finest * ends)
    moments: list[jax.Array] = []
    for share in shares:
        sets = jnp.sum(sums.reshape(len(sums), 2, share, ends, finest // share, -1), axis=4)
        of_share = _moments_of_halves(top - jnp.log(samples // share), sets, size)
        moments += [jnp.moveaxis(part, -1, 0) for part in of_share]
    return tuple(moments)


def prior_moments(log_weight: jax.Array, values: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Return means of each half, and second moments minus one, of normal latents: pure sampling error.

    No ratios are taken: all expectations vanish exactly, however few latents there are.

    Args:
        log_weight: logarithm of prior over sampling density, shape (2 n, data points), the halves one after the other.
        values: the latents, arrays of that shape.
    """
    weight, middle = jnp.exp(log_weight), len(log_weight) // 2
    weighted = [weight * part for part in values]
    first = jnp.stack([jnp.mean(part[:middle], axis=0) for part in weighted])
    second = jnp.stack([jnp.mean(part[middle:], axis=0) for part in weighted])
    square = jnp.stack([jnp.stack([jnp.mean(a * b, axis=0) for b in values]) for a in weighted])
    return tuple(jnp.moveaxis(part, -1, 0) for part in (first, second, square - jnp.eye(len(values))[:, :, None]))


def _moments_of_halves(log_unit: jax.Array, sets: jax.Array, size: int) -> tuple[jax.Array, ...]:
    """Return moments from the sums of :func:`_sums_of_sets`, shape (sums, 2, parts, halves of parts, data points).

    The bias of a ratio falls as one over the sample size, so twice the whole minus the mean of its halves is free of
    it. Each half of the sample is corrected on its own: one latent that outweighs all others is then in one of the two
    estimates only.
    """
    weights = sets[0]
    weight = jnp.sum(weights, axis=2)
    usable, known = weight > _NO_WEIGHT, jnp.any(weight > _NO_WEIGHT, axis=0)
    corrected = jnp.all(weights > _NO_WEIGHT, axis=2)
    whole, halves = (jnp.where(part > _NO_WEIGHT, 1 / jnp.maximum(part, _NO_WEIGHT), 0.0) for part in (weight, weights))
    # The ratio of the whole alone where a half has no weight.
    factor = jnp.where(corrected, 2 * whole, whole)[:, :, None]
    factor = factor - jnp.where(corrected[:, :, None], halves / sets.shape[3], 0.0)
    ratios = jnp.sum(sets[1:] * factor, axis=3)
    # A half of the sample without any weight is replaced by the other one.
    ratios = jnp.where(usable, ratios, ratios[:, ::-1])
    mean, square = ratios[:size], ratios[size:]
    row, column = np.tril_indices(size)
    crossed = jnp.mean(mean[row, 0] * mean[column, 1] + mean[column, 0] * mean[row, 1], axis=1)
    identity = jnp.asarray(row == column, dtype=float)[:, None, None]
    square = jnp.mean(jnp.where(known, square, identity[:, None]), axis=2)
    log_partition = jnp.mean(
        jnp.where(known, log_unit + jnp.log(jnp.where(known, jnp.sum(weight, axis=0), 1.0)), 0.0), axis=0
    )
    place = np.empty((size, size), dtype=int)
    place[row, column] = place[column, row] = np.arange(len(row))
    covariance = 0.5 * (square[:, 0] + square[:, 1] - crossed)
    first, second = (jnp.mean(mean[:, half], axis=1) for half in (0, 1))
    return log_partition, first, second, covariance[place], square[place, 0], square[place, 1]


def _sums_of_sets(
    log_weight: Sequence[jax.Array], values: Sequence[Sequence[jax.Array]], count: int
) -> tuple[jax.Array, jax.Array]:
    """Return the logarithm of the unit of weights, and sums over ``count`` consecutive sets of weighted samples.

    Sums are those of the weights, of weighted values and of their weighted products, lower triangle row by row: shape
    (1 + f + f (f + 1)/2, count, data points).
    """
    top = jnp.max(jnp.stack([jnp.max(part, axis=0) for part in log_weight]), axis=0)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    weight = [no_recompute(jnp.exp(part - top)) for part in log_weight]
    size = len(values[0])

    def sums(*factors: int) -> jax.Array:
        """Return sums of the weighted product of these values."""
        products = (w * math.prod(own[k] for k in factors) for w, own in zip(weight, values, strict=True))
        whole = sum(products, jnp.zeros(()))
        return jnp.sum(whole.reshape(count, -1, whole.shape[-1]), axis=1)

    return top, jnp.stack([sums(), *map(sums, range(size)), *(sums(a, b) for a in range(size) for b in range(a + 1))])
