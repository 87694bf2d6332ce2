"""Tables that take long, kept between processes in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.cache_folder import cache_folder
from glassformer.core.errors import DataError
from glassformer.core.files import made, replaced
from glassformer.core.fingerprint import identified
from glassformer.core.integral import Array

_PACKAGE = Path(__file__).parents[1]


def kept(compute: Callable[[], Array], *parts: Any) -> Array:
    """A table that is computed once, for all processes.

    Args:
        compute: returns the table.
        parts: all that determines it beside the code of this package, which counts by content.
    """
    folder, key = cache_folder(), identified(parts, code_of_rooms("core", "models"), np.__version__)
    if folder is None or key is None:
        return compute()
    path = folder / "tables" / f"{key}.npy"
    with contextlib.suppress(OSError, ValueError, EOFError):
        return np.asarray(np.load(path, allow_pickle=False), dtype=float)
    table = compute()
    # What cannot be kept is there all the same.
    with contextlib.suppress(DataError):
        made(path.parent, "cache")
        with replaced(path, "wb", "cache", durable=False) as file:
            np.save(file, table, allow_pickle=False)
    return table


@lru_cache(maxsize=8)
def code_of_rooms(*rooms: str) -> str:
    """Content of the modules of these rooms of the package, which tables are computed by."""
    found = hashlib.sha256()
    for room in rooms:
        for path in sorted((_PACKAGE / room).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()
