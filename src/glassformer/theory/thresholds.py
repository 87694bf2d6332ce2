"""Recovery thresholds and hard phases, read off the equation of state.

Its value at vanishing overlap is the weak-recovery threshold, its value at perfect overlap that of perfect recovery,
and where it decreases two stable fixed points coexist (a hard phase).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array
from glassformer.core.results import plain
from glassformer.core.showing import ShownOfModel
from glassformer.models.base import Model, counting_threshold, require_theory
from glassformer.models.channels.exponents import Exponents
from glassformer.theory.equation_of_state import StateCurve, equation_of_state, natural_scale, resolved_curve
from glassformer.theory.state_evolution import evolved
from glassformer.theory.subspaces import group_named
from glassformer.theory.weak_recovery import information_at, staircase


@dataclass(frozen=True)
class Policy:
    """Where hard phases are looked for, and what makes one.

    Attributes:
        flat: relative decrease of the curve that is no longer rounding.
        around: sample ratios over the first and the last threshold at which they are looked for.
        apart: distance per row that makes two fixed points, located with few data points, two.
    """

    flat: float = 1e-7
    around: tuple[float, ...] = (0.9, 1.1, 1.5, 2.5)
    apart: float = 0.1


_POLICY = Policy()


_UNCOUNTED = "weights without continuous degrees of freedom, or of a law that does not say: nothing to count"
_READ_OFF = "read off the equation of state"
_UNEXAMINED = "not read off: several rows have no equation of state; limits tells at any ratio (status bistable)"
_UNSTABLE = "the uninformed state loses stability"


@dataclass(frozen=True)
class Threshold:
    """A sample ratio at which something begins.

    Attributes:
        name: what begins.
        alpha: where, in the model's unit; infinity when it never does, NaN when the notion does not apply or
            averages are too rough to tell.
        error_estimate: absolute error of ``alpha``; zero for closed forms, NaN where ``alpha`` is no finite number.
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

    def __post_init__(self) -> None:
        if not np.isfinite(self.alpha):
            object.__setattr__(self, "error_estimate", np.nan)

    @property
    def reached(self) -> str:
        """``at_alpha``, ``never`` or ``does_not_apply``: JSON has one word, null, for what is no finite number."""
        return "does_not_apply" if np.isnan(self.alpha) else "never" if np.isinf(self.alpha) else "at_alpha"

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, by name."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {**plain(known), "reached": self.reached}


@dataclass(frozen=True)
class Thresholds(ShownOfModel):
    """All thresholds of a model, whether it has a hard phase and how that is known, and the exponents of a link.

    What is not known is None; so are infinite numbers in :meth:`to_dict`, where ``reached`` tells what they stand for.

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
    hard_phase_reason: str = ""
    exponents: Exponents | None = None
    drawing = "plot_thresholds"

    @property
    def remarks(self) -> tuple[str, ...]:
        said = {True: "yes", False: "no", None: "unknown"}[self.hard_phase]
        return (f"hard phase: {said} ({self.hard_phase_reason})",)

    def __getitem__(self, name: str) -> Threshold:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise ParameterError("name", name, f"one of {', '.join(entry.name for entry in self.entries)}")

    def to_dict(self) -> dict[str, Any]:
        """The thresholds as the command line writes them in JSON; None where there is none, and why in ``reached``."""
        exponents = {} if self.exponents is None else self.exponents._asdict()
        return {
            "model": self.model,
            "parameters": plain(self.parameters),
            "thresholds": [entry.to_dict() for entry in self.entries],
            "hard_phase": self.hard_phase,
            "hard_phase_reason": self.hard_phase_reason,
            **plain({f"{name}_exponent": value for name, value in exponents.items()}),
        }

    def display_frame(self) -> Any:
        """Ratios that are never reached as infinite, those that do not apply as not known."""
        return self.to_pandas().assign(alpha=[entry.alpha for entry in self.entries])

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

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> found = thresholds(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        >>> found["perfect_recovery"].alpha, found["perfect_recovery"].note
        (0.75, 'Bayes-optimal; counting of degrees of freedom')
    """
    require_theory(model)
    ends = _hard_phase(model, resolved_curve(model)) if model.has_curve else ()
    entries = [
        *_weak_recovery(model),
        *(_perfect_recovery(model, ends[-1]) if ends else [_recovery_of_all(model)]),
        *ends,
        *(_baseline(name, alpha) for name, alpha in model.baseline_thresholds.items()),
    ]
    hard_phase, reason = (not np.isnan(ends[-1].alpha), _READ_OFF) if ends else _examined(model, entries)
    exponents = model.channel.in_rows.exponents
    return Thresholds(model.name, model.parameters, tuple(entries), hard_phase, reason, exponents)


