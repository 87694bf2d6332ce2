"""Sample-size planning: the sample ratio beyond which a learner's error stays below a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from glassformer.bayes_optimal.threshold_results import Thresholds
from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import is_number, require_arguments, require_integer
from glassformer.core.equality import ComparedByContent
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.renamed import verb
from glassformer.core.results import NamedEntries, error_column, to_json_types
from glassformer.core.status import Status
from glassformer.learners.base import Learner, Theory
from glassformer.learners.registry import names
from glassformer.models.base import Model
from glassformer.verbs.crossings import Crossing, CurveValues, crossings, invalid_statuses, valid_rows
from glassformer.verbs.quantities import column_of, require_quantity
from glassformer.verbs.question import asked
from glassformer.verbs.width_plan import WIDTH, WidthPlan, plan_width

DEFAULT = names()[0]
"""The default learner."""

# Sample ratios, as exponents of two: the initial range, and the step for cheap and for expensive curves.
_FIRST, _LAST, _FINE, _COARSE = -5, 5, 0.5, 1.0
# Additional ratios close to thresholds, in units of the threshold.
_NEXT_TO = (0.98, 1.02)
# Exponents by which the range is extended per step if the target is not reached, and largest exponent.
_EXTENSION, _FARTHEST = 8, 21
# Largest error estimate of values that are rounding errors (a convention; those of exact curves are below 1e-7).
_ROUNDING = 1e-6
# Relative change over the last extension below which a curve has levelled off.
_LEVEL = 0.01


@dataclass(frozen=True, eq=False)
class PlanEntry(ComparedByContent):
    """Number of samples at which one curve reaches a target.

    Attributes:
        name: name of the curve; with the suffix ``_at_first`` if the target is reached and lost again.
        alpha: ratio beyond which the quantity stays at or below the target; infinity if there is none.
        error_estimate: absolute error of ``alpha``.
        samples: number of samples at the given size; None without a size, or if ``alpha`` is not finite.
        note: explanation of the entry.
        status: status of the limits from which the entry follows.
    """

    name: str
    alpha: float
    error_estimate: float
    samples: int | None
    note: str
    status: Status

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the entry, and ``reached``: whether there is such a sample ratio."""
        reached = "never_seen" if np.isinf(self.alpha) else "unknown" if np.isnan(self.alpha) else "at_alpha"
        return {**to_json_types(dict(vars(self))), "reached": reached}


