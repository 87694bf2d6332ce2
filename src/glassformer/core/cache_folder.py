"""The user's cache folder, and compiled programs kept there between processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Names a folder; one of the words below keeps nothing.
VARIABLE = "GLASSFORMER_CACHE"
_NOTHING = ("", "0", "off", "none")
# Programs that took less to compile, in seconds, are compiled again.
_WORTH_KEEPING = 0.2


def cache_folder() -> Path | None:
    """Where things are kept: ``GLASSFORMER_CACHE``, or ``glassformer`` in the user's cache folder; None for nowhere.

    ``GLASSFORMER_CACHE=off`` keeps nothing; the user's cache folder is ``XDG_CACHE_HOME`` or ``~/.cache``. A relative
    ``XDG_CACHE_HOME`` is ignored, as its standard says.

    Example:
        >>> import os
        >>> before = os.environ.get("GLASSFORMER_CACHE")
        >>> os.environ["GLASSFORMER_CACHE"] = "off"
        >>> cache_folder() is None
        True
        >>> _ = os.environ.pop("GLASSFORMER_CACHE") if before is None else os.environ.update(GLASSFORMER_CACHE=before)
    """
    given = os.environ.get(VARIABLE)
    if given is not None and given.strip().lower() in _NOTHING:
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        if given is not None:
            return Path(given).expanduser()
        return (home if home.is_absolute() else Path.home() / ".cache") / "glassformer"
    except RuntimeError:
        # Users without a home keep nothing.
        return None


def keep_compiled() -> None:
    """Have JAX keep compiled programs between processes, unless it is told otherwise or runs already."""
    folder = cache_folder()
    if folder is None or "jax" in sys.modules:
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(_WORTH_KEEPING))
