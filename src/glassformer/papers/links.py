"""Links of models of rows that several figures share: functions of the fields of one sample, as JAX can trace them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

if TYPE_CHECKING:
    from glassformer.core.arrays import AnyArray


def first_field(z: AnyArray) -> AnyArray:
    """Return the field of one row and token."""
    first: AnyArray = z[0, 0]
    return first


def sign(z: AnyArray) -> AnyArray:
    """Return the sign of the field of one row and token."""
    return 2.0 * (z[0, 0] > 0) - 1


def attention(z: AnyArray) -> jax.Array:
    """Return attention between tokens by the fields of one layer."""
    return jax.nn.softmax(z.T @ z, axis=-1)
