"""A problem of regularised risk of rows: teacher, student, penalty, and one step of its state evolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.risk.penalty_base import Penalty
from glassformer.risk.rows.averages import LabelSampler, NearbyMinima, OrderState, RowAverages
from glassformer.risk.rows.student import Student
from glassformer.risk.rows.weights import RowConjugates, RowOrder, weight_order


class RowStep(NamedTuple):
    """One step of state evolution: averages, conjugate parameters and the new order parameters."""

    averages: RowAverages
    conjugates: RowConjugates
    order: RowOrder
    state: OrderState


@dataclass(frozen=True)
class RowProblem:
    r"""Minimise :math:`\sum_\mu\ell(y_\mu, Z_\mu) + \lambda\sum_ir(w_i)` on the labels of a model of rows.

    Attributes:
        sampler: teacher, student and labels.
        penalty: of the weights of one feature.
        alpha: samples over dimension.
        strength: :math:`\lambda > 0`.
        gram: inner products of the positional encodings of the tokens, shape (L, L); zeros without.
        has_intercept: whether a number is fitted that is added to every output.
    """

    sampler: LabelSampler
    penalty: Penalty
    alpha: float
    strength: float
    gram: tuple[tuple[float, ...], ...]
    has_intercept: bool

    @property
    def model(self) -> Any:
        """Model of the teacher."""
        return self.sampler.model

    @property
    def student(self) -> Student:
        """Prediction and loss."""
        return self.sampler.student

    @property
    def sets(self) -> int:
        """Number of sets of samples."""
        return self.sampler.sets

    @cached_property
    def outputs(self) -> int:
        """Numbers that the student predicts."""
        return int(self.student.predictions(np.zeros((1, self.student.rows, self.student.tokens))).shape[1])

    @cached_property
    def count(self) -> float:
        """Samples per degree of freedom of a row."""
        return float(self.alpha / self.model.prior.degrees)

    @cached_property
    def block(self) -> Array:
        """One for pairs of the student's rows, then of student's and teacher's rows, that see the same coordinates.

        Zero for others; shape (P, P + P*). Row ``k`` sees the coordinates of head ``k mod heads``.
        """
        rows, heads = np.arange(self.student.rows), round(1 / float(self.model.prior.degrees))
        others = np.concatenate([rows, np.arange(self.model.prior.rows)])
        return np.asarray((rows[:, None] - others) % heads == 0, dtype=float)

    def at(self, alpha: float, strength: float | None = None) -> RowProblem:
        """Return the problem on the same labels at another sample ratio, and another strength if given."""
        return replace(self, alpha=float(alpha), strength=self.strength if strength is None else float(strength))

    def with_sets(self, sets: int) -> RowProblem:
        """Return the same problem with the first sets of samples alone, for a search."""
        return replace(self, sampler=self.sampler.with_sets(sets))

    def step(self, state: OrderState, near: NearbyMinima | None = None) -> RowStep:
        """Return averages at a state, and the state that they lead to; ``near`` as for the averages."""
        return self.from_averages(state, self.sampler.averages(state, near=near))

    def from_averages(self, state: OrderState, averages: RowAverages, number: int | None = None) -> RowStep:
        """Return the state that averages lead to; with the number of a set, by weights sampled for this set alone."""
        mean = averages.mean
        block, cross = np.split(self.block, [self.student.rows], axis=1)
        v_hat = -self.count * 0.5 * (mean.slope + mean.slope.T)
        conjugates = RowConjugates(
            q_hat=self.count * mean.score_square * block,
            m_hat=self.count * (mean.score_true - mean.slope @ state.overlap) * cross,
            v_hat=v_hat * block,
            mean_hat=self.count * mean.score_mean,
        )
        order = weight_order(self.penalty, self.model.prior, self.strength, conjugates, np.array(self.gram), number)
        intercept = state.intercept
        if self.has_intercept:
            # A step of gradient descent on the loss, whose curvature per sample is about one.
            intercept = intercept - mean.output_slope
        new = OrderState(order.power, order.overlap, order.susceptibility, order.means, intercept)
        return RowStep(averages, conjugates, order, new)

    def stability(self, step: RowStep) -> float:
        r"""Return the replicon's radius: below one replica symmetry is stable.

        It is the spectral radius of :math:`dQ \mapsto \alpha E\sum_{ll'}D_{ll'}\,E[J\,dQ\,J^T]\,D_{ll'}^T`.
        """
        slopes = self.count * step.averages.mean.slope_square @ step.order.response_square
        return float(np.max(np.abs(np.linalg.eigvals(slopes))))

    def free_energy(self, step: RowStep) -> float:
        r"""Return the minimum of the risk over ``d``: :math:`\alpha E\ell(y, \hat Z) + \lambda E\,r(w)`."""
        degrees = float(self.model.prior.degrees)
        return degrees * (self.count * float(step.averages.mean.training_loss) + self.strength * step.order.penalty)
