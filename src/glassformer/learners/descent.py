"""What learners by gradient descent have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.settings import positive, setting
from glassformer.learners.base import Learner


class Descent(Learner):
    """Gradient descent from a start that is random."""

    family: ClassVar[str] = "descent"
    needs: ClassVar[str]
    """What a model must offer; one that does not says why."""
    init: str
    small: float

    @property
    def size(self) -> float:
        """Standard deviation of the initial parameters."""
        return 1.0 if self.init == "prior" else self.small

    def incompatibility(self, model: Any) -> str | None:
        try:
            getattr(model, self.needs)
        except IncompatibleError as error:
            return str(error)
        return None


class RowDescent(Descent):
    """Gradient descent on the rows of a model's weights, through its label."""

    needs: ClassVar[str] = "traceable_label"
    instead: ClassVar[str] = "simulate"

    def incompatibility(self, model: Any) -> str | None:
        found = super().incompatibility(model)
        if found is None and model.prior.side > 0:
            return f"learns from samples alone, side_information = {model.side_information:g} or not"
        if found is None and model.prior.whitens:
            return "descends on features as they are, and those of feature_spectrum are drawn whitened"
        return found


def kind_of_start() -> Any:
    """The setting ``init``."""
    return setting("prior", "prior, as large as the teacher, or small", _start)


def small_start() -> Any:
    """The setting ``small``."""
    return setting(1e-3, "size of a small initialisation", positive)


def _start(name: str, value: Any, optional: bool) -> None:
    del optional
    if value not in ("prior", "small"):
        raise ParameterError(name, value, "prior or small")
