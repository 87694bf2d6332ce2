"""Regularised risk of a student's rows: its theory, and its minimiser on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import IncompatibleError
from glassformer.core.results import name_or_value
from glassformer.learners.base import FitResult, Learner, StepContext
from glassformer.learners.descent import refuse_side_information
from glassformer.learners.gamp import refuse_overlap
from glassformer.learners.signal_risk import SignalRisk, SignalTheory
from glassformer.models.base import require_theory

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.settings import Iteration
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model
    from glassformer.risk.loss_base import Loss
    from glassformer.risk.penalty_base import Penalty
    from glassformer.risk.rows.one_row import OneRowProblem
    from glassformer.risk.rows.row_risk import RowRisk

# Branches by name that theory has.
BRANCHES_OF_THEORY = ("informed", "uninformed", "positional")
# Settings that tables list where they are given.
_OPTIONAL = ("student", "student_rows", "intercept", "positions", "branch")


@dataclass(frozen=True)
class RowsRisk(SignalRisk):
    """A regularised risk of the rows of a student.

    Attributes:
        risk: the settings that determine its minimum.
    """

    risk: RowRisk

    def theory(
        self, learner: Learner, model: Model, by_message_passing: Callable[[int, float | None], Learner]
    ) -> SignalTheory:
        """Return the theory: by quadrature for one linear row, by sampled averages otherwise."""
        try:
            refuse_side_information(model)
        except IncompatibleError as error:
            raise IncompatibleError(f"regularised risk {error}; leave it out, or use learner gamp") from None
        equations = OneRowTheory if is_one_linear_row(self.risk, model) else RowTheory
        return equations(learner, model, risk=self.risk, by_message_passing=by_message_passing)

    def fit(self, model: Model, data: DataSet, strength: float, settings: Iteration) -> FitResult:
        from glassformer.learners.row_fit import learn_rows

        return learn_rows(replace(self.risk, strength=strength), model, data, settings)

    def pass_messages(
        self, model: Model, data: DataSet, strength: float, steps: int, overlap: float | None
    ) -> FitResult:
        from glassformer.learners.row_message_passing import pass_row_messages

        return pass_row_messages(self.risk, strength, model, data, steps, overlap)


def is_one_linear_row(risk: RowRisk, model: Any) -> bool:
    """Return whether the student is one linear row that sees one token: its averages are deterministic."""
    from glassformer.risk.penalties import penalty_of

    if (model.channel.fields.rows, model.channel.fields.columns) != (1, 1) or not penalty_of(risk.penalty).separable:
        return False
    if model.channel.fields.sources and model.link is not None:
        return False
    if risk.positions is not None or risk.branch is not None or callable(risk.student):
        return False
    if getattr(risk.loss, "name", risk.loss) == "cross-entropy":
        # Cross-entropy has one row per class.
        return False
    if risk.student == "linear":
        return risk.student_rows in (None, 1)
    if model.channel.fields.states is not None:
        return len(model.channel.fields.states.labels) == 2 or callable(risk.loss)
    from glassformer.risk.rows.one_row_labels import has_identity_link

    signs = set(model.channel.labels.values) == {-1.0, 1.0}
    return (signs or callable(risk.loss) or has_identity_link(model)) and risk.student_rows in (None, 1)


@dataclass(frozen=True, kw_only=True)
class RowTheory(SignalTheory):
    """Limits of the minimiser over the rows of a student, by averages over sampled labels.

    Attributes:
        risk: the settings that determine its minimum.
    """

    risk: RowRisk

    def require(self) -> None:
        require_theory(self.model)
        self.risk.problem(self.model, 1.0, self.risk.strength or 1.0)

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        from glassformer.risk.rows.row_risk import row_risk_limits

        require_theory(self.model)
        return self._labelled(row_risk_limits(self.model, alpha, self.risk, throw))

    def thresholds(self) -> Thresholds:
        from glassformer.core.progress import progress
        from glassformer.risk.rows.thresholds import row_risk_thresholds

        require_theory(self.model)
        with progress(f"thresholds {self.model.name}"):
            found: Thresholds = self._labelled(row_risk_thresholds(self.model, self.risk))
        return found

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        # Branches of descent on data that theory does not have lead to one of its minima, of which the lowest counts.
        branch = self.risk.branch
        known = not isinstance(branch, str) or branch in BRANCHES_OF_THEORY
        own = replace(self, risk=replace(self.risk, branch=branch if known else None))
        return super(RowTheory, own).of_runs(alpha, optimum)

    @property
    def other_minima(self) -> str:
        risk = self.risk
        if risk.branch == "informed" or risk.problem(self.model, 1.0, risk.strength or 1.0).student.is_convex:
            return ""
        return (
            "the risk is not convex, and descent may end above its minimum: compare free_energy with that of the "
            "limits, or start at the teacher (branch informed)"
        )

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.risk.rows.trajectory import require_steps, row_risk_trajectory

        own, strengths = self.risk, self._strengths(alpha)
        require_steps(own)
        return self._labelled(row_risk_trajectory(self.model, alpha, own, strengths, context.steps, context.overlap))

    def _strengths(self, alpha: Array) -> Array:
        """Return the strength at every sample ratio, the best one where none is given."""
        import numpy as np

        if self.risk.strength is None:
            return np.asarray(self.limits(alpha)["strength"])
        return np.full(len(alpha), float(self.risk.strength))

    def hysteresis(self, alpha: ArrayLike) -> Table:
        from glassformer.risk.rows.row_risk import row_risk_branches

        require_theory(self.model)
        return self._labelled(row_risk_branches(self.model, alpha, self.risk))

    def display_columns(self, table: Table) -> list[str]:
        best_strength = ["strength"] if self.risk.strength is None else []
        return table.known_columns(("label_error", "prediction_error", *best_strength, "cosine", "free_energy"))

    def _labelled(self, found: Any) -> Any:
        own, strength = self.risk, self.risk.strength
        asked = {
            "loss": name_or_value(own.loss),
            "penalty": name_or_value(own.penalty),
            "strength": "best" if strength is None else strength,
        }
        settings = {name: getattr(own, name) for name in _OPTIONAL}
        optional = {name: name_or_value(value) for name, value in settings.items() if value not in (None, False)}
        return self.labelled(found, **asked, **optional)


@dataclass(frozen=True, kw_only=True)
class OneRowTheory(RowTheory):
    """Limits of the minimiser over one linear row of weights that sees one token, by quadrature."""

    @property
    def _minimised(self) -> tuple[Loss, Penalty, float | None, bool]:
        """Loss, penalty and strength, and whether an intercept is fitted."""
        from glassformer.risk.losses import loss_of
        from glassformer.risk.penalties import penalty_of
        from glassformer.risk.penalty_base import ROWS

        return loss_of(self.risk.loss), penalty_of(self.risk.penalty, ROWS), self.risk.strength, self.risk.intercept

    @property
    def _problem(self) -> OneRowProblem:
        from glassformer.risk.rows.one_row import one_row_problem

        return one_row_problem(self.model, *self._minimised)

    def require(self) -> None:
        require_theory(self.model)
        _ = self._problem

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        from glassformer.risk.rows.one_row import one_row_limits

        return self._labelled(one_row_limits(self.model, alpha, *self._minimised, throw=throw))

    def hysteresis(self, alpha: ArrayLike) -> Table:
        from glassformer.bayes_optimal.hysteresis import one_branch

        return self._labelled(one_branch(self.limits(alpha)))

    def thresholds(self) -> Thresholds:
        from glassformer.risk.thresholds import thresholds_of

        found: Thresholds = self._labelled(thresholds_of(self._problem, self.risk.strength))
        return found

    @property
    def other_minima(self) -> str:
        return ""

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.risk.trajectory import steps_of

        refuse_overlap(self.learner.name, context)
        return self._labelled(steps_of(self._problem, alpha, self.risk.strength, context.steps))
