r"""Labels that are the hidden state of a sample: the class of a Gaussian mixture. Everything is in closed form.

With the shift :math:`s_y` of the class ``y`` the score is :math:`g = s_y`, whatever is known, and

.. math::
   \log Z_{out}(y, \omega, V) = \log\pi_y + \langle s_y, \omega\rangle + \tfrac12\langle s_y, Vs_y\rangle
   - \tfrac12|s_y|^2, \qquad E\sum_lg_lg_l^T = \sum_h\pi_hs_hs_h^T.

For two classes at :math:`\pm\sqrt\nu` on one row :math:`q = \alpha\nu/(1 + \alpha\nu)`, and the share of wrong labels
is :math:`\Phi(-\sqrt{\nu q})`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.special import entr, ndtr

from glassformer.channels.base import Channel, Inference
from glassformer.channels.field_averages import Averages, FieldPosterior, Response, Scores, Slopes
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.channels.sampled_error_bars import REPLICAS, mean_of_replicas
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array, Estimate
from glassformer.inputs.hidden_states import HiddenStates, Indices
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points

# Share of the largest mean square of the shifts below which a direction is not seen.
_ROUNDING = 1e-9
# Points per replica on which wrong labels of more than two classes are counted.
_DECISIONS = 4096


@dataclass(frozen=True, eq=False)
class ClassChannel(Channel):
    r"""Labels that are the class of a mixture.

    Args:
        states: the classes: probabilities, shifts of the fields, and labels.

    Example:
        >>> classes = HiddenStates(np.full(2, 0.5), np.array([[[-1.0]], [[1.0]]]), np.array([-1.0, 1.0]))
        >>> ClassChannel(classes).inference.information(np.array([[[0.5]]])).value.tolist()
        [[[1.0]]]
    """

    states: HiddenStates

    @cached_property
    def fields(self) -> Fields:
        return Fields(self.states.shifts.shape[1:], states=self.states)

    @cached_property
    def labels(self) -> Labels:
        size = len(self.states.square)
        values, vectors = np.linalg.eigh(self.states.square)
        seen = vectors[:, values > _ROUNDING * values[-1]]
        nothing = np.eye(size)[None]
        symmetries = RowSymmetries(nothing, nothing, seen @ seen.T)
        return Labels(discrete=True, classes=self.states.count > 2, symmetries=symmetries)

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        return self.states.labels[self.states.draw_given(fields, rng.random(len(fields)))]

    def likeliest_label(self, mean: Array, variance: Array) -> Array:
        """Return the most probable classes; for known fields classes drawn given the fields, always the same."""
        if not np.any(variance):
            return self.sample(mean, np.random.default_rng(0))
        return self.states.labels[np.argmax(self.states.log_weights(mean, variance), axis=1)]

    def of_label(self, y: Array) -> Indices:
        """Return the numbers of the classes.

        Raises:
            DataError: a label is none of the classes.
        """
        distance = np.abs(np.asarray(y, dtype=float).reshape(-1, 1) - self.states.labels)
        if np.any(distance.min(axis=1) > _ROUNDING * (1 + np.abs(self.states.labels).max())):
            raise DataError("y", "<labels>", f"classes among {self.states.labels.tolist()}")
        return np.asarray(np.argmin(distance, axis=1))

    @property
    def inference(self) -> Inference:
        return ClassInference(self)


@dataclass(frozen=True, eq=False)
class ClassInference(Inference):
    """Inference from classes, without any integration."""

    channel: ClassChannel

    sampled: ClassVar[bool] = False
    smallest: ClassVar[float] = 1e-14

    @property
    def points(self) -> int:
        return _DECISIONS

    def with_points(self, points: int) -> Self:
        """Return the same, since averages are not sampled."""
        del points
        return self

    @property
    def _states(self) -> HiddenStates:
        return self.channel.states

    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        score = self._states.shifts[self.channel.of_label(y)]
        return Scores(score, score, np.broadcast_to(self._states.square, (len(y), *self._states.square.shape)))

    def log_partitions(self, y: Array, omega: Array, variance: Array) -> Array:
        weights = self._states.log_weights(omega, variance)
        return np.take_along_axis(weights, self.channel.of_label(y)[:, None], axis=1)[:, 0]

    def sample_given(self, fields: Array, states: Indices, rng: np.random.Generator) -> Array:
        return self._states.labels[states]

    def noiseless_labels(self, fields: Array, state: int, decisions: bool) -> Array:
        del decisions
        return np.full(len(fields), self._states.labels[state])

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        return (FieldPosterior(*self.scores(y, omega, variance), self.log_partitions(y, omega, variance)),)

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        nothing = np.zeros((len(y), *self.channel.fields.shape, *self.channel.fields.shape))
        return [(nothing, nothing)]

    @property
    def sources(self) -> int:
        return 1

    def labels_from(self, fields: Array, source: Array, rng: np.random.Generator) -> Array:
        del rng
        return self._states.labels[self._states.draw_given(fields, ndtr(source[:, 0]))]

    def information(self, variance: Array) -> Estimate:
        value = np.broadcast_to(self._states.square, (len(variance), *self._states.square.shape))
        return Estimate(value.copy(), np.zeros_like(value))

    def averages(self, variance: Array) -> Averages:
        found = self.information(variance)
        # E <s, omega> = <s, Q s>, so that the square of the shift is divided into halves of known and unknown.
        overlap = self.channel.fields.self_overlap - variance
        log_partition = 0.5 * np.einsum("bpq,qp->b", overlap, self._states.square) - np.sum(
            entr(self._states.probabilities)
        )
        exact = Estimate(log_partition, np.zeros_like(log_partition))
        return Averages(found, exact, found.value[:, None], 0.0, np.zeros_like(found.value))

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        size = len(variance) ** 2
        return self.averages(variance[None]), np.zeros((size, size))

    def response(self, variance: Array, known: int = 0, wider: Array | None = None) -> Response:
        """Return vanishing slopes: the score of a class is always the same."""
        count = REPLICAS * (self.points - known)
        nothing = np.zeros((count, *self.channel.fields.shape, *self.channel.fields.shape))
        return Response(nothing, nothing, nothing, np.ones(count), REPLICAS)

    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        del last_layer
        if self._states.count == 2:
            value = np.array([self._two_classes(np.asarray(v)) for v in variance])
            return {"label_error": value, "label_standard_error": np.zeros_like(value)}
        if not decisions:
            return {}
        value, error = mean_of_replicas(np.array([self._counted(np.asarray(v)) for v in variance]))
        return {"label_error": value, "label_standard_error": error}

    def _two_classes(self, v: Array) -> float:
        """Return the share of wrong labels of two classes: the difference of their log-weights is normal."""
        overlap, shifts = self.channel.fields.self_overlap - v, self._states.shifts
        difference = shifts[1] - shifts[0]
        spread = np.sqrt(max(float(np.sum(difference * (overlap @ difference))), 0.0))
        weights = self._states.log_weights(overlap @ shifts, v)
        margin = (weights[:, 1] - weights[:, 0]) * np.array([-1.0, 1.0])
        with np.errstate(divide="ignore", invalid="ignore"):
            wrong = np.where(spread > 0, ndtr(-margin / spread), margin < 0)
        # Without any overlap both classes may be equally probable: the first one is predicted.
        undecided = (spread == 0) & (margin == 0)
        return float(self._states.probabilities @ np.where(undecided, [0.0, 1.0], wrong))

    def _counted(self, v: Array) -> Array:
        """Return the share of wrong labels in each replica."""
        states, size = self._states, int(np.prod(self.channel.fields.shape))
        points = normal_points(1 + size, _DECISIONS, REPLICAS).reshape(-1, 1 + size)
        hidden, overlap = states.draw(ndtr(points[:, 0])), self.channel.fields.self_overlap - v
        normal = points[:, 1:].reshape(-1, *self.channel.fields.shape)
        mean = overlap @ states.shifts[hidden] + square_root(overlap) @ normal
        wrong = np.argmax(states.log_weights(mean, v), axis=1) != hidden
        return np.asarray(np.mean(wrong.reshape(REPLICAS, -1), axis=1))
