"""Parameters of the estimators, and the properties that their solvers ask for."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from glassformer.core.settings import Iteration


@dataclass(eq=False, repr=False)
class Parameters(BaseEstimator):
    """Parameters of all estimators, as fields.

    :class:`~glassformer.sklearn.regressor.BilinearRegressor` explains them.
    """

    has_theory: ClassVar[bool] = True
    """True when the theory of the solver can predict the learning curve, for the parameters that it covers."""
    signals: ClassVar[Any]
    """Family of the signal, an :class:`~glassformer.data_analysis.signals.UnknownSignal`."""
    predicts_numbers: ClassVar[bool] = True
    """True when targets are numbers, so that predictions have intervals."""
    by_position: ClassVar[bool] = True
    """True when tokens of different positions have different weights."""
    penalties: ClassVar[tuple[str, ...]] = ("nuclear", "ridge", "elastic")
    """Allowed penalties: others are for matrices of another kind, or have no strength."""

    shape: Any = None
    _: KW_ONLY
    solver: str = "risk"
    loss: Any = "square"
    penalty: str = "nuclear"
    strength: Any = "cv"
    strengths: Any = 20
    folds: int = 5
    refit: Any = None
    scale: str = "features"
    tolerance: float = 1e-4
    max_iterations: int = 5000
    random_state: Any = 0

    @property
    def iteration(self) -> Iteration:
        """Accepted duality gap, and steps allowed at each strength."""
        return Iteration(tolerance=self.tolerance, max_iterations=self.max_iterations)

    def theory_unavailable_reason(self, weighted: bool) -> str:
        """Return the parameter for which there is no theory of a fit, or an empty string.

        Args:
            weighted: whether samples have weights.
        """
        return "sample_weight" if weighted else ""