def _examined(model: Model, entries: list[Threshold]) -> tuple[bool | None, str]:
    """Whether fixed points from both starts differ at a few sample ratios around the thresholds."""
    if not model.few_rows:
        return None, _UNEXAMINED
    places = [entry.alpha for entry in entries if np.isfinite(entry.alpha) and entry.alpha > 0]
    if not places:
        return None, "no finite threshold to look around; limits tells at any ratio (status bistable)"
    alpha = np.unique(np.outer([min(places), max(places)], _POLICY.around))
    low = evolved(model, alpha, "uninformed", coarse=True)
    high = evolved(model, alpha, "informed", coarse=True, beside=low)
    settled = low.settled & high.settled
    apart = settled & (np.linalg.norm(low.value - high.value, axis=(1, 2)) > _POLICY.apart * model.prior.in_rows.rows)
    if apart.any():
        return True, f"informed and uninformed fixed points differ at alpha = {_listed(alpha[apart])}"
    if not settled.all():
        return None, f"fixed points did not settle at alpha = {_listed(alpha[~settled])}"
    return False, f"informed and uninformed fixed points agree at alpha = {_listed(alpha)}; no other ratio was tried"


def _listed(values: Array) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _baseline(name: str, alpha: float) -> Threshold:
    return Threshold(name, alpha, 0.0, "not defined for these labels" if np.isnan(alpha) else "closed form")


def _weak_recovery(model: Model) -> list[Threshold]:
    """Where rows are found: for labels that are not even the first one, by its information at zero overlap."""
    prior = model.prior.in_rows
    if model.channel.even and prior.side == 0:
        return [_weak_recovery_of_even(model)] if model.has_curve else _staircase(model, 1)
    information, error = information_at(model, np.eye(prior.rows))
    row = int(np.argmax(np.diag(information)))
    slope, blur = float(information[row, row]), float(error[row, row])
    start = prior.degrees * prior.onset / slope
    found = f"{model.row_names[row]} first" if prior.rows > 1 else _UNSTABLE
    note = found if prior.onset else "any data help: the labels are not even in h"
    first = Threshold("weak_recovery", start, start * blur / slope, note, **_named(model, row))
    later = prior.rows > 1 and prior.side == 0 and prior.onset == 0 and not model.has_curve
    return [first, *(_staircase(model, 2) if later else [])]


def _weak_recovery_of_even(model: Model) -> Threshold:
    """The limit of the equation of state at vanishing overlap, by Richardson's extrapolation: it is analytic there."""
    if _hidden(model):
        note = "generative exponent above 2: no finite sample ratio"
        return Threshold("weak_recovery", np.inf, 0.0, note, **_named(model, 0))
    if model.prior.in_rows.onset > 0:
        note = "even labels carry no information at zero overlap, on this sample scale"
        return Threshold("weak_recovery", np.inf, 0.0, note)
    curve = equation_of_state(model, 1e-5 * natural_scale(model) * np.array([1.0, 2.0, 4.0]))
    linear = 2 * curve.alpha[:2] - curve.alpha[1:]
    value = float((4 * linear[0] - linear[1]) / 3)
    error = float(abs(value - linear[0]) + curve.error[0])
    return Threshold("weak_recovery", value, error, _UNSTABLE, **_named(model, 0))


