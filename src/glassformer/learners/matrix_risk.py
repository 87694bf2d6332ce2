"""Regularised risk of one matrix: its theory, and its minimiser on data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import IncompatibleError
from glassformer.learners.base import FitResult, Learner, SpectralMap, StepContext, Theory
from glassformer.learners.gamp import refuse_overlap
from glassformer.learners.signal_risk import SignalRisk, SignalTheory

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.settings import Iteration
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.empirical_risk import EmpiricalRisk
    from glassformer.models.base import Model
    from glassformer.risk.loss_base import Loss
    from glassformer.risk.penalty_base import Penalty
    from glassformer.risk.problem import RiskProblem

# Singular values below this share of the largest one, or of one, are rounding errors.
_ROUNDING = 1e-9
# Rate of the descent of narrow factors, at which training at d = 40 agreed with slower descent, and its steps for every
# step of the convex minimisation.
_DESCENT_RATE, _DESCENT_STEPS = 0.02, 4


@dataclass(frozen=True)
class MatrixRisk(SignalRisk):
    """A regularised risk of one matrix.

    Attributes:
        loss: of a label and a field.
        penalty: of singular values or eigenvalues.
        strength: of the penalty; None for the best one.
        student_rho: width of the student over the token dimension; None for full width.
    """

    loss: Loss
    penalty: Penalty
    strength: float | None
    student_rho: float | None = None

    def problem(self, model: Model) -> RiskProblem:
        """Return the problem on the labels of a model.

        Raises:
            IncompatibleError: model and risk do not go together.
        """
        from glassformer.risk.problem import risk_problem

        return risk_problem(model, self.loss, self.penalty, self.strength, self.student_rho)

    @property
    def pinned(self) -> bool:
        return bool(self.penalty.pinned)

    def theory(
        self, learner: Learner, model: Model, by_message_passing: Callable[[int, float | None], Learner]
    ) -> SignalTheory:
        return MatrixRiskTheory(learner, model, risk=self, by_message_passing=by_message_passing)

    def on_data(self, model: Model, data: DataSet, strength: float) -> EmpiricalRisk:
        """Return the risk on a data set, at a strength unless the trace is pinned."""
        import numpy as np

        from glassformer.learners.empirical_risk import EmpiricalRisk

        problem, prior, design = self.problem(model), model.prior, data.design
        penalty, trace = self.penalty, None
        if penalty.pinned:
            known = prior.mean(design.signal_shape) if data.teacher is None else data.teacher
            strength, trace = 0.0, float(np.trace(known))
        elif strength == 0:
            raise IncompatibleError(f"strength = 0 of penalty {penalty.name} on data: {_without_penalty(problem)}")
        rows, columns = design.signal_shape
        own = penalty.times(strength / prior.degrees, 1.0 if problem.positive else float(rows * columns) ** 0.25)
        y = problem.labels.targets(data.labels)
        return EmpiricalRisk(design, y, problem.loss, own, problem.positive, trace)

    def fit(self, model: Model, data: DataSet, strength: float, settings: Iteration) -> FitResult:
        from glassformer.learners.proximal_gradient import least_risk

        if self.student_rho is not None:
            return self._descend(model, data, strength, settings)
        risk = self.on_data(model, data, strength)
        found = least_risk(risk, settings)
        return FitResult.from_solution(found, **_fit(risk, found.value[0]))

    def _descend(self, model: Model, data: DataSet, strength: float, settings: Iteration) -> FitResult:
        """Return the product of factors of the student's width after descent with weight decay."""
        from glassformer.learners.gradient_descent import GradientDescent

        convex = model.parametrisation.convex
        if convex is None or not self.loss.quadratic:
            raise IncompatibleError(
                f"student_rho = {self.student_rho} on data is for square loss of linear labels: use learner gd with "
                "student_width and weight_decay"
            )
        own = GradientDescent("adam", _DESCENT_RATE, student_width=self.student_rho, explore=0)
        shape = data.design.signal_shape
        width = own.width_at(shape[1]) or 1
        decay = self.on_data(model, data, strength).penalty.kink / convex.weight(width, shape)
        return own.varied(weight_decay=decay, steps=_DESCENT_STEPS * settings.max_iterations).learn(model, data)

    def pass_messages(
        self, model: Model, data: DataSet, strength: float, steps: int, overlap: float | None
    ) -> FitResult:
        del overlap
        from glassformer.learners.proximal_message_passing import ProximalStep, take_undamped_steps
        from glassformer.risk.trajectory import START_SUSCEPTIBILITY

        start = START_SUSCEPTIBILITY * self.problem(model).power
        step = ProximalStep(self.on_data(model, data, strength), start)
        last, report = take_undamped_steps(step, steps, lambda state: data.errors_of(model, state.estimate))
        if not report["history"] and data.teacher is not None:
            reason = f"loss {step.risk.loss.name} is linear around an estimate of zero"
            raise IncompatibleError(f"{reason}, so that message passing has no first step: use theory only, without d")
        return FitResult(last.estimate[None], **{**report, **_fit(step.risk, last.estimate)})


