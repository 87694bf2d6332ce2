"""A bound on the memory of processes that run for long, in which all that JAX has ever compiled stays otherwise."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path

# What the C library calls the largest number of its pools.
_ARENAS = -8


# Functions that drop what a module keeps of compiled programs; modules add theirs when they are imported.
_RELEASES: list[Callable[[], None]] = []


def on_release(release: Callable[[], None]) -> None:
    """Have a function called where compiled programs are dropped to free memory."""
    _RELEASES.append(release)


def resident_memory() -> float:
    """Resident memory of this process in megabytes; zero where the system does not tell.

    Example:
        >>> resident_memory() >= 0
        True
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmRSS"))


def trim_memory() -> None:
    """Return to the system what compiling took: several hundred megabytes that the C library would keep for later."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def limit_malloc_arenas(most: int = 2) -> None:
    """Have threads that start from now on share a few pools of memory, which else keep what each of them once took.

    Nothing happens where the C library has none.

    Example:
        >>> limit_malloc_arenas()
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENAS, most)


class MemoryBound:
    """Has all that is compiled forgotten where a process has grown too large; what is asked for is compiled anew.

    Args:
        limit: resident megabytes from which on it is forgotten.
        growth: since then, until it is again.

    Example:
        >>> MemoryBound().enforce()
    """

    def __init__(self, limit: float = 800.0, growth: float = 150.0) -> None:
        self._limit, self._growth, self._after = limit, growth, 0.0
        self._lock = threading.Lock()

    def enforce(self) -> None:
        """To be called between two computations."""
        with self._lock:
            if "jax" not in sys.modules or resident_memory() < max(self._limit, self._after + self._growth):
                return
            for release in _RELEASES:
                release()
            sys.modules["jax"].clear_caches()
            gc.collect()
            trim_memory()
            self._after = resident_memory()