def _staircase(model: Model, begin: int) -> list[Threshold]:
    entries = []
    for number, step in enumerate(staircase(model), begin):
        name = "weak_recovery" if number == 1 else f"weak_recovery_{number}"
        place = (name, step.alpha, step.error_estimate)
        if not np.isfinite(step.alpha):
            what = "averages are too rough: more data points tell" if np.isnan(step.alpha) else "no direction grows"
            note = f"{what}; within the error nothing is found up to alpha = {step.silent:.2g}"
            entries.append(Threshold(*place, note))
            continue
        if step.degenerate:
            note = "several directions are found at once, within the error: none is singled out"
            entries.append(Threshold(*place, note))
            continue
        layer = group_named(step.matrix, model.row_groups)
        entries.append(Threshold(*place, f"{layer or 'a subspace'} is found", layer, step.matrix.tolist()))
    return entries


def _hidden(model: Model) -> bool:
    """Whether the information about an unknown signal vanishes faster than its overlap."""
    exponents = model.channel.in_rows.exponents
    return exponents is not None and exponents.generative > 2 and model.prior.in_rows.side == 0


def _named(model: Model, row: int) -> dict[str, Any]:
    """The row that a threshold belongs to, for models that tell rows apart, and the subspace that it spans."""
    if not model.overlap_shape:
        return {}
    return {"layer": model.row_names[row], "subspace": np.diag(np.eye(model.prior.in_rows.rows)[row]).tolist()}


def _recovery_of_all(model: Model) -> Threshold:
    """Perfect recovery of all rows, by counting."""
    if not model.prior.in_rows.mmse_dimension > 0:
        return Threshold("perfect_recovery", np.nan, 0.0, _UNCOUNTED)
    if not model.channel.rank > 0:
        # What is continuous is never known exactly from labels that are not.
        return Threshold("perfect_recovery", np.inf, 0.0, "labels do not fix the fields")
    note = "of all rows; counting of degrees of freedom"
    return Threshold("perfect_recovery", counting_threshold(model), 0.0, note)


def _perfect_recovery(model: Model, hard_end: Threshold) -> list[Threshold]:
    """Perfect recovery of one row, by counting, and by message passing, which has to leave the hard phase first."""
    counted = _recovery_of_all(model)
    by_message_passing = replace(hard_end, name="algorithmic_perfect_recovery", note="reached by message passing")
    if np.isinf(counted.alpha):
        note = "labels do not fix h: the error vanishes at no finite sample ratio"
        return [replace(counted, note=note), Threshold(by_message_passing.name, np.inf, 0.0, note)]
    if np.isnan(counted.alpha):
        note = by_message_passing.note if np.isfinite(hard_end.alpha) else _UNCOUNTED
        return [counted, replace(by_message_passing, note=note)]
    if not hard_end.alpha > counted.alpha:
        by_message_passing = replace(by_message_passing, alpha=counted.alpha, error_estimate=0.0)
    return [replace(counted, note="Bayes-optimal; counting of degrees of freedom"), by_message_passing]


def _hard_phase(model: Model, curve: StateCurve) -> tuple[Threshold, Threshold]:
    """Sample ratios between which the equation of state has several branches; NaN when it increases throughout."""
    counting = counting_threshold(model)
    alpha = np.append(curve.alpha, counting)
    summit = np.maximum.accumulate(alpha)
    folded = alpha < summit * (1 - _POLICY.flat)
    start = end = (np.nan, 0.0)
    notes = ("no hard phase", "no hard phase")
    if folded.any():
        notes = ("a second, informed fixed point appears", "the uninformed fixed point disappears")
        low = int(np.argmin(np.where(folded, alpha, np.inf)))
        high = int(np.argmax(np.where(np.append(folded[1:], False) | folded, summit, -np.inf)))
        high = int(np.flatnonzero(alpha == summit[high])[0])
        start = curve.extremum(low) if low < len(curve.alpha) else (counting, 0.0)
        unreachable = (model.channel.even and model.prior.onset > 0) or _hidden(model)
        end = (np.inf, 0.0) if unreachable else curve.extremum(high)
    return Threshold("hard_phase_start", *start, notes[0]), Threshold("hard_phase_end", *end, notes[1])
