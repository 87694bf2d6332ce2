"""What the minimum of a regularised risk of rows reaches, at each sample ratio in the limit of large sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from glassformer.core.checks import real_numbers
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.progress import note, track
from glassformer.core.results import Branches, Table
from glassformer.core.status import Status
from glassformer.models.base import Model
from glassformer.risk.penalties import penalty_of
from glassformer.risk.penalty_base import ROWS, Penalty
from glassformer.risk.problem import positive_alpha
from glassformer.risk.rows.averages import LabelSampler, OrderState, RowAverages
from glassformer.risk.rows.comparison import match_rows, prediction_quality
from glassformer.risk.rows.fixed_points import Packing, RowFixedPoint, error_of, fixed_point_from, is_inside
from glassformer.risk.rows.problem import RowProblem
from glassformer.risk.rows.student import student_of

# Sets of samples, whose spread gives error estimates, and the share of the model's points that each has (by trial).
_SETS, _SHARE, _FEWEST = 8, 2, 64
# Overlaps of the starts with the teacher, relative to the power: a random start of some ten thousand dimensions, and
# one next to the teacher.
_UNINFORMED, _INFORMED = 0.01, 0.99
# Power of a start along the positional encodings: from a larger one their means decay to zero (chosen by trial).
_POSITIONAL_POWER = 0.3
# Largest component of a positional encoding: beside larger ones, covariances lose the digits of the features.
_FAR = 1e4
# Relative distance of errors beyond the error estimates that makes two fixed points (chosen by trial).
_DIFFERENT = 1e-3
# Strengths of the first search for the best one, which goes on to larger ones up to the last number, and the accuracy
# of its logarithm (chosen by trial).
_STRENGTHS, _LARGEST_STRENGTH, _LOG_ACCURACY = np.geomspace(1e-3, 10.0, 9), 1e4, 0.05
# Objective of strengths at which nothing converged.
_LOST = 1e9
# Sets of samples in that search.
_SEARCH_SETS = 2


@dataclass(frozen=True)
class RowRisk:
    """A regularised risk of rows: the settings that determine its minimum.

    Attributes:
        loss: name, or function of label and prediction.
        penalty: ridge, lasso, elastic or group, or a :class:`~glassformer.risk.penalty_base.Penalty`.
        strength: of the penalty, > 0; None for the best one. On data it may be zero.
        student: function of the student's fields; None for the usual one of the model.
        student_rows: ``P``; None for the usual number.
        intercept: whether a number is added to every output and fitted.
        positions: components of the positional encoding of every token on orthonormal directions that the teacher does
            not see, shape (L,) or (L, r); None without.
        branch: None for all starts, "informed", "uninformed", or a pair of matrices ``M`` and ``Q``. On data None
            stands for zero if the risk is convex, and for four random starts otherwise, one of them positional where
            there are positional encodings; further starts are a number of random ones, and a list of names, "random"
            (or "uninformed"), "zero", "informed" (the teacher, an oracle), "positional" (random, with mean fields along
            the positional encodings), and weights of shape (P, d).
    """

    loss: Any = "square"
    penalty: str | Penalty = "ridge"
    strength: float | None = None
    student: Any = None
    student_rows: int | None = None
    intercept: bool = False
    positions: Any = None
    branch: Any = None

    def problem(self, model: Model, alpha: float, strength: float) -> RowProblem:
        """Return the problem on the labels of a model.

        Raises:
            ParameterError: a setting is out of range.
            IncompatibleError: model and settings do not go together.
        """
        student = student_of(model, self.loss, self.student, self.student_rows)
        gram = position_gram(self.positions, student.tokens)
        if self.strength == 0:
            raise IncompatibleError(
                "strength = 0 is a limit of one linear row alone, not of this student: give one > 0, a small one"
            )
        points = max(_FEWEST, int(model.channel.inference.points) // _SHARE)
        penalty = penalty_of(self.penalty, ROWS)
        sampler = LabelSampler(model, student, points, _SETS)
        return RowProblem(sampler, penalty, alpha, strength, gram, bool(self.intercept))

    def starts(self, problem: RowProblem) -> dict[str, OrderState]:
        """Return where the search for fixed points begins, by name."""
        if problem.student.is_convex and not np.any(problem.gram):
            return {"uninformed": start_state(problem, _UNINFORMED)}
        both = {
            "uninformed": start_state(problem, _UNINFORMED),
            "informed": start_state(problem, _INFORMED),
        }
        if np.any(problem.gram):
            # Along the positional encodings, in proportion to their leading component.
            values, vectors = np.linalg.eigh(np.array(problem.gram))
            means = np.outer(np.ones(problem.student.rows), vectors[:, -1] * np.sqrt(values[-1]) / 2)
            start = start_state(problem, 0.0)
            both["positional"] = start._replace(power=_POSITIONAL_POWER * start.power, means=means)
        if self.branch is None:
            return both
        if isinstance(self.branch, str):
            if self.branch not in both:
                raise ParameterError("branch", self.branch, f"{', '.join(both)}, or a pair of matrices M and Q")
            return {self.branch: both[self.branch]}
        return {"given": _given_state(problem, self.branch)}

    def two_starts(self, problem: RowProblem) -> list[tuple[str, OrderState]]:
        """Return the two starts whose branches are followed: along the positional encodings or uninformed; informed."""
        starts = replace(self, branch=None).starts(problem)
        first = "positional" if "positional" in starts else "uninformed"
        last = "informed" if "informed" in starts else first
        return [(name, starts[name]) for name in (first, last)]


def position_gram(positions: Any, tokens: int) -> tuple[tuple[float, ...], ...]:
    """Return inner products of the positional encodings, zeros without any.

    Raises:
        ParameterError: not one row of components per token.

    Example:
        >>> position_gram([2.0, -2.0], 2)
        ((4.0, -4.0), (-4.0, 4.0))
    """
    if positions is None:
        return tuple((0.0,) * tokens for _ in range(tokens))
    given = real_numbers("positions", positions)
    components = given[:, None] if given.ndim == 1 else given
    if components.ndim != 2 or len(components) != tokens or np.max(np.abs(components), initial=0.0) > _FAR:
        shapes = f"of shape ({tokens},) or ({tokens}, r), one row of components per token"
        allowed = f"numbers of at most {_FAR:g} {shapes}; the features of a token have components of order one"
        raise ParameterError("positions", positions, allowed)
    return tuple(tuple(float(entry) for entry in row) for row in components @ components.T)


def start_state(problem: RowProblem, cosine: float) -> OrderState:
    """Return a start of unit power whose rows have this overlap with the teacher's rows in turn."""
    student, count = problem.student, problem.model.prior.rows
    overlap = np.zeros((student.rows, count))
    for row in range(min(student.rows, count)):
        overlap[row, row] = cosine
    # Rows of the student without partner begin at slightly different overlaps, so that they may differ.
    for row in range(count, student.rows):
        overlap[row, row % count] = 0.5 * cosine
    means, intercept = np.zeros((student.rows, student.tokens)), np.zeros(problem.outputs)
    return OrderState(np.eye(student.rows), overlap, np.eye(student.rows), means, intercept)


