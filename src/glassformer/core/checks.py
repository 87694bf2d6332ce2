"""Whether an argument is what it is taken for; if not, an error names it."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array

# Whole numbers up to this are exact in double precision.
_LARGEST = 2**53


def is_number(value: object) -> bool:
    """True for real numbers that double precision can hold, not for truth values.

    Example:
        >>> is_number(1), is_number(True), is_number("1"), is_number(10**400)
        (True, False, False, False)
    """
    if isinstance(value, int) and value.bit_length() > 1000:
        return False
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object, least: int) -> bool:
    """True for integers from ``least`` on, of any length, not for truth values."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def require_integer(name: str, value: object, low: int = 1) -> None:
    """Raise unless ``value`` is a whole number, ``low`` at least; truth values are none.

    Example:
        >>> require_integer("tokens", 2.5)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: tokens = 2.5 is not allowed: expected an integer >= 1
    """
    if not is_whole(value, low):
        raise ParameterError(name, value, f"an integer >= {low}")
    if value > _LARGEST:  # type: ignore[operator]
        raise ParameterError(name, value, f"an integer from {low} to {_LARGEST}")


def require_name(name: str, value: object, names: Iterable[str]) -> None:
    """Raise unless ``value`` is one of the names.

    Example:
        >>> require_name("output", 3, ["attention", "sequence"])
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: output = 3 is not allowed: expected one of attention, sequence
    """
    known = list(names)
    if not isinstance(value, str) or value not in known:
        raise ParameterError(name, value, f"one of {', '.join(known)}")


def real_numbers(name: str, value: Any) -> Array:
    """``value`` as an array of finite numbers, with one axis at least.

    Raises:
        ParameterError: it is, or holds, something else.

    Example:
        >>> real_numbers("skip", [1, 0.5])
        array([1. , 0.5])
    """
    numbers = as_numbers(value)
    if numbers is None or not np.all(np.isfinite(numbers)):
        raise ParameterError(name, value, "finite numbers")
    return numbers


def as_numbers(value: Any) -> Array | None:
    """``value`` as an array of numbers, with one axis at least; None if it is, or holds, something else."""
    try:
        found = np.asarray(value)
        return np.atleast_1d(found.astype(float)) if found.dtype.kind in "iuf" else None
    except (TypeError, ValueError):
        return None
