r"""Continuous labels of several entries without noise.

Two methods give the averages over data, and the first is checked against the second.

*A small noise.* Every entry of the label is mapped to scores that are nearly normal, so that neither units nor
saturation matter. A small regularising noise on that scale turns the posterior into a thin shell of fields. Importance
sampling covers the shell if it lies around a few points. Averages at four times the noise measure its effect.

*Nearest labels.* Draw fields with the same mean and covariance. The draw with the nearest label is approximately a
second draw of the same posterior, of any shape: a sheet, a closed curve, waves. With whitened deviations ``x`` of a
draw and ``x'`` of its neighbour, :math:`E[xx'^T]\to E[\langle x\rangle\langle x\rangle^T]` as the number of draws
grows; results from a fourth and a sixteenth of the draws extrapolate the limit. Distances are between normal scores of
the ranks of the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import KDTree
from scipy.special import ndtri

from glassformer.channels.base import Inference
from glassformer.channels.field_averages import Averages, Slopes
from glassformer.channels.labels import Labels
from glassformer.channels.multi_index.importance_sampling import PosteriorMoments
from glassformer.channels.multi_index.latent_channel import LatentInference
from glassformer.channels.multi_index.latent_posterior import Datum, LatentPosterior, PosteriorFamily
from glassformer.channels.multi_index.link_rows import ShellChannel, shell_functions
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.cache import memoize
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quasi_random import mean_and_error
from glassformer.numerics.sequences import remaining_change

# Normal scores are exact at knots that are a quarter apart, up to three, and linear between and beyond (convention).
_LAST_KNOT, _KNOT_STEP = 3.0, 0.25
# Shares of the covariance of the fields, and data points per replica, at which the two methods are compared; standard
# errors by which they may differ.
_COMPARED, _COMPARED_POINTS, _ALLOWED = (0.3, 0.7), 256, 3.0
# Fields drawn for each mean field, and numbers of parts of the draws, for extrapolation.
_DRAWS, _PARTS = 1024, (1, 4, 16)
# Factor of the regularising noise at which its effect is measured, and share of the extrapolated change that counts as
# its error.
_MORE_NOISE, _EXTRAPOLATION_ERROR = 4.0, 0.5
# Random distance that breaks ties of equal labels, and fields whose labels are computed at once.
_TIES, _FIELDS_AT_ONCE = 1e-6, 2**18


class NormalScores(NamedTuple):
    r"""An increasing, piecewise linear map of each of k entries of a label to nearly normal numbers.

    The map is a sum of one non-negative term a piece, so that slopes may differ by any factor.

    Attributes:
        start: value at the first knot, shape (k,).
        knots: lower ends of the pieces, shape (k, pieces).
        low, high: range of an entry minus the knot on each piece, shape (k, pieces); infinite at both ends.
        slopes: shape (k, pieces).

    Example:
        >>> labels = np.exp(6 * ndtri((np.arange(999) + 0.5) / 999))[:, None]
        >>> NormalScores.of(labels)(np.exp([6.0])).round(1).tolist()
        [1.0]
    """

    start: Array
    knots: Array
    low: Array
    high: Array
    slopes: Array

    @classmethod
    def of(cls, labels: Array) -> Self:
        """Return the map for labels like these of random fields, shape (n, k)."""
        return cls(*(np.stack(parts) for parts in zip(*map(_pieces, labels.T), strict=True)))

    def __call__(self, label: jax.Array) -> jax.Array:
        """Return the scores of one label, shape (k,)."""
        grown = jnp.clip(label[:, None] - self.knots, self.low, self.high)
        return jnp.sum(self.slopes * grown, axis=1) + self.start

    def log_slope(self, label: jax.Array) -> jax.Array:
        """Return the logarithm of the Jacobian of the scores at one label, shape (k,)."""
        beyond = label[:, None] - self.knots
        return jnp.sum(jnp.log(jnp.where((beyond > self.low) & (beyond <= self.high), self.slopes, 1.0)))


def _pieces(entry: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return the attributes of :class:`NormalScores` for one entry."""
    scores = np.arange(-_LAST_KNOT, _LAST_KNOT + _KNOT_STEP / 2, _KNOT_STEP)
    place = np.searchsorted(ndtri((np.arange(len(entry)) + 0.5) / len(entry)), scores).clip(max=len(entry) - 1)
    knots, own = np.unique(np.sort(entry)[place], return_inverse=True)
    # A value of positive probability gets the mean of its scores.
    values = np.bincount(own, scores) / np.bincount(own)
    if len(knots) == 1:
        # The scale of a constant is arbitrary.
        knots, values = np.append(knots, knots + 1), np.append(values, values + 1)
    width, missing = np.diff(knots), max(len(scores) - len(knots), 0)
    low, high = np.zeros(len(width)), width.copy()
    low[0], high[-1] = -np.inf, np.inf
    # All entries get equally many pieces: added ones have neither length nor slope.
    first, low, high, slopes = (np.pad(part, (0, missing)) for part in (knots[:-1], low, high, np.diff(values) / width))
    return np.asarray(values[0]), first, low, high, slopes


