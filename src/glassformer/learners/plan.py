"""How many samples a target takes: the theory of any learner, read the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glassformer.core.checks import is_number, require_arguments, require_integer
from glassformer.core.display import ModelDisplayMixin
from glassformer.core.equality import ComparedByContent
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import NamedEntries, to_json_types
from glassformer.core.solution import Status
from glassformer.learners.base import Learner
from glassformer.learners.learning_curve import LEVEL, QUANTITIES, Curves, Seen, ending, extended, first_ratios
from glassformer.learners.registry import chosen, names
from glassformer.models.base import Model
from glassformer.state_evolution.crossings import Crossing, crossings, settled, unsettled
from glassformer.state_evolution.thresholds import Thresholds

DEFAULT = names()[0]
"""The learner that is meant where none is named."""


@dataclass(frozen=True, eq=False)
class Needed(ComparedByContent):
    """What it takes until a target is reached.

    Attributes:
        name: who reaches it; with ``_at_first`` where it is lost again.
        alpha: from where on the quantity stays at or below the target; infinity where that is never seen.
        error_estimate: absolute, of ``alpha``.
        samples: at the size asked for; None without one, or where there is no number.
        note: how to read it.
        status: of the rows of limits that it rests on.
    """

    name: str
    alpha: float
    error_estimate: float
    samples: int | None
    note: str
    status: Status

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, by name; ``reached`` tells whether there is such a sample ratio."""
        reached = "never_seen" if np.isinf(self.alpha) else "unknown" if np.isnan(self.alpha) else "at_alpha"
        return {**to_json_types(dict(vars(self))), "reached": reached}


@dataclass(frozen=True, eq=False)
class Plan(ModelDisplayMixin, NamedEntries[Needed]):
    """Sample ratios at which a learner's error reaches a target, and what stands beside them.

    Attributes:
        model: short name of the model.
        parameters: of model and learner.
        quantity: that has a target.
        target: of it.
        d: token dimension for which samples are counted; None for none.
        entries: what it takes, for each curve of the learner.
        thresholds: of the learner; None where none are known.
        curves: the quantity at the sample ratios looked at, by the name of who reaches it; ``alpha`` are the ratios.
        notes: what else there is to say.
    """

    model: str
    parameters: dict[str, Any]
    quantity: str
    target: float
    d: int | None
    entries: tuple[Needed, ...]
    thresholds: Thresholds | None
    curves: dict[str, Array]
    notes: Sequence[str] = field(default_factory=list)
    drawing = "plot_plan"

    @property
    def remarks(self) -> Sequence[str]:
        size = "" if self.d is None else f", d = {self.d}"
        return (f"{self.quantity} at or below {self.target:g}{size}", *self.notes)

    @property
    def converged(self) -> bool:
        """True when everything that entries rest on converged."""
        return all(entry.status.ok for entry in self.entries)

    def to_dict(self) -> dict[str, Any]:
        """The plan as the command line writes it in JSON; None where there is no number."""
        beside = [] if self.thresholds is None else [entry.to_dict() for entry in self.thresholds.entries]
        return {
            "model": self.model,
            "parameters": to_json_types(self.parameters),
            "quantity": self.quantity,
            "target": self.target,
            "d": self.d,
            "needed": [entry.to_dict() for entry in self.entries],
            "thresholds": beside,
            "curves": to_json_types(self.curves),
            "notes": list(self.notes),
        }

    def display_frame(self) -> Any:
        """Ratios that are never reached as infinite, those that do not apply as not known."""
        return self.to_pandas().assign(alpha=[entry.alpha for entry in self.entries])

    def to_pandas(self) -> Any:
        """A data frame with one row per entry."""
        import pandas

        return pandas.DataFrame([entry.to_dict() for entry in self.entries])

    def to_xarray(self) -> Any:
        """A data set over the dimension ``name``."""
        return self.to_pandas().set_index("name").to_xarray()


def plan(
    model: Model, target: float, learner: str | Learner = DEFAULT, quantity: str = "error", d: int | None = None
) -> Plan:
    r"""The sample ratio from which on a learner's error is at or below a target.

    Its theory (``limits`` of the learner) is computed from :math:`\alpha = 1/32` to 32, beside its thresholds, and
    further in either direction where the target asks for it; where the curve passes the target, the cell is narrowed
    down to :math:`10^{-7}` of its place. Errors need not fall with the number of samples: they rise towards a peak of
    interpolation. The ratio is the one from which on the target is kept at all ratios looked at; where it was reached
    before and lost, the first one is listed as well.

    Args:
        model: with a learner of which there is a theory.
        target: of the quantity, > 0.
        learner: or its name: message passing by default, with the Bayes-optimal error beside it. In a hard phase the
            two reach a target at different ratios.
        quantity: one of :data:`~glassformer.learners.learning_curve.QUANTITIES`, if limits of this learner and this
            model have it.
        d: token dimension at which samples are counted, >= 2.

    Returns:
        :class:`Plan`. A target out of reach has ``alpha`` infinite and a note on how the curve ends.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: there is no theory, no such quantity, or the model has no finite size.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> found = plan(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0), 0.5, d=100)["bayes_optimal"]
        >>> round(found.alpha, 6), found.samples
        (0.397168, 3972)
        >>> ridge = plan(BilinearSequenceRegression(rho=0.5, noise=0.1), 0.2, "ridge")["ridge"]
        >>> round(ridge.alpha, 6)  # 1 - t - D + D/t
        1.2
    """
    require_arguments(plan, locals(), but=("d",))
    if not (is_number(target) and 0 < target < np.inf):
        raise ParameterError("target", target, "a finite number > 0")
    if quantity not in QUANTITIES:
        raise ParameterError("quantity", quantity, f"one of {', '.join(QUANTITIES)}")
    if d is not None:
        require_integer("d", d, 2)
    asked = chosen(learner)
    size = None if d is None else model.at_size(d)
    beside = _thresholds(asked, model)
    theory = Curves(model, asked, quantity, [] if beside is None else [entry.alpha for entry in beside.entries])
    looked = extended(theory, theory.at(first_ratios(theory)), float(target))
    entries = [entry for name in looked.found for entry in _needed(theory, name, looked, float(target))]
    counted = tuple(_counted(entry, None if size is None else size.unit) for entry in entries)
    return Plan(
        model.name,
        {**theory.parameters, "learner": asked.name},
        quantity,
        float(target),
        d,
        counted,
        beside,
        {"alpha": looked.alpha, **{name: one.value for name, one in looked.found.items()}},
        [*_gap(counted), *_left_out(looked)],
    )


