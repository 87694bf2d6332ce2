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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, ndtri
from scipy.stats import chi2, qmc

from glassformer.channels.multi_index.latent_functions import Family, Functions
from glassformer.channels.multi_index.modes import POLICY, find_mode
from glassformer.channels.multi_index.weighted_moments import prior_moments, weighted_moments
from glassformer.core.estimate import Array
from glassformer.numerics.batching import in_chunks
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quasi_random import turns
from glassformer.numerics.scalarize import Entries, entry_list, no_recompute, on_entries, split_entries
from glassformer.numerics.small_matrices import triangular_inverse


@dataclass(frozen=True)
class Effort:
    """How much work the sampling of one data point is.

    Attributes:
        points: sampled latents per half, a power of two.
        starts: starts of the search for modes.
        steps: steps of that search.
        parts: of the latents, whose moments tell the bias of all, in numbers that are powers of two.
    """

    points: int = 128
    starts: int = 8
    steps: int = 12
    parts: tuple[int, ...] = (4, 16)


class Moments(NamedTuple):
    """Posterior moments of the features of each data point.

    Attributes:
        log_partition: log of the integral of the likelihood against the prior, shape (n,).
        first, second: two independent estimates of the mean, shape (n, f).
        covariance: shape (n, f, f).
        first_square, second_square: independent estimates of the second moments, shape (n, f, f).
        effective: effective number of samples, shape (n,).
        fewer: means of what parts of the latents give, fourths and then sixteenths, or what longer cells of lines do;
            none where nothing is sampled or searched for.
        silent: two independent means, shape (n, f), and second moments beyond one, (n, f, f), of the same latents
            without labels: their expectations vanish. None where features are not the latents.
    """

    log_partition: Array
    first: Array
    second: Array
    covariance: Array
    first_square: Array
    second_square: Array
    effective: Array
    fewer: tuple[Moments, ...] = ()
    silent: tuple[Array, Array, Array] | None = None


def posterior_moments(family: Family, dimension: int, data: Any, effort: Effort, points: int = 1) -> Moments:
    """Moments of the features under the posterior of every data point.

    Args:
        family: the functions of the posterior, and the numbers that they are for.
        dimension: number ``m`` of latent variables.
        data: a tree of arrays whose first axis runs over data points.
        effort: numbers of points, starts and steps.
        points: data points of each replica.
    """
    sample, batch = _sample(dimension, effort), _batch(effort)
    numbers = tuple(map(np.float64, family.numbers))
    # Parts of a few latents tell nothing.
    parts = effort.parts if dimension and effort.points >= 2 * max(effort.parts) else ()
    moments = CachedJit(_in_blocks, make=family.make, steps=effort.steps, parts=parts, batch=batch)
    # Sending data takes as long as little work on them.
    sent = batch * (POLICY.blocks if batch == POLICY.batch else 1)

    count, pool = len(jax.tree.leaves(data)[0]), sample.starts.shape[-1]

    def work(index: Any, chunk: Any) -> Any:
        return moments(turns(index, count, points, pool), chunk, sample, numbers)

    # One length: compiling takes longer than all but the largest computations.
    found: list[Any] = in_chunks(work, data, most=sent, rest=sent)
    size = len(Moments._fields) - 2
    ends = range(size, len(found) + 1, size)
    whole, *fewer = (Moments(*found[end - size : end]) for end in ends)
    return whole._replace(fewer=tuple(fewer), silent=tuple(found[ends[-1] :]) or None)


