"""Links, losses and training of users: functions that ``FILE.py:FUNCTION`` names."""

from __future__ import annotations

import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.core.errors import ParameterError
from glassformer.core.files import user_path

# Seconds after which a user's file that still runs is mentioned (a convention).
_PATIENCE = 10.0


def function_from(text: str, folder: Path | None = None, blamed: str = "link") -> Callable[..., Any]:
    """Return the function that ``FILE.py:FUNCTION`` names; a class is replaced by an instance without arguments.

    Raises:
        ParameterError: the file does not exist, does not run, or defines no such function.
    """
    function = object_from(text, folder, blamed, "a function")
    if not callable(function):
        place, _, name = text.rpartition(":")
        raise ParameterError(blamed, text, f"a function {name!r} defined in {user_path(place, folder)}")
    return function


def object_from(text: str, folder: Path | None, blamed: str, what: str) -> Any:
    """Return the object that ``FILE.py:NAME`` names; a class is replaced by an instance without arguments.

    Args:
        text: file and name.
        folder: folder that relative file names refer to.
        blamed: parameter named in errors.
        what: kind of the object, in errors.

    Raises:
        ParameterError: the file does not exist, does not run, or defines no object of this name.
    """
    place, _, name = text.rpartition(":")
    path = user_path(place, folder)
    if not place or not path.is_file():
        raise ParameterError(blamed, text, f"FILE.py:{what.split()[-1].upper()} with a file that exists")
    try:
        with _mentioned_if_slow(blamed, path):
            found = runpy.run_path(str(path)).get(name)
        found = found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        # The user's file may raise any error; the message quotes it.
        raise ParameterError(blamed, text, f"a file that runs ({type(error).__name__}: {error})") from error
    if found is None:
        raise ParameterError(blamed, text, f"{what} {name!r} defined in {path}")
    return found


@contextmanager
def _mentioned_if_slow(name: str, path: Path) -> Iterator[None]:
    """Print a line if the block, which runs a file, takes long: nothing else says what the command waits for."""
    text = f"glassformer: {name}: {path} has been running for {_PATIENCE:g} s (Ctrl-C ends it)"
    # In a thread a warning names no line of the user's, and as an error it would only end the thread.
    timer = threading.Timer(_PATIENCE, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
