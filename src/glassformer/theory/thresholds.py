"""Recovery thresholds and hard phases, read off the equation of state.

Its value at vanishing overlap is the weak-recovery threshold, its value at perfect overlap that of perfect recovery,
and where it decreases two stable fixed points coexist (a hard phase).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.results import plain
from glassformer.models.base import Model, counting_threshold
from glassformer.models.channels.exponents import Exponents
from glassformer.theory.equation_of_state import StateCurve, equation_of_state, natural_scale, resolved_curve
from glassformer.theory.weak_recovery import row_named, staircase

# A relative decrease of the curve that is no longer rounding.
_FLAT = 1e-7


_NOT_FIXED = "labels do not fix the fields"
_UNCOUNTED = "weights without continuous degrees of freedom, or of a law that does not say: nothing to count"


class _End(NamedTuple):
    """Where a hard phase ends, and the absolute error of that."""

    alpha: float
    error: float


@dataclass(frozen=True)
class Threshold:
    """A sample ratio at which something begins.

    Attributes:
        name: what begins.
        alpha: where, in the model's unit; infinity when it never does, NaN when the notion does not apply.
        error_estimate: absolute error of ``alpha``; zero for closed forms.
        note: how to read it.
        layer: the row it belongs to, for models of several rows; None otherwise.
        subspace: positive semi-definite matrix over the rows whose range is found there; None otherwise.
    """

    name: str
    alpha: float
    error_estimate: float
    note: str
    layer: str | None = None
    subspace: list[list[float]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, by name."""
        every = plain(vars(self))
        return {name: value for name, value in every.items() if value is not None or name not in ("layer", "subspace")}


@dataclass(frozen=True)
class Thresholds:
    """All thresholds of a model, whether it has a hard phase, and the exponents of a link of one index.

    What is not known is None; so are infinite numbers in :meth:`to_dict`.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> found = thresholds(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        >>> found["perfect_recovery"].alpha, found.hard_phase
        (0.75, False)
    """

    model: str
    parameters: dict[str, Any]
    entries: tuple[Threshold, ...]
    hard_phase: bool | None
    exponents: Exponents | None = None

    def __getitem__(self, name: str) -> Threshold:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise ParameterError("name", name, f"one of {', '.join(entry.name for entry in self.entries)}")

    def to_dict(self) -> dict[str, Any]:
        """The thresholds as the command line writes them in JSON; None where there is none."""
        entries = [entry.to_dict() for entry in self.entries]
        exponents = {} if self.exponents is None else self.exponents._asdict()
        return {
            "model": self.model,
            "parameters": plain(self.parameters),
            "thresholds": entries,
            "hard_phase": self.hard_phase,
            **plain({f"{name}_exponent": value for name, value in exponents.items()}),
        }

    def to_pandas(self) -> Any:
        """A data frame with one row per threshold."""
        import pandas

        return pandas.DataFrame([entry.to_dict() for entry in self.entries])

    def to_xarray(self) -> Any:
        """A data set over the dimension ``name``."""
        return self.to_pandas().set_index("name").to_xarray()


def thresholds(model: Model) -> Thresholds:
    """Weak and perfect recovery, Bayes-optimal and algorithmic, the extent of a hard phase, and the baseline's.

    Equation :eq:`weak-recovery` of the documentation.

    ``weak_recovery``: from there on the uninformed start (and message passing) finds a non-zero overlap.
    ``perfect_recovery``: from there on the Bayes-optimal error is zero. ``algorithmic_perfect_recovery``: the error
    reached by message passing is zero. ``hard_phase_start`` and ``hard_phase_end``: between them, and only there, the
    informed and the uninformed fixed points differ. ``nuclear_norm_perfect_recovery``: perfect recovery by minimal
    nuclear norm, where the model has that baseline.

    Args:
        model: prior and channel.

    Returns:
        :class:`Thresholds`; entries that do not apply have ``alpha`` NaN and say so in their note.
    """
    perfect, hard_phase = (_hard_phase_and_recovery if model.has_curve else _recovery_of_all)(model)
    known = model.channel.even and model.prior.in_rows.side == 0
    entries = [
        *(_staircase(model) if known and not model.has_curve else [_weak_recovery(model)]),
        *perfect,
        *(_baseline(name, alpha) for name, alpha in model.baseline_thresholds.items()),
    ]
    return Thresholds(model.name, model.parameters, tuple(entries), hard_phase, model.channel.in_rows.exponents)


def _hard_phase_and_recovery(model: Model) -> tuple[list[Threshold], bool]:
    start, end = _hard_phase(model, resolved_curve(model))
    return [*_perfect_recovery(model, end), *_hard_phase_ends(start, end)], not np.isnan(end.alpha)


def _recovery_of_all(model: Model) -> tuple[list[Threshold], None]:
    """Perfect recovery of all rows, by counting; hard phases are not examined where averages are sampled."""
    fixed = model.channel.rank > 0
    counted = fixed and model.prior.in_rows.mmse_dimension > 0
    perfect = counting_threshold(model) if counted else np.nan
    note = "of all rows; counting of degrees of freedom" if counted else _UNCOUNTED if fixed else _NOT_FIXED
    return [Threshold("perfect_recovery", perfect, 0.0, note)], None