@dataclass(frozen=True, eq=False)
class Plan(NamedEntries[PlanEntry]):
    """Sample ratios at which a learner's error reaches a target.

    Attributes:
        model: short name of the model.
        parameters: parameters of model and learner.
        quantity: quantity that has a target.
        target: target value.
        d: token dimension for the number of samples; None if not given.
        entries: one or two entries for each curve of the learner.
        thresholds: thresholds of the learner; None if they are not known.
        curves: values of the quantity by the name of the curve, and the sample ratios ``alpha``.
        notes: remarks on the result.
    """

    model: str
    parameters: dict[str, Any]
    quantity: str
    target: float
    d: int | None
    entries: tuple[PlanEntry, ...]
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
        """True if all limits from which the entries follow converged."""
        return all(entry.status.ok for entry in self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as the command line writes it in JSON; None for numbers that do not exist."""
        thresholds = [] if self.thresholds is None else [entry.to_dict() for entry in self.thresholds.entries]
        return {
            "model": self.model,
            "parameters": to_json_types(self.parameters),
            "quantity": self.quantity,
            "target": self.target,
            "d": self.d,
            "needed": [entry.to_dict() for entry in self.entries],
            "thresholds": thresholds,
            "curves": to_json_types(self.curves),
            "notes": list(self.notes),
        }


@overload
def plan(
    model: Model,
    target: float,
    learner: str | Learner = DEFAULT,
    *,
    quantity: str = "error",
    over: None = None,
    d: int | None = None,
    accuracy: Accuracy | None = None,
) -> Plan: ...


@overload
def plan(
    model: Model,
    target: float,
    learner: str | Learner = DEFAULT,
    *,
    quantity: str = "error",
    over: Literal["student_rho"],
    d: int | None = None,
    accuracy: Accuracy | None = None,
) -> WidthPlan: ...


@verb
def plan(
    model: Model,
    target: float,
    learner: str | Learner = DEFAULT,
    *,
    quantity: str = "error",
    over: str | None = None,
    d: int | None = None,
    accuracy: Accuracy | None = None,
) -> Plan | WidthPlan:
    r"""Return the sample ratio beyond which a learner's error stays at or below a target.

    The limits are computed for :math:`\alpha` from 1/32 to 32 and close to the thresholds, and further in either
    direction if the target requires it. At crossings of curve and target the ratio is refined to a relative accuracy of
    :math:`10^{-7}`. Errors may increase with the number of samples, for instance towards an interpolation peak. The
    result is the ratio beyond which the quantity stays at or below the target at all computed ratios. If the target is
    reached and lost before, the first ratio has a separate entry.

    Args:
        model: a model for which the limits of the learner are known.
        target: target value > 0 of the quantity.
        learner: a learner or its name; by default message passing, together with the Bayes-optimal estimator. In a hard
            phase the two reach a target at different ratios.
        quantity: one of :data:`~glassformer.verbs.quantities.QUANTITIES` among the columns of the limits.
        over: None, for the sample ratio; ``"student_rho"`` of learner ``risk``, for the width of the student: errors
            over widths, at the sample ratio that the full width needs.
        d: token dimension >= 2 for the number of samples.
        accuracy: tolerances and sizes of samples.

    Returns:
        :class:`Plan`. If the target is not reached, ``alpha`` is infinite and a note describes the end of the curve.
        Over a width :class:`~glassformer.verbs.width_plan.WidthPlan`.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the theory or the quantity is not available, or the model has no finite size; over a width,
            the learner has none, or its full width does not reach the target.

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
    require_quantity(quantity)
    if d is not None:
        require_integer("d", d, 2)
    if over not in (None, WIDTH):
        raise ParameterError("over", over, f"None, for the sample ratio, or {WIDTH}, for the width of the student")
    target, question = float(target), asked(model, learner, accuracy, "plan")
    if over is not None:
        question = question._replace(learner=_of_full_width(question.learner))
    (model, chosen), theory = question, question.theory
    size = None if d is None else model.at_size(d)
    thresholds: Thresholds | None
    try:
        thresholds = theory.thresholds()
    except IncompatibleError:
        thresholds = None
    places = [] if thresholds is None else [one.alpha for one in thresholds.entries if np.isfinite(one.alpha)]
    limits = _Limits(theory, quantity, places)
    curves = _extended(limits, limits.at(_first_ratios(limits)), target)
    entries = [entry for name in curves.by_name for entry in _entries(limits, name, curves, target)]
    entries = [
        replace(one, note="; ".join(filter(None, [one.note, theory.remark(one.alpha)])))
        if np.isfinite(one.alpha)
        else one
        for one in entries
    ]
    if over is not None:
        return _over_widths(model, chosen, quantity, target, entries[-1])
    if size is not None:
        entries = [_with_samples(entry, size.unit) for entry in entries]
    return Plan(
        model.name,
        {**limits.parameters, "learner": chosen.name},
        quantity,
        target,
        d,
        tuple(entries),
        thresholds,
        {"alpha": curves.alpha, **{name: curve.value for name, curve in curves.by_name.items()}},
        [*_hard_phase_note(entries), *_not_converged_note(curves)],
    )


def _of_full_width(learner: Learner) -> Learner:
    """Return the learner without a width of its own, over which one plans."""
    if WIDTH not in learner.settings:
        raise IncompatibleError(f"learner {learner.name} has no setting {WIDTH}: use learner risk")
    return learner.varied(**{WIDTH: None})


def _over_widths(model: Model, learner: Learner, quantity: str, target: float, full: PlanEntry) -> WidthPlan:
    if not 0 < full.alpha < np.inf:
        raise IncompatibleError(f"over = {WIDTH} needs a target that the full width reaches: {full.note}")
    return plan_width(model, learner, quantity, target, full.alpha)


# --- the curves -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curves:
    """Curves of a learner at increasing sample ratios, by name."""

    alpha: Array
    by_name: dict[str, CurveValues]

    def merged(self, other: _Curves) -> _Curves:
        """Return the curves at the ratios of both objects, in increasing order."""
        alpha = np.concatenate([self.alpha, other.alpha])
        order = np.argsort(alpha, kind="stable")

        def joined(one: CurveValues, more: CurveValues) -> CurveValues:
            status = [*one.status, *more.status]
            value, error, estimate, standard_error = (
                np.concatenate([a, b])[order] for a, b in zip(one[:4], more[:4], strict=True)
            )
            return CurveValues(value, error, estimate, standard_error, [status[k] for k in order])

        return _Curves(alpha[order], {name: joined(one, other.by_name[name]) for name, one in self.by_name.items()})


class _Limits:
    """Limits of a learner as curves of one quantity, and the ratios of its thresholds."""

    def __init__(self, theory: Theory, quantity: str, thresholds: Sequence[float]) -> None:
        self.theory, self.model, self.quantity = theory, theory.model, quantity
        self.thresholds = thresholds
        self.parameters: dict[str, Any] = {}
        self._computed: dict[bytes, _Curves] = {}

    def at(self, alpha: NDArray[np.floating[Any]]) -> _Curves:
        """Return all curves at these ratios; results are stored."""
        key = alpha.tobytes()
        if key not in self._computed:
            self._computed[key] = self._compute(np.asarray(alpha, dtype=float))
        return self._computed[key]

    def _compute(self, alpha: Array) -> _Curves:
        table = self.theory.limits(alpha)
        self.parameters = table.parameters
        column = column_of(self.quantity, self.theory, table)
        standard_error = table.columns.get(error_column(column, "standard_error"), np.zeros_like(alpha))
        by_name = {}
        for name, (value, known, estimate) in self.theory.curves(table, column).items():
            # Rounding errors beyond perfect recovery count as zero, so that they do not cross a target.
            above_zero = np.where((known <= estimate) & (estimate <= _ROUNDING), 0.0, value)
            by_name[name] = CurveValues(above_zero, known, estimate, standard_error, table.status)
        return _Curves(alpha, by_name)


def _first_ratios(limits: _Limits) -> Array:
    """Return ratios at equal logarithmic distances, and close to thresholds."""
    step = _FINE if limits.model.has_curve and limits.theory.crossing_width is None else _COARSE
    even = 2.0 ** np.arange(_FIRST, _LAST + step / 2, step)
    inside = [place for place in limits.thresholds if even[0] < place < even[-1]]
    return np.unique(np.concatenate([even, *(place * np.array(_NEXT_TO) for place in inside)]))


def _extended(limits: _Limits, curves: _Curves, target: float) -> _Curves:
    """Return curves extended upwards until all are below the target or level, and downwards until all are above."""

    def may_still_fall(curve: CurveValues) -> bool:
        good = valid_rows(curve)
        if not good.any() or curve.value[good][-1] <= target:
            return False
        return _ending(curves.alpha[good], curve.value[good]) == _FALLING

    def starts_below(curve: CurveValues) -> bool:
        values = curve.value[valid_rows(curve)]
        return bool(len(values) and values[0] <= target)

    for first in range(_LAST, _FARTHEST, _EXTENSION):
        if not any(map(may_still_fall, curves.by_name.values())):
            break
        curves = curves.merged(limits.at(2.0 ** np.arange(first + 1, first + _EXTENSION + 1)))
    for first in range(_FIRST, -_FARTHEST, -_EXTENSION):
        if not any(map(starts_below, curves.by_name.values())):
            break
        curves = curves.merged(limits.at(2.0 ** np.arange(first - _EXTENSION, first)))
    return curves


_FALLING, _LEVELLED, _RISING = "still falling", "levelling off", "not falling"


def _ending(alpha: Array, value: Array) -> str:
    """Return whether a curve is falling, level or rising over the last factor of at most 2^8 of the ratio."""
    before = int(np.searchsorted(alpha, alpha[-1] / 2.0**_EXTENSION))
    fall = float(value[before] - value[-1])
    if not fall > 0:
        return _RISING
    return _LEVELLED if fall <= _LEVEL * value[-1] else _FALLING


# --- the entries ------------------------------------------------------------------------------------------------------


def _entries(limits: _Limits, name: str, curves: _Curves, target: float) -> list[PlanEntry]:
    """Return the entry of the ratio beyond which a curve stays below the target, and of the first if it is lost."""
    curve, alpha = curves.by_name[name], curves.alpha
    good = valid_rows(curve)
    if not good.any():
        return [PlanEntry(name, np.nan, np.nan, None, "limits did not converge at any ratio", curve.status[0])]
    width = limits.theory.crossing_width
    sampled = width is not None or not limits.model.has_curve
    passed = crossings(
        lambda ratios: limits.at(ratios).by_name[name], alpha, curve, target, limits.thresholds, sampled, width
    )
    if not passed or not passed[-1].falls:
        last = _without_crossing(name, alpha[good], curve.value[good], target, _first_unsettled(curve.status))
        doubt = float(curve.error_estimate[good][-1])
        if abs(curve.value[good][-1] - target) <= doubt and curve.error[good][-1] == curve.value[good][-1]:
            text = f"{last.note}; the target is within the error estimate {doubt:.2g} of the last value"
            last = replace(last, note=text)
    else:
        end = passed[-1]
        beyond = _first_unsettled([one for one, a in zip(curve.status, alpha, strict=True) if a >= end.alpha])
        status = end.status if beyond.ok else beyond
        last = PlanEntry(name, end.alpha, end.error_estimate, None, _jump_note(end), status)
    earlier = [one for one in passed if one.falls]
    if last.alpha < np.inf:
        earlier = [one for one in passed[:-1] if one.falls]
    if not earlier:
        return [last]
    first = earlier[0]
    lost = passed[passed.index(first) + 1]
    note = f"{_jump_note(first)}; lost again at alpha = {lost.alpha:.6g}".removeprefix("; ")
    status = first.status if lost.status.ok else lost.status
    return [PlanEntry(f"{name}_at_first", first.alpha, first.error_estimate, None, note, status), last]


def _first_unsettled(status: Sequence[Status]) -> Status:
    return next(iter(invalid_statuses(status)), Status.CONVERGED)


def _jump_note(crossing: Crossing) -> str:
    before, after = crossing.sides
    return f"jumps across the target, from {before:.4g} to {after:.4g}" if crossing.jumps else ""


def _without_crossing(name: str, alpha: Array, value: Array, target: float, status: Status) -> PlanEntry:
    """Return the entry of a target that is reached at all ratios, or not reached at the largest ones."""
    if value[-1] <= target:
        note = f"reached at every ratio computed: {value[0]:.4g} at alpha = {alpha[0]:.3g}"
        return PlanEntry(name, 0.0, float(alpha[0]), None, note, status)
    note = f"not reached: {value[-1]:.4g} at alpha = {alpha[-1]:.4g}, {_ending(alpha, value)}"
    least = int(np.argmin(value))
    if least < len(value) - 1 and value[least] < (1 - _LEVEL) * value[-1]:
        note = f"{note}; smallest value found {value[least]:.4g} at alpha = {alpha[least]:.4g}"
    return PlanEntry(name, np.inf, 0.0, None, note, status)


def _with_samples(entry: PlanEntry, unit: float) -> PlanEntry:
    if not np.isfinite(entry.alpha):
        return entry
    samples, error = entry.alpha * unit, min(entry.error_estimate * unit, 0.5)
    whole = np.rint(samples)
    # A number that equals an integer within its error is not rounded up.
    return replace(entry, samples=int(whole if abs(samples - whole) <= error < 0.5 else np.ceil(samples)))


def _hard_phase_note(entries: Sequence[PlanEntry]) -> list[str]:
    """Return a note on a hard phase if the curves of a learner reach the target at different ratios."""
    # Descent that is stopped early has a second curve as well, which says nothing of other algorithms.
    curves = ("bayes_optimal", "message_passing")
    reached = sorted((one for one in entries if one.name in curves), key=lambda one: one.alpha)
    if len(reached) < 2 or not reached[0].alpha < np.inf:
        return []
    first, last = reached[0], reached[-1]
    if not last.alpha - first.alpha > first.error_estimate + last.error_estimate:
        return []
    return [
        f"hard phase: {first.name} reaches the target at alpha = {first.alpha:.6g}, {last.name} at {last.alpha:.6g}; "
        "no polynomial-time algorithm is known to reach it in between"
    ]


def _not_converged_note(curves: _Curves) -> list[str]:
    status = next(iter(curves.by_name.values())).status
    lost = [f"{a:.4g} ({one})" for a, one in zip(curves.alpha, status, strict=True) if invalid_statuses([one])]
    return [f"ratios omitted because limits did not converge: alpha = {', '.join(lost)}"] if lost else []
