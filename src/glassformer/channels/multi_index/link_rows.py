r"""Any function of several projections, with label noise, by importance sampling.

Labels are :math:`y = g(Z)` with normal noise on every entry, or follow a law :math:`p(y\mid g(Z))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from glassformer.channels.base import Inference
from glassformer.channels.label_laws import LabelLaw, law_gap
from glassformer.channels.labels import Labels
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.latent_channel import LatentChannel
from glassformer.channels.multi_index.latent_posterior import Datum, LatentPosterior, PosteriorFamily
from glassformer.channels.multi_index.plane_inference import plane_inference
from glassformer.channels.multi_index.plane_labels import NormalLabels
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.defaults import default_property
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.numerics.quasi_random import normal_points
from glassformer.numerics.small_matrices import row_flips

# Work per data point where the noise is no small share of the label's variance. Chosen by trial.
_EFFORT = Effort(points=64, starts=8, steps=10)
# Share of the noise in the variance of labels above which this work suffices (measured).
THICK_SHELL = 0.05
# Latents of a data point with less noise, and the number that all 2048 data points of a replica can afford.
_MOST_LATENTS, _AFFORDED_LATENTS = 8192, 512
# Low accuracy takes a fourth of the latents, but no fewer than these: the error of few data points is larger than the
# bias of few latents.
_LOW_ACCURACY, _FEWEST_LATENTS = 4, 128
# Quantiles of the values of the link at which a label law is checked.
_CHECKED_QUANTILES = (0.02, 0.25, 0.5, 0.75, 0.98)


@dataclass(frozen=True, eq=False)
class LinkRowsChannel(LatentChannel):
    """Base of channels whose labels come from one function of all fields of a data point.

    Args:
        link: traceable function from ``Z``, shape (P, L), to a flat label.
        indices: ``P``.
        tokens: ``L``.
        shape: shape of the label.
        symmetric: symmetries of the link under signed permutations of the rows.
    """

    link: Callable[[Any], Any]
    indices: int
    tokens: int
    shape: tuple[int, ...]
    symmetric: RowSymmetries

    @property
    def rows(self) -> int:
        return self.indices

    @property
    def columns(self) -> int:
        return self.tokens

    @cached_property
    def labels(self) -> Labels:
        return Labels(even=self.symmetric.even, shape=self.shape, symmetries=self.symmetric)

    @property
    def latents(self) -> int:
        return self.indices * self.tokens

    def label_from(self, fields: Array, source: Array) -> Array:
        return super().label_from(fields, source).reshape(len(fields), *self.shape)

    def observation(self, y: Array) -> Array:
        labels = np.asarray(y, dtype=float).reshape(len(y), -1)
        if np.any(np.isnan(labels)):
            raise DataError("y", "nan", "labels that are numbers", "guard divisions, logarithms and roots of the link")
        return labels


class IntegratedRowsChannel(LinkRowsChannel):
    """Base of channels without noise whose posteriors are integrals over level sets, without a search for modes."""

    posterior_seconds = default_property(0.0, "Not estimated: the work depends on the link.")

    @property
    def low_effort(self) -> Effort:
        return replace(self.effort, points=max(self.effort.points // _LOW_ACCURACY, 1))

    @property
    def family(self) -> PosteriorFamily:
        return PosteriorFamily(partial(LatentPosterior, _no_modes, _no_modes, self.link))


@dataclass(frozen=True, eq=False)
class ShellChannel(LinkRowsChannel):
    r"""Base of channels whose posterior is a shell around a level set of the link, of the width of the noise.

    Args:
        noise: :math:`\Delta > 0`, a variance.
        effort: work of the sampling per data point.
        points: data points per replica of the averages.
    """

    noise: float
    effort: Effort = field(default=_EFFORT, kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @property
    def low_effort(self) -> Effort:
        own = self.effort.points
        return replace(self.effort, points=max(own // _LOW_ACCURACY, min(_FEWEST_LATENTS, own)))


@dataclass(frozen=True, eq=False)
class NoisyLinkRowsChannel(ShellChannel):
    r""":math:`y = g(Z) + \sqrt\Delta\,\xi`, with independent normal noise on every entry of the label.

    Averages over the labels of two fields are sums over grids.

    Args:
        jumps: whether the link jumps.
    """

    jumps: bool = field(default=False, kw_only=True)

    @cached_property
    def inference(self) -> Inference:
        return plane_inference(self, NormalLabels(self._of_pairs, float(self.noise), self.jumps))

    def _of_pairs(self, fields: Array) -> Array:
        return self.clean(fields.reshape(-1, *self.fields.shape))

    @cached_property
    def labels(self) -> Labels:
        return replace(super().labels, noise=float(self.noise * np.prod(self.shape)))

    @property
    def sources(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @cached_property
    def family(self) -> PosteriorFamily:
        return PosteriorFamily(partial(shell_functions, self.link, self.symmetric.signs), (float(self.noise),))

    def label_from(self, fields: Array, source: Array) -> Array:
        clean = super().label_from(fields, source)
        return clean + np.sqrt(self.noise) * source.reshape(clean.shape)


@dataclass(frozen=True, eq=False)
class LikelihoodRowsChannel(LinkRowsChannel):
    r"""Labels of the law :math:`p(y\mid g(Z))`, independent for every entry of the label.

    Args:
        law: law of one entry.
        effort: work of the sampling per data point.
        points: data points per replica of the averages.
    """

    law: LabelLaw
    effort: Effort = field(default=Effort(points=128, starts=8, steps=12), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @cached_property
    def labels(self) -> Labels:
        values = self._link_values()
        noise = float(np.mean(np.sum(self.law.variance(values).reshape(len(values), -1), axis=1)))
        return replace(super().labels, noise=noise, law_gap=self._law_gap)

    @property
    def sources(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    def _law_gap(self) -> float:
        """Largest disagreement of drawn labels and the density of the law, at usual values of the link."""
        return max(law_gap(self.law, x) for x in np.quantile(self._link_values(), _CHECKED_QUANTILES).tolist())

    def _link_values(self) -> Array:
        points = normal_points(self.rows * self.columns).reshape(-1, *self.fields.shape)
        return LinkRowsChannel.label_from(self, points, points)

    @cached_property
    def family(self) -> PosteriorFamily:
        return PosteriorFamily(partial(_likelihood_functions, self.link, self.law, self.symmetric.signs))

    def label_from(self, fields: Array, source: Array) -> Array:
        """Return labels; sources that are exactly zero give the mean of the law, without noise."""
        link = super().label_from(fields, source)
        draws = source.reshape(link.shape)
        return np.where(draws == 0, self.law.mean(link), self.law.quantile(link, ndtr(draws)))


def _no_modes(x: jax.Array, datum: Datum) -> Any:
    """Stand in for the functions of a posterior that is not searched for modes."""
    del datum
    return x


def shell_effort(share: float) -> tuple[Effort, int]:
    """Return the work per data point, and the factor by which data points are fewer.

    The bias of few latents on a thin shell is at most the root of the share over their number. It is the same for all
    data points, so their spread does not show it; moments from parts of the latents do.

    Args:
        share: noise over the variance of the label.
    """
    if share >= THICK_SHELL:
        return _EFFORT, 1
    points = min(2 ** int(np.ceil(np.log2(_EFFORT.points / np.sqrt(share)))), _MOST_LATENTS)
    return replace(_EFFORT, points=points), points // _AFFORDED_LATENTS


def shell_functions(link: Callable[[Any], Any], flips: Array, noise: jax.Array) -> LatentPosterior:
    """Return the functions of labels with normal noise of this variance; residuals are in standard deviations."""

    def target(x: jax.Array, datum: Datum) -> tuple[jax.Array, jax.Array]:
        label, omega, root = datum
        residual = (link(omega + root @ x.reshape(omega.shape)) - label) / jnp.sqrt(noise)
        return residual[None], jnp.reshape(-0.5 * len(residual) * jnp.log(2 * np.pi * noise), 1)

    return _of_all_fields(target, link, flips)


def _likelihood_functions(link: Callable[[Any], Any], law: LabelLaw, flips: Array) -> LatentPosterior:
    def target(x: jax.Array, datum: Datum) -> tuple[jax.Array, jax.Array]:
        label, omega, root = datum
        weight = jnp.sum(law.log_density(label, link(omega + root @ x.reshape(omega.shape))))
        return jnp.zeros((1, 1)), weight[None]

    return _of_all_fields(target, link, flips)


def _of_all_fields(target: Callable[[Any, Any], Any], link: Callable[[Any], Any], flips: Array) -> LatentPosterior:
    """Return a posterior whose latents and features are the whitened deviations of all fields."""

    def features(x: jax.Array, datum: Datum) -> jax.Array:
        del datum
        return x[None]

    def images(x: jax.Array, datum: Datum) -> jax.Array:
        _, omega, root = datum
        return row_flips(x, omega, root, flips)

    return LatentPosterior(target, features, link, images, all_fields=True)
