"""Files that are either whole or absent, and that tell whether they are what was written.

Nothing is ever written through a link that somebody else may have planted, nor into a file that holds something: a new
file is made in a folder of its own, whose name nobody can foresee, beside the old one, and takes its place when it is
complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from glassformer.core.errors import DataError


@contextlib.contextmanager
def replaced(path: Path, what: str, durable: bool = True) -> Iterator[Path]:
    """The path of a new file that takes the place of ``path`` once it is complete.

    No reader ever sees a part of it. A link is replaced, not followed, and the permissions of a file stay. A pipe or a
    device (``/dev/stdout``) is written to.

    Args:
        path: the file.
        what: how errors name it.
        durable: wait until it is on the disk, against a machine that loses power; a process that is killed needs no
            such care.

    Raises:
        DataError: it cannot be written, for want of space or of permission; what was there stays.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "file"
        >>> with replaced(path, "file") as part:
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
        raise unwritable(path, what, error) from error


def _is_stream(path: Path) -> bool:
    """Whether it is a pipe or a device, or a name that the system gives to one."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):
        place = path.parent.resolve()
        return place == Path("/dev") or place.is_relative_to("/proc")
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def opened_for_lock(path: Path, what: str) -> IO[bytes]:
    """A file to be locked, made if needed and never emptied, nor reached through a link.

    Raises:
        DataError: it cannot be opened.
    """
    if path.is_symlink():
        raise DataError(what, str(path), "a file, not a symbolic link", "remove the link")
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "rb")
    except OSError as error:
        raise unwritable(path, what, error) from error


def read_regular(path: Path) -> bytes:
    """The content of a file; pipes and devices, which may have no end, are refused.

    Raises:
        OSError: there is none, it cannot be read, or is something else.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is no regular file")
    return path.read_bytes()


# Ends a file of bytes, before its checksum and a line break. What reads arrays and archives does not look so far.
_SEAL = b"\nsha256 "


def sealed(name: str, content: bytes) -> bytes:
    """The content of a file of this name, with a checksum at its end.

    Example:
        >>> unsealed("a", sealed("a", b"content"))
        b'content'
    """
    return content + _SEAL + _checksum(name, content).encode() + b"\n"


def unsealed(name: str, found: bytes) -> bytes:
    """What :func:`sealed` was given.

    Raises:
        ValueError: it was given something else, or under another name.
    """
    content = found[: -len(_SEAL) - 65]
    if found != sealed(name, content):
        raise ValueError(f"{name} has been changed or cut short, or is another program's")
    return content


def sealed_document(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """A document in types that JSON knows, with its checksum."""
    return {**document, "checksum": _checksum(name, json.dumps(document, sort_keys=True).encode())}


def unsealed_document(name: str, found: bytes) -> dict[str, Any]:
    """The document that :func:`sealed_document` was given, from its text.

    Raises:
        ValueError: it was given something else, or under another name.

    Example:
        >>> text = json.dumps(sealed_document("a", {"x": [1.5]}))
        >>> unsealed_document("a", text.encode())
        {'x': [1.5]}
    """
    try:
        document = json.loads(found)
    except RecursionError as error:
        raise ValueError(f"{name} is nested too deeply") from error
    if isinstance(document, dict):
        checksum = document.pop("checksum", None)
        if checksum == sealed_document(name, document)["checksum"]:
            return document
    raise ValueError(f"{name} has been changed or cut short, or is another program's")


def _checksum(name: str, content: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\0" + content).hexdigest()


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
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"no permission to write to {path}")
        # A pipe or a device stays, anything else is replaced by a new file.
        if not _is_stream(path):
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise unwritable(path, name, error) from error
