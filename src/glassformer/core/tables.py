"""Tables of what exists: names, and where what they stand for is at home."""

from __future__ import annotations

import importlib
from typing import Any


def import_string(room: str, place: str) -> Any:
    """What a line of a table stands for, imported when it is asked for.

    Args:
        room: of the package, whose things the table lists.
        place: ``"module:name"`` in that room.

    Example:
        >>> import_string("channels.scalar", "sign:SignChannel")()
        SignChannel()
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"glassformer.{room}.{module}"), name)


def by_name(given: object, table: dict[str, str], room: str) -> Any:
    """What a text names: a line of a table whose names end in ``:NUMBER`` where a number follows.

    Raises:
        LookupError: the text names no line, or has no number where one belongs.

    Example:
        >>> by_name("laplace:0.5", {"laplace:SCALE": "label_laws:Laplace"}, "channels")
        Laplace(scale=0.5)
    """
    name, separator, number = given.partition(":") if isinstance(given, str) else ("", "", "")
    homes = {known.partition(":")[:2]: place for known, place in table.items()}
    try:
        home, numbers = homes[name, separator], [float(number)] if separator else []
    except (KeyError, ValueError) as error:
        raise LookupError(f"{given!r} is none of {', '.join(table)}") from error
    return import_string(room, home)(*numbers)
