"""Checks of memory and work. Computations that need too much are refused before they start."""

from __future__ import annotations

import math
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import ParameterError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Share of the free memory that a computation may use (a convention).
_SHARE = 0.9
# Largest number of operations of a computation (a convention): a day on one core at a billion a second.
_LARGEST_WORK = 1e14
# Every machine has this much memory in bytes: smaller requests are not checked.
_ALWAYS = 1e8


def available_memory() -> float:
    """Return the free memory in bytes within the limit of the process. Return infinity if it is unknown.

    Example:
        >>> available_memory() > 2**20
        True
    """
    return min(_free(), _allowed())


def usable_cores() -> int:
    """Return how many cores this process may use: those of its job, or fewer where OMP_NUM_THREADS says so.

    Example:
        >>> usable_cores() >= 1
        True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores, int(limit))) if limit.isdigit() else cores


def farthest_from_default(part: DataclassInstance, *names: str) -> tuple[str, Any]:
    """Return name and value of the field that exceeds its default by the largest factor, for error messages.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda Z: Z[0, 0], indices=2).at_accuracy(Accuracy(points=8192))
        >>> farthest_from_default(model, "points", "indices")
        ('points', 8192)
    """
    defaults = {one.name: one.default for one in fields(part)} | dict(getattr(part, "accuracy_defaults", {}))
    name = max(names, key=lambda name: getattr(part, name) / defaults[name])
    return name, getattr(part, name)


def require_resources(
    name: str, value: object, memory: float, remedy: str, work: float = 0.0, what: str = "arrays"
) -> None:
    """Raise if a computation needs more memory than is free, or more operations than finish within a day.

    Args:
        name: the parameter that determines memory and work.
        value: its value.
        memory: peak memory in bytes.
        remedy: what the user can do instead.
        work: number of operations.
        what: content of the memory, for the message.

    Raises:
        ParameterError: memory or work is too large.

    Example:
        >>> require_resources("d", 10**9, 8e18, "use a smaller d")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: d = 1000000000 is not allowed: expected arrays that fit into memory
        (8e+09 GB needed, ... GB available); use a smaller d
    """
    if work > _LARGEST_WORK:
        there = f"a computation of less than a day (about {work:.1g} operations needed, {_LARGEST_WORK:.0e} allowed)"
        raise ParameterError(name, value, there, remedy)
    available = available_memory() if memory > _ALWAYS else math.inf
    if memory > _SHARE * available:
        there = f"{what} that fit into memory ({_gigabytes(memory)} GB needed, {_gigabytes(available)} GB available)"
        raise ParameterError(name, value, there, remedy)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f}" if size < 1e13 else f"{size / 1e9:.0e}"


def _free() -> float:
    """Return the free memory of the machine, including the memory of cached files."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def _allowed() -> float:
    """Return the remaining memory below the limit of the process, as set by ``ulimit -v``."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return math.inf
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        return float(max(0, limit - used))
    except (ImportError, OSError, ValueError):
        return math.inf
