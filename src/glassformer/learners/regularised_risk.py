"""Regularised risk: the learner that minimises a convex loss and a penalty, with its exact theory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_strength
from glassformer.core.settings import Iteration, max_iterations_setting, non_negative, setting, tolerance_setting
from glassformer.learners.base import IN_ANY_FORM, Equations, FitResult, Learner, LearnerInfo

if TYPE_CHECKING:
    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.empirical_risk import EmpiricalRisk
    from glassformer.learners.proximal_message_passing import ProximalState
    from glassformer.risk.loss_base import Loss
    from glassformer.risk.penalties import MatrixPenalty, Penalty
    from glassformer.risk.rows.one_row_penalties import WeightPenalty

# Singular values below this share of the largest one, or of one, are rounding errors.
_ROUNDING = 1e-9


def parse_loss(name: str, text: str) -> Any:
    """Return a loss from its text: its name, or the function FILE.py:FUNCTION."""
    del name
    if ":" not in text:
        return text
    from glassformer.models.registry import function_from

    return function_from(text, blamed="loss")


@dataclass(frozen=True)
class RegularisedRisk(Learner):
    r"""The minimiser of :math:`\sum_\mu\ell(y_\mu, h_\mu) + \lambda\,p(S)`, with its exact theory.

    Equation :eq:`regularised-risk` of the documentation.

    Args:
        loss: ``"square"`` (:math:`(y-h)^2/2`), ``"logistic"``, ``"hinge"`` (labels +1 and -1), ``"huber"``,
            ``"cross-entropy"`` (hardmax labels, and softmax labels without noise, of attention-indexed models), a loss
            of :mod:`glassformer.risk.losses`, or a function of one label and one field, convex in the latter,
            that JAX can differentiate. For linear labels of attention-indexed models losses are summed over components,
            :math:`y_{aa}/\sqrt2` and :math:`y_{ab}`.
        penalty: ``"nuclear"`` (:math:`(dL)^{1/4}\|S\|_*`), ``"ridge"`` (:math:`\|S\|_F^2/2`), ``"elastic"`` (half of
            each); for attention-indexed models ``"trace"`` (:math:`d\,\mathrm{Tr}\,S` of positive ``S``, with
            :math:`\frac14\|Y_\mu - h_\mu\|_F^2` for square loss): weight decay on factors of full width. ``"pinned"``
            is for linear labels that are not centred: their mean determines the trace of ``S``, which is fixed to the
            teacher's.
        strength: :math:`\lambda\ge 0`, 0 for the interpolator of least norm (square loss); None for the best by
            theory: least error, for labels that are right or wrong largest cosine (for signs, least label error). No
            effect, and None, where the trace is pinned.
        tolerance: duality gap at which a solution is accepted, relative to the risk of an estimate of zero.
        max_iterations: steps allowed.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
        >>> RegularisedRisk("logistic", strength=0.3).limits(model, [2.0])["label_error"].round(8)
        array([0.1251383])
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="risk",
        title="regularised risk",
        family="convex",
        papers=("erba2025nuclear",),
        storages=IN_ANY_FORM,
        limit_settings=("loss", "penalty", "strength"),
        trajectory_settings=("loss", "penalty", "strength"),
    )

    loss: Any = parameter(
        "square, logistic, hinge, huber, cross-entropy (hardmax and softmax labels), or FILE.py:FUNCTION, convex in "
        "the second argument. Its file is run",
        "square",
        read=parse_loss,
    )
    penalty: str = setting(
        "nuclear", "nuclear, ridge or elastic; trace, or pinned (trace known), for positive matrices"
    )
    strength: float | None = parameter(
        "weight of the regulariser, or best (default the best one)", None, read=parse_strength, check=non_negative
    )
    tolerance: float = tolerance_setting()
    max_iterations: int = max_iterations_setting(5000)

    def __post_init__(self) -> None:
        super().__post_init__()
        from glassformer.risk.losses import loss_of
        from glassformer.risk.rows.one_row_penalties import WEIGHT_PENALTIES

        # Unknown names raise.
        _ = loss_of(self.loss) if self.penalty in WEIGHT_PENALTIES else self.minimised

    @property
    def minimised(self) -> tuple[Loss, MatrixPenalty, float | None]:
        """Loss, penalty and strength."""
        from glassformer.risk.losses import loss_of
        from glassformer.risk.penalties import penalty_of

        return loss_of(self.loss), penalty_of(self.penalty), self.strength

    @property
    def minimised_over_row(self) -> tuple[Loss, WeightPenalty, float | None]:
        """Loss, penalty and strength of one row of weights."""
        from glassformer.risk.losses import loss_of
        from glassformer.risk.rows.one_row_penalties import weight_penalty

        return loss_of(self.loss), weight_penalty(self.penalty), self.strength

    def incompatibility(self, model: Any) -> str | None:
        from glassformer.risk.problem import risk_problem
        from glassformer.risk.rows.one_row import one_row_problem

        try:
            if _is_one_row(model):
                one_row_problem(model, *self.minimised_over_row)
            else:
                risk_problem(model, *self.minimised)
        except GlassformerError as error:
            return f"is incompatible with this model: {error}"
        return None

    def completed(self, model: Any) -> Self:
        if self.strength is None and model.theory_unavailable_reason is not None:
            raise IncompatibleError(
                f"the best strength follows from theory, and {model.theory_unavailable_reason}: give a strength"
            )
        return self

    def alternatives(self) -> Iterable[Self]:
        from glassformer.risk.losses import LOSSES
        from glassformer.risk.penalties import PENALTIES

        return (replace(self, loss=loss, penalty=penalty) for loss in LOSSES for penalty in PENALTIES)

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        return self.limits(model, alpha, throw=False)["error"]

    def equations(self, model: Any) -> Equations:
        equations = OneRowEquations if _is_one_row(model) else RiskEquations
        return equations(self, model, risk=self)

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.proximal_gradient import least_risk

        risk = self.empirical_risk(model, data)
        found = least_risk(risk, Iteration(tolerance=self.tolerance, max_iterations=self.max_iterations))
        return FitResult.from_solution(found, **_fit(risk, found.value[0]))

    def empirical_risk(self, model: Any, data: DataSet) -> EmpiricalRisk:
        """Return the risk on a data set."""
        import numpy as np

        from glassformer.learners.empirical_risk import EmpiricalRisk
        from glassformer.risk.problem import risk_problem

        problem, prior, design = risk_problem(model, *self.minimised), model.prior, data.design
        penalty, strength, trace = problem.penalty, self.strength, None
        if penalty.pinned:
            known = prior.mean(design.signal_shape) if data.teacher is None else data.teacher
            strength, trace = 0.0, float(np.trace(known))
        elif strength is None:
            self.completed(model)
            ratio = design.sample_ratio * prior.degrees
            strength = float(self.limits(model, [ratio], throw=False)["strength"][0])
        if strength == 0 and trace is None:
            raise IncompatibleError(f"strength = 0 of penalty {self.penalty} on data: {_without_penalty(penalty)}")
        rows, columns = design.signal_shape
        weight = strength / prior.degrees
        spectral = weight * penalty.spectral * (1.0 if penalty.positive else float(rows * columns) ** 0.25)
        y = problem.labels.targets(data.labels)
        return EmpiricalRisk(design, y, problem.loss, spectral, weight * penalty.square, penalty.positive, trace)


