"""Tables kept for all pages: the latest in memory, and on disk those that took long."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.cache_folder import cache_folder
from glassformer.core.disk_cache import code_of_rooms
from glassformer.core.errors import DataError
from glassformer.core.files import made, read_regular, replaced, sealed_document, unsealed_document
from glassformer.core.hashing import identified
from glassformer.core.memoize import memoize
from glassformer.core.results import Table
from glassformer.core.solution import Status

# What a table may depend on.
_ROOMS = ("core", "models", "theory", "learners", "experiments")
# Seconds from which on a table is worth a file: a page answers sooner.
_LONG = 0.3


def shelved_table(compute: Callable[[], Table], *parts: Any) -> Table:
    """A table that is computed once while it is among the latest, and kept on disk as well if it took long.

    Example:
        >>> from glassformer import BilinearSequenceRegression, limits
        >>> model = BilinearSequenceRegression(rho=0.5)
        >>> table = shelved_table(lambda: limits(model, [0.3]), "limits", model, [0.3])
        >>> shelved_table(lambda: limits(model, [0.3]), "limits", model, [0.3]) is table
        True
    """
    found: Table = memoize(lambda: _on_disk(compute, parts), *parts)
    return found


def _on_disk(compute: Callable[[], Table], parts: tuple[Any, ...]) -> Table:
    folder, key = cache_folder(), identified(parts, code_of_rooms(*_ROOMS), np.__version__)
    if folder is None or key is None:
        return compute()
    path = folder / "explore" / f"{key}.json"
    with contextlib.suppress(OSError, ValueError, KeyError):
        return _read(path)
    start = time.perf_counter()
    table = compute()
    if time.perf_counter() - start > _LONG:
        # What cannot be kept is there all the same.
        with contextlib.suppress(DataError, TypeError):
            text = _written(path.name, table)
            made(path.parent, "cache")
            with replaced(path, "cache", durable=False) as part:
                part.write_text(text)
    return table


def _written(name: str, table: Table) -> str:
    """The numbers digit by digit, infinite ones included, which JSON as other programs write it has no word for."""
    columns = {name: np.asarray(column).tolist() for name, column in table.columns.items()}
    said = {"model": table.model, "parameters": table.parameters, "columns": columns, "notes": list(table.notes)}
    return json.dumps(sealed_document(name, {**said, "status": [status.name for status in table.status]}))


def _read(path: Path) -> Table:
    said = unsealed_document(path.name, read_regular(path))
    columns = {name: np.array(column) for name, column in said["columns"].items()}
    status = [Status[name] for name in said["status"]]
    return Table(said["model"], said["parameters"], columns, status, said["notes"])
