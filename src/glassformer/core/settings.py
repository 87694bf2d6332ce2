"""When an iteration stops and how it moves, and what settings of all kinds are checked with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glassformer.core.checks import is_number, is_whole, require_integer
from glassformer.core.deprecated import renamed
from glassformer.core.errors import ParameterError
from glassformer.core.options import parameter


def setting(default: Any, text: str, option: str = "") -> Any:
    """A field of a data class, with what helps its user: a text, and the name of its option if that is another one."""
    return parameter(text, default, option=option)


def strength_from(name: str, text: str) -> float | None:
    """A strength as it is written, None for the best.

    Raises:
        ParameterError: it is neither a number nor "best".

    Example:
        >>> strength_from("strength", "0.1"), strength_from("strength", "best")
        (0.1, None)
    """
    if text == "best":
        return None
    try:
        return float(text)
    except ValueError:
        raise ParameterError(name, text, "a number >= 0, or best") from None


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
        require_number(self, "tolerance", "floor", allowed="a number in (0, 1)", within=lambda x: 0 < x < 1)
        require_whole(self, "max_iterations")
        require_share(self, "damping", optional=True)


def require_init(init: object) -> None:
    """Raise unless the kind of initialisation is known."""
    if init not in ("prior", "small"):
        raise ParameterError("init", init, "prior or small")


def require_number(
    settings: object, *names: str, allowed: str, within: Callable[[Any], bool], optional: bool = False
) -> None:
    """Raise unless the settings of these names are numbers within a range, or None where that is allowed."""
    for name in names:
        value = getattr(settings, name)
        if not (value is None and optional) and not (is_number(value) and within(value)):
            raise ParameterError(name, value, f"{'None, or ' if optional else ''}{allowed}")


def require_share(settings: object, *names: str, optional: bool = False) -> None:
    """Raise unless the settings of these names are in [0, 1), or None where that is allowed."""
    require_number(settings, *names, allowed="a number in [0, 1)", within=lambda x: 0 <= x < 1, optional=optional)


def require_positive(settings: object, *names: str, optional: bool = False) -> None:
    """Raise unless the settings of these names are finite and > 0, or None where that is allowed."""
    within: Callable[[Any], bool] = lambda x: 0 < x < float("inf")  # noqa: E731
    require_number(settings, *names, allowed="finite and > 0", within=within, optional=optional)


def require_not_negative(settings: object, *names: str, optional: bool = False) -> None:
    """Raise unless the settings of these names are finite and >= 0, or None where that is allowed."""
    within: Callable[[Any], bool] = lambda x: 0 <= x < float("inf")  # noqa: E731
    require_number(settings, *names, allowed="finite and >= 0", within=within, optional=optional)


def require_whole(settings: object, *names: str, optional: bool = False) -> None:
    """Raise unless the settings of these names are integers >= 1, or None where that is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is None and optional:
            continue
        if not is_whole(value, 1):
            raise ParameterError(name, value, f"{'None, or ' if optional else ''}an integer >= 1")
        require_integer(name, value)


_LEARNERS = "glassformer.learners"
__getattr__ = renamed(
    __name__,
    {
        "Descent": f"{_LEARNERS}.bayes:MessagePassing",
        "Training": f"{_LEARNERS}.gradient_descent:GradientDescent",
        "MultiPass": f"{_LEARNERS}.sgd:SGD",
        "Regularised": f"{_LEARNERS}.convex:NuclearNorm",
    },
)
