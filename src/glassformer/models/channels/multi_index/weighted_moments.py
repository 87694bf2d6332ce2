"""Posterior moments from weighted samples, free of the bias of their noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from glassformer.core.numerics.entries import once


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
    top, centre, sums = _summed(log_weight, values, 2 * finest)
    found: list[Any] = []
    for share in shares:
        sets = _Sums(*(jnp.sum(part.reshape(2, share, finest // share, *part.shape[1:]), axis=2) for part in sums))
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
    """Moments from sets whose first axis runs over the two halves, those of the second one by one."""
    total = sets.weight[0] + sets.weight[1]
    known, usable = total > 0, sets.weight > 0
    scale = jnp.where(usable, sets.weight, 1.0)[..., None, :]
    share = (sets.weight[0] / jnp.where(known, total, 1.0))[..., None, :]
    own = sets.first / scale
    spread = sets.second / scale[..., None, :] - _outer(own)
    # A half without any weight is replaced by the other.
    own, spread = (jnp.where(_wide(usable, part), part, part[::-1]) for part in (own, spread))
    # The bias of ratios falls as one over the sample: twice the whole minus the halves is free of it, and what halves
    # differ by keeps two estimates of it apart, whose product has no bias from their noise.
    mean = centre + (2 * share - 0.5) * own[0] + (1.5 - 2 * share) * own[1]
    gap, apart, wide = 0.5 * (own[0] - own[1]), 0.5 * (spread[0] - spread[1]), share[..., None, :]
    covariance = (2 * wide - 0.5) * spread[0] + (1.5 - 2 * wide) * spread[1] + 8 * wide * (1 - wide) * _outer(gap)
    product = _outer(mean) - _outer(gap)
    moments = (mean + gap, mean - gap, covariance, covariance + apart + product, covariance - apart + product)
    nothing, prior = jnp.zeros_like(centre), jnp.eye(len(centre))[:, :, None]
    chosen = [
        jnp.where(_wide(known, part), part, other)
        for part, other in zip(moments, (nothing, nothing, prior, prior, prior), strict=True)
    ]
    log_partition = jnp.where(known, log_unit + jnp.log(jnp.where(known, total, 1.0)), 0.0)
    return log_partition, *chosen, total**2 / (sets.square[0] + sets.square[1])


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
    centred = [[once(part - m) for part in columns] for columns, m in zip(by_entry, centre, strict=True)]
    first = [each(weighted(columns)) for columns in centred]
    second = {
        (a, b): each(weighted([x * y for x, y in zip(centred[a], centred[b], strict=True)]))
        for a in range(len(centre))
        for b in range(a + 1)
    }
    rows = [jnp.stack([second[max(a, b), min(a, b)] for b in range(len(centre))], axis=1) for a in range(len(centre))]
    sums = _Sums(each(whole), each(whole**2), jnp.stack(first, axis=1), jnp.stack(rows, axis=1))
    return top, jnp.stack(centre), sums
