"""What message passing on linear labels of one matrix has in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.settings import open_unit_interval, setting
from glassformer.learners.base import Learner
from glassformer.learners.bayes import MessagePassing

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.state_evolution.thresholds import Thresholds


class MatrixPassing(Learner):
    """Message passing on linear labels of one matrix without symmetry."""

    family: ClassVar[str] = "Bayes-optimal"
    tolerance: float
    max_iterations: int
    damping: float | None

    @property
    def steps(self) -> MessagePassing:
        """When it ends and how it moves."""
        return MessagePassing(self.tolerance, None, self.max_iterations, self.damping)

    def incompatibility(self, model: Any) -> str | None:
        if model.overlap_shape or model.prior.symmetric or model.channel.field_components:
            return f"is for one matrix without symmetry, not for the signal of this model ({model.name})"
        if not model.channel.linear:
            return f"learns from linear labels, not from those of channel {model.channel.label}"
        return None

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        self.require(model)
        return self.named(self.steps.limits(model, alpha, throw))

    def thresholds(self, model: Any) -> Thresholds:
        self.require(model)
        return self.named(self.steps.thresholds(model))

    def branches(self, model: Any, alpha: Any) -> Table:
        self.require(model)
        return self.named(self.steps.branches(model, alpha))

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        return self.steps.theory(model, alpha, optimum)

    def trajectory(self, model: Any, alpha: Array, steps: int, overlap: float | None = None) -> Table | str:
        self.require(model)
        if overlap is not None:
            return f"overlap = {overlap:g} is for gamp and online-sgd: its steps begin where nothing is known"
        return self.named(self.steps_of_theory(model, alpha, steps))

    @abstractmethod
    def steps_of_theory(self, model: Any, alpha: Array, steps: int) -> Table:
        """What :meth:`trajectory` says, without its name."""

    def followed(self, steps: int, overlap: float | None = None) -> Self:
        del overlap
        return replace(self, damping=0.0, max_iterations=steps)  # type: ignore[type-var]


def settles_within() -> Any:
    """The setting ``tolerance``."""
    return setting(
        1e-3, "change per step that counts as settled, in standard deviations of the error", open_unit_interval
    )