def _given_state(problem: RowProblem, given: Any) -> OrderState:
    """Return the start that a user gave as a pair of matrices M and Q."""
    like = start_state(problem, 0.0)
    allowed = f"None, informed, uninformed, or matrices M and Q of shapes {like.overlap.shape} and {like.power.shape}"
    if not (isinstance(given, tuple | list) and len(given) == 2):
        raise ParameterError("branch", given, allowed)
    overlap, power = (real_numbers("branch", part) for part in given)
    if overlap.shape != like.overlap.shape or power.shape != like.power.shape:
        raise ParameterError("branch", given, allowed)
    if np.linalg.eigvalsh(power - overlap @ overlap.T)[0] < 0:
        raise ParameterError("branch", given, "a power Q of at least what the overlap needs, M M^T")
    return like._replace(overlap=overlap, power=power)


# --- quantities at a fixed point --------------------------------------------------------------------------------------


def quantities(problem: RowProblem, point: RowFixedPoint) -> dict[str, tuple[Any, Any]]:
    """Return what a fixed point predicts, by column: values and error estimates, NaN where none was found."""
    if not np.isfinite(point.residual):
        names = {**errors_at(problem, start_state(problem, 0.0), -1), "training_loss": 0.0}
        return {name: (np.full_like(value, np.nan, dtype=float),) * 2 for name, value in names.items()}
    packing = Packing(problem, point.state)
    vector = packing.pack(point.state)
    states = [point.state, *(packing.unpack(vector + one) for one in point.deviations)]
    per_state = [errors_at(problem, point.state, -1)]
    for one, state in enumerate(states[1:]):
        # At the end of a branch a fixed point has no finite deviation, and its quantities no error estimate.
        known = np.all(np.isfinite(packing.pack(state)))
        unknown = {name: np.full_like(value, np.nan) for name, value in per_state[0].items()}
        per_state.append(errors_at(problem, state, one) if known else unknown)
    found: dict[str, tuple[Any, Any]] = {}
    for name in per_state[0]:
        value = per_state[0][name]
        found[name] = value, error_of(np.array([own[name] for own in per_state[1:]]), value)
    losses = _training_losses(problem, point, states[1:-1])
    loss = float(np.mean(point.step.averages.training_loss))
    found["training_loss"] = loss, error_of(np.append(losses, loss), loss)
    return found