def _thresholds(learner: Learner, model: Any) -> Thresholds | None:
    try:
        return learner.thresholds(model)
    except IncompatibleError:
        return None


def _needed(theory: Curves, name: str, seen: Seen, target: float) -> list[Needed]:
    looked, alpha = seen.found[name], seen.alpha
    good = settled(looked)
    if not good.any():
        return [Needed(name, np.nan, np.nan, None, "limits did not converge at any ratio", looked.status[0])]
    likely, sampled = theory.places, not theory.model.has_curve
    passed = crossings(lambda ratios: theory.at(ratios).found[name], alpha, looked, target, likely, sampled)
    places, values = alpha[good], looked.value[good]
    if not passed or not passed[-1].falls:
        last = _never(name, places, values, target, _first_of(looked.status))
    else:
        lost = _first_of([one for one, a in zip(looked.status, alpha, strict=True) if a >= passed[-1].alpha])
        status = passed[-1].status if lost.ok else lost
        last = Needed(name, passed[-1].alpha, passed[-1].error_estimate, None, _how(passed[-1]), status)
    before = [one for one in passed[:-1] if one.falls] if last.alpha < np.inf else [one for one in passed if one.falls]
    return [*_at_first(name, before, passed), last]


def _at_first(name: str, before: list[Crossing], passed: list[Crossing]) -> list[Needed]:
    """Where the target is reached first, if it is lost again."""
    if not before:
        return []
    first = before[0]
    lost = passed[passed.index(first) + 1]
    note = f"{_how(first)}; lost again at alpha = {lost.alpha:.6g}".removeprefix("; ")
    status = first.status if lost.status.ok else lost.status
    return [Needed(f"{name}_at_first", first.alpha, first.error_estimate, None, note, status)]


def _first_of(status: Sequence[Status]) -> Status:
    return next(iter(unsettled(status)), Status.CONVERGED)


def _how(crossing: Crossing) -> str:
    """What there is to say of a passage."""
    before, after = crossing.sides
    return f"passes the target in a leap from {before:.4g} to {after:.4g}" if crossing.jumps else ""


def _never(name: str, alpha: Array, value: Array, target: float, status: Status) -> Needed:
    """A target that is kept from the start, or not kept at the end."""
    if value[-1] <= target:
        note = f"at any ratio: {value[0]:.4g} at alpha = {alpha[0]:.3g} already"
        return Needed(name, 0.0, float(alpha[0]), None, note, status)
    note = f"not reached: {value[-1]:.4g} at alpha = {alpha[-1]:.4g}, {ending(alpha, value)}"
    least = int(np.argmin(value))
    if least < len(value) - 1 and value[least] < (1 - LEVEL) * value[-1]:
        note = f"{note}; least seen {value[least]:.4g} at alpha = {alpha[least]:.4g}"
    return Needed(name, np.inf, 0.0, None, note, status)


def _counted(entry: Needed, unit: float | None) -> Needed:
    if unit is None or not np.isfinite(entry.alpha):
        return entry
    samples, error = entry.alpha * unit, min(entry.error_estimate * unit, 0.5)
    whole = np.rint(samples)
    # A whole number that the error of the ratio does not tell it from is not rounded up to the next one.
    return replace(entry, samples=int(whole if abs(samples - whole) <= error < 0.5 else np.ceil(samples)))


def _gap(entries: Sequence[Needed]) -> list[str]:
    """What a hard phase makes of the plan: curves of one learner that reach the target at different ratios."""
    reached = sorted((one for one in entries if not one.name.endswith("_at_first")), key=lambda one: one.alpha)
    if len(reached) < 2 or not reached[0].alpha < np.inf:
        return []
    first, last = reached[0], reached[-1]
    if not last.alpha - first.alpha > first.error_estimate + last.error_estimate:
        return []
    return [
        f"hard phase: {first.name} reaches the target at alpha = {first.alpha:.6g}, {last.name} at {last.alpha:.6g}; "
        "between the two no efficient algorithm is known to"
    ]


def _left_out(seen: Seen) -> list[str]:
    status = next(iter(seen.found.values())).status
    lost = [f"{a:.4g} ({one})" for a, one in zip(seen.alpha, status, strict=True) if unsettled([one])]
    return [f"left out, because limits did not converge there: alpha = {', '.join(lost)}"] if lost else []
