"""When an iteration stops and how it moves: settings shared by the loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glassformer.core.errors import ParameterError


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
        glassformer.core.errors.ParameterError: damping = 1.0 is not allowed: expected None, or a number in [0, 1)
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
        glassformer.core.errors.ParameterError: max_iterations = 0 is not allowed: expected an integer >= 1
    """

    tolerance: float = 1e-3
    floor: float = 1e-9
    max_iterations: int = 300
    random_start: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.random_start is not None and not 0 <= self.random_start < float("inf"):
            raise ParameterError("random_start", self.random_start, "None, or a finite number >= 0")


@dataclass(frozen=True)
class Training:
    """How parameters are trained by gradients.

    Args:
        optimizer: ``"sgd"`` (plain gradient descent, with ``momentum``) or ``"adam"``; None for the algorithm's own.
        learning_rate: length of a step in the algorithm's own units; None for its default. A run that diverges begins
            again with half of it.
        momentum: weight of the last step in [0, 1), for ``"sgd"``.
        weight_decay: share of the parameters that a step of unit learning rate takes away, >= 0.
        starts: independent initialisations on the same data; None for the algorithm's own number.
        init: ``"prior"``, as large as the teacher's parameters, or ``"small"``, ``small`` times as large.
        small: size of a small initialisation.
        student_width: width of the student; None for the teacher's.
        explore: steps at first during which no floor counts; a tenth of the learning rate follows. At a large rate the
            weights wander among those that fit, and averages over starts come closer to the optimal error. None for
            the algorithm's own number.
        max_steps: steps allowed.
        floor: training error, relative to the power of the labels, that counts as zero.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> Training(init="large")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: init = 'large' is not allowed: expected prior or small
    """

    optimizer: str | None = None
    learning_rate: float | None = None
    momentum: float = 0.0
    weight_decay: float = 0.0
    starts: int | None = None
    init: str = "prior"
    small: float = 1e-3
    student_width: int | None = None
    explore: int | None = None
    max_steps: int = 50_000
    floor: float = 1e-9

    def __post_init__(self) -> None:
        if self.optimizer not in (None, "sgd", "adam"):
            raise ParameterError("optimizer", self.optimizer, "sgd or adam")
        require_init(self.init)
        require_positive(self, "small")
        require_positive(self, "learning_rate", optional=True)
        if not 0 <= self.momentum < 1:
            raise ParameterError("momentum", self.momentum, "a number in [0, 1)")
        if self.momentum > 0 and self.optimizer == "adam":
            raise ParameterError("momentum", self.momentum, "0 with adam, which has its own")
        require_not_negative(self, "weight_decay")
        if not 0 <= self.floor < 1:
            raise ParameterError("floor", self.floor, "a number in [0, 1)")
        require_whole(self, "starts", "student_width", "max_steps", optional=True)
        whole = isinstance(self.explore, int) and not isinstance(self.explore, bool)
        if self.explore is not None and not (whole and 0 <= self.explore < self.max_steps):
            raise ParameterError("explore", self.explore, f"an integer from 0 to max_steps - 1 = {self.max_steps - 1}")

    def rule(self, rates: Mapping[str, float]) -> tuple[str, float]:
        """Optimizer and learning rate, from an algorithm's rates by optimizer, the default one first, where left open.

        Example:
            >>> Training(learning_rate=0.1).rule({"sgd": 0.7, "adam": 0.05})
            ('sgd', 0.1)
        """
        name = self.optimizer or next(iter(rates))
        return name, self.learning_rate or rates[name]


@dataclass(frozen=True)
class MultiPass:
    """How weights are trained on batches, several passes over the same data.

    Args:
        learning_rate: None for 15, as published for deep attention, on the squared error over ``d``.
        weight_decay: in units of ``1/d``; None for 0.07, as published.
        init: ``"prior"``, standard normal weights, or ``"small"``, ``small`` times as large.
        small: size of a small initialisation.
        batch: samples per batch.
        repeats: gradient steps on every batch.
        passes: passes over the data.
        looks: entries of the history per pass.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> MultiPass(batch=0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: batch = 0 is not allowed: expected an integer >= 1
    """

    learning_rate: float | None = None
    weight_decay: float | None = None
    init: str = "prior"
    small: float = 1e-3
    batch: int = 200
    repeats: int = 3
    passes: int = 40
    looks: int = 8

    def __post_init__(self) -> None:
        require_init(self.init)
        require_positive(self, "small")
        require_positive(self, "learning_rate", optional=True)
        require_not_negative(self, "weight_decay", optional=True)
        require_whole(self, "batch", "repeats", "passes", "looks")


@dataclass(frozen=True)
class Regularised:
    """How strongly a convex estimator is regularised, and how well it is solved.

    Args:
        strength: weight of the regulariser, >= 0; None for the algorithm's own choice at the noise of the model.
        tolerance: relative duality gap at which a solution is accepted.
        max_iterations: steps allowed.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> Regularised(strength=-1.0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: strength = -1.0 is not allowed: expected None, or finite and >= 0
    """

    strength: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 5000

    def __post_init__(self) -> None:
        require_not_negative(self, "strength", optional=True)
        if not 0 < self.tolerance < 1:
            raise ParameterError("tolerance", self.tolerance, "a number in (0, 1)")
        if self.max_iterations < 1:
            raise ParameterError("max_iterations", self.max_iterations, "an integer >= 1")


def require_init(init: str) -> None:
    """Raise unless the kind of initialisation is known."""
    if init not in ("prior", "small"):
        raise ParameterError("init", init, "prior or small")


def require_positive(settings: object, *names: str, optional: bool = False) -> None:
    """Raise unless the settings of these names are finite and > 0, or None where that is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is None and optional:
            continue
        if value is None or not 0 < value < float("inf"):
            raise ParameterError(name, value, "finite and > 0")


def require_not_negative(settings: object, *names: str, optional: bool = False) -> None:
    """Raise unless the settings of these names are finite and >= 0, or None where that is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is None and optional:
            continue
        if value is None or not 0 <= value < float("inf"):
            raise ParameterError(name, value, f"{'None, or ' if optional else ''}finite and >= 0")


def require_whole(settings: object, *names: str, optional: bool = False) -> None:
    """Raise unless the settings of these names are integers >= 1, or None where that is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is None and optional:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ParameterError(name, value, "an integer >= 1")
