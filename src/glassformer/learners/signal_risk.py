"""A regularised risk of one kind of signal, to which the learner delegates, and its theory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassformer.core.defaults import default_property
from glassformer.learners.base import FitResult, Learner, StepContext, Theory

if TYPE_CHECKING:
    from glassformer.core.settings import Iteration
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model


@dataclass(frozen=True, kw_only=True)
class SignalTheory(Theory):
    """Theory of a risk, and of message passing to its minimiser.

    Attributes:
        by_message_passing: returns message passing of so many steps from an overlap.
    """

    by_message_passing: Callable[[int, float | None], Learner]

    @abstractmethod
    def require(self) -> None:
        """Raise unless model and risk go together."""

    def simulated(self, context: StepContext) -> Learner:
        return self.by_message_passing(context.steps, context.overlap)


class SignalRisk(ABC):
    """Theory and algorithms of a risk of one matrix, or of the rows of a student."""

    pinned = default_property(False, "True if the strength has no effect.")

    @abstractmethod
    def theory(
        self, learner: Learner, model: Model, by_message_passing: Callable[[int, float | None], Learner]
    ) -> SignalTheory:
        """Return the theory of a learner; the last argument is as for :class:`SignalTheory`.

        Raises:
            IncompatibleError: there is none for this model.
        """

    @abstractmethod
    def fit(self, model: Model, data: DataSet, strength: float, settings: Iteration) -> FitResult:
        """Return the minimiser on a data set."""

    @abstractmethod
    def pass_messages(
        self, model: Model, data: DataSet, strength: float, steps: int, overlap: float | None
    ) -> FitResult:
        """Return the estimate after undamped steps of message passing from an overlap with the teacher."""
