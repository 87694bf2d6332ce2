r"""Any function of several projections with Gaussian label noise, by importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import jax.numpy as jnp
import numpy as np

from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.latent_functions import Family, Functions
from glassformer.channels.multi_index.link_rows import LinkRowsChannel, of_whole_fields
from glassformer.channels.multi_index.normal_scores import NormalScores
from glassformer.core.estimate import Array


@dataclass(frozen=True)
class Policy:
    """How the thin shells are followed that little noise makes of posteriors."""

    thick: float = 0.05  # share of noise in the variance of labels from which on the usual work will do
    most: int = 8192  # latents of a data point where it is smaller
    afforded: int = 512  # latents that all data points can have
    low_accuracy: int = 4  # how many times fewer of them tell where fixed points are
    fewest: int = 128  # of these, unless there are no more


_POLICY = Policy()


# Work per data point of labels with noise.
_EFFORT = Effort(points=64, starts=8, steps=10)


@dataclass(frozen=True, eq=False)
class NearLinkRowsChannel(LinkRowsChannel):
    r"""A channel whose posterior is that of labels with some noise around the link.

    Args:
        noise: :math:`\Delta > 0`, a variance.
        effort: work of the sampling per data point.
        points: data points per replica of the averages.
    """

    noise: float
    effort: Effort = field(default=_EFFORT, kw_only=True)
    points: int = field(default=2048, kw_only=True)

    def low_accuracy(self) -> Self:
        # What few latents leave out is less than what few data points do.
        fewer = max(self.effort.points // _POLICY.low_accuracy, min(_POLICY.fewest, self.effort.points))
        return replace(self, effort=replace(self.effort, points=fewer))


@dataclass(frozen=True, eq=False)
class NoisyLinkRowsChannel(NearLinkRowsChannel):
    r""":math:`y = g(Z) + \sqrt\Delta\,`, with independent normal noise on every entry of the label."""

    @property
    def rank(self) -> float:
        return 0.0

    @property
    def sources(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @property
    def label_noise(self) -> float:
        return float(self.noise * np.prod(self.shape))

    @cached_property
    def family(self) -> Family:
        return Family(partial(near_labels, self.link, self.symmetries, None), (float(self.noise),))

    def label_from(self, fields: Array, source: Array) -> Array:
        clean = super().label_from(fields, source)
        return clean + np.sqrt(self.noise) * source.reshape(clean.shape)


def followed(share: float) -> tuple[Effort, int]:
    """Work that follows shells as thin as this share of noise makes them, and how many times fewer data points.

    What few latents make of a thin shell is biased by up to the inverse of their number times the root of the share,
    and all data points alike: their spread does not tell, what parts of the latents say does.
    """
    if share >= _POLICY.thick:
        return _EFFORT, 1
    points = min(2 ** int(np.ceil(np.log2(_EFFORT.points / np.sqrt(share)))), _POLICY.most)
    return replace(_EFFORT, points=points), points // _POLICY.afforded


def near_labels(link: Callable[[Any], Any], flips: Array, scale: NormalScores | None, noise: Any) -> Functions:
    """What is compiled of labels with normal noise, on a scale of their own if there is one."""
    seen, log_slope = (_as_they_are, _nothing) if scale is None else (scale, scale.log_slope)

    def target(x: Any, datum: Any) -> tuple[Any, Any]:
        """Residual of the label in standard deviations of the noise."""
        label, omega, root = datum
        residual = (seen(link(omega + root @ x.reshape(omega.shape))) - seen(label)) / jnp.sqrt(noise)
        height = log_slope(label) - 0.5 * len(residual) * jnp.log(2 * np.pi * noise)
        return residual[None], jnp.reshape(height, 1)

    return of_whole_fields(target, link, flips)


def _as_they_are(labels: Any) -> Any:
    return labels


def _nothing(labels: Any) -> float:
    del labels
    return 0.0