def _training_losses(problem: RowProblem, point: RowFixedPoint, states: list[OrderState]) -> Array:
    """Return the training loss of every set at its own fixed point, to first order."""
    losses = []
    for one, state in enumerate(states):
        inside = is_inside(state)
        own = problem.sampler.averages(state, [one], point.minima).training_loss[0] if inside else np.nan
        losses.append(own if np.isfinite(own) else point.step.averages.training_loss[one])
    return np.array(losses)


def free_energies_of_sets(problem: RowProblem, point: RowFixedPoint) -> Array:
    """Return the minimum of the risk for every set of labels and of the teacher's weights, at its own fixed point."""
    packing = Packing(problem, point.state)
    states = [packing.unpack(packing.pack(point.state) + one) for one in point.deviations[:-1]]
    energies = []
    for one, state in enumerate(states):
        energy = np.nan
        if is_inside(state):
            averages = problem.sampler.averages(state, [one], point.minima)
            energy = problem.free_energy(problem.from_averages(state, averages, one))
        if not np.isfinite(energy):
            averages = RowAverages(*(part[one : one + 1] for part in point.step.averages))
            energy = problem.free_energy(problem.from_averages(point.state, averages, one))
        energies.append(energy)
    return np.array(energies)


def errors_at(problem: RowProblem, state: OrderState, one: int) -> dict[str, Any]:
    """Return errors at a state: on labels of set ``one`` alone, or with -1 on those of all sets."""
    match = match_rows(problem.model, problem.student, state.power, state.overlap)
    true, fields = problem.sampler.fields(state)
    labels = problem.sampler.samples.labels
    if 0 <= one < problem.sets:
        true, fields, labels = true[one], fields[one], labels[one]
    true, fields = (part.reshape(-1, *part.shape[-2:]) for part in (true, fields))
    quality = prediction_quality(problem.model, problem.student, true, fields, state.intercept)
    means = {"means": match.turn @ state.means} if np.any(problem.gram) else {}
    return {
        "error": match.error,
        "row_error": match.row_error,
        "cosine": match.cosine,
        "overlap": match.turn @ state.overlap,
        "power": match.turn @ state.power @ match.turn.T,
        **means,
        **quality,
        "test_loss": problem.student.mean_loss(labels.reshape(len(fields), -1), fields, state.intercept),
    }


# --- tables -----------------------------------------------------------------------------------------------------------


