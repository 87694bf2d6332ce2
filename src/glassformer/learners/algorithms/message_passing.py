"""The one message-passing loop: best iterate, damping, restarts and statuses, whatever the algebra of a step.

What does not settle at small sizes are oscillations of period two, driven by a few outlying singular vectors. They show
in successive steps that oppose each other; damping reacts to that and to nothing else. Every step measures the quality
of the estimate it started from; the best one is kept, so a run that will not settle ends there and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from glassformer.core.solution import Status


class Iterate(Protocol):
    """One state of a run, a data class."""

    @property
    def size(self) -> float:
        """Length of the undamped step that led here; not finite where that failed."""

    @property
    def claimed(self) -> float:
        """The error that the estimate claims, between 0 and 1."""

    @property
    def damping(self) -> float:
        """Weight of the old state in the next step."""


State = TypeVar("State", bound=Iterate)


class Step(Protocol[State]):
    """The algebra of one step, and what it knows of its own quality."""

    @property
    def attempts(self) -> int:
        """Starts worth trying: more than one where they are random."""

    def start(self, attempt: int) -> State:
        """The state before any step."""

    def advance(self, state: State) -> tuple[State, float]:
        """The next state, and the measured quality of the estimate in the old one."""

    def growing(self, old: State, new: State) -> bool:
        """Whether an overlap that was next to nothing is on its way: nothing is settled, however small the step."""

    def settled(self, state: State, trail: Trail) -> bool:
        """Whether the state has stopped moving."""

    def wandering(self, state: State) -> bool:
        """Whether the state may still be on the plateau around an overlap of zero that labels are blind to."""

    def diagnosis(self, state: State) -> Status:
        """What the data say of a state that settled."""

    def evidence(self, state: State) -> float:
        """How probable the labels are under the estimate, on a logarithmic scale: chooses between several starts."""


@dataclass(frozen=True)
class Policy:
    """When a run is given up, damped or begun anew.

    Attributes:
        levels: damping, from one level to the next as it is needed.
        window: steps that are compared with as many before them.
        progress: share of the shortest step of the window before, above which steps have not shrunk.
        gaining: fall of the claimed error from window to window that is progress, however long the steps.
        collapse: an iterate whose quality is less than the best one's by this factor is given up for the best one.
        early: quality below which there is too little signal to tell.
        patience: steps on a plateau that are no sign of trouble.
    """

    levels: tuple[float, ...] = (0.0, 0.3, 0.5, 0.7)
    window: int = 25
    progress: float = 0.7
    gaining: float = 0.98
    collapse: float = 4.0
    early: float = 0.02
    patience: int = 200


@dataclass
class Trail:
    """Lengths of the steps so far, the errors claimed after them, and how many were taken at the present damping."""

    sizes: list[float]
    claimed: list[float]
    since: int = 0

    def stagnates(self, policy: Policy) -> bool:
        """True when the last window has brought neither shorter steps nor a smaller claimed error.

        Example:
            >>> Trail([1.0] * 50, [0.5] * 50, 50).stagnates(Policy())
            True
            >>> Trail([0.9**k for k in range(50)], [0.5] * 50, 50).stagnates(Policy())
            False
        """
        window = policy.window
        if self.since < 2 * window or self.since % window:
            return False
        shrinks = min(self.sizes[-window:]) <= policy.progress * min(self.sizes[-2 * window : -window])
        gains = np.mean(self.claimed[-window:]) < policy.gaining * np.mean(self.claimed[-2 * window : -window])
        return not (shrinks or bool(gains))


@dataclass(frozen=True)
class Run(Generic[State]):
    """How a run ended: in which state, with which status, after steps of which lengths, from an estimate how good."""

    state: State
    status: Status
    history: list[float]
    quality: float


def message_passing(
    step: Step[State],
    max_iterations: int,
    damping: float | None = None,
    watch: Callable[[State], None] | None = None,
    policy: Policy | None = None,
) -> Run[State]:
    """The first run that converges; of those that do not, the one under which the labels are most probable.

    Args:
        step: the algebra.
        max_iterations: steps allowed per run.
        damping: a fixed weight of the old state, or None to adapt it.
        watch: called with every state, the first one of every run included.
        policy: when to damp and to give up.
    """
    runs: list[Run[State]] = []
    for attempt in range(step.attempts):
        runs.append(
            _run(
                step,
                step.start(attempt),
                max_iterations,
                damping is None,
                watch or (lambda _: None),
                policy or Policy(),
            )
        )
        if runs[-1].status.ok:
            return runs[-1]
    return runs[0] if len(runs) == 1 else max(runs, key=lambda run: step.evidence(run.state))


def _run(
    step: Step[State],
    state: State,
    max_iterations: int,
    adaptive: bool,
    watch: Callable[[State], object],
    policy: Policy,
) -> Run[State]:
    best, quality, trail = state, 0.0, Trail([], [])
    watch(state)
    for _ in range(max_iterations):
        new, measured = step.advance(state)
        if measured >= quality:
            best, quality = state, measured
        trail.sizes.append(new.size)
        trail.claimed.append(new.claimed)
        trail.since += 1
        finite = bool(np.isfinite(new.size))
        if finite:
            watch(new)
        growing = finite and step.growing(state, new)
        if finite and not growing and step.settled(new, trail):
            return Run(new, step.diagnosis(new), trail.sizes, max(quality, measured))
        waiting = growing or (step.wandering(state) and trail.since < policy.patience)
        collapsed = not finite or (max(measured, policy.early) * policy.collapse < quality and not waiting)
        if adaptive and (collapsed or (trail.stagnates(policy) and not waiting)):
            stronger = next((level for level in policy.levels if level > state.damping), None)
            if stronger is None:
                return Run(best, Status.OSCILLATING, trail.sizes, quality)
            state, trail.since = replace(best if collapsed else new, damping=stronger), 0  # type: ignore[type-var]
            continue
        if not finite:
            return Run(best, Status.NON_FINITE, trail.sizes, quality)
        state = new
    return Run(best, Status.ITERATION_LIMIT, trail.sizes, quality)
