"""The array library of the linear solvers: NumPy on processors, JAX on accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from glassformer.core.arrays import AnyArray


class ArrayLibrary(NamedTuple):
    """``xp`` has the functions of NumPy, ``linalg`` those of SciPy's module of that name."""

    xp: Any
    linalg: Any

    def add_to_diagonal(self, square: AnyArray, value: float) -> AnyArray:
        """Return a matrix with ``value`` added to its diagonal, in place where the library can."""
        diagonal = np.diag_indices(len(square))
        if not isinstance(square, np.ndarray):
            return square.at[diagonal].add(value)
        square[diagonal] += value
        return square


NUMPY = ArrayLibrary(np, scipy.linalg)


@contextmanager
def array_library(accelerated: bool | None = None) -> Iterator[ArrayLibrary]:
    """Yield the library to use, in double precision. On a processor JAX only adds compilation.

    Args:
        accelerated: whether to use JAX. By default if it has accelerators.

    Example:
        >>> with array_library(accelerated=True) as (xp, linalg):
        ...     print(xp.ones(2).dtype)
        float64
    """
    if not (_has_accelerator() if accelerated is None else accelerated):
        yield NUMPY
        return
    import jax.numpy
    import jax.scipy.linalg

    from glassformer.numerics.jax_settings import jax_settings

    with jax_settings():
        yield ArrayLibrary(jax.numpy, jax.scipy.linalg)


@cache
def _has_accelerator() -> bool:
    """Return whether JAX finds an accelerator; JAX is imported only where a plugin for one is installed."""
    if not entry_points(group="jax_plugins"):
        return False
    import jax

    return bool(jax.default_backend() != "cpu")
