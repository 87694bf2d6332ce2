"""Recovery thresholds and hard phases.

For one row all thresholds follow from the equation of state: its value at vanishing overlap is the threshold of weak
recovery, its value at perfect overlap is that of perfect recovery, and two stable fixed points coexist where it
decreases (a hard phase). For several rows weak recovery follows from linear stability
(:mod:`~glassformer.bayes_optimal.weak_recovery`), and a hard phase is detected by comparing the fixed points of both
starts at a few sample ratios.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glassformer.bayes_optimal.equation_of_state import StateCurve, natural_scale, perfect_end, resolved_curve
from glassformer.bayes_optimal.evolution_map import EvolutionMap
from glassformer.bayes_optimal.expected_time import expected_work
from glassformer.bayes_optimal.limits import free_entropy_gap
from glassformer.bayes_optimal.solve import coarse_state_evolution
from glassformer.bayes_optimal.threshold_results import Threshold, Thresholds
from glassformer.bayes_optimal.weak_recovery import is_hidden, weak_recovery
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.checks import require_arguments
from glassformer.core.estimate import Array
from glassformer.core.progress import progress
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.models.base import Model, counting_threshold, require_theory
from glassformer.numerics.quasi_random import confidence_factor

# Relative decrease of the equation of state below which it is a rounding error.
_ROUNDING = 1e-7
# Several rows: fixed points are compared at these multiples of the first and the last threshold; coarse fixed points at
# a larger distance per row are different; the transition is searched up to this factor beyond (chosen by trial).
_MULTIPLES, _DISTANCE, _BEYOND = (0.9, 1.1, 1.5, 2.5), 0.1, 2.0
# Errors, as a share of this distance, of fixed points that can be compared.
_ACCURATE = 0.2
# Bayes-optimal transition: relative accuracy, last step as a share of the error, largest number of steps.
_ACCURACY, _LAST_STEP, _MOST_STEPS = 1e-10, 0.3, 40
# Distance from the counting threshold, as a share of the hard phase, at which free entropies are compared.
_MARGIN = 1e-3

_TRANSITION = "bayes_optimal_transition"
_NO_HARD_PHASE = "No hard phase"
_CROSSING = "The informed fixed point becomes the one of larger free entropy"
_NEVER_PERFECT = "Noisy or discrete labels: perfect recovery is impossible at finite alpha"
_NEVER_ALL = "Labels change with some rows by jumps alone: these are not known perfectly at any finite alpha"
_NO_COUNTING = "Not determined: the prior is discrete, or its number of degrees of freedom is unknown"


def bayes_optimal_thresholds(model: Model) -> Thresholds:
    """Return the thresholds of weak and perfect recovery, the ends of a hard phase, and the transition inside it.

    Equations :eq:`weak-recovery` and :eq:`bayes-optimal-transition` of the documentation.

    - ``weak_recovery``: above it the uninformed start, and message passing, find a non-zero overlap.
    - ``perfect_recovery``: above it the Bayes-optimal error is zero.
    - ``algorithmic_perfect_recovery``: above it the error of message passing is zero.
    - ``hard_phase_start`` and ``hard_phase_end``: between them, and only there, the informed and the uninformed fixed
      points differ.
    - ``bayes_optimal_transition``: here, inside the hard phase, the free entropies of both fixed points are equal, and
      the Bayes-optimal error jumps from one to the other.
    - ``nuclear_norm_perfect_recovery``: perfect recovery by minimal nuclear norm, for models with this baseline.

    The hard phase begins at exactly zero if the informed fixed point is stable at every sample ratio: weights are
    discrete, and the information of the labels grows like a power of the inverse variance. For several rows the fixed
    points are compared at a few sample ratios, from which the search for the transition starts.

    Args:
        model: prior and channel.

    Returns:
        :class:`Thresholds`; entries that do not apply have ``alpha`` NaN and a note with the reason.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> found = bayes_optimal_thresholds(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        >>> found["perfect_recovery"].alpha, found["perfect_recovery"].note
        (0.75, 'Bayes-optimal; counting of degrees of freedom')
    """
    require_arguments(bayes_optimal_thresholds, locals())
    require_theory(model)
    hard_phase: bool | None
    with progress(f"thresholds {model.name}", expected_work(model, "thresholds", model.prior.rows)):
        entries = weak_recovery(model)
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
    exponents = model.channel.labels.exponents
    return Thresholds(model.name, model.parameters, tuple(entries), hard_phase, reason, exponents)


# --- perfect recovery -------------------------------------------------------------------------------------------------


def _counting(model: Model) -> Threshold:
    """Return the threshold of perfect recovery of all rows, by counting degrees of freedom."""
    if not model.prior.mmse_dimension > 0:
        return Threshold("perfect_recovery", np.nan, 0.0, _NO_COUNTING)
    if not model.channel.labels.rank > 0:
        return Threshold("perfect_recovery", np.inf, 0.0, _NEVER_PERFECT)
    if model.channel.labels.row_symmetries.by_jumps:
        return Threshold("perfect_recovery", np.inf, 0.0, _NEVER_ALL)
    note = f"Of {model.learned_rows}; counting of degrees of freedom"
    return Threshold("perfect_recovery", counting_threshold(model), 0.0, note)


def _perfect_recovery(model: Model, perfect: float, transition: Threshold, hard_end: Threshold) -> list[Threshold]:
    """Return the thresholds of perfect recovery of one row, Bayes-optimal and by message passing.

    Message passing recovers the signal where the uninformed fixed point has disappeared, at the end of the hard phase.
    """
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
    """Return the sample ratios between which the equation of state has several branches; NaN if it is increasing."""
    discrete = model.prior.mmse_dimension == 0
    # Discrete weights whose variance is below the smallest one of the channel are known exactly.
    shown = int(np.sum(curve.variance > model.channel.inference.smallest)) if discrete else len(curve.alpha)
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
        unreachable = (model.channel.labels.even and model.prior.weak_recovery_onset > 0) or is_hidden(model)
        end = (np.inf, 0.0) if unreachable else curve.extremum(high)
        if start[0] == 0:
            notes[0] = "The informed fixed point, discrete weights known exactly, is stable at any alpha > 0"
    return Threshold("hard_phase_start", *start, notes[0]), Threshold("hard_phase_end", *end, notes[1])


def _hard_phase_of_rows(model: Model, entries: list[Threshold]) -> tuple[bool | None, str, Threshold]:
    """Return whether the fixed points of both starts differ at a few sample ratios, the reason, and the transition.

    The ratios are close to the thresholds. If weak recovery is possible at any alpha and there is no other threshold,
    they are close to as many labels as unknowns.
    """
    undetermined = Threshold(_TRANSITION, np.nan, 0.0, "")
    if not model.has_user_link:
        reason = "Not determined for several rows. Run `limits`; status `bistable` marks a hard phase"
        return None, reason, replace(undetermined, note=reason)
    places = [entry.alpha for entry in entries if np.isfinite(entry.alpha) and entry.alpha > 0]
    if not places and entries[0].alpha == 0:
        places = [model.prior.degrees * natural_scale(model)]
    if not places:
        reason = "Not determined: no threshold is finite. Run `limits`; status `bistable` marks a hard phase"
        return None, reason, replace(undetermined, note=reason)
    alpha = np.unique(np.outer([min(places), max(places)], _MULTIPLES))
    update = EvolutionMap(model, alpha, model.channel)
    uninformed = coarse_state_evolution(update, "uninformed")
    informed = coarse_state_evolution(update, "informed", other=uninformed)
    settled = _is_known(uninformed, model.prior.rows) & _is_known(informed, model.prior.rows)
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


def _is_known(solution: Solution, rows: int) -> NDArray[np.bool_]:
    """Return which fixed points are known well enough to tell whether two of them differ.

    Next to perfect recovery averages over few data points have large relative errors; fixed points that differ are much
    farther apart than that.
    """
    inaccurate = np.array([status is Status.INTEGRATION_NOT_CONVERGED for status in solution.status])
    return np.asarray(solution.settled | (inaccurate & (solution.error_estimate < _ACCURATE * _DISTANCE * rows)))


def _join(values: Array) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _transition(model: Model, start: Threshold, end: Threshold) -> Threshold:
    """Return where, inside the hard phase of one row, the informed fixed point has the larger free entropy."""
    if np.isnan(end.alpha):
        return Threshold(_TRANSITION, np.nan, 0.0, _NO_HARD_PHASE)
    # Beyond the counting threshold, if labels determine the field, the free entropy of the exact signal is infinite.
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
        note = f"{_CROSSING}, which is infinite beyond the counting threshold"
        return Threshold(_TRANSITION, counting, 0.0, note)
    return _crossing(model, 0.5 * (low + high), low, high)


def _crossing(model: Model, alpha: float, low: float, high: float) -> Threshold:
    """Return where the free entropies of both fixed points are equal, by Newton steps from ``alpha`` within a bracket.

    Their difference increases with the sample ratio, and its slope is the difference of the output parts. The crossing
    counts as not determined if its error exceeds half of the bracket.
    """
    factor = confidence_factor(REPLICAS) if model.channel.inference.sampled else 1.0
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
