"""The array library that an estimator computes with: NumPy on processors, JAX where it finds an accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg


class Library(NamedTuple):
    """``xp`` has the functions of NumPy, ``linalg`` those of SciPy's module of that name."""

    xp: Any
    linalg: Any

    def raised(self, square: Any, value: float) -> Any:
        """A matrix of one's own with ``value`` added to its diagonal, in place where that can be."""
        diagonal = np.diag_indices(len(square))
        if self.xp is not np:
            return square.at[diagonal].add(value)
        square[diagonal] += value
        return square


PLAIN = Library(np, scipy.linalg)


@contextmanager
def library(accelerated: bool | None = None) -> Iterator[Library]:
    """The library to use, in double precision; JAX costs a processor its compilations and gains it nothing.

    Args:
        accelerated: whether to take JAX; by default where its devices are no processors.

    Example:
        >>> with library(accelerated=True) as (xp, linalg):
        ...     print(xp.ones(2).dtype)
        float64
    """
    if not (_accelerator() if accelerated is None else accelerated):
        yield PLAIN
        return
    import jax.numpy
    import jax.scipy.linalg

    from glassformer.numerics.jax_settings import jax_settings

    with jax_settings():
        yield Library(jax.numpy, jax.scipy.linalg)


@cache
def _accelerator() -> bool:
    """Whether JAX finds one; asked only where a plugin for one is installed, as the answer takes JAX a while."""
    if not entry_points(group="jax_plugins"):
        return False
    import jax

    return bool(jax.default_backend() != "cpu")
