"""A process that has grown too large gives back what it has compiled, and computes the same afterwards."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from glassformer import BilinearSequenceRegression
from glassformer.core import cache
from glassformer.numerics import cached_jit as compiled
from glassformer.numerics import memory


@pytest.mark.slow
@pytest.mark.parametrize(("size", "forgotten"), [(99.0, False), (101.0, True)])
def test_compiled_functions_are_dropped_beyond_the_limit(size, forgotten, monkeypatch):
    double = compiled.CachedJit(lambda x: 2 * x)
    assert double(3.0) == 6
    monkeypatch.setattr(memory, "resident_memory", lambda: size)
    memory.MemoryBound(limit=100.0, growth=10.0).enforce()
    assert (len(compiled._executables) == 0) == forgotten
    assert double(4.0) == 8


def test_it_is_forgotten_again_only_after_more_growth(monkeypatch):
    sizes, bound = iter([200.0, 150.0, 240.0, 251.0, 120.0]), memory.MemoryBound(limit=100.0, growth=100.0)
    monkeypatch.setattr(memory, "resident_memory", lambda: next(sizes))
    kept = []
    for _ in range(3):
        compiled.CachedJit(lambda x: 3 * x)(1.0)
        bound.enforce()
        kept.append(len(compiled._executables) > 0)
    assert kept == [False, True, False]


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_memory_of_a_dropped_link_is_released(noise):
    """No object refers to itself: memory is free at once, and not when garbage happens to be collected."""
    cache._in_memory.cache_clear()
    model = BilinearSequenceRegression(rho=0.5, noise=noise, channel=lambda h: np.maximum(h, -0.3))
    model.channel.information(np.array([0.5]))
    analysis = weakref.ref(model.channel._analysis)
    gc.disable()
    try:
        del model
        cache._in_memory.cache_clear()
        assert analysis() is None
    finally:
        gc.enable()


def test_the_cache_of_jax_is_released_with_the_function():
    compiled.clear_executables()
    compiled.CachedJit(lambda x: 5 * x)(1.0)
    (first,) = compiled._executables.values()
    assert first._compiled._cache_size() == 1
    for k in range(compiled._LARGEST):
        compiled.CachedJit(lambda x, k: k * x, k=k)(1.0)
    assert len(compiled._executables) == compiled._LARGEST
    assert first._compiled._cache_size() == 0
    assert first(1.0) == 5
