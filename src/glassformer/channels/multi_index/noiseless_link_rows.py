r"""Continuous labels of several entries without noise.

A little noise stands for none where posteriors are thin shells around a few points; elsewhere draws of nearly the same
label tell of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.field_averages import REPLICAS, Averages, Response, Slopes
from glassformer.channels.multi_index.latent_functions import Family
from glassformer.channels.multi_index.nearest_labels import growth, information, moments
from glassformer.channels.multi_index.noisy_link_rows import NearLinkRowsChannel, near_labels
from glassformer.channels.multi_index.normal_scores import NormalScores
from glassformer.core.cache import memoize
from glassformer.core.estimate import Array
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quasi_random import mean_and_error


@dataclass(frozen=True)
class Policy:
    """The noise that stands for none, and where posteriors are compared with draws of nearly the same label."""

    with_more_noise: float = 4.0  # factor of the noise at which its effect is seen
    compared: tuple[float, ...] = (0.3, 0.7)  # shares of the covariance of the fields
    points: int = 256  # data points per replica there
    chance: float = 3.0  # standard errors by which both may differ


_POLICY = Policy()


@dataclass(frozen=True, eq=False)
class NoiselessLinkRowsChannel(NearLinkRowsChannel):
    """:math:`y = g(Z)` of several continuous entries.

    Posteriors are those of labels with the ``noise``, which stands for none. What four times of it changes tells its
    effect. Where they are not what draws of nearly the same label say, averages are those of such draws, without any
    noise.

    Args:
        scale: of labels, on which the noise is added.
    """

    scale: NormalScores

    @property
    def rank(self) -> float:
        return _rank(self.link, self.indices, self.tokens)

    @property
    def with_more_noise(self) -> Self | None:
        return replace(self, noise=_POLICY.with_more_noise * self.noise) if self.covered else None

    @cached_property
    def family(self) -> Family:
        return Family(partial(near_labels, self.link, self.symmetries, self.scale), (float(self.noise),))

    @cached_property
    def covered(self) -> bool:
        """Whether sampled posteriors are those of the labels: draws of nearly the same label do not say more."""
        return bool(memoize(self._compared, "covered", self.link, self.indices, self.tokens))

    def _compared(self) -> bool:
        channel = self.with_points(min(_POLICY.points, self.points))
        return all(channel._agrees(share * self.self_overlap) for share in _POLICY.compared)

    def _agrees(self, variance: Array) -> bool:
        sampled = super().averages(variance[None])
        replicas, doubt = self._drawn(variance)
        gap, error = mean_and_error(sampled.replicas[0] - replicas)
        told = np.abs(doubt) + _POLICY.chance * error
        return bool(np.all(np.abs(gap) <= told) and np.all(np.abs(sampled.missing[0]) <= told))

    def _drawn(self, variance: Array) -> list[Array]:
        """Information of each replica, and what all may miss, from draws of nearly the same label."""
        omega = self._data(variance[None])[0][0]
        found = information(self._exact, omega, np.asarray(np.linalg.cholesky(variance)), REPLICAS)
        return self._respected(found, variance)

    def _exact(self, fields: Array) -> Array:
        return self.label_from(fields, np.empty((len(fields), 0)))

    def averages(self, variance: Array) -> Averages:
        sampled = super().averages(variance)
        if self.covered:
            return sampled
        replicas, doubt = (np.stack(part) for part in zip(*map(self._drawn, np.asarray(variance)), strict=True))
        return self._of_replicas(replicas, np.abs(doubt), sampled.log_partition)

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        if self.covered:
            return super().averages_and_slope(variance)
        omega, root = self._data(variance[None])[0][0], np.asarray(np.linalg.cholesky(variance))
        return self.averages(variance[None]), growth(self._exact, omega, root)

    def averages_and_response(self, variance: Array) -> tuple[Averages, Response]:
        if self.covered:
            return super().averages_and_response(variance)
        return self.averages(variance[None]), self.response(variance)

    def slopes_at(self, y: Array, omega: Array, variance: Array) -> Slopes:
        if self.covered:
            return super().slopes_at(y, omega, variance)
        levels = moments(self._exact, y, omega, self.self_overlap, variance, REPLICAS)
        inverse = np.broadcast_to(np.linalg.inv(np.linalg.cholesky(variance)), (len(y), *variance.shape))
        return [self._slopes_of((*level[..., 0],), (*level[..., 1:],), inverse) for level in levels]


def _rank(link: Callable[[Any], Any], indices: int, tokens: int) -> float:
    """Rank of the Jacobian of the link at a generic point."""
    with jax_settings():
        at = jnp.asarray(np.random.default_rng(0).standard_normal((indices, tokens)))
        slope = np.asarray(jax.jacfwd(link)(at)).reshape(-1, indices * tokens)
    return float(np.linalg.matrix_rank(slope))
