"""Tables that take long, kept between processes in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.cache_folder import cache_folder
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.core.files import made, read_regular, replaced, sealed, unsealed
from glassformer.core.hashing import identified

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
    with contextlib.suppress(OSError, ValueError):
        found = io.BytesIO(unsealed(path.name, read_regular(path)))
        return np.asarray(np.load(found, allow_pickle=False), dtype=float)
    table = compute()
    content = io.BytesIO()
    np.save(content, table, allow_pickle=False)
    # What cannot be kept is there all the same.
    with contextlib.suppress(DataError):
        made(path.parent, "cache")
        with replaced(path, "cache", durable=False) as part:
            part.write_bytes(sealed(path.name, content.getvalue()))
    return table


@lru_cache(maxsize=8)
def code_of_rooms(*rooms: str) -> str:
    """Content of the modules of these rooms of the package, which tables are computed by."""
    found = hashlib.sha256()
    for room in rooms:
        for path in sorted((_PACKAGE / room).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()