@dataclass(frozen=True, eq=False)
class NoiselessLinkRowsChannel(ShellChannel):
    """:math:`y = g(Z)` of several continuous entries.

    Args:
        noise: variance of the regularising noise, on the scale of the scores.
        scale: scores of the entries.
    """

    scale: NormalScores

    @cached_property
    def labels(self) -> Labels:
        # The rank is that of the Jacobian of the link at a generic point.
        with jax_settings():
            at = jnp.asarray(np.random.default_rng(0).standard_normal((self.indices, self.tokens)))
            slope = np.asarray(jax.jacfwd(self.link)(at)).reshape(-1, self.indices * self.tokens)
        return replace(super().labels, rank=float(np.linalg.matrix_rank(slope)))

    @property
    def posterior_seconds(self) -> float:
        # Fixed points are computed with more noise as well.
        return 2 * super().posterior_seconds

    @cached_property
    def family(self) -> PosteriorFamily:
        return PosteriorFamily(partial(_functions, self.link, self.symmetric.signs, self.scale), (float(self.noise),))

    @cached_property
    def small_noise_suffices(self) -> bool:
        """Whether averages with the small noise agree with those from nearest labels."""
        return bool(
            memoize(NoiselessInference(self).agrees, "small noise suffices", self.link, self.indices, self.tokens)
        )

    @property
    def inference(self) -> Inference:
        return NoiselessInference(self)

    def _slopes(self, moments: PosteriorMoments, inverse: Array) -> Slopes:
        if not self.small_noise_suffices:
            raise IncompatibleError(
                "noise = 0 and thresholds of this link exclude each other: its labels leave curves, sheets or waves of "
                "fields, on which slopes are not available. Give a little noise, e.g. 1e-3 of the label's variance"
            )
        return super()._slopes(moments, inverse)


@dataclass(frozen=True, eq=False)
class NoiselessInference(LatentInference):
    """Inference with a small noise, or from nearest labels if these disagree."""

    channel: NoiselessLinkRowsChannel

    @property
    def with_more_noise(self) -> Self | None:
        if not self.channel.small_noise_suffices:
            return None
        return replace(self, channel=replace(self.channel, noise=_MORE_NOISE * self.channel.noise))

    def agrees(self) -> bool:
        """Return whether averages with the small noise agree with those from nearest labels."""
        few = self.with_points(min(_COMPARED_POINTS, self.points))
        for share in _COMPARED:
            variance = share * self.channel.fields.self_overlap
            sampled = super(NoiselessInference, few).averages(variance[None])
            replicas, systematic = few._nearest(variance)
            gap, error = mean_and_error(sampled.replicas[0] - replicas)
            allowed = np.abs(systematic) + _ALLOWED * error
            if np.any(np.abs(gap) > allowed) or np.any(np.abs(sampled.missing[0]) > allowed):
                return False
        return True

    def _nearest(self, variance: Array) -> list[Array]:
        """Return the information of each replica from nearest labels, and its error."""
        omega, root = self._data(variance[None])[0][0], np.asarray(np.linalg.cholesky(variance))
        found = _nearest_information(self.channel.clean, omega, root, REPLICAS)
        return [self.channel.symmetric.symmetrise(part, self.channel.fields.self_overlap - variance) for part in found]

    def averages(self, variance: Array) -> Averages:
        sampled = super().averages(variance)
        if self.channel.small_noise_suffices:
            return sampled
        replicas, systematic = (np.stack(part) for part in zip(*map(self._nearest, np.asarray(variance)), strict=True))
        return self._of_replicas(replicas, np.abs(systematic), sampled.log_partition)

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        if self.channel.small_noise_suffices:
            return super().averages_and_slope(variance)
        omega, root = self._data(variance[None])[0][0], np.asarray(np.linalg.cholesky(variance))
        return self.averages(variance[None]), _nearest_growth(self.channel.clean, omega, root)