def _is_one_row(model: Any) -> bool:
    """Return whether the model has one row of weights, and one token."""
    return bool(model.overlap_shape) and (model.channel.rows, model.channel.columns) == (1, 1)


def _without_penalty(penalty: Penalty) -> str:
    """Return the remedy for a strength of zero."""
    if penalty.positive or (penalty.spectral > 0 and penalty.square > 0):
        return "no solver is available for the interpolator; give strength > 0"
    name = "nuclear-norm" if penalty.spectral > 0 else "ridge"
    return f"use --algorithm {name} --strength 0, or give strength > 0"


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
class RiskLimits(Equations):
    """Limits of the minimiser of a regularised risk.

    Attributes:
        risk: loss, penalty and strength.
    """

    risk: RegularisedRisk

    def limits(self, alpha: Any, throw: bool = True) -> Table:
        from glassformer.risk.limits import risk_limits

        return self._labelled(risk_limits(self.model, alpha, *self.risk.minimised, throw))

    def thresholds(self) -> Thresholds:
        from glassformer.risk.thresholds import risk_thresholds

        found: Thresholds = self._labelled(risk_thresholds(self.model, *self.risk.minimised))
        return found

    def branches(self, alpha: Any) -> Table:
        from glassformer.bayes_optimal.hysteresis import one_branch

        return self._labelled(one_branch(self.limits(alpha, throw=False)))

    def _labelled(self, found: Any) -> Any:
        """Return a result with learner, loss, penalty and strength among its parameters."""
        loss, _, strength = self.risk.minimised
        own = {"loss": loss.name, "penalty": self.risk.penalty, "strength": "best" if strength is None else strength}
        return replace(found, parameters={**found.parameters, "learner": self.learner.name, **own})


@dataclass(frozen=True, kw_only=True)
class OneRowEquations(RiskLimits):
    """Limits of the minimiser over one row of weights."""

    def limits(self, alpha: Any, throw: bool = True) -> Table:
        from glassformer.risk.rows.one_row import one_row_limits

        return self._labelled(one_row_limits(self.model, alpha, *self.risk.minimised_over_row, throw))

    def thresholds(self) -> Thresholds:
        raise IncompatibleError("thresholds of one row are not computed: use limits at the ratios of interest")

    def display_columns(self, table: Table) -> list[str]:
        best_strength = ["strength"] if self.risk.strength is None else []
        names = ("label_error", "prediction_error", *best_strength, "cosine")
        return [name for name in names if name in table.columns]

    def _labelled(self, found: Any) -> Any:
        loss, _, strength = self.risk.minimised_over_row
        own = {"loss": loss.name, "penalty": self.risk.penalty, "strength": "best" if strength is None else strength}
        return replace(found, parameters={**found.parameters, "learner": self.learner.name, **own})


