"""Status of a computation and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

# Settings that limit an iteration, the first one of a result counts.
_LIMITS = ("max_iterations", "steps", "passes")


class Status(Enum):
    """How a computation ended. ``str(status)`` is the name used in files, ``status.remedy`` says what to do.

    Example:
        >>> str(Status.ITERATION_LIMIT)
        'iteration_limit'
        >>> "max_iterations" in Status.ITERATION_LIMIT.remedy
        True
    """

    CONVERGED = ("converged", "nothing to do")
    ITERATION_LIMIT = (
        "iteration_limit",
        "the residual is still above the tolerance: move alpha away from a threshold, where convergence slows down, "
        "or raise the points of sampled averages, or max_iterations where settings have it",
    )
    NON_FINITE = (
        "non_finite",
        "a non-finite number appeared: check the link function for overflow and the data for infinities, and lower a "
        "learning rate if there is one",
    )
    DIVERGING = (
        "diverging",
        "the powers of the weights or the errors grow without bound: lower the learning rate or the strength of the "
        "steps, raise the batch, or add weight decay; values are those before it, or missing",
    )
    BISTABLE = (
        "bistable",
        "the informed and the uninformed fixed points differ (a hard phase): both are reported, and "
        "the one of larger free entropy is Bayes-optimal; of a risk the one of lower free energy is the minimum",
    )
    SYMMETRY_BROKEN = (
        "replica_symmetry_broken",
        "the stability is one or more: replica symmetry is broken, and the numbers are an approximation; raise the "
        "strength of the penalty or the sample ratio",
    )
    INTEGRATION_NOT_CONVERGED = (
        "integration_not_converged",
        "the error of the averages exceeds the tolerance: raise the points of sampled ones, or add noise",
    )
    OUTSIDE_CONE = (
        "overlap_outside_cone",
        "the overlap left [0, 1]: the channel's score and sampler contradict each other, check them against each other",
    )
    OSCILLATING = (
        "oscillating",
        "the iterates keep moving, even at the strongest damping: the best iterate is reported, or every step of a "
        "trajectory; raise max_iterations or d, or the strength of a penalty",
    )
    CONTRADICTED = (
        "contradicted_by_residual",
        "the residual on the data disagrees with the predicted variance, or the labels are less probable under the "
        "estimate than without any information: a finite-size effect or a spurious fixed point; try a larger d, "
        "another seed or a stronger damping",
    )

    MISTAKEN = (
        "contradicted_by_inputs",
        "the inputs are not independent standard normal numbers, as message passing assumes: the warning and "
        "diagnose(X, y) name the deviation; standardise or whiten them, or use a learner without this assumption "
        "(risk)",
    )

    def __init__(self, label: str, remedy: str) -> None:
        self.label = label
        self.remedy = remedy

    def __str__(self) -> str:
        return self.label

    def remedy_for(self, parameters: Mapping[str, Any]) -> str:
        """Return the remedy for a result with these parameters, which names only settings among them.

        Example:
            >>> Status.INTEGRATION_NOT_CONVERGED.remedy_for({"noise": 0.0, "noise_law": "poisson", "points": 256})
            'the error of the averages exceeds the tolerance: raise the points of sampled ones'
            >>> Status.ITERATION_LIMIT.remedy_for({"steps": 100})
            'the residual is still above the tolerance: move alpha away from a threshold, where convergence slows \
down, or raise steps'
        """
        if not parameters:
            return self.remedy
        limit = next((name for name in _LIMITS if name in parameters), None)
        points = ["raise the points of sampled %s"] if "points" in parameters else []
        if self is Status.INTEGRATION_NOT_CONVERGED:
            noise = "noise" in parameters and "noise_law" not in parameters
            ways = [*(way % "ones" for way in points), *(["add noise"] if noise else [])]
            return "the error of the averages exceeds the tolerance" + (f": {', or '.join(ways)}" if ways else "")
        if self is Status.ITERATION_LIMIT:
            steps = "max_iterations where settings have it" if limit is None else limit
            # A run on data has steps of its own, and a small penalty slows down both a run and its theory.
            run, small = "learner" in parameters, parameters.get("strength") not in (None, "best")
            away = [] if run else ["move alpha away from a threshold, where convergence slows down"]
            ways = [*away, *(way % "averages" for way in points), *(["raise the strength"] if small else [])]
            ways.append(f"raise {steps}")
            return f"the residual is still above the tolerance: {', or '.join(ways)}"
        return self.remedy if limit is None else self.remedy.replace(_LIMITS[0], limit)

    @property
    def ok(self) -> bool:
        """True only for ``CONVERGED``."""
        return self is Status.CONVERGED