def row_risk_limits(model: Model, alpha: ArrayLike, risk: RowRisk, throw: bool = True) -> Table:
    r"""Return what the minimum of a regularised risk of rows reaches at each sample ratio.

    Equations :eq:`row-risk`, :eq:`row-free-energy` and :eq:`row-positions` of the documentation.

    The minimum of :math:`\sum_\mu\ell(y_\mu, Z_\mu) + \lambda\sum_ir(w_i)` is described by the fixed points of its
    state evolution. Of a risk that is not convex, those reached from the informed and the uninformed start are listed;
    the row is the one of lower free energy, which is the minimum of the risk over ``d``.

    Args:
        model: of the teacher, of rows.
        alpha: sample ratios, finite and > 0.
        risk: loss, penalty, strength, student.
        throw: raise when a row did not converge. Bistable rows, and rows of broken replica symmetry, do not count.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``error`` (mean over the teacher's rows of
        the squared distance of the student's row that is matched with it; one for a row without partner),
        ``row_error``, ``cosine``, ``overlap`` (``M``, shape (P, P*)), ``power`` (``Q``), with positional
        encodings ``means`` (of the fields, shape (P, L)), ``label_error`` or
        ``prediction_error`` (on new labels without their noise), ``training_loss``, ``test_loss``, ``strength``,
        ``stability`` (the replicon's
        radius), ``free_energy``, for each start ``..._error`` and ``..._free_energy``, error estimates,
        ``residual`` and ``iterations``.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: model and risk do not go together.
        ConvergenceError: with ``throw``, a row did not converge.

    Source: Thrampoulidis, Abbasi, Hassibi, arXiv:1601.06233, for one row; Cornacchia, Mignacco, Veiga, Gerbelot,
    Loureiro, Zdeborova, arXiv:2203.12094, for several; here for any student and several tokens.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0].argmax(), indices=3).at_accuracy(Accuracy(points=256))
        >>> table = row_risk_limits(model, [3.0], RowRisk("cross-entropy", strength=0.1))
        >>> bool(abs(table["label_error"][0] - 0.22) < 0.02)
        True
    """
    ratios = positive_alpha(alpha)
    problem = risk.problem(model, 1.0, risk.strength or 1.0)
    rows = [_row_at(problem.at(ratio), risk) for ratio in track(list(ratios), "sample ratios")]
    names = list(dict.fromkeys(name for row in rows for name in row.columns))
    columns = {name: np.array([row.columns.get(name, np.nan) for row in rows]) for name in names}
    table = Table(
        model=model.name,
        parameters=model.parameters,
        columns={"alpha": ratios, **columns},
        status=[row.status for row in rows],
        notes=[note for row in rows for note in row.notes],
    )
    if throw:
        table.raise_unless_converged(accepted=ACCEPTED)
    return table


# Statuses of rows that are answers, with what they say.
ACCEPTED = (Status.CONVERGED, Status.BISTABLE, Status.SYMMETRY_BROKEN)


@dataclass(frozen=True)
class _Row:
    """A row of the table: columns by name, status, and notes."""

    columns: dict[str, Any]
    status: Status
    notes: list[str]


