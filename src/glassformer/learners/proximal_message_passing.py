"""The minimiser of a regularised risk by steps that have a theory each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import IncompatibleError
from glassformer.core.solution import Status
from glassformer.learners.base import FitResult
from glassformer.learners.regularised_risk import RegularisedRisk, fit_of

if TYPE_CHECKING:
    from glassformer.learners.algorithms.proximal_passing import ProximalState
    from glassformer.learners.data_set import DataSet


@dataclass(frozen=True)
class Shrinking:
    """When a run has not settled but is on its way."""

    still: float = 1e-13  # changes of entries of the estimate that are rounding
    part: float = 0.25  # share of a run in which steps have to shrink
    shrinks: float = 0.9  # to which part of those of the same share before


_POLICY = Shrinking()


@dataclass(frozen=True)
class ProximalMessagePassing(RegularisedRisk):
    r"""The learner of a regularised risk, by message passing without damping instead of descent.

    Equation :eq:`proximal-message-passing` of the documentation.

    :mod:`~glassformer.learners.algorithms.proximal_passing` has the steps. Its errors after each are those of
    :func:`~glassformer.risk.trajectory.risk_trajectory`; where it settles, it does at the minimiser. It is what
    :func:`~glassformer.experiments.trajectories.follow` runs beside the theory of :class:`RegularisedRisk`.

    Args:
        loss, penalty, strength: see :class:`~glassformer.RegularisedRisk`.
        tolerance: without effect.
        max_iterations: steps.

    Raises:
        ParameterError: an argument is out of range.

    Source: derived here; of sparse vectors Donoho, Maleki and Montanari, arXiv:0907.3574.

    Example:
        >>> from glassformer import BilinearSequenceRegression, RegularisedRisk, simulate
        >>> model, ask = BilinearSequenceRegression(rho=0.3, noise=0.1), {"d": 20, "instances": 1}
        >>> learners = RegularisedRisk(strength=0.2, tolerance=1e-9), ProximalMessagePassing(strength=0.2)
        >>> one, other = (simulate(model, [1.0], algorithm=learner, **ask)["error"][0] for learner in learners)
        >>> bool(abs(one - other) < 1e-4)
        True
    """

    @property
    def name(self) -> str:
        """That of the learner whose minimiser it finds."""
        return "risk"

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.algorithms.message_passing import message_passing
        from glassformer.learners.algorithms.proximal_passing import ProximalStep
        from glassformer.learners.training_history import Snapshots
        from glassformer.risk.trajectory import START_SUSCEPTIBILITY

        snapshots = Snapshots(model, data.teacher)

        def follow(state: ProximalState) -> None:
            if not state.first:
                snapshots.take(state.estimate)

        susceptibility = START_SUSCEPTIBILITY * float(model.prior.second_moment)
        step = ProximalStep(self.risk_of(model, data), susceptibility, _POLICY.still)
        run = message_passing(step, self.max_iterations, damping=0.0, watch=follow)
        history = snapshots.developed()
        if not history and data.teacher is not None:
            told = f"loss {step.risk.loss.name} is straight around an estimate of zero"
            raise IncompatibleError(f"{told}, and message passing takes no first step: use theory alone, without d")
        return FitResult(
            run.state.estimate[None],
            status=_ended(run.status, run.history),
            iterations=len(run.history),
            residual=run.state.size,
            history=history,
            **fit_of(step.risk, run.state.estimate),
        )


def _ended(status: Status, sizes: list[float]) -> Status:
    """Runs that end too early are told from those whose steps do not shrink."""
    part = int(_POLICY.part * len(sizes))
    if status is not Status.ITERATION_LIMIT or part == 0:
        return status
    shrinks = max(sizes[-part:]) < _POLICY.shrinks * max(sizes[-2 * part : -part])
    return status if shrinks else Status.OSCILLATING
