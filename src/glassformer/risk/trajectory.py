r"""Trajectory of proximal message passing: its error after every step.

The map of :mod:`~glassformer.risk.fixed_points` is iterated without damping from an estimate of zero:

.. math:: (m, q, V)_t \to (\hat m, \hat q, \hat V)_t \to (m, q, V)_{t+1}.

In the limit of large sizes undamped message passing (:mod:`glassformer.learners.proximal_message_passing`) has the
errors of this sequence after each step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.progress import track
from glassformer.core.results import Steps
from glassformer.core.status import Status
from glassformer.models.base import Model, require_theory
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error
from glassformer.numerics.sequences import diverges
from glassformer.risk.fixed_points import AGREEMENT, fixed_points
from glassformer.risk.loss_base import Loss
from glassformer.risk.order_parameters import ConjugateParameters, OrderParameters
from glassformer.risk.penalty_base import Penalty
from glassformer.risk.problem import RiskProblem, positive_alpha, risk_problem
from glassformer.risk.tuning import best_strength

# Susceptibility before the first step, in units of the teacher's power: large enough that the proximal map of a loss
# with a kink at distance one reaches the kink.
START_SUSCEPTIBILITY = 2.0
# Relative step of the central differences of the map.
_DIFFERENCE = 1e-5


def risk_trajectory(
    model: Model, alpha: ArrayLike, loss: Loss, penalty: Penalty, strength: float | None, steps: int
) -> Steps:
    r"""Return the error after every step of undamped proximal message passing, in the limit of large sizes.

    Equations :eq:`regularised-risk` and :eq:`proximal-message-passing` of the documentation are iterated without
    damping from an estimate of zero and susceptibility :math:`V = 2Q_0`. If the iteration converges, it converges to
    the minimiser.

    Args:
        model: model of the teacher.
        alpha: sample ratios, finite and > 0, shape (points,).
        loss: convex loss from :mod:`glassformer.risk.losses`.
        penalty: penalty from :mod:`glassformer.risk.penalties`.
        strength: :math:`\lambda > 0`; None for the best one at each sample ratio, and for the penalty ``pinned``.
        steps: number of steps, at least 1.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration`` (0
        before the first step), ``error``, ``overlap``, ``power``, ``cosine``, ``label_error``, ``rank``, ``degrees``,
        ``effective_noise`` and ``strength`` as in :func:`~glassformer.risk.limits.risk_limits`. ``error_estimate`` is
        the error of the averages over labels and of the spectrum, propagated by the slope of the map. If the minimiser
        is an unstable fixed point of the iteration, the rows have status ``oscillating``, or ``diverging`` if errors
        grow without bound, and a note gives the factor per step. The errors are then those of the steps, not of the
        minimiser.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: model, loss and penalty are incompatible, or the strength is 0 (the number of steps diverges
            in the limit of small strengths).

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
    require_arguments(risk_trajectory, locals())
    alpha = positive_alpha(alpha)
    require_theory(model)
    return steps_of(risk_problem(model, loss, penalty, strength), alpha, strength, steps)


def steps_of(problem: RiskProblem, alpha: Array, strength: float | None, steps: int) -> Steps:
    """Return the table of :func:`risk_trajectory` for a problem."""
    require_integer("steps", steps)
    model = problem.model
    strengths = _strengths(problem, alpha, strength)
    path, error_estimate = _refined_path(problem, alpha, strengths, steps)
    growth = _largest_slope(problem, alpha, strengths)
    finite = np.all(np.isfinite(path.error), axis=0)
    status = [_status(*row) for row in zip(finite, growth, path.error.T, strict=True)]
    # All steps of one sample ratio, then those of the next.
    order = OrderParameters(*(np.array(part).T.ravel() for part in zip(*path.order, strict=True)))
    return Steps(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": np.repeat(alpha, steps + 1),
            "iteration": np.tile(np.arange(steps + 1.0), len(alpha)),
            **problem.columns(order),
            "rank": order.rank,
            "degrees": order.degrees,
            "effective_noise": np.array([conjugate.noise for conjugate in path.conjugate]).T.ravel(),
            "strength": np.repeat(strengths, steps + 1),
            "error_estimate": error_estimate.T.ravel(),
        },
        status=[one for one in status for _ in range(steps + 1)],
        notes=[
            f"alpha = {ratio:g}: the minimiser is unstable, its distance grows by a factor of {factor:.3g} per step"
            for ratio, factor, one in zip(alpha, growth, status, strict=True)
            if one in (Status.OSCILLATING, Status.DIVERGING)
        ],
    )


