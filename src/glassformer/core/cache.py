"""Cache of results: the latest results in memory, slow results also as files in the user's cache folder.

The files hold arrays and JSON with a checksum. Reading them never runs code, as unpickling would.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from glassformer.core.errors import DataError
from glassformer.core.files import make_folder, read_arrays, read_document, write_arrays, write_document
from glassformer.core.status import Status

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table

T = TypeVar("T")

# Environment variable that names the cache folder. One of the words below switches the cache off.
VARIABLE = "GLASSFORMER_CACHE"
_NOWHERE = ("", "0", "off", "none")
# Number of results in memory. A convention: a session uses about ten models.
_IN_MEMORY = 128
# A table is written to a file if it took at least this many seconds. Faster ones are computed again.
_SLOW = 0.3
# Classes of tables that files hold.
_KINDS = ("Table", "Steps")
# JAX stores a compiled program if compiling took at least this many seconds.
_SLOW_TO_COMPILE = 0.2
# File with the sizes and times of compiled programs, beside them.
_PROGRAMS = "programs.json"
# Seconds after which a file of a compiled program is complete (a convention).
_RECENT = 5


def memoize(compute: Callable[[], Any], *parts: object) -> Any:
    """Return ``compute()``, or the stored result if it was computed recently. Do not modify the returned object.

    Args:
        compute: returns the result. It is called every time if the parts have no identity.
        parts: everything that determines the result, except the code of this package.

    Example:
        >>> memoize(lambda: [1], "list", 1) is memoize(lambda: [1], "list", 1)
        True
    """
    from glassformer.core.hashing import identity_or_none

    key = identity_or_none(*parts)
    if key is None:
        return compute()
    results = _in_memory(key)
    if not results:
        results.append(compute())
    return results[0]


@lru_cache(maxsize=_IN_MEMORY)
def _in_memory(key: str) -> list[Any]:
    """Return the list that holds the result of this key. It is empty at first."""
    del key
    return []


def cached_array(compute: Callable[[], Array], *parts: object) -> Array:
    """Return ``compute()``, or read it from a file if any process has computed it before.

    Args:
        compute: returns the array.
        parts: everything that determines it, except the code of this package.
    """
    return _from_file(compute, parts, lambda array: {"array": array}, lambda arrays: arrays["array"])


def cached_table(compute: Callable[[], Table], *parts: object) -> Table:
    """Return the table ``compute()``, from memory or a file if it was computed before. Only slow tables have files.

    Example:
        >>> from glassformer import BilinearSequenceRegression, limits
        >>> model = BilinearSequenceRegression(rho=0.5)
        >>> table = cached_table(lambda: limits(model, [0.3]), "limits", model, [0.3])
        >>> cached_table(lambda: limits(model, [0.3]), "limits", model, [0.3]) is table
        True
    """
    table: Table = memoize(lambda: _from_file(compute, parts, _pack_table, _unpack_table, _SLOW), *parts)
    return table


def _pack_table(table: Table) -> dict[str, Any]:
    status = [status.name for status in table.status]
    kind = type(table).__name__
    if kind not in _KINDS:
        raise TypeError(f"tables of class {kind} have no files")
    header = {
        "kind": kind,
        "model": table.model,
        "parameters": table.parameters,
        "status": status,
        "notes": list(table.notes),
    }
    columns = {f"column {name}": column for name, column in table.columns.items()}
    return {"header": json.dumps(header), **columns}


def _unpack_table(arrays: dict[str, Any]) -> Table:
    from glassformer.core import results

    header = json.loads(str(arrays.pop("header")))
    columns = {name.removeprefix("column "): column for name, column in arrays.items()}
    status = [Status[name] for name in header["status"]]
    kind: type[Table] = getattr(results, header["kind"])
    return kind(header["model"], header["parameters"], columns, status, header["notes"])


def _from_file(
    compute: Callable[[], T],
    parts: tuple[Any, ...],
    pack: Callable[[T], dict[str, Any]],
    unpack: Callable[[dict[str, Any]], T],
    slow: float = 0.0,
) -> T:
    """Return the result from its file, or compute it and write the file if that took ``slow`` seconds."""
    from glassformer.core.hashing import identity_or_none

    folder = cache_folder()
    key = None if folder is None else identity_or_none(parts, _code_of_package(), *_versions())
    if folder is None or key is None:
        return compute()
    path = folder / "tables" / f"{key}.npz"
    # A file that is missing, damaged or from another program is written again.
    with contextlib.suppress(OSError, ValueError, KeyError):
        return unpack(read_arrays(path))
    start = time.perf_counter()
    result = compute()
    if time.perf_counter() - start >= slow:
        # If the disk is full, or JSON cannot store the parameters, the result is returned without a file.
        with contextlib.suppress(DataError, TypeError):
            arrays = pack(result)
            make_folder(path.parent, "cache", parents=True)
            write_arrays(path, arrays, "cache", durable=False)
    return result


@lru_cache(maxsize=1)
def _code_of_package() -> str:
    """Return a hash of all modules of this package, so that each version has its own files."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _versions() -> tuple[str, ...]:
    """Return the versions of the packages that compute the numbers."""
    return tuple(map(version, ("numpy", "scipy", "jax", "jaxlib")))


