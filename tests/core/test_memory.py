"""A process that has grown too large gives back what it has compiled, and computes the same afterwards."""

from __future__ import annotations

import pytest

from glassformer.core.numerics import compiled, memory


@pytest.mark.slow
@pytest.mark.parametrize(("size", "forgotten"), [(99.0, False), (101.0, True)])
def test_what_is_compiled_is_forgotten_beyond_the_limit(size, forgotten, monkeypatch):
    double = compiled.Specialised(lambda x: 2 * x)
    assert double(3.0) == 6
    monkeypatch.setattr(memory, "resident", lambda: size)
    memory.MemoryBound(limit=100.0, growth=10.0).keep()
    assert (len(compiled._executables) == 0) == forgotten
    assert double(4.0) == 8


def test_it_is_forgotten_again_only_after_more_growth(monkeypatch):
    sizes, bound = iter([200.0, 150.0, 240.0, 251.0, 120.0]), memory.MemoryBound(limit=100.0, growth=100.0)
    monkeypatch.setattr(memory, "resident", lambda: next(sizes))
    kept = []
    for _ in range(3):
        compiled.Specialised(lambda x: 3 * x)(1.0)
        bound.keep()
        kept.append(len(compiled._executables) > 0)
    assert kept == [False, True, False]
