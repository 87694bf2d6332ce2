"""Posterior moments from weighted samples, free of the bias of their noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from glassformer.numerics.scalarize import no_recompute


class _Sums(NamedTuple):
    """Sums over sets of weighted samples; the first axes run over sets, the last one over data points.

    Attributes:
        weight, square: of weights and of their squares.
        first: of weighted deviations from a centre, shape (..., f, data points).
        second: of their products, shape (..., f, f, data points).
    """

    weight: Any
    square: Any
    first: Any
    second: Any


def weighted_moments(
    log_weight: Sequence[Any], values: Sequence[Sequence[Any]], shares: Sequence[int] = (1,)
) -> tuple[Any, ...]:
    """Moments of sampled values, as :class:`~.importance_sampling.Moments` lists them, for every share one after other.

    Those of a share are means over so many parts of the sample, each with as many latents of both halves: what is
    linear in the noise is the same for all shares, and the bias of fewer latents is what they differ by.

    Where no sampled latent has a likelihood that double precision can tell from zero (a mixing without skip may be
    singular to rounding), the data point counts as saying nothing: its moments are those of the prior.

    Args:
        log_weight: of every branch, arrays of shape (2 n, data points), the halves one after the other.
        values: of every branch, arrays of that shape.
        shares: numbers of parts, powers of two.
    """
    finest = max(shares)
    # Halves, parts of them, and halves of those parts, unless a single latent stands for all.
    ends = 2 if len(log_weight[0]) >= 4 * finest else 1
    top, centre, sums = _summed(log_weight, values, 2 * finest * ends)
    found: list[Any] = []
    for share in shares:
        sizes = (2, share, ends, finest // share)
        sets = _Sums(*(jnp.sum(part.reshape(*sizes, *part.shape[1:]), axis=3) for part in sums))
        moments = _of_halves(top - jnp.log(len(log_weight[0]) // share), centre, sets)
        found += [jnp.moveaxis(jnp.mean(part, axis=0), -1, 0) for part in moments]
    return tuple(found)


def prior_moments(log_weight: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """Means of each half, and second moments beyond one, of normal latents: all of them are zero but for the sampling.

    No ratios are taken: their expectations are exact however few latents there are.

    Args:
        log_weight: logarithm of prior over sampling density, shape (2 n, data points), the halves one after the other.
        values: the latents, arrays of that shape.
    """
    weight = jnp.exp(log_weight)
    weighted = [weight * part for part in values]
    first, second = (
        jnp.stack([jnp.mean(h, axis=0) for h in half]) for half in zip(*map(_halves, weighted), strict=True)
    )
    square = jnp.stack([jnp.stack([jnp.mean(a * b, axis=0) for b in values]) for a in weighted])
    return tuple(jnp.moveaxis(part, -1, 0) for part in (first, second, square - jnp.eye(len(values))[:, :, None]))


def _halves(part: Any) -> tuple[Any, Any]:
    middle = len(part) // 2
    return part[:middle], part[middle:]


def _of_halves(log_unit: Any, centre: Any, sets: _Sums) -> tuple[Any, ...]:
    """Moments from sets whose first axis runs over the two halves, the second over parts, the third over their halves.

    The bias of ratios falls as one over the sample: twice a whole less its halves is free of it. Each half of the
    sample is its own whole: one draw that outweighs all others then is in one of the two estimates alone.
    """
    own = _Sums(*(jnp.sum(part, axis=2) for part in sets))
    total = own.weight[0] + own.weight[1]
    mean = _unbiased(own.first, sets.first, own.weight, sets.weight)
    square = _unbiased(own.second, sets.second, own.weight, sets.weight)
    usable, known = own.weight > 0, total > 0
    # A half without any weight is replaced by the other.
    mean, square = (jnp.where(_wide(usable, part), part, part[::-1]) for part in (mean, square))
    crossed = 0.5 * (mean[0][..., :, None, :] * mean[1][..., None, :, :])
    covariance = 0.5 * (square[0] + square[1]) - crossed - jnp.swapaxes(crossed, -2, -3)
    shifted = _outer(centre) + square + centre[:, None] * mean[..., None, :, :] + mean[..., :, None, :] * centre
    moments = (centre + mean[0], centre + mean[1], covariance, shifted[0], shifted[1])
    nothing, prior = jnp.zeros_like(centre), jnp.eye(len(centre))[:, :, None]
    chosen = [
        jnp.where(_wide(known, part), part, other)
        for part, other in zip(moments, (nothing, nothing, prior, prior, prior), strict=True)
    ]
    log_partition = jnp.where(known, log_unit + jnp.log(jnp.where(known, total, 1.0)), 0.0)
    return log_partition, *chosen, total**2 / (own.square[0] + own.square[1])


def _unbiased(whole: Any, halves: Any, weight: Any, weights: Any) -> Any:
    """Ratios to the weights, twice the whole less the mean of its halves; the whole where a half has no weight."""
    one = whole / _wide(jnp.where(weight > 0, weight, 1.0), whole)
    few = jnp.mean(halves / _wide(jnp.where(weights > 0, weights, 1.0), halves), axis=2)
    return jnp.where(_wide(jnp.all(weights > 0, axis=2), one), 2 * one - few, one)


def _wide(flags: Any, part: Any) -> Any:
    """Flags of sets and data points beside what has more axes in between."""
    return flags.reshape(*flags.shape[:-1], *(1,) * (part.ndim - flags.ndim), -1)


def _outer(x: Any) -> Any:
    return x[..., :, None, :] * x[..., None, :, :]


def _summed(log_weight: Sequence[Any], values: Sequence[Sequence[Any]], parts: int) -> tuple[Any, Any, _Sums]:
    """Logarithm of the unit of weights, mean of all samples, and sums over so many sets of them one after the other."""
    top = jnp.max(jnp.stack([jnp.max(part, axis=0) for part in log_weight]), axis=0)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    weight = [jnp.exp(part - top) for part in log_weight]
    whole = sum(weight[1:], weight[0])
    total = jnp.sum(whole, axis=0)

    def each(part: Any) -> Any:
        return jnp.sum(part.reshape(parts, -1, part.shape[-1]), axis=1)

    def weighted(columns: Sequence[Any]) -> Any:
        return sum(w * part for w, part in zip(weight, columns, strict=True))

    by_entry = list(zip(*values, strict=True))
    centre = [jnp.sum(weighted(columns), axis=0) / jnp.where(total > 0, total, 1.0) for columns in by_entry]
    centred = [[no_recompute(part - m) for part in columns] for columns, m in zip(by_entry, centre, strict=True)]
    first = [each(weighted(columns)) for columns in centred]
    second = {
        (a, b): each(weighted([x * y for x, y in zip(centred[a], centred[b], strict=True)]))
        for a in range(len(centre))
        for b in range(a + 1)
    }
    rows = [jnp.stack([second[max(a, b), min(a, b)] for b in range(len(centre))], axis=1) for a in range(len(centre))]
    sums = _Sums(each(whole), each(whole**2), jnp.stack(first, axis=1), jnp.stack(rows, axis=1))
    return top, jnp.stack(centre), sums
