r"""One number with little noise, or with noise on a link that jumps: the noise is one more row of fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from glassformer.channels.multi_index.conditionally_linear import (
    ConditionallyLinearChannel,
    rows_of_linear_labels,
)
from glassformer.channels.multi_index.importance_sampling import Effort, PosteriorMoments
from glassformer.channels.multi_index.line_channel import LineChannel
from glassformer.channels.multi_index.link_rows import IntegratedRowsChannel, NoisyLinkRowsChannel
from glassformer.core.estimate import Array

# Lines per axis and half, half of those without noise, which have one axis less; for low accuracy as well, because
# compiling for another number of lines takes longer than these lines (by trial).
_LINES_WITH_NOISE = 32
# Sampled places of labels that are linear in the noise given the other rows, for each line: they take less time.
_PLACES_WITH_NOISE = 2


@dataclass(frozen=True, eq=False)
class NoisyLineChannel(NoisyLinkRowsChannel):
    r""":math:`y = g(Z) + \sqrt\Delta\,\xi`, one number, with little noise or a link that jumps.

    The noise is a further row of fields, with prior and posterior variance one, of a link without noise. Lines cross
    the shell around the level set of :math:`g`, which importance sampling covers only with many latents; if :math:`g`
    is linear in some rows and piecewise constant in the others, so is this link.
    """

    refinement_factor = LineChannel.refinement_factor

    effort: Effort = field(default=Effort(points=_LINES_WITH_NOISE, starts=1, steps=1), kw_only=True)

    @cached_property
    def _noiseless(self) -> IntegratedRowsChannel:
        link, atoms = partial(_with_noise, self.link, float(np.sqrt(self.noise))), 0.0
        rows = (self.indices + 1, self.tokens, self.shape, self.symmetric)
        linear = rows_of_linear_labels(link, self.indices + 1, self.tokens)
        if linear:
            effort = replace(self.effort, points=_PLACES_WITH_NOISE * self.effort.points)
            return ConditionallyLinearChannel(link, *rows, linear, effort=effort, points=self.points)
        return LineChannel(link, *rows, atoms, effort=self.effort, points=self.points)

    def moments(self, y: Array, omega: Array, root: Array) -> PosteriorMoments:
        omega, root = (np.pad(part, [(0, 0), (0, 1), (0, more)]) for part, more in ((omega, 0), (root, 1)))
        root[:, -1, -1] = 1.0
        return _first_latents(self._noiseless.moments(y, omega, root), self.latents)


def _with_noise(link: Callable[[Any], Any], deviation: float, fields: jax.Array) -> jax.Array:
    return link(fields[:-1]) + deviation * fields[-1, 0]


def _first_latents(moments: PosteriorMoments, size: int) -> PosteriorMoments:
    """Return the moments of the first latents alone."""
    few = slice(size)
    return moments._replace(
        first=moments.first[:, few],
        second=moments.second[:, few],
        covariance=moments.covariance[:, few, few],
        first_square=moments.first_square[:, few, few],
        second_square=moments.second_square[:, few, few],
        fewer=tuple(_first_latents(part, size) for part in moments.fewer),
    )
