"""Numbers as command lines and files write them."""

from __future__ import annotations

import math

from glassformer.core.errors import ParameterError
from glassformer.core.resources import require_resources

# What a value takes in memory where it is least, in the tables of closed forms.
_BYTES = 1000
# Values that one text may stand for.
_MOST = 1_000_000


def number_from(name: str, text: str) -> float:
    """One number.

    Raises:
        ParameterError: the text is none.

    Example:
        >>> number_from("token_correlation", "0.5")
        0.5
    """
    try:
        return float(text)
    except ValueError:
        raise ParameterError(name, text, "a number") from None


def parse_grid(name: str, text: str) -> list[float]:
    """The numbers in ``"0.3"``, ``"0.1,0.2"`` or ``"start:stop:count"``, both ends included.

    Raises:
        ParameterError: the text is none of these, or stands for too many numbers.

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

    # Points that are round in decimals are written so: without it 0.2:0.8:4 has 0.6000000000000001. Ends stay as given.
    inner = [float(f"{value:.15g}") for value in np.linspace(start, stop, count)[1:-1]]
    return [start, *inner, stop][:count]


def whole_from(name: str, text: str) -> list[int]:
    """The whole numbers in ``"2"`` or ``"1,2"``.

    Raises:
        ParameterError: the text is none of these.

    Example:
        >>> whole_from("rank", "2,1")
        [2, 1]
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(name, text, "a whole number, or a comma list of them") from None
