"""Bayes-optimal learning by message passing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.settings import damping_setting, max_iterations_setting, non_negative, open_unit_interval, setting
from glassformer.learners.base import IN_ANY_FORM, FitResult, Learner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.learners.data_set import DataSet
    from glassformer.state_evolution.thresholds import Thresholds


@dataclass(frozen=True)
class MessagePassing(Learner):
    """Message passing for any model: the best that is known in polynomial time.

    Args:
        tolerance: largest root-mean-square change of the signal per undamped step, relative to its posterior
            standard deviation, that counts as settled; None for 1e-3, or 5e-3 where scores are sampled.
        floor: posterior variance below which the signal counts as known exactly; None for 1e-9, or 1e-6 where scores
            are sampled.
        max_iterations: steps allowed.
        damping: None to adapt it, or a fixed weight of the old state in [0, 1).
        random_start: size of a random start; None for the prior mean, or for what an even channel needs.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> MessagePassing(max_iterations=0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: max_iterations = 0 is not allowed: expected an integer >= 1
    """

    title: ClassVar[str] = "message passing"
    family: ClassVar[str] = "Bayes-optimal"
    storages: ClassVar[tuple[str, ...]] = IN_ANY_FORM

    tolerance: float | None = setting(
        None, "change per step that counts as settled, in posterior standard deviations", open_unit_interval
    )
    floor: float | None = setting(None, "posterior variance below which the signal counts as known", open_unit_interval)
    max_iterations: int = max_iterations_setting(300)
    damping: float | None = damping_setting()
    random_start: float | None = setting(None, "size of a random start, for even labels", non_negative)

    def incompatibility(self, model: Any) -> str | None:
        del model
        return None

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        from glassformer.state_evolution.limits import limits

        return limits(model, alpha, throw=throw)

    def thresholds(self, model: Any) -> Thresholds:
        from glassformer.state_evolution.thresholds import thresholds

        return thresholds(model)

    def branches(self, model: Any, alpha: Any) -> Table:
        from glassformer.state_evolution.hysteresis import follow_branches

        return follow_branches(model, alpha)

    def told(self, table: Table) -> list[str]:
        if "row_error" not in table.columns:
            return ["overlap"]
        return ["row_error", "prediction_error" if "prediction_error" in table.columns else "label_error"]

    def curves(self, model: Any, table: Table, quantity: str) -> dict[str, tuple[Array, Array]]:
        """The best there is, and message passing, which may stay above it: its errors on labels for one row only."""
        best, own = table["error"], table["algorithmic_error"]
        found = {"bayes_optimal": (table[quantity], best)}
        if quantity == "error":
            return {**found, "message_passing": (own, own)}
        if model.overlap_shape:
            return found
        errors = model.channel.label_errors(own[:, None, None], model.last_layer)
        return {**found, "message_passing": (errors[quantity], own)}

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        from glassformer.state_evolution.limits import limits

        found = limits(model, alpha, throw=False) if optimum is None else optimum
        return found["algorithmic_error"]

    def trajectory(self, model: Any, alpha: Array, steps: int, overlap: float | None = None) -> Table | str:
        from glassformer.state_evolution.trajectory import trajectory

        return trajectory(model, alpha, steps, overlap)

    def followed(self, steps: int, overlap: float | None = None) -> MessagePassing:
        del overlap
        return replace(self, damping=0.0, max_iterations=steps)

    def beginning(
        self, model: Any, d: int, overlap: float | None, histories: Sequence[Sequence[dict[str, Any]]]
    ) -> float | None:
        """For even labels, unless one is asked for, the overlap of a random start at that size."""
        from glassformer.state_evolution.trajectory import random_overlap

        del histories
        guessed = overlap is None and model.channel.even and not model.prior.side
        return random_overlap(model, d) if guessed else overlap

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.gamp import learned

        return learned(model, data, self)
