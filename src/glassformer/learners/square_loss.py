"""Learners that minimise the square loss and a penalty on linear labels."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.errors import IncompatibleError
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_strength
from glassformer.core.settings import non_negative
from glassformer.learners.base import FitResult, Learner
from glassformer.learners.matrix_risk import MatrixRisk

if TYPE_CHECKING:
    from glassformer.core.solution import Solution
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model


class SquareLossLearner(Learner):
    """The minimiser of square loss and a penalty, on labels that are one linear functional of the signal each."""

    penalty: ClassVar[str]
    """Name of the penalty in :class:`RegularisedRisk`."""
    strength: float | None

    @abstractmethod
    def strength_for(self, model: Model) -> float | None:
        """Return the strength on labels of this model; None for the best one at each sample ratio."""

    @abstractmethod
    def fit(self, model: Model, data: DataSet) -> Solution:
        """Return the minimiser."""

    def check(self, model: Model) -> None:
        if model.overlap_shape or model.channel.fields.shape:
            raise IncompatibleError(f"fits one linear label per sample, not the labels of this model ({model.name})")
        if not model.channel.labels.linear:
            raise IncompatibleError(f"fits linear labels, not those of channel {model.channel.label}")

    def risk(self, model: Model) -> MatrixRisk:
        """Return the risk that is minimised on labels of a model.

        Raises:
            IncompatibleError: the strength is to follow from the noise of labels that are not linear.
        """
        if not model.well_specified:
            self.check(model)
        if self.strength is None and not model.channel.labels.linear:
            raise IncompatibleError(
                f"learner {self.name} has no best strength for labels of channel {model.channel.label}: give a "
                f"strength, or use learner risk with loss square and penalty {self.penalty}, which finds it"
            )
        from glassformer.risk.losses import Square
        from glassformer.risk.penalties import penalty_of

        return MatrixRisk(Square(), penalty_of(self.penalty), self.strength_for(model))

    def learn(self, model: Model, data: DataSet) -> FitResult:
        found = self.fit(model, data)
        fields = data.design.forward(found.value[0], 0)
        return FitResult.from_solution(found, training_error=float(((fields - data.labels) ** 2).mean()))


def strength_by_noise() -> Any:
    """Return the setting ``strength`` whose default is the best one for the label noise."""
    text = "weight of the regulariser, or best (default the best one for the label noise)"
    return parameter(text, None, read=parse_strength, check=non_negative)
