"""A scalar channel as one of a single row: exact averages instead of sampled ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from glassformer.channels.base import Channel
from glassformer.channels.field_averages import Averages, FieldPosterior, Scores, Slopes
from glassformer.channels.link.contract import has_slope
from glassformer.channels.scalar.base import ScalarChannel
from glassformer.channels.scalar.exponents import Exponents
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate

# Relative step of differences of the information.
_STEP = 1e-4


@dataclass(frozen=True, eq=False)
class ScalarRowsChannel(Channel):
    """A scalar channel seen as the case ``P = 1``; the components of its field are the columns of the row.

    Args:
        scalar: the channel; its averages are quadratures or tables.
        clean: labels without noise from an array of fields, for errors on labels; None where the scalar channel knows
            those errors itself.
        smooth: the same of the fields of one sample, shape (1, 1), as JAX traces it; None where it does not.
        points: data points per replica of errors on labels, a power of two.

    Example:
        >>> from glassformer.channels.scalar.sign import SignChannel
        >>> ScalarRowsChannel(SignChannel()).field_components
        (1, 1)
    """

    scalar: ScalarChannel
    clean: Callable[[Array], Array] | None = None
    smooth: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    points: int = field(default=2048, kw_only=True)

    @property
    def label(self) -> str:
        return self.scalar.label

    @property
    def rows(self) -> int:
        return 1

    @property
    def columns(self) -> int:
        return int(np.prod(self.scalar.field_components, dtype=int))

    @property
    def label_shape(self) -> tuple[int, ...]:
        return self.scalar.label_shape

    @property
    def rank(self) -> float:
        return self.scalar.rank

    @property
    def exponents(self) -> Exponents | None:
        return self.scalar.exponents

    @property
    def sampled(self) -> bool:
        return False

    @property
    def smallest(self) -> float:
        return 1e-14

    @property
    def label_noise(self) -> float:
        return self.scalar.label_noise

    @property
    def law_gap(self) -> float:
        return self.scalar.law_gap

    @property
    def error_unit(self) -> float:
        return self.scalar.error_unit

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        if self.smooth is None or not has_slope(self.smooth, (1, 1)):
            raise IncompatibleError("needs a label of single projections that JAX can differentiate")
        return self.smooth

    @property
    def symmetries(self) -> Array:
        return np.array([[1.0], [-1.0]]) if self.scalar.even else np.ones((1, 1))

    def with_points(self, points: int) -> Self:
        """Itself: nothing here is sampled."""
        del points
        return self

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        return self.scalar.sample(self._fields(fields), rng)

    def label_from(self, fields: Array, source: Array) -> Array:
        """Labels without their noise."""
        del source
        if self.scalar.clean is None:
            raise IncompatibleError(f"channel {self.label} has no labels apart from their noise")
        return np.asarray(self.scalar.clean(self._fields(fields)))

    @property
    def predictable(self) -> bool:
        return self.scalar.clean is not None

    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        """By quadrature, with errors where labels are those of a link of several rows; sampled where there is none."""
        if self.clean is None:
            return {name: np.asarray(value) for name, value in self.scalar.label_error(variance[:, 0, 0]).items()}
        integrals = self.scalar.label_integrals(variance[:, 0, 0])
        if not integrals:
            return super().label_errors(variance, last_layer, decisions)
        found = {"label_noise": np.full(len(variance), self.label_noise)}
        for name, integral in integrals.items():
            found[name], found[name.replace("error", "standard_error")] = integral
        return found

    @property
    def discrete(self) -> bool:
        return self.scalar.discrete

    def truth(self, fields: Array) -> Array:
        return self.scalar.truth(self._fields(fields))

    def decided(self, mean: Array, variance: Array) -> Array:
        return self.scalar.decided(self._fields(mean), float(variance[0, 0]))

    def wrong_labels(self, variance: Array) -> Estimate:
        """By quadrature."""
        wrong = self.scalar.label_error(variance[:, 0, 0])["label_error"]
        return Estimate(wrong, np.zeros_like(wrong))

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        slope = -self.scalar.curvature(y, omega[:, 0, 0], variance[:, 0, 0])
        both = slope.reshape(-1, 1, 1, 1, 1)
        return ((both, both),)

    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        score, slope = self.scalar.score_and_curvature(y, self._fields(omega), float(variance[0, 0]))
        both = score.reshape(omega.shape)
        return Scores(both, both, slope.reshape(-1, 1, 1))

    def log_partition(self, y: Array, omega: Array, variance: Array) -> Array:
        return self.scalar.log_partition(y, self._fields(omega), float(variance[0, 0]))

    def posterior(self, y: Array, omega: Array, variance: Array) -> FieldPosterior:
        mean, v = omega[:, 0, 0], variance[:, 0, 0]
        score, slope = self.scalar.score_and_curvature(y, mean, v)
        both = score[:, None, None]
        return FieldPosterior(both, both, slope[:, None, None], self.scalar.log_partition(y, mean, v))

    def information(self, variance: Array) -> Estimate:
        return Estimate(*(part.reshape(-1, 1, 1) for part in self.scalar.information(np.ravel(variance))))

    def averages(self, variance: Array) -> Averages:
        found = self.information(variance)
        log_partition = self.scalar.expected_log_partition(np.ravel(variance))
        return Averages(found, log_partition, found.value[:, None], 0.0, np.zeros_like(found.value))

    def _fields(self, fields: Array) -> Array:
        return fields.reshape(len(fields), *self.scalar.field_components)

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        """By differences: the information itself is no sampled average."""
        step = 2 * _STEP * float(variance[0, 0])
        most = min(float(variance[0, 0]) * (1 + _STEP), float(self.self_overlap[0, 0]))
        more, less = self.scalar.information(np.array([most - step, most])).value
        return self.averages(variance[None]), np.array([[(more - less) / step]])
