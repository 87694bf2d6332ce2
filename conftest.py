"""A bound on the memory of a test process, which runs in an hour what users run in a month."""

import ctypes
import gc
import sys
from pathlib import Path

import pytest

# Resident megabytes from which on what JAX has compiled is forgotten, and growth since then until it is again.
LIMIT, GROWTH = 800.0, 150.0
_after = [0.0]


def resident() -> float:
    """Resident memory in megabytes; zero where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmRSS"))


def pytest_collection_finish() -> None:
    """What is imported stays: it need not be looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Between two tests: operations that JAX compiled one by one stay for good otherwise."""
    if "jax" not in sys.modules or resident() < max(LIMIT, _after[0] + GROWTH):
        return
    import jax

    from glassformer.core.numerics import compiled

    compiled.forget()
    jax.clear_caches()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _after[0] = resident()
