r"""Trajectory of proximal message passing for rows: its errors after every step, in the limit of large sizes.

The map of :class:`~glassformer.risk.rows.problem.RowProblem` is iterated without damping,

.. math:: (Q, M, V)_t \to (\hat Q, \hat M, \hat V)_t \to (Q, M, V)_{t+1}.

Undamped message passing (:mod:`glassformer.learners.row_message_passing`) has the errors of this sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.core.checks import is_number, require_integer
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.progress import track
from glassformer.core.results import Steps
from glassformer.core.status import Status
from glassformer.models.base import Model, require_theory
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.numerics.sequences import diverges
from glassformer.risk.rows.averages import OrderState
from glassformer.risk.rows.comparison import match_rows
from glassformer.risk.rows.problem import RowProblem, RowStep
from glassformer.risk.rows.row_risk import RowRisk, errors_at, start_state

# Susceptibility before the first step from weights of zero: large enough that the proximal map of a loss with a kink at
# distance one reaches the kink.
START_SUSCEPTIBILITY = 2.0
# Overlap with the teacher before the first step where the risk is not convex and none is given: the limits' informed
# start, beside which messages stay where the informed branch is stable.
INFORMED = 0.99


def first_state(problem: RowProblem, overlap: float | None) -> OrderState:
    """Return the order parameters before the first step.

    A convex risk begins at weights of zero, unless an overlap is given; any other at rows of unit power with this
    overlap with the teacher's rows.

    Args:
        problem: teacher, student, penalty.
        overlap: in [-1, 1]; None for the usual start.

    Raises:
        ParameterError: the overlap is out of range.
    """
    if overlap is None and problem.student.is_convex:
        nothing = start_state(problem, 0.0)
        power = np.zeros_like(nothing.power)
        return nothing._replace(power=power, susceptibility=START_SUSCEPTIBILITY * nothing.susceptibility)
    if overlap is not None and not (is_number(overlap) and abs(overlap) <= 1):
        raise ParameterError("overlap", overlap, "a number in [-1, 1], of rows of unit power with the teacher's")
    return start_state(problem, INFORMED if overlap is None else float(overlap))


def require_steps(risk: RowRisk) -> None:
    """Raise unless message passing for this risk has a theory.

    Raises:
        IncompatibleError: a start by name, or positional encodings, whose mean fields move back and forth without end.
    """
    if risk.branch is not None:
        raise IncompatibleError("branch: the steps begin at an overlap with the teacher; give overlap instead")
    if risk.positions is not None:
        raise IncompatibleError(
            "positions: undamped steps move the mean fields of the tokens back and forth without end; use limits"
        )


def row_risk_trajectory(
    model: Model, alpha: Array, risk: RowRisk, strengths: Array, steps: int, overlap: float | None = None
) -> Steps:
    r"""Return the errors after every step of undamped proximal message passing, in the limit of large sizes.

    Equation :eq:`row-risk` of the documentation.

    Args:
        model: of the teacher, of rows.
        alpha: sample ratios, shape (points,).
        risk: loss, penalty, student.
        strengths: :math:`\lambda > 0` at every sample ratio, shape (points,).
        steps: number of steps, at least 1.
        overlap: with the teacher's rows before the first step; None for weights of zero if the risk is convex, and for
            0.99 otherwise.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration`` (0
        before the first step), the errors of :func:`~glassformer.risk.rows.row_risk.row_risk_limits`,
        ``susceptibility``, ``strength`` and ``error_estimate``, from trajectories of single sets of samples. Where the
        replicon's radius exceeds one at the end, messages on data do not settle, and the rows have status
        ``oscillating``; ``diverging`` if errors grow without bound.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: model and risk do not go together, or the steps have no theory.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1).at_accuracy(Accuracy(points=256))
        >>> table = row_risk_trajectory(model, np.array([3.0]), RowRisk("logistic"), np.array([1.0]), 20)
        >>> bool(abs(table["label_error"][-1] - 0.1671) < 0.002)  # 0.1670625 at the minimum
        True
    """
    require_integer("steps", steps)
    require_theory(model)
    require_steps(risk)
    if risk.intercept:
        raise IncompatibleError("intercept: steps with an intercept have a theory for one linear row alone; use limits")
    columns: dict[str, list[Any]] = {}
    status: list[Status] = []
    notes: list[str] = []
    whole = risk.problem(model, 1.0, 1.0)
    for ratio, strength in zip(alpha, strengths, strict=True):
        problem = whole.at(ratio, strength)
        path, last, deviations = _path(problem, first_state(problem, overlap), steps)
        for iteration, state in enumerate(path):
            row = {
                "alpha": float(ratio),
                "iteration": float(iteration),
                **errors_at(problem, state, -1),
                "susceptibility": state.susceptibility,
                "strength": float(strength),
                "error_estimate": deviations[iteration],
            }
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        radius = problem.stability(last)
        errors = np.array(columns["error"][-steps - 1 :])
        status += [_status(errors, radius)] * (steps + 1)
        if radius > 1:
            notes.append(
                f"alpha = {ratio:g}: the distance of messages from their fixed point grows, radius {radius:.3g}"
            )
    return Steps(
        model=model.name,
        parameters=model.parameters,
        columns={name: np.array(values) for name, values in columns.items()},
        status=status,
        notes=notes,
    )


def _status(errors: Array, radius: float) -> Status:
    """Return the status of a trajectory."""
    if not np.all(np.isfinite(errors)) or not np.isfinite(radius):
        return Status.NON_FINITE
    if diverges(np.arange(float(len(errors))), errors, max(float(errors[0]), 1.0)):
        return Status.DIVERGING
    return Status.CONVERGED if radius <= 1 else Status.OSCILLATING


def _path(problem: RowProblem, start: OrderState, steps: int) -> tuple[list[OrderState], RowStep, Array]:
    """Return the states before every step and after the last, the last step, and error estimates of the errors."""
    path, singles = [start], [[start] for _ in range(problem.sets)]
    for _ in track(range(steps), f"{steps} steps"):
        step = problem.step(path[-1])
        path.append(step.state)
        for number, own in enumerate(singles):
            averages = problem.sampler.averages(own[-1], chosen=[number])
            own.append(problem.from_averages(own[-1], averages, number).state)
    errors = [
        [match_rows(problem.model, problem.student, state.power, state.overlap).error for state in own]
        for own in singles
    ]
    spread = np.std(errors, axis=0, ddof=1) / np.sqrt(problem.sets)
    return path, step, confidence_factor(problem.sets) * spread
