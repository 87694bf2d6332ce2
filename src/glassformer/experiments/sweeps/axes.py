"""Values along the axes of a sweep, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.hashing import identity_or_none
from glassformer.core.parsing import parse_grid


def values_of(name: str, values: Any) -> list[Any]:
    """The values of an axis: a list of different ones, or ``"start:stop:count"``."""
    found: list[Any]
    if isinstance(values, str) and ":" in values:
        found = list(parse_grid(name, values))
    elif isinstance(values, list | tuple | np.ndarray):
        found = [value.item() if isinstance(value, np.generic) else value for value in values]
    else:
        raise ParameterError(name, values, "a list of values, or start:stop:count")
    if not found or len({identity_or_none(value) or id(value) for value in found}) < len(found):
        raise ParameterError(name, values, "at least one value, all of them different")
    return found


def plain_values(named: Mapping[str, Any]) -> dict[str, Any]:
    """The values in types that JSON knows; functions by their names."""
    return {name: _plain(value) for name, value in named.items()}


def labels(values: Sequence[Any]) -> list[Any]:
    """The values of an axis in types that JSON knows, where names coincide with a part of the identity behind them.

    Example:
        >>> [len(label) for label in labels([lambda z: z, lambda z: 2 * z])], labels([0.5, abs])
        ([15, 15], [0.5, 'abs'])
    """
    plain = [_plain(value) for value in values]
    return [
        f"{label} {(identity_or_none(value) or str(turn))[:6]}" if plain.count(label) > 1 else label
        for turn, (label, value) in enumerate(zip(plain, values, strict=True))
    ]


def _plain(value: Any) -> Any:
    """Numbers, texts and lists as they are, everything else by its name or as it is written."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return getattr(value, "__name__", None) or str(value).split(" at 0x")[0]
