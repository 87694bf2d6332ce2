"""Tables of what exists: names, and where what they stand for is at home."""

from __future__ import annotations

import importlib
from typing import Any


def at_home(room: str, place: str) -> Any:
    """What a line of a table stands for, imported when it is asked for.

    Args:
        room: of the package, whose things the table lists.
        place: ``"module:name"`` in that room.

    Example:
        >>> at_home("models.channels", "sign:SignChannel")()
        SignChannel()
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"glassformer.{room}.{module}"), name)
