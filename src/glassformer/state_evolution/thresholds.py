"""Recovery thresholds and hard phases, read off the equation of state.

Its value at vanishing overlap is the weak-recovery threshold, its value at perfect overlap that of perfect recovery,
and where it decreases two stable fixed points coexist (a hard phase).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassformer.channels.field_averages import REPLICAS
from glassformer.channels.scalar.exponents import Exponents
from glassformer.core.checks import require_arguments
from glassformer.core.display import ModelDisplayMixin
from glassformer.core.equality import ComparedByContent
from glassformer.core.estimate import Array
from glassformer.core.progress import progress
from glassformer.core.results import NamedEntries, plain
from glassformer.models.base import Model, counting_threshold, require_theory
from glassformer.numerics.quasi_random import confident
from glassformer.state_evolution.equation_of_state import (
    StateCurve,
    equation_of_state,
    natural_scale,
    perfect_end,
    resolved_curve,
)
from glassformer.state_evolution.instability import GROWTH
from glassformer.state_evolution.limits import free_entropy_gap
from glassformer.state_evolution.solve import solve_state_evolution
from glassformer.state_evolution.subspaces import group_named
from glassformer.state_evolution.weak_recovery import information_at, known_at_once, staircase


@dataclass(frozen=True)
class Policy:
    """Where hard phases are looked for, and what makes one.

    Attributes:
        flat: relative decrease of the curve that is no longer rounding.
        around: sample ratios over the first and the last threshold at which they are looked for.
        apart: distance per row that makes two fixed points, located with few data points, two.
        margin: distance from the counting threshold, as a share of the hard phase, at which fixed points are compared.
        root: relative accuracy of the transition.
        settled: step towards it, as a share of its error, that is the last one.
        steps: how many at most.
        beyond: how far from a hard phase of several rows it is looked for, as a factor of the sample ratio.
    """

    flat: float = 1e-7
    around: tuple[float, ...] = (0.9, 1.1, 1.5, 2.5)
    apart: float = 0.1
    margin: float = 1e-3
    root: float = 1e-10
    settled: float = 0.3
    steps: int = 40
    beyond: float = 2.0


_POLICY = Policy()


_UNCOUNTED = "weights without continuous degrees of freedom, or of a law that does not say: nothing to count"
_READ_OFF = "read off the equation of state"
_UNEXAMINED = "not determined, averages are sampled: run limits, whose status bistable marks a hard phase"
_TRANSITION = "bayes_optimal_transition"
_NO_HARD_PHASE = "no hard phase"
_CROSSING = "the informed fixed point becomes the one of larger free entropy"
_UNSTABLE = "the uninformed state loses stability"


@dataclass(frozen=True, eq=False)
class Threshold(ComparedByContent):
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


@dataclass(frozen=True, eq=False)
class Thresholds(ModelDisplayMixin, NamedEntries[Threshold]):
    """All thresholds of a model by name, whether it has a hard phase and how that is known, and exponents of a link.

    What is not known is None; so are infinite numbers in :meth:`to_dict`, where ``reached`` tells what they stand for.

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
        said = {True: "yes", False: "no", None: "unknown"}[self.hard_phase]
        return (f"hard phase: {said} ({self.hard_phase_reason})",)

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
    with progress(f"thresholds {model.name}"):
        return _thresholds(model)


def _thresholds(model: Model) -> Thresholds:
    hard_phase: bool | None
    if model.has_curve:
        perfect = perfect_end(model)
        ends = _hard_phase(model, resolved_curve(model), perfect)
        transition = _transition(model, *ends)
        recovery = _perfect_recovery(model, perfect, transition, ends[1])
        entries = [*_weak_recovery(model), *recovery, *ends, transition]
        hard_phase, reason = not np.isnan(ends[1].alpha), _READ_OFF
    else:
        entries = [*_weak_recovery(model), _recovery_of_all(model)]
        hard_phase, reason, transition = _examined(model, entries)
        entries.append(transition)
    entries += [_baseline(name, alpha) for name, alpha in model.baseline_thresholds.items()]
    exponents = model.channel.exponents
    return Thresholds(model.name, model.parameters, tuple(entries), hard_phase, reason, exponents)


