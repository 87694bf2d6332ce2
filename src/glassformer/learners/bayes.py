"""Bayes-optimal learning by message passing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.settings import Iteration, require_number, setting
from glassformer.learners.base import IN_ANY_FORM, Learner, Reached

if TYPE_CHECKING:
    from collections.abc import Callable

    from glassformer.core.checkpoints import Checkpoint
    from glassformer.core.integral import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution

# Size of the random start that even labels of several rows need: the overlap must outgrow the noise before that is of
# order one. Starts that lock on a point without overlap are followed by so many others.
_RANDOM_START, _RESTARTS = 1e-3, 2


@dataclass(frozen=True)
class MessagePassing(Iteration, Learner):
    """Message passing for any model: the best that is known in polynomial time.

    Args:
        tolerance: largest root-mean-square change of the signal per undamped step, relative to its posterior
            standard deviation, that counts as settled.
        floor: posterior variance below which the signal counts as known exactly.
        max_iterations: steps allowed.
        damping: None to adapt it, or a fixed weight of the old state in [0, 1).
        random_start: size of a random start; None for the prior mean, or for what an even channel needs.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> MessagePassing(max_iterations=0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: max_iterations = 0 is not allowed: expected an integer >= 1
    """

    title: ClassVar[str] = "message passing"
    family: ClassVar[str] = "Bayes-optimal"
    storages: ClassVar[tuple[str, ...]] = IN_ANY_FORM

    tolerance: float = setting(1e-3, "change per step that counts as settled, in posterior standard deviations")
    floor: float = setting(1e-9, "posterior variance below which the signal counts as known")
    max_iterations: int = setting(300, "steps allowed per run")
    damping: float | None = setting(None, "weight of the old state in [0, 1), instead of an adaptive one")
    random_start: float | None = setting(None, "size of a random start, for even labels")

    def __post_init__(self) -> None:
        super().__post_init__()
        within: Callable[[Any], bool] = lambda x: 0 <= x < float("inf")  # noqa: E731
        require_number(self, "random_start", allowed="a finite number >= 0", within=within, optional=True)

    def obstacle(self, model: Any) -> str | None:
        del model
        return None

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        from glassformer.theory.limits import limits

        found = limits(model, alpha, throw=False) if optimum is None else optimum
        return found["algorithmic_error"]

    def learn(
        self,
        model: Any,
        design: Any,
        labels: Array,
        seed: int = 0,
        checkpoint: Checkpoint | None = None,
        side: tuple[float, Array] | None = None,
        teacher: Array | None = None,
    ) -> Reached:
        del checkpoint
        history: list[dict[str, Any]] = []

        def follow(signal: Array, variance: Array) -> None:
            if teacher is not None:
                measured = model.measured(signal, teacher, variance)
                history.append({name: value for name, value in measured.items() if name in model.followed})

        found = _passed(self, model, design, labels, seed, side, follow, history.clear)
        return Reached(
            estimates=found.value[:1],
            status=found.status[0],
            iterations=int(found.iterations[0]),
            residual=float(found.residual[0]),
            variance=found.extra["variance"][0] if "variance" in found.extra else None,
            claimed_error=float(found.error_estimate[0]),
            nishimori_ratio=float(found.extra["nishimori_ratio"][0]),
            damping=float(found.extra["damping"][0]),
            history=history,
        )


def _passed(
    settings: MessagePassing,
    model: Any,
    design: Any,
    labels: Array,
    seed: int,
    side: tuple[float, Array] | None,
    follow: Callable[[Array, Array], None],
    forget: Callable[[], None],
) -> Solution:
    """The one place that calls the loops; both families go through one once there is one."""
    import numpy as np

    from glassformer.learners.gamp import gamp
    from glassformer.learners.overlap_gamp import overlap_gamp
    from glassformer.models import MatrixModel

    if not isinstance(model, MatrixModel):
        return gamp(model, design, labels, settings, seed)
    rng, shape = np.random.default_rng([seed, 3 if side is None else 4]), model.signal_shape(design)
    size = _RANDOM_START * (model.channel.even and side is None) if (s := settings.random_start) is None else s
    for left in range(_RESTARTS if size > 0 else 0, -1, -1):
        start = model.prior.mean(shape) + size * rng.standard_normal(shape) if size > 0 else None
        found = overlap_gamp(
            model, design, labels, settings, side, start, lambda step: follow(step.signal, step.variance)
        )
        # Close to a threshold a random start may lock on a point without overlap, which its status gives away.
        if found.status[0].ok or left == 0:
            break
        forget()
    return found
