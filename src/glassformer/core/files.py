"""Files that are either whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from glassformer.core.errors import DataError


@contextlib.contextmanager
def replaced(path: Path, mode: str, what: str, durable: bool = True) -> Iterator[IO[Any]]:
    """A file that takes the place of ``path`` once it is complete, so that no reader ever sees a part of it.

    Args:
        path: the file.
        mode: ``"w"`` or ``"wb"``.
        what: how errors name it.
        durable: wait until it is on the disk, against a machine that loses power; a process that is killed needs no
            such care.

    Raises:
        DataError: it cannot be written, for want of space or of permission; what was there stays.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "file"
        >>> with replaced(path, "w", "file") as file:
        ...     _ = file.write("whole")
        >>> path.read_text()
        'whole'
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open(mode) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise unwritable(path, what, error) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def made(folder: Path, what: str) -> Path:
    """The folder, made if needed.

    Raises:
        DataError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, what, error) from error
    return folder


def unwritable(path: Path, what: str, error: OSError) -> DataError:
    """The error for a place that cannot be written to."""
    return DataError(what, str(path), "a place that can be written to", f"make room, or choose another ({error})")


def require_place(name: str, path: Path, make: bool = False) -> None:
    """Raise unless the file ``path`` can be written; ``make`` its folder if needed.

    Raises:
        DataError: it cannot, and why.

    Example:
        >>> require_place("csv", Path("/"))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: csv = '/' is not allowed: expected a file, not a folder; name a file in it
    """
    if path.is_dir():
        raise DataError(name, str(path), "a file, not a folder", "name a file in it")
    if make:
        made(path.parent, name)
    if not path.parent.is_dir():
        raise DataError(name, str(path), "a file in a folder that is there", f"make the folder {path.parent} first")
    try:
        # What is there may be a pipe, which is written to once.
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"no permission to write to {path}")
        if not path.exists():
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise unwritable(path, name, error) from error
