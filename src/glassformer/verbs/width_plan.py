"""How wide a student should be: errors over its width, and what the best width gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.results import Table, to_json_types
from glassformer.learners.base import Learner
from glassformer.models.base import Model
from glassformer.numerics.roots import root_by_growth
from glassformer.verbs.quantities import column_of

WIDTH = "student_rho"
"""The setting of a learner that is the width of its student over ``d``."""

# Widths: the rank of the full student, divided by powers of the root of two.
_WIDTHS = 2.0 ** (-0.5 * np.arange(1, 11))
# Relative accuracy of the sample ratio that the best width needs, and by how much it may be smaller at most.
_ACCURACY, _LEAST = 1e-3, 64.0


@dataclass(frozen=True, eq=False, kw_only=True)
class WidthPlan(Table):
    """Errors of students of several widths, at the sample ratio that the full width needs for a target.

    A :class:`~glassformer.core.results.Table` with a row for every width, in ascending order; the last is full width.
    Below the rank of the full estimate the theory is replica symmetric, a heuristic.

    Columns: ``student_rho``, width over ``d``; the quantity that has a target; and those of the limits.

    Attributes:
        quantity: name of the column that has a target.
        target: its target.
        alpha: sample ratio that the full width needs.
        best: width of the least error.
        gain: error of the full width over that of the best.
        needed: sample ratio at which the best width reaches the target, to a relative accuracy of 0.001.
    """

    quantity: str
    target: float
    alpha: float
    best: float
    gain: float
    needed: float
    drawing = "plot_width_plan"

    @property
    def display_columns(self) -> list[str]:
        return [WIDTH, self.quantity, "rank", "strength", "status"]

    @property
    def remarks(self) -> list[str]:
        least = (
            f"alpha = {self.alpha:.4g}, where the full width reaches {self.quantity} {self.target:g}: best width "
            f"{self.best:.3g} d, {self.gain:.3g} times less"
        )
        return [f"{least}; it reaches the target at alpha = {self.needed:.3g}", *self.notes]

    def to_dict(self) -> dict[str, Any]:
        """Return the table, as written in JSON."""
        own = {name: getattr(self, name) for name in ("quantity", "target", "alpha", "best", "gain", "needed")}
        return {**super().to_dict(), **to_json_types(own)}


def plan_width(model: Model, learner: Learner, quantity: str, target: float, alpha: float) -> WidthPlan:
    """Return the table of widths at the sample ratio that the full width needs for a target.

    Raises:
        IncompatibleError: the learner has no width, or its full width does not reach the target.
    """
    full = _limits(model, learner, 1.0, alpha)
    if "rank" not in full.columns:
        raise IncompatibleError(f"the theory of learner {learner.name} has no width: use learner risk")
    rank = float(full["rank"][0])
    widths = np.append(rank * _WIDTHS[::-1], 1.0)
    tables = [*(_limits(model, learner, float(width), alpha) for width in widths[:-1]), full]
    column = column_of(quantity, learner.theory(model), full)
    error = np.array([float(table[column][0]) for table in tables])
    # Widths whose equations did not converge are shown, and none of them is the best.
    settled = np.array([table.converged for table in tables])
    best = int(np.argmin(np.where(settled, error, np.inf)))

    def excess(log_ratio: float) -> float:
        table = _limits(model, learner, float(widths[best]), float(np.exp(log_ratio)))
        return float(table[column][0]) - target

    end = np.log(alpha)
    needed = end
    if best < len(widths) - 1:
        needed = root_by_growth(excess, end - np.log(2.0), end, (end - np.log(_LEAST), end), _ACCURACY)
    names = [name for name in full.columns if np.ndim(full[name]) == 1 and name != "alpha"]
    columns: dict[str, Array] = {"alpha": np.full(len(widths), alpha), WIDTH: widths}
    columns |= {name: np.array([float(table[name][0]) for table in tables]) for name in names}
    return WidthPlan(
        model=full.model,
        parameters={name: value for name, value in full.parameters.items() if name != WIDTH},
        columns=columns,
        status=[table.status[0] for table in tables],
        notes=list(dict.fromkeys(note for table in tables for note in table.notes)),
        quantity=column,
        target=target,
        alpha=alpha,
        best=float(widths[best]),
        gain=float(error[-1] / error[best]),
        needed=float(np.exp(needed)),
    )


def _limits(model: Model, learner: Learner, width: float, alpha: float) -> Table:
    return learner.varied(**{WIDTH: None if width == 1 else width}).theory(model).limits([alpha])
