"""Atomic writing of files, and files with a checksum that detects damage.

A new file is written in a temporary folder next to the old one and replaces it when it is complete. Symbolic links are
not followed, because another user may have placed them.
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
    """Yield the path of a temporary file, which replaces ``path`` at the end. Readers never see an incomplete file.

    A symbolic link is replaced, not followed. The new file has the permissions of the old one. A pipe or a device
    (``/dev/stdout``) is written to directly.

    Args:
        path: the file.
        what: name of the file in error messages.
        durable: whether to wait until the file is on the disk, so that it survives a power failure.

    Raises:
        DataError: the file cannot be written (no space, no permission). The old file stays.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "file"
        >>> with replace_file(path, "file") as part:
        ...     _ = part.write_text("whole")
        >>> path.read_text()
        'whole'
    """
    if _is_stream(path):
        try:
            yield path
        except BrokenPipeError:
            # The reader needs no more.
            raise
        except OSError as error:
            raise _unwritable(path, what, error) from error
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
    """Return whether a path is a pipe or a device, or a system name of one."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):
        place = path.parent.resolve()
        return place == Path("/dev") or place.is_relative_to("/proc")
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_lock_file(path: Path, what: str) -> IO[bytes]:
    """Open a file for locking. It is created if it is missing, and never truncated. Symbolic links are not followed.

    Raises:
        DataError: the file cannot be opened.
    """
    if path.is_symlink():
        raise DataError(what, str(path), "a file, not a symbolic link", "remove the link")
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "rb")
    except OSError as error:
        raise _unwritable(path, what, error) from error


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file. Pipes and devices are refused, since they may never end.

    Raises:
        OSError: the file does not exist, cannot be read, or is not a regular file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is not a regular file")
    return path.read_bytes()


def write_arrays(path: Path, arrays: Mapping[str, Any], what: str, durable: bool = True) -> None:
    """Write named arrays as a NumPy archive followed by a checksum. Other programs skip the checksum.

    Raises:
        DataError: the file cannot be written.
    """
    import numpy as np  # imported here to keep the start of the command line fast

    content = io.BytesIO()
    np.savez(content, **arrays)
    with replace_file(path, what, durable) as part:
        part.write_bytes(_with_checksum(path, content.getvalue(), _ARCHIVE))


def read_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays that :func:`write_arrays` wrote. Objects are never unpickled.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file was changed, renamed, is incomplete or was written by another program.
    """
    import numpy as np

    content = io.BytesIO(_without_checksum(path, _ARCHIVE))
    with np.load(content, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def write_document(path: Path, document: Mapping[str, Any], what: str, default: _Encoder | None = None) -> None:
    """Write a JSON document with its checksum as the last entry.

    Args:
        path: the file.
        document: a dictionary with at least one entry.
        what: name of the file in error messages.
        default: converts values of other types to JSON types.

    Raises:
        DataError: the file cannot be written.
    """
    text = json.dumps(document, indent=1, default=default).removesuffix("\n}")
    with replace_file(path, what) as part:
        part.write_bytes(_with_checksum(path, text.encode(), _DOCUMENT))


def read_document(path: Path) -> dict[str, Any]:
    """Return the document that :func:`write_document` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file was changed, renamed, is incomplete or was written by another program.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "a.json"
        >>> write_document(path, {"x": [1.5]}, "file")
        >>> read_document(path)
        {'x': [1.5]}
    """
    document: dict[str, Any] = json.loads(_without_checksum(path, _DOCUMENT) + b"\n}")
    return document


# Text before and after the checksum of a file. Programs that read archives ignore bytes after the end.
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
        raise ValueError(f"{path.name} was changed, is incomplete or was written by another program")
    return content


def user_path(given: str | Path, folder: Path | None = None) -> Path:
    """Return the path that a user gave: ``~`` is the home folder, and a relative path begins in ``folder``.

    Example:
        >>> user_path("~/x.png") == Path.home() / "x.png", user_path("x.py", Path("own")).as_posix()
        (True, 'own/x.py')
    """
    # In contrast to Path.expanduser, a home folder of an unknown user stays as it is: its folder is then missing.
    return (folder or Path()) / os.path.expanduser(given)


def make_folder(folder: Path, what: str, parents: bool = False) -> Path:
    """Return the folder. Create it if it is missing, and with ``parents`` the folders above it.

    Raises:
        DataError: the folder cannot be created. The message names the missing one above it.
    """
    try:
        # A name that begins with a tilde here is that of an unknown user, see user_path.
        folder.mkdir(parents=parents and not str(folder).startswith("~"), exist_ok=True)
    except FileNotFoundError:
        raise DataError(
            what, str(folder), "a folder in an existing folder", f"create the folder {folder.parent} first"
        ) from None
    except OSError as error:
        raise _unwritable(folder, what, error) from error
    return folder


def _unwritable(path: Path, what: str, error: OSError) -> DataError:
    return DataError(what, str(path), "a writable place", f"free some space or choose another place ({error})")


def require_writable_file(name: str, path: Path) -> None:
    """Raise unless the file ``path`` can be written.

    Raises:
        DataError: the file cannot be written. The message gives the reason.

    Example:
        >>> require_writable_file("csv", Path("/"))
        Traceback (most recent call last):
        ...
        glassformer.core.errors.DataError: csv = '/' is not allowed: expected a file, not a folder; name a file in it
    """
    if path.is_dir():
        raise DataError(name, str(path), "a file, not a folder", "name a file in it")
    if not path.parent.is_dir():
        raise DataError(name, str(path), "a file in an existing folder", f"create the folder {path.parent} first")
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"no permission to write to {path}")
        # A pipe or a device is written to directly. Any other file is replaced by a new one.
        if not _is_stream(path):
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise _unwritable(path, name, error) from error