def _batch(effort: Effort) -> int:
    """Data points that are treated at once."""
    return int(np.clip(POLICY.at_once // (2 * effort.points), POLICY.fewest, POLICY.batch))


class _Sample(NamedTuple):
    """What is drawn once: a pool of samples, both halves one after the other, which data points take in turn.

    Were it one sample for all, its error would be the same for all and survive the average over data. The last axis
    runs over the places in the pool.
    """

    starts: Any
    normals: Any
    choices: Any
    stretches: Any


@lru_cache(maxsize=4)
def _sample(dimension: int, effort: Effort) -> _Sample:
    """One quasi-random sample, shifted at random for every place in the pool and each half."""
    rng, points = np.random.default_rng(0), qmc.Sobol(dimension + 2, seed=0).random(effort.points)
    pool = int(np.clip(POLICY.numbers // (2 * points.size), 64, 8192))
    shifted = points + rng.random((pool, 2, 1, dimension + 2))
    uniform = np.clip(shifted % 1, 1e-12, 1 - 1e-12).reshape(pool, 2 * effort.points, dimension + 2)
    starts = rng.standard_normal((pool, effort.starts, dimension))
    starts[:, 0] = 0.0
    stretches = np.sqrt(POLICY.degrees / chi2.ppf(uniform[..., -1], POLICY.degrees))
    with jax_settings():
        parts = (starts, ndtri(uniform[..., :-2]), uniform[..., -2], stretches)
        return _Sample(*(jnp.asarray(part.T) for part in parts))


def _in_blocks(
    turns: Any,
    data: Any,
    sample: _Sample,
    numbers: Any,
    make: Callable[..., Functions],
    steps: int,
    parts: tuple[int, ...],
    batch: int,
) -> Any:
    """So many data points at a time."""
    functions = make(*numbers)

    def block(part: tuple[Any, Any]) -> Any:
        own_turns, own_data = part
        return _moments(own_turns, own_data, sample, functions, steps, parts)

    blocks = jax.tree.map(lambda part: part.reshape(-1, batch, *part.shape[1:]), (turns, data))
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), jax.lax.map(block, blocks))


def _moments(turns: Any, data: Any, sample: _Sample, functions: Functions, steps: int, parts: tuple[int, ...]) -> Any:
    """Everything entry by entry: the last axis of every entry runs over data points, those before it over latents."""
    own = _Sample(*(jnp.take(part, turns, axis=-1) for part in sample))
    datum = jax.tree.map(lambda part: split_entries(jnp.moveaxis(part, 0, -1), part.ndim - 1), data)
    charts = [_Chart(functions, number, datum, steps) for number in range(functions.charts)]
    drawn = _draw(charts, own)
    log_weight = [drawn.base + value for value in drawn.on_own_chart([_log_likelihood(c, drawn.x) for c in charts])]
    values = drawn.on_own_chart([list(chart.features(drawn.x).ravel()) for chart in charts])
    shape = drawn.base.shape
    # Where the likelihood vanishes features may be infinite: they have no weight.
    values = [no_recompute(jnp.where(jnp.isfinite(part), part, 0.0)) for part in _spread(values, shape)]
    branches, size = len(log_weight), len(values) // len(log_weight)
    of_branch = [values[k * size : (k + 1) * size] for k in range(branches)]
    weights = [no_recompute(part) for part in _spread(log_weight, shape)]
    silent = prior_moments(drawn.base, list(drawn.x)) if functions.whole and parts else ()
    return *weighted_moments(weights, of_branch, (1, *parts)), *silent


def _spread(parts: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    return [jnp.broadcast_to(part, shape) for part in parts]


class _Chart:
    """The functions of one chart at the data points of a chunk."""

    def __init__(self, functions: Functions, number: int, datum: tuple[Entries, ...], steps: int) -> None:
        self._functions, self._number, self._datum, self._steps = functions, number, datum, steps

    def target(self, x: Entries) -> tuple[Entries, Entries]:
        found: tuple[Entries, Entries] = self._of_datum(self._functions.target)(x)
        return found

    def features(self, x: Entries) -> Entries:
        return np.asarray(self._of_datum(self._functions.features)(x))

    def images(self, x: Entries) -> Entries:
        return np.asarray(self._of_datum(self._functions.images)(x))

    def modes(self, start: Entries, branch: Any) -> tuple[Entries, Entries, Entries]:
        """Modes of branches of these numbers from starts, their costs and roots."""

        def from_start(x: Any, branch: Any, *datum: Any) -> Any:
            def target(x: Any) -> tuple[Any, Any]:
                residual, log_weight = self._functions.target(x, datum)
                return _picked(branch, residual), _picked(branch, log_weight)

            return find_mode(target, self._functions.entrance(x, datum), self._steps)

        found: tuple[Entries, Entries, Entries] = self._by_entries(from_start)(start, split_entries(branch, 0))
        return found

    def _of_datum(self, function: Callable[[Any, Any], Any]) -> Callable[[Entries], Any]:
        return self._by_entries(lambda x, *datum: function(x, datum))

    def _by_entries(self, function: Callable[..., Any]) -> Callable[..., Any]:
        number = () if self._functions.charts == 1 else (self._number,)
        written = on_entries(lambda *parts: function(*parts, *number))
        return lambda *parts: written(*parts, *self._datum)


class _Modes(NamedTuple):
    """Modes from every start, the first axis of all parts, the last one over data points.

    Attributes:
        x: latents, m of them.
        root: entries of a root of the covariance around them, row by row of its lower triangle.
        inverse: those of its inverse.
        height: of the sampling density there.
        low, high: shares of the modes before, and with the mode itself.
        chart: its number.
    """

    x: list[Any]
    root: list[Any]
    inverse: list[Any]
    height: Any
    low: Any
    high: Any
    chart: Any


class _Drawn(NamedTuple):
    """Latents, flattened with their images, the halves one after the other, shape (2 n, data points) each.

    Attributes:
        x: the ``m`` entries of the latents.
        chart: number of the chart of each, None if there is one.
        base: logarithms of prior over sampling density.
    """

    x: Entries
    chart: Any
    base: Any

    def on_own_chart(self, found: Sequence[Sequence[Any]]) -> list[Any]:
        """What the charts say of each, every latent on its own."""
        return [_picked(self.chart, parts) for parts in zip(*found, strict=True)]


def _picked(number: Any, parts: Sequence[Any]) -> Any:
    """The part of this number."""
    found = parts[0]
    for k in range(1, len(parts)):
        found = jnp.where(number == k, parts[k], found)
    return found


def _draw(charts: Sequence[_Chart], own: _Sample) -> _Drawn:
    """Latents and charts from the mixture around the modes, and the logarithms of their weights, branch by branch."""
    dimension, count = len(own.normals), own.choices.shape
    if dimension == 0:
        return _Drawn(entry_list([]), None, jnp.zeros((2, count[1])))
    modes, several = _modes(charts, own.starts), len(charts) > 1

    def pick(drawn: tuple[list[Any], Any], mode: _Modes) -> tuple[tuple[list[Any], Any], None]:
        here = (own.choices > mode.low) & (own.choices <= mode.high)
        moved = _times(mode.root, list(own.normals))
        near = [a + own.stretches * b for a, b in zip(mode.x, moved, strict=True)]
        return (
            [jnp.where(here, a, b) for a, b in zip(near, drawn[0], strict=True)],
            jnp.where(here, mode.chart, drawn[1]),
        ), None

    # What is left of the number that chose the prior chooses the chart, independently of the latent.
    left = (own.choices - (1 - POLICY.defensive)) / POLICY.defensive
    first = (list(own.normals), jnp.clip(left * len(charts), 0, len(charts) - 1).astype(int))
    (drawn, chart), _ = jax.lax.scan(pick, first, modes, unroll=POLICY.unrolled)
    # Every point is used with all its images: symmetries of the posterior hold exactly, and the sampling density is
    # the mean over images of what was drawn from.
    at = _Drawn(entry_list(drawn), chart if several else None, None)
    images = [own.images(at.x) for own in charts]
    number = len(images[0])
    flat = at.on_own_chart([list(part.ravel()) for part in images])
    x = [
        no_recompute(jnp.stack(_spread(flat[k::dimension], count), axis=1).reshape(-1, count[1]))
        for k in range(dimension)
    ]
    chart_of = jnp.repeat(chart, number, axis=0) if several else None

    def add(students: Any, mode: _Modes) -> tuple[Any, None]:
        white = _times(mode.inverse, [a - b for a, b in zip(x, mode.x, strict=True)])
        peak = mode.height * _inverse_power(1 + sum(entry**2 for entry in white) / POLICY.degrees, dimension)
        return students + (jnp.where(chart_of == mode.chart, peak, 0.0) if several else peak), None

    log_prior = -0.5 * sum(part**2 for part in x)
    density, _ = jax.lax.scan(add, POLICY.defensive / len(charts) * jnp.exp(log_prior), modes, unroll=POLICY.unrolled)
    log_density = jnp.log(jnp.mean(density.reshape(count[0], number, count[1]), axis=1))
    return _Drawn(entry_list(x), chart_of, log_prior - jnp.repeat(log_density, number, axis=0))


def _times(lower: Sequence[Any], x: Sequence[Any]) -> list[Any]:
    """A lower triangular matrix, row by row, times a vector."""
    rows = [lower[k * (k + 1) // 2 : (k + 1) * (k + 2) // 2] for k in range(len(x))]
    return [sum(a * b for a, b in zip(row, x, strict=False)) for row in rows]


def _inverse_power(base: Any, dimension: int) -> Any:
    """``base`` to the power of minus half of freedom and dimension, by products and at most one root."""
    whole, half = divmod(POLICY.degrees + dimension, 2)
    power = base**-whole
    return power / jnp.sqrt(base) if half else power


def _log_likelihood(chart: _Chart, x: Entries) -> list[Any]:
    """Of every branch."""
    residual, log_weight = chart.target(x)
    values = [weight - 0.5 * np.sum(own**2) for own, weight in zip(residual, log_weight, strict=True)]
    return [jnp.where(jnp.isfinite(value), value, -jnp.inf) for value in values]


def _modes(charts: Sequence[_Chart], starts: Any) -> _Modes:
    """Modes from starts of shape (m, starts, data points), which take the branches of every chart in turn."""
    dimension, count = len(starts), starts.shape[1]
    branches = len(charts[0].target(split_entries(starts, 1))[1])
    turns = np.arange(count)
    of_chart = turns // branches % len(charts)
    found: list[list[Any]] = [[] for _ in turns]
    for number in np.unique(of_chart):
        chart, places = charts[number], np.flatnonzero(of_chart == number)
        mode, cost, root = chart.modes(split_entries(starts[:, places], 1), jnp.asarray(places % branches)[:, None])
        # A mode that any of its images makes likely counts: they share the likelihood, not the prior.
        twins = [-0.5 * np.sum(image**2) for image in chart.images(mode)]
        gains = jax.scipy.special.logsumexp(jnp.stack(twins), axis=0) + 0.5 * np.sum(mode**2)
        inverse = on_entries(triangular_inverse)(root)
        below = np.tril_indices(dimension)
        log_det = sum(jnp.log(root[k, k]) for k in range(dimension))
        columns = [*mode, *root[below], *inverse[below], log_det, gains - cost.item()]
        for k, *row in zip(places, *_spread(columns, (len(places), starts.shape[2])), strict=True):
            found[k] = row
    rows = [jnp.stack(parts) for parts in zip(*found, strict=True)]
    size = dimension * (dimension + 1) // 2
    *matrices, log_det, gain = rows
    share = (1 - POLICY.defensive) * jax.nn.softmax(POLICY.tempered * (log_det + gain), axis=0)
    high = jnp.cumsum(share, axis=0)
    low = jnp.concatenate([jnp.full_like(high[:1], -1.0), high[:-1]])
    height = share * jnp.exp(_student_constant(dimension) - log_det)
    x, root, inverse = matrices[:dimension], matrices[dimension : dimension + size], matrices[dimension + size :]
    return _Modes(x, root, inverse, height, low, high, jnp.asarray(of_chart))


def _student_constant(dimension: int) -> float:
    """Logarithm of the height of a Student density over that of the normal density of the same shape."""
    return float(
        gammaln(0.5 * (POLICY.degrees + dimension))
        - gammaln(0.5 * POLICY.degrees)
        - 0.5 * dimension * np.log(0.5 * POLICY.degrees)
    )
