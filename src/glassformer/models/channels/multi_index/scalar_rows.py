"""A scalar channel as one of a single projection: exact averages instead of sampled ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from glassformer.core.integral import Array, Integral
from glassformer.models.channels.base import Channel
from glassformer.models.channels.multi_index.base import Averages, FieldPosterior, MultiIndexChannel


@dataclass(frozen=True, eq=False)
class ScalarRowsChannel(MultiIndexChannel):
    """A channel of one row and one column, from the scalar channel of the same labels.

    Args:
        scalar: the channel; its averages are quadratures.
        clean: labels without noise from an array of fields.
        points: data points per replica of errors on labels, a power of two.

    Example:
        >>> from glassformer.models.channels.sign import SignChannel
        >>> ScalarRowsChannel(SignChannel(), np.sign).field_components
        (1, 1)
    """

    scalar: Channel
    clean: Callable[[Array], Array]
    points: int = field(default=2048, kw_only=True)

    @property
    def label(self) -> str:
        return self.scalar.label

    @property
    def rows(self) -> int:
        return 1

    @property
    def columns(self) -> int:
        return 1

    @property
    def label_shape(self) -> tuple[int, ...]:
        return ()

    @property
    def rank(self) -> float:
        return self.scalar.rank

    @property
    def label_noise(self) -> float:
        return self.scalar.label_noise

    @property
    def exact(self) -> bool:
        return True

    @property
    def symmetries(self) -> Array:
        return np.array([[1.0], [-1.0]]) if self.scalar.even else np.ones((1, 1))

    def with_points(self, points: int) -> Self:
        """Itself: nothing here is sampled."""
        del points
        return self

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        return self.scalar.sample(fields[:, 0, 0], rng)

    def label_from(self, fields: Array, source: Array) -> Array:
        """Labels without their noise."""
        del source
        return self.clean(fields[:, 0, 0])

    def slopes(self, y: Array, omega: Array, variance: Array) -> tuple[Array, Array]:
        slope = -self.scalar.curvature(y, omega[:, 0, 0], variance[:, 0, 0])
        both = slope.reshape(-1, 1, 1, 1, 1)
        return both, both

    def posterior(self, y: Array, omega: Array, variance: Array) -> FieldPosterior:
        mean, v = omega[:, 0, 0], variance[:, 0, 0]
        score, slope = self.scalar.score_and_curvature(y, mean, v)
        both = score[:, None, None]
        return FieldPosterior(both, both, slope[:, None, None], self.scalar.log_partition(y, mean, v))

    def averages(self, variance: Array) -> Averages:
        v = np.ravel(variance)
        information, expected = self.scalar.information(v), self.scalar.expected_log_partition(v)
        shaped = Integral(*(part.reshape(-1, 1, 1) for part in information))
        return Averages(shaped, expected)
