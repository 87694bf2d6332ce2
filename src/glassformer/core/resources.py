"""What a computation would take against what there is, so that it is refused before it begins and not killed later."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from glassformer.core.errors import ParameterError

# Share of the memory that is free which a computation may plan for.
_SHARE = 0.9
# Operations that one computation may take: at a billion a second, a day on one core.
LARGEST_WORK = 1e14
# What every machine has: below it nothing is looked up.
_ALWAYS = 1e8


def available_memory() -> float:
    """Bytes that can still be had, within what the process is allowed; infinite where the system does not tell.

    Example:
        >>> available_memory() > 2**20
        True
    """
    return min(_free(), _allowed())


def farthest_from_default(part: Any, *names: str) -> tuple[str, Any]:
    """Of these fields of a data class, the one that is the most times its default, and its value: the one to blame.

    Example:
        >>> from glassformer.learners.sgd import SGD
        >>> farthest_from_default(SGD(passes=4000), "passes", "batch")
        ('passes', 4000)
    """
    name = max(names, key=lambda name: getattr(part, name) / type(part).__dataclass_fields__[name].default)
    return name, getattr(part, name)


def require_resources(
    name: str, value: object, memory: float, remedy: str, work: float = 0.0, what: str = "arrays"
) -> None:
    """Raise if a computation would need more than there is.

    Args:
        name: the parameter that decides, as the user wrote it.
        value: its value.
        memory: bytes at the peak.
        remedy: what to do instead.
        work: operations on numbers.
        what: what would fill the memory.

    Raises:
        ParameterError: memory or work is too much, with what is needed and what there is.

    Example:
        >>> require_resources("d", 10**9, 8e18, "use a smaller d")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: d = 1000000000 is not allowed: expected arrays that fit into memory
        (8e+09 GB needed, ... GB available); use a smaller d
    """
    if work > LARGEST_WORK:
        there = f"work that ends (about {work:.1g} operations needed, {LARGEST_WORK:.0e} allowed)"
        raise ParameterError(name, value, there, remedy)
    available = available_memory() if memory > _ALWAYS else math.inf
    if memory > _SHARE * available:
        there = f"{what} that fit into memory ({_gigabytes(memory)} GB needed, {_gigabytes(available)} GB available)"
        raise ParameterError(name, value, there, remedy)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f}" if size < 1e13 else f"{size / 1e9:.0e}"


def _free() -> float:
    """Memory of the machine that is free, or would be if files kept in it were let go."""
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
    """What is left of a limit set on the process, by ``ulimit -v`` for instance."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return math.inf
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        return float(max(0, limit - used))
    except (ImportError, OSError, ValueError):
        return math.inf
