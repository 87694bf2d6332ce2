r"""Regularised risk in time: what proximal message passing knows after every one of its steps.

.. math:: (m, q, V)_t \to (\hat m, \hat q, \hat V)_t \to (m, q, V)_{t+1}

is the map of which :mod:`~glassformer.risk.fixed_points` finds the fixed point, iterated as it stands from an
estimate of zero. In the limit of large sizes message passing without damping
(:mod:`glassformer.learners.algorithms.proximal_passing`) has the errors of this sequence, step by step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from glassformer.core.checks import require_integer
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.progress import track
from glassformer.core.results import Steps
from glassformer.core.solution import Status
from glassformer.models.base import Model
from glassformer.numerics.divergence import diverges
from glassformer.numerics.quasi_random import confident, mean_and_error
from glassformer.risk.fixed_points import AGREED, solved
from glassformer.risk.limits import of_learned, solvable
from glassformer.risk.loss import Loss
from glassformer.risk.penalties import Fields, Learned, Penalty
from glassformer.risk.problem import Problem
from glassformer.risk.tuning import tuned

# Susceptibility before the first step, in units of the teacher's power: kinks of losses at a distance of one are
# within the reach of their proximal maps.
BEGIN = 2.0
# Relative step of the slopes of the map.
_STEP = 1e-5


class _Path(NamedTuple):
    """What is known before every step and after the last, and the fields that led there; one entry per step."""

    found: list[Learned]
    fields: list[Fields]

    @property
    def error(self) -> Array:
        """Shape (steps + 1, batch)."""
        return np.array([found.error for found in self.found])


def risk_trajectory(
    model: Model, alpha: Array, loss: Loss, penalty: Penalty, strength: float | None, steps: int
) -> Steps:
    r"""Errors after every step of undamped proximal message passing, in the limit of large sizes.

    Equations :eq:`regularised-risk` and :eq:`proximal-message-passing` of the documentation, iterated as they stand
    from an estimate of zero of susceptibility :math:`V = 2Q_0`. Where they settle, it is at the minimiser of the risk.

    Args:
        model: of the teacher.
        alpha: sample ratios, shape (points,).
        loss: convex, of :mod:`glassformer.risk.losses`.
        penalty: weights, of :mod:`glassformer.risk.penalties`.
        strength: :math:`\lambda > 0`; None for the best one at each sample ratio, and where the trace is pinned.
        steps: how many, at least 1.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration`` (0
        before any step), ``error``, ``overlap``, ``power``, ``cosine``, ``label_error``, ``rank``, ``degrees``,
        ``effective_noise`` and ``strength`` as those of :func:`~glassformer.risk.limits.risk_limits`.
        ``error_estimate`` is that of the averages over labels and of the spectrum, carried on by the slope of the map.
        Rows of a sample ratio at which steps lead away from the minimiser have the status ``oscillating``, or
        ``diverging`` where errors grow without end, and a note says by which factor: their errors are those of the
        steps, and never the limit's.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: model, loss and penalty do not go together, or the strength is 0 (the limit of small
            strengths needs ever more steps).

    Source: derived here.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.risk.losses import Square
        >>> from glassformer.risk.penalties import penalty_of
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0)
        >>> table = risk_trajectory(model, np.array([0.5]), Square(), penalty_of("nuclear"), 0.1, 60)
        >>> table["error"][[0, 1, 60]].round(8).tolist()  # from nothing to the error of the limit
        [1.0, 1.05993175, 0.24076464]
    """
    require_integer("steps", steps)
    problem = solvable(model, loss, penalty, strength)
    strengths = _strengths(problem, alpha, strength)
    path, blur = _refined(problem, alpha, strengths, steps)
    growth = _growth(problem, alpha, strengths)
    finite = np.all(np.isfinite(path.error), axis=0)
    status = [_status(*row) for row in zip(finite, growth, path.error.T, strict=True)]
    return Steps(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": np.repeat(alpha, steps + 1),
            "iteration": np.tile(np.arange(steps + 1.0), len(alpha)),
            **_columns(problem, path),
            "strength": np.repeat(strengths, steps + 1),
            "error_estimate": blur.T.ravel(),
        },
        status=[one for one in status for _ in range(steps + 1)],
        notes=[
            f"alpha = {ratio:g}: near the minimiser every step leads away from it, {factor:.3g} times as far"
            for ratio, factor, one in zip(alpha, growth, status, strict=True)
            if one in (Status.OSCILLATING, Status.DIVERGING)
        ],
    )


def _columns(problem: Problem, path: _Path) -> dict[str, Array]:
    """Of all steps of one sample ratio after those of another."""
    found = Learned(*(np.array(part).T.ravel() for part in zip(*path.found, strict=True)))
    noise = np.array([fields.noise for fields in path.fields]).T.ravel()
    return {**of_learned(problem, found), "rank": found.rank, "degrees": found.degrees, "effective_noise": noise}


def _status(finite: bool, growth: float, error: Array) -> Status:
    """How the steps of one sample ratio end, from their errors, shape (steps + 1,)."""
    if not finite:
        return Status.NON_FINITE
    if growth < 1:
        return Status.CONVERGED
    grows = diverges(np.arange(float(len(error))), error, max(1.0, float(error[0])))
    return Status.DIVERGING if grows else Status.OSCILLATING


def _strengths(problem: Problem, alpha: Array, strength: float | None) -> Array:
    """At each sample ratio.

    Raises:
        IncompatibleError: one of them is zero.
    """
    if problem.penalty.pinned:
        return np.full_like(alpha, np.nan)
    found = tuned(problem, alpha).strength if strength is None else np.full_like(alpha, strength)
    if np.any(found == 0):
        why = "is the limit of small strengths, which need ever more steps: give one > 0"
        whose = "" if strength == 0 else f", the best one at alpha = {alpha[found == 0][0]:g},"
        raise IncompatibleError(f"strength = 0{whose} {why}")
    return found


def _followed(problem: Problem, alpha: Array, strength: Array, steps: int, show: bool = False) -> _Path:
    none, power = np.zeros_like(alpha), np.full_like(alpha, problem.power)
    found = [Learned(none, none, BEGIN * power, power, none, none, none)]
    fields = [Fields(np.full_like(alpha, np.inf), none, none)]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in track(range(steps), f"{steps} steps") if show else range(steps):
            fields.append(problem.after(alpha, found[-1]))
            found.append(problem.learned(strength, fields[-1]))
    return _Path(found, fields)


def _refined(problem: Problem, alpha: Array, strength: Array, steps: int) -> tuple[_Path, Array]:
    """Paths of finer and finer averages over labels until two of them agree; how far errors may be off."""
    path = _followed(problem, alpha, strength, steps, show=True)
    apart = np.zeros_like(path.error)
    while (finer := problem.finer) is not None:
        problem = finer
        again = _followed(problem, alpha, strength, steps)
        apart, path = np.abs(again.error - path.error), again
        if np.all(apart <= AGREED * path.error):
            break
    replicas = list(problem.labels.replicas)
    if replicas:
        every = [_followed(replace(problem, seen=one), alpha, strength, steps).error for one in replicas]
        apart = confident(len(replicas)) * mean_and_error(np.array(every))[1]
    return path, apart + _carried(path)


def _carried(path: _Path) -> Array:
    """Quadrature errors of every step, carried on by the slope of the map."""
    error, total = path.error, [np.zeros_like(path.error[0])]
    steps = np.abs(np.diff(error, axis=0))
    for t, found in enumerate(path.found[1:]):
        before = steps[t - 1] if t else np.zeros_like(steps[0])
        stretch = np.divide(steps[t], before, out=np.zeros_like(before), where=before > 0)
        # Steps at the size of rounding errors tell no slope.
        total.append(np.where(steps[t] > total[-1], stretch, np.minimum(stretch, 1.0)) * total[-1] + found.blur)
    return np.array(total)


def _growth(problem: Problem, alpha: Array, strength: Array) -> Array:
    """By how much a step near the fixed point is longer than the one before: the largest slope of the map there."""
    at, sides = solved(problem, alpha, strength).logarithms, []
    for sign in (-1, 1):
        every = []
        for axis in range(at.shape[1]):
            moved = at.copy()
            moved[:, axis] += sign * _STEP
            fields = problem.after(alpha, problem.learned(strength, Fields(*np.exp(moved).T)))
            every.append(np.log(np.stack(fields, axis=1)))
        sides.append(np.array(every))
    slopes = np.swapaxes((sides[1] - sides[0]) / (2 * _STEP), 0, 1)
    known = np.isfinite(slopes).all(axis=(1, 2))
    values = np.linalg.eigvals(np.where(known[:, None, None], slopes, 0.0))
    return np.where(known, np.max(np.abs(values), axis=1), np.nan)
