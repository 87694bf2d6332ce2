"""Public names of a module, imported at first use, so that the command line answers at once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from glassformer.core.renamed import new_word


def public_names(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a module.

    Args:
        module: its name.
        homes: module of this package in which each public name lives, by the name.

    Example:
        >>> get, names = public_names(__name__, {"Status": "core.status"})
        >>> get("Status").__name__
        'Status'
    """

    def get(name: str) -> Any:
        if name not in homes:
            new = new_word(name)
            text = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(text if new is None else f"{text}: {name} is now {new}")
        value = getattr(importlib.import_module(f"glassformer.{homes[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return get, names
