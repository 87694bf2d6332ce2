"""Types of arrays: of NumPy, and of either library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax

AnyArray: TypeAlias = "NDArray[Any] | jax.Array"
"""An array of NumPy or JAX, traced or not, for functions that use operators and the functions of either library."""
