r"""Any function of several projections with label noise of any law, by importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from glassformer.channels.label_laws import LabelLaw, law_gap
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.latent_functions import Family, Functions
from glassformer.channels.multi_index.link_rows import LinkRowsChannel, of_whole_fields
from glassformer.core.estimate import Array
from glassformer.numerics.quasi_random import normal_points

# Shares of the values of the link below those at which a law is looked at.
_USUAL = (0.02, 0.25, 0.5, 0.75, 0.98)


@dataclass(frozen=True, eq=False)
class LikelihoodRowsChannel(LinkRowsChannel):
    r"""Labels of the law :math:`p(y\mid g(Z))`, independent for every entry of the label.

    Args:
        law: of one entry.
        effort: work of the sampling per data point.
        points: data points per replica of the averages.
    """

    law: LabelLaw
    effort: Effort = field(default=Effort(points=128, starts=8, steps=12), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @property
    def rank(self) -> float:
        return 0.0

    @property
    def sources(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @cached_property
    def label_noise(self) -> float:
        points = normal_points(self.rows * self.columns).reshape(-1, *self.field_components)
        return float(np.mean(np.sum(self.law.variance(super().label_from(points, points)).reshape(len(points), -1), 1)))

    @cached_property
    def law_gap(self) -> float:
        """Of the law, at values of the link that are usual."""
        points = normal_points(self.rows * self.columns).reshape(-1, *self.field_components)
        return max(law_gap(self.law, x) for x in np.quantile(super().label_from(points, points), _USUAL).tolist())

    @cached_property
    def family(self) -> Family:
        return Family(partial(_functions, self.link, self.law, self.symmetries))

    def label_from(self, fields: Array, source: Array) -> Array:
        """Labels; those of sources that are zero are means, without noise."""
        link = super().label_from(fields, source)
        draws = source.reshape(link.shape)
        return np.where(draws == 0, self.law.mean(link), self.law.quantile(link, ndtr(draws)))


def _functions(link: Callable[[Any], Any], law: LabelLaw, flips: Array) -> Functions:
    def target(x: Any, datum: Any) -> tuple[Any, Any]:
        """No residuals: the likelihood is a weight."""
        label, omega, root = datum
        weight = jnp.sum(law.log_density(label, link(omega + root @ x.reshape(omega.shape))))
        return jnp.zeros((1, 1)), weight[None]

    return of_whole_fields(target, link, flips)
