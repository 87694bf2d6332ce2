"""Regularised risk: the learner that minimises a loss and a penalty, with its theory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import real_numbers
from glassformer.core.errors import GlassformerError, IncompatibleError, ParameterError
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_grid, parse_strength, parse_text
from glassformer.core.results import name_or_value
from glassformer.core.settings import (
    Iteration,
    boolean,
    non_negative,
    positive_integer,
    setting,
)
from glassformer.learners.base import IN_ANY_FORM, FitResult, Learner, LearnerInfo, StepContext, Theory
from glassformer.learners.descent import refuse_side_information
from glassformer.learners.gamp import refuse_overlap
from glassformer.models.base import require_theory

if TYPE_CHECKING:
    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.empirical_risk import EmpiricalRisk
    from glassformer.risk.loss_base import Loss
    from glassformer.risk.penalties import MatrixPenalty, Penalty
    from glassformer.risk.rows.limits import RowRisk
    from glassformer.risk.rows.one_row_penalties import WeightPenalty

# Settings that only models of rows have.
_OF_ROWS = ("student", "student_rows", "intercept", "positions", "branch")
# Branches by name; those from random or zero weights are for data alone.
_BRANCHES_OF_THEORY = ("informed", "uninformed", "positional")
_BRANCHES = (*_BRANCHES_OF_THEORY, "random", "zero")
# Singular values below this share of the largest one, or of one, are rounding errors.
_ROUNDING = 1e-9


def _is_pair(branch: Any) -> bool:
    """Return whether a branch is given by a pair of matrices."""
    return isinstance(branch, tuple | list) and len(branch) == 2 and not any(isinstance(part, str) for part in branch)


def parse_function(name: str, text: str) -> Any:
    """Return a loss or a student from its text: its name, or the function FILE.py:FUNCTION."""
    if ":" not in text:
        return text
    from glassformer.core.user_functions import function_from

    return function_from(text, blamed=name)


def student_choice(name: str, value: Any, optional: bool = True) -> None:
    """Raise unless a value names a student, or is one."""
    del optional
    if value is not None and value != "linear" and not callable(value):
        allowed = "linear, FILE.py:FUNCTION, or a function of the student's fields Z of shape (P, L)"
        raise ParameterError(name, value, allowed)


@dataclass(frozen=True)
class RegularisedRisk(Learner):
    r"""The minimiser of :math:`\sum_\mu\ell(y_\mu, h_\mu) + \lambda\,p(S)`, with its exact theory.

    Equation :eq:`regularised-risk` of the documentation. Models of rows (smi, attention) have the risk
    :math:`\sum_\mu\ell(y_\mu, s(Z_\mu)) + \lambda\sum_i r(w_i)` of a student :math:`s` with fields
    :math:`Z = WX^T/\sqrt d` and the ``P`` weights :math:`w_i` of feature ``i``, equation :eq:`row-risk`. Their theory
    is exact where the risk is convex, and replica symmetric otherwise.

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
            teacher's. For models of rows ``"ridge"`` (:math:`|w|^2/2`, the default), ``"lasso"`` (:math:`\sum_k|w_k|`),
            ``"elastic"`` (half of each), ``"group"`` (:math:`|w|`).
        strength: :math:`\lambda\ge 0`, 0 for the interpolator of least norm (square loss); None for the best by
            theory: least error, for labels that are right or wrong largest cosine (for signs, least label error). No
            effect, and None, where the trace is pinned.
        student: smi and attention only, equation :eq:`row-risk`: a function of the student's fields ``Z``,
            shape (P, L), to its prediction, which JAX can differentiate; ``"linear"``; None for one linear row where
            labels are +1 and -1 of one index or a loss of one's own sees labels of one field, a linear row per class
            with cross-entropy, and the teacher's own link otherwise. The link of another model is
            ``other.traceable_label``: attention of another skip strength or depth, for instance.
        student_rows: ``P``; None for the usual number.
        intercept: whether a number is added to every output of the student, and fitted.
        positions: components of the positional encodings that are added to the tokens the student sees, shape (L,) or
            (L, r), in units in which a token has norm :math:`\sqrt d`.
        branch: which minimum is followed, by the start of the search for fixed points and of descent on data: None for
            all, of which the one of least risk counts, ``"informed"``, ``"uninformed"``, ``"positional"``, or a pair
            of matrices ``M`` and ``Q``; on data also ``"random"`` and ``"zero"``, or several names in a comma list.

    The ``tolerance`` of an :class:`~glassformer.Accuracy` is the duality gap at which a fit is accepted, 1e-6, relative
    to the risk of an estimate of zero, or to a hundred times the penalty of the estimate if that is less; at most
    ``max_iterations`` steps are taken, 5000.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from glassformer import BilinearSequenceRegression, limits
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")
        >>> limits(model, [2.0], RegularisedRisk("logistic", strength=0.3))["label_error"].round(8)
        array([0.1251383])
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="risk",
        title="regularised risk",
        family="convex",
        papers=(
            "erba2025nuclear",
            "salehi2019impact",
            "sur2019modern",
            "aubin2020generalization",
            "thrampoulidis2018precise",
            "donoho2005neighborliness",
            "loureiro2021learning",
            "cornacchia2023learning",
            "cui2024phase",
        ),
        storages=IN_ANY_FORM,
        limit_settings=("loss", "penalty", "strength", *_OF_ROWS),
        trajectory_settings=("loss", "penalty", "strength", *_OF_ROWS),
    )

    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"tolerance": 1e-6, "max_iterations": 5000}

    loss: Any = parameter(
        "square, logistic, hinge, huber, cross-entropy (hardmax and softmax labels), or FILE.py:FUNCTION, convex in "
        "the second argument. Its file is run",
        "square",
        read=parse_function,
    )
    penalty: str | None = setting(
        None,
        "nuclear (default), ridge or elastic; trace, or pinned (trace known), for positive matrices; smi and "
        "attention: ridge (default), lasso, elastic or group",
    )
    strength: float | None = parameter(
        "weight of the regulariser, or best (default the best one)", None, read=parse_strength, check=non_negative
    )
    student: Any = parameter(
        "smi and attention only: the student, FILE.py:FUNCTION of its fields Z of shape (P, L), or linear "
        "(default: the usual one for the labels). Its file is run",
        None,
        read=parse_function,
        check=student_choice,
        metavar="FILE.py:FUNCTION",
    )
    student_rows: int | None = setting(None, "smi and attention only: rows P of the student", positive_integer)
    intercept: bool = setting(
        False, "smi and attention only: fit an intercept, added to every output of the student", boolean
    )
    positions: Any = parameter(
        "smi and attention only: positional encoding of each token, a comma list", None, read=parse_grid
    )
    branch: Any = parameter(
        "smi and attention only: minimum that is followed, informed, uninformed or positional (default: the one of "
        "lowest risk)",
        None,
        read=parse_text,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        from glassformer.risk.losses import loss_of
        from glassformer.risk.penalties import PENALTIES
        from glassformer.risk.rows.penalties import ROW_PENALTIES

        # Unknown names raise.
        loss_of(self.loss, convex=self.student is None)
        allowed = list(dict.fromkeys([*PENALTIES, *ROW_PENALTIES]))
        if self.penalty is not None and self.penalty not in allowed:
            raise ParameterError("penalty", self.penalty, f"one of {', '.join(allowed)}")
        self._check_row_settings()

    def _check_row_settings(self) -> None:
        """Raise if a setting of models of rows has no meaning for any model."""
        if self.positions is not None:
            components = real_numbers("positions", self.positions)
            if isinstance(self.positions, bool) or components.ndim not in (1, 2) or not components.size:
                raise ParameterError("positions", self.positions, "numbers of shape (L,) or (L, r), one row per token")
            if not isinstance(self.positions, list | tuple):
                # Settings are compared with each other, which arrays cannot.
                object.__setattr__(self, "positions", components.tolist())
        if isinstance(self.branch, str):
            unknown = [name for name in self.branch.split(",") if name.strip() not in _BRANCHES]
        else:
            unknown = [] if self.branch is None or _is_pair(self.branch) else [self.branch]
        if unknown:
            allowed = f"None, one of {', '.join(_BRANCHES)}, or a pair of matrices M and Q"
            raise ParameterError("branch", self.branch, allowed)

    @property
    def row_risk(self) -> RowRisk:
        """The risk of a model of rows."""
        from glassformer.risk.rows.limits import RowRisk

        return RowRisk(
            loss=self.loss,
            penalty=self.penalty or "ridge",
            strength=self.strength,
            student=self.student,
            student_rows=self.student_rows,
            intercept=self.intercept,
            positions=self.positions,
            branch=tuple(self.branch) if _is_pair(self.branch) else self.branch,
        )

    @property
    def penalty_name(self) -> str:
        """Penalty on a matrix."""
        return self.penalty or "nuclear"

    @property
    def minimised(self) -> tuple[Loss, MatrixPenalty, float | None]:
        """Loss, penalty and strength."""
        from glassformer.risk.losses import loss_of
        from glassformer.risk.penalties import penalty_of

        given = [name for name in _OF_ROWS if getattr(self, name) not in (None, False)]
        if given:
            raise IncompatibleError(f"{given[0]} is a setting for smi and attention only: leave it out")
        return loss_of(self.loss), penalty_of(self.penalty_name), self.strength

    @property
    def minimised_over_row(self) -> tuple[Loss, WeightPenalty, float | None, bool]:
        """Loss, penalty and strength of one row of weights, and whether an intercept is fitted."""
        from glassformer.risk.losses import loss_of
        from glassformer.risk.rows.one_row_penalties import weight_penalty

        return loss_of(self.loss), weight_penalty(self.penalty or "ridge"), self.strength, self.intercept

    def check(self, model: Any) -> None:
        from glassformer.risk.problem import risk_problem

        try:
            if model.overlap_shape:
                self._row_theory(model).require()
            else:
                risk_problem(model, *self.minimised)
        except GlassformerError as error:
            raise IncompatibleError(f"is incompatible with this model: {error}") from error

    def completed(self, model: Any) -> Self:
        if self.strength is None and model.theory_unavailable_reason is not None:
            raise IncompatibleError(
                f"the best strength follows from theory, and {model.theory_unavailable_reason}: give a strength"
            )
        return self

    def alternatives(self) -> Iterable[Self]:
        from glassformer.risk.losses import LOSSES
        from glassformer.risk.penalties import PENALTIES

        return (replace(self, loss=loss, penalty=penalty) for loss in LOSSES for penalty in (None, *PENALTIES))

    def theory(self, model: Any) -> Theory:
        return self._row_theory(model) if model.overlap_shape else MatrixRiskTheory(self, model, risk=self)

    def _row_theory(self, model: Any) -> RowTheory:
        try:
            refuse_side_information(model)
        except IncompatibleError as error:
            raise IncompatibleError(f"regularised risk {error}; leave it out, or use learner gamp") from None
        equations = OneRowTheory if self.is_one_linear_row(model) else RowTheory
        return equations(self, model, risk=self)

    def margins(self, model: Any, alpha: float) -> Table:
        """Return quantiles of the margins on training and new samples, for models of rows with labels of classes.

        Args:
            model: of rows.
            alpha: sample ratio.

        Raises:
            IncompatibleError: labels have no margin, or the strength is open; see
                :func:`~glassformer.risk.rows.margins.row_risk_margins`.
        """
        from glassformer.risk.rows.margins import row_risk_margins

        self._row_theory(model).require()
        return row_risk_margins(model, alpha, self.row_risk)

    def is_one_linear_row(self, model: Any) -> bool:
        """Return whether the student is one linear row that sees one token: its averages are deterministic."""
        if (model.channel.rows, model.channel.columns) != (1, 1) or self.penalty == "group":
            return False
        if self.positions is not None or self.branch is not None or callable(self.student):
            return False
        if getattr(self.loss, "name", self.loss) == "cross-entropy":
            # Cross-entropy has one row per class.
            return False
        if self.student == "linear":
            return self.student_rows in (None, 1)
        from glassformer.risk.rows.one_row_labels import has_identity_link

        signs = set(getattr(model.channel, "values", None) or ()) == {-1.0, 1.0}
        return (signs or callable(self.loss) or has_identity_link(model)) and self.student_rows in (None, 1)

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.proximal_gradient import least_risk

        settings = Iteration(**{name: self.accurate(name) for name in self.accuracy_defaults})
        if model.overlap_shape:
            from glassformer.learners.row_fit import learn_rows

            own = replace(self.row_risk, strength=self._strength_on(model, data))
            return learn_rows(own, model, data, settings)

        risk = self.empirical_risk(model, data)
        found = least_risk(risk, settings)
        return FitResult.from_solution(found, **_fit(risk, found.value[0]))

    def _strength_on(self, model: Any, data: DataSet) -> float:
        """Return the strength on a data set: where none is given the best one of theory."""
        if self.strength is not None:
            return float(self.strength)
        self.completed(model)
        ratio = data.design.sample_ratio * model.prior.degrees
        return float(self.theory(model).limits([ratio])["strength"][0])

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
        else:
            strength = self._strength_on(model, data)
        if strength == 0 and trace is None:
            raise IncompatibleError(f"strength = 0 of penalty {self.penalty_name} on data: {_without_penalty(penalty)}")
        rows, columns = design.signal_shape
        weight = strength / prior.degrees
        spectral = weight * penalty.spectral * (1.0 if penalty.positive else float(rows * columns) ** 0.25)
        y = problem.labels.targets(data.labels)
        return EmpiricalRisk(design, y, problem.loss, spectral, weight * penalty.square, penalty.positive, trace)


def _without_penalty(penalty: Penalty) -> str:
    """Return the remedy for a strength of zero."""
    if penalty.positive or (penalty.spectral > 0 and penalty.square > 0):
        return "no solver is available for the interpolator; give strength > 0"
    name = "nuclear-norm" if penalty.spectral > 0 else "ridge"
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
    """Limits of the minimiser of a regularised risk.

    Attributes:
        risk: loss, penalty and strength.
    """

    risk: RegularisedRisk

    def limits(self, alpha: Any, throw: bool = False) -> Table:
        from glassformer.risk.limits import risk_limits

        return self._labelled(risk_limits(self.model, alpha, *self.risk.minimised, throw))

    def thresholds(self) -> Thresholds:
        from glassformer.risk.thresholds import risk_thresholds

        found: Thresholds = self._labelled(risk_thresholds(self.model, *self.risk.minimised))
        return found

    def hysteresis(self, alpha: Any) -> Table:
        from glassformer.bayes_optimal.hysteresis import one_branch

        return self._labelled(one_branch(self.limits(alpha)))

    def _labelled(self, found: Any) -> Any:
        """Return a result with learner, loss, penalty and strength among its parameters."""
        loss, _, strength = self.risk.minimised
        own = {
            "loss": loss.name,
            "penalty": self.risk.penalty_name,
            "strength": "best" if strength is None else strength,
        }
        return replace(found, parameters={**found.parameters, "learner": self.learner.name, **own})


@dataclass(frozen=True, kw_only=True)
class RowTheory(RiskTheory):
    """Limits of the minimiser over the rows of a student, by averages over sampled labels."""

    def require(self) -> None:
        """Raise unless model and risk go together."""
        require_theory(self.model)
        self.risk.row_risk.problem(self.model, 1.0, self.risk.strength or 1.0)

    def limits(self, alpha: Any, throw: bool = False) -> Table:
        from glassformer.risk.rows.limits import row_risk_limits

        require_theory(self.model)
        return self._labelled(row_risk_limits(self.model, alpha, self.risk.row_risk, throw))

    def thresholds(self) -> Thresholds:
        from glassformer.core.progress import progress
        from glassformer.risk.rows.thresholds import row_risk_thresholds

        require_theory(self.model)
        with progress(f"thresholds {self.model.name}"):
            found: Thresholds = self._labelled(row_risk_thresholds(self.model, self.risk.row_risk))
        return found

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        # Branches of descent on data that theory does not have lead to one of its minima, of which the lowest counts.
        branch = self.risk.branch
        known = not isinstance(branch, str) or branch in _BRANCHES_OF_THEORY
        own = replace(self, risk=replace(self.risk, branch=branch if known else None))
        return super(RowTheory, own).of_runs(alpha, optimum)

    @property
    def other_minima(self) -> str:
        risk = self.risk
        if risk.branch == "informed" or risk.row_risk.problem(self.model, 1.0, risk.strength or 1.0).student.is_convex:
            return ""
        return (
            "the risk is not convex, and descent may end above its minimum: compare free_energy with that of the "
            "limits, or start at the teacher (branch informed)"
        )

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.risk.rows.trajectory import require_steps, row_risk_trajectory

        own, strengths = self.risk.row_risk, self._strengths(alpha)
        require_steps(own)
        return self._labelled(row_risk_trajectory(self.model, alpha, own, strengths, context.steps, context.overlap))

    def _strengths(self, alpha: Array) -> Array:
        """Return the strength at every sample ratio, the best one where none is given."""
        import numpy as np

        if self.risk.strength is None:
            return np.asarray(self.limits(alpha)["strength"])
        return np.full(len(alpha), float(self.risk.strength))

    def simulated(self, context: StepContext) -> Learner:
        return _steps_of(self.risk, context.steps, context.overlap)

    def hysteresis(self, alpha: Any) -> Table:
        from glassformer.risk.rows.limits import row_risk_branches

        require_theory(self.model)
        return self._labelled(row_risk_branches(self.model, alpha, self.risk.row_risk))

    def display_columns(self, table: Table) -> list[str]:
        best_strength = ["strength"] if self.risk.strength is None else []
        return table.known_columns(("label_error", "prediction_error", *best_strength, "cosine", "free_energy"))

    def _labelled(self, found: Any) -> Any:
        own, strength = self.risk.row_risk, self.risk.strength
        asked = {
            "loss": name_or_value(own.loss),
            "penalty": own.penalty,
            "strength": "best" if strength is None else strength,
        }
        settings = {name: getattr(own, name) for name in _OF_ROWS}
        optional = {name: name_or_value(value) for name, value in settings.items() if value not in (None, False)}
        return replace(found, parameters={**found.parameters, "learner": self.learner.name, **asked, **optional})


@dataclass(frozen=True, kw_only=True)
class OneRowTheory(RowTheory):
    """Limits of the minimiser over one linear row of weights that sees one token, by quadrature."""

    def require(self) -> None:
        from glassformer.risk.rows.one_row import one_row_problem

        require_theory(self.model)
        one_row_problem(self.model, *self.risk.minimised_over_row)

    def limits(self, alpha: Any, throw: bool = False) -> Table:
        from glassformer.risk.rows.one_row import one_row_limits

        return self._labelled(one_row_limits(self.model, alpha, *self.risk.minimised_over_row, throw=throw))

    def hysteresis(self, alpha: Any) -> Table:
        return RiskTheory.hysteresis(self, alpha)

    def thresholds(self) -> Thresholds:
        from glassformer.risk.rows.one_row import one_row_problem
        from glassformer.risk.thresholds import thresholds_of

        problem = one_row_problem(self.model, *self.risk.minimised_over_row)
        found: Thresholds = self._labelled(thresholds_of(problem, self.risk.strength))
        return found

    @property
    def other_minima(self) -> str:
        return ""

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.risk.rows.one_row import one_row_problem
        from glassformer.risk.trajectory import steps_of

        refuse_overlap(self.learner.name, context)
        problem = one_row_problem(self.model, *self.risk.minimised_over_row)
        return self._labelled(steps_of(problem, alpha, self.risk.strength, context.steps))


@dataclass(frozen=True, kw_only=True)
class MatrixRiskTheory(RiskTheory):
    """Limits of the minimiser, and the trajectory of proximal message passing to it."""

    def display_columns(self, table: Table) -> list[str]:
        best_strength = ["strength"] if self.risk.strength is None else []
        return table.known_columns(("label_error", *best_strength, "cosine", "rank"))

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.risk.trajectory import risk_trajectory

        refuse_overlap(self.learner.name, context)
        return self._labelled(risk_trajectory(self.model, alpha, *self.risk.minimised, context.steps))

    def simulated(self, context: StepContext) -> Learner:
        return _steps_of(self.risk, context.steps, None)


def _steps_of(risk: RegularisedRisk, steps: int, overlap: float | None) -> ProximalMessagePassing:
    """Return message passing to the minimiser of a risk."""
    own = {one.name: getattr(risk, one.name) for one in fields(RegularisedRisk)}
    return ProximalMessagePassing(**own, overlap=overlap).at_accuracy(Accuracy(max_iterations=steps))


@dataclass(frozen=True)
class ProximalMessagePassing(RegularisedRisk):
    r"""The minimiser of a regularised risk, by message passing without damping instead of descent.

    Equation :eq:`proximal-message-passing` of the documentation.

    The algorithm is that of :mod:`~glassformer.learners.proximal_message_passing`, and its error after each step is
    that of :func:`~glassformer.risk.trajectory.risk_trajectory`. If it converges, it does so to the minimiser.
    :func:`~glassformer.trajectory` compares it with the theory of :class:`RegularisedRisk`.

    Args:
        loss, penalty, strength: see :class:`~glassformer.RegularisedRisk`.
        overlap: smi and attention only: overlap with the teacher before the first step; None for weights of zero if the
            risk is convex, and for 0.99 otherwise.

    Raises:
        ParameterError: an argument is out of range.

    Source: derived here; for sparse vectors Donoho, Maleki and Montanari, arXiv:0907.3574.

    Example:
        >>> from glassformer import BilinearSequenceRegression, RegularisedRisk, simulate
        >>> model, ask = BilinearSequenceRegression(rho=0.3, noise=0.1), {"d": 20, "instances": 1}
        >>> learners = RegularisedRisk(strength=0.2), ProximalMessagePassing(strength=0.2)
        >>> one, other = (simulate(model, [1.0], learner=learner, **ask)["error"][0] for learner in learners)
        >>> bool(abs(one - other) < 1e-4)
        True
    """

    overlap: float | None = None

    def learn(self, model: Any, data: DataSet) -> FitResult:
        if model.overlap_shape:
            from glassformer.learners.row_message_passing import pass_row_messages

            strength, steps = self._strength_on(model, data), self.accurate("max_iterations")
            return pass_row_messages(self.row_risk, strength, model, data, steps, self.overlap)
        from glassformer.learners.proximal_message_passing import ProximalStep, take_undamped_steps
        from glassformer.risk.trajectory import START_SUSCEPTIBILITY

        step = ProximalStep(self.empirical_risk(model, data), START_SUSCEPTIBILITY * float(model.prior.second_moment))
        last, report = take_undamped_steps(
            step, self.accurate("max_iterations"), lambda state: data.errors_of(model, state.estimate)
        )
        if not report["history"] and data.teacher is not None:
            reason = f"loss {step.risk.loss.name} is linear around an estimate of zero"
            raise IncompatibleError(f"{reason}, so that message passing has no first step: use theory only, without d")
        return FitResult(last.estimate[None], **{**report, **_fit(step.risk, last.estimate)})


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

    def check(self, model: Any) -> None:
        if model.channel.field_components:
            raise IncompatibleError(f"fits one linear label per sample, not the labels of this model ({model.name})")
        if not model.channel.linear:
            raise IncompatibleError(f"fits linear labels, not those of channel {model.channel.label}")

    def risk(self, model: Any) -> RegularisedRisk:
        """Return the risk that is minimised on labels of a model.

        Raises:
            IncompatibleError: the strength is to follow from the noise of labels that are not linear.
        """
        if self.strength is None and not model.channel.linear:
            raise IncompatibleError(
                f"learner {self.name} has no best strength for labels of channel {model.channel.label}: give a "
                f"strength, or use learner risk with loss square and penalty {self.penalty}, which finds it"
            )
        return RegularisedRisk("square", self.penalty, self.strength_for(model))

    def learn(self, model: Any, data: DataSet) -> FitResult:
        found = self.fit(model, data)
        fields = data.design.forward(found.value[0], 0)
        return FitResult.from_solution(found, training_error=float(((fields - data.labels) ** 2).mean()))


def strength_by_noise() -> Any:
    """Return the setting ``strength`` whose default is the best one for the label noise."""
    text = "weight of the regulariser, or best (default the best one for the label noise)"
    return parameter(text, None, read=parse_strength, check=non_negative)
