"""Where code comes from: installed packages are told by their versions, what a user wrote by its content."""

from __future__ import annotations

import functools
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_FROZEN = "<frozen "
_PATHS = {f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_INSTALLED = (f"{_PACKAGE}/", _FROZEN, *sorted(_PATHS))


def version_of_code(path: str, module: str) -> str:
    """The package that a file of code belongs to, with its version; empty for code of the user.

    Args:
        path: of the file, or what stands for it in code that was typed or generated, which is the user's.
        module: name of the module.

    Example:
        >>> import numpy as np
        >>> version_of_code(np.__file__, "numpy") == f"numpy {np.__version__}", version_of_code("links.py", "links")
        (True, '')
    """
    installed = path.startswith(_INSTALLED) or "/site-packages/" in path or "/dist-packages/" in path
    return version(module) if installed else ""


def version_of_module(module: str) -> str:
    """The package that a module belongs to, with its version; empty for a module of the user, or one not imported.

    Example:
        >>> version_of_module("glassformer.core.errors").partition(" ")[0], version_of_module("__main__x")
        ('glassformer', '')
    """
    if module in sys.builtin_module_names:
        return version(module)
    # A part of a compiled module has no file of its own.
    files = (getattr(sys.modules.get(name), "__file__", None) for name in (module, module.partition(".")[0]))
    return version_of_code(next(filter(None, files), ""), module)


def is_own(part: Any) -> bool:
    """Whether a class, an object or the code of a function is of this package."""
    if isinstance(part, CodeType):
        return part.co_filename.startswith(f"{_PACKAGE}/")
    return str(getattr(part, "__module__", "")).partition(".")[0] == "glassformer"


@functools.lru_cache(maxsize=1024)
def version(module: str) -> str:
    """The package that an installed module belongs to, with its version."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return f"python {sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}"
    found = getattr(sys.modules.get(top), "__version__", None)
    if found is None:
        try:
            found = metadata.version(top)
        except metadata.PackageNotFoundError:
            found = "installed"
    return f"{top} {found}"
