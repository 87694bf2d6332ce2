"""Public names of a module, imported at first use, so that the command line answers at once."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

from glassformer.core.errors import did_you_mean
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
            is_package = "__path__" in vars(sys.modules[module])
            if is_package and not name.startswith("_") and importlib.util.find_spec(f"{module}.{name}") is not None:
                return importlib.import_module(f"{module}.{name}")
            raise AttributeError(f"module {module!r} has no attribute {name!r}{_hint(name, homes)}", name=name)
        value = getattr(importlib.import_module(f"glassformer.{homes[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return get, names


def _hint(name: str, homes: Mapping[str, str]) -> str:
    """Return what a name that a module does not have is called now, or which public names are like it."""
    if new := new_word(name):
        return f": {name} is now {new}"
    capitals = [f"did you mean {one}?" for one in homes if name.isupper() and name == "".join(filter(str.isupper, one))]
    question = did_you_mean(name, homes) or next(iter(capitals), "")
    return f": {question}" if question else ""
