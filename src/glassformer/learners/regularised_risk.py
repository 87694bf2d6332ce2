"""Regularised risk: a convex loss and a penalty, with the theory of what their minimiser reaches."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_strength
from glassformer.core.settings import Iteration, max_iterations_setting, non_negative, setting, tolerance_setting
from glassformer.learners.base import IN_ANY_FORM, FitResult, Learner

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.learners.algorithms.risk import Risk
    from glassformer.learners.data_set import DataSet
    from glassformer.risk.loss_base import Loss
    from glassformer.risk.penalties import Penalty
    from glassformer.state_evolution.thresholds import Thresholds


def loss_from(name: str, text: str) -> Any:
    """A loss as it is written: its name, or the file and the name of a function of one's own."""
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
            that JAX can differentiate. Of linear labels of attention-indexed models losses are summed over components,
            :math:`y_{aa}/\sqrt2` and :math:`y_{ab}`.
        penalty: ``"nuclear"`` (:math:`(dL)^{1/4}\|S\|_*`), ``"ridge"`` (:math:`\|S\|_F^2/2`), ``"elastic"`` (half of
            each); for attention-indexed models ``"trace"`` (:math:`d\,\mathrm{Tr}\,S` of positive ``S``, with
            :math:`\frac14\|Y_\mu - h_\mu\|_F^2` for square loss): weight decay on factors of full width. ``"pinned"``
            is for linear labels that are not centred: they show the trace of ``S``, which is fixed to the teacher's.
        strength: :math:`\lambda\ge 0`, 0 for the interpolator of least norm (square loss); None for the best by
            theory: least error, of labels that are right or wrong largest cosine (for signs, least label error). Of no
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

    title: ClassVar[str] = "regularised risk"
    family: ClassVar[str] = "convex"
    papers: ClassVar[tuple[str, ...]] = ("erba2025nuclear",)
    in_theory: ClassVar[tuple[str, ...]] = ("loss", "penalty", "strength")
    in_trajectory: ClassVar[tuple[str, ...]] = in_theory
    storages: ClassVar[tuple[str, ...]] = IN_ANY_FORM

    loss: Any = parameter(
        "square, logistic, hinge, huber, cross-entropy (hardmax and softmax labels), or FILE.py:FUNCTION, convex in "
        "the second argument. Its file is run",
        "square",
        read=loss_from,
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
        from glassformer.risk.losses import loss_of
        from glassformer.risk.penalties import penalty_of

        super().__post_init__()
        loss_of(self.loss)
        penalty_of(self.penalty)

    def incompatibility(self, model: Any) -> str | None:
        try:
            self._problem(model)
        except GlassformerError as error:
            return f"does not go with this model: {error}"
        return None

    def fitting(self, model: Any) -> Self:
        """Itself, or with the first named loss and penalty that go with a model.

        Example:
            >>> from glassformer import AttentionIndexed
            >>> found = RegularisedRisk().fitting(AttentionIndexed(rho=0.5, channel="softmax"))
            >>> found.loss, found.penalty
            ('cross-entropy', 'trace')
        """
        from glassformer.risk.losses import LOSSES
        from glassformer.risk.penalties import PENALTIES

        others = (replace(self, loss=loss, penalty=penalty) for loss in LOSSES for penalty in PENALTIES)
        return next((one for one in (self, *others) if one.incompatibility(model) is None), self)

    def completed(self, model: Any) -> Self:
        self._require_strength(model)
        return self

    def _require_strength(self, model: Any) -> None:
        """Raise where the best strength is left to a theory that is not there."""
        if self.strength is None and model.theory_unavailable_reason is not None:
            raise IncompatibleError(
                f"the best strength is that of theory, and {model.theory_unavailable_reason}: give a strength"
            )

    def _problem(self, model: Any) -> Any:
        from glassformer.risk.problem import risk_problem

        return risk_problem(model, *self._minimised)

    @property
    def _minimised(self) -> tuple[Loss, Penalty, float | None]:
        """Loss, penalty and strength as the theory takes them."""
        from glassformer.risk.losses import loss_of
        from glassformer.risk.penalties import penalty_of

        return loss_of(self.loss), penalty_of(self.penalty), self.strength

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        from glassformer.risk.limits import risk_limits

        return self.named(risk_limits(model, alpha, *self._minimised, throw))

    def named(self, found: Any) -> Any:
        strength = "best" if self.strength is None else self.strength
        own = {"loss": self._minimised[0].name, "penalty": self.penalty, "strength": strength}
        found = super().named(found)
        return replace(found, parameters={**found.parameters, **own})

    def thresholds(self, model: Any) -> Thresholds:
        from glassformer.risk.thresholds import risk_thresholds

        return self.named(risk_thresholds(model, *self._minimised))

    def branches(self, model: Any, alpha: Any) -> Table:
        from glassformer.state_evolution.hysteresis import one_branch

        return one_branch(self.limits(model, alpha, throw=False))

    def told(self, table: Table) -> list[str]:
        found = [] if self.strength is not None else ["strength"]
        return [name for name in ("label_error", *found, "cosine", "rank") if name in table.columns]

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        del optimum
        return self.limits(model, alpha, throw=False)["error"]

    def trajectory(self, model: Any, alpha: Array, steps: int, overlap: Any = None) -> Table | str:
        from glassformer.risk.trajectory import risk_trajectory

        if overlap is not None:
            return (
                f"overlap = {overlap:g} is for message passing and online-sgd: its steps begin at an estimate of zero"
            )
        return self.named(risk_trajectory(model, alpha, *self._minimised, steps))

    def followed(self, steps: int, overlap: float | None = None) -> RegularisedRisk:
        from glassformer.learners.proximal_message_passing import ProximalMessagePassing

        del overlap
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return ProximalMessagePassing(**{**own, "max_iterations": steps})

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.algorithms.proximal_gradient import least_risk

        risk = self.risk_of(model, data)
        found = least_risk(risk, Iteration(tolerance=self.tolerance, max_iterations=self.max_iterations))
        return FitResult.of(found, **fit_of(risk, found.value[0]))

    def risk_of(self, model: Any, data: DataSet) -> Risk:
        """What is minimised over a data set."""
        import numpy as np

        from glassformer.learners.algorithms.risk import Risk

        problem, prior, design = self._problem(model), model.prior, data.design
        strength, trace = self.strength, None
        if problem.penalty.pinned:
            known = prior.mean(design.signal_shape) if data.teacher is None else data.teacher
            strength, trace = 0.0, float(np.trace(known))
        elif strength is None:
            self._require_strength(model)
            ratio = design.sample_ratio * prior.degrees
            strength = float(self.limits(model, [ratio], throw=False)["strength"][0])
        if strength == 0 and trace is None:
            raise IncompatibleError(f"strength = 0 of penalty {self.penalty} on data: {_instead(problem.penalty)}")
        rows, columns = design.signal_shape
        weight, penalty = strength / prior.degrees, problem.penalty
        spectral = weight * penalty.spectral * (1.0 if penalty.positive else float(rows * columns) ** 0.25)
        y = problem.labels.targets(data.labels)
        return Risk(design, y, problem.loss, spectral, weight * penalty.square, penalty.positive, trace)


def _instead(penalty: Penalty) -> str:
    """What to do in place of a strength that vanishes."""
    if penalty.positive or (penalty.spectral > 0 and penalty.square > 0):
        return "there is no solver for its interpolator; give one > 0"
    name = "nuclear-norm" if penalty.spectral > 0 else "ridge"
    return f"use --algorithm {name} --strength 0, or give one > 0"


def fit_of(risk: Risk, estimate: Array) -> dict[str, float | None]:
    """How an estimate fits the samples learned from, and its rank."""
    import numpy as np

    from glassformer.numerics.decompositions import singular_values

    fitted, y = risk.design.forward(estimate, 0), risk.labels
    values = singular_values(estimate)
    return {
        "training_error": float(np.mean((fitted - y) ** 2)) if y.shape == fitted.shape else None,
        "training_loss": float(np.sum(risk.loss.value(y, fitted)) / len(y)),
        "rank": float(np.mean(values > 1e-9 * max(1.0, float(values[0])))),
    }
