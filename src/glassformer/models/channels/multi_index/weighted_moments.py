"""Posterior moments from weighted samples, free of the bias of their noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from glassformer.core.numerics.entries import once


def weighted_moments(log_weight: Sequence[Any], values: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Moments of sampled values, as :class:`~.importance_sampling.Moments` lists them.

    Where no sampled latent has a likelihood that double precision can tell from zero (a mixing without skip may be
    singular to rounding), the data point counts as saying nothing: its moments are those of the prior.

    Args:
        log_weight: of every branch, arrays of shape (2 n, data points), the halves one after the other.
        values: of every branch, arrays of that shape.
    """
    top = _largest(log_weight)
    known = jnp.isfinite(top)
    weight = [jnp.exp(part - jnp.where(known, top, 0.0)) for part in log_weight]
    half = len(weight[0]) // 2
    halves = [
        ([part[own] for part in log_weight], [[part[own] for part in branch] for branch in values])
        for own in (slice(None, half), slice(half, None))
    ]
    # Each half in its own scale; one without any weight is replaced by the other.
    usable = [jnp.isfinite(_largest(part)) for part, _ in halves]
    found = [_mean_and_covariance(*own) for own in halves]
    (first, one), (second, two) = (
        tuple(jnp.where(usable[k], mine, other) for mine, other in zip(found[k], found[1 - k], strict=True))
        for k in (0, 1)
    )
    whole = sum(weight[1:], weight[0])
    # The bias of ratios falls as one over the sample: twice the whole minus the halves is free of it, and what halves
    # differ by keeps two estimates of it apart, whose product has no bias from their noise.
    part = jnp.sum(whole[:half], axis=0) / jnp.sum(whole, axis=0)
    covariance = (2 * part - 0.5) * one + (1.5 - 2 * part) * two + 2 * part * (1 - part) * _outer(first - second)
    mean, gap = (2 * part - 0.5) * first + (1.5 - 2 * part) * second, 0.5 * (first - second)
    product = _outer(mean) - _outer(gap)
    squares = (covariance + 0.5 * (one - two) + product, covariance - 0.5 * (one - two) + product)
    effective = jnp.sum(whole, axis=0) ** 2 / jnp.sum(whole**2, axis=0)
    log_partition = jnp.where(known, top + jnp.log(jnp.mean(whole, axis=0)), 0.0)
    nothing, prior = jnp.zeros_like(mean), jnp.broadcast_to(jnp.eye(len(mean))[:, :, None], covariance.shape)
    moments = zip((mean + gap, mean - gap, covariance, *squares), (nothing, nothing, prior, prior, prior), strict=True)
    chosen = [jnp.moveaxis(jnp.where(known, mine, other), -1, 0) for mine, other in moments]
    return log_partition, *chosen, effective


def _largest(log_weight: Sequence[Any]) -> Any:
    return jnp.max(jnp.stack([jnp.max(part, axis=0) for part in log_weight]), axis=0)


def _outer(x: Any) -> Any:
    return x[:, None] * x[None, :]


def _mean_and_covariance(log_weight: Sequence[Any], values: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """Shapes (f, data points) and (f, f, data points)."""
    top = _largest(log_weight)
    weight = [jnp.exp(part - jnp.where(jnp.isfinite(top), top, 0.0)) for part in log_weight]
    total = jnp.sum(sum(weight[1:], weight[0]), axis=0)

    def average(parts: Sequence[Any]) -> Any:
        return jnp.sum(sum(w * part for w, part in zip(weight, parts, strict=True)), axis=0) / total

    by_entry = list(zip(*values, strict=True))
    mean = [average(parts) for parts in by_entry]
    centred = [[once(part - m) for part in parts] for parts, m in zip(by_entry, mean, strict=True)]
    covariance = {
        (a, b): average([x * y for x, y in zip(centred[a], centred[b], strict=True)])
        for a in range(len(mean))
        for b in range(a + 1)
    }
    rows = [jnp.stack([covariance[max(a, b), min(a, b)] for b in range(len(mean))]) for a in range(len(mean))]
    return jnp.stack(mean), jnp.stack(rows)