def _examined(model: Model, entries: list[Threshold]) -> tuple[bool | None, str, Threshold]:
    """Whether fixed points of several rows from both starts differ at a few sample ratios, and where the best changes.

    Ratios around the thresholds, or around as many labels as unknowns where any data help and nothing else begins.
    """
    if not model.few_rows:
        return None, _UNEXAMINED, Threshold(_TRANSITION, np.nan, 0.0, _UNEXAMINED)
    places = [entry.alpha for entry in entries if np.isfinite(entry.alpha) and entry.alpha > 0]
    if not places and entries[0].alpha == 0:
        places = [model.prior.degrees * natural_scale(model)]
    if not places:
        said = "no finite threshold to look around; limits tells at any ratio (status bistable)"
        return None, said, Threshold(_TRANSITION, np.nan, 0.0, f"not determined: {said}")
    alpha = np.unique(np.outer([min(places), max(places)], _POLICY.around))
    low = solve_state_evolution(model, alpha, "uninformed", coarse=True)
    high = solve_state_evolution(model, alpha, "informed", coarse=True, beside=low)
    settled = low.settled & high.settled
    apart = settled & (np.linalg.norm(low.value - high.value, axis=(1, 2)) > _POLICY.apart * model.prior.rows)
    if apart.any():
        reason = f"informed and uninformed fixed points differ at alpha = {_listed(alpha[apart])}"
        return True, reason, _crossing(model, float(alpha[apart][0]), 0.0, _POLICY.beyond * float(alpha[apart][-1]))
    if settled.all():
        said = f"informed and uninformed fixed points agree at alpha = {_listed(alpha)}; no other ratio was tried"
        return False, said, Threshold(_TRANSITION, np.nan, 0.0, f"no hard phase seen at alpha = {_listed(alpha)}")
    said = f"fixed points did not settle at alpha = {_listed(alpha[~settled])}"
    return None, said, Threshold(_TRANSITION, np.nan, 0.0, f"not determined: {said}")


def _listed(values: Array) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _baseline(name: str, alpha: float) -> Threshold:
    return Threshold(name, alpha, 0.0, "not defined for these labels" if np.isnan(alpha) else "closed form")


def _weak_recovery(model: Model) -> list[Threshold]:
    """Where rows are found: for labels that are not even the first ones, by their information at zero overlap."""
    prior = model.prior
    if prior.side > 0:
        note = "any data help: side information tells of every direction"
        return [Threshold("weak_recovery", 0.0, 0.0, note, **_direction(model, np.eye(prior.rows)))]
    if model.channel.even:
        return [_weak_recovery_of_even(model)] if model.has_curve else _staircase(model, 1)
    if prior.weak_recovery_onset > 0:
        return [_weak_recovery_beyond_onset(model)]
    known = known_at_once(model) if prior.rows > 1 else np.eye(1)
    if not known.any():
        return _staircase(model, 1)
    note = "any data help: the labels are not even in h"
    first = Threshold("weak_recovery", 0.0, 0.0, note, **_direction(model, known))
    return [first, *(_staircase(model, 2) if prior.rows > 1 and not model.has_curve else [])]


def _weak_recovery_beyond_onset(model: Model) -> Threshold:
    """Where the largest eigenvalue of the information at zero overlap exceeds what the prior needs."""
    prior = model.prior
    value, error = information_at(model, np.eye(prior.rows))
    values, vectors = np.linalg.eigh(np.diag(np.diag(value)) if prior.diagonal else prior.allowed(value))
    blur = float(np.linalg.norm(error))
    fastest = vectors[:, values >= (1 - GROWTH.degenerate) * values[-1] - GROWTH.errors * blur]
    alpha = prior.degrees * prior.weak_recovery_onset / float(values[-1])
    direction = _direction(model, fastest @ fastest.T)
    note = f"{direction['layer'] or 'a subspace'} first" if prior.rows > 1 else _UNSTABLE
    return Threshold("weak_recovery", alpha, alpha * blur / float(values[-1]), note, **direction)


