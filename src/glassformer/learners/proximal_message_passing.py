r"""Proximal message passing: its fixed point is the minimiser of a regularised risk.

.. math::
   \omega &= \mathrm{forward}(\hat S) - V g_{old}, \qquad g = (\mathrm{prox}_{V\ell(y,\cdot)}(\omega) - \omega)/V,\\
   \hat V &= \tfrac{\alpha}{\mathrm{degrees}}\langle-\partial_\omega g\rangle, \qquad
   Y = \hat S + \mathrm{adjoint}(g)/\hat V,\\
   \hat S &= \mathrm{prox}_{p/\hat V}(Y), \qquad V = \mathrm{div}/\hat V,

with the divergence ``div`` of the last map. Proximal maps replace the posterior means of Bayes-optimal message passing.
For any inputs a fixed point is a minimiser of the risk, because the slope of the loss at
:math:`\mathrm{forward}(\hat S)` is :math:`-g`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.status import Status
from glassformer.learners.empirical_risk import EmpiricalRisk
from glassformer.learners.message_passing import Step, StepHistory, message_passing
from glassformer.numerics.decompositions import eigh, svd
from glassformer.priors.matrix_denoiser import rectangular_divergence, symmetric_divergence

# Smallest susceptibility; that of an estimate of zero vanishes.
_LEAST_SUSCEPTIBILITY = 1e-14
# Changes of the estimate's entries below this size are rounding errors.
_ROUNDING = 1e-13
# A run oscillates if its longest step in the last quarter exceeds 0.9 times that in the quarter before (by trial).
_LAST_SHARE, _SHRINKING = 0.25, 0.9


@dataclass(frozen=True, kw_only=True)
class UndampedState:
    """State between two steps without damping.

    Attributes:
        step_size: root-mean-square change of the estimate's entries in the last step, or change of ``V`` if larger.
        first: whether this is the state before the first step.
    """

    step_size: float = np.inf
    first: bool = True

    claimed_error: ClassVar[float] = 1.0
    damping: ClassVar[float] = 0.0


State = TypeVar("State", bound=UndampedState)


@dataclass(frozen=True)
class ProximalState(UndampedState):
    """One instance between two steps.

    Attributes:
        estimate: estimate of the signal.
        susceptibility: ``V``.
        score: ``g``, in the shape of the fields.
    """

    estimate: Array
    susceptibility: float
    score: Array


class UndampedStep:
    """Checks of steps without damping: one start, no symmetry to break, no claimed error that data may contradict."""

    starts: ClassVar[int] = 1

    def has_converged(self, state: UndampedState, history: StepHistory) -> bool:
        """Return whether the steps are rounding errors."""
        return state.step_size <= _ROUNDING

    def is_growing(self, old: UndampedState, new: UndampedState) -> bool:
        return False

    def on_plateau(self, state: UndampedState) -> bool:
        return False

    def log_evidence(self, state: UndampedState) -> float:
        return 0.0

    def diagnose(self, state: UndampedState) -> Status:
        return Status.CONVERGED


@dataclass(frozen=True)
class ProximalStep(UndampedStep):
    """Undamped steps on the first instance of a design, from an estimate of zero.

    Attributes:
        risk: risk whose minimiser is the fixed point.
        initial_susceptibility: susceptibility before the first step.
    """

    risk: EmpiricalRisk
    initial_susceptibility: float

    def start(self, attempt: int) -> ProximalState:
        design = self.risk.design
        return ProximalState(np.zeros(design.signal_shape), self.initial_susceptibility, np.zeros(design.field_shape))

    def advance(self, state: ProximalState) -> tuple[ProximalState, float]:
        """Return the next state, with a constant quality, so that the loop returns the last state."""
        design, variance = self.risk.design, state.susceptibility
        omega = design.forward(state.estimate, 0) - variance * state.score
        score, slopes = self.risk.loss.score(self.risk.labels, omega, variance)
        precision = design.sample_ratio * float(np.sum(slopes)) / design.samples
        if not (precision > 0 and np.isfinite(score).all()):
            return replace(state, step_size=np.nan), 0.0
        pseudo_data = state.estimate + design.adjoint(score, 0) / precision
        estimate, divergence = self._denoised(pseudo_data, 1 / precision)
        susceptibility = max(divergence / precision, _LEAST_SUSCEPTIBILITY)
        moved = float(np.sqrt(np.mean((estimate - state.estimate) ** 2)))
        step_size = max(moved, abs(susceptibility - variance))
        return ProximalState(estimate, susceptibility, score, step_size=step_size, first=False), 1.0

    def _denoised(self, matrix: Array, step: float) -> tuple[Array, float]:
        """Return the penalty's proximal map, and its divergence per entry."""
        risk = self.risk
        if risk.positive:
            values, vectors = eigh(matrix)
            shrunk = risk.shrink(values, step)
            slopes = risk.penalty.proximal_slope(values, step)
            if risk.trace is not None:
                # A known trace removes one degree of freedom of the positive eigenvalues.
                slopes = np.full_like(values, 1 - 1 / max(int(np.sum(shrunk > 0)), 1))
            slopes = np.where(shrunk > 0, slopes, 0.0)
            return (vectors * shrunk) @ vectors.T, symmetric_divergence(values, shrunk, slopes)
        if risk.penalty.quadratic:
            contraction = 1 / (1 + step * risk.penalty.square)
            return contraction * matrix, contraction
        left, values, right = svd(matrix)
        shrunk, excess = risk.shrink(values, step), abs(matrix.shape[0] - matrix.shape[1])
        slopes = np.where(shrunk > 0, risk.penalty.proximal_slope(values, step), 0.0)
        return (left * shrunk) @ right, rectangular_divergence(values, shrunk, slopes, excess)


def take_undamped_steps(
    step: Step[State], steps: int, measure: Callable[[State], dict[str, Any]]
) -> tuple[State, dict[str, Any]]:
    """Return the last state, and status, iterations, residual and history of the run, as a fit reports them.

    A run whose steps do not become shorter is ``OSCILLATING`` instead of at the iteration limit.

    Args:
        step: the algorithm, an :class:`UndampedStep`.
        steps: number of steps, fewer where the estimate no longer changes.
        measure: returns the errors of a state by name, nothing where the teacher is not known.
    """
    history: list[dict[str, Any]] = []

    def watch(state: State) -> None:
        errors = {} if state.first else measure(state)
        if errors:
            history.append(errors)

    run = message_passing(step, steps, damping=0.0, watch=watch)
    sizes, status = run.step_sizes, run.status
    count = int(_LAST_SHARE * len(sizes))
    if status is Status.ITERATION_LIMIT and count > 0:
        shrinking = max(sizes[-count:]) < _SHRINKING * max(sizes[-2 * count : -count])
        status = status if shrinking else Status.OSCILLATING
    report = {"status": status, "iterations": len(sizes), "residual": run.state.step_size, "history": history}
    return run.state, report
