"""Parsing of numbers in command lines and files. Errors name the option."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from glassformer.core.errors import ParameterError
from glassformer.core.resources import require_resources

T = TypeVar("T")

# Smallest memory of a grid value in bytes, in tables of closed forms (measured), and the largest grid.
_BYTES, _MOST = 1000, 1_000_000


def _parse(convert: Callable[[str], T], name: str, text: str, allowed: str) -> T:
    try:
        return convert(text)
    except ValueError:
        raise ParameterError(name, text, allowed) from None


def parse_number(name: str, text: str) -> float:
    """Return the number in a text.

    Raises:
        ParameterError: the text is not a number.

    Example:
        >>> parse_number("token_correlation", "0.5")
        0.5
    """
    return _parse(float, name, text, "a number")


def parse_grid(name: str, text: str) -> list[float]:
    """Return the numbers in ``"0.3"``, ``"0.1,0.2"`` or ``"start:stop:count"``, both ends included.

    Raises:
        ParameterError: the text has none of these forms, or there are too many numbers.

    Example:
        >>> parse_grid("alpha", "0.2:0.8:4")
        [0.2, 0.4, 0.6, 0.8]
    """
    allowed = f"a number, a comma list or start:stop:count with count >= 1, at most {_MOST}"
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        first, last, number = text.split(":")
        start, stop, count = float(first), float(last), int(number)
    except ValueError:
        raise ParameterError(name, text, allowed) from None
    if not 1 <= count <= _MOST or not (math.isfinite(start) and math.isfinite(stop) and math.isfinite(stop - start)):
        raise ParameterError(name, text, allowed)
    require_resources(name, text, _BYTES * float(count), "give fewer values", what="values")
    import numpy as np

    # Rounded to fifteen digits: otherwise 0.2:0.8:4 contains 0.6000000000000001. The ends are not rounded.
    inner = [float(f"{value:.15g}") for value in np.linspace(start, stop, count)[1:-1]]
    return [start, *inner, stop][:count]


def parse_integers(name: str, text: str) -> list[int]:
    """Return the integers in ``"2"`` or ``"1,2"``.

    Raises:
        ParameterError: the text has neither of these forms.

    Example:
        >>> parse_integers("rank", "2,1")
        [2, 1]
    """
    allowed = "a whole number, or a comma list of them"
    return _parse(lambda text: [int(part) for part in text.split(",")], name, text, allowed)


def parse_strength(name: str, text: str) -> float | None:
    """Return the strength in a text. Return None for the best strength.

    Raises:
        ParameterError: the text is neither a number nor "best".

    Example:
        >>> parse_strength("strength", "0.1"), parse_strength("strength", "best")
        (0.1, None)
    """
    return None if text == "best" else _parse(float, name, text, "a number >= 0, or best")


def parse_batch(name: str, text: str) -> int | float:
    """Return a whole number of samples, or with a decimal point a share of them.

    Raises:
        ParameterError: the text is neither.

    Example:
        >>> parse_batch("batch", "200"), parse_batch("batch", "0.3")
        (200, 0.3)
    """
    try:
        return int(text)
    except ValueError:
        return parse_number(name, text)


def parse_text(name: str, given: str) -> str:
    """Return the text unchanged, for fields of any type.

    Example:
        >>> parse_text("prior", "rademacher")
        'rademacher'
    """
    del name
    return given