def _staircase(model: Model) -> list[Threshold]:
    entries = []
    for number, step in enumerate(staircase(model), 1):
        row = None if step.degenerate else row_named(step.matrix)
        layer = None if row is None else model.row_names[row]
        note = f"{layer} is found" if layer else "a subspace is found"
        if step.degenerate:
            note = "several directions are found at once, within the error: none is singled out"
        name = "weak_recovery" if number == 1 else f"weak_recovery_{number}"
        subspace = None if step.degenerate else step.matrix.tolist()
        entries.append(Threshold(name, step.alpha, step.error_estimate, note, layer, subspace))
    return entries


def _hard_phase_ends(start: _End, end: _End) -> list[Threshold]:
    if np.isnan(end.alpha):
        return [Threshold(name, np.nan, 0.0, "no hard phase") for name in ("hard_phase_start", "hard_phase_end")]
    return [
        Threshold("hard_phase_start", *start, "a second, informed fixed point appears"),
        Threshold("hard_phase_end", *end, "the uninformed fixed point disappears"),
    ]


def _baseline(name: str, alpha: float) -> Threshold:
    return Threshold(name, alpha, 0.0, "not defined for these labels" if np.isnan(alpha) else "closed form")


def _weak_recovery(model: Model) -> Threshold:
    """Where the first row is found: by its information at zero overlap, or as the limit of the equation of state."""
    prior = model.prior.in_rows
    name, onset = "weak_recovery", prior.onset
    if model.channel.even and prior.side == 0:
        return _weak_recovery_of_even(model)
    information, error = model.channel.in_rows.information(np.eye(prior.rows)[None])
    row = int(np.argmax(np.diag(information[0])))
    slope, blur = float(information[0, row, row]), float(error[0, row, row])
    start = prior.degrees * onset / slope
    found = f"{model.row_names[row]} first" if prior.rows > 1 else "the uninformed state loses stability"
    note = found if onset else "any data help: the labels are not even in h"
    return Threshold(name, start, start * blur / slope, note, **_named(model, row))


def _weak_recovery_of_even(model: Model) -> Threshold:
    name, prior = "weak_recovery", model.prior.in_rows
    if _hidden(model):
        return Threshold(name, np.inf, 0.0, "generative exponent above 2: no finite sample ratio", **_named(model, 0))
    if prior.onset > 0:
        return Threshold(name, np.inf, 0.0, "even labels carry no information at zero overlap, on this sample scale")
    # The limit of vanishing overlap by Richardson's extrapolation: alpha is analytic in q_hat.
    step = 1e-5 * natural_scale(model)
    curve = equation_of_state(model, step * np.array([1.0, 2.0, 4.0]))
    linear = 2 * curve.alpha[:2] - curve.alpha[1:]
    value = float((4 * linear[0] - linear[1]) / 3)
    error = float(abs(value - linear[0]) + curve.error[0])
    return Threshold(name, value, error, "the uninformed state loses stability", **_named(model, 0))


def _hidden(model: Model) -> bool:
    """Whether the information about an unknown signal vanishes faster than its overlap."""
    exponents = model.channel.in_rows.exponents
    return exponents is not None and exponents.generative > 2 and model.prior.in_rows.side == 0


def _named(model: Model, row: int) -> dict[str, Any]:
    """The row that a threshold belongs to, for models that tell rows apart, and the subspace that it spans."""
    if not model.overlap_shape:
        return {}
    return {"layer": model.row_names[row], "subspace": np.diag(np.eye(model.prior.in_rows.rows)[row]).tolist()}


def _perfect_recovery(model: Model, hard_end: _End) -> list[Threshold]:
    if not model.channel.rank > 0:
        note = "labels do not fix h: the error vanishes at no finite sample ratio"
        return [Threshold(name, np.nan, 0.0, note) for name in ("perfect_recovery", "algorithmic_perfect_recovery")]
    if not model.prior.in_rows.mmse_dimension > 0:
        known = "reached by message passing" if np.isfinite(hard_end.alpha) else _UNCOUNTED
        entries = (("perfect_recovery", np.nan, 0.0, _UNCOUNTED), ("algorithmic_perfect_recovery", *hard_end, known))
        return [Threshold(*entry) for entry in entries]
    counting = _End(counting_threshold(model), 0.0)
    reached = hard_end if hard_end.alpha > counting.alpha else counting
    return [
        Threshold("perfect_recovery", *counting, "Bayes-optimal; counting of degrees of freedom"),
        Threshold("algorithmic_perfect_recovery", *reached, "reached by message passing"),
    ]


def _hard_phase(model: Model, curve: StateCurve) -> tuple[_End, _End]:
    """Sample ratios between which the equation of state has several branches; NaN when it increases throughout."""
    alpha = np.append(curve.alpha, counting_threshold(model))
    summit = np.maximum.accumulate(alpha)
    folded = alpha < summit * (1 - _FLAT)
    if not folded.any():
        return _End(np.nan, 0.0), _End(np.nan, 0.0)
    low = int(np.argmin(np.where(folded, alpha, np.inf)))
    high = int(np.argmax(np.where(np.append(folded[1:], False) | folded, summit, -np.inf)))
    high = int(np.flatnonzero(alpha == summit[high])[0])
    start = _End(*curve.extremum(low)) if low < len(curve.alpha) else _End(counting_threshold(model), 0.0)
    unreachable = (model.channel.even and model.prior.onset > 0) or _hidden(model)
    return start, _End(np.inf, 0.0) if unreachable else _End(*curve.extremum(high))
