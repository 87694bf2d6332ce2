"""Construction of parts by name. Tables map names to classes, which are imported on demand."""

from __future__ import annotations

import importlib
from typing import Any


def import_string(package: str, place: str) -> Any:
    """Import an object of this package.

    Args:
        package: the subpackage, with dots.
        place: ``"module:name"`` in it.

    Example:
        >>> import_string("channels.scalar", "sign:SignChannel")()
        SignChannel()
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"glassformer.{package}.{module}"), name)


def create_by_name(given: object, table: dict[str, str], package: str) -> Any:
    """Return the object that a table has under a name. Names such as ``laplace:SCALE`` take a number after the colon.

    Raises:
        LookupError: the table does not contain the name, or the number is missing.

    Example:
        >>> create_by_name("laplace:0.5", {"laplace:SCALE": "label_laws:Laplace"}, "channels")
        Laplace(scale=0.5)
    """
    name, separator, number = given.partition(":") if isinstance(given, str) else ("", "", "")
    homes = {known.partition(":")[:2]: place for known, place in table.items()}
    try:
        home, numbers = homes[name, separator], [float(number)] if separator else []
    except (KeyError, ValueError) as error:
        raise LookupError(f"{given!r} is none of {', '.join(table)}") from error
    return import_string(package, home)(*numbers)
