r"""Base of channels whose posterior is that of latent normal variables, by importance sampling around its modes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from glassformer.channels.base import Inference
from glassformer.channels.field_averages import FieldPosterior, Slopes
from glassformer.channels.multi_index.importance_sampling import Effort, PosteriorMoments, posterior_moments
from glassformer.channels.multi_index.latent_posterior import LatentPosterior, PosteriorFamily
from glassformer.channels.multi_index.sampled_channel import SampledInference, SampledRowsChannel
from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array

# Seconds of the likelihood of one image of a latent on one branch, and of one entry of the density around one mode
# (measured on one core for networks of up to 16 fields, within a factor of two, for each kind of charts).
SECONDS_OF_LATENT, _SECONDS_OF_DENSITY = 1e-7, 1e-9


class LatentChannel(SampledRowsChannel):
    r"""A channel that gives moments of the whitened deviations ``x`` of its fields, :math:`z = \omega + R x`.

    With :math:`V = R R^T`, ``R`` lower triangular, the score is :math:`R^{-T}E[x]` and minus its derivative is
    :math:`R^{-T}(S - \mathrm{Cov}\,x)R^{-1}`, where ``S`` counts the columns that labels can depend on.
    """

    effort: Effort

    @property
    @abstractmethod
    def family(self) -> PosteriorFamily:
        """The functions of the posterior with the numbers of this channel apart, to be compiled once for all values."""

    @property
    def functions(self) -> LatentPosterior:
        """The functions of the posterior of this very channel."""
        functions: LatentPosterior = self.family.functions()
        return functions

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        return self.functions.label

    @property
    @abstractmethod
    def latents(self) -> int:
        """Number of latent variables of one data point."""

    branches = default_property(1, "Branches of the likelihood: signs of a row that is solved for.")

    @property
    def posterior_seconds(self) -> float:
        """Approximate time of one posterior on one core, from the numbers of latents, images and modes."""
        effort = self.effort
        of_latent = SECONDS_OF_LATENT + _SECONDS_OF_DENSITY * effort.starts * self.latents**2 / self.branches
        return 2.0 * effort.points * len(self.labels.row_symmetries.signs) * len(self.functions.charts) * of_latent

    @property
    def low_effort(self) -> Effort:
        """A fraction of the work per data point, for a first rough result."""
        return self.effort

    @property
    def visible_columns(self) -> Array:
        """Columns of each row that labels can depend on, shape (P,)."""
        return np.full(self.rows, float(self.columns))

    @abstractmethod
    def observation(self, y: Array) -> Array:
        """Return the labels in the form that the target takes, one entry a data point."""

    def log_constant(self, root: Array) -> Array:
        """Return log partition minus that of the latents, shape (n,), from roots of shape (n, P, P)."""
        return np.zeros(len(root))

    def label_from(self, fields: Array, source: Array) -> Array:
        del source
        return PosteriorFamily(partial(_label, self.family.make), self.family.numbers).evaluate(fields)

    def moments(self, y: Array, omega: Array, root: Array) -> PosteriorMoments:
        """Return the moments of the whitened deviations."""
        data = (self.observation(y), np.asarray(omega, dtype=float), root)
        return posterior_moments(self.family, self.latents, data, self.effort, self.points)

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        moments, _, inverse = self._whitened_moments(y, omega, variance)
        return self._slopes(moments, inverse)

    def _slopes(self, moments: PosteriorMoments, inverse: Array) -> Slopes:
        return [
            self._slopes_from((part.first, part.second), (part.first_square, part.second_square), inverse)
            for part in (moments, *moments.fewer)
        ]

    def _slopes_from(self, means: Sequence[Array], squares: Sequence[Array], inverse: Array) -> tuple[Array, Array]:
        """Return slopes from two independent estimates of the means and second moments of whitened deviations."""
        shape = (len(inverse), self.rows, self.columns, self.rows, self.columns)
        # The product of independent means has no bias.
        mean = np.einsum("na,nb->nab", *means)
        known = 0.5 * (mean + np.swapaxes(mean, 1, 2)) + np.eye(mean.shape[1])
        first, second = (
            np.einsum("nap,nalbm,nbq->nplqm", inverse, (square - known).reshape(shape), inverse, optimize=True)
            for square in squares
        )
        return first, second

    def posterior(self, y: Array, omega: Array, variance: Array) -> FieldPosterior:
        return self._posterior(*self._whitened_moments(y, omega, variance))

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        return self._posteriors(*self._whitened_moments(y, omega, variance))

    def _posteriors(self, moments: PosteriorMoments, root: Array, inverse: Array) -> tuple[FieldPosterior, ...]:
        return tuple(self._posterior(level, root, inverse) for level in (moments, *moments.fewer))

    def _posterior(self, moments: PosteriorMoments, root: Array, inverse: Array) -> FieldPosterior:
        log_partition = np.asarray(moments.log_partition + self.log_constant(root))
        scores = self._scores(moments.first, moments.second, moments.covariance, inverse, np.diag(self.visible_columns))
        if moments.silent is None:
            return FieldPosterior(*scores, log_partition)
        return FieldPosterior(*scores, log_partition, self._scores(*moments.silent, inverse))

    def _scores(
        self, first: Array, second: Array, square: Array, inverse: Array, seen: Array | float = 0.0
    ) -> tuple[Array, Array, Array]:
        """Return two scores and minus their slope, from means of whitened deviations and their covariance."""
        transposed, shape = np.swapaxes(inverse, 1, 2), (len(inverse), self.rows, self.columns)
        over_columns = np.einsum("nakbk->nab", square.reshape(len(inverse), *shape[1:], *shape[1:]))
        slope = transposed @ (seen - over_columns) @ inverse
        return transposed @ first.reshape(shape), transposed @ second.reshape(shape), slope

    def posteriors_and_slopes(
        self, y: Array, omega: Array, variance: Array
    ) -> tuple[tuple[FieldPosterior, ...], Slopes]:
        """Return :meth:`posteriors` and :meth:`slopes`, from the same moments."""
        moments, root, inverse = self._whitened_moments(y, omega, variance)
        return self._posteriors(moments, root, inverse), self._slopes(moments, inverse)

    @property
    def inference(self) -> Inference:
        return LatentInference(self)

    def _whitened_moments(self, y: Array, omega: Array, variance: Array) -> tuple[PosteriorMoments, Array, Array]:
        """Return the moments of the whitened deviations, roots of the covariances and inverses of the roots."""
        root = np.asarray(np.linalg.cholesky(variance), dtype=float)
        return self.moments(y, omega, root), root, np.linalg.inv(root)


@dataclass(frozen=True, eq=False)
class LatentInference(SampledInference):
    """Inference from sampled posteriors, whose work can be chosen."""

    channel: LatentChannel

    @property
    def work(self) -> float:
        return super().work * self.channel.effort.points

    @property
    def posterior_seconds(self) -> float:
        return self.channel.posterior_seconds

    def with_effort(self, effort: Effort) -> Self:
        """Return the same with another amount of work per data point."""
        if effort == self.channel.effort:
            return self
        return replace(self, channel=replace(self.channel, effort=effort))  # type: ignore[type-var]

    def high_accuracy(self) -> Self:
        effort = self.channel.effort
        return self.with_effort(
            replace(effort, points=8 * effort.points, starts=2 * effort.starts, steps=effort.steps + 4)
        )

    def low_accuracy(self) -> Self:
        return self.with_effort(self.channel.low_effort)


def _label(make: Callable[..., LatentPosterior], *numbers: float) -> Callable[[Any], Any]:
    return make(*numbers).label
