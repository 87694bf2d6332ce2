"""Settings of iterations and learners, and their checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core.checks import is_number, is_whole, require_integer, unwrap_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.options import parameter

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# A check is called with the name of a setting, its value and whether None is allowed. It raises if it is not allowed.
Check = Callable[..., None]


def _check(allowed: str, fits: Callable[[object], bool], none: str = "None, or ") -> Check:
    """Return a check of a value, from what is allowed in words, whether it fits, and the words for None."""

    def check(name: str, value: object, optional: bool = False) -> None:
        if not (value is None and optional) and not fits(value):
            raise ParameterError(name, value, f"{none if optional else ''}{allowed}")

    return check


def _number(allowed: str, within: Callable[[float], bool]) -> Check:
    return _check(allowed, lambda value: is_number(value) and within(value))


# Checks of settings by their ranges.
open_unit_interval = _number("a number in (0, 1)", lambda x: 0 < x < 1)
unit_interval = _number("a number in [0, 1)", lambda x: 0 <= x < 1)
positive = _number("finite and > 0", lambda x: 0 < x < float("inf"))
non_negative = _number("a finite number >= 0", lambda x: 0 <= x < float("inf"))
decay_rate = _number("a number from 0 to 1e6 (descent diverges beyond)", lambda x: 0 <= x <= 1e6)
boolean = _check("True or False", lambda value: isinstance(value, bool | np.bool_), none="")
power_of_two = _check("a power of two >= 32", lambda value: is_whole(value, 32) and not value & (value - 1), none="")


def positive_integer(name: str, value: object, optional: bool = False) -> None:
    """Raise unless a value is an integer >= 1, or None if that is allowed."""
    _check("an integer >= 1", lambda value: is_whole(value, 1))(name, value, optional)
    if value is not None:
        require_integer(name, value)


def one_of(*names: str) -> Check:
    """Return a check for one of these names."""
    words = f"{', '.join(names[:-1])} or {names[-1]}"
    return _check(words, lambda value: isinstance(value, str) and value in names, none="None, ")


def integer_up_to(most: int, least: int = 1) -> Check:
    """Return a check for an integer from ``least`` to ``most``."""
    return _check(f"an integer >= {least}, at most {most}", lambda value: is_whole(value, least) and value <= most)


def setting(default: object, text: str, check: Check | None = None, option: str = "") -> Any:
    """Return a dataclass field with its meaning and check that is also a command-line option.

    Example:
        >>> @dataclass(frozen=True)
        ... class Walk:
        ...     pause: float | None = setting(None, "share of the time at rest", unit_interval)
        ...
        ...     def __post_init__(self):
        ...         check_settings(self)
        >>> Walk(pause=2)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: pause = 2 is not allowed: expected None, or a number in [0, 1)
    """
    return parameter(text, default, option=option, check=check)


def checked_field(default: object, check: Check) -> Any:
    """Return a dataclass field with a check that is not a command-line option."""
    return field(default=default, metadata={"check": check})


def check_settings(settings: DataclassInstance) -> None:
    """Check all fields that have a check, and replace arrays of one number by it. None is allowed if it is the default.

    Raises:
        ParameterError: a value is out of range, or no number.
    """
    unwrap_numbers(settings)
    for one in fields(settings):
        check = one.metadata.get("check")
        if check is not None:
            check(one.name, getattr(settings, one.name), one.default is None)


def non_default_fields(settings: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults.

    Example:
        >>> from glassformer.learners.sgd import SGD
        >>> non_default_fields(SGD(batch=2))
        {'batch': 2}
    """
    values = {one.name: (getattr(settings, one.name), one.default) for one in fields(settings)}
    return {name: value for name, (value, default) in values.items() if value != default and not name.startswith("_")}


def damping_setting() -> Any:
    """Return the setting ``damping`` of an iteration whose damping is adaptive by default."""
    return setting(None, "weight of the old state in [0, 1) (by default it is adapted)", unit_interval)


@dataclass(frozen=True)
class Iteration:
    """Settings of the search for a fixed point.

    Args:
        tolerance: relative accuracy of the fixed point.
        floor: absolute accuracy. A variance below it counts as zero.
        max_iterations: largest number of evaluations of the map per batch element.
        damping: weight of the old state in [0, 1) for plain damped iteration. None for accelerated iteration.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> Iteration(damping=1.0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: damping = 1.0 is not allowed: expected None, or a number in [0, 1)
    """

    tolerance: float = checked_field(1e-10, open_unit_interval)
    floor: float = checked_field(1e-13, open_unit_interval)
    max_iterations: int = checked_field(500, positive_integer)
    damping: float | None = checked_field(None, unit_interval)

    def __post_init__(self) -> None:
        check_settings(self)
