"""Checks of arguments before anything is computed. Errors name the argument, its value and the allowed values."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.frozen import set_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Largest integer up to which all integers are exact in double precision.
_LARGEST = 2**53


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number within the range of double precision. Booleans are not numbers.

    Arrays of NumPy and JAX without axes are numbers.

    Example:
        >>> is_number(1), is_number(np.array(1.0)), is_number(True), is_number("1"), is_number(10**400)
        (True, True, False, False, False)
    """
    if isinstance(value, int) and value.bit_length() > 1000:
        return False
    return _holds_number(value, "iuf") or _is_real(value)


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Return whether a value is an integer >= ``least``, of any size. Booleans are not integers."""
    whole = _holds_number(value, "iu") or (isinstance(value, int | np.integer) and not isinstance(value, bool))
    return whole and bool(value >= least)  # type: ignore[operator]


def unwrap_numbers(part: DataclassInstance) -> None:
    """Replace arrays without axes by their numbers, in the fields of a frozen dataclass.

    Raises:
        ParameterError: a field for numbers has a value of another type.

    Example:
        >>> from glassformer.core.settings import Iteration
        >>> Iteration(tolerance=np.array(1e-6)).tolerance
        1e-06
        >>> Iteration(tolerance="1e-6")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: tolerance = '1e-6' is not allowed: expected a number, not a value of \
type str
    """
    for one in fields(part):
        value, kinds = getattr(part, one.name), set(str(one.type).split(" | "))
        if _holds_number(value, "iuf") and not isinstance(value, np.generic):
            set_fields(part, **{one.name: value.item()})
        elif "float" in kinds <= {"float", "int", "None"} and not (value is None or _is_real(value)):
            raise ParameterError(one.name, value, f"a number, not a value of type {type(value).__name__}")


def _holds_number(value: object, kinds: str) -> bool:
    """Return whether a value is an array without axes, or a number of NumPy, of one of these kinds of data."""
    return getattr(value, "ndim", None) == 0 and getattr(getattr(value, "dtype", None), "kind", " ") in kinds


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def require_integer(name: str, value: object, low: int = 1) -> None:
    """Raise unless ``value`` is an integer >= ``low``. Booleans are not integers.

    Example:
        >>> require_integer("tokens", 2.5)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: tokens = 2.5 is not allowed: expected an integer >= 1
    """
    if not is_whole(value, low):
        raise ParameterError(name, value, f"an integer >= {low}")
    if int(value) > _LARGEST:
        raise ParameterError(name, value, f"an integer from {low} to {_LARGEST}")


def require_name(name: str, value: object, names: Iterable[str]) -> None:
    """Raise unless ``value`` is one of the allowed names.

    Example:
        >>> require_name("output", 3, ["attention", "sequence"])
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: output = 3 is not allowed: expected one of attention, sequence
    """
    known = list(names)
    if not isinstance(value, str) or value not in known:
        raise ParameterError(name, value, f"one of {', '.join(known)}")


def real_numbers(name: str, value: object) -> Array:
    """Return ``value`` as an array of finite numbers with at least one axis.

    Raises:
        ParameterError: ``value`` is not an array of finite numbers.

    Example:
        >>> real_numbers("skip", [1, 0.5])
        array([1. , 0.5])
    """
    numbers = as_numbers(value)
    if numbers is None or not np.all(np.isfinite(numbers)):
        raise ParameterError(name, value, "finite numbers")
    return numbers


def as_numbers(value: object) -> Array | None:
    """Return ``value`` as an array of numbers with at least one axis. Return None if it cannot be read as numbers."""
    if np.ma.is_masked(value):
        return None
    try:
        found = np.asarray(value)
        return np.atleast_1d(found.astype(float)) if found.dtype.kind in "iuf" else None
    except (TypeError, ValueError):
        return None


# A type that an annotation allows: its name in messages, and a test whether a value has that type.
_Kind = tuple[str, Callable[[Any], bool]]


def require_arguments(function: Callable[..., Any], given: dict[str, Any], but: Collection[str] = ()) -> None:
    """Raise unless every argument of a public function has the type of its annotation. Ranges are not checked.

    Args:
        function: the function whose first statement calls this. Its annotations are strings.
        given: its arguments by name, ``locals()``.
        but: names of the arguments that the function checks itself.

    Raises:
        ParameterError: an argument has a type that is not allowed.

    Example:
        >>> def draw(count: int, seed: int = 0, share: float | None = None) -> None:
        ...     require_arguments(draw, locals())
        >>> draw(3)
        >>> draw(3, share="half")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: share = 'half' is not allowed: expected None, or a number
    """
    for name, value in given.items():
        kinds = [] if name in but else kinds_of(function, name)
        if kinds and not any(fits(value) for _, fits in kinds):
            raise ParameterError(name, value, ", or ".join(text for text, _ in kinds))


def kinds_of(function: Callable[..., Any], name: str) -> list[_Kind]:
    """Return the types that the annotation of an argument allows, None first. The list is empty if all are allowed."""
    annotation = function.__annotations__.get(name, "Any")
    parts = sorted(annotation.split(" | "), key=lambda part: part != "None")
    if "Any" in parts:
        return []
    return [_SEED if name == "seed" and part == "int" else _KINDS.get(part) or _class(function, part) for part in parts]


def _class(function: Callable[..., Any], name: str) -> _Kind:
    if name.startswith("Callable"):
        return "a function", callable
    if name.startswith("Sequence"):
        return "a list", lambda value: isinstance(value, Sequence) and not isinstance(value, str)
    if name.startswith("tuple"):
        return "a tuple", lambda value: isinstance(value, tuple)
    # A class that a module imports only for annotations is found among the public names of the package.
    kind: type = vars(sys.modules[function.__module__]).get(name) or getattr(sys.modules["glassformer"], name)
    example = _EXAMPLES.get(name, f"{name}()")
    return f"an object of class {name}, for instance {example}", lambda value: isinstance(value, kind)


def _are_numbers(value: object) -> bool:
    if np.ma.is_masked(value):
        return False
    try:
        found = np.asarray(value)
        return found.dtype.kind in "biuf" or (found.dtype.kind == "O" and found.astype(float) is not None)
    except (TypeError, ValueError, OverflowError):
        return False


_SEED: _Kind = ("an integer >= 0", lambda value: is_whole(value, 0))
_KINDS: dict[str, _Kind] = {
    "None": ("None", lambda value: value is None),
    "float": ("a number", is_number),
    # A float passes this check: the function itself then states the range of integers in its message.
    "int": ("an integer", lambda value: isinstance(value, Real) or is_whole(value, 0)),
    "bool": ("True or False", lambda value: isinstance(value, bool | np.bool_)),
    "str": ("a text", lambda value: isinstance(value, str)),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike)),
    "Array": ("numbers", _are_numbers),
    "ArrayLike": ("numbers", _are_numbers),
}
_EXAMPLES = {
    "Design": "DenseDesign(inputs)",
    "DenseDesign": "DenseDesign(inputs)",
    "StoredDesign": "DenseDesign(inputs)",
    "Learner": "MessagePassing()",
    "Penalty": "ElasticNet(1.0, 0.5)",
    "Model": "BilinearSequenceRegression(rho=0.5)",
    "Pace": "Pace(1.0, 1, 0.0)",
    "Start": "Start(overlap, power)",
    "Grid": "Sweep('bsr', {'rho': [0.5], 'alpha': [0.1]})",
}
