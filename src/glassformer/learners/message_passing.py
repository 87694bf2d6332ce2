"""The message-passing loop: damping, restarts, the best iterate and the status, for any algorithm.

At small sizes runs that do not converge oscillate with period two, driven by a few outlying singular vectors.
Successive steps then have opposite directions, and the loop increases the damping. Every step also measures the quality
of the estimate at its start. The loop stores the best iterate, which is returned with its status if the run does not
converge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from glassformer.core.progress import note
from glassformer.core.status import Status

# All numbers were chosen by trial on bsr and smi at d from 20 to 200.
# Weights of the old state, tried in this order if a run oscillates.
DAMPING_LEVELS = (0.0, 0.3, 0.5, 0.7)
# Number of steps in a window; progress is measured between two successive windows.
_WINDOW = 25
# A run makes progress if the shortest step of a window is below this share of that of the window before,
_SHRINKING = 0.7
# or if the mean claimed error is below this share.
_GAINING = 0.98
# A run returns to its best iterate if the quality falls below that of the best iterate by this factor,
_COLLAPSE = 4.0
# unless both qualities are below this value, at which there is too little signal for a comparison.
_EARLY_QUALITY = 0.02
# Number of steps that a run may stay on a plateau.
_PLATEAU_STEPS = 200


class Iterate(Protocol):
    """State of a run between two steps; a data class."""

    @property
    def step_size(self) -> float:
        """Length of the undamped step that led to this state; not finite where the step failed."""

    @property
    def claimed_error(self) -> float:
        """Error that the algorithm claims for its estimate, between 0 and 1."""

    @property
    def damping(self) -> float:
        """Weight of the old state in the next step."""


State = TypeVar("State", bound=Iterate)


class Step(Protocol[State]):
    """One step of an algorithm, and its convergence checks."""

    @property
    def starts(self) -> int:
        """Largest number of starts: more than one if they are random."""

    def start(self, attempt: int) -> State:
        """Return the state before the first step."""

    def advance(self, state: State) -> tuple[State, float]:
        """Return the next state, and the measured quality of the estimate in the old one."""

    def is_growing(self, old: State, new: State) -> bool:
        """Return whether a small overlap is growing, so that a short step does not imply convergence."""

    def has_converged(self, state: State, history: StepHistory) -> bool:
        """Return whether the state no longer changes."""

    def on_plateau(self, state: State) -> bool:
        """Return whether the state may still be near zero overlap, where even labels have no slope."""

    def diagnose(self, state: State) -> Status:
        """Return the status of a state that no longer changes: whether the data agree with it."""

    def log_evidence(self, state: State) -> float:
        """Return the log-probability of the labels under the estimate, by which the best of several runs is chosen."""


@dataclass
class StepHistory:
    """Lengths of all steps so far, claimed errors after each step, and number of steps at the present damping."""

    step_sizes: list[float] = field(default_factory=list)
    claimed_errors: list[float] = field(default_factory=list)
    at_damping: int = 0

    def stagnates(self) -> bool:
        """Return whether the last window has neither shorter steps nor a smaller claimed error than the one before.

        Example:
            >>> StepHistory([1.0] * 50, [0.5] * 50, 50).stagnates()
            True
            >>> StepHistory([0.9**k for k in range(50)], [0.5] * 50, 50).stagnates()
            False
        """
        if self.at_damping < 2 * _WINDOW or self.at_damping % _WINDOW:
            return False
        last, before = slice(-_WINDOW, None), slice(-2 * _WINDOW, -_WINDOW)
        shrinking = min(self.step_sizes[last]) <= _SHRINKING * min(self.step_sizes[before])
        gaining = np.mean(self.claimed_errors[last]) < _GAINING * np.mean(self.claimed_errors[before])
        return not (shrinking or bool(gaining))


@dataclass(frozen=True)
class MessagePassingRun(Generic[State]):
    """Result of one run.

    Attributes:
        state: the converged state, or the best iterate.
        status: status of the run.
        step_sizes: length of every step.
        quality: measured quality of the best iterate.
    """

    state: State
    status: Status
    step_sizes: list[float]
    quality: float


def message_passing(
    step: Step[State],
    max_iterations: int,
    damping: float | None = None,
    watch: Callable[[State], None] | None = None,
) -> MessagePassingRun[State]:
    """Return the first run that converges, or if none converges the run with the most probable labels.

    Args:
        step: the algorithm.
        max_iterations: largest number of steps of a run.
        damping: a fixed weight of the old state, or None for adaptive damping.
        watch: called with every state, including the initial state of every run.
    """
    runs: list[MessagePassingRun[State]] = []
    for attempt in range(step.starts):
        runs.append(_run(step, step.start(attempt), max_iterations, damping is None, watch or (lambda _: None)))
        if runs[-1].status.ok:
            return runs[-1]
    return runs[0] if len(runs) == 1 else max(runs, key=lambda run: step.log_evidence(run.state))


def _run(
    step: Step[State], state: State, max_iterations: int, adaptive: bool, watch: Callable[[State], object]
) -> MessagePassingRun[State]:
    best, quality, history = state, 0.0, StepHistory()
    watch(state)
    for number in range(1, max_iterations + 1):
        note(f"step {number}")
        new, measured = step.advance(state)
        if measured >= quality:
            best, quality = state, measured
        history.step_sizes.append(new.step_size)
        history.claimed_errors.append(new.claimed_error)
        history.at_damping += 1
        finite = bool(np.isfinite(new.step_size))
        if finite:
            watch(new)
        growing = finite and step.is_growing(state, new)
        if finite and not growing and step.has_converged(new, history):
            return MessagePassingRun(new, step.diagnose(new), history.step_sizes, max(quality, measured))
        waiting = growing or (step.on_plateau(state) and history.at_damping < _PLATEAU_STEPS)
        collapsed = not finite or (max(measured, _EARLY_QUALITY) * _COLLAPSE < quality and not waiting)
        if adaptive and (collapsed or (history.stagnates() and not waiting)):
            stronger = next((level for level in DAMPING_LEVELS if level > state.damping), None)
            if stronger is None:
                return MessagePassingRun(best, Status.OSCILLATING, history.step_sizes, quality)
            state, history.at_damping = replace(best if collapsed else new, damping=stronger), 0  # type: ignore[type-var]
            continue
        if not finite:
            return MessagePassingRun(best, Status.NON_FINITE, history.step_sizes, quality)
        state = new
    return MessagePassingRun(best, Status.ITERATION_LIMIT, history.step_sizes, quality)