def _weak_recovery_of_even(model: Model) -> Threshold:
    """The limit of the equation of state at vanishing overlap, by Richardson's extrapolation: it is analytic there."""
    if _hidden(model):
        note = "generative exponent above 2: no finite sample ratio"
        return Threshold("weak_recovery", np.inf, 0.0, note, **_direction(model, np.eye(1)))
    if model.prior.weak_recovery_onset > 0:
        note = "even labels carry no information at zero overlap, on this sample scale"
        return Threshold("weak_recovery", np.inf, 0.0, note)
    curve = equation_of_state(model, 1e-5 * natural_scale(model) * np.array([1.0, 2.0, 4.0]))
    linear = 2 * curve.alpha[:2] - curve.alpha[1:]
    value = float((4 * linear[0] - linear[1]) / 3)
    error = float(abs(value - linear[0]) + curve.error[0])
    return Threshold("weak_recovery", value, error, _UNSTABLE, **_direction(model, np.eye(1)))


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
        direction = _direction(model, step.matrix)
        entries.append(Threshold(*place, f"{direction['layer'] or 'a subspace'} is found", **direction))
    return entries


def _hidden(model: Model) -> bool:
    """Whether the information about an unknown signal vanishes faster than its overlap."""
    exponents = model.channel.exponents
    return exponents is not None and exponents.generative > 2 and model.prior.side == 0


def _direction(model: Model, matrix: Array) -> dict[str, Any]:
    """The subspace that a matrix spans, for models that tell rows apart, and the group of rows that it is."""
    if not model.overlap_shape:
        return {}
    subspace = matrix / np.trace(matrix)
    return {"layer": group_named(subspace, model.row_groups), "subspace": subspace.tolist()}


def _recovery_of_all(model: Model) -> Threshold:
    """Perfect recovery of all rows, by counting."""
    if not model.prior.mmse_dimension > 0:
        return Threshold("perfect_recovery", np.nan, 0.0, _UNCOUNTED)
    if not model.channel.rank > 0:
        # What is continuous is never known exactly from labels that are not.
        return Threshold("perfect_recovery", np.inf, 0.0, "labels do not fix the fields")
    note = f"of {model.learned_rows}; counting of degrees of freedom"
    return Threshold("perfect_recovery", counting_threshold(model), 0.0, note)


def _perfect_recovery(model: Model, perfect: float, transition: Threshold, hard_end: Threshold) -> list[Threshold]:
    """Perfect recovery of one row, and by message passing, which has to leave the hard phase first."""
    names = ("perfect_recovery", "algorithmic_perfect_recovery")
    by_message_passing = replace(hard_end, name=names[1], note="reached by message passing")
    if np.isnan(model.prior.mmse_dimension):
        return [Threshold(name, np.nan, 0.0, _UNCOUNTED) for name in names]
    if np.isinf(perfect):
        note = "labels do not fix h: the error vanishes at no finite sample ratio"
        return [Threshold(name, np.inf, 0.0, note) for name in names]
    if model.prior.mmse_dimension == 0:
        note = "Bayes-optimal; discrete weights are known exactly from the transition on"
        return [replace(transition, name=names[0], note=note), by_message_passing]
    if not hard_end.alpha > perfect:
        by_message_passing = replace(by_message_passing, alpha=perfect, error_estimate=0.0)
    return [Threshold(names[0], perfect, 0.0, "Bayes-optimal; counting of degrees of freedom"), by_message_passing]


