"""Recovery thresholds and hard phases.

Of one row all thresholds follow from the equation of state: its value at vanishing overlap is the weak-recovery
threshold, its value at perfect overlap that of perfect recovery, and where it decreases two stable fixed points
coexist (a hard phase). Of several rows weak recovery follows from linear stability, and fixed points from both starts
are compared at a few sample ratios.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassformer.bayes_optimal.equation_of_state import (
    StateCurve,
    equation_of_state,
    natural_scale,
    perfect_end,
    resolved_curve,
)
from glassformer.bayes_optimal.instability import DEGENERATE, STANDARD_ERRORS
from glassformer.bayes_optimal.limits import free_entropy_gap
from glassformer.bayes_optimal.solve import solve_state_evolution
from glassformer.bayes_optimal.subspaces import group_named
from glassformer.bayes_optimal.weak_recovery import information_matrix, known_at_any_ratio, weak_recovery_steps
from glassformer.channels.base import Exponents
from glassformer.channels.field_averages import REPLICAS
from glassformer.core.checks import require_arguments
from glassformer.core.equality import ComparedByContent
from glassformer.core.estimate import Array
from glassformer.core.progress import progress
from glassformer.core.results import NamedEntries, to_json_types
from glassformer.models.base import Model, counting_threshold, require_theory
from glassformer.numerics.quasi_random import confidence_factor

# Relative decrease of the equation of state below which it is rounding.
_ROUNDING = 1e-7
# Several rows: a hard phase is looked for at these multiples of the first and the last threshold, and two coarse fixed
# points at a larger distance per row are two (chosen by trial). The transition may lie this factor beyond.
_MULTIPLES, _DISTANCE, _BEYOND = (0.9, 1.1, 1.5, 2.5), 0.1, 2.0
# Bayes-optimal transition: relative accuracy; step, as a share of its error, that is the last one; steps at most.
_ACCURACY, _LAST_STEP, _MOST_STEPS = 1e-10, 0.3, 40
# Distance from the counting threshold, as a share of the hard phase, at which free entropies are compared.
_MARGIN = 1e-3

_TRANSITION = "bayes_optimal_transition"
_NO_HARD_PHASE = "No hard phase"
_UNSTABLE = "The uninformed fixed point becomes unstable"
_CROSSING = "The informed fixed point becomes the one of larger free entropy"
_NEVER_PERFECT = "Noisy or discrete labels: perfect recovery is impossible at finite alpha"
_NO_COUNTING = "Not determined: the prior is discrete, or declares no number of degrees of freedom to count"


@dataclass(frozen=True, eq=False)
class Threshold(ComparedByContent):
    """A sample ratio at which a phase begins or ends.

    Attributes:
        name: of the threshold.
        alpha: sample ratio in the model's unit; infinity if it is never reached, NaN if the notion does not apply or
            the threshold is not determined.
        error_estimate: absolute error of ``alpha``; zero for closed forms, NaN where ``alpha`` is no finite number.
        note: how the threshold is defined, or why there is none.
        layer: the group of rows that is found there, for models of several rows; None otherwise.
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
        """``at_alpha``, ``never`` or ``does_not_apply``: JSON has only null for infinity and NaN."""
        return "does_not_apply" if np.isnan(self.alpha) else "never" if np.isinf(self.alpha) else "at_alpha"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not None, by name, and ``reached``."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {**to_json_types(known), "reached": self.reached}


