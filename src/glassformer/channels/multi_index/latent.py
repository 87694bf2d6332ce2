r"""Channels whose posterior is that of latent normal variables, sampled around its modes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from glassformer.channels.field_averages import Averages, FieldPosterior, Response, Slopes
from glassformer.channels.multi_index.importance_sampling import Effort, Moments, posterior_moments
from glassformer.channels.multi_index.latent_functions import Family, Functions
from glassformer.channels.multi_index.sampled_channel import SampledRowsChannel
from glassformer.core.estimate import Array


class LatentChannel(SampledRowsChannel):
    r"""A channel that tells the whitened deviations of its fields apart by latent variables.

    With :math:`V = R R^T`, ``R`` lower triangular, :math:`z = \omega + R x`: the score is :math:`R^{-T}E[x]`, minus its
    derivative :math:`R^{-T}(S - \mathrm{Cov}\,x)R^{-1}`, where ``S`` counts the columns that labels can show.
    """

    effort: Effort

    @property
    @abstractmethod
    def family(self) -> Family:
        """What is compiled: functions, and their numbers, for whose values nothing is compiled anew."""

    @property
    def functions(self) -> Functions:
        """Those of this very channel."""
        found: Functions = self.family.own
        return found

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        label: Callable[[Any], Any] = self.functions.label
        return label

    @property
    @abstractmethod
    def latents(self) -> int:
        """Latent variables of one data point."""

    @property
    def work(self) -> float:
        return super().work * self.effort.points

    def high_accuracy(self) -> Self:
        effort = self.effort
        work = replace(effort, points=8 * effort.points, starts=2 * effort.starts, steps=effort.steps + 4)
        return replace(self, effort=work)  # type: ignore[type-var]

    @property
    def seen(self) -> Array:
        """Columns of each row that labels can show, shape (P,)."""
        return np.full(self.rows, float(self.columns))

    @abstractmethod
    def observed(self, y: Array) -> Array:
        """What the target takes as observed, one entry per label."""

    def log_constant(self, root: Array) -> Array:
        """What the log partition has beside that of the latents, shape (n,), from roots of shape (n, P, P)."""
        return np.zeros(len(root))

    def label_from(self, fields: Array, source: Array) -> Array:
        del source
        return Family(partial(_label, self.family.make), self.family.numbers).mapped(fields)

    def moments(self, y: Array, omega: Array, root: Array) -> Moments:
        """Moments of the whitened deviations."""
        data = (self.observed(y), np.asarray(omega, dtype=float), root)
        return posterior_moments(self.family, self.latents, data, self.effort, self.points)

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        found, _, inverse = self._whitened(y, omega, variance)
        return self._slopes(found, inverse)

    def _slopes(self, found: Moments, inverse: Array) -> Slopes:
        return [
            self._slopes_of((part.first, part.second), (part.first_square, part.second_square), inverse)
            for part in (found, *found.fewer)
        ]

    def _slopes_of(self, means: Sequence[Array], squares: Sequence[Array], inverse: Array) -> tuple[Array, Array]:
        """From two independent estimates of the means and second moments of whitened deviations."""
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
        return self._posterior(*self._whitened(y, omega, variance))

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        return self._posteriors(*self._whitened(y, omega, variance))

    def _posteriors(self, found: Moments, root: Array, inverse: Array) -> tuple[FieldPosterior, ...]:
        return tuple(self._posterior(level, root, inverse) for level in (found, *found.fewer))

    def _posterior(self, found: Moments, root: Array, inverse: Array) -> FieldPosterior:
        log_partition = np.asarray(found.log_partition + self.log_constant(root))
        scores = self._scores(found.first, found.second, found.covariance, inverse, np.diag(self.seen))
        if found.silent is None:
            return FieldPosterior(*scores, log_partition)
        return FieldPosterior(*scores, log_partition, self._scores(*found.silent, inverse))

    def _scores(
        self, first: Array, second: Array, square: Array, inverse: Array, seen: Array | float = 0.0
    ) -> tuple[Array, Array, Array]:
        """From whitened means, and second moments less what counts as seen."""
        turned, shape = np.swapaxes(inverse, 1, 2), (len(inverse), self.rows, self.columns)
        within = np.einsum("nakbk->nab", square.reshape(len(inverse), *shape[1:], *shape[1:]))
        slope = turned @ (seen - within) @ inverse
        return turned @ first.reshape(shape), turned @ second.reshape(shape), slope

    def averages_and_response(self, variance: Array) -> tuple[Averages, Response]:
        omega, deviation, labels = self._data(variance[None])
        spread = np.broadcast_to(variance, (omega.shape[1], *variance.shape))
        found, root, inverse = self._whitened(labels[0], omega[0], spread)
        averages = self._averaged(self._posteriors(found, root, inverse), deviation, variance[None])
        return averages, self._responding(self._slopes(found, inverse), deviation[0], variance)

    def _whitened(self, y: Array, omega: Array, variance: Array) -> tuple[Moments, Array, Array]:
        """Moments of the whitened deviations, roots of the covariances and their inverses."""
        root = np.asarray(np.linalg.cholesky(variance), dtype=float)
        return self.moments(y, omega, root), root, np.linalg.inv(root)


def _label(make: Callable[..., Functions], *numbers: Any) -> Any:
    return make(*numbers).label
