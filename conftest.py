"""A bound on the memory of a test process, which runs in an hour what users run in a month."""

import gc

import pytest

from glassformer.numerics.memory import MemoryBound, limit_malloc_arenas

# Programs that are dropped are traced and read again by the next test. A test adds some 100 MB to what is resident.
_BOUND = MemoryBound(1000.0, 100.0)
limit_malloc_arenas()


def pytest_collection_finish() -> None:
    """What is imported stays: it need not be looked through for garbage again and again."""
    gc.collect()
    gc.freeze()
    # Tracing makes many objects and few cycles: with the default of 700, 10, 10 the search takes 3 % of all time.
    gc.set_threshold(5000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Between two tests: operations that JAX compiled one by one stay for good otherwise."""
    _BOUND.enforce()
