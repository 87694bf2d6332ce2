"""Convex fits of linear labels: what is lost without knowing how the signal is made."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.options import parameter
from glassformer.core.parsing import parse_strength
from glassformer.core.settings import Iteration, max_iterations_setting, non_negative, tolerance_setting
from glassformer.learners.base import FitResult, Learner

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.regularised_risk import RegularisedRisk
    from glassformer.state_evolution.thresholds import Thresholds

_BY_THE_NOISE = "weight of the regulariser, or best (default the best one for the label noise)"


class LinearFit(Learner):
    """A fit of labels that are one linear functional of the signal each."""

    family: ClassVar[str] = "convex"
    in_theory: ClassVar[tuple[str, ...]] = ("strength",)
    strength: float | None

    @classmethod
    def relatives(cls) -> type[Learner]:
        return LinearFit

    def incompatibility(self, model: Any) -> str | None:
        if model.channel.field_components:
            return f"fits single linear labels, not those of this model ({model.name})"
        if not model.channel.linear:
            return f"fits linear labels, not those of channel {model.channel.label}"
        return None

    penalty: ClassVar[str]
    """That of its theory."""

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        return self.named(self._risk(model).limits(model, alpha, throw))

    def thresholds(self, model: Any) -> Thresholds:
        return self.named(self._risk(model).thresholds(model))

    def branches(self, model: Any, alpha: Any) -> Table:
        return self.named(self._risk(model).branches(model, alpha))

    def _risk(self, model: Any) -> RegularisedRisk:
        from glassformer.learners.regularised_risk import RegularisedRisk

        return RegularisedRisk("square", self.penalty, self.strength_for(model))

    @abstractmethod
    def strength_for(self, model: Any) -> float | None:
        """The strength on labels of this model; None for the best one at each sample ratio."""

    @abstractmethod
    def fit(self, model: Any, data: DataSet) -> Solution:
        """The minimiser."""

    def learn(self, model: Any, data: DataSet) -> FitResult:
        found = self.fit(model, data)
        fields = data.design.forward(found.value[0], 0)
        return FitResult.of(found, training_error=float(((fields - data.labels) ** 2).mean()))


@dataclass(frozen=True)
class Ridge(LinearFit):
    r"""Ridge regression, the minimiser of :math:`\sum_\mu(y_\mu - h_\mu)^2 + \lambda\|S\|_F^2`.

    Args:
        strength: :math:`\lambda\ge 0`; None for the variance of the label noise, which is best.

    Raises:
        ParameterError: the strength is out of range.

    Example:
        >>> Ridge(strength=-1.0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: strength = -1.0 is not allowed: expected None, or a finite number >= 0
    """

    title: ClassVar[str] = "ridge regression"
    penalty: ClassVar[str] = "ridge"

    strength: float | None = parameter(_BY_THE_NOISE, None, read=parse_strength, check=non_negative)

    def strength_for(self, model: Any) -> float:
        return float(model.channel.label_noise if self.strength is None else self.strength)

    def completed(self, model: Any) -> Self:
        return replace(self, strength=self.strength_for(model))

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        from glassformer.learners.ridge import ridge_error

        if not model.prior.extensive:
            return "at fixed width there are ever fewer samples per entry of the signal: its error tends to 1"
        return ridge_error(alpha, model.channel.label_noise, self.strength)

    def fit(self, model: Any, data: DataSet) -> Solution:
        from glassformer.learners.ridge import ridge

        return ridge(data.design, data.labels, self.strength_for(model))


@dataclass(frozen=True)
class NuclearNorm(LinearFit):
    r"""The minimiser of :math:`\frac12\sum_\mu(y_\mu - h_\mu)^2 + \lambda(dL)^{1/4}\|S\|_*`.

    Args:
        strength: :math:`\lambda\ge 0`; 0 for the matrix of least nuclear norm that fits the labels; None for the best
            one for the label noise, which without noise is 0.
        tolerance: relative duality gap at which a solution is accepted.
        max_iterations: steps allowed.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> NuclearNorm(tolerance=2.0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: tolerance = 2.0 is not allowed: expected a number in (0, 1)
    """

    title: ClassVar[str] = "least nuclear norm"
    penalty: ClassVar[str] = "nuclear"
    papers: ClassVar[tuple[str, ...]] = ("donoho2013phase",)

    strength: float | None = parameter(_BY_THE_NOISE, None, read=parse_strength, check=non_negative)
    tolerance: float = tolerance_setting()
    max_iterations: int = max_iterations_setting(5000)

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        if not model.prior.extensive:
            return "its theory is for widths in proportion to the dimension: give rho instead of width"
        if (alpha <= 0).any():
            return "its theory needs samples: give alpha > 0"
        return self.limits(model, alpha, throw=False)["error"]

    def strength_for(self, model: Any) -> float | None:
        return 0.0 if self.strength is None and model.channel.label_noise == 0 else self.strength

    def strength_at(self, beta: float, rho: float, alpha: float, noise: float) -> float:
        """The strength asked for, or the best one."""
        from glassformer.risk.nuclear_norm import best_nuclear_norm

        if self.strength is not None:
            return self.strength
        return 0.0 if noise == 0 else best_nuclear_norm(beta, rho, alpha, noise).strength

    def fit(self, model: Any, data: DataSet) -> Solution:
        from glassformer.learners.algorithms.proximal import least_nuclear_norm

        rows, columns = data.design.signal_shape
        rho = model.prior.factor_width(columns) / columns
        strength = self.strength_at(rows / columns, rho, data.design.sample_ratio, model.channel.label_noise)
        limit = Iteration(tolerance=self.tolerance, floor=1e-14, max_iterations=self.max_iterations)
        return least_nuclear_norm(data.design, data.labels, strength * float(rows * columns) ** 0.25, limit)
