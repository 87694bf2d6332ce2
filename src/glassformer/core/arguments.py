"""Arguments of public functions, checked against their annotations before anything is computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from numbers import Real
from typing import Any

import numpy as np

from glassformer.core.checks import as_numbers, is_number, is_whole
from glassformer.core.errors import ParameterError

_Kind = tuple[str, Callable[[Any], bool]]


def require_arguments(function: Callable[..., Any], given: dict[str, Any], but: Collection[str] = ()) -> None:
    """Raise unless every argument is of the kind that its annotation names; ranges are for the function to check.

    Args:
        function: in which this is called first; its annotations are texts.
        given: its arguments by name, ``locals()``.
        but: arguments of which the function itself says more.

    Raises:
        ParameterError: an argument is of another kind.

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
    """What the annotation of an argument allows, None first; empty where it allows anything."""
    annotation = function.__annotations__.get(name, "Any")
    parts = sorted(annotation.split(" | "), key=lambda part: part != "None")
    if "Any" in parts:
        return []
    return [_SEED if name == "seed" and part == "int" else _KINDS.get(part) or _class(function, part) for part in parts]


def _class(function: Callable[..., Any], name: str) -> _Kind:
    if name.startswith("Callable"):
        return "a function", callable
    # What a module imports for its annotations alone is a public name of the package.
    kind: type = vars(sys.modules[function.__module__]).get(name) or getattr(sys.modules["glassformer"], name)
    example = _EXAMPLES.get(name, f"{name}()")
    return f"an object of class {name}, for instance {example}", lambda value: isinstance(value, kind)


def _is_number(value: Any) -> bool:
    """Whether it is a number, or an array of NumPy or JAX that holds one."""
    return is_number(value) or (getattr(value, "ndim", None) == 0 and as_numbers(value) is not None)


def _are_numbers(value: Any) -> bool:
    try:
        found = np.asarray(value)
        return found.dtype.kind in "biuf" or (found.dtype.kind == "O" and found.astype(float) is not None)
    except (TypeError, ValueError, OverflowError):
        return False


_SEED: _Kind = ("an integer >= 0", lambda value: is_whole(value, 0))
_KINDS: dict[str, _Kind] = {
    "None": ("None", lambda value: value is None),
    "float": ("a number", _is_number),
    # Functions name the least one that they take, also to who gives a fraction.
    "int": ("an integer", lambda value: isinstance(value, Real)),
    "bool": ("True or False", lambda value: isinstance(value, bool | np.bool_)),
    "str": ("a text", lambda value: isinstance(value, str)),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike)),
    "Array": ("numbers", _are_numbers),
    "ArrayLike": ("numbers", _are_numbers),
}
_EXAMPLES = {
    "Design": "DenseDesign(inputs)",
    "DenseDesign": "DenseDesign(inputs)",
    "Learner": "MessagePassing()",
    "Model": "BilinearSequenceRegression(rho=0.5)",
    "Pace": "Pace(1.0, 1, 0.0)",
    "Start": "Start(overlap, power)",
    "Sweep": "Sweep('bsr', {'rho': [0.5], 'alpha': [0.1]})",
}