def cache_folder() -> Path | None:
    """Return the cache folder, or None if the cache is switched off.

    The folder is ``GLASSFORMER_CACHE`` if that variable is set, else ``glassformer`` in ``XDG_CACHE_HOME`` or
    ``~/.cache``. ``GLASSFORMER_CACHE=off`` switches the cache off. A relative ``XDG_CACHE_HOME`` is ignored, as its
    standard requires.

    Example:
        >>> import os
        >>> before = os.environ.get("GLASSFORMER_CACHE")
        >>> os.environ["GLASSFORMER_CACHE"] = "off"
        >>> cache_folder() is None
        True
        >>> _ = os.environ.pop("GLASSFORMER_CACHE") if before is None else os.environ.update(GLASSFORMER_CACHE=before)
    """
    given = os.environ.get(VARIABLE)
    if given is not None and given.strip().lower() in _NOWHERE:
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        if given is not None:
            return Path(given).expanduser()
        return (home if home.is_absolute() else Path.home() / ".cache") / "glassformer"
    except RuntimeError:
        # A user without a home folder has no cache.
        return None


def keep_compiled() -> None:
    """Make JAX store compiled programs in the cache folder, unless its environment sets another or JAX is running."""
    folder = cache_folder()
    if folder is None or "jax" in sys.modules:
        return
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")
        _drop_changed_programs(folder / "compiled")
        atexit.register(_record_programs, folder / "compiled")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(_SLOW_TO_COMPILE))


def _drop_changed_programs(folder: Path) -> None:
    """Remove compiled programs that were changed or renamed since; JAX runs what it finds under a name."""
    recorded, kept = _recorded_stamps(folder), {}
    for name, stamp in _stamps(folder).items():
        if name in recorded:
            if stamp != recorded[name]:
                with contextlib.suppress(OSError):
                    (folder / name).unlink(missing_ok=True)
                    continue
            kept[name] = recorded[name]
    # At once: another process that ends now must not compare a program that is compiled again with the one before.
    if kept != recorded:
        _write_stamps(folder, kept)


def _record_programs(folder: Path) -> None:
    """Record the compiled programs that are there, except recent ones, which another process may still write."""
    recorded, complete = _recorded_stamps(folder), time.time_ns() - _RECENT * 10**9
    programs = {name: recorded.get(name, stamp) for name, stamp in _stamps(folder).items()}
    programs = {name: stamp for name, stamp in programs.items() if name in recorded or stamp[1] < complete}
    if programs != recorded:
        _write_stamps(folder, programs)


def drop_recent_programs() -> None:
    """Remove the compiled programs of the last seconds: processes that were killed may have written a part of them.

    JAX would keep such a file, and compile the program again in every process.
    """
    folder, now = cache_folder(), time.time_ns()
    # Programs in a folder that the user has chosen are the user's.
    if folder is None or os.environ.get("JAX_COMPILATION_CACHE_DIR") != str(folder / "compiled"):
        return
    for name, stamp in _stamps(folder / "compiled").items():
        if stamp[1] >= now - _RECENT * 10**9:
            with contextlib.suppress(OSError):
                (folder / "compiled" / name).unlink()


def _recorded_stamps(folder: Path) -> dict[str, list[int]]:
    """Return size and time of the compiled programs that processes before this one have recorded, by name."""
    # Without a list, or with a damaged one, programs are taken as they are.
    with contextlib.suppress(OSError, ValueError, KeyError):
        programs: dict[str, list[int]] = read_document(folder / _PROGRAMS)["programs"]
        return programs
    return {}


def _write_stamps(folder: Path, programs: dict[str, list[int]]) -> None:
    # A folder that cannot be written to records nothing.
    with contextlib.suppress(DataError):
        write_document(folder / _PROGRAMS, {"programs": programs}, "cache")


def _stamps(folder: Path) -> dict[str, list[int]]:
    """Return size and time of all compiled programs, which JAX never writes twice, by the names of their files."""
    found = {}
    for path in folder.glob("*-cache"):
        # Another process may have removed it.
        with contextlib.suppress(OSError):
            stat = path.stat()
            found[path.name] = [stat.st_size, stat.st_mtime_ns]
    return found
