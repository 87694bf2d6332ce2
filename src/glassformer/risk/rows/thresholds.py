"""Thresholds of a risk of rows: where it leaves zero overlap, and where its branches appear and cross."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from glassformer.bayes_optimal.threshold_results import Threshold, Thresholds
from glassformer.core.errors import IncompatibleError
from glassformer.core.progress import note, track
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.risk.rows.fixed_points import RowFixedPoint, error_of, fixed_point_from
from glassformer.risk.rows.problem import RowProblem
from glassformer.risk.rows.row_risk import RowRisk, free_energies_of_sets, quantities, start_state

# Sample ratios that are searched, and relative accuracies of a branch's end, a crossing and a root (chosen by trial).
_RATIOS = np.geomspace(0.1, 20.0, 14)
_END, _CROSSING, _ROOT = 0.02, 5e-3, 1e-3
# Overlap at which the growth of an overlap is measured, and growth of one that is none: the student sees the teacher.
_SMALL, _SEEN = 0.03, 1e-8
# Error estimate relative to a threshold above which it counts as unknown (a convention).
_UNKNOWN = 0.5
# Factor around a root at which growth has to be below and above one beyond its error (a convention).
_AROUND = 1.5
# Sets of samples in the search for branches.
_SEARCH_SETS = 2


def row_risk_thresholds(model: Model, risk: RowRisk) -> Thresholds:
    r"""Return where the minimum of a risk of rows leaves zero overlap, and where a second minimum appears.

    Equation :eq:`row-risk` of the documentation.

    - ``weak_recovery``: from this sample ratio on, overlaps of an even student grow from zero: the largest eigenvalue
      of :math:`\partial M'/\partial M` at the fixed point of zero overlap is one.
    - ``interpolation``: below it some linear student fits all labels of square loss.
    - ``second_branch`` and ``second_branch_end``: between these the informed and the uninformed start lead to different
      fixed points, among sample ratios from 0.1 to 20.
    - ``transition``: their free energies cross, and the minimum of the risk changes from one to the other.

    Args:
        model: of the teacher.
        risk: loss, penalty, strength, student.

    Raises:
        IncompatibleError: the strength is open, or model and risk do not go together.
    """
    if risk.strength is None:
        raise IncompatibleError("strength = best changes with the sample ratio: give a number")
    problem = risk.problem(model, 1.0, risk.strength)
    entries = [_weak_recovery(problem), _interpolation(problem)]
    convex = problem.student.is_convex and not np.any(problem.gram)
    if convex:
        return Thresholds(model.name, model.parameters, tuple(entries), False, "the risk is convex and has one minimum")
    branches, found = _branches(problem, risk)
    text = (
        "two fixed points between second_branch and second_branch_end"
        if found
        else (f"one fixed point at {len(_RATIOS)} sample ratios from {_RATIOS[0]:g} to {_RATIOS[-1]:g}")
    )
    return Thresholds(model.name, model.parameters, (*entries, *branches), found, text)


# --- zero overlap -----------------------------------------------------------------------------------------------------


def _growth(problem: RowProblem) -> tuple[float, float, bool]:
    """Return the largest growth of an overlap at the fixed point of zero overlap, its standard error, convergence."""
    zero = start_state(problem, 0.0)
    point = fixed_point_from(problem, "zero", zero._replace(overlap=np.zeros_like(zero.overlap)))
    shape, columns = zero.overlap.shape, []
    for entry in range(zero.overlap.size):
        overlap = np.zeros(zero.overlap.size)
        overlap[entry] = _SMALL
        state = point.state._replace(overlap=overlap.reshape(shape))
        averages = problem.sampler.averages(state)
        sets = [type(averages)(*(part[one : one + 1] for part in averages)) for one in range(problem.sets)]
        images = [problem.from_averages(state, own, one).state for one, own in enumerate(sets)]
        columns.append([image.overlap.ravel() / _SMALL for image in images])
    slopes = np.array(columns).transpose(1, 2, 0)
    rates = [float(np.max(np.abs(np.linalg.eigvals(own)))) for own in slopes]
    mean = float(np.max(np.abs(np.linalg.eigvals(slopes.mean(axis=0)))))
    return mean, float(np.std(rates, ddof=1) / np.sqrt(len(rates))), point.status.ok


def _weak_recovery(problem: RowProblem) -> Threshold:
    name = "weak_recovery"
    zero = start_state(problem, 0.0)
    blind = zero._replace(overlap=np.zeros_like(zero.overlap))
    seen = problem.with_sets(1).step(blind).state.overlap
    if np.max(np.abs(seen)) > _SEEN:
        return Threshold(name, 0.0, 0.0, "the overlap is not zero at any alpha > 0")
    if np.any(problem.gram):
        return Threshold(name, np.nan, 0.0, "with positional encodings see transition")

    def excess(logarithm: float) -> float:
        note(f"alpha = {np.exp(logarithm):.4g}")
        return float(np.log(_growth(problem.at(np.exp(logarithm)))[0]))

    ends = np.log(_RATIOS[[0, -1]])
    if excess(ends[1]) < 0:
        return Threshold(name, np.nan, 0.0, f"an overlap of zero is stable up to alpha = {_RATIOS[-1]:g}")
    if excess(ends[0]) > 0:
        return Threshold(name, np.nan, 0.0, f"an overlap of zero is unstable from alpha = {_RATIOS[0]:g} on")
    root = float(brentq(excess, *ends, xtol=_ROOT))
    alpha = float(np.exp(root))
    (low, low_error, _), (growth, deviation, settled), (high, high_error, _) = (
        _growth(problem.at(alpha * factor)) for factor in (1 / _AROUND, 1.0, _AROUND)
    )
    if not settled:
        text = f"not determined: the fixed point of zero overlap did not converge at alpha = {alpha:.3g}"
        return Threshold(name, np.nan, 0.0, text)
    factor = confidence_factor(problem.sets)
    slope = np.log(high / low) / (2 * np.log(_AROUND))
    error = alpha * factor * deviation / growth / max(slope, 1e-3)
    # Where the proximal map jumps, growth may have no clear crossing.
    if error > _UNKNOWN * alpha or low + factor * low_error > 1 or high - factor * high_error < 1:
        text = f"not determined: growth of {growth:.3g} +- {deviation:.2g} at alpha = {alpha:.3g}; give more points"
        return Threshold(name, np.nan, 0.0, text)
    return Threshold(name, alpha, error, "an overlap of zero becomes unstable")


def _interpolation(problem: RowProblem) -> Threshold:
    name = "interpolation"
    if problem.student.loss.name == "square" and problem.student.is_linear:
        # Rows of which only a sum is seen are one row, and outputs that depend on each other are one label.
        size = problem.student.rows * problem.student.tokens
        unit = np.eye(size).reshape(size, problem.student.rows, problem.student.tokens)
        slopes, degrees = problem.student.predictions(unit), float(problem.model.prior.degrees)
        heads, of_rows = round(1 / degrees), slopes.reshape(problem.student.rows, -1)
        rows = sum(int(np.linalg.matrix_rank(of_rows[head::heads])) for head in range(heads))
        alpha = rows * degrees / int(np.linalg.matrix_rank(slopes))
        return Threshold(name, alpha, 0.0, "with fewer samples all labels can be fitted: labels = weights")
    return Threshold(name, np.nan, 0.0, "no equation is known for this student and loss: see the training loss")


# --- branches ---------------------------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """Fixed points from two starts at one sample ratio.

    Attributes:
        points: from the uninformed (or positional) and the informed start.
        settled: whether both converged.
        distinct: whether both converged, to errors that differ beyond the error estimates.
        gap: difference of their free energies.
    """

    points: tuple[RowFixedPoint, RowFixedPoint]
    settled: bool
    distinct: bool
    gap: float


def _pair(problem: RowProblem, risk: RowRisk) -> _Pair:
    first, last = (fixed_point_from(problem, name, start) for name, start in risk.two_starts(problem))
    points = first, last
    (one, own), (other, its) = (quantities(problem, point)["error"] for point in points)
    settled = first.status.ok and last.status.ok
    distinct = settled and bool(abs(one - other) > own + its + 0.02 * max(abs(one), abs(other)))
    return _Pair(points, settled, distinct, first.free_energy - last.free_energy)


def _gap_error(problem: RowProblem, pair: _Pair) -> float:
    """Return the error estimate of the gap, from the gap of every set."""
    first, last = (free_energies_of_sets(problem, point) for point in pair.points)
    gaps = first - last
    return float(error_of(np.append(gaps, gaps.mean()), gaps.mean()))


def _branches(problem: RowProblem, risk: RowRisk) -> tuple[list[Threshold], bool]:
    """Return the thresholds of a second branch, and whether there is one."""
    few = problem.with_sets(_SEARCH_SETS)
    pairs = [_pair(few.at(alpha), risk) for alpha in track(list(_RATIOS), "sample ratios")]
    distinct = np.array([pair.distinct for pair in pairs])
    names = ("second_branch", "second_branch_end", "transition")
    lost = [f"{alpha:.3g}" for alpha, pair in zip(_RATIOS, pairs, strict=True) if not pair.settled]
    unsettled = f"; the search did not converge at alpha = {', '.join(lost)}" if lost else ""
    if not distinct.any():
        return [Threshold(name, np.nan, 0.0, f"no second branch was found{unsettled}") for name in names], False
    places = np.flatnonzero(distinct)
    first, last = int(places[0]), int(places[-1])

    def end(outside: float, inside: float) -> tuple[float, float]:
        while abs(outside / inside - 1) > _END:
            middle = float(np.sqrt(outside * inside))
            note(f"alpha = {middle:.4g}")
            pair = _pair(few.at(middle), risk)
            if not pair.settled:
                break
            if pair.distinct:
                inside = middle
            else:
                outside = middle
        return float(np.sqrt(outside * inside)), abs(outside - inside)

    entries = []
    for name, place, beyond, text in (
        (names[0], first, first - 1, "two fixed points from here on"),
        (names[1], last, last + 1, "one fixed point from here on"),
    ):
        if 0 <= beyond < len(_RATIOS):
            entries.append(Threshold(name, *end(float(_RATIOS[beyond]), float(_RATIOS[place])), text + unsettled))
        else:
            entries.append(Threshold(name, np.nan, 0.0, f"beyond alpha = {_RATIOS[place]:g}, the last one searched"))
    gaps = [pairs[place].gap for place in places]
    crossings = [k for k in range(len(places) - 1) if gaps[k] * gaps[k + 1] < 0 and places[k + 1] == places[k] + 1]
    if not crossings:
        lower = "informed" if gaps[-1] > 0 else "uninformed"
        text = f"the {lower} branch has the lower free energy wherever there are two{unsettled}"
        return [*entries, Threshold(names[2], np.nan, 0.0, text)], True
    low, high = float(_RATIOS[places[crossings[0]]]), float(_RATIOS[places[crossings[0] + 1]])

    def pair_at(logarithm: float) -> _Pair:
        note(f"alpha = {np.exp(logarithm):.4g}")
        return _pair(problem.at(np.exp(logarithm)), risk)

    root = float(brentq(lambda logarithm: pair_at(logarithm).gap, np.log(low), np.log(high), xtol=_CROSSING))
    alpha, step = float(np.exp(root)), 0.02
    before, here, after = (pair_at(root + shift) for shift in (-step, 0.0, step))
    if not (before.settled and here.settled and after.settled):
        text = f"not determined: the search did not converge near alpha = {alpha:.3g}"
        return [*entries, Threshold(names[2], np.nan, 0.0, text)], True
    slope = (after.gap - before.gap) / (2 * step)
    error = alpha * (_CROSSING + _gap_error(problem.at(alpha), here) / max(abs(slope), 1e-12))
    text = "the free energies of the two branches cross: the minimum of the risk changes"
    return [*entries, Threshold(names[2], alpha, error, text)], True
