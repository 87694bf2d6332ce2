"""A short name for everything that determines a result, the code of a user's own functions included."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

_PACKAGE = Path(__file__).parents[1]


def digest(identity: Any) -> str:
    """A key of 24 hexadecimal digits for what JSON can hold, the same in every process.

    Example:
        >>> digest({"a": 1, "b": [2.5]}) == digest({"b": [2.5], "a": 1})
        True
    """
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def code_of(part: Any) -> str:
    """A digest of the functions that a model, channel or other data class holds; empty if it holds none.

    A function counts with its instructions, constants, defaults and enclosed values, and with the plain values and
    functions of its own module that it names. What it imports is taken to stay as it is.

    Example:
        >>> offset = 1.0
        >>> code_of(lambda z: z + 1) == code_of(lambda z: z + 1), code_of(lambda z: z + 1) == code_of(lambda z: z + 2)
        (True, False)
    """
    seen: set[int] = set()
    words = [word for function in _functions(part) for word in _words(function, seen)]
    return digest(words) if words else ""


def _functions(part: Any) -> Iterator[FunctionType]:
    if isinstance(part, functools.partial):
        yield from _functions(part.func)
    elif isinstance(part, FunctionType):
        # Those of the package itself are told by its version.
        if _PACKAGE not in Path(part.__code__.co_filename).parents:
            yield part
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            yield from _functions(getattr(part, field.name))


def _words(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    yield from _code_words(function.__code__)
    enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
    named = [function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__]
    for value in [*(function.__defaults__ or ()), *enclosed, *named]:
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            yield from _words(value, seen)
        elif isinstance(value, np.ndarray):
            yield f"{value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
        elif isinstance(value, bool | int | float | complex | str | bytes | tuple | list):
            yield repr(value)


def _code_words(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join((*code.co_names, *code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_words(constant)
        else:
            yield repr(constant)


def _names(code: CodeType) -> list[str]:
    """Global names that a function or one inside it uses."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return sorted({*code.co_names, *inner})