@dataclass(frozen=True, eq=False)
class Thresholds(NamedEntries[Threshold]):
    """All thresholds of a model by name, whether it has a hard phase and why, and the exponents of its link.

    Unknown values are None; infinite and undefined ratios are None in :meth:`to_dict`, and ``reached`` says which.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> found = thresholds(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        >>> found["perfect_recovery"].alpha, found.hard_phase
        (0.75, False)
        >>> "weak_recovery" in found, len(found) == len(list(found))
        (True, True)
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
        answer = {True: "yes", False: "no", None: "unknown"}[self.hard_phase]
        return (f"hard phase: {answer} ({self.hard_phase_reason})",)

    def to_dict(self) -> dict[str, Any]:
        """Return the thresholds as the command line writes them in JSON."""
        exponents = {} if self.exponents is None else self.exponents._asdict()
        return {
            "model": self.model,
            "parameters": to_json_types(self.parameters),
            "thresholds": [entry.to_dict() for entry in self.entries],
            "hard_phase": self.hard_phase,
            "hard_phase_reason": self.hard_phase_reason,
            **to_json_types({f"{name}_exponent": value for name, value in exponents.items()}),
        }


def thresholds(model: Model) -> Thresholds:
    """Return weak and perfect recovery, Bayes-optimal and algorithmic, the extent of a hard phase, and the baseline's.

    Equations :eq:`weak-recovery` and :eq:`bayes-optimal-transition` of the documentation.

    ``weak_recovery``: from there on the uninformed start (and message passing) finds a non-zero overlap.
    ``perfect_recovery``: from there on the Bayes-optimal error is zero. ``algorithmic_perfect_recovery``: the error
    reached by message passing is zero. ``hard_phase_start`` and ``hard_phase_end``: between them, and only there, the
    informed and the uninformed fixed points differ. ``bayes_optimal_transition``: there, inside the hard phase, the
    free entropies of the two are equal, and the Bayes-optimal error jumps from one to the other.
    ``nuclear_norm_perfect_recovery``: perfect recovery by minimal nuclear norm, where the model has that baseline.

    The hard phase begins at exactly zero where the informed fixed point is stable at every sample ratio: weights are
    discrete, and the information of the labels grows like a power of the inverse variance. Of several rows a hard phase
    is looked for at a few sample ratios, and the transition from there.

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
    require_arguments(thresholds, locals())
    require_theory(model)
    hard_phase: bool | None
    with progress(f"thresholds {model.name}"):
        entries = _weak_recovery(model)
        if model.has_curve:
            perfect = perfect_end(model)
            start, end = _hard_phase(model, resolved_curve(model), perfect)
            transition = _transition(model, start, end)
            entries += [*_perfect_recovery(model, perfect, transition, end), start, end, transition]
            hard_phase, reason = not np.isnan(end.alpha), "from the equation of state"
        else:
            entries.append(_counting(model))
            hard_phase, reason, transition = _hard_phase_of_rows(model, entries)
            entries.append(transition)
        for name, alpha in model.baseline_thresholds.items():
            note = "Not defined for these labels" if np.isnan(alpha) else "Closed form"
            entries.append(Threshold(name, alpha, 0.0, note))
    exponents = model.channel.exponents
    return Thresholds(model.name, model.parameters, tuple(entries), hard_phase, reason, exponents)


# --- weak recovery ----------------------------------------------------------------------------------------------------


def _weak_recovery(model: Model) -> list[Threshold]:
    prior = model.prior
    if prior.side > 0:
        note = "Weak recovery at any alpha > 0: side information correlates with every direction"
        return [Threshold("weak_recovery", 0.0, 0.0, note, **_direction(model, np.eye(prior.rows)))]
    if model.channel.even:
        return [_weak_recovery_of_even(model)] if model.has_curve else _later_weak_recovery(model, 1)
    if prior.weak_recovery_onset > 0:
        return [_weak_recovery_beyond_onset(model)]
    known = known_at_any_ratio(model) if prior.rows > 1 else np.eye(1)
    if not known.any():
        return _later_weak_recovery(model, 1)
    note = "Weak recovery at any alpha > 0: the link is not an even function"
    first = Threshold("weak_recovery", 0.0, 0.0, note, **_direction(model, known))
    return [first, *(_later_weak_recovery(model, 2) if prior.rows > 1 and not model.has_curve else [])]


def _weak_recovery_beyond_onset(model: Model) -> Threshold:
    """Return where the largest eigenvalue of the information at zero overlap exceeds the onset of the prior."""
    prior = model.prior
    value, error = information_matrix(model, np.eye(prior.rows))
    values, vectors = np.linalg.eigh(np.diag(np.diag(value)) if prior.diagonal else prior.allowed(value))
    uncertainty = float(np.linalg.norm(error))
    leading = vectors[:, values >= (1 - DEGENERATE) * values[-1] - STANDARD_ERRORS * uncertainty]
    alpha = prior.degrees * prior.weak_recovery_onset / float(values[-1])
    direction = _direction(model, leading @ leading.T)
    note = f"{direction['layer'] or 'a subspace'} is found first" if prior.rows > 1 else _UNSTABLE
    return Threshold("weak_recovery", alpha, alpha * uncertainty / float(values[-1]), note, **direction)


def _weak_recovery_of_even(model: Model) -> Threshold:
    """Return the limit of the equation of state at vanishing overlap: it is analytic there, so Richardson's applies."""
    if _is_hidden(model):
        note = "No weak recovery at finite alpha: the generative exponent is above 2"
        return Threshold("weak_recovery", np.inf, 0.0, note, **_direction(model, np.eye(1)))
    if model.prior.weak_recovery_onset > 0:
        note = "No weak recovery on this sample scale: even labels carry no information at zero overlap"
        return Threshold("weak_recovery", np.inf, 0.0, note)
    curve = equation_of_state(model, 1e-5 * natural_scale(model) * np.array([1.0, 2.0, 4.0]))
    linear = 2 * curve.alpha[:2] - curve.alpha[1:]
    value = float((4 * linear[0] - linear[1]) / 3)
    error = float(abs(value - linear[0]) + curve.error[0])
    return Threshold("weak_recovery", value, error, _UNSTABLE, **_direction(model, np.eye(1)))


