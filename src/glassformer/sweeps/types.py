"""Types of the values in a sweep, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from types import GenericAlias
from typing import Annotated, Any, Literal, get_args, get_type_hints

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from glassformer.core.errors import ParameterError
from glassformer.learners.base import IN_ANY_FORM
from glassformer.models.registry import parameter_types
from glassformer.verbs.quantities import QUANTITIES


def one_of(names: Iterable[str]) -> Any:
    """Return the type of a text that is one of these."""
    return Literal[tuple(names)]


def list_of(kind: object) -> Any:
    """Return the type of a list of values of one type."""
    return GenericAlias(list, (kind,))


Ratio = Annotated[float, Field(ge=0, allow_inf_nan=False)]
RUNS: dict[str, Any] = {
    "d": Annotated[int, Field(ge=2)],
    "instances": Annotated[int, Field(ge=1)],
    "seed": Annotated[int, Field(ge=0)],
    "storage": one_of(IN_ANY_FORM),
}
OPTIONS: dict[str, Any] = {
    "target": Annotated[float, Field(gt=0, allow_inf_nan=False)],
    "quantity": one_of(QUANTITIES),
    "steps": Annotated[int, Field(ge=1)],
    "start": str,
}
# Phrases in error messages of pydantic, and the words of TOML for them.
_WORDS = {"a valid mapping": "a table", "a valid dictionary": "a table", "a valid string": "a text"}


def of_model(name: str) -> dict[str, Any]:
    """Return the types of a model's parameters; a part is given by its name, or as an object.

    Example:
        >>> of_model("attention")["depth"]
        <class 'int'>
    """
    types = parameter_types(name)
    return {name: _PART if kind is Any else kind for name, kind in types.items() if not name.startswith("_")}


def is_integer_type(kind: object) -> bool:
    """Return whether values of a type are integers, and no other numbers.

    Example:
        >>> is_integer_type(int | None), is_integer_type(float)
        (True, False)
    """
    parts = (kind, *get_args(kind))
    return int in parts and float not in parts


def of_settings(kind: type) -> dict[str, Any]:
    """Return the types of the settings in a data class."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if not field.name.startswith("_")}


def check(name: str, value: object, kind: Any) -> None:
    """Raise unless ``value`` is of the type ``kind``; nothing is converted, but whole numbers count as numbers.

    Raises:
        ParameterError: it is not; the message names the wrong entry and the allowed values.

    Example:
        >>> check("alpha", [0.1, "a"], list[float])
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: alpha[1] = 'a' is not allowed: expected a valid number
    """
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    try:
        TypeAdapter(kind, config=config).validate_python(_plain(value))
    except ValidationError as error:
        raise _refusal(name, error) from None


def _refusal(name: str, error: ValidationError) -> ParameterError:
    """Return the error of the first wrong entry; for a union of types, of the type that matched most entries."""
    found: dict[tuple[int, ...], list[Any]] = {}
    for entry in error.errors(include_url=False):
        # The texts in a place name the types that were tried.
        found.setdefault(tuple(part for part in entry["loc"] if isinstance(part, int)), []).append(entry)
    place = max(found, key=len)
    messages = [entry["msg"].removeprefix("Input should be ").removeprefix("Value error, ") for entry in found[place]]
    allowed = " or ".join(dict.fromkeys(_WORDS.get(message, message) for message in messages))
    return ParameterError(name + "".join(f"[{k}]" for k in place), found[place][0]["input"], allowed)


def _plain(value: object) -> Any:
    """Return arrays and their numbers as lists and numbers of Python, as in files."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _part(value: object) -> Any:
    if not (isinstance(value, str) or callable(value)) and type(value).__module__ in ("builtins", "datetime"):
        raise ValueError("a name")
    return value


_PART = Annotated[Any, BeforeValidator(_part)]
