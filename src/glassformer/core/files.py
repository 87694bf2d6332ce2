"""Files that are complete or absent, with a checksum that shows damage.

Nothing is written through a symbolic link that somebody else may have planted, nor into an existing file: a new file is
made in a temporary folder beside the old one and replaces it when it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from glassformer.core.errors import DataError

_Encoder = Callable[[Any], Any]


@contextlib.contextmanager
def replace_file(path: Path, what: str, durable: bool = True) -> Iterator[Path]:
    """Give the path of a new file, which replaces ``path`` at the end, so that readers never see a part of it.

    A symbolic link is replaced, not followed, and a file keeps its permissions. A pipe or a device (``/dev/stdout``) is
    written to.

    Args:
        path: the file.
        what: how errors name it.
        durable: whether to wait until the file is on the disk, so that it survives a loss of power.

    Raises:
        DataError: it cannot be written, for lack of space or of permission; the old file stays.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "file"
        >>> with replace_file(path, "file") as part:
        ...     _ = part.write_text("whole")
        >>> path.read_text()
        'whole'
    """
    if _is_stream(path):
        yield path
        return
    names = {"prefix": ".", "suffix": ".part", "dir": str(path.parent)}
    try:
        with tempfile.TemporaryDirectory(**names, ignore_cleanup_errors=True) as folder:
            part = Path(folder) / path.name
            yield part
            if durable:
                with part.open("rb+") as file:
                    os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                before = path.lstat().st_mode
                if stat.S_ISREG(before):
                    part.chmod(stat.S_IMODE(before))
            part.replace(path)
    except OSError as error:
        raise _unwritable(path, what, error) from error


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device, or a name that the system gives to one."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):
        place = path.parent.resolve()
        return place == Path("/dev") or place.is_relative_to("/proc")
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_lock_file(path: Path, what: str) -> IO[bytes]:
    """Open a file to be locked, made if needed, never emptied and never reached through a symbolic link.

    Raises:
        DataError: it cannot be opened.
    """
    if path.is_symlink():
        raise DataError(what, str(path), "a file, not a symbolic link", "remove the link")
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "rb")
    except OSError as error:
        raise _unwritable(path, what, error) from error


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file; pipes and devices, which may have no end, are refused.

    Raises:
        OSError: it does not exist, cannot be read, or is no regular file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is no regular file")
    return path.read_bytes()


def write_arrays(path: Path, arrays: Mapping[str, Any], what: str, durable: bool = True) -> None:
    """Write arrays by name as an archive of NumPy, with a checksum behind it, which other programs skip.

    Raises:
        DataError: it cannot be written.
    """
    import numpy as np  # not at the start of the command line

    content = io.BytesIO()
    np.savez(content, **arrays)
    with replace_file(path, what, durable) as part:
        part.write_bytes(_with_checksum(path, content.getvalue(), _ARCHIVE))


def read_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays that :func:`write_arrays` has written. Objects are never unpickled.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has been changed or cut short, was written under another name or by another program.
    """
    import numpy as np

    content = io.BytesIO(_without_checksum(path, _ARCHIVE))
    with np.load(content, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def write_document(path: Path, document: Mapping[str, Any], what: str, default: _Encoder | None = None) -> None:
    """Write a document in JSON, with its checksum as the last entry.

    Args:
        path: the file.
        document: with at least one entry.
        what: how errors name the file.
        default: makes what JSON knows from values of other types.

    Raises:
        DataError: it cannot be written.
    """
    text = json.dumps(document, indent=1, default=default).removesuffix("\n}")
    with replace_file(path, what) as part:
        part.write_bytes(_with_checksum(path, text.encode(), _DOCUMENT))


def read_document(path: Path) -> dict[str, Any]:
    """Return the document that :func:`write_document` has written.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has been changed or cut short, was written under another name or by another program.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "a.json"
        >>> write_document(path, {"x": [1.5]}, "file")
        >>> read_document(path)
        {'x': [1.5]}
    """
    document: dict[str, Any] = json.loads(_without_checksum(path, _DOCUMENT) + b"\n}")
    return document


# What stands before and behind the checksum of a file. Programs that read archives do not look behind their end.
_ARCHIVE = b"\nsha256 ", b"\n"
_DOCUMENT = b',\n "checksum": "', b'"\n}\n'


def _with_checksum(path: Path, content: bytes, around: tuple[bytes, bytes]) -> bytes:
    """Return the content of a file with a checksum of its content and its name."""
    checksum = hashlib.sha256(path.name.encode() + b"\0" + content).hexdigest()
    return content + around[0] + checksum.encode() + around[1]


def _without_checksum(path: Path, around: tuple[bytes, bytes]) -> bytes:
    found = read_regular(path)
    content = found[: -sum(map(len, around)) - 64]
    if found != _with_checksum(path, content, around):
        raise ValueError(f"{path.name} has been changed or cut short, or is another program's")
    return content


def make_folder(folder: Path, what: str) -> Path:
    """Return the folder, made if needed.

    Raises:
        DataError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, what, error) from error
    return folder


def _unwritable(path: Path, what: str, error: OSError) -> DataError:
    return DataError(what, str(path), "a place that can be written to", f"make room, or choose another ({error})")


def require_writable_file(name: str, path: Path, make: bool = False) -> None:
    """Raise unless the file ``path`` can be written; ``make`` its folder if needed.

    Raises:
        DataError: it cannot be written; the message says why.

    Example:
        >>> require_writable_file("csv", Path("/"))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: csv = '/' is not allowed: expected a file, not a folder; name a file in it
    """
    if path.is_dir():
        raise DataError(name, str(path), "a file, not a folder", "name a file in it")
    if make:
        make_folder(path.parent, name)
    if not path.parent.is_dir():
        raise DataError(name, str(path), "a file in a folder that is there", f"make the folder {path.parent} first")
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"no permission to write to {path}")
        # A pipe or a device stays, anything else is replaced by a new file.
        if not _is_stream(path):
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise _unwritable(path, name, error) from error