def _later_weak_recovery(model: Model, first_number: int) -> list[Threshold]:
    entries = []
    for number, step in enumerate(weak_recovery_steps(model), first_number):
        name = "weak_recovery" if number == 1 else f"weak_recovery_{number}"
        direction: dict[str, Any] = {}
        if not np.isfinite(step.alpha):
            what = "No direction grows"
            if np.isnan(step.alpha):
                what = "Not determined, averages are too rough: use more data points (points, --data-points)"
            note = f"{what}; within the error nothing is found up to alpha = {step.silent:.2g}"
        elif step.degenerate:
            note = "Several directions are found at the same alpha, within the error"
        else:
            direction = _direction(model, step.matrix)
            note = f"{direction['layer'] or 'a subspace'} is found"
        entries.append(Threshold(name, step.alpha, step.error_estimate, note, **direction))
    return entries


def _is_hidden(model: Model) -> bool:
    """Return whether the information about an unknown signal vanishes faster than its overlap."""
    exponents = model.channel.exponents
    return exponents is not None and exponents.generative > 2 and model.prior.side == 0


def _direction(model: Model, matrix: Array) -> dict[str, Any]:
    """Return the subspace that a matrix spans, and the group of rows that it is, for models with matrix overlaps."""
    if not model.overlap_shape:
        return {}
    subspace = matrix / np.trace(matrix)
    return {"layer": group_named(subspace, model.row_groups), "subspace": subspace.tolist()}


# --- perfect recovery -------------------------------------------------------------------------------------------------


def _counting(model: Model) -> Threshold:
    """Return perfect recovery of all rows, by counting degrees of freedom."""
    if not model.prior.mmse_dimension > 0:
        return Threshold("perfect_recovery", np.nan, 0.0, _NO_COUNTING)
    if not model.channel.rank > 0:
        return Threshold("perfect_recovery", np.inf, 0.0, _NEVER_PERFECT)
    note = f"Of {model.learned_rows}; counting of degrees of freedom"
    return Threshold("perfect_recovery", counting_threshold(model), 0.0, note)


def _perfect_recovery(model: Model, perfect: float, transition: Threshold, hard_end: Threshold) -> list[Threshold]:
    """Return perfect recovery of one row, and that of message passing, which has to leave the hard phase first."""
    names = ("perfect_recovery", "algorithmic_perfect_recovery")
    by_message_passing = replace(hard_end, name=names[1], note="Reached by message passing")
    if np.isnan(model.prior.mmse_dimension):
        return [Threshold(name, np.nan, 0.0, _NO_COUNTING) for name in names]
    if np.isinf(perfect):
        return [Threshold(name, np.inf, 0.0, _NEVER_PERFECT) for name in names]
    if model.prior.mmse_dimension == 0:
        note = "Bayes-optimal; discrete weights are known exactly beyond the transition"
        return [replace(transition, name=names[0], note=note), by_message_passing]
    if not hard_end.alpha > perfect:
        by_message_passing = replace(by_message_passing, alpha=perfect, error_estimate=0.0)
    return [Threshold(names[0], perfect, 0.0, "Bayes-optimal; counting of degrees of freedom"), by_message_passing]


# --- the hard phase ---------------------------------------------------------------------------------------------------


def _hard_phase(model: Model, curve: StateCurve, perfect: float) -> tuple[Threshold, Threshold]:
    """Return the sample ratios between which the equation of state has several branches; NaN if it only increases."""
    discrete = model.prior.mmse_dimension == 0
    # Discrete weights whose variance is below the smallest one of the channel are known exactly.
    shown = int(np.sum(curve.variance > model.channel.smallest)) if discrete else len(curve.alpha)
    alpha = np.append(curve.alpha[:shown], perfect)
    summit = np.maximum.accumulate(alpha)
    folded = alpha < summit * (1 - _ROUNDING)
    start = end = (np.nan, 0.0)
    notes = [_NO_HARD_PHASE] * 2
    if folded.any():
        notes = ["A second, informed fixed point appears", "The uninformed fixed point disappears"]
        low = int(np.argmin(np.where(folded, alpha, np.inf)))
        high = int(np.argmax(np.where(np.append(folded[1:], False) | folded, summit, -np.inf)))
        high = int(np.flatnonzero(alpha == summit[high])[0])
        start = curve.extremum(low) if low < shown else (perfect, 0.0)
        unreachable = (model.channel.even and model.prior.weak_recovery_onset > 0) or _is_hidden(model)
        end = (np.inf, 0.0) if unreachable else curve.extremum(high)
        if start[0] == 0:
            notes[0] = "The informed fixed point, discrete weights known exactly, is stable at any alpha > 0"
    return Threshold("hard_phase_start", *start, notes[0]), Threshold("hard_phase_end", *end, notes[1])


