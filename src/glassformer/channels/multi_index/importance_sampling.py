r"""Posterior moments of latent normal variables by importance sampling around the modes, for each data point.

The latent variables ``x`` of a data point have the density

.. math:: p(x) \propto \sum_s\exp\bigl[-\tfrac12|x|^2 - \tfrac12|r_s(x)|^2 + w_s(x)\bigr]

with a residual :math:`r_s` and a log-weight :math:`w_s` for each branch ``s``. Levenberg-Marquardt steps from several
starts find the modes. The sampling density is a mixture of Student densities around the modes and of the prior, which
covers modes that were missed. If one set of latents covers the posterior badly, there are several charts: every latent
belongs to one chart, and weights that add up to one divide the posterior among the charts. Two halves of the sample
with different quasi-random points give two independent estimates of every mean. Their product estimates a square
without the bias of sampling noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, ndtri

from glassformer.channels.multi_index.latent_posterior import Datum, LatentPosterior, PosteriorFamily
from glassformer.channels.multi_index.posterior_modes import find_mode
from glassformer.channels.multi_index.weighted_moments import prior_moments, weighted_moments
from glassformer.core.estimate import Array
from glassformer.numerics.batching import map_chunks
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quasi_random import pool_indices, sobol_points
from glassformer.numerics.scalarize import Entries, entry_list, fill_entries, no_recompute, on_entries, split_entries
from glassformer.numerics.small_matrices import triangular_inverse

# Degrees of freedom of the Student densities, and the share of the prior in the mixture. Chosen by trial.
_DEGREES, _PRIOR_SHARE = 6, 0.15
# Power of the Laplace masses in the weights of the modes, so that a mode of underestimated mass still gets points.
_TEMPERING = 0.5
# Logarithm of the mass of a mode that was not found; below that of every mode that was.
_NO_GAIN = -1e30
# Sampled latents of one batch, so that temporaries stay in the cache (measured), and data points of one batch.
_LATENTS_AT_ONCE, _FEWEST, _MOST = 2**14, 8, 64
# Number of full batches of one call. For little work per batch, sending the data takes as long as the work.
_BATCHES = 8
# Random numbers in the pool of samples.
_POOL_NUMBERS = 2_000_000


@dataclass(frozen=True)
class Effort:
    """Amount of work for the sampling of one data point.

    Attributes:
        points: sampled latents per half, a power of two.
        starts: starts of the search for modes.
        steps: steps of that search.
        parts: numbers of equal parts of the latents, powers of two, whose moments show the bias of the whole sample;
            without parts the bias is not estimated.
    """

    points: int = 128
    starts: int = 8
    steps: int = 12
    parts: tuple[int, ...] = (4, 16)

    @property
    def batch(self) -> int:
        """Data points of one batch."""
        return int(np.clip(_LATENTS_AT_ONCE // (2 * self.points), _FEWEST, _MOST))


class PosteriorMoments(NamedTuple):
    """Posterior moments of the features of each data point.

    Attributes:
        log_partition: log of the integral of the likelihood against the prior, shape (n,).
        first, second: two independent estimates of the mean, shape (n, f).
        covariance: shape (n, f, f).
        first_square, second_square: independent estimates of the second moments, shape (n, f, f).
        fewer: the same moments with less work, most work first: from a fourth and a sixteenth of the latents, or from
            longer cells of lines.
        silent: means of each half, shape (n, f), and second moments minus one, (n, f, f), of the same latents without
            labels, whose expectations vanish. None unless features are the latents.
    """

    log_partition: Array
    first: Array
    second: Array
    covariance: Array
    first_square: Array
    second_square: Array
    fewer: tuple[PosteriorMoments, ...] = ()
    silent: tuple[Array, Array, Array] | None = None

    @classmethod
    def of_levels(cls, columns: Sequence[Any]) -> tuple[PosteriorMoments, tuple[Any, ...]]:
        """Return the moments of several levels of work, six arrays each, and the arrays that are left."""
        size = len(cls._fields) - 2
        whole, *fewer = (cls(*columns[k : k + size]) for k in range(0, len(columns) - size + 1, size))
        return whole._replace(fewer=tuple(fewer)), tuple(columns[size * (1 + len(fewer)) :])


def posterior_moments(
    family: PosteriorFamily, dimension: int, data: tuple[Array, ...], effort: Effort, points: int = 1
) -> PosteriorMoments:
    """Return the moments of the features under the posterior of every data point.

    Args:
        family: the functions of the posterior, and the numbers they depend on.
        dimension: number ``m`` of latent variables.
        data: the parts of a :data:`~.latent_posterior.Datum` of every data point, along the first axis.
        effort: numbers of points, starts and steps.
        points: data points of each replica.
    """
    sample = _sample_pool(dimension, effort)
    # Sixteenths of fewer latents are too small to show the bias.
    parts = effort.parts if dimension and effort.points >= 2 * max(effort.parts, default=0) else ()
    compiled = CachedJit(_moments_in_batches, make=family.make, effort=replace(effort, parts=parts))
    numbers = tuple(map(np.float64, family.numbers))
    count, pool = len(data[0]), sample.starts.shape[-1]

    def work(index: NDArray[np.intp], chunk: tuple[Array, ...]) -> tuple[jax.Array, ...]:
        return compiled(pool_indices(index, count, points, pool), chunk, sample, numbers)

    # All calls have the same length, because compiling again takes longer than most computations.
    length = effort.batch * (_BATCHES if effort.batch == _MOST else 1)
    moments, silent = PosteriorMoments.of_levels(map_chunks(work, data, most=length, rest=length))
    return moments._replace(silent=silent or None)


class _Sample(NamedTuple):
    """A pool of samples, which data points use in turn. The two halves of a sample follow each other.

    With one common sample all data points would have the same error, which averages over data do not remove. The last
    axis runs over the places in the pool.

    Attributes:
        starts: latents at which the search for modes begins, shape (m, starts, pool).
        normals: standard normal numbers, shape (m, 2 points, pool).
        choices: uniform numbers that choose the component of the mixture, shape (2 points, pool).
        scales: of the Student densities, shape (2 points, pool).
    """

    starts: jax.Array
    normals: jax.Array
    choices: jax.Array
    scales: jax.Array


@lru_cache(maxsize=4)
def _sample_pool(dimension: int, effort: Effort) -> _Sample:
    """Return one quasi-random sample, shifted at random for every place in the pool and each half."""
    rng, points = np.random.default_rng(0), sobol_points(dimension + 2, effort.points)
    pool = int(np.clip(_POOL_NUMBERS // (2 * points.size), 64, 8192))
    shifted = points + rng.random((pool, 2, 1, dimension + 2))
    uniform = np.clip(shifted % 1, 1e-12, 1 - 1e-12).reshape(pool, 2 * effort.points, dimension + 2)
    starts = rng.standard_normal((pool, effort.starts, dimension))
    starts[:, 0] = 0.0
    # Quantiles of the chi-squared distribution are twice those of a gamma distribution.
    scales = np.sqrt(_DEGREES / (2 * gammaincinv(_DEGREES / 2, uniform[..., -1])))
    with jax_settings():
        parts = (starts, ndtri(uniform[..., :-2]), uniform[..., -2], scales)
        return _Sample(*(jnp.asarray(part.T) for part in parts))


def _moments_in_batches(
    pool_indices: jax.Array,
    data: tuple[jax.Array, ...],
    sample: _Sample,
    numbers: tuple[jax.Array, ...],
    make: Callable[..., LatentPosterior],
    effort: Effort,
) -> tuple[jax.Array, ...]:
    posterior = make(*numbers)

    def one_batch(part: tuple[jax.Array, tuple[jax.Array, ...]]) -> tuple[jax.Array, ...]:
        return _moments(*part, sample, posterior, effort)

    batches = jax.tree.map(lambda part: part.reshape(-1, effort.batch, *part.shape[1:]), (pool_indices, data))
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), jax.lax.map(one_batch, batches))


def _moments(
    pool_indices: jax.Array, data: tuple[jax.Array, ...], sample: _Sample, posterior: LatentPosterior, effort: Effort
) -> tuple[jax.Array, ...]:
    """Return moments of a batch, written entry by entry.

    The axes of every entry run over latents, then over data points.
    """
    own = _Sample(*(jnp.take(part, pool_indices, axis=-1) for part in sample))
    datum = jax.tree.map(lambda part: split_entries(jnp.moveaxis(part, 0, -1), part.ndim - 1), data)
    atlas = _Atlas.of(posterior, datum)
    latents = _draw(atlas, own, effort.steps)
    log_weight = [
        no_recompute(jnp.broadcast_to(latents.log_ratio + value, latents.log_ratio.shape))
        for value in atlas.on_own_chart(_log_likelihood(posterior), latents.x, latents.chart)
    ]
    features = atlas.on_own_chart(posterior.features, latents.x, latents.chart)
    features = [jnp.broadcast_to(part, latents.log_ratio.shape) for part in features]
    # Features may be infinite where the likelihood vanishes: they have no weight.
    features = [no_recompute(jnp.where(jnp.isfinite(part), part, 0.0)) for part in features]
    size = len(features) // len(log_weight)
    of_branch = [features[k * size : (k + 1) * size] for k in range(len(log_weight))]
    silent = prior_moments(latents.log_ratio, list(latents.x)) if posterior.all_fields and effort.parts else ()
    return *weighted_moments(log_weight, of_branch, (1, *effort.parts)), *silent


class _Atlas(NamedTuple):
    """The charts of a posterior at the data points of a batch, numbered kind by kind.

    Attributes:
        posterior: the functions.
        data: what they need on every chart of every kind.
        first: number of the first chart of every kind, and in the end the number of all charts.
    """

    posterior: LatentPosterior
    data: list[list[tuple[Entries, ...]]]
    first: list[int]

    @classmethod
    def of(cls, posterior: LatentPosterior, datum: tuple[Entries, ...]) -> _Atlas:
        """Return the charts at data points."""

        def on_chart(kind: int, number: int) -> tuple[Entries, ...]:
            entries: tuple[Entries, ...] = on_entries(lambda *own: posterior.on_chart(own, kind, number))(*datum)
            return entries

        data = [[on_chart(kind, number) for number in range(count)] for kind, count in enumerate(posterior.charts)]
        return cls(posterior, data, [0, *np.cumsum(posterior.charts).tolist()])

    @property
    def size(self) -> int:
        """Number of all charts."""
        return self.first[-1]

    def apply(self, function: Callable[..., Any], kind: int, chart: Any, *latents: Entries) -> Any:
        """Apply ``function(*latents, datum)`` of one data point to the entries of many, on charts of one kind."""
        count, last = len(latents), () if len(self.data) == 1 else (kind,)

        def of_chart(parts: Sequence[Entries]) -> Entries:
            entries = zip(*(part.ravel() for part in parts), strict=True)
            return fill_entries(parts[0].shape, (_select(chart - self.first[kind], own) for own in entries))

        data = self.data[kind]
        datum = data[0] if len(data) == 1 else tuple(map(of_chart, zip(*data, strict=True)))
        return on_entries(lambda *parts: function(*parts[:count], (*parts[count:], *last)))(*latents, *datum)

    def on_own_chart(self, function: Callable[..., Any], x: Entries, chart: jax.Array | None) -> list[jax.Array]:
        """Return all entries of what ``function`` returns, every latent on its own chart."""
        found = [list(self.apply(function, kind, chart, x).ravel()) for kind in range(len(self.posterior.charts))]
        selected = found[0]
        for first, parts in zip(self.first[1:-1], found[1:], strict=True):
            here = jnp.asarray(chart) >= first
            selected = [jnp.where(here, *pair) for pair in zip(parts, selected, strict=True)]
        return selected


class _Modes(NamedTuple):
    """Modes from every start; the first axis of all arrays runs over them, the last one over data points.

    Attributes:
        x: the ``m`` entries of the modes.
        root: lower triangle of a root of the covariance around them, row by row.
        inverse: lower triangle of its inverse.
        height: the component's sampling density at the mode.
        low, high: limits of the uniform numbers that choose the mode.
        chart: number of the chart.
    """

    x: list[jax.Array]
    root: list[jax.Array]
    inverse: list[jax.Array]
    height: jax.Array
    low: jax.Array
    high: jax.Array
    chart: jax.Array


class _Latents(NamedTuple):
    """Sampled latents with their images, the halves one after the other; entries of shape (count, data points).

    Attributes:
        x: the ``m`` entries of the latents.
        chart: number of the chart of each; None with a single chart.
        log_ratio: logarithm of the prior over the sampling density.
    """

    x: Entries
    chart: jax.Array | None
    log_ratio: jax.Array


def _select(number: jax.Array, parts: Sequence[jax.Array] | jax.Array) -> jax.Array:
    selected = parts[0]
    for k in range(1, len(parts)):
        if parts[k] is not parts[0]:
            selected = jnp.where(number == k, parts[k], selected)
    return selected


def _draw(atlas: _Atlas, own: _Sample, steps: int) -> _Latents:
    """Draw latents and charts from the mixture of the densities around the modes and the prior."""
    dimension, count, several = len(own.normals), own.choices.shape, atlas.size > 1
    if dimension == 0:
        return _Latents(entry_list([]), None, jnp.zeros((2, count[1])))
    modes = _find_modes(atlas, own.starts, steps)

    def draw_around(
        drawn: tuple[list[jax.Array], jax.Array], mode: _Modes
    ) -> tuple[tuple[list[jax.Array], jax.Array], None]:
        here = (own.choices > mode.low) & (own.choices <= mode.high)
        moved = _lower_times(mode.root, list(own.normals))
        near = [a + own.scales * b for a, b in zip(mode.x, moved, strict=True)]
        x = [jnp.where(here, a, b) for a, b in zip(near, drawn[0], strict=True)]
        return (x, jnp.where(here, mode.chart, drawn[1])), None

    # Points of the prior: the uniform number that chose it, rescaled, chooses the chart.
    rescaled = (own.choices - (1 - _PRIOR_SHARE)) / _PRIOR_SHARE
    first = (list(own.normals), jnp.clip(rescaled * atlas.size, 0, atlas.size - 1).astype(int))
    (drawn, chart), _ = jax.lax.scan(draw_around, first, modes)
    # Every point is used with all its images, so that symmetries of the posterior hold exactly. The sampling density is
    # then the mean of the density over the images.
    images = atlas.on_own_chart(atlas.posterior.images, entry_list(drawn), chart)
    flat, number = [jnp.broadcast_to(part, count) for part in images], len(images) // dimension
    x = [no_recompute(jnp.stack(flat[k::dimension], axis=1).reshape(-1, count[1])) for k in range(dimension)]
    chart_of_image = jnp.repeat(chart, number, axis=0) if several else None

    def add_student(density: jax.Array, mode: _Modes) -> tuple[jax.Array, None]:
        white = _lower_times(mode.inverse, [a - b for a, b in zip(x, mode.x, strict=True)])
        base = 1 + sum(entry**2 for entry in white) / _DEGREES
        # The power (degrees + dimension)/2 by products and at most one root.
        whole, half = divmod(_DEGREES + dimension, 2)
        peak = mode.height * (base**-whole / jnp.sqrt(base) if half else base**-whole)
        return density + (jnp.where(chart_of_image == mode.chart, peak, 0.0) if several else peak), None

    log_prior = -0.5 * sum(part**2 for part in x)
    of_prior = _PRIOR_SHARE / atlas.size * jnp.exp(log_prior)
    density, _ = jax.lax.scan(add_student, of_prior, modes)
    log_density = jnp.log(jnp.mean(density.reshape(count[0], number, count[1]), axis=1))
    return _Latents(entry_list(x), chart_of_image, log_prior - jnp.repeat(log_density, number, axis=0))


def _lower_times(lower: Sequence[Any], x: Sequence[Any]) -> list[jax.Array]:
    """Return the product of a lower triangular matrix, given row by row, and a vector."""
    rows = [lower[k * (k + 1) // 2 : (k + 1) * (k + 2) // 2] for k in range(len(x))]
    return [sum(a * b for a, b in zip(row, x, strict=False)) for row in rows]


def _log_likelihood(posterior: LatentPosterior) -> Callable[[jax.Array, Datum], jax.Array]:
    """Return the function of a latent and its datum that is the log-likelihood of every branch."""

    def log_likelihood(x: jax.Array, datum: Datum) -> jax.Array:
        residual, log_weight = posterior.target(x, datum)
        value = log_weight - 0.5 * jnp.sum(residual**2, axis=1)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    return log_likelihood


def _find_modes(atlas: _Atlas, starts: jax.Array, steps: int) -> _Modes:
    """Return modes from starts of shape (m, starts, data points), which take the branches of every chart in turn."""
    posterior, dimension, count = atlas.posterior, len(starts), starts.shape[1]
    branches = len(atlas.apply(posterior.target, 0, 0, split_entries(starts, 1))[1])
    chart_of_start = np.arange(count) // branches % atlas.size
    modes: list[list[jax.Array]] = [[] for _ in range(count)]

    def from_start(x: jax.Array, branch: jax.Array, datum: Datum) -> tuple[jax.Array, ...]:
        def target(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            residual, log_weight = posterior.target(x, datum)
            return _select(branch, residual), _select(branch, log_weight)

        return find_mode(target, posterior.start(x, datum), steps)

    for kind, (first, end) in enumerate(itertools.pairwise(atlas.first)):
        places = np.flatnonzero((chart_of_start >= first) & (chart_of_start < end))
        if not places.size:
            continue
        chart, branch = chart_of_start[places, None], split_entries(jnp.asarray(places % branches)[:, None], 0)
        mode, cost, root = atlas.apply(from_start, kind, chart, split_entries(starts[:, places], 1), branch)
        # The images of a mode have equal likelihood, but different prior density. The mode represents all of them.
        twins = jnp.stack([-0.5 * np.sum(image**2) for image in atlas.apply(posterior.images, kind, chart, mode)])
        gain = jax.scipy.special.logsumexp(twins, axis=0) + 0.5 * np.sum(mode**2) - cost.item()
        inverse = on_entries(triangular_inverse)(root)
        below = np.tril_indices(dimension)
        log_det = sum(jnp.log(root[k, k]) for k in range(dimension))
        columns = [*mode, *root[below], *inverse[below], log_det, gain]
        # A search that met infinite numbers stands for the prior, and has no share beside others.
        unit = (below[0] == below[1]).astype(float)
        instead = [*np.zeros(dimension), *unit, *unit, 0.0, _NO_GAIN]
        sound = jnp.isfinite(no_recompute(sum(columns)))
        columns = [jnp.where(sound, part, other) for part, other in zip(columns, instead, strict=True)]
        columns = [jnp.broadcast_to(part, (len(places), starts.shape[2])) for part in columns]
        for k, *row in zip(places, *columns, strict=True):
            modes[k] = row
    *matrices, log_det, gain = (jnp.stack(parts) for parts in zip(*modes, strict=True))
    share = (1 - _PRIOR_SHARE) * jax.nn.softmax(_TEMPERING * (log_det + gain), axis=0)
    high = jnp.cumsum(share, axis=0)
    low = jnp.concatenate([jnp.full_like(high[:1], -1.0), high[:-1]])
    # Height of a Student density over that of the normal density of the same shape.
    student = gammaln(0.5 * (_DEGREES + dimension)) - gammaln(0.5 * _DEGREES) - 0.5 * dimension * np.log(0.5 * _DEGREES)
    height = share * jnp.exp(float(student) - log_det)
    size = dimension * (dimension + 1) // 2
    x, root, inverse = matrices[:dimension], matrices[dimension : dimension + size], matrices[dimension + size :]
    return _Modes(x, root, inverse, height, low, high, jnp.asarray(chart_of_start))