class _Path(NamedTuple):
    """Order parameters before every step and after the last, and the conjugate parameters of every step."""

    order: list[OrderParameters]
    conjugate: list[ConjugateParameters]

    @property
    def error(self) -> Array:
        """Errors, shape (steps + 1, batch)."""
        return np.array([order.error for order in self.order])


def _status(finite: bool, growth: float, error: Array) -> Status:
    """Return the status of one sample ratio from its errors, shape (steps + 1,)."""
    if not finite:
        return Status.NON_FINITE
    if growth < 1:
        return Status.CONVERGED
    grows = diverges(np.arange(float(len(error))), error, max(1.0, float(error[0])))
    return Status.DIVERGING if grows else Status.OSCILLATING


def _strengths(problem: RiskProblem, alpha: Array, strength: float | None) -> Array:
    """Return the strength at each sample ratio, or raise ``IncompatibleError`` if one of them is zero."""
    if problem.penalty.pinned:
        return np.full_like(alpha, np.nan)
    strengths = np.full_like(alpha, strength) if strength is not None else best_strength(problem, alpha).strength
    if np.any(strengths == 0):
        why = "is a limit in which the number of steps diverges: give strength > 0"
        where = "" if strength == 0 else f", the best one at alpha = {alpha[strengths == 0][0]:g},"
        raise IncompatibleError(f"strength = 0{where} {why}")
    return strengths


def _iterate(problem: RiskProblem, alpha: Array, strength: Array, steps: int, progress: bool = False) -> _Path:
    zero, power = np.zeros_like(alpha), np.full_like(alpha, problem.power)
    order = [OrderParameters(zero, zero, START_SUSCEPTIBILITY * power, power, zero, zero, zero)]
    conjugate = [ConjugateParameters(np.full_like(alpha, np.inf), zero, zero)]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in track(range(steps), f"{steps} steps") if progress else range(steps):
            conjugate.append(problem.conjugate_parameters(alpha, order[-1]))
            order.append(problem.order_parameters(strength, conjugate[-1]))
    return _Path(order, conjugate)


def _refined_path(problem: RiskProblem, alpha: Array, strength: Array, steps: int) -> tuple[_Path, Array]:
    """Return the path, with averages over labels refined until two accuracies agree, and its error estimates."""
    path = _iterate(problem, alpha, strength, steps, progress=True)
    difference = np.zeros_like(path.error)
    while (finer := problem.finer) is not None:
        problem = finer
        again = _iterate(problem, alpha, strength, steps)
        difference, path = np.abs(again.error - path.error), again
        if np.all(difference <= AGREEMENT * path.error):
            break
    replicas = list(problem.labels.replicas)
    if replicas:
        problems = (replace(problem, given_averages=labels) for labels in replicas)
        errors = [_iterate(one, alpha, strength, steps).error for one in problems]
        difference = confidence_factor(len(replicas)) * mean_and_error(np.array(errors))[1]
    # Quadrature errors of every step, propagated by the slope of the map.
    error, total = path.error, [np.zeros_like(path.error[0])]
    changes = np.abs(np.diff(error, axis=0))
    for t, order in enumerate(path.order[1:]):
        before = changes[t - 1] if t else np.zeros_like(changes[0])
        slope = np.divide(changes[t], before, out=np.zeros_like(before), where=before > 0)
        # Changes of the size of rounding errors give no slope.
        slope = np.where(changes[t] > total[-1], slope, np.minimum(slope, 1.0))
        total.append(slope * total[-1] + order.error_estimate)
    return path, difference + np.array(total)


def _largest_slope(problem: RiskProblem, alpha: Array, strength: Array) -> Array:
    """Return the spectral radius of the map at the fixed point: below one the undamped iteration converges."""
    logarithms, sides = fixed_points(problem, alpha, strength).conjugate.logarithms, []
    for sign in (-1, 1):
        columns = []
        for axis in range(3):
            shifted = logarithms.copy()
            shifted[:, axis] += sign * _DIFFERENCE
            order = problem.order_parameters(strength, ConjugateParameters.from_logarithms(shifted))
            columns.append(problem.conjugate_parameters(alpha, order).logarithms)
        sides.append(np.array(columns))
    slopes = np.swapaxes((sides[1] - sides[0]) / (2 * _DIFFERENCE), 0, 1)
    known = np.asarray(np.isfinite(slopes).all(axis=(1, 2)))
    values = np.linalg.eigvals(np.where(known[:, None, None], slopes, 0.0))
    return np.where(known, np.max(np.abs(values), axis=1), np.nan)
