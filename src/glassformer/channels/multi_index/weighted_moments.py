"""Posterior moments from weighted samples, without the bias of ratios of noisy sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from glassformer.numerics.scalarize import no_recompute


class _Sums(NamedTuple):
    """Sums over sets of weighted samples; the first axes run over sets, the last one over data points.

    Attributes:
        weight: sum of the weights.
        first: sum of weighted deviations from a centre, shape (..., f, data points).
        second: sum of their weighted products, shape (..., f, f, data points).
    """

    weight: Any
    first: Any
    second: Any


def weighted_moments(
    log_weight: Sequence[Any], values: Sequence[Sequence[Any]], shares: Sequence[int] = (1,)
) -> tuple[Any, ...]:
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
    finest, samples = max(shares), len(log_weight[0])
    # Sets are halves, their parts, and halves of the parts unless a part has a single latent.
    ends = 2 if samples >= 4 * finest else 1
    top, centre, sums = _sums_of_sets(log_weight, values, 2 * finest * ends)
    moments: list[Any] = []
    for share in shares:
        sizes = (2, share, ends, finest // share)
        sets = _Sums(*(jnp.sum(part.reshape(*sizes, *part.shape[1:]), axis=3) for part in sums))
        of_parts = _moments_of_halves(top - jnp.log(samples // share), centre, sets)
        moments += [jnp.moveaxis(jnp.mean(part, axis=0), -1, 0) for part in of_parts]
    return tuple(moments)


def prior_moments(log_weight: Any, values: Sequence[Any]) -> tuple[Any, ...]:
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


def _moments_of_halves(log_unit: Any, centre: Any, sets: _Sums) -> tuple[Any, ...]:
    """Return moments from sets whose axes run over the two halves, over parts and over halves of the parts.

    The bias of a ratio falls as one over the sample size, so twice the whole minus the mean of its halves is free of
    it. Each half of the sample is corrected on its own: one latent that outweighs all others is then in one of the two
    estimates only.
    """
    own = _Sums(*(jnp.sum(part, axis=2) for part in sets))
    total = own.weight[0] + own.weight[1]
    mean = _unbiased_ratio(own.first, sets.first, own.weight, sets.weight)
    square = _unbiased_ratio(own.second, sets.second, own.weight, sets.weight)
    usable, known = own.weight > 0, total > 0
    # A half without any weight is replaced by the other one.
    mean, square = (jnp.where(_expanded(usable, part), part, part[::-1]) for part in (mean, square))
    crossed = 0.5 * (mean[0][..., :, None, :] * mean[1][..., None, :, :])
    covariance = 0.5 * (square[0] + square[1]) - crossed - jnp.swapaxes(crossed, -2, -3)
    outer = centre[..., :, None, :] * centre[..., None, :, :]
    shifted = outer + square + centre[:, None] * mean[..., None, :, :] + mean[..., :, None, :] * centre
    moments = (centre + mean[0], centre + mean[1], covariance, shifted[0], shifted[1])
    zero, identity = jnp.zeros_like(centre), jnp.eye(len(centre))[:, :, None]
    of_prior = (zero, zero, identity, identity, identity)
    chosen = [jnp.where(_expanded(known, part), part, other) for part, other in zip(moments, of_prior, strict=True)]
    log_partition = jnp.where(known, log_unit + jnp.log(jnp.where(known, total, 1.0)), 0.0)
    return log_partition, *chosen


def _unbiased_ratio(whole: Any, halves: Any, weight: Any, weights: Any) -> Any:
    """Return twice the ratio of the whole minus the mean of the halves; the whole alone where a half has no weight."""
    ratio = whole / _expanded(jnp.where(weight > 0, weight, 1.0), whole)
    of_halves = jnp.mean(halves / _expanded(jnp.where(weights > 0, weights, 1.0), halves), axis=2)
    return jnp.where(_expanded(jnp.all(weights > 0, axis=2), ratio), 2 * ratio - of_halves, ratio)


def _expanded(flags: Any, part: Any) -> Any:
    """Return flags of sets and data points with axes of length one in between, as many as ``part`` has."""
    return flags.reshape(*flags.shape[:-1], *(1,) * (part.ndim - flags.ndim), -1)


def _sums_of_sets(log_weight: Sequence[Any], values: Sequence[Sequence[Any]], count: int) -> tuple[Any, Any, _Sums]:
    """Return the logarithm of the unit of weights, mean of all samples, and sums over ``count`` consecutive sets."""
    top = jnp.max(jnp.stack([jnp.max(part, axis=0) for part in log_weight]), axis=0)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    weight = [jnp.exp(part - top) for part in log_weight]
    whole = sum(weight[1:], weight[0])
    total = jnp.sum(whole, axis=0)

    def sums(part: Any) -> Any:
        return jnp.sum(part.reshape(count, -1, part.shape[-1]), axis=1)

    def weighted(columns: Sequence[Any]) -> Any:
        return sum(w * part for w, part in zip(weight, columns, strict=True))

    by_entry = list(zip(*values, strict=True))
    centre = [jnp.sum(weighted(columns), axis=0) / jnp.where(total > 0, total, 1.0) for columns in by_entry]
    centred = [[no_recompute(part - m) for part in columns] for columns, m in zip(by_entry, centre, strict=True)]
    first = [sums(weighted(columns)) for columns in centred]
    second = {
        (a, b): sums(weighted([x * y for x, y in zip(centred[a], centred[b], strict=True)]))
        for a in range(len(centre))
        for b in range(a + 1)
    }
    rows = [jnp.stack([second[max(a, b), min(a, b)] for b in range(len(centre))], axis=1) for a in range(len(centre))]
    return top, jnp.stack(centre), _Sums(sums(whole), jnp.stack(first, axis=1), jnp.stack(rows, axis=1))
