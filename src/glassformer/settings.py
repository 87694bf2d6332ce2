"""When an iteration stops and how it moves: settings shared by the loops."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import ParameterError


@dataclass(frozen=True)
class Iteration:
    """How a fixed point is looked for.

    Args:
        tolerance: relative accuracy of the fixed point.
        floor: absolute accuracy below which a state counts as reached; the smallest variance told from zero.
        max_iterations: evaluations of the map allowed per batch element.
        damping: weight of the old state in [0, 1) for plain damped iteration; None for accelerated iteration.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> Iteration(damping=1.0)
        Traceback (most recent call last):
        ...
        glassformer.errors.ParameterError: damping = 1.0 is not allowed: expected None, or a number in [0, 1)
    """

    tolerance: float = 1e-10
    floor: float = 1e-13
    max_iterations: int = 500
    damping: float | None = None

    def __post_init__(self) -> None:
        for name in ("tolerance", "floor"):
            if not 0 < getattr(self, name) < 1:
                raise ParameterError(name, getattr(self, name), "a number in (0, 1)")
        if self.max_iterations < 1:
            raise ParameterError("max_iterations", self.max_iterations, "an integer >= 1")
        if self.damping is not None and not 0 <= self.damping < 1:
            raise ParameterError("damping", self.damping, "None, or a number in [0, 1)")


@dataclass(frozen=True)
class Descent(Iteration):
    """How message passing is run.

    Args:
        tolerance: largest root-mean-square change of the signal per undamped step, relative to its posterior
            standard deviation, that counts as settled.
        floor: posterior variance below which the signal counts as known exactly.
        max_iterations: steps allowed.
        damping: None to adapt it, or a fixed weight of the old state in [0, 1).
        random_start: size of a random start; None for the prior mean, or 0.1 where an even channel needs one.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> Descent(max_iterations=0)
        Traceback (most recent call last):
        ...
        glassformer.errors.ParameterError: max_iterations = 0 is not allowed: expected an integer >= 1
    """

    tolerance: float = 1e-3
    floor: float = 1e-9
    max_iterations: int = 300
    random_start: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.random_start is not None and not 0 <= self.random_start < float("inf"):
            raise ParameterError("random_start", self.random_start, "None, or a finite number >= 0")