@dataclass(frozen=True, kw_only=True)
class RiskEquations(RiskLimits):
    """Limits of the minimiser, and the trajectory of proximal message passing to it."""

    def display_columns(self, table: Table) -> list[str]:
        best_strength = ["strength"] if self.risk.strength is None else []
        return [name for name in ("label_error", *best_strength, "cosine", "rank") if name in table.columns]

    def trajectory(self, alpha: Array, steps: int, overlap: Any = None) -> Table | str:
        from glassformer.risk.trajectory import risk_trajectory

        if overlap is not None:
            return (
                f"overlap = {overlap:g} is available for gamp and online-sgd only: the steps of risk start at an "
                "estimate of zero"
            )
        return self._labelled(risk_trajectory(self.model, alpha, *self.risk.minimised, steps))

    def simulated(self, steps: int, overlap: float | None = None) -> Learner:
        del overlap
        own = {one.name: getattr(self.risk, one.name) for one in fields(self.risk)}
        return ProximalMessagePassing(**{**own, "max_iterations": steps})


@dataclass(frozen=True)
class ProximalMessagePassing(RegularisedRisk):
    r"""The minimiser of a regularised risk, by message passing without damping instead of descent.

    Equation :eq:`proximal-message-passing` of the documentation.

    The algorithm is that of :mod:`~glassformer.learners.proximal_message_passing`, and its error after each step is
    that of :func:`~glassformer.risk.trajectory.risk_trajectory`. If it converges, it does so to the minimiser.
    :func:`~glassformer.experiments.trajectories.follow` runs it beside the theory of :class:`RegularisedRisk`.

    Args:
        loss, penalty, strength: see :class:`~glassformer.RegularisedRisk`.
        tolerance: without effect.
        max_iterations: steps.

    Raises:
        ParameterError: an argument is out of range.

    Source: derived here; for sparse vectors Donoho, Maleki and Montanari, arXiv:0907.3574.

    Example:
        >>> from glassformer import BilinearSequenceRegression, RegularisedRisk, simulate
        >>> model, ask = BilinearSequenceRegression(rho=0.3, noise=0.1), {"d": 20, "instances": 1}
        >>> learners = RegularisedRisk(strength=0.2, tolerance=1e-9), ProximalMessagePassing(strength=0.2)
        >>> one, other = (simulate(model, [1.0], algorithm=learner, **ask)["error"][0] for learner in learners)
        >>> bool(abs(one - other) < 1e-4)
        True
    """

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.data_set import ErrorHistory
        from glassformer.learners.message_passing import message_passing
        from glassformer.learners.proximal_message_passing import ProximalStep, status_of_steps
        from glassformer.risk.trajectory import START_SUSCEPTIBILITY

        errors = ErrorHistory(model, data.teacher)

        def watch(state: ProximalState) -> None:
            if not state.first:
                errors.append(state.estimate)

        step = ProximalStep(self.empirical_risk(model, data), START_SUSCEPTIBILITY * float(model.prior.second_moment))
        run = message_passing(step, self.max_iterations, damping=0.0, watch=watch)
        history = errors.entries()
        if not history and data.teacher is not None:
            reason = f"loss {step.risk.loss.name} is linear around an estimate of zero"
            raise IncompatibleError(f"{reason}, so that message passing has no first step: use theory only, without d")
        return FitResult(
            run.state.estimate[None],
            status=status_of_steps(run.status, run.step_sizes),
            iterations=len(run.step_sizes),
            residual=run.state.step_size,
            history=history,
            **_fit(step.risk, run.state.estimate),
        )


class SquareLossLearner(Learner):
    """The minimiser of square loss and a penalty, on labels that are one linear functional of the signal each."""

    penalty: ClassVar[str]
    """Name of the penalty in :class:`RegularisedRisk`."""
    strength: float | None

    @abstractmethod
    def strength_for(self, model: Any) -> float | None:
        """Return the strength on labels of this model; None for the best one at each sample ratio."""

    @abstractmethod
    def fit(self, model: Any, data: DataSet) -> Solution:
        """Return the minimiser."""

    def incompatibility(self, model: Any) -> str | None:
        if model.channel.field_components:
            return f"fits one linear label per sample, not the labels of this model ({model.name})"
        if not model.channel.linear:
            return f"fits linear labels, not those of channel {model.channel.label}"
        return None

    def equations(self, model: Any) -> Equations:
        return RiskLimits(self, model, risk=RegularisedRisk("square", self.penalty, self.strength_for(model)))

    def learn(self, model: Any, data: DataSet) -> FitResult:
        found = self.fit(model, data)
        fields = data.design.forward(found.value[0], 0)
        return FitResult.from_solution(found, training_error=float(((fields - data.labels) ** 2).mean()))


def strength_by_noise() -> Any:
    """Return the setting ``strength`` whose default is the best one for the label noise."""
    text = "weight of the regulariser, or best (default the best one for the label noise)"
    return parameter(text, None, read=parse_strength, check=non_negative)