def _without_penalty(problem: RiskProblem) -> str:
    """Return the remedy for a strength of zero."""
    if problem.positive or not (problem.penalty.is_norm or problem.penalty.quadratic):
        return "no solver is available for the interpolator; give strength > 0"
    name = "nuclear-norm" if problem.penalty.is_norm else "ridge"
    return f"use learner {name} with strength 0, or give strength > 0"


def _fit(risk: EmpiricalRisk, estimate: Array) -> dict[str, float | None]:
    """Return errors on the training samples, and the rank."""
    import numpy as np

    from glassformer.numerics.decompositions import singular_values

    fitted, y = risk.design.forward(estimate, 0), risk.labels
    values = singular_values(estimate)
    return {
        "training_error": float(np.mean((fitted - y) ** 2)) if y.shape == fitted.shape else None,
        "training_loss": float(np.sum(risk.loss.value(y, fitted)) / len(y)),
        "rank": float(np.mean(values > _ROUNDING * max(1.0, float(values[0])))),
    }


@dataclass(frozen=True, kw_only=True)
class RiskTheory(Theory):
    """Limits of the minimiser of a regularised risk of one matrix.

    Attributes:
        risk: loss, penalty and strength.
    """

    risk: MatrixRisk

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        from glassformer.risk.limits import risk_limits

        risk = self.risk
        ask = (risk.loss, risk.penalty, risk.strength)
        return self._labelled(risk_limits(self.model, alpha, *ask, throw, risk.student_rho))

    def thresholds(self) -> Thresholds:
        from glassformer.risk.thresholds import risk_thresholds

        risk = self.risk
        found: Thresholds = self._labelled(risk_thresholds(self.model, risk.loss, risk.penalty, risk.strength))
        return found

    def spectral_map(self, limit: Table) -> SpectralMap:
        penalty, prior = self.risk.penalty, self.model.matrix_prior
        if penalty.parts is None and not penalty.pinned:
            raise IncompatibleError(
                f"no law of the singular values is known for the own penalty {penalty.name}: use ridge, nuclear, trace "
                "or elastic, or simulate with keep = singular_values"
            )
        # Singular values are positive; of symmetric matrices the estimate drops the negative eigenvalues.
        whole = penalty.quadratic and not prior.symmetric
        threshold = 0.0 if whole else float(limit["threshold"][0])
        rank = 1.0 if self.risk.student_rho is None else float(limit["rank"][0])
        return SpectralMap(float(limit["effective_noise"][0]), threshold, float(limit["power"][0]), rank)

    def hysteresis(self, alpha: ArrayLike) -> Table:
        from glassformer.bayes_optimal.hysteresis import one_branch

        return self._labelled(one_branch(self.limits(alpha)))

    def _labelled(self, found: Any) -> Any:
        """Return a result with learner, loss, penalty and strength among its parameters."""
        strength = "best" if self.risk.strength is None else self.risk.strength
        own = {"loss": self.risk.loss.name, "penalty": self.risk.penalty.name, "strength": strength}
        if self.risk.student_rho is not None:
            own["student_rho"] = self.risk.student_rho
        return self.labelled(found, **own)


@dataclass(frozen=True, kw_only=True)
class MatrixRiskTheory(RiskTheory, SignalTheory):
    """Limits of the minimiser, and the trajectory of proximal message passing to it."""

    def require(self) -> None:
        self.risk.problem(self.model)

    def display_columns(self, table: Table) -> list[str]:
        best_strength = ["strength"] if self.risk.strength is None else []
        return table.known_columns(("label_error", *best_strength, "cosine", "rank"))

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.risk.trajectory import risk_trajectory

        refuse_overlap(self.learner.name, context)
        risk = self.risk
        if risk.student_rho is not None:
            raise IncompatibleError("student_rho has no message passing step by step: leave it out, or use limits")
        return self._labelled(risk_trajectory(self.model, alpha, risk.loss, risk.penalty, risk.strength, context.steps))
