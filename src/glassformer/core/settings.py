"""When an iteration stops and how it moves, and what settings of all kinds are checked with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from glassformer.core.checks import is_number, is_whole, require_integer
from glassformer.core.errors import ParameterError
from glassformer.core.options import parameter

# Raises unless the setting of a name may have a value; whether None is allowed comes last.
Check = Callable[..., None]


def _number(allowed: str, within: Callable[[Any], bool]) -> Check:
    def check(name: str, value: Any, optional: bool = False) -> None:
        if not (value is None and optional) and not (is_number(value) and within(value)):
            raise ParameterError(name, value, f"{'None, or ' if optional else ''}{allowed}")

    return check


# What a setting may be: each raises unless a value is that, or None where that is allowed.
inside = _number("a number in (0, 1)", lambda x: 0 < x < 1)
share = _number("a number in [0, 1)", lambda x: 0 <= x < 1)
positive = _number("finite and > 0", lambda x: 0 < x < float("inf"))
not_negative = _number("a finite number >= 0", lambda x: 0 <= x < float("inf"))
decay = _number("a number from 0 to 1e6 (descent diverges beyond)", lambda x: 0 <= x <= 1e6)


def whole(name: str, value: Any, optional: bool = False) -> None:
    """Raise unless a value is an integer >= 1, or None where that is allowed."""
    if not (value is None and optional):
        if not is_whole(value, 1):
            raise ParameterError(name, value, f"{'None, or ' if optional else ''}an integer >= 1")
        require_integer(name, value)


def up_to(most: int) -> Check:
    """A check for an integer from 1 to the largest that makes sense."""

    def check(name: str, value: Any, optional: bool = False) -> None:
        if not (value is None and optional) and not (is_whole(value, 1) and value <= most):
            raise ParameterError(name, value, f"{'None, or ' if optional else ''}an integer >= 1, at most {most}")

    return check


def setting(default: Any, text: str, check: Check | None = None, option: str = "") -> Any:
    """A field of a data class that is an option: its text, its check, and the name of the option if that is another.

    Example:
        >>> @dataclass(frozen=True)
        ... class Walk:
        ...     pause: float | None = setting(None, "share of the time at rest", share)
        ...
        ...     def __post_init__(self):
        ...         check_settings(self)
        >>> Walk(pause=2)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: pause = 2 is not allowed: expected None, or a number in [0, 1)
    """
    return parameter(text, default, option=option, check=check)


def checked(default: Any, check: Check) -> Any:
    """A field of a data class that is no option, with its check."""
    return field(default=default, metadata={"check": check})


def check_settings(settings: Any) -> None:
    """Check every field that has a check; None is allowed where it is the default.

    Raises:
        ParameterError: a value is out of range.
    """
    for one in fields(settings):
        check = one.metadata.get("check")
        if check is not None:
            check(one.name, getattr(settings, one.name), one.default is None)


def changed(settings: Any) -> dict[str, Any]:
    """The fields of a data class that are not at their defaults.

    Example:
        >>> from glassformer.learners.sgd import SGD
        >>> changed(SGD(batch=2))
        {'batch': 2}
    """
    values = {one.name: (getattr(settings, one.name), one.default) for one in fields(settings)}
    return {name: value for name, (value, default) in values.items() if value != default}


def steps_allowed(default: int, option: str = "") -> Any:
    """The setting ``max_iterations`` of whatever takes steps."""
    return setting(default, "steps allowed per run", whole, option)


def fixed_damping() -> Any:
    """The setting ``damping`` of what adapts it if it is left open."""
    return setting(None, "weight of the old state in [0, 1), instead of an adaptive one", share)


def gap_accepted() -> Any:
    """The setting ``tolerance`` of what certifies a duality gap."""
    return setting(1e-6, "relative duality gap that is accepted", inside)


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

    tolerance: float = checked(1e-10, inside)
    floor: float = checked(1e-13, inside)
    max_iterations: int = checked(500, whole)
    damping: float | None = checked(None, share)

    def __post_init__(self) -> None:
        check_settings(self)