def _row_at(problem: RowProblem, risk: RowRisk) -> _Row:
    """Return the row at one sample ratio."""
    if risk.strength is None:
        problem = problem.at(problem.alpha, best_strength(problem, risk))
    alpha = problem.alpha
    points = [fixed_point_from(problem, name, start) for name, start in risk.starts(problem).items()]
    measured = [quantities(problem, point) for point in points]
    settled = [place for place, point in enumerate(points) if point.status.ok] or list(range(len(points)))
    lowest = min(settled, key=lambda place: (np.isnan(points[place].free_energy), points[place].free_energy))
    best, columns = points[lowest], {}
    for name, (value, error) in measured[lowest].items():
        columns[name] = value
        columns["error_estimate" if name == "error" else f"{name}_error_estimate"] = error
    for point, own in zip(points, measured, strict=True):
        if len(points) > 1:
            columns |= {f"{point.start}_error": own["error"][0], f"{point.start}_free_energy": point.free_energy}
    columns |= {
        "strength": problem.strength,
        "stability": best.stability,
        "free_energy": best.free_energy,
        "residual": best.residual,
        "iterations": float(sum(point.iterations for point in points)),
    }
    distinct = any(_differ(measured[lowest]["error"], own["error"]) for own in measured)
    broken = best.stability >= 1
    status = next((point.status for point in points if not point.status.ok), Status.CONVERGED)
    if status.ok:
        status = Status.SYMMETRY_BROKEN if broken else Status.BISTABLE if distinct else Status.CONVERGED
    notes = [_minima_note(alpha, points, measured, lowest)] if distinct else []
    if risk.strength is None and not _STRENGTHS[0] * (1 + _LOG_ACCURACY) < problem.strength < _LARGEST_STRENGTH:
        notes.append(f"alpha = {alpha:g}: the best strength is an end of the search, {problem.strength:.3g}")
    missed = float(best.step.averages.mean.unsolved)
    if missed > 0:
        notes.append(
            f"alpha = {alpha:g}: the proximal map was not found for a share {missed:.2g} of the samples; a prediction "
            "with kinks has minima at them, which are not found: give a smooth one, such as softplus(20 z)/20 for ReLU"
        )
    if np.isnan(best.residual):
        notes.append(
            f"alpha = {alpha:g}: no fixed point was found from the start {best.start}, and there are no values; raise "
            "the strength or the points, or check whether the loss has a minimum"
        )
    jumping = float(best.step.averages.mean.several)
    if jumping > 0:
        notes.append(
            f"alpha = {alpha:g}: the loss of a share {jumping:.2g} of the samples has several minima; the lowest is "
            "taken, error estimates count where it jumps, and there replica symmetry is an approximation"
        )
    return _Row(columns, status, notes)


def _minima_note(alpha: float, points: list[RowFixedPoint], measured: list[Any], lowest: int) -> str:
    """Return a note that lists the fixed points that were found, the lowest first."""
    order = sorted(range(len(points)), key=lambda place: (place != lowest, points[place].free_energy))
    listed = ", ".join(
        f"{points[place].start} with error {float(measured[place]['error'][0]):.4g} and free energy "
        f"{points[place].free_energy:.6g}"
        for place in order
    )
    return f"alpha = {alpha:g}: several minima, of which the first counts: {listed}"