def _hard_phase_of_rows(model: Model, entries: list[Threshold]) -> tuple[bool | None, str, Threshold]:
    """Compare fixed points of several rows from both starts at a few sample ratios, and find the transition from there.

    Ratios are around the thresholds; if there is weak recovery at any alpha and no other threshold, around as many
    labels as unknowns.
    """
    undetermined = Threshold(_TRANSITION, np.nan, 0.0, "")
    if not model.few_rows:
        reason = "Not determined for several rows. Run `limits`; status `bistable` marks a hard phase"
        return None, reason, replace(undetermined, note=reason)
    places = [entry.alpha for entry in entries if np.isfinite(entry.alpha) and entry.alpha > 0]
    if not places and entries[0].alpha == 0:
        places = [model.prior.degrees * natural_scale(model)]
    if not places:
        reason = "Not determined: no threshold is finite. Run `limits`; status `bistable` marks a hard phase"
        return None, reason, replace(undetermined, note=reason)
    alpha = np.unique(np.outer([min(places), max(places)], _MULTIPLES))
    uninformed = solve_state_evolution(model, alpha, "uninformed", coarse=True)
    informed = solve_state_evolution(model, alpha, "informed", coarse=True, other=uninformed)
    settled = uninformed.settled & informed.settled
    distance = np.linalg.norm(uninformed.value - informed.value, axis=(1, 2))
    distinct = settled & (distance > _DISTANCE * model.prior.rows)
    if distinct.any():
        reason = f"informed and uninformed fixed points differ at alpha = {_join(alpha[distinct])}"
        farthest = _BEYOND * float(alpha[distinct][-1])
        return True, reason, _crossing(model, float(alpha[distinct][0]), 0.0, farthest)
    if settled.all():
        reason = f"informed and uninformed fixed points agree at alpha = {_join(alpha)}, the only ratios compared"
        return False, reason, replace(undetermined, note=f"{_NO_HARD_PHASE} seen at alpha = {_join(alpha)}")
    reason = f"Not determined: fixed points did not converge at alpha = {_join(alpha[~settled])}"
    return None, reason, replace(undetermined, note=reason)


def _join(values: Array) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _transition(model: Model, start: Threshold, end: Threshold) -> Threshold:
    """Return where, inside the hard phase of one row, the informed fixed point has the larger free entropy."""
    if np.isnan(end.alpha):
        return Threshold(_TRANSITION, np.nan, 0.0, _NO_HARD_PHASE)
    # Beyond the counting threshold labels that determine the field make the free entropy of the exact signal infinite.
    counting, scale = counting_threshold(model), model.prior.degrees * natural_scale(model)
    low, high = start.alpha, min(end.alpha, counting)

    def gap(alpha: float) -> float:
        return float(free_entropy_gap(model, np.array([alpha])).value[0])

    if np.isinf(high):
        high = 2 * max(low, scale)
        for _ in range(_MOST_STEPS):
            if not gap(high) < 0:
                break
            high *= 2
    if counting <= low or (counting == high and gap(high - _MARGIN * (high - low)) < 0):
        note = f"{_CROSSING}: it is infinite beyond the counting threshold"
        return Threshold(_TRANSITION, counting, 0.0, note)
    return _crossing(model, 0.5 * (low + high), low, high)


def _crossing(model: Model, alpha: float, low: float, high: float) -> Threshold:
    """Return where the free entropies of both fixed points cross, by Newton steps from ``alpha`` within a bracket.

    Their difference increases with the sample ratio; its slope is the difference of the output parts. The crossing is
    not determined if its error is more than half of the bracket.
    """
    factor = confidence_factor(REPLICAS) if model.channel.sampled else 1.0
    first, last = low, high
    for _ in range(_MOST_STEPS):
        value, error, slope = (float(part[0]) for part in free_entropy_gap(model, np.array([alpha])))
        if np.isnan(value):
            note = f"Not determined: at alpha = {alpha:.4g} no two fixed points were found with all data points"
            return Threshold(_TRANSITION, np.nan, 0.0, note)
        low, high = (low, alpha) if value > 0 else (alpha, high)
        step, uncertainty = -value / slope, factor * error / slope
        if uncertainty > 0.5 * (last - first):
            note = f"Not determined: error +- {uncertainty:.2g}, between alpha = {first:.4g} and {last:.4g}"
            return Threshold(_TRANSITION, np.nan, 0.0, note)
        if abs(step) <= max(_ACCURACY * alpha, _LAST_STEP * uncertainty):
            return Threshold(_TRANSITION, alpha + step, uncertainty + abs(step), _CROSSING)
        alpha = alpha + step if low < alpha + step < high else 0.5 * (low + high)
    return Threshold(_TRANSITION, np.nan, 0.0, f"Not determined: between alpha = {low:.4g} and {high:.4g}")
