"""A bound on the memory of long processes, because JAX keeps every compiled program."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path

# Number of the option M_ARENA_MAX of mallopt in the C library.
_ARENAS = -8


# Functions that drop cached programs of a module; modules add theirs when they are imported.
_RELEASES: list[Callable[[], None]] = []


def on_release(release: Callable[[], None]) -> None:
    """Register a function that drops cached programs to free memory."""
    _RELEASES.append(release)


def resident_memory() -> float:
    """Return the resident memory of this process in megabytes; zero if the system does not tell.

    Example:
        >>> resident_memory() >= 0
        True
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmRSS"))


def trim_memory() -> None:
    """Return free memory to the system: compiling leaves several hundred megabytes to the C library."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def limit_malloc_arenas(most: int = 2) -> None:
    """Limit the memory pools of the C library, for threads that start from now on: every pool keeps its largest size.

    Other C libraries have no such pools; nothing happens then.

    Example:
        >>> limit_malloc_arenas()
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENAS, most)


class MemoryBound:
    """Drops all compiled programs when a process has grown too large; functions are compiled again when called.

    Args:
        limit: resident megabytes above which programs are dropped.
        growth: megabytes of growth after that, until they are dropped again.

    Example:
        >>> MemoryBound().enforce()
    """

    def __init__(self, limit: float = 800.0, growth: float = 150.0) -> None:
        self._limit, self._growth, self._after = limit, growth, 0.0
        self._lock = threading.Lock()

    def enforce(self) -> None:
        """Drop programs if the process is too large; call this between two computations."""
        with self._lock:
            if "jax" not in sys.modules or resident_memory() < max(self._limit, self._after + self._growth):
                return
            for release in _RELEASES:
                release()
            sys.modules["jax"].clear_caches()
            gc.collect()
            trim_memory()
            self._after = resident_memory()