def _differ(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    """Return whether two errors differ by more than their estimates."""
    (one, own), (other, its) = first, second
    return bool(abs(one - other) > own + its + _DIFFERENT * max(abs(one), abs(other)))


def best_strength(problem: RowProblem, risk: RowRisk) -> float:
    """Return the strength of largest cosine for discrete labels, else of least ``prediction_error`` or ``error``."""
    few = problem.with_sets(_SEARCH_SETS)
    reached: dict[str, OrderState] = {}

    def objective(logarithm: float) -> float:
        note(f"strength = {np.exp(logarithm):.3g}")
        problem = few.at(few.alpha, np.exp(logarithm))
        lowest = None
        for name, start in risk.starts(problem).items():
            point = fixed_point_from(problem, name, reached.get(name, start), near=name in reached)
            if not point.status.ok:
                point = fixed_point_from(problem, name, start)
            if point.status.ok:
                reached[name] = point.state
                if lowest is None or point.free_energy < lowest.free_energy:
                    lowest = point
        if lowest is None:
            return _LOST
        own = errors_at(problem, lowest.state, -1)
        if problem.model.channel.labels.discrete or "label_error" in own:
            # Counted errors have steps; they fall as cosines rise.
            return float(1 - np.mean(own["cosine"]))
        return float(own.get("prediction_error", own["error"]))

    logarithms = list(np.log(_STRENGTHS)[::-1])
    values = [objective(one) for one in logarithms]
    # The best strength grows like the noise of the labels.
    while np.argmin(values) == 0 and values[0] < _LOST and logarithms[0] < np.log(_LARGEST_STRENGTH):
        logarithms.insert(0, 2 * logarithms[0] - logarithms[1])
        values.insert(0, objective(logarithms[0]))
    place = int(np.argmin(values))
    low, high = logarithms[min(place + 1, len(values) - 1)], logarithms[max(place - 1, 0)]
    if values[place] == _LOST:
        return float(np.exp(logarithms[place]))
    found = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": _LOG_ACCURACY})
    return float(np.exp(found.x if found.fun <= values[place] else logarithms[place]))


# --- branches ---------------------------------------------------------------------------------------------------------


def row_risk_branches(model: Model, alpha: ArrayLike, risk: RowRisk) -> Branches:
    """Follow the fixed points of a risk of rows up and down in the sample ratio.

    Going up, each sample ratio starts from the fixed point of the one below, the lowest from the uninformed start;
    going down, each from that of the one above, the highest from the informed start.

    Returns:
        :class:`~glassformer.bayes_optimal.hysteresis.Branches` as for the Bayes-optimal estimate, with cosines,
        ``overlap_up``, ``power_up``, with positional encodings ``means_up``, the errors on new labels of
        :func:`row_risk_limits` (``prediction_error_up``), ``free_energy_up``, the same of ``..._down``, and notes that
        bracket where the free energies cross.
    """
    ratios = positive_alpha(alpha)
    if len(ratios) < 2 or np.any(np.diff(ratios) <= 0):
        raise ParameterError("alpha", alpha, "at least two sample ratios, in increasing order")
    if risk.strength is None:
        raise IncompatibleError("strength = best changes along a branch: give a number")
    up = list(_along_branch(model, ratios, risk, 0))
    down = list(_along_branch(model, ratios[::-1], risk, 1))[::-1]
    both = [[one.found for one in branch] for branch in (up, down)]
    errors, estimates = (np.array([[own["error"][k] for own in branch] for branch in both]) for k in (0, 1))
    energies = np.array([[one.free_energy for one in branch] for branch in (up, down)])
    two = np.abs(errors[0] - errors[1]) > estimates.sum(axis=0) + _DIFFERENT * np.max(np.abs(errors), axis=0)
    columns = {
        "alpha": ratios,
        "error_up": errors[0],
        "error_down": errors[1],
        **{
            f"{name}_{way}": np.array([own[name][0] for own in branch])
            for name in ("cosine", "overlap", "power", "means", "prediction_error", "label_error", "test_loss")
            for way, branch in zip(("up", "down"), both, strict=True)
            if name in branch[0]
        },
        "free_energy_up": energies[0],
        "free_energy_down": energies[1],
        "two_branches": two.astype(float),
        "error_estimate": estimates.max(axis=0),
    }
    status = [
        next((one.status for one in pair if not one.status.ok), Status.CONVERGED) for pair in zip(up, down, strict=True)
    ]
    return Branches(model.name, model.parameters, columns, status, _branch_notes(ratios, two, energies))


class _BranchPoint(NamedTuple):
    """What a branch shows of a fixed point, whose minima of all samples are dropped: they are some megabytes."""

    found: dict[str, tuple[Any, Any]]
    free_energy: float
    status: Status


def _along_branch(model: Model, ratios: Array, risk: RowRisk, which: int) -> Iterator[_BranchPoint]:
    state = None
    whole = risk.problem(model, 1.0, float(risk.strength or 0.0))
    for ratio in track(list(ratios), "sample ratios"):
        problem = whole.at(ratio)
        name, start = risk.two_starts(problem)[which]
        point = fixed_point_from(problem, name, start if state is None else state)
        # A point that did not settle is passed over: the start may lie on another branch.
        state = point.state if point.status.ok else state
        yield _BranchPoint(quantities(problem, point), point.free_energy, point.status)


def _branch_notes(ratios: Array, two: Array, energies: Array) -> list[str]:
    """Return what the branches show: where there are two, and where their free energies cross."""
    if not two.any():
        return ["One branch at every sample ratio"]
    notes = [f"Two branches: from alpha = {ratios[two][0]:g} to {ratios[two][-1]:g} of the sample ratios given"]
    gap = energies[0] - energies[1]
    for k in np.flatnonzero((two[1:] * two[:-1] > 0) & (gap[1:] * gap[:-1] < 0)):
        crossing = ratios[k] + (ratios[k + 1] - ratios[k]) * gap[k] / (gap[k] - gap[k + 1])
        notes.append(
            f"The free energies cross near alpha = {crossing:.4g}, between {ratios[k]:g} and {ratios[k + 1]:g}: the "
            "global minimum of the risk changes there"
        )
    return notes