def _hard_phase(model: Model, curve: StateCurve, perfect: float) -> tuple[Threshold, Threshold]:
    """Sample ratios between which the equation of state has several branches; NaN when it increases throughout."""
    discrete = model.prior.mmse_dimension == 0
    # Discrete weights whose variance is below the smallest one that the channel allows are known exactly.
    shown = int(np.sum(curve.variance > model.channel.smallest)) if discrete else len(curve.alpha)
    alpha = np.append(curve.alpha[:shown], perfect)
    summit = np.maximum.accumulate(alpha)
    folded = alpha < summit * (1 - _POLICY.flat)
    start = end = (np.nan, 0.0)
    notes = [_NO_HARD_PHASE] * 2
    if folded.any():
        notes = ["a second, informed fixed point appears", "the uninformed fixed point disappears"]
        low = int(np.argmin(np.where(folded, alpha, np.inf)))
        high = int(np.argmax(np.where(np.append(folded[1:], False) | folded, summit, -np.inf)))
        high = int(np.flatnonzero(alpha == summit[high])[0])
        start = curve.extremum(low) if low < shown else (perfect, 0.0)
        unreachable = (model.channel.even and model.prior.weak_recovery_onset > 0) or _hidden(model)
        end = (np.inf, 0.0) if unreachable else curve.extremum(high)
        if start[0] == 0:
            notes[0] = "the informed fixed point, discrete weights known exactly, is stable at any alpha > 0"
    return Threshold("hard_phase_start", *start, notes[0]), Threshold("hard_phase_end", *end, notes[1])


def _transition(model: Model, start: Threshold, end: Threshold) -> Threshold:
    """Where the informed fixed point of one row, inside the hard phase, becomes the one of larger free entropy."""
    if np.isnan(end.alpha):
        return Threshold(_TRANSITION, np.nan, 0.0, _NO_HARD_PHASE)
    # Beyond the counting threshold labels that fix the field make the free entropy of the exact signal infinite.
    counting, scale = counting_threshold(model), model.prior.degrees * natural_scale(model)
    low, high = start.alpha, min(end.alpha, counting)
    if np.isinf(high):
        high = 2 * max(low, scale)
        for _ in range(_POLICY.steps):
            if not _gap(model, high) < 0:
                break
            high *= 2
    if counting <= low or (counting == high and _gap(model, high - _POLICY.margin * (high - low)) < 0):
        return Threshold(_TRANSITION, counting, 0.0, f"{_CROSSING}: from the counting threshold on it is infinite")
    return _crossing(model, 0.5 * (low + high), low, high)


def _gap(model: Model, alpha: float) -> float:
    return float(free_entropy_gap(model, np.array([alpha])).value[0])


def _crossing(model: Model, alpha: float, low: float, high: float) -> Threshold:
    """Where the free entropies of both fixed points cross, by Newton steps from ``alpha`` within a bracket.

    Their difference increases with the sample ratio, with the difference of the output parts as its slope. Errors of
    the crossing that are half as wide as the bracket tell no more than the bracket: then it is not determined.
    """
    factor = confident(REPLICAS) if model.channel.sampled else 1.0
    first, last = low, high
    for _ in range(_POLICY.steps):
        value, error, slope = (float(part[0]) for part in free_entropy_gap(model, np.array([alpha])))
        if np.isnan(value):
            note = f"not determined: at alpha = {alpha:.4g} no two fixed points were found with all data points"
            return Threshold(_TRANSITION, np.nan, 0.0, note)
        low, high = (low, alpha) if value > 0 else (alpha, high)
        step, blur = -value / slope, factor * error / slope
        if blur > 0.5 * (last - first):
            note = f"not determined: averages resolve it to +- {blur:.2g}, between alpha = {first:.4g} and {last:.4g}"
            return Threshold(_TRANSITION, np.nan, 0.0, note)
        if abs(step) <= max(_POLICY.root * alpha, _POLICY.settled * blur):
            return Threshold(_TRANSITION, alpha + step, blur + abs(step), _CROSSING)
        alpha = alpha + step if low < alpha + step < high else 0.5 * (low + high)
    return Threshold(_TRANSITION, np.nan, 0.0, f"not determined: between alpha = {low:.4g} and {high:.4g}")
