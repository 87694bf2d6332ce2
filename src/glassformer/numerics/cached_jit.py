"""A cache of compiled functions by content, of bounded size.

An executable takes some ten megabytes, and JAX alone keeps the executable of every function and shape.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cache, partial
from typing import Any

import jax
import numpy as np

from glassformer.core.hashing import identity_or_none
from glassformer.numerics.memory import on_release, trim_memory

# Calls take a tenth to a third less time than with the defaults, and compiling takes as long (measured by
# benchmarks/bench_compile.py). A level among the flags of the environment is that of the user and stays.
_LEVEL = "xla_backend_optimization_level"
_OPTIONS: dict[str, bool | int] = {} if _LEVEL in os.environ.get("XLA_FLAGS", "") else {_LEVEL: 2}

# Executables in the cache, the latest ones; some ten megabytes each.
_LARGEST = 16


class CachedJit:
    """A function of arrays with fixed arguments, compiled once for all calls of equal content and equal shapes.

    Content includes the functions among the fixed arguments and the globals that they read. Without an identity the
    function is compiled for these very objects.

    Args:
        function: a traceable function of arrays and of the fixed arguments, which are given by name.
        fixed: numbers, texts, functions and other objects.

    Example:
        >>> power = CachedJit(lambda x, exponent: x**exponent, exponent=2)
        >>> power(3.0).item()
        9.0
    """

    def __init__(self, function: Callable[..., Any], /, **fixed: object) -> None:
        self._function = partial(function, **fixed)
        # The executable holds the objects, so that their places in memory stay theirs as long as it is kept.
        self._key = identity_or_none(function, fixed) or (
            id(function),
            *((name, id(part)) for name, part in fixed.items()),
        )

    def __call__(self, *arguments: object) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        key = (self._key, structure, tuple(map(_type, leaves)), jax.config.jax_enable_x64)  # type: ignore[attr-defined]
        return _executable(key, self._function)(*arguments)


def _type(leaf: object) -> Hashable:
    """Return the type that determines an executable, for arrays some microseconds faster than JAX does."""
    return (leaf.shape, leaf.dtype) if type(leaf) is np.ndarray else jax.typeof(leaf)


class _Executable:
    """A compiled function: the first of several threads compiles it, the others wait."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._compiled = jax.jit(function, compiler_options=_options())
        self._lock, self._ready = threading.Lock(), False

    def __call__(self, *arguments: object) -> Any:
        if self._ready:
            return self._compiled(*arguments)
        with self._lock:
            found = self._compiled(*arguments)
            self._ready = True
            trim_memory()
        return found

    def release(self) -> None:
        """Drop what JAX caches of the function, one megabyte, otherwise until the process ends."""
        getattr(self._compiled, "clear_cache", lambda: None)()


@cache
def _options() -> dict[str, bool | int] | None:
    """Return the compiler options if this compiler knows them: they are no part of JAX's contract, and for CPUs."""
    if jax.default_backend() != "cpu":
        return None
    with contextlib.suppress(jax.errors.JaxRuntimeError):
        jax.jit(lambda: 0, compiler_options=_OPTIONS).lower().compile()
        return _OPTIONS
    return None


_executables: OrderedDict[Hashable, _Executable] = OrderedDict()
_lock = threading.Lock()


def _executable(key: Hashable, function: Callable[..., Any]) -> _Executable:
    with _lock:
        found = _executables.pop(key, None) or _Executable(function)
        _executables[key] = found
        dropped = [_executables.popitem(last=False)[1] for _ in range(len(_executables) - _LARGEST)]
    for one in dropped:
        one.release()
    return found


def clear_executables() -> None:
    """Drop all executables; functions are compiled again when they are called."""
    with _lock:
        dropped = list(_executables.values())
        _executables.clear()
    for one in dropped:
        one.release()


on_release(clear_executables)
