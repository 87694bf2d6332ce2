"""A short name for all that determines a result: settings, models, arrays and functions, by content."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

from glassformer.core.errors import UnidentifiedError
from glassformer.core.hashing_content import ContentReader
from glassformer.core.hashing_objects import is_own_data
from glassformer.core.provenance import is_own


def identity(*parts: Any) -> str:
    """A key of 24 hexadecimal digits for all that determines a result, the same in every process.

    Data classes count with their class and all their fields, numbers exactly (1 and 1.0 are one), arrays by content.
    Functions count by content as well: instructions, defaults, enclosed values and the globals that they read,
    recursively, and so do partial, bound and compiled ones and callable objects. This package and other installed ones
    are told by their versions.

    Raises:
        UnidentifiedError: something has a state that cannot be seen (a generator, an open file, code that reads files).

    Example:
        >>> identity({"a": 1, "b": [2.5]}) == identity({"b": [2.5], "a": 1.0})
        True
        >>> identity(lambda z, *, k=1: k * z) == identity(lambda z, *, k=2: k * z)
        False
    """
    reader = ContentReader()
    try:
        reader.read(parts)
    except UnidentifiedError:
        raise
    except Exception as error:
        # Whatever a foreign object raises when it is looked at: it is not known.
        raise UnidentifiedError(f"{type(error).__name__} where it is looked at ({error})") from error
    return hashlib.sha256(" ".join(reader.words).encode()).hexdigest()[:24]


def identified(*parts: Any) -> str | None:
    """The :func:`identity`; None where there is none.

    Example:
        >>> identified(n for n in [1]) is None
        True
    """
    try:
        return identity(*parts)
    except UnidentifiedError:
        return None


def code_of(part: Any) -> str:
    """The identity of the functions that a model, channel or other data class holds; empty if it holds none.

    Example:
        >>> code_of(lambda z: z + 1) == code_of(lambda z: z + 1), code_of(lambda z: z + 1) == code_of(lambda z: z + 2)
        (True, False)
    """
    functions = list(_functions(part))
    return identity(*functions) if functions else ""


def _functions(part: Any) -> Iterator[Any]:
    if is_own_data(part):
        for field in dataclasses.fields(part):
            yield from _functions(getattr(part, field.name))
    elif callable(part) and not is_own(getattr(part, "__code__", part)):
        yield part