def _functions(link: Callable[[Any], Any], flips: Array, scale: NormalScores, noise: jax.Array) -> LatentPosterior:
    scored = shell_functions(lambda fields: scale(link(fields)), flips, noise)

    def target(x: jax.Array, datum: Datum) -> tuple[jax.Array, jax.Array]:
        label, omega, root = datum
        residual, log_weight = scored.target(x, (scale(label), omega, root))
        return residual, log_weight + scale.log_slope(label)

    return scored._replace(target=target, label=link)


def _nearest_information(
    label: Callable[[Array], Array], omega: Array, root: Array, replicas: int
) -> tuple[Array, Array]:
    """Return the information of each replica, (replicas, P, P), and its systematic error, (P, P), from nearest labels.

    Mean fields have shape (n, P, K), those of one replica after the other; the root is lower triangular.
    """
    products = []
    for white, scores in _draws(label, omega, root):
        # All draws of a part with the nearest of the part: differences between parts have little noise.
        levels, mean, before = [], np.zeros((len(root), len(root))), np.zeros_like(white)
        for part in _PARTS:
            count = len(white) // part
            nearest = white[KDTree(scores[:count]).query(scores[:count], k=2)[1][:, 1]]
            change = np.tensordot(white[:count], nearest - before[:count], axes=((0, 2), (0, 2))) / count
            mean, before = mean + 0.5 * (change + change.T), nearest
            levels.append(mean)
        products.append(levels)
    own, inverse = np.array(products), np.linalg.inv(root)
    of_replicas = own.reshape(replicas, -1, *own.shape[1:]).mean(axis=1)
    levels = np.swapaxes(inverse.T @ of_replicas @ inverse, 0, 1)
    missing = remaining_change([level.mean(axis=0) for level in levels], _PARTS[1] / _PARTS[0])
    # Every replica is extrapolated by the same share of its own change, so that their spread shows its noise.
    change = levels[0] - levels[1]
    share = np.linalg.norm(missing) / max(np.linalg.norm(change.mean(axis=0)), np.finfo(float).tiny)
    return levels[0] + share * change, _EXTRAPOLATION_ERROR * missing


def _nearest_growth(label: Callable[[Array], Array], omega: Array, root: Array) -> Array:
    r"""Return the derivative of the information in the overlaps, :math:`\sum_{ll'}E[D_{ll'}\otimes D_{ll'}]`.

    (P^2, P^2).

    Of four draws of nearly the same label, two pairs give independent estimates of the posterior covariance.
    """
    size, inverse, identity = len(root), np.linalg.inv(root), np.eye(len(root))
    total = np.zeros((size,) * 4)
    for white, scores in _draws(label, omega, root):
        near = white[KDTree(scores).query(scores, k=4)[1]]
        one, two, count = near[:, 0] - near[:, 1], near[:, 2] - near[:, 3], len(near)
        both = (one @ np.swapaxes(two, 1, 2)).reshape(count, -1)
        first, second = (np.tensordot(part, part, axes=((0, 2), (0, 2))) / count for part in (one, two))
        total += (both.T @ both / (4 * count)).reshape(total.shape)
        total -= 0.5 * np.einsum("ac,be->abce", first, identity) + 0.5 * np.einsum("ac,be->abce", identity, second)
        total += near.shape[3] * np.einsum("ac,be->abce", identity, identity)
    full = np.einsum("abce,ap,bq,cr,es->pqrs", total / len(omega), *(inverse,) * 4, optimize=True)
    full = full.reshape(size**2, size**2)
    return np.asarray(0.5 * (full + full.T))


def _draws(label: Callable[[Array], Array], omega: Array, root: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the whitened deviations drawn for each mean field, (draws, P, K).

    The second array has the scores of their labels, shape (draws, k + 1).
    """
    # Slow to import.
    from scipy.stats import rankdata

    rng, step = np.random.default_rng(0), max(1, _FIELDS_AT_ONCE // _DRAWS)
    for own in np.split(omega, range(step, len(omega), step)):
        white = rng.standard_normal((len(own), _DRAWS, *own.shape[1:]))
        labels = label((own[:, None] + root @ white).reshape(-1, *own.shape[1:])).reshape(len(own), _DRAWS, -1)
        # Ranks are shifted at random: on an even grid the neighbour would always lie where labels are denser.
        ranks = rankdata(labels, axis=-2) - 0.5
        scores = ndtri((ranks + rng.uniform(-0.5, 0.5, ranks.shape)) / _DRAWS)
        ties = _TIES * rng.standard_normal((*scores.shape[:-1], 1))
        yield from zip(white, np.concatenate([scores, ties], axis=-1), strict=True)
