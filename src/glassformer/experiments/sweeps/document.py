"""Sweeps written in TOML, and which files beside them may run code."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.core.errors import ParameterError
from glassformer.experiments.sweeps.types import check

# Fields of a sweep, and the tables they are written in.
_TABLES = {"parameters": "parameters", "grid": "grid", "simulation": "simulate", "settings": "settings"}
# Bytes of a file: more than any grid that fits the memory takes.
_LARGEST = 2**24
_GENERAL = ("model", "compute", "learner")


def read(path: Path) -> dict[str, Any]:
    """What a file in TOML holds.

    Raises:
        ParameterError: it cannot be read, or is something else.
    """
    try:
        with path.open("rb") as file:
            # A pipe is as good as a file, and a device may have no end.
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST} bytes")
        return tomllib.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise ParameterError("sweep", path.name, "a file in TOML (it is nested too deeply)") from None
    except (OSError, ValueError) as error:
        raise ParameterError("sweep", path.name, f"a file in TOML ({error})") from None


def arguments_of(document: dict[str, Any], folder: Path, links: Sequence[str | Path]) -> dict[str, Any]:
    """Arguments of :class:`~.plan.Sweep` that a document gives, which names files relative to its folder.

    Raises:
        ParameterError: an unknown or missing name, or a file whose code its reader does not trust.
    """
    for name in document:
        if name not in ("sweep", *_TABLES.values()):
            raise ParameterError(name, document[name], "the tables sweep, parameters, grid, simulate and settings")
        check(name, document[name], dict[str, Any])
    general = document.get("sweep", {})
    for name in ("model", "compute"):
        if name not in general:
            raise ParameterError(name, None, "a value in the table [sweep]")
    for name, value in general.items():
        if name not in _GENERAL:
            raise ParameterError(name, value, "model, compute and learner in the table [sweep]")
    tables = {key: document.get(name, {}) for key, name in _TABLES.items()}
    _require_trust(tables, folder, links)
    return {**general, **tables, "folder": str(folder.resolve())}


def _require_trust(tables: dict[str, dict[str, Any]], folder: Path, links: Sequence[str | Path]) -> None:
    """Raise unless the files that a sweep names are those that its reader names, whose code is run."""
    trusted, named = {Path(link).resolve() for link in links}, set()
    entries = [entry for table in ("parameters", "grid", "settings") for entry in tables[table].items()]
    for name, text in (found for entry in entries for found in _texts(*entry)):
        file = folder / text.rpartition(":")[0]
        if file.is_file() and file.resolve() not in trusted:
            raise ParameterError(
                name, text, "a file that you name as well, since its code is run", f"add --link {file}"
            )
        named.add(file.resolve())
    for link in links:
        if Path(link).resolve() not in named:
            raise ParameterError("link", str(link), "a file that the sweep names", "leave it out")


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """All texts in a value, those in lists included, with the name of the entry."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(name, item)
