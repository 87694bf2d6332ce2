"""Regularised risk: the learner that minimises a loss and a penalty, with its theory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import real_numbers
from glassformer.core.errors import GlassformerError, IncompatibleError, ParameterError
from glassformer.core.frozen import set_fields
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_grid, parse_strength, parse_text
from glassformer.core.settings import (
    Iteration,
    boolean,
    non_negative,
    positive,
    positive_integer,
    setting,
)
from glassformer.learners.base import IN_ANY_FORM, FitResult, Learner, LearnerInfo
from glassformer.learners.rows_risk import BRANCHES_OF_THEORY, RowsRisk
from glassformer.learners.signal_risk import SignalRisk, SignalTheory
from glassformer.risk.penalty_base import Penalty

if TYPE_CHECKING:
    from glassformer.core.results import Table
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.matrix_risk import MatrixRisk
    from glassformer.models.base import Model
    from glassformer.risk.rows.row_risk import RowRisk

# Settings that only models of rows have.
_OF_ROWS = ("student", "student_rows", "intercept", "positions", "branch")
# Settings that only models of one matrix have.
_OF_MATRIX = ("student_rho",)
# Branches by name; those from random or zero weights are for data alone.
_BRANCHES = (*BRANCHES_OF_THEORY, "random", "zero")


def _is_pair(branch: Any) -> bool:
    """Return whether a branch is given by a pair of matrices."""
    return isinstance(branch, tuple | list) and len(branch) == 2 and not any(isinstance(part, str) for part in branch)


def parse_function(name: str, text: str) -> Any:
    """Return a loss or a student from its text: its name, or the function FILE.py:FUNCTION."""
    if ":" not in text:
        return text
    from glassformer.core.link_parsing import function_from

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
            theory: least error, for labels that are right or wrong largest cosine (for signs, least label error). With
            an intercept of one linear row least label error. No effect, and None, where the trace is pinned.
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
        student_rho: bsr and aim only, with the penalty nuclear or trace: width of the student over ``d``. The estimate
            is a product of factors of this width with weight decay. Below the rank of the minimum at full width the
            problem is not convex, and the theory is replica symmetric, a heuristic; on data factors descend from a
            random start (square loss of linear labels). None for full width.

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
        limit_settings=("loss", "penalty", "strength", *_OF_ROWS, *_OF_MATRIX),
        trajectory_settings=("loss", "penalty", "strength", *_OF_ROWS),
    )

    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"tolerance": 1e-6, "max_iterations": 5000}

    loss: Any = parameter(
        "square, logistic, hinge, huber, cross-entropy (hardmax and softmax labels), or FILE.py:FUNCTION, convex in "
        "the second argument. Its file is run",
        "square",
        read=parse_function,
    )
    penalty: str | Penalty | None = parameter(
        "nuclear (default), ridge or elastic; trace, or pinned (trace known), for positive matrices; smi and "
        "attention: ridge (default), lasso, elastic or group",
        None,
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

    student_rho: float | None = setting(
        None, "bsr and aim only: width of the student over d (default full width)", positive
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        from glassformer.risk.losses import loss_of
        from glassformer.risk.penalties import penalty_of

        # Unknown names raise.
        loss_of(self.loss, convex=self.student is None)
        if self.penalty is not None:
            penalty_of(self.penalty)
        self._check_row_settings()

    def _check_row_settings(self) -> None:
        """Raise if a setting of models of rows has no meaning for any model."""
        if self.positions is not None:
            components = real_numbers("positions", self.positions)
            if isinstance(self.positions, bool) or components.ndim not in (1, 2) or not components.size:
                raise ParameterError("positions", self.positions, "numbers of shape (L,) or (L, r), one row per token")
            if not isinstance(self.positions, list | tuple):
                # Settings are compared with each other, which arrays cannot.
                set_fields(self, positions=components.tolist())
        if isinstance(self.branch, str):
            unknown = [name for name in self.branch.split(",") if name.strip() not in _BRANCHES]
        else:
            unknown = [] if self.branch is None or _is_pair(self.branch) else [self.branch]
        if unknown:
            allowed = f"None, one of {', '.join(_BRANCHES)}, or a pair of matrices M and Q"
            raise ParameterError("branch", self.branch, allowed)

    @property
    def of_rows(self) -> RowRisk:
        """The risk of a model of rows."""
        from glassformer.risk.rows.row_risk import RowRisk

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
    def of_matrix(self) -> MatrixRisk:
        """The risk of a model of one matrix.

        Raises:
            ParameterError: the loss or the penalty is not for matrices.
            IncompatibleError: a setting is for models of rows.
        """
        from glassformer.learners.matrix_risk import MatrixRisk
        from glassformer.risk.losses import loss_of
        from glassformer.risk.penalties import penalty_of
        from glassformer.risk.penalty_base import MATRICES, POSITIVE_MATRICES

        given = [name for name in _OF_ROWS if getattr(self, name) not in (None, False)]
        if given:
            raise IncompatibleError(f"{given[0]} is a setting for smi and attention only: leave it out")
        penalty = penalty_of(self.penalty or "nuclear", MATRICES, POSITIVE_MATRICES)
        return MatrixRisk(loss_of(self.loss), penalty, self.strength, self.student_rho)

    def on(self, model: Model) -> SignalRisk:
        """Return the risk of the signals of a model: of rows, or of one matrix."""
        if model.overlap_shape and self.student_rho is not None:
            raise IncompatibleError(f"student_rho = {self.student_rho} is a setting for bsr and aim only: leave it out")
        return RowsRisk(self.of_rows) if model.overlap_shape else self.of_matrix

    def check(self, model: Model) -> None:
        try:
            self.theory(model).require()
        except GlassformerError as error:
            raise IncompatibleError(f"is incompatible with this model: {error}") from error

    def completed(self, model: Model) -> Self:
        if self.strength is None and model.theory_unavailable_reason is not None:
            raise IncompatibleError(
                f"the best strength follows from theory, and {model.theory_unavailable_reason}: give a strength"
            )
        return self

    def alternatives(self) -> Iterable[Self]:
        from glassformer.risk.losses import LOSSES
        from glassformer.risk.penalties import PENALTIES

        return (replace(self, loss=loss, penalty=penalty) for loss in LOSSES for penalty in (None, *PENALTIES))

    def theory(self, model: Model) -> SignalTheory:
        return self.on(model).theory(self, model, self._by_message_passing)

    def _by_message_passing(self, steps: int, overlap: float | None) -> ProximalMessagePassing:
        """Return message passing to the minimiser."""
        own = {one.name: getattr(self, one.name) for one in fields(RegularisedRisk)}
        return ProximalMessagePassing(**own, overlap=overlap).at_accuracy(Accuracy(max_iterations=steps))

    def margins(self, model: Model, alpha: float) -> Table:
        """Return quantiles of the margins on training and new samples, for models of rows with labels of classes.

        Args:
            model: of rows.
            alpha: sample ratio.

        Raises:
            IncompatibleError: labels have no margin, or the strength is open; see
                :func:`~glassformer.risk.rows.margins.row_risk_margins`.
        """
        from glassformer.risk.rows.margins import row_risk_margins

        RowsRisk(self.of_rows).theory(self, model, self._by_message_passing).require()
        return row_risk_margins(model, alpha, self.of_rows)

    def learn(self, model: Model, data: DataSet) -> FitResult:
        settings = Iteration(**{name: self.accurate(name) for name in self.accuracy_defaults})
        return self.on(model).fit(model, data, self._strength_on(model, data), settings)

    def _strength_on(self, model: Model, data: DataSet) -> float:
        """Return the strength on a data set: where none is given the best one of theory, NaN without any effect."""
        if self.on(model).pinned:
            return float("nan")
        if self.strength is not None:
            return float(self.strength)
        self.completed(model)
        ratio = data.design.sample_ratio * model.prior.degrees
        return float(self.theory(model).limits([ratio])["strength"][0])


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

    def learn(self, model: Model, data: DataSet) -> FitResult:
        strength, steps = self._strength_on(model, data), self.accurate("max_iterations")
        return self.on(model).pass_messages(model, data, strength, steps, self.overlap)
